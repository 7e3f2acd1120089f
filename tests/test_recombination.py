"""Starts that exchange what they found for each class."""

from dataclasses import replace

import builders
import numpy as np
import pytest

from fanbayes.data.table import EncodedTable
from fanbayes.learning.em import Problem, advance, begin, go_if_better
from fanbayes.learning.expectation import Workers
from fanbayes.learning.recombination import _class_objectives, recombined
from fanbayes.model.network import Network, Prior
from fanbayes.model.structure import fan

PRIOR = Prior(1.0, "map", 1e-6)
NUMBERS = builders.make_layout((), 1)


def problem_of(table, **changed):
    return Problem(table, **{"prior": PRIOR, "hard": False, "crew": Workers(), **changed})


def two_groups_a_class(n=200):
    """Both classes have two groups, of a quarter and three quarters; the rare one is on the left in the first only."""
    rng = np.random.default_rng(0)
    labels = np.arange(n) % 2
    rare = rng.random(n) < 0.25
    centre = np.where(rare, -3.0, 3.0) * np.where(labels == 0, 1, -1)
    numbers = (centre + 0.3 * rng.normal(size=n))[:, None]
    empty = np.zeros((n, 0))
    return EncodedTable(NUMBERS, empty.astype(np.uint8), empty.astype(np.uint16), numbers, labels.astype(np.int32))


def starts_that_know_one_class_each(mixing="shared"):
    """The first start has the means of the first class, the second those of the other."""
    shape = (2, 1, 4)
    means = np.array([[-3.0, 3.0, 0.0, 0.0], [0.0, 0.0, -3.0, 3.0]]).reshape(shape)
    structure = fan([2, 2], mixing)
    factors = tuple(np.full((2, len(f.parent)), -np.log(2)) for f in structure.factors)
    return Network(structure, NUMBERS, factors, np.zeros((2, 0, 4)), means, np.where(means == 0, 9.0, 0.1))


@pytest.mark.parametrize("variance", ["map", "tied", "tied_class"])
@pytest.mark.parametrize("mixing", ["shared", "per_class"])
def test_the_best_of_each_class_is_better_than_any_start(mixing, variance):
    problem = problem_of(two_groups_a_class(), prior=replace(PRIOR, variance=variance))
    climb = begin(problem, starts_that_know_one_class_each(mixing))
    both = begin(problem, recombined(problem, climb, np.array([0, 1])))
    assert both.objective[0] > climb.objective.max() + 50
    assert both.objective[1] < both.objective[0] - 50  # got the worse of each
    assert np.sort(np.abs(both.network.mean[0, 0]))[0] > 2.5
    finished = advance(problem, both, 100, 1e-9)
    alone = advance(problem, climb, 100, 1e-9)
    assert finished.objective[0] >= alone.objective.max() - 1e-6


def test_components_are_ordered_by_their_share_where_classes_share_it():
    """The rare group is on the left in one class and on the right in the other: p(h) must not be even."""
    problem = problem_of(two_groups_a_class())
    climb = begin(problem, starts_that_know_one_class_each())
    network = recombined(problem, climb, np.array([0]))
    np.testing.assert_allclose(np.exp(network.log_factors[1][0]), [0.75, 0.25], atol=0.07)
    left, right = network.mean[0, 0, :2], network.mean[0, 0, 2:]
    assert left[0] > 2.5
    assert right[0] < -2.5


@pytest.mark.parametrize("kind", ["fan", "per_class", "ragged"])
def test_classes_add_up_to_the_objective(kind):
    world = builders.make_world(3, kind, 5, levels=(2, 3), n=60, unlabelled=0.0)
    problem = problem_of(world.table)
    climb = begin(problem, world.network)
    rest = sum(PRIOR.alpha * theta.sum(axis=1) for theta in world.network.log_factors)
    np.testing.assert_allclose(_class_objectives(problem, climb).sum(axis=1) + rest, climb.objective, rtol=1e-10)


@pytest.mark.parametrize(
    ("kind", "n_classes", "changed"),
    [
        ("fm", 3, {}),
        ("fan", 1, {}),
        ("fan", 3, {"hard": True}),
        ("fan", 3, {"prior": replace(PRIOR, variance="paper")}),
    ],
)
def test_there_is_nothing_to_exchange(kind, n_classes, changed):
    rng = np.random.default_rng(0)
    layout = builders.make_layout((3,), 1)
    table = builders.encode(builders.random_rows(rng, (3,), 1, n_classes, 40), layout)
    problem = problem_of(table, **changed)
    networks = builders.random_network(rng, builders.make_structure(kind, n_classes, 2), layout, 3)
    assert recombined(problem, begin(problem, networks), np.array([0, 1])) is None


def test_a_network_that_is_worse_is_not_taken():
    problem = problem_of(two_groups_a_class())
    climb = begin(problem, starts_that_know_one_class_each())
    others = recombined(problem, climb, np.array([1, 0]))  # the worse of each class, and the better
    after, better = go_if_better(problem, climb, others)
    assert better.tolist() == [False, True]
    assert after.objective[0] == climb.objective[0]
    assert after.objective[1] > climb.objective[1] + 50
    np.testing.assert_array_equal(after.network.mean[0], climb.network.mean[0])
    np.testing.assert_array_equal(after.network.mean[1], others.mean[1])
    assert after.n_iter == climb.n_iter + 1
