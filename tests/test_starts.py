"""Where EM starts: drawn around simpler networks, whatever the order and the weights of the rows."""

from dataclasses import replace

import builders
import numpy as np
import oracles
import pytest

from fanbayes.learning.expectation import Workers, expect
from fanbayes.learning.starts import labelled_naive_bayes, random_networks, split_networks
from fanbayes.model.network import Prior

PRIOR = Prior(1.0, "map", 1e-6)
KINDS = ("fan", "per_class", "fm")
LAYOUT = builders.make_layout((3, 4), 2)


@pytest.fixture
def rows():
    found = builders.random_rows(np.random.default_rng(0), (3, 4), 2, 3, 50, weighted=False)
    return replace(found, weights=np.random.default_rng(1).integers(1, 4, 50).astype(float))


def naive_bayes_of(rows):
    network, _ = labelled_naive_bayes(builders.encode(rows, LAYOUT), 3, PRIOR, Workers())
    return network


def draw(rows, kind, n_components=4, n=5, seed=0):
    structure = builders.make_structure(kind, 3, n_components)
    return random_networks(naive_bayes_of(rows), structure, PRIOR, np.random.default_rng(seed), n)


def pick(rows, index):
    return oracles.Rows(rows.codes[index], rows.numbers[index], rows.labels[index], rows.weights[index])


def assert_same(a, b):
    for x, y in zip(a.parameters, b.parameters):
        np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-12)


def assert_distributions(network):
    np.testing.assert_allclose(np.exp(network.log_weight).sum(axis=1), 1.0)
    theta = np.exp(network.log_table)
    theta[:, LAYOUT.missing_level] = 0
    np.testing.assert_allclose(np.add.reduceat(theta, LAYOUT.first_level[:-1], axis=1), 1.0)
    np.testing.assert_array_equal(network.log_table[:, LAYOUT.missing_level], 0.0)
    assert (network.sigma2 > 0).all()


def test_naive_bayes_is_that_of_the_labelled_rows(rows):
    labelled = pick(rows, rows.labels >= 0)
    assert len(labelled) < len(rows)
    nb = naive_bayes_of(rows)
    assert_same(nb, naive_bayes_of(labelled))
    anywhere = builders.make_world(0, "nb", 1, levels=(3, 4)).plain
    wanted = oracles.maximise("nb", anywhere, labelled, False, 1.0, "map", 1e-6)
    found = builders.plain(nb)
    np.testing.assert_allclose(found.log_weight, wanted.log_weight)
    np.testing.assert_allclose(found.mean, wanted.mean)
    np.testing.assert_allclose(found.sigma2, wanted.sigma2)
    for a, b in zip(found.tables, wanted.tables):
        np.testing.assert_allclose(a, b)


def test_statistics_of_naive_bayes_are_those_under_itself(rows):
    """They are collected before the parameters are known; with nothing hidden that makes no difference."""
    labelled = builders.encode(pick(rows, rows.labels >= 0), LAYOUT)
    network, found = labelled_naive_bayes(labelled, 3, PRIOR, Workers())
    wanted = expect(labelled, network, False, Workers())
    for name in ("states", "counts", "moments", "log_likelihood", "joint", "classification"):
        np.testing.assert_allclose(getattr(found, name), getattr(wanted, name), rtol=1e-10, err_msg=name)


@pytest.mark.parametrize("kind", KINDS)
def test_starts_do_not_depend_on_the_order_of_the_rows(rows, kind):
    assert_same(draw(rows, kind), draw(pick(rows, np.random.default_rng(2).permutation(50)), kind))


@pytest.mark.parametrize("kind", KINDS)
def test_starts_do_not_depend_on_weights_or_duplicates(rows, kind):
    twice = pick(rows, np.repeat(np.arange(50), rows.weights.astype(int)))
    assert_same(draw(rows, kind), draw(replace(twice, weights=np.ones(len(twice))), kind))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_components", [1, 2, 3, 7, 11])
def test_random_starts_are_networks_and_differ(rows, kind, n_components):
    networks = draw(rows, kind, n_components)
    assert len(networks) == 5
    assert_distributions(networks)
    assert len(np.unique(networks.mean.reshape(5, -1), axis=0)) == 5
    assert len(np.unique(networks.log_table.reshape(5, -1), axis=0)) == 5
    if n_components > 1:  # components of one class must not begin alike
        assert len(np.unique(networks.mean[0], axis=1)[0]) == networks.structure.n_cells
    assert_same(networks, draw(rows, kind, n_components))
    assert not np.allclose(networks.mean, draw(rows, kind, n_components, seed=1).mean)


def test_components_of_a_mixture_cover_the_classes(rows):
    """As many components as classes: each begins near another class, and prefers it."""
    networks = draw(rows, "fm", 3, n=20)
    s = networks.structure
    joint = np.zeros((20, 3, 3))
    joint[:, s.class_of, s.component_of] = np.exp(networks.log_weight)
    preferred = joint.argmax(axis=1)  # class of each component
    np.testing.assert_array_equal(np.sort(preferred, axis=1), np.tile([0, 1, 2], (20, 1)))


@pytest.mark.parametrize("kind", KINDS)
def test_a_split_copies_one_component_and_leaves_the_others(rows, kind):
    smaller = draw(rows, kind, 3, n=1)
    structure = builders.make_structure(kind, 3, 4)
    split = split_networks(smaller, structure, PRIOR, np.random.default_rng(0), 12)
    assert_distributions(split)
    old, new = smaller.structure, structure
    at_old = {(c, h): k for k, (c, h) in enumerate(zip(old.class_of, old.component_of))}
    at_new = {(c, h): k for k, (c, h) in enumerate(zip(new.class_of, new.component_of))}
    chosen = set()
    for k in range(12):
        share = np.bincount(new.component_of, np.exp(split.log_weight[k]))
        parent = int(np.argmin(np.abs(share[:3] - share[3])))
        chosen.add(parent)
        for (c, h), s in at_old.items():
            cell, original = new.cell_of[at_new[c, h]], old.cell_of[s]
            np.testing.assert_allclose(split.mean[k, :, cell], smaller.mean[0, :, original])
            np.testing.assert_allclose(split.log_table[k, :, cell], smaller.log_table[0, :, original])
            factor = 0.5 if h == parent else 1.0
            weight = factor * np.exp(smaller.log_weight[0, s])
            assert np.exp(split.log_weight[k, at_new[c, h]]) == pytest.approx(weight, rel=1e-3, abs=1e-5)
        copy = new.cell_of[at_new[0, 3]]
        assert not np.allclose(split.mean[k, :, copy], smaller.mean[0, :, old.cell_of[at_old[0, parent]]])
    assert len(chosen) > 1


def test_starts_respect_the_floor(rows):
    prior = Prior(1.0, "map", 2.5)
    nb = naive_bayes_of(rows)
    networks = random_networks(nb, builders.make_structure("fan", 3, 2), prior, np.random.default_rng(0), 2)
    assert nb.sigma2.max() < 2.5 <= networks.sigma2.min()
