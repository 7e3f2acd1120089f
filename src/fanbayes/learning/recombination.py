"""The best of each class, of several starts.

Given the labels, the cells of one class do not depend on those of another: the classes of FAN share p(h) at most. A
start may be good for one class and bad for another, so the best of each make a better network than any start.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fanbayes.learning.em import Climb, Problem
from fanbayes.model.families import gaussian
from fanbayes.model.network import Network, Statistics, estimate, estimate_factors

Floats = NDArray[np.float64]

# Times that p(h) and the choice of the best starts are adapted to each other.
_ADAPTATIONS = 4


def recombined(problem: Problem, climb: Climb, ranks: NDArray[np.intp]) -> Network | None:
    """A network for each rank k: of every class what the k-th best start for it has found.

    Statistics are put together, not parameters, so that the M-step does what is right for all that the classes share.
    Components are put in the order of their share in the class, as p(h) is one for all.

    None where the classes are not apart (FM, a single class), or where a start is not known by its likelihood (CEM,
    the variance of the paper).
    """
    structure, s = climb.network.structure, climb.statistics
    if structure.class_of_cell is None or structure.n_classes == 1 or problem.hard or not problem.is_monotone:
        return None
    by_share = np.lexsort((-s.states, np.broadcast_to(structure.class_of, s.states.shape)))
    worth = _class_objectives(problem, climb)
    if structure.factors[1].name == "component":
        worth = _under_one_p(problem, climb, worth, np.take_along_axis(s.states, by_share, axis=1))
    best = np.argsort(-worth, axis=0, kind="stable")  # (n_starts, n_classes)
    start = best[np.ix_(ranks, structure.class_of)]  # (n_ranks, n_states)
    state = by_share[start, np.arange(structure.n_states)]

    def pick(x: Floats) -> Floats:  # (n_starts, ..., n_states) to (n_ranks, ..., n_states)
        return np.moveaxis(np.moveaxis(x, -1, 1)[start, state], 1, -1)

    unknown = np.full(len(ranks), np.nan)
    of_class = np.full((len(ranks), structure.n_classes), np.nan)
    together = Statistics(pick(s.states), pick(s.counts), pick(s.moments), of_class, unknown, unknown, unknown)
    return estimate(together, structure, climb.network.layout, problem.prior)


def _under_one_p(problem: Problem, climb: Climb, worth: Floats, cases: Floats) -> Floats:
    """What each class of each start is worth under one p(h) for all, (n_starts, n_classes).

    It was found under the start's own p(h). Under another, p', it is at least sum_h N_h (log p'(h) - log p(h)) more,
    N_h being the class's expected cases of h (Jensen's inequality). From p(h) of the best start on, the best for each
    class are chosen and p(h) is estimated from their cases, several times: no step can fall.

    Parameters
    ----------
    worth : (n_starts, n_classes), under each start's own p(h)
    cases : (n_starts, n_states), expected cases of the components of each class, the most frequent first
    """
    structure, network = climb.network.structure, climb.network
    (of_class, hidden), states = structure.factors, np.arange(structure.n_states)
    own = worth - (climb.statistics.states * network.log_factors[1][:, hidden.entry]) @ of_class.indicator
    log_p = np.sort(network.log_factors[1][np.argmax(climb.objective)])[::-1]
    for _ in range(_ADAPTATIONS):
        worth = own + (cases * log_p[hidden.entry]) @ of_class.indicator
        chosen = cases[np.argmax(worth, axis=0)[structure.class_of], states]
        log_p = estimate_factors(chosen[None], structure, problem.prior.alpha)[1][0]
    return worth


def _class_objectives(problem: Problem, climb: Climb) -> Floats:
    """What each class adds to the objective of each start (n_starts, n_classes): its rows and its cells' prior."""
    network = climb.network
    of_cells = problem.prior.alpha * network.log_table.sum(axis=1)  # (n_starts, n_cells)
    mean, sigma2 = (np.moveaxis(x, -1, 0)[..., None] for x in (network.mean, network.sigma2))
    of_cells += gaussian.log_prior(mean, sigma2).T
    return np.asarray(climb.statistics.of_class + of_cells @ network.structure.factors[0].indicator)
