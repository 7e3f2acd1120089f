"""Networks with feature weights against enumeration of (E1), written out row by row and state by state."""

import math
import pickle

import numpy as np
import oracles
import pytest
from builders import KINDS, make_world

from fanbayes.learning.e_step import e_step, posterior
from fanbayes.model.weighted_network import WeightedNetwork

N_CLASSES = 3


def random_weights(seed, n_columns):
    rng = np.random.default_rng(seed)
    w = rng.uniform(0.0, 3.0, n_columns)
    w[rng.integers(n_columns)] = 0.0
    return w, rng.normal(size=N_CLASSES)


def log_states(plain, rows, w, b):
    """(E1) of each row and state: log p(s) + b_c + sum_i w_i log p(x_i | s); a missing value has no term."""
    n_discrete = rows.codes.shape[1]
    out = np.empty((len(rows), len(plain.class_of)))
    for r in range(len(rows)):
        for s, (c, cell) in enumerate(zip(plain.class_of, plain.cell_of)):
            total = float(plain.log_weight[s]) + b[c]
            for i, code in enumerate(rows.codes[r]):
                if code >= 0:
                    total += w[i] * float(plain.tables[i][code, cell])
            for i, x in enumerate(rows.numbers[r]):
                if not math.isnan(x):
                    total += w[n_discrete + i] * oracles.log_normal(x, plain.mean[i, cell], plain.sigma2[i, cell])
            out[r, s] = total
    return out


def log_classes(plain, rows, w, b):
    states = log_states(plain, rows, w, b)
    classes = range(N_CLASSES)
    joint = [[oracles.log_sum([u for u, k in zip(row, plain.class_of) if k == c]) for c in classes] for row in states]
    return np.array([[u - oracles.log_sum(row) for u in row] for row in joint])


def log_likelihood(plain, rows, w, b, labelled):
    """Sum of log sum_s (E1), over the states of each row's class if labels count."""
    states = log_states(plain, rows, w, b)
    total = 0.0
    for row, label, weight in zip(states, rows.labels, rows.weights):
        total += weight * oracles.log_sum([row[s] for s in oracles.states_of(plain, label if labelled else -1)])
    return total


@pytest.mark.parametrize("kind", KINDS)
def test_posterior_by_enumeration(kind):
    world = make_world(5, kind, 5)
    w, b = random_weights(1, 5)
    model = WeightedNetwork(world.network, w, b)
    wanted = log_classes(world.plain, world.rows, w, b)
    np.testing.assert_allclose(posterior(world.table, model.terms, "log_proba", None), wanted, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(posterior(world.table, model.terms, "proba", None), np.exp(wanted), atol=1e-12)
    states = posterior(world.table, model.terms, "states", None)
    np.testing.assert_allclose(states, log_states(world.plain, world.rows, w, b), rtol=1e-9, atol=1e-11)
    assert np.abs(wanted - posterior(world.table, world.network.terms, "log_proba", None)).max() > 0.1


@pytest.mark.parametrize("levels", [(3, 2), ()])
def test_posterior_of_columns_of_one_kind(levels):
    world = make_world(6, "fan", 3, levels=levels, n_numbers=0 if levels else 3)
    w, b = random_weights(2, 2 if levels else 3)
    found = posterior(world.table, WeightedNetwork(world.network, w, b).terms, "log_proba", None)
    np.testing.assert_allclose(found, log_classes(world.plain, world.rows, w, b), rtol=1e-9, atol=1e-11)


def test_posterior_of_fused_codes():
    world = make_world(7, "fan", 2, levels=(2, 2, 3), n=400)
    fused = world.table.fused()
    assert fused.narrow.shape[1] < 3
    model = WeightedNetwork(world.network, *random_weights(3, 5))
    wanted = posterior(world.table, model.terms, "log_proba", None)
    np.testing.assert_allclose(posterior(fused, model.terms, "log_proba", None), wanted, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_weights_of_one_are_the_network_itself(kind):
    world = make_world(8, kind, 4)
    model = WeightedNetwork(world.network, np.ones(5), np.zeros(N_CLASSES))
    for what in ("log_joint", "log_proba", "proba", "states"):
        wanted = posterior(world.table, world.network.terms, what, None)
        np.testing.assert_allclose(posterior(world.table, model.terms, what, None), wanted, rtol=1e-12)
    assert model.structure is world.network.structure


@pytest.mark.parametrize("column", range(5))
def test_a_weight_of_zero_drops_the_column(column):
    world = make_world(9, "fan", 3)
    w = np.ones(5)
    w[column] = 0.0
    found = posterior(world.table, WeightedNetwork(world.network, w, np.zeros(N_CLASSES)).terms, "log_joint", None)
    plain, rows = world.plain, world.rows
    if column < 3:
        del plain.tables[column]
        rows = oracles.Rows(np.delete(rows.codes, column, axis=1), rows.numbers, rows.labels, rows.weights)
    else:
        plain.mean, plain.sigma2 = (np.delete(p, column - 3, axis=0) for p in (plain.mean, plain.sigma2))
        rows = oracles.Rows(rows.codes, np.delete(rows.numbers, column - 3, axis=1), rows.labels, rows.weights)
    np.testing.assert_allclose(found, oracles.log_joint_of_classes(plain, rows), rtol=1e-9)


def test_offsets_are_prior_odds():
    world = make_world(10, "per_class", 3)
    b = np.array([0.5, -1.0, 2.0])
    plain, moved = (
        posterior(world.table, WeightedNetwork(world.network, np.ones(5), offset).terms, "log_proba", None)
        for offset in (np.zeros(N_CLASSES), b)
    )
    np.testing.assert_allclose(np.diff(moved - plain, axis=1), np.tile(np.diff(b), (len(plain), 1)), atol=1e-9)


@pytest.mark.parametrize("labelled", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_column_log_likelihood_is_the_derivative(kind, labelled):
    """By finite differences of the log-likelihood of (E1), with the labels and without."""
    world = make_world(11, kind, 3, n=15)
    w, b = random_weights(4, 5)
    w += 0.1
    table = world.table if labelled else make_world(11, kind, 3, n=15, unlabelled=1.0).table
    rows = world.rows
    if not labelled:  # all but the first ones, which always have a label
        table = table.only(np.arange(N_CLASSES, 15))
        rows = oracles.Rows(*(a[N_CLASSES:] for a in (rows.codes, rows.numbers, rows.labels, rows.weights)))
        np.testing.assert_array_equal(table.numbers, rows.numbers)
        assert (table.labels == -1).all()
    statistics = e_step(table, WeightedNetwork(world.network, w, b).terms, False, None)
    wanted = log_likelihood(world.plain, rows, w, b, labelled)
    assert float(statistics.log_likelihood[0]) == pytest.approx(wanted, rel=1e-9)
    found = world.network.column_log_likelihood(statistics)[0]
    for i in range(5):
        ends = [log_likelihood(world.plain, rows, w + h * np.eye(5)[i], b, labelled) for h in (-1e-4, 1e-4)]
        assert found[i] == pytest.approx((ends[1] - ends[0]) / 2e-4, rel=1e-5, abs=1e-6)


def test_it_pickles_without_what_is_cached():
    world = make_world(12, "fan", 2)
    model = WeightedNetwork(world.network, *random_weights(5, 5))
    wanted = posterior(world.table, model.terms, "proba", None)
    assert "terms" in model.__dict__
    again = pickle.loads(pickle.dumps(model))
    assert "terms" not in again.__dict__
    np.testing.assert_array_equal(posterior(world.table, again.terms, "proba", None), wanted)
