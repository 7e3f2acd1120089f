"""Normal distributions of numbers that are correlated within a cell, some of the numbers missing.

With o the numbers of a row that are observed, and G the inverse S_oo^-1 of their covariance, filled up with 0 where a
number is missing, everything has one form whatever is missing:

    log N(x_o; mu_o, S_oo) = x'G mu - mu'G mu / 2 - (x'G x + log det S_oo + |o| log 2 pi) / 2
    E[x | x_o]             = mu + S G (x - mu)        the observed numbers, and the regression of the others on them
    Cov[x | x_o]           = S - S G S                0 for observed numbers

Only the first two terms of the density tell apart cells of one covariance. The rest, the *base*, is the same in all of
them and may be large, so it is kept apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from fanbayes.arrays import Floats, Ints, Mask
from fanbayes.data.caching import cached_property, fields_only

LOG_2PI = math.log(2.0 * math.pi)

# Covariances that are nearer to singular, in any direction, cannot be told from singular ones.
LEAST_VARIANCE = 1e-12

# Columns from which on triangular matrices are inverted as such, one after the other.
_LARGE = 64

# Numbers that are in memory at once, beside the rows.
_NUMBERS_AT_ONCE = 1 << 21


@dataclass(frozen=True)
class Normals:
    """Normal distributions in the cells of one or more networks.

    Attributes
    ----------
    mean : (n_networks, n_columns, n_cells)
    cholesky : (n_networks, n_groups, n_columns, n_columns)
        Lower triangular factors of the covariances.
    group : int (n_cells,)
        Which covariance each cell has.
    """

    mean: Floats
    cholesky: Floats
    group: Ints

    __getstate__ = fields_only

    @property
    def n_groups(self) -> int:
        """Number of covariances of a network."""
        return int(self.cholesky.shape[1])

    @cached_property
    def precision(self) -> Floats:
        """Inverse covariances (n_networks, n_groups, n_columns, n_columns)."""
        return precision_of(self.cholesky)

    @cached_property
    def log_det(self) -> Floats:
        """Log determinants of the covariances (n_networks, n_groups)."""
        return log_det_of(self.cholesky)

    def linear(self, centre: Floats) -> tuple[Floats, Floats]:
        """Slope and constant of complete rows, beside a centre (n_columns, n_cells) for each cell.

        log N(x; mu, S) - log N(x; a, S) = sum_i slope_i x_i + constant_i, with slope = S^-1 (mu - a) and
        constant = -slope (mu + a) / 2. Where a is near to the rows' mean, nothing large cancels.

        Returns
        -------
        two arrays (n_networks, n_columns, n_cells)
        """
        away = self.mean - centre
        slope = np.empty_like(away)
        for g in range(self.n_groups):
            slope[:, :, self.group == g] = self.precision[:, g] @ away[:, :, self.group == g]
        return slope, -0.5 * slope * (self.mean + centre)

    def evaluate(self, x: Floats) -> tuple[Floats, Floats]:
        """Log density of the observed numbers of rows (n_rows, n_columns), in the first network.

        Returns
        -------
        log_density : (n_rows, n_cells), without its base
        base : (n_rows, n_groups)
        """
        log_density = np.empty((len(x), self.mean.shape[2]))
        base = np.empty((len(x), self.n_groups))
        for piece in pieces(x):
            for g in range(self.n_groups):
                there = Conditional.of(self, 0, g, piece.observed)
                for rows, of in piece.rows:
                    value = np.nan_to_num(x[rows])
                    density, base[rows, g], _ = there.evaluate(value, of)
                    log_density[np.ix_(rows, there.cells)] = density
        return log_density, base

    def by_column(self, x: Floats, cells: Ints) -> Floats:
        """What each number of rows (n_rows, n_columns) adds to the log density, in the first network.

        x_i (G mu)_i - mu_i (G mu)_i / 2 and, where there are several covariances, less x_i (G x)_i / 2 and half of
        (log 2 pi S_oo)_ii: what the way from the mean of all rows, 0, to the value adds (integrated gradients), and
        what is to be said of 0 itself. Where columns are not correlated, it is each column's own log density. The sum
        over the columns is the log density, without its base where all cells have the same.

        Parameters
        ----------
        x : (n_rows, n_columns)
        cells : int (n_rows, n), for each row; those of a row have one covariance

        Returns
        -------
        ndarray of shape (n_rows, n_columns, n), 0 where missing
        """
        found = np.zeros((*x.shape, cells.shape[1]))
        group = self.group[cells[:, 0]]
        for piece in pieces(x):
            for g in range(self.n_groups):
                there = Conditional.of(self, 0, g, piece.observed)
                shares = _log_det_shares(self.cholesky[0, g], piece.observed) if self.n_groups > 1 else None
                for some, of_some in piece.rows:
                    rows, of = some[group[some] == g], of_some[group[some] == g]
                    value, at = np.nan_to_num(x[rows]), np.searchsorted(there.cells, cells[rows])
                    terms = (value[:, None, :] - 0.5 * there.mean[at]) * there.pull[of[:, None], at]
                    if shares is not None:
                        terms -= 0.5 * (value * times(value, of, there.precision) + shares[of])[:, None, :]
                    found[rows] = np.swapaxes(terms, 1, 2)
        return found

    def conditionals(self, x: Floats) -> Iterator[tuple[int, int, Floats, Floats]]:
        """Each missing number of rows (n_rows, n_columns) given the others, in the first network.

        Yields
        ------
        row, column, and the mean and variance of the number in every cell (n_cells,)
        """
        covariance = self.cholesky[0] @ np.swapaxes(self.cholesky[0], 1, 2)
        for piece in pieces(x):
            groups = [Conditional.of(self, 0, g, piece.observed) for g in range(self.n_groups)]
            left = [S - S @ own.precision @ S for S, own in zip(covariance, groups)]
            for rows, of in piece.rows:
                value = np.nan_to_num(x[rows])
                mean = np.empty((len(rows), *self.mean.shape[1:]))
                for S, own in zip(covariance, groups):
                    away = times(value, of, own.precision)[:, None, :] - own.pull[of]  # (n_rows, n_cells, n_columns)
                    mean[:, :, own.cells] = np.swapaxes(own.mean + away @ S, 1, 2)
                for i, j in np.argwhere(np.isnan(x[rows])).tolist():
                    variance = np.array([of_group[of[i], j, j] for of_group in left])
                    yield int(rows[i]), j, mean[i, j], np.maximum(variance, LEAST_VARIANCE)[self.group]


@dataclass(frozen=True)
class Conditional:
    """The cells of one covariance, beside several patterns of what is observed.

    Attributes
    ----------
    cells : int (n_cells,)
    mean : (n_cells, n_columns)
    precision : (n_patterns, n_columns, n_columns)
        G of each pattern.
    pull : (n_patterns, n_cells, n_columns)
        G mu of each pattern and cell.
    constant : (n_patterns,)
        log det S_oo + |o| log 2 pi.
    """

    cells: Ints
    mean: Floats
    precision: Floats
    pull: Floats
    constant: Floats

    @classmethod
    def of(cls, normals: Normals, network: int, group: int, observed: Mask) -> Conditional:
        """Those of a network and a covariance, beside patterns (n_patterns, n_columns)."""
        cells = np.flatnonzero(normals.group == group)
        mean = normals.mean[network][:, cells].T
        factor = _observed_factor(normals.cholesky[network, group], observed)
        precision = precision_of(factor) * (observed[:, :, None] & observed[:, None, :])
        return cls(cells, mean, precision, mean @ precision, log_det_of(factor) + LOG_2PI * observed.sum(axis=1))

    def evaluate(self, value: Floats, of: Ints) -> tuple[Floats, Floats, Floats]:
        """Log densities (n, n_cells) without their base, the base (n,), and G x (n, n_columns).

        Parameters
        ----------
        value : (n, n_columns), 0 where missing
        of : int (n,), pattern of each row, increasing
        """
        weighted = times(value, of, self.precision)
        constants = 0.5 * np.einsum("jki,ki->jk", self.pull, self.mean)
        base = -0.5 * (np.einsum("ni,ni->n", weighted, value) + self.constant[of])
        return weighted @ self.mean.T - constants[of], base, weighted


@dataclass(frozen=True)
class Piece:
    """Some patterns of what is observed, and their rows.

    Attributes
    ----------
    observed : bool (n_patterns, n_columns)
    rows : pairs of int arrays (n,), numbers of rows and the pattern of each, increasing
    """

    observed: Mask
    rows: list[tuple[Ints, Ints]]


def pieces(x: Floats) -> Iterator[Piece]:
    """Rows (n_rows, n_columns) by which of their numbers are observed, as many at once as memory should hold."""
    n_columns = max(1, x.shape[1])
    packed, of = np.unique(np.packbits(~np.isnan(x), axis=1), axis=0, return_inverse=True)
    observed = np.unpackbits(packed, axis=1, count=x.shape[1]).astype(bool)
    order = np.argsort(of.ravel(), kind="stable")
    of = of.ravel()[order]
    at_once = max(1, _NUMBERS_AT_ONCE // (n_columns * n_columns))
    n_rows = max(1, _NUMBERS_AT_ONCE // (16 * n_columns))
    for first in range(0, len(observed), at_once):
        begin, end = np.searchsorted(of, [first, first + at_once]).tolist()
        cuts = [slice(a, min(a + n_rows, end)) for a in range(begin, end, n_rows)]
        yield Piece(observed[first : first + at_once], [(order[cut], of[cut] - first) for cut in cuts])


def times(value: Floats, of: Ints, matrix: Floats) -> Floats:
    """Each row of `value` (n, n_columns) times the symmetric matrix that it belongs to, `of` (n,) increasing."""
    found = np.empty_like(value)
    first = np.flatnonzero(np.diff(of, prepend=-1))
    for a, b in zip(first.tolist(), [*first[1:].tolist(), len(of)]):
        np.matmul(value[a:b], matrix[of[a]], out=found[a:b])
    return found


def inverse_of(cholesky: Floats) -> Floats:
    """Inverses of lower triangular factors (..., n, n)."""
    n = cholesky.shape[-1]
    if n < _LARGE:
        return np.asarray(np.linalg.inv(cholesky), dtype=np.float64)
    each = [solve_triangular(x, np.eye(n), lower=True, check_finite=False) for x in cholesky.reshape(-1, n, n)]
    return np.array(each).reshape(cholesky.shape)


def precision_of(cholesky: Floats) -> Floats:
    """Inverses of the matrices (..., n, n) of which these are the factors."""
    inverse = inverse_of(cholesky)
    return np.asarray(np.swapaxes(inverse, -1, -2) @ inverse)


def log_det_of(cholesky: Floats) -> Floats:
    """Log determinants (...) of the matrices of which these are the factors."""
    return np.asarray(2.0 * np.log(np.diagonal(cholesky, axis1=-2, axis2=-1)).sum(axis=-1))


def _observed_factor(cholesky: Floats, observed: Mask) -> Floats:
    """Factors of the covariance of observed columns, with 1 on the diagonal of the others (n_patterns, n, n)."""
    if observed.all():
        return np.broadcast_to(cholesky, (len(observed), *cholesky.shape))
    try:
        return np.asarray(np.linalg.cholesky(_observed_covariance(cholesky, observed)))
    except np.linalg.LinAlgError:  # singular but for rounding: slower, from rows of the factor itself
        own = np.where(observed[:, :, None], cholesky, 0.0), np.eye(len(cholesky)) * ~observed[:, :, None]
        return triangular(np.concatenate(own, axis=2))


def triangular(root: Floats) -> Floats:
    """Cholesky factor of root root', whatever rounding does to it (..., n, n), of roots (..., n, m), m >= n."""
    lower = np.swapaxes(np.linalg.qr(np.swapaxes(root, -1, -2), mode="r"), -1, -2)
    sign = np.where(np.diagonal(lower, axis1=-2, axis2=-1) < 0, -1.0, 1.0)
    return np.asarray(lower * sign[..., None, :])


def _observed_covariance(cholesky: Floats, observed: Mask) -> Floats:
    both = observed[:, :, None] & observed[:, None, :]
    return np.where(both, cholesky @ cholesky.T, 0.0) + np.eye(len(cholesky)) * ~observed[:, :, None]


def _log_det_shares(cholesky: Floats, observed: Mask) -> Floats:
    """(log 2 pi S_oo)_ii (n_patterns, n_columns), 0 where missing: they add up to log det S_oo + |o| log 2 pi."""
    values, vectors = np.linalg.eigh(_observed_covariance(cholesky, observed))
    shares = np.einsum("jik,jk->ji", vectors**2, np.log(np.maximum(values, np.finfo(np.float64).tiny)))
    return np.where(observed, shares + LOG_2PI, 0.0)
