"""How members are pooled, (A1) to (A3): formulas spelt out, and weights, exponents and share by other optimisers."""

import numpy as np
import pytest
from scipy.optimize import minimize, minimize_scalar

from fanbayes.learning.ensembles.pool import FLOOR, SHARE_ALPHA, SHRINK_EXPONENTS, Pool, fit_pool
from fanbayes.learning.ensembles.stacking import ALPHA

N_PARTS = 4  # rows are judged by the pools of the other parts


def members(n=200, n_members=4, n_classes=3, seed=0):
    """What members of differing worth say of rows, the last one the same of all, and the rows' labels and weights."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, n_classes, n)
    truth = np.eye(n_classes)[labels]
    told = [rng.dirichlet(np.ones(n_classes), n) for _ in range(n_members - 1)]
    told = [(1 - share) * p + share * truth for p, share in zip(told, np.linspace(0.1, 0.5, n_members - 1))]
    p = np.stack([*told, np.full((n, n_classes), 1 / n_classes)])
    return p, labels, rng.choice([0.5, 1.0, 3.0], n), rng.integers(0, 1000, n)


def literal(pool, p):
    """(A3) of one row (n_members, n_classes), as it is written."""
    n_members, n_classes = p.shape
    linear = [sum(pool.weights[m] * p[m, c] for m in range(n_members)) for c in range(n_classes)]
    q = (p + FLOOR) / (1 + n_classes * FLOOR)
    product = [np.prod([q[m, c] ** pool.exponents[m] for m in range(n_members)]) for c in range(n_classes)]
    return [pool.share * a + (1 - pool.share) * b / sum(product) for a, b in zip(linear, product)]


def log_likelihood(w, p, labels, cases):
    """Of the labels under (A2)."""
    score = np.einsum("m,mnc->nc", w, np.log(p + FLOOR))
    score -= np.log(np.exp(score).sum(axis=1, keepdims=True))
    return cases @ score[np.arange(len(labels)), labels]


def gradient(w, p, labels, cases):
    """Of the log-likelihood of (A2) less what exponents cost, without this cost."""
    log_q = np.log(p + FLOOR)
    g = Pool(w, w, 0.0).log_linear(p)
    truth = np.eye(p.shape[2])[labels]
    return np.einsum("n,mnc,nc->m", cases, log_q, truth - g)


# ---------------------------------------------------------------- the formulas


def test_the_formulas():
    rng = np.random.default_rng(1)
    p, *_ = members(12)
    p[1, :3] = np.eye(3)
    pool = Pool(rng.dirichlet(np.ones(4)), rng.uniform(0, 2, 4), 0.3)
    wanted = np.array([literal(pool, p[:, r]) for r in range(12)])
    np.testing.assert_allclose(pool.mix(p), wanted, rtol=1e-12)
    np.testing.assert_allclose(pool.mix(p), 0.3 * pool.linear(p) + 0.7 * pool.log_linear(p), rtol=1e-15)
    for q in (pool.linear(p), pool.log_linear(p), pool.mix(p)):
        np.testing.assert_allclose(q.sum(axis=1), 1, rtol=1e-12)
    more = p.reshape(4, 3, 4, 3)  # rows in a table of their own, as explanations have them
    np.testing.assert_array_equal(pool.mix(more).reshape(12, 3), pool.mix(p))


def test_rows_do_not_depend_on_one_another():
    p, *_ = members(9)
    pool = Pool(np.array([0.4, 0.3, 0.2, 0.1]), np.array([0.9, 0.0, 1.3, 0.2]), 0.6)
    alone = np.concatenate([pool.mix(p[:, [r]]) for r in range(9)])
    np.testing.assert_array_equal(alone, pool.mix(p))


def test_exponents_sharpen_and_flatten():
    p = np.array([[[0.8, 0.2]], [[0.5, 0.5]]])
    v = np.array([0.5, 0.5])
    for exponent, wanted in ((0.0, 0.5), (1.0, 0.8), (2.0, 0.64 / 0.68)):
        found = Pool(v, np.array([exponent, 0.7]), 0.0).mix(p)
        assert found[0, 0] == pytest.approx(wanted, abs=1e-4)


# ---------------------------------------------------------------- what is learnt


@pytest.mark.parametrize("seed", range(3))
def test_weights_and_exponents_are_the_best(seed):
    p, labels, cases, key = members(seed=seed)
    pool, _ = fit_pool(p, labels, cases, key)
    truth = p[:, np.arange(len(labels)), labels]  # (n_members, n_rows)
    by_v = truth @ (cases / (pool.weights @ truth)) + ALPHA / pool.weights
    np.testing.assert_allclose(by_v, cases.sum() + 4 * ALPHA, rtol=1e-5)  # all equal: the multiplier of their sum
    rising = gradient(pool.exponents, p, labels, cases) - SHRINK_EXPONENTS * (pool.exponents - pool.weights)
    is_free = pool.exponents > 0
    assert (np.abs(rising[is_free]) < 1e-4).all()
    assert (rising[~is_free] < 1e-4).all()

    def loss(w):
        away = w - pool.weights
        cost = 0.5 * SHRINK_EXPONENTS * away @ away
        return cost - log_likelihood(w, p, labels, cases), SHRINK_EXPONENTS * away - gradient(w, p, labels, cases)

    tight = {"ftol": 0.0, "gtol": 1e-9, "maxiter": 5000, "maxfun": 50_000}
    best = minimize(loss, np.ones(4), jac=True, method="L-BFGS-B", bounds=[(0, None)] * 4, options=tight)
    np.testing.assert_allclose(pool.exponents, best.x, atol=1e-5)
    assert loss(pool.exponents)[0] == pytest.approx(best.fun, abs=1e-9)


def test_an_exponent_may_be_zero_and_their_sum_is_free():
    """A member that misleads is without exponent; one that is too timid is raised to more than the first power."""
    p, labels, cases, key = members(600)
    timid = 0.9 / 3 + 0.1 * p[2]
    misleading = np.roll(p[2], 1, axis=1)
    pool, _ = fit_pool(np.stack([timid, misleading]), labels, cases, key)
    assert pool.exponents[1] == 0
    assert pool.exponents[0] > 2


@pytest.mark.parametrize("seed", range(2))
def test_the_share_is_found_on_rows_that_the_pools_have_not_seen(seed):
    p, labels, cases, key = members(80, seed=seed)
    pool, log_score = fit_pool(p, labels, cases, key)
    truth = np.empty((80, 2))
    for part in range(N_PARTS):
        here, others = np.flatnonzero(key % N_PARTS == part), key % N_PARTS != part
        other, _ = fit_pool(p[:, others], labels[others], cases[others], key[others])
        for k, q in enumerate((other.linear(p[:, here]), other.log_linear(p[:, here]))):
            truth[here, k] = q[np.arange(len(here)), labels[here]]

    def loss(s):
        return -cases @ np.log(truth @ [s, 1 - s]) - SHARE_ALPHA * np.log(s * (1 - s))

    best = minimize_scalar(loss, bounds=(0, 1), method="bounded", options={"xatol": 1e-9})
    assert pool.share == pytest.approx(best.x, abs=1e-5)
    assert log_score == pytest.approx(cases @ np.log(truth @ [best.x, 1 - best.x]) / cases.sum(), abs=1e-7)


def test_parts_that_others_know_nothing_of():
    """Labels are told by members in three parts, and are the opposite in the fourth: its rows are not learnt from."""
    rng = np.random.default_rng(0)
    labels, key = rng.integers(0, 2, 400), np.arange(400)
    told = np.where(key % N_PARTS == 3, 1 - labels, labels)
    p = np.stack([0.1 + 0.8 * np.eye(2)[told], np.full((400, 2), 0.5)])
    _, log_score = fit_pool(p, labels, np.ones(400), key)
    everywhere, _ = fit_pool(p[:, key % N_PARTS != 3], labels[key % N_PARTS != 3], np.ones(300), key[:300])
    q = everywhere.linear(p)[np.arange(400), labels]
    assert log_score < np.log(q).mean() + 0.05
    assert log_score < 0.75 * np.log(0.9) + 0.25 * np.log(0.2)


def test_weights_of_rows_are_repetitions():
    p, labels, _, key = members(60)
    times = np.where(np.arange(60) % 4 == 0, 3, 1)
    rows = np.repeat(np.arange(60), times)
    a, a_score = fit_pool(p, labels, times.astype(float), key)
    b, b_score = fit_pool(p[:, rows], labels[rows], np.ones(len(rows)), key[rows])
    np.testing.assert_allclose(a.weights, b.weights, atol=1e-9)
    np.testing.assert_allclose(a.exponents, b.exponents, atol=1e-4)
    assert a.share == pytest.approx(b.share, abs=1e-4)
    assert a_score == pytest.approx(b_score, abs=1e-5)
    assert np.abs(a.weights - fit_pool(p, labels, np.ones(60), key)[0].weights).max() > 1e-3


def test_equal_members_are_pooled_as_one():
    p, labels, cases, key = members()
    pool, log_score = fit_pool(p[[2, 2, 2]], labels, cases, key)
    np.testing.assert_allclose(pool.weights, 1 / 3, atol=1e-12)
    np.testing.assert_allclose(np.diff(pool.exponents), 0, atol=1e-9)
    np.testing.assert_allclose(pool.linear(p[[2, 2, 2]]), p[2], atol=1e-12)
    powers = (p[2] + FLOOR) ** pool.exponents.sum()
    np.testing.assert_allclose(pool.log_linear(p[[2, 2, 2]]), powers / powers.sum(axis=1, keepdims=True), atol=1e-12)
    assert 0 < pool.share < 1
    assert log_score < 0


# ---------------------------------------------------------------- hard members


def test_a_member_that_is_certain_and_wrong_vetoes_nothing():
    p, labels, cases, key = members()
    certain = np.eye(3)[(labels + 1) % 3]
    pool, log_score = fit_pool(np.stack([certain, *p]), labels, cases, key)
    assert np.isfinite(log_score)
    assert pool.weights[0] < 0.01
    assert pool.exponents[0] < 0.01
    alone, worst = fit_pool(certain[None], labels, cases, key)
    assert np.isfinite(worst)
    for found, given in ((pool, np.stack([certain, *p])), (alone, certain[None])):
        mixed = found.mix(given)
        assert (mixed > 0).all()
        np.testing.assert_allclose(mixed.sum(axis=1), 1, rtol=1e-12)


def test_members_that_are_certain_and_right():
    """No exponent grows without end: what it costs is more than what is left to gain."""
    _, labels, cases, key = members()
    pool, log_score = fit_pool(np.eye(3)[labels][None], labels, cases, key)
    assert pool.exponents[0] < 2
    assert -1e-3 < log_score < 0


@pytest.mark.parametrize("n", [1, 2, 5])
def test_few_rows(n):
    p, labels, cases, key = members(n)
    pool, log_score = fit_pool(p, labels, cases, key)
    assert np.isfinite([*pool.weights, *pool.exponents, pool.share, log_score]).all()
    assert pool.weights.sum() == pytest.approx(1, abs=1e-12)
    assert (pool.exponents >= 0).all()


def test_exponents_where_a_step_cannot_be_found(monkeypatch):
    def fail(*_):
        raise RuntimeError("Maximum number of iterations reached.")

    monkeypatch.setattr("fanbayes.learning.ensembles.pool.nnls", fail)
    pool, log_score = fit_pool(*members(40))
    np.testing.assert_array_equal(pool.exponents, pool.weights)
    assert np.isfinite(log_score)


@pytest.mark.parametrize("weight", [1e-200, 1e15, 1e18, 1e90])
@pytest.mark.parametrize("chosen", [slice(None), [2, 2, 2]])
def test_cases_of_any_weight(weight, chosen):
    p, labels, cases, key = members(40)
    pool, log_score = fit_pool(p[chosen], labels, weight * cases, key)
    assert pool.weights.sum() == pytest.approx(1)
    assert (pool.weights > 0).all()
    assert np.isfinite(pool.exponents).all()
    assert (pool.exponents >= 0).all()
    q = pool.mix(p[chosen])[np.arange(40), labels]
    assert log_score - 0.05 < cases @ np.log(q) / cases.sum() < 0
