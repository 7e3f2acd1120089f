"""How each class fares: the confusion matrix, and what is measured of one class at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp
from sklearn.metrics import roc_auc_score, roc_curve

from fanbayes.arrays import Floats, Ints, Mask
from fanbayes.evaluation.metrics import aligned, row_weights


def class_report(
    y_true: ArrayLike, log_proba: ArrayLike, *, classes: ArrayLike, sample_weight: ArrayLike | None = None
) -> dict[str, Any]:
    """Confusion matrix, and precision, recall and ROC area of each class, the most probable class being predicted.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        True labels. Those that are not in `classes` come last, and are never predicted.
    log_proba : array-like of shape (n, n_classes)
    classes : array-like of shape (n_classes,)
        The label of each column.
    sample_weight : array-like of shape (n,), optional

    Returns
    -------
    dict of plain values
        "labels", first those of `classes`; "confusion", for each true label the rows (their weight) that were predicted
        as each label; and "classes", for each label a dict of "class", "rows", "predicted", "precision", "recall" and
        "roc_area". The ROC area is that of the class against all others, ranked by log-odds. What is not defined is
        None: the precision of a class that is never predicted, recall and ROC area of one that no row has, or all have.
    """
    _, table = aligned(y_true, log_proba, classes)
    weight = row_weights(sample_weight, len(table))
    true = np.asarray(y_true, dtype=object).tolist()
    labels = list(dict.fromkeys([*np.asarray(classes, dtype=object).tolist(), *true]))
    place = {label: k for k, label in enumerate(labels)}
    truth, predicted = np.array([place[label] for label in true]), table.argmax(axis=1)
    counts = np.zeros((len(labels), len(labels)), dtype=int if sample_weight is None else float)
    np.add.at(counts, (truth, predicted), weight.astype(counts.dtype))
    rows, times, right = counts.sum(axis=1).tolist(), counts.sum(axis=0).tolist(), counts.diagonal().tolist()
    return {
        "labels": labels,
        "confusion": counts.tolist(),
        "classes": [
            {
                "class": label,
                "rows": rows[k],
                "predicted": times[k],
                "precision": right[k] / times[k] if times[k] else None,
                "recall": right[k] / rows[k] if rows[k] else None,
                "roc_area": _area(table, truth == k, k, weight),
            }
            for k, label in enumerate(labels)
        ],
    }


def roc_points(log_proba: Floats, positive: Mask, k: int) -> tuple[Floats, Floats]:
    """Shares of false and of true positives, rows being ranked by the log-odds of class k against the others.

    Parameters
    ----------
    log_proba : (n, n_classes)
    positive : (n,), which rows are of class k, some but not all
    """
    wrong, right, _ = roc_curve(positive, ranks_of_class(log_proba, k))
    return wrong, right


def ranks_of_class(log_proba: Floats, k: int) -> Ints:
    """Rank (n,) of each row by the log-odds of class k against all others: equal ones share one, and all are finite."""
    odds = log_proba[:, k] - logsumexp(np.delete(log_proba, k, axis=1), axis=1)
    ranks: Ints = np.unique(odds, return_inverse=True)[1]
    return ranks


def _area(table: Floats, positive: Mask, k: int, weight: Floats) -> float | None:
    if not (weight[positive].any() and weight[~positive].any()) or k >= table.shape[1]:
        return None
    return float(roc_auc_score(positive, ranks_of_class(table, k), sample_weight=weight))
