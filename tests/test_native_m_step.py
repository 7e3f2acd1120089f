"""The native M-step against its formulas: FAN of two classes and two components, two discrete columns, two numbers."""

import numpy as np
import pytest
from scipy.stats import invgamma, norm

from fanbayes import _native

FIRST_LEVEL, N_NUMBERS, N_CELLS = [0, 3, 7], 2, 4
FACTORS = [([0, 0, 1, 1], [0, 0]), ([0, 1, 0, 1], [0, 0])]  # p(c), p(h)
KAPPA, A, B, LEAST = 0.01, 1.5, 1.0, 5.0
ALPHA, FLOOR = 0.7, 2.5
GROUPS = {"none": [], "all": [0, 0, 0, 0], "class": [0, 0, 1, 1]}


def m_step(group, estimator="map", floor=FLOOR):
    prior = [KAPPA, A, B, LEAST]
    return _native.MStep(FACTORS, N_CELLS, ALPHA, FIRST_LEVEL, N_NUMBERS, estimator, floor, group, prior)


def statistics(n=3):
    """Of random rows: states (n, 4), cells (n, 7 + 6, 4)."""
    rng = np.random.default_rng(0)
    counts = rng.gamma(2.0, 3.0, size=(n, 7, N_CELLS))
    cases, mean, variance = rng.gamma(2.0, 4.0, (3, n, N_NUMBERS, N_CELLS))
    moments = np.stack([cases, cases * mean, cases * (mean**2 + variance)], axis=2)
    return rng.gamma(2.0, 5.0, (n, 4)), np.concatenate([counts, moments.reshape(n, -1, N_CELLS)], axis=1)


def per_cell(variances, group):
    """Variances (n, numbers, cells), one a group if there are groups."""
    return variances if not group else variances.reshape(len(variances), N_NUMBERS, -1)[..., group]


@pytest.mark.parametrize("group", GROUPS.values(), ids=GROUPS)
def test_the_mode_of_the_posterior(group):
    states, cells = statistics()
    factors, found, shared = m_step(group).estimate(states, cells)
    by_class, by_component = states.reshape(-1, 2, 2).sum(axis=2), states.reshape(-1, 2, 2).sum(axis=1)
    smoothed = [(n + ALPHA) / (n + ALPHA).sum(axis=1, keepdims=True) for n in (by_class, by_component)]
    np.testing.assert_allclose(np.exp(factors), np.concatenate(smoothed, axis=1), rtol=1e-12)
    for first, missing in ((0, 2), (3, 6)):
        n = cells[:, first:missing] + ALPHA
        np.testing.assert_allclose(np.exp(found[:, first:missing]), n / n.sum(axis=1, keepdims=True), rtol=1e-12)
        assert not found[:, missing].any()
    n, first, second = np.moveaxis(cells[:, 7:].reshape(-1, N_NUMBERS, 3, N_CELLS), 2, 0)
    mean = first / (KAPPA + n)
    np.testing.assert_allclose(found[:, 7:9], mean, rtol=1e-12)
    spread, size = second - first * mean, np.ones_like(n)
    if group:
        n, spread, size = (
            np.stack([x[..., np.equal(group, g)].sum(axis=-1) for g in group], axis=-1) for x in (n, spread, size)
        )
    sigma2 = np.maximum((2 * B + spread) / (n + 2 * A + 2 + size), FLOOR)
    assert (sigma2 == FLOOR).any() or group  # else the floor would not be tested
    assert shared.shape == (len(states), N_NUMBERS * len(set(group)))  # none of it is in the cells as well
    assert found.shape[1] == 7 + (N_NUMBERS if group else 2 * N_NUMBERS)
    np.testing.assert_allclose(per_cell(shared if group else found[:, 9:], group), sigma2, rtol=1e-12)


def test_the_variance_of_the_paper():
    states, cells = statistics()
    usual, found = (m_step([], estimator).estimate(states, cells)[1] for estimator in ("map", "paper"))
    n, first, second = np.moveaxis(cells[:, 7:].reshape(-1, N_NUMBERS, 3, N_CELLS), 2, 0)
    many = n >= LEAST
    assert many.any()
    assert not many.all()
    np.testing.assert_allclose(found[:, 7:9], np.where(many, first / n, usual[:, 7:9]), rtol=1e-12)
    sigma2 = np.maximum((n - 1) / (n * (n - 3)) * (second - first**2 / n), FLOOR)
    np.testing.assert_allclose(found[:, 9:][many], sigma2[many], rtol=1e-9)
    np.testing.assert_array_equal(found[:, 9:][~many], usual[:, 9:][~many])
    with pytest.raises(ValueError, match="does not share variances"):
        m_step(GROUPS["all"], "paper")


@pytest.mark.parametrize("group", GROUPS.values(), ids=GROUPS)
def test_the_prior_counts_a_shared_variance_once(group):
    step = m_step(group)
    factors, cells, shared = step.estimate(*statistics())
    variances = shared if group else cells[:, 9:]
    wanted = ALPHA * (factors.sum(axis=1) + cells[:, :7].sum(axis=(1, 2)))
    wanted += norm.logpdf(cells[:, 7:9], 0, np.sqrt(per_cell(variances, group) / KAPPA)).sum(axis=(1, 2))
    wanted += invgamma.logpdf(variances, A, scale=B).reshape(len(factors), -1).sum(axis=1)
    np.testing.assert_allclose(step.log_prior(factors, cells, shared), wanted, rtol=1e-12)
    multinomial = ALPHA * (factors.sum(axis=1) + cells[:, :7].sum(axis=(1, 2)))
    if not group:
        np.testing.assert_allclose(m_step([], "paper").log_prior(factors, cells, shared), multinomial, rtol=1e-12)


# ---------------------------------------------------------------- EM


def run(group, n_passes, accelerate, floor=1e-6):
    """EM on rows of four clusters, from a start that depends on nothing."""
    rng = np.random.default_rng(1)
    n, cell = 200, np.arange(200) % 4
    numbers = np.array([[-2, -1], [2, 0], [0, 2], [1, -2.0]])[cell] + rng.normal(size=(n, N_NUMBERS))
    narrow = np.column_stack([(rng.random(n) < 0.3 + 0.1 * cell), rng.integers(0, 3, n)]).astype(np.uint8)
    labels = (cell // 2).astype(np.int32)
    wide = np.zeros((n, 0), np.uint16)
    rows, states = (
        _native.Rows(narrow, wide, numbers, np.zeros((n, 0, 2)), FIRST_LEVEL, [0, 1, 2], labels, None),
        _native.States([0, 2, 4], [0, 2], 4, True),
    )
    step = m_step(group, floor=floor)
    factors, cells, shared = step.estimate(*(x[:1] for x in statistics()))
    cells[:, 7:9] = [[[-1, 1, -1, 1], [-1, -1, 1, 1]]]
    weight = (factors[:, [0, 0, 1, 1]] + factors[:, [2, 3, 2, 3]]).copy()
    mean, sigma2 = cells[:, 7:9], per_cell(shared if group else cells[:, 9:], group)
    slope = np.sqrt(0.5 / sigma2)
    numeric = np.stack([slope, -slope * mean, -0.5 * np.log(2 * np.pi * sigma2)], axis=2)
    *found, sums = _native.e_step(rows, states, weight, cells[:, :7].copy(), numeric, 0, np.zeros((1, 0, 4, 4)), False)
    objective = sums[0] + step.log_prior(factors, cells, shared)
    one = np.ones(1)
    stop = (n_passes, 0.0, accelerate, False)
    return _native.run_em(
        rows, states, step, factors, cells, shared, *found, objective, np.inf * one, 16.0 * one, *stop
    )


def test_groups_of_one_cell_are_no_groups():
    """Only where their variances are kept differs."""
    (factors, cells, shared, *rest), (own_factors, own_cells, nothing, *own_rest) = (
        run([0, 1, 2, 3], 9, True),
        run([], 9, True),
    )
    assert nothing.size == 0
    np.testing.assert_array_equal(np.concatenate([cells, shared.reshape(1, N_NUMBERS, 4)], axis=1), own_cells)
    for a, b in zip((factors, *rest), (own_factors, *own_rest)):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", ["all", "class"])
def test_an_extrapolation_counts_a_shared_variance_for_each_of_its_cells(name):
    """SQUAREM's step a = |r| / |v|, with the coordinates of cells."""
    group = GROUPS[name]
    points = [
        np.concatenate(
            [*(x.ravel() for x in run(group, k, False)[:2]), per_cell(np.log(run(group, k, False)[2]), group).ravel()]
        )
        for k in range(3)
    ]
    r, v = points[1] - points[0], points[2] - 2 * points[1] + points[0]
    a = np.sqrt((r @ r) / (v @ v))
    assert 1 < a < 16
    end = run(group, 2, True)
    assert end[8][0, 0, 1] > end[8][0, 0, 0]  # the extrapolation was accepted
    wanted = (points[0] + 2 * a * r + a**2 * v)[-N_NUMBERS * N_CELLS :].reshape(1, N_NUMBERS, N_CELLS)
    np.testing.assert_allclose(per_cell(np.log(end[2]), group), wanted, rtol=1e-9)
