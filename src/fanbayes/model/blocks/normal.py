"""What blocks of normal columns have in common: x ~ N(m, sigma2) in each cell, m linear in its coefficients.

Values are standardised (mean 0, variance 1 over the training rows), so the prior below is the same for every column.

Prior: normal-inverse-gamma, sigma2 ~ IG(A, B), and given it each coefficient ~ N(0, sigma2 / precision), where the
precision is KAPPA for the mean, or the intercept.

- KAPPA = 0.01: a hundredth of an observation at the column's mean; it decides only cells that are empty.
- A = 1.5: a prior worth three observations of the variance, the least for which it has a finite mean.
- B = 1, in units of the column's variance: an empty cell gets a third of it, a cell of few rows cannot shrink
  around a single value. Half of it, and less, cost log loss on 15 small UCI sets (5-fold, naive Bayes and FAN;
  which sets was not recorded); twice as much gained log loss but cost accuracy.

The rows of a cell are the coefficients of the columns, all first ones before all second ones, and, where no cells share
them, the variances; variances that a group of cells shares are kept once, (n_columns, n_groups).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.special import gammaln

from fanbayes.arrays import Floats, Ints
from fanbayes.data.caching import cached_property, fields_only
from fanbayes.data.schema import Column
from fanbayes.model.blocks.base import Block, EstimationOptions, Parameters
from fanbayes.model.normals import LOG_2PI
from fanbayes.model.structure import Structure

KAPPA = 0.01
A = 1.5
B = 1.0

# Integrals are cut off so many standard deviations from every cell's mean, where less than 1e-14 is left, and taken by
# Gauss-Legendre rules of 8 points on steps no longer than the least standard deviation of the cells that reach there:
# the error of a mutual information was below 1e-11 nats in all cases tried. A cell so narrow that numbers around its
# mean can hardly be told apart is taken as wider.
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)
_REACH = 8.0
_NARROWEST = 1e-12  # standard deviation, beside the mean


class Posterior(NamedTuple):
    """What statistics say of the coefficients, under their prior."""

    n: Floats  # (..., n_columns, n_cells) observations
    coefficients: Floats  # (..., n_coefficients, n_cells) the mode
    precision: Floats  # the same shape, of each given those after it, in units of 1 / sigma2
    spread: Floats  # (..., n_columns, n_cells) least of squares of residuals + prior precision * coefficients^2


@dataclass(frozen=True)
class Normal(Block):
    """Columns that are normal in each cell.

    Attributes
    ----------
    floor : float
        Least variance.
    group : int (n_cells,) or None
        Cells that share one variance, neighbours; None: no cells do.
    """

    precisions: ClassVar[tuple[float, ...]]  # of the prior of each coefficient of a column

    n_columns: int
    n_cells: int
    floor: float
    group: Ints | None

    __getstate__ = fields_only

    @abstractmethod
    def _posterior(self, statistics: Floats) -> Posterior:
        """Coefficients in closed form."""

    @abstractmethod
    def _squares(self, statistics: Floats, coefficients: Floats) -> Parameters:
        """N, and the sum of squared residuals, (..., n_columns, n_cells) both."""

    @property
    def n_coefficients(self) -> int:
        """Coefficients in a cell, of all columns."""
        return len(self.precisions) * self.n_columns

    @cached_property
    def _first(self) -> Ints:
        """First cell of each group of cells."""
        return np.arange(self.n_cells) if self.group is None else np.flatnonzero(np.diff(self.group, prepend=-1))

    @cached_property
    def _size(self) -> Ints:
        """Cells of each group."""
        return np.diff(self._first, append=self.n_cells)

    @property
    def n_steps(self) -> int:
        """The coefficients."""
        return self.n_coefficients

    @property
    def n_rows(self) -> int:
        """The coefficients and, where they are not shared, the variances."""
        return self.n_coefficients if self.group is not None else self.n_written

    @property
    def n_written(self) -> int:
        """The coefficients and the variances."""
        return self.n_coefficients + self.n_columns

    @property
    def n_shared(self) -> int:
        """A variance for each column and group."""
        return 0 if self.group is None else self.n_columns * len(self._first)

    @property
    def cells_of_shared(self) -> Ints:
        """Cells that each shared parameter stands for (n_shared,)."""
        return np.tile(self._size, self.n_shared // len(self._size))

    @property
    def n_parameters(self) -> int:
        """The coefficients of a cell, a variance a cell or a group."""
        return self.n_coefficients * self.n_cells + self.n_columns * len(self._first)

    def unpack(self, cells: Floats, shared: Floats) -> Parameters:
        """Coefficients (..., n_coefficients, n_cells), and variances (..., n_columns, n_cells)."""
        if self.group is None:
            return cells[..., : self.n_coefficients, :], cells[..., self.n_coefficients :, :]
        each = shared.reshape(*shared.shape[:-1], self.n_columns, -1)
        return cells, each[..., self.group]

    def _pack(self, coefficients: Floats, sigma2: Floats) -> Parameters:
        """Inverse of `unpack`, given the variances of the groups (..., n_columns, n_groups)."""
        none = np.zeros((*coefficients.shape[:-2], 0))
        if self.group is None:
            return np.concatenate([coefficients, sigma2], axis=-2), none
        return coefficients, sigma2.reshape(*sigma2.shape[:-2], self.n_shared)

    def _split(self, coefficients: Floats) -> list[Floats]:
        """First coefficient of each column, second ..., (..., n_columns, n_cells) each."""
        n = self.n_columns
        return [coefficients[..., at : at + n, :] for at in range(0, self.n_coefficients, n)]

    def _each(self, x: Floats) -> Floats:
        """What columns have (..., n_columns, n_cells), for each of their coefficients."""
        return np.concatenate([x] * len(self.precisions), axis=-2)

    def _sum(self, x: Floats) -> Floats:
        """Sum over the cells of each group, (..., n_columns, n_groups)."""
        return x if self.group is None else np.asarray(np.add.reduceat(x, self._first, axis=-1))

    def estimate(self, statistics: Floats) -> Parameters:
        """The joint mode of the posterior; the floor makes it the constrained one.

        Cells of a group share one variance: sigma2 = (2 B + sum spread) / (sum N + 2 A + 2 + number of coefficients).
        """
        found = self._posterior(statistics)
        divisor = self._sum(found.n) + (2 * A + 2) + len(self.precisions) * self._size
        sigma2 = (2 * B + self._sum(found.spread)) / divisor
        return self._pack(found.coefficients, np.maximum(sigma2, self.floor))

    def draw(self, statistics: Floats, rng: np.random.Generator) -> Parameters | None:
        """From the normal-inverse-gamma posterior; variances are not below the floor.

        sigma2 ~ IG(A + N / 2, B + spread / 2), then each coefficient given sigma2: by itself, it has a t distribution
        with 2 A + N degrees of freedom.
        """
        found = self._posterior(statistics)
        sigma2 = (B + 0.5 * self._sum(found.spread)) / rng.standard_gamma(A + 0.5 * self._sum(found.n))
        return self._drawn(statistics, found, sigma2, 1 / found.precision, rng)

    def bootstrap_estimate(self, statistics: Floats, rng: np.random.Generator) -> Parameters:
        """The mean of the posterior, what it has of the prior drawn: of an empty cell, a draw from the prior.

        With N cases the divisor of the variance is N + 2 A - 2 in the mean, but for terms of order 1 / N.
        """
        found = self._posterior(statistics)
        n = self._sum(found.n)
        divisor = n * (n + 2 * A - 2) / (n + 2 * A) + 2 * rng.standard_gamma(A, n.shape)
        sigma2 = (2 * B + self._sum(found.spread)) / divisor
        prior = np.repeat(self.precisions, self.n_columns)[:, None]
        return self._drawn(statistics, found, sigma2, prior / found.precision**2, rng)

    def _drawn(
        self, statistics: Floats, found: Posterior, sigma2: Floats, variance: Floats, rng: np.random.Generator
    ) -> Parameters:
        """Variances not below the floor, coefficients around their mode, of a variance in units of sigma2."""
        sigma2 = np.maximum(sigma2, self.floor)
        of_cell = sigma2 if self.group is None else sigma2[..., self.group]
        steps = rng.standard_normal(variance.shape) * np.sqrt(self._each(of_cell) * variance)
        return self._pack(found.coefficients + self._together(statistics, steps), sigma2)

    def _together(self, statistics: Floats, steps: Floats) -> Floats:
        """Steps of the coefficients (..., n_coefficients, n_cells), given steps of each beside those after it."""
        return steps

    def log_prior(self, cells: Floats, shared: Floats) -> Floats:
        """Log density of the normal-inverse-gamma prior."""
        normal, inverse_gamma = self._log_densities(cells, shared)
        return np.asarray(normal.sum(axis=(-2, -1)) + inverse_gamma[..., self._first].sum(axis=(-2, -1)))

    def cell_log_prior(self, cells: Floats, shared: Floats) -> Floats:
        """`log_prior` of each cell, as if it shared nothing."""
        normal, inverse_gamma = self._log_densities(cells, shared)
        return np.asarray((normal + inverse_gamma).sum(axis=-2))

    def _log_densities(self, cells: Floats, shared: Floats) -> Parameters:
        """Log prior density of the coefficients given the variance, and of the variance, of each column and cell."""
        coefficients, sigma2 = self.unpack(cells, shared)
        log_sigma2, normal = np.log(sigma2), np.zeros_like(sigma2)
        for precision, x in zip(self.precisions, self._split(coefficients)):
            normal += -0.5 * (LOG_2PI - math.log(precision) + log_sigma2 + precision * x**2 / sigma2)
        return normal, A * math.log(B) - math.lgamma(A) - (A + 1) * log_sigma2 - B / sigma2

    def log_likelihood(self, statistics: Floats, cells: Floats, shared: Floats) -> Floats:
        """Log density of the values of each column."""
        coefficients, sigma2 = self.unpack(cells, shared)
        n, squares = self._squares(statistics, coefficients)
        return np.asarray(-0.5 * (n * (LOG_2PI + np.log(sigma2)) + squares / sigma2).sum(axis=-1))

    def log_marginal(self, statistics: Floats) -> Floats:
        """Under the normal-inverse-gamma prior, in closed form."""
        found = self._posterior(statistics)
        of_coefficients = np.zeros_like(found.n)
        for prior, precision in zip(self.precisions, self._split(found.precision)):
            of_coefficients += 0.5 * (math.log(prior) - np.log(precision))
        n, spread = self._sum(found.n), self._sum(found.spread)
        a = A + 0.5 * n
        variance = gammaln(a) - math.lgamma(A) + A * math.log(B) - a * np.log(B + 0.5 * spread) - 0.5 * n * LOG_2PI
        return np.asarray(variance.sum(axis=(-2, -1)) + of_coefficients.sum(axis=(-2, -1)))

    def unconstrain(self, cells: Floats, shared: Floats) -> Parameters:
        """Coefficients, and logarithms of variances."""
        if self.group is not None:
            return cells, np.log(shared)
        coefficients, sigma2 = self.unpack(cells, shared)
        return np.concatenate([coefficients, np.log(sigma2)], axis=-2), shared

    def project(self, cells: Floats, shared: Floats) -> Parameters:
        """Variances not below the floor."""
        if self.group is not None:
            return cells, self._variance(shared)
        coefficients, log_sigma2 = self.unpack(cells, shared)
        return np.concatenate([coefficients, self._variance(log_sigma2)], axis=-2), shared

    def _variance(self, log_sigma2: Floats) -> Floats:
        return np.maximum(np.exp(np.clip(log_sigma2, -600.0, 600.0)), self.floor)

    def per_cell(self, cells: Floats, shared: Floats) -> Floats:
        """All coefficients, then all variances."""
        return np.concatenate(self.unpack(cells, shared), axis=-2)

    def from_cells(self, written: Floats) -> Parameters:
        """Inverse of `per_cell`; what a group shares is the mean of its cells' variances, not below the floor."""
        coefficients, sigma2 = written[..., : self.n_coefficients, :], written[..., self.n_coefficients :, :]
        return self._pack(coefficients, np.maximum(self._sum(sigma2) / self._size, self.floor))

    def perturb(self, cells: Floats, shared: Floats, strength: Floats, rng: np.random.Generator) -> Parameters:
        """Move what the coefficients predict by about a standard deviation."""
        noise = strength[..., None, :] * rng.standard_normal((*cells.shape[:-2], self.n_coefficients, self.n_cells))
        return self.move(cells, shared, noise / math.sqrt(len(self.precisions)))

    def move(self, cells: Floats, shared: Floats, steps: Floats) -> Parameters:
        """Move coefficients, in standard deviations."""
        coefficients, sigma2 = self.unpack(cells, shared)
        moved = coefficients + steps * np.sqrt(self._each(sigma2))
        return np.concatenate([moved, cells[..., self.n_coefficients :, :]], axis=-2), shared


def groups_of_cells(structure: Structure, options: EstimationOptions) -> Ints | None:
    """Which variance each cell has (n_cells,), None: its own. Where classes share cells, that of a class is of all."""
    if options.variance_tying == "none":
        return None
    of_class = structure.class_of_cell if options.variance_tying == "class" else None
    return np.zeros(structure.n_cells, dtype=np.intp) if of_class is None else of_class


def own_variance(sigma2: Floats, about: Column) -> Floats:
    """Variances in the column's own unit; of values near 1e308 they are infinite."""
    with np.errstate(over="ignore"):
        return np.asarray(sigma2 * np.exp(2 * about.log_scale))


def normal_density(mean: Floats, sigma2: Floats) -> Parameters:
    """Densities of normals (n_cells,) at points to integrate over (n_cells, n), and the weights of these (n,)."""
    sigma = np.maximum(np.sqrt(sigma2), _NARROWEST * np.abs(mean))
    x, weight = _quadrature(mean, sigma)
    z = (x - mean[:, None]) / sigma[:, None]
    return np.exp(-0.5 * (LOG_2PI + z**2)) / sigma[:, None], weight


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
