"""Discrete features: multinomial cells with a Dirichlet prior, equations (2) and (5).

Counts and log probabilities of all columns lie on one flat axis of levels (`Layout`), the last level of
each column standing for "missing"; it has no probability, log 1 = 0 is its factor. Arrays may have any
leading axes: shape (..., n_levels, n_cells).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from fanbayes.data.table import Layout

Floats = NDArray[np.float64]


def estimate(counts: Floats, layout: Layout, alpha: float) -> Floats:
    """Log of (5): (alpha + N_ijk) / (alpha r_i + N_ij), for every column i, cell j and level k."""
    if layout.n_discrete == 0:
        return counts
    log_table = np.log(counts + alpha)
    log_table -= np.log(observed(counts, layout) + alpha * layout.n_levels[:, None])[..., layout.column_of, :]
    log_table[..., layout.missing_level, :] = 0.0
    return log_table


def observed(counts: Floats, layout: Layout) -> Floats:
    """N_ij (..., n_discrete, n_cells): the counts of a column's levels, without "missing"."""
    totals: Floats = np.add.reduceat(counts, layout.first_level[:-1], axis=-2)
    return totals - counts[..., layout.missing_level, :]


def normalise(log_table: Floats, layout: Layout) -> Floats:
    """Turn any real numbers on the axis of levels into log probabilities."""
    if layout.n_discrete == 0:
        return log_table
    starts = layout.first_level[:-1]
    table = log_table.copy()
    table[..., layout.missing_level, :] = -np.inf
    table -= np.maximum.reduceat(table, starts, axis=-2)[..., layout.column_of, :]
    total = np.add.reduceat(np.exp(table), starts, axis=-2)
    table -= np.log(total)[..., layout.column_of, :]
    table[..., layout.missing_level, :] = 0.0
    return table


def log_prior(log_table: Floats, alpha: float) -> Floats:
    """Return alpha sum log theta: (5) is the mode of Dirichlet(alpha + 1)."""
    total: Floats = alpha * log_table.sum(axis=(-2, -1))
    return total


def log_likelihood(counts: Floats, log_table: Floats) -> Floats:
    """Return sum_ijk N_ijk log theta_ijk; "missing" adds nothing, its logarithm is 0."""
    return np.asarray(np.einsum("...lk,...lk->...", counts, log_table))


def column_log_likelihood(counts: Floats, log_table: Floats, layout: Layout) -> Floats:
    """Return sum_jk N_ijk log theta_ijk of each column (n_discrete,)."""
    if layout.n_discrete == 0:
        return np.zeros(0)
    return np.asarray(np.add.reduceat(np.einsum("lk,lk->l", counts, log_table), layout.first_level[:-1]))


def log_marginal(counts: Floats, layout: Layout, alpha: float) -> Floats:
    """Log marginal likelihood of counts under Dirichlet(alpha) (2), in closed form."""
    if layout.n_discrete == 0:
        return np.zeros(counts.shape[:-2])
    levels = gammaln(counts + alpha) - gammaln(alpha)
    levels[..., layout.missing_level, :] = 0.0
    r = layout.n_levels[:, None]
    columns = gammaln(alpha * r) - gammaln(alpha * r + observed(counts, layout))
    total: Floats = levels.sum(axis=(-2, -1)) + columns.sum(axis=(-2, -1))
    return total


def n_parameters(layout: Layout) -> int:
    """Return sum_i (r_i - 1)."""
    return int((layout.n_levels - 1).sum())
