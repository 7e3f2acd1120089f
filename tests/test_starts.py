"""Where EM starts: drawn around simpler networks, whatever the order and the weights of the rows."""

from dataclasses import replace

import builders
import numpy as np
import oracles
import pytest

from fanbayes.learning.data import InMemoryData
from fanbayes.learning.e_step import e_step
from fanbayes.learning.em import Problem
from fanbayes.learning.starts import labelled_naive_bayes, random_networks, split_networks
from fanbayes.model.blocks import EstimationOptions
from fanbayes.model.network import Model

OPTIONS = builders.MAP
KINDS = ("fan", "per_class", "fm")
LAYOUT = builders.make_layout((3, 4), 2)


@pytest.fixture
def rows():
    found = builders.random_rows(np.random.default_rng(0), (3, 4), 2, 3, 50, weighted=False)
    return replace(found, weights=np.random.default_rng(1).integers(1, 4, 50).astype(float))


def naive_bayes_and_statistics(rows):
    return labelled_naive_bayes(Problem(InMemoryData(builders.encode(rows, LAYOUT)), OPTIONS), 3)


def naive_bayes_of(rows):
    return naive_bayes_and_statistics(rows)[0]


def model_of(kind, n_components, options=OPTIONS):
    return Model(builders.make_structure(kind, 3, n_components), LAYOUT, options)


def draw(rows, kind, n_components=4, n=5, seed=0):
    return random_networks(naive_bayes_of(rows), model_of(kind, n_components), np.random.default_rng(seed), n)


def mean_of(network):
    return builders.part(network, "mean")


def pick(rows, index):
    return oracles.Rows(rows.codes[index], rows.numbers[index], rows.labels[index], rows.weights[index])


def assert_same(a, b):
    for x, y in zip(builders.arrays(a), builders.arrays(b)):
        np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-12)


def assert_distributions(network):
    np.testing.assert_allclose(np.exp(network.log_weight).sum(axis=1), 1.0)
    log_table = builders.part(network, "log_table")
    theta = np.exp(log_table)
    theta[:, LAYOUT.missing_level] = 0
    np.testing.assert_allclose(np.add.reduceat(theta, LAYOUT.first_level[:-1], axis=1), 1.0)
    np.testing.assert_array_equal(log_table[:, LAYOUT.missing_level], 0.0)
    assert (builders.part(network, "sigma2") > 0).all()


def test_naive_bayes_is_that_of_the_labelled_rows(rows):
    labelled = pick(rows, rows.labels >= 0)
    assert len(labelled) < len(rows)
    nb = naive_bayes_of(rows)
    assert_same(nb, naive_bayes_of(labelled))
    anywhere = builders.make_world(0, "nb", 1, levels=(3, 4)).plain
    wanted = oracles.maximise("nb", anywhere, labelled, False, builders.oracle_prior(OPTIONS), "map", 1e-6)
    found = builders.plain(nb)
    np.testing.assert_allclose(found.log_weight, wanted.log_weight)
    np.testing.assert_allclose(found.mean, wanted.mean)
    np.testing.assert_allclose(found.sigma2, wanted.sigma2)
    for a, b in zip(found.tables, wanted.tables):
        np.testing.assert_allclose(a, b)


def test_statistics_of_naive_bayes_are_those_under_itself(rows):
    """They are collected before the parameters are known; with nothing hidden that makes no difference."""
    labelled = pick(rows, rows.labels >= 0)
    network, found = naive_bayes_and_statistics(labelled)
    wanted = e_step(builders.encode(labelled, LAYOUT), network.terms, False, None)
    for name in ("states", "cells", "log_likelihood", "joint", "classification"):
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
    assert len(np.unique(mean_of(networks).reshape(5, -1), axis=0)) == 5
    assert len(np.unique(builders.part(networks, "log_table").reshape(5, -1), axis=0)) == 5
    if n_components > 1:  # components of one class must not begin alike
        assert len(np.unique(mean_of(networks)[0], axis=1)[0]) == networks.structure.n_cells
    assert_same(networks, draw(rows, kind, n_components))
    assert not np.allclose(mean_of(networks), mean_of(draw(rows, kind, n_components, seed=1)))


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
    split = split_networks(smaller, model_of(kind, 4), np.random.default_rng(0), 12)
    assert_distributions(split)
    old, new = smaller.structure, split.structure
    at_old = {(c, h): k for k, (c, h) in enumerate(zip(old.class_of, old.component_of))}
    at_new = {(c, h): k for k, (c, h) in enumerate(zip(new.class_of, new.component_of))}
    chosen = set()
    for k in range(12):
        share = np.bincount(new.component_of, np.exp(split.log_weight[k]))
        parent = int(np.argmin(np.abs(share[:3] - share[3])))
        chosen.add(parent)
        for (c, h), s in at_old.items():
            cell, original = new.cell_of[at_new[c, h]], old.cell_of[s]
            np.testing.assert_allclose(split.cells[k, :, cell], smaller.cells[0, :, original], atol=1e-12)
            factor = 0.5 if h == parent else 1.0
            weight = factor * np.exp(smaller.log_weight[0, s])
            assert np.exp(split.log_weight[k, at_new[c, h]]) == pytest.approx(weight, rel=1e-3, abs=1e-5)
        copy = new.cell_of[at_new[0, 3]]
        assert not np.allclose(mean_of(split)[k, :, copy], mean_of(smaller)[0, :, old.cell_of[at_old[0, parent]]])
    assert len(chosen) > 1


def test_starts_respect_the_floor(rows):
    model, nb = model_of("fan", 2, EstimationOptions(variance_floor=2.5)), naive_bayes_of(rows)
    networks = random_networks(nb, model, np.random.default_rng(0), 2)
    assert builders.part(nb, "sigma2").max() < 2.5 <= builders.part(networks, "sigma2").min()


@pytest.mark.parametrize("tying", ["all", "class"])
def test_what_cells_share_stays_shared(rows, tying):
    """The mean of the variances that are copied: a copy disturbed in its mean keeps it."""
    model, nb = model_of("fan", 2, EstimationOptions(variance_tying=tying)), naive_bayes_of(rows)
    networks = random_networks(nb, model, np.random.default_rng(0), 3)
    sigma2, of_class = builders.part(nb, "sigma2")[0], model.structure.class_of_cell
    wanted = sigma2[:, of_class] if tying == "class" else np.repeat(sigma2.mean(axis=1, keepdims=True), 6, axis=1)
    np.testing.assert_allclose(builders.part(networks, "sigma2"), np.tile(wanted, (3, 1, 1)), rtol=1e-12)
    assert networks.shared.shape == (3, 2 if tying == "all" else 6)
