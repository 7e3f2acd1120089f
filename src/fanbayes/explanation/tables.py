"""Parameters as tables that a person can read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fanbayes.data.schema import Schema
from fanbayes.model.blocks.categorical import level_names
from fanbayes.model.network import Network


def feature_parameters(
    network: Network, schema: Schema, feature: str | int, classes: Sequence[Any]
) -> dict[str, list[Any]]:
    """Parameters of one feature, in the column's own unit.

    Returns
    -------
    dict of equally long columns
        "class" and "component" as far as the feature depends on them, then what its block describes: "level" and
        "probability", "mean" and "variance", "rate".
    """
    j = schema.position(feature)
    column, n = schema[j], network.structure.n_cells
    if column.is_informative:
        found = network.column(schema.position_in_layout[j]).describe(column)
    elif column.kind == "continuous":
        found = {"mean": np.full(n, column.centre), "variance": np.zeros(n)}
    else:
        found = {"level": level_names(column), "probability": np.ones((len(level_names(column)), n))}
    table = _cells(network, classes)
    if "level" in found:
        levels = found.pop("level")
        table = {name: [v for v in values for _ in levels] for name, values in table.items()}
        table["level"] = levels * n
    return table | {name: np.transpose(values).ravel().tolist() for name, values in found.items()}


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
