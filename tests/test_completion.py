"""Missing values of rows that discriminative models predict: (M1) against enumeration and integrals."""

from dataclasses import replace
from itertools import product

import builders
import numpy as np
import pandas as pd
import pytest
from builders import encode, make_layout, make_structure, random_network, random_rows
from oracles import Rows
from scipy.special import softmax
from scipy.stats import norm

from fanbayes import FANClassifierCV, NBClassifier
from fanbayes.data.schema import Column, Schema
from fanbayes.data.table import layout_of
from fanbayes.learning import completion
from fanbayes.learning.completion import MOST_POINTS, Imputer, blocks, filled, missing_cells, seldom_missing
from fanbayes.learning.e_step import posterior

LEVELS, N_NUMBERS = (2, 3, 4), 2
LAYOUT = make_layout(LEVELS, N_NUMBERS)
SCHEMA = Schema(
    (
        *(Column(f"d{r}", "discrete", "str", levels=tuple("abcd"[:r])) for r in LEVELS),
        *(Column(f"n{k}", "continuous", "float64", low=-9, high=9, centre=0.0, scale=1.0) for k in range(N_NUMBERS)),
    ),
    None,
)


def make_imputer(seed=0, kind="fan", fills=(True,) * 5):
    network = random_network(np.random.default_rng(seed), make_structure(kind, 3, 3), LAYOUT)
    return Imputer(network, SCHEMA, np.array(fills))


def table_of(codes, numbers):
    n = len(codes)
    return encode(Rows(np.array(codes), np.array(numbers, dtype=float), np.full(n, -1), np.ones(n)), LAYOUT)


def log_density(network, table):
    return np.logaddexp.reduce(posterior(table, network.terms, "states", None), axis=1)


@pytest.mark.parametrize("kind", ["nb", "fan", "per_class", "fm"])
def test_all_combinations_by_their_probability(kind):
    """Those of few discrete columns: p(x_mis | x_obs) = p(x_obs, x_mis) / p(x_obs)."""
    imputer = make_imputer(1, kind)
    codes = np.array([[-1, 2, -1], [0, 1, 3], [-1, -1, -1], [1, -1, 0]])
    numbers = np.array([[0.3, -1.0], [0.1, 0.2], [2.0, 0.4], [0.0, -0.5]])
    done = imputer.complete(table_of(codes, numbers), None)
    for r, row in enumerate(codes):
        whole = np.array(list(product(*([c] if c >= 0 else range(m) for c, m in zip(row, LEVELS)))))
        wanted = softmax(log_density(imputer.network, table_of(whole, np.tile(numbers[r], (len(whole), 1)))))
        found = done.row == r
        np.testing.assert_array_equal(done.codes[found], whole)
        np.testing.assert_allclose(done.weight[found], wanted, atol=1e-12)
        np.testing.assert_array_equal(done.numbers[found], np.tile(numbers[r], (len(whole), 1)))


def test_points_follow_the_distribution(monkeypatch):
    """Moments and frequencies of many points against those of the mixture given what is observed."""
    imputer = make_imputer(3)
    monkeypatch.setattr(completion, "FEWEST_POINTS", 20_000)
    table = table_of([[0, -1, -1], [-1, -1, -1]], [[np.nan, 0.4], [np.nan, np.nan]])
    done = imputer.complete(table, None, 20_000)
    states = softmax(posterior(table, imputer.network.terms, "states", None), axis=1)
    cells, first = imputer.network.structure.cell_of, LAYOUT.first_level
    for r in range(2):
        found = done.row == r
        for j in (1, 2):
            log_p = builders.part(imputer.network, "log_table")[0, first[j] : first[j] + LEVELS[j]]
            p = states[r] @ np.exp(log_p)[:, cells].T
            counts = np.bincount(done.codes[found, j], done.weight[found], LEVELS[j])
            np.testing.assert_allclose(counts, p, atol=0.01)
        mean, sigma2 = (builders.part(imputer.network, name)[0, 0, cells] for name in ("mean", "sigma2"))
        deviation = np.sqrt(sigma2)
        for x in (-1.0, 0.0, 1.0):
            share = done.weight[found] @ (done.numbers[found, 0] <= x)
            assert share == pytest.approx(states[r] @ norm.cdf(x, mean, deviation), abs=0.01)
    assert (done.codes[done.row == 0, 0] == 0).all()
    assert (done.numbers[done.row == 0, 1] == 0.4).all()
    np.testing.assert_allclose(done.mean(np.ones((len(done.row), 1))), 1.0)


@pytest.mark.parametrize("shares", [(0.7, 0.3), (0.99, 0.01), (1 / 15,) * 15, (1 / 30,) * 30, (0.5, *(0.5 / 9,) * 9)])
def test_every_class_has_points(shares):
    """Classes that a missing number tells apart, two of them for sure: what it decides is as probable as they are."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(len(shares)), np.rint(3000 * np.array(shares)).astype(int))
    X = pd.DataFrame({"k": rng.choice(list("ab"), len(y)), "u": rng.normal(size=len(y)) + 20 * y})
    clf = NBClassifier().fit(X, y)
    network, schema = clf._predictor.network, clf.schema_
    table = clf._encode(X[:2].assign(u=np.nan), (schema,))[schema]
    done = Imputer(network, schema, np.ones(2, dtype=bool)).complete(table, None)
    wanted = softmax(posterior(table, network.terms, "states", None), axis=1)
    decided = np.rint(schema[1].restore(done.numbers[:, 0]) / 20)[:, None] == np.arange(len(shares))
    found = done.mean(decided.astype(float))
    if len(shares) == 2:
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
    assert (wanted / 3 < found).all()
    assert (found < wanted * 3).all()


def test_number_of_points():
    """By the missing values, by the levels of a discrete one, and by the probable classes, whatever is largest."""
    n_levels = np.array([3, 80])
    missing = np.array(
        [[0, 0, 1, 0, 0], [0, 0, 1, 1, 0], [1, 0, 1, 1, 0], [1, 1, 1, 1, 1], [0, 1, 0, 0, 0]], dtype=bool
    )
    for n_classes, least in ((1, 16), (2, 16), (3, 32), (4, 32), (5, 64), (30, 256), (99, 256)):
        of_class = np.tile(np.append(np.full(n_classes, 1 / n_classes), 0.0), (5, 1))
        found = completion.n_points(missing, n_levels, of_class)
        np.testing.assert_array_equal(found, np.maximum([16, 16, 32, 64, 64], least))
    few = completion.n_points(missing, n_levels, np.full((5, 2), 0.5), 16)
    np.testing.assert_array_equal(few, 16)


def test_a_row_is_completed_the_same_wherever_it_stands():
    imputer = make_imputer(4)
    rows = random_rows(np.random.default_rng(0), LEVELS, N_NUMBERS, 3, 300, missing=0.4)
    table = encode(rows, LAYOUT)
    together = imputer.complete(table, None)
    for r in (0, 17, 299):
        alone = imputer.complete(table.only(np.array([r])), None)
        for name in ("weight", "codes", "numbers"):
            np.testing.assert_array_equal(getattr(alone, name), getattr(together, name)[together.row == r])
    assert set(np.bincount(together.row)) >= {16, 32, 64}
    assert together.first.tolist() == [np.flatnonzero(together.row == r)[0] for r in range(300)]
    assert np.bincount(together.row).max() <= MOST_POINTS
    np.testing.assert_array_equal(np.concatenate(list(blocks(np.arange(300), 10**5))), np.arange(300))


def test_where_values_are_missing():
    """Cell by cell, in tables of many shapes: what NumPy writes into a part of an array has been wrong (2.4)."""
    for seed, (levels, n_numbers) in enumerate([((2,), 1), ((2, 3), 2), ((), 3), ((2, 300), 1), ((2, 4), 0)]):
        rows = random_rows(np.random.default_rng(seed), levels, n_numbers, 2, 60, missing=0.5)
        wanted = [
            [c < 0 for c in codes] + [x != x for x in numbers] for codes, numbers in zip(rows.codes, rows.numbers)
        ]
        found = missing_cells(encode(rows, make_layout(levels, n_numbers)))
        np.testing.assert_array_equal(found, np.array(wanted, dtype=bool).reshape(found.shape))


def test_values_that_are_left_out_stay_missing():
    imputer = make_imputer(5, fills=(True, False, True, False, True))
    table = table_of([[-1, -1, 1]], [[np.nan, np.nan]])
    done = imputer.complete(table, None)
    out = filled(table, SCHEMA, done)
    np.testing.assert_array_equal(missing_cells(out), np.tile([False, True, False, True, False], (len(done.row), 1)))


def test_binned_columns_get_the_interval_of_the_value():
    """Observed values keep their interval; expected ones get theirs, in the column's own unit."""
    binned = replace(SCHEMA.columns[3], kind="binned", cuts=(-0.5, 0.5))
    schema = Schema((*SCHEMA.columns[:3], binned, SCHEMA.columns[4]), None)
    layout = layout_of(schema)
    place = schema.discrete.index(3)
    codes = np.array([[0, 1, 1], [0, 1, 1]])
    observed = np.insert(codes, place, [2, -1], axis=1)
    view = encode(Rows(observed, np.array([[0.1], [0.1]]), np.full(2, -1), np.ones(2)), layout)
    done = make_imputer(6).complete(table_of(codes, [[0.1, 0.1], [np.nan, 0.1]]), None)
    done.numbers[:, 0] = np.where(np.arange(len(done.row)) % 2 == 0, -0.5, 0.6)
    found = filled(view, schema, done).codes_of_columns()[:, place]
    assert found[0] == 2
    np.testing.assert_array_equal(found[1:], np.where(done.numbers[1:, 0] == -0.5, 0, 2))


def test_columns_that_are_often_missing_are_left_out():
    codes = np.zeros((100, 3), dtype=int)
    codes[:4, 0], codes[:5, 1] = -1, -1
    numbers = np.zeros((100, 2))
    numbers[:50, 1] = np.nan
    table = table_of(codes, numbers)
    np.testing.assert_array_equal(seldom_missing(table, SCHEMA), [True, False, True, True, False])
    heavy = replace(table, weights=np.where(np.arange(100) < 4, 2.0, 1.0))
    assert not seldom_missing(heavy, SCHEMA)[0]


# ---------------------------------------------------------------- the average


@pytest.fixture(scope="module")
def majority():
    """Two of four columns decide: fine-tuned members, of which a factor cannot just be left out."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({f"x{j}": rng.choice(list("abc"), 2000) for j in range(4)})
    y = ((X == "a").sum(axis=1) >= 2).to_numpy().astype(int)
    return FANClassifierCV(effort="fast", random_state=0).fit(X, y), X, y


def test_the_probability_without_a_value_is_the_mean_over_it(majority):
    clf, X, y = majority
    rows = pd.DataFrame({"x0": ["a", "b", "c", None], **{f"x{j}": [None] * 4 for j in (1, 2, 3)}})
    truth = [y[X["x0"] == level].mean() for level in "abc"]
    np.testing.assert_allclose(clf.predict_proba(rows)[:3, 1], truth, atol=0.05)
    np.testing.assert_allclose(np.exp(clf.predict_log_proba(rows)), clf.predict_proba(rows), atol=1e-12)
    # One hole, by hand: the values as probable as the imputer has them.
    one = X.iloc[:20].copy()
    one["x2"] = None
    each = np.stack([clf.predict_proba(one.assign(x2=v)) for v in "abc"])
    network = clf.imputer_.network
    table = clf._encode(one, (clf.schema_,))[clf.schema_]
    states = softmax(posterior(table, network.terms, "states", None), axis=1)
    first = network.layout.first_level[clf.schema_.discrete.index(2)]
    p = states @ np.exp(builders.part(network, "log_table")[0, first : first + 3])[:, network.structure.cell_of].T
    np.testing.assert_allclose(clf.predict_proba(one), np.einsum("vnc,nv->nc", each, p), atol=1e-12)


def test_a_row_without_any_value_gets_the_class_prior(majority):
    clf, X, _ = majority
    empty = X.iloc[:2].assign(**dict.fromkeys(X.columns))
    np.testing.assert_allclose(clf.predict_proba(empty), np.tile(clf.class_prior_, (2, 1)), rtol=1e-12)
    why = clf.explain(empty)
    assert (why.contributions == 0).all()
    np.testing.assert_allclose(why.log_odds, np.log(clf.class_prior_[0] / clf.class_prior_[1]), rtol=1e-12)


def test_a_row_gets_the_same_answer_in_any_company(majority, monkeypatch):
    clf, X, _ = majority
    holes = X.iloc[:200].mask(np.random.default_rng(1).random((200, 4)) < 0.4)
    together = clf.predict_proba(holes)
    order = np.random.default_rng(2).permutation(200)
    np.testing.assert_array_equal(clf.predict_proba(holes.iloc[order]), together[order])
    np.testing.assert_array_equal(np.vstack([clf.predict_proba(holes.iloc[[k]]) for k in range(9)]), together[:9])
    clf.set_params(n_jobs=2)
    np.testing.assert_array_equal(clf.predict_proba(holes), together)
    clf.set_params(n_jobs=None)
    monkeypatch.setattr(completion, "_CELLS_AT_ONCE", 5 * MOST_POINTS * 4)
    np.testing.assert_array_equal(clf.predict_proba(holes), together)


def test_explanations_add_up_with_values_missing(majority):
    clf, X, _ = majority
    holes = X.iloc[:30].mask(np.random.default_rng(3).random((30, 4)) < 0.4)
    found, proba = clf.explain(holes), clf.predict_proba(holes)
    np.testing.assert_allclose(found.prior + found.contributions.sum(axis=1), found.log_odds, atol=1e-9)
    np.testing.assert_allclose(found.log_odds, np.log(proba.max(axis=1) / proba.min(axis=1)), atol=1e-9)
    told = found.table()["value"].to_numpy().reshape(30, 5)
    assert (told[:, 0] == "").all()  # of the prior
    np.testing.assert_array_equal(told[:, 1:] == "(expected)", holes.isna() & (found.contributions != 0.0))
    assert (told[:, 1:] == "(expected)").any()


def test_numbers_too_are_averaged_over():
    """A missing number among mixed columns, seen as they are, binned and decorrelated."""
    rng = np.random.default_rng(0)
    y = np.arange(400) % 2
    z = rng.normal(size=(400, 2)) @ [[1.0, 0.9], [0.0, 0.4]] + y[:, None] * [1.5, -1.5]
    X = pd.DataFrame({"u": z[:, 0], "v": z[:, 1], "k": rng.choice(list("ab"), 400)})
    clf = FANClassifierCV(effort="fast", random_state=0).fit(X[:300], y[:300])
    assert clf.imputer_.fills.all()
    assert set(clf.members_["treatment"]) - {"none"}

    def loss(model, rows):
        return -np.log(model.predict_proba(rows)[np.arange(100), y[300:]]).mean()

    holes = X[300:].assign(u=np.nan)
    best = loss(
        FANClassifierCV(effort="fast", random_state=0).fit(X[:300].drop(columns="u"), y[:300]), holes[["v", "k"]]
    )
    assert loss(clf, holes) < best + 0.05
    assert loss(clf, holes) < loss(NBClassifier().fit(X[:300], y[:300]), holes) + 0.05


def test_what_leaves_values_out_exactly_does():
    """A single naive Bayes is a joint distribution, mixed with the classes' shares: nothing is filled in."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(9, 2)), np.arange(9) % 2
    with pytest.warns(UserWarning, match="too few to judge"):
        clf = FANClassifierCV(effort="fast", random_state=0).fit(X, y)
    assert not clf.imputer_.fills.any()
    rows = np.array([[np.nan, 0.3], [0.1, np.nan]])
    wanted = 0.9 * NBClassifier().fit(X, y).predict_proba(rows) + 0.1 * clf.class_prior_
    np.testing.assert_allclose(clf.predict_proba(rows), wanted, rtol=1e-9)


def test_rows_held_out_are_judged_as_they_will_be_predicted(majority):
    """A column that is seldom missing: what is promised of the rows held out is found on new rows with holes."""
    _, X, y = majority
    holes = X.mask(np.random.default_rng(4).random(X.shape) < 0.04)
    clf = FANClassifierCV(effort="fast", random_state=0).fit(holes[:1500], y[:1500])
    assert clf.imputer_.fills.all()
    new = np.log(clf.predict_proba(holes[1500:])[np.arange(500), y[1500:]]).mean()
    assert clf.log_score_ == pytest.approx(new, abs=0.02)
