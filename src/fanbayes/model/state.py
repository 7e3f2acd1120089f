"""Networks as plain state, and back, everything checked."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from fanbayes.data.schema import Schema
from fanbayes.data.state import Arrays, State, entry, read_array, require, require_names
from fanbayes.data.table import layout_of
from fanbayes.model.blocks import EstimationOptions, of_numbers
from fanbayes.model.network import Model, Network
from fanbayes.model.structure import Structure, fan, finite_mixture, naive_bayes

# Factors of the weights -> structure, given the number of components of each class.
_STRUCTURES: dict[tuple[str, ...], Callable[[list[int]], Structure]] = {
    ("class",): lambda sizes: naive_bayes(len(sizes)),
    ("class", "component"): lambda sizes: fan(sizes, "shared"),
    ("class", "component | class"): lambda sizes: fan(sizes, "per_class"),
    ("component", "class | component"): lambda sizes: finite_mixture(len(sizes), sizes[0]),
}
FAN = (("class", "component"), ("class", "component | class"))


def network_state(network: Network) -> State:
    """Structure and parameters of a network of one: its factors, then those of each block, in the cells and shared."""
    structure = network.structure
    values = {
        "factors": [f.name for f in structure.factors],
        "n_components": np.bincount(structure.class_of).tolist(),
        "variance_tying": network.model.options.variance_tying,
    }
    factors = zip(structure.factors, structure.split(network.factors[0]))
    arrays = {f"log_factor.{f.name}": theta for f, theta in factors}
    for place, cells, shared in network.parts:
        arrays[f"cells.{place.block.name}"] = cells[0]
        arrays[f"shared.{place.block.name}"] = shared[0]
    return values, arrays


def _shapes(model: Model) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the arrays of a network."""
    shapes: dict[str, tuple[int, ...]] = {f"log_factor.{f.name}": (len(f.parent),) for f in model.structure.factors}
    for place in model.places:
        shapes[f"cells.{place.block.name}"] = (place.block.n_rows, place.block.n_cells)
        shapes[f"shared.{place.block.name}"] = (place.block.n_shared,)
    return shapes


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
    tying = entry(values, "variance_tying", str)
    require(tying in ("none", "class", "all"), "its structure is inconsistent")
    known = {schema[j].distribution for j in schema.continuous} <= set(of_numbers())
    require(known, "it has a distribution that is unknown")
    model = Model(structure, layout_of(schema), EstimationOptions(variance_tying=tying))
    require_names(arrays, set(_shapes(model)))
    found = {name: read_array(arrays, name, shape) for name, shape in _shapes(model).items()}
    for x in found.values():
        require(np.isfinite(x).all(), "it has parameters that are no numbers")
    factors = [found[f"log_factor.{f.name}"] for f in structure.factors]
    require(all((np.abs(x) <= 1e6).all() for x in factors), "it has a log probability beyond a million")
    with np.errstate(over="ignore"):
        sums = [np.add.reduceat(np.exp(theta), f.first) for f, theta in zip(structure.factors, factors)]
    off = normalised and any((np.abs(s - 1) >= 1e-9).any() for s in sums)
    require(not off, "it has probabilities that do not sum to one")
    parts = []
    for place in model.places:
        theta = found[f"cells.{place.block.name}"], found[f"shared.{place.block.name}"]
        flaw = place.block.flaw(*theta, normalised)
        require(flaw is None, str(flaw))
        parts.append((theta[0][None], theta[1][None]))
    network = model.assemble(np.concatenate(factors)[None], parts)
    if bounded:  # far beyond what a fit to standardised columns finds, and within what sums over members can hold
        for column in range(len(schema.discrete), len(schema.discrete) + len(schema.continuous)):
            mean, variance = network.column(column).traits()
            in_bounds = (np.abs(mean) <= 1e8).all() and (np.abs(np.log10(variance)) <= 16).all()
            require(in_bounds, "its members are damaged")
    return network


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
