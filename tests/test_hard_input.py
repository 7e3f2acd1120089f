"""Hard input works, bad input is refused with a word of what to do, and then nothing has changed."""

import datetime
import itertools
import time
import timeit
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from scipy import sparse
from sklearn.base import clone

from fanbayes import DataWarning, FANClassifier, FANClassifierCV, FMClassifier, NBClassifier
from fanbayes.estimators.validation import read_rows

FEW = {"n_init": 2, "random_state": 0}
MODELS = {
    "nb": NBClassifier(),
    "fan": FANClassifier(n_components=2, **FEW),
    "fan auto": FANClassifier(max_components=3, patience=1, mixing="per_class", **FEW),
    "fm": FMClassifier(n_components=3, **FEW),
    "fan paper cem": FANClassifier(n_components=2, variance_estimator="paper", algorithm="cem", **FEW),
}
FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}

# Some of these have no clusters to converge on, or as many as they may, and most have a column of names.
pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:most rows have a category of their own:fanbayes.DataWarning"),
]


@pytest.fixture(params=MODELS)
def model(request):
    return clone(MODELS[request.param])


@pytest.fixture(params=[*FRAMES, "numpy"])
def make(request):
    """From a dict of columns to a frame or an array."""
    if request.param == "numpy":
        return lambda columns: np.column_stack([np.array(v, dtype=object) for v in columns.values()])
    return FRAMES[request.param]


def name_of(make, name, position):
    return name if make in FRAMES.values() else f"x{position}"


def columns(n=60, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    return {
        "colour": np.array(["red", "green", "blue"])[(y + rng.integers(0, 2, n)) % 3].tolist(),
        "x": (y + rng.normal(size=n)).tolist(),
        "z": rng.normal(size=n).tolist(),
    }, y


def assert_finite(clf, X):
    proba = clf.predict_proba(X)
    assert np.isfinite(proba).all()
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    for found in (clf.predict_log_proba(X), clf.score_samples(X), clf.predict_components(X)):
        assert np.isfinite(found).all()
    assert np.isfinite(clf.trace_).all()
    assert np.isfinite(clf.log_likelihood_)
    assert set(clf.predict(X)) <= set(clf.classes_)


# ---------------------------------------------------------------- works, with finite probabilities


@pytest.mark.parametrize("value", [0.0, 7.25, -1e300, None, "same"])
def test_a_constant_or_empty_column(model, make, value):
    data, y = columns()
    X = make({**data, "extra": [value] * len(y)})
    with pytest.warns(UserWarning, match=f"left out: '{name_of(make, 'extra', 3)}'"):
        clf = clone(model).fit(X, y)
    assert_finite(clf, X)
    without = model.fit(make(data), y)
    np.testing.assert_allclose(clf.predict_proba(X), without.predict_proba(make(data)), rtol=1e-12)


def test_nothing_but_constant_columns(model):
    X, y = np.ones((20, 2)), np.arange(20) % 4 // 3
    with pytest.warns(UserWarning, match="no column tells anything, so each row will get the class shares") as said:
        clf = model.fit(X, y)
    assert len(said) == 1
    np.testing.assert_allclose(clf.predict_proba(X), [clf.class_prior_] * 20, rtol=1e-12)


def test_a_constant_column_may_vary_later(model):
    data, y = columns()
    with pytest.warns(UserWarning, match="left out: 'extra'"):
        clf = model.fit(pd.DataFrame({**data, "extra": 1.0}), y)
    other = pd.DataFrame({**data, "extra": 2.0})
    np.testing.assert_array_equal(clf.predict_proba(other), clf.predict_proba(other.assign(extra=np.nan)))


def test_log_probabilities_far_from_all_rows():
    """Where log densities are so low that the norm of the classes is lost beside them."""
    X, y = np.random.default_rng(0).normal(size=(20, 1)), np.arange(20) % 2
    clf = NBClassifier(variance_tying="all").fit(X, y)
    far = np.array([[1e12], [-1e30], [1e90]])
    np.testing.assert_allclose(np.exp(clf.predict_log_proba(far)), clf.predict_proba(far), rtol=1e-12)


def test_a_class_with_one_row(model, make):
    data, y = columns()
    y = np.where(np.arange(len(y)) == 5, 2, y)
    X = make(data)
    clf = model.fit(X, y)
    assert_finite(clf, X)
    assert clf.predict_proba(X).shape == (60, 3)


def test_every_class_with_one_row(model):
    X = np.random.default_rng(0).normal(size=(6, 2))
    clf = model.fit(X, np.arange(6))
    assert_finite(clf, X)


def test_a_single_class(model, make):
    data, y = columns()
    X = make(data)
    with pytest.warns(DataWarning, match=r"^y holds only the class 0.0, .* two classes or more$"):
        clf = model.fit(X, np.zeros(len(y)))
    assert_finite(clf, X)
    np.testing.assert_array_equal(clf.predict_proba(X), np.ones((60, 1)))


def test_more_classes_than_a_model_can_have():
    for labels in (np.arange(65_536), np.arange(65_536).astype(str).astype(object)):
        with pytest.raises(ValueError, match="y holds 65,536 classes, more than 65,535; give it classes"):
            NBClassifier().fit(np.zeros((131_072, 1)), np.tile(labels, 2))


def test_what_is_no_table():
    y = [0, 1] * 30
    for X, says in (
        ("patients.csv", "X is a text, 'patients.csv'; read the file first"),
        ({"a": y}, "X is a dict; make a data frame of it"),
        (np.ma.masked_array(np.ones((60, 2)), mask=True), "X is a masked array"),
        (pd.DataFrame({"a": pd.period_range("2024-01-01", periods=60, freq="D")}), "column 'a' holds dates or times"),
    ):
        refuses(NBClassifier(), TypeError, says, X, y)


def test_two_thousand_features(model):
    """log p(x) is about -10,000: no probability may underflow on the way."""
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    X = np.column_stack([rng.normal(size=(40, 1000)) + 0.2 * y[:, None], rng.integers(0, 30, (40, 1000))])
    clf = model.set_params(categorical_features=np.arange(2000) >= 1000).fit(X, y)
    assert_finite(clf, X)
    assert clf.score(X, y) == 1
    assert clf.score_samples(X).max() < -2000


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_reading_a_frame_takes_time_in_proportion_to_its_columns(frame):
    """Twelve times the columns may not take a hundred times as long."""

    def seconds(n_columns):
        X = frame({f"c{j}": [0.5, 1.5] for j in range(n_columns)})
        read = lambda: list(read_rows(NBClassifier(), X, reset=True).sources())  # noqa: E731
        return min(timeit.repeat(read, timer=time.process_time, number=1, repeat=5))  # whatever else is running

    assert seconds(12_000) < 50 * seconds(1_000)


@pytest.mark.filterwarnings("ignore::fanbayes.DataWarning")
@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("make", [FANClassifier, FMClassifier])
def test_fewer_rows_than_components(make, n):
    X, y = np.random.default_rng(0).normal(size=(n, 2)), np.arange(n) % 2
    five = make(n_components=5, **FEW).fit(X, y)
    assert five.n_components_ == 5
    assert_finite(five, X)
    auto = make(patience=99, **FEW).fit(X, y)
    assert auto.selection_["n_components"] == list(range(1, n + 1))  # it stops there
    assert_finite(auto, X)


EXTREME = {
    "1e308": lambda z: 1e308 * np.tanh(z),
    "1e-308": lambda z: 1e-308 * z,
    "both": lambda z: np.where(np.abs(z) > 1, 1e308 * np.tanh(z), 1e-308 * z),
    "subnormal": lambda z: 5e-324 * np.rint(9 * z),
    "one outlier": lambda z: np.where(z == z.max(), 1e308, z),
    "an offset of 1e9": lambda z: 1e9 + z,
}


@pytest.mark.parametrize("shape", EXTREME)
def test_extreme_numbers(model, shape):
    rng = np.random.default_rng(0)
    y = np.arange(80) % 2
    z = 2.0 * y + rng.normal(size=80)
    X = np.column_stack([EXTREME[shape](z), rng.normal(size=80)])
    clf = model.fit(X, y)
    assert_finite(clf, X)
    assert_finite(clf, np.array([[1.7e308, 0.0], [-1.7e308, 1e308], [5e-324, -5e-324], [0.0, 0.0]]))
    assert np.isfinite(clf.feature_table(0)["mean"]).all()
    if shape in ("1e308", "1e-308", "an offset of 1e9"):
        assert clf.score(X, y) > 0.7


@pytest.mark.parametrize("scale", [1e300, 1e-300])
def test_densities_of_extreme_numbers_are_in_their_units(model, scale):
    rng = np.random.default_rng(0)
    y = np.arange(80) % 2
    X = 2.0 * y[:, None] + rng.normal(size=(80, 2))
    plain, scaled = clone(model).fit(X, y), clone(model).fit(X * scale, y)
    np.testing.assert_allclose(scaled.predict_proba(X * scale), plain.predict_proba(X), rtol=1e-6, atol=1e-9)
    wanted = plain.score_samples(X) - 2 * np.log(scale)
    np.testing.assert_allclose(scaled.score_samples(X * scale), wanted, rtol=1e-8)


def test_an_offset_changes_nothing(model):
    rng = np.random.default_rng(0)
    y = np.arange(80) % 2
    X = np.rint(1024 * (2.0 * y[:, None] + rng.normal(size=(80, 2)))) / 1024  # exact beside 1e9
    plain, far = clone(model).fit(X, y), clone(model).fit(X + 1e9, y)
    np.testing.assert_allclose(far.predict_proba(X + 1e9), plain.predict_proba(X), rtol=1e-4, atol=1e-5)


def test_sixty_strings_in_sixty_rows(model, make):
    data, y = columns()
    X = make({**data, "id": [f"id{i}" for i in range(60)]})
    assert_finite(model.fit(X, y), X)


def test_as_many_categories_as_there_may_be(make):
    n = 65_535
    X = make({"id": [f"v{i}" for i in range(n)]})
    clf = NBClassifier().fit(X, np.arange(n) % 2)
    assert np.isfinite(clf.predict_proba(X)).all()


# ---------------------------------------------------------------- refused, and nothing changed


def state_of(clf):
    return {name: repr(value) for name, value in vars(clf).items()}


def refuses(clf, error, message, X, y, names=("colour", "x", "z"), **arguments):
    """`fit` fails with the message, both afresh and on a fitted classifier, which stays as it was."""
    with pytest.raises(error, match=message):
        clone(clf).fit(X, y, **arguments)
    data, labels = columns(40, seed=9)
    good = pd.DataFrame({name: data[name] for name in names})
    fitted = clone(clf).fit(good, labels)
    before, proba = state_of(fitted), fitted.predict_proba(good)
    with pytest.raises(error, match=message):
        fitted.fit(X, y, **arguments)
    assert state_of(fitted) == before
    np.testing.assert_array_equal(fitted.predict_proba(good), proba)


@pytest.mark.parametrize("value", [np.inf, -np.inf])
@pytest.mark.parametrize("categorical_features", ["from_dtype", [0, 1]], ids=["number", "category"])
def test_infinity(model, make, value, categorical_features):
    data, y = columns()
    bad = make({**data, "x": [value, *data["x"][1:]]})
    message = f"column '{name_of(make, 'x', 1)}' contains infinity; replace it by a finite or a missing value"
    refuses(model.set_params(categorical_features=categorical_features), ValueError, message, bad, y)
    clf = model.set_params(categorical_features="from_dtype").fit(make(data), y)
    with pytest.raises(ValueError, match=message):
        clf.predict(bad)


@pytest.mark.parametrize("y", [np.full(60, np.nan), np.full(60, None)], ids=["nan", "none"])
def test_no_labelled_row(model, y):
    message = "no row has a label; give at least one row of y a class"
    refuses(model, ValueError, message, pd.DataFrame(columns()[0]), y)


def test_no_labelled_row_of_positive_weight(model):
    data, y = columns()
    y = np.where(np.arange(60) < 5, y, np.nan)
    weight = (np.arange(60) >= 5).astype(float)
    refuses(model, ValueError, "no row has a label", pd.DataFrame(data), y, sample_weight=weight)


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (-np.ones(60), "sample_weight contains negative values; weights are counts of cases"),
        (np.r_[np.nan, np.ones(59)], "sample_weight contains NaN or infinity; give every row a finite weight"),
        (np.r_[np.inf, np.ones(59)], "sample_weight contains NaN or infinity"),
        (np.full(60, 1e307), r"the sum of sample_weight is larger than 1e\+100; divide all weights"),
        (np.full(60, 1e99), "the sum of sample_weight is larger"),
        (np.full(60, 1 + 1j), "sample_weight holds values that are not numbers"),
        ([10**400] * 60, "sample_weight holds values that are not numbers"),
        (np.zeros(60), "sample_weight is zero for all rows; give at least one row a positive weight"),
        (np.ones(59), r"sample_weight.shape == \(59,\), expected \(60,\)"),
        (np.ones((60, 2)), "Sample weights must be 1D"),
    ],
)
def test_bad_weights(model, weight, message):
    data, y = columns()
    refuses(model, ValueError, message, pd.DataFrame(data), y, sample_weight=weight)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize(("small", "large"), [(1e-250, 1e90), (5e-324, 1.0)])
def test_weights_that_vanish_beside_others(small, large):
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    X = y[:, None] + rng.normal(size=(60, 2))
    weight = np.where(np.arange(60) < 5, small, large)
    model = FANClassifierCV(random_state=0).fit(X, y, sample_weight=weight)
    assert np.isfinite(model.predict_log_proba(X)).all()


def test_too_many_categories(make):
    n = 65_536
    X = make({"id": [f"v{i}" for i in range(n)]})
    message = f"'{name_of(make, 'id', 0)}' has 65536 categories, more than 65535; drop it .* or merge its rare"
    refuses(NBClassifier(), ValueError, message, X, np.arange(n) % 2)


def test_numbers_that_became_categories_and_the_reverse(model, make):
    data, y = columns()
    clf = model.fit(make(data), y)
    before = state_of(clf)
    words = [f"w{i % 2}" for i in range(60)]
    with pytest.raises(
        ValueError, match=f"'{name_of(make, 'x', 1)}' held numbers in training .* convert it to numbers"
    ):
        clf.predict_proba(make({**data, "x": words}))
    with pytest.raises(ValueError, match=f"'{name_of(make, 'colour', 0)}' held categories such as 'blue' in training"):
        clf.predict_proba(make({**data, "colour": data["z"]}))
    assert state_of(clf) == before


TWO = {
    "strings": ["0", "1"],
    "words": ["no", "yes"],
    "booleans": [False, True],
    "integers": [0, 1],
    "codes": [1, 2],
    "floats": [0.5, 1.5],
}
WAYS = {
    "object": lambda v: pd.DataFrame({"a": pd.Series(v, dtype=object)}),
    "pandas": lambda v: pd.DataFrame({"a": v}),
    "category": lambda v: pd.DataFrame({"a": pd.Categorical(v)}),
    "dictionary": lambda v: pa.table({"a": pa.array(v).dictionary_encode()}),
    "polars": lambda v: pl.DataFrame({"a": v}),
    "with nulls": lambda v: pl.DataFrame({"a": [None, *v[1:]]}),
}


@pytest.mark.parametrize("way", ["pandas", "category"])
@pytest.mark.parametrize("before", TWO)
def test_a_column_of_another_type_is_understood_or_refused(before, way):
    """Never is every value taken as missing because its type has changed."""
    clf = NBClassifier(categorical_features="all").fit(WAYS[way](TWO[before] * 20), [0, 1] * 20)
    for now, other_way in itertools.product(TWO, WAYS.values()):
        X, both = other_way(TWO[now] * 20), {before, now}
        is_text = [kind in ("strings", "words") for kind in (before, now)]
        if is_text[0] != is_text[1] or ("booleans" in both and both & {"codes", "floats"}):
            with pytest.raises(ValueError, match=r"column 'a' held .* in training and holds .* now; convert it to"):
                clf.predict_proba(X)
        elif {*TWO[before]} & {*TWO[now]}:
            with warnings.catch_warnings(action="ignore", category=DataWarning):
                assert np.ptp(clf.predict_proba(X)[:, 0]) > 0
        else:
            with pytest.warns(DataWarning, match=r"'a' in \d+ of \d+ rows \(100 %\), such as "):
                clf.predict_proba(X)


def test_numbered_categories_that_became_words():
    X, y = pd.DataFrame({"a": [1, 2] * 10}), [0, 1] * 10
    clf = NBClassifier(categorical_features=["a"]).fit(X, y)
    with pytest.raises(ValueError, match="'a' held values such as 1 in training and holds strings now; convert"):
        clf.predict(pd.DataFrame({"a": ["1", "2"]}))


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_other_columns_than_in_training(model, frame):
    data, y = columns()
    clf = model.fit(frame(data), y)
    before = state_of(clf)
    for names in (["colour", "x"], ["colour", "x", "z", "more"], ["x", "colour", "z"], ["colour", "x", "zz"]):
        other = frame({name: data.get(name, data["z"]) for name in names})
        with pytest.raises(ValueError, match="feature names"):
            clf.predict(other)
    assert state_of(clf) == before


def test_another_number_of_columns_than_in_training(model):
    X, y = np.random.default_rng(0).normal(size=(30, 3)), np.arange(30) % 2
    clf = model.fit(X, y)
    for other in (X[:, :2], np.column_stack([X, X])):
        with pytest.raises(ValueError, match=r"X has \d features, but .* is expecting 3 features"):
            clf.predict(other)


def test_column_names_that_occur_twice(model):
    data, y = columns()
    twice = pd.DataFrame(data)[["x", "z", "x"]]
    refuses(model, ValueError, "column names occur more than once: 'x'; rename or drop them", twice, y)
    table = pa.Table.from_arrays([pa.array(data["x"])] * 2, names=["x", "x"])
    refuses(model, ValueError, "column names occur more than once: 'x'", table, y)


@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.csr_array, sparse.coo_array])
def test_sparse_matrices(model, kind):
    X, y = np.eye(60), np.arange(60) % 2
    refuses(model, TypeError, r"Sparse data was passed.*(toarray|dense)", kind(X), y)


STRANGE = {
    "dates": [datetime.datetime(2020, 1, 1 + i % 20) for i in range(60)],
    "days": [datetime.date(2020, 1, 1 + i % 20) for i in range(60)],
    "durations": [datetime.timedelta(i) for i in range(60)],
    "lists": [[i, i + 1] for i in range(60)],
    "dicts": [{"a": i} for i in range(60)],
}


@pytest.mark.parametrize("values", STRANGE.values(), ids=STRANGE)
def test_dates_and_nested_columns(make, values):
    data, y = columns()
    if make in FRAMES.values():
        X, name = make({**data, "when": values}), "when"
    else:
        X, name = np.column_stack([make(data), np.fromiter(values, object, 60)]), "x3"
    remedy = (
        "it into numbers, strings or categories" if isinstance(values[0], (list, dict)) else "them into numbers, such"
    )
    message = rf"column '{name}'.*turn {remedy}.*, or drop it"
    for clf in (NBClassifier(), FANClassifier(2, **FEW), FMClassifier(2, **FEW)):
        refuses(clf, TypeError, message, X, y)
    clf = NBClassifier().fit(make({**data, "when": data["x"]}), y)
    with pytest.raises(TypeError, match=message):
        clf.predict(X)


def test_strings_that_are_said_to_be_numbers(model, make):
    data, y = columns()
    message = f"'{name_of(make, 'colour', 0)}' holds .* said to be numeric; add it to categorical_features or convert"
    for said in (None, [1]):
        refuses(model.set_params(categorical_features=said), ValueError, message, make(data), y, names=("x", "z"))


def test_strings_among_numbers(model):
    data, y = columns()
    X = pd.DataFrame(data).astype(object)
    X.loc[3, "x"] = "unknown"
    refuses(model, ValueError, "column 'x' mixes float and str values; make all of them strings", X, y)


def test_labels_of_several_types(model):
    data, _ = columns()
    y = np.array([1, "a"] * 30, dtype=object)
    refuses(model, ValueError, "y mixes labels of different types", pd.DataFrame(data), y)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, "y"),
        (np.arange(59), "inconsistent numbers of samples"),
        (np.linspace(0, 1, 60), "Unknown label type: continuous"),
        (np.r_[np.inf, np.ones(59)], "Input y contains infinity"),
        (np.r_[1e300, np.ones(59)], "Unknown label type: continuous"),
        (np.zeros((60, 2)), "1d array"),
        (np.fromiter([(1, 2), (3,)] * 30, object, 60), "y holds labels of type tuple; make them strings or numbers"),
        (np.fromiter([{"a": 1}] * 60, object, 60), "y holds labels of type dict; make them strings or numbers"),
    ],
)
def test_bad_labels(model, y, message):
    refuses(model, ValueError, message, pd.DataFrame(columns()[0]), y)


def test_wide_frames_with_numbered_columns():
    """A row of such a frame can be asked for by the same number."""
    column = pd.Series(["a", "b"] * 2).astype("category")
    X = pd.DataFrame(dict.fromkeys(range(6), column))
    proba = NBClassifier().fit(X, [0, 1] * 2).predict_proba(X)
    np.testing.assert_array_equal(
        proba, NBClassifier().fit(X.add_prefix("c"), [0, 1] * 2).predict_proba(X.add_prefix("c"))
    )


def test_encodings_of_arrow(model):
    data, y = columns()
    plain = pa.table(data)
    encoded = [pa.table({name: pc.run_end_encode(plain[name]) for name in plain.column_names})]
    if hasattr(pa, "string_view"):
        encoded.append(plain.set_column(0, "colour", plain["colour"].cast(pa.string_view())))
    proba = clone(model).fit(plain, y).predict_proba(plain)
    for X in encoded:
        assert clone(model).fit(X, y).predict_proba(X).tobytes() == proba.tobytes()


def test_text_that_is_not_unicode():
    values, y = pd.Series(["\ud800", "a"] * 5, dtype=object), [0, 1] * 5
    message = "column '(c|x0)' holds text that is not valid Unicode; correct it, or drop it"
    refuses(NBClassifier(), ValueError, message, pd.DataFrame({"c": values}), y)
    refuses(NBClassifier(), ValueError, message, values.to_numpy()[:, None], y)


RAGGED = {"rows": [[1.0, 2.0], [3.0]], "text": [["a", 1.0], ["b"]], "cells": [[1.0, [2.0]], [3.0, 4.0]]}


@pytest.mark.parametrize("X", RAGGED.values(), ids=RAGGED)
def test_lists_of_different_lengths(X):
    message = "holds lists of different lengths; give every row as many values, each a number or a text"
    refuses(NBClassifier(), ValueError, f"^X {message}", X, [0, 1])
    refuses(NBClassifier(), ValueError, f"^y {message}", [[1.0], [2.0]], X)


def test_half_precision_as_categories():
    X, y = np.array([[1.5], [2.0], [60000.0]], dtype=np.float16), [0, 1, 0]
    clf = NBClassifier(categorical_features="all").fit(X, y)
    assert clf.schema_[0].levels == (1.5, 2.0, 60000.0)


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_samples_beyond_all_integers(frame):
    """Normal draws around integers that are as large as can be."""
    X = frame({"n": [2**63 - 1, -(2**63), 0, 5] * 5})
    rows, _ = NBClassifier().fit(X, [0, 1] * 10).sample(200, random_state=0)
    assert np.isfinite(np.asarray(rows["n"], dtype=float)).all()


def test_samples_of_intervals_wider_than_a_number():
    X, y = np.array([[-1.7e308], [-1.6e308], [1.6e308], [1.7e308]] * 10), [0, 0, 1, 1] * 10
    rows, _ = NBClassifier(discretize="mdlp").fit(X, y).sample(100, random_state=0)
    assert (np.abs(rows) <= 1.7e308).all()


def test_samples_beyond_all_numbers():
    X, y = 1e308 * np.linspace(-1.7, 1.7, 20)[:, None], [0, 1] * 10
    rows, _ = NBClassifier(variance_floor=4.0).fit(X, y).sample(200, random_state=0)
    assert np.isfinite(rows).all()


def test_long_categories_are_cut_short():
    data, y = columns()
    clf = NBClassifier(handle_unknown="error").fit(pd.DataFrame(data), y)
    with pytest.raises(ValueError, match=r"such as 'x{59}; handle_unknown"):
        clf.predict(pd.DataFrame({**data, "colour": ["x" * 5000] * 60}))


def test_an_enum_is_not_spelt_out():
    many = pl.Enum([f"level {k}" for k in range(1000)])
    clf = NBClassifier().fit(pl.DataFrame({"x": [1.0, 2.0, 3.0]}), [0, 1, 0])
    with pytest.raises(ValueError, match="'x' held numbers in training and holds Enum values now; convert"):
        clf.predict(pl.DataFrame({"x": pl.Series(["level 1"], dtype=many)}))


def test_lazy_frames(model):
    data, y = columns()
    refuses(
        model, TypeError, "X is read in batches: give y as the name of one of its columns", pl.DataFrame(data).lazy(), y
    )


@pytest.mark.parametrize("series", [pd.Series, pl.Series, pa.array])
def test_a_column_instead_of_a_frame(model, series):
    data, y = columns()
    refuses(model, ValueError, r"X is one column; give a data frame|Expected 2D array", series(data["x"]), y)


@pytest.mark.parametrize("shape", [(0, 3), (60, 0)])
def test_nothing_at_all(model, shape):
    y = np.arange(shape[0]) % 2
    refuses(model, ValueError, "a minimum of 1 is required", np.zeros(shape), y)
    refuses(model, ValueError, "a minimum of 1 is required", pd.DataFrame(np.zeros(shape)), y)


# ---------------------------------------------------------------- parameters

HUGE = 10**400  # more than a float can hold

BAD = {
    "alpha": [0, -1.0, np.nan, np.inf, 1e308, HUGE, "1", None, True],
    "variance_estimator": ["mle", None, 1, HUGE],
    "variance_tying": ["tied", None, True, HUGE],
    "variance_floor": [0, -1e-3, np.nan, HUGE, "small"],
    "algorithm": ["sem", None, True],
    "max_iter": [0, -1, 2**63, HUGE, -HUGE, 1.5, "many", True],
    "tol": [-1e-9, np.nan, HUGE, "tiny", None],
    "categorical_features": ["colour", [7], ["nothing"], [True], [0.5], 2**63, [2**63]],
    "discretize": ["yes", None, False],
    "handle_unknown": ["ignore", None],
    "n_jobs": [0, 2**31, -(2**31), HUGE, 1.5, "all"],
}
BAD_HIDDEN = {
    "n_components": [0, -2, 10**6, 2**63, HUGE, 1.5, "many", None, True],
    "criterion": ["BIC", None, "mdl"],
    "max_components": [0, -1, 2**63, HUGE, 2.5, "many"],
    "patience": [0, -1, 2**63, HUGE, 1.5],
    "n_init": [0, -1, 2**31 - 1, HUGE, 2.5, None],
    "random_state": [-1, 2**32, 2**63, HUGE, "seed", 1.5],
}


def bad_parameters():
    for name, values in BAD.items():
        for k, value in enumerate(values):
            yield pytest.param(NBClassifier(), name, value, id=f"nb {name} {k}")
    for name, values in {**BAD, **BAD_HIDDEN}.items():
        for k, value in enumerate(values):
            yield pytest.param(FMClassifier(n_components=2), name, value, id=f"fm {name} {k}")
    for name, values in {**BAD, **BAD_HIDDEN, "mixing": ["both", None, 1]}.items():
        for k, value in enumerate(values):
            yield pytest.param(FANClassifier(n_components=2), name, value, id=f"fan {name} {k}")


@pytest.mark.parametrize(("clf", "name", "value"), list(bad_parameters()))
def test_bad_parameters(clf, name, value):
    data, y = columns()
    X = pd.DataFrame(data)
    clf = clone(clf).fit(X, y)
    clf.set_params(**{name: value})
    before = state_of(clf)
    with pytest.raises((ValueError, TypeError), match=name):
        clf.fit(X, y)
    assert state_of(clf) == before


def test_a_huge_number_of_components_by_class():
    data, y = columns()
    clf = FANClassifier(mixing="per_class", n_components=dict.fromkeys(set(y), 2**40))
    with pytest.raises(ValueError, match=r"n_components\[.*\]=1099511627776 must be at most"):
        clf.fit(pd.DataFrame(data), y)


@pytest.mark.parametrize("n_samples", [0, -1, 2**63, 2.5, None])
def test_bad_numbers_of_samples(n_samples):
    data, y = columns()
    clf = NBClassifier().fit(pd.DataFrame(data), y)
    with pytest.raises((ValueError, TypeError), match="n_samples"):
        clf.sample(n_samples)


# ---------------------------------------------------------------- what once went wrong without a word

SIX = [0, 1, 0, 1, 0, 1]


def test_lists_of_mixed_rows_keep_their_numbers():
    rows = [[1, "a"], [2.5, "b"], [np.nan, "a"], [3, "b"], [1.5, "a"], [2, "b"]]
    schema = NBClassifier().fit(rows, SIX).schema_
    assert schema["x0"].kind == "continuous"
    assert schema["x1"].levels == ("a", "b")


@pytest.mark.parametrize("y", [pd.Series([0, 1, None, 1, 0, 1], dtype="Int64"), pl.Series([0, 1, None, 1, 0, 1])])
def test_integer_labels_beside_nulls_stay_integers(y):
    clf = NBClassifier().fit(np.arange(6.0)[:, None], y)
    assert clf.classes_.dtype.kind == "i"


def test_a_column_that_was_never_seen_may_hold_anything_later():
    X = pd.DataFrame({"a": np.arange(6.0), "b": [None] * 6})
    with pytest.warns(UserWarning, match="'b'"):
        clf = NBClassifier().fit(X, SIX)
    assert np.isfinite(clf.predict_proba(X.assign(b="text"))).all()


def test_booleans_are_not_other_numbers():
    X = pd.DataFrame({"a": [True, False] * 3, "b": np.arange(6.0)})
    clf = NBClassifier().fit(X, SIX)
    np.testing.assert_array_equal(clf.predict_proba(X.assign(a=[1.0, 0.0] * 3)), clf.predict_proba(X))
    with pytest.raises(ValueError, match="'a' held booleans in training and holds 7"):
        clf.predict(X.assign(a=7))


def test_an_unknown_category_is_named():
    X = pd.DataFrame({"a": ["x", "y"] * 3})
    clf = NBClassifier(handle_unknown="error").fit(X, SIX)
    with pytest.raises(ValueError, match=r"'a' has a category in row 2 .* such as 'new'"):
        clf.predict(pd.DataFrame({"a": ["x", "y", "new"]}))


def test_bytes_are_refused_by_column():
    with pytest.raises(TypeError, match="'x0'"):
        FANClassifier().fit(np.array([[b"a"], [b"b"]] * 3, dtype=object), SIX)


def test_weights_and_labels_that_are_none():
    X = np.arange(6.0)[:, None]
    with pytest.raises(ValueError, match="sample_weight holds values that are not numbers"):
        NBClassifier().fit(X, SIX, sample_weight=["a"] * 6)
    with pytest.raises(ValueError, match="no row has a label to compare with"):
        NBClassifier().fit(X, SIX).score(X, [None] * 6)
