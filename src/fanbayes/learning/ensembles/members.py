"""What an average is made of: fits that know p(c | x) of rows, each with its own view of the columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from fanbayes.arrays import Floats
from fanbayes.data.caching import fields_only
from fanbayes.data.state import Arrays, State, entry, require
from fanbayes.data.table import EncodedTable
from fanbayes.data.views import View
from fanbayes.learning.e_step import ThreadPool, posterior
from fanbayes.learning.ensembles.coded_trees import ForestPredictor
from fanbayes.learning.ensembles.extra import EstimatorFit
from fanbayes.model.network import Network
from fanbayes.model.state import FAN, network_state, read_network

Origin = Literal["network", "fine-tuned", "kernel"]
# Factors that the network of a member may have: logistic regression has those of naive Bayes.
_KINDS = (("class",), *FAN)


@dataclass(frozen=True)
class MemberNetwork:
    """A network that predicts.

    Attributes
    ----------
    view : View
    network : Network of one
    origin : what it is: as EM found it; fine-tuned, its distributions need not sum to one; or a kernel density, whose
        components are rows of the training table
    """

    view: View
    network: Network
    origin: Origin = "network"

    __getstate__ = fields_only

    @property
    def n_components(self) -> int:
        """Number of components; the centres of a kernel density are not counted as such."""
        return 1 if self.origin == "kernel" else self.network.structure.n_components

    def proba(self, table: EncodedTable, pool: ThreadPool) -> Floats:
        """p(c | x) (n_rows, n_classes) of rows as the view shows them."""
        return posterior(table, self.network.terms, "proba", pool)

    def to_state(self) -> State:
        """What it is, structure and parameters; the view is left to others."""
        structure, arrays = network_state(self.network)
        return {"kind": self.origin, "structure": structure}, arrays

    @classmethod
    def from_state(cls, values: dict[str, Any], arrays: Arrays, view: View, n_classes: int) -> MemberNetwork:
        """Inverse of `to_state`; parameters are such that members of an average can be added up."""
        origin: Any = entry(values, "kind", str)
        structure, normalised = entry(values, "structure", dict), origin != "fine-tuned"
        network = read_network(structure, arrays, view.schema, n_classes, _KINDS, normalised, bounded=True)
        return cls(view, network, origin)


Fit = MemberNetwork | ForestPredictor | EstimatorFit


@dataclass(frozen=True)
class Member:
    """Fits of one model to different rows; the member is their mean (A0)."""

    fits: tuple[Fit, ...]


def read_fit(values: dict[str, Any], arrays: Arrays, view: View, n_classes: int) -> Fit:
    """The fit of a state, by the kind that it names."""
    kind = entry(values, "kind", str)
    if kind == "forest":
        return ForestPredictor.from_state(values, arrays, view, n_classes)
    require(kind in ("network", "fine-tuned", "kernel"), "its members are damaged")
    return MemberNetwork.from_state(values, arrays, view, n_classes)
