"""What each value of a row says under a network with arcs between features.

    log p(x | cell) = sum_i log p(x_i | what is known of the columns before it, cell)

with parents before their children. Where all that is above a value is known, its term is log p(x_i | x_pa(i), cell)
alone; where something is missing above, the values below it tell of each other, and the one that comes first has no
more than its own marginal.
"""

from __future__ import annotations

import numpy as np
from scipy.special import softmax, xlogy

from fanbayes.arrays import Floats, Mask
from fanbayes.data.schema import Schema
from fanbayes.data.table import EncodedTable
from fanbayes.learning.tree_data import known_log_states
from fanbayes.model.network import Network
from fanbayes.model.tree import TreeLayout
from fanbayes.model.tree_network import marginal_network

# Points at which the expected information of a number is taken, and how far they reach, in its standard deviations.
_N_POINTS = 97
_REACH = 6.0


def column_log_prob(network: Network, table: EncodedTable) -> Floats:
    """Terms of each column (n_rows, n_columns, n_cells) under the first network, 0 where missing."""
    layout = network.layout
    assert isinstance(layout, TreeLayout)
    n, K = table.n_rows, network.structure.n_cells
    seen = layout.encode(table)
    levels = layout.codes.first_level[:-1] + seen.codes_of_columns()
    parts = network.terms.log_prob(levels, seen.numbers, seen.pairs, np.tile(np.arange(K), (n, 1)))
    # Codes have one part for each discrete column, numbers one for each level of a discrete parent.
    n_codes = layout.base.n_discrete
    feature_of = np.concatenate([layout.columns[:n_codes], layout.feature_of[layout.n_discrete :]])
    found = np.zeros((n, len(layout.columns), K))
    for part, i in zip(np.moveaxis(parts, 1, 0), feature_of.tolist()):
        found[:, i] += part
    holes = layout.holes(table)
    if holes.any():
        found[holes] = _chain(network, table.only(holes))
    return found


def _chain(network: Network, table: EncodedTable) -> Floats:
    """The same, one column after the other becoming known."""
    layout = network.layout
    assert isinstance(layout, TreeLayout)
    structure, n_discrete = network.structure, layout.base.n_discrete
    state = np.array([int(np.argmax(structure.cell_of == k)) for k in range(structure.n_cells)])
    codes, numbers = np.tile(layout.base.n_levels, (table.n_rows, 1)), np.full(table.numbers.shape, np.nan)
    known = table.codes_of_columns()
    found = np.zeros((table.n_rows, len(layout.columns), structure.n_cells))
    before = np.zeros((table.n_rows, structure.n_cells))
    for i in layout.tree.order:
        if i < n_discrete:
            codes[:, i] = known[:, i]
        else:
            numbers[:, i - n_discrete] = table.numbers[:, i - n_discrete]
        after = (known_log_states(layout, codes, numbers, network.terms) - network.log_weight[0])[:, state]
        found[:, i] = after - before
        before = after
    return found


def tree_information_gain(network: Network, schema: Schema, table: EncodedTable, wanted: Mask) -> Floats:
    """I(C; X_i | x) of rows with what they lack (n_rows, n_columns), NaN where not wanted.

    The sum over the levels of a discrete feature is exact; that over a number is taken at points around its mean.
    """
    layout, structure = network.layout, network.structure
    assert isinstance(layout, TreeLayout)
    marginal = marginal_network(network)
    first = np.searchsorted(structure.class_of, np.arange(structure.n_classes))
    gain = np.where(wanted, 0.0, np.nan)
    codes, numbers = table.codes_of_columns(), table.numbers
    share = np.exp(network.log_weight[0])
    for i, j in enumerate(schema.discrete + schema.continuous):
        rows = np.flatnonzero(wanted[:, j])
        if not len(rows):
            continue
        points, weight = _points(marginal, i, i - layout.base.n_discrete, share)
        log_p = []
        for x in points:
            tried, with_x = codes[rows].copy(), numbers[rows].copy()
            if i < layout.base.n_discrete:
                tried[:, i] = x
            else:
                with_x[:, i - layout.base.n_discrete] = x
            log_p.append(known_log_states(layout, tried, with_x, network.terms))
        joint = np.stack(log_p)  # (n_points, n_rows, n_states)
        p = softmax(joint + np.log(weight)[:, None, None], axis=(0, 2))
        of_class = np.add.reduceat(p, first, axis=2)
        prior, of_point = of_class.sum(axis=0), of_class.sum(axis=2)
        terms = xlogy(of_class, of_class).sum(axis=(0, 2)) - xlogy(prior, prior).sum(axis=1)
        gain[rows, j] = np.maximum(terms - xlogy(of_point, of_point).sum(axis=0), 0.0)
    return gain


def _points(marginal: Network, i: int, number: int, share: Floats) -> tuple[Floats, Floats]:
    """Values of a column to sum over, and the weight of each."""
    mean, variance = marginal.column(i).traits()
    if number < 0:
        return np.arange(len(mean), dtype=np.float64), np.ones(len(mean))
    centre = float(mean[0] @ share)
    spread = float(np.sqrt((variance[0] + (mean[0] - centre) ** 2) @ share))
    return centre + spread * np.linspace(-_REACH, _REACH, _N_POINTS), np.ones(_N_POINTS)
