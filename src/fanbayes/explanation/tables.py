"""Parameters as tables that a person can read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fanbayes.arrays import Floats
from fanbayes.data.schema import Schema
from fanbayes.model.blocks.categorical import level_names
from fanbayes.model.network import Network
from fanbayes.model.tree import TreeLayout
from fanbayes.model.tree_network import marginal_network

# Columns that say what a row of a table is about.
_KEYS = ("class", "component", "given", "level")


def feature_parameters(
    network: Network, schema: Schema, feature: str | int, classes: Sequence[Any]
) -> dict[str, list[Any]]:
    """Parameters of one feature, in the column's own unit.

    Returns
    -------
    dict of equally long columns
        "class" and "component" as far as the feature depends on them, "given", the level of its discrete parent if it
        has one, then what its block describes: "level" and "probability", "mean" and "variance", "rate", or
        "intercept", "slope" and "variance" of its regression on a continuous parent; last "missing", the probability
        that it is missing, where that counts.
    """
    j = schema.position(feature)
    column, n = schema[j], network.structure.n_cells
    given: dict[str, list[Any]] = {}
    if column.is_informative:
        parts, given = _parts(network, schema, j)
    elif column.kind == "continuous":
        parts = [{"mean": np.full(n, column.centre), "variance": np.zeros(n)}]
    else:
        parts = [{"level": level_names(column), "probability": np.ones((len(level_names(column)), n))}]
    levels = {"level": parts[0]["level"]} if "level" in parts[0] else {}
    table = _product(_cells(network, classes), given, levels)
    # Of cells, parts and levels: (n_parts, n_levels, n_cells) -> the order of the table.
    table |= {
        name: np.moveaxis(np.stack([part[name] for part in parts]), -1, 0).ravel().tolist()
        for name in parts[0]
        if name != "level"
    }
    if j in schema.indicator_of:
        p = marginal_network(network).column(schema.position_in_layout[schema.indicator_of[j]]).traits()[0][1]
        n_each = len(next(iter(table.values()))) // n
        table["missing"] = np.repeat(p, n_each).tolist()
    return table


def feature_intervals(
    draws: Network, schema: Schema, feature: str | int, classes: Sequence[Any], interval: float
) -> dict[str, list[float]]:
    """Ends of the intervals that hold a share of the draws of one feature's parameters, the same share on both sides.

    Returns
    -------
    dict of equally long columns
        "mean_lower" and "mean_upper" beside "mean" of `feature_parameters`, and so on.
    """
    tables = [feature_parameters(network, schema, feature, classes) for network in draws.each()]
    names = [name for name in tables[0] if name not in _KEYS]
    ends = {name: central_interval(np.array([table[name] for table in tables]), interval) for name in names}
    return {f"{name}_{end}": x.tolist() for name in names for end, x in zip(("lower", "upper"), ends[name])}


def central_interval(draws: Floats, interval: float) -> Floats:
    """Lower and upper end (2, ...) of what a share of the draws (n_draws, ...) is in, in the mean of all sets of draws.

    The position of a quantile is q (n_draws + 1), which leaves out as much on either side as it should.
    """
    tail = (1 - interval) / 2
    return np.asarray(np.quantile(draws, [tail, 1 - tail], axis=0, method="weibull"))


def _parts(network: Network, schema: Schema, j: int) -> tuple[list[dict[str, Any]], dict[str, list[Any]]]:
    """What is known of a column, for each level of its parent if that is discrete; and these levels, as "given"."""
    layout, i = network.layout, schema.position_in_layout[j]
    if not isinstance(layout, TreeLayout) or layout.tree.parent[i] < 0:
        first = int(layout.first_part[i]) if isinstance(layout, TreeLayout) else i
        return [network.column(first).describe(schema[j])], {}
    first, parent = int(layout.first_part[i]), schema[(schema.discrete + schema.continuous)[layout.tree.parent[i]]]
    if parent.kind == "continuous":
        return [network.column(first).describe(schema[j], parent)], {}
    names = level_names(parent)
    return [network.column(first + u).describe(schema[j]) for u in range(len(names))], {"given": names}


def _product(*tables: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Every row of one table beside every row of the next."""
    joined: dict[str, list[Any]] = {}
    for table in tables:
        n = len(next(iter(table.values()), [None])) if table else 1
        m = len(next(iter(joined.values()), [None])) if joined else 1
        joined = {name: [v for v in values for _ in range(n)] for name, values in joined.items()}
        joined |= {name: values * m for name, values in table.items()}
    return joined


def arcs(network: Network, schema: Schema) -> dict[str, list[Any]]:
    """Arcs between features, the strongest first: "feature", "parent" and "weight"."""
    layout = network.layout
    if not isinstance(layout, TreeLayout):
        return {"feature": [], "parent": [], "weight": []}
    names = [schema[j].name for j in schema.discrete + schema.continuous]
    tree = layout.tree
    order = [i for i in np.argsort(-np.array(tree.weight), kind="stable").tolist() if tree.parent[i] >= 0]
    return {
        "feature": [names[i] for i in order],
        "parent": [names[tree.parent[i]] for i in order],
        "weight": [tree.weight[i] for i in order],
    }


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
