"""Regressions of one number on another inside a cell: the block's formulas, tables of pairs, and EM with them."""

import math
from dataclasses import fields, replace

import builders
import numpy as np
import oracles
import pytest
from scipy import stats

from fanbayes import NBClassifier, _native
from fanbayes.data.schema import Column
from fanbayes.data.table import EncodedTable
from fanbayes.learning.data import InMemoryData
from fanbayes.learning.e_step import e_step, posterior, thread_pool
from fanbayes.learning.em import Problem, initial_state, run_em
from fanbayes.learning.selection import Search, select
from fanbayes.model.blocks import BLOCKS, EstimationOptions
from fanbayes.model.blocks.linear_gaussian import LAMBDA, LinearGaussian
from fanbayes.model.blocks.normal import KAPPA, A, B
from fanbayes.model.structure import naive_bayes

TYING = ("none", "class", "all")


class WithoutPrior(LinearGaussian):
    precisions = (1e-13, 1e-13)


class WithoutSlope(LinearGaussian):
    precisions = (KAPPA, 1e15)


def of_one_cell(kind=LinearGaussian, floor=1e-9):
    return kind(1, 1, floor, None)


def products(x, p, w=None):
    """Statistics of one pair and one cell, (6, 1)."""
    w = np.ones(len(x)) if w is None else w
    return np.array([[(w * product).sum()] for product in (np.ones_like(x), x, x * x, p, p * p, x * p)])


def line(n, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.normal(0.4, 1.1, n)
    return 0.3 - 0.8 * p + rng.normal(0, 0.5, n), p, rng.choice([0.5, 1.0, 2.0], n)


# ---------------------------------------------------------------- estimation


def test_without_a_prior_it_is_least_squares():
    x, p, w = line(40)
    intercept, slope, sigma2 = of_one_cell(WithoutPrior).lines(*of_one_cell(WithoutPrior).estimate(products(x, p, w)))
    wanted = np.polyfit(p, x, 1, w=np.sqrt(w))
    np.testing.assert_allclose([slope.item(), intercept.item()], wanted, rtol=1e-10)
    squares = (w * (x - np.polyval(wanted, p)) ** 2).sum()
    assert sigma2.item() == pytest.approx((2 * B + squares) / (w.sum() + 2 * A + 4), rel=1e-10)


@pytest.mark.parametrize("n", [0, 1, 2, 7, 300])
@pytest.mark.parametrize("floor", [1e-9, 0.5])
def test_the_estimate_is_least_squares_with_the_prior_as_rows(n, floor):
    x, p, w = line(n)
    block, prior = of_one_cell(floor=floor), builders.oracle_prior(builders.MAP)
    wanted = oracles.line_estimate(np.column_stack([x, p]), w, prior, floor)
    np.testing.assert_allclose(np.ravel(block.lines(*block.estimate(products(x, p, w)))), wanted, rtol=1e-9, atol=1e-12)


def test_where_the_slope_is_nought_it_is_the_normal_block():
    """But for the divisor of the variance, in which the slope counts."""
    x, p, w = line(12)
    sums, flat, normal = products(x, p, w), of_one_cell(WithoutSlope), BLOCKS["gaussian"](1, 1, 1e-9, None)
    intercept, slope, sigma2 = np.ravel(flat.lines(*flat.estimate(sums)))
    mean, variance = np.ravel(normal.unpack(*normal.estimate(sums[:3])))
    assert slope == pytest.approx(0.0, abs=1e-12)
    assert intercept == pytest.approx(mean, rel=1e-12)
    assert sigma2 * (w.sum() + 2 * A + 4) == pytest.approx(variance * (w.sum() + 2 * A + 3), rel=1e-10)
    assert flat.log_marginal(sums) == pytest.approx(normal.log_marginal(sums[:3]), rel=1e-10)


def test_the_prior_is_scipys():
    sigma2 = 0.6
    wanted = stats.norm.logpdf(0.4, 0, math.sqrt(sigma2 / KAPPA)) + stats.norm.logpdf(
        -1.2, 0, math.sqrt(sigma2 / LAMBDA)
    )
    wanted += stats.invgamma.logpdf(sigma2, A, scale=B)
    assert of_one_cell().log_prior(np.array([[0.4], [-1.2], [sigma2]]), np.zeros(0)) == pytest.approx(wanted)


def test_the_marginal_is_the_product_of_student_predictions():
    """x_n | what came before is Student's t around the line so far, with 2 a degrees of freedom."""
    x, p, _ = line(25)
    precision, moment, squares, log_p = np.diag([KAPPA, LAMBDA]), np.zeros(2), 0.0, 0.0
    for n, (value, at) in enumerate(zip(x, p)):
        z, a = np.array([1.0, at]), A + n / 2
        mean = np.linalg.solve(precision, moment)
        b = B + 0.5 * (squares - moment @ mean)
        scale = math.sqrt(b / a * (1 + z @ np.linalg.solve(precision, z)))
        log_p += stats.t.logpdf(value, 2 * a, z @ mean, scale)
        precision, moment, squares = precision + np.outer(z, z), moment + value * z, squares + value**2
    assert of_one_cell().log_marginal(products(x, p)) == pytest.approx(log_p)


def test_the_marginal_is_the_integral():
    """Over intercept, slope and log variance, by Gauss-Legendre rules."""
    sums, block = products(np.array([0.3, -1.2, 0.9]), np.array([0.1, 1.0, -0.7])), of_one_cell()
    points, weights = np.polynomial.legendre.leggauss(70)
    ends = np.array([[-9.0, 9.0], [-9.0, 9.0], [-6.0, 6.0]])
    axes = ends.mean(axis=1)[:, None] + np.diff(ends) / 2 * points
    intercept, slope, log_sigma2 = (g.ravel() for g in np.meshgrid(*axes, indexing="ij"))
    cells = np.stack([intercept, slope, np.exp(log_sigma2)], axis=1)[:, :, None]
    shared = np.zeros((len(cells), 0))
    log_density = block.log_likelihood(np.broadcast_to(sums, (len(cells), 6, 1)), cells, shared)[:, 0]
    density = np.exp(log_density + block.log_prior(cells, shared) + log_sigma2)
    weight = np.einsum("i,j,k->ijk", weights, weights, weights).ravel() * np.prod(np.diff(ends) / 2)
    assert float(block.log_marginal(sums)) == pytest.approx(math.log(density @ weight), abs=1e-3)


@pytest.mark.parametrize(
    ("x", "p"),
    [
        ([0.3, -1.0, 2.0], [1.5, 1.5, 1.5]),  # a regressor that is constant
        ([0.7], [-2.0]),
        ([], []),
        ([0.7, 0.7], [1.0, 2.0]),
        ([1e100, -1e100, 0.0], [1.0, 2.0, -1.0]),
        ([1.0, 2.0, -1.0], [1e100, -1e100, 0.0]),
        ([1e100, -1e100, 3.0], [1e100, 1e100, -1e100]),
        ([1e-100, 2e-100], [1e-100, -1e-100]),
        ([1e8, 1e8 + 1], [1e8, 1e8 - 1]),
    ],
    ids=str,
)
def test_hard_values(x, p):
    block, sums = of_one_cell(), products(np.array(x, dtype=float), np.array(p, dtype=float))
    theta = block.estimate(sums)
    _, _, sigma2 = block.lines(*theta)
    assert (sigma2 > 0).all()
    free = block.project(*block.unconstrain(*theta))
    for found in (*theta, block.log_prior(*theta), block.log_likelihood(sums, *theta), block.log_marginal(sums), *free):
        assert np.isfinite(found).all()
    terms = block.kernel_terms(*theta)
    assert np.isfinite(terms).all()


def test_a_regressor_that_is_constant_tells_nothing():
    """The line passes through the mean of the response there."""
    x, block = np.array([0.3, -1.0, 2.0, 0.4]), of_one_cell()
    theta = block.estimate(products(x, np.full(4, 1.5)))
    mean, sigma2 = block.traits(*theta, 0, 1.5, 0.0)
    assert mean.item() == pytest.approx(x.mean(), rel=0.01)
    assert abs(block.lines(*theta)[1].item()) < 0.02
    assert sigma2.item() == pytest.approx((2 * B + 4 * x.var()) / (4 + 2 * A + 4), rel=0.01)


def test_damaged_parameters_are_named():
    block = of_one_cell()
    assert block.flaw(np.array([[0.0], [1.0], [1.0]]), np.zeros(0), True) is None
    for bad, word in (([1e101, 0, 1], "intercept"), ([0, 1e21, 1], "slope"), ([0, 0, 1e-61], "variance")):
        assert word in block.flaw(np.array(bad, dtype=float)[:, None], np.zeros(0), True)


# ---------------------------------------------------------------- what is known of the regressor


def test_what_a_column_is_like_follows_from_its_regressor():
    """Response and regressor drawn one after the other have the moments and the density that are told."""
    network = builders.make_world(0, "fan", 2, levels=(), n_numbers=1, n_regressions=1).network
    regressor, response = network.column(0), network.column(1)
    u = (np.arange(400) + 0.5) / 400
    mean, variance = (x[0] for x in regressor.traits())
    density, weight = response.density(mean, variance)
    np.testing.assert_allclose(density @ weight, 1.0, rtol=1e-9)
    for cell in range(network.structure.n_cells):
        at = np.full(len(u), cell)
        p = np.repeat(regressor.quantile(at, u), len(u))
        x = response.quantile(np.full(len(p), cell), np.tile(u, len(u)), p)
        told = [t[0, cell] for t in response.traits(mean, variance)]
        np.testing.assert_allclose([x.mean(), x.var()], told, rtol=5e-3, atol=1e-6)
        entropy = -(density[cell] * np.log(np.maximum(density[cell], 1e-300))) @ weight
        assert entropy == pytest.approx(0.5 * math.log(2 * math.pi * math.e * told[1]), abs=1e-6)


def test_lines_in_the_units_of_the_columns():
    """x = 7 - 3 p, in units in which neither is standardised."""
    rng = np.random.default_rng(0)
    p = rng.normal(40.0, 5.0, 500)
    x = 7.0 - 3.0 * p + rng.normal(0, 2.0, 500)
    columns = [Column("c", "continuous", "float64", exponent=3, centre=v.mean() / 8, scale=v.std() / 8) for v in (x, p)]
    z, q = ((v / 8 - c.centre) / c.scale for v, c in zip((x, p), columns))
    block = of_one_cell()
    theta = block.estimate(products(z, q))
    found = {name: value.item() for name, value in block.describe(*theta, 0, *columns).items()}
    slope, intercept = np.polyfit(p, x, 1)
    assert found["intercept"] == pytest.approx(intercept, rel=0.05)
    assert found["slope"] == pytest.approx(slope, rel=0.01)
    prior = 2 * B + LAMBDA  # of which a slope of almost 1 is a part
    assert found["variance"] == pytest.approx((500 * 4.0 + prior * x.var()) / (500 + 2 * A + 4), rel=0.1)
    # Of a regressor that is not told, in its standard deviations from its mean.
    alone = block.describe(*theta, 0, columns[0])
    assert alone["intercept"].item() == pytest.approx(x.mean(), rel=1e-4)
    assert alone["slope"].item() == pytest.approx(slope * p.std(), rel=0.01)


# ---------------------------------------------------------------- tables with pairs


def make_world(seed, kind, n_components=3, n=60, **changed):
    return builders.make_world(seed, kind, n_components, levels=(2, 3), n=n, n_regressions=2, **changed)


def test_a_table_without_regressions_has_pairs_of_none():
    table = builders.make_world(0, "fan", 2).table
    assert table.pairs.shape == (table.n_rows, 0, 2)
    assert table.only(np.arange(3)).pairs.shape == (3, 0, 2)
    plain = EncodedTable(table.layout, table.narrow[:5], table.wide[:5], table.numbers[:5])
    assert plain.pairs.shape == (5, 0, 2)


def test_pairs_go_with_their_rows():
    table = make_world(0, "fan", n=400).table
    order = np.random.default_rng(0).permutation(400)
    moved = table.only(order)
    np.testing.assert_array_equal(moved.pairs, table.pairs[order])
    np.testing.assert_array_equal(moved.fingerprint, table.fingerprint[order])
    np.testing.assert_array_equal(table.labelled_only().pairs, table.pairs[table.labels >= 0])
    by_class = table.by_class()
    np.testing.assert_array_equal(by_class.pairs, table.pairs[np.argsort(table.labels, kind="stable")])
    np.testing.assert_array_equal(table.fused().pairs, table.pairs)
    few = table.subsample(100)
    kept = {row.tobytes() for row in table.pairs}
    assert 0 < few.n_rows < 400
    assert all(row.tobytes() in kept for row in few.pairs)


def test_rows_that_differ_in_a_pair_alone_are_not_equal():
    table = builders.make_world(0, "fan", 2, levels=(2,), n_numbers=0, n_regressions=1, n=64, missing=0.0).table
    same = replace(table, narrow=np.zeros_like(table.narrow), labels=None, weights=None)
    assert same.collapsed() is same
    assert len(np.unique(same.fingerprint)) == 64
    other = same.pairs.copy()
    other[:, 0, 1] += 0.5
    assert (replace(same, pairs=other).fingerprint != same.fingerprint).all()


# ---------------------------------------------------------------- the terms


@pytest.mark.parametrize("kind", ["fan", "fm"])
def test_terms_of_columns_add_up(kind):
    world = make_world(1, kind)
    terms, table, cell_of = world.network.terms, world.table, world.network.structure.cell_of
    levels = table.layout.first_level[:-1] + table.codes_of_columns()
    cells = np.tile(cell_of, (table.n_rows, 1))
    each = terms.log_prob(levels, table.numbers, table.pairs, cells)
    assert each.shape == (table.n_rows, 2 + 2 + 2, len(cell_of))
    np.testing.assert_allclose(
        terms.log_weight[0] + each.sum(axis=1), posterior(table, terms, "states", None), rtol=1e-12
    )
    assert (each[:, 4:][np.isnan(table.pairs[:, :, 0])] == 0.0).all()


@pytest.mark.parametrize("kind", ["per_class", "fm"])
def test_threads_do_not_matter(kind):
    world = make_world(2, kind, n=5000, n_components=20)
    pool = thread_pool(3)
    one, several = (e_step(world.table, world.network.terms, False, p) for p in (None, pool))
    for f in fields(one):
        np.testing.assert_array_equal(getattr(one, f.name), getattr(several, f.name))
    one, several = (posterior(world.table, world.network.terms, "proba", p) for p in (None, pool))
    np.testing.assert_array_equal(one, several)


def test_values_far_away():
    """As far as the encoding of tables lets values be."""
    world = make_world(3, "fan", missing=0.0)
    pairs = world.table.pairs * 10.0 ** np.random.default_rng(0).uniform(-100, 99, world.table.pairs.shape)
    table = replace(world.table, pairs=pairs)
    found = e_step(table, world.network.terms, False, None)
    for f in fields(found):
        assert np.isfinite(getattr(found, f.name)).all(), f.name
    network = world.network.model.estimate(found)
    assert np.isfinite(network.cells).all()
    assert np.isfinite(posterior(table, network.terms, "log_proba", None)).all()


# ---------------------------------------------------------------- EM


def run(world, network=None, n_passes=40, **how):
    problem = world.problem(**how)
    return run_em(problem, initial_state(problem, world.network if network is None else network), n_passes, 0.0)


@pytest.mark.parametrize("kind", builders.KINDS)
@pytest.mark.parametrize("hard", [False, True], ids=["em", "cem"])
@pytest.mark.parametrize("floor", [1e-6, 0.4])
def test_a_step_is_the_definition(kind, hard, floor):
    options = EstimationOptions(0.3, variance_floor=floor)
    world = make_world(1, kind, options=options)
    after = run(world, n_passes=1, hard=hard, accelerate=False)
    prior = builders.oracle_prior(options)
    wanted = oracles.maximise(builders.oracle_kind(kind), world.plain, world.rows, hard, prior, "map", floor)
    found = builders.plain(after.network)
    np.testing.assert_allclose(found.lines, wanted.lines, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(found.mean, wanted.mean, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(found.log_weight, wanted.log_weight, rtol=1e-9)
    assert after.objective[0] == pytest.approx(world.objective(hard, after.network), rel=1e-9)


@pytest.mark.parametrize("kind", builders.KINDS)
@pytest.mark.parametrize(("hard", "accelerate"), [(False, True), (False, False), (True, False)])
@pytest.mark.parametrize("tying", TYING)
def test_the_objective_never_falls(kind, hard, accelerate, tying):
    options = EstimationOptions(variance_tying=tying, variance_floor=1e-6 if tying == "none" else 0.3)
    world = make_world(1, kind, options=options)
    assert world.network.model.native is None
    start = builders.random_network(np.random.default_rng(0), world.network.structure, world.table.layout, 3, options)
    for trace in run(world, start, hard=hard, accelerate=accelerate).traces:
        assert np.diff(trace).min() >= -1e-9 * np.abs(trace).max()
        assert trace[-1] > trace[0] + 1


def test_with_the_papers_variances_it_still_has_its_own():
    paper, free = (make_world(1, "fan", options=options).network.model for options in (builders.PAPER, builders.MAP))
    statistics = e_step(make_world(1, "fan").table, make_world(1, "fan").network.terms, False, None)
    names = ("intercept", "slope", "residual")
    for name in names:
        found, wanted = (builders.part(model.estimate(statistics), name) for model in (paper, free))
        np.testing.assert_array_equal(found, wanted)


def test_pairs_that_are_all_missing_teach_nothing():
    world = make_world(5, "fan", missing=0.0)
    table = replace(world.table, pairs=np.full_like(world.table.pairs, np.nan))
    statistics = e_step(table, world.network.terms, False, None)
    network = world.network.model.estimate(statistics)
    assert (builders.part(network, "slope") == 0).all()
    assert (builders.part(network, "intercept") == 0).all()
    np.testing.assert_allclose(builders.part(network, "residual"), 2 * B / (2 * A + 4))


def test_one_row():
    world = make_world(6, "nb", n=3, missing=0.0, unlabelled=0.0)
    end = run(world, n_passes=3)
    assert np.isfinite(end.objective).all()
    assert np.isfinite(posterior(world.table, end.network.terms, "log_proba", None)).all()


def test_a_mixture_of_two_lines_is_found():
    """In each class two lines that cross: a search learns that there are two, and which."""
    rng = np.random.default_rng(0)
    n = 600
    labels, kind = rng.integers(0, 2, n), rng.integers(0, 2, n)
    p = rng.normal(size=n)
    slope = np.where(kind == labels, 0.9, -0.9)
    pairs = np.stack([slope * p + rng.normal(0, 0.2, n), p], axis=1)[:, None]
    rows = oracles.Rows(np.zeros((n, 0), dtype=int), np.zeros((n, 0)), labels, np.ones(n), pairs)
    data = InMemoryData(builders.encode(rows, builders.make_layout((), 0, 1)))
    how = Search(lambda size: builders.make_structure("fan", 2, size), range(1, 4), ("bic",), patience=1, n_init=4)
    found = select(Problem(data, builders.MAP), how, 2, lambda _: None)
    best = found.fits[found.best("bic")]
    assert best.n_components == 2
    slopes = np.sort(builders.part(best.network, "slope")[0, 0].reshape(2, 2), axis=1)
    np.testing.assert_allclose(slopes, [[-0.9, 0.9]] * 2, atol=0.06)
    np.testing.assert_allclose(builders.part(best.network, "residual"), 0.04, atol=0.03)


# ---------------------------------------------------------------- what is refused


def test_the_native_run_has_no_regressions():
    table = make_world(0, "nb").table
    without = replace(table, layout=replace(table.layout, n_regressions=0))
    network = builders.random_network(np.random.default_rng(0), naive_bayes(3), without.layout)
    s, one = e_step(without, network.terms, False, None), np.ones(1)
    what = (network.structure.native, network.model.native, *builders.arrays(network))
    arguments = (*what, s.states, s.cells, s.class_log_likelihood, one, one, one, 1, 0.0, True, False)
    _native.run_em(without.rows, *arguments)
    with pytest.raises(ValueError, match="same columns"):
        _native.run_em(table.rows, *arguments)


def test_a_column_by_itself_cannot_be_a_regression():
    X, y = np.arange(24.0).reshape(12, 2), np.arange(12) % 2
    with pytest.raises(ValueError, match=r"distributions\[0\]"):
        NBClassifier(distributions={0: "linear_gaussian"}).fit(X, y)
