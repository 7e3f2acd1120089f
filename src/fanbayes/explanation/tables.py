"""Parameters as tables that a person can read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fanbayes.data.frames import interval_names
from fanbayes.data.schema import Column, Schema
from fanbayes.model.network import Network


def feature_parameters(
    network: Network, schema: Schema, feature: str | int, classes: Sequence[Any]
) -> dict[str, list[Any]]:
    """p(x | cell), or mean and variance in the column's own unit, of one feature.

    Returns
    -------
    dict of equally long columns
        "class" and "component" as far as the feature depends on them, then "level" and "probability", or
        "mean" and "variance".
    """
    j = schema.position(feature)
    column = schema[j]
    cells = _cells(network, classes)
    n = network.structure.n_cells
    if column.kind == "continuous":
        mean, variance = np.full(n, column.centre), np.zeros(n)
        if column.is_informative:
            k = schema.place[j]
            with np.errstate(over="ignore"):  # the variance of values near 1e308 is infinite
                mean = column.restore(network.mean[0, k])
                variance = network.sigma2[0, k] * np.exp(2 * column.log_scale)
        return {**cells, "mean": mean.tolist(), "variance": variance.tolist()}
    levels = level_names(column)
    probability = np.ones((len(levels), n))
    if column.is_informative:
        first = int(network.layout.first_level[schema.place[j]])
        probability = np.exp(network.log_table[0, first : first + len(levels)])  # (levels, cells)
    table = {name: [v for v in values for _ in levels] for name, values in cells.items()}
    return {**table, "level": levels * n, "probability": probability.T.ravel().tolist()}


def level_names(column: Column) -> list[Any]:
    """Levels of a discrete column, intervals of a binned one."""
    if column.kind == "discrete":
        return list(column.levels)
    return list(interval_names(column.cuts))


def _cells(network: Network, classes: Sequence[Any]) -> dict[str, list[Any]]:
    """Class and component of each cell, as far as the model has them."""
    structure = network.structure
    state = [int(np.argmax(structure.cell_of == k)) for k in range(structure.n_cells)]
    columns: dict[str, list[Any]] = {}
    if structure.class_of_cell is not None:
        columns["class"] = [classes[structure.class_of[s]] for s in state]
    if len(structure.factors) > 1:
        columns["component"] = [int(structure.component_of[s]) for s in state]
    return columns
