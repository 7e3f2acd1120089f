"""Averages of networks with feature weights: why this class.

    p(c | x) = sum_m v_m p_m(c | x)                                                                  (A1)

As for a single network (`contributions`), put a common exponent t on every observed feature. With
u_ms(t) = a_ms + t sum_i l_i(m, s), where s are the states of member m, a_ms their log weights and l_i(m, s) what
feature i adds (its log probability times its weight), the members have the class probabilities
p_m(c) = sum_{s of c} q_m(s), q_m = softmax_s u_ms, and

    d/dt log sum_m v_m p_m(c) = sum_i sum_ms r_m(c) [ [s of c] q_m(s) / p_m(c) - q_m(s) ] l_i(m, s)

with r_m(c) = v_m p_m(c) / sum_m' v_m' p_m'(c). The bracketed coefficients do not depend on i: they are integrated once
over t from 0 (everything missing) to 1 (the row), and the contributions of the features follow. Together with the
log-odds at 0 they add up to the log-odds.

The integral is taken by Gauss-Legendre rules on steps that are halved until each reproduces the change of the
log-odds over it.

A row with missing values is a mean over complete rows (M1): every member appears once for each of them, with v_m w_k in
the place of v_m. What a missing feature contributes is then what the values that it is expected to have contribute.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, softmax

from fanbayes.arrays import Floats, Ints
from fanbayes.data.table import EncodedTable
from fanbayes.data.views import Encodings
from fanbayes.explanation.contributions import (
    TOLERANCE,
    Attribution,
    Explanation,
    check_sum,
    chosen_pairs,
    missing_values,
    told,
    without_evidence,
)
from fanbayes.explanation.information import information_gain
from fanbayes.learning.completion import blocks, missing_cells
from fanbayes.learning.e_step import ThreadPool, posterior
from fanbayes.learning.ensembles.average import FURTHEST, Average
from fanbayes.model.weighted_network import WeightedNetwork

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_NODES, _WEIGHTS = (_NODES + 1) / 2, _WEIGHTS / 2
_HALVINGS = 40
_ROUNDING = 3e-15
_MOST_STEPS = 4096  # at one time; beyond, rounding is all that is halved
_NUMBERS_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class MemberRows:
    """One of the members, and the rows as it sees them.

    Attributes
    ----------
    model : WeightedNetwork
    table : EncodedTable
        Complete rows: one or more for each row that is explained.
    feature_of : int (n_discrete + n_numbers,)
        Feature of each column of the layout.
    weight : v_m
    """

    model: WeightedNetwork
    table: EncodedTable
    feature_of: Ints
    weight: float


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
    parts = []
    for some in blocks(np.arange(len(chosen)), n_features):
        few = rows.only(some)
        done = average.imputer.complete(few[schema], pool)
        members = _members(average, average.tables(few, done))
        parts.append(attribute_average(members, n_features, chosen[some], done.row, done.weight))
    found = Attribution(*(np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(Attribution)))
    is_empty = np.asarray(missing_cells(base).all(axis=1))
    found = without_evidence(found, is_empty, np.log(average.class_prior)[chosen] @ [1.0, -1.0])
    missing = missing_values(schema, base)
    gain = np.zeros(missing.shape)
    for m, table in zip(average.members, average.tables(rows)):
        states = softmax(posterior(table, m.predictor.terms, "states", pool), axis=1)
        gain += m.weight * information_gain(m.predictor.network, m.predictor.view.schema, states, missing)
    return told(found, "member", schema, base, classes[chosen], gain)


def _members(average: Average, tables: Sequence[EncodedTable]) -> list[MemberRows]:
    return [
        MemberRows(m.predictor.weighted, table, m.predictor.view.feature_of, m.weight)
        for m, table in zip(average.members, tables)
    ]


def attribute_average(
    members: Sequence[MemberRows], n_features: int, pairs: Ints, row: Ints, weight: Floats
) -> Attribution:
    """Contributions of the features to the log-odds of pairs of classes (n_rows, 2) under (A1).

    Parameters
    ----------
    members : MemberRows, n complete rows in each table
    row, weight : (n,)
        Row that each complete one stands for, increasing, and by what weight.

    Returns
    -------
    Attribution
        `part` is the member that contributes most to the probability of the first class, and `responsibility` its
        share.
    """
    first = np.searchsorted(row, np.arange(len(pairs) + 1))
    size = np.diff(first)
    states = sum(m.model.structure.n_states for m in members)
    n = len(pairs)
    out = Attribution(np.empty(n), np.empty(n), np.empty((n, n_features)), np.empty(n, dtype=np.intp), np.empty(n))
    for n_each in np.unique(size):  # rows of equally many complete ones together
        of_size = np.flatnonzero(size == n_each)
        step = max(1, _NUMBERS_AT_ONCE // (int(n_each) * states * max(len(_NODES), n_features)))
        for at in range(0, len(of_size), step):
            some = of_size[at : at + step]
            complete = first[some][:, None] + np.arange(n_each)  # (n_some, n_each)
            found = _attribute_block(members, n_features, pairs[some], complete, weight[complete], some)
            for f in fields(Attribution):
                getattr(out, f.name)[some] = getattr(found, f.name)
    return out


def _attribute_block(
    members: Sequence[MemberRows], n_features: int, pairs: Ints, complete: Ints, weight: Floats, names: Ints
) -> Attribution:
    """Those of rows, each of which stands for the complete rows and weights (n_rows, n_each).

    States are ordered by complete row, then by member: every member of every complete row is an `owner`.
    """
    n_rows, n_each = complete.shape
    classes = np.concatenate([m.model.structure.class_of for m in members])
    member_of = np.repeat(np.arange(len(members)), [m.model.structure.n_states for m in members])
    owner = (np.arange(n_each)[:, None] * len(members) + member_of).ravel()
    log_weight = np.concatenate([m.model.terms.log_weight[0] for m in members])
    terms = np.zeros((n_rows * n_each, n_features, len(classes)))  # l_i(m, s)
    for k, m in enumerate(members):
        mine = np.flatnonzero(member_of == k)
        by_column = _log_probabilities(m, complete.ravel()) * m.model.feature_weights[:, None]
        for j, of_column in zip(m.feature_of.tolist(), np.moveaxis(by_column, 1, 0)):
            terms[:, j, mine] += of_column
    terms = np.moveaxis(terms.reshape(n_rows, n_each, n_features, -1), 1, 2).reshape(n_rows, n_features, -1)
    with np.errstate(divide="ignore"):  # an improbable completion may have weight 0
        log_owner_weight = np.log(weight)[:, :, None] + np.log([m.weight for m in members])
    path = MixturePath(
        np.tile(classes, n_each),
        owner,
        log_owner_weight.reshape(n_rows, -1),
        pairs,
        np.tile(log_weight, n_each),
        terms.sum(axis=1),
    )
    size = np.maximum(1.0, np.abs(terms).sum(axis=1).max(axis=1))
    coefficient = path.integrate(size)
    contributions = np.einsum("nis,ns->ni", terms, coefficient)
    start, (end, share) = path.log_odds(np.zeros(n_rows))[0], path.log_odds(np.ones(n_rows))
    share = share.reshape(n_rows, n_each, len(members)).sum(axis=1)
    best = np.argmax(share, axis=1)
    found = Attribution(end, start, contributions, best, share[np.arange(len(best)), best])
    check_sum(found, size, names)
    return found


def _log_probabilities(member: MemberRows, rows: Ints) -> Floats:
    """Log p(x_i | s) (n_rows, n_columns, n_states), 0 where missing."""
    network, table = member.model.network, member.table
    levels = network.layout.first_level[:-1] + table.codes_of_columns(rows)
    cells = np.tile(network.structure.cell_of, (len(levels), 1))
    return network.terms.log_prob(levels, table.numbers[rows], table.pairs[rows], cells)


@dataclass(frozen=True)
class MixturePath:
    """From everything missing to the rows.

    Attributes
    ----------
    classes, owner : int (n_states,), class and owner of each state: a member, for one of the complete rows
    log_weight : (n_rows, n_owners), log v_m w_k
    pairs : int (n_rows, 2)
    start : (n_states,), a_ms
    slope : (n_rows, n_states), sum_i l_i(m, s)
    """

    classes: Ints
    owner: Ints
    log_weight: Floats
    pairs: Ints
    start: Floats
    slope: Floats

    def log_odds(self, t: Floats, row: Ints | None = None) -> tuple[Floats, Floats]:
        """Log-odds at t, (n,), and the owners' shares in the first class, (n, n_owners)."""
        row = np.arange(len(self.pairs)) if row is None else row
        _, log_p = self._log_classes(t, row)
        log_mixed = log_p + self.log_weight[row]
        total = logsumexp(log_mixed, axis=2)  # (2, n)
        return total[0] - total[1], np.exp(log_mixed[0] - total[0][:, None])

    def _log_classes(self, t: Floats, row: Ints) -> tuple[Floats, Floats]:
        """Log q_m(s), (n, n_states), and log p_m(c) of both classes, (2, n, n_owners)."""
        u = self.start + t[:, None] * self.slope[row]
        edges = np.flatnonzero(np.diff(self.owner, prepend=-1))
        log_q = u - np.logaddexp.reduceat(u, edges, axis=1)[:, self.owner]
        of_pair = [np.where(self.classes == self.pairs[row][:, [k]], log_q, -np.inf) for k in (0, 1)]
        with np.errstate(invalid="ignore"):
            return log_q, np.stack([np.logaddexp.reduceat(x, edges, axis=1) for x in of_pair])

    def coefficient(self, t: Floats, row: Ints) -> Floats:
        """What multiplies l_i(m, s) in the derivative of the log-odds, (n, n_states)."""
        log_q, log_p = self._log_classes(t, row)
        log_mixed = log_p + self.log_weight[row]
        share = np.exp(log_mixed - logsumexp(log_mixed, axis=2, keepdims=True))  # r_m(c), (2, n, n_owners)
        total = -(share[0] - share[1])[:, self.owner] * np.exp(log_q)
        for k, sign in ((0, 1.0), (1, -1.0)):
            mine = self.classes == self.pairs[row][:, [k]]
            within = np.exp(np.where(mine, log_q - log_p[k][:, self.owner], -np.inf))
            total += sign * share[k][:, self.owner] * within
        return np.asarray(total)

    def integrate(self, size: Floats) -> Floats:
        """Integral of `coefficient` over t from 0 to 1, (n_rows, n_states).

        A step may miss the change of the log-odds by its share of `TOLERANCE`, and by what rounding does to terms of
        the given size (n_rows,).
        """
        total = np.zeros_like(self.slope)
        row, begin = np.arange(len(self.pairs)), np.zeros(len(self.pairs))
        at_once = max(1, _NUMBERS_AT_ONCE // (4 * len(_NODES) * self.slope.shape[1]))
        for halving in range(_HALVINGS + 1):
            last = halving == _HALVINGS or len(row) > _MOST_STEPS + len(self.pairs)
            due = np.empty(len(row), dtype=bool)
            for at in range(0, len(row), at_once):
                some = slice(at, at + at_once)
                part, error = self._step(row[some], begin[some], 0.5**halving)
                due[some] = last | (error <= 0.1 * TOLERANCE * 0.5**halving + _ROUNDING * size[row[some]])
                np.add.at(total, row[some][due[some]], part[due[some]])
            row, begin = np.repeat(row[~due], 2), np.repeat(begin[~due], 2)
            begin[1::2] += 0.5 ** (halving + 1)
            if len(row) == 0:
                break
        return total

    def _step(self, row: Ints, begin: Floats, length: float) -> tuple[Floats, Floats]:
        """Integral over steps of some rows (n, n_states), and by how much it misses the change of the log-odds (n,)."""
        t = begin[:, None] + length * _NODES
        at = self.coefficient(t.ravel(), np.repeat(row, len(_NODES))).reshape(len(row), len(_NODES), -1)
        part = length * np.einsum("k,nks->ns", _WEIGHTS, at)
        change = self.log_odds(begin + length, row)[0] - self.log_odds(begin, row)[0]
        return part, np.abs((part * self.slope[row]).sum(axis=1) - change)
