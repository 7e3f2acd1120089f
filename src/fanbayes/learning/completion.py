"""Missing values filled in, for models that cannot leave them out: rows as weighted complete rows.

What was trained to tell classes apart knows p(c | x) of complete rows. Without some values it is the mean over what
they may be,

    p(c | x_obs) = sum_k w_k p(c | x_obs, x_k),   x_k ~ p(x_mis | x_obs) = sum_s p(s | x_obs) prod_i p(x_i | s)   (M1)

and a generative network knows the latter: its features are independent given the state s. Where all that is missing
is discrete and has few combinations of values, the x_k are all of these, and (M1) is exact under the network. Elsewhere
they are fixed points, a Latin hypercube: the k-th takes the state in the middle of the k-th of so many equal parts of

    q(s) ~ p(s | x_obs) p(c_s | x_obs)^{-1/2}                                                        (M2)

and every feature that is missing the middle of another part of p(x_i | s). Points of a class c share the weight
p(c | x_obs), and by (M2) improbable classes have points as well: where the classes are far apart, a mean without any
would tell that the class is impossible. (Of a class that has none, the weight goes to the others.) The more values a
row lacks, the more levels these have and the more classes are possible, the more points it takes (`n_points`). They are
the same for all rows, so what is predicted of a row depends on that row alone.

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

# Least number of points, and most for the sake of missing values, and of classes. How far predictions are from those
# of 1,024 points, as the mean Kullback-Leibler divergence in thousandths of a nat, beside that of 64 points for all
# rows and no (M2), which took more than twice the time:
#
#     values missing                               1         2         4         8
#     diabetes, glass, credit-g and vehicle     .2  .0    .5  .1    .8  .4   1.4 1.5
#     segment, waveform-21 and kr-vs-kp         .0  .0    .4  .1    .2  .5    .5  .7
#     two classes far apart (simulated)        2.1  .4   1.4 1.2
FEWEST_POINTS, MOST_POINTS, MOST_FOR_CLASSES = 16, 64, 256
# Values and classes that the least number is enough for, and levels of a value that count as one of these.
ENOUGH_FOR, LEVELS = 2, 8
# Of the first 1,000 seeds, those of the least centred discrepancy in 2, 4, 8, 8 and 8 dimensions beside the states.
_SEEDS = {16: 37, 32: 171, 64: 741, 128: 871, 256: 92}
# Share of the cases in which a column is missing from which on it is left out. To fill in everything cost four of ten
# sets with such columns 0.01 to 0.13 in log loss, to leave out everything is what (M1) is for.
OFTEN = 0.05
_CELLS_AT_ONCE = 1 << 22
_LEAST = 1e-300


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
    step = max(1, _CELLS_AT_ONCE // (MOST_FOR_CLASSES * max(1, n_columns)))
    return (rows[at : at + step] for at in range(0, len(rows), step))


def n_points(missing: Mask, n_levels: Ints, of_class: Floats, most: int = MOST_POINTS) -> Ints:
    """How many points stand for each row (n_rows,).

    The effective number of classes is that of Renyi's entropy of order 1/2, which goes with (M2).

    Parameters
    ----------
    missing : (n_rows, n_columns), the discrete ones first
    n_levels : (n_discrete,)
    of_class : p(c | x_obs) (n_rows, n_classes)
    most : for the sake of missing values
    """
    levels = np.where(missing[:, : len(n_levels)], n_levels, 0).max(axis=1, initial=0)
    classes = np.sqrt(of_class).sum(axis=1) ** 2
    for_values = doubled(np.maximum(missing.sum(axis=1), levels / LEVELS), most)
    return np.maximum(for_values, doubled(classes, MOST_FOR_CLASSES))


def doubled(size: Floats, most: int) -> Ints:
    """The least number of points, twice as many for each doubling of the size; what is equal may differ by rounding."""
    doublings = np.ceil(np.log2(np.maximum(size / ENOUGH_FOR, 1.0)) - 1e-6).astype(np.intp)
    return np.minimum(FEWEST_POINTS * 2**doublings, most)


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

    def complete(self, table: EncodedTable, pool: ThreadPool, most: int = MOST_POINTS) -> Completions:
        """Points and weights of (M1) for every row of a table that is not fused; `most` as in `n_points`."""
        network, layout = self.network, table.layout
        missing = missing_cells(table) & self.fills
        states = softmax(posterior(table, network.terms, "states", pool), axis=1)
        class_of = network.structure.class_of
        of_class = np.add.reduceat(states, np.flatnonzero(np.diff(class_of, prepend=-1)), axis=1)
        discrete, continuous = np.split(missing, [layout.n_discrete], axis=1)
        combinations = np.where(discrete, np.log(layout.n_levels), 0.0).sum(axis=1)
        is_exact = ~continuous.any(axis=1) & (combinations < math.log(most + 0.5))
        parts = []
        points = np.where(is_exact, 0, n_points(missing, layout.n_levels, of_class, most))
        for n in np.unique(points[~is_exact]).tolist():
            rows = np.flatnonzero(points == n)
            parts.append(_spread(network, rows, table, missing[rows], states[rows], of_class[rows], n))
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


def middles(n: int) -> Floats:
    """Middles of equal parts of a distribution (n,)."""
    return (np.arange(n) + 0.5) / n


def latin_hypercube(n_missing: int, n: int) -> Floats:
    """Part of its distribution that the first, second ... missing value of a row takes at n points (n_missing, n)."""
    return np.random.default_rng(_SEEDS.get(n, 0)).permuted(np.tile(middles(n), (n_missing, 1)), axis=1)


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


def _spread(
    network: Network, rows: Ints, table: EncodedTable, missing: Mask, states: Floats, of_class: Floats, n: int
) -> Arrays:
    """Points of the Latin hypercube, those of a class of the same weight."""
    layout, class_of = network.layout, network.structure.class_of
    which = np.cumsum(missing, axis=1) - 1  # of the missing values of its row
    middle, parts = middles(n), latin_hypercube(int(which.max()) + 1, n)
    row = np.repeat(np.arange(len(rows)), n)
    tilted = states / np.sqrt(np.maximum(of_class, _LEAST))[:, class_of]  # (M2)
    state = quantile_of(tilted, row, np.tile(middle, len(rows)))
    place = row * of_class.shape[1] + class_of[state]
    weight = of_class.ravel()[place] / np.bincount(place, minlength=of_class.size)[place]
    weight /= np.repeat(np.add.reduceat(weight, np.arange(0, len(weight), n)), n)
    cell = network.structure.cell_of[state]
    codes, numbers = table.codes_of_columns()[rows[row]], table.numbers[rows[row]]
    for j in range(missing.shape[1]):
        at = np.flatnonzero(missing[row, j])
        if len(at):
            values = network.column(j).quantile(cell[at], parts[which[at // n, j], at % n])
            if j < layout.n_discrete:
                codes[at, j] = values
            else:
                numbers[at, j - layout.n_discrete] = values
    return rows[row], weight, codes, numbers
