"""Compare classifiers on rows that they have not seen: measures with standard errors, tests of their differences."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, clone

from fanbayes.arrays import Floats
from fanbayes.estimators.base import NetworkClassifier
from fanbayes.estimators.tabular import TableClassifier
from fanbayes.evaluation import metrics, significance
from fanbayes.evaluation.folds import folds
from fanbayes.files.dataset import Dataset

MEASURES = {
    "accuracy": "accuracy",
    "conditional_entropy": "CE",
    "roc_area": "ROC area",
    "brier": "Brier",
    "ece": "ECE",
}
HIGHER_IS_BETTER = ("accuracy", "roc_area")
LEVEL = 0.05  # a difference of a larger p-value is none to speak of


@dataclass(frozen=True)
class Estimate:
    """A measure and its standard error."""

    value: float
    error: float


@dataclass(frozen=True)
class Difference:
    """Whether two classifiers differ in a measure; `p_value` is Holm's, for all pairs of the measure together."""

    measure: str
    better: str
    worse: str
    difference: float
    p_value: float

    @property
    def is_significant(self) -> bool:
        """Whether chance is no likely reason for it."""
        return self.p_value < LEVEL


@dataclass(frozen=True)
class Predictions:
    """Predictions of one classifier for rows that it has not seen, those of all folds pooled.

    Attributes
    ----------
    labels : (n,)
        True classes.
    log_proba : (n, n_classes)
        -inf for a class that the training part did not have.
    classes : (n_classes,)
    components : number of components in each fold; empty if the classifier is not one network
    seconds : of learning and predicting, all folds together; None where nothing was learnt
    """

    labels: NDArray[Any]
    log_proba: Floats
    classes: Sequence[Any]
    components: Sequence[int] = ()
    seconds: float | None = None

    @cached_property
    def correct(self) -> NDArray[np.bool_]:
        """Whether the most probable class is the true one (n,)."""
        return np.asarray(np.asarray(self.classes, object)[self.log_proba.argmax(axis=1)] == self.labels)

    @cached_property
    def losses(self) -> Floats:
        """Terms of the conditional entropy (n,)."""
        return metrics.log_losses(self.labels, self.log_proba, classes=self.classes)

    @cached_property
    def squares(self) -> Floats:
        """Terms of the Brier score (n,)."""
        return metrics.squared_errors(self.labels, self.log_proba, classes=self.classes)

    @cached_property
    def n_clipped(self) -> int:
        """Rows whose true class had hardly any probability."""
        share = metrics.clipped_share(self.labels, self.log_proba, classes=self.classes)
        return round(share * len(self.labels))

    def estimates(self) -> dict[str, Estimate | None]:
        """All measures; None for the ROC area of more than two classes."""
        return {
            "accuracy": _mean(self.correct.astype(np.float64)),
            "conditional_entropy": _mean(self.losses),
            "roc_area": self._roc_area(),
            "brier": _mean(self.squares),
            "ece": _mean(metrics.calibration_gaps(self.labels, self.log_proba, classes=self.classes)),
        }

    def _roc_area(self) -> Estimate | None:
        if len(self.classes) != 2:
            return None
        odds, positive = metrics.log_odds(self.log_proba), self.labels == self.classes[1]
        if min(positive.sum(), (~positive).sum()) < 2:
            return None
        # Against a score that tells nothing, whose area does not vary.
        test = significance.delong(positive, odds, np.zeros_like(odds))
        return Estimate(test.area_a, test.standard_error)


def _mean(terms: Floats) -> Estimate:
    return Estimate(float(terms.mean()), float(terms.std(ddof=1) / np.sqrt(len(terms))))


def cross_validate(
    models: Mapping[str, ClassifierMixin],
    dataset: Dataset,
    n_folds: int,
    seed: int,
    report: Callable[[str, int], None],
) -> dict[str, Predictions]:
    """Predict each labelled row by models that have not seen it.

    Parameters
    ----------
    models : classifiers by name, left as they are
    dataset : labelled rows; unlabelled ones are in every training part
    n_folds, seed : of the stratified folds
    report : told the name of a model and the fold that it begins with

    Returns
    -------
    dict of Predictions, by name
    """
    part = folds(dataset, n_folds, seed)
    tested = np.flatnonzero(part >= 0)
    classes = dataset.classes
    found = {}
    for name, model in models.items():
        log_proba = np.empty((len(part), len(classes)))
        components, began = [], time.perf_counter()
        for fold in range(part.max() + 1):
            report(name, fold)
            train, test = np.flatnonzero(part != fold), np.flatnonzero(part == fold)
            fitted = learnt(clone(model), *dataset.take(train))
            log_proba[test] = log_proba_of(fitted, dataset.take(test)[0], classes)
            components += [fitted.n_components_] if isinstance(fitted, NetworkClassifier) else []
        seconds = time.perf_counter() - began
        found[name] = Predictions(dataset.y[tested], log_proba[tested], classes, components, seconds)
    return found


def learnt(model: ClassifierMixin, X: Any, y: NDArray[Any]) -> Any:
    """A classifier, fitted; one of scikit-learn to the labelled rows alone."""
    if isinstance(model, TableClassifier):
        return model.fit(X, y)
    known = np.array([label is not None for label in y])
    if not isinstance(X, np.ndarray):
        X = nw.from_native(X, eager_only=True)[np.flatnonzero(known)].to_native()
    else:
        X = X[known]
    return model.fit(X, np.array(y[known].tolist()))


def log_proba_of(fitted: Any, X: Any, classes: Sequence[Any]) -> Floats:
    """Log p(c | x) of rows (n_rows, n_classes), -inf for classes that a classifier does not know."""
    log_proba = np.full((len(X), len(classes)), -np.inf)
    places = [list(classes).index(label) for label in fitted.classes_.tolist()]
    if isinstance(fitted, TableClassifier):
        log_proba[:, places] = fitted.predict_log_proba(X)
    else:
        with np.errstate(divide="ignore"):
            log_proba[:, places] = np.log(fitted.predict_proba(X))
    return log_proba


def differences(found: Mapping[str, Predictions], of: str | None = None) -> list[Difference]:
    """Test each measure but ECE on each pair: McNemar, paired t over rows, DeLong; Holm within a measure.

    Parameters
    ----------
    found : predictions of the same rows, by name
    of : one of the names; only pairs of it and another are tested then
    """
    tests: dict[str, Callable[[Predictions, Predictions], Any]] = {
        "accuracy": lambda a, b: significance.mcnemar(a.correct, b.correct),
        "conditional_entropy": lambda a, b: significance.paired_t(a.losses, b.losses),
        "roc_area": _compare_areas,
        "brier": lambda a, b: significance.paired_t(a.squares, b.squares),
    }
    estimates = {name: predictions.estimates() for name, predictions in found.items()}
    results = []
    for measure, test in tests.items():
        pairs = [(a, b) for a, b in combinations(found, 2) if estimates[a][measure] is not None and of in (None, a, b)]
        if not pairs:
            continue
        adjusted = significance.holm([test(found[a], found[b]).p_value for a, b in pairs])
        for (a, b), p in zip(pairs, adjusted.tolist()):
            one, other = estimates[a][measure], estimates[b][measure]
            assert one is not None
            assert other is not None
            swap = (one.value < other.value) == (measure in HIGHER_IS_BETTER)
            better, worse = (b, a) if swap else (a, b)
            results.append(Difference(measure, better, worse, abs(one.value - other.value), p))
    return results


def _compare_areas(a: Predictions, b: Predictions) -> significance.DeLong:
    positive = a.labels == a.classes[1]
    return significance.delong(positive, metrics.log_odds(a.log_proba), metrics.log_odds(b.log_proba))
