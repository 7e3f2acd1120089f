"""Rows held out, and how candidates of the average are judged by them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import logsumexp

from fanbayes.arrays import AnyInts, Floats, Ints
from fanbayes.data.schema import Missing
from fanbayes.data.table import EncodedTable
from fanbayes.data.views import TrainingTable, Treatment, View
from fanbayes.learning.completion import Completions, filled
from fanbayes.learning.e_step import posterior
from fanbayes.learning.ensembles.candidates import LONE_THREAD
from fanbayes.learning.ensembles.folds import Split
from fanbayes.learning.ensembles.members import Fit, MemberNetwork
from fanbayes.learning.ensembles.pool import FLOOR


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


def fold_of(rows: TrainingTable, treatment: Treatment, split: Split, missing: Missing | None = None) -> Fold:
    """Rows of a split, seen by what those to learn from tell about the classes, with or without indicators."""
    train, test = split
    view, table = rows.view(treatment, np.where(train > 0, rows.labels, np.int32(-1)), missing)
    training, held_out = (_cases_of(table, weights) for weights in (train, test))
    learnt, judged = (np.flatnonzero(weights > 0) for weights in split)
    return Fold(view, view.mix(training).fused(), held_out, learnt, judged, None, view.mix(held_out).fused())


def _cases_of(table: EncodedTable, weights: Floats) -> EncodedTable:
    """Rows of positive weight."""
    keep = weights > 0
    return replace(table.only(keep), weights=None if (weights[keep] == 1).all() else weights[keep])


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


def judged_rows(rows: TrainingTable, folds: Sequence[Fold], groups: Ints | None) -> Judged:
    """The rows that some fold holds out."""
    held_out = np.unique(np.concatenate([fold.rows for fold in folds]))
    table = rows.without_indicators.only(held_out)
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
