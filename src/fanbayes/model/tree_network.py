"""Networks with arcs between features: what each feature is like by itself, and rows drawn from them."""

from __future__ import annotations

from typing import Any

import numpy as np

from fanbayes.arrays import Floats, Ints
from fanbayes.model.blocks import EstimationOptions
from fanbayes.model.network import Model, Network
from fanbayes.model.tree import TreeLayout


def marginal_network(network: Network) -> Network:
    """The network without arcs whose columns have the same distributions in each cell, one by one.

    That of a discrete column is exact, ``p(v) = sum_u p(u) p(v | u)``. A number's is the normal distribution with its
    mean and variance; where there is a discrete column above it, its own is a mixture of such.
    """
    layout = network.layout
    if not isinstance(layout, TreeLayout):
        return network
    base, n_discrete = layout.base, layout.base.n_discrete
    log_table = np.zeros((int(base.first_level[-1]), network.structure.n_cells))
    moments: dict[int, tuple[Floats, Floats]] = {}  # of each number: mean and variance (n_cells,)
    shares: dict[int, Floats] = {}  # of each discrete column: (n_levels, n_cells)
    for i in layout.tree.order:
        p, first = layout.tree.parent[i], int(layout.first_part[i])
        parts = [network.column(k) for k in range(first, first + int(layout.n_parts[i]))]
        given = shares[p] if 0 <= p < n_discrete else np.ones((1, 1))
        if i < n_discrete:
            shares[i] = sum(w * part.traits()[0] for w, part in zip(given, parts))
            rows = slice(int(base.first_level[i]), int(base.missing_level[i]))
            log_table[rows] = np.log(shares[i] / shares[i].sum(axis=0))
        elif p >= n_discrete:
            (mean,), (variance,) = parts[0].traits(*moments[p])
            moments[i] = mean, variance
        else:
            means, variances = (np.stack(x)[:, 0] for x in zip(*(part.traits() for part in parts)))
            mean = (given * means).sum(axis=0)
            moments[i] = mean, (given * (variances + (means - mean) ** 2)).sum(axis=0)
    options = EstimationOptions(alpha=network.model.options.alpha)
    model = Model(network.structure, base, options)
    written = [log_table]
    for place in model.places:
        numbers = range(place.columns.start, place.columns.stop)
        if place.block.term == "normal":
            written += [np.array([moments[i][k] for i in numbers]) for k in range(2)]
        elif place.block.term == "linear":
            own = next(p for p in network.model.places if p.block.name == place.block.name)
            written.append(network.cells[0, own.rows])
    return model.from_cells(network.factors[:1], np.concatenate(written)[None])


def draw_columns(network: Network, cells: Ints, rng: np.random.Generator) -> list[Floats | Ints]:
    """Codes or standardised numbers (n,) of every column, parents before their children, given the cells (n,)."""

    def uniform(n: int) -> Floats:
        return np.maximum(rng.random(n), 1e-300)

    layout = network.layout
    if not isinstance(layout, TreeLayout):
        of_blocks = [p.block.sample(inner[0], shared[0], cells, rng) for p, inner, shared in network.parts]
        return [values for of_columns in of_blocks for values in of_columns]
    found: dict[int, Floats | Ints] = {}
    for i in layout.tree.order:
        p, first, u = layout.tree.parent[i], int(layout.first_part[i]), uniform(len(cells))
        if p < 0:
            found[i] = network.column(first).quantile(cells, u)
        elif p >= layout.base.n_discrete:
            found[i] = network.column(first).quantile(cells, u, np.asarray(found[p], dtype=np.float64))
        else:
            values: Any = np.zeros(len(cells), dtype=np.intp if i < layout.base.n_discrete else np.float64)
            for level in np.unique(found[p]).tolist():
                rows = found[p] == level
                values[rows] = network.column(first + level).quantile(cells[rows], u[rows])
            found[i] = values
    return [found[i] for i in range(len(found))]
