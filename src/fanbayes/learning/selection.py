"""The search over the number of components."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fanbayes.arrays import Floats
from fanbayes.learning.data import TrainingData
from fanbayes.learning.em import Problem, final_state, initial_state, run_em, step_if_better
from fanbayes.learning.per_class import class_scores, compose
from fanbayes.learning.recombination import recombined
from fanbayes.learning.scores import Criterion, Scores, score
from fanbayes.learning.starts import labelled_naive_bayes, random_networks, split_networks, uncorrelated
from fanbayes.learning.state import EMState
from fanbayes.learning.structural_em import ArcSearch, fit_trees
from fanbayes.model.network import Network, Statistics
from fanbayes.model.structure import Structure
from fanbayes.model.tree import TreeLayout

# Passes between two halvings of the starts.
ROUND = 6

# Cases that the short runs see of a large table: so many, or so many for each cell.
CASES = 3000
CASES_PER_CELL = 25

# Sizes are compared when a step gains less than this per case. Then those are finished that may still be the best: who
# is further behind than a hundred such steps is not.
ROUGH = 1e-4
BEHIND = 100 * ROUGH

Status = Literal["best", "stopped", "degenerate"]
Origin = Literal["naive Bayes", "random", "split", "best of each class", "uncorrelated", "earlier calls"]
NaiveBayes = tuple[Network, Statistics]


@dataclass(frozen=True)
class Start:
    """What became of one start: the best was finished, others were stopped early or degenerated.

    `objective` and `trace` of those that were not finished are over the cases that the short runs saw.
    """

    n_components: int
    origin: Origin
    objective: float
    trace: tuple[float, ...]
    status: Status

    @property
    def n_iter(self) -> int:
        """Passes over the data."""
        return len(self.trace)


@dataclass(frozen=True)
class Fit:
    """The best network of one size."""

    network: Network
    n_components: int
    scores: Scores
    trace: tuple[float, ...]
    converged: bool
    starts: tuple[Start, ...]
    seconds: float
    statistics: Statistics  # of all rows, under the network

    @property
    def n_iter(self) -> int:
        """Passes over the data."""
        return len(self.trace)

    @property
    def n_degenerate(self) -> int:
        """Starts that were dropped because their objective was no longer a number."""
        return sum(s.status == "degenerate" for s in self.starts)


@dataclass(frozen=True)
class Search:
    """How to search: starts, stopping, and how the number of components is chosen."""

    structure_of: Callable[[int], Structure]
    sizes: Sequence[int]
    criteria: tuple[Criterion, ...] = ("bic",)
    patience: int = 1
    n_init: int = 1
    max_iter: int = 1000
    tol: float = 1e-6
    seed: int = 0
    is_capped: bool = False  # whether larger sizes than the last could have been tried
    per_class: bool = False  # whether each class may have a number of components of its own
    rough: float = 0.0  # tolerance that is enough for now
    arcs: ArcSearch | None = None  # how arcs between features are found, if there may be any


@dataclass(frozen=True)
class Selection:
    """All candidates, in the order in which they were tried."""

    fits: tuple[Fit, ...]

    def best(self, criterion: Criterion) -> int:
        """Position of the candidate with the highest score, the smallest of them if there are several."""
        return int(np.argmax([getattr(f.scores, criterion) for f in self.fits]))


def select(problem: Problem, search: Search, n_classes: int, report: Callable[[Fit], None]) -> Selection:
    """Fit one size after the other; stop when no criterion has found better for `patience` sizes."""
    if len(search.sizes) > 1 and problem.options.is_monotone:
        search = replace(search, rough=ROUGH)
    nb = labelled_naive_bayes(problem, n_classes)
    subsample = cache(problem.data.subsample)  # most sizes ask for as many cases
    fits: list[Fit] = []
    previous: Network | None = None  # of one component less, without arcs
    of_classes: list[list[Floats]] = [[] for _ in search.criteria]  # scores of each class, size by size
    for size in search.sizes:
        if previous is not None and previous.structure.n_components != size - 1:
            previous = None
        fit = fit_size(problem, search, size, nb, previous, subsample)
        if fit is None:
            break
        previous = fit.network
        fit = _with_arcs(problem, search, fit)
        fits.append(fit)
        report(fit)
        best = [Selection(tuple(fits)).best(criterion) for criterion in search.criteria]
        if search.per_class and search.arcs is None:
            for scores, criterion in zip(of_classes, search.criteria):
                scores.append(class_scores(problem, fit.network, criterion))
                best += np.argmax(scores, axis=0).tolist()
        if len(fits) - 1 - max(best) >= search.patience:
            break
    if not fits:
        raise FloatingPointError("every start degenerated; look for columns of extreme values, or raise variance_floor")
    if search.per_class and problem.options.covariance == "full" and problem.options.variance_tying == "all":
        # Beside one covariance, that of the best: what one class does to it is no reason for components of another.
        for scores, criterion in zip(of_classes, search.criteria):
            shared = fits[Selection(tuple(fits)).best(criterion)].network.shared
            scores[:] = [class_scores(problem, replace(fit.network, shared=shared), criterion) for fit in fits]
    choices = [tuple(np.argmax(scores, axis=0).tolist()) for scores in of_classes if scores]
    for chosen in dict.fromkeys(choices):  # several criteria may agree
        if len(set(chosen)) > 1 and (fit := _composed(problem, search, fits, chosen)) is not None:
            fits.append(fit)
            report(fit)
    return _with_rivals_finished(problem, replace(search, rough=0.0), fits, report)


def _with_arcs(problem: Problem, search: Search, fit: Fit) -> Fit:
    """The best of the trees that structural EM comes by; or the fit as it is, if arcs are worth nothing."""
    if search.arcs is None:
        return fit
    began, criterion = time.perf_counter() - fit.seconds, search.criteria[0]
    trees = fit_trees(problem, search.arcs, fit.network, criterion, search.max_iter - 1, search.tol)
    found = [_finished(on, search, fit.n_components, state, fit.starts, began) for on, state in trees]
    sound = [f for f in found if np.isfinite(f.scores.log_likelihood)]
    rivals = sound if search.arcs.full and sound else [fit, *sound]
    return max(rivals, key=lambda f: float(getattr(f.scores, criterion)))


def _with_rivals_finished(
    problem: Problem, search: Search, fits: list[Fit], report: Callable[[Fit], None]
) -> Selection:
    """Go on with all that are not far behind the best, and report them again."""
    margin = BEHIND * problem.data.total_weight
    best = {criterion: max(getattr(fit.scores, criterion) for fit in fits) for criterion in search.criteria}

    def finished(fit: Fit) -> Fit:
        n_passes = search.max_iter - fit.n_iter - 1  # beside the first pass
        behind = all(getattr(fit.scores, criterion) < top - margin for criterion, top in best.items())
        if fit.converged or behind or n_passes < 1 or isinstance(fit.network.layout, TreeLayout):
            return fit
        began = time.perf_counter() - fit.seconds
        state = run_em(problem, initial_state(problem, fit.network), n_passes, search.tol)
        if not np.isfinite(state.objective[0]):
            return fit
        end, trace = float(state.objective[0]), fit.trace + _trace(state)
        starts = tuple(
            replace(start, objective=end, trace=trace) if start.status == "best" else start for start in fit.starts
        )
        better = replace(_finished(problem, search, fit.n_components, state, starts, began), trace=trace)
        report(better)
        return better

    return Selection(tuple(map(finished, fits)))


def _composed(problem: Problem, search: Search, fits: list[Fit], chosen: Sequence[int]) -> Fit | None:
    """The network in which each class has the number of components of the fit chosen for it; None if it degenerates."""
    began = time.perf_counter()
    network = compose([fit.network for fit in fits], chosen)
    state = run_em(problem, initial_state(problem, network), search.max_iter - 1, max(search.tol, search.rough))
    if not np.isfinite(state.objective[0]):
        return None
    size = network.structure.n_components
    start = Start(size, "best of each class", float(state.objective[0]), _trace(state), "best")
    return _finished(problem, search, size, state, (start,), began)


def continue_with_cem(problem: Problem, search: Search, selection: Selection) -> Selection:
    """Candidates after CEM, begun at each candidate's own estimate."""
    hard = replace(problem, hard=True)
    fits = []
    for fit in selection.fits:
        began = time.perf_counter()
        state = run_em(hard, initial_state(hard, fit.network), search.max_iter - 1, search.tol)
        fits.append(_finished(hard, search, fit.n_components, state, fit.starts, began))
    return Selection(tuple(fits))


def fit_size(
    problem: Problem,
    search: Search,
    size: int,
    nb: NaiveBayes,
    previous: Network | None,
    subsample: Callable[[int], TrainingData] | None = None,
) -> Fit | None:
    """Best network of one size with its scores, parameters as in `best_start`; None if every start degenerated."""
    began = time.perf_counter()
    found = best_start(problem, search, size, nb, previous, subsample)
    return None if found is None else _finished(problem, search, size, *found, began)


def best_start(
    problem: Problem,
    search: Search,
    size: int,
    nb: NaiveBayes,
    previous: Network | None = None,
    subsample: Callable[[int], TrainingData] | None = None,
) -> tuple[EMState, tuple[Start, ...]] | None:
    """Best network of one size, of several starts: short runs, the worse half dropped, the best finished.

    Before half of them are dropped, they exchange what they found for each class (`recombined`).

    None if every start degenerated.

    The short runs see a part of a large table that stands for all of it (`TrainingData.subsample`).

    Parameters
    ----------
    nb : the naive Bayes network of the labelled rows, around which starts are drawn, and its statistics
    previous : the network of one component less, if there is one, to start from as well
    subsample : the data's own, unless what it has found is kept for other sizes
    """
    tol = max(search.tol, search.rough)
    structure = search.structure_of(size)
    rng = np.random.default_rng([search.seed, size])
    n_cases = max(CASES, CASES_PER_CELL * structure.n_cells)
    trial = problem if size == 1 else replace(problem, data=(subsample or problem.data.subsample)(n_cases))
    state, origins = _starts(trial, search, structure, nb, previous, rng)
    places = np.arange(len(origins))  # number of the start that each remaining network is
    fates: list[Start | None] = [None] * len(origins)

    def retire(keep: NDArray[np.bool_], status: Status) -> None:
        nonlocal state, places
        for i in np.flatnonzero(~keep):
            fates[places[i]] = Start(size, origins[places[i]], float(state.objective[i]), _trace(state, int(i)), status)
        state, places = state.take(np.flatnonzero(keep)), places[keep]

    def drop_degenerate() -> None:
        sound = np.isfinite(state.objective)
        if sound.any() and not sound.all():
            retire(sound, "degenerate")

    drop_degenerate()
    while len(places) > 1:
        state = run_em(trial, state, min(ROUND, search.max_iter - state.n_iter), tol)
        drop_degenerate()
        rank = np.argsort(np.argsort(-state.objective, kind="stable"), kind="stable")
        keep = rank < (len(places) + 1) // 2
        others = recombined(trial, state, rank[keep]) if state.n_iter < search.max_iter else None
        retire(keep, "stopped")
        if others is not None:
            state, better = step_if_better(trial, state, others)
            state = replace(state, gain=np.where(better, np.inf, state.gain))
    if trial.data is not problem.data:
        state = initial_state(problem, run_em(trial, state, 2 * ROUND, tol).network)
    state = run_em(problem, state, search.max_iter - state.n_iter, tol)
    if not np.isfinite(state.objective[0]):
        return None
    fates[places[0]] = Start(size, origins[places[0]], float(state.objective[0]), _trace(state), "best")
    return state, tuple(f for f in fates if f is not None)


def _finished(
    problem: Problem, search: Search, size: int, state: EMState, starts: tuple[Start, ...], began: float
) -> Fit:
    """Score the network at the end of EM."""
    # Scores are of the estimate itself: the expected statistics at it, also where CEM found it.
    statistics = problem.data.e_step(state.network.terms) if problem.hard else state.statistics
    n = problem.data.total_weight
    least_gain = search.tol * n
    # Where steps may fall, the network is the best on the way, and need not be the one at which it came to rest.
    at_rest = bool(state.traces[0, -1] >= state.objective[0] - least_gain)
    return Fit(
        network=state.network,
        n_components=size,
        scores=score(state.network, statistics, n),
        trace=_trace(state),
        converged=state.has_converged(least_gain) and at_rest,
        starts=starts,
        seconds=time.perf_counter() - began,
        statistics=statistics,
    )


def _trace(state: EMState, k: int = 0) -> tuple[float, ...]:
    """Trace of the k-th network."""
    return tuple(state.traces[k].tolist())


def _starts(
    problem: Problem,
    search: Search,
    structure: Structure,
    nb: NaiveBayes,
    previous: Network | None,
    rng: np.random.Generator,
) -> tuple[EMState, list[Origin]]:
    """Networks to start from, after their first pass over the rows, and where each came from."""
    naive, statistics = nb
    model = problem.model(structure)
    if structure.n_components == 1 and structure.class_of_cell is not None:
        # Naive Bayes, with p(h) = 1 if there is an h. EM on unlabelled rows begins with the labelled ones' fit.
        sure = np.zeros((1, int(structure.factor_ends[-1]) - structure.n_classes))
        network = replace(naive, model=model, factors=np.concatenate([naive.factors, sure], axis=1))
        known = problem.data.is_labelled
        return final_state(problem, network, statistics) if known else initial_state(problem, network), ["naive Bayes"]
    if structure.n_components == 1:
        return initial_state(problem, random_networks(naive, model, rng, 1)), ["random"]
    if problem.simpler is not None:
        nb = labelled_naive_bayes(problem.simpler, structure.n_classes)
        found = best_start(problem.simpler, search, structure.n_components, nb)
        if found is not None:
            return initial_state(problem, uncorrelated(found[0].network, model)), ["uncorrelated"]
    n_split = 0 if previous is None else search.n_init // 3
    n_random = search.n_init - n_split
    state = initial_state(problem, random_networks(naive, model, rng, n_random))
    if previous is not None and n_split:
        state = state.beside(initial_state(problem, split_networks(previous, model, rng, n_split)))
    origins: list[Origin] = ["random"] * n_random
    return state, origins + ["split"] * n_split
