"""How the average is learnt: candidates are judged by rows held out, the best are weighted and fitted to all rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from fanbayes.arrays import Floats
from fanbayes.data.table import EncodedTable
from fanbayes.data.views import TrainingTable, Treatment, View
from fanbayes.learning.completion import Completions, Imputer, filled, seldom_missing
from fanbayes.learning.e_step import posterior
from fanbayes.learning.ensembles.average import Average, Member
from fanbayes.learning.ensembles.candidates import LONE_THREAD, Effort, Family
from fanbayes.learning.ensembles.folds import Split
from fanbayes.learning.ensembles.parallel import Map
from fanbayes.learning.ensembles.stacking import stack
from fanbayes.learning.feature_weights import FeatureWeights, HeldOut, learn_feature_weights, neutral
from fanbayes.learning.predictor import WeightedPredictor

Weighting = Literal["none", "common", "each"]
Report = Callable[[str, int], None]

# Sizes grow until the score of the rows held out has not risen for so many of them.
PATIENCE = 2
# Members are dropped, least weights first, as long as all that is dropped weighs less.
NEGLIGIBLE = 0.05
_MOST_MEMBERS: dict[Effort, int] = {"fast": 6, "default": 12, "best": 24}
# How many sizes of each family get feature weights, besides one component.
_WITH_FEATURE_WEIGHTS: dict[Effort, int] = {"fast": 1, "default": 2, "best": 100}
# Least number of rows held out for each feature weight of its own.
ROWS_PER_FEATURE_WEIGHT = 5
# Groups of folds, each of which is scored by feature weights learnt from the others.
_GROUPS = 3
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
    done : their completions; None where nothing is filled in
    judged : rows held out as they are judged, completed, as the view shows them
    """

    view: View
    training: EncodedTable
    held_out: EncodedTable
    done: Completions | None
    judged: EncodedTable

    @property
    def n_cases(self) -> Floats:
        """Weights of the rows held out (n_held_out,)."""
        return self.held_out.case_weights

    def completed(self, done: Completions | None) -> Fold:
        """Judged by the completions of the rows held out."""
        if done is None:
            return self
        return replace(self, done=done, judged=self.view.mix(filled(self.held_out, self.view.schema, done)).fused())


@dataclass(frozen=True)
class Candidate:
    """One size of a family, fitted in every fold, perhaps with feature weights.

    Attributes
    ----------
    folds, predictors : of each fold, what has not seen the rows held out
    weighting : which feature weights
    feature_weights : FeatureWeights
    log_scores : (n_held_out,), log p(y | x) of the rows held out, fold after fold
    n_cases : (n_held_out,), their weights
    """

    family: Family
    size: int
    folds: tuple[Fold, ...]
    predictors: tuple[WeightedPredictor, ...]
    weighting: Weighting
    feature_weights: FeatureWeights
    log_scores: Floats
    n_cases: Floats

    @property
    def log_score(self) -> float:
        """Mean log score of the rows held out; NaN if there are none."""
        return mean_log_score(self.log_scores, self.n_cases)

    @property
    def is_generative(self) -> bool:
        """Whether it is a joint distribution of class and columns."""
        return self.weighting == "none" and not self.family.fine_tuned and self.family.treatment in ("none", "mdlp")

    @property
    def parts(self) -> list[HeldOut]:
        """What feature weights are learnt from: the rows held out as they are, values missing."""
        return [
            HeldOut(fold.view.mix(fold.held_out).fused(), predictor.weighted.network, fold.view.feature_of)
            for fold, predictor in zip(self.folds, self.predictors)
        ]


@dataclass(frozen=True)
class Training:
    """What all fits have in common.

    Attributes
    ----------
    rows : TrainingTable
    seed : int
    each : `map`, perhaps over threads
    report : told what was done and how many fits it took
    """

    rows: TrainingTable
    seed: int
    each: Map
    report: Report

    def fit(self, family: Family, size: int, view: View, table: EncodedTable) -> WeightedPredictor:
        """One size of a family, fitted to rows as the view shows them."""
        return family.fit(size, view, table, self.rows.n_classes, self.seed)


def fit_average(
    training: Training, splits: Sequence[Split], families: Sequence[Family], effort: Effort
) -> tuple[Average, list[Candidate]]:
    """The average, and the candidates that became its members.

    Parameters
    ----------
    splits : none where nothing can be held out; the families should then be one
    families : the first is generative, and sees the columns as they are
    effort : how many candidates get feature weights and how many may become members
    """
    rows = training.rows
    fills = seldom_missing(rows.table)
    candidates, imputer = _candidates(training, splits, families, _WITH_FEATURE_WEIGHTS[effort], fills)
    members, weights = _best(candidates, _MOST_MEMBERS[effort])
    *predictors, generative = _refit(training, [*members, imputer])
    if all(m.is_generative for m in members):  # to leave out what is missing is exact then
        fills = np.zeros_like(fills)
    average = Average(
        tuple(Member(predictor, weight) for predictor, weight in zip(predictors, weights.tolist())),
        Imputer(generative.network, rows.schema, fills),
    )
    return average, members


def mean_log_score(log_scores: Floats, n_cases: Floats) -> float:
    """Mean over cases; NaN if there are none."""
    return float(n_cases @ log_scores / n_cases.sum()) if len(n_cases) else float("nan")


def average_log_score(average: Average, members: Sequence[Candidate]) -> float:
    """Mean log score of the average, of the rows held out; NaN if there are none."""
    scores = np.stack([m.log_scores for m in members], axis=1)
    return mean_log_score(logsumexp(scores + np.log(average.weights), axis=1), members[0].n_cases)


def _candidates(
    training: Training, splits: Sequence[Split], families: Sequence[Family], n_weighted: int, fills: NDArray[np.bool_]
) -> tuple[list[Candidate], Candidate]:
    """Every size of every family as it is and the best of each with feature weights; and what fills in holes.

    The latter is the size of the first family, which is generative, that the rows held out are most probable under.
    """
    first, rows, each = families[0], training.rows, training.each
    incomplete = each(lambda split: fold_of(rows, first.treatment, split), splits)
    plain = list(_grow(training, first, incomplete))
    imputer = max(plain, key=_log_density)
    done = each(
        lambda f: Imputer(f[1].network, rows.schema, fills).completions(f[0].held_out, LONE_THREAD, N_POINTS_HELD_OUT),
        list(zip(incomplete, imputer.predictors)),
    )
    folds: dict[Treatment, list[Fold]] = {first.treatment: list(map(Fold.completed, incomplete, done))}
    plain = [_judged(c, folds[first.treatment]) for c in plain]
    found: list[Candidate] = []
    for family in families:
        if family.treatment not in folds:
            seen = each(lambda split: fold_of(rows, family.treatment, split), splits)  # noqa: B023
            folds[family.treatment] = list(map(Fold.completed, seen, done))
        if family is not first:
            plain = list(_grow(training, family, folds[family.treatment]))
        found += plain
        if splits:
            best = sorted(plain[1:], key=lambda c: -c.log_score)[:n_weighted]
            for weighted in each(_with_feature_weights, [plain[0], *best]):
                found += weighted
            training.report(f"{family.name}, feature weights", 1 + len(best))
    return found, imputer


def fold_of(rows: TrainingTable, treatment: Treatment, split: Split) -> Fold:
    """Rows of a split, seen by what those to learn from tell about the classes."""
    train, test = split
    view, table = rows.view(treatment, np.where(train > 0, rows.labels, np.int32(-1)))
    training, held_out = (_cases_of(table, weights) for weights in (train, test))
    return Fold(view, view.mix(training).fused(), held_out, None, view.mix(held_out).fused())


def _cases_of(table: EncodedTable, weights: Floats) -> EncodedTable:
    """Rows of positive weight."""
    keep = weights > 0
    return replace(table.only(keep), weights=None if (weights[keep] == 1).all() else weights[keep])


def _grow(training: Training, family: Family, folds: Sequence[Fold]) -> Iterator[Candidate]:
    """One size after the other, until `PATIENCE` of them have not been better on the rows held out."""
    best, since = -np.inf, 0
    plain = neutral(len(training.rows.schema.columns), training.rows.n_classes)
    for size in family.sizes:
        fits = training.each(lambda f: training.fit(family, size, f.view, f.training), folds)  # noqa: B023
        found = _judged(Candidate(family, size, (), tuple(fits), "none", plain, np.empty(0), np.empty(0)), folds)
        training.report(f"{family.name}, {size}", len(folds))
        yield found
        since = 0 if found.log_score > best else since + 1
        best = max(best, found.log_score)
        if since == PATIENCE or not folds:
            return


def _judged(c: Candidate, folds: Sequence[Fold]) -> Candidate:
    """A candidate with its scores in the folds."""
    c = replace(c, folds=tuple(folds), n_cases=np.concatenate([np.empty(0), *(f.n_cases for f in folds)]))
    return replace(c, log_scores=_log_scores(c, [c.feature_weights] * len(folds)))


def _with_feature_weights(c: Candidate) -> list[Candidate]:
    """The candidate with one weight for all features, and with one for each.

    They are learnt from all rows held out, but scored as they would have been without the rows that they are scored
    by: feature weights that fit too well must not look better than they are. The networks of the other folds have seen
    these rows, though, and so a little of them remains; with few rows for each feature it would be too much.
    """
    n_features = len(c.feature_weights.weights)
    parts = c.parts
    groups = [parts[k::_GROUPS] for k in range(min(_GROUPS, len(parts)))]
    if len(groups) == 1:
        return []
    each = c.n_cases.sum() >= ROWS_PER_FEATURE_WEIGHT * n_features
    of_part: list[list[FeatureWeights]] = [[]] * len(parts)
    for k in range(len(groups)):
        others = [part for j, group in enumerate(groups) if j != k for part in group]
        of_part[k::_GROUPS] = [learn_feature_weights(others, n_features, LONE_THREAD, each)] * len(groups[k])
    final = learn_feature_weights(parts, n_features, LONE_THREAD, each)
    names: tuple[Weighting, ...] = ("common", "each")
    return [
        replace(c, weighting=name, feature_weights=of_all, log_scores=_log_scores(c, [e[i] for e in of_part]))
        for i, (name, of_all) in enumerate(zip(names, final))
    ]


def _log_scores(c: Candidate, feature_weights: Sequence[FeatureWeights]) -> Floats:
    """Log p(y | x) of the rows held out, with feature weights for each fold."""
    scores = [np.empty(0)]
    for fold, predictor, found in zip(c.folds, c.predictors, feature_weights):
        log_proba = posterior(fold.judged, replace(predictor, feature_weights=found).terms, "log_proba", LONE_THREAD)
        log_proba = log_proba if fold.done is None else fold.done.log_mean(log_proba)
        scores.append(log_proba[np.arange(len(log_proba)), fold.held_out.labels])
    return np.concatenate(scores)


def _log_density(c: Candidate) -> float:
    """Sum of log p(x) of the rows held out, of as many values as they have."""
    total = 0.0
    for fold, predictor in zip(c.folds, c.predictors):
        joint = posterior(fold.held_out, predictor.network.terms, "log_joint", LONE_THREAD)
        total += float(fold.n_cases @ logsumexp(joint, axis=1))
    return total


def _best(candidates: list[Candidate], most: int) -> tuple[list[Candidate], Floats]:
    """Candidates that matter and their weights, the weightiest first."""
    if len(candidates) == 1:
        return candidates, np.ones(1)
    n_cases = candidates[0].n_cases
    scores = np.stack([c.log_scores for c in candidates], axis=1)
    weights = stack(scores, n_cases)
    order = np.argsort(-weights, kind="stable")
    enough = 1 + int(np.searchsorted(np.cumsum(weights[order]), 1 - NEGLIGIBLE))
    keep = order[: min(enough, most)]
    weights = stack(scores[:, keep], n_cases)
    by_weight = np.argsort(-weights, kind="stable")
    return [candidates[k] for k in keep[by_weight]], weights[by_weight]


def _refit(training: Training, members: Sequence[Candidate]) -> list[WeightedPredictor]:
    """The candidates on all rows."""
    rows = training.rows
    views = {treatment: rows.view(treatment, rows.labels) for treatment in {m.family.treatment for m in members}}
    seen = {treatment: (view, view.mix(table).fused()) for treatment, (view, table) in views.items()}
    alike = {(id(m.family), m.size): m for m in members}  # members may differ in their feature weights alone
    fits = training.each(lambda m: training.fit(m.family, m.size, *seen[m.family.treatment]), list(alike.values()))
    training.report("members", len(members))
    found = dict(zip(alike, fits))
    return [replace(found[id(m.family), m.size], feature_weights=m.feature_weights) for m in members]
