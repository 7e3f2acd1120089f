"""Networks as plain state, and back, everything checked."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from fanbayes.data.schema import Schema
from fanbayes.data.state import Arrays, State, entry, read_array, refuse, require, require_names
from fanbayes.data.table import Layout, layout_of
from fanbayes.model.blocks import EstimationOptions, of_numbers
from fanbayes.model.blocks.base import Covariance
from fanbayes.model.network import Model, Network
from fanbayes.model.structure import Structure, fan, finite_mixture, naive_bayes
from fanbayes.model.tree import MOST_PAIRS, MOST_SELECTED, Tree, TreeLayout, tree_layout
from fanbayes.model.tree_network import marginal_network

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
    if isinstance(network.layout, TreeLayout):
        values["tree"] = {"parent": list(network.layout.tree.parent), "weight": list(network.layout.tree.weight)}
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
    covariance: Covariance = "diagonal",
) -> Network:
    """Inverse of `network_state`.

    Parameters
    ----------
    kinds : factors of the structures that are allowed
    normalised : whether distributions have to sum to one
    bounded : whether parameters have to be such that members of an average can be added up
    covariance : of continuous columns; where it is full, cells do share it
    """
    require(not (bounded and "tree" in values), "its members are damaged")
    require(covariance == "diagonal" or "tree" not in values, "its structure is inconsistent")
    structure = _structure(values, arrays, n_classes, kinds)
    tying = entry(values, "variance_tying", str)
    tyings = ("none", "class", "all") if covariance == "diagonal" else ("class", "all")
    require(tying in tyings, "its structure is inconsistent")
    known = {schema[j].distribution for j in schema.continuous} <= set(of_numbers())
    require(known, "it has a distribution that is unknown")
    options = EstimationOptions(variance_tying=tying, covariance=covariance)
    model = Model(structure, _layout(values, arrays, layout_of(schema)), options)
    require_names(arrays, set(_shapes(model)))
    found = {name: read_array(arrays, name, shape) for name, shape in _shapes(model).items()}
    factors = np.concatenate([found[f"log_factor.{f.name}"] for f in structure.factors])
    parts = [(found[f"cells.{p.block.name}"][None], found[f"shared.{p.block.name}"][None]) for p in model.places]
    network = model.assemble(factors[None], parts)
    _check(network, normalised)
    if bounded:  # far beyond what a fit to standardised columns finds, and within what sums over members can hold
        for column in range(len(schema.discrete), len(schema.discrete) + len(schema.continuous)):
            mean, variance = network.column(column).traits()
            in_bounds = (np.abs(mean) <= 1e8).all() and (np.abs(np.log10(variance)) <= 16).all()
            require(in_bounds, "its members are damaged")
    return network


def draws_state(draws: Network) -> Arrays:
    """Parameters of networks that are draws."""
    return {"factors": draws.factors, "cells": draws.cells, "shared": draws.shared}


def read_draws(arrays: Arrays, network: Network) -> Network:
    """Inverse of `draws_state`: draws of the parameters of a network."""
    like = draws_state(network)
    require_names(arrays, set(like))
    n = len(arrays["factors"]) if arrays["factors"].ndim else 0
    require(n > 0, "it has no draws")
    draws = Network(network.model, *(read_array(arrays, name, (n, *x.shape[1:])) for name, x in like.items()))
    _check(draws, normalised=True)
    return draws


def _check(network: Network, normalised: bool) -> None:
    """Refuse parameters that no fit would find, or with which sums would overflow."""
    finite = all(np.isfinite(x).all() for x in (network.factors, network.cells, network.shared))
    require(finite, "it has parameters that are no numbers")
    require((np.abs(network.factors) <= 1e6).all(), "it has a log probability beyond a million")
    structure = network.structure
    with np.errstate(over="ignore"):
        factors = zip(structure.factors, structure.split(np.exp(network.factors)))
        sums = [np.add.reduceat(theta, f.first, axis=-1) for f, theta in factors]
    off = normalised and any((np.abs(s - 1) >= 1e-9).any() for s in sums)
    require(not off, "it has probabilities that do not sum to one")
    for place, cells, shared in network.parts:
        flaw = place.block.flaw(cells, shared, normalised)
        require(flaw is None, str(flaw))
    if isinstance(network.layout, TreeLayout):
        with np.errstate(all="ignore"):
            marginals = [marginal_network(each).cells for each in network.each()]
        sound = all(np.isfinite(x).all() for x in marginals)
        require(sound, "it has parameters by which a number would be beyond all bounds")


def _layout(values: dict[str, Any], arrays: Arrays, base: Layout) -> Layout:
    """Layout of the columns, with their arcs if there are any, which have to be in some proportion to the arrays."""
    if "tree" not in values:
        return base
    flaw, tree = "its tree is damaged", entry(values, "tree", dict)
    parent, weight = entry(tree, "parent", list), entry(tree, "weight", list)
    n, n_discrete = base.n_discrete + base.n_numbers, base.n_discrete
    require(len(parent) == len(weight) == n, flaw)
    require(all(type(p) is int and -1 <= p < n for p in parent), flaw)
    require(all(type(w) is float and math.isfinite(w) for w in weight), flaw)
    require(all(base.distributions[k] == "gaussian" for k in _in_arcs(parent, n_discrete)), flaw)
    sizes = [int(base.n_levels[i]) + 1 if i < n_discrete else 1 for i in range(n)]
    by_level = [(i, p) for i, p in enumerate(parent) if 0 <= p < n_discrete]  # a part for each level of the parent
    most = [MOST_PAIRS if i < n_discrete else MOST_SELECTED for i, _ in by_level]
    require(all(sizes[i] * (sizes[p] - 1) <= limit for (i, p), limit in zip(by_level, most)), flaw)
    extra = sum(sizes[i] * (sizes[p] - 2) for i, p in by_level)
    require(sum(sizes) + extra <= 64 + sum(a.size for a in arrays.values()), flaw)
    try:
        return tree_layout(base, Tree(tuple(parent), tuple(weight)))
    except ValueError as error:
        refuse(f"its tree is damaged: {error}")


def _in_arcs(parent: list[int], n_discrete: int) -> set[int]:
    """Numbers that have arcs to or from them."""
    ends = {end for i, p in enumerate(parent) if p >= 0 for end in (i, p)}
    return {i - n_discrete for i in ends if i >= n_discrete}


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
