"""Drawing rows from a network."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fanbayes.data.schema import Column, Schema
from fanbayes.model.network import Network


def draw(
    network: Network,
    schema: Schema,
    n: int,
    rng: np.random.Generator,
    mixing: NDArray[np.float64] | None = None,
) -> tuple[list[NDArray[Any]], NDArray[np.intp]]:
    """Draw `n` rows: a state by its weight, then each feature given its cell.

    Parameters
    ----------
    mixing : (n_numbers, n_numbers), optional
        How continuous columns were mixed before the network saw them; undone here.

    Returns
    -------
    columns : one array (n,) for each column of the schema, in its own unit
    classes : int (n,)
    """
    structure = network.structure
    weight = np.exp(network.log_weight[0])
    states = rng.choice(structure.n_states, n, p=weight / weight.sum())
    cells = structure.cell_of[states]
    numbers = rng.normal(network.mean[0][:, cells], np.sqrt(network.sigma2[0][:, cells]))  # (n_numbers, n)
    if mixing is not None:
        numbers = _unmixed(numbers, mixing)
    columns = []
    for j, column in enumerate(schema.columns):
        if column.kind == "continuous":
            z = numbers[schema.place[j]] if column.is_informative else np.zeros(n)
            columns.append(column.restore(z))
        else:
            codes = np.zeros(n, dtype=np.intp)
            if column.is_informative:
                first = int(network.layout.first_level[schema.place[j]])
                p = np.exp(network.log_table[0, first : first + column.n_levels])  # (levels, cells)
                u = rng.random(n)
                for step in np.cumsum(p, axis=0)[:-1]:  # one after the other: there may be many levels
                    codes += u > step[cells]
            columns.append(_values(column, codes, rng))
    return columns, structure.class_of[states]


def _unmixed(numbers: NDArray[np.float64], mixing: NDArray[np.float64]) -> NDArray[np.float64]:
    """Standardised columns (n_numbers, n) of those that a network saw."""
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            found = np.asarray(np.linalg.solve(mixing.T, numbers), dtype=np.float64)
    except np.linalg.LinAlgError:
        found = np.full_like(numbers, np.nan)
    if not np.isfinite(found).all():
        raise ValueError("rows cannot be drawn: the way in which the columns were decorrelated cannot be undone")
    return found


def _values(column: Column, codes: NDArray[np.intp], rng: np.random.Generator) -> NDArray[Any]:
    if column.kind == "discrete":
        levels = np.array([*column.levels, None], dtype=object)
        return levels[codes] if column.levels else np.full(len(codes), None, dtype=object)
    edges = np.array([column.low, *column.cuts, column.high])
    low, high, u = edges[codes], edges[codes + 1], rng.random(len(codes))
    return np.asarray(np.clip((1 - u) * low + u * high, low, high))  # high - low may be more than a number holds
