"""Exact inference where values are missing, in models with arcs between the features: TAN, and FAN with a tree.

    log p(s, x) = log_weight[s] + sum_i log p(x_i | x_pa(i), cell_of[s])

A missing value with nothing known below it has no factor, as in naive Bayes. One with something known below it is
summed or integrated out by messages up the tree, and its expected statistics are found on the way down (Pearl 1988;
`src/native/tree.cpp`). Every row comes out right; rows without such values are the E-step's, which is much faster.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fanbayes import _native
from fanbayes.arrays import AnyInts, Floats
from fanbayes.learning.e_step import ThreadPool
from fanbayes.model.network import Statistics, Terms

# A block should keep a thread busy for much longer than it takes to hand it over.
_NODES_PER_BLOCK = 20_000
_MOST_BLOCKS = 32


@dataclass(frozen=True)
class Nodes:
    """Columns with arcs between them, and where their parameters lie in `Terms`.

    The discrete nodes in turn have the columns of `codes` (n_rows, n_discrete), the continuous ones those of `numbers`
    (n_rows, n_continuous); missing are the code r_i and NaN.

    Attributes
    ----------
    levels : of each node, r_i; 0 if it is continuous
    parent : the node that is its parent, -1 if it has none; a discrete node has no continuous parent
    place : where its parameters begin
        On the axis of levels those of a discrete node, r_i and one for "missing" for each level of its parent; else
        its numbers, one for each level of a discrete parent; or its regression, if the parent is continuous.
    """

    levels: tuple[int, ...]
    parent: tuple[int, ...]
    place: tuple[int, ...]


def log_states(nodes: Nodes, codes: AnyInts, numbers: Floats, terms: Terms, pool: ThreadPool = None) -> Floats:
    """Log p(s, x) of one network (n_rows, n_states), x the values that are known."""
    tree = _native_tree(nodes, terms)
    cells = tree.log_cells(_int64(codes), numbers, terms.log_table, terms.numeric, terms.regression, pool)
    return np.asarray(terms.log_weight[0] + cells[:, terms.structure.cell_of])


def e_step(
    nodes: Nodes,
    codes: AnyInts,
    numbers: Floats,
    labels: NDArray[np.int32] | None,
    weights: Floats | None,
    terms: Terms,
    hard: bool,
    pool: ThreadPool,
) -> Statistics:
    """Statistics of all rows under each network: expected (8), or of the best state of each row (9) if `hard`.

    In either case values that are missing are expected ones, given the state. What is missing with nothing known below
    it is not counted, also not as "missing".
    """
    tree = _native_tree(nodes, terms)
    *arrays, sums = tree.e_step(
        _int64(codes),
        numbers,
        labels,
        weights,
        terms.structure.native,
        terms.log_weight,
        terms.log_table,
        terms.numeric,
        terms.regression,
        hard,
        _n_blocks(nodes, len(codes), terms),
        pool,
    )
    return Statistics(*arrays, *np.ascontiguousarray(sums.T))


def _native_tree(nodes: Nodes, terms: Terms) -> _native.Tree:
    n_levels, n_numbers, n_regressions = (a.shape[1] for a in (terms.log_table, terms.numeric, terms.regression))
    return _native.Tree(nodes.levels, nodes.parent, nodes.place, n_levels, n_numbers, terms.n_linear, n_regressions)


def _int64(codes: AnyInts) -> NDArray[np.int64]:
    return codes.astype(np.int64, order="C", casting="safe", copy=False)


def _n_blocks(nodes: Nodes, n_rows: int, terms: Terms) -> int:
    """Number of blocks: enough work in each, and no more statistics in all than there are values."""
    work = n_rows * len(nodes.levels)
    of_cell = terms.log_table.shape[1] + 3 * terms.numeric.shape[1] + 6 * terms.regression.shape[1]
    n_statistics: int = of_cell * terms.structure.n_cells
    return min(_MOST_BLOCKS, 1 + work // max(1, n_statistics), 1 + work // _NODES_PER_BLOCK)
