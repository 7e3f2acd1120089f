"""States, cells and parameter counts of NB, FAN and FM."""

import pickle

import builders
import numpy as np
import oracles
import pytest

from fanbayes.model.network import Model
from fanbayes.model.structure import fan, finite_mixture, naive_bayes


def table_of(structure):
    return list(zip(structure.class_of.tolist(), structure.component_of.tolist(), structure.cell_of.tolist()))


def test_naive_bayes_has_one_state_and_cell_per_class():
    assert table_of(naive_bayes(3)) == [(0, 0, 0), (1, 0, 1), (2, 0, 2)]


@pytest.mark.parametrize("mixing", ["shared", "per_class"])
def test_fan_has_a_cell_for_each_class_and_component(mixing):
    assert table_of(fan([2, 2], mixing)) == [(0, 0, 0), (0, 1, 1), (1, 0, 2), (1, 1, 3)]


def test_classes_may_have_their_own_number_of_components():
    structure = fan([3, 1, 2], "per_class")
    assert table_of(structure) == [(0, 0, 0), (0, 1, 1), (0, 2, 2), (1, 0, 3), (2, 0, 4), (2, 1, 5)]
    assert structure.n_components == 3
    assert structure.n_cells == 6


def test_finite_mixture_shares_its_cells_between_classes():
    structure = finite_mixture(2, 3)
    assert table_of(structure) == [(0, 0, 0), (0, 1, 1), (0, 2, 2), (1, 0, 0), (1, 1, 1), (1, 2, 2)]
    assert structure.class_of_cell is None
    assert structure.n_cells == 3


def test_class_of_cell():
    np.testing.assert_array_equal(fan([2, 1], "per_class").class_of_cell, [0, 0, 1])


@pytest.mark.parametrize("kind", builders.KINDS)
@pytest.mark.parametrize("n_classes", [1, 2, 5])
@pytest.mark.parametrize("n_components", [1, 2, 7])
@pytest.mark.parametrize(("levels", "n_numbers"), [((2, 3, 300), 0), ((), 4), ((5,), 1), ((), 0)])
def test_number_of_free_parameters(kind, n_classes, n_components, levels, n_numbers):
    structure = builders.make_structure(kind, n_classes, n_components)
    wanted = oracles.n_parameters(
        builders.oracle_kind(kind),
        n_classes,
        builders.sizes(kind, n_classes, n_components),
        list(levels),
        n_numbers,
    )
    assert Model(structure, builders.make_layout(levels, n_numbers), builders.MAP).n_parameters == wanted


def test_one_component_has_as_many_parameters_as_naive_bayes():
    for mixing in ("shared", "per_class"):
        models = (
            Model(s, builders.make_layout((3, 4), 2), builders.MAP) for s in (fan([1] * 4, mixing), naive_bayes(4))
        )
        assert len({model.n_parameters for model in models}) == 1


@pytest.mark.parametrize("kind", builders.KINDS)
def test_weights_of_the_states_are_a_distribution(kind):
    world = builders.make_world(2, kind, 4)
    assert np.exp(world.network.log_weight).sum() == pytest.approx(1.0)


@pytest.mark.parametrize("kind", builders.KINDS)
def test_weights_are_the_products_of_their_factors(kind):
    world = builders.make_world(2, kind, 4)
    structure, kind = world.network.structure, builders.oracle_kind(kind)
    # Give the factors by parent, as the definition names them: entries of a parent lie side by side.
    factors = []
    for f, theta in zip(structure.factors, structure.split(world.network.factors)):
        parents = range(int(f.parent.max()) + 1)
        keys = [()] if len(parents) == 1 and "|" not in f.name else [(p,) for p in parents]
        factors.append({key: np.exp(theta[0, f.parent == p]) for key, p in zip(keys, parents)})
    wanted = oracles.log_weights(kind, world.plain, factors)
    np.testing.assert_allclose(world.network.log_weight[0], wanted)


@pytest.mark.parametrize("kind", builders.KINDS)
def test_structures_pickle_after_use(kind):
    structure = builders.make_structure(kind, 3, 4)
    assert structure.native is structure.native
    again = pickle.loads(pickle.dumps(structure))
    assert table_of(again) == table_of(structure)
    assert [f.n_parameters for f in again.factors] == [f.n_parameters for f in structure.factors]
    assert again.native is not None
