"""How good the predicted probabilities of one fold are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fanbayes.evaluation import metrics
from fanbayes.study.run import outcomes_of

N_BINS = 15


def scores(y: NDArray[Any], proba: NDArray[np.float64], known: NDArray[Any], classes: list[str]) -> dict[str, Any]:
    """Measures of a fold, and under "rows" what the tests need of each row.

    Parameters
    ----------
    y : labels (n,)
    proba : probabilities (n, len(known))
    known : classes of the training part, in the order of the columns
    classes : all classes of the dataset; one that the training part lacks has probability 0
    """
    table = np.full((len(y), len(classes)), -np.inf)
    with np.errstate(divide="ignore"):
        table[:, np.searchsorted(classes, known)] = np.log(proba / proba.sum(axis=1, keepdims=True))
    outcomes = outcomes_of(y, table, classes)
    return {
        "log_loss": float(outcomes.loss.mean()),
        "accuracy": float(outcomes.correct.mean()),
        "auc": roc_area(y, table, classes),
        "brier": metrics.brier_score(y, table, classes=classes),
        "ece": metrics.expected_calibration_error(y, table, classes=classes, n_bins=N_BINS, strategy="quantile"),
        "rows": outcomes.pack(),
    }


def roc_area(y: NDArray[Any], log_proba: NDArray[np.float64], classes: list[str]) -> float | None:
    """Mean over the classes present of the area of each against the rest; None if all rows are of one class.

    Ranked by log-odds, where probabilities that round to 1 still differ.
    """
    areas = []
    for column, label in enumerate(classes):
        positive = y == label
        if positive.any() and not positive.all():
            rest = np.logaddexp.reduce(np.delete(log_proba, column, axis=1), axis=1)
            table = np.column_stack([rest, log_proba[:, column]])
            areas.append(metrics.roc_area(positive, table, classes=[False, True]))
    return float(np.mean(areas)) if areas else None


def loss_of_shares(y: NDArray[Any], folds: Sequence[tuple[NDArray[np.intp], NDArray[np.intp]]]) -> float:
    """Log loss of the classes' shares in the training parts, mean over the rows tested."""
    losses = []
    for trained, tested in folds:
        known, counts = np.unique(y[trained], return_counts=True)
        shares = dict(zip(known, counts / counts.sum()))
        losses += [-np.log(max(shares.get(label, 0.0), metrics.CLIP)) for label in y[tested]]
    return float(np.mean(losses))
