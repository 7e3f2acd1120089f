"""How the members of an average are pooled.

    L(c | x) = sum_m v_m p_m(c | x)                                                                  (A1)
    G(c | x) = prod_m q_m(c | x)^{w_m} / Z(x),   q_m = (p_m + FLOOR) / (1 + n_classes FLOOR)         (A2)
    p(c | x) = s L(c | x) + (1 - s) G(c | x)                                                         (A3)

The linear pool (A1) is at its best where members disagree and one of them is right; the log-linear one (A2), whose
exponents need not sum to one, where all are too timid or too certain. No member vetoes a class: FLOOR bounds what it
can say against it, and so the probability of no class is 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp

import numpy as np
from scipy.optimize import nnls
from scipy.special import softmax

from fanbayes.arrays import AnyInts, Floats
from fanbayes.learning.ensembles.parallel import Map, one_by_one
from fanbayes.learning.ensembles.stacking import ALPHA, MOST_STEPS, TOLERANCE, stack

FLOOR = exp(-12)
# How much it costs an exponent to differ from the weight of the linear pool, in cases.
SHRINK_EXPONENTS = 10.0
# Cases that are added to either pool, so that neither is without a share.
SHARE_ALPHA = 1.0
# Parts of the rows, each of which is predicted by the pools of the others, to find the share.
_PARTS = 4
# Values of the members, of all classes, that a step of Newton's method looks at together.
_VALUES_AT_ONCE = 1 << 22


@dataclass(frozen=True)
class Pool:
    """What (A3) needs.

    Attributes
    ----------
    weights : v (n_members,), positive, sum to one
    exponents : w (n_members,), not negative
    share : s, of the linear pool, between 0 and 1
    """

    weights: Floats
    exponents: Floats
    share: float

    def linear(self, p: Floats) -> Floats:
        """(A1) of the members' probabilities (n_members, ..., n_classes)."""
        return np.asarray(np.einsum("m,m...->...", self.weights, p, optimize=False))

    def log_linear(self, p: Floats) -> Floats:
        """(A2) of the members' probabilities (n_members, ..., n_classes)."""
        return np.asarray(softmax(np.einsum("m,m...->...", self.exponents, np.log(p + FLOOR), optimize=False), axis=-1))

    def mix(self, p: Floats) -> Floats:
        """(A3) of the members' probabilities (n_members, ..., n_classes)."""
        return self.share * self.linear(p) + (1 - self.share) * self.log_linear(p)


def fit_pool(
    p: Floats, labels: AnyInts, cases: Floats, key: AnyInts, alpha: float | Floats = ALPHA, each: Map = one_by_one
) -> tuple[Pool, float]:
    """The pool that gives the labels of rows that the members have not seen the highest probability, and its log score.

    The mean log score is that of rows that the pool has not seen either, but for the share.

    Parameters
    ----------
    p : (n_members, n_rows, n_classes)
    labels : (n_rows,)
    cases : (n_rows,), weights of the rows
    key : (n_rows,), any numbers, equal for equal rows: which part they are in, to find the share
    alpha : cases that are added to every member of the linear pool, or to each, (n_members,)
    each : `map`, perhaps over threads
    """
    part, rows = key % _PARTS, np.arange(len(labels))
    log_q = np.log(p + FLOOR)
    log_truth = np.log(np.maximum(p[:, rows, labels].T, FLOOR**2))

    def fit(k: int) -> Pool:
        """Of the rows of all parts but k, with a share of one half."""
        if k == _PARTS:
            return _pools(log_q, log_truth, labels, cases, alpha)
        others = part != k
        return _pools(log_q[:, others], log_truth[others], labels[others], cases[others], alpha)

    pool, *pools = each(fit, [_PARTS, *range(_PARTS)])  # that of all rows takes longest
    pooled = np.empty((len(labels), 2))  # probabilities of the labels under both pools of the other parts
    for k, of_others in enumerate(pools):
        here = part == k
        found = (of_others.linear(p[:, here]), of_others.log_linear(p[:, here]))
        pooled[here] = np.stack([q[np.arange(len(q)), labels[here]] for q in found], axis=1)
    pooled = np.maximum(pooled, FLOOR**2)
    share = float(stack(np.log(pooled), cases, SHARE_ALPHA)[0])
    log_score = float(cases @ np.log(pooled @ [share, 1 - share]) / cases.sum())
    return Pool(pool.weights, pool.exponents, share), log_score


def _equal(n_members: int) -> Pool:
    return Pool(np.full(n_members, 1 / n_members), np.full(n_members, 1 / n_members), 0.5)


def _pools(log_q: Floats, log_truth: Floats, labels: AnyInts, cases: Floats, alpha: float | Floats) -> Pool:
    if not len(labels):
        return _equal(len(log_q))
    weights = stack(log_truth, cases, alpha)
    return Pool(weights, _exponents(log_q, labels, cases, weights), 0.5)


def _exponents(log_q: Floats, labels: AnyInts, cases: Floats, weights: Floats) -> Floats:
    """Exponents of (A2) that maximise its log score less SHRINK_EXPONENTS / 2 |w - v|^2: a concave problem.

    By Newton's method: every step goes towards the w >= 0 that are best for the second-order expansion around the last
    ones. With l_n = log q(. | x_n) and G the pool, the gradient of the loss is
    ``sum_n cases_n (E_G l_n - l_n(y_n)) + SHRINK_EXPONENTS (w - v)``, its second derivative
    ``sum_n cases_n Cov_G(l_n) + SHRINK_EXPONENTS I``.
    """
    n_members, n_rows, n_classes = log_q.shape
    at_once = max(1, _VALUES_AT_ONCE // (n_members * n_classes))
    pieces = [slice(i, i + at_once) for i in range(0, n_rows, at_once)]

    def expansion(w: Floats) -> tuple[float, Floats, Floats]:
        """Loss, gradient and second derivative."""
        away = w - weights
        loss, gradient = 0.0, np.zeros(n_members)
        squares, of_means = np.zeros((n_members, n_members)), np.zeros((n_members, n_members))
        for piece in pieces:
            own, of_class, weight = log_q[:, piece], labels[piece], cases[piece]
            flat, rows = own.reshape(n_members, -1), np.arange(len(of_class))
            z = (w @ flat).reshape(-1, n_classes)
            z -= z.max(axis=1, keepdims=True)
            q = np.exp(z)
            total = q.sum(axis=1, keepdims=True)
            q /= total
            loss += float(weight @ (np.log(total[:, 0]) - z[rows, of_class]))
            mean = (own * q).sum(axis=2)  # E_G l_n (n_members, n_rows)
            gradient += (mean - own[:, rows, of_class]) @ weight
            squares += (flat * (weight[:, None] * q).ravel()) @ flat.T
            of_means += (mean * weight) @ mean.T
        # Between members that say the same there is no curvature but that of rounding, of either sign.
        least = max(SHRINK_EXPONENTS, 1e-12 * np.trace(squares))
        loss += float(0.5 * SHRINK_EXPONENTS * away @ away)
        return loss, gradient + SHRINK_EXPONENTS * away, squares - of_means + least * np.eye(n_members)

    w = weights
    loss, gradient, curvature = expansion(w)
    for _ in range(MOST_STEPS):
        root = np.linalg.cholesky(curvature)
        try:
            step = nnls(root.T, np.linalg.solve(root, curvature @ w - gradient))[0] - w
        except RuntimeError:  # SciPy 1.12 to 1.14 may fail where rows weigh 1e12 times as much as others: w will do
            break
        fall = -float(gradient @ step)
        if fall <= TOLERANCE * cases.sum():
            break
        length = 1.0
        while (found := expansion(w + length * step))[0] > loss - 0.1 * length * fall:
            length /= 2
        w = w + length * step
        loss, gradient, curvature = found
    return w
