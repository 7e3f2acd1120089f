"""BoostedNBClassifier: against AdaBoostClassifier over CategoricalNB, its tables, its rows held out, hard input."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.special import log_softmax
from sklearn.ensemble import AdaBoostClassifier
from sklearn.naive_bayes import CategoricalNB

import fanbayes
from fanbayes import BoostedNBClassifier, NBClassifier
from fanbayes.data.state import StateError, plain
from fanbayes.files.container import pack, unpack
from fanbayes.files.model_file import from_state, to_state
from fanbayes.learning.ensembles.boosting import MOST_SCALE, fit_scale

FEW = "ignore:.*labelled cases are too few:UserWarning"


def codes(n=400, n_classes=3, n_columns=5, seed=0):
    """Discrete columns, of which some repeat others: naive Bayes counts them twice."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n)
    X = (y[:, None] + rng.integers(0, 3, (n, n_columns))) % 4
    X[:, 1:3] = X[:, [0]]
    X[:, 4] = np.where(y == 1, X[:, 3] % 2, rng.integers(0, 4, n))
    return X, y


def mixed(n=120, seed=0):
    """Categories and numbers, some missing."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    X = pd.DataFrame({"x": y + 0.5 * rng.normal(size=n), "z": rng.normal(size=n) - y, "k": np.array(list("abc"))[y]})
    X["k"] = np.where(rng.random(n) < 0.4, np.array(list("abc"))[rng.integers(0, 3, n)], X["k"])
    X.loc[::8, "x"] = np.nan
    X.loc[::11, "k"] = None
    return X, y


class Smoothed(CategoricalNB):
    """CategoricalNB with the class prior of (5): weights that sum to 1 have alpha / N added, as features have."""

    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)
        counts = self.class_count_ + self.alpha
        self.class_log_prior_ = np.log(counts / counts.sum())
        return self


# ---------------------------------------------------------------- against scikit-learn


@pytest.mark.parametrize("n_classes", [2, 3, 4])
@pytest.mark.parametrize("weighted", [False, True])
def test_votes_are_those_of_adaboost_over_categorical_nb(n_classes, weighted):
    X, y = codes(n_classes=n_classes)
    weight = np.random.default_rng(1).choice([0.5, 1.0, 2.0], len(y)) if weighted else np.ones(len(y))
    theirs = AdaBoostClassifier(Smoothed(alpha=1 / weight.sum(), min_categories=4), n_estimators=12)
    theirs.fit(X, y, weight)
    ours = BoostedNBClassifier(12, combination="votes", categorical_features="all", random_state=0)
    ours.fit(X, y, weight)
    n = ours.n_rounds_
    assert n == len(theirs.estimators_) > 3
    np.testing.assert_allclose(ours.estimator_weights_, theirs.estimator_weights_[:n], rtol=1e-9)
    np.testing.assert_allclose(ours.estimator_errors_, theirs.estimator_errors_[:n], rtol=1e-9)
    # Theirs give a round's weight to its class and -1/(r_c - 1) of it to the others; of two classes, their difference.
    log_odds = ours.predict_log_proba(X) - ours.predict_log_proba(X)[:, [0]]
    decision = theirs.decision_function(X)
    if n_classes == 2:
        shares = (1 + np.column_stack([-decision, decision]) / 2) / 2
    else:
        shares = (1 + (n_classes - 1) * decision) / n_classes
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    np.testing.assert_allclose(log_odds, ours.scale_ * (shares - shares[:, [0]]), atol=1e-9)
    margin = np.sort(shares, axis=1)[:, -1] - np.sort(shares, axis=1)[:, -2]
    clear = margin > 1e-9
    assert clear.mean() > 0.5
    np.testing.assert_array_equal(ours.predict(X)[clear], theirs.predict(X)[clear])


def test_additive_scores_are_the_weighted_log_odds_of_the_same_rounds():
    X, y = codes()
    theirs = AdaBoostClassifier(Smoothed(alpha=1 / len(y), min_categories=4), n_estimators=8).fit(X, y)
    ours = BoostedNBClassifier(8, categorical_features="all", random_state=0).fit(X, y)
    a = theirs.estimator_weights_[: len(theirs.estimators_)]
    scores = sum(w * e.predict_joint_log_proba(X) for w, e in zip(a, theirs.estimators_)) / a.sum()
    np.testing.assert_allclose(ours.predict_log_proba(X), log_softmax(ours.scale_ * scores, axis=1), atol=1e-9)


def test_one_round_is_naive_bayes_but_for_its_scale():
    X, y = mixed()
    one, nb = BoostedNBClassifier(1, random_state=0).fit(X, y), NBClassifier(discretize="mdlp").fit(X, y)
    np.testing.assert_allclose(one.class_prior_, nb.class_prior_)
    known = X.notna().any(axis=1)
    wanted = log_softmax(one.scale_ * nb.predict_log_proba(X[known]), axis=1)
    np.testing.assert_allclose(one.predict_log_proba(X[known]), wanted, atol=1e-9)
    assert 0 < one.scale_ != 1


# ---------------------------------------------------------------- rows held out


@pytest.mark.parametrize("combination", ["additive", "votes"])
def test_the_rounds_chosen_predict_rows_held_out_best(combination):
    X, y = codes(n=800)
    clf = BoostedNBClassifier(combination=combination, categorical_features="all", random_state=0).fit(X, y)
    assert clf.log_score_ == clf.log_scores_.max()
    assert clf.n_rounds_ == 1 + np.argmax(clf.log_scores_) > 1
    capped = BoostedNBClassifier(combination=combination, max_rounds=2, categorical_features="all", random_state=0).fit(
        X, y
    )
    np.testing.assert_array_equal(capped.log_scores_, clf.log_scores_[:2])


def test_boosting_mends_what_naive_bayes_counts_twice():
    """A sixfold copy of one weak feature outvotes two others, until boosting finds that it is often wrong."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 2000)
    X = y[:, None] ^ (rng.random((2000, 3)) < [0.3, 0.25, 0.25])
    X = X[:, [0] * 6 + [1, 2]]
    train, test = slice(1000), slice(1000, None)
    boosted = BoostedNBClassifier(categorical_features="all", random_state=0).fit(X[train], y[train])
    nb = NBClassifier(categorical_features="all").fit(X[train], y[train])
    ours, plain = (clf.predict_log_proba(X[test])[np.arange(1000), y[test]].mean() for clf in (boosted, nb))
    assert ours > plain + 0.1
    assert boosted.score(X[test], y[test]) > nb.score(X[test], y[test]) + 0.05


def test_the_scale_is_where_the_penalised_log_score_is_largest():
    rng = np.random.default_rng(0)
    scores, labels, cases = rng.normal(size=(60, 3)), rng.integers(0, 3, 60), rng.choice([0.5, 1.0, 3.0], 60)
    scores[np.arange(60), labels] += 1.0
    scale, log_score = fit_scale(scores, labels, cases)

    def value(s):
        return cases @ log_softmax(s * scores, axis=1)[np.arange(60), labels] - (s - 1) ** 2 / 2

    assert value(scale) >= max(value(s) for s in np.linspace(0, 5, 2001)) - 1e-12
    assert log_score == pytest.approx((value(scale) + (scale - 1) ** 2 / 2) / cases.sum())


@pytest.mark.parametrize(("size", "bounds"), [(1e-9, (0.9, 1.1)), (1e9, (0, 1)), (-1e9, (0, 1e-6))])
def test_the_scale_of_extreme_scores(size, bounds):
    labels = np.arange(40) % 2
    scale, log_score = fit_scale(size * np.eye(2)[labels], labels, np.ones(40))
    assert bounds[0] <= scale <= min(bounds[1], MOST_SCALE)
    assert np.isfinite(log_score)


# ---------------------------------------------------------------- weights, order, threads, frames, files


@pytest.mark.parametrize("combination", ["additive", "votes"])
@pytest.mark.parametrize("make", [codes, mixed])
def test_weight_2_is_the_row_twice_in_any_order(make, combination):
    X, y = make()
    X = pd.DataFrame(X)
    rng = np.random.default_rng(2)
    weight = rng.integers(0, 4, len(y))
    twice = rng.permutation(np.repeat(np.arange(len(y)), weight))
    clf = BoostedNBClassifier(combination=combination, random_state=0)
    if make is codes:
        clf.set_params(categorical_features="all")
    one = clf.fit(X, y, weight).predict_log_proba(X)
    rounds, scale = clf.n_rounds_, clf.scale_
    other = clf.fit(X.iloc[twice], y[twice]).predict_log_proba(X)
    assert clf.n_rounds_ == rounds
    assert clf.scale_ == pytest.approx(scale, rel=1e-7)
    np.testing.assert_allclose(other, one, atol=1e-7)


def test_rows_without_a_label_are_left_out():
    X, y = mixed()
    labels = np.where(np.arange(len(y)) % 4 == 0, np.nan, y)
    X.loc[::4, "k"] = "only here"
    clf = BoostedNBClassifier(random_state=0).fit(X, labels)
    known = ~np.isnan(labels)
    alone = BoostedNBClassifier(random_state=0).fit(X[known], y[known])
    assert "only here" not in clf.schema_["k"].levels
    np.testing.assert_array_equal(clf.predict_proba(X[known]), alone.predict_proba(X[known]))
    assert not hasattr(clf, "sample")


@pytest.mark.parametrize("frame", [pl.from_pandas, pa.Table.from_pandas], ids=["polars", "pyarrow"])
def test_frames_of_all_libraries(frame):
    X, y = mixed()
    wanted = BoostedNBClassifier(random_state=0).fit(X, y)
    other = frame(X) if frame is pl.from_pandas else frame(X, preserve_index=False)
    clf = BoostedNBClassifier(random_state=0, n_jobs=2).fit(other, y)
    np.testing.assert_array_equal(clf.predict_proba(other), wanted.predict_proba(X))
    assert type(clf.score_table("x")) is type(other)


@pytest.mark.parametrize("combination", ["additive", "votes"])
def test_files_and_pickles_give_the_same_bits(tmp_path, combination):
    X, y = mixed()
    clf = BoostedNBClassifier(combination=combination, random_state=0).fit(X, y)
    fanbayes.save(clf, tmp_path / "m.fan")
    for copy in (fanbayes.load(tmp_path / "m.fan"), pickle.loads(pickle.dumps(clf))):
        np.testing.assert_array_equal(copy.predict_proba(X), clf.predict_proba(X))
        np.testing.assert_array_equal(copy.predict_log_proba(X), clf.predict_log_proba(X))
        assert copy.describe() == clf.describe()
        assert copy.get_params() == clf.get_params()


@pytest.mark.parametrize(
    "damage",
    [
        lambda v, a: v.update(n_rounds=10**9),
        lambda v, a: v.update(n_rounds=0),
        lambda v, a: v.update(scale=float("nan")),
        lambda v, a: v.update(scale=-1.0),
        lambda v, a: a.update(weights=a["weights"] * np.nan),
        lambda v, a: a.update(weights=-a["weights"]),
        lambda v, a: a.update(errors=a["errors"][:-1]),
        lambda v, a: a.update(log_scores=a["log_scores"] * np.inf),
        lambda v, a: a.pop("log_scores"),
        lambda v, a: a.pop("1/cells.categorical"),
        lambda v, a: a.update({"1/cells.categorical": a["1/cells.categorical"] + 1}),
        lambda v, a: a.update(more=np.zeros(1)),
        lambda v, a: v["structure"].update(factors=["class", "component"]),
    ],
)
def test_damaged_files_are_refused(damage):
    X, y = mixed()
    header, arrays = to_state(BoostedNBClassifier(3, random_state=0).fit(X, y))
    assert from_state(*unpack(pack(header, arrays))).n_rounds_ == 3
    damage(header, arrays)
    data = pack(plain(header), arrays)
    with pytest.raises(StateError):
        from_state(*unpack(data))


def test_a_file_may_have_classes_of_no_probability():
    X, y = mixed()
    header, arrays = to_state(BoostedNBClassifier(3, random_state=0).fit(X, y))
    arrays["0/log_factor.class"] = np.array([-1e5, np.log(0.5), np.log(0.5)])
    clf = from_state(*unpack(pack(header, arrays)))
    nothing = pd.DataFrame({name: [None] for name in X})
    assert np.isfinite(clf.predict_log_proba(nothing)).all()
    assert np.isfinite(clf.explain(nothing, classes=[0, 1]).log_odds).all()


# ---------------------------------------------------------------- looking inside


def test_contributions_are_entries_of_the_score_tables_and_add_up():
    X, y = mixed()
    X.loc[0, ["x", "z", "k"]] = [np.nan, np.nan, None]
    clf = BoostedNBClassifier(random_state=0).fit(X, y)
    found = clf.explain(X, classes=[2, 0])
    log_proba = clf.predict_log_proba(X)
    np.testing.assert_allclose(found.prior + found.contributions.sum(axis=1), found.log_odds, atol=1e-10)
    np.testing.assert_allclose(found.log_odds, log_proba[:, 2] - log_proba[:, 0], atol=1e-9)
    np.testing.assert_allclose(log_proba[0], np.log(clf.class_prior_), atol=1e-12)  # nothing is known of it
    table = clf.score_table("k").pivot(index="level", columns="class", values="score")
    np.testing.assert_allclose(table.sum(axis=1), 0, atol=1e-12)
    k = found.features.index("k")
    for row, value in enumerate(found.values[k][:30]):
        wanted = 0.0 if value is None or row == 0 else table.loc[value, 2] - table.loc[value, 0]
        assert found.contributions[row, k] == pytest.approx(wanted, abs=1e-12)
    np.testing.assert_array_equal(np.isnan(found.information), X.notna())


def test_votes_have_no_tables():
    X, y = mixed()
    clf = BoostedNBClassifier(combination="votes", random_state=0).fit(X, y)
    for ask in (lambda: clf.explain(X), lambda: clf.score_table("x")):
        with pytest.raises(ValueError, match="fit with combination='additive'"):
            ask()
    assert clf.describe()["scores"] == []


def test_description_has_the_strongest_scores_first():
    X, y = mixed()
    about = BoostedNBClassifier(random_state=0).fit(X, y).describe()
    sizes = [abs(s["score"]) for s in about["scores"]]
    assert sizes == sorted(sizes, reverse=True)
    assert len(about["rounds"]) == about["n_rounds"]


# ---------------------------------------------------------------- hard input


def assert_sound(clf, X):
    proba, log_proba = clf.predict_proba(X), clf.predict_log_proba(X)
    assert np.isfinite(log_proba).all()
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    np.testing.assert_allclose(np.exp(log_proba), proba, atol=1e-12)


both = pytest.mark.parametrize("combination", ["additive", "votes"])


@both
def test_a_perfect_round_ends_it(combination):
    y = np.arange(60) % 3
    clf = BoostedNBClassifier(50, combination=combination, categorical_features="all").fit(y[:, None], y)
    assert clf.n_rounds_ == 1
    assert clf.estimator_weights_ == [1.0]
    assert clf.score(y[:, None], y) == 1
    assert_sound(clf, y[:, None])


@both
def test_a_first_round_no_better_than_chance_is_naive_bayes(combination):
    """Exclusive or, all four cases equally often: naive Bayes knows nothing, and ties are broken alike."""
    X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]] * 10)
    y = X[:, 0] ^ X[:, 1]
    clf = BoostedNBClassifier(20, combination=combination, categorical_features="all").fit(X, y)
    assert clf.n_rounds_ == 1
    assert clf.estimator_errors_ == [0.5]
    assert_sound(clf, X)


@both
@pytest.mark.filterwarnings(FEW, "ignore::fanbayes.DataWarning")
@pytest.mark.parametrize("n_rounds", ["auto", 5])
@pytest.mark.parametrize("n", [1, 2, 3, 9, 11])
def test_few_rows(n, n_rounds, combination):
    X, y = np.random.default_rng(0).normal(size=(n, 2)), np.arange(n) % 3
    clf = BoostedNBClassifier(n_rounds, combination=combination).fit(X, y)
    assert_sound(clf, X)


def test_too_few_rows_to_hold_out_are_said_to_be():
    X, y = np.random.default_rng(0).normal(size=(8, 2)), np.arange(8) % 2
    with pytest.warns(UserWarning, match="8 labelled cases are too few .* the only round is naive Bayes; label more"):
        clf = BoostedNBClassifier().fit(X, y)
    assert (clf.n_rounds_, clf.scale_, len(clf.log_scores_)) == (1, 1.0, 0)
    assert np.isnan(clf.log_score_)


@pytest.mark.filterwarnings("ignore::fanbayes.DataWarning")
@both
def test_one_class_and_a_class_of_one_row(combination):
    X, y = mixed()
    clf = BoostedNBClassifier(combination=combination).fit(X, np.zeros(len(y)))
    np.testing.assert_array_equal(clf.predict_proba(X), np.ones((len(y), 1)))
    y = np.where(np.arange(len(y)) == 7, 3, y)
    clf = BoostedNBClassifier(combination=combination, random_state=0).fit(X, y)
    assert clf.predict_proba(X).shape == (len(y), 4)
    assert_sound(clf, X)


@pytest.mark.filterwarnings("ignore::fanbayes.DataWarning")
def test_constant_empty_and_extreme_columns():
    X, y = mixed()
    X = X.assign(
        same=7.5, nothing=np.nan, huge=1e300 * (y + np.random.default_rng(0).normal(size=len(y))), tiny=1e-300 * y
    )
    clf = BoostedNBClassifier(random_state=0).fit(X, y)
    assert_sound(clf, X)
    np.testing.assert_array_equal(clf.score_table("same")["score"], 0)
    np.testing.assert_array_equal(clf.score_table("nothing")["score"], 0)
    nothing = pd.DataFrame({name: [None] * 3 for name in X})
    np.testing.assert_allclose(clf.predict_proba(nothing), [clf.class_prior_] * 3)


@pytest.mark.filterwarnings("ignore::fanbayes.DataWarning")
def test_nothing_but_constant_columns():
    clf = BoostedNBClassifier(random_state=0).fit(np.ones((20, 2)), np.arange(20) % 4 // 3)
    np.testing.assert_allclose(clf.predict_proba(np.ones((2, 2))), [clf.class_prior_] * 2, rtol=1e-12)


def test_two_thousand_columns():
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    X = np.column_stack([rng.normal(size=(40, 1000)) + 0.2 * y[:, None], rng.integers(0, 30, (40, 1000))])
    clf = BoostedNBClassifier(categorical_features=np.arange(2000) >= 1000, random_state=0).fit(X, y)
    assert_sound(clf, X)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"n_rounds": 0}, ValueError, "n_rounds=0 must be at least 1"),
        ({"n_rounds": "many"}, ValueError, "n_rounds='many' is neither 'auto' nor an integer"),
        ({"n_rounds": 2.5}, TypeError, "n_rounds=2.5 must be an integer"),
        ({"combination": "sum"}, ValueError, "combination='sum' is not one of 'additive', 'votes'"),
        ({"max_rounds": 0}, ValueError, "max_rounds=0 must be at least 1"),
        ({"alpha": 0}, ValueError, "alpha=0 must be greater than 0"),
    ],
)
def test_settings_that_are_refused(settings, error, message):
    X, y = mixed()
    with pytest.raises(error, match=message):
        BoostedNBClassifier(**settings).fit(X, y)


# ---------------------------------------------------------------- the program


def test_commands(tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from fanbayes.cli import app

    X, y = mixed()
    X.assign(y=y).to_csv(tmp_path / "rows.csv", index=False)
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code == 0, done.output
        return done.stdout

    learn = ("rows.csv", "--target", "y", "--model", "boosted-nb", "--jobs", "1")
    assert "Rounds: " in run("fit", *learn, "--out", "m.fan")
    shown = run("show", "m.fan", "--top", "3")
    assert "Scores that values add to a class" in shown
    assert "more (--top" in shown
    assert "sum " in run("explain", "m.fan", "rows.csv", "--row", "1")


def test_evaluation_knows_it():
    from fanbayes.commands.models import classifier
    from fanbayes.commands.options import Model
    from fanbayes.evaluation.comparison import cross_validate
    from fanbayes.files.dataset import from_columns

    X, y = mixed()
    columns = {"x": X["x"].to_numpy(), "k": np.array(X["k"].tolist(), object)}
    dataset = from_columns("mixed", columns, np.array([f"c{label}" for label in y], object), "made up")
    model = classifier(Model.BOOSTED_NB, random_state=0, criterion="icl")
    found = cross_validate({"Boosted NB": model}, dataset, 2, 0, lambda *_: None)["Boosted NB"]
    assert found.estimates()["accuracy"].value > 0.6
    assert found.components == []
