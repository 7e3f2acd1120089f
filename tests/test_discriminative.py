"""Fine-tuned networks against (D1) written out here, and against logistic regression."""

from dataclasses import replace

import numpy as np
import pytest
from builders import KINDS, arrays, changed, make_world, part, plain
from oracles import log_normal
from scipy.optimize import minimize
from scipy.special import log_softmax, logsumexp

from fanbayes.learning import discriminative
from fanbayes.learning.discriminative import fine_tune
from fanbayes.learning.e_step import posterior


@pytest.fixture
def exact(monkeypatch):
    """To the last digit, not only as far as an average needs it."""
    monkeypatch.setattr(discriminative, "TOLERANCE", 1e-15)
    monkeypatch.setattr(discriminative, "MOST_STEPS", 5000)


def small_world(seed, kind, n=25, **options):
    return make_world(seed, kind, 2, levels=(2, 3), n_numbers=2, n=n, **options)


def conditional(network, rows):
    """Sum of weight times log p(y | x) over the labelled rows."""
    net = plain(network)
    class_of = np.array(net.class_of)
    total = 0.0
    for codes, numbers, label, weight in zip(rows.codes, rows.numbers, rows.labels, rows.weights):
        if label >= 0:
            u = np.array(net.log_weight)
            for s, cell in enumerate(net.cell_of):
                u[s] += sum(net.tables[i][code, cell] for i, code in enumerate(codes) if code >= 0)
                for i, x in enumerate(numbers):
                    u[s] += 0.0 if np.isnan(x) else log_normal(x, net.mean[i, cell], net.sigma2[i, cell])
            total += weight * (logsumexp(u[class_of == label]) - logsumexp(u))
    return float(total)


def objective(network, origin, rows):
    """(D1): means in standard deviations."""
    step = network.factors - origin.factors, part(network, "log_table") - part(origin, "log_table")
    moved = sum(float((s**2).sum()) for s in step)
    moved += float(((part(network, "mean") - part(origin, "mean")) ** 2 / part(origin, "sigma2")).sum())
    return conditional(network, rows) - 0.5 * discriminative.STRENGTH * moved


def with_entry(network, which, index, step):
    values = (network.factors if which == "factors" else part(network, which)).copy()
    values.reshape(-1)[index] += step
    return changed(network, **{which: values})


@pytest.mark.parametrize("kind", KINDS)
def test_the_maximum_is_one(kind, exact):
    """No derivative is left, by finite differences in every parameter that may move."""
    world = small_world(1, kind, n=15)
    found = fine_tune(world.table, world.network, None)
    moved = {"factors": found.factors, "log_table": part(found, "log_table"), "mean": part(found, "mean")}
    sigma2 = part(found, "sigma2")
    np.testing.assert_array_equal(sigma2, part(world.network, "sigma2"))
    missing = found.layout.missing_level
    np.testing.assert_array_equal(moved["log_table"][:, missing], 0.0)
    fixed = np.zeros(moved["log_table"].shape, dtype=bool)
    fixed[:, missing] = True
    at, h = objective(found, world.network, world.rows), 1e-4
    assert at > objective(world.network, world.network, world.rows) + 0.1
    for which, parameter in moved.items():
        for index in range(parameter.size):
            if not (which == "log_table" and fixed.reshape(-1)[index]):
                unit = np.sqrt(sigma2).reshape(-1)[index] if which == "mean" else 1.0
                ends = [
                    objective(with_entry(found, which, index, s * unit), world.network, world.rows) for s in (-h, h)
                ]
                assert (ends[1] - ends[0]) / (2 * h) == pytest.approx(0.0, abs=1e-3)


def test_one_component_is_logistic_regression_towards_naive_bayes(exact):
    world = make_world(2, "nb", 1, levels=(2, 4, 3), n_numbers=0, n=60, unlabelled=0.0)
    rows, net = world.rows, plain(world.network)
    levels = [len(t) for t in net.tables]
    design = np.hstack([np.ones((60, 1)), *(codes[:, None] == np.arange(k) for codes, k in zip(rows.codes.T, levels))])
    start = np.vstack([net.log_weight, *net.tables])  # (1 + levels, classes)

    def loss(theta):
        theta = theta.reshape(start.shape)
        log_p = log_softmax(design @ theta, axis=1)
        gradient = design.T @ (rows.weights[:, None] * (np.exp(log_p) - (rows.labels[:, None] == np.arange(3))))
        value = -rows.weights @ log_p[np.arange(60), rows.labels]
        moved = theta - start
        value += 0.5 * discriminative.STRENGTH * (moved**2).sum()
        return value, (gradient + discriminative.STRENGTH * moved).ravel()

    wanted = minimize(loss, start.ravel(), jac=True, method="BFGS", options={"gtol": 1e-9}).x.reshape(start.shape)
    found = plain(fine_tune(world.table, world.network, None))
    np.testing.assert_allclose(np.vstack([found.log_weight, *found.tables]), wanted, atol=1e-4)
    assert np.abs(wanted - start).max() > 0.3


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_conditional_likelihood_is_never_lower(kind, seed):
    """As it is used, where the search ends early; and the network behind it is left as it was."""
    world = small_world(10 + seed, kind)
    before = [p.copy() for p in arrays(world.network)]
    found = fine_tune(world.table, world.network, None)
    assert conditional(found, world.rows) > conditional(world.network, world.rows)
    assert objective(found, world.network, world.rows) > objective(world.network, world.network, world.rows)
    for p, q in zip(arrays(world.network), before):
        np.testing.assert_array_equal(p, q)


def test_rows_without_a_label_are_left_out():
    world = small_world(3, "fan", n=40, unlabelled=0.5)
    assert 0 < (world.rows.labels < 0).sum() < 40
    alone = world.table.only(world.rows.labels >= 0)
    a, b = (fine_tune(t, world.network, None) for t in (world.table, alone))
    for p, q in zip(arrays(a), arrays(b)):
        np.testing.assert_array_equal(p, q)


def test_row_weights_are_repetitions(exact):
    world = small_world(4, "fan", n=20, unlabelled=0.0)
    weights = np.where(np.arange(20) % 2 == 0, 2.0, 1.0)
    once = replace(world.table, weights=weights)
    twice = replace(world.table, weights=None).only(np.repeat(np.arange(20), weights.astype(int)))
    a, b = (posterior(world.table, fine_tune(t, world.network, None).terms, "proba", None) for t in (once, twice))
    np.testing.assert_allclose(a, b, atol=1e-3)


def test_fused_codes_give_the_same(exact):
    world = make_world(5, "fan", 2, levels=(2, 2, 3), n_numbers=1, n=300)
    fused = world.table.fused()
    assert fused.narrow.shape[1] < 3
    a, b = (
        posterior(world.table, fine_tune(t, world.network, None).terms, "proba", None) for t in (world.table, fused)
    )
    np.testing.assert_allclose(a, b, atol=1e-3)
