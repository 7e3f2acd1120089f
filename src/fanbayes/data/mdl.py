"""Cut points that tell the classes apart: entropy with the MDL stopping rule (Fayyad & Irani 1993).

A set S of N cases from k classes is cut into S1 and S2 where the gain is largest, and so are these in their
turn, as long as the cut shortens the description of the classes:

    Gain > (log2(N - 1) + Delta) / N
    Gain = Ent(S) - |S1|/N Ent(S1) - |S2|/N Ent(S2)
    Delta = log2(3^k - 2) - [k Ent(S) - k1 Ent(S1) - k2 Ent(S2)]

with k, k1 and k2 the numbers of classes present in S, S1 and S2. The search is native (`src/native/mdl.cpp`).
"""

import numpy as np
from numpy.typing import NDArray

from fanbayes import _native
from fanbayes.arrays import Floats

Integers = NDArray[np.integer]


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
    keep = ~np.isnan(x) & (labels >= 0)
    if weight is not None:
        keep &= weight > 0
    order = np.argsort(np.where(keep, x, np.nan))[: np.count_nonzero(keep)]  # NaN comes last
    x = x[order]
    right = _native.cut_rows(x, labels[order].astype(np.int32), None if weight is None else weight[order], n_classes)
    return _between(x[right - 1], x[right])


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


def _between(low: Floats, high: Floats) -> Floats:
    """Halve the way from low to high, staying below high."""
    middle = low / 2 + high / 2  # where low + high might overflow
    return np.where(middle < high, middle, low)
