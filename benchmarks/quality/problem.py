"""What a peer is given, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from calibration import calibrate, log_softmax, mean_loss
from encoding import Kinds
from numpy.typing import NDArray
from settings import INNER, tuning_seconds
from sklearn.model_selection import StratifiedKFold

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]
S = TypeVar("S")


@dataclass(frozen=True)
class Problem:
    """The training part: its table (n, n_columns), classes (n,) as codes from 0, and the kinds of its columns."""

    kinds: Kinds
    X: pd.DataFrame
    y: Rows

    @property
    def n_classes(self) -> int:
        """Classes that the training part has."""
        return int(self.y.max()) + 1

    @cached_property
    def splits(self) -> list[tuple[Rows, Rows]]:
        """Rows to fit and rows to check on, the same for all peers.

        Stratified, so that the members of a class with fewer members than folds lie in different folds, and every
        fit knows the class. The one member of a class is always fitted and never checked on. Where no class has
        enough members, there are fewer folds.
        """
        counts = np.bincount(self.y)
        alone = np.flatnonzero(counts[self.y] == 1)
        others = np.flatnonzero(counts[self.y] > 1)
        n_folds = next((n for most, n in INNER.items() if len(self.y) <= most), None)
        splitter = StratifiedKFold(min(n_folds or 5, counts.max()), shuffle=True, random_state=0)
        found = [(np.sort(np.r_[others[a], alone]), others[b]) for a, b in splitter.split(others, self.y[others])]
        return found if n_folds else found[:1]

    @property
    def tuning_seconds(self) -> float:
        """Seconds of the processor that a booster may search for."""
        return tuning_seconds(*self.X.shape, self.n_classes)


@dataclass(frozen=True)
class Fitted:
    """A peer that has learnt.

    Attributes
    ----------
    scores : callable
        Of a table, logarithms of probabilities, or what takes their place before calibration (n, n_classes).
    held_out : ndarray of shape (n_train, n_classes)
        The same of training rows that were not fitted; NaN where there are none.
    chosen : mapping
        What was tuned, for the record.
    """

    scores: Callable[[pd.DataFrame], Floats]
    held_out: Floats
    chosen: dict[str, Any]


Peer = Callable[[Problem], Fitted]


def empty(problem: Problem) -> Floats:
    """A table of scores (n_train, n_classes) with nothing in it yet."""
    return np.full((len(problem.y), problem.n_classes), np.nan)


def grid_search(
    problem: Problem, candidates: Sequence[S], scores: Callable[[S, Rows, Rows], Floats], *, offsets: bool = False
) -> tuple[S, Floats]:
    """The candidate with the lowest log loss of held-out rows after calibration, and its scores of them.

    `scores` fits a candidate to some rows and gives scores of others.
    """
    tables = []
    for candidate in candidates:
        table = empty(problem)
        for train, valid in problem.splits:
            table[valid] = scores(candidate, train, valid)
        tables.append(table)
    best = int(np.argmin([calibrated_loss(table, problem.y, offsets=offsets) for table in tables]))
    return candidates[best], tables[best]


def calibrated_loss(held_out: Floats, y: Rows, *, offsets: bool = False) -> float:
    """Log loss of held-out rows, after their calibration."""
    some = ~np.isnan(held_out).any(axis=1)
    return mean_loss(calibrate(held_out[some], y[some], offsets=offsets)(held_out[some]), y[some])


def log_of(proba: Floats) -> Floats:
    """Logarithms of probabilities, none of them below 1e-15."""
    return log_softmax(np.log(np.maximum(proba, 1e-15)))
