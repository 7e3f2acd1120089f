"""A stack: a linear pool of calibrated classifiers, with weights that sum to one, from rows held out."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
STEPS = 2_000


def weights(held_out: Mapping[str, Floats], y: NDArray[np.intp]) -> dict[str, float]:
    """Maximise the mean over rows of log sum_m w_m p_m(c | x) by EM, with one row that all members share besides.

    Parameters
    ----------
    held_out : log-probabilities (n, n_classes) of each member, NaN where a row was not held out
    y : classes (n,)
    """
    chance = np.stack([np.exp(table[np.arange(len(y)), y]) for table in held_out.values()], axis=1)
    chance = np.maximum(chance[~np.isnan(chance).any(axis=1)], 1e-15)
    n, k = chance.shape
    found = np.full(k, 1 / k)
    for _ in range(STEPS):
        share = chance * found
        share /= share.sum(axis=1, keepdims=True)
        before, found = found, (share.sum(axis=0) + 1 / k) / (n + 1)
        if np.abs(found - before).max() < 1e-6:
            break
    return dict(zip(held_out, found.tolist()))


def pooled(log_proba: Mapping[str, Floats], weight: Mapping[str, float]) -> Floats:
    """Log-probabilities of the pool (n, n_classes)."""
    return np.log(sum(weight[name] * np.exp(table) for name, table in log_proba.items()))
