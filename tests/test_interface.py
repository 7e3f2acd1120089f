"""The classifiers as scikit-learn estimators, and the tables they hand back."""

import pickle
import warnings

import builders
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fanbayes import DataWarning, FANClassifier, FMClassifier, NBClassifier

FEW = {"n_init": 2, "random_state": 0}
MODELS = {
    "nb": NBClassifier(),
    "fan": FANClassifier(n_components=2, **FEW),
    "fan per class": FANClassifier(n_components=2, mixing="per_class", **FEW),
    "fm": FMClassifier(n_components=3, **FEW),
}


@pytest.fixture(params=MODELS)
def model(request):
    return clone(MODELS[request.param])


def numbers(n=120, seed=0, d=3):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    return y[:, None] * 1.5 + rng.normal(size=(n, d)), y


def columns(n=90, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    return {
        "colour": np.array(["red", "green", "blue"])[(y + rng.integers(0, 2, n)) % 3].tolist(),
        "flag": (rng.random(n) < 0.2 + 0.6 * y).tolist(),
        "count": (rng.poisson(3, n) + 2 * y).tolist(),
        "x": (y + rng.normal(size=n)).tolist(),
    }, y


FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}


@pytest.fixture(params=FRAMES)
def frame(request):
    return FRAMES[request.param]


def as_dict(table):
    if isinstance(table, dict):
        return table
    return table.to_pydict() if isinstance(table, pa.Table) else {c: list(table[c]) for c in table.columns}


# ---------------------------------------------------------------- the same bits


def assert_same_bits(a, b, X):
    for p, q in zip(builders.arrays(a.network_), builders.arrays(b.network_)):
        np.testing.assert_array_equal(p, q)
    np.testing.assert_array_equal(a.predict_proba(X), b.predict_proba(X))
    np.testing.assert_array_equal(a.trace_, b.trace_)
    assert a.selection_["icl"] == b.selection_["icl"]
    assert a.starts_["objective"] == b.starts_["objective"]


def test_threads_do_not_change_a_bit(model):
    """Enough rows for several blocks, so that threads have something to mix up."""
    X, y = numbers(20_000, d=6)
    X[::7, 0] = np.nan
    model.set_params(max_iter=30, tol=1e-3)
    one = clone(model).set_params(n_jobs=1).fit(X, y)
    for n_jobs in (None, 2, 5, -1):
        assert_same_bits(one, clone(model).set_params(n_jobs=n_jobs).fit(X, y), X)


def test_same_seed_same_bits(model):
    X, y = numbers()
    first = clone(model).fit(X, y)
    assert_same_bits(first, clone(first).fit(X, y), X)
    assert_same_bits(first, model.fit(X, y), X)
    assert_same_bits(first, model.fit(X, y), X)  # once more, over the first fit
    if "random_state" in model.get_params():
        same = clone(model).set_params(random_state=np.random.RandomState(0)).fit(X, y)
        assert_same_bits(first, same, X)
        other = clone(model).set_params(random_state=7).fit(X, y)
        assert first.starts_["objective"] != other.starts_["objective"]


def test_estimators_pickle(model, frame):
    data, y = columns()
    X = frame(data)
    clf = model.fit(X, y)
    again = pickle.loads(pickle.dumps(clf))
    np.testing.assert_array_equal(again.predict_proba(X), clf.predict_proba(X))
    np.testing.assert_array_equal(again.predict_components(X), clf.predict_components(X))
    assert repr(again.schema_.to_json()) == repr(clf.schema_.to_json())
    a, b = again.sample(5, random_state=0)[0], clf.sample(5, random_state=0)[0]
    assert as_dict(a) == as_dict(b)


# ---------------------------------------------------------------- within scikit-learn


def test_pipeline_and_set_output(model):
    X, y = numbers()
    X = pd.DataFrame(X, columns=["a", "b", "c"])
    pipe = make_pipeline(StandardScaler(), model).set_output(transform="pandas")
    pipe.fit(X, y)
    assert list(pipe[-1].feature_names_in_) == ["a", "b", "c"]
    assert pipe[-1].schema_.frame == "pandas"
    assert pipe.score(X, y) > 0.7
    np.testing.assert_allclose(pipe.predict_proba(X), clone(model).fit(X, y).predict_proba(X), atol=1e-5)


def test_polars_in_a_pipeline(model):
    X, y = numbers()
    X = pl.DataFrame(X, schema=["a", "b", "c"])
    scale = make_column_transformer((StandardScaler(), ["a", "b"]), remainder="passthrough")
    pipe = make_pipeline(scale, model).set_output(transform="polars").fit(X, y)
    assert pipe[-1].schema_.frame == "polars"
    assert isinstance(pipe[-1].selection_, pl.DataFrame)


def test_grid_search():
    X, y = numbers()
    search = GridSearchCV(FANClassifier(random_state=0, n_init=2), {"n_components": [1, 2], "mixing": ["shared"]}, cv=3)
    search.fit(X, y)
    assert search.best_params_["n_components"] in (1, 2)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_cross_validation_passes_weights_on(model):
    X, y = numbers()
    weight = np.where(y == 0, 0.0, 1.0)  # without class 0
    plain = cross_val_score(model, X, y, cv=3, error_score="raise")
    assert plain.mean() > 0.7
    probabilities = cross_val_predict(
        model.set_params(alpha=1.0), X, y, cv=3, method="predict_proba", params={"sample_weight": np.ones(120)}
    )
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    weighted = cross_val_score(model, X, y, cv=3, error_score="raise", params={"sample_weight": weight})
    assert weighted.mean() <= 2 / 3  # a model that never saw class 0 never predicts it


def test_calibration(model):
    X, y = numbers()
    calibrated = CalibratedClassifierCV(model, cv=3).fit(X, y, sample_weight=np.ones(120))
    assert calibrated.score(X, y) > 0.7
    np.testing.assert_allclose(calibrated.predict_proba(X).sum(axis=1), 1)


def test_clones_and_parameters(model):
    X, y = numbers()
    before = model.get_params()
    model.fit(X, y)
    assert model.get_params() == before  # fit overwrites none of them
    assert not hasattr(clone(model), "classes_")


@pytest.mark.parametrize(
    "method",
    ["predict", "predict_proba", "predict_log_proba", "predict_joint_log_proba", "score_samples", "predict_components"],
)
def test_not_fitted(model, method):
    with pytest.raises(NotFittedError):
        getattr(model, method)(numbers()[0])
    with pytest.raises(NotFittedError):
        model.sample()
    with pytest.raises(NotFittedError):
        model.feature_table(0)
    with pytest.raises(NotFittedError):
        _ = model.class_prior_


def test_verbose_shows_progress_and_changes_nothing(capsys):
    X, y = numbers()
    loud = FANClassifier(max_components=2, patience=9, verbose=True, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        loud.fit(X, y)
        quiet = clone(loud).set_params(verbose=False).fit(X, y)
    assert "components" in capsys.readouterr().out
    assert_same_bits(loud, quiet, X)


# ---------------------------------------------------------------- warnings


@pytest.mark.parametrize("max_iter", [1, 2])
@pytest.mark.parametrize("name", ["fan", "fan per class", "fm"])
def test_a_fit_that_did_not_converge_warns(name, max_iter):
    X, y = numbers()
    clf = clone(MODELS[name]).set_params(max_iter=max_iter)
    with pytest.warns(ConvergenceWarning, match=rf"did not converge in {max_iter} passes; increase max_iter or tol"):
        clf.fit(X, y)
    assert not clf.converged_
    assert clf.n_iter_ == len(clf.trace_) == max_iter
    assert np.isfinite(clf.predict_proba(X)).all()


def test_unlabelled_rows_may_need_more_passes_of_naive_bayes():
    X, y = numbers()
    y = np.where(np.arange(120) < 60, np.nan, y)
    with pytest.warns(ConvergenceWarning, match="did not converge in 2 passes"):
        NBClassifier(max_iter=2, tol=0).fit(X, y)


def test_columns_that_tell_nothing_are_named(model):
    X, y = numbers()
    X = pd.DataFrame(X, columns=["a", "b", "c"]).assign(same=4.0, empty=np.nan, word="w", nothing=None)
    with pytest.warns(UserWarning, match="left out: 'same', 'empty', 'word', 'nothing'"):
        clf = clone(model).fit(X, y)
    plain = model.fit(X[["a", "b", "c"]], y)
    np.testing.assert_array_equal(clf.predict_proba(X), plain.predict_proba(X[["a", "b", "c"]]))
    assert list(clf.selection_["n_parameters"]) == list(plain.selection_["n_parameters"])


# ---------------------------------------------------------------- tables


def test_tables_come_back_in_the_library_of_x(model, frame):
    data, y = columns()
    clf = model.fit(frame(data), y)
    kind = type(frame(data))
    for table in (clf.selection_, clf.starts_, *(clf.feature_table(name) for name in data)):
        assert isinstance(table, kind)
    X, labels = clf.sample(7, random_state=0)
    assert isinstance(X, kind)
    assert list(as_dict(X)) == list(data)
    assert labels.shape == (7,)


def test_tables_of_an_array_are_dicts(model):
    X, y = numbers()
    clf = model.fit(X, y)
    for table in (clf.selection_, clf.starts_, clf.feature_table(0), clf.feature_table("x2")):
        assert isinstance(table, dict)
        assert len({len(values) for values in table.values()}) == 1
    assert isinstance(clf.sample(3)[0], np.ndarray)


def test_the_library_makes_no_difference(model):
    data, y = columns()
    found = [clone(model).fit(make(data), y).predict_proba(make(data)) for make in FRAMES.values()]
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], rtol=1e-9)


def test_feature_tables_are_distributions(model, frame):
    data, y = columns()
    clf = model.fit(frame(data), y)
    n_cells = clf.network_.structure.n_cells
    t = as_dict(clf.feature_table("colour"))
    assert len(t["probability"]) == 3 * n_cells
    assert t["level"][:3] == ["blue", "green", "red"]
    np.testing.assert_allclose(np.reshape(t["probability"], (n_cells, 3)).sum(axis=1), 1)
    t = as_dict(clf.feature_table("x"))
    assert len(t["mean"]) == len(t["variance"]) == n_cells
    assert min(t["variance"]) > 0
    assert ("class" in t) == (not isinstance(clf, FMClassifier))
    assert ("component" in t) == (not isinstance(clf, NBClassifier))
    assert as_dict(clf.feature_table(3)) == t
    with pytest.raises(KeyError, match="no column 'weight'; the columns are 'colour', 'flag', 'count', 'x'"):
        clf.feature_table("weight")


def test_feature_tables_of_naive_bayes_are_laplaces_rule():
    X = np.array([["a"], ["a"], ["b"], ["c"]], dtype=object)
    t = NBClassifier().fit(X, [0, 0, 0, 1]).feature_table(0)
    assert t["class"] == [0, 0, 0, 1, 1, 1]
    assert t["level"] == ["a", "b", "c"] * 2
    np.testing.assert_allclose(t["probability"], [3 / 6, 2 / 6, 1 / 6, 1 / 4, 1 / 4, 2 / 4])


DECLARED = ["low", "mid", "high"]


@pytest.mark.parametrize(
    "X",
    [
        pd.DataFrame({"a": pd.Categorical(["low", "high"] * 10, DECLARED)}),
        pl.DataFrame({"a": ["low", "high"] * 10}, schema={"a": pl.Enum(DECLARED)}),
    ],
    ids=["pandas", "polars"],
)
def test_declared_levels_have_a_probability(X):
    t = as_dict(NBClassifier().fit(X, [0, 1] * 10).feature_table("a"))
    assert t["level"][:3] == DECLARED
    np.testing.assert_allclose(t["probability"][:3], [11 / 13, 1 / 13, 1 / 13])


def test_intervals_have_names():
    X = np.arange(40.0)[:, None]
    clf = NBClassifier(discretize="mdlp").fit(X, X[:, 0] > 19)
    assert clf.feature_table(0)["level"][:2] == ["(-inf, 19.5]", "(19.5, inf)"]


def test_priors(model):
    data, y = columns()
    clf = model.fit(pd.DataFrame(data), y)
    if not isinstance(clf, FMClassifier):
        np.testing.assert_allclose(clf.class_prior_, (1 + np.bincount(y)) / (2 + 90))
    wanted = (2, 2) if getattr(clf, "mixing", "") == "per_class" else (clf.n_components_,)
    assert clf.component_prior_.shape == wanted
    np.testing.assert_allclose(clf.component_prior_.sum(axis=-1), 1)


# ---------------------------------------------------------------- samples


def test_samples_follow_the_model(model):
    data, y = columns(200)
    clf = model.fit(pd.DataFrame(data), y)
    X, labels = clf.sample(20_000, random_state=0)
    np.testing.assert_allclose((labels == 1).mean(), clf.class_prior_[1], atol=0.015)
    cells = clf.network_.structure
    weight = np.bincount(cells.cell_of, np.exp(clf.network_.log_weight[0]))
    t = clf.feature_table("colour")
    expected = weight @ np.reshape(list(t["probability"]), (cells.n_cells, 3))
    np.testing.assert_allclose(X["colour"].value_counts(normalize=True)[["blue", "green", "red"]], expected, atol=0.015)
    t = clf.feature_table("x")
    mean = weight @ t["mean"].to_numpy()
    second = weight @ (t["variance"] + t["mean"] ** 2).to_numpy()
    assert X["x"].mean() == pytest.approx(mean, abs=0.04)
    assert X["x"].std() == pytest.approx(np.sqrt(second - mean**2), rel=0.03)
    # Features and labels are drawn together: the labels are predicted as well as the model thinks it can.
    confidence = clf.predict_proba(X).max(axis=1).mean()
    assert clf.score(X, labels) == pytest.approx(confidence, abs=0.015)


def test_samples_look_like_the_rows(frame):
    data, y = columns()
    X = frame(data)
    sample, labels = NBClassifier().fit(X, y).sample(50, random_state=1)
    if frame is pd.DataFrame:
        assert (sample.dtypes == X.dtypes).all()
    else:
        assert sample.schema == X.schema
    assert set(labels) <= {0, 1}
    again, _ = NBClassifier().fit(X, y).sample(50, random_state=1)
    assert as_dict(again) == as_dict(sample)


def test_samples_keep_categories_and_gaps():
    X = pl.DataFrame(
        {"a": ["p", "q"] * 10, "b": [None] * 20, "c": [1.0] * 20, "d": ["u", "v"] * 10},
        schema={"a": pl.Enum(["p", "q", "r"]), "b": pl.Float64, "c": pl.Float64, "d": pl.Categorical},
    )
    with pytest.warns(UserWarning, match="left out: 'b', 'c'"):
        clf = NBClassifier().fit(X, [0, 1] * 10)
    sample, _ = clf.sample(30, random_state=0)
    assert sample.schema == X.schema
    assert (sample["c"] == 1).all()
    assert (sample["b"].is_null() | sample["b"].is_nan()).all()


def test_samples_of_binned_columns_lie_within_the_data():
    X, y = numbers()
    sample, _ = NBClassifier(discretize="mdlp").fit(X, y).sample(500, random_state=0)
    assert (sample.min(axis=0) >= X.min(axis=0)).all()
    assert (sample.max(axis=0) <= X.max(axis=0)).all()
    assert sample.shape == (500, 3)


# ---------------------------------------------------------------- unknown categories


def test_unknown_categories(model, frame):
    data, y = columns()
    clf = model.fit(frame(data), y)
    some = {name: values[:3] for name, values in data.items()}
    unknown = frame({**some, "colour": ["pink", "red", "green"]})
    missing = frame({**some, "colour": [None, "red", "green"]})
    with pytest.warns(DataWarning, match=r"'colour' in 1 of 3 rows \(33.3 %\), such as 'pink'"):
        np.testing.assert_array_equal(clf.predict_proba(unknown), clf.predict_proba(missing))
    clf.set_params(handle_unknown="error")
    with pytest.raises(ValueError, match="column 'colour' has a category in row 0 that was not seen in training"):
        clf.predict(unknown)
    clf.predict(missing)


@pytest.mark.parametrize("container", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "pyarrow"])
def test_weights_of_a_table_without_numbers(model, container):
    """A row of weight 2 is the row twice, also where no column is a number."""
    data, y = columns()
    X = {"colour": data["colour"], "answer": np.where(data["flag"], "yes", "no").tolist()}
    weight = 1 + np.arange(len(y)) % 3
    repeated = {name: np.repeat(values, weight).tolist() for name, values in X.items()}
    weighted = clone(model).fit(container(X), y, sample_weight=weight)
    plain = clone(model).fit(container(repeated), np.repeat(y, weight))
    np.testing.assert_allclose(
        weighted.predict_proba(container(X)), plain.predict_proba(container(X)), rtol=1e-4, atol=1e-6
    )
