"""Weights of an average that maximise its log score on rows that its members have not seen."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


# Cases that are added to every member: what tells two of them apart must be worth more.
ALPHA = 0.1


def stack(log_scores: Floats, cases: Floats, max_iter: int = 2000, tol: float = 1e-5) -> Floats:
    """Maximise sum_n cases_n log sum_m v_m p_m(y_n | x_n) + ALPHA sum_m log v_m over the simplex, by EM.

    The problem is concave.

    Parameters
    ----------
    log_scores : (n_rows, n_members), log p_m(y_n | x_n)
    cases : (n_rows,), weights of the rows

    Returns
    -------
    ndarray of shape (n_members,)
    """
    p = np.exp(log_scores - log_scores.max(axis=1, keepdims=True))
    n_members = p.shape[1]
    v = np.full(n_members, 1.0 / n_members)
    for _ in range(max_iter):
        expected = v * ((cases / (p @ v)) @ p) + ALPHA
        before, v = v, expected / expected.sum()
        if np.abs(v - before).max() <= tol / n_members:
            break
    return v
