"""Local distributions: their estimate is the mode, their marginal the integral."""

import math

import builders
import numpy as np
import pytest
from scipy import integrate, stats

from fanbayes.model.families import categorical, gaussian

LEVELS = (2, 5, 300)


def moments_of(x, w=None):
    """N, sum x, sum x^2 of one column and one cell, (3, 1, 1)."""
    x, w = np.asarray(x, dtype=float), np.ones(len(x)) if w is None else np.asarray(w)
    return np.array([w.sum(), (w * x).sum(), (w * x * x).sum()]).reshape(3, 1, 1)


# ---------------------------------------------------------------- categorical


@pytest.fixture
def counts():
    """Weighted counts (levels, cells), "missing" among the levels, an empty cell among the cells."""
    rng = np.random.default_rng(0)
    layout = builders.make_layout(LEVELS, 0)
    found = rng.gamma(0.5, 4.0, (int(layout.first_level[-1]), 4))
    found[:, 3] = 0
    return layout, found


def test_estimate_is_laplaces_rule(counts):
    layout, n = counts
    theta = np.exp(categorical.estimate(n, layout, 0.7))
    for i, r in enumerate(LEVELS):
        first = layout.first_level[i]
        own = n[first : first + r]
        np.testing.assert_allclose(theta[first : first + r], (0.7 + own) / (0.7 * r + own.sum(axis=0)))
        np.testing.assert_array_equal(theta[first + r], 1.0)  # "missing" is no factor


@pytest.mark.parametrize("alpha", [0.3, 1.0, 4.0])
def test_categorical_estimate_is_the_mode(counts, alpha):
    layout, n = counts

    def posterior(log_table):
        return categorical.log_likelihood(n, log_table) + categorical.log_prior(log_table, alpha)

    best = categorical.estimate(n, layout, alpha)
    top = posterior(best)
    rng = np.random.default_rng(1)
    for scale in (1e-3, 1e-2, 0.3):
        for _ in range(20):
            moved = categorical.normalise(best + scale * rng.normal(size=best.shape), layout)
            assert posterior(moved) < top


def test_normalise_makes_distributions(counts):
    layout, n = counts
    table = categorical.normalise(500.0 * np.log(n + 0.01), layout)
    theta = np.exp(table)
    np.testing.assert_array_equal(table[layout.missing_level], 0.0)
    theta[layout.missing_level] = 0.0
    np.testing.assert_allclose(np.add.reduceat(theta, layout.first_level[:-1], axis=0), 1.0)
    np.testing.assert_allclose(categorical.normalise(table, layout), table, atol=1e-12)


@pytest.mark.parametrize("alpha", [0.5, 1.0, 3.0])
def test_dirichlet_marginal_is_the_product_of_predictions(alpha):
    """p(x_1) p(x_2 | x_1) ..., each by (alpha + N_k) / (alpha r + N)."""
    rng = np.random.default_rng(2)
    layout = builders.make_layout((3, 4), 0)
    counts, log_p = np.zeros((9, 1)), 0.0
    for _ in range(30):
        for i, r in enumerate((3, 4)):
            code = rng.integers(0, r + 1)  # the last one is "missing"
            level = layout.first_level[i] + code
            if code < r:
                own = counts[layout.first_level[i] : layout.first_level[i] + r]
                log_p += math.log((alpha + counts[level, 0]) / (alpha * r + own.sum()))
            counts[level] += 1
    assert categorical.log_marginal(counts, layout, alpha) == pytest.approx(log_p)


def test_categorical_without_columns():
    layout = builders.make_layout((), 2)
    empty = np.zeros((2, 0, 3))
    assert categorical.estimate(empty, layout, 1.0).shape == (2, 0, 3)
    np.testing.assert_array_equal(categorical.log_marginal(empty, layout, 1.0), [0, 0])
    assert categorical.n_parameters(layout) == 0


# ---------------------------------------------------------------- gaussian


def values(n, seed=3):
    rng = np.random.default_rng(seed)
    return rng.normal(0.8, 0.6, n), rng.choice([0.5, 1.0, 2.0], n)


def test_density_is_scipys():
    x, w = values(40)
    mean, sigma2 = np.array([[0.3]]), np.array([[0.7]])
    wanted = (w * stats.norm.logpdf(x, 0.3, math.sqrt(0.7))).sum()
    assert gaussian.log_likelihood(moments_of(x, w), mean, sigma2) == pytest.approx(wanted)
    slope, intercept, log_norm = gaussian.for_kernel(mean, sigma2)[:, 0, 0]
    by_kernel = log_norm - (slope * x + intercept) ** 2
    np.testing.assert_allclose(by_kernel, stats.norm.logpdf(x, 0.3, math.sqrt(0.7)))


def test_prior_is_scipys():
    wanted = stats.norm.logpdf(0.4, 0, math.sqrt(0.6 / gaussian.KAPPA))
    wanted += stats.invgamma.logpdf(0.6, gaussian.A, scale=gaussian.B)
    assert gaussian.log_prior(np.array([[0.4]]), np.array([[0.6]])) == pytest.approx(wanted)


@pytest.mark.parametrize("n", [0, 1, 2, 7, 300])
@pytest.mark.parametrize("floor", [1e-6, 0.5])
def test_gaussian_estimate_is_the_mode_above_the_floor(n, floor):
    x, w = values(n)
    sums = moments_of(x, w)
    mean, sigma2 = gaussian.estimate(sums, "map", floor)
    assert sigma2.min() >= floor

    def posterior(m, v):
        return float(gaussian.log_likelihood(sums, m, v) + gaussian.log_prior(m, v))

    top = posterior(mean, sigma2)
    for step in (1e-3, 1e-2, 0.1):
        assert posterior(mean + step, sigma2) < top
        assert posterior(mean - step, sigma2) < top
        assert posterior(mean, sigma2 * (1 + step)) < top
        if (lower := sigma2 * (1 - step)) >= floor:
            assert posterior(mean, lower) < top


def test_map_estimate_is_the_formula():
    x, w = values(25)
    mean, sigma2 = gaussian.estimate(moments_of(x, w), "map", 1e-6)
    n, average = w.sum(), np.average(x, weights=w)
    squares = (w * (x - average) ** 2).sum()
    k, a, b = gaussian.KAPPA, gaussian.A, gaussian.B
    assert mean[0, 0] == pytest.approx(n * average / (n + k))
    assert sigma2[0, 0] == pytest.approx((2 * b + squares + k * n / (k + n) * average**2) / (n + 2 * a + 3))


@pytest.mark.parametrize("n", [0, 1, 3, 4, 4.9, 5, 5.5, 40])
def test_paper_estimate_is_equation_7_from_five_cases_on(n):
    x = np.array([-1.0, 0.5, 2.0, 0.1])
    w = np.full(4, n / 4)
    mean, sigma2 = gaussian.estimate(moments_of(x, w), "paper", 1e-6)
    if n < 5:
        wanted = gaussian.estimate(moments_of(x, w), "map", 1e-6)
        assert (mean, sigma2) == wanted
    else:
        assert mean[0, 0] == pytest.approx(x.mean())
        squares = (w * (x - x.mean()) ** 2).sum()
        assert sigma2[0, 0] == pytest.approx((n - 1) / (n * (n - 3)) * squares)


def test_paper_estimate_respects_the_floor():
    _, sigma2 = gaussian.estimate(moments_of(np.full(10, 1.5)), "paper", 1e-3)
    assert sigma2[0, 0] == 1e-3


def test_marginal_is_the_product_of_student_predictions():
    """Sequentially: x_n | x_1 .. x_(n-1) is Student's t with 2 a degrees of freedom."""
    x, _ = values(30)
    kappa, a, b, m = gaussian.KAPPA, gaussian.A, gaussian.B, 0.0
    log_p = 0.0
    for value in x:
        scale = math.sqrt(b * (kappa + 1) / (a * kappa))
        log_p += stats.t.logpdf(value, 2 * a, m, scale)
        b += kappa * (value - m) ** 2 / (2 * (kappa + 1))
        m = (kappa * m + value) / (kappa + 1)
        kappa, a = kappa + 1, a + 0.5
    assert gaussian.log_marginal(moments_of(x)) == pytest.approx(log_p)


def test_marginal_is_the_integral():
    x = np.array([0.3, -1.2, 0.9])
    sums = moments_of(x)

    def density(mean, log_sigma2):
        m, v = np.array([[mean]]), np.array([[math.exp(log_sigma2)]])
        return math.exp(float(gaussian.log_likelihood(sums, m, v) + gaussian.log_prior(m, v)) + log_sigma2)

    found, _ = integrate.dblquad(density, -6, 8, -15, 15, epsrel=1e-7)
    assert float(gaussian.log_marginal(sums)) == pytest.approx(math.log(found), abs=1e-5)


def test_no_observation_has_marginal_likelihood_one():
    assert gaussian.log_marginal(np.zeros((3, 1, 1))) == pytest.approx(0.0)


def test_sum_of_squares_never_falls_below_zero():
    sums = np.array([1e6, 1e6 * 0.1, 1e6 * 0.1 * 0.1 * (1 - 1e-13)]).reshape(3, 1, 1)
    assert gaussian.Moments.of(sums).squares.min() >= 0


def test_families_work_on_many_networks_at_once():
    rng = np.random.default_rng(5)
    sums = np.abs(rng.normal(size=(4, 3, 2, 3)))
    sums[:, 2] += sums[:, 1] ** 2 / sums[:, 0]
    mean, sigma2 = gaussian.estimate(sums, "map", 1e-6)
    for k in range(4):
        one = gaussian.estimate(sums[k], "map", 1e-6)
        np.testing.assert_array_equal(mean[k], one[0])
        np.testing.assert_array_equal(sigma2[k], one[1])
        assert gaussian.log_marginal(sums)[k] == gaussian.log_marginal(sums[k])
