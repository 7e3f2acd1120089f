"""Counts: one Poisson distribution a cell, its rate lambda under a gamma prior.

With N cases and S events in a cell, log p = S log lambda - N lambda - sum log x!. The prior is Gamma(A, B), A = 1.5 and
B = 0.5 / m, where m is the mean of the column: half an event in as many cases as have one. So the mode
(A - 1 + S) / (B + N) is never 0, and an empty cell has the rate m. Log-likelihoods are those beside Poisson(m),

    log p(x | lambda) - log p(x | m) = x log(lambda / m) - (lambda - m) ,

in which nothing large cancels; what is left out, log p(x | m), depends on no parameter (`log_base_measure`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammaln, ndtri, pdtr, pdtrik

from fanbayes.arrays import Floats, Ints, Mask
from fanbayes.data.schema import Column
from fanbayes.data.table import Layout
from fanbayes.model.blocks.base import Block, EstimationOptions, Parameters
from fanbayes.model.structure import Structure, log_gamma

A = 1.5

# Sums over counts go so many standard deviations around each rate, and over no more than so many points there.
_REACH = 10.0
_POINTS = 1024


@dataclass(frozen=True)
class Poisson(Block):
    """Columns of counts."""

    name = "poisson"
    takes = "whole numbers from 0 to 1e12"
    term = "linear"

    n_columns: int
    n_cells: int
    means: tuple[float, ...]

    @classmethod
    def of(cls, layout: Layout, structure: Structure, options: EstimationOptions, n_columns: int) -> Poisson:
        """The block of the columns of counts."""
        means = [mean for mean, name in zip(layout.means, layout.distributions) if name == cls.name]
        return cls(n_columns, structure.n_cells, tuple(means))

    @property
    def _mean(self) -> Floats:
        """Of each column, (n_columns, 1)."""
        return np.array(self.means)[:, None]

    @property
    def _b(self) -> Floats:
        """B of each column, (n_columns, 1)."""
        return 0.5 / self._mean

    @staticmethod
    def refused(x: Floats) -> Mask:
        """What is no count, or beyond 1e12."""
        return np.asarray((x < 0) | (x > 1e12) | (~np.isnan(x) & (x != np.floor(x))))

    @property
    def n_rows(self) -> int:
        """The rates."""
        return self.n_columns

    @property
    def n_statistics(self) -> int:
        """N, sum x and sum x^2 of each column; the last is not used."""
        return 3 * self.n_columns

    @property
    def n_parameters(self) -> int:
        """A rate for each column and cell."""
        return self.n_columns * self.n_cells

    def _sums(self, statistics: Floats) -> Parameters:
        """N and S, (..., n_columns, n_cells) each."""
        of_column = statistics.reshape(*statistics.shape[:-2], self.n_columns, 3, self.n_cells)
        return of_column[..., 0, :], of_column[..., 1, :]

    def estimate(self, statistics: Floats) -> Parameters:
        """The mode of the gamma posterior."""
        n, events = self._sums(statistics)
        return self.from_cells((A - 1 + events) / (self._b + n))

    def draw(self, statistics: Floats, rng: np.random.Generator) -> Parameters:
        """From the posterior Gamma(A + S, B + N)."""
        n, events = self._sums(statistics)
        return self.from_cells(np.exp(log_gamma(A + events, rng)) / (self._b + n))

    def bootstrap_estimate(self, statistics: Floats, rng: np.random.Generator) -> Parameters:
        """The mean of the posterior, with a gamma variate for the A events of the prior."""
        n, events = self._sums(statistics)
        prior = np.exp(log_gamma(np.full(events.shape, A), rng))
        return self.from_cells((prior + events) / (self._b + n))

    def log_prior(self, cells: Floats, shared: Floats) -> Floats:
        """Log density of the gamma prior."""
        return np.asarray(self.cell_log_prior(cells, shared).sum(axis=-1))

    def cell_log_prior(self, cells: Floats, shared: Floats) -> Floats:
        """Log density of the gamma prior in each cell."""
        b = self._b
        return np.asarray((A * np.log(b) - math.lgamma(A) + (A - 1) * np.log(cells) - b * cells).sum(axis=-2))

    def log_likelihood(self, statistics: Floats, cells: Floats, shared: Floats) -> Floats:
        """Return S log(lambda / m) - N (lambda - m) of each column."""
        n, events = self._sums(statistics)
        return np.asarray((events * np.log(cells / self._mean) - n * (cells - self._mean)).sum(axis=-1))

    def log_marginal(self, statistics: Floats) -> Floats:
        """The gamma integral."""
        n, events = self._sums(statistics)
        b, m = self._b, self._mean
        terms = gammaln(A + events) - math.lgamma(A) + A * np.log(b) - (A + events) * np.log(b + n)
        terms = terms + n * m - events * np.log(m)
        return np.asarray(terms.sum(axis=(-2, -1)))

    def unconstrain(self, cells: Floats, shared: Floats) -> Parameters:
        """Logarithms of the rates."""
        return np.log(cells), shared

    def project(self, cells: Floats, shared: Floats) -> Parameters:
        """Rates, within what numbers hold."""
        return np.exp(np.clip(cells, -200.0, math.log(1e12))), shared

    def perturb(self, cells: Floats, shared: Floats, strength: Floats, rng: np.random.Generator) -> Parameters:
        """Move rates by about a standard deviation."""
        step = strength[..., None, :] * rng.standard_normal(cells.shape)
        return cells * np.exp(step / np.sqrt(1 + cells)), shared

    def kernel_terms(self, cells: Floats, shared: Floats) -> Floats:
        """Of x log(lambda / m) - (lambda - m)."""
        return np.stack([np.log(cells / self._mean), np.zeros_like(cells), self._mean - cells], axis=-2)

    def log_base_measure(self, x: Floats) -> Floats:
        """Log p(x | m), missing values left out."""
        m = self._mean[:, 0]
        return np.asarray(np.nansum(x * np.log(m) - m - gammaln(x + 1), axis=1))

    def quantile(self, cells: Floats, shared: Floats, column: int, cell: Ints, u: Floats) -> Floats:
        """The least count that is reached."""
        rate = cells[column, cell]
        z = ndtri(u)
        far = rate + np.sqrt(rate) * z + (z**2 - 1) / 6  # Cornish & Fisher; `pdtrik` finds nothing from 1e10 on
        x = np.ceil(np.where(rate < 1e9, pdtrik(u, np.minimum(rate, 1e9)), far))
        below = np.maximum(x - 1, 0)
        return np.asarray(np.where(pdtr(below, rate) >= u, below, x))

    def density(self, cells: Floats, shared: Floats, column: int) -> Parameters:
        """Counts within reach of some rate; where these are many, some of them, each for those nearest to it."""
        rate = cells[column]
        reach = _REACH * np.sqrt(rate + 1)
        low, high = np.maximum(rate - reach, 0.0), rate + reach
        x = np.unique(np.floor(np.linspace(low, high, _POINTS)))
        reached = ((np.floor(low) <= x[:-1, None]) & (x[1:, None] <= high)).any(axis=1)
        gaps = np.concatenate([[1.0], np.where(reached, np.diff(x), 1.0), [1.0]])  # nothing is between two reaches
        weight = (gaps[1:] + gaps[:-1]) / 2
        log_p = x * np.log(rate)[:, None] - rate[:, None] - gammaln(x + 1)
        return np.exp(log_p), weight

    def traits(self, cells: Floats, shared: Floats, column: int) -> Parameters:
        """Of the count: its variance is its mean."""
        return cells[column : column + 1], cells[column : column + 1]

    def describe(self, cells: Floats, shared: Floats, column: int, about: Column) -> dict[str, Any]:
        """The rate."""
        return {"rate": cells[column]}

    def flaw(self, cells: Floats, shared: Floats, normalised: bool) -> str | None:
        """Whether the rates are within bounds."""
        in_bounds = ((cells >= 1e-100) & (cells <= 1e12)).all() and ((self._mean > 0) & (self._mean <= 1e12)).all()
        return None if in_bounds else "it has a rate or a mean that is not within 1e-100 and 1e12"
