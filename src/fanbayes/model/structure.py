"""NB, FM and FAN as values: which states there are, and what their weights factorise into.

One picture serves all. A flat axis of *states* s = (c, h); a *cell* is one configuration of the
variables that index the feature parameters:

    log p(s, x) = log_weight[s] + sum_i log p(x_i | cell_of[s])

The weight of a state is a product of entries of a few conditional probability tables, `Factor`:

    NB (10)              p(c)
    FAN (12)             p(c) p(h)
    FAN, class mixing    p(c) p(h | c)
    FM (11)              p(h) p(c | h)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fanbayes import _native
from fanbayes.arrays import Floats, Ints
from fanbayes.data.caching import cached_property, fields_only

Mixing = Literal["shared", "per_class"]


@dataclass(frozen=True)
class Factor:
    """A conditional probability table p(child | parent), flat.

    Attributes
    ----------
    name : str
        "class", "component", "component | class" or "class | component".
    entry : int (n_states,)
        Which entry of the table each state takes.
    parent : int (n_entries,)
        Which distribution each entry belongs to, increasing.
    """

    name: str
    entry: Ints
    parent: Ints

    @cached_property
    def first(self) -> Ints:
        """Where each distribution begins (n_parents,)."""
        return np.searchsorted(self.parent, np.arange(self.parent[-1] + 1))

    @cached_property
    def size(self) -> Ints:
        """Number of entries of each distribution (n_parents,)."""
        return np.bincount(self.parent)

    @cached_property
    def indicator(self) -> Floats:
        """1 where a state takes an entry (n_states, n_entries)."""
        table = np.zeros((len(self.entry), len(self.parent)))
        table[np.arange(len(self.entry)), self.entry] = 1.0
        return table

    def estimate(self, states: Floats, alpha: float) -> Floats:
        """Log of (5) (n_networks, n_entries), given the cases of the states (n_networks, n_states)."""
        entries = states @ self.indicator + alpha
        return np.asarray(np.log(entries) - np.log(np.add.reduceat(entries, self.first, axis=-1))[:, self.parent])

    @property
    def native(self) -> tuple[list[int], list[int]]:
        """Entry and parent, for the native core."""
        return self.entry.tolist(), self.parent.tolist()

    @property
    def n_parameters(self) -> int:
        """Free parameters: entries less one per distribution."""
        return len(self.parent) - len(self.first)


@dataclass(frozen=True)
class Structure:
    """States of a model.

    Attributes
    ----------
    class_of : int (n_states,)
        Class of each state, increasing.
    component_of : int (n_states,)
        Value of the hidden variable, counted within its class.
    cell_of : int (n_states,)
    factors : what the weights of the states factorise into
    """

    class_of: Ints
    component_of: Ints
    cell_of: Ints
    factors: tuple[Factor, ...]

    __getstate__ = fields_only

    @property
    def n_states(self) -> int:
        """Number of states."""
        return len(self.class_of)

    @cached_property
    def n_classes(self) -> int:
        """r_c."""
        return int(self.class_of[-1]) + 1

    @cached_property
    def n_cells(self) -> int:
        """Number of cells."""
        return int(self.cell_of.max()) + 1

    @cached_property
    def n_components(self) -> int:
        """r_h, the largest of all classes."""
        return int(self.component_of.max()) + 1

    @property
    def has_common_components(self) -> bool:
        """Whether component h of one class is that of another; not so where p(h | c) is each class's own."""
        return all(f.name != "component | class" for f in self.factors)

    @property
    def class_of_cell(self) -> Ints | None:
        """Class of each cell, or None where classes share cells (FM)."""
        return self.class_of if self.n_cells == self.n_states else None

    @property
    def component_of_cell(self) -> Ints:
        """Component of each cell (n_cells,)."""
        found = np.zeros(self.n_cells, dtype=np.intp)
        found[self.cell_of] = self.component_of
        return found

    @cached_property
    def native(self) -> _native.States:
        """The native core's view of it."""
        first = np.searchsorted(self.class_of, np.arange(self.n_classes + 1))
        cells = self.cell_of[first[:-1]].tolist()
        return _native.States(first.tolist(), cells, self.n_cells, self.has_common_components)

    @cached_property
    def factor_ends(self) -> Ints:
        """Where each factor ends on the flat axis of all entries."""
        return np.cumsum([len(f.parent) for f in self.factors])

    def split(self, factors: Floats) -> list[Floats]:
        """Each factor by itself, (..., n_entries), of all in one array."""
        ends = self.factor_ends.tolist()
        return [factors[..., a:b] for a, b in zip([0, *ends], ends)]

    def log_weight(self, factors: Floats) -> Floats:
        """Log probability of each state (n_networks, n_states), of the logarithms of the factors."""
        first, *others = (theta[:, f.entry] for f, theta in zip(self.factors, self.split(factors)))
        return np.ascontiguousarray(sum(others, start=first))

    def estimate_factors(self, states: Floats, alpha: float) -> Floats:
        """Log of (5) for the weights of the states: (alpha + N_jk) / (alpha r + N_j) in every factor."""
        return np.concatenate([f.estimate(states, alpha) for f in self.factors], axis=1)

    def draw_factors(self, states: Floats, alpha: float, rng: np.random.Generator) -> Floats:
        """Logarithms of factors drawn from Dirichlet(alpha + N_j), the posterior of which (5) is the mean."""
        return self.normalise(log_gamma(self._entries(states) + alpha, rng))

    def bootstrap_factors(self, states: Floats, alpha: float, rng: np.random.Generator) -> Floats:
        """`estimate_factors` from rows of drawn weights, with a gamma variate for alpha."""
        entries = self._entries(states)
        return self.normalise(np.log(entries + np.exp(log_gamma(np.full(entries.shape, alpha), rng))))

    def _entries(self, states: Floats) -> Floats:
        """Cases of each entry of all factors (n_networks, n_entries)."""
        return np.asarray(np.maximum(np.concatenate([states @ f.indicator for f in self.factors], axis=1), 0.0))

    def normalise(self, factors: Floats) -> Floats:
        """Turn any real numbers into logarithms of factors."""
        found = []
        for f, theta in zip(self.factors, self.split(factors)):
            theta = theta - np.maximum.reduceat(theta, f.first, axis=-1)[:, f.parent]
            found.append(theta - np.log(np.add.reduceat(np.exp(theta), f.first, axis=-1))[:, f.parent])
        return np.concatenate(found, axis=1)


def naive_bayes(n_classes: int) -> Structure:
    """NB (10): p(c) prod p(x_i | c)."""
    classes = np.arange(n_classes)
    return Structure(classes, np.zeros_like(classes), classes, (_class_factor(classes),))


def fan(n_components: Sequence[int], mixing: Mixing) -> Structure:
    """FAN (12): p(c) sum_h p(h) prod p(x_i | c, h), or with p(h | c).

    Parameters
    ----------
    n_components : r_h of each class; all equal if mixing is "shared"
    """
    sizes = np.asarray(n_components)
    class_of = np.repeat(np.arange(len(sizes)), sizes)
    component_of = np.concatenate([np.arange(size) for size in sizes])
    states = np.arange(len(class_of))
    if mixing == "shared":
        hidden = Factor("component", component_of, np.zeros(int(sizes.max()), dtype=np.intp))
    else:
        hidden = Factor("component | class", states, class_of)
    return Structure(class_of, component_of, states, (_class_factor(class_of), hidden))


def finite_mixture(n_classes: int, n_components: int) -> Structure:
    """FM (11): sum_h p(h) p(c | h) prod p(x_i | h)."""
    class_of = np.repeat(np.arange(n_classes), n_components)
    component_of = np.tile(np.arange(n_components), n_classes)
    factors = (
        Factor("component", component_of, np.zeros(n_components, dtype=np.intp)),
        Factor(
            "class | component",
            component_of * n_classes + class_of,
            np.repeat(np.arange(n_components), n_classes),
        ),
    )
    return Structure(class_of, component_of, component_of, factors)


def _class_factor(class_of: Ints) -> Factor:
    return Factor("class", class_of, np.zeros(int(class_of[-1]) + 1, dtype=np.intp))


def log_gamma(shape: Floats, rng: np.random.Generator) -> Floats:
    """Logarithms of gamma variates; normalised, they are Dirichlet. What is too small for a number is 1e-300."""
    return np.asarray(np.log(np.maximum(rng.standard_gamma(shape), 1e-300)))
