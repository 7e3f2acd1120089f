"""How the average is learnt: candidates are judged by rows that they have not seen, and the best are pooled.

If every unit (`race.py`) learns from nearly all rows, its fits are kept, and a member is the mean of as many fits as
there are units (A0), exactly what was judged. Otherwise members are fitted again, to all rows. Of rows that do not fit
into memory, that is what EM does; what fine-tunes its networks, and trees, learn from those that fit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from fanbayes.arrays import Floats
from fanbayes.data.views import TrainingTable
from fanbayes.learning.completion import Imputer, seldom_missing
from fanbayes.learning.ensembles.average import Average
from fanbayes.learning.ensembles.candidates import AnyFamily, Effort, Family
from fanbayes.learning.ensembles.folds import Split
from fanbayes.learning.ensembles.judging import Judged
from fanbayes.learning.ensembles.members import Fit, Member
from fanbayes.learning.ensembles.parallel import Map
from fanbayes.learning.ensembles.pool import FLOOR, Pool, fit_pool
from fanbayes.learning.ensembles.race import TREES, Candidate, Place, Training, find_candidates
from fanbayes.learning.ensembles.stacking import ALPHA, stack, weightiest

# Log loss of the best candidate below which cases count as many times as it is smaller: where nearly all is certain,
# the cases that are added to candidates would outweigh what tells these apart.
LEAST_LOSS = 0.01
# Trees of less weight stay those of the rows that were judged: those of all rows take long.
WORTH_ALL_ROWS = 0.1
# Fits of units are kept if each has learnt from this share of the cases.
MOST_ROWS = 0.75
_MOST_MEMBERS: dict[Effort, int] = {"fast": 6, "default": 10, "best": 20}
# Starts of the network that fills in missing values: there is only one of it, and everything hangs on it.
STARTS_OF_IMPUTER = 6


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
    fills = seldom_missing(rows.table, rows.schema)
    most = _MOST_MEMBERS[effort]
    candidates, judged, imputer_size = find_candidates(training, units, families, fills, most)
    members, pool, log_score = _best(candidates, judged, _class_prior(rows), most, training.each)
    weight = rows.table.labelled_only().total_weight
    is_whole = rows is training.all_rows and training.elsewhere is None
    keep = is_whole and all(_labelled_weight(rows, train) >= MOST_ROWS * weight for (train, _), _ in units)
    assert isinstance(families[0], Family)
    generative = replace(families[0], n_init=STARTS_OF_IMPUTER)
    wanted: dict[AnyFamily, list[Place]] = {generative: [(imputer_size, 0)]}
    for m in members:
        if m.family is not None and not keep:
            wanted.setdefault(m.family, []).append((m.size, m.number))
    grown = (
        [] if is_whole else [m.kind for m, v in zip(members, pool.weights) if m.kind in TREES and v >= WORTH_ALL_ROWS]
    )
    fits, whole = _refit(training, wanted, grown)

    def final(m: Candidate) -> Member:
        if m.kind in whole:
            return Member((whole[m.kind],))
        return Member(m.fits if m.family is None or keep else (fits[m.family, m.size, m.number],))

    training.report("members", 1)
    average = Average(
        tuple(final(m) for m in members),
        pool,
        _prior_of_all(training),
        Imputer(fits[generative, imputer_size, 0].network, rows.schema, fills),
    )
    return Outcome(average, members, [judged.log_score(m.p) for m in members], log_score)


def _lone(training: Training, family: AnyFamily) -> Outcome:
    """Naive Bayes, where nothing can be held out; the fewer the cases, the more the classes' shares weigh.

    A joint distribution can leave out what is missing, so that nothing is filled in.
    """
    rows = training.all_rows
    fills = np.zeros_like(seldom_missing(rows.table, rows.schema))
    fits, _ = _refit(training, {family: [(1, 0)]})
    fit = fits[family, 1, 0]
    n_cases = rows.table.labelled_only().total_weight
    if training.elsewhere is not None:
        n_cases = float(training.elsewhere.class_cases.sum())
    share = 1.0 / (1.0 + n_cases)
    pool = Pool(np.array([1.0 - share, share]), np.zeros(2), 1.0)
    average = Average((Member((fit,)),), pool, _prior_of_all(training), Imputer(fit.network, rows.schema, fills))
    member = Candidate("NB", family.treatment, family, 1, 0, (fit,), np.empty((0, rows.n_classes)))
    return Outcome(average, [member], [float("nan")], float("nan"))


def _class_prior(rows: TrainingTable) -> Floats:
    """Shares of the classes (n_classes,), each one case more often."""
    return _shares(rows.table.class_cases(rows.n_classes)[1:])


def _prior_of_all(training: Training) -> Floats:
    """Shares of the classes among all rows."""
    elsewhere = training.elsewhere
    return _class_prior(training.all_rows) if elsewhere is None else _shares(elsewhere.class_cases)


def _shares(class_cases: Floats) -> Floats:
    return np.asarray((1.0 + class_cases) / (1.0 + class_cases).sum())


def _labelled_weight(rows: TrainingTable, weights: Floats) -> float:
    return float(weights[rows.labels >= 0].sum())


def _best(
    candidates: Sequence[Candidate], judged: Judged, prior: Floats, most: int, each: Map
) -> tuple[list[Candidate], Pool, float]:
    """Candidates that matter, the weightiest first, how they and the classes' shares are pooled, and its log score."""
    rows = np.arange(len(judged.rows))
    truth = np.stack([c.p[rows, judged.labels] for c in candidates], axis=1)
    log_truth = np.log(truth + FLOOR)
    loss = -float((judged.cases @ log_truth).max()) / judged.cases.sum()
    cases = judged.cases * max(1.0, LEAST_LOSS / max(loss, FLOOR))
    alpha = np.array([c.prior_cases for c in candidates])
    chosen = weightiest(stack(log_truth, cases, alpha), most)
    kept = [candidates[k] for k in chosen]
    p = np.stack([*(c.p for c in kept), np.tile(prior, (len(rows), 1))])
    pool, log_score = fit_pool(p, judged.labels, cases, judged.key, np.append(alpha[chosen], ALPHA), each)
    order = np.argsort(-pool.weights[:-1], kind="stable")
    full = np.append(order, len(kept))
    return [kept[k] for k in order], Pool(pool.weights[full], pool.exponents[full], pool.share), log_score


def _refit(
    training: Training, wanted: Mapping[AnyFamily, Sequence[Place]], trees: Sequence[str] = ()
) -> tuple[dict[tuple[AnyFamily, int, int], Any], dict[str, Fit]]:
    """Fits of families to all rows, and the trees of all rows, by their kinds."""
    rows, elsewhere = training.all_rows, training.elsewhere
    if elsewhere is not None and len(wanted) > 1:  # one after the other: each lays out all rows anew
        parts = [_refit(training, {family: wanted[family]}) for family in wanted]
        return {at: fit for fits, _ in parts for at, fit in fits.items()}, _refit(training, {}, trees)[1]
    seen, places = {}, []
    for family, own in wanted.items():
        view, table = rows.view(family.treatment, rows.labels, family.missing)
        data = None if elsewhere is None else elsewhere.seen_by(view)
        seen[family] = family.rows(view, view.mix(table).fused(), rows.n_classes, data)
        for size in dict.fromkeys(size for size, _ in own):
            places.append((family, size, sorted({number for other, number in own if other == size})))
    tasks: list[Callable[[], Any]] = [partial(_whole_trees, training, kind) for kind in trees]  # they take longest
    tasks += [partial(family.fit, seen[family], size, training.seed, numbers) for family, size, numbers in places]
    done = training.each(lambda task: task(), tasks)
    fits = {(f, size, k): fit for (f, size, own), of in zip(places, done[len(trees) :]) for k, fit in zip(own, of)}
    return fits, dict(zip(trees, done))


def _whole_trees(training: Training, kind: str) -> Fit:
    """The trees of all rows, where a sample of them was judged."""
    rows = training.all_rows
    view, table = rows.view("none", rows.labels)
    return TREES[kind](table, view, rows.n_classes, training.seed, training.pool, training.all_groups)[0]
