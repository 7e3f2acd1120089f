"""Counts: one Poisson distribution a cell, its rate lambda under a gamma prior.

With N cases and S events in a cell, log p = S log lambda - N lambda - sum log x!. The prior is Gamma(A, B) with A = 1.5
and B = 0.5, half an event in half a case: the mode (A - 1 + S) / (B + N) is never 0, and an empty cell has the rate 1.
The last sum depends on no parameter. It is part of the density (`log_base_measure`), and of no log-likelihood here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammaln, ndtri, pdtr, pdtrik

from fanbayes.arrays import Floats, Ints
from fanbayes.data.schema import Column
from fanbayes.data.table import Layout
from fanbayes.model.blocks.base import Block, EstimationOptions, Parameters
from fanbayes.model.structure import Structure

A = 1.5
B = 0.5

# Sums over counts go so many standard deviations around each rate, and over no more than so many points there.
_REACH = 10.0
_POINTS = 1024


@dataclass(frozen=True)
class Poisson(Block):
    """Columns of counts."""

    name = "poisson"
    term = "linear"

    n_columns: int
    n_cells: int

    @classmethod
    def of(cls, layout: Layout, structure: Structure, options: EstimationOptions, n_columns: int) -> Poisson:
        """The block of so many columns."""
        return cls(n_columns, structure.n_cells)

    @staticmethod
    def refuses(x: Floats) -> bool:
        """Whether a value is no count, or beyond 1e12."""
        return bool(((x < 0) | (x > 1e12) | (x != np.floor(x))).any())

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
        return self.from_cells((A - 1 + events) / (B + n))

    def log_prior(self, cells: Floats, shared: Floats) -> Floats:
        """Log density of the gamma prior."""
        return np.asarray(self.cell_log_prior(cells, shared).sum(axis=-1))

    def cell_log_prior(self, cells: Floats, shared: Floats) -> Floats:
        """Log density of the gamma prior in each cell."""
        return np.asarray((A * math.log(B) - math.lgamma(A) + (A - 1) * np.log(cells) - B * cells).sum(axis=-2))

    def log_likelihood(self, statistics: Floats, cells: Floats, shared: Floats) -> Floats:
        """Return S log lambda - N lambda of each column."""
        n, events = self._sums(statistics)
        return np.asarray((events * np.log(cells) - n * cells).sum(axis=-1))

    def log_marginal(self, statistics: Floats) -> Floats:
        """The gamma integral."""
        n, events = self._sums(statistics)
        terms = gammaln(A + events) - math.lgamma(A) + A * math.log(B) - (A + events) * np.log(B + n)
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
        """Of log p(x) = -lambda + x log lambda, without log x!."""
        return np.stack([np.log(cells), np.zeros_like(cells), -cells], axis=-2)

    def log_base_measure(self, x: Floats) -> Floats:
        """Return -sum log x!, missing values left out."""
        return np.asarray(-np.nansum(gammaln(x + 1), axis=1))

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
        in_bounds = ((cells >= 1e-100) & (cells <= 1e12)).all()
        return None if in_bounds else "it has a rate that is not within 1e-100 and 1e12"
