"""Continuous features: one normal distribution a cell.

Values are standardised (mean 0, variance 1 over the training rows), so the prior below is the same for every column.

Prior of the variance "map": normal-inverse-gamma, mu | sigma2 ~ N(0, sigma2 / KAPPA), sigma2 ~ IG(A, B).

- KAPPA = 0.01: a hundredth of an observation at the column's mean; it decides only cells that are empty.
- A = 1.5: a prior worth three observations of the variance, the least for which it has a finite mean.
- B = 1, in units of the column's variance: an empty cell gets a third of it, a cell of few rows cannot shrink
  around a single value. Half of it, and less, cost log loss on 15 small UCI sets (5-fold, naive Bayes and FAN;
  which sets was not recorded); twice as much gained log loss but cost accuracy.

The rows of a cell are the means of the columns and, where no cells share them, the variances; variances that a group of
cells shares are kept once, (n_columns, n_groups).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammaln, ndtri

from fanbayes.arrays import Floats, Ints
from fanbayes.data.caching import cached_property, fields_only
from fanbayes.data.schema import Column
from fanbayes.data.table import Layout
from fanbayes.model.blocks.base import Block, EstimationOptions, Estimator, Parameters
from fanbayes.model.structure import Structure

KAPPA = 0.01
A = 1.5
B = 1.0
LOG_2PI = math.log(2.0 * math.pi)

# Equation (7) is undefined up to 3 observations and explodes just above.
LEAST_FOR_PAPER = 5.0

# Integrals are cut off so many standard deviations from every cell's mean, where less than 1e-14 is left, and taken by
# Gauss-Legendre rules of 8 points on steps no longer than the least standard deviation of the cells that reach there:
# the error of a mutual information was below 1e-11 nats in all cases tried. A cell so narrow that numbers around its
# mean can hardly be told apart is taken as wider.
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)
_REACH = 8.0
_NARROWEST = 1e-12  # standard deviation, beside the mean


@dataclass(frozen=True)
class Gaussian(Block):
    """Continuous columns.

    Attributes
    ----------
    group : int (n_cells,) or None
        Cells that share one variance, neighbours; None: no cells do.
    """

    name = "gaussian"
    term = "normal"

    n_columns: int
    n_cells: int
    estimator: Estimator
    floor: float
    group: Ints | None

    __getstate__ = fields_only

    @classmethod
    def of(cls, layout: Layout, structure: Structure, options: EstimationOptions, n_columns: int) -> Gaussian:
        """The block of the continuous columns; where classes share cells, a variance of a class is one of all."""
        group = None
        if options.variance_tying != "none":
            of_class = structure.class_of_cell if options.variance_tying == "class" else None
            group = np.zeros(structure.n_cells, dtype=np.intp) if of_class is None else of_class
        return cls(n_columns, structure.n_cells, options.variance_estimator, options.variance_floor, group)

    @cached_property
    def _first(self) -> Ints:
        """First cell of each group of cells."""
        return np.arange(self.n_cells) if self.group is None else np.flatnonzero(np.diff(self.group, prepend=-1))

    @cached_property
    def _size(self) -> Ints:
        """Cells of each group."""
        return np.diff(self._first, append=self.n_cells)

    @property
    def n_rows(self) -> int:
        """A mean a column and, if it is not shared, a variance."""
        return self.n_columns * (2 if self.group is None else 1)

    @property
    def n_written(self) -> int:
        """A mean and a variance a column."""
        return 2 * self.n_columns

    @property
    def n_shared(self) -> int:
        """A variance for each column and group."""
        return 0 if self.group is None else self.n_columns * len(self._first)

    @property
    def cells_of_shared(self) -> Ints:
        """Cells that each shared parameter stands for (n_shared,)."""
        return np.tile(self._size, self.n_shared // len(self._size))

    @property
    def n_statistics(self) -> int:
        """N, sum x and sum x^2 of each column."""
        return 3 * self.n_columns

    @property
    def n_steps(self) -> int:
        """The means."""
        return self.n_columns

    @property
    def n_parameters(self) -> int:
        """A mean a cell, a variance a cell or a group."""
        return self.n_columns * (self.n_cells + len(self._first))

    def unpack(self, cells: Floats, shared: Floats) -> Parameters:
        """Mean and variance of each column and cell, (..., n_columns, n_cells) both."""
        if self.group is None:
            return cells[..., : self.n_columns, :], cells[..., self.n_columns :, :]
        each = shared.reshape(*shared.shape[:-1], self.n_columns, -1)
        return cells, each[..., self.group]

    def _pack(self, mean: Floats, sigma2: Floats) -> Parameters:
        """Inverse of `unpack`, given the variances of the groups (..., n_columns, n_groups)."""
        none = np.zeros((*mean.shape[:-2], 0))
        if self.group is None:
            return np.concatenate([mean, sigma2], axis=-2), none
        return mean, sigma2.reshape(*sigma2.shape[:-2], self.n_shared)

    def _sum(self, x: Floats) -> Floats:
        """Sum over the cells of each group, (..., n_columns, n_groups)."""
        return x if self.group is None else np.asarray(np.add.reduceat(x, self._first, axis=-1))

    def _sums(self, statistics: Floats) -> tuple[Floats, Floats, Floats]:
        """N, sum x and sum x^2, (..., n_columns, n_cells) each."""
        of_column = statistics.reshape(*statistics.shape[:-2], self.n_columns, 3, self.n_cells)
        return of_column[..., 0, :], of_column[..., 1, :], of_column[..., 2, :]

    def _with_prior_mean(self, statistics: Floats) -> tuple[Floats, Floats, Floats]:
        """N, the posterior mean N mean / (KAPPA + N), and the spread SS + KAPPA N / (KAPPA + N) mean^2.

        Written without the mean: sum x / (KAPPA + N), and sum x^2 - (sum x)^2 / (KAPPA + N).
        """
        n, first, second = self._sums(statistics)
        mean = first / (KAPPA + n)
        return n, mean, np.maximum(second - first * mean, 0.0)

    def _around_mean(self, statistics: Floats) -> tuple[Floats, Floats, Floats]:
        """N, mean, and sum of squares around the mean."""
        n, first, second = self._sums(statistics)
        mean = np.divide(first, n, out=np.zeros_like(first), where=n > 0)
        return n, mean, np.maximum(second - first * mean, 0.0)

    # ------------------------------------------------------------ learning

    def estimate(self, statistics: Floats) -> Parameters:
        """Mean and variance of each cell.

        "map" is the joint mode of the posterior; the floor makes it the constrained one. Cells of a group share one
        variance: sigma2 = (2 B + sum spread) / (sum N + 2 A + 2 + number of cells). "paper" is (7), and "map" where a
        cell has fewer than `LEAST_FOR_PAPER` observations; where cells share a variance there is no (7).
        """
        n, mean, spread = self._with_prior_mean(statistics)
        sigma2 = (2 * B + self._sum(spread)) / (self._sum(n) + (2 * A + 2) + self._size)
        if self.estimator == "paper":
            _, own_mean, squares = self._around_mean(statistics)
            many = n >= LEAST_FOR_PAPER
            n = np.where(many, n, LEAST_FOR_PAPER)
            mean = np.where(many, own_mean, mean)
            if self.group is None:
                sigma2 = np.where(many, (n - 1) / (n * (n - 3)) * squares, sigma2)
        return self._pack(mean, np.maximum(sigma2, self.floor))

    def log_prior(self, cells: Floats, shared: Floats) -> Floats:
        """Log density of the normal-inverse-gamma prior; (7) maximises nothing, then 0."""
        if self.estimator == "paper":
            return np.zeros(cells.shape[:-2])
        mean, sigma2 = self.unpack(cells, shared)
        normal, inverse_gamma = _log_prior(mean, sigma2)
        return np.asarray(normal.sum(axis=(-2, -1)) + inverse_gamma[..., self._first].sum(axis=(-2, -1)))

    def cell_log_prior(self, cells: Floats, shared: Floats) -> Floats:
        """`log_prior` of each cell, as if it shared nothing."""
        normal, inverse_gamma = _log_prior(*self.unpack(cells, shared))
        return np.asarray((normal + inverse_gamma).sum(axis=-2))

    def log_likelihood(self, statistics: Floats, cells: Floats, shared: Floats) -> Floats:
        """Log density of the values of each column."""
        mean, sigma2 = self.unpack(cells, shared)
        n, own_mean, squares = self._around_mean(statistics)
        squares = squares + n * (own_mean - mean) ** 2
        return np.asarray(-0.5 * (n * (LOG_2PI + np.log(sigma2)) + squares / sigma2).sum(axis=-1))

    def log_marginal(self, statistics: Floats) -> Floats:
        """Under the normal-inverse-gamma prior, in closed form."""
        n, _, spread = self._with_prior_mean(statistics)
        mean = 0.5 * (math.log(KAPPA) - np.log(KAPPA + n))
        n, spread = self._sum(n), self._sum(spread)
        a = A + 0.5 * n
        variance = gammaln(a) - math.lgamma(A) + A * math.log(B) - a * np.log(B + 0.5 * spread) - 0.5 * n * LOG_2PI
        return np.asarray(variance.sum(axis=(-2, -1)) + mean.sum(axis=(-2, -1)))

    def unconstrain(self, cells: Floats, shared: Floats) -> Parameters:
        """Means, and logarithms of variances."""
        if self.group is not None:
            return cells, np.log(shared)
        mean, sigma2 = self.unpack(cells, shared)
        return np.concatenate([mean, np.log(sigma2)], axis=-2), shared

    def project(self, cells: Floats, shared: Floats) -> Parameters:
        """Variances not below the floor."""
        if self.group is not None:
            return cells, self._variance(shared)
        mean, log_sigma2 = self.unpack(cells, shared)
        return np.concatenate([mean, self._variance(log_sigma2)], axis=-2), shared

    def _variance(self, log_sigma2: Floats) -> Floats:
        return np.maximum(np.exp(np.clip(log_sigma2, -600.0, 600.0)), self.floor)

    def per_cell(self, cells: Floats, shared: Floats) -> Floats:
        """All means, then all variances."""
        return np.concatenate(self.unpack(cells, shared), axis=-2)

    def from_cells(self, written: Floats) -> Parameters:
        """Inverse of `per_cell`; what a group shares is the mean of its cells' variances, not below the floor."""
        mean, sigma2 = np.split(written, 2, axis=-2)
        return self._pack(mean, np.maximum(self._sum(sigma2) / self._size, self.floor))

    def perturb(self, cells: Floats, shared: Floats, strength: Floats, rng: np.random.Generator) -> Parameters:
        """Move means by a standard deviation."""
        mean, sigma2 = self.unpack(cells, shared)
        moved = mean + strength[..., None, :] * np.sqrt(sigma2) * rng.standard_normal(mean.shape)
        return np.concatenate([moved, cells[..., self.n_columns :, :]], axis=-2), shared

    def move(self, cells: Floats, shared: Floats, steps: Floats) -> Parameters:
        """Move means, in standard deviations."""
        mean, sigma2 = self.unpack(cells, shared)
        moved = mean + steps * np.sqrt(sigma2)
        return np.concatenate([moved, cells[..., self.n_columns :, :]], axis=-2), shared

    def gradient(self, statistics: Floats, cells: Floats, shared: Floats) -> Floats:
        """By the means, in standard deviations."""
        mean, sigma2 = self.unpack(cells, shared)
        n, first, _ = self._sums(statistics)
        return np.asarray((first - n * mean) / np.sqrt(sigma2))

    def native_arguments(self) -> dict[str, Any]:
        """How many columns, and all that `estimate` knows."""
        return {
            "n_numbers": self.n_columns,
            "estimator": self.estimator,
            "floor": self.floor,
            "group": [] if self.group is None else self.group.tolist(),
            "prior": [KAPPA, A, B, LEAST_FOR_PAPER],
        }

    # ------------------------------------------------------------ prediction

    def kernel_terms(self, cells: Floats, shared: Floats) -> Floats:
        """Of log p(x) = log_norm - (slope x + intercept)^2."""
        mean, sigma2 = self.unpack(cells, shared)
        slope = np.sqrt(0.5 / sigma2)
        return np.stack([slope, -slope * mean, -0.5 * (LOG_2PI + np.log(sigma2))], axis=-2)

    def quantile(self, cells: Floats, shared: Floats, column: int, cell: Ints, u: Floats) -> Floats:
        """Standardised value."""
        mean, sigma2 = self.unpack(cells, shared)
        return np.asarray(mean[column, cell] + np.sqrt(sigma2[column, cell]) * ndtri(u))

    def density(self, cells: Floats, shared: Floats, column: int) -> Parameters:
        """Gauss-Legendre rules on pieces of the range."""
        mean, sigma2 = (x[column] for x in self.unpack(cells, shared))
        sigma = np.maximum(np.sqrt(sigma2), _NARROWEST * np.abs(mean))
        x, weight = _quadrature(mean, sigma)
        z = (x - mean[:, None]) / sigma[:, None]
        return np.exp(-0.5 * (LOG_2PI + z**2)) / sigma[:, None], weight

    # ------------------------------------------------------------ for people and files

    def traits(self, cells: Floats, shared: Floats, column: int) -> Parameters:
        """Of the number."""
        mean, sigma2 = self.unpack(cells, shared)
        return mean[column : column + 1], sigma2[column : column + 1]

    def describe(self, cells: Floats, shared: Floats, column: int, about: Column) -> dict[str, Any]:
        """Mean and variance."""
        mean, sigma2 = (x[column] for x in self.unpack(cells, shared))
        with np.errstate(over="ignore"):  # the variance of values near 1e308 is infinite
            return {"mean": about.restore(mean), "variance": sigma2 * np.exp(2 * about.log_scale)}

    def flaw(self, cells: Floats, shared: Floats, normalised: bool) -> str | None:
        """Beyond, squares would overflow; the encoding of tables keeps values within the same bound."""
        mean, sigma2 = self.unpack(cells, shared)
        if (np.abs(mean) > 1e100).any():
            return "it has a mean beyond 1e100"
        if not ((sigma2 >= 1e-100) & (sigma2 <= 1e100)).all():
            return "it has a variance that is not within 1e-100 and 1e100"
        return None


def _log_prior(mean: Floats, sigma2: Floats) -> Parameters:
    """Log density of the mean given the variance, and of the variance, element by element."""
    log_sigma2 = np.log(sigma2)
    normal = -0.5 * (LOG_2PI - math.log(KAPPA) + log_sigma2 + KAPPA * mean**2 / sigma2)
    return normal, A * math.log(B) - math.lgamma(A) - (A + 1) * log_sigma2 - B / sigma2


def _quadrature(mean: Floats, sigma: Floats) -> Parameters:
    """Points and weights (n_points,) for integrals of what mixes normal densities (n_cells,)."""
    low, high = mean - _REACH * sigma, mean + _REACH * sigma
    ends = np.unique([low, high])
    middle = (ends[1:] + ends[:-1]) / 2
    reached = (low <= middle[:, None]) & (middle[:, None] <= high)  # (pieces, cells)
    step = np.where(reached, sigma, np.inf).min(axis=1)
    pieces = [np.linspace(a, b, int(np.ceil((b - a) / h)) + 1) for a, b, h in zip(ends, ends[1:], step) if h < np.inf]
    half = np.concatenate([np.diff(p) / 2 for p in pieces])
    centre = np.concatenate([(p[1:] + p[:-1]) / 2 for p in pieces])
    return (centre[:, None] + half[:, None] * _NODES).ravel(), (half[:, None] * _WEIGHTS).ravel()
