"""One loop for EM and CEM.

EM (8) maximises ``log p(D | theta) + log p(theta)``, CEM (9) ``log p(D, z | theta) + log p(theta)``: no step of theirs
can fall. The variance of the paper (7) maximises nothing, so its trace may fall; then the best network on the way is
kept.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fanbayes.arrays import Floats, Mask
from fanbayes.learning.data import TrainingData
from fanbayes.learning.state import EMState
from fanbayes.model.blocks import EstimationOptions
from fanbayes.model.network import Model, Network, Statistics
from fanbayes.model.structure import Structure

# How far the first accelerated step may go, in steps of EM.
_REACH = 16.0


@dataclass(frozen=True)
class Problem:
    """What is maximised: over which rows, with which options, by EM or CEM (`hard`).

    `simpler` is the same with fewer parameters, if EM is to go on from the best network of that.
    """

    data: TrainingData
    options: EstimationOptions
    hard: bool = False
    accelerate: bool = True
    simpler: Problem | None = None

    def model(self, structure: Structure) -> Model:
        """The model of a structure."""
        return Model(structure, self.data.layout, self.options)


def initial_state(problem: Problem, network: Network) -> EMState:
    """One pass over the rows under each network."""
    return _state(network, *_pass(problem, network), gain=np.inf)


def final_state(problem: Problem, network: Network, statistics: Statistics) -> EMState:
    """The end of EM where nothing is hidden: the statistics do not depend on the parameters that they led to."""
    return _state(network, statistics, _objective(problem, network, statistics), gain=0.0)


def _state(network: Network, statistics: Statistics, objective: Floats, gain: float) -> EMState:
    each = np.ones(len(network))
    return EMState(network, statistics, objective, objective[:, None], each[:, None], gain * each, _REACH * each)


def run_em(problem: Problem, state: EMState, n_passes: int, tol: float) -> EMState:
    """EM until `n_passes` more passes are done or no network gains more than `tol` per case in a step.

    It is accelerated: every second pass is a step further along the way of the last two; where the objective would
    fall, a network stays at the plain step, so it never ends below that.
    """
    least_gain = tol * problem.data.total_weight
    if problem.options.is_monotone:
        return _run(problem, state, n_passes, least_gain)
    best = state
    goal = state.n_iter + n_passes
    while state.n_iter < goal and not state.has_converged(least_gain):
        state = _run(problem, state, 1, least_gain)
        best = state.where(state.objective > best.objective, replace(best, traces=state.traces, shares=state.shares))
    return replace(best, gain=state.gain)


def _run(problem: Problem, state: EMState, n_passes: int, least_gain: float) -> EMState:
    if n_passes < 1 or state.has_converged(least_gain):
        return state
    accelerate = problem.accelerate and problem.options.is_monotone and not problem.hard
    done = problem.data.run_em(state, n_passes, least_gain, hard=problem.hard, accelerate=accelerate)
    if done is not None:
        return done
    while n_passes > 0 and not state.has_converged(least_gain):
        before, state = state, _step(problem, state)
        n_passes -= 1
        if accelerate and n_passes > 0 and not state.has_converged(least_gain):
            state = _accelerated_step(problem, before, state)
            n_passes -= 1
    return state


def _step(problem: Problem, state: EMState) -> EMState:
    """M-step, E-step."""
    network = state.network.model.estimate(state.statistics)
    statistics, objective = _pass(problem, network)
    gain = objective - state.objective
    return EMState(network, statistics, objective, *_longer(state, objective), gain, state.reach)


def _accelerated_step(problem: Problem, before: EMState, state: EMState) -> EMState:
    """SQUAREM (Varadhan & Roland 2008, scheme S3).

    From theta0, EM leads to theta1 and theta2. With r = theta1 - theta0, v = theta2 - theta1 - r and a = |r| / |v|, go
    to theta0 + 2 a r + a^2 v: a = 1 is theta2 itself. Coordinates are unconstrained. Where the objective would fall,
    stay at theta1, and go less far next time.
    """
    model = state.network.model
    theta0, theta1 = before.network.coordinates(), state.network.coordinates()
    r = theta1 - theta0
    v = model.estimate(state.statistics).coordinates() - theta1 - r
    metric = np.concatenate([np.ones(r.shape[1] - state.network.shared.shape[1]), model.cells_of_shared])
    rr, vv = r**2 @ metric, v**2 @ metric
    wanted = np.maximum(1.0, np.sqrt(np.divide(rr, vv, out=np.ones_like(rr), where=vv > 0)))
    length = np.minimum(wanted, state.reach)[:, None]
    there, better = step_if_better(problem, state, state.network.at(theta0 + 2 * length * r + length**2 * v))
    further = np.where(wanted > state.reach, 2 * state.reach, state.reach)
    return replace(there, reach=np.where(better, further, np.maximum(1.0, length[:, 0] / 2)))


def step_if_better(problem: Problem, state: EMState, network: Network) -> tuple[EMState, Mask]:
    """Pass over the rows under other networks, one for each, and go there where the objective is not lower; say where.

    It takes a pass, also where it is in vain.
    """
    statistics, objective = _pass(problem, network)
    there = EMState(network, statistics, objective, *_longer(state, objective), state.gain, state.reach)
    traces, shares = _longer(state, state.objective)
    here = replace(state, traces=traces, shares=shares)
    better = objective >= state.objective  # False for NaN
    return there.where(better, here), better


def _pass(problem: Problem, network: Network) -> tuple[Statistics, Floats]:
    """One pass over the rows: statistics and objective at the parameters."""
    statistics = problem.data.e_step(network.terms, hard=problem.hard)
    return statistics, _objective(problem, network, statistics)


def _objective(problem: Problem, network: Network, statistics: Statistics) -> Floats:
    fit = statistics.joint if problem.hard else statistics.log_likelihood
    return fit + network.log_prior()


def _longer(state: EMState, objective: Floats) -> tuple[Floats, Floats]:
    """Traces and shares after one more pass, over all rows."""
    return np.column_stack([state.traces, objective]), np.column_stack([state.shares, np.ones(len(objective))])
