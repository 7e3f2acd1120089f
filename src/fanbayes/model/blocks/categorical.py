"""Discrete features: multinomial cells with a Dirichlet prior, equations (2) and (5).

Counts and log probabilities of all columns lie on one flat axis of levels (`Layout`), the last level of each column
standing for "missing"; it has no probability, log 1 = 0 is its factor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammaln

from fanbayes.arrays import Floats, Ints
from fanbayes.data.caching import cached_property
from fanbayes.data.frames import interval_names
from fanbayes.data.schema import Column
from fanbayes.data.table import Layout
from fanbayes.model.blocks.base import Block, EstimationOptions, LevelPrior, Parameters
from fanbayes.model.structure import Structure, log_gamma
from fanbayes.model.tree import TreeLayout


@dataclass(frozen=True)
class Categorical(Block):
    """All discrete columns of a layout."""

    name = "categorical"
    term = "lookup"

    layout: Layout
    n_columns: int
    n_cells: int
    prior: float | Floats  # alpha, or what is added to the count of each level in each cell (n_rows, n_cells)

    @classmethod
    def of(cls, layout: Layout, structure: Structure, options: EstimationOptions, n_columns: int) -> Categorical:
        """The block of all discrete columns."""
        prior: float | Floats = options.alpha
        if options.level_prior is not None:
            prior = _prior_counts(layout, structure, options.alpha, options.level_prior)
        return cls(layout, n_columns, structure.n_cells, prior)

    @cached_property
    def _total_prior(self) -> Floats:
        """What is added to the counts of each column (n_columns, n_cells or 1)."""
        if isinstance(self.prior, float):
            return np.asarray(self.prior * self.layout.n_levels[:, None], dtype=np.float64)
        return _observed(self.prior, self.layout)

    @property
    def n_rows(self) -> int:
        """Levels of all columns, with one more for "missing" in each."""
        return int(self.layout.first_level[-1])

    @property
    def n_statistics(self) -> int:
        """A count for each."""
        return self.n_rows

    @property
    def n_steps(self) -> int:
        """A step for each."""
        return self.n_rows

    @property
    def n_parameters(self) -> int:
        """Return sum_i (r_i - 1), in every cell."""
        return self.n_cells * int((self.layout.n_levels - 1).sum())

    def estimate(self, statistics: Floats) -> Parameters:
        """Log of (5): (alpha + N_ijk) / (alpha r_i + N_ij), for every column i, cell j and level k.

        Columns of many levels have an alpha_ijk instead, and its sum.
        """
        layout = self.layout
        total = _observed(statistics, layout) + self._total_prior
        log_table = np.log(statistics + self.prior)
        log_table -= np.log(total)[..., layout.column_of, :]
        return self.from_cells(_without_missing(log_table, layout))

    def draw(self, statistics: Floats, rng: np.random.Generator) -> Parameters:
        """From Dirichlet(alpha + N), the posterior under (2), of which (5) is the mean."""
        return self.project(*self.from_cells(log_gamma(statistics + self.prior, rng)))

    def bootstrap_estimate(self, statistics: Floats, rng: np.random.Generator) -> Parameters:
        """(5) with a gamma variate for alpha: for complete data, a draw from Dirichlet(alpha + N)."""
        prior = log_gamma(np.broadcast_to(self.prior, statistics.shape), rng)
        return self.project(*self.from_cells(np.log(np.maximum(statistics, 0.0) + np.exp(prior))))

    def log_prior(self, cells: Floats, shared: Floats) -> Floats:
        """Return alpha sum log theta: (5) is the mode of Dirichlet(alpha + 1)."""
        return np.asarray((self.prior * cells).sum(axis=(-2, -1)))

    def cell_log_prior(self, cells: Floats, shared: Floats) -> Floats:
        """`log_prior` of each cell by itself (..., n_cells)."""
        return np.asarray((self.prior * cells).sum(axis=-2))

    def log_likelihood(self, statistics: Floats, cells: Floats, shared: Floats) -> Floats:
        """Return sum_jk N_ijk log theta_ijk of each column i; "missing" adds nothing, its logarithm is 0."""
        by_level = np.einsum("...lk,...lk->...l", statistics, cells)
        return np.asarray(np.add.reduceat(by_level, self.layout.first_level[:-1], axis=-1))

    def log_marginal(self, statistics: Floats) -> Floats:
        """Under Dirichlet(alpha) (2), in closed form."""
        total = self._total_prior
        levels = _without_missing(gammaln(statistics + self.prior) - gammaln(self.prior), self.layout)
        columns = gammaln(total) - gammaln(total + _observed(statistics, self.layout))
        return np.asarray(levels.sum(axis=(-2, -1)) + columns.sum(axis=(-2, -1)))

    def unconstrain(self, cells: Floats, shared: Floats) -> Parameters:
        """Log probabilities are what they are."""
        return cells, shared

    def project(self, cells: Floats, shared: Floats) -> Parameters:
        """Turn any real numbers on the axis of levels into log probabilities."""
        layout = self.layout
        starts, table = layout.first_level[:-1], cells.copy()
        table[..., layout.missing_level, :] = -np.inf
        table -= np.maximum.reduceat(table, starts, axis=-2)[..., layout.column_of, :]
        table -= np.log(np.add.reduceat(np.exp(table), starts, axis=-2))[..., layout.column_of, :]
        return _without_missing(table, layout), shared

    def perturb(self, cells: Floats, shared: Floats, strength: Floats, rng: np.random.Generator) -> Parameters:
        """Multiply probabilities by exponential variates."""
        noise = strength[..., None, :] * np.log(rng.exponential(size=cells.shape))
        return self.project(cells + noise, shared)

    def move(self, cells: Floats, shared: Floats, steps: Floats) -> Parameters:
        """Add to the log probabilities; they are not normalised any more."""
        return _without_missing(cells + steps, self.layout), shared

    def native_arguments(self) -> dict[str, Any]:
        """Where the levels of each column begin, and their prior if it is not the same for all."""
        prior = [] if isinstance(self.prior, float) else self.prior.ravel().tolist()
        return {"first_level": self.layout.first_level.tolist(), "level_prior": prior}

    def kernel_terms(self, cells: Floats, shared: Floats) -> Floats:
        """Return the log probabilities."""
        return cells

    def quantile(self, cells: Floats, shared: Floats, column: int, cell: Ints, u: Floats) -> Ints:
        """Code of the level."""
        return quantile_of(np.exp(self._levels(cells, column)).T, cell, u)

    def density(self, cells: Floats, shared: Floats, column: int) -> Parameters:
        """The levels."""
        p = np.exp(self._levels(cells, column)).T
        return p, np.ones(p.shape[1])

    def traits(self, cells: Floats, shared: Floats, column: int) -> Parameters:
        """Of the indicators of the levels."""
        p = np.exp(self._levels(cells, column))
        return p, p * (1 - p)

    def describe(self, cells: Floats, shared: Floats, column: int, about: Column) -> dict[str, Any]:
        """Level and probability."""
        return {"level": level_names(about), "probability": np.exp(self._levels(cells, column))}

    def flaw(self, cells: Floats, shared: Floats, normalised: bool) -> str | None:
        """Whether log probabilities are within bounds, and sum to one."""
        if (np.abs(cells) > 1e6).any():
            return "it has a log probability beyond a million"
        if (cells[..., self.layout.missing_level, :] != 0).any():
            return "it has probabilities of what is missing"
        with np.errstate(over="ignore"):
            if normalised and (np.abs(_observed(np.exp(cells), self.layout) - 1) >= 1e-9).any():
                return "it has probabilities that do not sum to one"
        return None

    def _levels(self, cells: Floats, column: int) -> Floats:
        """Log probabilities of a column (..., n_levels, n_cells)."""
        first, last = self.layout.first_level[column], self.layout.missing_level[column]
        return cells[..., first:last, :]


def _prior_counts(layout: Layout, structure: Structure, alpha: float, given: LevelPrior) -> Floats:
    """What is added to the count of each level in each cell (n_levels, n_cells)."""
    class_of, n = structure.class_of_cell, structure.n_cells
    if class_of is None:
        alone = within = np.tile(given.of_all[:, None] / n, n)
    else:
        alone, within = given.of_class[:, class_of], given.within_class[:, class_of]
        is_only = np.bincount(class_of)[class_of] == 1
        alone = np.where(is_only, alone, within)
    if isinstance(layout, TreeLayout):  # a column given each level of its parent is a part of its own
        base = layout.base
        rows = [np.arange(base.first_level[i], base.first_level[i + 1]) for i in range(base.n_discrete)]
        parts = layout.feature_of[: layout.n_discrete].tolist()
        has_parent = np.concatenate([np.repeat(layout.tree.parent[i] >= 0, len(rows[i])) for i in parts])
        at = np.concatenate([rows[i] for i in parts])
        alone = np.where(has_parent[:, None], within[at], alone[at])
    return np.where(np.isnan(alone), alpha, alone)


def level_names(column: Column) -> list[Any]:
    """Levels of a discrete column, intervals of a binned one."""
    return list(column.levels) if column.kind == "discrete" else list(interval_names(column.cuts))


def quantile_of(p: Floats, which: Ints, u: Floats) -> Ints:
    """Value at part u (n,) of the distribution `which` (n,) of several, p (n_distributions, n_values).

    All are searched at once, in one array of integers: the result must not depend on where a distribution stands.
    """
    scale, step = 2.0**32, np.int64(2**33)
    cumulated = np.cumsum(p, axis=1)
    cumulated /= cumulated[:, -1:]
    edges = np.floor(cumulated * scale).astype(np.int64) + step * np.arange(len(p))[:, None]
    place = np.searchsorted(edges.ravel(), np.floor(u * scale).astype(np.int64) + step * which, side="right")
    return np.asarray(np.minimum(place - which * p.shape[1], p.shape[1] - 1), dtype=np.intp)


def _observed(counts: Floats, layout: Layout) -> Floats:
    """N_ij (..., n_discrete, n_cells): the counts of a column's levels, without "missing"."""
    totals: Floats = np.add.reduceat(counts, layout.first_level[:-1], axis=-2)
    return totals - counts[..., layout.missing_level, :]


def _without_missing(x: Floats, layout: Layout) -> Floats:
    """The array given, 0 for what is missing."""
    x[..., layout.missing_level, :] = 0.0
    return x
