"""Where EM is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fanbayes.arrays import Floats, Ints, Mask
from fanbayes.model.network import Network, Statistics


@dataclass(frozen=True)
class EMState:
    """Networks that EM improves, each on its own.

    Attributes
    ----------
    network : Network of n networks
    statistics : Statistics under `network`
    objective : (n,), what is maximised, at `network`
    traces : (n, n_iter), the objective pass by pass; a lower bound of it where passes were lazy
    shares : (n, n_iter), share of the rows that each pass took, below 1 where it was lazy
    gain : (n,), what the last plain step that ended with a pass over all rows gained, or a little more
    reach : (n,), how far an accelerated step may go, in steps of EM
    """

    network: Network
    statistics: Statistics
    objective: Floats
    traces: Floats
    shares: Floats
    gain: Floats
    reach: Floats

    def map(self, function: Callable[..., Floats], *others: EMState) -> EMState:
        """Apply a function to each array, and to those of others beside it."""
        names = ("objective", "traces", "shares", "gain", "reach")
        arrays = (function(*(getattr(state, name) for state in (self, *others))) for name in names)
        network = self.network.map(function, *(o.network for o in others))
        return EMState(network, self.statistics.map(function, *(o.statistics for o in others)), *arrays)

    def take(self, index: Ints) -> EMState:
        """Some of the networks."""
        return self.map(lambda x: x[index])

    def beside(self, other: EMState) -> EMState:
        """The networks of both."""
        return self.map(lambda x, y: np.concatenate([x, y]), other)

    def where(self, mask: Mask, other: EMState) -> EMState:
        """Its own networks where the mask is set, elsewhere those of the other."""

        def pick(x: Floats, y: Floats) -> Floats:
            return np.asarray(np.where(mask.reshape(-1, *[1] * (x.ndim - 1)), x, y))

        return self if mask.all() else self.map(pick, other)

    @property
    def n_iter(self) -> int:
        """Passes over the data, the first included."""
        return int(self.traces.shape[1])

    def has_converged(self, least_gain: float) -> bool:
        """Whether no network gained more than this in its last plain step."""
        return bool((np.abs(self.gain) <= least_gain).all())
