"""The best of each class, of several starts.

Given the labels, the cells of one class do not depend on those of another: the classes of FAN share p(h) at most. A
start may be good for one class and bad for another, so the best of each make a better network than any start.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fanbayes.learning.em import Climb, Problem
from fanbayes.model.families import gaussian
from fanbayes.model.network import Network, Statistics, estimate

Floats = NDArray[np.float64]


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
    best = np.argsort(-_class_objectives(problem, climb), axis=0, kind="stable")  # (n_starts, n_classes)
    start = best[np.ix_(ranks, structure.class_of)]  # (n_ranks, n_states)
    by_share = np.lexsort((-s.states, np.broadcast_to(structure.class_of, s.states.shape)))
    state = by_share[start, np.arange(structure.n_states)]

    def pick(x: Floats) -> Floats:  # (n_starts, ..., n_states) to (n_ranks, ..., n_states)
        return np.moveaxis(np.moveaxis(x, -1, 1)[start, state], 1, -1)

    unknown = np.full(len(ranks), np.nan)
    of_class = np.full((len(ranks), structure.n_classes), np.nan)
    together = Statistics(pick(s.states), pick(s.counts), pick(s.moments), of_class, unknown, unknown, unknown)
    return estimate(together, structure, climb.network.layout, problem.prior)


def _class_objectives(problem: Problem, climb: Climb) -> Floats:
    """What each class adds to the objective of each start (n_starts, n_classes): its rows and its cells' prior."""
    network = climb.network
    of_cells = problem.prior.alpha * network.log_table.sum(axis=1)  # (n_starts, n_cells)
    mean, sigma2 = (np.moveaxis(x, -1, 0)[..., None] for x in (network.mean, network.sigma2))
    of_cells += gaussian.log_prior(mean, sigma2).T
    return np.asarray(climb.statistics.of_class + of_cells @ network.structure.factors[0].indicator)
