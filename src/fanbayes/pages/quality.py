"""How good a fitted model is on some rows, in plain values: what figures and tables of its page show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.metrics import average_precision_score, precision_recall_curve, roc_auc_score

from fanbayes.arrays import Floats, Ints
from fanbayes.data.frames import interval_names
from fanbayes.data.views import Encodings
from fanbayes.estimators.batch_cases import batches_of
from fanbayes.estimators.tabular import TableClassifier
from fanbayes.estimators.validation import is_dask, is_labelled, labels_among, named_columns, read_labels
from fanbayes.evaluation.confusion import class_report, ranks_of_class, roc_points
from fanbayes.evaluation.metrics import (
    brier_score,
    conditional_entropy,
    expected_calibration_error,
    log_losses,
    reliability_curve,
)
from fanbayes.explanation.explanation import Explanation, few_digits
from fanbayes.learning.e_step import thread_pool
from fanbayes.learning.ensembles.average import Average
from fanbayes.pages.text import significant

MOST_PROBABILITIES = 60_000
"""Numbers that the movable confusion matrix may take: with more rows, it is of some of them."""

MOST_CELLS = 200_000
"""Values of the rows that features are left out of, one feature after the other."""

MOST_COMPLETED = 40
"""Features of an average whose loss is measured: each row without one of them takes many that are completed."""

_POINTS = 160
_SURPRISING = 12
_REASONS = 3


@dataclass(frozen=True)
class Judged:
    """Labelled rows, and what a classifier says of them.

    Attributes
    ----------
    rows : Encodings
    label : int (n_rows,), position in `classes_`
    number : int (n_rows,), position in the table that was given
    log_proba : (n_rows, n_classes)
    """

    rows: Encodings
    label: Ints
    number: Ints
    log_proba: Floats


def judge(clf: TableClassifier, X: Any, y: Any) -> Judged:
    """Predict rows whose classes are known; those without a label are left out.

    Raises
    ------
    ValueError
        If no row has a label, or one has a class that the model does not know.
    TypeError
        If the rows are not in memory.
    """
    if is_dask(X) or batches_of(X) is not None:
        raise TypeError("a report is made of rows in memory; give it some of them, such as dataset.head(10_000)")
    X, y = named_columns(X, y=y)
    rows = clf._encode(X, clf._predictor.schemas)
    y = read_labels(y, rows.tables[0].n_rows)
    known = np.flatnonzero(is_labelled(y))
    if not len(known):
        raise ValueError("no row has a label to compare with; give at least one row of y a class")
    label = np.asarray(labels_among(clf.classes_, y[known]), dtype=np.intp)
    rows = rows.only(known)
    return Judged(rows, label, known, _log_proba(clf, rows))


def _log_proba(clf: TableClassifier, rows: Encodings) -> Floats:
    return clf._predictor.posterior(rows, "log_proba", thread_pool(clf._n_threads()))


def left_out(clf: TableClassifier, judged: Judged, features: Sequence[int]) -> tuple[dict[int, float], int]:
    """What the mean log score of rows loses when a feature is made missing.

    Parameters
    ----------
    features : positions, the most important first; of an average the first `MOST_COMPLETED` of them are measured

    Returns
    -------
    drop : in nats, by position
    n : rows that it is the mean over: a sample of at most `MOST_CELLS` values
    """
    if isinstance(clf._predictor, Average):
        features = features[:MOST_COMPLETED]
    n_rows, names = len(judged.label), np.arange(len(clf.classes_))
    n = min(n_rows, max(100, MOST_CELLS // max(1, len(features) ** 2)))
    some = np.sort(np.random.default_rng(0).permutation(n_rows)[:n])
    rows, label = judged.rows.only(some), judged.label[some]

    def loss(log_proba: Floats) -> float:
        return float(log_losses(label, log_proba, classes=names).mean())

    whole = loss(judged.log_proba[some])
    return {j: loss(_log_proba(clf, rows.without(j))) - whole for j in features}, n


def quality(clf: TableClassifier, judged: Judged) -> dict[str, Any]:
    """Measures beside those of the classes' shares, curves of each class, probabilities of rows, surprising rows."""
    label, log_proba = judged.label, judged.log_proba
    n_rows, n_classes = log_proba.shape
    keep = np.sort(np.random.default_rng(1).permutation(n_rows)[: max(1, MOST_PROBABILITIES // n_classes)])
    return {
        "n_rows": n_rows,
        "counts": np.bincount(label, minlength=n_classes).tolist(),
        "measures": _measures(label, log_proba, clf.class_prior_),
        "reliability": [_reliability(label, log_proba, c) for c in range(n_classes)],
        "curves": [_curves(label, log_proba, c) for c in range(n_classes)],
        "proba": significant(np.exp(log_proba[keep]), 9),
        "labels": label[keep].tolist(),
        "surprising": _surprising(clf, judged) if n_classes > 1 else [],
    }


def _measures(label: Ints, log_proba: Floats, prior: Floats) -> list[tuple[str, float | None, float | None]]:
    """Name, of the model, and of the classes' shares in training for every row."""
    n_classes = len(prior)
    shares = np.tile(np.log(prior / prior.sum()), (len(label), 1))
    names = np.arange(n_classes)

    def both(measure: Any) -> tuple[float, float]:
        return measure(log_proba), measure(shares)

    of_classes = class_report(label, log_proba, classes=names)["classes"]
    areas = [one["roc_area"] for one in of_classes if one["roc_area"] is not None]
    area = float(np.mean(areas)) if areas else None
    return [
        ("Accuracy", *both(lambda p: float((p.argmax(axis=1) == label).mean()))),
        ("Log loss", *both(lambda p: conditional_entropy(label, p, classes=names))),
        ("Brier score", *both(lambda p: brier_score(label, p, classes=names))),
        ("Calibration error (ECE)", *both(lambda p: expected_calibration_error(label, p, classes=names))),
        ("ROC area" if n_classes == 2 else "ROC area, mean of classes", area, None if area is None else 0.5),
    ]


def _reliability(label: Ints, log_proba: Floats, positive: int) -> list[list[float]]:
    """Points of the diagram of one class: predicted, observed, share of rows."""
    curve = reliability_curve(label, log_proba, classes=np.arange(log_proba.shape[1]), positive=positive, n_bins=10)
    points = np.column_stack([curve.predicted, curve.observed, curve.count / curve.count.sum()])
    return significant(points, 5)


def _curves(label: Ints, log_proba: Floats, c: int) -> dict[str, Any] | None:
    """ROC and precision-recall curve of one class; None where all rows are of it, or none."""
    positive = label == c
    if positive.all() or not positive.any():
        return None
    score = ranks_of_class(log_proba, c)
    precision, recall, _ = precision_recall_curve(positive, score)
    return {
        "area": float(roc_auc_score(positive, score)),
        "average_precision": float(average_precision_score(positive, score)),
        "share": float(positive.mean()),
        "roc": _thinned(np.column_stack(roc_points(log_proba, positive, c))),
        "precision_recall": _thinned(np.column_stack([recall, precision])[::-1]),
    }


def _thinned(curve: Floats) -> list[list[float]]:
    """A curve (n, 2) by no more points than are seen, its ends among them."""
    along = np.concatenate([[0.0], np.cumsum(np.abs(np.diff(curve, axis=0)).sum(axis=1))])
    _, first = np.unique(np.floor(along / max(along[-1], 1e-12) * _POINTS), return_index=True)
    return significant(curve[np.union1d(first, [len(curve) - 1])], 4)


def _surprising(clf: TableClassifier, judged: Judged) -> list[dict[str, Any]]:
    """Rows whose class was given the least probability, and which features spoke against it most."""
    classes = clf.classes_
    loss = log_losses(judged.label, judged.log_proba, classes=np.arange(len(classes)))
    found = []
    for row in np.argsort(-loss, kind="stable")[:_SURPRISING].tolist():
        log_p, true = judged.log_proba[row], judged.label[row]
        others = np.argsort(-log_p, kind="stable")
        rival = int(others[others != true][0])
        told = clf._explain(judged.rows.only(np.array([row])), (classes[true], classes[rival]))
        against, values = told.contributions[0], [None if v[0] is None else few_digits(v[0]) for v in told.values]
        reasons = [j for j in np.argsort(against, kind="stable").tolist() if against[j] < 0][:_REASONS]
        found.append(
            {
                "row": int(judged.number[row]),
                "class": str(classes[true]),
                "p": float(np.exp(log_p[true])),
                "rival": str(classes[rival]),
                "p_rival": float(np.exp(log_p[rival])),
                "reasons": [
                    {"feature": told.features[j], "value": values[j], "contribution": float(against[j])}
                    for j in reasons
                ],
                "case": _case(clf, told),
            }
        )
    return found


def _case(clf: TableClassifier, told: Explanation) -> dict[str, str]:
    """The values that a row has, as text; of a binned column a value of its interval."""
    found = {name: value[0] for name, value in zip(told.features, told.values) if value[0] is not None}
    for column in clf.schema_.columns:
        if column.kind == "binned" and column.name in found:
            edges = [column.low, *column.cuts, column.high]
            intervals = dict(zip(interval_names(column.cuts), pairwise(edges)))
            found[column.name] = repr(float(np.mean(intervals[found[column.name]])))
    return found
