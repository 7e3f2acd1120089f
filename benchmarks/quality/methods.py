"""The classifiers that are compared, each on one thread; `settings.py` tells how the settings were chosen.

A builder takes what is known of the training part and gives an estimator for data frames as datasets hold them:
text, numbers and missing values, the classes as codes from 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from encoding import Categories, Kinds, columns, for_forest, for_linear
from lightgbm import LGBMClassifier
from linear import CalibratedLogistic, chosen_logistic
from numpy.typing import NDArray
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from tuned_boosting import TunedLightGBM

import fanbayes

INNER_FOLDS = 5
OWN_CATEGORIES_FROM = 2_000


@dataclass(frozen=True)
class Problem:
    """Kinds of the columns, and the classes (n,) of the training part."""

    kinds: Kinds
    y: NDArray[np.intp]

    @property
    def inner_splits(self) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """Rows to fit and rows to check on, for all peers that cross-validate inside.

        Stratified, so that the members of a class with fewer members than folds lie in different folds, and every
        fit knows the class. The one member of a class is always fitted and never checked on. Where no class has
        enough members, there are fewer folds.
        """
        counts = np.bincount(self.y)
        alone = np.flatnonzero(counts[self.y] == 1)
        others = np.flatnonzero(counts[self.y] > 1)
        splitter = StratifiedKFold(min(INNER_FOLDS, counts.max()), shuffle=True, random_state=0)
        return [(np.sort(np.r_[others[a], alone]), others[b]) for a, b in splitter.split(others, self.y[others])]


def logistic(problem: Problem) -> Any:
    return make_pipeline(for_linear(problem.kinds), chosen_logistic(problem.inner_splits))


def logistic_calibrated(problem: Problem) -> Any:
    return make_pipeline(for_linear(problem.kinds), CalibratedLogistic(problem.inner_splits))


def forest(problem: Problem, n_trees: int = 300) -> Any:
    return make_pipeline(for_forest(problem.kinds), RandomForestClassifier(n_trees, random_state=0, n_jobs=1))


def boosting(problem: Problem) -> Any:
    return _on_categories(problem, HistGradientBoostingClassifier(random_state=0))


def lightgbm(problem: Problem) -> Any:
    return _for_lightgbm(problem, LGBMClassifier(n_jobs=1, random_state=0, verbose=-1))


def lightgbm_tuned(problem: Problem) -> Any:
    return _for_lightgbm(problem, TunedLightGBM(problem.inner_splits))


def _on_categories(problem: Problem, model: Any) -> Any:
    return make_pipeline(Categories(columns(problem.kinds, "discrete")), model)


def _for_lightgbm(problem: Problem, model: Any) -> Any:
    """Its own treatment asks for 100 rows in a group of categories, which small tables do not have."""
    if len(problem.y) < OWN_CATEGORIES_FROM:
        return make_pipeline(for_forest(problem.kinds), model)
    return _on_categories(problem, model)


def calibrated(builder: Callable[..., Any], **parameters: Any) -> Callable[[Problem], Any]:
    """The same, calibrated on inner splits; the mean of the inner fits predicts, as is scikit-learn's default.

    By one temperature: on development sets it gave forest and LightGBM a lower log loss than Platt's sigmoid.
    """

    def build(problem: Problem) -> Any:
        inner = builder(problem, **parameters)
        return CalibratedClassifierCV(inner, method="temperature", cv=problem.inner_splits)

    return build


def ours(name: str, **parameters: Any) -> Callable[[Problem], Any]:
    """A classifier of the library, looked up when it is needed."""
    return lambda problem: getattr(fanbayes, name)(n_jobs=1, **parameters)


METHODS: dict[str, Callable[[Problem], Any]] = {
    "nb": ours("NBClassifier"),
    "nb_mdlp": ours("NBClassifier", discretize="mdlp"),
    "fm": ours("FMClassifier", random_state=0),
    "fan": ours("FANClassifier", random_state=0),
    "fan_cv": ours("FANClassifierCV", random_state=0),
    "logistic": logistic,
    "logistic_calibrated": logistic_calibrated,
    "forest": forest,
    "forest_calibrated": calibrated(forest, n_trees=100),  # five times: 500 in all
    "boosting": boosting,
    "boosting_calibrated": calibrated(boosting),
    "lightgbm": lightgbm,
    "lightgbm_calibrated": calibrated(lightgbm),
    "lightgbm_tuned": lightgbm_tuned,
}
