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
    """

    network: Network
    statistics: Statistics
    objective: Floats
    traces: tuple[tuple[float, ...], ...]
    gain: Floats

    def take(self, index: NDArray[np.intp]) -> Climb:
        """Some of the networks."""
        traces = tuple(self.traces[i] for i in index)
        return Climb(
            self.network.take(index), self.statistics.take(index), self.objective[index], traces, self.gain[index]
        )

    @property
    def n_iter(self) -> int:
        """Passes over the data, the first included."""
        return len(self.traces[0])


def begin(problem: Problem, network: Network) -> Climb:
    """Look at the data once under each network."""
    statistics, objective = _look(problem, network)
    return Climb(network, statistics, objective, tuple((float(o),) for o in objective), np.full(len(network), np.inf))


def advance(
    problem: Problem, climb: Climb, n_passes: int, tol: float, report: Callable[[Climb], None] | None = None
) -> Climb:
    """Climb until `n_passes` more passes are done or no network gains more than `tol` per case in a step."""
    least_gain = tol * problem.table.total_weight
    cycle = _accelerated_cycle if problem.accelerate and problem.is_monotone and not problem.hard else _plain_step
    best = climb
    goal = climb.n_iter + n_passes
    while climb.n_iter < goal and not has_converged(climb, least_gain):
        climb = cycle(problem, climb)
        if not problem.is_monotone:
            best = _better_of(best, climb)
        if report is not None:
            report(climb)
    return climb if problem.is_monotone else replace(best, traces=climb.traces, gain=climb.gain)


def has_converged(climb: Climb, least_gain: float) -> bool:
    """Whether no network gained more than this in its last plain step."""
    return bool((np.abs(climb.gain) <= least_gain).all())


def _look(problem: Problem, network: Network) -> tuple[Statistics, Floats]:
    """One pass: statistics and objective at the parameters."""
    statistics = expect(problem.table, network, problem.hard, problem.crew)
    fit = statistics.joint if problem.hard else statistics.log_likelihood
    return statistics, fit + log_prior(network, problem.prior)


def _plain_step(problem: Problem, climb: Climb) -> Climb:
    """M-step, E-step."""
    network = _maximise(problem, climb)
    statistics, objective = _look(problem, network)
    return Climb(network, statistics, objective, _longer(climb, objective), objective - climb.objective)


def _maximise(problem: Problem, climb: Climb) -> Network:
    return estimate(climb.statistics, climb.network.structure, climb.network.layout, problem.prior)


def _longer(climb: Climb, objective: Floats) -> tuple[tuple[float, ...], ...]:
    return tuple((*t, float(o)) for t, o in zip(climb.traces, objective))


def _better_of(a: Climb, b: Climb) -> Climb:
    """For each network the iterate with the higher objective."""
    wins = b.objective > a.objective
    if wins.all():
        return b
    return _choose(wins, b, a) if wins.any() else a


def _choose(take_first: NDArray[np.bool_], a: Climb, b: Climb) -> Climb:
    """Networks of `a` where the mask is set, else of `b`."""

    def pick(x: Any, y: Any) -> Any:
        return np.where(take_first.reshape(-1, *[1] * (x.ndim - 1)), x, y)

    def pick_network(x: Network, y: Network) -> Network:
        factors = tuple(map(pick, x.log_factors, y.log_factors))
        return replace(
            x,
            log_factors=factors,
            log_table=pick(x.log_table, y.log_table),
            mean=pick(x.mean, y.mean),
            sigma2=pick(x.sigma2, y.sigma2),
        )

    s, t = a.statistics, b.statistics
    statistics = Statistics(*(pick(getattr(s, n), getattr(t, n)) for n in Statistics.__dataclass_fields__))
    traces = tuple(x if first else y for first, x, y in zip(take_first, a.traces, b.traces))
    return Climb(
        pick_network(a.network, b.network), statistics, pick(a.objective, b.objective), traces, pick(a.gain, b.gain)
    )


# ---------------------------------------------------------------- acceleration


def _accelerated_cycle(problem: Problem, climb: Climb) -> Climb:
    """SQUAREM (Varadhan & Roland 2008, scheme S3), safeguarded.

    From theta0, EM leads to theta1 and theta2. With r = theta1 - theta0, v = theta2 - theta1 - r and
    a = -|r| / |v|, go to theta0 - 2 a r + a^2 v: a = -1 is theta2 itself. Where that lowers the objective
    below theta1's, theta2 is taken. Coordinates are unconstrained: log probabilities, means, log variances.
    """
    first = _plain_step(problem, climb)
    second = _maximise(problem, first)
    x0, x1, x2 = (_coordinates(n) for n in (climb.network, first.network, second))
    r = [b - a for a, b in zip(x0, x1)]
    v = [c - b - d for b, c, d in zip(x1, x2, r)]
    norm_r, norm_v = _norm(r), _norm(v)
    a = -np.maximum(1.0, np.divide(norm_r, norm_v, out=np.ones_like(norm_r), where=norm_v > 0))
    far = [
        x - 2 * _along(a, x) * dx + _along(a, x) ** 2 * dv for x, dx, dv in zip(x0, r, v)
    ]
    network = _from_coordinates(second, far, problem.prior)
    statistics, objective = _look(problem, network)
    leap = Climb(network, statistics, objective, _longer(first, objective), first.gain)
    risen = objective >= first.objective  # False for NaN
    if risen.all():
        return leap
    statistics, objective = _look(problem, second)
    safe = Climb(second, statistics, objective, _longer(first, objective), first.gain)
    return _choose(risen, leap, safe) if risen.any() else safe


def _coordinates(n: Network) -> list[Floats]:
    return [*n.log_factors, n.log_table, n.mean, np.log(n.sigma2)]


def _from_coordinates(like: Network, x: list[Floats], prior: Prior) -> Network:
    *log_factors, log_table, mean, log_sigma2 = x
    return replace(
        like,
        log_factors=normalise_factors(tuple(log_factors), like.structure),
        log_table=categorical.normalise(log_table, like.layout),
        mean=mean,
        sigma2=np.maximum(np.exp(np.clip(log_sigma2, -600.0, 600.0)), prior.floor),
    )


def _norm(parts: list[Floats]) -> Floats:
    return np.sqrt(sum((np.square(p).reshape(len(p), -1).sum(axis=1) for p in parts), start=np.zeros(len(parts[0]))))


def _along(a: Floats, x: Floats) -> Floats:
    return a.reshape(-1, *[1] * (x.ndim - 1))
