"""Drawing rows from a network."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fanbayes.data.schema import Column, Schema
from fanbayes.model.network import Network


def draw(
    network: Network, schema: Schema, n: int, rng: np.random.Generator
) -> tuple[list[NDArray[Any]], NDArray[np.intp]]:
    """Draw `n` rows: a state by its weight, then each feature given its cell.

    Returns
    -------
    columns : one array (n,) for each column of the schema, in its own unit
    classes : int (n,)
    """
    structure = network.structure
    weight = np.exp(network.log_weight[0])
    states = rng.choice(structure.n_states, n, p=weight / weight.sum())
    cells = structure.cell_of[states]
    columns = []
    for j, column in enumerate(schema.columns):
        if column.kind == "continuous":
            z = np.zeros(n)
            if column.is_informative:
                k = schema.continuous.index(j)
                z = rng.normal(network.mean[0, k, cells], np.sqrt(network.sigma2[0, k, cells]))
            columns.append(column.restore(z))
        else:
            codes = np.zeros(n, dtype=np.intp)
            if column.is_informative:
                first = int(network.layout.first_level[schema.discrete.index(j)])
                p = np.exp(network.log_table[0, first : first + column.n_levels])  # (levels, cells)
                steps = np.cumsum(p, axis=0)[:-1, cells]
                codes = (rng.random(n) > steps).sum(axis=0)
            columns.append(_values(column, codes, rng))
    return columns, structure.class_of[states]


def _values(column: Column, codes: NDArray[np.intp], rng: np.random.Generator) -> NDArray[Any]:
    if column.kind == "discrete":
        levels = np.array([*column.levels, None], dtype=object)
        return levels[codes] if column.levels else np.full(len(codes), None, dtype=object)
    edges = np.array([column.low, *column.cuts, column.high])
    return np.asarray(rng.uniform(edges[codes], edges[codes + 1]))
