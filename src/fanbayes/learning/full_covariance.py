"""Rows whose numbers are correlated within a cell: E-step and posterior.

Rows go one of two ways, and their statistics add up.

*Complete* rows, all of whose possible cells have one covariance S: log N(x; mu, S) is linear in x but for a base that
does not depend on the cell, so the native pass over linear terms is all that they need. sum x x' and the sum of the
bases follow from the scatter of each class around its mean, which is computed once.

*Other* rows, with a number missing, or without a label where every class has a covariance of its own: exact EM with
conditional moments (Ghahramani & Jordan 1994), rows that lack the same columns together. With G as in
`model/normals.py`, r the responsibilities of the cells and v = G (x - mu),

    sum r E[x]    = N mu + S sum r v
    sum r E[x x'] = N S + S (sum r v v' - sum r G) S + terms of the means ,

so that matrices are needed for patterns of what is missing, and for classes, but not for rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from scipy.sparse import csr_array
from scipy.special import logsumexp
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from fanbayes.arrays import Floats, Ints, Mask
from fanbayes.data.caching import cached_property
from fanbayes.data.storage import pieces as row_pieces
from fanbayes.data.table import EncodedTable
from fanbayes.learning.data import InMemoryData
from fanbayes.learning.e_step import Posterior, ThreadPool, e_step
from fanbayes.learning.e_step import posterior as native_posterior
from fanbayes.learning.predictor import NetworkPredictor
from fanbayes.learning.state import EMState
from fanbayes.model.network import Statistics, Terms
from fanbayes.model.normals import LOG_2PI, Conditional, Normals, Piece, pieces
from fanbayes.model.structure import Structure

# Rows whose scatter is taken at once.
_ROWS_AT_ONCE = 8192


@dataclass(frozen=True)
class FullCovarianceData(InMemoryData):
    """Rows in memory for models in which numbers are correlated (`EstimationOptions.covariance`)."""

    @property
    def is_labelled(self) -> bool:
        """Whether nothing but components is hidden: every row has a label, and no number is missing."""
        return super().is_labelled and not self.table.lacks_numbers()

    @cached_property
    def _rows(self) -> tuple[_CompleteRows, _CompleteRows, _OtherRows]:
        """Complete rows with a label, those without, and the others."""
        complete, labelled = _is_complete(self.table.numbers), np.ones(self.table.n_rows, dtype=bool)
        if not self.table.is_labelled:
            labelled = _labels(self.table) >= 0
        parts = [_only(self.table, which) for which in (complete & labelled, complete & ~labelled, ~complete)]
        return _CompleteRows(parts[0]), _CompleteRows(parts[1]), _OtherRows(parts[2])

    def e_step(self, terms: Terms, *, hard: bool = False) -> Statistics:
        """Statistics of all rows under each network: expected (8), or of the best completion (9) if `hard`."""
        if self.layout.n_numbers == 0:
            return super().e_step(terms, hard=hard)
        with threadpool_limits(1, "blas"):  # its matrices are small: threads would wait for each other
            labelled, unlabelled, others = self._rows
            normals = terms.normals or _standard(terms)
            parts = []
            for rows in (labelled, unlabelled):
                if rows.table.n_rows and (rows is labelled or normals.n_groups == 1):
                    parts.append(rows.e_step(terms, normals, hard, self.pool))
                elif rows.table.n_rows:
                    parts.append(rows.others.e_step(terms, normals, hard))
            if others.table.n_rows or not parts:
                parts.append(others.e_step(terms, normals, hard))
        return sum(parts[1:], start=parts[0])

    def posterior(self, table: EncodedTable, terms: Terms) -> Floats:
        """p(c | x) of rows (n_rows, n_classes)."""
        return posterior(table, terms, "proba", self.pool)

    def run_em(
        self, state: EMState, n_passes: int, least_gain: float, *, hard: bool, accelerate: bool
    ) -> EMState | None:
        """Leave it to the loop: a pass is native, the estimate is not."""
        return None


@dataclass(frozen=True)
class FullCovariancePredictor(NetworkPredictor):
    """A network in which numbers are correlated."""

    _covariance = "full"

    def evaluate(self, table: EncodedTable, what: Posterior, pool: ThreadPool) -> Floats:
        """Probabilities of classes (n_rows, n_classes), or log p(s, x) of states (n_rows, n_states)."""
        return posterior(table, self.terms, what, pool)


def posterior(table: EncodedTable, terms: Terms, what: Posterior, pool: ThreadPool) -> Floats:
    """As that of `learning/e_step.py`; log p(s, x) of "states" is without what all of them have in common."""
    normals, structure = terms.normals, terms.structure
    if normals is None:
        return native_posterior(table, terms, what, pool)
    complete = _is_complete(table.numbers)
    if normals.n_groups > 1:
        complete = np.zeros_like(complete)
    found = np.empty((table.n_rows, structure.n_states if what == "states" else structure.n_classes))
    if complete.any():
        rows = _only(table, complete)
        found[complete] = native_posterior(rows, terms, what, pool)
        if what == "log_joint":
            found[complete] += _base(rows.numbers, normals)[:, None]
    if not complete.all():
        found[~complete] = _evaluated(_only(table, ~complete), terms, normals, what)
    return found


def _evaluated(table: EncodedTable, terms: Terms, normals: Normals, what: Posterior) -> Floats:
    """`posterior` of any rows."""
    log_density, base = normals.evaluate(table.numbers)
    states = log_density + terms.log_weight[0] + _indicators(table) @ terms.log_table[0]
    if normals.n_groups > 1:
        states += base[:, normals.group]
    if what == "states":
        return np.asarray(states)
    classes = np.logaddexp.reduceat(states, _first_states(terms.structure), axis=1)
    if what == "log_joint":
        return np.asarray(classes + base if normals.n_groups == 1 else classes)
    classes -= classes.max(axis=1, keepdims=True)  # beside something huge, the logarithm of a sum would be lost
    classes -= logsumexp(classes, axis=1, keepdims=True)
    return np.asarray(np.exp(classes) if what == "proba" else classes)


def _base(x: Floats, normals: Normals) -> Floats:
    """The base of complete rows (n_rows,) in the first network, of one covariance."""
    white = np.linalg.solve(normals.cholesky[0, 0], x.T)
    return np.asarray(-0.5 * (np.square(white).sum(axis=0) + normals.log_det[0, 0] + x.shape[1] * LOG_2PI))


def _standard(terms: Terms) -> Normals:
    """Before anything is known: what is missing has its column's mean and variance."""
    n, p, _, K = terms.numeric.shape
    return Normals(np.zeros((n, p, K)), np.tile(np.eye(p), (n, 1, 1, 1)), np.zeros(K, dtype=np.intp))


def _is_complete(numbers: Floats) -> Mask:
    found = np.empty(len(numbers), dtype=bool)
    for at in row_pieces(len(numbers)):
        found[at] = ~np.isnan(numbers[at]).any(axis=1)
    return found


def _labels(table: EncodedTable) -> Ints:
    return np.full(table.n_rows, -1) if table.labels is None else table.labels.astype(np.intp)


def _only(table: EncodedTable, which: Mask) -> EncodedTable:
    return table if which.all() else table.only(which)


def _indicators(table: EncodedTable) -> csr_array:
    """1 for the level of each discrete column (n_rows, n_levels)."""
    levels = table.layout.first_level[:-1] + table.codes_of_columns()
    ends = np.arange(0, levels.size + 1, max(1, levels.shape[1])) if levels.size else np.zeros(table.n_rows + 1, int)
    return csr_array((np.ones(levels.size), levels.ravel(), ends), (table.n_rows, int(table.layout.first_level[-1])))


def _first_states(structure: Structure) -> Ints:
    """First state of each class, which is its first cell as well."""
    return np.searchsorted(structure.class_of, np.arange(structure.n_classes))


def _statistics(structure: Structure, counts: Floats, cases: Floats, first: Floats, second: Floats) -> Floats:
    """Statistics of the cells, of one network or more, as the blocks want them (..., n_statistics, n_cells).

    Parameters
    ----------
    counts : (..., n_levels, n_cells)
    cases : (..., n_cells)
    first : sum x, (..., n_columns, n_cells)
    second : sum x x' of each class, (..., n_classes, n_columns, n_columns); the first cell of a class has all of it
    """
    lower = second[..., *np.tril_indices(second.shape[-1])]
    of_cells = np.zeros((*lower.shape[:-2], lower.shape[-1], structure.n_cells))
    of_cells[..., _first_states(structure)] = np.swapaxes(lower, -1, -2)
    return np.concatenate([counts, cases[..., None, :], first, of_cells], axis=-2)


@dataclass(frozen=True)
class _CompleteRows:
    """Rows without a missing number, all with a label or all without."""

    table: EncodedTable

    @cached_property
    def others(self) -> _OtherRows:
        """The same rows, for several covariances."""
        return _OtherRows(self.table)

    @cached_property
    def _has_labels(self) -> bool:
        return self.table.is_labelled

    @cached_property
    def _scatter(self) -> tuple[Floats, Floats, Floats]:
        """Cases (n,), mean (n, n_columns) and scatter around it (n, n_columns, n_columns).

        Of the classes that there are rows of, up to the last; of all rows where they have no labels.
        """
        table, x = self.table, self.table.numbers
        cases = table.class_cases()
        cases = cases[1:] if self._has_labels else cases[:1]
        mean, scatter = np.zeros((len(cases), x.shape[1])), np.zeros((len(cases), x.shape[1], x.shape[1]))
        for c in np.flatnonzero(cases):
            own = np.flatnonzero(table.labels == c) if self._has_labels else np.arange(table.n_rows)
            some = np.split(own, range(_ROWS_AT_ONCE, len(own), _ROWS_AT_ONCE))
            mean[c] = sum(table.weights_of(rows) @ x[rows] for rows in some) / cases[c]
            for rows in some:
                around = (x[rows] - mean[c]) * np.sqrt(table.weights_of(rows))[:, None]
                scatter[c] += around.T @ around
        return cases, mean, scatter

    def e_step(self, terms: Terms, normals: Normals, hard: bool, pool: ThreadPool) -> Statistics:
        """A native pass over terms beside the means of the classes, and what these leave out."""
        structure, n_levels, (cases, mean, scatter) = terms.structure, terms.log_table.shape[1], self._scatter
        which = np.minimum(structure.class_of, len(cases) - 1)  # mean that the terms of a cell are beside
        slope, constant = normals.linear(mean[which].T)
        numeric = np.stack([slope, np.zeros_like(slope), constant], axis=2)
        found = e_step(self.table, replace(terms, numeric=numeric, n_linear=slope.shape[1]), hard, pool)
        group = normals.group[_first_states(structure)[: len(cases)]]
        squares = np.einsum("ncij,cij->nc", normals.precision[:, group], scatter)
        base = -0.5 * (squares + cases * (normals.log_det[:, group] + mean.shape[1] * LOG_2PI))
        total, by_class = base.sum(axis=1), found.class_log_likelihood
        if self._has_labels:
            by_class = by_class + np.pad(base, [(0, 0), (0, structure.n_classes - len(cases))])
        second = np.zeros((len(slope), structure.n_classes, *scatter.shape[1:]))
        second[:, : len(cases)] = scatter + cases[:, None, None] * mean[:, :, None] * mean[:, None, :]
        counts, first = found.cells[:, :n_levels], found.cells[:, n_levels + 1 :: 3]
        return Statistics(
            found.states,
            _statistics(structure, counts, found.states, first, second),
            by_class,
            found.log_likelihood + total,
            found.joint + total,
            found.classification + total,
        )


@dataclass(frozen=True)
class _OtherRows:
    """Rows that need conditional moments, or several covariances."""

    table: EncodedTable

    @cached_property
    def _indicators(self) -> csr_array:
        return _indicators(self.table)

    @cached_property
    def _pieces(self) -> list[Piece]:
        return list(pieces(self.table.numbers))

    def e_step(self, terms: Terms, normals: Normals, hard: bool) -> Statistics:
        """One network after the other."""
        each = [self._e_step(terms, normals, hard, k) for k in range(len(terms.log_weight))]
        return each[0].map(lambda *arrays: np.stack(arrays), *each[1:])

    def _e_step(self, terms: Terms, normals: Normals, hard: bool, network: int) -> Statistics:
        """Statistics under one network, without its axis."""
        structure, table, (p, K) = terms.structure, self.table, normals.mean.shape[1:]
        labels, weights, log_table = _labels(table), table.case_weights, terms.log_table[network]
        sums = _Sums(np.zeros(structure.n_classes), np.zeros(3))
        counts, cases, pulls = np.zeros_like(log_table), np.zeros(K), np.zeros((p, K))
        inner = np.zeros((structure.n_classes, p, p))  # sum r v v' - sum r G
        for piece in self._pieces:
            groups = [Conditional.of(normals, network, g, piece.observed) for g in range(normals.n_groups)]
            mass = np.zeros((len(piece.observed), K))
            for rows, of in piece.rows:
                indicators, value = self._indicators[rows], np.nan_to_num(table.numbers[rows])
                scores = terms.log_weight[network] + indicators @ log_table
                weighted = []
                for own in groups:
                    log_density, base, moved = own.evaluate(value, of)
                    scores[:, own.cells] += log_density + base[:, None]
                    weighted.append(moved)
                r = sums.add(scores, labels[rows], weights[rows], structure, hard)
                counts += indicators.T @ r
                cases += r.sum(axis=0)
                np.add.at(mass, of, r)
                for own, moved in zip(groups, weighted):
                    for k, cell in enumerate(own.cells.tolist()):
                        there = np.flatnonzero(r[:, cell])
                        v = moved[there] - own.pull[of[there], k]
                        rv = r[there, cell, None] * v
                        pulls[:, cell] += rv.sum(axis=0)
                        inner[structure.class_of[cell]] += rv.T @ v
            for own in groups:
                for c in np.unique(structure.class_of[own.cells]).tolist():
                    share = mass[:, structure.class_of == c].sum(axis=1)
                    inner[c] -= np.tensordot(share, own.precision, axes=1)
        first, second = _moments(structure, normals, network, cases, pulls, inner)
        cells = _statistics(structure, counts, cases, first, second)
        return Statistics(cases, cells, sums.by_class, *sums.total)


def _moments(
    structure: Structure, normals: Normals, network: int, cases: Floats, pulls: Floats, inner: Floats
) -> tuple[Floats, Floats]:
    """Sum of E[x] in each cell (n_columns, n_cells), and of E[x x'] in each class (n_classes, n_columns, n_columns).

    Parameters
    ----------
    cases : (n_cells,), sum r
    pulls : (n_columns, n_cells), sum r v
    inner : (n_classes, n_columns, n_columns), sum r v v' - sum r G
    """
    mean, first = normals.mean[network], np.empty_like(pulls)
    second = np.empty_like(inner)
    ends = [*_first_states(structure).tolist(), structure.n_states]
    for c, (a, b) in enumerate(pairwise(ends)):
        factor = normals.cholesky[network, normals.group[a]]
        covariance, mu, n = factor @ factor.T, mean[:, a:b], cases[a:b]
        away = covariance @ pulls[:, a:b]  # sum r (E[x] - mu)
        first[:, a:b] = n * mu + away
        cross = away @ mu.T
        second[c] = n.sum() * covariance + covariance @ inner[c] @ covariance + cross + cross.T + (n * mu) @ mu.T
    return first, second


@dataclass
class _Sums:
    """Sums of logarithms over rows.

    Attributes
    ----------
    by_class : (n_classes,), log-likelihood of the labelled rows
    total : (3,), log-likelihood, joint and classification log-likelihood (`Statistics`)
    """

    by_class: Floats
    total: Floats

    def add(self, scores: Floats, labels: Ints, weights: Floats, structure: Structure, hard: bool) -> Floats:
        """Add rows with these log p(s, x) (n, n_states), and return their responsibilities times their weights."""
        other = (labels[:, None] >= 0) & (labels[:, None] != structure.class_of)
        scores = np.where(other, -np.inf, scores)
        log_likelihood = logsumexp(scores, axis=1)
        best = np.maximum.reduceat(scores, _first_states(structure), axis=1)
        known = labels >= 0
        self.by_class += np.bincount(labels[known], (weights * log_likelihood)[known], len(self.by_class))
        self.total += [weights @ x for x in (log_likelihood, best.max(axis=1), logsumexp(best, axis=1))]
        if hard:
            return np.asarray((np.arange(scores.shape[1]) == scores.argmax(axis=1)[:, None]) * weights[:, None])
        return np.asarray(np.exp(scores - log_likelihood[:, None]) * weights[:, None])
