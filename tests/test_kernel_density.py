"""Kernel densities against loops over centres, finite differences, and what the module promises."""

import math
from dataclasses import replace

import numpy as np
import pytest
from builders import encode, make_layout, random_rows
from oracles import Rows

from fanbayes import NBClassifier, _native
from fanbayes.data.sources import array_sources
from fanbayes.data.table import learn_table
from fanbayes.data.views import View
from fanbayes.explanation.contributions import explain
from fanbayes.learning import kernel_density
from fanbayes.learning.e_step import posterior
from fanbayes.learning.kernel_density import fit_kernel
from fanbayes.learning.predictor import NetworkPredictor
from fanbayes.model.blocks.normal import LOG_2PI
from fanbayes.model.state import FAN, network_state, read_network

LEVELS, N_NUMBERS, N_CLASSES = (2, 4), 2, 3


def a_table(seed=0, n=40, levels=LEVELS, n_numbers=N_NUMBERS, n_classes=N_CLASSES, **options):
    rows = random_rows(np.random.default_rng(seed), levels, n_numbers, n_classes, n, **options)
    return encode(rows, make_layout(levels, n_numbers))


def predicted(network, table):
    return posterior(table, network.terms, "log_proba", None)


def own_score(table, log_proba):
    return log_proba[np.arange(table.n_rows), table.labels]


# ---------------------------------------------------------------- the native sums


def some_centres(seed=0, n_rows=9, n=37):
    """Centres with holes, rows some of which are of a centre's kind, and any terms."""
    rng = np.random.default_rng(seed)

    def values(n):
        x = np.concatenate([rng.normal(size=(n, 2)), rng.integers(0, (2, 4), (n, 2))], axis=1)
        return np.where(rng.random(x.shape) < 0.15, np.nan, x)

    first = [0, 15, 15, n]  # the second class has none
    share = rng.choice([0.5, 1.0, 3.0], n)
    kept = np.where(rng.random(n) < 0.5, 0.0, 0.4 * share)
    kind = rng.integers(0, 30, n).astype(np.int32)
    given = {"values": values(n), "first": first, "share": share, "kept": kept, "kind": kind, "prior": [0.5, 0.2, 0.3]}
    rows = values(n_rows), rng.integers(-1, 30, n_rows).astype(np.int32)
    terms = [rng.gamma(2.0, size=(2, 3)), rng.normal(size=8), rng.normal(size=2), rng.normal()]
    return given, rows, terms


def native(given):
    return _native.Centres(
        np.ascontiguousarray(given["values"].T),
        2,
        [0, 3, 8],
        given["first"],
        given["share"],
        given["kept"],
        given["kind"],
        30,
        given["prior"],
    )


def log_ratio(x, m, terms):
    """What the columns add up to, one by one."""
    numbers, same, other, _ = terms
    total = 0.0
    for i in range(4):
        if math.isnan(x[i]) or math.isnan(m[i]):
            continue
        if i < 2:
            a, b, k = numbers[i]
            total += k + b * x[i] ** 2 - a * (x[i] - m[i]) ** 2
        else:
            total += same[(0, 3)[i - 2] + int(x[i])] if x[i] == m[i] else other[i - 2]
    return total


def enumerated(given, rows, terms):
    """Log of prior (background + mean ratio), by loops."""
    out = np.empty((len(rows[0]), 3))
    for n, (x, kind) in enumerate(zip(*rows)):
        for c in range(3):
            total = weight = 0.0
            for m in range(given["first"][c], given["first"][c + 1]):
                share = given["kept"][m] if given["kind"][m] == kind else given["share"][m]
                total += share * math.exp(log_ratio(x, given["values"][m], terms))
                weight += share
            out[n, c] = math.log(given["prior"][c] * (math.exp(terms[3]) + (total / weight if weight else 0.0)))
    return out


def losses(log_joint, labels, weights, prior, noise):
    p = np.exp(log_joint) / np.exp(log_joint).sum(axis=1, keepdims=True)
    right = (1 - noise) * p[np.arange(len(p)), labels] + noise * np.asarray(prior)[labels]
    return -(weights @ np.log(right))


@pytest.fixture(params=_native.backends())
def backend(request):
    before = _native.backend()
    _native.use_backend(request.param)
    yield request.param
    _native.use_backend(before)


@pytest.mark.parametrize("seed", range(3))
def test_densities_are_those_of_loops_over_the_centres(seed, backend):
    given, rows, terms = some_centres(seed)
    np.testing.assert_allclose(native(given).log_joint(*rows, *terms), enumerated(given, rows, terms), rtol=1e-12)


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_gradient_is_that_of_finite_differences(noise, backend):
    given, rows, terms = some_centres(5)
    rng = np.random.default_rng(6)
    labels, weights = rng.choice([0, 2], len(rows[0])).astype(np.int32), rng.gamma(2.0, size=len(rows[0]))

    def plain(terms):
        return losses(enumerated(given, rows, terms), labels, weights, given["prior"], noise)

    value, *gradient = native(given).loss(*rows, *terms, labels, weights, noise)
    assert value == pytest.approx(plain(terms), rel=1e-12)
    for k, found in enumerate(gradient):
        found = np.asarray(found)
        for at in np.ndindex(found.shape):
            ends = []
            for step in (1e-5, -1e-5):
                moved = [np.array(t) for t in terms]
                moved[k][at] += step
                ends.append(plain(moved))
            assert found[at] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-6, abs=1e-8)


def test_chain_to_bandwidths_is_that_of_finite_differences():
    background = kernel_density._background(a_table())
    rng = np.random.default_rng(0)
    found = kernel_density.Bandwidths(rng.normal(size=2), rng.normal(size=2), 0.0)
    weights = [rng.normal(size=x.shape) for x in background.terms(found)]

    def total(bandwidths):
        return sum(np.sum(w * x) for w, x in zip(weights, background.terms(bandwidths)))

    for name, gradient in zip(("log_h", "logit_l"), background.chain(found, *weights)):
        for i in range(2):
            step = np.eye(2)[i] * 1e-5
            ends = [total(replace(found, **{name: getattr(found, name) + s})) for s in (step, -step)]
            assert gradient[i] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-6)


def test_refuses_what_does_not_fit_together():
    given, rows, terms = some_centres()
    good = native(given)
    with pytest.raises(ValueError, match="a code lies outside of its column"):
        good.log_joint(np.full((1, 4), 7.0), rows[1][:1], *terms)
    with pytest.raises(ValueError, match="a kind lies outside of the kinds"):
        good.log_joint(rows[0][:1], np.array([30], dtype=np.int32), *terms)
    with pytest.raises(ValueError, match="shares are positive"):
        native(given | {"share": 0 * given["share"]})
    with pytest.raises(ValueError, match="a label lies outside of the classes"):
        good.loss(rows[0][:1], rows[1][:1], *terms, np.array([3], dtype=np.int32), np.ones(1), 0.1)


# ---------------------------------------------------------------- the network


@pytest.mark.parametrize("levels", [LEVELS, (), (3, 300)])
def test_network_says_of_rows_without_a_label_what_the_kernels_do(levels):
    """Two ways to the same: states of a FAN with a component a centre, and sums over centres."""
    table = a_table(1, levels=levels)
    network, found = fit_kernel(table, N_CLASSES, 0)
    free = table.labels < 0
    np.testing.assert_allclose(predicted(network, table)[free], found[free], atol=1e-10)
    assert (np.bincount(network.structure.class_of) == np.bincount(table.labels[~free]) + 1).all()


def test_a_kernel_is_what_the_module_says():
    """Around a number a normal density, around a level its share and frequencies; where one lacks, background."""
    numbers = np.array([[-1.0], [1.0], [np.nan]])
    codes = np.array([[0], [-1], [1]])
    table = encode(Rows(codes, numbers, np.array([0, 0, 0]), np.ones(3)), make_layout((3,), 1))
    network, _ = fit_kernel(table, 1, 0)
    number, level = network.column(1), network.column(0)
    mean, variance = (x[0] for x in number.traits())
    h2 = variance.min()
    order = np.argsort(mean[:3])  # -1, the one that has none, 1
    np.testing.assert_allclose(mean[order], [-1, 0, 1], atol=1e-15)
    np.testing.assert_allclose(variance[order], [h2, 1 + h2, h2])
    frequency = np.array([2, 2, 1]) / 5
    p, _ = level.traits()
    np.testing.assert_allclose(p[:, 3], frequency)  # the background
    np.testing.assert_allclose(p[:, order[2]], frequency)
    share = p[2, order[0]] / frequency[2]
    np.testing.assert_allclose(p[:, order[0]], share * frequency + (1 - share) * np.array([1, 0, 0]))
    assert 0 < share < 1
    assert network.terms.numeric[0, 0, 2, order[0]] == pytest.approx(-0.5 * (LOG_2PI + math.log(h2)))


def test_far_from_all_centres_it_is_the_prior():
    table = a_table(2, levels=(), unlabelled=0.0, missing=0.0)
    network, _ = fit_kernel(table, N_CLASSES, 0)
    far = replace(table.only(np.arange(1)), numbers=np.full((1, 2), 500.0), labels=None)
    cases = np.bincount(table.labels, table.weights) + 1
    np.testing.assert_allclose(np.exp(predicted(network, far))[0], cases / cases.sum(), rtol=1e-9)


def a_schema_and_table():
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(60, 3)), 2)
    X[rng.random(X.shape) < 0.1] = np.nan
    X[:, 2] = rng.integers(0, 3, 60)
    y = (rng.random(60) < 0.5).astype(np.int32)
    return learn_table(list(array_sources(X, ["a", "b", "c"])), [False, False, True], None, y, None)


def test_it_is_a_network_like_any_other():
    """Saved and read, sampled from, explained."""
    schema, table = a_schema_and_table()
    network, _ = fit_kernel(table.fused(), 2, 0)
    structure, arrays = network_state(network)
    again = read_network(structure, arrays, schema, 2, FAN, bounded=True)
    assert (predicted(again, table) == predicted(network, table)).all()
    predictor = NetworkPredictor(View(schema, None), network)
    columns, classes = predictor.sample(50, np.random.default_rng(0))
    assert len(columns) == 3
    assert set(classes) == {0, 1}
    states = posterior(table, network.terms, "states", None)
    told = explain(network, schema, table, states, np.array(["no", "yes"]), ["yes", "no"])
    log_odds = predicted(network, table) @ [-1, 1]
    np.testing.assert_allclose(told.prior + told.contributions.sum(axis=1), log_odds, atol=1e-9)


# ---------------------------------------------------------------- rows without their own kernel


def test_a_row_is_judged_without_its_copies():
    """Classes are drawn at random, so that whoever vouched for its own class would look better than the prior."""
    rng = np.random.default_rng(0)
    rows = Rows(np.zeros((60, 0), dtype=int), rng.normal(size=(60, 2)), rng.integers(0, 2, 60), np.ones(60))
    once = encode(rows, make_layout((), 2))
    twice = once.only(np.repeat(np.arange(60), 2))
    _, found = fit_kernel(twice, 2, 0)
    assert own_score(twice, found).mean() < math.log(0.5)
    assert own_score(twice, found).mean() == pytest.approx(own_score(once, fit_kernel(once, 2, 0)[1]).mean(), abs=0.05)


def test_other_rows_are_judged_in_place_of_those_left_out():
    table = a_table(n=60)
    network, log_proba = fit_kernel(table, N_CLASSES, 0)
    order = np.random.default_rng(0).permutation(60)[:40]
    same, found = fit_kernel(table, N_CLASSES, 0, None, (table.only(order), order))
    np.testing.assert_array_equal(found, log_proba[order])
    np.testing.assert_array_equal(predicted(same, table), predicted(network, table))
    _, moved = fit_kernel(table, N_CLASSES, 0, None, (table.only(order), order[::-1]))
    assert own_score(table.only(order), moved).mean() > own_score(table.only(order), found).mean() + 0.1


def test_equal_cases_of_discrete_columns_may_tell_of_each_other():
    codes = np.tile(np.arange(4), 20)[:, None]
    rows = Rows(codes, np.zeros((80, 0)), codes[:, 0] % 2, np.ones(80))
    table = encode(rows, make_layout((4,), 0))
    _, found = fit_kernel(table, 2, 0)
    assert own_score(table, found).mean() > -0.2


@pytest.mark.parametrize(("levels", "n_numbers"), [((2, 3), 1), ((2, 2, 3), 0)])
def test_a_row_of_weight_two_is_the_row_twice(levels, n_numbers):
    table = a_table(3, levels=levels, n_numbers=n_numbers, weighted=False, unlabelled=0.0)
    weights = np.random.default_rng(0).integers(1, 4, table.n_rows)
    weighted = replace(table, weights=weights.astype(float))
    repeated = table.only(np.repeat(np.arange(table.n_rows), weights))
    (one, one_found), (other, other_found) = (fit_kernel(t, N_CLASSES, 0) for t in (weighted, repeated))
    np.testing.assert_allclose(predicted(one, table), predicted(other, table), atol=1e-6)
    np.testing.assert_allclose(np.repeat(one_found, weights, axis=0), other_found, atol=1e-6)


def test_order_of_the_rows_does_not_matter():
    table = a_table(4)
    order = np.random.default_rng(0).permutation(table.n_rows)
    found, shuffled = (fit_kernel(t, N_CLASSES, 0)[1] for t in (table, table.only(order)))
    np.testing.assert_allclose(found[order], shuffled, atol=1e-6)


# ---------------------------------------------------------------- what is learnt


def test_bandwidths_tell_columns_that_matter_from_others():
    """Of exclusive or, which no naive Bayes can see, and of columns that say nothing."""
    rng = np.random.default_rng(0)
    numbers, codes = rng.normal(size=(300, 4)), rng.integers(0, 2, (300, 2))
    y = (numbers[:, 0] * numbers[:, 1] > 0) ^ (codes[:, 0] == 1)
    table = encode(Rows(codes, numbers, y.astype(int), np.ones(300)), make_layout((2, 2), 4))
    network, found = fit_kernel(table, 2, 0)
    assert own_score(table, found).mean() > -0.45
    h = np.sqrt(np.array([network.column(2 + j).traits()[1].min() for j in range(4)]))
    assert h[:2].max() < 0.5 * h[2:].min()
    own = [network.column(j).traits()[0].max() for j in range(2)]  # probability of a centre's level
    assert own[0] > own[1]


def test_judgement_is_not_flattered_by_learning():
    """Of many columns that say nothing, bandwidths find some that seem to; rows are judged without having helped."""
    rng = np.random.default_rng(1)
    rows = Rows(np.zeros((60, 0), dtype=int), rng.normal(size=(60, 30)), rng.integers(0, 2, 60), np.ones(60))
    table = encode(rows, make_layout((), 30))
    _, found = fit_kernel(table, 2, 0)
    assert own_score(table, found).mean() < math.log(0.5)


def test_most_centres(monkeypatch):
    """Some of the rows, a rare class not forgotten, chosen by the seed alone; the weights of the classes stay."""
    monkeypatch.setattr(kernel_density, "MOST_CENTRES", 40)
    table = a_table(5, n=400, unlabelled=0.0, weighted=False)
    table = replace(table, labels=np.where(np.arange(400) < 390, 0, 1).astype(np.int32))
    network, found = fit_kernel(table, 3, 0)
    sizes = np.bincount(network.structure.class_of) - 1
    assert sizes.tolist() == [30, 10, 0]
    np.testing.assert_allclose(network.class_marginal(), np.array([391, 11, 1]) / 403)
    again, other = (fit_kernel(table, 3, seed) for seed in (0, 1))
    assert (again[1] == found).all()
    assert (other[1] != found).any()
    plain = predicted(network, table)
    assert (np.abs(plain - found).max(axis=1) > 1e-9).any()


# ---------------------------------------------------------------- hard input


@pytest.mark.parametrize(
    ("table", "n_classes"),
    [
        pytest.param(a_table(n=1, n_classes=1, missing=0.0), 1, id="one row"),
        pytest.param(a_table(n=1, n_classes=1, missing=0.0), 3, id="one row of three classes"),
        pytest.param(a_table(n=30, n_classes=1), 1, id="one class"),
        pytest.param(a_table(n=20, missing=1.0), N_CLASSES, id="all missing"),
        pytest.param(a_table(n=20, levels=(), n_numbers=0), N_CLASSES, id="no columns"),
        pytest.param(a_table(n=60, n_classes=50), 50, id="50 classes"),
        pytest.param(a_table(n=150, levels=(2,) * 1000, n_numbers=1000), N_CLASSES, id="2,000 columns"),
        pytest.param(replace(a_table(), labels=None), N_CLASSES, id="no labels"),
        pytest.param(replace(a_table(), numbers=np.zeros((40, 2))), N_CLASSES, id="constant numbers"),
        pytest.param(replace(a_table(), numbers=np.outer(np.arange(40.0) == 0, [1e100, -1e100])), 3, id="1e100"),
        pytest.param(replace(a_table(), weights=np.full(40, 1e-6)), N_CLASSES, id="weights of a millionth"),
    ],
)
def test_hard_input(table, n_classes):
    network, found = fit_kernel(table, n_classes, 0)
    assert found.shape == (table.n_rows, n_classes)
    plain = predicted(network, table)
    for log_proba in (plain, found):
        assert np.isfinite(log_proba).all()
        np.testing.assert_allclose(np.exp(log_proba).sum(axis=1), 1.0)
    bounded = [network.column(k).traits()[1] for k in range(table.layout.n_discrete + table.layout.n_numbers)]
    assert all((v > 1e-16).all() for v in bounded)


@pytest.mark.parametrize("symbols", [False, True])
def test_rows_are_judged_without_those_of_their_group(symbols):
    """Five rows of each of twelve people, who have a class: alike, but of no use for others."""
    rng = np.random.default_rng(0)
    person, y = np.repeat(np.arange(12), 5), np.repeat(rng.permutation(12) % 2, 5)
    X = rng.normal(size=(12, 4))[person] + 0.1 * rng.normal(size=(60, 4))
    X = np.where(X > 0, "b", "a").astype(object) if symbols else X
    rows = NBClassifier()._cases(X, y, None).training_table()
    _, alone = fit_kernel(rows.table, 2, 0)
    network, together = fit_kernel(rows.table, 2, 0, person)
    truth = np.arange(60), y
    assert alone[truth].mean() > np.log(0.5)
    assert together[truth].mean() < np.log(0.5)
    assert network.structure.n_states == 60 + 2 if not symbols else network.structure.n_states <= 60 + 2
    order = rng.permutation(60)
    moved = fit_kernel(rows.table.only(order), 2, 0, person[order])[1]
    np.testing.assert_allclose(moved, together[order], atol=1e-6)
