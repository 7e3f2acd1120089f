"""Draws of the parameters: the posterior where nothing is hidden, else a Bayesian bootstrap."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from fanbayes.data.table import EncodedTable, Layout
from fanbayes.learning.data import InMemoryData
from fanbayes.learning.draws import bootstrap, draw_parameters
from fanbayes.learning.em import Problem, initial_state, run_em
from fanbayes.model.blocks import EstimationOptions
from fanbayes.model.blocks.linear_gaussian import LAMBDA, LinearGaussian
from fanbayes.model.blocks.normal import KAPPA, A, B
from fanbayes.model.network import Terms
from fanbayes.model.structure import fan, finite_mixture, naive_bayes

CASES = np.array([40, 3, 200])  # of the classes
ALPHA = 0.7


def agree(draws, distribution):
    """Whether draws may well be from a distribution of scipy."""
    return stats.kstest(draws, distribution.cdf).pvalue > 1e-3


@pytest.fixture(scope="module")
def rows():
    """One column of three levels, of which a class may lack one, one of numbers, and one of counts."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(3, dtype=np.int32), CASES)
    codes = rng.choice(3, len(labels), p=[0.6, 0.35, 0.05]).astype(np.uint8)[:, None]
    numbers = np.column_stack([rng.normal(labels, 1.0), rng.poisson(0.2 + labels)])
    layout = Layout(np.array([0, 4]), 1, ("gaussian", "poisson"), (np.nan, 1.5))
    return EncodedTable(layout, codes, np.empty((len(labels), 0), np.uint16), numbers, labels)


def fitted(table, structure, **options):
    """A problem, and its network by EM from the naive Bayes of its labelled rows, cells disturbed."""
    problem = Problem(InMemoryData(table), EstimationOptions(alpha=ALPHA, **options))
    model = problem.model(structure)
    nothing = problem.data.labelled().e_step(Terms.nothing(naive_bayes(structure.n_classes), table.layout))
    nb = problem.model(naive_bayes(structure.n_classes)).estimate(nothing)
    start = model.from_cells(
        structure.estimate_factors(np.ones((1, structure.n_states)), ALPHA),
        nb.per_cell()[..., structure.class_of if structure.class_of_cell is not None else np.zeros(2, int)],
    ).perturb(np.ones((1, structure.n_cells)), np.random.default_rng(3))
    return problem, run_em(problem, initial_state(problem, start), 500, 1e-9).network


def test_draws_of_naive_bayes_have_the_posteriors_in_closed_form(rows):
    problem, network = fitted(rows, naive_bayes(3))
    draws = draw_parameters(problem, network, 3000, 0, 100, 1e-6)
    assert len(draws) == 3000
    prior = np.exp(draws.factors)
    for c, n in enumerate(CASES):
        own = rows.labels == c
        assert agree(prior[:, c], stats.beta(ALPHA + n, 2 * ALPHA + CASES.sum() - n))
        counts = np.bincount(rows.narrow[own, 0], minlength=3)
        for k in range(3):
            beta = stats.beta(ALPHA + counts[k], 2 * ALPHA + n - counts[k])
            assert agree(np.exp(draws.cells[:, k, c]), beta)
        x, events = rows.numbers[own].T
        mean, spread = x.sum() / (KAPPA + n), ((x - x.mean()) ** 2).sum() + KAPPA * n / (KAPPA + n) * x.mean() ** 2
        a, b = A + n / 2, B + spread / 2
        assert agree(draws.cells[:, 4, c], stats.t(2 * a, mean, np.sqrt(b / a / (KAPPA + n))))
        assert agree(draws.cells[:, 5, c], stats.invgamma(a, scale=b))
        assert agree(draws.cells[:, 6, c], stats.gamma(1.5 + events.sum(), scale=1 / (0.5 / 1.5 + n)))


def test_quantiles_of_draws_are_those_of_scipy(rows):
    problem, network = fitted(rows, naive_bayes(3))
    found = np.quantile(np.exp(draw_parameters(problem, network, 4000, 1, 100, 1e-6).cells[:, 0, 0]), [0.05, 0.95])
    n = np.bincount(rows.narrow[rows.labels == 0, 0], minlength=3)
    beta = stats.beta(ALPHA + n[0], 2 * ALPHA + n[1:].sum())
    error = np.sqrt(0.05 * 0.95 / 4000) / beta.pdf(beta.ppf([0.05, 0.95]))
    np.testing.assert_array_less(np.abs(found - beta.ppf([0.05, 0.95])), 3 * error)


def test_variances_that_classes_share_are_drawn_once(rows):
    problem, network = fitted(rows, naive_bayes(3), variance_tying="all")
    draws = draw_parameters(problem, network, 3000, 0, 100, 1e-6)
    x = rows.numbers[:, 0]
    of_class = [x[rows.labels == c] for c in range(3)]
    spread = sum((z**2).sum() - z.sum() ** 2 / (KAPPA + len(z)) for z in of_class)
    assert draws.shared.shape == (3000, 1)
    assert agree(draws.shared[:, 0], stats.invgamma(A + len(x) / 2, scale=B + spread / 2))


def test_draws_of_a_line_have_its_posterior():
    rng = np.random.default_rng(0)
    p = rng.normal(2.0, 1.0, 12)
    x = 1.0 - 0.8 * p + 0.5 * rng.normal(size=12)
    block = LinearGaussian(1, 1, 1e-9, None)
    sums = [len(x), x.sum(), (x**2).sum(), p.sum(), (p**2).sum(), (x * p).sum()]
    cells, _ = block.draw(np.tile(np.array(sums)[:, None], (20_000, 1, 1)), rng)
    design = np.column_stack([np.ones(12), p])
    precision = design.T @ design + np.diag([KAPPA, LAMBDA])
    coefficients = np.linalg.solve(precision, design.T @ x)
    b = B + (x @ x - coefficients @ precision @ coefficients) / 2
    covariance = b / (A + 6 - 1) * np.linalg.inv(precision)
    np.testing.assert_allclose(cells[:, :2, 0].mean(axis=0), coefficients, atol=0.02)
    np.testing.assert_allclose(np.cov(cells[:, :2, 0].T), covariance, rtol=0.06)
    assert agree(cells[:3000, 2, 0], stats.invgamma(A + 6, scale=b))


def test_the_bootstrap_of_complete_discrete_data_is_the_posterior(rows):
    """Levels of no case included, and rows of weights that are no integers."""
    table = replace(rows, layout=Layout(np.array([0, 4]), 1, ()), numbers=np.empty((rows.n_rows, 0)))
    table = replace(table, weights=np.where(table.labels == 1, 0.5, 1.0)).only(
        (table.labels != 1) | (table.narrow[:, 0] == 0)
    )
    problem, network = fitted(table, naive_bayes(3))
    draws = [bootstrap(problem, network, np.random.default_rng([5, k]), 50, 1e-6) for k in range(1500)]
    own = table.labels == 1
    n = 0.5 * own.sum()
    assert agree(np.array([np.exp(d.cells[0, 0, 1]) for d in draws]), stats.beta(ALPHA + n, 2 * ALPHA))
    assert agree(np.array([np.exp(d.cells[0, 2, 1]) for d in draws]), stats.beta(ALPHA, 2 * ALPHA + n))
    total = table.total_weight
    assert agree(np.array([np.exp(d.factors[0, 1]) for d in draws]), stats.beta(ALPHA + n, 2 * ALPHA + total - n))


def test_bootstrap_and_posterior_agree_where_there_are_many_rows():
    rng = np.random.default_rng(0)
    labels = rng.choice(2, 3000).astype(np.int32)
    codes = rng.choice(4, (3000, 1)).astype(np.uint8)
    numbers = np.column_stack([rng.normal(labels, 1.0), rng.poisson(3.0, 3000)])
    layout = Layout(np.array([0, 5]), 1, ("gaussian", "poisson"), (np.nan, 3.0))
    table = EncodedTable(layout, codes, np.empty((3000, 0), np.uint16), numbers, labels)
    problem, network = fitted(table, naive_bayes(2))
    exact = draw_parameters(problem, network, 400, 0, 100, 1e-6)
    drawn = [bootstrap(problem, network, np.random.default_rng([1, k]), 50, 1e-6) for k in range(400)]
    cells = np.concatenate([d.cells for d in drawn])[:, [0, 1, 2, 3, 5, 6, 7]]
    theirs = exact.cells[:, [0, 1, 2, 3, 5, 6, 7]]
    # The standard error of a ratio of two standard deviations of 400 draws each is 5 %.
    np.testing.assert_allclose(cells.std(axis=0), theirs.std(axis=0), rtol=0.15)
    assert (np.abs(cells.mean(axis=0) - theirs.mean(axis=0)) < 0.25 * theirs.std(axis=0)).all()


@pytest.mark.parametrize("structure", [fan([2, 2, 2], "shared"), finite_mixture(3, 2)], ids=["FAN", "FM"])
def test_components_keep_their_names(rows, structure):
    """Draws are nearer to the fitted components than to the same ones swapped, whichever way they were named."""
    labels = np.where(np.arange(rows.n_rows) % 3 == 0, -1, rows.labels).astype(np.int32)
    numbers = rows.numbers + [[5.0, 0.0]] * (np.arange(rows.n_rows) % 2)[:, None]
    problem, network = fitted(replace(rows, labels=labels, numbers=numbers), structure)
    swapped = np.arange(structure.n_cells).reshape(-1, 2)[:, ::-1].ravel()
    renamed = replace(network, cells=network.cells[..., swapped], factors=_swapped_factors(network, structure))
    for fit, other in ((network, renamed), (renamed, network)):
        draws = draw_parameters(problem, fit, 30, 0, 500, 1e-8)
        near, far = (((draws.cells[:, 4] - x.cells[:, 4]) ** 2).sum(axis=1) for x in (fit, other))
        assert (near < far).all()


def _swapped_factors(network, structure):
    parts = []
    for f, theta in zip(structure.factors, structure.split(network.factors)):
        if f.name == "component":
            theta = theta[:, ::-1]
        elif f.name == "class | component":
            theta = theta.reshape(1, 2, -1)[:, ::-1].reshape(1, -1)
        parts.append(theta)
    return np.concatenate(parts, axis=1)


def test_a_cell_without_cases_is_drawn_from_the_prior(rows):
    model = Problem(InMemoryData(rows), EstimationOptions(alpha=ALPHA)).model(naive_bayes(3))
    nothing = InMemoryData(rows).e_step(Terms.nothing(model.structure, rows.layout)).map(np.zeros_like)
    nothing = nothing.map(lambda x: np.repeat(x, 3000, axis=0))
    for draws in (
        model.draw(nothing, np.random.default_rng(0)),
        model.bootstrap_estimate(nothing, np.random.default_rng(1)),
    ):
        assert agree(np.exp(draws.cells[:, 0, 1]), stats.beta(ALPHA, 2 * ALPHA))
        assert agree(draws.cells[:, 4, 1], stats.t(2 * A, 0, np.sqrt(B / A / KAPPA)))
        assert agree(draws.cells[:, 5, 1], stats.invgamma(A, scale=B))
        assert agree(draws.cells[:, 6, 1], stats.gamma(1.5, scale=1.5 / 0.5))


def test_the_first_draws_of_a_bootstrap_do_not_depend_on_their_number(rows):
    problem, network = fitted(rows, fan([2, 2, 2], "per_class"))
    few, many = (draw_parameters(problem, network, n, 4, 100, 1e-6) for n in (3, 5))
    np.testing.assert_array_equal(many.cells[:3], few.cells)
    np.testing.assert_array_equal(many.factors[:3], few.factors)
    assert not (many.cells[3] == many.cells[4]).all()
