"""Whether a difference is more than chance: on one dataset (rows) and across datasets (Table 1).

In every result a positive statistic, and in every list of differences a positive difference, favours the
first of the two classifiers. All p-values are two-sided.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

__all__ = [
    "CorrectedT",
    "DeLong",
    "McNemar",
    "PairedT",
    "SignedRank",
    "WinLoss",
    "corrected_t",
    "delong",
    "holm",
    "mcnemar",
    "paired_t",
    "signed_rank",
    "win_loss",
]

ROUNDING = 1e-12
"""Losses that differ by less than this share of the largest loss are equal."""

EXACT_UP_TO = 200
"""Number of differences, zeros included, up to which the signed-rank p-values are exact."""


@dataclass(frozen=True, slots=True)
class McNemar:
    """McNemar's test of two accuracies on the same rows.

    Attributes
    ----------
    statistic : float
        ``z = (b - c) / sqrt(b + c)``, 0 if ``b + c = 0``.
    p_value : float
        Binomial if `exact`, else normal.
    b, c : int
        Rows that only the first, only the second classifier gets right.
    exact : bool
        Whether ``b + c < 25``.
    """

    statistic: float
    p_value: float
    b: int
    c: int
    exact: bool


@dataclass(frozen=True, slots=True)
class PairedT:
    """Paired t test of two mean losses over the same rows.

    Attributes
    ----------
    statistic : float
        ``t``; 0 if no row differs, ``±inf`` if every row differs by the same amount.
    p_value : float
    difference : float
        Mean of ``loss_b - loss_a``.
    n : int
        Number of rows.
    """

    statistic: float
    p_value: float
    difference: float
    n: int


@dataclass(frozen=True, slots=True)
class CorrectedT:
    """Corrected resampled t test of two classifiers over the folds of one dataset.

    Attributes
    ----------
    statistic : float
        ``t``; 0 if no fold differs, ``±inf`` if every fold differs by the same amount.
    p_value : float
    difference : float
        Mean of the differences.
    n : int
        Number of folds.
    """

    statistic: float
    p_value: float
    difference: float
    n: int


@dataclass(frozen=True, slots=True)
class DeLong:
    """DeLong's test of two ROC areas on the same rows.

    Attributes
    ----------
    statistic : float
        ``z = (area_a - area_b) / standard_error``; 0 if the areas are equal, ``±inf`` if they differ and
        the standard error is 0.
    p_value : float
    area_a, area_b : float
    standard_error : float
        Of the difference of the areas.
    """

    statistic: float
    p_value: float
    area_a: float
    area_b: float
    standard_error: float


@dataclass(frozen=True, slots=True)
class SignedRank:
    """Wilcoxon's signed-rank test, with zeros dropped and after Pratt.

    Attributes
    ----------
    n, zeros : int
        Differences that are not zero, and that are.
    statistic, pratt_statistic : float
        ``z``: the positive rank sum, less its mean, over its standard deviation; 0 if ``n = 0``.
    p_value, pratt_p_value : float
        Exact up to 200 differences, ties included, else normal.
    """

    n: int
    zeros: int
    statistic: float
    p_value: float
    pratt_statistic: float
    pratt_p_value: float


@dataclass(frozen=True, slots=True)
class WinLoss:
    """Datasets won, lost and tied by the first classifier."""

    wins: int
    losses: int
    ties: int


def mcnemar(correct_a: ArrayLike, correct_b: ArrayLike) -> McNemar:
    """Test whether two classifiers have the same accuracy, from the rows on which just one is right.

    Parameters
    ----------
    correct_a, correct_b : array-like of bool, of shape (n,)
        Whether each classifier is right on each row.

    Returns
    -------
    McNemar
    """
    right_a, right_b = _indicator("correct_a", correct_a), _indicator("correct_b", correct_b)
    _same_length(right_a, right_b)
    b, c = int((right_a & ~right_b).sum()), int((right_b & ~right_a).sum())
    z = (b - c) / np.sqrt(max(b + c, 1))
    exact = b + c < 25
    # Twice the smaller tail of Binomial(b + c, 1/2).
    p = min(1.0, 2 * stats.binom.cdf(min(b, c), b + c, 0.5)) if exact else 2 * stats.norm.sf(abs(z))
    return McNemar(float(z), float(p), b, c, exact)


def paired_t(loss_a: ArrayLike, loss_b: ArrayLike) -> PairedT:
    """Test whether two classifiers have the same mean loss over rows, e.g. eq. (13).

    Differences within rounding (1e-12 of the largest loss) are none, so that two classifiers that are the
    same up to the order of their sums do not differ "significantly".

    Parameters
    ----------
    loss_a, loss_b : array-like of shape (n,)
        Finite losses, lower is better; at least two rows. See :func:`fanbayes.metrics.log_losses`.

    Returns
    -------
    PairedT
    """
    a, b = _vector("loss_a", loss_a), _vector("loss_b", loss_b)
    _same_length(a, b)
    n = len(a)
    if not np.isfinite([a, b]).all():
        raise ValueError("A loss is infinite: clip the probabilities, as log_losses does.")
    if n < 2:
        raise ValueError("The paired t test needs at least two rows: one has no variance.")
    rounding = ROUNDING * max(np.abs(a).max(), np.abs(b).max())
    gain = b - a
    gain[np.abs(gain) <= rounding] = 0.0
    spread = np.std(gain, ddof=1) if np.ptp(gain) > rounding else 0.0
    t = _ratio(gain.mean(), spread / np.sqrt(n))
    return PairedT(t, float(2 * stats.t.sf(abs(t), n - 1)), float(gain.mean()), n)


def corrected_t(differences: ArrayLike, test_ratio: float, *, decimals: int = 12) -> CorrectedT:
    """Test whether two classifiers differ on one dataset, from folds whose training parts share rows.

    ``t = mean / sqrt((1 / n + test_ratio) var)`` with ``n - 1`` degrees of freedom (Nadeau & Bengio 2003), whatever
    the number of repetitions of the cross-validation (Bouckaert & Frank 2004). Without the second term, which stands
    for the rows that training parts share, more repetitions would make anything significant.

    Parameters
    ----------
    differences : array-like of shape (n,)
        Of a measure, one for each fold; at least two.
    test_ratio : float
        Rows of a test part for each row of its training part: 1 / 9 in ten folds.
    decimals : int, default=12
        Differences are rounded to so many decimals first.

    Returns
    -------
    CorrectedT
    """
    d = np.round(_vector("differences", differences), decimals)
    n = len(d)
    if n < 2:
        raise ValueError("The corrected t test needs at least two folds: one has no variance.")
    if not np.isfinite(d).all():
        raise ValueError("A difference is infinite: a fold that failed cannot be tested.")
    if not test_ratio > 0:
        raise ValueError(f"test_ratio is the size of a test part over that of its training part; got {test_ratio}.")
    spread = float(np.std(d, ddof=1)) if np.ptp(d) > 0 else 0.0
    t = _ratio(d.mean(), np.sqrt(1 / n + test_ratio) * spread)
    return CorrectedT(t, float(2 * stats.t.sf(abs(t), n - 1)), float(d.mean()), n)


def delong(y_true: ArrayLike, score_a: ArrayLike, score_b: ArrayLike) -> DeLong:
    """Test whether two scores have the same ROC area on the same rows (DeLong et al. 1988).

    The structural components come from midranks (Sun & Xu 2014), in O(n log n). With ranks R among all
    rows and r among those of its class, a row exceeds ``R - r`` rows of the other class. The component of a
    positive row is ``(R - r) / n0``, that of a negative row ``1 - (R - r) / n1``, whose variance is the same
    as that of ``(R - r) / n1``.

    Parameters
    ----------
    y_true : array-like of bool or 0/1, of shape (n,)
        Which rows are positive; at least two of each kind.
    score_a, score_b : array-like of shape (n,)
        Scores that rise with the positive class, best log-odds (:func:`fanbayes.metrics.log_odds`), as
        probabilities saturate into ties. ``±inf`` is allowed.

    Returns
    -------
    DeLong
    """
    positive = _indicator("y_true", y_true)
    a, b = _vector("score_a", score_a), _vector("score_b", score_b)
    _same_length(positive, a, b)
    n1 = int(positive.sum())
    n0 = len(positive) - n1
    if min(n1, n0) < 2:
        raise ValueError(
            f"DeLong's test needs at least two rows of each class, and y_true has {n1} positive and {n0} "
            "negative: use more rows."
        )
    # Positions among the distinct scores order as those do, and are finite: rankdata of SciPy 1.11 takes
    # +inf beside -inf for NaN.
    orders = (np.unique(score, return_inverse=True)[1] for score in (a, b))
    below = np.array([_others_below(order, positive) for order in orders])
    area_a, area_b = below[:, positive].sum(axis=1) / (n1 * n0)
    # The variance of a difference of areas is that of the differences of their components; whole and
    # half numbers are subtracted before any division, so that equal rankings give exactly 0.
    surplus = below[0] - below[1]
    difference = surplus[positive].sum() / (n1 * n0)
    variance_1, variance_0 = (np.var(surplus[rows], ddof=1) for rows in (positive, ~positive))
    error = float(np.sqrt(variance_1 / (n1 * n0**2) + variance_0 / (n0 * n1**2)))
    z = _ratio(difference, error)
    return DeLong(z, float(2 * stats.norm.sf(abs(z))), float(area_a), float(area_b), error)


def signed_rank(differences: ArrayLike, *, decimals: int = 12) -> SignedRank:
    """Test whether differences across datasets centre on zero: one column of Table 1.

    Give it the magnitudes ``d_i`` for the one test of Table 1 and the test statistics ``z_i`` for the
    other. Absolute differences are ranked, ties share their mean rank. The usual test drops zeros before
    ranking; Pratt ranks them too and then drops their ranks, which brings the test the nearer to a sign test
    the more zeros there are.

    Parameters
    ----------
    differences : array-like of shape (n_datasets,)
        ``±inf`` is allowed.
    decimals : int, default=12
        Differences are rounded to so many decimals first, lest rounding break ties.

    Returns
    -------
    SignedRank
    """
    d = np.round(_vector("differences", differences), decimals)
    some = d != 0
    n, exact = int(some.sum()), len(d) <= EXACT_UP_TO
    z, p = _signed_rank(stats.rankdata(np.abs(d[some])), d[some] > 0, exact)
    pratt_z, pratt_p = _signed_rank(stats.rankdata(np.abs(d))[some], d[some] > 0, exact)
    return SignedRank(n, len(d) - n, z, p, pratt_z, pratt_p)


def win_loss(
    differences: ArrayLike,
    p_values: ArrayLike | None = None,
    level: float | None = None,
    *,
    decimals: int = 12,
) -> WinLoss:
    """Count datasets won, lost and tied, all or only where the difference is significant.

    Parameters
    ----------
    differences : array-like of shape (n_datasets,)
    p_values : array-like of shape (n_datasets,), optional
        Needed with `level`.
    level : float, optional
        Confidence, e.g. 0.95 or 0.99: a difference with ``p > 1 - level`` counts as a tie.
    decimals : int, default=12
        Differences are rounded to so many decimals first: what is left at 0 is a tie.

    Returns
    -------
    WinLoss
    """
    sign = np.sign(np.round(_vector("differences", differences), decimals))
    if level is not None:
        if p_values is None:
            raise ValueError(f"Counting at level {level} needs p_values: give one for each difference.")
        if not 0 < level < 1:
            raise ValueError(f"level is a confidence between 0 and 1, e.g. 0.95; got {level}.")
        p = _p_values(p_values)
        _same_length(sign, p)
        # 1 - 0.9 is a little less than 0.1.
        sign[p > round(1 - level, 12)] = 0.0
    return WinLoss(int((sign > 0).sum()), int((sign < 0).sum()), int((sign == 0).sum()))


def holm(p_values: ArrayLike) -> NDArray[np.float64]:
    """Holm's correction: adjusted p-values that hold for all the tests together.

    In ascending order ``p_(i)`` becomes ``max_{j <= i} min(1, (m - j + 1) p_(j))``.

    Parameters
    ----------
    p_values : array-like of shape (m,)

    Returns
    -------
    ndarray of shape (m,)
        In the order given.
    """
    p = _p_values(p_values)
    order = np.argsort(p)
    adjusted = np.empty_like(p)
    adjusted[order] = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)).clip(max=1.0)
    return adjusted


def _others_below(score: NDArray[np.intp], positive: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Rows of the other class with a lower score than each row's: (n,), ties one half."""
    within = np.empty(len(score))
    within[positive] = stats.rankdata(score[positive])
    within[~positive] = stats.rankdata(score[~positive])
    return stats.rankdata(score) - within


def _signed_rank(ranks: NDArray[np.float64], positive: NDArray[np.bool_], exact: bool) -> tuple[float, float]:
    """Signed-rank z and p-value: under the null each rank (n,) is positive with probability 1/2."""
    if not ranks.size:
        return 0.0, 1.0
    z = float((ranks[positive].sum() - ranks.sum() / 2) / (np.sqrt(np.square(ranks).sum()) / 2))
    if not exact:
        return z, float(2 * stats.norm.sf(abs(z)))
    # Midranks are halves, so their doubles are whole; probability[s] is that of the doubled sum s.
    doubled = np.rint(2 * ranks).astype(int)
    probability = np.zeros(doubled.sum() + 1)
    probability[0] = 1.0
    for rank in doubled:
        probability[rank:] += probability[:-rank].copy()
        probability /= 2
    smaller = min(doubled[positive].sum(), doubled[~positive].sum())
    return z, float(min(1.0, 2 * probability[: smaller + 1].sum()))


def _ratio(numerator: float, denominator: float) -> float:
    """Quotient as a float, with 0 / 0 = 0 and x / 0 = ±inf."""
    if denominator > 0:
        return float(numerator / denominator)
    return float(np.copysign(np.inf, numerator)) if numerator else 0.0


def _vector(name: str, values: ArrayLike) -> NDArray[np.float64]:
    """Non-empty float vector (n,) without NaN."""
    vector = np.asarray(values, dtype=np.float64)
    if vector.ndim != 1 or not vector.size:
        raise ValueError(f"{name} must be a non-empty list of numbers; got shape {vector.shape}.")
    if np.isnan(vector).any():
        raise ValueError(f"{name} has NaN at position {int(np.isnan(vector).argmax())}: leave that entry out.")
    return vector


def _indicator(name: str, values: ArrayLike) -> NDArray[np.bool_]:
    """Non-empty bool vector (n,)."""
    vector = _vector(name, values)
    if not np.isin(vector, (0, 1)).all():
        raise ValueError(f"{name} must be bool or 0/1, e.g. y == label; it has other values.")
    return vector.astype(np.bool_)


def _p_values(values: ArrayLike) -> NDArray[np.float64]:
    """Non-empty vector (m,) of numbers between 0 and 1."""
    p = _vector("p_values", values)
    if p.min() < 0 or p.max() > 1:
        raise ValueError("p_values must lie between 0 and 1.")
    return p


def _same_length(*vectors: NDArray[np.float64] | NDArray[np.bool_]) -> None:
    """Refuse vectors of different lengths."""
    lengths = [len(vector) for vector in vectors]
    if len(set(lengths)) > 1:
        raise ValueError(f"The inputs have {lengths} rows; they must be the same rows.")
