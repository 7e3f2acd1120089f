"""Finite-mixture-augmented naive Bayes: calibrated probabilities from mixed, incomplete tables."""

from importlib import import_module
from typing import Any

from fanbayes.estimators.classifiers import FANClassifier, FMClassifier, NBClassifier
from fanbayes.estimators.discretizer import MDLPDiscretizer
from fanbayes.use.decision import CostSensitiveClassifier, adjust_prior, decide, estimate_prior
from fanbayes.use.model_file import ModelFileError, load, save

__all__ = [
    "CostSensitiveClassifier",
    "FANClassifier",
    "FMClassifier",
    "MDLPDiscretizer",
    "ModelFileError",
    "NBClassifier",
    "adjust_prior",
    "datasets",
    "decide",
    "estimate_prior",
    "load",
    "metrics",
    "plotting",
    "save",
    "significance",
]
__version__ = "0.1.0"

# Submodules under their public names, imported when they are asked for.
_SUBMODULES = {
    "datasets": "fanbayes.study.datasets",
    "metrics": "fanbayes.evaluation.metrics",
    "plotting": "fanbayes.plotting",
    "significance": "fanbayes.evaluation.significance",
}


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return import_module(_SUBMODULES[name])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
