"""Continuous features: one normal distribution a cell. The one coefficient is its mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from fanbayes.arrays import Floats, Ints
from fanbayes.data.schema import Column
from fanbayes.data.table import Layout
from fanbayes.model.blocks.base import EstimationOptions, Estimator, Parameters
from fanbayes.model.blocks.normal import (
    KAPPA,
    A,
    B,
    Normal,
    Posterior,
    groups_of_cells,
    normal_density,
    own_variance,
)
from fanbayes.model.normals import LOG_2PI
from fanbayes.model.structure import Structure

# Equation (7) is undefined up to 3 observations and explodes just above.
LEAST_FOR_PAPER = 5.0


@dataclass(frozen=True)
class Gaussian(Normal):
    """Continuous columns."""

    name = "gaussian"
    term = "normal"
    precisions = (KAPPA,)

    estimator: Estimator = "map"

    @classmethod
    def of(cls, layout: Layout, structure: Structure, options: EstimationOptions, n_columns: int) -> Gaussian:
        """The block of the continuous columns."""
        group = groups_of_cells(structure, options)
        return cls(n_columns, structure.n_cells, options.variance_floor, group, options.variance_estimator)

    @property
    def n_statistics(self) -> int:
        """N, sum x and sum x^2 of each column."""
        return 3 * self.n_columns

    def _sums(self, statistics: Floats) -> tuple[Floats, Floats, Floats]:
        """N, sum x and sum x^2, (..., n_columns, n_cells) each."""
        of_column = statistics.reshape(*statistics.shape[:-2], self.n_columns, 3, self.n_cells)
        return of_column[..., 0, :], of_column[..., 1, :], of_column[..., 2, :]

    def _posterior(self, statistics: Floats) -> Posterior:
        """The mean N mean / (KAPPA + N), and the spread SS + KAPPA N / (KAPPA + N) mean^2.

        Written without the mean: sum x / (KAPPA + N), and sum x^2 - (sum x)^2 / (KAPPA + N).
        """
        n, first, second = self._sums(statistics)
        mean = first / (KAPPA + n)
        return Posterior(n, mean, KAPPA + n, np.maximum(second - first * mean, 0.0))

    def _around_mean(self, statistics: Floats) -> tuple[Floats, Floats, Floats]:
        """N, mean, and sum of squares around the mean."""
        n, first, second = self._sums(statistics)
        mean = np.divide(first, n, out=np.zeros_like(first), where=n > 0)
        return n, mean, np.maximum(second - first * mean, 0.0)

    def _squares(self, statistics: Floats, coefficients: Floats) -> Parameters:
        """N, and the sum of squares around the means given."""
        n, own_mean, squares = self._around_mean(statistics)
        return n, squares + n * (own_mean - coefficients) ** 2

    # ------------------------------------------------------------ learning

    def estimate(self, statistics: Floats) -> Parameters:
        """Mean and variance of each cell.

        "map" is the joint mode of the posterior. "paper" is (7), and "map" where a cell has fewer than
        `LEAST_FOR_PAPER` observations; where cells share a variance there is no (7).
        """
        cells, shared = super().estimate(statistics)
        if self.estimator != "paper":
            return cells, shared
        n, own_mean, squares = self._around_mean(statistics)
        many = n >= LEAST_FOR_PAPER
        mean = np.where(many, own_mean, cells[..., : self.n_columns, :])
        if self.group is not None:
            return mean, shared
        n = np.where(many, n, LEAST_FOR_PAPER)
        sigma2 = np.where(many, (n - 1) / (n * (n - 3)) * squares, cells[..., self.n_columns :, :])
        return self._pack(mean, np.maximum(sigma2, self.floor))

    def draw(self, statistics: Floats, rng: np.random.Generator) -> Parameters | None:
        """From the normal-inverse-gamma posterior; (7) belongs to none."""
        return None if self.estimator == "paper" else super().draw(statistics, rng)

    def bootstrap_estimate(self, statistics: Floats, rng: np.random.Generator) -> Parameters:
        """The mean of the posterior, what it has of the prior drawn; or (7)."""
        return self.estimate(statistics) if self.estimator == "paper" else super().bootstrap_estimate(statistics, rng)

    def log_prior(self, cells: Floats, shared: Floats) -> Floats:
        """Log density of the normal-inverse-gamma prior; (7) maximises nothing, then 0."""
        return np.zeros(cells.shape[:-2]) if self.estimator == "paper" else super().log_prior(cells, shared)

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
        mean, sigma2 = self.unpack(cells, shared)
        return normal_density(mean[column], sigma2[column])

    # ------------------------------------------------------------ for people and files

    def traits(self, cells: Floats, shared: Floats, column: int) -> Parameters:
        """Of the number."""
        mean, sigma2 = self.unpack(cells, shared)
        return mean[column : column + 1], sigma2[column : column + 1]

    def describe(self, cells: Floats, shared: Floats, column: int, about: Column) -> dict[str, Any]:
        """Mean and variance."""
        mean, sigma2 = (x[column] for x in self.unpack(cells, shared))
        return {"mean": about.restore(mean), "variance": own_variance(sigma2, about)}

    def flaw(self, cells: Floats, shared: Floats, normalised: bool) -> str | None:
        """Beyond, squares would overflow; the encoding of tables keeps values within the same bound."""
        mean, sigma2 = self.unpack(cells, shared)
        if (np.abs(mean) > 1e100).any():
            return "it has a mean beyond 1e100"
        if not ((sigma2 >= 1e-100) & (sigma2 <= 1e100)).all():
            return "it has a variance that is not within 1e-100 and 1e100"
        return None
