"""Finite-mixture-augmented naive Bayes: class probabilities from mixed, incomplete tables.

What is public is imported when it is first asked for: `import fanbayes` and the program's start-up cost nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fanbayes import datasets, metrics, plotting, significance
    from fanbayes.data.traps import DataWarning
    from fanbayes.decisions.classifier import CostSensitiveClassifier
    from fanbayes.decisions.costs import decide
    from fanbayes.decisions.priors import adjust_prior, estimate_prior
    from fanbayes.estimators.aode import AODEClassifier
    from fanbayes.estimators.boosted_nb import BoostedNBClassifier
    from fanbayes.estimators.classifiers import FANClassifier, FMClassifier, NBClassifier
    from fanbayes.estimators.discretizer import MDLPDiscretizer
    from fanbayes.estimators.fan_cv import FANClassifierCV
    from fanbayes.estimators.mda import MDAClassifier
    from fanbayes.estimators.nb_tree import NBTreeClassifier
    from fanbayes.estimators.tan import TANClassifier
    from fanbayes.files.model_file import ModelFileError, load, save
    from fanbayes.pages.report import report

__version__ = "0.1.0"
__all__ = [
    "AODEClassifier",
    "BoostedNBClassifier",
    "CostSensitiveClassifier",
    "DataWarning",
    "FANClassifier",
    "FANClassifierCV",
    "FMClassifier",
    "MDAClassifier",
    "MDLPDiscretizer",
    "ModelFileError",
    "NBClassifier",
    "NBTreeClassifier",
    "TANClassifier",
    "adjust_prior",
    "datasets",
    "decide",
    "estimate_prior",
    "load",
    "metrics",
    "plotting",
    "report",
    "save",
    "significance",
]

_WHERE = {
    "fanbayes.data.traps": ["DataWarning"],
    "fanbayes.estimators.fan_cv": ["FANClassifierCV"],
    "fanbayes.estimators.classifiers": ["FANClassifier", "FMClassifier", "NBClassifier"],
    "fanbayes.estimators.aode": ["AODEClassifier"],
    "fanbayes.estimators.boosted_nb": ["BoostedNBClassifier"],
    "fanbayes.estimators.mda": ["MDAClassifier"],
    "fanbayes.estimators.nb_tree": ["NBTreeClassifier"],
    "fanbayes.estimators.discretizer": ["MDLPDiscretizer"],
    "fanbayes.estimators.tan": ["TANClassifier"],
    "fanbayes.decisions.classifier": ["CostSensitiveClassifier"],
    "fanbayes.decisions.costs": ["decide"],
    "fanbayes.decisions.priors": ["adjust_prior", "estimate_prior"],
    "fanbayes.files.model_file": ["ModelFileError", "load", "save"],
    "fanbayes.pages.report": ["report"],
}
_MODULES = ("datasets", "metrics", "plotting", "significance")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    for module, names in _WHERE.items():
        if name in names:
            value = globals()[name] = getattr(import_module(module), name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
