"""What predicts: one protocol for a network, a network with feature weights, and an average of these."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from fanbayes.arrays import Floats
from fanbayes.data.caching import cached_property, fields_only
from fanbayes.data.schema import Schema
from fanbayes.data.state import Arrays, State, entry, grouped, prefixed, read_array, require
from fanbayes.data.table import EncodedTable
from fanbayes.data.views import Encodings, View
from fanbayes.learning.e_step import Posterior, ThreadPool
from fanbayes.learning.feature_weights import FeatureWeights
from fanbayes.learning.tree_data import posterior
from fanbayes.model.blocks.base import Covariance
from fanbayes.model.network import Network, Terms
from fanbayes.model.sampling import draw
from fanbayes.model.state import network_state, read_network
from fanbayes.model.weighted_network import WeightedNetwork

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
        return draw(self.network, self.view.schema, n, rng, self.view.mixing, self.view.scores)

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


@dataclass(frozen=True)
class WeightedPredictor(NetworkPredictor):
    """A network with feature weights; to draw rows from, it is the network as EM found it.

    Attributes
    ----------
    fine_tuned : Network of one, or None
        With the parameters that it predicts by, if these are others.
    feature_weights : FeatureWeights
    """

    fine_tuned: Network | None
    feature_weights: FeatureWeights

    @property
    def terms(self) -> Terms:
        """What the native core evaluates."""
        return self.weighted.terms

    @cached_property
    def weighted(self) -> WeightedNetwork:
        """The network that it predicts by, with its feature weights."""
        network = self.network if self.fine_tuned is None else self.fine_tuned
        return WeightedNetwork(network, self.feature_weights.weights[self.view.feature_of], self.feature_weights.offset)

    def to_state(self) -> State:
        """Parameters of both networks, and the weights."""
        values, arrays = super().to_state()
        arrays |= {"feature_weights": self.feature_weights.weights, "offset": self.feature_weights.offset}
        if self.fine_tuned is not None:
            arrays |= prefixed("fine_tuned", network_state(self.fine_tuned)[1])
        return values, arrays

    @classmethod
    def from_state(
        cls, values: dict[str, Any], arrays: Arrays, view: View, n_classes: int, kinds: Collection[tuple[str, ...]]
    ) -> WeightedPredictor:
        """Inverse of `to_state`; parameters are such that members of an average can be added up."""
        flaw = "its members are damaged"
        groups = grouped(arrays, ("", "fine_tuned"))
        own, tuned = groups[""], groups["fine_tuned"]
        require({"feature_weights", "offset"} <= own.keys(), "it does not have the arrays that it should")
        weights = read_array(own, "feature_weights", (len(view.schema.columns),))
        offset = read_array(own, "offset", (n_classes,))
        require(((weights >= 0) & (weights <= 1e3)).all() and (np.abs(offset) <= 1e6).all(), flaw)
        del own["feature_weights"], own["offset"]
        read = partial(read_network, entry(values, "structure", dict), kinds=kinds, bounded=True)
        network = read(own, view.schema, n_classes)
        fine_tuned = read(tuned, view.schema, n_classes, normalised=False) if tuned else None
        return cls(view, network, fine_tuned, FeatureWeights(weights, offset))
