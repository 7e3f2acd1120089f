"""What each value of a row says under a network with arcs between features.

    log p(x | cell) = sum_i log p(x_i | what is known of the columns before it, cell)

with parents before their children. Where all that is above a value is known, its term is log p(x_i | x_pa(i), cell)
alone; where something is missing above, the values below it tell of each other, and the one that comes first has no
more than its own marginal.
"""

from __future__ import annotations

import numpy as np
from scipy.special import softmax, xlogy

from fanbayes.arrays import Floats, Ints, Mask
from fanbayes.data.schema import Schema
from fanbayes.data.table import EncodedTable
from fanbayes.explanation.information import fill
from fanbayes.learning.tree_data import known_log_states
from fanbayes.model.blocks.normal import normal_density
from fanbayes.model.network import Network
from fanbayes.model.tree import TreeLayout

_NUMBERS_AT_ONCE = 1 << 21


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

    Given a state, and the level of the discrete column above it, a number is normal, whatever else is known: so its
    log density at three points tells all, and the integral is taken as for numbers without arcs.
    """
    layout = network.layout
    assert isinstance(layout, TreeLayout)
    gain = np.where(wanted, 0.0, np.nan)
    codes, numbers = table.codes_of_columns(), table.numbers
    for j in np.flatnonzero(wanted.any(axis=0)).tolist():
        i, rows = schema.position_in_layout[j], np.flatnonzero(wanted[:, j])
        if i >= layout.base.n_discrete and schema[j].distribution != "gaussian":  # it has no arcs
            states = softmax(known_log_states(layout, codes, numbers, network.terms), axis=1)
            density, weight = network.column(int(layout.first_part[i])).density()
            fill(gain[:, j], network, states, density[network.structure.cell_of], weight)
            continue
        n_levels = int(layout.base.n_levels[i]) if i < layout.base.n_discrete else 3
        step = max(1, _NUMBERS_AT_ONCE // (n_levels * network.structure.n_states))
        for some in np.split(rows, range(step, len(rows), step)):
            of = _gain_of_level if i < layout.base.n_discrete else _gain_of_number
            gain[some, j] = of(network, layout, codes[some], numbers[some], i)
    return gain


def _gain_of_level(network: Network, layout: TreeLayout, codes: Ints, numbers: Floats, i: int) -> Floats:
    """I(C; X_i | x) (n_rows,) of a discrete column, by a sum over its levels."""
    log_p = []
    for level in range(int(layout.base.n_levels[i])):
        codes[:, i] = level
        log_p.append(known_log_states(layout, codes, numbers, network.terms))
    p = softmax(np.stack(log_p), axis=(0, 2))  # (n_levels, n_rows, n_states)
    first = np.searchsorted(network.structure.class_of, np.arange(network.structure.n_classes))
    of_class = np.add.reduceat(p, first, axis=2)
    prior, of_level = of_class.sum(axis=0), of_class.sum(axis=2)
    terms = xlogy(of_class, of_class).sum(axis=(0, 2)) - xlogy(prior, prior).sum(axis=1)
    return np.asarray(np.maximum(terms - xlogy(of_level, of_level).sum(axis=0), 0.0))


def _gain_of_number(network: Network, layout: TreeLayout, codes: Ints, numbers: Floats, i: int) -> Floats:
    """The same of a number; codes and numbers are spoilt."""
    n_discrete, above = layout.base.n_discrete, layout.tree.parent[i]
    while above >= n_discrete:
        above = layout.tree.parent[above]
    open_ = np.flatnonzero(codes[:, above] == layout.base.n_levels[above]) if above >= 0 else np.zeros(0, dtype=np.intp)
    levels = range(int(layout.base.n_levels[above])) if len(open_) else [0]
    parts = []
    for level in levels:  # a row of which it is known is the same at each, and counts once
        if len(open_):
            codes[open_, above] = level
        parts.append(_normals(network, layout, codes, numbers, i - n_discrete))
        if level > 0:
            parts[-1][0][np.setdiff1d(np.arange(len(codes)), open_)] = -np.inf
    log_weight, mean, variance = (np.concatenate(x, axis=1) for x in zip(*parts))
    class_of = np.tile(network.structure.class_of, len(parts))
    gain = np.empty(len(codes))
    for row, weight in enumerate(softmax(log_weight, axis=1)):
        some = weight > 0
        density, step = normal_density(mean[row, some], variance[row, some])
        joint = np.zeros((network.structure.n_classes, density.shape[1]))
        np.add.at(joint, class_of[some], weight[some, None] * density)
        prior = np.bincount(class_of[some], weight[some], network.structure.n_classes)
        terms = xlogy(joint, joint) - xlogy(joint, prior[:, None]) - xlogy(joint, joint.sum(axis=0))
        gain[row] = max(float(terms.sum(axis=0) @ step), 0.0)
    return gain


def _normals(network: Network, layout: TreeLayout, codes: Ints, numbers: Floats, k: int) -> tuple[Floats, ...]:
    """Log weight, mean and variance (n_rows, n_states) of number k: its log density is a parabola."""
    at = []
    for x in (-1.0, 0.0, 1.0):
        numbers[:, k] = x
        at.append(known_log_states(layout, codes, numbers, network.terms))
    low, middle, high = at
    variance = 1.0 / np.maximum(2 * middle - low - high, 1e-12)
    mean = variance * (high - low) / 2
    return middle + 0.5 * (mean**2 / variance + np.log(variance)), mean, variance
