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

from fanbayes.data.table import EncodedTable
from fanbayes.learning.expectation import Workers, expect
from fanbayes.model.families import categorical
from fanbayes.model.network import Network, Prior, Statistics, estimate, log_prior, normalise_factors

Floats = NDArray[np.float64]
Traces = tuple[tuple[float, ...], ...]

# How far the first leap may go, in steps of EM; halved when one fails, doubled when one of full length succeeds.
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
    traces : the objective of each network, pass by pass
    gain : (n,), what the last plain step gained
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
    """Climb until `n_passes` more passes are done or no network gains more than `tol` per case in a step."""
    least_gain = tol * problem.table.total_weight
    accelerate = problem.accelerate and problem.is_monotone and not problem.hard
    best = climb
    goal = climb.n_iter + n_passes
    while climb.n_iter < goal and not has_converged(climb, least_gain):
        leap = accelerate and goal - climb.n_iter > 1  # it takes two passes
        climb = _accelerated_cycle(problem, climb) if leap else _plain_step(problem, climb)
        if not problem.is_monotone:
            best = climb.where(climb.objective > best.objective, best)
    return climb if problem.is_monotone else replace(best, traces=climb.traces, gain=climb.gain)


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


def _plain_step(problem: Problem, climb: Climb) -> Climb:
    """M-step, E-step."""
    network = _maximise(problem, climb)
    statistics, objective = _look(problem, network)
    return Climb(network, statistics, objective, _longer(climb, objective), objective - climb.objective, climb.reach)


def go_if_better(problem: Problem, climb: Climb, network: Network) -> tuple[Climb, NDArray[np.bool_]]:
    """Look at other networks, one for each, and go there where the objective is not lower; say where.

    It takes a pass, also where it is in vain.
    """
    statistics, objective = _look(problem, network)
    there = Climb(network, statistics, objective, _longer(climb, objective), climb.gain, climb.reach)
    here = replace(climb, traces=_longer(climb, climb.objective))
    better = objective >= climb.objective  # False for NaN
    return there.where(better, here), better


def _maximise(problem: Problem, climb: Climb) -> Network:
    return estimate(climb.statistics, climb.network.structure, climb.network.layout, problem.prior)


def _longer(climb: Climb, objective: Floats) -> Traces:
    return tuple((*t, float(o)) for t, o in zip(climb.traces, objective))


# ---------------------------------------------------------------- acceleration


def _accelerated_cycle(problem: Problem, climb: Climb) -> Climb:
    """SQUAREM (Varadhan & Roland 2008, scheme S3), safeguarded.

    From theta0, EM leads to theta1 and theta2. With r = theta1 - theta0, v = theta2 - theta1 - r and
    a = -|r| / |v|, go to theta0 - 2 a r + a^2 v: a = -1 is theta2 itself. Where that lowers the objective
    below theta1's, stay there, and leap less far next time. Coordinates are unconstrained: log probabilities,
    means, log variances.
    """
    first = _plain_step(problem, climb)
    second = _maximise(problem, first)
    x0, x1, x2 = (_coordinates(n) for n in (climb.network, first.network, second))
    r = x1 - x0
    v = x2 - x1 - r
    norm_r, norm_v = (np.sqrt(np.einsum("ij,ij->i", x, x)) for x in (r, v))
    wanted = np.maximum(1.0, np.divide(norm_r, norm_v, out=np.ones_like(norm_r), where=norm_v > 0))
    a = -np.minimum(wanted, climb.reach)
    far = x0 - 2 * a[:, None] * r + (a * a)[:, None] * v
    network = _from_coordinates(second, far, problem.prior)
    landed, better = go_if_better(problem, first, network)
    further = np.where(wanted > climb.reach, 2.0, 1.0) * climb.reach
    return replace(landed, reach=np.where(better, further, np.maximum(1.0, -a / 2)))


def _coordinates(network: Network) -> Floats:
    """All parameters, unconstrained, (n_networks, n_coordinates)."""
    *unconstrained, sigma2 = network.parameters
    return np.concatenate([p.reshape(len(network), -1) for p in (*unconstrained, np.log(sigma2))], axis=1)


def _from_coordinates(like: Network, x: Floats, prior: Prior) -> Network:
    ends = np.cumsum([p[0].size for p in like.parameters])
    parts = [x[:, end - p[0].size : end].reshape(p.shape) for end, p in zip(ends, like.parameters)]
    *log_factors, log_table, mean, log_sigma2 = parts
    return like.with_parameters(
        [
            *normalise_factors(tuple(log_factors), like.structure),
            categorical.normalise(log_table, like.layout),
            mean,
            np.maximum(np.exp(np.clip(log_sigma2, -600.0, 600.0)), prior.floor),
        ]
    )


def _along(a: NDArray[Any], x: Floats) -> NDArray[Any]:
    """Values of the networks (n_networks,), shaped to act along the first axis of `x`."""
    return a.reshape(-1, *[1] * (x.ndim - 1))
