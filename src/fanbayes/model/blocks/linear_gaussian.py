"""Continuous features that depend on another: a linear regression in each cell, x ~ N(a + b p, sigma2).

The prior is that of `normal.py`, a | sigma2 ~ N(0, sigma2 / KAPPA), with a slope b | sigma2 ~ N(0, sigma2 / LAMBDA)
beside it: a ridge. x and p are both standardised, so it means the same for every pair of columns.

- LAMBDA = 1: one observation, a standard deviation away from the regressor's mean, where the response is at its own. A
  cell of many rows hardly feels it, one of a few cannot have a steep line through them. On 41 UCI sets (5-fold, each
  column regressed in each class on the one that it is most correlated with), 0.1 did worse than 1 on 27 sets and in
  classes of up to 20 rows most of all, 10 did worse on the median set.

Without a slope it is the block of `gaussian.py`; but the mode of the variance divides by one more, for the slope. The
paper has no estimator of a regression: this one is used also where variances are estimated by (7).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from fanbayes.arrays import Floats, Ints
from fanbayes.data.schema import Column
from fanbayes.data.table import Layout
from fanbayes.model.blocks.base import EstimationOptions, Parameters
from fanbayes.model.blocks.normal import (
    KAPPA,
    Normal,
    Posterior,
    groups_of_cells,
    normal_density,
    own_variance,
)
from fanbayes.model.normals import LOG_2PI
from fanbayes.model.structure import Structure

LAMBDA = 1.0


@dataclass(frozen=True)
class LinearGaussian(Normal):
    """Pairs of continuous columns: a response x, and a regressor p. The coefficients are intercepts, then slopes.

    What a column is like in a cell depends on its regressor: `quantile`, `density`, `traits` and `describe` take what
    is known of it as a last argument. Without, it is at its mean, 0.
    """

    name = "linear_gaussian"
    term = "regression"
    precisions = (KAPPA, LAMBDA)

    @classmethod
    def of(cls, layout: Layout, structure: Structure, options: EstimationOptions, n_columns: int) -> LinearGaussian:
        """The block of the pairs."""
        group = groups_of_cells(structure, options)
        return cls(n_columns, structure.n_cells, options.variance_floor, group)

    @property
    def n_statistics(self) -> int:
        """N, sum x, sum x^2, sum p, sum p^2 and sum xp of each pair."""
        return 6 * self.n_columns

    def _sums(self, statistics: Floats) -> Floats:
        """N, sum x, sum x^2, sum p, sum p^2 and sum xp: (6, ..., n_columns, n_cells)."""
        of_column = statistics.reshape(*statistics.shape[:-2], self.n_columns, 6, self.n_cells)
        return np.moveaxis(of_column, -2, 0)

    def _posterior(self, statistics: Floats) -> Posterior:
        """Least squares with a ridge.

        With the intercept a = (sum x - b sum p) / (KAPPA + N) put in, what is left to minimise over b is
        C_xx - 2 b C_xp + b^2 (C_pp + LAMBDA), where C_xp = sum xp - sum x sum p / (KAPPA + N), and so on.
        """
        n, x, xx, p, pp, xp = self._sums(statistics)
        kappa, ridge = self.precisions
        mean_x, mean_p = x / (kappa + n), p / (kappa + n)
        precision = np.maximum(pp - p * mean_p, 0.0) + ridge
        product = xp - x * mean_p
        slope = product / precision
        return Posterior(
            n,
            np.concatenate([mean_x - slope * mean_p, slope], axis=-2),
            np.concatenate([kappa + n, precision], axis=-2),
            np.maximum(xx - x * mean_x - slope * product, 0.0),
        )

    def _together(self, statistics: Floats, steps: Floats) -> Floats:
        """The line turns about the mean of the regressor: a steeper one has a lower intercept."""
        n, _, _, p, _, _ = self._sums(statistics)
        intercept, slope = self._split(steps)
        return np.concatenate([intercept - slope * p / (self.precisions[0] + n), slope], axis=-2)

    def _squares(self, statistics: Floats, coefficients: Floats) -> Parameters:
        """N, and the sum of squares around the lines given."""
        n, x, xx, p, pp, xp = self._sums(statistics)
        intercept, slope = self._split(coefficients)
        mean_x, mean_p = (np.divide(s, n, out=np.zeros_like(s), where=n > 0) for s in (x, p))
        around = xx - x * mean_x - slope * (2 * (xp - x * mean_p) - slope * (pp - p * mean_p))
        return n, np.maximum(around, 0.0) + n * (mean_x - intercept - slope * mean_p) ** 2

    def lines(self, cells: Floats, shared: Floats) -> tuple[Floats, Floats, Floats]:
        """Intercept, slope and variance of each pair and cell, (..., n_columns, n_cells) each."""
        coefficients, sigma2 = self.unpack(cells, shared)
        intercept, slope = self._split(coefficients)
        return intercept, slope, sigma2

    # ------------------------------------------------------------ prediction

    def kernel_terms(self, cells: Floats, shared: Floats) -> Floats:
        """Of log p(x | p) = log_norm - (scale x + coefficient p + offset)^2: scale, offset, log_norm, coefficient."""
        intercept, slope, sigma2 = self.lines(cells, shared)
        scale = np.sqrt(0.5 / sigma2)
        log_norm = -0.5 * (LOG_2PI + np.log(sigma2))
        return np.stack([scale, -scale * intercept, log_norm, -scale * slope], axis=-2)

    def quantile(
        self, cells: Floats, shared: Floats, column: int, cell: Ints, u: Floats, given: Floats | float = 0.0
    ) -> Floats:
        """Standardised value, given that of the regressor (n,)."""
        intercept, slope, sigma2 = (x[column, cell] for x in self.lines(cells, shared))
        return np.asarray(intercept + slope * given + np.sqrt(sigma2) * ndtri(u))

    def density(
        self, cells: Floats, shared: Floats, column: int, mean: Floats | float = 0.0, variance: Floats | float = 0.0
    ) -> Parameters:
        """Gauss-Legendre rules on pieces of the range, where the regressor is normal in each cell (n_cells,)."""
        of_response = self.traits(cells, shared, column, mean, variance)
        return normal_density(of_response[0][0], of_response[1][0])

    # ------------------------------------------------------------ for people and files

    def traits(
        self, cells: Floats, shared: Floats, column: int, mean: Floats | float = 0.0, variance: Floats | float = 0.0
    ) -> Parameters:
        """Of the response, given mean and variance of the regressor in each cell (n_cells,)."""
        intercept, slope, sigma2 = (x[column : column + 1] for x in self.lines(cells, shared))
        return intercept + slope * mean, sigma2 + slope**2 * variance

    def describe(
        self, cells: Floats, shared: Floats, column: int, about: Column, regressor: Column | None = None
    ) -> dict[str, Any]:
        """Intercept, slope and variance; of a regressor that is not told, in its standard deviations from its mean."""
        intercept, slope, sigma2 = (x[column] for x in self.lines(cells, shared))
        origin, log_scale = 0.0, 0.0
        if regressor is not None:
            origin, log_scale = regressor.centre / regressor.scale, regressor.log_scale
        with np.errstate(over="ignore"):
            own_slope = slope * math.exp(min(about.log_scale - log_scale, 709.0))
        return {
            "intercept": about.restore(intercept - slope * origin),
            "slope": own_slope,
            "variance": own_variance(sigma2, about),
        }

    def flaw(self, cells: Floats, shared: Floats, normalised: bool) -> str | None:
        """Beyond, squares would overflow, values being within 1e100."""
        intercept, slope, sigma2 = self.lines(cells, shared)
        if (np.abs(intercept) > 1e100).any() or (np.abs(slope) > 1e20).any():
            return "it has an intercept beyond 1e100, or a slope beyond 1e20"
        if not ((sigma2 >= 1e-60) & (sigma2 <= 1e100)).all():
            return "it has a variance that is not within 1e-60 and 1e100"
        return None
