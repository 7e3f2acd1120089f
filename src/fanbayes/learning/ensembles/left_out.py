"""How trees are judged: by the cases that they have left out, which also weigh what trees say.

The cases are dealt out into parts, those of a class evenly, and every tree is grown without one of the parts. What the
trees that have left a case out say of it are *components* z_s(c); with these,

    log p(c | x) = log p(c) + sum_s w_s z_s(c) + const                                               (T2)

and the weights, none negative, are those that maximise the log score of the cases left out, each expected near a usual
value. A case is judged with weights learnt without it. Equal rows with numbers are left out together, as are those of
a group. Where others will stand for a row when it is predicted (M1), these are judged in its place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from fanbayes import _native
from fanbayes.arrays import AnyInts, Floats, Ints, Mask
from fanbayes.data.table import EncodedTable
from fanbayes.data.views import View
from fanbayes.learning.e_step import ThreadPool
from fanbayes.learning.ensembles.coded_trees import Coding, ForestPredictor, Trees, learn_coding, no_trees
from fanbayes.learning.ensembles.folds import repeats_are_copies

# Least units of cases, which are left out together, that trees are grown on.
LEAST_UNITS = 6
# Cases that weights are learnt from.
MOST_JUDGED = 20_000
# Folds of the cases; those of each are judged by weights that were learnt from the others.
N_FOLDS = 5
# Cases that a row of that weight may be dealt out as.
_MOST_CHUNKS = 16
# Weights of rows that are judged in place of others are not less than this.
_LEAST_SHARE = 1e-9


@dataclass(frozen=True)
class Cases:
    """Rows in an order that depends on their content alone; one of several cases may be there several times.

    Attributes
    ----------
    row : int (n,), in the table
    labels : int32 (n,)
    weights : (n,)
    unit : int (n,), those of a unit are left out together
    """

    row: Ints
    labels: NDArray[np.int32]
    weights: Floats
    unit: Ints

    @property
    def n_units(self) -> int:
        """Number of units."""
        return int(self.unit.max(initial=-1)) + 1

    def parts(self, n_groups: int, n_parts: int, rng: np.random.Generator) -> NDArray[np.int32]:
        """Part of the units, those of a class dealt out evenly, in which each case is (n_groups, n)."""
        label = np.empty(self.n_units, dtype=np.uint16)  # sorted by their digits
        label[self.unit] = self.labels
        parts = np.empty((n_groups, len(self.row)), dtype=np.int32)
        part = np.empty(self.n_units, dtype=np.int32)
        for of_group in parts:
            order = rng.permutation(self.n_units)
            part[order[np.argsort(label[order], kind="stable")]] = np.arange(self.n_units) % n_parts
            of_group[:] = part[self.unit]
        return parts

    def log_mean(self, log_p: Floats, n_rows: int) -> Floats:
        """Log of the mean of p over the cases of each row (n_rows, n_classes)."""
        log_share = np.log(self.weights / np.bincount(self.row, self.weights)[self.row])
        out = np.full((n_rows, log_p.shape[1]), -np.inf)
        np.logaddexp.at(out, self.row, log_p + log_share[:, None])
        return out


@dataclass(frozen=True)
class Material:
    """What trees are grown on.

    Attributes
    ----------
    coding : Coding
    prior : (n_classes,), p(c)
    cases : Cases that are learnt from
    judged : Cases that are judged, the same or others in their place
    codes : uint8 (n, n_columns), of the cases and then of these others
    asked : int (n_asked,), the case with which each of the others is left out; None: there are none
    """

    coding: Coding
    prior: Floats
    cases: Cases
    judged: Cases
    codes: NDArray[np.uint8]
    asked: Ints | None

    def parts(self, n_groups: int, n_parts: int, rng: np.random.Generator) -> NDArray[np.int32]:
        """Part of each case in each group (n_groups, n), and `n_parts` more of those that are only judged."""
        parts = self.cases.parts(n_groups, n_parts, rng)
        return parts if self.asked is None else np.concatenate([parts, n_parts + parts[:, self.asked]], axis=1)

    def native(self) -> tuple[NDArray[np.uint8], NDArray[np.int32], Floats, NDArray[np.int32]]:
        """Codes (n_columns, n), labels, weights and units (n,)."""
        every = [self.cases] if self.asked is None else [self.cases, self.judged]
        labels, weights, unit = (np.concatenate([getattr(c, k) for c in every]) for k in ("labels", "weights", "unit"))
        return np.ascontiguousarray(self.codes.T), labels, weights, unit.astype(np.int32)


@dataclass(frozen=True)
class Grown:
    """Trees as they were grown.

    Attributes
    ----------
    components : float32 (n_judged, n_components, n_classes), means over the trees that have left out the case
    weighted : makes trees that predict, given the weights of the components
    """

    components: NDArray[np.float32]
    weighted: Callable[[Floats], Trees]


@dataclass(frozen=True)
class Method:
    """How trees are grown.

    Attributes
    ----------
    grow : given what to grow them on
    usual, scale : (n_components,), weights before any case has been seen, and by how much they are expected to differ
    most_rows : more are not learnt from
    """

    grow: Callable[[Material, np.random.Generator, ThreadPool], Grown]
    usual: Floats
    scale: Floats
    most_rows: int | None = None


def fit_trees(
    method: Method,
    table: EncodedTable,
    view: View,
    n_classes: int,
    seed: int,
    pool: ThreadPool,
    groups: AnyInts | None = None,
    asked: tuple[EncodedTable, Ints] | None = None,
) -> tuple[ForestPredictor, Floats]:
    """Grow trees and weigh what they say.

    Parameters
    ----------
    table : rows as the view shows them; those without a label, or of weight 0, are not learnt from
    view : View
    n_classes : int
    seed : int
    pool : threads; the trees are the same for any number
    groups : int (n_rows,) or None, rows of a group are left out together
    asked : rows to judge instead, of any weights, and the row of the table that each stands for, learnt from as well

    Returns
    -------
    ForestPredictor
    log_proba : (n_rows, n_classes), or (n_asked, n_classes)
        Log p(c | x) of each row by the trees that have left it out.
    """
    is_used = _is_used(table, method.most_rows if asked is None else None)
    few = table.only(is_used)
    assert few.labels is not None
    n_cases = np.bincount(few.labels, few.case_weights, n_classes).astype(np.float64) + 1 / n_classes
    prior = n_cases / n_cases.sum()
    coding = learn_coding(few)
    cases = _cases(few, None if groups is None else groups[is_used])
    if cases.n_units < LEAST_UNITS or len(np.unique(few.labels)) < 2 or not coding.n_codes:
        forest = ForestPredictor(view, prior, coding, no_trees(n_classes))
        return forest, np.tile(np.log(prior), (table.n_rows if asked is None else asked[0].n_rows, 1))
    codes, case, judged = coding.codes(few)[cases.row], None, cases
    if asked is not None:
        case, judged = _standing_for(cases, (np.cumsum(is_used) - 1)[asked[1]], asked[0].case_weights)
        codes = np.concatenate([codes, coding.codes(asked[0])[judged.row]])
    grown = method.grow(Material(coding, prior, cases, judged, codes, case), np.random.default_rng(seed), pool)
    weights, of_cases = _learn_weights(grown.components, method, prior, judged, pool)
    forest = ForestPredictor(view, prior, coding, grown.weighted(weights))
    if asked is not None:
        return forest, judged.log_mean(of_cases, asked[0].n_rows)
    log_proba = np.empty((table.n_rows, n_classes))
    log_proba[is_used] = cases.log_mean(of_cases, few.n_rows)
    log_proba[~is_used] = forest.log_proba(table.only(~is_used), pool)
    return forest, log_proba


def _is_used(table: EncodedTable, most: int | None) -> Mask:
    """Which rows are learnt from (n_rows,): those that have something to say, at most so many, whatever their order."""
    if table.labels is None:
        return np.zeros(table.n_rows, dtype=bool)
    is_used = np.asarray((table.labels >= 0) & (table.case_weights > 0))
    if most is not None and (n := int(is_used.sum())) > most:
        order = np.flatnonzero(is_used)[np.lexsort((table.labels[is_used], table.fingerprint[is_used]))]
        is_used = np.zeros_like(is_used)
        is_used[order[:: -(-n // most)]] = True
    return is_used


def _cases(table: EncodedTable, groups: AnyInts | None) -> Cases:
    """Cases of labelled rows.

    Equal rows are copies of one case, or cases that happen to be alike, as those of one row of such weight are
    (`folds`).
    """
    assert table.labels is not None
    order = np.lexsort((table.labels, table.fingerprint))
    if groups is not None:
        _, unit = np.unique(groups[order], return_inverse=True)
    elif repeats_are_copies(table):
        _, unit = np.unique(table.fingerprint[order], return_inverse=True)
    else:
        n_chunks = np.clip(np.ceil(table.case_weights), 1, _MOST_CHUNKS).astype(np.intp)
        row = np.repeat(order, n_chunks[order])
        return Cases(row, table.labels[row], (table.case_weights / n_chunks)[row], np.arange(len(row)))
    return Cases(order, table.labels[order], table.case_weights[order], unit)


def _standing_for(cases: Cases, row: Ints, weights: Floats) -> tuple[Ints, Cases]:
    """Rows (n_asked,) of these numbers and weights as cases: each is all those of its row, which are the first result.

    These may be several (`_cases`), each left out by trees of its own.
    """
    order = np.argsort(cases.row, kind="stable")
    first = np.searchsorted(cases.row[order], np.arange(cases.row.max() + 2))
    n_each = np.diff(first)[row]
    at = np.repeat(np.arange(len(row)), n_each)
    case = order[np.arange(len(at)) - np.repeat(np.cumsum(n_each) - n_each - first[row], n_each)]
    each = cases.weights[case] * np.maximum(weights, _LEAST_SHARE)[at]
    return case, Cases(at, cases.labels[case], each, cases.unit[case])


def _learn_weights(
    components: NDArray[np.float32], method: Method, prior: Floats, cases: Cases, pool: ThreadPool
) -> tuple[Floats, Floats]:
    """Weights (n_components,) of (T2), and log p(c | x) (n_cases, n_classes), each by the weights without its fold.

    Parameters
    ----------
    components : (n_cases, n_components, n_classes), of the cases left out
    """
    fold = (cases.unit % N_FOLDS).astype(np.int32)
    step = -(-len(components) // MOST_JUDGED)
    found = _native.tree_weights(
        np.ascontiguousarray(components[::step]),
        np.ascontiguousarray(cases.labels[::step]),
        np.ascontiguousarray(cases.weights[::step]),
        np.ascontiguousarray(fold[::step]),
        N_FOLDS,
        np.log(prior).tolist(),
        method.usual.tolist(),
        method.scale.tolist(),
        pool,
    )
    scores = np.log(prior) + np.einsum("nsk,ns->nk", components, found[1 + fold])
    return found[0], np.asarray(log_softmax(scores, axis=1))
