"""Cut points that tell the classes apart: entropy with the MDL stopping rule (Fayyad & Irani 1993).

A set S of N cases from k classes is cut into S1 and S2 where the gain is largest, and so are these in their
turn, as long as the cut shortens the description of the classes:

    Gain > (log2(N - 1) + Delta) / N
    Gain = Ent(S) - |S1|/N Ent(S1) - |S2|/N Ent(S2)
    Delta = log2(3^k - 2) - [k Ent(S) - k1 Ent(S1) - k2 Ent(S2)]

with k, k1 and k2 the numbers of classes present in S, S1 and S2. Below, entropies are in nats, gains N-fold.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr

from fanbayes.arrays import Floats

Integers = NDArray[np.integer]

# How many cuts, in how many blocks of rows, the search for the best cut looks at in one go: enough to keep
# NumPy busy, few enough that what it learns from them spares it the others.
_CUTS_AT_ONCE = 512
_BLOCKS_AT_ONCE = 32

_FLOAT = np.finfo(np.float64)


def cut_points(x: Floats, labels: Integers, n_classes: int, weight: Floats | None = None) -> Floats:
    """Find the cuts of one column, in little more than the time it takes to sort it.

    Parameters
    ----------
    x : ndarray of shape (n,)
        Finite values; NaN is missing, and its row is left out.
    labels : ndarray of int, shape (n,)
        Class of each row, in 0..n_classes-1; rows with a negative label are left out.
    n_classes : int
        Number of classes.
    weight : ndarray of shape (n,), optional
        Case counts: weight 2 is the row twice, weight 0 the row absent. Fractions are allowed.

    Returns
    -------
    cuts : ndarray of shape (n_cuts,)
        Increasing, each halfway between two adjacent values of `x`; empty if no cut is worth its description.
        Interval j holds ``cuts[j-1] < x <= cuts[j]``.
    """
    rows = _sort(x, labels, n_classes, weight)
    cuts: list[int] = []
    parts = [(0, len(rows.first) - 1)]
    while parts:
        start, stop = parts.pop()
        if stop - start < 2:  # the case of every pure part, as neighbouring segments differ in class
            continue
        cut = _best_cut(rows, start, stop)
        below, at, upto = _counts_below(rows, np.array((start, cut, stop)))
        if _shortens(at - below, upto - at):
            cuts.append(cut)
            parts += [(start, cut), (cut, stop)]
    right = rows.first[np.sort(np.array(cuts, np.intp))]
    return _between(rows.x[right - 1], rows.x[right])


def assign(x: Floats, cuts: Floats) -> NDArray[np.intp]:
    """Find the interval that each value lies in.

    Parameters
    ----------
    x : ndarray of shape (n,)
        Values; NaN is missing.
    cuts : ndarray of shape (n_cuts,)
        Increasing cut points.

    Returns
    -------
    codes : ndarray of intp, shape (n,)
        In 0..n_cuts, a value equal to a cut being left of it; -1 where `x` is missing.
    """
    codes = np.searchsorted(cuts, x, side="left")
    codes[np.isnan(x)] = -1
    return codes


class _Rows(NamedTuple):
    """Observed, labelled rows by increasing x, in segments that no best cut divides."""

    x: Floats  # (n,)
    labels: Integers  # (n,)
    weight: Floats | None  # (n,)
    first: Integers  # (n_segments + 1,) first row of each segment, then n
    window: int  # rows in a window
    grid: Integers  # (n_grid,) the first segment to begin in each window, and n_segments
    grid_counts: Floats  # (n_grid, n_classes) cases below these segments


def _sort(x: Floats, labels: Integers, n_classes: int, weight: Floats | None) -> _Rows:
    """Bring the rows in order, divide them into segments and tabulate their class counts."""
    keep = ~np.isnan(x) & (labels >= 0)
    if weight is not None:
        keep &= weight > 0
    order = np.argsort(np.where(keep, x, np.nan))[: np.count_nonzero(keep)]  # NaN comes last
    x, labels = x[order], labels[order]
    weight = None if weight is None else weight[order]
    first = _segments(x, labels)
    # Counts are tabulated once in a window: its length, k / 2, keeps the table at some two numbers a row.
    window = max(n_classes // 2, 1)
    grid = np.concatenate(([0], np.flatnonzero(np.diff(first[:-1] // window)) + 1, [len(first) - 1]))
    cell = np.repeat(n_classes * np.arange(1, len(grid)), np.diff(first[grid])) + labels
    counts = np.bincount(cell, weight, n_classes * len(grid)).reshape(len(grid), n_classes)
    return _Rows(x, labels, weight, first, window, grid, counts.cumsum(axis=0, dtype=np.float64))


def _segments(x: Floats, labels: Integers) -> Integers:
    """Divide sorted rows at the boundary points, the only places where the gain can be largest.

    There is one between two neighbouring values unless all their rows are of one class.
    """
    first = np.concatenate(([0], np.flatnonzero(x[1:] > x[:-1]) + 1, [len(x)]))
    run = np.concatenate(([0], np.cumsum(labels[1:] != labels[:-1])))
    boundary = run[first[:-2]] != run[first[2:] - 1]
    return np.concatenate(([0], first[1:-1][boundary], [len(x)]))


def _counts_below(rows: _Rows, segments: Integers) -> Floats:
    """Count the cases (m, n_classes) in all rows below some segments (m,).

    The sums are taken row by row, so that a class absent between two segments has exactly the same count below
    both, also with fractional weights.
    """
    known = np.searchsorted(rows.grid, segments, side="right") - 1
    counts = rows.grid_counts[known]
    if rows.window > 1:
        row = rows.first[rows.grid[known], None] + np.arange(rows.window)
        i, j = np.nonzero(row < rows.first[segments, None])
        row = row[i, j]
        cell = i * counts.shape[1] + rows.labels[row]
        weight = None if rows.weight is None else rows.weight[row]
        counts += np.bincount(cell, weight, counts.size).reshape(counts.shape)
    return counts


def _best_cut(rows: _Rows, start: int, stop: int) -> int:
    """Find the lowest cut of largest gain in segments start..stop-1, as the segment right of it.

    Blocks of segments are cut into pieces, the most promising first, until none is left that can hold it.
    """
    below, upto = _counts_below(rows, np.array((start, stop)))
    present = upto > below
    below, total = below[present], (upto - below)[present]
    low, high, bound = np.array([start]), np.array([stop]), np.array([np.inf])
    best, rounding = 0.0, 8 * _FLOAT.eps * total.sum()  # gains are good to about 2 eps N
    seen = []
    while len(bound):
        order = np.argsort(-bound)
        block, rest = order[:_BLOCKS_AT_ONCE], order[_BLOCKS_AT_ONCE:]
        size = high[block] - low[block]
        pieces = min(size.max(), _CUTS_AT_ONCE // len(block))
        cuts = low[block, None] + size[:, None] * np.arange(pieces + 1) // pieces
        counts = (_counts_below(rows, cuts.ravel())[:, present] - below).reshape(*cuts.shape, -1)
        gain = _gain(counts, total)
        best = max(best, gain.max())
        seen.append((cuts.ravel(), gain.ravel()))
        i, j = np.nonzero(np.diff(cuts) > 1)
        low = np.concatenate((low[rest], cuts[i, j]))
        high = np.concatenate((high[rest], cuts[i, j + 1]))
        bound = np.concatenate((bound[rest], _gain_bound(counts[i, j], counts[i, j + 1], total)))
        alive = bound >= best - rounding
        low, high, bound = low[alive], high[alive], bound[alive]
    cut, gain = np.concatenate(seen, axis=1)
    return int(cut[(gain >= best - rounding) & (cut > start) & (cut < stop)].min())


def _gain(left: Floats, total: Floats) -> Floats:
    """Compute N Gain (...) of cuts with class counts left (..., k), out of total (k,).

    What the side tells about the class is what the class tells about the side. So, with n of the N cases and
    n_c of the N_c cases of class c on the left, N Gain = N Ent(n / N) - sum_c N_c Ent(n_c / N_c).
    """
    gain: Floats = _split_entropy(left.sum(axis=-1), total.sum()) - _split_entropy(left, total).sum(axis=-1)
    return gain


def _gain_bound(low: Floats, high: Floats, total: Floats) -> Floats:
    """Bound N Gain (m,) of all cuts with class counts from low (m, k) to high (m, k), out of total (k,).

    Ent is concave: the first term of N Gain lies below its tangent (taken halfway), and minus the others lie
    below their chords. The sum of these lines is largest where each n_c is at one of its ends.
    """
    n_cases, n_low = total.sum(), low.sum(axis=-1)
    n = (n_low + high.sum(axis=-1)) / 2
    slope = np.log((n_cases - n) / n)
    ent_low, ent_high = _split_entropy(low, total), _split_entropy(high, total)
    rise = slope[:, None] * (high - low) - (ent_high - ent_low)
    at_low = _split_entropy(n, n_cases) - slope * (n - n_low) - ent_low.sum(axis=-1)
    bound: Floats = at_low + np.maximum(rise, 0).sum(axis=-1)
    return bound


def _split_entropy(part: Floats, whole: Floats) -> Floats:
    """Compute whole * Ent(part / whole), elementwise."""
    rest = whole - part
    log_part = np.log(np.maximum(part / whole, _FLOAT.tiny))  # 0 log 0 = 0
    log_rest = np.log(np.maximum(rest / whole, _FLOAT.tiny))
    return -(part * log_part + rest * log_rest)


def _shortens(left: Floats, right: Floats) -> bool:
    """Apply the MDL rule to a cut with class counts left (k,) and right (k,)."""
    counts = np.stack((left + right, left, right))
    size, k = counts.sum(axis=1), np.count_nonzero(counts, axis=1)
    entropy = entr(counts / size[:, None]).sum(axis=1)
    whole_less_sides = np.array((1, -1, -1))
    log_3k_less_2 = k[0] * math.log(3) + math.log1p(-2 * math.pow(3, -k[0]))
    delta = log_3k_less_2 - whole_less_sides @ (k * entropy)
    # Fractional weights may add up to less than the two cases that any cut lies between.
    return bool(whole_less_sides @ (size * entropy) > math.log(max(size[0] - 1, 1)) + delta)


def _between(low: Floats, high: Floats) -> Floats:
    """Halve the way from low to high, staying below high."""
    middle = low / 2 + high / 2  # where low + high might overflow
    return np.where(middle < high, middle, low)
