"""`missing="informative"`: whether a value is there is one more thing that a cell has a probability of."""

import json
import math
import re
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from program import run
from scipy.special import xlogy
from sklearn.base import clone
from sklearn.metrics import log_loss

import fanbayes
from fanbayes import (
    AODEClassifier,
    BoostedNBClassifier,
    DataWarning,
    FANClassifier,
    FANClassifierCV,
    FMClassifier,
    MDAClassifier,
    NBClassifier,
    NBTreeClassifier,
    TANClassifier,
)
from fanbayes.data.state import StateError, read_schema
from fanbayes.data.table import EncodedTable, encode_table
from fanbayes.data.views import Encodings
from fanbayes.estimators.splits import units_of
from fanbayes.explanation.average import explain_average
from fanbayes.files.model_file import from_state, to_state
from fanbayes.learning.completion import Imputer
from fanbayes.learning.ensembles.average import Average
from fanbayes.learning.ensembles.members import Member, MemberNetwork
from fanbayes.learning.ensembles.pool import Pool

FEW = {"n_init": 2, "random_state": 0}
MODELS = {
    "nb": NBClassifier(),
    "binned nb": NBClassifier(discretize="mdlp"),
    "fan": FANClassifier(2, **FEW),
    "per class": FANClassifier(2, mixing="per_class", **FEW),
    "fan tree": FANClassifier(2, tree="forest", **FEW),
    "fm": FMClassifier(3, **FEW),
    "tan": TANClassifier(),
    "full tan": TANClassifier(tree="full"),
    "mda": MDAClassifier(2, **FEW),
    "boosted": BoostedNBClassifier(random_state=0),
    "nbtree": NBTreeClassifier(min_samples_split=40, random_state=0),
    "aode": AODEClassifier(),
}
AVERAGE = FANClassifierCV(effort="fast", random_state=0)
EM = ("nb", "binned nb", "fan", "per class", "fan tree", "fm", "tan", "full tan", "mda")


def clinic(n=300, seed=0):
    """Who seems ill is tested more often; no value of "scan" but one was ever written down, and "age" is complete."""
    rng = np.random.default_rng(seed)
    ill = rng.random(n) < 0.4
    severe = rng.random(n) < 0.5
    X = pd.DataFrame(
        {
            "pressure": rng.normal(120 + 15 * (ill & severe), 10),
            "stage": np.array(["i", "ii", "iii"])[rng.integers(0, 3, n)],
            "scan": "done",
            "nothing": np.nan,
            "age": rng.normal(50 + 5 * ill, 10),
        }
    )
    X.loc[rng.random(n) < np.where(ill, 0.2, 0.7), "pressure"] = np.nan
    X.loc[rng.random(n) < np.where(severe, 0.5, 0.1), "stage"] = None
    X.loc[rng.random(n) < np.where(ill, 0.4, 0.8), "scan"] = None
    return X, np.where(ill, "ill", "well")


def fitted(clf, X, y, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        return clone(clf).set_params(**settings).fit(X, y)


def informative(clf, X, y, **settings):
    return fitted(clf, X, y, missing="informative", **settings)


def marked(X, columns=("pressure", "stage", "scan")):
    """The rows with an indicator for each column, by hand."""
    return X.assign(**{f"{name} (missing)": X[name].isna() for name in columns})


@pytest.fixture
def same_folds(monkeypatch):
    """Rows dealt out by their numbers, as indicators that were added by hand are part of what rows contain."""
    monkeypatch.setattr(EncodedTable, "fingerprint", property(lambda table: np.arange(table.n_rows, dtype=np.uint32)))


# ---------------------------------------------------------------- what is learnt


@pytest.mark.parametrize("name", [name for name in MODELS if name != "aode"])
def test_it_is_the_model_of_indicators_that_were_added_by_hand(name, same_folds):
    """To the last bit, in what is learnt and in what is predicted."""
    X, y = clinic()
    new, _ = clinic(80, seed=1)
    clf, by_hand = informative(MODELS[name], X, y), fitted(MODELS[name], marked(X), y)
    np.testing.assert_array_equal(clf.predict_proba(new), by_hand.predict_proba(marked(new)))
    assert clf.n_features_in_ == 5
    assert clf.feature_names_in_.tolist() == X.columns.tolist()
    if name in EM:
        assert clf.log_likelihood_ == by_hand.log_likelihood_
        assert clf.network_.model.n_parameters == by_hand.network_.model.n_parameters
        np.testing.assert_array_equal(clf.score_samples(new), by_hand.score_samples(marked(new)))
    ignorable = fitted(MODELS[name], X, y)
    assert np.abs(clf.predict_proba(new) - ignorable.predict_proba(new)).max() > 0.05


def test_probabilities_by_counting():
    """Naive Bayes and AODE of three discrete columns, one of them complete, by loops over the rows."""
    rng = np.random.default_rng(0)
    n = 60
    y = rng.integers(0, 2, n)
    X = rng.integers(0, 3, (n, 3)).astype(float)
    X[rng.random(n) < 0.2 + 0.5 * y, 0] = np.nan
    X[rng.random(n) < 0.3, 1] = np.nan
    codes = [[-1 if x != x else int(x) for x in row] for row in X]
    codes = [[*row, int(row[0] < 0), int(row[1] < 0)] for row in codes]  # 0, 1, 2, missing 0, missing 1
    levels, own = (3, 3, 3, 2, 2), {(0, 3), (3, 0), (1, 4), (4, 1)}

    def count(c, *where):
        return sum(y[r] == c and all(codes[r][i] == v for i, v in where) for r in range(n))

    def of_class(c, i, v):
        seen = sum(count(c, (i, u)) for u in range(levels[i]))
        return (count(c, (i, v)) + 1) / (seen + levels[i])

    def naive(c, row):
        return (count(c) + 1) / (n + 2) * math.prod(of_class(c, i, v) for i, v in enumerate(row) if v >= 0)

    def given(c, i, u, j, v):
        """p(x_j = v | c, x_i = u); a value and its own indicator are independent given the class."""
        pair = [
            count(c, (i, u)) * count(c, (j, w)) / count(c) if (i, j) in own else count(c, (i, u), (j, w))
            for w in range(levels[j])
        ]
        return (pair[v] + 1) / (sum(pair) + levels[j])

    def star(c, row, i):
        seen = sum(count(k, (i, u)) for k in range(2) for u in range(levels[i]))
        total = 0.0
        for u in [row[i]] if row[i] >= 0 else range(levels[i]):
            others = (given(c, i, u, j, v) for j, v in enumerate(row) if j != i and v >= 0)
            total += (count(c, (i, u)) + 1) / (seen + 2 * levels[i]) * math.prod(others)
        return total

    new = np.array([[np.nan, 1, 0], [2, np.nan, np.nan], [np.nan] * 3, [0, 1, 2]])  # the last column was complete
    rows = [[-1 if x != x else int(x) for x in row] for row in new]
    rows = [[*row, int(row[0] < 0), int(row[1] < 0)] for row in rows]
    for clf, joint in (
        (NBClassifier(categorical_features="all"), lambda c, row: naive(c, row)),
        (AODEClassifier(categorical_features="all"), lambda c, row: sum(star(c, row, i) for i in range(5))),
    ):
        expected = np.array([[joint(c, row) for c in range(2)] for row in rows])
        found = informative(clf, X, y)
        np.testing.assert_allclose(found.predict_proba(new), expected / expected.sum(axis=1, keepdims=True), rtol=1e-12)
    # A column that is absent as a whole says nothing, not even that it is missing.
    names = ["a", "b", "c"]
    clf = informative(
        NBClassifier(categorical_features="all", allow_missing_columns=True), pd.DataFrame(X, columns=names), y
    )
    with pytest.warns(DataWarning, match="not there are summed out: 'a'"):
        found = clf.predict_proba(pd.DataFrame(new, columns=names)[["b", "c"]])
    expected = np.array([[naive(c, [-1, row[1], row[2], -1, row[4]]) for c in range(2)] for row in rows])
    np.testing.assert_allclose(found, expected / expected.sum(axis=1, keepdims=True), rtol=1e-12)


@pytest.mark.parametrize("name", [name for name in MODELS if name != "full tan"])  # which takes any arc
def test_it_pays_where_missing_values_tell_and_costs_little_where_they_do_not(name):
    """Log loss of 2,000 new rows: large values vanish in one class, or values vanish by chance."""
    rng = np.random.default_rng(3)

    def table(n, by_chance):
        y = rng.integers(0, 2, n)
        X = rng.normal(size=(n, 4)) + 0.5 * y[:, None] * [1, 1, 0, 0]
        gone = rng.random(X.shape) < (0.3 if by_chance else np.where(y[:, None] == 1, 1 / (1 + np.exp(-X)), 0.2))
        return np.where(gone, np.nan, X), y

    for by_chance in (False, True):
        train, test = table(400, by_chance), table(2000, by_chance)
        loss, base = (log_loss(test[1], fitted(MODELS[name], *train, missing=m).predict_proba(test[0])) for m in WAYS)
        assert loss < (base + 0.02 if by_chance else base - 0.1)


WAYS = ("informative", "ignorable")


# ---------------------------------------------------------------- which columns have an indicator


@pytest.mark.parametrize("name", ["fan", "mda", "aode", "boosted", "nbtree"])
def test_columns_of_some_but_not_all_values(name):
    X, y = clinic()
    with pytest.warns(DataWarning) as caught:
        clf = clone(MODELS[name]).set_params(missing="informative").fit(X, y)
    assert [w.message.args[0].columns for w in caught] == [("nothing",)]  # "scan" has one value, and is not left out
    assert [clf.schema_[j].name for j in clf.schema_.indicates] == ["pressure", "stage", "scan"]
    # Complete in training: a hole says nothing, and the value is summed out.
    new, _ = clinic(40, seed=2)
    complete = X.drop(columns=["pressure", "stage", "scan"])
    for missing in WAYS:
        model = fitted(MODELS[name], complete, y, missing=missing)
        assert not model.schema_.indicates
        np.testing.assert_allclose(model.predict_proba(new[["nothing", "age"]].assign(age=None))[0].sum(), 1.0)


def test_an_unknown_category_is_there():
    """It counts as missing, but not as left out."""
    X, y = clinic()
    clf = informative(NBClassifier(), X, y)
    new = X[:1].assign(stage="iv")
    with pytest.warns(DataWarning, match="not seen in training"):
        proba = clf.predict_proba(new)
    prior = clf.class_prior_ * np.prod([_probability(clf, new, f) for f in ("pressure", "scan", "age")], axis=0)
    joint = prior * (1 - clf.feature_table("stage").groupby("class")["missing"].first().to_numpy())
    np.testing.assert_allclose(proba[0], joint / joint.sum())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        found = clf.explain(new)
    assert found.values[found.features.index("stage")] == ("(unknown)",)


def _probability(clf, row, feature):
    """p(what is found of a feature | c) of one row (n_classes,), by its table."""
    table = clf.feature_table(feature)
    value = row[feature].iloc[0]
    if value is None or value != value:
        return table.groupby("class")["missing"].first().to_numpy()
    there = 1 - table.groupby("class")["missing"].first().to_numpy() if "missing" in table else 1.0
    if "mean" not in table:
        return there
    density = np.exp(-0.5 * (value - table["mean"]) ** 2 / table["variance"]) / np.sqrt(table["variance"])
    return there * density.to_numpy()


@pytest.mark.parametrize("name", ["fan", "tan", "aode", "nbtree"])
def test_frames_and_files(name, tmp_path):
    """The same bits from every library, and from a file."""
    X, y = clinic()
    new, _ = clinic(50, seed=5)
    expected = informative(MODELS[name], X, y).predict_proba(new)
    for frame in (pl.from_pandas, pa.Table.from_pandas):
        clf = informative(MODELS[name], frame(X), y)
        np.testing.assert_array_equal(clf.predict_proba(frame(new)), expected)
        fanbayes.save(clf, tmp_path / "m.fan")
        again = fanbayes.load(tmp_path / "m.fan")
        np.testing.assert_array_equal(again.predict_proba(frame(new)), expected)
        assert again.missing == "informative"
        assert again.n_features_in_ == 5


@pytest.mark.parametrize("indicates", ["x", [0.0], [5], [-1], [1, 1], [1, 0], None, [True]])
def test_damaged_indicators_are_refused(indicates):
    X, y = clinic()
    clf = informative(NBClassifier(), X, y)
    header, arrays = to_state(clf)
    with pytest.raises(StateError, match="its schema is damaged"):
        read_schema(json.loads(json.dumps(clf.schema_.to_json())) | {"indicates": indicates})
    header["schema"]["indicates"] = [0]
    with pytest.raises(StateError):  # arrays are those of three
        from_state(header, arrays)


@pytest.mark.parametrize("treatment", ["none", "mdlp", "decorrelate"])
def test_views_with_indicators(treatment):
    """What a training table shows is what its schema makes of the raw columns."""
    X, y = clinic()
    cases = NBClassifier()._cases(X, y, None)
    rows = cases.training_table()
    view, table = rows.view(treatment, rows.labels, "informative")
    again = encode_table(view.schema, cases.sources, len(X))
    np.testing.assert_array_equal(table.codes_of_columns(), again.codes_of_columns())
    np.testing.assert_array_equal(table.numbers, again.numbers)
    assert [view.schema[j].name for j in view.schema.indicates] == ["pressure", "stage", "scan"]
    plain, _ = rows.view(treatment, rows.labels)
    assert not plain.schema.indicates
    assert (view.mixing is None) == (treatment != "decorrelate")


# ---------------------------------------------------------------- looking inside


@pytest.mark.parametrize("name", [name for name in MODELS if name != "aode"])
def test_a_feature_has_one_contribution(name, same_folds):
    """That of its value and that of its being there, added up."""
    X, y = clinic()
    new, _ = clinic(60, seed=1)
    found = informative(MODELS[name], X, y).explain(new)
    by_hand = fitted(MODELS[name], marked(X), y).explain(marked(new))
    assert found.features == tuple(n for n in ("pressure", "stage", "scan", "age") if n in found.features)
    assert {"pressure", "scan"} <= {*found.features}
    for j, feature in enumerate(found.features):
        own = [k for k, n in enumerate(by_hand.features) if n in (feature, f"{feature} (missing)")]
        expected = by_hand.contributions[:, own].sum(axis=1)
        np.testing.assert_allclose(found.contributions[:, j], expected, atol=1e-9)
    np.testing.assert_array_equal(found.log_odds, by_hand.log_odds)
    pressure, scan = (found.values[found.features.index(name)] for name in ("pressure", "scan"))
    assert [v == "(missing)" for v in pressure] == new["pressure"].isna().tolist()
    assert {*scan} == {"(missing)", "done"}
    information = found.information[:, found.features.index("pressure")]
    np.testing.assert_array_equal(np.isnan(information), new["pressure"].notna())
    theirs = by_hand.information[:, by_hand.features.index("pressure")]
    np.testing.assert_allclose(information, theirs, rtol=1e-9, atol=1e-12)


def test_contributions_to_the_mean_of_stars_add_up():
    X, y = clinic()
    clf = informative(AODEClassifier(), X, y)
    found = clf.explain(clinic(60, seed=1)[0])
    np.testing.assert_allclose(found.prior + found.contributions.sum(axis=1), found.log_odds, atol=1e-9)
    assert {*found.part} <= {0, 1, 2, 4}


@pytest.mark.parametrize("name", ["nb", "fan", "aode", "nbtree", "boosted"])
def test_the_information_of_a_feature_is_that_of_what_a_row_may_hold(name):
    """I(C; O), O a level of a discrete column, or that it is missing."""
    X, y = clinic()
    X = X[["stage", "scan"]].assign(stage=np.where(X["scan"].isna() & (y == "ill"), "i", X["stage"]))
    clf = informative(MODELS[name], X, y)
    found = {f["feature"]: f for f in clf.describe()["features"]}
    assert {f["missing"] for f in found.values()} == {"informative"}
    cases = [pd.DataFrame({"stage": [v], "scan": ["done"]}) for v in ("i", "ii", "iii", None)]
    if name in ("nb", "fan", "aode"):
        both = [case.assign(scan=scan) for case in cases for scan in ("done", None)]
        joint = np.exp(np.concatenate([clf.predict_joint_log_proba(case) for case in both])).reshape(4, 2, 2)
        np.testing.assert_allclose(joint.sum(), 1.0, rtol=1e-9)
        for feature, axis in (("stage", 1), ("scan", 0)):
            p = joint.sum(axis=axis)
            expected = (xlogy(p, p) - xlogy(p, p.sum(axis=0)) - xlogy(p, p.sum(axis=1, keepdims=True))).sum()
            own = {"rtol": 1e-6} if name != "aode" else {"rtol": 0.2, "atol": 2e-3}  # a star of its own
            np.testing.assert_allclose(found[feature]["information"], expected, **own)
    else:
        assert found["scan"]["information"] > 0.02


@pytest.mark.parametrize("name", [*EM, "aode"])
def test_rows_drawn_have_holes(name):
    X, y = clinic()
    clf = informative(MODELS[name], X, y)
    drawn, classes = clf.sample(4000, random_state=0)
    assert drawn.columns.tolist() == X.columns.tolist()
    for label in ("ill", "well"):
        names = ["pressure", "stage", "scan"]
        shares, expected = (rows[names].isna().mean() for rows in (drawn[classes == label], X[y == label]))
        np.testing.assert_allclose(shares, expected, atol=0.06)
    assert drawn["age"].notna().all()
    assert not fitted(MODELS[name], X, y).sample(200, random_state=0)[0][["pressure", "stage"]].isna().any(axis=None)


def test_tables_and_arcs_say_how_often_a_value_is_missing():
    X, y = clinic()
    table = informative(NBClassifier(), X, y).feature_table("pressure")
    counts = X["pressure"].isna().groupby(y).agg(["sum", "count"])
    np.testing.assert_allclose(table["missing"], (counts["sum"] + 1) / (counts["count"] + 2))
    assert "missing" not in informative(NBClassifier(), X, y).feature_table("age")
    stage = informative(TANClassifier(tree="full"), X, y).feature_table("stage")
    assert (stage.groupby("class")["missing"].nunique() == 1).all()
    scores = informative(BoostedNBClassifier(random_state=0), X, y).score_table("scan")
    assert scores["level"].isna().sum() == 2
    both = X.assign(scan=np.where(X["pressure"].isna(), None, "done"))
    for tree in ("forest", "full"):
        edges = informative(TANClassifier(tree=tree), both, y).edges_
        assert {*edges.loc[0, ["feature", "parent"]]} == {"pressure (missing)", "scan (missing)"}
        ends = zip(edges["feature"], edges["parent"])
        assert not any(b in (f"{a} (missing)", a.removesuffix(" (missing)")) for a, b in ends)  # never both known


def test_members_of_an_average_may_differ_in_what_they_make_of_holes():
    """Their average, explained; what is filled in stays marked as missing."""
    X, y = clinic()
    new, _ = clinic(30, seed=4)
    cases = NBClassifier()._cases(X, y, None)
    rows = cases.training_table()
    pool, prior = Pool(np.array([0.5, 0.4, 0.1]), np.array([0.7, 0.2, 0.3]), 0.5), np.array([0.4, 0.6])
    fits, networks = [], []
    for missing in WAYS:
        view, _ = rows.view("none", rows.labels, missing)
        networks.append(fitted(NBClassifier(), X, y, missing=missing).network_)
        fits.append(MemberNetwork(view, networks[-1]))
    for fills in ([False] * 6, [False, False, False, True, True, True]):
        imputer = Imputer(networks[0], rows.schema_with("informative"), np.array(fills))
        average = Average(tuple(Member((fit,)) for fit in fits), pool, prior, imputer)
        sources = NBClassifier()._cases(new, y[:30], None).sources
        tables = tuple(encode_table(schema, sources, 30) for schema in average.schemas)
        given = Encodings(average.schemas, tables)
        proba = average.posterior(given, "proba", None)
        if not any(fills):
            alone = [fit.proba(given[fit.view.schema], None) for fit in fits]
            wanted = pool.mix(np.stack([*alone, np.tile(prior, (30, 1))]))
            np.testing.assert_allclose(proba, wanted, rtol=1e-12)
        found = explain_average(average, given, cases.classes, None, None)
        np.testing.assert_allclose(found.prior + found.contributions.sum(axis=1), found.log_odds, atol=1e-9)
        np.testing.assert_allclose(np.exp(-np.abs(found.log_odds)), proba.min(axis=1) / proba.max(axis=1), rtol=1e-9)


def test_the_program(tmp_path, server):
    X, y = clinic()
    X.drop(columns="nothing").assign(state=y).to_csv(tmp_path / "clinic.csv", index=False)
    new = clinic(40, seed=1)[0].drop(columns="nothing")
    new.to_csv(tmp_path / "new.csv", index=False)
    new.drop(columns=["pressure", "scan"]).to_csv(tmp_path / "some.csv", index=False)
    fit = ("fit", "clinic.csv", "-t", "state", "--model", "nb", "-o", "m.fan")
    _, err = run(*fit, cwd=tmp_path)
    assert "fewer than two distinct values tell nothing and are left out: 'scan'" in err
    _, err = run(*fit, "--informative-missing", cwd=tmp_path)
    assert err == ""
    shown, _ = run("show", "m.fan", cwd=tmp_path)
    assert re.search("Whether there is a value counts as well: (pressure, scan|scan, pressure), stage", shown)
    explained, _ = run("explain", "m.fan", "new.csv", cwd=tmp_path)
    assert "pressure = (missing)" in explained
    clf = fanbayes.load(tmp_path / "m.fan").set_params(allow_missing_columns=True)
    lacking = pd.read_csv(tmp_path / "some.csv")
    for command in ("predict", "explain"):
        found, err = run(command, "m.fan", "some.csv", "--allow-missing-columns", cwd=tmp_path)
        assert err.count("not there are summed out: 'pressure', 'scan'") == 1
        assert "(missing)" not in found or "stage = (missing)" in found
    found, _ = run("predict", "m.fan", "some.csv", "--allow-missing-columns", "-o", "p.csv", cwd=tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        expected = clf.predict_proba(lacking)
    np.testing.assert_allclose(pd.read_csv(tmp_path / "p.csv")["p(ill)"], expected[:, 0], rtol=1e-6)


# ---------------------------------------------------------------- the average


def test_of_an_average_rows_held_out_choose_what_knows_of_holes():
    X, y = clinic(600)
    clf = informative(AVERAGE, X, y)
    seen = [member.fits[0].view.schema.indicates for member in clf.average_.members]
    told = ["informative" if own else "ignorable" for own in seen]
    assert clf.members_["missing"].tolist() == told
    assert clf.members_["weight"][clf.members_["missing"] == "informative"].sum() > 0.5
    new, truth = clinic(2000, seed=1)
    plain = fitted(AVERAGE, X, y)
    assert "missing" not in plain.members_
    losses = [log_loss(truth == "well", c.predict_proba(new)[:, 1]) for c in (clf, plain)]
    assert losses[0] < losses[1] + 0.002  # trees know of columns that are often missing anyway


def test_an_average_learns_from_holes_that_are_seldom():
    """Elsewhere their values are filled in, and that they were missing is lost."""

    def rows(n, seed):
        rng = np.random.default_rng(seed)
        y = rng.integers(0, 2, n)
        X = pd.DataFrame(rng.normal(size=(n, 10)), columns=list("abcdefghij"))
        return X.mask(rng.random(X.shape) < np.where(y == 1, 0.06, 0.01)[:, None]), y

    (X, y), (new, truth) = rows(800, 0), rows(3000, 1)
    clf, plain = (fitted(AVERAGE, X, y, missing=missing) for missing in WAYS)
    loss, base = (log_loss(truth, c.predict_proba(new)) for c in (clf, plain))
    assert loss < base - 0.04
    assert not clf.imputer_.fills_of_columns[10:].any()
    told = clf.explain(new[:40])
    log_p = clf.predict_log_proba(new[:40])
    odds = log_p[np.arange(40), log_p.argmax(axis=1)] - log_p.min(axis=1)
    np.testing.assert_allclose(told.log_odds, odds, atol=1e-9)
    np.testing.assert_allclose(told.prior + told.contributions.sum(axis=1), told.log_odds, atol=1e-6)


def test_an_average_in_files_and_of_batches(tmp_path):
    X, y = clinic(200)
    new, _ = clinic(60, seed=1)
    clf = informative(AVERAGE, X, y, allow_missing_columns=True)
    expected = clf.predict_proba(new)
    fanbayes.save(clf, tmp_path / "m.fan")
    again = fanbayes.load(tmp_path / "m.fan")
    assert again.missing == "informative"
    np.testing.assert_array_equal(again.predict_proba(new), expected)
    with pytest.warns(DataWarning, match="not there are summed out"):
        absent = again.predict_proba(new.drop(columns="pressure"))  # not even whether it was measured is known
    assert np.isfinite(absent).all()
    assert np.abs(absent - again.predict_proba(new.assign(pressure=np.nan))).max() > 0.01
    frame = pl.from_pandas(X.assign(y=y))
    pq.write_table(frame.to_arrow(), tmp_path / "rows.parquet")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        batched = clone(clf).fit(ds.dataset(tmp_path / "rows.parquet"), "y")
    np.testing.assert_allclose(batched.predict_proba(pl.from_pandas(new)), expected, atol=1e-9)


def test_how_rows_are_dealt_out_does_not_depend_on_indicators():
    """So that scores of rows held out can be compared."""
    X, y = clinic(200)
    dealt = []
    for missing in WAYS:
        cases = FANClassifierCV()._cases(X, y, None)
        dealt.append([split for split, _ in units_of(None, cases, cases.training_table(missing), 0, None)[2]])
    np.testing.assert_array_equal(*dealt)
