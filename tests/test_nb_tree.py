"""NBTreeClassifier: its splits against a plain enumeration, its leaves, its text and picture, hard input."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import fanbayes
from fanbayes import NBClassifier, NBTreeClassifier, _native
from fanbayes.data.state import StateError
from fanbayes.estimators.validation import seed_of
from fanbayes.files.container import pack, unpack
from fanbayes.files.model_file import from_state, to_state
from fanbayes.learning.ensembles.folds import deal

both_scores = pytest.mark.parametrize("split_score", ["accuracy", "log_score"])


def logical(n=400, seed=0):
    """The class is an exclusive or of two columns, with some noise: naive Bayes sees nothing of it."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "a": rng.choice(["no", "yes"], n),
            "b": rng.choice(["no", "yes"], n),
            "c": rng.choice(list("uvw"), n),
            "x": rng.normal(size=n).round(3),
        }
    )
    y = ((X["a"] == X["b"]) ^ (rng.random(n) < 0.05)).to_numpy().astype(int)
    X.loc[y == 1, "x"] += 0.5
    return X, y


def with_holes(n=400, seed=0):
    X, y = logical(n, seed)
    rng = np.random.default_rng(seed + 1)
    return X.mask(rng.random(X.shape) < 0.15), y


# ---------------------------------------------------------------- plain enumeration
#
# Cases are tuples (codes, class, fold, weight), a code of None is missing. All is done case by case.


def naive_bayes(cases, pseudo, prior):
    """p(c) and p(x_j | c) of (T2) as functions."""
    n_classes = len(prior)

    def p_class(c):
        total = sum(w for *_, w in cases)
        return (sum(w for _, y, _, w in cases if y == c) + prior[c]) / (total + sum(prior))

    def p_value(j, x, c):
        known = sum(w for codes, y, _, w in cases if y == c and codes[j] is not None)
        same = sum(w for codes, y, _, w in cases if y == c and codes[j] == x)
        return (same + pseudo[j][x][c]) / (known + sum(level[c] for level in pseudo[j]))

    return [p_class(c) for c in range(n_classes)], p_value


def posterior(codes, model, left_out=None):
    p_class, p_value = model
    joint = [
        p * np.prod([p_value(j, x, c) for j, x in enumerate(codes) if x is not None and j != left_out])
        for c, p in enumerate(p_class)
    ]
    return np.array(joint) / sum(joint)


def loss(cases, pseudo_of, prior_of, score, left_out=None):
    """Each case by the cases of the other folds."""
    models = [naive_bayes([c for c in cases if c[2] != f], pseudo_of[f], prior_of[f]) for f in range(5)]
    total = 0.0
    for codes, y, f, w in cases:
        p = posterior(codes, models[f], left_out)
        best = int(np.flatnonzero(p >= p.max() * (1 - 1e-9))[0])
        total += w * (best != y if score == "accuracy" else -np.log(p[y]))
    return total


def divide(cases, j, side_of):
    """Cases by side, those whose value is missing in all by the sides' shares."""
    sides = sorted({side_of(codes[j]) for codes, *_ in cases if codes[j] is not None})
    mine = {s: [c for c in cases if c[0][j] is not None and side_of(c[0][j]) == s] for s in sides}
    total = sum(w for part in mine.values() for *_, w in part)
    for s, part in list(mine.items()):
        share = sum(w for *_, w in part) / total
        mine[s] = part + [(codes, y, f, w * share) for codes, y, f, w in cases if codes[j] is None]
    return mine


def restricted(pseudo, j, keep):
    return [
        [[q if i != j or keep(x) else 0.0 for q in level] for x, level in enumerate(column)]
        for i, column in enumerate(pseudo)
    ]


def entropy(counts):
    counts = counts[counts > 0]
    return -(counts * np.log(counts / counts.sum())).sum()


def threshold_of(cases, j, n_levels, n_classes):
    """Cut of largest information gain, the lowest of several; None if all are on one side."""
    counts = np.zeros((n_levels, n_classes))
    for codes, y, _, w in cases:
        if codes[j] is not None:
            counts[codes[j], y] += w
    cuts = [t for t in range(n_levels - 1) if counts[: t + 1].sum() > 1e-6 and counts[t + 1 :].sum() > 1e-6]
    left = [entropy(counts[: t + 1].sum(axis=0)) + entropy(counts[t + 1 :].sum(axis=0)) for t in cuts]
    return next((t for t, e in zip(cuts, left) if e <= min(left) + 1e-6), None)


def enumerate_tree(cases, n_levels, is_binned, n_classes, score, shrinkage, least=30):
    """Nodes, depth first, as dicts: their split and its sides, mean loss, cases, and naive Bayes."""
    nodes = []
    alpha = [[[1.0] * n_classes for _ in range(r)] for r in n_levels]

    def below_of_node(model):
        """1 + s theta where a level can be, 0 elsewhere."""
        theta = [[[model[1](j, x, c) for c in range(n_classes)] for x in range(r)] for j, r in enumerate(n_levels)]
        levels = [[[(1 + shrinkage * p) * (p > 0) for p in level] for level in column] for column in theta]
        return levels, [1 + shrinkage * p for p in model[0]]

    def split_loss(parts, j, side_of, below_of, prior_below_of):
        return sum(
            loss(part, [restricted(q, j, lambda x, s=s: side_of(x) == s) for q in below_of], prior_below_of, score)
            for s, part in parts.items()
        )

    def visit(mine, pseudo_of, prior_of, pseudo, prior):
        total = sum(w for *_, w in mine)
        own = naive_bayes(mine, pseudo, prior)
        node = {"column": None, "threshold": -1, "loss": np.nan, "cases": total, "model": own, "place": len(nodes)}
        nodes.append(node)
        if total < least:
            return node
        base = loss(mine, pseudo_of, prior_of, score)
        node["loss"] = base / total
        folds = [naive_bayes([c for c in mine if c[2] != f], pseudo_of[f], prior_of[f]) for f in range(5)]
        below_of, prior_below_of = zip(*(below_of_node(model) for model in folds))
        below, prior_below = below_of_node(own)
        found = []
        for j in range(len(n_levels)):
            t = threshold_of(mine, j, n_levels[j], n_classes) if is_binned[j] else None
            if is_binned[j] and t is None:
                continue
            side_of = (lambda x, t=t: int(x > t)) if is_binned[j] else (lambda x: x)
            parts = divide(mine, j, side_of)
            if len(parts) >= 2 and total >= 5 * len(parts):
                found.append((split_loss(parts, j, side_of, below_of, prior_below_of), j, t, side_of, parts))
        if not found or base <= 0:
            return node
        value, j, t, side_of, parts = next(f for f in found if f[0] <= min(v[0] for v in found) + 1e-9 * base)
        if value >= 0.95 * base:
            return node
        node |= {"column": j, "threshold": -1 if t is None else t, "side_of": side_of, "kids": {}}
        for s, part in parts.items():
            keep = lambda x, s=s: side_of(x) == s  # noqa: E731
            pseudo_s = [restricted(q, j, keep) for q in below_of]
            node["kids"][s] = visit(part, pseudo_s, prior_below_of, restricted(below, j, keep), prior_below)
        return node

    prior = [1.0] * n_classes
    visit(cases, [alpha] * 5, [prior] * 5, alpha, prior)
    return nodes


def enumerated_posterior(node, codes, split_on=()):
    """p(c | x) by the mean over the leaves in which a row arrives."""
    if node["column"] is None:  # columns of which one value is left tell nothing
        known = [None if j in split_on else x for j, x in enumerate(codes)]
        return posterior(known, node["model"])
    j, kids = node["column"], node["kids"]
    split_on = (*split_on, j) if node["threshold"] < 0 else split_on
    side = None if codes[j] is None else node["side_of"](codes[j])
    if side in kids:
        return enumerated_posterior(kids[side], codes, split_on)
    total = sum(kid["cases"] for kid in kids.values())
    return sum(kid["cases"] / total * enumerated_posterior(kid, codes, split_on) for kid in kids.values())


def cases_for_enumeration(clf, X, y, weights, seed):
    """What the classifier learns from: codes in the order of the features, and the folds that it deals out."""
    schema = clf.schema_
    [table] = clf._encode(X, (schema,)).tables
    codes = table.codes_of_columns()[:, np.argsort(schema.discrete)]
    n_levels = [schema[j].n_levels for j in sorted(schema.discrete)]
    raw = clf._cases(X, y, weights).training_table()
    _, share = deal(raw.labels, raw.table.case_weights, raw.table, 5, seed_of(seed), None)
    cases = []
    for i, f in zip(*np.nonzero(share.T)):
        row = [None if code == r else int(code) for code, r in zip(codes[i], n_levels)]
        cases.append((row, int(raw.labels[i]), int(f), float(share[f, i] * raw.table.case_weights[i])))
    return cases, n_levels, [schema[j].kind == "binned" for j in sorted(schema.discrete)]


def many_classes(n=150, seed=0):
    """Three classes, discrete columns, one of which decides what the others mean."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    g = rng.integers(0, 3, n)
    X = pd.DataFrame({"g": g, "u": (y + g + (rng.random(n) < 0.2)) % 3, "v": (y * (g + 1) + rng.integers(0, 2, n)) % 4})
    return X.astype(str), y


@both_scores
@pytest.mark.parametrize("shrinkage", [0.0, 5.0])
@pytest.mark.parametrize("make", [logical, with_holes, many_classes])
def test_the_tree_is_that_of_a_plain_enumeration(make, shrinkage, split_score):
    X, y = make(n=150, seed=3)
    weights = np.random.default_rng(0).choice([0.5, 1.0, 2.0], len(y)) if make is with_holes else None
    clf = NBTreeClassifier(split_score=split_score, shrinkage=shrinkage, random_state=0).fit(X, y, weights)
    cases, n_levels, is_binned = cases_for_enumeration(clf, X, y, weights, 0)
    n_classes = len(clf.classes_)
    wanted = enumerate_tree(cases, n_levels, is_binned, n_classes, split_score, shrinkage)
    tree = clf.nb_tree_.tree
    assert len(tree) == len(wanted) > 2
    rank = np.argsort(np.argsort(clf.schema_.discrete))  # of the columns of the layout among the features
    for node, found in enumerate(wanted):
        assert (None if tree.column[node] < 0 else rank[tree.column[node]]) == found["column"]
        assert tree.threshold[node] == found["threshold"]
        np.testing.assert_allclose(tree.loss[node], found["loss"], rtol=1e-9)
        np.testing.assert_allclose(tree.cases[node], found["cases"])
        np.testing.assert_allclose(np.exp(tree.log_prior[node]), found["model"][0], rtol=1e-9)
    proba = clf.predict_proba(X)
    codes = clf._encode(X, (clf.schema_,)).tables[0].codes_of_columns()[:, np.argsort(clf.schema_.discrete)]
    for i in range(0, len(y), 4):
        row = [None if code == r else int(code) for code, r in zip(codes[i], n_levels)]
        np.testing.assert_allclose(proba[i], enumerated_posterior(wanted[0], row), rtol=1e-9)
    np.testing.assert_allclose(clf.class_prior_, enumerated_posterior(wanted[0], [None] * len(n_levels)), rtol=1e-9)


def test_losses_of_the_native_core_are_checked():
    levels = np.array([[0, 3], [1, 4]], dtype=np.int32)
    label, weight = np.zeros(2, dtype=np.int32), np.ones(2)
    pseudo, prior = np.ones((2, 5, 1)), np.ones((2, 1))
    good = (levels, label, label, weight, [0, 3, 5], pseudo, prior, [(0, -1)], "error", 0.0)
    assert _native.split_losses(*good) == [0.0]
    for place, bad in (
        (0, levels + 3),
        (1, label + 1),
        (2, label - 1),
        (3, weight[:1]),
        (4, [0, 3, 3]),
        (5, pseudo[:, :4]),
        (6, prior[:1]),
        (7, [(2, -1)]),
        (7, [(0, 2)]),
        (8, "gini"),
    ):
        with pytest.raises(ValueError):
            _native.split_losses(*good[:place], bad, *good[place + 1 :])


# ---------------------------------------------------------------- what it learns


@both_scores
def test_it_finds_what_naive_bayes_cannot(split_score):
    X, y = logical(800)
    train, test = slice(400), slice(400, None)
    tree = NBTreeClassifier(split_score=split_score, random_state=0).fit(X[train], y[train])
    nb = NBClassifier(discretize="mdlp").fit(X[train], y[train])
    assert nb.score(X[test], y[test]) < 0.7
    assert tree.score(X[test], y[test]) > 0.9


@pytest.mark.parametrize("n", [29, 400])
def test_without_a_split_it_is_naive_bayes(n):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, n)
    a, b = y == (rng.random((2, n)) < 0.7)
    X = pd.DataFrame({"a": a, "b": b, "x": y + rng.normal(size=n)})
    tree = NBTreeClassifier(random_state=0).fit(X, y)
    nb = NBClassifier(discretize="mdlp").fit(X, y)
    assert tree.get_n_leaves() == 1
    np.testing.assert_allclose(tree.predict_log_proba(X), nb.predict_log_proba(X), atol=1e-9)


def test_a_column_split_on_tells_nothing_more_in_the_leaves():
    X, y = logical()
    clf = NBTreeClassifier(random_state=0).fit(X, y)
    [column] = {int(c) for c in clf.nb_tree_.tree.column[:1]}
    layout = clf.nb_tree_.leaves[0].layout
    first, missing = layout.first_level[column], layout.missing_level[column]
    for leaf in clf.nb_tree_.leaves:
        p = np.exp(leaf.terms.log_table[0, first:missing])
        np.testing.assert_allclose(np.sort(p, axis=0), [[0.0, 0.0], [1.0, 1.0]], atol=1e-12)
        np.testing.assert_array_equal(p[:, 0] > 0.5, p[:, 1] > 0.5)


def test_leaves_are_fan_where_icl_finds_components():
    """g decides what a means; six columns depend on each other, by something that is hidden."""
    rng = np.random.default_rng(0)
    n = 800
    g, a, h = rng.integers(0, 2, (3, n))
    y = a ^ g ^ (rng.random(n) < 0.05)
    copies = h[:, None] ^ (rng.random((n, 6)) < 0.1)
    X = pd.DataFrame(copies, columns=[f"c{k}" for k in range(6)]).assign(g=g, a=a).astype(str)
    nb, hidden = (NBTreeClassifier(leaf=leaf, random_state=0).fit(X, y) for leaf in ("nb", "fan"))
    assert nb.get_n_leaves() == hidden.get_n_leaves() > 1
    assert (nb.nb_tree_.n_components, hidden.nb_tree_.n_components) == (1, 2)
    assert "; FAN, " in hidden.export_text()
    assert_sound(hidden, X)
    for leaf in hidden.nb_tree_.leaves:
        assert leaf.model.places[0].block.flaw(leaf.cells[0], leaf.shared[0], True) is None
    X.loc[:9, "g"] = None
    found = hidden.explain(X[:50], classes=[1, 0])
    np.testing.assert_allclose(found.prior + found.contributions.sum(axis=1), found.log_odds, atol=1e-9)
    log_proba = hidden.predict_log_proba(X[:50])
    np.testing.assert_allclose(found.log_odds, log_proba[:, 1] - log_proba[:, 0], atol=1e-9)


# ---------------------------------------------------------------- weights, order, threads, frames, files


@both_scores
@pytest.mark.parametrize("make", [with_holes, many_classes])
def test_weight_2_is_the_row_twice_in_any_order(make, split_score):
    X, y = make(n=300)
    rng = np.random.default_rng(2)
    weight = rng.integers(0, 4, len(y))
    copies = rng.permutation(np.repeat(np.arange(len(y)), weight))
    clf = NBTreeClassifier(split_score=split_score, random_state=0)
    one = clf.fit(X, y, weight).predict_log_proba(X)
    text = clf.export_text()
    other = clf.fit(X.iloc[copies], y[copies]).predict_log_proba(X)
    assert clf.export_text() == text
    assert clf.get_n_leaves() > 1
    np.testing.assert_allclose(other, one, atol=1e-7)


def test_rows_without_a_label_are_left_out():
    X, y = logical()
    labels = np.where(np.arange(len(y)) % 4 == 0, np.nan, y)
    X.loc[::4, "c"] = "only here"
    clf = NBTreeClassifier(random_state=0).fit(X, labels)
    known = ~np.isnan(labels)
    alone = NBTreeClassifier(random_state=0).fit(X[known], y[known])
    assert "only here" not in clf.schema_["c"].levels
    np.testing.assert_array_equal(clf.predict_proba(X[known]), alone.predict_proba(X[known]))
    assert not hasattr(clf, "sample")


@pytest.mark.parametrize("frame", [pl.from_pandas, pa.Table.from_pandas], ids=["polars", "pyarrow"])
def test_frames_of_all_libraries_and_any_number_of_threads(frame):
    X, y = with_holes()
    wanted = NBTreeClassifier(random_state=0).fit(X, y)
    clf = NBTreeClassifier(random_state=0, n_jobs=2).fit(frame(X), y)
    assert clf.get_n_leaves() > 2
    np.testing.assert_array_equal(clf.predict_proba(frame(X)), wanted.predict_proba(X))


@pytest.mark.parametrize("leaf", ["nb", "fan"])
def test_files_and_pickles_give_the_same_bits(tmp_path, leaf):
    X, y = with_holes()
    clf = NBTreeClassifier(leaf=leaf, random_state=0).fit(X, y)
    fanbayes.save(clf, tmp_path / "m.fan")
    for copy in (fanbayes.load(tmp_path / "m.fan"), pickle.loads(pickle.dumps(clf))):
        np.testing.assert_array_equal(copy.predict_proba(X), clf.predict_proba(X))
        np.testing.assert_array_equal(copy.predict_log_proba(X), clf.predict_log_proba(X))
        assert copy.describe() == clf.describe()
        assert copy.get_params() == clf.get_params()
        np.testing.assert_array_equal(copy.explain(X[:9]).contributions, clf.explain(X[:9]).contributions)


def changed(name, place, value):
    def change(header, arrays):
        arrays[f"nodes/{name}"] = arrays[f"nodes/{name}"].copy()
        arrays[f"nodes/{name}"][place] = value

    return change


@pytest.mark.parametrize(
    "damage",
    [
        changed("parent", 0, 0),
        changed("parent", 1, 1),
        changed("parent", 1, -1),
        changed("parent", -1, 0.5),
        changed("parent", 2, 1e300),
        changed("column", 0, -1),
        changed("column", 0, 99),
        changed("column", -1, 0),
        changed("threshold", 0, 99),
        changed("threshold", 0, -2),
        changed("threshold", -1, 0),
        changed("branch", 1, 7),
        changed("branch", 1, -1),
        changed("cases", 1, 0),
        changed("cases", 1, np.nan),
        changed("loss", 0, np.inf),
        changed("log_prior", (0, 0), np.inf),
        lambda h, a: h["leaves"].pop(),
        lambda h, a: h.update(leaves=[{}] * 10**5),
        lambda h, a: h["leaves"].__setitem__(0, 3),
        lambda h, a: a.pop("0/cells.categorical"),
        lambda h, a: a.pop("nodes/cases"),
        lambda h, a: a.update({"nodes/more": np.zeros(1)}),
    ],
)
def test_damaged_files_are_refused(damage):
    X, y = logical()
    header, arrays = to_state(NBTreeClassifier(random_state=0).fit(X, y))
    assert len(from_state(*unpack(pack(header, arrays))).nb_tree_.leaves) > 1
    damage(header, arrays)
    data = pack(header, arrays)
    with pytest.raises(StateError):
        from_state(*unpack(data))


def test_a_file_may_have_classes_of_no_probability():
    X, y = with_holes()
    header, arrays = to_state(NBTreeClassifier(random_state=0).fit(X, y))
    for name in [name for name in arrays if name.endswith("log_factor.class")]:
        arrays[name] = np.array([-1e5, 0.0])
    clf = from_state(*unpack(pack(header, arrays)))
    assert np.isfinite(clf.predict_log_proba(X)).all()
    found = clf.explain(X[:20])
    np.testing.assert_allclose(found.prior + found.contributions.sum(axis=1), found.log_odds, rtol=1e-9)


# ---------------------------------------------------------------- looking inside


def test_contributions_are_terms_of_the_leaf_and_changes_of_the_prior():
    X, y = logical()
    clf = NBTreeClassifier(random_state=0).fit(X, y)
    found = clf.explain(X, classes=[1, 0])
    log_proba = clf.predict_log_proba(X)
    np.testing.assert_allclose(found.log_odds, log_proba[:, 1] - log_proba[:, 0], atol=1e-9)
    np.testing.assert_allclose(found.prior + found.contributions.sum(axis=1), found.log_odds, atol=1e-9)
    tree = clf.nb_tree_.tree
    np.testing.assert_allclose(found.prior, tree.log_prior[0] @ [-1.0, 1.0])
    np.testing.assert_array_equal(found.responsibility, 1)
    for number, rows, _ in tree.arrivals(clf._encode(X, (clf.schema_,)).tables[0]):
        np.testing.assert_array_equal(found.part[rows], number)
        node, wanted = int(tree.leaves[number]), 0.0
        root_feature = clf.schema_[clf.schema_.discrete[tree.column[0]]].name
        while tree.parent[node] > 0:
            node = int(tree.parent[node])
        wanted = (tree.log_prior[node] - tree.log_prior[0]) @ [-1.0, 1.0]
        below = {int(tree.column[k]) for k in range(1, len(tree))}
        if tree.column[0] not in below:  # the column is split on once, level by level
            np.testing.assert_allclose(found.contributions[rows, found.features.index(root_feature)], wanted, atol=1e-9)
    assert "leaf" in found.summary()


def test_rows_of_several_leaves_are_explained():
    X, y = with_holes()
    X.loc[0] = [None, None, None, np.nan]
    clf = NBTreeClassifier(random_state=0).fit(X, y)
    found = clf.explain(X)
    assert (found.responsibility < 1).any()
    np.testing.assert_allclose(found.prior + found.contributions.sum(axis=1), found.log_odds, atol=1e-9)
    log_proba = np.sort(clf.predict_log_proba(X), axis=1)
    np.testing.assert_allclose(found.log_odds, log_proba[:, 1] - log_proba[:, 0], atol=1e-9)
    np.testing.assert_array_equal(np.isnan(found.information), X.notna())
    # What the tree splits on first is the one thing to ask of a row of which nothing is known.
    a, x = (found.information[0, found.features.index(name)] for name in "ax")
    assert x > a >= 0  # an exclusive or: one of its two columns alone tells nothing


def test_information_is_that_of_the_mixture_of_leaves():
    """By enumeration: p(c, x_i | x) from the predictions with the value put in would not do, as shares are not
    posterior; so from the leaves, each of which has some of the values."""
    X, y = logical()
    X["b"] = np.where(X["a"] == "no", X["b"], np.where(y == 1, "yes", X["b"]))
    clf = NBTreeClassifier(random_state=0).fit(X, y)
    row = X[:1].assign(a=None)
    found = clf.explain(row)
    tree, table = clf.nb_tree_.tree, clf._encode(row, (clf.schema_,)).tables[0]
    number = clf.schema_.place[0]
    joint = np.zeros((2, 2))
    for k, _, log_share in tree.arrivals(table):
        leaf = clf.nb_tree_.leaves[k]
        codes = leaf.layout.first_level[:-1] + table.codes_of_columns()[0]
        p = np.exp(leaf.log_weight[0] + leaf.terms.log_table[0][codes].sum(axis=0))
        first = leaf.layout.first_level[number]
        joint += np.exp(log_share[0]) * (p / p.sum()) * np.exp(leaf.terms.log_table[0, first : first + 2])
    wanted = (joint * np.log(joint / joint.sum(axis=0) / joint.sum(axis=1, keepdims=True))).sum()
    assert found.information[0, 0] == pytest.approx(wanted, abs=1e-9)


def test_information_of_the_features_is_that_of_a_row_of_which_nothing_is_known():
    X, y = logical()
    clf = NBTreeClassifier(random_state=0).fit(X, y)
    about = clf.describe()["features"]
    found = clf.explain(pd.DataFrame({name: [None] for name in X}))
    wanted = dict(zip(found.features, found.information[0]))
    assert [f["feature"] for f in about] == sorted(wanted, key=lambda name: -wanted[name])
    np.testing.assert_allclose([f["information"] for f in about], [wanted[f["feature"]] for f in about], atol=1e-12)


def test_text_and_description():
    X, y = logical()
    clf = NBTreeClassifier(random_state=0).fit(X, y)
    lines = clf.export_text().splitlines()
    about = clf.describe()
    assert len(lines) == len(about["nodes"]) == len(clf.nb_tree_.tree)
    assert lines[0].startswith("|--- 400 cases, ")
    assert lines[1].startswith("|   |--- ")
    assert sum("naive Bayes" in line for line in lines) == clf.get_n_leaves() == about["n_leaves"]
    assert clf.get_depth() == max(line.count("|   ") for line in lines) == about["depth"]
    top = clf.export_text(max_depth=1).splitlines()
    assert len(top) < len(lines)
    assert any("; split on " in line for line in top)
    for node in about["nodes"]:
        assert sum(entry["prior"] for entry in node["prior"]) == pytest.approx(1)
        below = [other["cases"] for other in about["nodes"] if other["parent"] == node["node"]]
        assert not below or sum(below) == pytest.approx(node["cases"])


def test_thresholds_are_cuts_of_the_column():
    """x decides which of two columns the class is."""
    rng = np.random.default_rng(0)
    x = rng.uniform(size=800)
    a, b = rng.random(800) < 0.7, rng.random(800) < 0.3
    y = np.where(x > 0.5, a, b).astype(int)
    clf = NBTreeClassifier(random_state=0).fit(pd.DataFrame({"x": x, "a": a, "b": b}), y)
    tree, column = clf.nb_tree_.tree, clf.schema_["x"]
    root, *others = clf.describe()["nodes"]
    low, high = (node for node in others if node["parent"] == 0)
    assert root["feature"] == "x"
    cut = column.cuts[tree.threshold[0]]
    assert abs(cut - 0.5) < 0.02
    assert low["condition"] == f"x <= {cut:.6g}"
    assert high["condition"] == f"x > {cut:.6g}"
    assert low["cases"] == (x <= cut).sum()


# ---------------------------------------------------------------- hard input


def assert_sound(clf, X):
    proba, log_proba = clf.predict_proba(X), clf.predict_log_proba(X)
    assert np.isfinite(log_proba).all()
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    np.testing.assert_allclose(np.exp(log_proba), proba, atol=1e-12)


@pytest.mark.filterwarnings("ignore::fanbayes.DataWarning")
@pytest.mark.parametrize("leaf", ["nb", "fan"])
@pytest.mark.parametrize("n", [1, 2, 3, 9, 11])
def test_few_rows(n, leaf):
    X, y = np.random.default_rng(0).normal(size=(n, 2)), np.arange(n) % 3
    clf = NBTreeClassifier(leaf=leaf, min_samples_split=2, random_state=0).fit(X, y)
    assert_sound(clf, X)


def test_few_rows_of_large_weight_are_not_split():
    X = pd.DataFrame({"x": [0.0, 1.0, 2.0, 3.0]})
    clf = NBTreeClassifier(random_state=0).fit(X, [0, 1, 0, 1], sample_weight=np.full(4, 1e6))
    assert clf.get_n_leaves() == 1
    assert_sound(clf, X)


@pytest.mark.filterwarnings("ignore::fanbayes.DataWarning")
def test_one_class_and_a_class_of_one_row():
    X, y = with_holes()
    clf = NBTreeClassifier(random_state=0).fit(X, np.zeros(len(y)))
    np.testing.assert_array_equal(clf.predict_proba(X), np.ones((len(y), 1)))
    y = np.where(np.arange(len(y)) == 7, 3, y)
    clf = NBTreeClassifier(random_state=0).fit(X, y)
    assert clf.predict_proba(X).shape == (len(y), 3)
    assert_sound(clf, X)


@pytest.mark.filterwarnings("ignore::fanbayes.DataWarning")
def test_constant_empty_and_extreme_columns():
    X, y = with_holes()
    noise = np.random.default_rng(0).normal(size=len(y))
    X = X.assign(same=7.5, nothing=np.nan, huge=1e300 * (y + noise), tiny=1e-300 * (y + noise))
    clf = NBTreeClassifier(random_state=0).fit(X, y)
    assert_sound(clf, X)
    nothing = pd.DataFrame({name: [None] * 3 for name in X})
    np.testing.assert_allclose(clf.predict_proba(nothing), [clf.class_prior_] * 3)


@pytest.mark.filterwarnings("ignore::fanbayes.DataWarning")
def test_nothing_but_constant_columns():
    clf = NBTreeClassifier(random_state=0).fit(np.ones((80, 2)), np.arange(80) % 4 // 3)
    np.testing.assert_allclose(clf.predict_proba(np.ones((2, 2))), [clf.class_prior_] * 2, rtol=1e-12)


def test_two_thousand_columns():
    """Probabilities are multiplied while it is grown: no product may underflow."""
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    X = rng.integers(0, 30, (60, 2000))
    X[:, 0] = y ^ (rng.random(60) < 0.1)
    clf = NBTreeClassifier(categorical_features="all", random_state=0).fit(X, y)
    assert_sound(clf, X)
    assert np.isfinite(clf.nb_tree_.tree.loss[0])


@pytest.mark.filterwarnings("ignore:most rows have a category of their own:fanbayes.DataWarning")
def test_an_identifier_is_not_split_on():
    X, y = logical()
    X["id"] = [f"id{i}" for i in range(len(y))]
    clf = NBTreeClassifier(random_state=0).fit(X, y)
    assert all(node["feature"] != "id" for node in clf.describe()["nodes"])
    assert_sound(clf, X)


def test_a_level_that_a_node_has_not_seen_goes_down_all_branches():
    X, y = logical()
    kinds = pd.CategoricalDtype([*"uvw", "never"])
    y = np.select([X["c"] == "u", X["c"] == "v"], [X["a"] == "yes", X["a"] == "no"], X["b"] == "yes").astype(int)
    X = X.astype({"c": kinds})
    clf = NBTreeClassifier(random_state=0).fit(X, y)
    assert clf.describe()["nodes"][0]["feature"] == "c"
    never, missing = (X[:1].assign(c=pd.Series([value], dtype=kinds)) for value in ("never", None))
    np.testing.assert_allclose(clf.predict_proba(never), clf.predict_proba(missing), rtol=1e-9)
    found = clf.explain(never)
    np.testing.assert_allclose(found.prior + found.contributions.sum(axis=1), found.log_odds, atol=1e-9)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"split_score": "gini"}, ValueError, "split_score='gini' is not one of"),
        ({"leaf": "tan"}, ValueError, "leaf='tan' is not one of"),
        ({"shrinkage": -1.0}, ValueError, "shrinkage=-1.0 must be at least 0"),
        ({"min_samples_split": 1}, ValueError, "min_samples_split=1 must be at least 2"),
        ({"min_loss_decrease": -0.1}, ValueError, "min_loss_decrease=-0.1 must be at least 0"),
        ({"alpha": 0}, ValueError, "alpha=0 must be greater than 0"),
    ],
)
def test_settings_that_are_refused(settings, error, message):
    X, y = logical(40)
    with pytest.raises(error, match=message):
        NBTreeClassifier(**settings).fit(X, y)


@pytest.mark.parametrize("settings", [{"alpha": 1e-320}, {"alpha": 1e100}, {"shrinkage": 1e100}, {"shrinkage": 1e-100}])
def test_extreme_settings(settings):
    X, y = with_holes()
    for split_score in ("accuracy", "log_score"):
        clf = NBTreeClassifier(split_score=split_score, random_state=0, **settings).fit(X, y)
        assert_sound(clf, X)


# ---------------------------------------------------------------- the program


def test_commands(tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from fanbayes.cli import app

    X, y = with_holes()
    X.assign(y=y).to_csv(tmp_path / "rows.csv", index=False)
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code == 0, done.output
        return done.stdout

    assert "Leaves: " in run("fit", "rows.csv", "--target", "y", "--model", "nbtree", "--out", "m.fan", "--jobs", "1")
    shown = run("show", "m.fan")
    assert "|   |--- " in shown
    assert "naive Bayes" in shown
    assert "leaf " in run("explain", "m.fan", "rows.csv", "--row", "1")
