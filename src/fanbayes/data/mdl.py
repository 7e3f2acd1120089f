"""Cut points that tell the classes apart: entropy with the MDL stopping rule (Fayyad & Irani 1993).

A set S of N cases from k classes is cut into S1 and S2 where the gain is largest, and both are cut in the same
way, as long as the cut shortens the description of the classes:

    Gain > (log2(N - 1) + Delta) / N
    Gain = Ent(S) - |S1|/N Ent(S1) - |S2|/N Ent(S2)
    Delta = log2(3^k - 2) - [k Ent(S) - k1 Ent(S1) - k2 Ent(S2)]

with k, k1 and k2 the numbers of classes present in S, S1 and S2. The code counts in nats instead of bits, and
gains for all N cases instead of one.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr, rel_entr

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

# Rows between tabulated class counts: large enough for a small table, small enough to count again.
_WINDOW = 1024


def cut_points(
    x: Floats, labels: NDArray[np.integer], n_classes: int, weight: Floats | None = None
) -> Floats:
    """Find the cuts of one column, in about the time it takes to sort it.

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
    stack = [_Part(0, len(rows.first) - 1, rows.grid_counts[0], rows.grid_counts[-1])]
    while stack:
        part = stack.pop()
        if part.stop - part.start < 2:  # also every pure part, as neighbouring segments differ in class
            continue
        cut, counts = _largest_gain(rows, part)
        if _shortens(counts - part.below, part.upto - counts):
            cuts.append(cut)
            stack.append(_Part(part.start, cut, part.below, counts))
            stack.append(_Part(cut, part.stop, counts, part.upto))
    right = rows.first[np.sort(np.array(cuts, np.intp))]
    return _between(rows.x[right - 1], rows.x[right])


def assign(x: Floats, cuts: Floats) -> Indices:
    """Number the interval that each value lies in.

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
    labels: NDArray[np.integer]  # (n,)
    weight: Floats | None  # (n,)
    first: Indices  # (n_segments + 1,) first row of each segment, then n
    grid: Indices  # (n_grid,) some of the segments, from 0 to n_segments
    grid_counts: Floats  # (n_grid, n_classes) cases below each of them


class _Part(NamedTuple):
    """Segments start..stop-1, to be cut or left whole."""

    start: int
    stop: int
    below: Floats  # (n_classes,) cases below segment start
    upto: Floats  # (n_classes,) cases below segment stop


def _sort(x: Floats, labels: NDArray[np.integer], n_classes: int, weight: Floats | None) -> _Rows:
    """Bring the rows in order, divide them into segments and tabulate their class counts."""
    keep = ~np.isnan(x) & (labels >= 0)
    if weight is not None:
        # Multiples of one unit, so coarse that all their sums and differences are exact: a class absent from
        # a part counts 0 there, not 1e-17. Whole numbers are multiples already.
        unit = np.spacing(2 * weight.sum())
        weight = np.rint(weight / unit) * unit
        keep &= weight > 0
    order = np.flatnonzero(keep)
    order = order[np.argsort(x[order])]
    x, labels = x[order], labels[order]
    weight = None if weight is None else weight[order]
    first = _segments(x, labels)
    # Tabulate a cut if the segments beside it do not fit into one window: between two such cuts there is one
    # segment, or a window of rows at most.
    apart = first[:-2] // _WINDOW != (first[2:] - 1) // _WINDOW
    grid = np.concatenate(([0], np.flatnonzero(apart) + 1, [len(first) - 1]))
    counts = _class_counts(labels, weight, first[grid], n_classes)
    return _Rows(x, labels, weight, first, grid, np.vstack((np.zeros(n_classes), counts.cumsum(axis=0))))


def _segments(x: Floats, labels: NDArray[np.integer]) -> Indices:
    """Divide sorted rows at the boundary points, the only places where the gain can be largest.

    Two neighbouring values are a boundary point unless all their rows are of one class.
    """
    first = np.concatenate(([0], np.flatnonzero(x[1:] > x[:-1]) + 1, [len(x)]))
    run = np.concatenate(([0], np.cumsum(labels[1:] != labels[:-1])))  # of rows of one class
    boundary = run[first[:-2]] != run[first[2:] - 1]
    return np.concatenate(([0], first[1:-1][boundary], [len(x)]))


def _class_counts(
    labels: NDArray[np.integer], weight: Floats | None, first: Indices, n_classes: int
) -> Floats:
    """Count the cases of each class in rows first[i]..first[i+1]-1, as an array (len(first)-1, n_classes)."""
    rows, m = slice(first[0], first[-1]), len(first) - 1
    cell = np.repeat(np.arange(m) * n_classes, np.diff(first)) + labels[rows]
    counts = np.bincount(cell, None if weight is None else weight[rows], m * n_classes)
    return counts.reshape(m, n_classes).astype(np.float64, copy=False)


def _largest_gain(rows: _Rows, part: _Part) -> tuple[int, Floats]:
    """Find the lowest cut of largest gain: the segment right of it, and the class counts (k,) below it."""
    inside = slice(*np.searchsorted(rows.grid, (part.start + 1, part.stop)))
    edges = np.concatenate(([part.start], rows.grid[inside], [part.stop]))
    counts = np.vstack((part.below, rows.grid_counts[inside], part.upto))
    total = part.upto - part.below
    cuts, at, gain = [edges[1:-1]], [counts[1:-1]], [_gain(counts[1:-1] - part.below, total)]
    bound = np.where(np.diff(edges) > 1, _gain_bound(counts - part.below, total), -np.inf)
    best, rounding = gain[0].max(initial=0), 1e-14 * total.sum()
    for block in np.argsort(-bound):
        if bound[block] < best - rounding:
            break
        segments = np.arange(edges[block], edges[block + 1] + 1)
        within = _class_counts(rows.labels, rows.weight, rows.first[segments], len(total))
        cuts.append(segments[1:-1])
        at.append(counts[block] + within[:-1].cumsum(axis=0))
        gain.append(_gain(at[-1] - part.below, total))
        best = max(best, gain[-1].max())
    cut, tied = np.concatenate(cuts), np.flatnonzero(np.concatenate(gain) >= best - rounding)
    lowest = tied[np.argmin(cut[tied])]
    return int(cut[lowest]), np.concatenate(at)[lowest]


def _split_entropy(part: Floats, whole: Floats) -> Floats:
    """Return whole * Ent(part / whole): what it takes to tell which cases of the whole are in the part."""
    return -(rel_entr(part, whole) + rel_entr(whole - part, whole))


def _gain(left: Floats, total: Floats) -> Floats:
    """Return N Gain of cuts (m,) with class counts left (m, k), out of total (k,).

    The gain is the information that class and side have in common, so it is also what the class tells about
    the side: N Gain = N Ent(n / N) - sum_c N_c Ent(n_c / N_c), n of the N cases being on the left.
    """
    return _split_entropy(left.sum(axis=1), total.sum()) - _split_entropy(left, total).sum(axis=1)


def _gain_bound(left: Floats, total: Floats) -> Floats:
    """Bound N Gain (m,) of all cuts between cuts a and b = a + 1 of the m + 1 cuts left (m + 1, k).

    Ent is concave. So the first term of the gain stays below its tangent (here at the middle n of the block),
    and minus the others below their chords, which sum up to a function linear in the n_c. It is largest where
    each n_c is at one of its ends.
    """
    size, n_cases = left.sum(axis=1), total.sum()
    middle = (size[:-1] + size[1:]) / 2
    slope = np.log((n_cases - middle) / middle)
    tangent = _split_entropy(middle, n_cases) - slope * (middle - size[:-1])
    by_class = _split_entropy(left, total)
    rise = slope[:, None] * np.diff(left, axis=0) - np.diff(by_class, axis=0)
    return tangent - by_class[:-1].sum(axis=1) + np.maximum(rise, 0).sum(axis=1)


def _shortens(left: Floats, right: Floats) -> bool:
    """Apply the MDL rule to a cut with class counts left (k,) and right (k,)."""
    counts = np.stack((left + right, left, right))
    size, present = counts.sum(axis=1), np.count_nonzero(counts, axis=1)
    entropy = entr(counts / size[:, None]).sum(axis=1)
    whole_less_sides = np.array((1, -1, -1))
    gain = whole_less_sides @ (size * entropy)
    log_3k_2 = present[0] * math.log(3) + math.log1p(-2 * 3.0 ** -present[0])
    delta = log_3k_2 - whole_less_sides @ (present * entropy)
    # With fractional weights N - 1 may be less than the one cut there is.
    return bool(gain > math.log(max(size[0] - 1, 1)) + delta)


def _between(low: Floats, high: Floats) -> Floats:
    """Return the middle of low < high, or low if it rounds to high."""
    middle = low / 2 + high / 2  # low + high may overflow
    return np.where(middle < high, middle, low)
