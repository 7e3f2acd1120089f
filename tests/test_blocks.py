"""Local distributions: what every block promises, and the formulas of each."""

import math
import pickle
from dataclasses import dataclass, replace

import builders
import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import logsumexp, xlogy

from fanbayes.model.blocks import BLOCKS, Block, EstimationOptions, normal
from fanbayes.model.blocks import poisson as counts
from fanbayes.model.network import Model
from fanbayes.model.structure import fan, naive_bayes

LEVELS = (2, 5, 300)
STRUCTURE = fan([2, 2], "shared")  # four cells, two of a class


@dataclass
class Case:
    """A block, how to draw values for it, and its log density as others have it."""

    block: Block
    draw: object
    log_density: object  # of cells, shared, x (n,), column, cell (n,), and the regressor, 0 unless it is given

    def regressor(self, n):
        """What the columns of n rows depend on (n,)."""
        return np.cos(np.arange(n)) if self.block.term == "regression" else np.zeros(n)

    def rows(self, seed=0, n=60):
        """Values (n, n_columns), NaN where missing, cells (n,), the last of them empty, and weights (n,)."""
        rng = np.random.default_rng(seed)
        x = np.asarray(self.draw(rng, n), dtype=float)
        x[rng.random(x.shape) < 0.1] = np.nan
        return x, rng.integers(0, 3, n), rng.choice([0.5, 1.0, 2.0], n)

    def statistics(self, x, cell, w):
        """(n_statistics, n_cells)"""
        out = np.zeros((self.block.n_statistics, self.block.n_cells))
        for j in range(self.block.n_columns):
            seen = ~np.isnan(x[:, j])
            if self.block.term == "lookup":
                layout = self.block.layout
                level = np.where(seen, layout.first_level[j] + np.nan_to_num(x[:, j]), layout.missing_level[j])
                np.add.at(out, (level.astype(int), cell), w)
            elif self.block.term == "regression":
                y, p = x[:, j], self.regressor(len(x))
                for k, product in enumerate((np.ones_like(y), y, y * y, p, p * p, y * p)):
                    np.add.at(out, (6 * j + k, cell[seen]), (w * product)[seen])
            else:
                for power in range(3):
                    np.add.at(out, (3 * j + power, cell[seen]), (w * x[:, j] ** power)[seen])
        return out

    def estimate(self, seed=0):
        """Parameters of one network."""
        return self.block.estimate(self.statistics(*self.rows(seed)))

    def base_measure(self, x):
        """Log base measure of each row, those of a number that is counted (n,); 0 for all others."""
        return np.zeros(len(x)) if self.block.term == "lookup" else self.block.log_base_measure(x)


MEANS = (3.5, 2.0)  # of columns of counts


def block_of(name, n_columns=2, structure=STRUCTURE, **options):
    layout = builders.make_layout(LEVELS if name == "categorical" else (), 0)
    if name == "poisson":
        layout = replace(layout, distributions=(name,) * n_columns, means=MEANS[:n_columns])
    return BLOCKS[name].of(layout, structure, EstimationOptions(**options), n_columns)


def categorical_case(**options):
    block = block_of("categorical", len(LEVELS), **options)
    return Case(
        block,
        lambda rng, n: np.column_stack([rng.integers(0, r, n) for r in LEVELS]),
        lambda cells, _, x, column, cell, p=0: cells[block.layout.first_level[column] + x.astype(int), cell],
    )


def gaussian_case(**options):
    block = block_of("gaussian", **options)

    def log_density(cells, shared, x, column, cell, p=0.0):
        mean, sigma2 = block.unpack(cells, shared)
        return stats.norm.logpdf(x, mean[column, cell], np.sqrt(sigma2[column, cell]))

    return Case(block, lambda rng, n: rng.normal(0.8, 0.6, (n, 2)), log_density)


def regression_case(**options):
    block = block_of("linear_gaussian", **options)

    def log_density(cells, shared, x, column, cell, p=0.0):
        intercept, slope, sigma2 = (a[column, cell] for a in block.lines(cells, shared))
        return stats.norm.logpdf(x, intercept + slope * p, np.sqrt(sigma2))

    return Case(block, lambda rng, n: rng.normal(0.8, 0.6, (n, 2)) + np.cos(np.arange(n))[:, None], log_density)


def poisson_case():
    return Case(
        block_of("poisson"),
        lambda rng, n: rng.poisson(3.0, (n, 2)),
        lambda cells, _, x, column, cell, p=0: stats.poisson.logpmf(x, cells[column, cell]),
    )


CASES = {
    "categorical": categorical_case(),
    "categorical, alpha 0.3": categorical_case(alpha=0.3),
    "categorical, alpha 4": categorical_case(alpha=4.0),
    "gaussian": gaussian_case(),
    "gaussian, floor 0.5": gaussian_case(variance_floor=0.5),
    "gaussian, tied": gaussian_case(variance_tying="all"),
    "gaussian, tied by class": gaussian_case(variance_tying="class"),
    "regression": regression_case(),
    "regression, floor 0.5": regression_case(variance_floor=0.5),
    "regression, tied": regression_case(variance_tying="all"),
    "regression, tied by class": regression_case(variance_tying="class"),
    "poisson": poisson_case(),
}


@pytest.fixture(params=CASES)
def case(request):
    return CASES[request.param]


# ---------------------------------------------------------------- what every block promises


def test_every_block_has_a_case():
    assert {type(case.block) for case in CASES.values()} == set(BLOCKS.values())


def test_shapes(case):
    block = case.block
    cells, shared = case.estimate()
    assert cells.shape == (block.n_rows, 4)
    assert shared.shape == block.cells_of_shared.shape == (block.n_shared,)
    assert block.per_cell(cells, shared).shape == (block.n_written, 4)
    assert block.cell_log_prior(cells, shared).shape == (4,)
    assert block.log_likelihood(case.statistics(*case.rows()), cells, shared).shape == (block.n_columns,)


def test_the_estimate_is_the_mode(case):
    """Also where a cell is empty."""
    statistics, block, rng = case.statistics(*case.rows()), case.block, np.random.default_rng(1)

    def posterior(theta):
        return float(block.log_likelihood(statistics, *theta).sum() + block.log_prior(*theta))

    best = block.estimate(statistics)
    free = block.unconstrain(*best)
    for scale in (1e-3, 1e-2, 0.3):
        for _ in range(20):
            moved = block.project(*(x + scale * rng.normal(size=x.shape) for x in free))
            assert posterior(moved) < posterior(best)


def test_the_log_likelihood_is_that_of_the_values(case):
    (x, cell, w), theta = case.rows(), case.estimate(seed=1)
    found = case.block.log_likelihood(case.statistics(x, cell, w), *theta)
    for j in range(case.block.n_columns):
        seen = ~np.isnan(x[:, j])
        only = np.full_like(x, np.nan)
        only[:, j] = x[:, j]
        p = case.regressor(len(x))[seen]
        terms = case.log_density(*theta, x[seen, j], j, cell[seen], p) - case.base_measure(only)[seen]
        assert found[j] == pytest.approx(w[seen] @ terms, rel=1e-9)


def test_kernel_terms_are_the_log_density(case):
    (x, cell, _), theta, block = case.rows(), case.estimate(seed=1), case.block
    terms = block.kernel_terms(*theta)
    for j in range(block.n_columns):
        seen = ~np.isnan(x[:, j])
        value, at, p = x[seen, j], cell[seen], case.regressor(len(x))[seen]
        if block.term == "lookup":
            assert (terms[block.layout.missing_level[j]] == 0.0).all()
            found = terms[block.layout.first_level[j] + value.astype(int), at]
        else:
            slope, intercept, log_norm, *coefficient = terms[j][:, at]
            line = slope * value + (coefficient[0] * p if coefficient else 0.0)
            found = log_norm + (line if block.term == "linear" else -((line + intercept) ** 2))
            only = np.full((len(value), block.n_columns), np.nan)
            only[:, j] = value
            found = found + case.base_measure(only)
        np.testing.assert_allclose(found, case.log_density(*theta, value, j, at, p), rtol=1e-10, atol=1e-12)


def test_a_prediction_by_the_marginal_is_a_distribution(case):
    """p(x | what was seen) = p(what was seen, x) / p(what was seen) sums up to one, over all x of a column."""
    block, (x, cell, w) = case.block, case.rows(n=12)
    assert block.log_marginal(np.zeros((block.n_statistics, 4))) == pytest.approx(0.0, abs=1e-12)
    before = case.statistics(x, cell, w)

    def log_prediction(value, at):
        row = np.full((1, block.n_columns), np.nan)
        row[0, 1] = value
        after = before + case.statistics(row, np.array([at]), np.ones(1))
        return float(block.log_marginal(after) - block.log_marginal(before)) + float(case.base_measure(row)[0])

    for at in (0, 3):
        if block.term in ("normal", "regression"):
            total, _ = integrate.quad(lambda v: math.exp(log_prediction(v, at)), -np.inf, np.inf, limit=200)  # noqa: B023
        else:
            values = range(LEVELS[1]) if block.term == "lookup" else range(300)
            total = math.exp(logsumexp([log_prediction(v, at) for v in values]))
        assert total == pytest.approx(1.0, abs=1e-4 if block.term == "linear" else 1e-7)


def test_coordinates_without_constraints(case):
    block, theta = case.block, case.estimate()
    for found, wanted in zip(block.project(*block.unconstrain(*theta)), theta):
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)
    rng = np.random.default_rng(0)
    anywhere = block.project(*(20 * rng.normal(size=x.shape) for x in theta))
    assert block.flaw(*anywhere, normalised=True) is None
    for found, wanted in zip(block.project(*block.unconstrain(*anywhere)), anywhere):
        np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-12)


def test_parameters_written_out(case):
    block, theta = case.block, case.estimate()
    written = block.per_cell(*theta)
    for found, wanted in zip(block.from_cells(written), theta):
        np.testing.assert_allclose(found, wanted, rtol=1e-12)
    # Copies of one cell in all others.
    copies = block.per_cell(*block.from_cells(written[:, [1, 1, 1, 1]]))
    np.testing.assert_allclose(copies, written[:, [1, 1, 1, 1]], rtol=1e-12)
    # What is shared is the mean of what it was in the cells.
    apart = written * [1.0, 1.2, 2.0, 1.7]
    together = block.per_cell(*block.from_cells(apart))
    np.testing.assert_allclose(together.mean(axis=1), apart.mean(axis=1), rtol=1e-12)


U = (np.arange(20_000) + 0.5) / 20_000


def test_quantiles_are_those_of_the_density(case):
    """The mean of log p at evenly spread quantiles is the integral of p log p."""
    block, theta = case.block, case.estimate()
    for j in range(block.n_columns):
        p, weight = block.density(*theta, j)
        assert p.shape == (4, len(weight))
        np.testing.assert_allclose(p @ weight, 1.0, rtol=1e-9)
        for cell in range(4):
            at = np.full(len(U), cell)
            x = block.quantile(*theta, j, at, U)
            assert (np.diff(x) >= 0).all()
            found = case.log_density(*theta, x, j, at).mean()
            assert found == pytest.approx(xlogy(p[cell], p[cell]) @ weight, abs=2e-3)


def test_traits_are_means_and_variances(case):
    block, theta = case.block, case.estimate()
    for j in range(block.n_columns):
        mean, variance = block.traits(*theta, j)
        for cell in range(4):
            x = block.quantile(*theta, j, np.full(len(U), cell), U)
            if block.term == "lookup":
                share = np.bincount(x, minlength=len(mean)) / len(x)
                found = share, share * (1 - share)
            else:
                found = x.mean(), x.var()
            np.testing.assert_allclose(found[0], mean[:, cell], atol=2e-3)
            np.testing.assert_allclose(found[1], variance[:, cell], atol=5e-3)


def test_no_step_is_none(case):
    """Of discriminative fine-tuning, which moves what the native core knows of."""
    block, theta = case.block, case.estimate(seed=1)
    each = {"lookup": block.n_statistics, "normal": block.n_columns, "regression": 2 * block.n_columns, "linear": 0}
    assert block.n_steps == each[block.term]
    for found, wanted in zip(block.move(*theta, np.zeros((block.n_steps, 4))), theta):
        np.testing.assert_array_equal(found, wanted)


def test_only_cells_that_are_perturbed_change(case):
    block, theta = case.block, case.estimate()
    strength = np.array([0.0, 1.0, 0.0, 1.0])
    for found, wanted in zip(block.perturb(*theta, 0 * strength, np.random.default_rng(0)), theta):
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)
    moved = block.perturb(*theta, strength, np.random.default_rng(0))
    assert block.flaw(*moved, normalised=True) is None
    before, after = block.per_cell(*theta), block.per_cell(*moved)
    np.testing.assert_allclose(after[:, [0, 2]], before[:, [0, 2]], rtol=1e-12, atol=1e-12)
    assert (np.abs(after - before)[:, [1, 3]].max(axis=0) > 1e-3).all()


def test_networks_side_by_side(case):
    """Leading axes: each network has what it has alone."""
    block, several = case.block, np.stack([case.statistics(*case.rows(seed)) for seed in range(3)])
    theta = block.estimate(several)
    written, rng = block.per_cell(*theta), [np.random.default_rng(0) for _ in range(4)]
    methods = ("log_prior", "cell_log_prior", "kernel_terms", "per_cell")
    pairs = ("unconstrain", "project")
    for k in range(3):
        one = block.estimate(several[k])
        alone = [*one, *block.from_cells(written[k]), block.log_marginal(several[k])]
        alone += [block.log_likelihood(several[k], *one)]
        alone += [getattr(block, name)(*one) for name in methods]
        alone += [x for name in pairs for x in getattr(block, name)(*one)]
        together = [*theta, *block.from_cells(written), block.log_marginal(several)]
        together += [block.log_likelihood(several, *theta)]
        together += [getattr(block, name)(*theta) for name in methods]
        together += [x for name in pairs for x in getattr(block, name)(*theta)]
        for a, b in zip(together, alone):
            np.testing.assert_allclose(a[k], b, rtol=1e-13)
    assert block.perturb(*theta, np.ones((3, 4)), rng[0])[0].shape == theta[0].shape


def test_cells_share_out_the_prior(case):
    block, theta = case.block, case.estimate()
    if not block.n_shared:
        assert block.cell_log_prior(*theta).sum() == pytest.approx(block.log_prior(*theta), rel=1e-12)
    moved = block.perturb(*theta, np.array([0.0, 1.0, 0.0, 0.0]), np.random.default_rng(0))
    changed = block.cell_log_prior(*moved) - block.cell_log_prior(*theta)
    np.testing.assert_allclose(changed[[0, 2, 3]], 0.0, atol=1e-9)
    assert changed.sum() == pytest.approx(float(block.log_prior(*moved) - block.log_prior(*theta)), abs=1e-9)


def test_blocks_pickle_after_use(case):
    theta = case.estimate()
    again = pickle.loads(pickle.dumps(case.block))
    for a, b in zip(again.estimate(case.statistics(*case.rows())), theta):
        np.testing.assert_array_equal(a, b)
    assert again.log_prior(*theta) == case.block.log_prior(*theta)


def test_without_columns():
    model = Model(STRUCTURE, builders.make_layout((), 0), builders.MAP)
    assert model.places == ()
    assert model.n_parameters == 2
    network = builders.random_network(np.random.default_rng(0), STRUCTURE, model.layout, 2)
    assert network.cells.shape == (2, 0, 4)
    assert network.log_prior().shape == (2,)


# ---------------------------------------------------------------- categorical


def test_categorical_estimate_is_laplaces_rule():
    case = categorical_case(alpha=0.7)
    n, first_level = case.statistics(*case.rows()), case.block.layout.first_level
    theta = np.exp(case.estimate()[0])
    for first, r in zip(first_level, LEVELS):
        own = n[first : first + r]
        np.testing.assert_allclose(theta[first : first + r], (0.7 + own) / (0.7 * r + own.sum(axis=0)))
        np.testing.assert_array_equal(theta[first + r], 1.0)  # "missing" is no factor


def test_project_makes_distributions():
    case = categorical_case()
    layout = case.block.layout
    table, _ = case.block.project(500.0 * np.log(case.statistics(*case.rows()) + 0.01), np.zeros(0))
    theta = np.exp(table)
    np.testing.assert_array_equal(table[layout.missing_level], 0.0)
    theta[layout.missing_level] = 0.0
    np.testing.assert_allclose(np.add.reduceat(theta, layout.first_level[:-1], axis=0), 1.0)


@pytest.mark.parametrize("alpha", [0.5, 1.0, 3.0])
def test_dirichlet_marginal_is_the_product_of_predictions(alpha):
    """p(x_1) p(x_2 | x_1) ..., each by (alpha + N_k) / (alpha r + N)."""
    rng = np.random.default_rng(2)
    layout = builders.make_layout((3, 4), 0)
    seen, log_p = np.zeros((9, 1)), 0.0
    for _ in range(30):
        for i, r in enumerate((3, 4)):
            code = rng.integers(0, r + 1)  # the last one is "missing"
            level = layout.first_level[i] + code
            if code < r:
                own = seen[layout.first_level[i] : layout.first_level[i] + r]
                log_p += math.log((alpha + seen[level, 0]) / (alpha * r + own.sum()))
            seen[level] += 1
    block = BLOCKS["categorical"].of(layout, naive_bayes(1), EstimationOptions(alpha), 2)
    assert block.log_marginal(seen) == pytest.approx(log_p)


# ---------------------------------------------------------------- gaussian


def one_gaussian(**options):
    """Of one column and one cell."""
    return block_of("gaussian", 1, naive_bayes(1), **options)


def moments_of(x, w=None):
    """N, sum x, sum x^2 of one column and one cell, (3, 1)."""
    x, w = np.asarray(x, dtype=float), np.ones(len(x)) if w is None else np.asarray(w)
    return np.array([w.sum(), (w * x).sum(), (w * x * x).sum()]).reshape(3, 1)


def values(n, seed=3):
    rng = np.random.default_rng(seed)
    return rng.normal(0.8, 0.6, n), rng.choice([0.5, 1.0, 2.0], n)


def theta_of(mean, sigma2):
    return np.array([[mean], [sigma2]]), np.zeros(0)


def test_gaussian_prior_is_scipys():
    wanted = stats.norm.logpdf(0.4, 0, math.sqrt(0.6 / normal.KAPPA))
    wanted += stats.invgamma.logpdf(0.6, normal.A, scale=normal.B)
    assert one_gaussian().log_prior(*theta_of(0.4, 0.6)) == pytest.approx(wanted)


@pytest.mark.parametrize("n", [0, 1, 2, 7, 300])
@pytest.mark.parametrize("floor", [1e-6, 0.5])
def test_gaussian_estimate_is_the_mode_above_the_floor(n, floor):
    sums, block = moments_of(*values(n)), one_gaussian(variance_floor=floor)
    (mean,), (sigma2,) = block.estimate(sums)[0]
    assert sigma2 >= floor

    def posterior(m, v):
        return float(block.log_likelihood(sums, *theta_of(m, v)).sum() + block.log_prior(*theta_of(m, v)))

    top = posterior(mean, sigma2)
    for step in (1e-3, 1e-2, 0.1):
        assert posterior(mean + step, sigma2) < top
        assert posterior(mean - step, sigma2) < top
        assert posterior(mean, sigma2 * (1 + step)) < top
        if (lower := sigma2 * (1 - step)) >= floor:
            assert posterior(mean, lower) < top


def test_map_estimate_is_the_formula():
    x, w = values(25)
    (mean,), (sigma2,) = one_gaussian().estimate(moments_of(x, w))[0]
    n, average = w.sum(), np.average(x, weights=w)
    squares = (w * (x - average) ** 2).sum()
    k, a, b = normal.KAPPA, normal.A, normal.B
    assert mean == pytest.approx(n * average / (n + k))
    assert sigma2 == pytest.approx((2 * b + squares + k * n / (k + n) * average**2) / (n + 2 * a + 3))


@pytest.mark.parametrize("n", [0, 1, 3, 4, 4.9, 5, 5.5, 40])
def test_paper_estimate_is_equation_7_from_five_cases_on(n):
    x = np.array([-1.0, 0.5, 2.0, 0.1])
    w = np.full(4, n / 4)
    found = one_gaussian(variance_estimator="paper").estimate(moments_of(x, w))[0]
    if n < 5:
        np.testing.assert_array_equal(found, one_gaussian().estimate(moments_of(x, w))[0])
    else:
        assert found[0, 0] == pytest.approx(x.mean())
        squares = (w * (x - x.mean()) ** 2).sum()
        assert found[1, 0] == pytest.approx((n - 1) / (n * (n - 3)) * squares)


def test_paper_estimate_respects_the_floor():
    block = one_gaussian(variance_estimator="paper", variance_floor=1e-3)
    assert block.estimate(moments_of(np.full(10, 1.5)))[0][1, 0] == 1e-3


def test_paper_has_no_prior():
    """It maximises nothing; cells of several networks can be compared all the same."""
    paper, free = one_gaussian(variance_estimator="paper"), one_gaussian()
    theta = theta_of(0.4, 0.6)
    assert paper.log_prior(*theta) == 0.0
    np.testing.assert_array_equal(paper.cell_log_prior(*theta), free.cell_log_prior(*theta))


def test_gaussian_marginal_is_the_product_of_student_predictions():
    """Sequentially: x_n | x_1 .. x_(n-1) is Student's t with 2 a degrees of freedom."""
    x, _ = values(30)
    kappa, a, b, m = normal.KAPPA, normal.A, normal.B, 0.0
    log_p = 0.0
    for value in x:
        scale = math.sqrt(b * (kappa + 1) / (a * kappa))
        log_p += stats.t.logpdf(value, 2 * a, m, scale)
        b += kappa * (value - m) ** 2 / (2 * (kappa + 1))
        m = (kappa * m + value) / (kappa + 1)
        kappa, a = kappa + 1, a + 0.5
    assert one_gaussian().log_marginal(moments_of(x)) == pytest.approx(log_p)


def test_gaussian_marginal_is_the_integral():
    sums, block = moments_of([0.3, -1.2, 0.9]), one_gaussian()

    def density(mean, log_sigma2):
        theta = theta_of(mean, math.exp(log_sigma2))
        return math.exp(float(block.log_likelihood(sums, *theta).sum() + block.log_prior(*theta)) + log_sigma2)

    found, _ = integrate.dblquad(density, -6, 8, -15, 15, epsrel=1e-7)
    assert float(block.log_marginal(sums)) == pytest.approx(math.log(found), abs=1e-5)


def test_sum_of_squares_never_falls_below_zero():
    """Though rounding may bring sum x^2 below (sum x)^2 / N."""
    sums = np.array([1e6, 1e6 * 0.1, 1e6 * 0.1 * 0.1 * (1 - 1e-13)]).reshape(3, 1)
    block = one_gaussian(variance_floor=1e-300)
    assert block._around_mean(sums)[2].min() >= 0
    assert block._posterior(sums).spread.min() >= 0
    assert block.log_likelihood(sums, *theta_of(0.1, 1e-12)) <= -0.5 * 1e6 * math.log(2 * math.pi * 1e-12) + 1e-3


# ---------------------------------------------------------------- poisson


def test_poisson_marginal_is_the_product_of_predictions():
    """Sequentially: x_n | x_1 .. x_(n-1) is negative binomial."""
    x = np.random.default_rng(0).poisson(4.0, 30)
    a, b, log_p = counts.A, 0.5 / MEANS[0], 0.0
    for value in x:
        log_p += stats.nbinom.logpmf(value, a, b / (b + 1))
        a, b = a + value, b + 1
    block = block_of("poisson", 1, naive_bayes(1))
    found = float(block.log_marginal(moments_of(x))) + block.log_base_measure(x[:, None].astype(float)).sum()
    assert found == pytest.approx(log_p)


def test_poisson_prior_is_scipys():
    block = block_of("poisson", 1, naive_bayes(1))
    found = block.log_prior(np.array([[2.3]]), np.zeros(0))
    assert found == pytest.approx(stats.gamma.logpdf(2.3, counts.A, scale=MEANS[0] / 0.5))


@pytest.mark.parametrize("rate", [1e-100, 0.5, 7.0, 1e4, 9.9e8, 1e9, 1e10, 1e12])
def test_poisson_quantiles_are_the_least_counts_that_are_reached(rate):
    u = np.array([1e-300, 1e-10, 0.02, 0.5, 0.7, 0.999, 1 - 1e-12])
    found = BLOCKS["poisson"](1, 1, (1.0,)).quantile(np.array([[rate]]), np.zeros(0), 0, np.zeros(len(u), dtype=int), u)
    assert (found == np.floor(found)).all()
    assert (stats.poisson.cdf(found - 1, rate) < u + 1e-9).all()
    assert (stats.poisson.cdf(found, rate) > u - 1e-9).all()


@pytest.mark.parametrize(
    ("x", "refused"), [([0, np.nan], False), ([3, 0.5], True), ([-1], True), ([], False), ([1e13], True)]
)
def test_poisson_takes_counts_only(x, refused):
    assert BLOCKS["poisson"].refused(np.array(x)).any() == refused


@pytest.mark.parametrize("rates", [[1e-3, 5e3], [1.0, 1e6], [5.0, 1e9], [30.0, 3e3, 1e5], [1e9, 1e9 + 1e5]])
def test_sums_over_counts_of_rates_far_apart(rates):
    block = BLOCKS["poisson"](1, len(rates), (1.0,))
    p, weight = block.density(np.array([rates]), np.zeros(0), 0)
    np.testing.assert_allclose(p @ weight, 1.0, atol=1e-6)


def test_an_empty_cell_has_the_rate_of_the_column():
    block = block_of("poisson", 1, naive_bayes(2))
    statistics = np.array([[10.0, 0.0], [60_000.0, 0.0], [0.0, 0.0]])
    rate, _ = replace(block, means=(5000.0,)).estimate(statistics)
    np.testing.assert_allclose(rate, [[6000.0, 5000.0]], rtol=1e-4)
