"""Cases of each class at each value of a column: what cuts by class entropy are found from, and what adds up.

Cases of equal value and class are one entry, and `MOST_VALUES` values or more are kept as they are. Of several times as
many, neighbours are joined into buckets of about equal weight that stand at the largest of their values. So a rank, the
number of cases up to some value, is never too large, and too small by less than a bucket. What joining may take away
from ranks is counted (`rank_error`), and adds up as the counts do. Nothing is drawn: the same parts, added in the same
order, give the same buckets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fanbayes.arrays import Floats, Mask
from fanbayes.data.mdl import cut_points

MOST_VALUES = 65_536

# Values are joined, to so many buckets, when there are more by this factor: seldom, so that ranks lose less.
_SLACK = 4


@dataclass(frozen=True)
class ClassCounts:
    """Cases by value and class.

    Attributes
    ----------
    x : (n,), NaN where missing
    labels : int (n,), -1 where unlabelled
    weight : (n,), or None where all are 1
    rank_error : float
        Cases by which the number of those up to a value, as told by x, may fall short of the truth.
    """

    x: Floats
    labels: NDArray[np.integer[Any]]
    weight: Floats | None = None
    rank_error: float = 0.0

    def cut_points(self, n_classes: int) -> Floats:
        """Cuts by class entropy, as `mdl.cut_points`."""
        return cut_points(self.x, self.labels, n_classes, self.weight)

    def relabelled(self, place: NDArray[np.integer[Any]]) -> ClassCounts:
        """The same cases, class c called ``place[c]``."""
        labels = np.append(place, -1)[self.labels]  # -1 takes the last entry
        return ClassCounts(self.x, labels, self.weight, self.rank_error)

    def compact(self) -> ClassCounts:
        """One entry for each value and class, and so many values at most."""
        known = (self.labels >= 0) & ~np.isnan(self.x)
        weight = None if self.weight is None else self.weight[known]
        return _together(self.x[known], self.labels[known], weight, self.rank_error)

    def __add__(self, other: ClassCounts) -> ClassCounts:
        parts = (self.compact(), other.compact())
        x, labels = (np.concatenate([getattr(part, name) for part in parts]) for name in ("x", "labels"))
        weight = np.concatenate([np.ones(len(part.x)) if part.weight is None else part.weight for part in parts])
        return _together(x, labels, weight, self.rank_error + other.rank_error)


def _together(x: Floats, labels: NDArray[np.integer[Any]], weight: Floats | None, rank_error: float) -> ClassCounts:
    """Entries in order, those of equal value and class as one; values joined if there are too many."""
    order = np.lexsort((labels, x))
    x, labels = x[order], labels[order]
    cases = np.ones(len(x)) if weight is None else weight[order]
    value = np.cumsum(_begins(x)) - 1  # number of each entry's value
    if len(x) == 0 or value[-1] < _SLACK * MOST_VALUES:
        first = np.flatnonzero(_begins(value) | _begins(labels))
        return ClassCounts(x[first], labels[first], np.add.reduceat(cases, first) if len(x) else cases, rank_error)
    at = np.bincount(value, cases)
    before = np.cumsum(at) - at
    bucket = (before * (MOST_VALUES / at.sum())).astype(np.intp)
    last = np.flatnonzero(_begins(bucket[::-1])[::-1])  # value of each bucket
    lost = before[last] - before[np.flatnonzero(_begins(bucket))]
    stands_at = x[np.flatnonzero(_begins(value))][last][np.cumsum(_begins(bucket)) - 1]  # (n_values,)
    return _together(stands_at[value], labels, cases, rank_error + float(lost.max()))


def _begins(values: NDArray[Any]) -> Mask:
    """Where the next of equal neighbours begin."""
    return np.append(True, values[1:] != values[:-1])[: len(values)]
