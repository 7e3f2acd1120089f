"""Averages of models: why this class.

As for a single network (`contributions`), put a common exponent t on every observed feature. With
u_fs(t) = a_fs + t sum_i l_i(f, s), where s are the states of fit f, a_fs their log weights and l_i(f, s) what feature i
adds, the fits have the class probabilities p_f(c) = sum_{s of c} q_f(s), q_f = softmax_s u_fs. The average is a
function of these, (A0) to (A3) and (M1), so that with the derivatives

    b_f(c) = d log-odds / d p_f(c)

the log-odds change by ``sum_i sum_fs q_f(s) [ b_f(c_s) - sum_c b_f(c) p_f(c) ] l_i(f, s)`` with t. The coefficients do
not depend on i: they are integrated once over t from 0 (everything missing) to 1 (the row), and the contributions of
the features follow. Together with the log-odds at 0 they add up to the log-odds.

A row with missing values is a mean over complete rows (M1): every fit appears once for each of them. What a missing
feature contributes is then what the values that it is expected to have contribute.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from fanbayes.arrays import Floats, Ints
from fanbayes.data.table import EncodedTable
from fanbayes.data.views import Encodings
from fanbayes.explanation.contributions import check_sum, chosen_pairs, missing_values, told, without_evidence
from fanbayes.explanation.explanation import Attribution, Explanation
from fanbayes.explanation.information import information_gain
from fanbayes.explanation.path import N_NODES, integrate
from fanbayes.learning.completion import blocks, missing_cells
from fanbayes.learning.e_step import ThreadPool, posterior
from fanbayes.learning.ensembles.average import FURTHEST, Average, completed
from fanbayes.learning.ensembles.coded_trees import ForestPredictor
from fanbayes.learning.ensembles.extra import EstimatorFit
from fanbayes.learning.ensembles.members import Fit
from fanbayes.learning.ensembles.pool import FLOOR, Pool

_NUMBERS_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class FitRows:
    """One of the fits, and what the features of the rows add in each of its states.

    Attributes
    ----------
    classes : int (n_states,), increasing
    log_weight : (n_states,), a_fs
    terms : function of row numbers
        l_i(f, s) of complete rows, (n_rows, n_features, n_states).
    """

    classes: Ints
    log_weight: Floats
    terms: Callable[[Ints], Floats]


def fit_rows(fit: Fit, table: EncodedTable, n_features: int) -> FitRows:
    """A fit and the complete rows of a table as it sees them; a forest has one state for each class."""
    if isinstance(fit, EstimatorFit):
        fit.refuse_to_explain()
    if isinstance(fit, ForestPredictor):
        prior = fit.class_prior
        return FitRows(np.arange(len(prior)), np.log(prior), lambda rows: fit.terms(table.only(rows), None))
    network, feature_of = fit.network, fit.view.feature_of

    def terms(rows: Ints) -> Floats:
        levels = network.layout.first_level[:-1] + table.codes_of_columns(rows)
        cells = np.tile(network.structure.cell_of, (len(levels), 1))
        by_column = network.terms.log_prob(levels, table.numbers[rows], table.pairs[rows], cells)
        out = np.zeros((len(rows), n_features, network.structure.n_states))
        for j, of_column in zip(feature_of.tolist(), np.moveaxis(by_column, 1, 0)):
            out[:, j] += of_column
        return out

    return FitRows(network.structure.class_of, network.log_weight[0], terms)


@dataclass(frozen=True)
class Mixture:
    """How fits make an average.

    Attributes
    ----------
    member_of : int (n_fits,), increasing
    pool : Pool of the members and the classes' shares
    class_prior : (n_classes,)
    """

    member_of: Ints
    pool: Pool
    class_prior: Floats


def explain_average(
    average: Average, rows: Encodings, classes: NDArray[Any], pair: Sequence[Any] | None, pool: ThreadPool
) -> Explanation:
    """Attribute the log-odds of two classes to the features of encoded rows, each completed where values are missing.

    Parameters
    ----------
    average : Average
    rows : Encodings
        By its schemas.
    classes : labels (n_classes,)
    pair : two of the labels; None for the most probable class of each row against the next
    """
    chosen = chosen_pairs(average.posterior(rows, "log_proba", pool), classes, pair)
    rows = rows.clipped(FURTHEST)
    schema = average.imputer.schema
    base, n_features = rows[schema], len(schema.columns)
    mixture = Mixture(average.member_of, average.pool, average.class_prior)
    parts = []
    for some in blocks(np.arange(len(chosen)), n_features):
        few = rows.only(some)
        done = average.imputer.complete(few[schema], pool)
        tables = average.tables(completed(few, done))
        fits = [fit_rows(fit, table, n_features) for fit, table in zip(average.fits, tables)]
        parts.append(attribute_average(fits, mixture, n_features, chosen[some], done.row, done.weight))
    found = Attribution(*(np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(Attribution)))
    is_empty = np.asarray(missing_cells(base).all(axis=1))
    found = without_evidence(found, is_empty, np.log(average.class_prior)[chosen] @ [1.0, -1.0])
    missing = missing_values(schema, base)
    network = average.imputer.network
    states = softmax(posterior(base, network.terms, "states", pool), axis=1)
    gain = information_gain(network, schema, states, missing)
    return told(found, "member", schema, base, classes[chosen], gain)


def attribute_average(
    fits: Sequence[FitRows], mixture: Mixture, n_features: int, pairs: Ints, row: Ints, weight: Floats
) -> Attribution:
    """Contributions of the features to the log-odds of pairs of classes (n_rows, 2) under (A3).

    Parameters
    ----------
    fits : FitRows, n complete rows in each table
    row, weight : (n,)
        Row that each complete one stands for, increasing, and by what weight.

    Returns
    -------
    Attribution
        `part` is the member that contributes most to the probability of the first class in the linear pool, the
        classes' shares apart, and `responsibility` its share.
    """
    first = np.searchsorted(row, np.arange(len(pairs) + 1))
    size = np.diff(first)
    states = sum(len(f.classes) for f in fits)
    n = len(pairs)
    out = Attribution(np.empty(n), np.empty(n), np.empty((n, n_features)), np.empty(n, dtype=np.intp), np.empty(n))
    for n_each in np.unique(size):  # rows of equally many complete ones together
        of_size = np.flatnonzero(size == n_each)
        step = max(1, _NUMBERS_AT_ONCE // (int(n_each) * states * max(N_NODES, n_features)))
        for at in range(0, len(of_size), step):
            some = of_size[at : at + step]
            complete = first[some][:, None] + np.arange(n_each)  # (n_some, n_each)
            found = _attribute_block(fits, mixture, n_features, pairs[some], complete, weight[complete], some)
            for f in fields(Attribution):
                getattr(out, f.name)[some] = getattr(found, f.name)
    return out


def _attribute_block(
    fits: Sequence[FitRows],
    mixture: Mixture,
    n_features: int,
    pairs: Ints,
    complete: Ints,
    weight: Floats,
    names: Ints,
) -> Attribution:
    """Those of rows, each of which stands for the complete rows and weights (n_rows, n_each).

    States are ordered by complete row, then by fit.
    """
    n_rows, n_each = complete.shape
    fit_of = np.repeat(np.arange(len(fits)), [len(f.classes) for f in fits])
    classes = np.concatenate([f.classes for f in fits])
    log_weight = np.concatenate([f.log_weight for f in fits])
    terms = np.concatenate([f.terms(complete.ravel()) for f in fits], axis=2)  # l_i(f, s)
    terms = np.moveaxis(terms.reshape(n_rows, n_each, n_features, -1), 1, 2).reshape(n_rows, n_features, -1)
    path = AveragePath(mixture, fit_of, classes, weight, pairs, log_weight, terms.sum(axis=1))
    size = np.maximum(1.0, np.abs(terms).sum(axis=1).max(axis=1))
    contributions = np.einsum("nis,ns->ni", terms, integrate(path, size))
    row = np.arange(n_rows)
    start, (end, share) = path.log_odds(np.zeros(n_rows), row)[0], path.log_odds(np.ones(n_rows), row)
    best = np.argmax(share, axis=1)
    found = Attribution(end, start, contributions, best, share[np.arange(len(best)), best])
    check_sum(found, size, names)
    return found


@dataclass(frozen=True)
class AveragePath:
    """From everything missing to the rows.

    Attributes
    ----------
    mixture : Mixture
    fit_of, classes : int (n_states,), fit and class of each state; those of a fit by class
    weight : (n_rows, n_each), of the complete rows that stand for each
    pairs : int (n_rows, 2)
    start : (n_states,), a_fs
    slope : (n_rows, n_each * n_states), sum_i l_i(f, s)
    """

    mixture: Mixture
    fit_of: Ints
    classes: Ints
    weight: Floats
    pairs: Ints
    start: Floats
    slope: Floats

    def _probabilities(self, t: Floats, row: Ints) -> tuple[Floats, Floats]:
        """q_f(s) (n, n_each, n_states) and p_f(c) (n, n_each, n_fits, n_classes)."""
        n, n_each = len(t), self.weight.shape[1]
        u = self.start + (t[:, None] * self.slope[row]).reshape(n, n_each, -1)
        edges = np.flatnonzero(np.diff(self.fit_of, prepend=-1))
        u -= np.maximum.reduceat(u, edges, axis=2)[..., self.fit_of]
        q = np.exp(u)
        q /= np.add.reduceat(q, edges, axis=2)[..., self.fit_of]
        n_classes = len(self.mixture.class_prior)
        key = self.fit_of * n_classes + self.classes
        at = np.flatnonzero(np.diff(key, prepend=-1))
        p = np.zeros((n, n_each, len(edges) * n_classes))
        p[..., key[at]] = np.add.reduceat(q, at, axis=2)
        return q, p.reshape(n, n_each, -1, n_classes)

    def _members(self, p: Floats) -> Floats:
        """(A0), and the classes' shares: (n_members + 1, n, n_each, n_classes)."""
        edges = np.flatnonzero(np.diff(self.mixture.member_of, prepend=-1))
        count = np.bincount(self.mixture.member_of)
        members = np.moveaxis(np.add.reduceat(p, edges, axis=2), 2, 0) / count[:, None, None, None]
        prior = np.broadcast_to(self.mixture.class_prior, (1, *members.shape[1:]))
        return np.concatenate([members, prior])

    def log_odds(self, t: Floats, row: Ints) -> tuple[Floats, Floats]:
        """Log-odds at t, (n,), and the members' shares in the first class, (n, n_members)."""
        _, p = self._probabilities(t, row)
        members = self._members(p)
        total = np.einsum("nk,nkc->nc", self.weight[row], self.mixture.pool.mix(members))
        at = np.arange(len(row))
        first, second = (total[at, self.pairs[row, k]] for k in (0, 1))
        own = np.einsum("nk,mnk->nm", self.weight[row], members[:-1, at, :, self.pairs[row, 0]].transpose(1, 0, 2))
        own = np.maximum(own * self.mixture.pool.weights[:-1], np.finfo(float).tiny)  # far out all may be 0
        return np.log(first) - np.log(second), own / own.sum(axis=1, keepdims=True)

    def coefficient(self, t: Floats, row: Ints) -> Floats:
        """What multiplies l_i(f, s) in the derivative of the log-odds, (n, n_each * n_states)."""
        pool, at = self.mixture.pool, np.arange(len(row))
        q, p = self._probabilities(t, row)
        members = self._members(p)
        geometric = pool.log_linear(members)  # (n, n_each, n_classes)
        total = np.einsum("nk,nkc->nc", self.weight[row], pool.mix(members))
        by_p = np.zeros_like(geometric)  # d log-odds / d p(c | complete row)
        for k, sign in ((0, 1.0), (1, -1.0)):
            c = self.pairs[row, k]
            by_p[at, :, c] += sign * self.weight[row] / total[at, c][:, None]
        by_log = (1 - pool.share) * geometric * (by_p - (by_p * geometric).sum(axis=2, keepdims=True))
        by_member = pool.share * pool.weights[:-1, None, None, None] * by_p
        by_member = by_member + pool.exponents[:-1, None, None, None] * by_log / (members[:-1] + FLOOR)
        member_of = self.mixture.member_of
        by_fit = np.moveaxis(by_member / np.bincount(member_of)[:, None, None, None], 0, 2)[:, :, member_of]
        mean = (by_fit * p).sum(axis=3)  # (n, n_each, n_fits)
        found = q * (by_fit[:, :, self.fit_of, self.classes] - mean[:, :, self.fit_of])
        return np.asarray(found.reshape(len(row), -1))
