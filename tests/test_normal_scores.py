"""Normal scores: ranks written out here, and what the map promises."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm, rankdata
from test_model_file import refusal, sealed
from test_views import see

from fanbayes import FANClassifierCV, load, save
from fanbayes.data.normal_scores import FURTHEST, N_KNOTS, are_knots, learn_scores, to_scores
from fanbayes.data.state import plain
from fanbayes.data.views import View
from fanbayes.files.container import read
from fanbayes.learning.ensembles.members import Member, MemberNetwork


def scores_of(x, weights=None):
    x = np.asarray(x, dtype=float)[:, None]
    knots = learn_scores(x, np.ones(len(x)) if weights is None else np.asarray(weights, dtype=float))
    assert knots.shape == (1, 2, N_KNOTS)
    assert are_knots(knots)
    return knots, to_scores(x, knots)[:, 0]


def test_few_values_have_the_quantiles_of_their_mean_ranks():
    x = np.array([3.0, -1, 0, 0, 0, 40, 3, 7])
    z = norm.ppf((rankdata(x) - 0.5) / len(x))
    np.testing.assert_allclose(scores_of(x)[1], (z - z.mean()) / z.std(), atol=1e-8)


def test_long_tails_become_normal():
    x = np.exp(2 * np.random.default_rng(0).normal(size=2000))
    _, z = scores_of((x - x.mean()) / x.std())
    assert z.mean() == pytest.approx(0, abs=1e-6)
    assert z.std() == pytest.approx(1)
    assert np.abs(z).max() < 4
    assert np.abs(np.sort(z) - norm.ppf((np.arange(2000) + 0.5) / 2000)).max() < 0.15
    assert (np.diff(z[np.argsort(x)]) > 0).all()


@pytest.mark.parametrize("n", [2, 5, 500])
def test_map_increases_within_its_bounds(n):
    knots, _ = scores_of(np.random.default_rng(n).standard_t(2, n))
    at = np.linspace(knots[0, 0, 0] - 2, knots[0, 0, -1] + 2, 999)[:, None]
    z = to_scores(at, knots)
    inside = np.abs(z[:, 0]) < FURTHEST
    assert (np.diff(z[inside, 0]) > 0).all()
    assert (np.abs(to_scores(np.array([[1e100], [-1e100]]), knots)) == FURTHEST).all()


def test_a_row_of_weight_two_is_the_row_twice():
    x = np.random.default_rng(0).normal(size=200)
    weights = np.random.default_rng(1).integers(1, 4, 200)
    np.testing.assert_allclose(scores_of(x, weights)[0], scores_of(np.repeat(x, weights))[0], atol=1e-12)


@pytest.mark.parametrize("x", [[], [np.nan], [2.0], [1.0, 1.0, 1.0], [0.0, 1e-12], [1e100, -1e100, 0.0]])
def test_hard_columns(x):
    _, z = scores_of(x)
    assert np.array_equal(np.isnan(z), np.isnan(x))
    assert (np.abs(z[~np.isnan(z)]) <= FURTHEST).all()


def test_view_shows_scores_learnt_from_the_rows_that_are_known():
    rng = np.random.default_rng(0)
    X, y = np.exp(rng.normal(size=(300, 2))), rng.integers(0, 2, 300).astype(np.int32)
    X[3, 0] = np.nan
    known = np.where(np.arange(300) < 200, y, np.int32(-1))
    view, table = see(X, y, "normal_scores", known=known)
    assert view.mixing is None
    assert np.array_equal(np.isnan(table.numbers), np.isnan(X))
    np.testing.assert_allclose(np.nanmean(table.numbers[:200], axis=0), 0, atol=1e-9)
    order = np.argsort(X[:, 1])
    assert (np.diff(table.numbers[order, 1]) >= 0).all()
    far = see(np.where(np.arange(300)[:, None] < 200, X, 10 * X), y, "normal_scores", known=known)
    np.testing.assert_allclose(far[1].numbers[:200], table.numbers[:200], atol=1e-5)


@pytest.fixture(scope="module")
def seen_by_scores():
    """An average, its first member shown normal scores of the columns."""
    rng = np.random.default_rng(0)
    X, y = np.exp(rng.normal(size=(80, 2))), np.arange(80) % 2
    X[:, 0] *= 1 + y
    clf = FANClassifierCV(effort="fast", random_state=0).fit(X, y)
    view = View(clf.schema_, None, see(X, y, "normal_scores")[0].scores)
    first = Member((MemberNetwork(view, clf.imputer_.network),))
    clf.average_ = replace(clf.average_, members=(first, *clf.average_.members[1:]))
    return clf, X


def test_files_keep_the_knots(seen_by_scores, tmp_path):
    clf, X = seen_by_scores
    save(clf, tmp_path / "m.fan")
    assert (load(tmp_path / "m.fan").predict_proba(X) == clf.predict_proba(X)).all()


def test_damaged_knots_are_refused(seen_by_scores, tmp_path):
    path = tmp_path / "m.fan"
    save(seen_by_scores[0], path)
    header, arrays = read(path)
    header = plain(header)
    assert refusal(sealed(header, dict(arrays)), path) is None
    name = next(name for name in arrays if name.endswith("/scores"))
    for damage in (lambda k: k[..., ::-1], lambda k: k[..., :-1], lambda k: np.full_like(k, np.nan), lambda k: 1e9 * k):
        assert refusal(sealed(header, dict(arrays) | {name: damage(arrays[name]).copy()}), path)
