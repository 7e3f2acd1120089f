"""Drawing rows from a network."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fanbayes.data.schema import Column, Schema
from fanbayes.model.network import Network
from fanbayes.model.tree_network import draw_columns


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

    n_discrete, n_numbers = len(schema.discrete), len(schema.continuous)
    drawn: list[Any] = draw_columns(network, cells, rng)
    codes, numbers = drawn[:n_discrete], np.array(drawn[n_discrete:]).reshape(n_numbers, n)
    return in_own_units(
        schema, np.array(codes, dtype=np.intp).reshape(n_discrete, n), numbers, rng
    ), structure.class_of[states]


def in_own_units(
    schema: Schema, codes: NDArray[np.intp], numbers: NDArray[np.float64], rng: np.random.Generator
) -> list[NDArray[Any]]:
    """All columns of a schema, each (n,), given codes (n_discrete, n) and numbers (n_numbers, n) of the informative.

    Values are missing where indicators say so.
    """
    n = codes.shape[1]
    columns: list[NDArray[Any]] = []
    for j, column in enumerate(schema.columns):
        if column.kind == "continuous":
            columns.append(column.restore(numbers[schema.place[j]] if column.is_informative else np.zeros(n)))
        else:
            known = codes[schema.place[j]] if column.is_informative else np.zeros(n, dtype=np.intp)
            columns.append(_values(column, known, rng))
    for j, indicator in schema.indicator_of.items():
        is_missing = codes[schema.place[indicator]] == 1
        columns[j][is_missing] = None if schema[j].kind == "discrete" else np.nan
    return columns


def _values(column: Column, codes: NDArray[np.intp], rng: np.random.Generator) -> NDArray[Any]:
    if column.kind == "discrete":
        levels = np.array([*column.levels, None], dtype=object)
        return levels[codes] if column.levels else np.full(len(codes), None, dtype=object)
    edges = np.array([column.low, *column.cuts, column.high])
    low, high, u = edges[codes], edges[codes + 1], rng.random(len(codes))
    return np.asarray(np.clip((1 - u) * low + u * high, low, high))  # high - low may be more than a number holds
