"""The search over the number of components."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fanbayes.data.table import EncodedTable
from fanbayes.learning.em import Climb, Problem, advance, arrived, begin, go_if_better, has_converged
from fanbayes.learning.expectation import expect
from fanbayes.learning.per_class import class_scores, compose
from fanbayes.learning.recombination import recombined
from fanbayes.learning.scores import Criterion, Scores, score
from fanbayes.learning.starts import labelled_naive_bayes, random_networks, split_networks
from fanbayes.model.network import Network, Statistics, tied_cells
from fanbayes.model.structure import Structure

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
Origin = Literal["naive Bayes", "random", "split", "best of each class"]
Floats = NDArray[np.float64]
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
    criteria: tuple[Criterion, ...]
    patience: int
    n_init: int
    max_iter: int
    tol: float
    seed: int
    is_capped: bool = False  # whether larger sizes than the last could have been tried
    per_class: bool = False  # whether each class may have a number of components of its own
    rough: float = 0.0  # tolerance that is enough for now


@dataclass(frozen=True)
class Selection:
    """All candidates, in the order in which they were tried."""

    fits: tuple[Fit, ...]

    def best(self, criterion: Criterion) -> int:
        """Position of the candidate with the highest score, the smallest of them if there are several."""
        return int(np.argmax([getattr(f.scores, criterion) for f in self.fits]))


def select(problem: Problem, search: Search, n_classes: int, report: Callable[[Fit], None]) -> Selection:
    """Fit one size after the other; stop when no criterion has found better for `patience` sizes."""
    if max(search.sizes) > 1:  # there will be many passes: prepare for them
        problem = replace(problem, table=problem.table.collapsed().by_class())
    if len(search.sizes) > 1 and problem.is_monotone:
        search = replace(search, rough=ROUGH)
    nb = labelled_naive_bayes(problem.table, n_classes, problem.prior, problem.crew)
    thinned = cache(problem.table.thinned)  # most sizes ask for as many cases
    fits: list[Fit] = []
    of_classes: list[list[Floats]] = [[] for _ in search.criteria]  # scores of each class, size by size
    for size in search.sizes:
        previous = fits[-1].network if fits and fits[-1].n_components == size - 1 else None
        fit = fit_size(problem, search, size, nb, previous, thinned)
        if fit is None:
            break
        fits.append(fit)
        report(fit)
        best = [Selection(tuple(fits)).best(criterion) for criterion in search.criteria]
        if search.per_class:
            for scores, criterion in zip(of_classes, search.criteria):
                scores.append(class_scores(problem, fit.network, criterion))
                best += np.argmax(scores, axis=0).tolist()
        if len(fits) - 1 - max(best) >= search.patience:
            break
    if not fits:
        raise FloatingPointError("every start degenerated; look for columns of extreme values, or raise variance_floor")
    choices = [tuple(np.argmax(scores, axis=0).tolist()) for scores in of_classes if search.per_class]
    for chosen in dict.fromkeys(choices):  # several criteria may agree
        if len(set(chosen)) > 1 and (fit := _composed(problem, search, fits, chosen)) is not None:
            fits.append(fit)
            report(fit)
    return _with_rivals_finished(problem, replace(search, rough=0.0), fits, report)


def _with_rivals_finished(
    problem: Problem, search: Search, fits: list[Fit], report: Callable[[Fit], None]
) -> Selection:
    """Climb on with all that are not far behind the best, and report them again."""
    margin = BEHIND * problem.table.total_weight
    best = {criterion: max(getattr(fit.scores, criterion) for fit in fits) for criterion in search.criteria}

    def finished(fit: Fit) -> Fit:
        n_passes = search.max_iter - fit.n_iter - 1  # beside the first look
        behind = all(getattr(fit.scores, criterion) < top - margin for criterion, top in best.items())
        if fit.converged or behind or n_passes < 1:
            return fit
        began = time.perf_counter() - fit.seconds
        climb = advance(problem, begin(problem, fit.network), n_passes, search.tol)
        if not np.isfinite(climb.objective[0]):
            return fit
        climb = replace(climb, traces=(fit.trace + climb.traces[0],))
        end, trace = float(climb.objective[0]), climb.traces[0]
        starts = tuple(
            replace(start, objective=end, trace=trace) if start.status == "best" else start for start in fit.starts
        )
        better = _finished(problem, search, fit.n_components, climb, starts, began)
        report(better)
        return better

    return Selection(tuple(map(finished, fits)))


def _composed(problem: Problem, search: Search, fits: list[Fit], chosen: Sequence[int]) -> Fit | None:
    """The network in which each class has the number of components of the fit chosen for it; None if it degenerates."""
    began = time.perf_counter()
    network = compose([fit.network for fit in fits], chosen)
    tied = tied_cells(network.structure, problem.prior.variance)
    if tied is not None:  # those of other fits are not the same yet
        network = replace(network, sigma2=tied.mean(network.sigma2))
    climb = advance(problem, begin(problem, network), search.max_iter - 1, max(search.tol, search.rough))
    if not np.isfinite(climb.objective[0]):
        return None
    size = network.structure.n_components
    start = Start(size, "best of each class", float(climb.objective[0]), climb.traces[0], "best")
    return _finished(problem, search, size, climb, (start,), began)


def continue_with_cem(problem: Problem, search: Search, selection: Selection) -> Selection:
    """Candidates after CEM, begun at each candidate's own estimate."""
    hard = replace(problem, hard=True)
    fits = []
    for fit in selection.fits:
        began = time.perf_counter()
        climb = advance(hard, begin(hard, fit.network), search.max_iter - 1, search.tol)
        fits.append(_finished(hard, search, fit.n_components, climb, fit.starts, began))
    return Selection(tuple(fits))


def fit_size(
    problem: Problem,
    search: Search,
    size: int,
    nb: NaiveBayes,
    previous: Network | None,
    thinned: Callable[[int], EncodedTable] | None = None,
) -> Fit | None:
    """Best network of one size, of several starts: short runs, the worse half dropped, the best finished.

    Before half of them are dropped, they exchange what they found for each class (`recombined`).

    None if every start degenerated.

    The short runs see a part of a large table that stands for all of it (`EncodedTable.thinned`).

    Parameters
    ----------
    nb : the naive Bayes network of the labelled rows, around which starts are drawn, and its statistics
    previous : the network of one component less, if there is one, to start from as well
    thinned : the table's own, unless what it has found is kept for other sizes
    """
    began = time.perf_counter()
    tol = max(search.tol, search.rough)
    structure = search.structure_of(size)
    rng = np.random.default_rng([search.seed, size])
    n_cases = max(CASES, CASES_PER_CELL * structure.n_cells)
    trial = problem if size == 1 else replace(problem, table=(thinned or problem.table.thinned)(n_cases))
    climb, origins = _starts(trial, search, structure, nb, previous, rng)
    places = np.arange(len(origins))  # number of the start that each climbing network is
    fates: list[Start | None] = [None] * len(origins)

    def retire(keep: NDArray[np.bool_], status: Status) -> None:
        nonlocal climb, places
        for i in np.flatnonzero(~keep):
            fates[places[i]] = Start(size, origins[places[i]], float(climb.objective[i]), climb.traces[i], status)
        climb, places = climb.take(np.flatnonzero(keep)), places[keep]

    def drop_degenerate() -> None:
        sound = np.isfinite(climb.objective)
        if sound.any() and not sound.all():
            retire(sound, "degenerate")

    drop_degenerate()
    while len(places) > 1:
        climb = advance(trial, climb, min(ROUND, search.max_iter - climb.n_iter), tol)
        drop_degenerate()
        rank = np.argsort(np.argsort(-climb.objective, kind="stable"), kind="stable")
        keep = rank < (len(places) + 1) // 2
        others = recombined(trial, climb, rank[keep]) if climb.n_iter < search.max_iter else None
        retire(keep, "stopped")
        if others is not None:
            climb, better = go_if_better(trial, climb, others)
            climb = replace(climb, gain=np.where(better, np.inf, climb.gain))
    if trial.table is not problem.table:
        climb = begin(problem, advance(trial, climb, 2 * ROUND, tol).network)
    climb = advance(problem, climb, search.max_iter - climb.n_iter, tol)
    if not np.isfinite(climb.objective[0]):
        return None
    fates[places[0]] = Start(size, origins[places[0]], float(climb.objective[0]), climb.traces[0], "best")
    return _finished(problem, search, size, climb, tuple(f for f in fates if f is not None), began)


def _finished(
    problem: Problem, search: Search, size: int, climb: Climb, starts: tuple[Start, ...], began: float
) -> Fit:
    """Score the network at the end of a climb."""
    # Scores are of the estimate itself: the expected statistics at it, also where CEM found it.
    statistics = expect(problem.table, climb.network, False, problem.crew) if problem.hard else climb.statistics
    n = problem.table.total_weight
    least_gain = search.tol * n
    # Where steps may fall, the network is the best on the way, and need not be the one at which it came to rest.
    at_rest = bool(climb.traces[0][-1] >= climb.objective[0] - least_gain)
    return Fit(
        network=climb.network,
        n_components=size,
        scores=score(climb.network, statistics, problem.prior, n),
        trace=climb.traces[0],
        converged=has_converged(climb, least_gain) and at_rest,
        starts=starts,
        seconds=time.perf_counter() - began,
    )


def _starts(
    problem: Problem,
    search: Search,
    structure: Structure,
    nb: NaiveBayes,
    previous: Network | None,
    rng: np.random.Generator,
) -> tuple[Climb, list[Origin]]:
    """Networks to start from, after their first look at the data, and where each came from."""
    naive, statistics = nb
    labels = problem.table.labels
    nothing_hidden = labels is not None and bool((labels >= 0).all())
    if structure.n_components == 1 and structure.class_of_cell is not None:
        # Naive Bayes, with p(h) = 1 if there is an h. EM on unlabelled rows begins with the labelled ones' fit.
        sure = tuple(np.zeros((1, len(f.parent))) for f in structure.factors[1:])
        network = replace(naive, structure=structure, log_factors=naive.log_factors + sure)
        return arrived(problem, network, statistics) if nothing_hidden else begin(problem, network), ["naive Bayes"]
    if structure.n_components == 1:
        return begin(problem, random_networks(naive, structure, problem.prior, rng, 1)), ["random"]
    n_split = 0 if previous is None else search.n_init // 3
    n_random = search.n_init - n_split
    climb = begin(problem, random_networks(naive, structure, problem.prior, rng, n_random))
    if previous is not None and n_split:
        climb = climb.beside(begin(problem, split_networks(previous, structure, problem.prior, rng, n_split)))
    origins: list[Origin] = ["random"] * n_random
    return climb, origins + ["split"] * n_split
