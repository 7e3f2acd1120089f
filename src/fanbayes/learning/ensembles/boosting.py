"""Boosted naive Bayes (Elkan 1997; Ridgeway, Madigan, Richardson & O'Kane 1998), by SAMME (Zhu et al. 2009).

Round t fits naive Bayes p_t to cases of weights w, which sum to N in every round, as smoothing counts cases:

    e_t = sum_n w_n [h_t(x_n) != y_n] / N ,   h_t = argmax_c p_t(c, x)
    a_t = log((1 - e_t) / e_t) + log(r_c - 1)                                                        (B1)
    w_n <- w_n exp(a_t [h_t(x_n) != y_n]), then all times N / sum w

It ends with a round that makes no mistake (a_t = 1) or is no better than chance, e_t >= 1 - 1 / r_c, which does not
count unless it is the first. With A = sum_t a_t, the score of a class is

    S_c(x) = sum_t a_t log p_t(c, x) / A            additive (Ridgeway et al.)                         (B2)
    S_c(x) = sum_t a_t [h_t(x) = c] / A             votes (Elkan)                                      (B3)

and p(c | x) = softmax_c(s S_c(x)). (B2) is one number for each value of each feature and class: a network whose
tables are not normalised. The number of rounds and the scale s are those that predict rows held out best.

Neither is a joint distribution: a missing value has no factor, which is not to sum it out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from scipy.special import log_softmax, softmax

from fanbayes.arrays import AnyInts, Floats
from fanbayes.data.caching import cached_property, fields_only
from fanbayes.data.schema import Missing, Schema
from fanbayes.data.state import Arrays, State, entry, grouped, prefixed, read_array, require, require_names
from fanbayes.data.table import EncodedTable
from fanbayes.data.views import Encodings, TrainingTable
from fanbayes.learning.completion import missing_cells
from fanbayes.learning.e_step import ThreadPool, e_step, posterior
from fanbayes.learning.ensembles.folds import Split
from fanbayes.model.blocks import EstimationOptions
from fanbayes.model.network import Model, Network, Terms
from fanbayes.model.state import network_state, read_network
from fanbayes.model.structure import naive_bayes

Combination = Literal["additive", "votes"]

# Rounds are added until the rows held out have not been predicted better for so many.
PATIENCE = 10
# The scale is shrunk towards 1 as by one case.
SHRINK_SCALE = 1.0
MOST_SCALE = 1e3


@dataclass(frozen=True)
class Settings:
    """What is added to every count, how rounds are combined, and whether it matters what is missing."""

    alpha: float
    combination: Combination
    missing: Missing = "ignorable"


# Errors closer than this to none, or to those of chance, are so by rounding.
_NOTHING = 1e-12


@dataclass(frozen=True)
class Round:
    """Naive Bayes of one round, its weight a_t (B1) and its error e_t."""

    network: Network
    weight: float
    error: float


def boost(table: EncodedTable, n_classes: int, alpha: float, pool: ThreadPool) -> Iterator[Round]:
    """One round after the other, as long as there are any.

    Parameters
    ----------
    table : labelled rows of discrete columns
    alpha : added to every count
    """
    assert table.labels is not None
    model = Model(naive_bayes(n_classes), table.layout, EstimationOptions(alpha=alpha))
    nothing = Terms.nothing(model.structure, model.layout)
    weights, total, is_first = table.case_weights, table.total_weight, True
    while True:
        network = model.estimate(e_step(replace(table, weights=weights), nothing, False, pool))
        wrong = _decisions(table, network, pool) != table.labels
        error = float(weights[wrong].sum()) / total
        if error <= _NOTHING or error >= 1 - 1 / n_classes - _NOTHING:
            if error <= _NOTHING or is_first:
                yield Round(network, 1.0, error)
            return
        weight = math.log((1 - error) / error) + math.log(n_classes - 1)
        yield Round(network, weight, error)
        weights = np.where(wrong, weights * math.exp(weight), weights)
        weights *= total / weights.sum()
        is_first = False


def _decisions(table: EncodedTable, network: Network, pool: ThreadPool) -> AnyInts:
    """Most probable class of each row (n_rows,)."""
    return np.asarray(np.argmax(posterior(table, network.terms, "log_joint", pool), axis=1))


def _scores(table: EncodedTable, network: Network, combination: Combination, pool: ThreadPool) -> Floats:
    """What a round of weight 1 adds to (B2), but for what all classes share, or to (B3), (n_rows, n_classes)."""
    if combination == "additive":
        return posterior(table, network.terms, "log_proba", pool)
    return np.eye(network.structure.n_classes)[_decisions(table, network, pool)]


# ---------------------------------------------------------------- the number of rounds, and the scale


@dataclass(frozen=True)
class Choice:
    """What rows held out tell.

    Attributes
    ----------
    n_rounds : int
    scales : (n_tried,)
        The best scale after 1, 2, ... rounds; empty where nothing was held out.
    log_scores : (n_tried,)
        Mean log p(y | x) of the rows held out, with that scale.
    """

    n_rounds: int
    scales: Floats
    log_scores: Floats


def choose(
    rows: TrainingTable,
    splits: Sequence[Split],
    settings: Settings,
    n_rounds: int | None,
    max_rounds: int,
    pool: ThreadPool,
) -> Choice:
    """Rounds, if not given, and scale that predict best the rows that each split holds out.

    Parameters
    ----------
    rows : all labelled
    splits : none where nothing can be held out: then one round, unless more are asked for
    """
    if not splits:
        return Choice(n_rounds or 1, np.empty(0), np.empty(0))
    parts = [_parts(rows, split, settings.missing) for split in splits]
    paths = [_held_out_scores(*part, rows.n_classes, settings, pool) for part in parts]
    labels = np.concatenate([held_out.labels for _, held_out in parts])
    cases = np.concatenate([held_out.case_weights for _, held_out in parts])
    found: list[tuple[float, float]] = []
    scores, best = [next(path) for path in paths], 0
    while True:
        found.append(fit_scale(np.concatenate(scores), labels, cases))
        if found[-1][1] > found[best][1]:
            best = len(found) - 1
        if len(found) == (n_rounds or max_rounds) or (n_rounds is None and len(found) > best + PATIENCE):
            break
        after = [next(path, None) for path in paths]
        if all(s is None for s in after):  # no fold has a round left
            break
        scores = [last if s is None else s for last, s in zip(scores, after)]
    scales, log_scores = np.array(found).T
    return Choice(n_rounds or best + 1, scales, log_scores)


def _parts(rows: TrainingTable, split: Split, missing: Missing) -> tuple[EncodedTable, EncodedTable]:
    """Rows to learn from and rows held out, both binned by what the first ones tell."""
    train, test = split
    _, table = rows.view("mdlp", np.where(train > 0, rows.labels, -1).astype(np.int32), missing)
    table = table.fused()
    return replace(table, weights=train).only(train > 0), replace(table, weights=test).only(test > 0)


def _held_out_scores(
    training: EncodedTable, held_out: EncodedTable, n_classes: int, settings: Settings, pool: ThreadPool
) -> Iterator[Floats]:
    """(B2) or (B3) of the rows held out (n_held_out, n_classes), after 1, 2, ... rounds."""
    total, weights = np.zeros((held_out.n_rows, n_classes)), 0.0
    for step in boost(training, n_classes, settings.alpha, pool):
        total += step.weight * _scores(held_out, step.network, settings.combination, pool)
        weights += step.weight
        yield total / weights


def fit_scale(scores: Floats, labels: AnyInts, cases: Floats) -> tuple[float, float]:
    """Scale s >= 0 that maximises sum_n w_n log softmax(s S)_y - (s - 1)^2 / 2, and the mean log p(y | x) with it.

    The slope of the concave objective falls from one end to the other: Newton steps, halved into where its root is.
    """
    at_label = np.arange(len(labels)), labels
    own = scores[at_label]
    low, high, scale = 0.0, MOST_SCALE, 1.0
    for _ in range(60):
        p = softmax(scale * scores, axis=1)
        mean = (p * scores).sum(axis=1)
        slope = cases @ (own - mean) - SHRINK_SCALE * (scale - 1)
        curvature = cases @ (p * (scores - mean[:, None]) ** 2).sum(axis=1) + SHRINK_SCALE
        low, high = (scale, high) if slope > 0 else (low, scale)
        step = scale + slope / curvature
        after = step if low < step < high else (low + high) / 2
        if abs(after - scale) <= 1e-10 * max(scale, 1.0):
            break
        scale = float(after)
    log_p = log_softmax(scale * scores, axis=1)[at_label]
    return scale, float(cases @ log_p / cases.sum())


# ---------------------------------------------------------------- prediction


@dataclass(frozen=True)
class Boosted:
    """Rounds of naive Bayes and how they are combined.

    Attributes
    ----------
    schema : Schema
        All columns discrete or binned.
    networks : one for each round
    weights, errors : (n_rounds,)
        a_t (B1) and e_t.
    scale : s
    combination : "additive" or "votes"
    """

    schema: Schema
    networks: tuple[Network, ...]
    weights: Floats
    errors: Floats
    scale: float
    combination: Combination

    __getstate__ = fields_only

    @property
    def schemas(self) -> tuple[Schema, ...]:
        """Its only one."""
        return (self.schema,)

    @property
    def n_components(self) -> int:
        """One: nothing is hidden."""
        return 1

    @property
    def class_prior(self) -> Floats:
        """p(c) of naive Bayes itself, the first round (n_classes,), which a file may have as 0."""
        return np.maximum(self.networks[0].class_marginal(), np.finfo(np.float64).tiny)

    @cached_property
    def additive(self) -> Network:
        """The scale times (B2), as tables that are not normalised: what each value adds to each class."""
        share = self.scale * self.weights / self.weights.sum()
        first, *others = self.networks

        def weighted_sum(*theta: Floats) -> Floats:
            return np.asarray(sum(a * x for a, x in zip(share.tolist(), theta)))

        return first.map(weighted_sum, *others)

    def posterior(self, rows: Encodings, what: Literal["proba", "log_proba"], pool: ThreadPool) -> Floats:
        """p(c | x) or its log, (n_rows, n_classes); `class_prior` where everything is missing."""
        table = rows[self.schema]
        if self.combination == "additive":
            out = posterior(table, self.additive.terms, what, pool)
        else:
            votes = sum(a * _scores(table, n, "votes", pool) for a, n in zip(self.weights.tolist(), self.networks))
            out = (softmax if what == "proba" else log_softmax)(self.scale * votes / self.weights.sum(), axis=1)
        is_empty = missing_cells(table).all(axis=1)
        out[is_empty] = self.class_prior if what == "proba" else np.log(self.class_prior)
        return out

    def to_state(self) -> State:
        """Weights and scale, and the parameters of each round; the schema is left to others."""
        arrays: Arrays = {"weights": self.weights, "errors": self.errors}
        for t, network in enumerate(self.networks):
            arrays |= prefixed(str(t), network_state(network)[1])
        structure = network_state(self.networks[0])[0]
        return {"structure": structure, "scale": self.scale, "n_rounds": len(self.networks)}, arrays

    @classmethod
    def from_state(
        cls, values: dict[str, Any], arrays: Arrays, schema: Schema, n_classes: int, combination: Combination
    ) -> Boosted:
        """Inverse of `to_state`."""
        flaw = "its rounds are damaged"
        n, scale = entry(values, "n_rounds", int), entry(values, "scale", float)
        require(1 <= n <= len(arrays) and 0 <= scale <= MOST_SCALE and not schema.continuous, flaw)
        groups = grouped(arrays, ["", *map(str, range(n))])
        require_names(groups[""], {"weights", "errors"})
        weights, errors = (read_array(arrays, name, (n,)) for name in ("weights", "errors"))
        require(((weights > 0) & (weights <= 1e3)).all() and ((errors >= 0) & (errors <= 1)).all(), flaw)
        structure = entry(values, "structure", dict)
        networks = (read_network(structure, groups[str(t)], schema, n_classes, [("class",)]) for t in range(n))
        return cls(schema, tuple(networks), weights, errors, scale, combination)


def fit_boosted(
    table: EncodedTable, schema: Schema, n_classes: int, settings: Settings, choice: Choice, pool: ThreadPool
) -> Boosted:
    """As many rounds as were chosen, or as there are, on all rows, and the scale after so many."""
    rounds = [step for _, step in zip(range(choice.n_rounds), boost(table.fused(), n_classes, settings.alpha, pool))]
    weights, errors = (np.array([getattr(step, name) for step in rounds]) for name in ("weight", "error"))
    networks = tuple(step.network for step in rounds)
    scale = float(choice.scales[: len(rounds)][-1]) if len(choice.scales) else 1.0
    return Boosted(schema, networks, weights, errors, scale, settings.combination)
