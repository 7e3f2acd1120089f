"""How candidates of the average are found: families grow in units, and those without a chance only in the first ones.

A *unit* is a split of the rows: models are learnt from one part and predict the other. Over several folds, and several
ways to deal rows out to them, every row is predicted by models that have not seen it: the mean of these is what a
candidate is judged by.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from fanbayes.arrays import Floats, Ints, Mask
from fanbayes.data.schema import Missing
from fanbayes.data.table import EncodedTable
from fanbayes.data.views import TrainingTable, Treatment, View
from fanbayes.learning.completion import Completions, Imputer, filled, missing_cells
from fanbayes.learning.data import TrainingData
from fanbayes.learning.e_step import ThreadPool
from fanbayes.learning.ensembles.boosted_trees import fit_boosted
from fanbayes.learning.ensembles.candidates import LONE_THREAD, AnyFamily
from fanbayes.learning.ensembles.folds import Split
from fanbayes.learning.ensembles.judging import Fold, Judged, fold_of, judged_rows
from fanbayes.learning.ensembles.members import Fit, MemberNetwork
from fanbayes.learning.ensembles.nb_forest import fit_forest
from fanbayes.learning.ensembles.parallel import Map
from fanbayes.learning.ensembles.stacking import ALPHA, stack, weightiest
from fanbayes.learning.kernel_density import fit_kernel

Report = Callable[[str, int], None]
Asked = tuple[EncodedTable, Ints] | None  # rows to judge in place of others, and these
Way = tuple[Treatment, Missing | None]  # how rows are seen
Place = tuple[int, int]  # a size, and the number of one of its fits: 0 as EM finds it, then fine-tuned
TREES = {"NB forest": fit_forest, "boosted": fit_boosted}
OWN_NAMES = ("NB", "FAN", "logit", "kernel", *TREES)  # of kinds of candidates

# Sizes grow until they are so many times the size of the best score of the rows held out by the first unit; not so far
# where these rows are many and their score is not mostly chance.
FURTHER = 3.0
LESS_FAR_FROM, LESS_FAR = 1_000, 1.5
# Cases held out that choose, of all candidates, those that further units fit as well; the more units, the fewer go on.
ENOUGH_FOR_RACE = 200
# Kernel densities are tried on at most so many rows: of more their centres are a sample too small to compete.
MOST_FOR_KERNELS = 2_000
# Cases that are added to some kinds, more than to others: where rows are few, what they say of the weights is mostly
# chance, and these are the best to rely on.
PRIOR_CASES = {**dict.fromkeys(TREES, 2.5), "kernel": 0.5}
# Points that stand for a row held out, where a value is filled in: every candidate is judged by all of them.
POINTS_HELD_OUT = 16


@dataclass(frozen=True)
class Elsewhere:
    """All rows of a table that is not in memory.

    Attributes
    ----------
    seen_by : gives them as a view shows them
    class_cases : (n_classes,), cases of each class
    """

    seen_by: Callable[[View], TrainingData]
    class_cases: Floats


@dataclass(frozen=True)
class Training:
    """What all fits have in common.

    Attributes
    ----------
    rows : TrainingTable to judge candidates on
    all_rows : TrainingTable to fit members to, of which the former may be a sample
    elsewhere : all rows indeed, where `all_rows` are only those that fit into memory
    seed : int
    each : `map`, perhaps over threads
    pool : as many threads for trees, which take longest and would leave the others idle
    report : told what was done and how many steps it took
    kernels : whether kernel densities are among the candidates
    groups, all_groups : int (n_rows,) or None, of both tables; rows of a group are held out together
    is_split_by_user : whether every candidate has to be judged by the splits, as the user knows what belongs together
    """

    rows: TrainingTable
    all_rows: TrainingTable
    seed: int
    each: Map
    pool: ThreadPool
    report: Report
    kernels: bool
    groups: Ints | None
    all_groups: Ints | None
    is_split_by_user: bool
    elsewhere: Elsewhere | None = None


@dataclass(frozen=True)
class Grown:
    """What one unit says of a family: its fits, and what they predict of the rows held out."""

    fits: dict[Place, Any]
    p: dict[Place, Floats]


@dataclass(frozen=True)
class Candidate:
    """What may become a member.

    Attributes
    ----------
    kind : "NB", "FAN", "logit", "kernel", "NB forest", "boosted", or the name of an extra member
    treatment : how the continuous columns are seen
    family : what it is fitted by, None of what is fitted to all rows at once
    size : number of components, 0 of what has none to choose
    number : which of the fits of a size it is: 0 as EM finds it, then fine-tuned
    fits : one for each unit, or one
    p : (n_judged, n_classes), p(c | x) of the rows judged, by what has not seen them
    """

    kind: str
    treatment: Treatment
    family: AnyFamily | None
    size: int
    number: int
    fits: tuple[Fit, ...]
    p: Floats

    @property
    def strength(self) -> float:
        """Of fine-tuning; NaN without."""
        return self.family.strengths[self.number - 1] if self.family and self.number else float("nan")

    @property
    def prior_cases(self) -> float:
        """Cases that are added to it before any is judged."""
        return PRIOR_CASES.get(self.kind, ALPHA)


class Race:
    """Families that grow in units: what each unit has fitted of each.

    Attributes
    ----------
    grown : of each family, what the units so far say of it
    """

    def __init__(self, training: Training, units: Sequence[tuple[Split, int]], families: Sequence[AnyFamily]) -> None:
        self.training, self.units, self.families = training, units, families
        self.ways: list[Way] = [(family.treatment, family.missing) for family in families]
        self.grown: list[list[Grown]] = [[] for _ in families]
        self._done: Sequence[Completions | None] = [None] * len(units)
        self._seen: dict[tuple[Way, int], Fold] = {}  # folds, made when something is to be fitted to them

    def look(self, ways: Iterable[Way], units: Iterable[int]) -> None:
        """Folds of these ways and units, those that are not there yet."""
        rows = self.training.rows

        def make(place: tuple[Way, int]) -> Fold:
            (treatment, missing), unit = place
            return fold_of(rows, treatment, self.units[unit][0], missing).completed(self._done[unit])

        places = [place for place in product(dict.fromkeys(ways), units) if place not in self._seen]
        self._seen |= dict(zip(places, self.training.each(make, places)))

    def folds(self, treatment: Treatment) -> list[Fold]:
        """Of all units, with the indicators that the rows have."""
        way: Way = (treatment, None)
        self.look([way], range(len(self.units)))
        return [self._seen[way, unit] for unit in range(len(self.units))]

    def fit(self, k: int, unit: int, wanted: Collection[Place] | None) -> Grown:
        """What is wanted of a family in a unit that has been looked at."""
        fold, seed = self._seen[self.ways[k], unit], self.units[unit][1]
        return _grow(self.families[k], fold, self.training.rows.n_classes, seed, wanted)

    def begin(self, k: int) -> Grown:
        """The first unit of a family, which chooses its sizes."""
        found = self.fit(k, 0, None)
        self.training.report(self.families[k].title, 1)
        return found

    def go_on(self, end: int, wanted: Sequence[Sequence[Place]]) -> None:
        """Fit what is wanted of the families that have begun in all units before the end that have not done so."""
        new = [(k, unit) for k, own in enumerate(self.grown) if own for unit in range(len(own), end)]
        self.look([self.ways[k] for k, _ in new if wanted[k]], dict.fromkeys(unit for _, unit in new))
        sizes = [sorted({size for size, _ in own}, reverse=True) or [0] for own in wanted]

        def fit(task: tuple[int, int, int]) -> Grown:
            k, unit, size = task
            found = self.fit(k, unit, [at for at in wanted[k] if at[0] == size]) if wanted[k] else Grown({}, {})
            if size == sizes[k][0]:
                self.training.report(self.families[k].title, 1)
            return found

        tasks = sorted(((k, unit, size) for k, unit in new for size in sizes[k]), key=lambda task: -task[2])
        fitted = dict(zip(tasks, self.training.each(fit, tasks)))  # those that take longest came first
        for k, unit in new:
            of_sizes = [fitted[k, unit, size] for size in reversed(sizes[k])]
            fits = {at: own for one in of_sizes for at, own in one.fits.items()}
            self.grown[k].append(Grown(fits, {at: p for one in of_sizes for at, p in one.p.items()}))

    def complete(self, fits: Sequence[MemberNetwork], fills: Mask) -> None:
        """Judge by rows held out in which a network of each unit has filled in what is missing."""
        folds, schema = self.folds(self.families[0].treatment), self.training.rows.schema

        def completions(unit: int) -> Completions:
            imputer = Imputer(fits[unit].network, schema, fills)
            return imputer.complete(folds[unit].held_out, LONE_THREAD, POINTS_HELD_OUT)

        self._done = self.training.each(completions, range(len(self.units)))
        self._seen.clear()


def find_candidates(
    training: Training, units: Sequence[tuple[Split, int]], families: Sequence[AnyFamily], fills: Mask, most: int
) -> tuple[list[Candidate], Judged, int]:
    """Sizes of every family that may be among the `most` members, the rows judged, and the size that fills in holes.

    The latter is the size of the first family, as EM finds it, that the rows held out by the first units are most
    probable under.
    """
    rows, each, first, n_units = training.rows, training.each, families[0], len(units)
    race = Race(training, units, families)
    grown, folds = race.grown, race.folds(first.treatment)
    n_first = _n_first_units(folds)
    fills_in = (missing_cells(rows.table) & fills).any()
    if fills_in:
        grown[0] = [race.begin(0)]
        race.go_on(n_first, [list(grown[0][0].fits), *([] for _ in families[1:])])
        size = _likeliest(folds, grown[0])
        fits = [g.fits[size, 0] for g in grown[0]]
        fits += each(lambda unit: race.fit(0, unit, [(size, 0)]).fits[size, 0], range(n_first, n_units))
        race.complete(fits, fills)
        folds = race.folds(first.treatment)
        grown[0] = [Grown(g.fits, {at: f.predict(fit) for at, fit in g.fits.items()}) for f, g in zip(folds, grown[0])]
    judged = judged_rows(rows, folds, training.groups)

    kernels: list[Treatment] = []
    if training.kernels and rows.table.n_rows <= MOST_FOR_KERNELS:
        treatments = {treatment for treatment, _ in race.ways}
        kernels = [t for t in ("normal_scores", "decorrelate") if t in treatments] or [first.treatment]
    race.look(race.ways, [0])
    of_splits = {t: race.folds(t) if training.is_split_by_user else [] for t in kernels}
    tasks: list[Callable[[], Any]] = [partial(_trees, training, kind, folds, judged) for kind in TREES]
    tasks += [partial(_kernel, training, t, of_splits[t], judged) for t in kernels]
    new = [k for k, own in enumerate(grown) if not own]
    begun = each(lambda task: task(), [*tasks, *(partial(race.begin, k) for k in new)])
    rivals = begun[: len(tasks)]  # they take longest, and need no folds
    for k, own in zip(new, begun[len(tasks) :]):
        grown[k] = [own]
    training.report("trees", 1)
    if kernels:
        training.report("kernel densities", 1)

    wanted: list[list[Place]] = [list(own[0].fits) for own in grown]
    race.go_on(n_first, wanted)
    if not fills_in:
        size = _likeliest(folds, grown[0])
    end = n_first
    while end < n_units:
        wanted = _ahead(folds[:end], wanted, grown, judged, rivals, most)
        end = min(2 * end, n_units)
        race.go_on(end, wanted)
    found: list[Candidate] = []
    for family, own in zip(families, grown):
        found += _collected(family, folds, own, judged, rows.n_classes)
    return found + rivals, judged, size


def _likeliest(folds: Sequence[Fold], grown: Sequence[Grown]) -> int:
    """The size under which, as EM finds it, the rows held out by the units so far are most probable."""
    scores = {size: sum(f.log_density(g.fits[size, 0]) for f, g in zip(folds, grown)) for size, _ in grown[0].fits}
    return max(scores, key=lambda size: scores[size])


def _n_first_units(folds: Sequence[Fold]) -> int:
    """How many units hold out ENOUGH_FOR_RACE cases."""
    n_cases = np.cumsum([fold.held_out.total_weight for fold in folds])
    return 1 + int(np.searchsorted(n_cases[:-1], ENOUGH_FOR_RACE))


def _ahead(
    folds: Sequence[Fold],
    running: Sequence[Sequence[Place]],
    grown: Sequence[Sequence[Grown]],
    judged: Judged,
    rivals: Sequence[Candidate],
    most: int,
) -> list[list[Place]]:
    """Of each family, what is among the weightiest, by the rows that the units so far hold out.

    Parameters
    ----------
    folds : of these units
    running : of each family, what all of them have fitted
    grown : of each family, what the units say
    judged : all rows held out
    rivals : the candidates that need no folds
    most : how many may become members
    """
    runners = [(k, at) for k, own in enumerate(running) for at in own]
    everyone = [[g.p[at] for g in grown[k][: len(folds)]] for k, at in runners]
    everyone += [[c.p[np.searchsorted(judged.rows, f.rows)] for f in folds] for c in rivals]
    log_p = np.array([np.concatenate([f.log_truth(p) for f, p in zip(folds, own)]) for own in everyone])
    cases = np.concatenate([fold.held_out.case_weights for fold in folds])
    alpha = np.array([ALPHA] * len(runners) + [c.prior_cases for c in rivals])
    ahead = {runners[k] for k in weightiest(stack(log_p.T, cases, alpha), most) if k < len(runners)}
    return [[at for at in own if (k, at) in ahead] for k, own in enumerate(running)]


def _grow(family: AnyFamily, fold: Fold, n_classes: int, seed: int, wanted: Collection[Place] | None) -> Grown:
    """What is wanted, or size after size, all fits of each, until they are not better any more on the rows held out."""
    fits: dict[Place, Any] = {}
    p: dict[Place, Floats] = {}
    scores: list[float] = []
    further = FURTHER if len(fold.rows) < LESS_FAR_FROM else LESS_FAR
    rows = family.rows(fold.view, fold.training, n_classes)
    for size in family.sizes if wanted is None else sorted({size for size, _ in wanted}):
        numbers = [k for k in family.numbers if wanted is None or (size, k) in wanted]
        for number, fit in zip(numbers, family.fit(rows, size, seed, numbers)):
            fits[size, number] = fit
            p[size, number] = fold.predict(fit)
        scores.append(max(fold.log_score(p[size, number]) for number in numbers))
        if wanted is None and size >= further * family.sizes[int(np.argmax(scores))]:
            break
    if wanted is None:  # and one size more than the best
        last = family.sizes[min(len(scores) - 1, int(np.argmax(scores)) + 1)]
        fits = {at: fit for at, fit in fits.items() if at[0] <= last}
    return Grown(fits, p)


def _collected(
    family: AnyFamily, folds: Sequence[Fold], grown: Sequence[Grown], judged: Judged, n_classes: int
) -> list[Candidate]:
    """The candidates of a family, from what the units say of it; the folds may be those of another view."""
    return [
        Candidate(
            family.kind(size),
            family.treatment,
            family,
            size,
            number,
            tuple(g.fits[size, number] for g in grown),
            judged.mean(folds, [g.p[size, number] for g in grown], n_classes),
        )
        for size, number in grown[-1].fits
    ]


def _trees(training: Training, kind: str, folds: Sequence[Fold], judged: Judged) -> Candidate:
    """Trees, judged by those that have left a row out."""
    n_classes, seed = training.rows.n_classes, training.seed

    def fit(view: View, table: EncodedTable, groups: Ints | None, asked: Asked) -> tuple[Fit, Floats]:
        return TREES[kind](table, view, n_classes, seed, training.pool, groups, asked)

    return _of_all_rows(training, kind, "none", fit, folds, judged)


def _kernel(training: Training, treatment: Treatment, folds: Sequence[Fold], judged: Judged) -> Candidate:
    """The kernel density, judged without a row's own kernel."""
    n_classes, seed = training.rows.n_classes, training.seed

    def fit(view: View, table: EncodedTable, groups: Ints | None, asked: Asked) -> tuple[Fit, Floats]:
        network, log_p = fit_kernel(table, n_classes, seed, groups, asked)
        return MemberNetwork(view, network, "kernel"), log_p

    return _of_all_rows(training, "kernel", treatment, fit, folds, judged)


def _of_all_rows(
    training: Training,
    kind: str,
    treatment: Treatment,
    fit: Callable[[View, EncodedTable, Ints | None, Asked], tuple[Fit, Floats]],
    folds: Sequence[Fold],
    judged: Judged,
) -> Candidate:
    """What is fitted to all rows and can judge them without folds, unless the user has chosen these."""
    rows = training.rows
    groups, done = training.groups, judged.done
    view, table = rows.view(treatment, np.minimum(rows.labels, 0))  # it must not know the classes of the rows judged
    asked = None
    if done is not None:
        complete = view.mix(filled(table.only(judged.rows), view.schema, done))
        asked = replace(complete, weights=done.weight), judged.rows[done.row]
    found, log_p = fit(view, view.mix(table), groups, asked)
    if training.is_split_by_user:
        own = [fit(f.view, f.training, None if groups is None else groups[f.learnt], None)[0] for f in folds]
        p = judged.mean(folds, [f.predict(fold_fit) for f, fold_fit in zip(folds, own)], rows.n_classes)
    else:
        p = np.exp(log_p[judged.rows]) if done is None else done.mean(np.exp(log_p))
    return Candidate(kind, treatment, None, 0, 0, (found,), p)
