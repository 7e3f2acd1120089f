"""Which arcs between features: the tree, or forest, of largest weight (Chow & Liu 1968; Friedman et al. 1997).

The weight of an arc is what the log-likelihood of the rows gains by it, over the rows where both columns are observed:

    N_ij I(X_i; X_j | S),    I = sum p(x_i, x_j, s) log [ p(x_i, x_j | s) / (p(x_i | s) p(x_j | s)) ]

with rows completed by their states s. For numbers I is that of normal distributions: the entropy that knowing the level
takes away, or -1/2 log(1 - rho_s^2). Variances and correlations have the prior of the Gaussian block, worth a few rows,
without which two rows would determine each other. In a forest, an arc has to pay for its parameters as in the score.

Weights are symmetric, but a discrete column has no continuous parent. Prim's algorithm that takes the discrete columns
first finds the best of the trees that obey this; it needs the weights of one column with those not yet taken at a time,
so that nothing quadratic is kept.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np
from scipy.special import logsumexp, xlogy

from fanbayes import _native
from fanbayes.arrays import Floats, Ints
from fanbayes.data.caching import cached_property, fields_only
from fanbayes.data.storage import pieces
from fanbayes.data.table import EncodedTable, Layout
from fanbayes.learning.data import InMemoryData
from fanbayes.learning.e_step import ThreadPool
from fanbayes.learning.partitioned import PartitionedTable, Parts
from fanbayes.learning.tree_data import posterior
from fanbayes.model.blocks.normal import A, B
from fanbayes.model.network import Network, Statistics, Terms
from fanbayes.model.structure import naive_bayes
from fanbayes.model.tree import MOST_PAIRS, MOST_SELECTED, Tree, TreeLayout

# Responsibilities below this share of a row's largest do not matter for which arcs are the best.
_NEGLIGIBLE = 1e-4

_NUMBERS_AT_ONCE = 1 << 22


class StateRows(Protocol):
    """Rows with their states, known by statistics of one or two columns in each state, which add up."""

    @property
    def layout(self) -> Layout: ...  # noqa: D102
    @property
    def n_states(self) -> int: ...  # noqa: D102
    @property
    def total_weight(self) -> float: ...  # noqa: D102

    def level_counts(self) -> Floats:
        """Cases of each level of the discrete columns (n_levels, n_states), one column after the other."""

    def counts(self, i: int, others: Sequence[int]) -> Floats:
        """Cases of pairs of levels, of a discrete column with others; as `_native.Pairs`, and so are the next."""

    def moments(self, i: int, numbers: Sequence[int]) -> Floats:
        """Cases, sum and sum of squares of numbers at each level of a discrete column."""

    def products(self, k: int, numbers: Sequence[int]) -> Floats:
        """Cases, sums and sums of squares and products of a number and others."""

    def statistics(self, layout: TreeLayout) -> Statistics:
        """Statistics of the columns that are known beside their parents."""


@dataclass(frozen=True)
class CompletedRows:
    """Rows with their states: a row that may be in several is there several times, with its responsibilities.

    Attributes
    ----------
    table : EncodedTable, whose labels are states, of all columns as they are
    n_states : int
    pool : threads
    """

    table: EncodedTable
    n_states: int
    pool: ThreadPool = None

    __getstate__ = fields_only

    @property
    def layout(self) -> Layout:
        """That of the table."""
        return self.table.layout

    @property
    def total_weight(self) -> float:
        """Sum of the weights."""
        return self.table.total_weight

    @cached_property
    def _pairs(self) -> _native.Pairs:
        table, first = self.table, self.layout.first_level.tolist()
        assert table.labels is not None
        rows = (table.narrow, table.wide, table.numbers)
        return _native.Pairs(*rows, first, table.labels, self.n_states, table.weights)

    def level_counts(self) -> Floats:
        """Cases of each level of the discrete columns (n_levels, n_states), one column after the other."""
        table, n, found = self.table, self.n_states, [np.zeros(0)]
        assert table.labels is not None
        for i, n_levels in enumerate(self.layout.n_levels.tolist()):
            counts, codes = np.zeros((n_levels + 1) * n), table.codes_of(i)
            for at in pieces(table.n_rows):
                weights = None if table.weights is None else table.weights[at]
                counts += np.bincount(codes[at].astype(np.int64) * n + table.labels[at], weights, len(counts))
            found.append(counts)
        return np.concatenate(found).reshape(-1, n)

    def counts(self, i: int, others: Sequence[int]) -> Floats:
        """Cases of pairs of levels, of a discrete column with others."""
        return self._pairs.counts(i, others, self.pool)

    def moments(self, i: int, numbers: Sequence[int]) -> Floats:
        """Cases, sum and sum of squares of numbers at each level of a discrete column."""
        return self._pairs.moments(i, numbers, self.pool)

    def products(self, k: int, numbers: Sequence[int]) -> Floats:
        """Cases, sums and sums of squares and products of a number and others."""
        return self._pairs.products(k, numbers, self.pool)

    def statistics(self, layout: TreeLayout) -> Statistics:
        """Statistics of the columns that are known beside their parents."""
        data = InMemoryData(layout.encode(self.table), self.pool)
        return data.e_step(Terms.nothing(naive_bayes(self.n_states), layout))


@dataclass(frozen=True)
class CompletedParts:
    """Completed rows in parts elsewhere: each answers, and the answers add up.

    Attributes
    ----------
    parts : Parts, each CompletedRows
    layout : Layout
    n_states : int
    """

    parts: Parts
    layout: Layout
    n_states: int

    @cached_property
    def total_weight(self) -> float:
        """Sum of the weights."""
        return float(self._ask("total_weight"))

    def level_counts(self) -> Floats:
        """Cases of each level of the discrete columns (n_levels, n_states), one column after the other."""
        return np.asarray(self._ask("level_counts"))

    def counts(self, i: int, others: Sequence[int]) -> Floats:
        """Cases of pairs of levels, of a discrete column with others."""
        return np.asarray(self._ask("counts", i, others))

    def moments(self, i: int, numbers: Sequence[int]) -> Floats:
        """Cases, sum and sum of squares of numbers at each level of a discrete column."""
        return np.asarray(self._ask("moments", i, numbers))

    def products(self, k: int, numbers: Sequence[int]) -> Floats:
        """Cases, sums and sums of squares and products of a number and others."""
        return np.asarray(self._ask("products", k, numbers))

    def statistics(self, layout: TreeLayout) -> Statistics:
        """Statistics of the columns that are known beside their parents."""
        found: Statistics = self._ask("statistics", layout)
        return found

    def _ask(self, what: str, *arguments: Any) -> Any:
        return self.parts.map(_tree_statistics, what, *arguments).sum()


def _tree_statistics(part: CompletedRows, what: str, *arguments: Any) -> Any:
    found = getattr(part, what)
    return found(*arguments) if callable(found) else found


def completed(table: EncodedTable | PartitionedTable, network: Network, pool: ThreadPool) -> StateRows:
    """Rows (not fused) completed by their states under a network of one."""
    if isinstance(table, PartitionedTable):
        parts = table.kept.map(_complete, network).persist()
        return CompletedParts(parts, table.layout, network.structure.n_states)
    return _complete(table, network, pool)


def _complete(table: EncodedTable, network: Network, pool: ThreadPool = None) -> CompletedRows:
    structure, n_states = network.structure, network.structure.n_states
    if structure.n_components == 1 and table.is_labelled:
        return CompletedRows(table, n_states, pool)
    rows, states, weights = [], [], []
    for at in range(0, table.n_rows, 65_536):
        piece = table.only(np.arange(at, min(at + 65_536, table.n_rows)))
        log_p = posterior(network.layout, piece, network.terms, "states", pool)
        if piece.labels is not None:
            other = (piece.labels[:, None] >= 0) & (piece.labels[:, None] != structure.class_of)
            log_p = np.where(other, -np.inf, log_p)
        p = np.exp(log_p - logsumexp(log_p, axis=1, keepdims=True))
        p[p < _NEGLIGIBLE * p.max(axis=1, keepdims=True)] = 0.0
        row, state = np.nonzero(p)
        rows.append(row + at)
        states.append(state)
        weights.append((p / p.sum(axis=1, keepdims=True))[row, state] * piece.case_weights[row])
    labels = np.concatenate([np.zeros(0, dtype=np.int32), *states], dtype=np.int32, casting="same_kind")
    chosen = np.concatenate([np.zeros(0, dtype=np.intp), *rows])
    found = replace(table.only(chosen), labels=labels, weights=np.concatenate([np.zeros(0), *weights]))
    return CompletedRows(found, n_states, pool)


def best_tree(
    rows: StateRows,
    price: float,
    *,
    full: bool,
    root: int | None,
    apart: Mapping[int, int] = MappingProxyType({}),
) -> Tree:
    """The tree of largest weight.

    Parameters
    ----------
    price : what an arc has to gain for each of its parameters
    full : whether columns are joined whatever the price
    root : column to begin with; None: the one that tells most about the state
    apart : columns that are never joined, each with the other one
    """
    weights = _Weights(rows, 0.0 if full else price)
    n_discrete, n = weights.n_discrete, weights.n_columns
    least = -np.inf if full else 0.0
    gain, parent = np.full(n, least), np.full(n, -1, dtype=np.intp)
    left = np.ones(n, dtype=bool)
    about_state = weights.about_state()
    while left.any():
        first = np.flatnonzero(left[:n_discrete])  # discrete columns before numbers
        open_ = first if len(first) else np.flatnonzero(left)
        i = int(open_[np.argmax(gain[open_])])
        if parent[i] < 0:  # nothing to join: a root
            best = int(open_[np.argmax(about_state[open_])])
            i = best if root is None or root not in open_ else root
        left[i] = False
        others = np.flatnonzero(left)
        found = weights.of(i, others)
        if i in apart:
            found[others == apart[i]] = -np.inf
        better = found > gain[others]
        gain[others[better]], parent[others[better]] = found[better], i
    worth = [
        float(gain[j] + weights.cost(i, np.array([j]))[0]) if i >= 0 else 0.0 for j, i in enumerate(parent.tolist())
    ]
    return Tree(tuple(parent.tolist()), tuple(worth))


class _Weights:
    """Weights of arcs, less their price."""

    def __init__(self, rows: StateRows, price: float) -> None:
        layout = rows.layout
        self.rows, self.n_states = rows, rows.n_states
        self.price, self.total_weight = price, rows.total_weight
        self.n_discrete = layout.n_discrete
        self.n_columns = layout.n_discrete + layout.n_numbers
        self.n_levels = layout.n_levels
        self.is_normal = np.array([d == "gaussian" for d in layout.distributions], dtype=bool)

    def about_state(self) -> Floats:
        """N I(X_i; S) of each column (n_columns,): the root's claim."""
        found = np.zeros(self.n_columns)
        first, counts = self.rows.layout.first_level.tolist(), self.rows.level_counts()
        for i, (begin, end) in enumerate(pairwise(first)):
            found[i] = _information(counts[begin : end - 1, :, None])
        for k in np.flatnonzero(self.is_normal).tolist():
            n, x, _, xx, *_ = self.rows.products(k, [k]).reshape(6, -1)
            within, total = _log_likelihood(n, x, xx), _log_likelihood(n.sum(), x.sum(), xx.sum())
            found[self.n_discrete + k] = within.sum() - total
        return found

    def cost(self, i: int, others: Ints) -> Floats:
        """What arcs from a column to others have to gain.

        Beside the price of their parameters log n, as a child has its pick of n parents: among so many arcs that are
        worth nothing, the best one seems to be worth that.
        """
        if self.price == 0:
            return np.zeros(len(others))
        is_number = others >= self.n_discrete
        free = np.where(is_number, 2, np.append(self.n_levels, 0)[np.where(is_number, -1, others)] - 1)
        n_parameters = self.n_states * (1 if i >= self.n_discrete else (self.n_levels[i] - 1) * free)
        return np.asarray(self.price * n_parameters + math.log(self.n_columns) + np.zeros(len(others)))

    def of(self, i: int, others: Ints) -> Floats:
        """Weights of arcs from a column to others; -inf where there can be none."""
        found = np.full(len(others), -np.inf)
        is_number = others >= self.n_discrete
        allowed = np.zeros(len(others), dtype=bool)
        if i < self.n_discrete:
            sizes = self.n_levels[others[~is_number]]
            allowed[~is_number] = (self.n_levels[i] + 1) * (sizes + 1) <= MOST_PAIRS
            allowed[is_number] = self.n_levels[i] <= MOST_SELECTED
        else:
            allowed[is_number] = self.is_normal[i - self.n_discrete]
        allowed[is_number] &= self.is_normal[others[is_number] - self.n_discrete]
        cost = self.cost(i, others)
        if self.price > 0 and i < self.n_discrete:  # what cannot pay need not be counted: I is at most an entropy
            least = np.minimum(self.n_levels[i], self.n_levels[others[~is_number]])
            allowed[~is_number] &= self.total_weight * np.log(least) > cost[~is_number]
        for kind, weigh in ((~is_number, self._discrete), (is_number, self._number)):
            at = np.flatnonzero(kind & allowed)
            if len(at):
                found[at] = weigh(i, others[at])
        return found - cost

    def _discrete(self, i: int, others: Ints) -> Floats:
        """N I(X_i; X_j | S) of discrete columns, those of as many levels at once."""
        found, n_own = np.empty(len(others)), int(self.n_levels[i]) + 1
        sizes = self.n_levels[others] + 1
        for size in np.unique(sizes).tolist():
            alike, each = np.flatnonzero(sizes == size), n_own * size * self.n_states
            step = max(1, _NUMBERS_AT_ONCE // each)
            for at in np.split(alike, range(step, len(alike), step)):
                n = self.rows.counts(i, others[at].tolist()).reshape(len(at), n_own, size, self.n_states)
                found[at] = _information(n[:, :-1, :-1])
        return found

    def _number(self, i: int, others: Ints) -> Floats:
        """What the log-likelihood of numbers gains by a normal distribution a level, or by a regression."""
        numbers = others - self.n_discrete
        if i < self.n_discrete:
            step = max(1, _NUMBERS_AT_ONCE // (3 * (int(self.n_levels[i]) + 1) * self.n_states))
            return np.concatenate([self._by_level(i, at) for at in np.split(numbers, range(step, len(numbers), step))])
        sums = self.rows.products(i - self.n_discrete, numbers.tolist()).reshape(len(others), 6, self.n_states)
        n, p, x, pp, xx, xp = np.moveaxis(sums, 1, 0)
        some = np.maximum(n, 1e-300)
        covariance = xp - x * p / some
        spread = np.maximum(xx - x**2 / some, 0.0) + 2 * B, np.maximum(pp - p**2 / some, 0.0) + 2 * B
        correlation2 = np.minimum(covariance**2 / (spread[0] * spread[1]), 1 - 1e-12)
        return np.asarray(-0.5 * (n * np.log1p(-correlation2)).sum(axis=1))

    def _by_level(self, i: int, numbers: Ints) -> Floats:
        """The same of a discrete column and some numbers."""
        sums = self.rows.moments(i, numbers.tolist())
        n, x, xx = np.moveaxis(sums.reshape(len(numbers), -1, 3, self.n_states)[:, :-1], 2, 0)
        apart = _log_likelihood(n, x, xx).sum(axis=(1, 2))
        return np.asarray(apart - _log_likelihood(n.sum(axis=1), x.sum(axis=1), xx.sum(axis=1)).sum(axis=1))


def _information(n: Floats) -> Floats:
    """N I(X; Y | Z) of counts (..., x, y, z)."""

    def sums(*axes: int) -> Floats:
        total = n.sum(axis=axes, keepdims=True)
        return np.asarray(xlogy(total, total).sum(axis=(-3, -2, -1)))

    return np.asarray(xlogy(n, n).sum(axis=(-3, -2, -1)) + sums(-3, -2) - sums(-3) - sums(-2))


def _log_likelihood(n: Floats, x: Floats, xx: Floats) -> Floats:
    """Log-likelihood, but for constants, of numbers with these sums under their own normal distribution."""
    spread = np.maximum(xx - x**2 / np.maximum(n, 1e-300), 0.0)
    variance = (2 * B + spread) / (n + 2 * A + 3)
    return np.asarray(-0.5 * (n * np.log(variance) + spread / variance))
