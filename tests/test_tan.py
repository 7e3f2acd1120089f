"""Tree-augmented naive Bayes, alone and with a hidden variable."""

import json
import warnings
from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, norm
from sklearn.base import clone
from sklearn.metrics import mutual_info_score

from fanbayes import FANClassifier, NBClassifier, TANClassifier, load, save
from fanbayes.data.state import StateError
from fanbayes.estimators.criteria import fit_by_criteria
from fanbayes.files.model_file import from_state, to_state
from fanbayes.learning.em import Problem, initial_state, run_em
from fanbayes.learning.tree_data import tree_data
from fanbayes.learning.tree_search import _Weights, best_tree, completed
from fanbayes.model.blocks import EstimationOptions
from fanbayes.model.network import Model
from fanbayes.model.structure import fan
from fanbayes.model.tree import Tree, tree_layout
from fanbayes.model.tree_network import marginal_network
from fanbayes.plotting import ArcDisplay


def chain(n, rng, holes=0.0, classes=("no", "yes")):
    """Discrete columns, each of which mostly repeats the one before it; which does is the class's affair."""
    y = rng.integers(len(classes), size=n)
    x = [rng.integers(3, size=n)]
    for k in range(3):
        same = rng.random(n) < np.where(y == k % 2, 0.9, 0.3)
        x.append(np.where(same, x[-1], rng.integers(3, size=n)))
    X = pd.DataFrame({f"x{k}": np.array(list("abc"))[v].astype(object) for k, v in enumerate(x)})
    X = X.mask(rng.random(X.shape) < holes)
    return X, np.array(classes)[y]


def mixed(n, rng, holes=0.0):
    """A discrete column, a number by its level, and two numbers in a line."""
    y = rng.integers(2, size=n)
    level = rng.integers(3, size=n)
    a = np.array([-2.0, 0.0, 3.0])[level] + rng.normal(size=n) * (1 + y)
    b = np.where(y == 1, 0.9, -0.5) * a + 0.3 * rng.normal(size=n)
    c = 2 * b + y + 0.5 * rng.normal(size=n)
    X = pd.DataFrame({"level": np.array(["lo", "mid", "hi"])[level].astype(object), "a": a, "b": b, "c": c})
    return X.mask(rng.random(X.shape) < holes), y


def all_rows(levels="abc", n=4):
    return pd.DataFrame(list(product(levels, repeat=n)), columns=[f"x{k}" for k in range(n)], dtype=object)


MODELS = {
    "tan": lambda: TANClassifier(tree="full"),
    "forest": lambda: TANClassifier(tree="forest"),
    "fan": lambda: FANClassifier(2, tree="full", random_state=0),
    "fan per class": lambda: FANClassifier(2, tree="full", mixing="per_class", random_state=0),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("holes", [0.0, 0.3])
def test_sums_to_one(name, holes):
    X, y = chain(400, np.random.default_rng(0), holes)
    clf = MODELS[name]().fit(X, y)
    assert logsumexp(clf.predict_joint_log_proba(all_rows())) == pytest.approx(0, abs=1e-10)
    assert len(clf.edges_) == 3


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("hidden", [["x0"], ["x1"], ["x1", "x2"], ["x0", "x3"], ["x0", "x1", "x2", "x3"]])
def test_a_hole_is_the_sum_over_its_values(name, hidden):
    X, y = chain(400, np.random.default_rng(1), 0.2)
    clf = MODELS[name]().fit(X, y)
    rows = all_rows()
    joint = pd.DataFrame(clf.predict_joint_log_proba(rows))
    known = [c for c in rows if c not in hidden]
    keys = rows[known].agg("".join, axis=1) if known else pd.Series([""] * len(rows))
    summed = joint.groupby(keys.to_numpy()).agg(logsumexp)
    with_holes = rows.copy()
    with_holes[hidden] = None
    found = clf.predict_joint_log_proba(with_holes)
    np.testing.assert_allclose(found, summed.loc[keys].to_numpy(), atol=1e-10)
    proba = clf.predict_proba(with_holes)
    np.testing.assert_allclose(proba, np.exp(found - logsumexp(found, axis=1, keepdims=True)), atol=1e-12)


def test_density_of_numbers_is_that_of_the_joint_normal():
    X, y = mixed(500, np.random.default_rng(2))
    X = X[["a", "b", "c"]]
    clf = TANClassifier().fit(X, y)
    edges = clf.edges_
    assert {frozenset(e) for e in zip(edges["feature"], edges["parent"])} == {frozenset("ab"), frozenset("bc")}
    table = {f: clf.feature_table(f) for f in X}
    parents = dict(zip(edges["feature"], edges["parent"]))
    (root,) = set("abc") - set(parents)
    order = [root]
    while len(order) < 3:
        order += [f for f, p in parents.items() if p == order[-1]]
    for k in range(2):
        mean, covariance = {}, {}
        for f in order:
            row = table[f].iloc[k]
            if f == root:
                mean[f], covariance[f, f] = row["mean"], row["variance"]
                continue
            p = parents[f]
            mean[f] = row["intercept"] + row["slope"] * mean[p]
            for g in order[: order.index(f)]:
                covariance[f, g] = covariance[g, f] = row["slope"] * covariance[p, g]
            covariance[f, f] = row["variance"] + row["slope"] ** 2 * covariance[p, p]
        for columns in (["a", "b", "c"], ["a", "c"], ["b"], ["c"]):
            rows = X.head(20).copy()
            rows[[c for c in X if c not in columns]] = np.nan
            expected = multivariate_normal.logpdf(
                rows[columns],
                [mean[c] for c in columns],
                [[covariance[c, d] for d in columns] for c in columns],
            )
            found = clf.predict_joint_log_proba(rows)[:, k] - np.log(clf.class_prior_[k])
            np.testing.assert_allclose(found, expected, atol=1e-8)


def test_a_number_has_a_normal_for_each_level_of_its_parent():
    X, y = mixed(600, np.random.default_rng(3))
    X = X[["level", "a"]]
    clf = TANClassifier().fit(X, y)
    assert clf.edges_.iloc[0][["feature", "parent"]].tolist() == ["a", "level"]
    table = clf.feature_table("a")
    levels = clf.feature_table("level")
    rows = X.head(30)
    for k in range(2):
        own = table[table["class"] == k].set_index("given")
        share = levels[levels["class"] == k].set_index("level")["probability"]
        expected = [
            np.log(clf.class_prior_[k] * share[u]) + norm.logpdf(x, own["mean"][u], own["variance"][u] ** 0.5)
            for u, x in zip(rows["level"], rows["a"])
        ]
        np.testing.assert_allclose(clf.predict_joint_log_proba(rows)[:, k], expected, atol=1e-9)
        hole = rows.assign(level=None)
        summed = [
            np.log(clf.class_prior_[k])
            + logsumexp(
                [np.log(p) + norm.logpdf(x, own["mean"][u], own["variance"][u] ** 0.5) for u, p in share.items()]
            )
            for x in rows["a"]
        ]
        np.testing.assert_allclose(clf.predict_joint_log_proba(hole)[:, k], summed, atol=1e-9)


@pytest.mark.parametrize("make", [chain, mixed])
@pytest.mark.parametrize("holes", [0.0, 0.4])
@pytest.mark.parametrize("unlabelled", [False, True])
@pytest.mark.parametrize("hard", [False, True])
def test_no_step_of_em_falls(make, holes, unlabelled, hard):
    rng = np.random.default_rng(4)
    X, y = make(250, rng, holes)
    y = y.astype(object)
    if unlabelled:
        y[rng.random(len(y)) < 0.5] = None
    clf = TANClassifier()
    _, table = clf._cases(X, y, None).encoded("none")
    labelled = table.only(table.labels >= 0)
    naive = NBClassifier().fit(X[table.labels >= 0], y[table.labels >= 0]).network_
    tree = best_tree(completed(labelled, naive, None), 0.0, full=True, root=None)
    layout = tree_layout(table.layout, tree)
    problem = Problem(tree_data(layout, table, None), EstimationOptions(), hard=hard, accelerate=False)
    model = Model(fan([2, 2], "shared"), layout, problem.options)
    start = model.from_cells(model.structure.estimate_factors(np.ones((1, 4)), 1.0), _uniform(model)).perturb(
        np.ones((1, 4)), rng
    )
    state = initial_state(problem, start)
    for _ in range(25):
        after = run_em(problem, state, 1, 0.0)
        assert after.objective[0] >= state.objective[0] - 1e-9 * abs(state.objective[0])
        state = after


def _uniform(model):
    parts = []
    for place in model.places:
        block = place.block
        if block.term == "lookup":
            log_p = -np.log(model.layout.n_levels[model.layout.column_of])
            log_p[model.layout.missing_level] = 0.0
            parts.append(np.repeat(log_p[:, None], 4, axis=1))
        else:
            n_coefficients = block.n_written - block.n_columns
            parts.append(np.concatenate([np.zeros((n_coefficients, 4)), np.ones((block.n_columns, 4))]))
    return np.concatenate(parts)[None]


def test_an_empty_forest_is_fan_bit_for_bit():
    rng = np.random.default_rng(5)
    y = rng.integers(2, size=300)
    X = pd.DataFrame({f"x{k}": np.array(["u", "v"])[rng.integers(2, size=300)] for k in range(4)})
    X["z"] = rng.normal(size=300)
    plain = FANClassifier(random_state=0).fit(X, y)
    forest = FANClassifier(random_state=0, tree="forest").fit(X, y)
    assert len(forest.edges_) == 0
    assert forest.n_components_ == plain.n_components_
    np.testing.assert_array_equal(plain.predict_log_proba(X), forest.predict_log_proba(X))
    naive, tan = NBClassifier().fit(X, y), TANClassifier(tree="forest", criterion="bic").fit(X, y)
    np.testing.assert_array_equal(naive.predict_log_proba(X), tan.predict_log_proba(X))


@pytest.mark.parametrize("make", [chain, mixed])
def test_one_component_is_tan(make):
    X, y = make(300, np.random.default_rng(6), 0.1)
    tan = TANClassifier(tree="full", tol=1e-10).fit(X, y)
    fan_of_one = FANClassifier(1, tree="full", tol=1e-10, criterion="bic").fit(X, y)
    assert tan.edges_.equals(fan_of_one.edges_)
    np.testing.assert_allclose(tan.predict_log_proba(X), fan_of_one.predict_log_proba(X), atol=1e-10)


def test_tables_are_smoothed_counts():
    X, y = chain(300, np.random.default_rng(7))
    clf = TANClassifier(tree="full", alpha=0.5, root="x2").fit(X, y)
    parents = dict(zip(clf.edges_["feature"], clf.edges_["parent"]))
    assert parents == {"x1": "x2", "x0": "x1", "x3": "x2"}
    found = clf.feature_table("x3")
    for _, row in found.iterrows():
        rows = (y == row["class"]) & (X["x2"] == row["given"])
        expected = (((X["x3"] == row["level"]) & rows).sum() + 0.5) / (rows.sum() + 3 * 0.5)
        assert row["probability"] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("name", MODELS)
def test_samples_are_of_the_model(name):
    X, y = mixed(500, np.random.default_rng(8))
    clf = MODELS[name]().fit(X, y)
    S, t = clf.sample(20_000, random_state=0)
    assert np.mean(t) == pytest.approx(clf.class_prior_[1], abs=0.02)
    again = TANClassifier(tree="full").fit(S, t)
    assert set(map(frozenset, zip(again.edges_["feature"], again.edges_["parent"]))) == set(
        map(frozenset, zip(clf.edges_["feature"], clf.edges_["parent"]))
    )
    for column in "abc":
        assert S[column].mean() == pytest.approx(X[column].mean(), abs=0.15 * X[column].std())
        assert S[column].std() == pytest.approx(X[column].std(), rel=0.15)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("make", [chain, mixed])
def test_explanations_add_up(name, make):
    X, y = make(200, np.random.default_rng(9), 0.2)
    clf = MODELS[name]().fit(X, y)
    found = clf.explain(X.head(40))
    log_proba = clf.predict_log_proba(X.head(40))
    top = np.sort(log_proba, axis=1)
    np.testing.assert_allclose(found.log_odds, top[:, -1] - top[:, -2], atol=1e-9)
    np.testing.assert_allclose(found.prior + found.contributions.sum(axis=1), found.log_odds, atol=1e-9)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("make", [chain, mixed])
def test_files_and_copies(name, make, tmp_path):
    X, y = make(150, np.random.default_rng(10), 0.1)
    clf = MODELS[name]().fit(X, y)
    save(clf, tmp_path / "m.fan")
    again = load(tmp_path / "m.fan")
    np.testing.assert_array_equal(clf.predict_log_proba(X), again.predict_log_proba(X))
    assert again.edges_.equals(clf.edges_)
    twice = MODELS[name]().fit(pd.concat([X, X]), np.concatenate([y, y]))
    weighted = MODELS[name]().fit(X, y, sample_weight=np.full(len(y), 2.0))
    np.testing.assert_allclose(twice.predict_proba(X), weighted.predict_proba(X), atol=1e-6)
    threads = MODELS[name]().set_params(n_jobs=2).fit(X, y)
    np.testing.assert_array_equal(clf.predict_log_proba(X), threads.predict_log_proba(X))


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("seed", range(6))
def test_the_tree_is_the_best_of_all(seed, full):
    """Of all forests over a discrete, a binary and three continuous columns that have no discrete child of a number."""
    rng = np.random.default_rng(seed)
    X, y = mixed(60, rng, 0.1)
    X["b2"] = np.where(rng.random(60) < 0.5 + 0.2 * y, "u", "v")
    _, table = TANClassifier()._cases(X, y, None).encoded("none")
    rows = completed(table, NBClassifier().fit(X, y).network_, None)
    price = 2.0
    found = best_tree(rows, price, full=full, root=None)
    weights = _Weights(rows, 0.0 if full else price)
    n, n_discrete = weights.n_columns, weights.n_discrete
    worth = {i: dict(zip(range(n), weights.of(i, np.arange(n)))) for i in range(n)}
    best = -np.inf
    for parents in product(range(-1, n), repeat=n):
        if any(p == i or (i < n_discrete <= p) for i, p in enumerate(parents)) or (full and parents.count(-1) > 1):
            continue
        try:
            assert Tree(parents, (0.0,) * n).order
        except ValueError:
            continue
        best = max(best, sum(worth[p][i] for i, p in enumerate(parents) if p >= 0))
    own = sum(worth[p][i] for i, p in enumerate(found.parent) if p >= 0)
    assert own == pytest.approx(best, abs=1e-9)
    gross = _Weights(rows, 0.0)
    for i, p in enumerate(found.parent):
        expected = gross.of(p, np.array([i]))[0] if p >= 0 else 0.0
        assert found.weight[i] == pytest.approx(expected, abs=1e-9)


def test_weight_of_an_arc_is_conditional_mutual_information():
    X, y = chain(200, np.random.default_rng(12), 0.2)
    clf = TANClassifier(tree="full").fit(X, y)
    for _, arc in clf.edges_.iterrows():
        both = X[[arc["feature"], arc["parent"]]].notna().all(axis=1).to_numpy()
        total = 0.0
        for c in np.unique(y):
            own = X[both & (y == c)]
            total += len(own) * mutual_info_score(own[arc["feature"]], own[arc["parent"]])
        assert arc["weight"] == pytest.approx(total, rel=1e-9)


def test_hard_input():
    rng = np.random.default_rng(13)
    x = rng.normal(size=40)
    y = rng.integers(2, size=40)
    hard = pd.DataFrame(
        {
            "same": x,
            "again": x,
            "huge": 1e300 * x,
            "tiny": 1e-300 * x,
            "constant": 1.0,
            "nothing": np.nan,
            "unknown": pd.Series([None] * 40, dtype=object),
            "word": rng.choice(list("abc"), 40),
            "many": [f"v{k % 30}" for k in range(40)],
        }
    )
    for clf in (TANClassifier(tree="full"), TANClassifier(), FANClassifier(2, tree="full", random_state=0)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            clf.fit(hard, y)
            rows = pd.concat([hard, hard.mask(rng.random(hard.shape) < 0.5), hard.mask(hard.notna())])
            proba = clf.predict_proba(rows)
            assert np.isfinite(clf.score_samples(hard)).all()
        assert np.isfinite(proba).all()
        np.testing.assert_allclose(proba.sum(axis=1), 1.0)
        np.testing.assert_allclose(proba[-1], clf.class_prior_, atol=1e-12)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            one = clone(clf).fit(hard[["word", "same"]].head(1), y[:1])
        assert one.predict_proba(hard[["word", "same"]]).shape == (40, 1)


def test_a_root_that_tells_nothing_is_refused():
    X, y = chain(50, np.random.default_rng(14))
    X["k"] = "always"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ValueError, match="root='k' tells nothing"):
            TANClassifier(root="k").fit(X, y)
        with pytest.raises(KeyError, match="no column 'zz'"):
            TANClassifier(root="zz").fit(X, y)


def test_columns_of_too_many_pairs_have_no_arc():
    n = 4000
    X = pd.DataFrame({"a": [f"a{k % 300}" for k in range(n)], "b": [f"b{k % 300}" for k in range(n)]})
    clf = TANClassifier(tree="full").fit(X, np.arange(n) % 2)
    assert len(clf.edges_) == 0


def test_a_hostile_tree_is_refused(tmp_path):
    X, y = chain(80, np.random.default_rng(15))
    clf = TANClassifier(tree="full").fit(X, y)
    header, arrays = to_state(clf)
    n = len(header["structure"]["tree"]["parent"])
    for parent in ([0] * n, [1, 0] + [-1] * (n - 2), [n] * n, [-2] * n, ["x"] * n, [-1] * (n + 1)):
        bad = json.loads(json.dumps(header))
        bad["structure"]["tree"]["parent"] = parent
        with pytest.raises(StateError):
            from_state(bad, arrays)


def test_display_of_arcs():
    pytest.importorskip("matplotlib")
    X, y = chain(200, np.random.default_rng(16))
    display = ArcDisplay.from_estimator(TANClassifier(tree="full").fit(X, y))
    assert len(display.lines_) == 3
    assert {t.get_text() for t in display.texts_} == set(X)
    empty = ArcDisplay({"feature": [], "parent": [], "weight": []}).plot()
    assert empty.ax_.get_title() == "No arcs between features"


def test_marginals_are_those_of_the_model():
    """What profiles, information and figures of components are made of."""
    X, y = chain(300, np.random.default_rng(17))
    clf = FANClassifier(2, tree="full", random_state=0).fit(X, y)
    rows = all_rows()
    states = clf._run(clf._table(rows), "states")
    marginal = marginal_network(clf.network_)
    for k, name in enumerate(clf.schema_[j].name for j in clf.schema_.discrete):
        found = np.exp(marginal.cells[0, marginal.layout.first_level[k] : marginal.layout.missing_level[k]])
        for v, level in enumerate("abc"):
            expected = np.exp(logsumexp(states[(rows[name] == level).to_numpy()], axis=0) - logsumexp(states, axis=0))
            np.testing.assert_allclose(found[v], expected, atol=1e-10)
    Z, t = mixed(300, np.random.default_rng(18))
    tan = TANClassifier(tree="full").fit(Z, t)
    S, _ = tan.sample(200_000, random_state=0)
    own = marginal_network(tan.network_)
    share = np.exp(own.log_weight[0])
    for j in tan.schema_.continuous:
        mean, variance = own.column(tan.schema_.position_in_layout[j]).traits()
        total = mean[0] @ share
        spread = (variance[0] + (mean[0] - total) ** 2) @ share
        values = tan.schema_[j]
        assert S[values.name].mean() == pytest.approx(values.restore(np.array([total]))[0], abs=0.03)
        assert S[values.name].std() == pytest.approx(spread**0.5 * np.exp(values.log_scale), rel=0.02)


def test_what_to_observe_next_is_exact_for_levels():
    X, y = chain(300, np.random.default_rng(19))
    clf = TANClassifier(tree="full").fit(X, y)
    row = pd.DataFrame({"x0": ["a"], "x1": [None], "x2": [None], "x3": ["b"]}, dtype=object)
    found = clf.explain(row)
    prior = clf.predict_proba(row)[0]
    for name in ("x1", "x2"):
        tried = pd.concat([row.assign(**{name: level}) for level in "abc"])
        weight = np.exp(clf.score_samples(tried) - clf.score_samples(row)[0])
        posterior = clf.predict_proba(tried)
        gain = -(prior @ np.log(prior)) + weight @ (posterior * np.log(posterior)).sum(axis=1)
        assert found.information[0, list(found.features).index(name)] == pytest.approx(gain, abs=1e-10)


def test_noise_has_no_arcs():
    """Among many pairs of columns that have nothing to do with each other, some seem to."""
    rng = np.random.default_rng(20)
    X, y = rng.normal(size=(60, 200)), rng.integers(2, size=60)
    assert len(TANClassifier(tree="full").fit(X, y).edges_["feature"]) == 199
    assert len(TANClassifier().fit(X, y).edges_["feature"]) < 20
    assert len(TANClassifier(criterion="bic").fit(X, y).edges_["feature"]) < 5


def information(joint):
    """I(C; X) of a joint distribution (n_points, n_classes)."""
    joint = joint / joint.sum()
    independent = joint.sum(axis=0) * joint.sum(axis=1, keepdims=True)
    some = joint > 1e-300
    return (joint[some] * np.log(joint[some] / independent[some])).sum()


def test_what_to_observe_next_of_a_number_that_another_nearly_tells():
    rng = np.random.default_rng(21)
    y = rng.integers(0, 2, 4000)
    x = rng.normal(size=4000)
    z = x + 0.01 * y + 0.002 * rng.normal(size=4000)
    clf = TANClassifier(tree="full").fit(pd.DataFrame({"x": x, "z": z}), y)
    rows = pd.DataFrame({"x": [0.0, 0.03, 0.1], "z": np.nan})
    found = clf.explain(rows).information[:, 1]
    for row, gain in zip(rows["x"], found):
        fine = pd.DataFrame({"x": row, "z": row + np.linspace(-0.4, 0.4, 20_001)})
        assert gain == pytest.approx(information(np.exp(clf.predict_joint_log_proba(fine))), abs=1e-6)


def test_what_to_observe_next_below_a_level_that_is_missing():
    X, y = mixed(400, np.random.default_rng(22))
    X["n"] = np.random.default_rng(23).poisson(3 + 2 * y).astype(float)
    clf = TANClassifier(tree="full", distributions={"n": "poisson"}).fit(X, y)
    row = X.head(1).assign(level=None, a=np.nan, n=np.nan)
    found = clf.explain(row)
    for name, values in (("a", np.linspace(-20, 20, 8001)), ("n", np.arange(60.0))):
        fine = pd.concat([row.assign(**{name: v}) for v in values])
        expected = information(np.exp(clf.predict_joint_log_proba(fine)))
        assert found.information[0, list(found.features).index(name)] == pytest.approx(expected, abs=1e-6)


def test_a_root_among_the_numbers_waits_for_the_levels():
    X, y = mixed(300, np.random.default_rng(24))
    clf = TANClassifier(tree="full", root="b").fit(X, y)
    assert len(clf.edges_) == 3
    assert "level" not in set(clf.edges_["feature"])
    only = X[["a", "b", "c"]]
    assert "b" not in set(TANClassifier(tree="full", root="b").fit(only, y).edges_["feature"])
    with pytest.raises(TypeError, match="root=True"):
        TANClassifier(root=True).fit(X, y)


def test_columns_of_very_many_levels_are_saved(tmp_path):
    n = 65_535
    rng = np.random.default_rng(25)
    few = pd.Categorical(rng.integers(0, 3, n).astype(str))
    X = pd.DataFrame({"many": pd.Categorical(np.arange(n).astype(str)), "a": few, "b": few})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a column of names
        clf = TANClassifier().fit(X, rng.integers(0, 2, n))
    assert len(clf.edges_) == 1
    save(clf, tmp_path / "m.fan")
    np.testing.assert_array_equal(load(tmp_path / "m.fan").predict_proba(X[:9]), clf.predict_proba(X[:9]))


def test_a_chain_of_monstrous_slopes_is_refused():
    rng = np.random.default_rng(26)
    x = rng.normal(size=(100, 1))
    clf = TANClassifier(tree="full").fit(x + 0.1 * rng.normal(size=(100, 25)), rng.integers(2, size=100))
    header, arrays = to_state(clf)
    block = arrays["cells.linear_gaussian"].copy()
    block[24:48] = 1e20
    with pytest.raises(StateError):
        from_state(header, {**arrays, "cells.linear_gaussian": block})


def test_cem_after_em_is_refused():
    X, y = chain(100, np.random.default_rng(27))
    with pytest.raises(ValueError, match="CEM after EM is of models without arcs"):
        fit_by_criteria(FANClassifier(2, tree="full"), X, y, ("icl",), cem=True)
