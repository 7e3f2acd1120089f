"""How the average is learnt: candidates are judged by rows that they have not seen, and the best are pooled.

A *unit* is a split of the rows: models are learnt from one part and predict the other. Over several folds, and several
ways to deal rows out to them, every row is predicted by models that have not seen it: the mean of these is what a
candidate is judged by. If every unit learns from nearly all rows, its fits are kept, and a member is the mean of as
many fits as there are units (A0), exactly what was judged. Otherwise members are fitted again, to all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.special import logsumexp

from fanbayes.arrays import AnyInts, Floats, Ints, Mask
from fanbayes.data.table import EncodedTable
from fanbayes.data.views import TrainingTable, Treatment, View
from fanbayes.learning.completion import Completions, Imputer, filled, missing_cells, seldom_missing
from fanbayes.learning.e_step import posterior
from fanbayes.learning.ensembles.average import Average
from fanbayes.learning.ensembles.candidates import LONE_THREAD, AnyFamily, Effort, Family
from fanbayes.learning.ensembles.folds import Split
from fanbayes.learning.ensembles.members import Fit, Member, MemberNetwork
from fanbayes.learning.ensembles.nb_forest import fit_forest
from fanbayes.learning.ensembles.parallel import Map
from fanbayes.learning.ensembles.pool import FLOOR, Pool, fit_pool
from fanbayes.learning.ensembles.stacking import stack
from fanbayes.learning.kernel_density import fit_kernel

Report = Callable[[str, int], None]
Asked = tuple[EncodedTable, Ints] | None  # rows to judge in place of others, and these
OWN_NAMES = ("NB", "FAN", "kernel", "NB forest")  # of kinds of candidates

# Fits of units are kept if each has learnt from this share of the cases.
MOST_ROWS = 0.75
# Sizes grow until the score of the rows held out by the first unit has not risen for so many of them: two where these
# rows are few and their score is mostly chance.
PATIENCE = 2
PATIENCE_FROM, LESS_PATIENCE = 1_000, 1
# Cases held out that choose, of all candidates, those that the other units fit as well.
ENOUGH_FOR_RACE = 200
# Members are dropped, least weights first, as long as all that is dropped weighs less.
NEGLIGIBLE = 0.05
_MOST_MEMBERS: dict[Effort, int] = {"fast": 6, "default": 10, "best": 20}
# Kernel densities are tried on at most so many rows: of more their centres are a sample too small to compete.
MOST_FOR_KERNELS = 5_000
# Starts of the network that fills in missing values: there is only one of it, and everything hangs on it.
STARTS_OF_IMPUTER = 6
# Points that stand for a row held out, where a value is filled in: every candidate is judged by all of them.
N_POINTS_HELD_OUT = 16


@dataclass(frozen=True)
class Fold:
    """Rows to learn from and rows held out, both seen by what the first ones tell.

    Attributes
    ----------
    view : View
    training : what is learnt from, as the view shows it
    held_out : rows to judge by, their columns not mixed
    learnt, rows : int (n_learnt,), (n_held_out,), which ones these are
    done : their completions; None where nothing is filled in
    judged : rows held out as they are judged, completed, as the view shows them
    """

    view: View
    training: EncodedTable
    held_out: EncodedTable
    learnt: Ints
    rows: Ints
    done: Completions | None
    judged: EncodedTable

    def completed(self, done: Completions | None) -> Fold:
        """Judged by the completions of the rows held out, if there are any."""
        if done is None:
            return self
        return replace(self, done=done, judged=self.view.mix(filled(self.held_out, self.view.schema, done)).fused())

    def predict(self, predictor: Fit) -> Floats:
        """p(c | x) of the rows held out (n_held_out, n_classes)."""
        p = predictor.proba(self.judged, LONE_THREAD)
        return p if self.done is None else self.done.mean(p)

    def log_score(self, p: Floats) -> float:
        """Mean log probability of the labels of the rows held out."""
        return float(self.held_out.case_weights @ self.log_truth(p) / self.held_out.total_weight)

    def log_truth(self, p: Floats) -> Floats:
        """Log probabilities of the labels of the rows held out (n_held_out,)."""
        return np.asarray(np.log(p[np.arange(len(p)), self.held_out.labels] + FLOOR))

    def log_density(self, predictor: MemberNetwork) -> float:
        """Sum of log p(x) of the rows held out, of as many values as they have."""
        joint = posterior(self.held_out, predictor.network.terms, "log_joint", LONE_THREAD)
        return float(self.held_out.case_weights @ logsumexp(joint, axis=1))


Place = tuple[int, int]  # a size, and the number of one of its fits: 0 as EM finds it, then fine-tuned


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
    kind : "NB", "FAN", "kernel", "NB forest", or the name of an extra member
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


@dataclass(frozen=True)
class Judged:
    """Rows that are held out.

    Attributes
    ----------
    rows, labels : int (n_judged,)
    cases : (n_judged,), their weights
    key : (n_judged,), equal for rows that are equal, or of a group
    done : their completions, each by a network that has not seen the row; None where nothing is filled in
    """

    rows: Ints
    labels: AnyInts
    cases: Floats
    key: AnyInts
    done: Completions | None = None

    def mean(self, folds: Sequence[Fold], p: Sequence[Floats], n_classes: int) -> Floats:
        """Mean over the units that hold a row out of what they predict (n_judged, n_classes)."""
        total, weight = np.zeros((len(self.rows), n_classes)), np.zeros(len(self.rows))
        for fold, own in zip(folds, p):
            place = np.searchsorted(self.rows, fold.rows)
            w = fold.held_out.case_weights
            total[place] += w[:, None] * own
            weight[place] += w
        return total / weight[:, None]

    def log_score(self, p: Floats) -> float:
        """Mean log probability of the labels."""
        truth = np.log(p[np.arange(len(p)), self.labels] + FLOOR)
        return float(self.cases @ truth / self.cases.sum())


@dataclass(frozen=True)
class Training:
    """What all fits have in common.

    Attributes
    ----------
    rows : TrainingTable to judge candidates on
    all_rows : TrainingTable to fit members to, of which the former may be a sample
    seed : int
    each : `map`, perhaps over threads
    report : told what was done and how many steps it took
    kernels : whether kernel densities are among the candidates
    groups : int (n_rows,) or None, rows of a group are held out together
    is_split_by_user : whether every candidate has to be judged by the splits, as the user knows what belongs together
    """

    rows: TrainingTable
    all_rows: TrainingTable
    seed: int
    each: Map
    report: Report
    kernels: bool
    groups: Ints | None
    is_split_by_user: bool


@dataclass(frozen=True)
class Outcome:
    """The average, the candidates that became its members, the mean log score of each, and that of the average."""

    average: Average
    members: list[Candidate]
    log_scores: list[float]
    log_score: float


def n_steps(n_units: int, families: Sequence[AnyFamily], kernels: bool) -> int:
    """How many steps will be reported."""
    return n_units * len(families) + kernels + 2


def fit_average(
    training: Training, units: Sequence[tuple[Split, int]], families: Sequence[AnyFamily], effort: Effort
) -> Outcome:
    """Learn the average.

    Parameters
    ----------
    units : splits and seeds; none where nothing can be held out
    families : the first is generative and sees the columns as they are
    effort : how many candidates may become members
    """
    rows = training.rows
    if not units:
        return _lone(training, families[0])
    fills = seldom_missing(rows.table)
    most = _MOST_MEMBERS[effort]
    candidates, judged, imputer_size = _candidates(training, units, families, fills, most)
    members, pool, log_score = _best(candidates, judged, _class_prior(rows), most)
    weight = rows.table.labelled_only().total_weight
    is_whole = rows is training.all_rows
    keep = is_whole and all(_labelled_weight(rows, train) >= MOST_ROWS * weight for (train, _), _ in units)
    assert isinstance(families[0], Family)
    generative = replace(families[0], n_init=STARTS_OF_IMPUTER)
    wanted: dict[AnyFamily, list[Place]] = {generative: [(imputer_size, 0)]}
    for m in members:
        if m.family is not None and not keep:
            wanted.setdefault(m.family, []).append((m.size, m.number))
    fits = _refit(training, wanted)
    final = [m.fits if m.family is None or keep else (fits[m.family, m.size, m.number],) for m in members]
    if not is_whole:
        final = [_whole_forest(training) if m.kind == "NB forest" else own for m, own in zip(members, final)]
    training.report("members", 1)
    average = Average(
        tuple(Member(own) for own in final),
        pool,
        _class_prior(training.all_rows),
        Imputer(fits[generative, imputer_size, 0].network, rows.schema, fills),
    )
    return Outcome(average, members, [judged.log_score(m.p) for m in members], log_score)


def _lone(training: Training, family: AnyFamily) -> Outcome:
    """Naive Bayes, where nothing can be held out; the fewer the cases, the more the classes' shares weigh.

    A joint distribution can leave out what is missing, so that nothing is filled in.
    """
    rows = training.all_rows
    fills = np.zeros_like(seldom_missing(rows.table))
    fit = _refit(training, {family: [(1, 0)]})[family, 1, 0]
    share = 1.0 / (1.0 + rows.table.labelled_only().total_weight)
    pool = Pool(np.array([1.0 - share, share]), np.zeros(2), 1.0)
    average = Average((Member((fit,)),), pool, _class_prior(rows), Imputer(fit.network, rows.schema, fills))
    member = Candidate("NB", family.treatment, family, 1, 0, (fit,), np.empty((0, rows.n_classes)))
    return Outcome(average, [member], [float("nan")], float("nan"))


def _class_prior(rows: TrainingTable) -> Floats:
    """Shares of the classes (n_classes,), each one case more often."""
    labelled = rows.table.labelled_only()
    count = 1.0 + np.bincount(rows.labels[rows.labels >= 0], labelled.case_weights, rows.n_classes)
    return np.asarray(count / count.sum())


def _labelled_weight(rows: TrainingTable, weights: Floats) -> float:
    return float(weights[rows.labels >= 0].sum())


def _candidates(
    training: Training, units: Sequence[tuple[Split, int]], families: Sequence[AnyFamily], fills: Mask, most: int
) -> tuple[list[Candidate], Judged, int]:
    """Sizes of every family that may be among the `most` members, the rows judged, and the size that fills in holes.

    The latter is the size of the first family, as EM finds it, that the rows held out are most probable under.
    """
    rows, each, report = training.rows, training.each, training.report
    splits, seeds = [split for split, _ in units], [seed for _, seed in units]
    first, *others = families
    views: dict[Treatment, list[Fold]] = {}
    for treatment in dict.fromkeys(f.treatment for f in families):
        views[treatment] = each(lambda split: fold_of(rows, treatment, split), splits)  # noqa: B023

    def of(task: tuple[AnyFamily, int, Collection[Place] | None]) -> Grown:
        family, unit, wanted = task
        result = _grow(family, views[family.treatment][unit], rows.n_classes, seeds[unit], wanted)
        report(family.title, 1)
        return result

    grown = [of((first, 0, None))]
    grown += each(of, [(first, unit, grown[0].fits.keys()) for unit in range(1, len(units))])
    folds = views[first.treatment]
    density = {size: sum(f.log_density(g.fits[size, 0]) for f, g in zip(folds, grown)) for size, _ in grown[0].fits}
    size = max(density, key=lambda size: density[size])

    def completions(unit: int) -> Completions:
        imputer = Imputer(grown[unit].fits[size, 0].network, rows.schema, fills)
        return imputer.complete(folds[unit].held_out, LONE_THREAD, N_POINTS_HELD_OUT)

    if (missing_cells(rows.table) & fills).any():
        done = each(completions, range(len(units)))
        for treatment, seen in views.items():
            views[treatment] = [fold.completed(own) for fold, own in zip(seen, done)]
        folds = views[first.treatment]
        grown = [Grown(g.fits, {at: f.predict(fit) for at, fit in g.fits.items()}) for f, g in zip(folds, grown)]
    judged = _judged(rows, folds, training.groups)

    def of_all_rows(treatment: Treatment | None) -> Candidate:
        if treatment is None:
            return _forest(training, folds, judged)
        return _kernel(training, treatment, views[treatment], judged)

    kernels: list[Treatment] = []
    if training.kernels and rows.table.n_rows <= MOST_FOR_KERNELS:
        kernels = [t for t in ("normal_scores", "decorrelate") if t in views] or [first.treatment]
    of_rows = [partial(of_all_rows, treatment) for treatment in (None, *kernels)]  # they take longest
    results = each(lambda task: task(), [*of_rows, *(partial(of, (family, 0, None)) for family in others)])
    without_folds, beginnings = results[: len(of_rows)], results[len(of_rows) :]
    report("forest", 1)
    if kernels:
        report("kernel densities", 1)
    found = _collected(first, folds, grown, judged, rows.n_classes)
    for family, own in zip(others, _raced(of, each, others, beginnings, folds, grown, most)):
        found += _collected(family, views[family.treatment], own, judged, rows.n_classes)
    return found + without_folds, judged, size


def _raced(
    of: Callable[[tuple[AnyFamily, int, Collection[Place] | None]], Grown],
    each: Map,
    families: Sequence[AnyFamily],
    beginnings: Sequence[Grown],
    folds: Sequence[Fold],
    known: Sequence[Grown],
    most: int,
) -> list[list[Grown]]:
    """What the units say of each family: the first ones of all sizes, the others only of what may become a member.

    The units of the race are as many as hold out ENOUGH_FOR_RACE cases. By these the candidates are weighed, and those
    of the greatest weights go on.

    Parameters
    ----------
    of : fits what is wanted of a family in a unit
    beginnings : what the first unit says, which has chosen the sizes
    folds : of the first family; the same rows are held out by those of others
    known : what the units say of the first family, which competes with the others
    most : how many may become members
    """
    n_cases = np.cumsum([fold.held_out.total_weight for fold in folds])
    n_race = 1 + int(np.searchsorted(n_cases[:-1], ENOUGH_FOR_RACE))
    grown = [[g] for g in beginnings]

    def go_on(units: range, wanted: Sequence[Collection[Place]]) -> None:
        found = each(of, [(f, unit, own) for unit in units for f, own in zip(families, wanted)])
        for k, of_family in enumerate(grown):
            of_family += found[k :: len(families)]

    go_on(range(1, n_race), [g[0].fits.keys() for g in grown])
    if n_race == len(folds):
        return grown
    runners = [(k, at) for k, g in enumerate([known, *grown]) for at in g[0].fits]
    p = [[g[unit].p for unit in range(n_race)] for g in [known, *grown]]
    log_p = np.array([np.concatenate([f.log_truth(own[at]) for f, own in zip(folds, p[k])]) for k, at in runners])
    cases = np.concatenate([fold.held_out.case_weights for fold in folds[:n_race]])
    ahead = {runners[k] for k in np.argsort(-stack(log_p.T, cases), kind="stable")[:most]}
    wanted = [[at for at in g[0].fits if (k, at) in ahead] for k, g in enumerate(grown, 1)]
    go_on(range(n_race, len(folds)), wanted)
    return grown


def fold_of(rows: TrainingTable, treatment: Treatment, split: Split) -> Fold:
    """Rows of a split, seen by what those to learn from tell about the classes."""
    train, test = split
    view, table = rows.view(treatment, np.where(train > 0, rows.labels, np.int32(-1)))
    training, held_out = (_cases_of(table, weights) for weights in (train, test))
    learnt, judged = (np.flatnonzero(weights > 0) for weights in split)
    return Fold(view, view.mix(training).fused(), held_out, learnt, judged, None, view.mix(held_out).fused())


def _cases_of(table: EncodedTable, weights: Floats) -> EncodedTable:
    """Rows of positive weight."""
    keep = weights > 0
    return replace(table.only(keep), weights=None if (weights[keep] == 1).all() else weights[keep])


def _grow(family: AnyFamily, fold: Fold, n_classes: int, seed: int, wanted: Collection[Place] | None) -> Grown:
    """What is wanted, or size after size, all fits of each, until they are not better any more on the rows held out."""
    fits: dict[Place, Any] = {}
    p: dict[Place, Floats] = {}
    scores: list[float] = []
    patience = PATIENCE if len(fold.rows) < PATIENCE_FROM else LESS_PATIENCE
    rows = family.rows(fold.view, fold.training, n_classes)
    for size in family.sizes if wanted is None else sorted({size for size, _ in wanted}):
        numbers = [k for k in range(1 + len(family.strengths)) if wanted is None or (size, k) in wanted]
        for number, fit in zip(numbers, family.fit(rows, size, seed, numbers)):
            fits[size, number] = fit
            p[size, number] = fold.predict(fit)
        scores.append(max(fold.log_score(p[size, number]) for number in numbers))
        if wanted is None and len(scores) - 1 - int(np.argmax(scores)) == patience:
            break
    if wanted is None:  # and one size more than the best
        last = family.sizes[min(len(scores) - 1, int(np.argmax(scores)) + 1)]
        fits = {at: fit for at, fit in fits.items() if at[0] <= last}
    return Grown(fits, p)


def _judged(rows: TrainingTable, folds: Sequence[Fold], groups: Ints | None) -> Judged:
    """The rows that some fold holds out."""
    held_out = np.unique(np.concatenate([fold.rows for fold in folds]))
    table = rows.table.only(held_out)
    key = table.fingerprint if groups is None else groups[held_out]
    return Judged(held_out, rows.labels[held_out], table.case_weights, key, _first_completions(held_out, folds))


def _first_completions(rows: Ints, folds: Sequence[Fold]) -> Completions | None:
    """Completions of rows by the first fold that holds each out."""
    parts = [(np.searchsorted(rows, f.rows)[f.done.row], f.done) for f in folds if f.done is not None]
    if not parts:
        return None
    row, fold = np.concatenate([at for at, _ in parts]), np.repeat(np.arange(len(parts)), [len(at) for at, _ in parts])
    first = np.full(len(rows), len(parts))
    np.minimum.at(first, row, fold)
    order = np.flatnonzero(first[row] == fold)
    order = order[np.argsort(row[order], kind="stable")]
    weight, codes, numbers = (np.concatenate(x) for x in zip(*((d.weight, d.codes, d.numbers) for _, d in parts)))
    return Completions(row[order], weight[order], codes[order], numbers[order], parts[0][1].schema)


def _collected(
    family: AnyFamily, folds: Sequence[Fold], grown: Sequence[Grown], judged: Judged, n_classes: int
) -> list[Candidate]:
    """The candidates of a family, from what the units say of it."""
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


def _forest(training: Training, folds: Sequence[Fold], judged: Judged) -> Candidate:
    """The forest, judged by trees that have left a row out."""
    n_classes, seed = training.rows.n_classes, training.seed

    def fit(view: View, table: EncodedTable, groups: Ints | None, asked: Asked) -> tuple[Fit, Floats]:
        return fit_forest(table, view, n_classes, seed, LONE_THREAD, groups, asked)

    return _of_all_rows(training, "NB forest", "none", fit, folds, judged)


def _whole_forest(training: Training) -> tuple[Fit, ...]:
    """The forest of all rows, where a sample of them was judged."""
    rows = training.all_rows
    view, table = rows.view("none", rows.labels)
    return (fit_forest(table, view, rows.n_classes, training.seed, LONE_THREAD, None)[0],)


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


def _best(
    candidates: Sequence[Candidate], judged: Judged, prior: Floats, most: int
) -> tuple[list[Candidate], Pool, float]:
    """Candidates that matter, the weightiest first, how they and the classes' shares are pooled, and its log score."""
    rows = np.arange(len(judged.rows))
    truth = np.stack([c.p[rows, judged.labels] for c in candidates], axis=1)
    weights = stack(np.log(truth + FLOOR), judged.cases)
    order = np.argsort(-weights, kind="stable")
    enough = 1 + int(np.searchsorted(np.cumsum(weights[order]), 1 - NEGLIGIBLE))
    kept = [candidates[k] for k in order[: min(enough, most)]]
    p = np.stack([*(c.p for c in kept), np.tile(prior, (len(rows), 1))])
    pool, log_score = fit_pool(p, judged.labels, judged.cases, judged.key)
    order = np.argsort(-pool.weights[:-1], kind="stable")
    full = np.append(order, len(kept))
    return [kept[k] for k in order], Pool(pool.weights[full], pool.exponents[full], pool.share), log_score


def _refit(training: Training, wanted: Mapping[AnyFamily, Sequence[Place]]) -> dict[tuple[AnyFamily, int, int], Any]:
    """Fits of families to all rows."""
    rows = training.all_rows
    seen, tasks = {}, []
    for family, places in wanted.items():
        view, table = rows.view(family.treatment, rows.labels)
        seen[family] = family.rows(view, view.mix(table).fused(), rows.n_classes)
        for size in dict.fromkeys(size for size, _ in places):
            tasks.append((family, size, sorted({number for other, number in places if other == size})))
    fits = training.each(lambda task: task[0].fit(seen[task[0]], task[1], training.seed, task[2]), tasks)
    return {(f, size, k): fit for (f, size, numbers), own in zip(tasks, fits) for k, fit in zip(numbers, own)}
