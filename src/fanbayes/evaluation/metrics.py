"""How good predictions are: accuracy, conditional entropy, ROC area, Brier score, calibration.

Every measure but accuracy takes `log_proba` of shape (n, n_classes), natural logarithms as
`predict_log_proba` gives them, and the `classes` its columns stand for, as in `classes_`. Logarithms
keep what probabilities lose: beyond about 16 digits a probability is 0 or 1, and rows tie that do not.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp
from sklearn.metrics import accuracy_score, roc_auc_score

__all__ = [
    "CLIP",
    "ReliabilityCurve",
    "accuracy",
    "brier_score",
    "calibration_gaps",
    "clipped_share",
    "conditional_entropy",
    "expected_calibration_error",
    "log_losses",
    "log_odds",
    "reliability_curve",
    "roc_area",
    "squared_errors",
]

CLIP = 1e-15
"""The least probability the true class is credited with: no row loses more than 34.54 nats."""

N_BINS = 15
"""Bins of a reliability curve, unless told otherwise."""

Strategy = Literal["uniform", "quantile"]

_MOST_BINS = 1_000_000


@dataclass(frozen=True, slots=True)
class ReliabilityCurve:
    """The points of a reliability diagram, one per bin that holds any weight.

    Attributes
    ----------
    predicted : ndarray of shape (n_filled_bins,)
        Mean predicted probability in the bin, ascending.
    observed : ndarray of shape (n_filled_bins,)
        Frequency with which the prediction came true.
    count : ndarray of shape (n_filled_bins,)
        Rows in the bin, or their total weight.
    """

    predicted: NDArray[np.float64]
    observed: NDArray[np.float64]
    count: NDArray[np.float64]

    @property
    def calibration_error(self) -> float:
        """Expected calibration error: ``sum_b n_b/n |observed_b - predicted_b|``."""
        return float(np.average(np.abs(self.observed - self.predicted), weights=self.count))


def accuracy(y_true: ArrayLike, y_pred: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """Proportion of rows classified correctly.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n,)
        True and predicted labels.
    sample_weight : array-like of shape (n,), optional

    Returns
    -------
    float
        Between 0 and 1.
    """
    true, predicted = _labels("y_true", y_true), _labels("y_pred", y_pred)
    if len(true) != len(predicted):
        raise ValueError(f"y_true has {len(true)} rows and y_pred {len(predicted)}; they must match.")
    return float(accuracy_score(true, predicted, sample_weight=row_weights(sample_weight, len(true))))


def log_losses(
    y_true: ArrayLike, log_proba: ArrayLike, *, classes: ArrayLike, clip: float = CLIP
) -> NDArray[np.float64]:
    """Loss of each row, ``-log max(p(c | x), clip)``: the terms of eq. (13), as a paired test needs them.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        True labels. One that is not in `classes` has probability 0 and so gets the clip.
    log_proba : array-like of shape (n, n_classes)
        Log-probabilities; ``-inf`` is allowed.
    classes : array-like of shape (n_classes,)
        The label of each column.
    clip : float, default=CLIP
        Floor on the probability of the true class. Compare methods under one clip only.

    Returns
    -------
    ndarray of shape (n,)
        In nats.
    """
    return -np.maximum(_true_log_proba(y_true, log_proba, classes), _log_clip(clip))


def conditional_entropy(
    y_true: ArrayLike,
    log_proba: ArrayLike,
    *,
    classes: ArrayLike,
    clip: float = CLIP,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Empirical conditional entropy, eq. (13): ``-1/L sum_l log p(c_l | x_l)``, each term clipped.

    Parameters
    ----------
    y_true, log_proba, classes, clip
        As in :func:`log_losses`.
    sample_weight : array-like of shape (n,), optional

    Returns
    -------
    float
        In nats; lower is better. Show :func:`clipped_share` beside it.
    """
    losses = log_losses(y_true, log_proba, classes=classes, clip=clip)
    return float(np.average(losses, weights=row_weights(sample_weight, len(losses))))


def clipped_share(
    y_true: ArrayLike,
    log_proba: ArrayLike,
    *,
    classes: ArrayLike,
    clip: float = CLIP,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Share of rows whose true class got less than `clip`, an unknown true class included.

    Parameters
    ----------
    y_true, log_proba, classes, clip
        As in :func:`log_losses`.
    sample_weight : array-like of shape (n,), optional

    Returns
    -------
    float
        Between 0 and 1.
    """
    clipped = _true_log_proba(y_true, log_proba, classes) < _log_clip(clip)
    return float(np.average(clipped, weights=row_weights(sample_weight, len(clipped))))


def log_odds(log_proba: ArrayLike) -> NDArray[np.float64]:
    """Log-odds ``log p(1 | x) - log p(0 | x)`` of the second of two classes.

    Parameters
    ----------
    log_proba : array-like of shape (n, 2)

    Returns
    -------
    ndarray of shape (n,)
        ``±inf`` where a class has probability 0.
    """
    table = _log_table(log_proba)
    if table.shape[1] != 2:
        raise ValueError(f"Log-odds and the ROC area need two classes; log_proba has {table.shape[1]} columns.")
    return table[:, 1] - table[:, 0]


def roc_area(
    y_true: ArrayLike,
    log_proba: ArrayLike,
    *,
    classes: ArrayLike,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Area under the ROC curve of two classes, ranked by log-odds.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        True labels, both classes among them.
    log_proba : array-like of shape (n, 2)
    classes : array-like of shape (2,)
        The second class is the positive one; the area is the same if the two change places.
    sample_weight : array-like of shape (n,), optional

    Returns
    -------
    float
        Between 0 and 1; a pair of rows with equal log-odds counts one half.
    """
    column, table = aligned(y_true, log_proba, classes)
    # Positions among the distinct log-odds order as those do, and are finite.
    _, order = np.unique(log_odds(table), return_inverse=True)
    if (column < 0).any():
        raise ValueError("y_true has a label that is not in classes: the ROC area is for two classes only.")
    weight = row_weights(sample_weight, len(column))
    if len(np.unique(column[weight > 0])) < 2:
        raise ValueError("The ROC area needs rows of both classes, and y_true has one only: use more rows.")
    return float(roc_auc_score(column, order, sample_weight=weight))


def brier_score(
    y_true: ArrayLike,
    log_proba: ArrayLike,
    *,
    classes: ArrayLike,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Brier score, summed over classes: the mean of ``sum_c (p(c | x) - [c = y])^2``.

    This is Brier's own convention. With two classes it is twice the form that looks at the positive class
    only. A true class that is not in `classes` counts as a column of probability 0.

    Parameters
    ----------
    y_true, log_proba, classes
        As in :func:`log_losses`.
    sample_weight : array-like of shape (n,), optional

    Returns
    -------
    float
        Between 0 and 2; lower is better.
    """
    errors = squared_errors(y_true, log_proba, classes=classes)
    return float(np.average(errors, weights=row_weights(sample_weight, len(errors))))


def squared_errors(y_true: ArrayLike, log_proba: ArrayLike, *, classes: ArrayLike) -> NDArray[np.float64]:
    """Terms of the Brier score (n,), as a paired test needs them; see :func:`brier_score`."""
    column, table = aligned(y_true, log_proba, classes)
    known = np.flatnonzero(column >= 0)
    residual = np.exp(table)
    residual[known, column[known]] -= 1.0
    return np.asarray(np.square(residual).sum(axis=1) + (column < 0))


def reliability_curve(
    y_true: ArrayLike,
    log_proba: ArrayLike,
    *,
    classes: ArrayLike,
    positive: Hashable = None,
    n_bins: int = N_BINS,
    strategy: Strategy = "uniform",
    sample_weight: ArrayLike | None = None,
) -> ReliabilityCurve:
    """Predicted probability against observed frequency, by bins of the predicted probability.

    Parameters
    ----------
    y_true, log_proba, classes
        As in :func:`log_losses`.
    positive : label, optional
        The class whose probability is judged. By default that of the most probable class (the first
        one in a tie): confidence against accuracy.
    n_bins : int, default=15
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins ``(k/n_bins, (k+1)/n_bins]`` of equal width, the first one with 0 included; or bins of
        equal mass, where equal predictions share a bin.
    sample_weight : array-like of shape (n,), optional

    Returns
    -------
    ReliabilityCurve
        Empty bins are left out.
    """
    predicted, observed = _judged(y_true, log_proba, classes, positive)
    weight = row_weights(sample_weight, len(predicted))
    bins = _bins(predicted, weight, n_bins, strategy)
    sums = np.array([np.bincount(bins, weight * value) for value in (1.0, predicted, observed)])
    count, sum_predicted, sum_observed = sums[:, sums[0] > 0]
    return ReliabilityCurve(sum_predicted / count, sum_observed / count, count)


def expected_calibration_error(
    y_true: ArrayLike,
    log_proba: ArrayLike,
    *,
    classes: ArrayLike,
    n_bins: int = N_BINS,
    strategy: Strategy = "uniform",
    sample_weight: ArrayLike | None = None,
) -> float:
    """Calibration error expected of the top class: ``sum_b n_b/n |accuracy_b - confidence_b|``.

    By default 15 bins of equal width (Guo et al. 2017, "On calibration of modern neural networks").

    Parameters
    ----------
    y_true, log_proba, classes, n_bins, strategy, sample_weight
        As in :func:`reliability_curve`.

    Returns
    -------
    float
        Between 0 and 1; lower is better.
    """
    return reliability_curve(
        y_true, log_proba, classes=classes, n_bins=n_bins, strategy=strategy, sample_weight=sample_weight
    ).calibration_error


def calibration_gaps(
    y_true: ArrayLike, log_proba: ArrayLike, *, classes: ArrayLike, n_bins: int = N_BINS, strategy: Strategy = "uniform"
) -> NDArray[np.float64]:
    """Terms of the calibration error, confidence less accuracy or the reverse: as a standard error needs them.

    Parameters
    ----------
    y_true, log_proba, classes, n_bins, strategy
        As in :func:`reliability_curve`.

    Returns
    -------
    ndarray of shape (n,)
        Their signs are those of the gaps of the bins, so that their mean is the calibration error.
    """
    predicted, observed = _judged(y_true, log_proba, classes, None)
    bins = _bins(predicted, np.ones(len(predicted)), n_bins, strategy)
    gap = predicted - observed
    return np.asarray(np.sign(np.bincount(bins, gap))[bins] * gap)


def _judged(
    y_true: ArrayLike, log_proba: ArrayLike, classes: ArrayLike, positive: Hashable
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Probability of the positive class, by default of the most probable one, and whether it is the true one (n,)."""
    column, table = aligned(y_true, log_proba, classes)
    judged = table.argmax(axis=1)
    if positive is not None:
        judged[:] = _columns([positive], _labels("classes", classes))[0]
        if judged[0] < 0:
            raise ValueError(f"positive={positive!r} is not in classes.")
    return np.exp(np.take_along_axis(table, judged[:, None], axis=1)[:, 0]), judged == column


def _bins(
    predicted: NDArray[np.float64], weight: NDArray[np.float64], n_bins: int, strategy: Strategy
) -> NDArray[np.intp]:
    """Bin of each prediction (n,), from 0 to n_bins - 1."""
    if not 1 <= n_bins <= _MOST_BINS:
        raise ValueError(f"n_bins must be from 1 to {_MOST_BINS}.")
    if strategy == "uniform":
        return np.searchsorted(np.linspace(0, 1, n_bins + 1)[1:-1], predicted)
    if strategy == "quantile":
        # A distinct value goes where the middle of its mass lies, so equal predictions stay together
        # and weight 2 is the row twice.
        _, value = np.unique(predicted, return_inverse=True)
        mass = np.bincount(value, weight)
        middle = np.cumsum(mass) - mass / 2
        bin_of_value: NDArray[np.intp] = np.minimum(n_bins * middle / mass.sum(), n_bins - 1).astype(np.intp)
        return bin_of_value[value]
    raise ValueError(f"strategy must be 'uniform' or 'quantile'; got {strategy!r}.")


def _true_log_proba(y_true: ArrayLike, log_proba: ArrayLike, classes: ArrayLike) -> NDArray[np.float64]:
    """Log-probability of the true class (n,), -inf where it is not in classes."""
    column, table = aligned(y_true, log_proba, classes)
    return np.where(column < 0, -np.inf, table[np.arange(len(column)), column])


def aligned(
    y_true: ArrayLike, log_proba: ArrayLike, classes: ArrayLike
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Column of each true class (n,), -1 where it is not in classes, and log_proba (n, n_classes)."""
    labels, names = _labels("y_true", y_true), _labels("classes", classes)
    table = _log_table(log_proba)
    if table.shape != (len(labels), len(names)):
        raise ValueError(
            f"log_proba has shape {table.shape}, but y_true has {len(labels)} rows and classes {len(names)} "
            "labels: give one row per label and one column per class."
        )
    return _columns(labels, names), table


def _columns(labels: list[Hashable], names: list[Hashable]) -> NDArray[np.intp]:
    """Position of each label in names, -1 where it is not there."""
    position = {name: column for column, name in enumerate(names)}
    if len(position) < len(names):
        raise ValueError("classes names a class twice: give each column its own label.")
    column = np.array([position.get(label, -1) for label in labels], dtype=np.intp)
    # Else 1 against "1" would pass as a class never seen, and every row would be clipped.
    if (column < 0).all() and isinstance(labels[0], str) != isinstance(names[0], str):
        raise ValueError(
            f"Labels like {labels[0]!r} and classes like {names[0]!r} never match: give both as text or both "
            "as numbers."
        )
    return column


def _labels(name: str, values: ArrayLike) -> list[Hashable]:
    """Labels as a list; an object array on the way, so that no label is cast to another's type."""
    labels = np.asarray(values, dtype=object)
    if labels.ndim != 1 or not labels.size:
        raise ValueError(f"{name} must be a non-empty list of labels; got shape {labels.shape}.")
    try:
        missing = any(label is None or label != label for label in labels)
    except TypeError:  # pandas.NA, which has no truth value
        missing = True
    if missing:
        raise ValueError(f"{name} has missing labels: leave those rows out.")
    return list(labels)


def _log_table(log_proba: ArrayLike) -> NDArray[np.float64]:
    """Log-probabilities (n, n_classes), each row summing to one within 1e-4 (float32 sums included)."""
    table = np.asarray(log_proba, dtype=np.float64)
    if table.ndim != 2 or not table.size:
        raise ValueError(f"log_proba must have shape (n, n_classes), n at least 1; got {table.shape}.")
    # NaN fails the comparison too.
    wrong = ~(np.abs(logsumexp(table, axis=1)) < 1e-4)
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(
            f"Row {row} of log_proba, {table[row]}, is not the logarithm of probabilities that sum to one: "
            "pass predict_log_proba(X), without NaN."
        )
    return table


def row_weights(sample_weight: ArrayLike | None, n: int) -> NDArray[np.float64]:
    """Row weights (n,), ones by default."""
    weight = np.ones(n) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    if weight.shape != (n,):
        raise ValueError(f"sample_weight has shape {weight.shape}; give one weight for each of {n} rows.")
    if not (np.isfinite(weight).all() and (weight >= 0).all() and weight.any()):
        raise ValueError("sample_weight must be finite, not negative, and not all zero.")
    return weight


def _log_clip(clip: float) -> float:
    """Logarithm of a valid clip."""
    if not 0 < clip < 1:
        raise ValueError(f"clip is the least probability credited, between 0 and 1, e.g. {CLIP}; got {clip}.")
    return float(np.log(clip))
