"""The best of each class, of several starts.

Given the labels, the cells of one class do not depend on those of another: the classes of FAN share p(h) at most. A
start may be good for one class and bad for another, so the best of each make a better network than any start.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fanbayes.arrays import Floats
from fanbayes.learning.em import Problem
from fanbayes.learning.state import EMState
from fanbayes.model.network import Network, Statistics

# Times that p(h) and the choice of the best starts are adapted to each other.
_ADAPTATIONS = 4


def recombined(problem: Problem, state: EMState, ranks: NDArray[np.intp]) -> Network | None:
    """A network for each rank k: of every class what the k-th best start for it has found.

    Statistics are put together, not parameters, so that the M-step does what is right for all that the classes share.
    Components are put in the order of their share in the class, as p(h) is one for all.

    None where the classes are not apart (FM, a single class), or where a start is not known by its likelihood (CEM,
    the variance of the paper).
    """
    structure, s = state.network.structure, state.statistics
    monotone = problem.options.is_monotone
    if structure.class_of_cell is None or structure.n_classes == 1 or problem.hard or not monotone:
        return None
    by_share = np.lexsort((-s.states, np.broadcast_to(structure.class_of, s.states.shape)))
    worth = _class_objectives(state)
    if structure.factors[1].name == "component":
        worth = _under_one_p(problem, state, worth, np.take_along_axis(s.states, by_share, axis=1))
    best = np.argsort(-worth, axis=0, kind="stable")  # (n_starts, n_classes)
    start = best[np.ix_(ranks, structure.class_of)]  # (n_ranks, n_states)
    place = by_share[start, np.arange(structure.n_states)]

    def pick(x: Floats) -> Floats:  # (n_starts, ..., n_states) to (n_ranks, ..., n_states)
        return np.moveaxis(np.moveaxis(x, -1, 1)[start, place], 1, -1)

    unknown = np.full(len(ranks), np.nan)
    of_classes = np.full((len(ranks), structure.n_classes), np.nan)
    together = Statistics(pick(s.states), pick(s.cells), of_classes, unknown, unknown, unknown)
    return state.network.model.estimate(together)


def _under_one_p(problem: Problem, state: EMState, worth: Floats, cases: Floats) -> Floats:
    """What each class of each start is worth under one p(h) for all, (n_starts, n_classes).

    It was found under the start's own p(h). Under another, p', it is at least sum_h N_h (log p'(h) - log p(h)) more,
    N_h being the class's expected cases of h (Jensen's inequality). From p(h) of the best start on, the best for each
    class are chosen and p(h) is estimated from their cases, several times: no step can fall.

    Parameters
    ----------
    worth : (n_starts, n_classes), under each start's own p(h)
    cases : (n_starts, n_states), expected cases of the components of each class, the most frequent first
    """
    structure = state.network.structure
    (of_class, hidden), states = structure.factors, np.arange(structure.n_states)
    log_p_own = structure.split(state.network.factors)[1]
    own = worth - (state.statistics.states * log_p_own[:, hidden.entry]) @ of_class.indicator
    log_p = np.sort(log_p_own[np.argmax(state.objective)])[::-1]
    for _ in range(_ADAPTATIONS):
        worth = own + (cases * log_p[hidden.entry]) @ of_class.indicator
        chosen = cases[np.argmax(worth, axis=0)[structure.class_of], states]
        log_p = hidden.estimate(chosen[None], problem.options.alpha)[0]
    return worth


def _class_objectives(state: EMState) -> Floats:
    """What each class adds to the objective of each start (n_starts, n_classes): its rows and its cells' prior."""
    network = state.network
    none = np.zeros((len(network), network.structure.n_cells))
    of_cells = sum((p.block.cell_log_prior(cells, shared) for p, cells, shared in network.parts), start=none)
    return np.asarray(state.statistics.class_log_likelihood + of_cells @ network.structure.factors[0].indicator)
