"""Networks as plain state, and back, everything checked."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fanbayes.data.schema import Schema
from fanbayes.data.state import Arrays, State, entry, read_array, require, require_names
from fanbayes.data.table import Layout, layout_of
from fanbayes.model.families import categorical
from fanbayes.model.network import Network
from fanbayes.model.structure import Structure, fan, finite_mixture, naive_bayes

Floats = NDArray[np.float64]

# Factors of the weights -> structure, given the number of components of each class.
_STRUCTURES: dict[tuple[str, ...], Callable[[list[int]], Structure]] = {
    ("class",): lambda sizes: naive_bayes(len(sizes)),
    ("class", "component"): lambda sizes: fan(sizes, "shared"),
    ("class", "component | class"): lambda sizes: fan(sizes, "per_class"),
    ("component", "class | component"): lambda sizes: finite_mixture(len(sizes), sizes[0]),
}
FAN = (("class", "component"), ("class", "component | class"))


def network_state(network: Network, schema: Schema) -> State:
    """Structure and parameters of a network of one."""
    structure = network.structure
    values = {
        "factors": [f.name for f in structure.factors],
        "n_components": np.bincount(structure.class_of).tolist(),
    }
    arrays = {
        **{f"log_factor.{f.name}": theta[0] for f, theta in zip(structure.factors, network.log_factors)},
        "log_table": network.log_table[0][_rows_of_levels(schema, network.layout)],
        "mean": network.mean[0],
        "sigma2": network.sigma2[0],
    }
    return values, arrays


def _array_names(factors: Iterable[Any]) -> set[str]:
    return {*(f"log_factor.{name}" for name in factors), "log_table", "mean", "sigma2"}


def read_network(
    values: dict[str, Any],
    arrays: Arrays,
    schema: Schema,
    n_classes: int,
    kinds: Collection[tuple[str, ...]],
    normalised: bool = True,
    bounded: bool = False,
) -> Network:
    """Inverse of `network_state`.

    Parameters
    ----------
    kinds : factors of the structures that are allowed
    normalised : whether distributions have to sum to one
    bounded : whether parameters have to be such that members of an average can be added up
    """
    structure = _structure(values, arrays, n_classes, kinds)
    require_names(arrays, _array_names(f.name for f in structure.factors))
    layout, cells = layout_of(schema), structure.n_cells
    rows = _rows_of_levels(schema, layout)
    log_factors = [read_array(arrays, f"log_factor.{f.name}", (len(f.parent),)) for f in structure.factors]
    levels = read_array(arrays, "log_table", (len(rows), cells))
    log_table = np.zeros((int(layout.first_level[-1]), cells))
    log_table[rows] = levels
    mean = read_array(arrays, "mean", (layout.n_numbers, cells))
    sigma2 = read_array(arrays, "sigma2", (layout.n_numbers, cells))
    for x in (*log_factors, log_table, mean, sigma2):
        require(np.isfinite(x).all(), "it has parameters that are no numbers")
    # Beyond, squares would overflow; the encoding of tables keeps values within the same bound.
    require((np.abs(mean) <= 1e100).all(), "it has a mean beyond 1e100")
    require(((sigma2 >= 1e-100) & (sigma2 <= 1e100)).all(), "it has a variance that is not within 1e-100 and 1e100")
    tables = (*log_factors, log_table)
    require(all((np.abs(x) <= 1e6).all() for x in tables), "it has a log probability beyond a million")
    if normalised:
        _require_sums(structure, layout, log_factors, log_table)
    if bounded:  # far beyond what a fit to standardised columns finds, and within what sums over members can hold
        flaw = "its members are damaged"
        require((np.abs(mean) <= 1e8).all() and (np.abs(np.log10(sigma2)) <= 16).all(), flaw)
    return Network(
        structure, layout, tuple(theta[None] for theta in log_factors), log_table[None], mean[None], sigma2[None]
    )


def _structure(values: dict[str, Any], arrays: Arrays, n_classes: int, kinds: Collection[tuple[str, ...]]) -> Structure:
    """States of a model, which have to be in some proportion to its arrays."""
    flaw = "its structure is inconsistent"
    factors, sizes = entry(values, "factors", list), entry(values, "n_components", list)
    require(all(isinstance(f, str) for f in factors) and tuple(factors) in kinds, flaw)
    require(len(sizes) == n_classes and all(type(n) is int and n >= 1 for n in sizes), flaw)
    most = 64 + 16 * sum(array.size for array in arrays.values())
    require(sum(sizes) <= most, f"it has {sum(sizes)} states, and not the numbers for so many")
    require(factors == ["class", "component | class"] or len(set(sizes)) == 1, flaw)
    require(factors != ["class"] or sizes[0] == 1, flaw)
    return _STRUCTURES[tuple(factors)](sizes)


def _rows_of_levels(schema: Schema, layout: Layout) -> NDArray[np.intp]:
    """Where a network keeps the levels of the discrete columns, in the order of the schema, "missing" left out."""
    first = dict(zip(schema.discrete, layout.first_level.tolist()))
    rows = [np.arange(first[j], first[j] + schema[j].n_levels) for j in sorted(first)]
    return np.concatenate([*rows, np.empty(0, dtype=np.intp)])


def _require_sums(structure: Structure, layout: Layout, log_factors: list[Floats], log_table: Floats) -> None:
    with np.errstate(over="ignore"):
        sums = [np.add.reduceat(np.exp(theta), f.first) for f, theta in zip(structure.factors, log_factors)]
        if layout.n_discrete:
            sums.append(categorical.observed(np.exp(log_table), layout))
    require(all((np.abs(s - 1) < 1e-9).all() for s in sums), "it has probabilities that do not sum to one")
