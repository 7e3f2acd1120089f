"""Types of the native core (src/native/module.cpp)."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

class RawColumns:
    """Columns of numbers, one-dimensional arrays of any stride, that are read in blocks of rows together."""

    def __init__(self, columns: Sequence[NDArray[Any]]) -> None: ...
    def summarise(self, weight: Floats | None) -> list[tuple[int, bool, bool, float, float, int, float, float, float]]:
        """Return (n_missing, has_infinity, is_integral, low, high, exponent, weight, mean, squares) of each column.

        Weight is that of the observed values, mean and squares the weighted mean of x * 2**-exponent and the weighted
        sum of squared deviations from it.
        """

    def standardise(
        self,
        exponent: Sequence[int],
        mean: Sequence[float],
        scale: Sequence[float],
        place: Sequence[int],
        out: Floats,
    ) -> list[bool]:
        """Fill columns `place` of `out` with (x * 2**-exponent - mean) / scale; tell which have infinity."""

    def look_up(
        self,
        keys: Sequence[NDArray[np.int64]],
        codes: Sequence[NDArray[np.uint16]],
        place: Sequence[int],
        out: NDArray[np.uint8] | NDArray[np.uint16],
    ) -> None:
        """Fill columns `place` of `out` with codes[k] where x == keys[k], with len(keys) where it is none of them.

        The keys of a column increase. What it takes beside is not more than the rows and the keys do.
        """

    def distinct(self, low: Sequence[int], span: Sequence[int]) -> list[list[int]]:
        """Return the integers from `low` to `low + span - 1` that occur, for each column."""

class Rows:
    """An encoded table; checks on construction that every code lies within its column.

    A narrow code may stand for a group of columns, `group[g]` to `group[g + 1] - 1`, the first of them the most
    significant digit.
    """

    def __init__(
        self,
        narrow: NDArray[np.uint8],
        wide: NDArray[np.uint16],
        numbers: Floats,
        pairs: Floats | None,  # (rows, regressions, 2): response and regressor, both NaN where missing
        first_level: Sequence[int],
        group: Sequence[int],
        labels: NDArray[np.int32] | None,
        weights: Floats | None,
    ) -> None: ...
    n_rows: int
    n_levels: int  # of all codes

class Pairs:
    """Statistics of pairs of columns within states: blocks of float64, one for each other column, in one flat array.

    A row has one state and one weight; whoever has responsibilities repeats it for every state. Columns are numbered
    among the discrete ones (narrow, then wide) or among the numbers. The last level of a discrete column is "missing"
    and is counted like any other, so that every marginal of the available cases can be had by summation. The columns
    are copied, one after the other; threads share the other columns, and their number changes no bit.

    `columns` are the other columns, all if None. Memory of an answer: the sum of the blocks, 8 bytes a number.
    """

    def __init__(
        self,
        narrow: NDArray[np.uint8],  # (rows, a)
        wide: NDArray[np.uint16],  # (rows, b)
        numbers: Floats,  # (rows, m), NaN = missing
        first_level: Sequence[int],  # (a + b + 1,), "missing" included
        states: NDArray[np.int32],  # (rows,), 0 .. n_states - 1
        n_states: int,
        weights: Floats | None,  # (rows,); None: all 1
    ) -> None: ...
    def counts(self, v: int, columns: Sequence[int] | None = None, pool: ThreadPool | None = None) -> Floats:
        """Weights of (x_v, x_j, state), discrete v and j: blocks (levels of v, levels of j, n_states).

        Block j of `counts(v)`, all columns, begins at ``levels_v * n_states * first_level[j]``.
        """

    def moments(self, v: int, columns: Sequence[int] | None = None, pool: ThreadPool | None = None) -> Floats:
        """N, sum x_j, sum x_j^2 of the rows that have x_j, discrete v, number j: blocks (levels of v, 3, n_states)."""

    def products(self, v: int, columns: Sequence[int] | None = None, pool: ThreadPool | None = None) -> Floats:
        """N, sum x_v, x_j, x_v^2, x_j^2 and x_v x_j of the rows that have both numbers: blocks (6, n_states)."""

def split_losses(
    levels: NDArray[np.int32],  # (cases, columns), on the flat axis of all levels
    labels: NDArray[np.int32],  # (cases,)
    folds: NDArray[np.int32],  # (cases,), which holds each out
    weights: Floats,  # (cases,)
    first_level: Sequence[int],  # (columns + 1,), "missing" included
    pseudo_levels: Floats,  # (folds, levels, classes), added to the counts; 0 where a level cannot be
    pseudo_classes: Floats,  # (folds, classes)
    splits: Sequence[tuple[int, int]],  # column and threshold; -1, -1: none; threshold -1: a branch for each level
    loss: str,  # "error" or "log_loss"
    least: float,  # cases a branch in the mean
    pool: ThreadPool | None = None,
) -> list[float]:
    """Sums of the losses of cases, predicted by naive Bayes of their branch without their fold, one for each split.

    Infinite where a split has fewer than two branches, or too few cases for them. A case whose value is missing is in
    all branches, by their shares of the weights of the others.
    """

class Centres:
    """Centres of kernels, those of a class together (kernel.hpp).

    A column adds to log r(x, m), of row x and centre m the ratio of kernel and background, ``k + b x^2 - a (x - m)^2``
    (`numbers`), or `same` where both have the level, else `other`; nothing where one of them lacks it. A row is
    without the centres of its own `kind`, of which only `kept` counts; kind -1: without none.
    """

    def __init__(
        self,
        values: Floats,  # (columns, centres): numbers, then codes, NaN = missing
        n_numbers: int,
        first_level: Sequence[int],  # (discrete columns + 1,)
        first_centre: Sequence[int],  # (classes + 1,)
        share: Floats,  # (centres,), positive
        kept: Floats,  # (centres,), what is left of it for rows of the same kind
        kind: NDArray[np.int32],  # (centres,), 0 .. n_kinds - 1
        n_kinds: int,
        prior: Sequence[float],  # (classes,), positive
    ) -> None: ...
    def log_joint(
        self,
        values: Floats,  # (rows, columns)
        kind: NDArray[np.int32],  # (rows,)
        numbers: Floats,  # (numbers, 3): a, b, k
        same: Floats,  # (levels,)
        other: Floats,  # (discrete columns,)
        log_background: float,
    ) -> Floats:
        """Log of prior[c] (background + mean of r over the centres of c), (rows, classes)."""

    def loss(
        self,
        values: Floats,
        kind: NDArray[np.int32],
        numbers: Floats,
        same: Floats,
        other: Floats,
        log_background: float,
        labels: NDArray[np.int32],  # (rows,)
        weights: Floats,  # (rows,)
        noise: float,
    ) -> tuple[float, Floats, Floats, Floats, float]:
        """Sum of -log((1 - noise) p(y | x) + noise p(y)), and its derivatives by the terms and `log_background`."""

def grow_forest(
    codes: NDArray[np.uint8],  # (columns, cases), the last code of a column is "missing"
    labels: NDArray[np.int32],  # (cases,)
    weights: Floats,  # (cases,)
    parts: NDArray[np.int32],  # (groups, cases), which of the three trees of a group leaves each out
    n_codes: Sequence[int],  # (columns,), "missing" not counted
    is_ordered: Sequence[int],  # (columns,), whether codes are cut by their order
    level: NDArray[np.uint8],  # (columns, 64), of each code in the networks
    n_levels: Sequence[int],  # (columns,), "missing" not counted
    prior: Sequence[float],  # (classes,)
    min_split: float,  # least cases of a node that is split
    min_network: float,  # and of one that has a network of its own
    n_known: int,  # columns that the networks of a tree know
    seed: int,
    pool: ThreadPool | None,
) -> tuple[NDArray[Any], ...]:
    """Grow trees with naive Bayes in the nodes: the arrays of `Trees`, and what they say of the cases left out.

    The values of nodes are of shape (nodes, 3, classes), the last array is of shape (cases, 5, classes), means
    over trees.
    """

def grow_boosted(
    codes: NDArray[np.uint8],  # (columns, cases), the last code of a column is "missing"
    labels: NDArray[np.int32],  # (cases,)
    weights: Floats,  # (cases,)
    units: NDArray[np.int32],  # (cases,), those of a unit are drawn together
    parts: NDArray[np.int32],  # (cases,), which sequence leaves each out
    n_parts: int,
    n_codes: Sequence[int],  # (columns,), "missing" not counted
    is_ordered: Sequence[int],  # (columns,), whether codes are cut by their order
    level: NDArray[np.uint8],  # (columns, 64)
    n_levels: Sequence[int],  # (columns,)
    prior: Sequence[float],  # (classes,)
    ends: Sequence[int],  # (5,) at most, rounds at the end of each stage
    depth: int,  # most steps from the root to a leaf
    rate: float,
    shrinkage: float,
    min_cases: float,  # least cases of a node
    share: float,  # of the cases of a sequence, that a tree is grown on
    n_tried: int,  # columns that a node takes the best of
    seed: int,
    pool: ThreadPool | None,
) -> tuple[NDArray[Any], ...]:
    """Grow sequences of boosted trees: first nodes, stages, columns, right ones, codes to either side, and values.

    The values of nodes are of shape (nodes, classes); the last array is of shape (cases, 5, classes), what the trees
    of a stage add for a case that they have left out.
    """

def tree_weights(
    components: NDArray[np.float32],  # (cases, 5, classes)
    labels: NDArray[np.int32],  # (cases,)
    weights: Floats,  # (cases,)
    folds: NDArray[np.int32],  # (cases,)
    n_folds: int,
    log_prior: Sequence[float],  # (classes,)
    usual: Sequence[float],  # (5,), towards which they are shrunk
    scale: Sequence[float],  # (5,), by how much they may differ from these
    pool: ThreadPool | None,
) -> Floats:
    """Weights of the components that predict the labels best (1 + n_folds, 5): by all cases, and without each fold."""

class Forest:
    """Trees that predict (`learning/ensembles/coded_trees.py`); checks on construction that no path leaves a tree."""

    def __init__(
        self,
        first_node: NDArray[np.int64],
        first_number: NDArray[np.int64],
        column: NDArray[np.int32],
        right: NDArray[np.int32],
        network: NDArray[np.int32],
        to_left: NDArray[np.uint64],
        to_right: NDArray[np.uint64],
        values: NDArray[np.float32],
        known: NDArray[np.int32],
        tables: NDArray[np.float32],
        n_codes: Sequence[int],
        level: NDArray[np.uint8],
        n_levels: Sequence[int],
    ) -> None: ...
    def scores(self, codes: NDArray[np.uint8], pool: ThreadPool | None) -> Floats:
        """Sum over the trees (rows, classes), of codes (rows, columns)."""

    def terms(self, codes: NDArray[np.uint8], pool: ThreadPool | None) -> Floats:
        """The same by column (rows, columns, classes)."""

class States:
    """The states (c, h) of a structure; `first_state` has one entry more than there are classes.

    `common`: whether component h of one class is that of another.
    """

    def __init__(self, first_state: Sequence[int], first_cell: Sequence[int], n_cells: int, common: bool) -> None: ...

class ThreadPool:
    """Threads that share the blocks of a call, the caller one of them; they end with the object.

    Where the system refuses threads there are fewer, and in a process that was forked there is the caller alone.
    """

    def __init__(self, n_threads: int) -> None: ...
    n_threads: int

class Tree:
    """Exact inference where values are missing, in a forest of arcs between the nodes; checked on construction.

    `levels` of each node, 0 for a number; `parent`, -1 for none, continuous for continuous nodes alone; `place` of its
    parameters: the first entry in the log table, the first number, or the regression. Codes and numbers have a column
    for each discrete and each continuous node, in their order; missing are the code `levels` and NaN.
    """

    def __init__(
        self,
        levels: Sequence[int],
        parent: Sequence[int],
        place: Sequence[int],
        n_levels: int,
        n_numbers: int,
        n_linear: int,  # the last of the numbers, whose terms are linear
        n_regressions: int,
    ) -> None: ...
    def log_cells(
        self,
        codes: NDArray[np.int64],
        numbers: Floats,
        log_table: Floats,
        numeric: Floats,
        regression: Floats,
        pool: ThreadPool | None = None,
    ) -> Floats:
        """Return log p(x | cell) (rows, cells) of one network."""

    def e_step(
        self,
        codes: NDArray[np.int64],
        numbers: Floats,
        labels: NDArray[np.int32] | None,
        weights: Floats | None,
        states: States,
        log_weight: Floats,  # (networks, states)
        log_table: Floats,  # (networks, levels, cells)
        numeric: Floats,  # (networks, numbers, 3, cells): slope, intercept, log_norm
        regression: Floats,  # (networks, regressions, 4, cells): slope, intercept, log_norm, coefficient
        hard: bool,
        n_blocks: int = 1,
        pool: ThreadPool | None = None,
    ) -> tuple[Floats, Floats, Floats, Floats]:
        """Return statistics of states, cells and classes, and three sums of log p (networks, 3).

        The statistics of cells (networks, levels + 3 numbers + 6 regressions, cells) are expected counts, then for each
        number N, sum x and sum x^2, then for each regression of x on p N, sum x, sum x^2, sum p, sum p^2 and sum x p.
        """

class MStep:
    """How parameters are estimated: columns, factors of the states' weights (entry, parent), and the prior.

    Parameters of n networks are three arrays: `factors` (n, entries), log probabilities of all factors one after the
    other; `cells` (n, rows, n_cells), log probabilities of all levels, then means and, where no cells share them,
    variances; `shared` (n, n_numbers * n_groups), variances that groups of cells share, or nothing.
    """

    def __init__(
        self,
        factors: Sequence[tuple[Sequence[int], Sequence[int]]],
        n_cells: int,
        alpha: float,
        first_level: Sequence[int] = ...,
        n_numbers: int = 0,
        estimator: Literal["map", "paper"] = "map",
        floor: float = 1.0,
        group: Sequence[int] = ...,  # of cells that share a variance, increasing; empty: none do
        prior: Sequence[float] = ...,  # kappa, a, b, and the fewest observations for (7)
    ) -> None: ...
    def estimate(self, states: Floats, cells: Floats) -> tuple[Floats, Floats, Floats]:
        """Return factors, cells and shared that maximise the posterior, given statistics as of `e_step`."""

    def log_prior(self, factors: Floats, cells: Floats, shared: Floats) -> Floats:
        """Return the log prior density of the parameters (n,); for "paper" that of the multinomials alone."""

def run_em(
    rows: Rows,
    states: States,
    m_step: MStep,
    factors: Floats,
    cells: Floats,
    shared: Floats,
    statistics_states: Floats,
    statistics_cells: Floats,
    class_log_likelihood: Floats,
    objective: Floats,  # (networks,)
    gain: Floats,  # (networks,)
    reach: Floats,  # (networks,)
    n_passes: int,
    least_gain: float,
    accelerate: bool,
    hard: bool,
    n_blocks: int = 1,
    pool: ThreadPool | None = None,
) -> tuple[Floats, Floats, Floats, Floats, Floats, Floats, Floats, Floats, Floats]:
    """Run EM on from parameters and their statistics, until no network gains more than `least_gain` in a step.

    Returns the parameters (factors, cells, shared), their statistics (states, cells, class_log_likelihood, sums),
    objective, gain and reach (3, networks), and objective and number of rows of each pass (2, networks, passes).
    """

def rows_visited() -> int:
    """Return how many rows E-steps have taken since the start, once for each network."""

def e_step(
    rows: Rows,
    states: States,
    log_weight: Floats,  # (networks, states)
    log_table: Floats,  # (networks, levels, cells)
    numeric: Floats,  # (networks, numbers, 3, cells): slope, intercept, log_norm
    n_linear: int,  # the last of the numbers, whose terms are linear
    regression: Floats,  # (networks, regressions, 4, cells): slope, intercept, log_norm, coefficient
    hard: bool,
    n_blocks: int = 1,
    pool: ThreadPool | None = None,
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return statistics of states, cells and classes, and three sums of log p, each of every network.

    Of a number, log p(x | cell) is log_norm - (slope x + intercept)^2 (normal) or log_norm + slope x (linear), of a
    pair it is log_norm - (slope x + coefficient p + intercept)^2; a missing one has no factor. The statistics of cells
    (networks, levels + 3 numbers + 6 regressions, cells) are counts of the levels, then for each number N, sum x and
    sum x^2, then for each pair N, sum x, sum x^2, sum p, sum p^2 and sum xp; class_log_likelihood is (networks,
    classes), sums (3, networks): log-likelihood, joint, classification.
    """

def contrast(
    rows: Rows,
    states: States,
    log_weight: Floats,
    log_table: Floats,
    numeric: Floats,
    n_linear: int,
    regression: Floats,
    n_blocks: int = 1,
    pool: ThreadPool | None = None,
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return what `e_step` of the labelled rows finds less what it finds of the same without their labels, in one pass.

    The first of the sums is the conditional log-likelihood, and class_log_likelihood that of each class; the two other
    sums have no meaning.
    """

def fine_tune(
    rows: Rows,
    states: States,
    log_weight: Floats,
    log_table: Floats,
    numeric: Floats,
    n_linear: int,
    regression: Floats,
    factors: Sequence[tuple[Sequence[int], Sequence[int]]],  # entry, parent
    strengths: Sequence[float],
    tolerance: float,
    most_steps: int,
    n_blocks: int = 1,
    pool: ThreadPool | None = None,
) -> tuple[Floats, Floats]:
    """Return the steps of one network that maximise sum_l w_l log p(c_l | x_l) - strength / 2 |steps|^2.

    For each strength in turn, from the steps of the one before: steps of the log factors (strengths, entries), and
    (strengths, steps, cells) of the log table, of the means of normal numbers, in standard deviations, and of the
    intercepts and the slopes of regressions.
    """

def posterior(
    rows: Rows,
    states: States,
    log_weight: Floats,
    log_table: Floats,
    numeric: Floats,
    n_linear: int,
    regression: Floats,
    what: Literal["log_joint", "log_proba", "proba", "states"],
    out: Floats,
    n_blocks: int = 1,
    pool: ThreadPool | None = None,
) -> None:
    """Fill `out`, (rows, classes) or for "states" (rows, states), of one network."""

def star_width(n_classes: int) -> int:
    """Return how many numbers the classes take up in the tables of `star_posterior`; those beyond them are 0."""

def star_posterior(
    rows: Rows,
    first_level: Sequence[int],  # (columns + 1,), "missing" included
    root: Floats,  # (levels, width)
    pair: Floats,  # (pairs, width): for each column (its levels, levels of all columns behind it), one after the other
    part: NDArray[np.uint8],  # (levels,) 0: a star with this root takes no part; 1: it does; 2: its root is summed out
    independent: Floats,  # (levels, width)
    prior: Floats,  # (width,)
    what: Literal["log_joint", "log_proba", "proba"],
    out: Floats,
    n_blocks: int = 1,
    pool: ThreadPool | None = None,
) -> None:
    """Fill `out` (rows, classes): the log of the mean of the stars that take part in each row, or what follows from it.

    log p_i(c, x) = root[x_i] + sum_j pair[x_i, x_j]. A row in which no star takes part has
    prior + sum_j independent[x_j].
    """

def cut_rows(
    x: Floats,  # increasing
    labels: NDArray[np.int32],
    weights: Floats | None,  # positive
    n_classes: int,
) -> NDArray[np.int64]:
    """Return the rows right of the cuts of a column, increasing."""

def normal_scores(numbers: Floats, knots: Floats, furthest: float) -> Floats:
    """Return the scores (rows, numbers), linear between knots (numbers, 2, knots), within +-furthest; NaN stays."""

def mix(numbers: Floats, mixing: Floats) -> Floats:
    """Return numbers @ mixing; NaN counts as 0 for the others and stays where it is."""

def exp(x: Floats) -> Floats: ...
def log(x: Floats) -> Floats: ...
def backend() -> str:
    """Return the instruction set in use."""

def backends() -> list[str]:
    """Return the instruction sets of this machine, best last."""

def use_backend(name: str) -> None:
    """Use another of `backends()`."""
