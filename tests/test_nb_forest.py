"""Forests of trees with naive Bayes in their nodes: growing and predicting against plain definitions, hard input."""

import pickle
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from tree_rows import encoded, logical, loss

from fanbayes import NBClassifier, _native
from fanbayes.data.state import StateError
from fanbayes.learning.ensembles.coded_trees import MOST_CODES, ForestPredictor, Trees, learn_coding
from fanbayes.learning.ensembles.nb_forest import fit_forest

SHRINKAGE = (0.3, 0.03, 3.0)
TABLE_SHRINKAGE = 5.0
LEAST = 1e-6
TREE_ARRAYS = (
    "first_node",
    "first_number",
    "column",
    "right",
    "network",
    "to_left",
    "to_right",
    "values",
    "known",
    "tables",
)


@pytest.fixture(scope="module")
def fitted():
    X, y = logical(missing=0.1)
    view, table = encoded(X, y)
    return (view, table, *fit_forest(table, view, 2, 0, None))


# ---------------------------------------------------------------- plain definitions


def path(trees, t, codes):
    """Nodes that a row of codes comes through, from the root of tree t."""
    node = first = int(trees.first_node[t])
    nodes = [node]
    while trees.column[node] >= 0:
        code = int(codes[trees.column[node]])
        if int(trees.to_left[node]) >> code & 1:
            node += 1
        elif int(trees.to_right[node]) >> code & 1:
            node = first + int(trees.right[node])
        else:
            break
        nodes.append(node)
    return nodes


def network(trees, coding, t, node):
    """Table of each known column (n_levels, n_classes)."""
    known, n_classes = trees.known[t].tolist(), trees.values.shape[-1]
    sizes = [coding.n_levels[j] for j in known]
    begin = trees.first_number[t] + trees.network[node] * sum(sizes) * n_classes
    table = trees.tables[begin : begin + sum(sizes) * n_classes].reshape(-1, n_classes)
    return dict(zip(known, np.split(table, np.cumsum(sizes)[:-1])))


def plain_terms(forest, codes):
    """(R2) of one row by column of the layout (n_columns, n_classes)."""
    out = np.zeros((len(codes), len(forest.class_prior)))
    for t in range(forest.n_trees):
        nodes = path(forest.trees, t, codes)
        for above, below in pairwise(nodes):
            change = forest.trees.values[below].astype(float) - forest.trees.values[above]
            out[forest.trees.column[above]] += change
        for j, table in network(forest.trees, forest.coding, t, nodes[-1]).items():
            if codes[j] < forest.coding.n_codes[j]:
                out[j] += table[forest.coding.level[j, codes[j]]]
    return out


def test_prediction_is_the_sum_of_steps_and_network_terms(fitted):
    view, table, forest, _ = fitted
    codes = forest.coding.codes(table)[:40]
    expected = np.array([plain_terms(forest, row) for row in codes])
    by_feature = forest.terms(table.only(np.arange(40)), None)
    np.testing.assert_allclose(by_feature[:, view.feature_of], expected, atol=1e-12)
    scores = np.log(forest.class_prior) + expected.sum(axis=1)
    log_proba = scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)
    np.testing.assert_allclose(forest.log_proba(table, None)[:40], log_proba, atol=1e-12)


def random_tree(rng, n_codes, n_splits):
    """Columns, right children and sets of codes of nodes: some codes lead nowhere, and a column may be asked twice."""
    if n_splits == 0:
        return [(-1, 0, 0, 0)]
    j = int(rng.integers(len(n_codes)))
    to_left, to_right, sets = 0, 0, rng.integers(0, 5, n_codes[j] + 1)  # "missing" is the last code
    for code, side in enumerate(sets.tolist()):
        to_left |= (side in (0, 1)) << code
        to_right |= (side in (1, 2, 3)) << code  # where both have a code it goes to the left
    of_left = int(rng.integers(n_splits))
    left = random_tree(rng, n_codes, of_left)
    right = random_tree(rng, n_codes, n_splits - 1 - of_left)
    moved = [
        (c, r + by if c >= 0 else 0, a, b) for by, side in ((1, left), (1 + len(left), right)) for c, r, a, b in side
    ]
    return [(j, 1 + len(left), to_left, to_right), *moved]


@pytest.mark.parametrize("n_known", [0, 3])
@pytest.mark.parametrize(("most_splits", "K"), [(1, 2), (8, 3), (20, 1), (60, 15), (400, 2)])
def test_rows_end_where_the_sets_of_codes_lead_them(most_splits, K, n_known, all_backends):
    """Trees whose ends take one word, several, or too many, with and without networks, on every instruction set."""
    rng = np.random.default_rng(most_splits)
    n_codes = [2, 5, 63, 17]
    trees = [random_tree(rng, n_codes, int(rng.integers(most_splits + 1))) for _ in range(40)]
    nodes = [node for tree in trees for node in tree]
    first = np.cumsum([0, *(len(tree) for tree in trees)])
    column, right = (np.array([node[k] for node in nodes], dtype=np.int32) for k in (0, 1))
    to_left, to_right = (np.array([node[k] for node in nodes], dtype=np.uint64) for k in (2, 3))
    values = rng.normal(size=(len(nodes), K)).astype(np.float32)
    n_levels = [2, 3, 6, 17]
    level = np.zeros((len(n_codes), MOST_CODES + 1), dtype=np.uint8)
    for row, n, r in zip(level, n_codes, n_levels):
        row[: n + 1] = [*rng.integers(0, r, n), r]
    known = np.array([np.sort(rng.permutation(4)[:n_known]) for _ in trees], dtype=np.int32).reshape(
        len(trees), n_known
    )
    widths = np.array([sum(n_levels[j] for j in of_tree) * K for of_tree in known])
    first_number = np.append(0, np.cumsum(2 * widths))  # two networks a tree
    network_of = rng.integers(0, 2, len(nodes)).astype(np.int32)
    tables = rng.normal(size=first_number[-1]).astype(np.float32)
    arguments = (first, first_number, column, right, network_of, to_left, to_right, values, known, tables)
    forest = _native.Forest(*arguments, n_codes, level, n_levels)
    codes = np.stack([rng.integers(0, n + 1, 300) for n in n_codes], axis=1).astype(np.uint8)
    grown, coding = Trees(*arguments), SimpleNamespace(n_levels=n_levels)
    ends = [[path(grown, t, row)[-1] for t in range(len(trees))] for row in codes]
    assert any(column[node] >= 0 for row in ends for node in row)  # some rows stay where they are
    expected = values.astype(float)[ends].sum(axis=1)
    for scores, row, of_row in zip(expected, codes, ends):
        for t, node in enumerate(of_row):
            for j, table in network(grown, coding, t, node).items():
                if row[j] < n_codes[j]:
                    scores += table[level[j, row[j]]]
    for _ in all_backends():
        found = forest.scores(np.tile(codes, (4, 1)), None)  # more than a block
        np.testing.assert_allclose(found, np.tile(expected, (4, 1)), rtol=0, atol=1e-12)
        np.testing.assert_array_equal(forest.scores(codes[7:8], None), forest.scores(codes, None)[7:8])


def entropy(counts):
    counts = counts[counts > 0]
    return -(counts * np.log(counts / counts.sum())).sum()


def test_nodes_have_shares_and_networks_of_their_cases_and_the_best_cuts():
    X, y = logical(120, missing=0.1)
    _, table = encoded(X, y)
    weights = np.random.default_rng(1).choice([0.5, 1.0, 3.0], len(y))
    coding = learn_coding(table)
    codes = coding.codes(table)
    parts = np.random.default_rng(2).integers(0, 3, (2, len(y)), dtype=np.int32)
    prior = np.array([0.4, 0.6])
    n_columns = len(coding.n_codes)
    *arrays, components = _native.grow_forest(
        np.ascontiguousarray(codes.T),
        table.labels,
        weights,
        parts,
        coding.n_codes,
        [0] * len(coding.code_of) + [1] * len(coding.cuts),
        coding.level,
        coding.n_levels,
        prior.tolist(),
        6.0,
        12.0,
        n_columns,
        5,
        None,
    )
    trees = type("Trees", (), dict(zip(TREE_ARRAYS, arrays)))
    expected = np.zeros(components.shape)
    for t in range(6):
        in_bag = parts[t // 3] != t % 3
        cases = {}  # of each node
        for i in np.flatnonzero(in_bag):
            nodes = path(trees, t, codes[i])
            assert trees.column[nodes[-1]] == -1  # cases that it was grown by come to a leaf
            for k, node in enumerate(nodes):
                cases.setdefault(node, (nodes[k - 1] if k else -1, []))[1].append(i)
        shares, tables = {}, {}
        for node in sorted(cases):
            above, rows = cases[node]
            counts = np.bincount(y[rows], weights[rows], 2)
            for s, m in enumerate(SHRINKAGE):
                share = prior
                if above >= 0:
                    share = np.maximum((counts + m * shares[above, s]) / (counts.sum() + m), LEAST)
                shares[node, s] = share
                told = share - prior if s == 0 else np.log(share / prior)
                np.testing.assert_allclose(trees.values[node, s], told, rtol=1e-5, atol=1e-6)
            if above >= 0 and counts.sum() < 12:
                assert trees.network[node] == trees.network[above]
                tables[node] = tables[above]
            else:
                tables[node] = {}
                for j, found in network(trees, coding, t, node).items():
                    levels = coding.level[j, codes[rows, j]]
                    n = np.array([np.bincount(y[rows], weights[rows] * (levels == v), 2) for v in range(len(found))])
                    p = tables[above][j] if above >= 0 else 1 / len(found)
                    p = np.maximum((n + TABLE_SHRINKAGE * p) / (n.sum(axis=0) + TABLE_SHRINKAGE), LEAST)
                    np.testing.assert_allclose(found, np.log(p), rtol=1e-4, atol=1e-5)
                    tables[node][j] = p
            j = int(trees.column[node])
            if j >= len(coding.code_of):  # a number: no cut of its codes is better, missing on either side
                best = np.inf
                values, labels, w = codes[rows, j].astype(int), y[rows], weights[rows]
                for cut in np.unique(values):
                    for lost in (False, True):
                        left = (values <= cut) & (values < coding.n_codes[j]) | (values == coding.n_codes[j]) & lost
                        if left.any() and not left.all():
                            sides = [np.bincount(labels[at], w[at], 2) for at in (left, ~left)]
                            best = min(best, sum(map(entropy, sides)))
                left = np.array([int(trees.to_left[node]) >> v & 1 for v in values.tolist()], dtype=bool)
                got = sum(entropy(np.bincount(labels[at], w[at], 2)) for at in (left, ~left))
                is_free = (values < coding.n_codes[j]).all()  # else missing is placed after the cut is chosen
                assert got <= best + 1e-6 if is_free else got <= entropy(counts) + 1e-9
        for i in np.flatnonzero(~in_bag):
            node = path(trees, t, codes[i])[-1]
            expected[i, :3] += trees.values[node]
            for place, at in ((3, node), (4, int(trees.first_node[t]))):
                for j, found in network(trees, coding, t, at).items():
                    if codes[i, j] < coding.n_codes[j]:
                        expected[i, place] += found[coding.level[j, codes[i, j]]]
    np.testing.assert_allclose(components, expected / 2, rtol=1e-4, atol=1e-4)  # each left out by two trees


def test_weights_maximise_the_penalised_log_score():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 90).astype(np.int32)
    components = rng.normal(size=(90, 5, 3)).astype(np.float32)
    components[np.arange(90), :, y] += np.array([1.0, 0.5, 0.0, 0.2, -0.5], dtype=np.float32)  # the last is against it
    weights, folds = rng.choice([1.0, 2.0], 90), (np.arange(90) % 2).astype(np.int32)
    log_prior, usual, scale = np.log([0.2, 0.3, 0.5]), np.full(5, 0.2), np.full(5, 0.5)

    def penalised(w, cases):
        scores = log_prior + np.einsum("nsk,s->nk", components[cases].astype(float), w)
        log_p = scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)
        return (((w - usual) / scale) ** 2).sum() - weights[cases] @ log_p[np.arange(len(cases)), y[cases]]

    args = (log_prior.tolist(), usual.tolist(), scale.tolist(), None)
    found = _native.tree_weights(components, y, weights, folds, 2, *args)
    for w, cases in zip(found, (np.arange(90), np.arange(1, 90, 2), np.arange(0, 90, 2))):
        best = minimize(penalised, usual, (cases,), "L-BFGS-B", bounds=[(0, 30)] * 5)
        assert penalised(w, cases) <= best.fun + 1e-6
        assert (w >= 0).all()
    assert found[0, -1] == 0 < found[0, 0]


# ---------------------------------------------------------------- what it is good for


def test_it_sees_what_naive_bayes_does_not():
    X, y = logical(400)
    view, table = encoded(X, y)
    forest, held_out = fit_forest(table, view, 2, 0, None)
    new_X, new_y = logical(2000, seed=9)
    clf = NBClassifier().fit(X, y)
    rows = clf._encode(new_X, (view.schema,))[view.schema]
    log_proba = forest.log_proba(rows, None)
    assert loss(log_proba, new_y) < 0.3 < 0.5 < loss(clf.predict_log_proba(new_X), new_y)
    assert abs(loss(log_proba, new_y) - loss(held_out, y)) < 0.06
    np.testing.assert_allclose(forest.proba(rows, None), np.exp(log_proba))


@pytest.mark.parametrize("kind", ["once", "copies", "groups", "discrete"])
def test_what_is_left_out_knows_nothing_of_noise(kind):
    """Labels by chance: a score better than chance would be that of rows that a tree has seen."""
    rng = np.random.default_rng(3)
    y = rng.integers(0, 2, 240)
    X = pd.DataFrame({"x": rng.normal(size=240), "z": rng.normal(size=240), "u": rng.choice(list("abcdef"), 240)})
    groups = None
    if kind == "copies":
        X, y = X.iloc[np.arange(240) // 4].reset_index(drop=True), y[np.arange(240) // 4]
    elif kind == "groups":
        groups = np.arange(240) // 4
        X["x"], y = groups + 0.01 * rng.random(240), y[groups]
    elif kind == "discrete":
        X = pd.DataFrame({"a": rng.choice(list("pqrs"), 240), "u": X["u"]})
    view, table = encoded(X, y)
    _, held_out = fit_forest(table, view, 2, 0, None, groups)
    assert loss(held_out, y) > 0.66


def test_a_row_without_values_gets_the_prior():
    view, table = encoded(*logical())
    forest, _ = fit_forest(table, view, 2, 0, None)
    row = table.only(np.arange(1))
    empty = replace(row, narrow=row.layout.n_levels[None].astype(np.uint8), numbers=np.full((1, 1), np.nan))
    log_proba = forest.log_proba(empty, None)
    np.testing.assert_allclose(np.exp(log_proba), [forest.class_prior])


# ---------------------------------------------------------------- same rows, same forest


def same(one, other):
    return all(np.array_equal(getattr(one.trees, name), getattr(other.trees, name)) for name in TREE_ARRAYS)


def test_threads_and_order_of_rows_do_not_matter(fitted):
    view, table, forest, held_out = fitted
    threads, of_threads = fit_forest(table, view, 2, 0, _native.ThreadPool(3))
    assert same(forest, threads)
    np.testing.assert_array_equal(of_threads, held_out)
    order = np.random.default_rng(0).permutation(table.n_rows)
    shuffled, of_shuffled = fit_forest(table.only(order), view, 2, 0, None)
    assert same(forest, shuffled)
    np.testing.assert_array_equal(of_shuffled, held_out[order])
    assert not same(forest, fit_forest(table, view, 2, 1, None)[0])
    log_proba = forest.log_proba(table, None)
    np.testing.assert_array_equal(forest.log_proba(table, _native.ThreadPool(2)), log_proba)
    np.testing.assert_array_equal(forest.log_proba(table.only(order[:5]), None), log_proba[order[:5]])


def test_a_row_of_weight_two_is_the_row_twice():
    X, y = logical()
    X = X[["a", "b", "c"]]
    view, table = encoded(X, y)
    twice = np.repeat(np.arange(len(y)), 1 + np.arange(len(y)) % 2)
    one, of_rows = fit_forest(replace(table, weights=1.0 + np.arange(len(y)) % 2), view, 2, 0, None)
    other, of_cases = fit_forest(table.only(twice), view, 2, 0, None)
    assert same(one, other)
    mean = np.logaddexp.reduceat(of_cases, np.flatnonzero(np.diff(twice, prepend=-1)))
    mean -= np.log(1 + np.arange(len(y)) % 2)[:, None]
    kinds = pd.util.hash_pandas_object(X.assign(y=y), index=False).to_numpy()
    for kind in np.unique(kinds):  # which of equal rows is dealt out where is not said
        mine = kinds == kind
        w = (1.0 + np.arange(len(y)) % 2)[mine, None]
        np.testing.assert_allclose((w * np.exp(of_rows[mine])).sum(0), (w * np.exp(mean[mine])).sum(0))


def test_rows_without_label_or_weight_are_left_out(fitted):
    view, table, forest, held_out = fitted
    more = table.only(np.concatenate([np.arange(table.n_rows), [0, 1, 2]]))
    labels, weights = more.labels.copy(), np.ones(more.n_rows)
    labels[-3], labels[-2], weights[-1] = -1, -1, 0.0
    found, of_rows = fit_forest(replace(more, labels=labels, weights=weights), view, 2, 0, None)
    assert same(forest, found)
    np.testing.assert_array_equal(of_rows[:-3], held_out)
    np.testing.assert_array_equal(of_rows[-3:], forest.log_proba(table.only(np.arange(3)), None))


# ---------------------------------------------------------------- terms and files


def test_other_rows_are_judged_in_place_of_those_left_out(fitted):
    """By the trees that have left out the row that each stands for; the forest is the same."""
    view, table, forest, log_proba = fitted
    order = np.random.default_rng(0).permutation(np.repeat(np.arange(table.n_rows), 2))
    asked = replace(table.only(order), weights=np.full(len(order), 0.5))
    same, found = fit_forest(table, view, 2, 0, None, None, (asked, order))
    np.testing.assert_array_equal(same.trees.column, forest.trees.column)
    np.testing.assert_allclose(same.log_proba(table, None), forest.log_proba(table, None), atol=1e-4)
    np.testing.assert_allclose(found, log_proba[order], atol=1e-4)
    of_class = np.argsort(table.labels, kind="stable")
    next_one = (table.only(of_class), np.roll(of_class, 1))
    _, moved = fit_forest(table, view, 2, 0, None, None, next_one)
    assert loss(moved, next_one[0].labels) < loss(log_proba, table.labels) - 0.05  # by trees that know it by heart


def test_cases_of_a_row_are_judged_in_place_of_it():
    """Rows of discrete columns, which are left out case by case."""
    X, y = logical(60)
    view, table = encoded(X[["a", "b", "c"]], y, np.arange(60) % 3 + 1.0)
    _, log_proba = fit_forest(table, view, 2, 0, None)
    every = np.arange(60)
    _, found = fit_forest(table, view, 2, 0, None, None, (replace(table, weights=None), every))
    np.testing.assert_allclose(found, log_proba, atol=1e-4)


def test_terms_add_up(fitted):
    """(R2) is a sum over the columns."""
    _, table, forest, _ = fitted
    terms, log_proba = forest.terms(table, None), forest.log_proba(table, None)
    assert terms.shape == (table.n_rows, 4, 2)
    total = np.log(forest.class_prior) + terms.sum(axis=1)
    np.testing.assert_allclose(np.diff(total), np.diff(log_proba), atol=1e-10)


def test_state_and_pickle(fitted):
    view, table, forest, _ = fitted
    values, arrays = forest.to_state()
    read = ForestPredictor.from_state(values, arrays, view, 2)
    expected = forest.log_proba(table, None)
    np.testing.assert_array_equal(read.log_proba(table, None), expected)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(forest)).log_proba(table, None), expected)


def spoilt(arrays, name, place, value):
    array = arrays[name].copy()
    array.flat[place] = value
    return {**arrays, name: array}


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        ("class_prior", 0, np.nan),
        ("code_of", 0, MOST_CODES),
        ("cuts", 0, np.inf),
        ("trees/first_node", 1, -5),
        ("trees/first_node", -1, 10**9),
        ("trees/first_number", 1, 10**12),
        ("trees/column", 0, 4),
        ("trees/column", -1, 0),
        ("trees/right", 0, 0),
        ("trees/right", 0, 2**30),
        ("trees/right", 0, 2),  # the node below the left one has two parents
        ("trees/network", 3, -1),
        ("trees/network", 3, 2**31 - 1),
        ("trees/values", 5, np.nan),
        ("trees/values", 0, 1.0),
        ("trees/known", 0, 99),
        ("trees/tables", 0, np.inf),
    ],
)
def test_damaged_state_is_refused(fitted, name, place, value):
    view, _, forest, _ = fitted
    values, arrays = forest.to_state()
    with pytest.raises(StateError):
        ForestPredictor.from_state(values, spoilt(arrays, name, place, value), view, 2)


@pytest.mark.parametrize("name", ["trees/values", "trees/tables", "trees/to_left", "code_of", "class_prior"])
def test_state_of_wrong_types_and_shapes_is_refused(fitted, name):
    view, _, forest, _ = fitted
    values, arrays = forest.to_state()
    for wrong in (arrays[name][:-1], arrays[name].astype(np.int16), arrays[name][None]):
        with pytest.raises(StateError):
            ForestPredictor.from_state(values, {**arrays, name: wrong}, view, 2)
    with pytest.raises(StateError):
        ForestPredictor.from_state({"n_cuts": [3, "4"]}, arrays, view, 2)
    with pytest.raises(StateError):
        ForestPredictor.from_state(values, {k: a for k, a in arrays.items() if k != name}, view, 2)


# ---------------------------------------------------------------- hard input


def tough(name):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 60)
    if name == "one row":
        return pd.DataFrame({"x": [1.0], "u": ["a"]}), np.zeros(1, dtype=int), 1
    if name == "few rows":
        return pd.DataFrame({"x": [1.0, 2.0, 3.0, 4.0]}), np.array([0, 1, 0, 1]), 2
    if name == "one class":
        return pd.DataFrame({"x": rng.normal(size=60)}), np.zeros(60, dtype=int), 1
    if name == "a class without rows":
        return pd.DataFrame({"x": rng.normal(size=60)}), y, 4
    if name == "nothing known":
        return pd.DataFrame({"x": np.full(60, np.nan), "u": ["a"] * 60}), y, 2
    if name == "constant and empty beside others":
        return pd.DataFrame({"x": np.full(60, np.nan), "u": ["a"] * 60, "z": rng.normal(size=60)}), y, 2
    if name == "wide":
        return pd.DataFrame(rng.normal(size=(60, 2000)), columns=[f"x{j}" for j in range(2000)]), y, 2
    if name == "many classes":
        return pd.DataFrame({"x": rng.normal(size=300), "u": rng.choice(list("abc"), 300)}), np.arange(300) % 50, 50
    if name == "many levels":
        u = rng.permutation(np.arange(30_000) % 20_000).astype(str)
        return pd.DataFrame({"u": u, "x": rng.normal(size=30_000)}), (u < "3").astype(int), 2
    assert name == "far out"
    return pd.DataFrame({"x": rng.normal(size=60) * 10.0 ** rng.integers(-300, 300, 60)}), y, 2


@pytest.mark.parametrize(
    "name",
    [
        "one row",
        "few rows",
        "one class",
        "a class without rows",
        "nothing known",
        "constant and empty beside others",
        "wide",
        "many classes",
        "many levels",
        "far out",
    ],
)
def test_hard_input(name):
    X, y, n_classes = tough(name)
    view, table = encoded(X, y)
    forest, held_out = fit_forest(table, view, n_classes, 0, None)
    log_proba = forest.log_proba(table, None)
    for found in (held_out, log_proba):
        assert found.shape == (len(y), n_classes)
        assert np.isfinite(found).all()
        np.testing.assert_allclose(np.exp(found).sum(axis=1), 1.0)
    values, arrays = forest.to_state()
    read = ForestPredictor.from_state(values, arrays, view, n_classes)
    np.testing.assert_array_equal(read.log_proba(table, None), log_proba)
    assert arrays["trees/tables"].size < 2**24


def test_rare_categories_of_many_share_codes():
    X, y, _ = tough("many levels")
    X["u"] = np.where(np.arange(30_000) % 2, X["u"], "common")
    _, table = encoded(X, y)
    coding = learn_coding(table)
    assert coding.n_codes[0] == MOST_CODES
    common = coding.codes(table)[X["u"] == "common", 0]
    assert (common == 0).all()
    assert not (coding.codes(table)[X["u"] != "common", 0] == 0).any()
