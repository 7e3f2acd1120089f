"""BIC, AIC, Cheeseman-Stutz and ICL."""

import math
from dataclasses import replace

import builders
import numpy as np
import oracles
import pytest
from scipy import stats

from fanbayes.learning.e_step import e_step
from fanbayes.learning.scores import score
from fanbayes.learning.starts import labelled_naive_bayes
from fanbayes.model.blocks import EstimationOptions
from fanbayes.model.blocks.normal import KAPPA, A, B

NAMES = ("log_likelihood", "n_parameters", "bic", "aic", "cs", "icl")


def score_of(world, network=None):
    network = world.network if network is None else network
    return score(network, statistics_of(world, network), world.table.total_weight)


def statistics_of(world, network):
    return e_step(world.table, network.terms, False, None)


@pytest.mark.parametrize("kind", builders.KINDS)
@pytest.mark.parametrize("n_components", [1, 2, 5])
@pytest.mark.parametrize("alpha", [1.0, 0.4])
def test_scores_are_the_definitions(kind, n_components, alpha):
    options = EstimationOptions(alpha)
    world = builders.make_world(4, kind, n_components, levels=(2, 4), n=30, options=options, n_regressions=1)
    sizes = builders.sizes(kind, 3, n_components)
    d = oracles.n_parameters(builders.oracle_kind(kind), 3, sizes, [2, 4], 2, 1)
    wanted = oracles.scores(builders.oracle_kind(kind), world.plain, world.rows, builders.oracle_prior(options), d)
    found = score_of(world)
    for name in NAMES:
        assert getattr(found, name) == pytest.approx(wanted[name], rel=1e-10), name


def log_predictive(codes, r, alpha):
    """Log p of a sequence of codes under Dirichlet(alpha), one after the other."""
    counts, total = np.zeros(r), 0.0
    for code in codes:
        total += math.log((alpha + counts[code]) / (alpha * r + counts.sum()))
        counts[code] += 1
    return total


def log_student(values):
    """Log p of a sequence of values under the normal-inverse-gamma prior, one after the other."""
    kappa, a, b, m = KAPPA, A, B, 0.0
    total = 0.0
    for x in values:
        total += stats.t.logpdf(x, 2 * a, m, math.sqrt(b * (kappa + 1) / (a * kappa)))
        b += kappa * (x - m) ** 2 / (2 * (kappa + 1))
        m = (kappa * m + x) / (kappa + 1)
        kappa, a = kappa + 1, a + 0.5
    return total


@pytest.mark.parametrize(("kind", "pooled"), [("nb", False), ("fan", False), ("per_class", False), ("fm", True)])
def test_cheeseman_stutz_is_the_exact_marginal_when_nothing_is_hidden(kind, pooled):
    """With every label known and one component, D' is D: at any parameters, CS is log p(D | M)."""
    options = EstimationOptions(0.8)
    world = builders.make_world(5, kind, 1, levels=(2, 4), n=40, unlabelled=0.0, weighted=False, options=options)
    rows, wanted = world.rows, log_predictive(world.rows.labels, 3, 0.8)
    groups = [np.full(40, True)] if pooled else [rows.labels == c for c in range(3)]
    for group in groups:
        for i, r in enumerate((2, 4)):
            codes = rows.codes[group, i]
            wanted += log_predictive(codes[codes >= 0], r, 0.8)
        for i in range(2):
            values = rows.numbers[group, i]
            wanted += log_student(values[~np.isnan(values)])
    assert score_of(world).cs == pytest.approx(wanted, rel=1e-10)
    fitted = world.network.model.estimate(statistics_of(world, world.network))
    assert score_of(world, fitted).cs == pytest.approx(wanted, rel=1e-10)


@pytest.mark.parametrize("kind", ["nb", "fan", "per_class", "fm"])
@pytest.mark.parametrize("unlabelled", [0.0, 0.5])
def test_icl_is_bic_with_one_component(kind, unlabelled):
    world = builders.make_world(6, kind, 1, n=50, unlabelled=unlabelled)
    found = score_of(world)
    assert found.icl == pytest.approx(found.bic, rel=1e-12)


@pytest.mark.parametrize("kind", ["fan", "per_class", "fm"])
def test_icl_is_below_bic_with_several(kind):
    found = score_of(builders.make_world(6, kind, 3, n=50))
    assert found.icl < found.bic - 1


def test_icl_does_not_depend_on_how_a_class_numbers_components_of_its_own():
    """Component h of one class is not that of another, also where a row has no label."""
    world = builders.make_world(9, "per_class", 3, n=60, unlabelled=0.6)
    cells, of_class = np.array([0, 1, 2, 5, 3, 4, 6, 7, 8]), np.arange(3)  # those of the second class renumbered
    factors, parameters = world.network.factors[:, np.append(of_class, 3 + cells)], world.network.cells[..., cells]
    renumbered = replace(world.network, factors=factors, cells=parameters)
    found = score_of(world, renumbered)
    assert found.log_likelihood == pytest.approx(score_of(world).log_likelihood, rel=1e-12)
    assert found.icl == pytest.approx(score_of(world).icl, rel=1e-12)


def test_fan_of_one_component_scores_as_naive_bayes():
    world = builders.make_world(7, "nb", 1)
    nb, _ = labelled_naive_bayes(world.problem(), 3)
    statistics = statistics_of(world, nb)
    fan, again = (
        replace(nb.model, structure=builders.make_structure(k, 3, 1)).estimate(statistics) for k in ("fan", "nb")
    )
    assert fan.model.n_parameters == nb.model.n_parameters
    for name in NAMES:
        a, b = (getattr(score_of(world, network), name) for network in (fan, again))
        assert a == pytest.approx(b, rel=1e-12), name


def test_n_is_the_sum_of_the_weights():
    world = builders.make_world(8, "fan", 2, n=40)
    found = score_of(world)
    n = world.rows.weights.sum()
    assert n != 40
    assert found.bic == pytest.approx(found.log_likelihood - found.n_parameters / 2 * math.log(n))
    assert found.aic == pytest.approx(found.log_likelihood - found.n_parameters)
