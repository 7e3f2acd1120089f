"""Starts that exchange what they found for each class."""

import builders
import numpy as np
import pytest

from fanbayes.data.table import EncodedTable
from fanbayes.learning.data import InMemoryData
from fanbayes.learning.em import Problem, initial_state, run_em, step_if_better
from fanbayes.learning.recombination import _class_objectives, recombined
from fanbayes.model.blocks import EstimationOptions
from fanbayes.model.network import Model
from fanbayes.model.structure import fan

NUMBERS = builders.make_layout((), 1)


def problem_of(table, options=builders.MAP, hard=False):
    return Problem(InMemoryData(table), options, hard)


def two_groups_a_class(n=200):
    """Both classes have two groups, of a quarter and three quarters; the rare one is on the left in the first only."""
    rng = np.random.default_rng(0)
    labels = np.arange(n) % 2
    rare = rng.random(n) < 0.25
    centre = np.where(rare, -3.0, 3.0) * np.where(labels == 0, 1, -1)
    numbers = (centre + 0.3 * rng.normal(size=n))[:, None]
    empty = np.zeros((n, 0))
    return EncodedTable(NUMBERS, empty.astype(np.uint8), empty.astype(np.uint16), numbers, labels.astype(np.int32))


def starts_that_know_one_class_each(mixing="shared", options=builders.MAP):
    """The first start has the means of the first class, the second those of the other."""
    shape = (2, 1, 4)
    means = np.array([[-3.0, 3.0, 0.0, 0.0], [0.0, 0.0, -3.0, 3.0]]).reshape(shape)
    structure = fan([2, 2], mixing)
    factors = np.full((2, structure.factor_ends[-1]), -np.log(2))
    written = np.concatenate([means, np.where(means == 0, 6.0, 0.1)], axis=1)
    return Model(structure, NUMBERS, options).from_cells(factors, written)


def mean_of(network):
    return builders.part(network, "mean")


@pytest.mark.parametrize("tying", ["none", "all", "class"])
@pytest.mark.parametrize("mixing", ["shared", "per_class"])
def test_the_best_of_each_class_is_better_than_any_start(mixing, tying):
    problem = problem_of(two_groups_a_class(), EstimationOptions(variance_tying=tying))
    state = initial_state(problem, starts_that_know_one_class_each(mixing, problem.options))
    both = initial_state(problem, recombined(problem, state, np.array([0, 1])))
    assert both.objective[0] > state.objective.max() + 50
    assert both.objective[1] < both.objective[0] - 50  # got the worse of each
    assert np.sort(np.abs(mean_of(both.network)[0, 0]))[0] > 2.5
    finished = run_em(problem, both, 100, 1e-9)
    alone = run_em(problem, state, 100, 1e-9)
    assert finished.objective[0] >= alone.objective.max() - 1e-6


def test_components_are_ordered_by_their_share_where_classes_share_it():
    """The rare group is on the left in one class and on the right in the other: p(h) must not be even."""
    problem = problem_of(two_groups_a_class())
    state = initial_state(problem, starts_that_know_one_class_each())
    network = recombined(problem, state, np.array([0]))
    np.testing.assert_allclose(np.exp(network.structure.split(network.factors[0])[1]), [0.75, 0.25], atol=0.07)
    left, right = np.split(mean_of(network)[0, 0], 2)
    assert left[0] > 2.5
    assert right[0] < -2.5


@pytest.mark.parametrize("kind", ["fan", "per_class", "ragged"])
@pytest.mark.parametrize(("levels", "n_numbers"), [((2, 3), 2), ((), 0)])
def test_classes_add_up_to_the_objective(kind, levels, n_numbers):
    """Also where there is no column."""
    world = builders.make_world(3, kind, 5, levels=levels, n_numbers=n_numbers, n=60, unlabelled=0.0)
    problem = problem_of(world.table)
    state = initial_state(problem, world.network)
    rest = problem.options.alpha * world.network.factors.sum(axis=1)
    np.testing.assert_allclose(_class_objectives(state).sum(axis=1) + rest, state.objective, rtol=1e-10)


@pytest.mark.parametrize(
    ("kind", "n_classes", "changed"),
    [
        ("fm", 3, {}),
        ("fan", 1, {}),
        ("fan", 3, {"hard": True}),
        ("fan", 3, {"options": builders.PAPER}),
    ],
)
def test_there_is_nothing_to_exchange(kind, n_classes, changed):
    rng = np.random.default_rng(0)
    layout = builders.make_layout((3,), 1)
    table = builders.encode(builders.random_rows(rng, (3,), 1, n_classes, 40), layout)
    problem = problem_of(table, **changed)
    structure = builders.make_structure(kind, n_classes, 2)
    networks = builders.random_network(rng, structure, layout, 3, problem.options)
    assert recombined(problem, initial_state(problem, networks), np.array([0, 1])) is None


def test_a_network_that_is_worse_is_not_taken():
    problem = problem_of(two_groups_a_class())
    state = initial_state(problem, starts_that_know_one_class_each())
    others = recombined(problem, state, np.array([1, 0]))  # the worse of each class, and the better
    after, better = step_if_better(problem, state, others)
    assert better.tolist() == [False, True]
    assert after.objective[0] == state.objective[0]
    assert after.objective[1] > state.objective[1] + 50
    np.testing.assert_array_equal(after.network.cells[0], state.network.cells[0])
    np.testing.assert_array_equal(after.network.cells[1], others.cells[1])
    assert after.n_iter == state.n_iter + 1
