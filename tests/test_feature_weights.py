"""Feature weights against the penalised conditional likelihood written out here, and against what they are for."""

import builders
import numpy as np
import pytest
from builders import make_layout, make_world, plain
from oracles import log_normal
from scipy.optimize import minimize
from scipy.special import logsumexp

from fanbayes import NBClassifier
from fanbayes.data.table import EncodedTable
from fanbayes.data.views import View
from fanbayes.learning import feature_weights
from fanbayes.learning.e_step import posterior
from fanbayes.learning.feature_weights import HeldOut, learn_feature_weights, neutral

N_FEATURES, N_CLASSES = 4, 3


@pytest.fixture
def exact(monkeypatch):
    """To the last digit, not only as far as an average needs it."""
    monkeypatch.setattr(feature_weights, "TOLERANCE", 1e-15)
    monkeypatch.setattr(feature_weights, "MOST_STEPS", 2000)


def make_parts(kind, seeds=(0, 1), n=40):
    """Rows with labels drawn at random: weights have much to put right. The second has columns swapped."""
    orders = np.arange(N_FEATURES), np.array([1, 0, 3, 2])
    worlds = [make_world(s, kind, 2, levels=(2, 4), n_numbers=2, n=n, unlabelled=0.0) for s in seeds]
    parts = [HeldOut(w.table, w.network, order) for w, order in zip(worlds, orders)]
    return parts, worlds


def terms_of(world):
    """Log p(x_i | state) (n_rows, n_columns, n_states), 0 where missing, and log p(state)."""
    net, rows = plain(world.network), world.rows
    out = np.zeros((len(rows), 4, len(net.class_of)))
    for r in range(len(rows)):
        for s, cell in enumerate(net.cell_of):
            for i, code in enumerate(rows.codes[r]):
                out[r, i, s] = net.tables[i][code, cell] if code >= 0 else 0.0
            for i, x in enumerate(rows.numbers[r]):
                out[r, 2 + i, s] = 0.0 if np.isnan(x) else log_normal(x, net.mean[i, cell], net.sigma2[i, cell])
    return out, np.asarray(net.log_weight), np.array(net.class_of)


def penalised(parts, worlds):
    """Minus (E2), with what the module says it is shrunk by."""
    prepared = [(p.feature_of, w.rows, *terms_of(w)) for p, w in zip(parts, worlds)]

    def loss(x):
        w, b = x[:N_FEATURES], x[N_FEATURES:]
        total = 0.5 * feature_weights.SHRINK_WEIGHTS * np.sum((w - w.mean()) ** 2)
        total += 0.5 * feature_weights.SHRINK_MEAN * (w.mean() - 1) ** 2 + 0.5 * feature_weights.SHRINK_OFFSET * np.sum(
            b**2
        )
        for feature_of, rows, terms, log_weight, class_of in prepared:
            u = log_weight + b[class_of] + np.einsum("nis,i->ns", terms, w[feature_of])
            own = np.where(class_of == rows.labels[:, None], u, -np.inf)
            total -= rows.weights @ (logsumexp(own, axis=1) - logsumexp(u, axis=1))
        return float(total)

    return loss


def flat(found):
    return np.concatenate([found.weights, found.offset])


def slope(loss, x, h=1e-5):
    return np.array([(loss(x + h * e) - loss(x - h * e)) / (2 * h) for e in np.eye(len(x))])


@pytest.mark.parametrize("kind", ["nb", "fan", "ragged", "fm"])
def test_the_weights_are_a_constrained_maximum(kind, exact):
    parts, worlds = make_parts(kind)
    loss = penalised(parts, worlds)
    common, each = learn_feature_weights(parts, N_FEATURES, None)
    x = flat(each)
    gradient = slope(loss, x)
    lowest, highest = (np.append(each.weights == bound, [False] * 3) for bound in (0.0, feature_weights.MOST))
    assert np.abs(gradient[~lowest & ~highest]).max() < 1e-3
    assert (gradient[lowest] > -1e-3).all()
    assert (gradient[highest] < 1e-3).all()
    rng = np.random.default_rng(0)
    for size in (0.01, 0.1):
        for _ in range(10):
            other = x + size * rng.normal(size=len(x))
            other[:N_FEATURES] = np.clip(other[:N_FEATURES], 0, feature_weights.MOST)
            assert loss(other) > loss(x)
    assert np.ptp(common.weights) == 0.0
    assert loss(x) < loss(flat(common)) < loss(flat(neutral(N_FEATURES, N_CLASSES)))


def test_of_naive_bayes_it_is_the_only_one(exact):
    """One component makes it concave: scipy, without a gradient, comes to the same weights, and common weight."""
    parts, worlds = make_parts("nb", seeds=(2, 3))
    loss = penalised(parts, worlds)
    common, each = learn_feature_weights(parts, N_FEATURES, None)
    bounds = [(0, feature_weights.MOST)] * N_FEATURES + [(None, None)] * N_CLASSES
    options = {"ftol": 1e-14, "gtol": 1e-9}
    wanted = minimize(loss, np.full(7, 0.5), method="L-BFGS-B", bounds=bounds, options=options)
    np.testing.assert_allclose(flat(each), wanted.x, atol=1e-3)
    bounds = bounds[:1] + bounds[N_FEATURES:]
    alone = minimize(
        lambda z: loss(np.append([z[0]] * N_FEATURES, z[1:])), np.full(4, 0.5), method="L-BFGS-B", bounds=bounds
    )
    np.testing.assert_allclose(flat(common)[N_FEATURES - 1 :], alone.x, atol=1e-3)


@pytest.mark.parametrize("kind", ["nb", "fan", "per_class", "fm"])
@pytest.mark.parametrize("seed", range(4))
def test_never_below_the_common_weight(kind, seed):
    """As it is used, where the search ends early."""
    parts, worlds = make_parts(kind, seeds=(10 + seed, 20 + seed), n=12)
    loss = penalised(parts, worlds)
    common, each = learn_feature_weights(parts, N_FEATURES, None)
    assert loss(flat(each)) <= loss(flat(common)) + 1e-9
    assert loss(flat(common)) <= loss(flat(neutral(N_FEATURES, N_CLASSES))) + 1e-9
    for found in (common, each):
        assert ((found.weights >= 0) & (found.weights <= feature_weights.MOST)).all()


def test_row_weights_are_repetitions(exact):
    [part, _], [world, _] = make_parts("fan")
    weights = np.where(np.arange(40) % 3 == 0, 3.0, 1.0)
    base = part.table
    once = EncodedTable(base.layout, base.narrow, base.wide, base.numbers, base.labels, weights)
    rows = np.repeat(np.arange(40), weights.astype(int))
    repeated = EncodedTable(base.layout, base.narrow, base.wide, base.numbers, base.labels, None).only(rows)
    a, b = (
        learn_feature_weights([HeldOut(table, world.network, part.feature_of)], N_FEATURES, None)[1]
        for table in (once, repeated)
    )
    np.testing.assert_allclose(flat(a), flat(b), atol=1e-4)


# ---------------------------------------------------------------- what they are for


def naive_part(X, y, copies=1, labels=None):
    """Rows, and naive Bayes that takes each of the copies of a column for another one."""
    X = np.tile(X, copies)
    clf = NBClassifier(categorical_features="all").fit(X, y)
    table = EncodedTable(
        make_layout((2,) * X.shape[1], 0),
        X.astype(np.uint8),
        np.zeros((len(y), 0), dtype=np.uint16),
        np.zeros((len(y), 0)),
        (y if labels is None else labels).astype(np.int32),
    )
    return HeldOut(table, clf.network_, View(clf.schema_, None).feature_of)


def binary(n=3000, d=3, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    return (rng.random((n, d)) < 0.3 + 0.4 * y[:, None]).astype(int), y


@pytest.mark.parametrize("copies", [1, 2, 3])
def test_copies_of_a_feature_share_its_weight(copies):
    X, y = binary()
    _, each = learn_feature_weights([naive_part(X, y, copies)], 3 * copies, None)
    np.testing.assert_allclose(each.weights, 1 / copies, atol=0.12)
    np.testing.assert_allclose(each.weights.reshape(copies, 3).sum(axis=0), 1.0, atol=0.15)
    np.testing.assert_allclose(each.offset, 0.0, atol=0.1)


def test_only_what_is_counted_twice_loses_weight():
    """The first feature four times, the second once: their classes tell as much."""
    X, y = binary(8000, d=2)
    X = X[:, [0, 0, 0, 0, 1]]
    common, each = learn_feature_weights([naive_part(X, y)], 5, None)
    np.testing.assert_allclose(each.weights[:4], 0.25, atol=0.08)
    assert each.weights[4] > 0.8
    assert 0.25 < common.weights[0] < each.weights[4]


def test_the_bounds():
    X, y = binary()
    _, against = learn_feature_weights([naive_part(X, y, labels=1 - y)], 3, None)  # it tells the other class
    np.testing.assert_allclose(against.weights, 0.0, atol=0.05)
    part = naive_part(X, y)
    network = part.network
    timid = builders.changed(network, log_table=0.1 * builders.part(network, "log_table"))
    common, each = learn_feature_weights([HeldOut(part.table, timid, part.feature_of)], 3, None)
    for found in (common, each):
        np.testing.assert_allclose(found.weights, feature_weights.MOST)


def test_offsets_correct_the_class_odds():
    """A network that was told the wrong odds of the classes."""
    X, y = binary()
    part = naive_part(X, y)
    wrong = builders.changed(part.network, factors=part.network.factors + np.array([2.0, -2.0]))
    _, each = learn_feature_weights([HeldOut(part.table, wrong, part.feature_of)], 3, None)
    assert each.offset[1] - each.offset[0] == pytest.approx(4.0, abs=0.3)
    fixed = HeldOut(part.table, wrong, part.feature_of).weighted(each)
    found = posterior(part.table, fixed.terms, "proba", None)
    wanted = posterior(part.table, part.network.terms, "proba", None)
    np.testing.assert_allclose(found, wanted, atol=0.05)


def test_neutral_weights_are_the_network():
    [part, _], _ = make_parts("fan")
    found = posterior(part.table, part.weighted(neutral(N_FEATURES, N_CLASSES)).terms, "proba", None)
    np.testing.assert_allclose(found, posterior(part.table, part.network.terms, "proba", None), rtol=1e-12)
