"""What predicts: one protocol for a network, an average, and others."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from fanbayes.arrays import Floats
from fanbayes.data.caching import fields_only
from fanbayes.data.schema import Schema
from fanbayes.data.state import Arrays, State, entry
from fanbayes.data.table import EncodedTable
from fanbayes.data.views import Encodings, View
from fanbayes.learning.e_step import Posterior, ThreadPool
from fanbayes.learning.tree_data import posterior
from fanbayes.model.blocks.base import Covariance
from fanbayes.model.network import Network, Terms
from fanbayes.model.sampling import draw
from fanbayes.model.state import network_state, read_network

Sample = tuple[list[NDArray[Any]], NDArray[np.intp]]  # columns in their own units, classes


class Predictor(Protocol):
    """What knows the classes of encoded rows, whatever it is made of."""

    @property
    def schemas(self) -> tuple[Schema, ...]:
        """How rows are to be encoded for it."""

    @property
    def n_components(self) -> int:
        """Number of components, of the largest network."""

    @property
    def class_prior(self) -> Floats:
        """p(c) (n_classes,)."""

    def posterior(self, rows: Encodings, what: Literal["proba", "log_proba"], pool: ThreadPool) -> Floats:
        """p(c | x) or its log, (n_rows, n_classes)."""

    def to_state(self) -> State:
        """Plain values and named arrays, of which `from_state` of its class makes it again, all of them checked."""


class GenerativePredictor(Predictor, Protocol):
    """A predictor that is, or is made of, joint distributions of class and columns."""

    def sample(self, n: int, rng: np.random.Generator) -> Sample:
        """Draw rows and their classes."""


@dataclass(frozen=True)
class NetworkPredictor:
    """A network and the columns that it sees.

    Attributes
    ----------
    view : View
    network : Network of one
    """

    view: View
    network: Network

    _covariance: ClassVar[Covariance] = "diagonal"

    __getstate__ = fields_only

    @property
    def schemas(self) -> tuple[Schema, ...]:
        """Its only one."""
        return (self.view.schema,)

    @property
    def n_components(self) -> int:
        """Number of components."""
        return self.network.structure.n_components

    @property
    def class_prior(self) -> Floats:
        """p(c) of the network (n_classes,)."""
        return self.network.class_marginal()

    @property
    def terms(self) -> Terms:
        """What the native core evaluates."""
        return self.network.terms

    def posterior(self, rows: Encodings, what: Literal["proba", "log_proba"], pool: ThreadPool) -> Floats:
        """p(c | x) or its log, (n_rows, n_classes)."""
        return self.evaluate(self.view.mix(rows[self.view.schema]), what, pool)

    def evaluate(self, table: EncodedTable, what: Posterior, pool: ThreadPool) -> Floats:
        """Probabilities of classes (n_rows, n_classes), or log p(s, x) of states (n_rows, n_states)."""
        return posterior(self.network.layout, table, self.terms, what, pool)

    def sample(self, n: int, rng: np.random.Generator) -> Sample:
        """Draw rows and their classes from the network."""
        return draw(self.network, self.view.schema, n, rng)

    def to_state(self) -> State:
        """Structure and parameters; the view is left to others."""
        structure, arrays = network_state(self.network)
        return {"structure": structure}, arrays

    @classmethod
    def from_state(
        cls, values: dict[str, Any], arrays: Arrays, view: View, n_classes: int, kinds: Collection[tuple[str, ...]]
    ) -> NetworkPredictor:
        """Inverse of `to_state`, of a structure with one of the `kinds` of factors."""
        structure = entry(values, "structure", dict)
        return cls(view, read_network(structure, arrays, view.schema, n_classes, kinds, covariance=cls._covariance))
