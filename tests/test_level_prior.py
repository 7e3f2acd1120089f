"""Discrete columns of many levels: prior counts by evidence, instead of one for every level and class."""

import math
import warnings

import builders
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.metrics import log_loss

import fanbayes
from fanbayes import (
    DataWarning,
    FANClassifier,
    FANClassifierCV,
    FMClassifier,
    MDAClassifier,
    NBClassifier,
    TANClassifier,
)
from fanbayes.learning.data import InMemoryData
from fanbayes.learning.em import Problem, initial_state, run_em
from fanbayes.learning.level_prior import level_prior, log_evidence, prior_counts
from fanbayes.model.blocks import EstimationOptions
from fanbayes.model.network import Model
from fanbayes.model.tree import Tree, tree_layout

FEW = {"n_init": 2, "random_state": 0}
MODELS = {
    "nb": NBClassifier(),
    "fan": FANClassifier(2, **FEW),
    "per class": FANClassifier(2, mixing="per_class", **FEW),
    "fm": FMClassifier(3, **FEW),
    "tan": TANClassifier(tree="full"),
    "mda": MDAClassifier(2, **FEW),
}


def postcodes(n, effect, seed=0, n_levels=2000, share=0.05):
    """Few common postcodes and many rare ones, that matter or not, and a number that does."""
    rng = np.random.default_rng(seed)
    odds = effect * np.random.default_rng(99).normal(size=n_levels)
    code = rng.choice(n_levels, n, p=1 / np.arange(1, n_levels + 1) / (1 / np.arange(1, n_levels + 1)).sum())
    x = rng.normal(size=n)
    y = rng.random(n) < 1 / (1 + np.exp(-(math.log(share / (1 - share)) + odds[code] + x)))
    return pd.DataFrame({"code": [f"p{v}" for v in code], "x": x}), y


def world(seed=0, kind="fan", levels=(3, 40), **settings):
    """Rows with a column of few and one of many levels, values and labels missing, and what is maximised."""
    rng = np.random.default_rng(seed)
    layout = builders.make_layout(levels, 1)
    rows = builders.random_rows(rng, levels, 1, 2, 120, **settings)
    data = InMemoryData(builders.encode(rows, layout))
    options = EstimationOptions(level_prior=level_prior(data, 2))
    return rows, data, options, Model(builders.make_structure(kind, 2, 3), layout, options)


# ---------------------------------------------------------------- evidence


def test_the_evidence_is_that_of_an_urn():
    """Cases of a level drawn one after the other: p(c) = (pi_c B + cases of c so far) / (B + cases so far)."""
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 4, (6, 3)).astype(float)
    shares, of_level = np.array([0.5, 0.3, 0.2]), rng.gamma(2.0, size=6)
    expected = 0.0
    for row, b in zip(counts, of_level):
        drawn = np.zeros(3)
        for c in np.repeat(np.arange(3), row.astype(int)):
            expected += math.log((shares[c] * b + drawn[c]) / (b + drawn.sum()))
            drawn[c] += 1
    np.testing.assert_allclose(log_evidence(counts, shares, of_level), expected, rtol=1e-10)


def test_what_the_cases_do_not_show_is_not_believed():
    rng = np.random.default_rng(0)
    level = rng.choice(300, 3000, p=np.arange(1, 301) / np.arange(1, 301).sum())
    by_chance, telling = np.zeros((300, 2)), np.zeros((300, 2))
    np.add.at(by_chance, (level, (rng.random(3000) < 0.3).astype(int)), 1)
    np.add.at(telling, (level, (rng.random(3000) < (level % 2) * 0.8 + 0.1).astype(int)), 1)
    shares, of_level = prior_counts(by_chance)
    ratio = (by_chance + of_level[:, None] * shares) / by_chance.sum(axis=0)
    np.testing.assert_allclose(ratio[:, 0] / ratio[:, 1], np.median(ratio[:, 0] / ratio[:, 1]), rtol=0.1)
    frequency = by_chance.sum(axis=1) + 0.5
    np.testing.assert_allclose(of_level / of_level.sum(), frequency / frequency.sum(), atol=2e-3)
    _, of_level = prior_counts(telling)
    assert np.median(of_level) < 3
    # A name for each row: whatever their classes, they say nothing of others, and no class is preferred.
    shares, of_level = prior_counts(np.eye(2)[rng.integers(0, 2, 50)])
    assert (of_level >= 100).all()


# ---------------------------------------------------------------- estimates


def test_naive_bayes_by_its_formula():
    rng = np.random.default_rng(1)
    n = 90
    y = rng.integers(0, 2, n)
    codes = (rng.integers(0, 15, n) + 6 * y) % 15
    X = pd.DataFrame({"code": [f"c{v:02}" for v in codes], "few": np.where(rng.random(n) < 0.5, "a", "b")})
    table = NBClassifier().fit(X, y).feature_table("code").set_index(["class", "level"])["probability"]
    counts = np.zeros((15, 2))
    np.add.at(counts, (codes, y), 1)
    counts = counts[counts.sum(axis=1) > 0]
    shares, of_level = prior_counts(counts)
    for c in range(2):
        expected = (counts[:, c] + shares[c] * of_level) / (counts[:, c].sum() + shares[c] * of_level.sum())
        np.testing.assert_allclose(table[c].to_numpy(), expected)
    few = NBClassifier().fit(X, y).feature_table("few")
    pd.testing.assert_frame_equal(few, NBClassifier(alpha=1.0).fit(X, y).feature_table("few"))


@pytest.mark.parametrize("kind", builders.KINDS)
def test_cells_get_the_counts_of_their_class(kind):
    """The only cell of a class (L1), several of a class what the class has after (L1), shared ones equal parts."""
    rows, _, _, model = world(kind=kind)
    counts = np.zeros((40, 2))
    known = (rows.labels >= 0) & (rows.codes[:, 1] >= 0)
    np.add.at(counts, (rows.codes[known, 1], rows.labels[known]), rows.weights[known])
    shares, of_level = prior_counts(counts)
    structure, block = model.structure, model.places[0].block
    assert block.prior.shape == (4 + 41, structure.n_cells)
    np.testing.assert_array_equal(block.prior[:3], 1.0)
    for k in range(structure.n_cells):
        if structure.class_of_cell is None:
            expected = of_level / structure.n_cells
        else:
            c = structure.class_of_cell[k]
            alone = (structure.class_of_cell == c).sum() == 1
            expected = shares[c] * of_level + (0.0 if alone else counts[:, c])
        np.testing.assert_allclose(block.prior[4:-1, k], expected)


@pytest.mark.parametrize("kind", builders.KINDS)
def test_native_and_numpy_estimates_agree_and_no_step_falls(kind):
    _, data, options, model = world(kind=kind)
    start = builders.random_network(np.random.default_rng(0), model.structure, model.layout, 2, options)
    state = initial_state(Problem(data, options), start)
    network = model.estimate(state.statistics)
    s = state.statistics
    factors, cells, shared = model.native.estimate(s.states, s.cells)
    np.testing.assert_allclose(cells, network.cells, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(model.native.log_prior(factors, cells, shared), network.log_prior(), rtol=1e-10)
    # It is the maximum: any other probabilities have less of log-likelihood and prior together.
    best = network.log_likelihood_of(s) + network.log_prior()
    other = network.perturb(np.full((2, model.structure.n_cells), 0.05), np.random.default_rng(1))
    assert (other.log_likelihood_of(s) + other.log_prior() < best).all()
    for accelerate in (False, True):
        done = run_em(Problem(data, options, accelerate=accelerate), state, 40, 0.0)
        assert (np.diff(done.traces, axis=1) >= -1e-7).all()
    # The completed data's marginal likelihood is that of urns as well.
    assert np.isfinite(model.log_marginal(s)).all()


def test_columns_with_parents():
    """x given each level of its parent is shrunk towards x given the class."""
    _, _, options, model = world(kind="nb")
    for tree, has_parent in ((Tree((-1, 0, -1), (0.0, 1.0, 0.0)), True), (Tree((-1, -1, 0), (0.0, 0.0, 1.0)), False)):
        layout = tree_layout(model.layout, tree)
        found = Model(model.structure, layout, options).places[0].block.prior
        own = options.level_prior.within_class if has_parent else options.level_prior.of_class
        part = np.where(np.isnan(own[4:]), 1.0, own[4:])
        expected = np.concatenate([np.ones((4, 2)), *[part] * (3 if has_parent else 1)])
        np.testing.assert_array_equal(found, expected)


# ---------------------------------------------------------------- classifiers


def with_alpha(clf, alpha="auto"):
    return clone(clf).set_params(alpha=alpha)


@pytest.mark.filterwarnings("ignore::fanbayes.DataWarning")
@pytest.mark.parametrize("name", ["nb", "fan"])
def test_a_postcode_that_matters_and_one_that_does_not(name):
    """Mean log loss of new rows: lower than with Laplace's rule, and not higher than without the column.

    In one of twenty samples (the first of these) the evidence sees something where there is nothing.
    """
    for effect, gain in ((1.5, 0.01), (0.0, -0.002)):
        losses = []
        for seed in range(5):
            (X, y), (new, truth) = postcodes(4000, effect, seed), postcodes(4000, effect, seed + 100)
            losses += [
                [
                    log_loss(truth, with_alpha(MODELS[name], alpha).fit(X[columns], y).predict_proba(new[columns]))
                    for alpha, columns in (("auto", ["code", "x"]), (1.0, ["code", "x"]), (1.0, ["x"]))
                ]
            ]
        loss, laplace, without = np.mean(losses, axis=0)
        assert loss < laplace - 0.005
        assert loss < without - gain


def test_few_levels_are_left_to_laplace():
    """To the last bit: no column has more than ten levels, or each has ten cases in every class."""
    rng = np.random.default_rng(0)
    y = np.arange(600) % 2
    X = pd.DataFrame({"ten": rng.integers(0, 10, 600), "twelve": rng.integers(0, 12, 600)}).astype(str)
    for clf in MODELS.values():
        a, b = (with_alpha(clf, alpha).fit(X, y) for alpha in ("auto", 1.0))
        np.testing.assert_array_equal(a.predict_proba(X), b.predict_proba(X))
        assert a.network_.model.options.level_prior is None
    assert NBClassifier().fit(X[:100], y[:100]).network_.model.options.level_prior is not None


@pytest.mark.parametrize("name", MODELS)
def test_weights_files_and_holes(name, tmp_path):
    """Weight 2 is the row twice; a file gives the same bits; a missing or unknown code is summed out."""
    X, y = postcodes(150, 1.5, n_levels=60, share=0.4)
    X.loc[::7, "code"] = None
    clf = with_alpha(MODELS[name])
    weight = 1 + (np.arange(150) % 3 == 0)
    weighted = with_alpha(clf).fit(X, y, sample_weight=weight)
    copies = np.repeat(np.arange(150), weight)
    twice = with_alpha(clf).fit(X.iloc[copies].reset_index(drop=True), y[copies])
    assert weighted.network_.model.options.level_prior is not None
    np.testing.assert_allclose(weighted.predict_proba(X), twice.predict_proba(X), rtol=1e-4, atol=1e-5)
    fanbayes.save(weighted, tmp_path / "m.fan")
    again = fanbayes.load(tmp_path / "m.fan")
    assert again.alpha == "auto"
    np.testing.assert_array_equal(again.predict_proba(X), weighted.predict_proba(X))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        unknown = weighted.predict_proba(X.assign(code="nowhere"))
    np.testing.assert_array_equal(unknown, weighted.predict_proba(X.assign(code=None)))


@pytest.mark.filterwarnings("ignore::fanbayes.DataWarning", "ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", MODELS)
def test_few_rows(name):
    """Names of rows, one class, classes of one row, hardly any labels, tiny and huge weights: probabilities."""
    names = pd.DataFrame({"name": [f"n{k}" for k in range(12)], "x": np.arange(12.0)})
    label = np.array(["a"] * 11 + ["b"])
    partly = np.where(np.arange(12) < 2, np.array(["a", "b"] * 6), None)
    for y, weight in ((label, None), (np.full(12, "a"), None), (partly, None), (label, 1e-9), (label, 1e90)):
        clf = with_alpha(MODELS[name])
        if hasattr(clf, "n_components"):
            clf.set_params(n_components=1 if weight else 2)
        clf.fit(names, y, sample_weight=None if weight is None else np.full(12, weight))
        p = clf.predict_proba(names)
        assert np.isfinite(p).all()
        np.testing.assert_allclose(p.sum(axis=1), 1.0)
    # A name tells nothing of the class.
    clf = NBClassifier().fit(names, np.array(["a", "b"] * 6))
    p = clf.predict_proba(names.assign(x=None))
    np.testing.assert_allclose(p, 0.5, atol=0.02)


def test_members_of_an_average_have_it_too():
    X, y = postcodes(400, 1.0, n_levels=200, share=0.4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        clf = FANClassifierCV(effort="fast", cv=2, random_state=0).fit(X, y)
    assert clf.average_.imputer.network.model.options.level_prior is not None


@pytest.mark.parametrize("alpha", ["automatic", 0, -1.0, None, True])
def test_settings_without_meaning_are_refused(alpha):
    X, y = postcodes(40, 1.0)
    with pytest.raises((ValueError, TypeError), match="alpha="):
        NBClassifier(alpha=alpha).fit(X, y)
