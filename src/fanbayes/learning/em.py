"""One loop for EM and CEM.

EM (8) climbs ``log p(D | theta) + log p(theta)``, CEM (9) ``log p(D, z | theta) + log p(theta)``: no step of
theirs can fall. The variance of the paper (7) maximises nothing, so its trace may fall; then the best
network on the way is kept.

All networks of a `Climb` are advanced at once, each on its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fanbayes import _native
from fanbayes.data.table import EncodedTable
from fanbayes.learning.expectation import Workers, expect, n_blocks
from fanbayes.model.network import Network, Prior, Statistics, learner, log_prior

Floats = NDArray[np.float64]
Traces = tuple[tuple[float, ...], ...]

# How far the first leap may go, in steps of EM.
_REACH = 16.0


@dataclass(frozen=True)
class Problem:
    """What is climbed: a table, a prior, EM or CEM (`hard`), and who does the work."""

    table: EncodedTable
    prior: Prior
    hard: bool
    crew: Workers
    accelerate: bool = True

    @property
    def is_monotone(self) -> bool:
        """Whether a step can never fall."""
        return self.prior.variance != "paper"


@dataclass(frozen=True)
class Climb:
    """Networks on their way up.

    Attributes
    ----------
    network : Network of n networks
    statistics : Statistics under `network`
    objective : (n,), what is climbed, at `network`
    traces : the objective of each network, pass by pass; a lower bound of it where settled rows were skipped
    gain : (n,), what the last plain step that ended with a look at all rows gained, or a little more
    reach : (n,), how far a leap may go
    """

    network: Network
    statistics: Statistics
    objective: Floats
    traces: Traces
    gain: Floats
    reach: Floats

    def map(self, function: Callable[..., Floats], traces: Traces, *others: Climb) -> Climb:
        """Apply a function to each array, and to those of others beside it."""
        return Climb(
            self.network.map(function, *(o.network for o in others)),
            self.statistics.map(function, *(o.statistics for o in others)),
            function(self.objective, *(o.objective for o in others)),
            traces,
            function(self.gain, *(o.gain for o in others)),
            function(self.reach, *(o.reach for o in others)),
        )

    def take(self, index: NDArray[np.intp]) -> Climb:
        """Some of the networks."""
        return self.map(lambda x: x[index], tuple(self.traces[i] for i in index))

    def beside(self, other: Climb) -> Climb:
        """The networks of both."""
        return self.map(lambda x, y: np.concatenate([x, y]), self.traces + other.traces, other)

    def where(self, mask: NDArray[np.bool_], other: Climb) -> Climb:
        """Its own networks where the mask is set, elsewhere those of the other."""
        if mask.all():
            return self
        traces = tuple(x if own else y for own, x, y in zip(mask, self.traces, other.traces))
        pick: Callable[..., Floats] = lambda x, y: np.asarray(np.where(_along(mask, x), x, y))  # noqa: E731
        return self.map(pick, traces, other)

    @property
    def n_iter(self) -> int:
        """Passes over the data, the first included."""
        return len(self.traces[0])


def begin(problem: Problem, network: Network) -> Climb:
    """Look at the data once under each network."""
    return _climb(network, *_look(problem, network), gain=np.inf)


def arrived(problem: Problem, network: Network, statistics: Statistics) -> Climb:
    """A climb that is at its end: the statistics do not depend on the parameters that they led to."""
    return _climb(network, statistics, _objective(problem, network, statistics), gain=0.0)


def _climb(network: Network, statistics: Statistics, objective: Floats, gain: float) -> Climb:
    each = np.ones(len(network))
    return Climb(network, statistics, objective, tuple((float(o),) for o in objective), gain * each, _REACH * each)


def advance(problem: Problem, climb: Climb, n_passes: int, tol: float) -> Climb:
    """Climb until `n_passes` more passes are done or no network gains more than `tol` per case in a step.

    EM is accelerated. Every second pass is a leap along the way of the last two steps; where the objective would fall,
    a network stays at the plain step, so it never ends below that. Some passes skip rows whose state is settled, and
    the objective in the trace is then a lower bound; the last pass is over all rows.
    """
    least_gain = tol * problem.table.total_weight
    if problem.is_monotone:
        return _advance(problem, climb, n_passes, least_gain)
    best = climb
    goal = climb.n_iter + n_passes
    while climb.n_iter < goal and not has_converged(climb, least_gain):
        climb = _advance(problem, climb, 1, least_gain)
        best = climb.where(climb.objective > best.objective, best)
    return replace(best, traces=climb.traces, gain=climb.gain)


def _advance(problem: Problem, climb: Climb, n_passes: int, least_gain: float) -> Climb:
    """Climb on in the native core (src/native/climb.cpp)."""
    if n_passes < 1 or has_converged(climb, least_gain):
        return climb
    network, s = climb.network, climb.statistics
    given = (*network.parameters, s.states, s.counts, s.moments, s.of_class)
    found, sums, numbers, looks = _native.advance(
        problem.table.rows,
        network.structure.native,
        learner(network.structure, network.layout, problem.prior),
        [np.ascontiguousarray(x) for x in given],
        np.ascontiguousarray(climb.objective),
        np.ascontiguousarray(climb.gain),
        np.ascontiguousarray(climb.reach),
        n_passes,
        least_gain,
        problem.accelerate and problem.is_monotone and not problem.hard,
        problem.hard,
        n_blocks(problem.table, network),
        problem.crew.crew,
    )
    *parameters, states, counts, moments, of_class = found
    return Climb(
        network.with_parameters(parameters),
        Statistics(states, counts, moments, of_class, *sums),
        numbers[0],
        tuple(t + tuple(more) for t, more in zip(climb.traces, looks[0].tolist())),
        gain=numbers[1],
        reach=numbers[2],
    )


def has_converged(climb: Climb, least_gain: float) -> bool:
    """Whether no network gained more than this in its last plain step."""
    return bool((np.abs(climb.gain) <= least_gain).all())


def _look(problem: Problem, network: Network) -> tuple[Statistics, Floats]:
    """One pass: statistics and objective at the parameters."""
    statistics = expect(problem.table, network, problem.hard, problem.crew)
    return statistics, _objective(problem, network, statistics)


def _objective(problem: Problem, network: Network, statistics: Statistics) -> Floats:
    fit = statistics.joint if problem.hard else statistics.log_likelihood
    return fit + log_prior(network, problem.prior)


def go_if_better(problem: Problem, climb: Climb, network: Network) -> tuple[Climb, NDArray[np.bool_]]:
    """Look at other networks, one for each, and go there where the objective is not lower; say where.

    It takes a pass, also where it is in vain.
    """
    statistics, objective = _look(problem, network)
    there = Climb(network, statistics, objective, _longer(climb, objective), climb.gain, climb.reach)
    here = replace(climb, traces=_longer(climb, climb.objective))
    better = objective >= climb.objective  # False for NaN
    return there.where(better, here), better


def _longer(climb: Climb, objective: Floats) -> Traces:
    return tuple((*t, float(o)) for t, o in zip(climb.traces, objective))


def _along(a: NDArray[Any], x: Floats) -> NDArray[Any]:
    """Values of the networks (n_networks,), shaped to act along the first axis of `x`."""
    return a.reshape(-1, *[1] * (x.ndim - 1))
