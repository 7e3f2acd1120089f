"""Figures, after scikit-learn's `Display` objects; they need matplotlib, ``pip install 'fanbayes[plot]'``.

A display holds numbers; `from_estimator` takes them from a fitted classifier and calls `plot`, which may be called
again. `ax_` and `figure_` are what it has drawn on.
"""

from fanbayes.plotting.arcs import ArcDisplay
from fanbayes.plotting.components import ComponentDisplay
from fanbayes.plotting.explanation import ExplanationDisplay
from fanbayes.plotting.feature import FeatureDisplay
from fanbayes.plotting.importance import ImportanceDisplay
from fanbayes.plotting.nb_tree import NBTreeDisplay
from fanbayes.plotting.reliability import ReliabilityDisplay
from fanbayes.plotting.selection import SelectionDisplay
from fanbayes.plotting.trace import TraceDisplay

__all__ = [
    "ArcDisplay",
    "ComponentDisplay",
    "ExplanationDisplay",
    "FeatureDisplay",
    "ImportanceDisplay",
    "NBTreeDisplay",
    "ReliabilityDisplay",
    "SelectionDisplay",
    "TraceDisplay",
]
