"""Fine-tuned networks against (D1) written out here, by two E-steps in NumPy, and against logistic regression."""

from dataclasses import replace

import numpy as np
import pytest
from builders import KINDS, arrays, changed, make_world, part, plain
from oracles import log_normal
from scipy.optimize import minimize
from scipy.special import log_softmax, logsumexp

from fanbayes import _native
from fanbayes.learning import discriminative
from fanbayes.learning.discriminative import fine_tune
from fanbayes.learning.e_step import e_step, native_terms, posterior, thread_pool
from fanbayes.model.network import Model
from fanbayes.model.structure import fan

STRENGTH = 0.3


@pytest.fixture
def exact(monkeypatch):
    """To the last digit, not only as far as an average needs it."""
    monkeypatch.setattr(discriminative, "TOLERANCE", 1e-15)
    monkeypatch.setattr(discriminative, "MOST_STEPS", 5000)


def tuned(table, network, strength=STRENGTH):
    return fine_tune(table, network, [strength], None)[0]


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


def objective(network, origin, rows, strength=STRENGTH):
    """(D1): means in standard deviations."""
    step = network.factors - origin.factors, part(network, "log_table") - part(origin, "log_table")
    moved = sum(float((s**2).sum()) for s in step)
    moved += float(((part(network, "mean") - part(origin, "mean")) ** 2 / part(origin, "sigma2")).sum())
    return conditional(network, rows) - 0.5 * strength * moved


def at(origin, steps):
    """The network after steps in one row: of factors, then of each block."""
    ends = np.cumsum(
        [origin.factors.shape[1], *(p.block.n_steps * origin.structure.n_cells for p in origin.model.places)]
    )
    factors, *own, _ = np.split(steps, ends)
    parts = [p.block.move(*theta, x.reshape(1, p.block.n_steps, -1)) for (p, *theta), x in zip(origin.parts, own)]
    return origin.model.assemble(origin.factors + factors, parts)


def derivatives(statistics, network):
    """Of the log-likelihood that has these statistics, by the steps."""
    found = [statistics.states @ f.indicator for f in network.structure.factors]
    for p, *theta in network.parts:
        s = statistics.cells[0, p.statistics]
        if p.block.term == "lookup":
            counts = s.copy()
            counts[network.layout.missing_level] = 0.0
            found.append(counts)
        elif p.block.term == "normal":
            mean, sigma2 = (x[0] for x in p.block.unpack(*theta))
            found.append((s[1::3] - s[::3] * mean) / np.sqrt(sigma2))
        elif p.block.term == "regression":
            a, b, sigma2 = (x[0] for x in p.block.lines(*theta))
            n, x, _, r, rr, xr = (s[k::6] for k in range(6))
            found += [(x - n * a - b * r) / np.sqrt(sigma2), (xr - a * r - b * rr) / np.sqrt(sigma2)]
    return np.concatenate([x.ravel() for x in found])


def loss(steps, table, origin, strength):
    """Minus (D1), and its gradient: the difference of two E-steps, of the rows with their labels and without."""
    network, labelled = at(origin, steps), table.labelled_only()
    given, free = (e_step(t, network.terms, False, None) for t in (labelled, replace(labelled, labels=None)))
    value = float(free.log_likelihood[0] - given.log_likelihood[0]) + 0.5 * strength * float(steps @ steps)
    return value, derivatives(free, network) - derivatives(given, network) + strength * steps


def n_steps(network):
    return network.factors.shape[1] + sum(p.block.n_steps for p in network.model.places) * network.structure.n_cells


def with_entry(network, which, index, step):
    values = (network.factors if which == "factors" else part(network, which)).copy()
    values.reshape(-1)[index] += step
    return changed(network, **{which: values})


@pytest.mark.parametrize("kind", KINDS)
def test_the_maximum_is_one(kind, exact):
    """No derivative is left, by finite differences in every parameter that may move."""
    world = small_world(1, kind, n=15)
    found = tuned(world.table, world.network)
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
        value += 0.5 * STRENGTH * (moved**2).sum()
        return value, (gradient + STRENGTH * moved).ravel()

    wanted = minimize(loss, start.ravel(), jac=True, method="BFGS", options={"gtol": 1e-9}).x.reshape(start.shape)
    found = plain(tuned(world.table, world.network))
    np.testing.assert_allclose(np.vstack([found.log_weight, *found.tables]), wanted, atol=1e-4)
    assert np.abs(wanted - start).max() > 0.3


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_conditional_likelihood_is_never_lower(kind, seed):
    """As it is used, where the search ends early; and the network behind it is left as it was."""
    world = small_world(10 + seed, kind)
    before = [p.copy() for p in arrays(world.network)]
    found = tuned(world.table, world.network)
    assert conditional(found, world.rows) > conditional(world.network, world.rows)
    assert objective(found, world.network, world.rows) > objective(world.network, world.network, world.rows)
    for p, q in zip(arrays(world.network), before):
        np.testing.assert_array_equal(p, q)


def test_rows_without_a_label_are_left_out():
    world = small_world(3, "fan", n=40, unlabelled=0.5)
    assert 0 < (world.rows.labels < 0).sum() < 40
    alone = world.table.only(world.rows.labels >= 0)
    a, b = (tuned(t, world.network) for t in (world.table, alone))
    for p, q in zip(arrays(a), arrays(b)):
        np.testing.assert_array_equal(p, q)


def test_row_weights_are_repetitions(exact):
    world = small_world(4, "fan", n=20, unlabelled=0.0)
    weights = np.where(np.arange(20) % 2 == 0, 2.0, 1.0)
    once = replace(world.table, weights=weights)
    twice = replace(world.table, weights=None).only(np.repeat(np.arange(20), weights.astype(int)))
    a, b = (posterior(world.table, tuned(t, world.network).terms, "proba", None) for t in (once, twice))
    np.testing.assert_allclose(a, b, atol=1e-3)


def test_fused_codes_give_the_same(exact):
    world = make_world(5, "fan", 2, levels=(2, 2, 3), n_numbers=1, n=300)
    fused = world.table.fused()
    assert fused.narrow.shape[1] < 3
    a, b = (posterior(world.table, tuned(t, world.network).terms, "proba", None) for t in (world.table, fused))
    np.testing.assert_allclose(a, b, atol=1e-3)


# ---------------------------------------------------------------- one pass in the place of two


def contrast(table, terms, n_blocks=1, pool=None):
    return _native.contrast(table.rows, *native_terms(terms), n_blocks, pool)


def difference(table, terms):
    """What `contrast` is to find: two E-steps."""
    labelled = table.labelled_only()
    given, free = (e_step(t, terms, False, None) for t in (labelled, replace(labelled, labels=None)))
    return given, free


@pytest.mark.parametrize("backend", _native.backends())
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_components", [1, 2, 3, 5, 9, 12, 17, 40])
def test_one_pass_is_the_difference_of_two(kind, n_components, backend):
    """Weights, holes, unlabelled rows, wide codes, regressions and every width of vector."""
    world = make_world(n_components, kind, n_components, n=70, n_regressions=2)
    before = _native.backend()
    _native.use_backend(backend)
    states, cells, of_class, sums = contrast(world.table, world.network.terms)
    given, free = difference(world.table, world.network.terms)
    _native.use_backend(before)
    np.testing.assert_allclose(states, given.states - free.states, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(cells, given.cells - free.cells, rtol=1e-9, atol=1e-10)
    assert sums[0] == pytest.approx(given.log_likelihood - free.log_likelihood, rel=1e-11)
    assert of_class.sum() == pytest.approx(sums[0, 0], rel=1e-11)
    assert sums[0, 0] == pytest.approx(conditional_of(world), rel=1e-9)


def conditional_of(world):
    joint = posterior(world.table, world.network.terms, "log_joint", None)
    own = np.take_along_axis(log_softmax(joint, axis=1), np.maximum(world.rows.labels, 0)[:, None], axis=1)[:, 0]
    return float((world.rows.weights * own)[world.rows.labels >= 0].sum())


@pytest.mark.parametrize("kind", KINDS)
def test_the_gradient_is_the_slope(kind):
    """By finite differences in every step, away from the origin."""
    world = make_world(6, kind, 2, levels=(2, 3), n_numbers=1, n_regressions=1, n=30)
    rng = np.random.default_rng(0)
    steps = 0.3 * rng.normal(size=n_steps(world.network))
    value, gradient = loss(steps, world.table, world.network, STRENGTH)
    network = at(world.network, steps)
    *_, sums = contrast(world.table, network.terms)
    assert 0.5 * STRENGTH * steps @ steps - sums[0, 0] == pytest.approx(value, rel=1e-11)
    for along in rng.normal(size=(5, len(steps))):
        high, low = (loss(steps + h * along, world.table, world.network, STRENGTH)[0] for h in (1e-5, -1e-5))
        assert (high - low) / 2e-5 == pytest.approx(gradient @ along, rel=1e-5)


def test_states_that_vanish_beside_others():
    """A class far less probable than 1e-308 still has components, and a log probability."""
    world = make_world(7, "per_class", 3, levels=(2,), n_numbers=2, n=40, missing=0.1)
    far = replace(world.table, numbers=world.table.numbers * 100)
    states, cells, _, sums = contrast(far, world.network.terms)
    given, free = difference(far, world.network.terms)
    assert sums[0, 0] < -1e4
    assert sums[0] == pytest.approx(given.log_likelihood - free.log_likelihood, rel=1e-11)
    np.testing.assert_allclose(states, given.states - free.states, atol=1e-9)
    np.testing.assert_allclose(cells, given.cells - free.cells, rtol=1e-9, atol=1e-7)


# ---------------------------------------------------------------- the search


def steps_of(network, origin):
    """Inverse of `at`."""
    found = [network.factors - origin.factors]
    for (p, *theta), (_, *before) in zip(network.parts, origin.parts):
        if p.block.term == "lookup":
            found.append(theta[0] - before[0])
        else:
            (a, _), (b, sigma2) = p.block.unpack(*theta), p.block.unpack(*before)
            found.append((a - b) / np.sqrt(np.concatenate([sigma2] * len(p.block.precisions), axis=1)))
    return np.concatenate([x.ravel() for x in found])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("strength", [3.0, 0.1])
def test_the_optimum_is_scipys(kind, strength, exact):
    """The same one where the problem is convex or nearly so; else, there is nothing for scipy to gain."""
    world = make_world(20, kind, 2, levels=(2, 3), n_numbers=1, n_regressions=1, n=60)
    arguments = (world.table, world.network, strength)
    options = {"maxiter": 5000, "maxfun": 50_000, "ftol": 1e-15, "gtol": 1e-9}
    found = steps_of(tuned(*arguments), world.network)
    start = np.zeros_like(found) if kind == "nb" or strength == 3.0 else found
    wanted = minimize(loss, start, arguments, jac=True, method="L-BFGS-B", options=options)
    assert loss(found, *arguments)[0] == pytest.approx(wanted.fun, rel=1e-11)
    np.testing.assert_allclose(found, wanted.x, atol=1e-4)
    assert np.abs(found).max() > 0.1


@pytest.mark.parametrize("kind", KINDS)
def test_a_path_ends_where_each_strength_alone_ends(kind, exact):
    """All are shrunk towards the same network; weaker ones go farther."""
    world = small_world(30, kind, n=40)
    strengths = [3.0, 1.0, 0.3]
    path = fine_tune(world.table, world.network, strengths, None)
    far = [np.linalg.norm(steps_of(network, world.network)) for network in path]
    assert far == sorted(far)
    for network, strength in zip(path, strengths):
        alone = tuned(world.table, world.network, strength)
        one, other = (objective(n, world.network, world.rows, strength) for n in (network, alone))
        assert one == pytest.approx(other, rel=1e-8) if kind == "nb" else one > other - 0.5
    assert fine_tune(world.table, world.network, [], None) == []


def test_threads_do_not_change_a_bit():
    world = make_world(40, "fan", 8, levels=(3,) * 6, n_numbers=6, n=6000)
    alone = fine_tune(world.table, world.network, [0.3, 0.03], None)
    for n_threads in (2, 5):
        shared = fine_tune(world.table, world.network, [0.3, 0.03], thread_pool(n_threads))
        for a, b in zip(alone, shared):
            for p, q in zip(arrays(a), arrays(b)):
                np.testing.assert_array_equal(p, q)


HARD = {
    "one row": lambda t: t.only(np.array([0])),
    "no row": lambda t: t.only(np.array([], dtype=np.intp)),
    "one class": lambda t: replace(t, labels=np.zeros_like(t.labels)),
    "constant columns": lambda t: replace(t, narrow=np.zeros_like(t.narrow), numbers=np.ones_like(t.numbers)),
    "nothing known": lambda t: replace(
        t, narrow=np.tile(t.layout.n_levels.astype(np.uint8), (t.n_rows, 1)), numbers=np.full_like(t.numbers, np.nan)
    ),
    "huge": lambda t: replace(t, numbers=t.numbers * 1e8),
    "vast": lambda t: replace(t, numbers=t.numbers * 1e100),
    "heavy": lambda t: replace(t, weights=np.full(t.n_rows, 1e12)),
    "light": lambda t: replace(t, weights=np.full(t.n_rows, 1e-12)),
    "no labels": lambda t: replace(t, labels=None),
}


@pytest.mark.parametrize("name", HARD)
@pytest.mark.parametrize("kind", ["nb", "fan", "fm"])
def test_hard_rows(kind, name):
    """All finite, and never below the start."""
    world = make_world(50, kind, 3, levels=(2, 3), n=30)
    table = HARD[name](world.table)
    for found in fine_tune(table, world.network, [0.3, 1e-6], None):
        assert all(np.isfinite(x).all() for x in arrays(found))
        before, after = (contrast(table, n.terms)[3][0, 0] for n in (world.network, found))
        assert after >= before - 1e-9 * abs(before)


def test_counts_stay_as_they_are():
    """Rates do not move, the rest does beside them."""
    world = small_world(60, "fan", n=40, unlabelled=0.0, missing=0.0)
    layout = replace(world.table.layout, distributions=("gaussian", "poisson"), means=(0.0, 2.0))
    table = replace(world.table, layout=layout, numbers=np.abs(np.round(2 * world.table.numbers)))
    model = Model(fan([2] * 3, "shared"), layout, world.network.model.options)
    statistics = e_step(table, world.network.terms, False, None)
    origin = model.estimate(statistics)
    found = tuned(table, origin)
    rates = model.places[-1]
    assert rates.block.term == "linear"
    np.testing.assert_array_equal(found.cells[:, rates.rows], origin.cells[:, rates.rows])
    before, after = (contrast(table, n.terms)[3][0, 0] for n in (origin, found))
    assert after > before + 0.1


def test_arguments_are_checked():
    world = small_world(70, "fan")
    with pytest.raises(ValueError, match="strengths are positive"):
        fine_tune(world.table, world.network, [0.3, 0.0], None)
