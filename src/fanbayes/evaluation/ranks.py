"""Several classifiers over many datasets: mean ranks, and which of them chance does not explain (Demsar 2006)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from fanbayes.arrays import Floats
from fanbayes.evaluation.significance import holm, signed_rank


@dataclass(frozen=True)
class Ranking:
    """Classifiers compared on the same datasets.

    Attributes
    ----------
    ranks : ndarray of shape (n_classifiers,)
        Mean ranks, 1 the best; those that tie share theirs.
    friedman : float
        p-value of Friedman's test that all are alike.
    p_values : ndarray of shape (n_classifiers, n_classifiers)
        Of signed-rank tests, after Holm's correction for all pairs; 1 on the diagonal.
    n_datasets : int
    """

    ranks: Floats
    friedman: float
    p_values: Floats
    n_datasets: int

    def groups(self, level: float = 0.05) -> list[list[int]]:
        """Largest runs of classifiers, in the order of their ranks, no two of which differ with ``p <= level``.

        Groups of one are left out. They may overlap: not to differ is not to be equal.
        """
        order = np.argsort(self.ranks, kind="stable").tolist()
        found: list[list[int]] = []
        end = 0  # of the run before
        for start in range(len(order)):
            run = start + 1
            while run < len(order) and self._alike(order[start : run + 1], level):
                run += 1
            if run > max(end, start + 1):
                found.append(order[start:run])
            end = max(end, run)
        return found

    def _alike(self, members: Sequence[int], level: float) -> bool:
        return bool((self.p_values[np.ix_(members, members)] > level).all())


def mean_ranks(scores: Floats, groups: Sequence[str] | None = None) -> Floats:
    """Mean rank of each classifier (k,) from scores (n_datasets, k), larger being better; 1 is the best."""
    return np.asarray(by_group(_ranks(scores), groups).mean(axis=0))


def ranking(scores: Floats, groups: Sequence[str] | None = None) -> Ranking:
    """Rank classifiers by scores of shape (n_datasets, n_classifiers).

    Larger is better; ``-inf`` where a classifier has failed, which loses to all that have not. Datasets of one of the
    `groups` (n_datasets,) are related, and have one vote together: the means of their ranks and of their gains.
    """
    k = scores.shape[1]
    ranks = by_group(_ranks(scores), groups)
    p_values, pairs = np.ones((k, k)), list(combinations(range(k), 2))
    if pairs:
        votes = [by_group(gains(scores[:, i], scores[:, j]), groups) for i, j in pairs]
        adjusted = holm([signed_rank(vote).p_value for vote in votes])
        for (i, j), p in zip(pairs, adjusted):
            p_values[i, j] = p_values[j, i] = p
    return Ranking(np.asarray(ranks.mean(axis=0)), _friedman(ranks), p_values, len(ranks))


def by_group(values: Floats, groups: Sequence[str] | None) -> Floats:
    """Means over the datasets of each group (n_groups, ...) of values (n_datasets, ...), groups as they first occur.

    Where one classifier has failed on a dataset of the group and the other on another, neither gains.
    """
    if groups is None:
        return values
    names = np.asarray(groups)
    with np.errstate(invalid="ignore"):
        means = np.stack([values[names == name].mean(axis=0) for name in dict.fromkeys(groups)])
    return np.where(np.isnan(means), 0.0, means)


def gains(first: Floats, second: Floats) -> Floats:
    """What the first has more than the second (n,): infinite where one has failed, 0 where both have."""
    alike = first == second
    return np.subtract(first, second, out=np.zeros(len(first)), where=~alike)


def _ranks(scores: Floats) -> NDArray[np.float64]:
    """Ranks within each dataset (n, k); equal within rounding is a tie."""
    return np.asarray(stats.rankdata(-np.round(scores, 9), axis=1))


def _friedman(ranks: Floats) -> float:
    """p-value of Friedman's test, corrected for ties, of ranks (n, k)."""
    n, k = ranks.shape
    spread = float(np.square(ranks - (k + 1) / 2).sum())
    if spread == 0:
        return 1.0
    between = float(np.square(ranks.sum(axis=0) - n * (k + 1) / 2).sum())
    return float(stats.chi2.sf((k - 1) * between / spread, k - 1))
