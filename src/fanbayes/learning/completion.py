"""Missing values filled in, for models that cannot leave them out: rows as weighted complete rows.

What was trained to tell classes apart knows p(c | x) of complete rows. Without some values it is the mean over what
they may be,

    p(c | x_obs) = sum_k w_k p(c | x_obs, x_k),   x_k ~ p(x_mis | x_obs) = sum_s p(s | x_obs) prod_i p(x_i | s)   (M1)

and a generative network knows the latter: its features are independent given the state s. Where all that is missing
is discrete and has few combinations of values, the x_k are all of these, and (M1) is exact under the network. Elsewhere
they are `N_POINTS` fixed points of equal weight, a Latin hypercube: the k-th takes the state in the middle of the k-th
of so many equal parts of p(s | x_obs), and every feature the middle of another part of p(x_i | s). The points
are the same for all rows, so what is predicted of a row depends on that row alone.

Not every missing value is filled in. In a column that is often missing in training, members have learnt what to make
of rows without it, and that it is missing may tell something: there it is left out, in training as in prediction.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import softmax

from fanbayes.arrays import Floats, Ints, Mask
from fanbayes.data.schema import Schema
from fanbayes.data.table import EncodedTable, binned_codes
from fanbayes.learning.e_step import ThreadPool, posterior
from fanbayes.model.blocks.categorical import quantile_of
from fanbayes.model.network import Network

Arrays = tuple[Ints, Floats, Ints, Floats]  # row, weight, codes and numbers of completions

# 16 gave log losses up to 0.02 higher on twelve sets with 10 to 60 % of the values deleted, 256 none that were lower
# by more than 0.01.
N_POINTS = 64
# Share of the cases in which a column is missing from which on it is left out. To fill in everything cost four of ten
# sets with such columns 0.01 to 0.13 in log loss, to leave out everything is what (M1) is for.
OFTEN = 0.05
_CELLS_AT_ONCE = 1 << 22


@dataclass(frozen=True)
class Completions:
    """Complete rows that stand for the rows of a table; a row that lacks nothing stands for itself.

    Attributes
    ----------
    row : int (n,), increasing
        Which row each stands for.
    weight : (n,), those of a row sum to one
    codes : int (n, n_discrete)
    numbers : (n, n_numbers), standardised
    schema : the columns of these
    """

    row: Ints
    weight: Floats
    codes: Ints
    numbers: Floats
    schema: Schema

    @property
    def first(self) -> Ints:
        """Where the completions of each row begin (n_rows,)."""
        return np.flatnonzero(np.diff(self.row, prepend=-1))

    def mean(self, p: Floats) -> Floats:
        """(M1): the weighted mean of what is predicted of the completions (n, ...), for each row."""
        return np.add.reduceat(p * self.weight.reshape(-1, *[1] * (p.ndim - 1)), self.first, axis=0)

    def log_mean(self, log_p: Floats) -> Floats:
        """Log of (M1), of log probabilities (n, n_classes)."""
        with np.errstate(divide="ignore"):  # an improbable completion may have weight 0
            return np.logaddexp.reduceat(log_p + np.log(self.weight)[:, None], self.first, axis=0)


def missing_cells(table: EncodedTable) -> Mask:
    """Where a value is missing (n_rows, n_discrete + n_numbers), in a table that is not fused."""
    n_levels, n_narrow = table.layout.n_levels, table.layout.n_narrow
    discrete = (table.narrow == n_levels[:n_narrow], table.wide == n_levels[n_narrow:])
    return np.concatenate([*discrete, np.isnan(table.numbers)], axis=1)


def blocks(rows: Ints, n_columns: int) -> Iterator[Ints]:
    """Rows with missing values, so many at a time that their completions need little memory."""
    step = max(1, _CELLS_AT_ONCE // (N_POINTS * max(1, n_columns)))
    return (rows[at : at + step] for at in range(0, len(rows), step))


def seldom_missing(table: EncodedTable, schema: Schema) -> Mask:
    """Columns whose missing values are filled in (n_discrete + n_numbers,); no indicator is."""
    share = np.einsum("n,nj->j", table.case_weights, missing_cells(table), optimize=False) / table.total_weight
    is_column = np.array([j < len(schema.columns) for j in schema.discrete + schema.continuous], dtype=bool)
    return np.asarray((share < OFTEN) & is_column)


@dataclass(frozen=True)
class Imputer:
    """What is expected of missing values.

    Attributes
    ----------
    network : Network of one
    schema : its columns
    fills : bool (n_discrete + n_numbers,)
        Columns in which missing values are filled in.
    """

    network: Network
    schema: Schema
    fills: Mask

    @property
    def fills_of_columns(self) -> Mask:
        """Which columns of the schema are filled in (n_columns,); False for those without parameters."""
        fills = np.zeros(len(self.schema.columns), dtype=bool)
        for j, filled_in in zip(self.schema.discrete + self.schema.continuous, self.fills.tolist()):
            if j < len(fills):  # no indicator
                fills[j] = filled_in
        return fills

    def complete(self, table: EncodedTable, pool: ThreadPool, n_points: int = N_POINTS) -> Completions:
        """Points and weights of (M1) for every row of a table that is not fused."""
        network, layout = self.network, table.layout
        missing = missing_cells(table) & self.fills
        states = softmax(posterior(table, network.terms, "states", pool), axis=1)
        discrete, continuous = np.split(missing, [layout.n_discrete], axis=1)
        combinations = np.where(discrete, np.log(layout.n_levels), 0.0).sum(axis=1)
        is_exact = ~continuous.any(axis=1) & (combinations < math.log(n_points + 0.5))
        parts = []
        rows = np.flatnonzero(~is_exact)
        if len(rows):
            parts.append(_spread(network, rows, table, missing[rows], states[rows], n_points))
        rows = np.flatnonzero(is_exact)
        patterns, pattern_of = np.unique(discrete[rows], axis=0, return_inverse=True)
        for k, pattern in enumerate(patterns):
            some = rows[pattern_of.ravel() == k]
            parts.append(_all_values(network, some, table, np.flatnonzero(pattern), states[some]))
        row, weight, codes, numbers = (np.concatenate(of_part) for of_part in zip(*parts))
        order = np.argsort(row, kind="stable")
        return Completions(row[order], weight[order], codes[order], numbers[order], self.schema)


def filled(table: EncodedTable, schema: Schema, done: Completions) -> EncodedTable:
    """The rows of a table, encoded by a schema that may bin columns, with the values of their completions."""
    base = done.schema
    out = table.only(done.row)
    narrow, wide, numbers = out.narrow.copy(), out.wide.copy(), out.numbers.copy()
    discrete_at, number_at = ({j: k for k, j in enumerate(places)} for places in (base.discrete, base.continuous))
    for k, j in enumerate(schema.discrete):
        column = schema[j]
        if j >= len(schema.columns):  # an indicator: what is missing stays so
            continue
        codes = narrow[:, k] if k < narrow.shape[1] else wide[:, k - narrow.shape[1]]  # a view
        where = codes == column.n_levels
        if column.kind == "discrete":
            codes[where] = done.codes[where, discrete_at[j]]
        else:
            codes[where] = binned_codes(base[j].restore(done.numbers[where, number_at[j]]), column)
    for k, j in enumerate(schema.continuous):
        where = np.isnan(numbers[:, k])
        numbers[where, k] = done.numbers[where, number_at[j]]
    return replace(out, narrow=narrow, wide=wide, numbers=numbers)


def middles(n_points: int) -> Floats:
    """Middles of equal parts of a distribution (n_points,)."""
    return (np.arange(n_points) + 0.5) / n_points


def latin_hypercube(n_columns: int, n_points: int) -> Floats:
    """Part of its distribution that each column takes at each point (n_columns, n_points), in an order of its own."""
    return np.random.default_rng(0).permuted(np.tile(middles(n_points), (n_columns, 1)), axis=1)


def _all_values(network: Network, rows: Ints, table: EncodedTable, missing: Ints, states: Floats) -> Arrays:
    """All combinations of the values of the missing discrete columns, as probable as they are."""
    sizes = network.layout.n_levels[missing].tolist()
    values = np.indices(sizes).reshape(len(sizes), math.prod(sizes))  # (n_missing, n)
    p = np.ones((network.structure.n_cells, values.shape[1]))
    for j, codes in zip(missing.tolist(), values):
        p *= network.column(j).density()[0][:, codes]
    p = p[network.structure.cell_of]  # (n_states, n)
    weight = np.einsum("rs,sn->rn", states, p, optimize=False)  # the same bits for every number of rows
    weight /= weight.sum(axis=1, keepdims=True)
    row = np.repeat(rows, values.shape[1])
    codes = table.codes_of_columns()[row]
    codes[:, missing] = np.tile(values.T, (len(rows), 1))
    return row, weight.ravel(), codes, table.numbers[row]


def _spread(network: Network, rows: Ints, table: EncodedTable, missing: Mask, states: Floats, n_points: int) -> Arrays:
    """Points of the Latin hypercube, all of the same weight."""
    layout = network.layout
    middle, parts = middles(n_points), latin_hypercube(missing.shape[1], n_points)
    row = np.repeat(np.arange(len(rows)), n_points)
    cell = network.structure.cell_of[quantile_of(states, row, np.tile(middle, len(rows)))]
    codes, numbers = table.codes_of_columns()[rows[row]], table.numbers[rows[row]]
    for j in range(missing.shape[1]):
        at = np.flatnonzero(missing[row, j])
        if len(at):
            values = network.column(j).quantile(cell[at], parts[j, at % n_points])
            if j < layout.n_discrete:
                codes[at, j] = values
            else:
                numbers[at, j - layout.n_discrete] = values
    return rows[row], np.full(len(row), 1.0 / n_points), codes, numbers
