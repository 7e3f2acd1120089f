"""Boosted trees: growing against a plain definition, what is said of cases left out, hard input."""

import pickle
from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from scipy.special import log_softmax, softmax
from tree_rows import encoded, logical, loss

from fanbayes import _native
from fanbayes.learning.ensembles.boosted_trees import MOST_ROWS, fit_boosted
from fanbayes.learning.ensembles.coded_trees import ForestPredictor

RATE, SHRINKAGE, LEAST_CASES = 0.3, 1.0, 2.0


# ---------------------------------------------------------------- a plain definition


def gain(G, H):
    return float((G**2 / (H + SHRINKAGE)).sum())


def cuts(codes, n_codes, is_ordered):
    """Sets of codes that may go to the left: ranges, missing ones on either side, or any subset."""
    present = [int(code) for code in np.unique(codes)]
    known = [code for code in present if code < n_codes]
    if not is_ordered:
        return [set(left) for size in range(1, len(present)) for left in combinations(present, size)]
    found = [set(known[: k + 1]) for k in range(len(known) - 1)]
    return found + [left | {n_codes} for left in found] + [set(known)] if n_codes in present else found


def plain_tree(codes, G, H, weights, n_codes, is_ordered, depth):
    """Leaves of a tree as lists of (test of a row of codes, value)."""
    K = G.shape[1]

    def value(rows):
        return -RATE * (K - 1) / K * G[rows].sum(0) / (H[rows].sum(0) + SHRINKAGE)

    def below(rows, depth):
        best, found = gain(G[rows].sum(0), H[rows].sum(0)) + 1e-6, None
        for j in range(codes.shape[1]) if depth else ():
            for left in cuts(codes[rows, j], n_codes[j], is_ordered[j]):
                goes = np.isin(codes[rows, j], list(left))
                sides = rows[goes], rows[~goes]
                if min(weights[side].sum() for side in sides) < LEAST_CASES:
                    continue
                score = sum(gain(G[side].sum(0), H[side].sum(0)) for side in sides)
                if score > best + 1e-9:
                    best, found = score, (j, left, sides)
        if found is None:
            return lambda row: value(rows)
        j, left, sides = found
        go_left, go_right = (below(side, depth - 1) for side in sides)
        known = [code for code in left if code < n_codes[j]]
        present = set(codes[rows, j].tolist())

        def descend(row):
            code = row[j]
            if not is_ordered[j] or code == n_codes[j]:
                return go_left(row) if code in left else go_right(row)
            if present - left == {n_codes[j]}:  # all that is known is on the left
                return go_left(row)
            return go_left(row) if code <= max(known) else go_right(row)

        return descend

    return below(np.arange(len(codes)), depth)


def plain_sequence(codes, y, weights, prior, learnt, n_rounds, n_codes, is_ordered, depth):
    """Scores of all cases, without log p(c), after boosting on some."""
    F = np.tile(np.log(prior), (len(y), 1))
    truth = np.eye(len(prior))[y]
    for _ in range(n_rounds):
        p = softmax(F, axis=1)
        G, H = weights[:, None] * (p - truth), weights[:, None] * p * (1 - p)
        if len(prior) == 2:  # the scores of two classes move in opposite directions
            G, H = G[:, 1:], H[:, 1:]
            tree = plain_tree(codes[learnt], np.hstack([-G, G])[learnt], np.hstack([H, H])[learnt], weights[learnt],
                              n_codes, is_ordered, depth)  # fmt: skip
        else:
            tree = plain_tree(codes[learnt], G[learnt], H[learnt], weights[learnt], n_codes, is_ordered, depth)
        F += np.array([tree(row) for row in codes])
    return F - np.log(prior)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_trees_are_those_of_a_plain_implementation(n_classes, missing):
    rng = np.random.default_rng(n_classes)
    n, n_parts, n_rounds = 60, 3, 4
    n_codes = np.array([6, 4, 5])
    is_ordered = [1, 1, int(n_classes > 2)]  # codes of unordered columns are sorted by one class: exact for two
    codes = np.stack([rng.integers(k, size=n) for k in n_codes], axis=1)
    y = (codes[:, 0] > 2) ^ (codes[:, 2] > 1) if n_classes == 2 else np.minimum(codes[:, 0] // 2, codes[:, 1] // 2 + 1)
    y = np.where(rng.random(n) < 0.1, rng.integers(n_classes, size=n), y).astype(np.int32)
    codes[rng.random(codes.shape) < missing] = 99
    codes = np.minimum(codes, n_codes)
    weights = rng.integers(1, 4, size=n).astype(float)
    parts = rng.integers(n_parts, size=n).astype(np.int32)
    prior = np.bincount(y, weights, n_classes) / weights.sum()
    level = np.zeros((3, 64), dtype=np.uint8)
    *arrays, held_out = _native.grow_boosted(
        np.ascontiguousarray(codes.T.astype(np.uint8)), y, weights, np.arange(n, dtype=np.int32),
        parts, n_parts, n_codes.tolist(), is_ordered,
        level, [1, 1, 1], prior.tolist(), [1, n_rounds], 2, RATE, SHRINKAGE, LEAST_CASES, 1.0, 3, 0, None,
    )  # fmt: skip
    stages = arrays[1]
    assert stages.tolist() == [0] + [1] * (n_rounds - 1) + [0] + [1] * (n_rounds - 1) + [0] + [1] * (n_rounds - 1)
    for part in range(n_parts):
        learnt = parts != part
        for end, stage in ((1, held_out[:, :1]), (n_rounds, held_out[:, :2])):
            expected = plain_sequence(codes, y, weights, prior, learnt, end, n_codes, is_ordered, 2)
            np.testing.assert_allclose(stage.sum(axis=1)[~learnt], expected[~learnt], atol=1e-5)


def test_few_of_many_certain_cases_count_for_all_of_them():
    """Steps are those of all cases, but for chance, where the class of most is nearly certain and few are drawn."""
    n_each = np.array([2900, 60, 60, 2900, 1500, 1500])  # cases of codes 0, 1 and 2, of each class
    group = np.repeat(np.arange(6), n_each)
    of_group, prior, n_rounds = np.stack([np.arange(6) // 2], axis=1), np.full(2, 0.5), 12
    y = (np.arange(6) % 2).astype(np.int32)
    parts = np.zeros(len(group), dtype=np.int32)
    parts[np.searchsorted(group, np.arange(6))] = 1  # a case of each
    *_, held_out = _native.grow_boosted(
        np.ascontiguousarray(of_group[group].T.astype(np.uint8)), y[group], np.ones(len(group)),
        np.arange(len(group), dtype=np.int32), parts, 2, [3], [0], np.zeros((1, 64), dtype=np.uint8), [1],
        prior.tolist(), [n_rounds], 2, RATE, SHRINKAGE, LEAST_CASES, 1.0, 1, 0, None,
    )  # fmt: skip
    expected = plain_sequence(of_group, y, n_each - 1.0, prior, np.full(6, True), n_rounds, [3], [0], 2)
    np.testing.assert_allclose(held_out[parts == 1, 0], expected, atol=0.1)
    assert np.ptp(expected) > 2
    assert np.abs(held_out[parts == 1, 0] - expected).max() > 1e-4  # not all were looked at


# ---------------------------------------------------------------- what is fitted


@pytest.fixture(scope="module")
def fitted():
    X, y = logical(400, missing=0.1)
    view, table = encoded(X, y)
    return (view, table, *fit_boosted(table, view, 2, 0, None))


def test_an_exclusive_or_is_learnt(fitted):
    _, table, forest, log_proba = fitted
    X, y = logical(400, seed=1)
    _, other = encoded(X, y)
    assert loss(log_proba, table.labels) < 0.52  # 10 % of the values are missing
    assert loss(forest.log_proba(other, None), y) < 0.25
    np.testing.assert_allclose(np.exp(log_proba).sum(axis=1), 1)


def test_what_is_said_of_rows_left_out_is_as_good_as_it_says():
    X, y = logical(300, seed=2)
    view, table = encoded(X, y)
    forest, log_proba = fit_boosted(table, view, 2, 0, None)
    X, y = logical(3000, seed=3)
    of_others = loss(forest.log_proba(encoded(X, y)[1], None), y)
    of_learnt = loss(forest.log_proba(table, None), table.labels)
    said = loss(log_proba, table.labels)
    assert abs(said - of_others) < 0.06
    assert of_learnt < of_others


def test_noise_gets_hardly_more_than_the_shares():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(300, 5)))
    y = rng.integers(3, size=300)
    view, table = encoded(X, y)
    _, log_proba = fit_boosted(table, view, 3, 0, None)
    assert loss(log_proba, y) < np.log(3) + 0.01


def test_threads_do_not_matter(fitted):
    view, table, forest, log_proba = fitted
    other, other_log_proba = fit_boosted(table, view, 2, 0, _native.ThreadPool(3))
    assert (log_proba == other_log_proba).all()
    assert (forest.trees.values == other.trees.values).all()


def test_order_of_rows_does_not_matter(fitted):
    view, table, forest, log_proba = fitted
    order = np.random.default_rng(5).permutation(table.n_rows)
    moved, of_moved = fit_boosted(table.only(order), view, 2, 0, None)
    assert (of_moved == log_proba[order]).all()
    assert (moved.trees.values == forest.trees.values).all()


def test_terms_of_columns_add_up(fitted):
    _, table, forest, _ = fitted
    scores = np.log(forest.class_prior) + forest.terms(table, None).sum(axis=1)
    np.testing.assert_allclose(log_softmax(scores, axis=1), forest.log_proba(table, None), atol=1e-9)


def test_a_row_that_lacks_everything_gets_the_prior():
    X, y = logical(400)
    view, table = encoded(X, y)
    forest, _ = fit_boosted(table, view, 2, 0, None)
    empty = encoded(pd.concat([X, X.iloc[:1].mask(X.iloc[:1].notna())]), np.append(y, 0))[1]
    np.testing.assert_allclose(forest.proba(empty, None)[-1], forest.class_prior, atol=1e-6)


def test_saved_and_pickled(fitted):
    view, table, forest, _ = fitted
    values, arrays = forest.to_state()
    for other in (ForestPredictor.from_state(values, arrays, view, 2), pickle.loads(pickle.dumps(forest))):
        assert (other.proba(table, None) == forest.proba(table, None)).all()


def test_rows_without_label_or_weight_are_not_learnt_from(fitted):
    view, table, *_ = fitted
    few = table.only(np.arange(300))
    kept = fit_boosted(few, view, 2, 0, None)
    labels = table.labels.copy()
    labels[300:350] = -1
    weights = np.ones(400)
    weights[350:] = 0
    other = fit_boosted(replace(table, labels=labels, weights=weights), view, 2, 0, None)
    assert (other[0].trees.values == kept[0].trees.values).all()
    assert (other[1][:300] == kept[1]).all()
    np.testing.assert_array_equal(other[1][300:], other[0].log_proba(table.only(np.arange(300, 400)), None))


def test_groups_are_left_out_together():
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(60), 5)
    X = pd.DataFrame({"who": rng.normal(size=60)[group], "noise": rng.normal(size=300)})
    y = rng.integers(2, size=60)[group]
    view, table = encoded(X, y)
    _, alone = fit_boosted(table, view, 2, 0, None)
    _, together = fit_boosted(table, view, 2, 0, None, group)
    assert loss(alone, y) < 0.4  # who it is tells the class
    assert loss(together, y) > 0.65


def test_many_classes():
    rng = np.random.default_rng(0)
    y = rng.permutation(np.repeat(np.arange(12), 40))
    X = pd.DataFrame({"x": y % 4 + rng.normal(size=480) / 4, "z": y // 4 + rng.normal(size=480) / 4})
    view, table = encoded(X, y)
    _, log_proba = fit_boosted(table, view, 12, 0, None)
    assert loss(log_proba, y) < 0.5


@pytest.mark.parametrize(
    "columns",
    [
        {"x": np.zeros(40)},
        {"x": np.full(40, np.nan), "z": np.arange(40.0)},
        {"x": np.where(np.arange(40) % 2, 1e300, -1e300)},
        {"x": np.arange(40) * 1e-300},
        {"x": [f"level {k}" for k in range(40)]},
    ],
)
def test_columns_that_hurt(columns):
    y = np.arange(40) // 3 % 2
    view, table = encoded(pd.DataFrame(columns), y)
    forest, log_proba = fit_boosted(table, view, 2, 0, None)
    for found in (log_proba, forest.log_proba(table, None)):
        assert np.isfinite(found).all()


@pytest.mark.parametrize(("n", "labels"), [(1, [0]), (5, [0, 1, 0, 1, 0]), (30, [1] * 30)])
def test_too_little_to_learn_from(n, labels):
    view, table = encoded(pd.DataFrame({"x": np.arange(n) * 1.0}), np.array(labels))
    forest, log_proba = fit_boosted(table, view, 2, 0, None)
    assert forest.n_trees == 0
    np.testing.assert_allclose(np.exp(log_proba), np.tile(forest.class_prior, (n, 1)))


def test_weights_count_as_cases():
    X, y = logical(120)
    weights = np.random.default_rng(0).integers(1, 3, size=120)
    repeated = np.repeat(np.arange(120), weights)
    (view, heavy), (_, many) = encoded(X, y, weights.astype(float)), encoded(X.iloc[repeated], y[repeated])
    of_heavy, of_many = (fit_boosted(table, view, 2, 0, None)[0] for table in (heavy, many))
    np.testing.assert_allclose(of_heavy.class_prior, of_many.class_prior)
    gap = np.abs(of_heavy.proba(heavy, None) - of_many.proba(heavy, None)).mean()
    assert gap < 0.1  # the same cases, dealt out otherwise


def test_heavy_cases_are_drawn_all_the_same():
    X, y = logical(200)
    view, table = encoded(X, y, np.full(200, 1e7))
    forest, _ = fit_boosted(table, view, 2, 0, None)
    assert loss(forest.log_proba(table, None), y) < 0.2


def test_of_very_many_rows_some_are_learnt_from():
    n = MOST_ROWS + 1000
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.normal(size=n)})
    y = (X["x"].to_numpy() + rng.normal(size=n) > 0).astype(int)
    view, table = encoded(X, y)
    forest, log_proba = fit_boosted(table, view, 2, 0, None)
    assert np.isfinite(log_proba).all()
    assert loss(log_proba, y) < 0.55
    assert loss(forest.log_proba(table, None), y) < 0.55
