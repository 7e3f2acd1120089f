"""Classifiers of scikit-learn as members of an average: what they are given, and what follows from their answers."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import polars.testing
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from fanbayes import FANClassifierCV, load, save
from fanbayes.data.rebuilt import rebuilt
from fanbayes.estimators import fan_cv
from fanbayes.files.model_file import ModelFileError
from fanbayes.learning.ensembles.candidates import Family

pytestmark = pytest.mark.filterwarnings("ignore::fanbayes.DataWarning")

FAST = {"effort": "fast", "cv": 4, "random_state": 0, "kernel_members": False}


@pytest.fixture(autouse=True)
def naive(monkeypatch):
    """Naive Bayes beside what is tested."""
    monkeypatch.setattr(fan_cv, "library", lambda *given: [Family("none", "none", (), (1,), 1)])


class Told(ClassifierMixin, BaseEstimator):
    """Looks at whether two numbers have the same sign, as none of the others can, and keeps what it was given."""

    def __init__(self, random_state=None):
        self.random_state = random_state

    def _same(self, X):
        values = np.asarray(X)[:, :2].astype(float)
        return (values[:, 0] * values[:, 1] > 0).astype(int)

    def fit(self, X, y, sample_weight=None):
        self.X_, self.y_, self.sample_weight_ = X, np.asarray(y), sample_weight
        self.classes_ = np.unique(y)
        share = np.array([[np.mean(self.y_[self._same(X) == k] == c) for c in self.classes_] for k in (0, 1)])
        self.share_ = np.nan_to_num(share, nan=1 / len(self.classes_)) + 0.01
        return self

    def predict_proba(self, X):
        self.seen_ = X
        p = self.share_[self._same(X)]
        return p / p.sum(axis=1, keepdims=True)


def signs(n=120, seed=0):
    """The class is whether two numbers have the same sign, seldom missing, beside categories that tell nothing."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"a": rng.normal(size=n), "b": rng.normal(size=n)})
    y = np.where(X["a"] * X["b"] > 0, "same", "other").astype(object)
    X["colour"] = rng.choice(["red", "green"], n)
    X["grade"] = pd.Categorical(rng.choice(list("pq"), n), categories=list("rqp"))
    X["count"] = rng.integers(0, 500, n)
    X.loc[5, "a"], X.loc[9, "grade"], X.loc[::6, "colour"] = np.nan, None, None
    return X, y


def own(clf, name="told"):
    """Fits of the extra member."""
    at = list(clf.members_["model"]).index(name)
    return clf.average_.members[at].fits


# ---------------------------------------------------------------- what they are given


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_frames_are_rebuilt_as_they_came(library):
    X, y = signs()
    X["few"] = np.where(np.arange(120) % 2, 2.5, -1.0)
    X["yes"] = X["a"].to_numpy() > 0
    given = {"pandas": lambda: X, "polars": lambda: pl.from_pandas(X), "pyarrow": lambda: pl.from_pandas(X).to_arrow()}
    given = given[library]()
    rows = FANClassifierCV()._cases(given, y, None).training_table()
    for table in (rows.table, rows.table.fused()):
        found = rebuilt(table, rows.schema)
        assert type(found) is type(given)
        if library == "pandas":
            pd.testing.assert_frame_equal(found, given, check_exact=False, rtol=1e-12)
        elif library == "polars":
            assert dict(found.schema) == dict(given.schema)
            assert found.null_count().row(0) == given.null_count().row(0)
            pl.testing.assert_frame_equal(found, given, rel_tol=1e-12)
        else:
            assert found.column_names == given.column_names
            for name in ("colour", "count", "yes"):
                assert found[name].to_pylist() == given[name].to_pylist()
    some = rebuilt(rows.table.only(np.arange(3)), rows.schema)
    if library == "pandas":
        assert list(some["grade"].cat.categories) == list("rqp")  # the same in every table


def test_arrays_are_rebuilt_as_they_came():
    X = np.array([[1.5, 3], [np.nan, 4], [2.0, 3], [1.0, 5]])
    rows = FANClassifierCV(categorical_features=[1])._cases(X, [0, 1, 0, 1], None).training_table()
    found = rebuilt(rows.table, rows.schema)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, X, rtol=1e-14)
    X = np.array([["a", 1.5, True], ["b", np.nan, False], [None, 2.0, True], ["a", 0.0, None]], dtype=object)
    rows = FANClassifierCV()._cases(X, [0, 1, 0, 1], None).training_table()
    found = rebuilt(rows.table, rows.schema)
    assert found[0].tolist() == ["a", 1.5, True]
    assert pd.isna(found).tolist() == pd.isna(X).tolist()


def test_columns_that_tell_nothing_are_constant():
    X = pd.DataFrame({"x": [1.0, 2.0, 3.0], "one": [7, 7, 7], "none": [np.nan] * 3, "k": ["u", None, "u"]})
    rows = FANClassifierCV()._cases(X, [0, 1, 0], None).training_table()
    found = rebuilt(rows.table, rows.schema)
    pd.testing.assert_frame_equal(found, X.assign(k="u"))


# ---------------------------------------------------------------- members


@pytest.mark.parametrize("as_frame", [lambda X: X, pl.from_pandas], ids=["pandas", "polars"])
def test_a_classifier_is_a_member_like_others(as_frame):
    X, y = signs()
    clf = FANClassifierCV(**FAST, extra_members=[("told", Told())]).fit(as_frame(X), y)
    assert clf.members_["model"][0] == "told"
    assert clf.members_["weight"][0] > 0.5
    assert (clf.members_["n_components"][0], clf.members_["n_fits"][0]) == (0, 4)
    new, truth = signs(300, seed=1)
    assert clf.score(as_frame(new), truth) > 0.95
    assert FANClassifierCV(**FAST).fit(X, y).log_score_ < clf.log_score_ - 0.05
    for fit in own(clf):
        assert type(fit.estimator.X_) is type(as_frame(X))
        assert list(fit.estimator.X_.columns) == list(X.columns)
        assert set(fit.estimator.y_) == {"same", "other"}
        assert fit.estimator.sample_weight_ is None
    assert sum(len(fit.estimator.X_) for fit in own(clf)) == 3 * len(X)
    assert clf.n_components_ == 1
    rows = clf._encode(as_frame(new[5:6]), clf.average_.schemas)  # a number is missing, and filled in
    p = clf.predict_proba(as_frame(new[5:6]))
    assert 0.3 < p[0, 0] < 0.7
    assert len(own(clf)[0].estimator.seen_) == 16
    assert rows.tables[0].n_rows == 1


def test_predictions_are_pooled():
    X, y = signs()
    X = X[["a", "b"]].fillna(0.5)
    clf = FANClassifierCV(**FAST, extra_members=[("told", Told())]).fit(X, y)
    rows = clf._encode(X, clf.average_.schemas)
    p = []
    for member, name in zip(clf.average_.members, clf.members_["model"]):
        if name == "told":
            p.append(np.mean([fit.estimator.predict_proba(X) for fit in member.fits], axis=0))
        else:
            p.append(np.mean([fit.proba(rows[fit.view.schema], None) for fit in member.fits], axis=0))
    wanted = clf.pool_.mix(np.stack([*p, np.tile(clf.class_prior_, (len(X), 1))]))
    np.testing.assert_allclose(clf.predict_proba(X), wanted, atol=1e-12)


def test_they_are_fitted_again_where_folds_leave_out_too_much():
    X, y = signs()
    clf = FANClassifierCV(**{**FAST, "cv": 2}, extra_members=[("told", Told())]).fit(X, y)
    [fit] = own(clf)
    assert len(fit.estimator.X_) == len(X)


def test_weights_and_labels():
    X, y = signs()
    y[::10] = None
    weight = np.arange(120) % 3 + 1.0
    clf = FANClassifierCV(**{**FAST, "cv": 2}, extra_members=[("told", Told())]).fit(X, y, sample_weight=weight)
    [fit] = own(clf)
    labelled = np.arange(120) % 10 > 0
    np.testing.assert_array_equal(fit.estimator.y_, y[labelled])
    np.testing.assert_array_equal(fit.estimator.sample_weight_, weight[labelled])
    inside = make_pipeline(SimpleImputer(), LogisticRegression())
    numbers = X[["a", "b", "count"]]
    y = signs()[1]
    FANClassifierCV(**FAST, extra_members=[("lr", inside)]).fit(numbers, y, sample_weight=weight)
    FANClassifierCV(**FAST, extra_members=[("near", KNeighborsClassifier())]).fit(numbers.fillna(0.0), y)
    for blind in (KNeighborsClassifier(), make_pipeline(SimpleImputer(), KNeighborsClassifier())):
        clf = FANClassifierCV(**FAST, extra_members=[("near", blind)])
        with pytest.raises(ValueError, match=r"extra member 'near' \(.*\) takes no sample_weight; leave it out"):
            clf.fit(numbers, y, sample_weight=weight)


def test_any_pipeline_that_takes_the_table():
    X, y = signs(60)
    sides = make_column_transformer(
        (
            make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore")),
            ["colour", "grade"],
        ),
        (SimpleImputer(), ["a", "b", "count"]),
    )
    extra = [("tree", Pipeline([("sides", sides), ("tree", DecisionTreeClassifier())]))]
    extra.append(("hgb", HistGradientBoostingClassifier(max_iter=3)))
    clf = FANClassifierCV(**FAST, extra_members=extra).fit(X.astype({"colour": "category"}), y)
    assert np.isfinite(clf.predict_log_proba(X)).all()


def test_classes_that_a_fold_lacks():
    """Of one class there is a single row; and a split learns from a single class."""
    X = np.array([[1.0, 2.0], [1.0, -1.0], [-1.0, -2.0], [-3.0, 1.0], [2.0, 2.5], [2.0, -2.0]])
    y = np.array([0, 1, 0, 1, 0, 2])
    splits = [([0, 1, 2, 3], [4, 5]), ([0, 2, 4], [1, 3, 5]), ([1, 3, 4, 5], [0, 2])]
    clf = FANClassifierCV(**{**FAST, "cv": splits}, extra_members=[("told", Told())]).fit(X, y)
    p = clf.predict_proba(X)
    assert p.shape == (6, 3)
    assert (p > 0).all()
    X, y = signs(60)
    X, y = X[["a", "b"]].fillna(1.0).to_numpy(), (y == "same").astype(int)
    y[0] = 2
    clf = FANClassifierCV(**FAST, extra_members=[("told", Told())]).fit(X, y)
    known = [fit.known.tolist() for fit in own(clf)]
    assert sorted(known) == [[0, 1], [0, 1, 2], [0, 1, 2], [0, 1, 2]]
    rows = clf._encode(X, clf.average_.schemas)
    for fit in own(clf):
        p = fit.proba(rows[fit.view.schema], None)
        np.testing.assert_allclose(p.sum(axis=1), 1)
        assert (p[:, 2] > 0).any() == (2 in fit.known)


def test_the_same_bits_for_any_number_of_threads():
    X, y = signs(60)
    extra = [("tree", DecisionTreeClassifier(max_features=1)), ("told", Told())]
    X = X[["a", "b", "count"]]
    made = [FANClassifierCV(**FAST, n_jobs=n, extra_members=extra).fit(X, y) for n in (1, 2)]
    np.testing.assert_array_equal(*(clf.predict_proba(X) for clf in made))
    assert extra[0][1].random_state is None  # what is fitted are clones
    assert not hasattr(extra[1][1], "classes_")
    assert all(fit.estimator.random_state is not None for fit in own(made[0]))


# ---------------------------------------------------------------- what is not possible


def test_files_and_explanations(tmp_path):
    X, y = signs()
    clf = FANClassifierCV(**FAST, extra_members=[("told", Told())]).fit(X, y)
    wanted = r"cannot be kept in a file: only pickle keeps the extra member 'told' \(Told\); use it or joblib, or fit"
    with pytest.raises(ModelFileError, match=wanted):
        save(clf, tmp_path / "m.fan")
    assert not (tmp_path / "m.fan").exists()
    with pytest.raises(ValueError, match=r"what the extra member 'told' \(Told\) makes of the features is not known"):
        clf.explain(X)
    again = pickle.loads(pickle.dumps(clf))
    np.testing.assert_array_equal(again.predict_proba(X), clf.predict_proba(X))
    assert clone(clf).get_params().keys() == clf.get_params().keys()


class Random(Told):
    def predict_proba(self, X):
        p = np.random.default_rng(0).dirichlet([0.1, 0.1], len(X))
        return p / p.sum(axis=1, keepdims=True)


def test_an_average_without_them_can_be_kept(tmp_path):
    rng = np.random.default_rng(0)
    y = np.arange(100) % 2
    X = y[:, None] + 0.3 * rng.normal(size=(100, 2))
    clf = FANClassifierCV(**FAST, extra_members=[("random", Random())]).fit(X, y)
    assert "random" not in clf.members_["model"]
    save(clf, tmp_path / "m.fan")
    again = load(tmp_path / "m.fan")
    assert again.extra_members is None
    np.testing.assert_array_equal(again.predict_proba(X), clf.predict_proba(X))


class Wrong(Told):
    def predict_proba(self, X):
        return super().predict_proba(X) * np.nan


class Doubled(Told):
    def predict_proba(self, X):
        return super().predict_proba(X) * 2


@pytest.mark.parametrize(
    ("extra", "error", "message"),
    [
        (Told(), ValueError, "extra_members must be a list of pairs"),
        ([Told()], ValueError, "extra_members must be a list of pairs"),
        ([("", Told())], ValueError, "extra_members has the name ''"),
        ([("NB", Told())], ValueError, "extra_members has the name 'NB'; give each a text of its own, none of NB, FAN"),
        ([("a", Told()), ("a", Told())], ValueError, "extra_members has the name 'a'"),
        ([("a", Told)], TypeError, "the extra member 'a' is no classifier of scikit-learn"),
        ([("a", 3)], TypeError, "the extra member 'a' is no classifier of scikit-learn: 3"),
        ([("svc", LinearSVC())], TypeError, r"'svc' \(LinearSVC\) has no predict_proba; wrap it in"),
        ([("lr", LogisticRegression())], ValueError, r"extra member 'lr' \(LogisticRegression\) could not be fitted: "),
        ([("w", Wrong())], ValueError, r"predict_proba of the extra member 'w' \(Wrong\) gives something else than 2"),
        ([("d", Doubled())], ValueError, r"'d' \(Doubled\) gives a row probabilities that sum to 2, not to 1; wrap it"),
    ],
)
def test_what_is_refused(extra, error, message):
    X, y = signs(40)
    with pytest.raises(error, match=message):
        FANClassifierCV(**FAST, extra_members=extra).fit(X, y)
