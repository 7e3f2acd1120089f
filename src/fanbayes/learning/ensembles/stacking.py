"""Weights of an average that maximise its log score on rows that its members have not seen."""

from __future__ import annotations

import numpy as np

from fanbayes.arrays import Floats, Ints

# Cases that are added to a member: what tells two of them apart must be worth more.
ALPHA = 0.1
# The search ends with the step that is expected to gain less than half of this for each case.
TOLERANCE = 1e-12
MOST_STEPS = 200
# Members are dropped, least weights first, as long as all that is dropped weighs less.
NEGLIGIBLE = 0.05


def stack(log_scores: Floats, cases: Floats, alpha: float | Floats = ALPHA) -> Floats:
    """Maximise sum_n cases_n log sum_m v_m p_m(y_n | x_n) + sum_m alpha_m log v_m over the simplex, by Newton's method.

    With N cases and A the sum of alpha, the same less (N + A) (sum_m v_m - 1) is maximal, over all v > 0, where v sums
    to one: there is no constraint left. It is concave. In steps that are relative to v, with the responsibilities
    r_nm = v_m p_nm / sum_m' v_m' p_nm', its gradient is ``r' cases + alpha - (N + A) v`` and minus its second
    derivative ``r' diag(cases) r + diag(alpha)``, whose least eigenvalue is not below that of alpha.

    Parameters
    ----------
    log_scores : (n_rows, n_members), log p_m(y_n | x_n)
    cases : (n_rows,), weights of the rows
    alpha : cases that are added, to every member or to each, (n_members,)

    Returns
    -------
    ndarray of shape (n_members,)
    """
    p = np.exp(log_scores - log_scores.max(axis=1, keepdims=True))
    n_members = p.shape[1]
    alpha = np.broadcast_to(alpha, (n_members,))
    total = cases.sum() + alpha.sum()
    least = np.diag(np.maximum(alpha, 1e-12 * total))  # not less than the rounding of very many cases

    def objective(v: Floats) -> float:
        return float(cases @ np.log(p @ v) + alpha @ np.log(v) - total * v.sum())

    v = np.full(n_members, 1.0 / n_members)
    for _ in range(MOST_STEPS):
        r = p * v / (p @ v)[:, None]
        gradient = cases @ r + alpha - total * v
        step = np.linalg.solve((r.T * cases) @ r + least, gradient)
        rise = float(gradient @ step)
        if rise <= TOLERANCE * total:
            v = v * (1 + step)
            break
        length = min(1.0, -0.9 / min(step.min(), -0.9))  # v stays positive
        before = objective(v)
        while objective(v * (1 + length * step)) < before + 0.1 * length * rise:
            length /= 2
        v = v * (1 + length * step)
    return np.asarray(v / v.sum())


def weightiest(weights: Floats, most: int) -> Ints:
    """Numbers of the members of the greatest weights, these first: not more than `most`, and as many as matter."""
    order = np.argsort(-weights, kind="stable")
    enough = 1 + int(np.searchsorted(np.cumsum(weights[order]), 1 - NEGLIGIBLE))
    return np.asarray(order[: min(enough, most)])
