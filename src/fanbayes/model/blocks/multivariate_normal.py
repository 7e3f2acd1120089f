"""Continuous features that are correlated within a cell: one covariance for all cells, or for those of a class.

Values are standardised, as those of `normal.py` are, and the prior is the same in one dimension: with p columns,

    mu | S ~ N(0, S / KAPPA) in every cell,   S ~ inverse Wishart(2 A + p - 1, 2 b I),   b = B (A + p) / (A + 1) ,

whose mode is B / (A + 1) I = 0.4 I, however many columns there are; it is worth 2 A + 2 p cases. With b = B every
column's own variance would be IG(A, B), but the mode would go to 0 with more columns: on 16 small UCI sets and on
waveform data (4-fold, number of components by ICL) that cost 0.08 nats a row of log loss, and some on 15 of the 17. The
scale is fixed, so the mode

    S = (2 b I + sum_k [sum x x' - (sum x)(sum x)' / (KAPPA + N_k)]) / (N + 2 A + 2 p + number of cells)

is one of a posterior, and no step of EM falls. No eigenvalue of S may be below a floor, in units of the columns' own
variances: S with its lower eigenvalues raised to the floor is the best that there is under this constraint, so it keeps
this true. `strength` is the exponent of the prior: with 0 the estimate is that of maximum likelihood.

Statistics of a cell are N, sum x, and sum x x', half of it. Only sums over the cells of a class have a meaning in the
latter: nobody has to know it of each cell. What cells share is kept as a Cholesky factor, lower triangle, row by row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.special import multigammaln

from fanbayes.arrays import Floats, Ints, Mask
from fanbayes.data.caching import cached_property, fields_only
from fanbayes.data.schema import Column
from fanbayes.data.table import Layout
from fanbayes.model.blocks.base import Block, EstimationOptions, Parameters
from fanbayes.model.blocks.gaussian import Gaussian
from fanbayes.model.blocks.normal import KAPPA, A, B, groups_of_cells
from fanbayes.model.normals import LEAST_VARIANCE, LOG_2PI, Normals, inverse_of, log_det_of, precision_of, triangular
from fanbayes.model.structure import Structure

# Accelerated steps stay where squares can be added up.
_MOST = 1e30


@dataclass(frozen=True)
class MultivariateNormal(Block):
    """Continuous columns with a full covariance.

    Attributes
    ----------
    group : int (n_cells,)
        Cells that share one covariance, neighbours.
    """

    name = "multivariate_normal"
    term = "linear"

    n_columns: int
    n_cells: int
    floor: float
    strength: float
    group: Ints

    __getstate__ = fields_only

    @classmethod
    def of(cls, layout: Layout, structure: Structure, options: EstimationOptions, n_columns: int) -> MultivariateNormal:
        """The block of the continuous columns."""
        group = groups_of_cells(structure, options)
        if group is None:
            raise ValueError("a full covariance is of all cells, or of those of a class")
        floor = max(options.variance_floor, LEAST_VARIANCE)
        return cls(n_columns, structure.n_cells, floor, options.prior_strength, group)

    @cached_property
    def _first(self) -> Ints:
        """First cell of each group."""
        return np.flatnonzero(np.diff(self.group, prepend=-1))

    @cached_property
    def _size(self) -> Ints:
        """Cells of each group."""
        return np.diff(self._first, append=self.n_cells)

    @property
    def _ends(self) -> list[int]:
        """Where groups begin, and the last ends."""
        return [*self._first.tolist(), self.n_cells]

    @cached_property
    def _triangle(self) -> tuple[Ints, Ints]:
        """Rows and columns of a lower triangle."""
        return np.tril_indices(self.n_columns)

    @cached_property
    def _diagonal(self) -> Ints:
        """Where the diagonal is in a lower triangle."""
        i = np.arange(self.n_columns)
        return i * (i + 3) // 2

    @property
    def _b(self) -> float:
        """Half the scale of the inverse Wishart prior."""
        return B * (A + self.n_columns) / (A + 1)

    @property
    def n_packed(self) -> int:
        """Entries of a lower triangle."""
        return self.n_columns * (self.n_columns + 1) // 2

    @property
    def n_rows(self) -> int:
        """The means."""
        return self.n_columns

    @property
    def n_written(self) -> int:
        """The means and a factor of the covariance."""
        return self.n_columns + self.n_packed

    @property
    def n_shared(self) -> int:
        """A factor of the covariance for each group."""
        return len(self._first) * self.n_packed

    @property
    def cells_of_shared(self) -> Ints:
        """Cells that each shared parameter stands for (n_shared,)."""
        return np.repeat(self._size, self.n_packed)

    @property
    def n_statistics(self) -> int:
        """N, sum x, and half of sum x x'."""
        return 1 + self.n_columns + self.n_packed

    @property
    def n_parameters(self) -> int:
        """The means of each cell and the covariance of each group."""
        return self.n_columns * self.n_cells + self.n_shared

    def packed(self, square: Floats) -> Floats:
        """Lower triangles (..., n_packed) of matrices."""
        return np.asarray(square[..., self._triangle[0], self._triangle[1]])

    def _lower(self, packed: Floats) -> Floats:
        """Matrices with these lower triangles, and 0 above."""
        square = np.zeros((*packed.shape[:-1], self.n_columns, self.n_columns))
        square[..., self._triangle[0], self._triangle[1]] = packed
        return square

    def _factors(self, shared: Floats) -> Floats:
        """Cholesky factors of the covariances (..., n_groups, n_columns, n_columns)."""
        return self._lower(shared.reshape(*shared.shape[:-1], -1, self.n_packed))

    def _sum(self, x: Floats) -> Floats:
        """Sum over the cells of each group, (..., n_groups)."""
        return np.asarray(np.add.reduceat(x, self._first, axis=-1))

    def _of_groups(self, left: Floats, right: Floats) -> Floats:
        """Sum of left right' over the cells of each group, (..., n_groups, n_columns, n_columns)."""
        parts = [left[..., a:b] @ np.swapaxes(right[..., a:b], -1, -2) for a, b in pairwise(self._ends)]
        return np.stack(parts, axis=-3)

    def _times(self, matrices: Floats, x: Floats) -> Floats:
        """Matrices of the groups (..., n_groups, n_columns, n_columns) times x (..., n_columns, n_cells)."""
        parts = [matrices[..., g, :, :] @ x[..., a:b] for g, (a, b) in enumerate(pairwise(self._ends))]
        return np.concatenate(parts, axis=-1)

    def _sums(self, statistics: Floats) -> tuple[Floats, Floats, Floats]:
        """N (..., n_cells), sum x (..., n_columns, n_cells), and sum x x' (..., n_groups, n_columns, n_columns)."""
        n, first = statistics[..., 0, :], statistics[..., 1 : 1 + self.n_columns, :]
        half = self._lower(np.swapaxes(self._sum(statistics[..., 1 + self.n_columns :, :]), -1, -2))
        return n, first, half + np.swapaxes(np.tril(half, -1), -1, -2)

    def _posterior(self, statistics: Floats, strength: float) -> tuple[Floats, Floats, Floats]:
        """N of each cell, the means, and 2 b I and the spread around them, with the prior of this strength."""
        n, first, second = self._sums(statistics)
        cases = strength * KAPPA + n
        mean = np.divide(first, cases[..., None, :], out=np.zeros_like(first), where=cases[..., None, :] > 0)
        return n, mean, second - self._of_groups(first, mean) + strength * 2 * self._b * np.eye(self.n_columns)

    def normals(self, cells: Floats, shared: Floats) -> Normals:
        """The distributions in all cells."""
        factors = self._factors(shared)
        return Normals(cells.reshape(-1, *cells.shape[-2:]), factors.reshape(-1, *factors.shape[-3:]), self.group)

    def uncorrelated(self, mean: Floats, variance: Floats) -> Parameters:
        """Parameters with these means and variances (..., n_columns, n_cells); groups share their cells' mean."""
        shared = np.sqrt(np.maximum(self._sum(variance) / self._size, self.floor))
        packed = np.zeros((*shared.shape[:-2], shared.shape[-1], self.n_packed))
        packed[..., self._diagonal] = np.swapaxes(shared, -1, -2)
        return mean, packed.reshape(*mean.shape[:-2], -1)

    # ------------------------------------------------------------ learning

    def estimate(self, statistics: Floats) -> Parameters:
        """Means of each cell, covariance of each group."""
        n, mean, spread = self._posterior(statistics, self.strength)
        cases = self._sum(n) + self.strength * (2 * A + 2 * self.n_columns + self._size)
        cases = np.maximum(cases, np.finfo(np.float64).tiny)[..., None, None]
        least = self.strength * 2 * self._b / cases[..., 0, 0]  # no eigenvalue is below
        factors = self._floored(spread / cases, least >= self.floor)
        return mean, self.packed(factors).reshape(*mean.shape[:-2], -1)

    def _floored(self, covariance: Floats, is_safe: Mask) -> Floats:
        """Factors of covariances (..., n, n), their eigenvalues raised to the floor unless they are safe (...)."""
        factors = np.empty_like(covariance)
        factors[is_safe] = np.linalg.cholesky(covariance[is_safe])
        values, vectors = np.linalg.eigh(covariance[~is_safe])
        factors[~is_safe] = triangular(vectors * np.sqrt(np.maximum(values, self.floor))[..., None, :])
        return factors

    def log_prior(self, cells: Floats, shared: Floats) -> Floats:
        """Log density of the normal-inverse-Wishart prior, times its strength."""
        means, covariances = self._log_prior(cells, shared)
        return np.asarray(self.strength * (means.sum(axis=-1) + covariances.sum(axis=-1)))

    def cell_log_prior(self, cells: Floats, shared: Floats) -> Floats:
        """`log_prior` of each cell, as if it shared nothing."""
        means, covariances = self._log_prior(cells, shared)
        return np.asarray(self.strength * (means + covariances[..., self.group]))

    def _log_prior(self, cells: Floats, shared: Floats) -> Parameters:
        """Log densities of the means of each cell (..., n_cells), and of the covariances (..., n_groups)."""
        p, factors = self.n_columns, self._factors(shared)
        inverse, log_det = inverse_of(factors), log_det_of(factors)
        squares = np.square(self._times(inverse, cells)).sum(axis=-2)
        means = -0.5 * (p * (LOG_2PI - math.log(KAPPA)) + log_det[..., self.group] + KAPPA * squares)
        covariances = self._log_norm - (A + p) * log_det - self._b * np.square(inverse).sum(axis=(-2, -1))
        return means, covariances

    @property
    def _log_norm(self) -> float:
        """Of the inverse Wishart density: |2 b I|^(v / 2) / (2^(v p / 2) Gamma_p(v / 2)), v = 2 A + p - 1."""
        p = self.n_columns
        return 0.5 * (2 * A + p - 1) * p * math.log(self._b) - float(multigammaln(A + 0.5 * (p - 1), p))

    def log_likelihood(self, statistics: Floats, cells: Floats, shared: Floats) -> Floats:
        """Log density of the values; columns have their shares in it by the rows of the quadratic form."""
        n, first, second = self._sums(statistics)
        factors, n_group = self._factors(shared), self._sum(n)[..., None]
        moved = second - self._of_groups(first, cells) - self._of_groups(cells, first - n[..., None, :] * cells)
        squares = (precision_of(factors) * moved).sum(axis=-1)
        log_det = 2.0 * np.log(np.diagonal(factors, axis1=-2, axis2=-1))
        return np.asarray(-0.5 * (n_group * (LOG_2PI + log_det) + squares).sum(axis=-2))

    def log_marginal(self, statistics: Floats) -> Floats:
        """Under the normal-inverse-Wishart prior itself, whatever its strength, in closed form."""
        p, (n, _, scale) = self.n_columns, self._posterior(statistics, 1.0)
        means = 0.5 * p * (math.log(KAPPA) - np.log(KAPPA + n))
        n = self._sum(n)
        a = A + 0.5 * (p - 1) + 0.5 * n
        log_det = np.linalg.slogdet(0.5 * scale)[1]
        covariances = self._log_norm + multigammaln(a, p) - a * log_det - 0.5 * n * p * LOG_2PI
        return np.asarray(means.sum(axis=-1) + covariances.sum(axis=-1))

    def unconstrain(self, cells: Floats, shared: Floats) -> Parameters:
        """Means, and factors with the logarithms of their diagonals."""
        free = shared.reshape(*shared.shape[:-1], -1, self.n_packed).copy()
        free[..., self._diagonal] = np.log(free[..., self._diagonal])
        return cells, free.reshape(shared.shape)

    def project(self, cells: Floats, shared: Floats) -> Parameters:
        """No eigenvalue of a covariance below the floor."""
        packed = np.clip(shared.reshape(*shared.shape[:-1], -1, self.n_packed), -_MOST, _MOST)
        packed[..., self._diagonal] = np.exp(np.clip(packed[..., self._diagonal], -math.log(_MOST), math.log(_MOST)))
        factors = self._lower(packed)
        with np.errstate(over="ignore", divide="ignore"):
            least = 1.0 / np.square(inverse_of(factors)).sum(axis=(-2, -1))  # no eigenvalue is below
        low = ~(least >= self.floor)
        if low.any():
            root = factors[low]
            factors[low] = self._floored(root @ np.swapaxes(root, -1, -2), np.zeros(len(root), dtype=bool))
        return cells, self.packed(factors).reshape(shared.shape)

    def per_cell(self, cells: Floats, shared: Floats) -> Floats:
        """All means, then the factors."""
        packed = shared.reshape(*shared.shape[:-1], -1, self.n_packed)
        return np.concatenate([cells, np.swapaxes(packed[..., self.group, :], -1, -2)], axis=-2)

    def from_cells(self, written: Floats) -> Parameters:
        """Inverse of `per_cell`; of factors that a group should share, their mean."""
        shared = np.swapaxes(self._sum(written[..., self.n_columns :, :]) / self._size, -1, -2)
        return written[..., : self.n_columns, :], shared.reshape(*written.shape[:-2], -1)

    def perturb(self, cells: Floats, shared: Floats, strength: Floats, rng: np.random.Generator) -> Parameters:
        """Move means by a draw of the distribution."""
        step = self._times(self._factors(shared), rng.standard_normal(cells.shape))
        return cells + strength[..., None, :] * step, shared

    # ------------------------------------------------------------ prediction

    def kernel_terms(self, cells: Floats, shared: Floats) -> Floats:
        """Of complete rows, without the base that all cells of a group share."""
        slope, constant = self.normals(cells, shared).linear(np.zeros_like(cells[..., :1]))
        terms = np.stack([slope, np.zeros_like(slope), constant], axis=-2)
        return terms.reshape(*cells.shape[:-2], *terms.shape[1:])

    def sample(self, cells: Floats, shared: Floats, cell: Ints, rng: np.random.Generator) -> Floats:
        """Standardised values."""
        found = rng.standard_normal((self.n_columns, len(cell)))
        group = self.group[cell]
        for g, factor in enumerate(self._factors(shared)):
            found[:, group == g] = factor @ found[:, group == g]
        return cells[:, cell] + found

    @property
    def _marginal(self) -> Gaussian:
        """What the columns are, each by itself."""
        return Gaussian(self.n_columns, self.n_cells, self.floor, None)

    def _variances(self, cells: Floats, shared: Floats) -> Parameters:
        """Parameters of `_marginal`, of one network."""
        variance = np.square(self._factors(shared)).sum(axis=-1).T
        return np.concatenate([cells, variance[:, self.group]]), np.zeros(0)

    def quantile(self, cells: Floats, shared: Floats, column: int, cell: Ints, u: Floats) -> Floats:
        """Standardised value, whatever the others are."""
        return self._marginal.quantile(*self._variances(cells, shared), column, cell, u)

    def density(self, cells: Floats, shared: Floats, column: int) -> Parameters:
        """Of the column by itself."""
        return self._marginal.density(*self._variances(cells, shared), column)

    # ------------------------------------------------------------ for people and files

    def traits(self, cells: Floats, shared: Floats, column: int) -> Parameters:
        """Of the number."""
        return self._marginal.traits(*self._variances(cells, shared), column)

    def describe(self, cells: Floats, shared: Floats, column: int, about: Column) -> dict[str, Any]:
        """Mean and variance."""
        return self._marginal.describe(*self._variances(cells, shared), column, about)

    def flaw(self, cells: Floats, shared: Floats, normalised: bool) -> str | None:
        """Beyond, squares would overflow."""
        factors = self._factors(shared)
        if (np.abs(cells) > 1e100).any():
            return "it has a mean beyond 1e100"
        if (np.abs(shared) > 1e50).any() or not (np.diagonal(factors, axis1=-2, axis2=-1) >= 1e-50).all():
            return "it has a covariance that is out of bounds"
        with np.errstate(over="ignore", invalid="ignore"):
            inverse = inverse_of(factors)
        return None if (np.abs(inverse) <= 1e50).all() else "it has a covariance that is out of bounds"
