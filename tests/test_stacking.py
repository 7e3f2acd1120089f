"""Weights of averages against another optimiser."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import softmax

from fanbayes.learning.ensembles.stacking import ALPHA, stack


def scores(n=60, n_members=4, seed=0, quality=None):
    """Log p_m(y | x); the larger the quality, the closer to 1 they are."""
    rng = np.random.default_rng(seed)
    quality = np.linspace(0.5, 1.5, n_members) if quality is None else np.asarray(quality)
    return np.log(rng.beta(quality, 1.0, size=(n, n_members)))


def objective(v, log_scores, cases):
    return cases @ np.log(np.exp(log_scores) @ v) + ALPHA * np.log(v).sum()


def by_gradients(log_scores, cases):
    """The same by another method: v = softmax(u), u free."""
    p = np.exp(log_scores)

    def loss(u):
        v = softmax(u)
        by_v = (cases / (p @ v)) @ p + ALPHA / v
        return -objective(v, log_scores, cases), -v * (by_v - v @ by_v)

    start = np.zeros(log_scores.shape[1])
    return softmax(minimize(loss, start, jac=True, method="BFGS", options={"gtol": 1e-8, "maxiter": 5000}).x)


def gap(v, log_scores, cases):
    """Bound of what is left to gain on the simplex, for each case: the problem is concave."""
    p = np.exp(log_scores - log_scores.max(axis=1, keepdims=True))
    by_v = (cases / (p @ v)) @ p + ALPHA / v
    return (by_v.max() - by_v @ v) / cases.sum()


@pytest.mark.parametrize("n_members", [1, 2, 5])
@pytest.mark.parametrize("seed", range(3))
def test_the_constrained_optimum(n_members, seed):
    log_scores = scores(n_members=n_members, seed=seed)
    cases = np.random.default_rng(seed).choice([0.5, 1.0, 3.0], 60)
    found = stack(log_scores, cases)
    assert found.sum() == pytest.approx(1.0, abs=1e-12)
    assert (found > 0).all()
    assert gap(found, log_scores, cases) < 1e-9
    np.testing.assert_allclose(found, by_gradients(log_scores, cases), atol=1e-4)


@pytest.mark.parametrize("spread", [1e-6, 0.1, 30.0])
def test_members_that_are_much_alike_or_far_apart(spread):
    """Many members, nearly the same ones or each hopeless somewhere: hardly any curvature, or very much."""
    rng = np.random.default_rng(0)
    log_scores = -np.exp(rng.normal(size=(500, 1))) - spread * rng.exponential(size=(500, 40))
    found = stack(log_scores, np.ones(500))
    assert gap(found, log_scores, np.ones(500)) < 1e-9


def test_equal_members_share_their_weight():
    log_scores = scores(n_members=3, seed=4)
    twice = log_scores[:, [0, 1, 1, 2]]
    found = stack(twice, np.ones(60))
    assert found[1] == pytest.approx(found[2], abs=1e-9)
    np.testing.assert_allclose(stack(log_scores[:, [0, 0]], np.ones(60)), 0.5, atol=1e-12)


def test_a_dominated_member_keeps_what_alpha_gives_it():
    rng = np.random.default_rng(5)
    good = np.log(rng.uniform(0.6, 0.9, 200))
    log_scores = np.column_stack([good, good - 5.0])
    found = stack(log_scores, np.ones(200))
    # v = (v e^-5 n / (1 + ...) + ALPHA) / (n + 2 ALPHA), nearly all of it ALPHA's
    assert found[1] == pytest.approx(ALPHA / 200, rel=0.02)
    assert stack(log_scores, np.ones(200))[1] < 0.002


def test_members_that_are_good_at_different_rows_are_both_wanted():
    log_scores = np.log(np.tile([[0.9, 0.1], [0.1, 0.9], [0.9, 0.1]], (30, 1)))
    found = stack(log_scores, np.ones(90))
    # without ALPHA: 2/3 * 0.8 / (0.1 + 0.8 v) = 1/3 * 0.8 / (0.9 - 0.8 v)
    assert found[0] == pytest.approx((2 * 0.9 - 0.1) / (3 * 0.8), abs=0.005)


def test_row_weights_are_repetitions():
    log_scores = scores(seed=6)
    weights = np.where(np.arange(60) % 4 == 0, 3, 1)
    a = stack(log_scores, weights.astype(float))
    b = stack(np.repeat(log_scores, weights, axis=0), np.ones(weights.sum()))
    np.testing.assert_allclose(a, b, atol=1e-12)
    assert np.abs(a - stack(log_scores, np.ones(60))).max() > 1e-3


def test_scores_that_underflow():
    """Only their differences within a row matter."""
    log_scores = scores(seed=7)
    far = log_scores - 2000.0 * (np.arange(60) % 3)[:, None]
    np.testing.assert_allclose(stack(far, np.ones(60)), stack(log_scores, np.ones(60)), atol=1e-9)
    hopeless = np.column_stack([log_scores[:, 0], log_scores[:, 0] - 5000.0])
    assert stack(hopeless, np.ones(60))[1] == pytest.approx(ALPHA / (60 + 2 * ALPHA), rel=1e-3)


def test_cases_of_each_member():
    """Without cases the weights are the shares of what was added; with them, the gradient of the whole vanishes."""
    alpha = np.array([2.5, 0.1, 0.4])
    log_scores, cases = scores(n_members=3), np.ones(60)
    np.testing.assert_allclose(stack(log_scores, np.zeros(60), alpha), alpha / 3, atol=1e-9)
    found = stack(log_scores, cases, alpha)
    by_v = (cases / (np.exp(log_scores) @ found)) @ np.exp(log_scores) + alpha / found
    np.testing.assert_allclose(by_v, 63.0, rtol=1e-5)
