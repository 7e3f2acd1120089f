"""Traps: tables that can be learnt from and yet may not mean what they are taken for."""

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

import fanbayes
from fanbayes import DataWarning, FANClassifierCV, NBClassifier
from fanbayes.data.schema import category_mask
from fanbayes.data.sources import array_sources, frame_sources
from fanbayes.data.table import learn_table
from fanbayes.data.traps import training_traps
from fanbayes.estimators.validation import as_frame

N = 120
Y = np.arange(N) % 2
FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}


def ordinary(n=N, seed=0):
    """Columns without any trap."""
    rng = np.random.default_rng(seed)
    return {
        "x": rng.normal(size=n).tolist(),
        "count": rng.integers(0, 60, n).tolist(),
        "colour": rng.choice(["red", "green", "blue"], n).tolist(),
        "pain": rng.choice(["none", "rest", "effort"], n).tolist(),
        "sure": rng.choice([True, False], n).tolist(),
    }


def traps_of(data, frame=pd.DataFrame, weights=None, categories="from_dtype"):
    X = as_frame(frame(data)) if isinstance(data, dict) else None
    sources = (
        list(frame_sources(X)) if X is not None else list(array_sources(data, [f"x{j}" for j in range(data.shape[1])]))
    )
    is_category = category_mask(categories, [s.name for s in sources], [s.symbolic for s in sources])
    labels = (np.arange(len(sources[0].missing())) % 2).astype(np.int32)
    schema, _ = learn_table(sources, is_category, None if X is None else X.implementation.value, labels, weights)
    return {trap.kind: trap for trap in training_traps(schema, sources, weights)}


def as_array(*columns):
    return np.column_stack([np.asarray(c, dtype=object) for c in columns])


# ---------------------------------------------------------------- what is one, and what is none


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_ordinary_data_have_none(frame):
    assert traps_of(ordinary(), frame) == {}
    assert traps_of(ordinary(12), frame) == {}


@pytest.mark.parametrize("values", [[0, 1], [1, 2, 3, 4, 5], [0.0, 10.0], range(10), [-1, None, 1]], ids=str)
def test_few_whole_numbers(values):
    found = traps_of({**ordinary(), "code": [*values] * (N // len(values))})["few_values"]
    assert found.columns == ("code",)
    assert found.remedy == "categorical_features=['colour', 'pain', 'sure', 'code']"


@pytest.mark.parametrize("values", [range(12), [0.5, 1.5], [0, 1, np.pi], [7], range(40)], ids=str)
def test_numbers_that_are_not_few(values):
    assert "few_values" not in traps_of({"a": [*values] * (N // len(values))})


@pytest.mark.parametrize(
    "days",
    [["2024-01-31", "2024-02-01"], ["31.1.2024", "1.2.2024"], ["1/31/24 9:05 pm", "NA"], ["2024-01-31T09:05:00Z"]],
    ids=str,
)
@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_dates_are_text(frame, days):
    found = traps_of({**ordinary(), "day": [*days, None] * (N // (len(days) + 1))}, frame)
    assert found["date"].columns == ("day",)
    assert found["date"].message == f"dates are text, and so categories: 'day', such as {sorted(days)[0]!r}"
    assert "turn them into numbers, such as the days since" in str(found["date"])
    assert str(found["date"]).endswith(found["date"].remedy)
    assert "day" in found["date"].remedy


@pytest.mark.parametrize("texts", [["2024-01-31", "never"], ["1.2", "1.3"], ["192.168.1.20", "10.0.0.1"], ["12:30"]])
def test_texts_that_are_not_dates(texts):
    assert "date" not in traps_of({**ordinary(), "day": texts * (N // len(texts))})


def test_a_day_for_each_row_is_called_a_date_and_no_identifier():
    days = pd.date_range("2024-01-01", periods=N).strftime("%Y-%m-%d").tolist()
    assert [*traps_of({**ordinary(), "day": days})] == ["date"]


def test_where_no_column_tells_anything_there_is_one_trap():
    found = traps_of({"a": [1] * N, "b": ["x"] * N})
    assert [*found] == ["constant"]
    assert found["constant"].message.startswith("no column tells anything")
    assert "'a', 'b' have one value" in found["constant"].message
    assert found["constant"].remedy == ""
    noise = np.random.default_rng(0).normal(size=N)[:, None]
    assert [w.message.args[0].kind for w in caught(NBClassifier(discretize="mdlp").fit, noise, Y)] == ["constant"]


def test_numbers_that_their_user_called_numbers_are_no_trap():
    X = pd.DataFrame({**ordinary(), "code": [1, 2, 3] * 40})
    assert caught(NBClassifier().fit, X, Y)
    assert not caught(NBClassifier(categorical_features=["colour", "pain", "sure"]).fit, X, Y)
    assert not caught(NBClassifier(categorical_features=None).fit, X[["x", "code"]], Y)


def test_few_whole_numbers_want_many_rows():
    assert "few_values" not in traps_of({"a": [1, 2, 3] * 5})
    late = np.r_[np.arange(300) % 3, np.arange(11)].astype(float)
    assert "few_values" not in traps_of({"a": late})


def test_few_whole_numbers_of_an_array_are_given_by_position():
    X = np.column_stack([np.arange(N) % 3, np.random.default_rng(0).normal(size=N), np.arange(N) % 2])
    assert traps_of(X)["few_values"].remedy == "categorical_features=[0, 2]"
    assert "few_values" not in traps_of(X, categories=[0, 2])


def test_the_remedies_work():
    data = {**ordinary(), "code": [1, 2, 3] * 40, "id": [f"p{k}" for k in range(N)], "same": [1] * N}
    data["lab"] = ["NA", *(f"{k / 2}" for k in range(N - 1))]
    for frame in FRAMES.values():
        X = frame(data)
        found = traps_of(data, frame)
        assert {*found} == {"few_values", "identifier", "constant", "missing_text"}
        for kind in ("identifier", "constant", "missing_text"):
            X = eval(found[kind].remedy, {"X": X, "pl": pl})
        X = pd.DataFrame({name: X[name].to_pylist() for name in X.column_names}) if isinstance(X, pa.Table) else X
        after = traps_of(
            {name: list(X[name]) for name in X.columns},
            pd.DataFrame,
            categories=["colour", "pain", "sure", "code", "lab"],
        )
        assert "NA" not in str(after)
        assert {*after} <= {"identifier"}  # "lab" holds numbers as text


@pytest.mark.parametrize("make", [pd.DataFrame, lambda data: as_array(*data.values())], ids=["frame", "array"])
def test_columns_that_name_the_rows(make):
    ids = [f"p{k}" for k in range(N)]
    nearly = [f"p{k % 100}" for k in range(N)]
    half = [f"p{k % 60}" for k in range(N)]
    found = traps_of(
        {"a": ids, "b": nearly, "c": half} if make is pd.DataFrame else make({"a": ids, "b": nearly, "c": half})
    )
    assert len(found["identifier"].columns) == 2
    assert "(120 in 120 rows)" in found["identifier"].message
    assert "(100 in 120 rows)" in found["identifier"].message


def test_declared_categories_that_do_not_occur_name_no_rows():
    X = pd.DataFrame({"a": pd.Categorical(["u", "v"] * 20, [f"c{k}" for k in range(50)] + ["u", "v"])})
    assert "identifier" not in traps_of({"a": X["a"]})
    assert "identifier" not in traps_of({"a": [f"p{k}" for k in range(12)]})  # few rows: that may be chance


@pytest.mark.parametrize("text", ["NA", "?", "null", "nan", "N/A", " na ", "<NA>", ""])
def test_texts_that_look_like_missing_values(text):
    found = traps_of({**ordinary(), "a": ["yes", "no", text] * 40})["missing_text"]
    assert found.texts == (text,)
    assert found.columns == ("a",)


def test_odd_texts_among_numbers():
    numbers = [f"{k / 2}" for k in range(N)]
    numbers[7] = numbers[50] = "n.a."
    found = traps_of({"a": numbers})
    assert found["missing_text"].texts == ("n.a.",)
    assert "identifier" not in found  # they are numbers rather than names
    assert "missing_text" not in traps_of({"a": ["1", "2", "3", "other"] * 30})


def test_decimal_commas():
    found = traps_of({"a": [f"{k % 9},5" for k in range(N)], "b": ["1,5", "2", "NA"] * 40, "c": ["x,y", "z"] * 60})
    assert found["decimal_comma"].columns == ("a", "b")
    assert "'a', such as '0,5'" in found["decimal_comma"].message


def test_weights_that_are_shares():
    data = {"x": np.random.default_rng(0).normal(size=N)}
    assert traps_of(data, weights=np.full(N, 1 / N))["weights"].message.startswith(
        "weights are numbers of cases, and th"
    )
    assert traps_of(data, weights=np.full(N, 0.2)) == {}
    w = np.random.default_rng(0).random(N) / 50
    relative = w * (len(w) / w.sum())
    assert traps_of(data, weights=relative) == {}


# ---------------------------------------------------------------- one warning a kind


def caught(function, *arguments, **keywords):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        function(*arguments, **keywords)
    return [w for w in found if issubclass(w.category, DataWarning)]


def test_one_warning_for_all_columns_whose_remedy_is_complete():
    names = [f"code {k}" for k in range(25)]
    X = pd.DataFrame({**{name: np.arange(N) % 3 for name in names}, "x": np.random.default_rng(0).normal(size=N)})
    [warning] = caught(NBClassifier().fit, X, Y)
    text = str(warning.message)
    assert text.count("values)") == 10
    assert " and 15 more; if they are codes, use categorical_features=" in text
    assert eval(text.partition("categorical_features=")[2]) == names
    assert warning.filename == __file__
    assert not caught(NBClassifier(categorical_features=names).fit, X, Y)
    assert str(pickle.loads(pickle.dumps(warning.message))) == text


@pytest.mark.parametrize(
    "clf", [NBClassifier(), FANClassifierCV(effort="fast", cv=2, random_state=0)], ids=["nb", "cv"]
)
def test_traps_are_warnings_of_one_class(clf):
    X = pd.DataFrame({**ordinary(), "code": [1, 2, 3] * 40, "same": 1})
    clf = clone(clf)
    found = caught(clf.fit, X, Y)
    assert [w.message.args[0].kind for w in found] == ["few_values", "constant"]
    assert all(w.filename == __file__ for w in found)
    assert not caught(clf.predict_proba, X)


def test_discretised_numbers_are_no_trap():
    X = pd.DataFrame({"code": [1, 2, 3] * 40, "x": np.arange(N) % 2 + np.random.default_rng(0).normal(size=N)})
    assert not caught(NBClassifier(discretize="mdlp").fit, X, np.arange(N) % 3)


# ---------------------------------------------------------------- in prediction


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_unseen_categories_are_counted(frame):
    clf = NBClassifier().fit(frame(ordinary()), Y)
    data = ordinary(seed=1)
    data["colour"] = ["Red", None, *data["colour"][2:]]
    assert not caught(clf.predict_proba, frame(data))  # one in 119
    data["colour"] = [c.title() if k % 4 else c for k, c in enumerate(ordinary(seed=1)["colour"])]
    data["pain"] = [None] * 60 + ["None"] * 60
    for method in (clf.predict, clf.predict_proba, clf.predict_components, clf.explain):
        [warning] = caught(method, frame(data))
        assert "'colour' in 90 of 120 rows (75 %), such as '" in str(warning.message)
        assert "'pain' in 60 of 60 rows (100 %), such as 'None'" in str(warning.message)
        assert warning.filename == __file__


def test_unseen_categories_in_cross_validation_of_ordinary_data():
    data = ordinary()
    data["colour"][3] = "mauve"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cross_val_score(NBClassifier(), pd.DataFrame(data), Y, cv=5)


@pytest.mark.parametrize(
    "clf", [NBClassifier(), FANClassifierCV(effort="fast", cv=2, random_state=0)], ids=["nb", "cv"]
)
@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_missing_columns_are_summed_out_when_asked(frame, clf):
    data = ordinary()
    clf = clone(clf).set_params(allow_missing_columns=True).fit(frame(data), Y)
    some = frame({name: data[name] for name in ("x", "pain")})
    empty = frame({name: data[name] if name in ("x", "pain") else [None] * N for name in data})
    [warning] = caught(clf.predict_proba, some)
    assert str(warning.message) == "columns that are not there are summed out: 'count', 'colour', 'sure'"
    assert len(caught(clf.explain, some)) == 1
    with pytest.warns(DataWarning, match="columns that are not there"):
        np.testing.assert_array_equal(clf.predict_proba(some), clf.predict_proba(empty))
    wrong_order = frame({name: data[name] for name in ("pain", "x")})
    with pytest.raises(ValueError, match="must be in the same order"):
        clf.predict_proba(wrong_order)
    with pytest.raises(ValueError, match="unseen at fit time"):
        clf.predict_proba(frame({"x": data["x"], "other": data["x"]}))
    with pytest.raises(ValueError, match="feature names should match"):
        clf.set_params(allow_missing_columns=False).predict_proba(some)


def test_missing_columns_of_a_saved_model(tmp_path):
    data = ordinary()
    clf = NBClassifier(allow_missing_columns=True).fit(pd.DataFrame(data), Y)
    fanbayes.save(clf, tmp_path / "m.fan")
    again = fanbayes.load(tmp_path / "m.fan")
    with pytest.warns(DataWarning, match="summed out"):
        assert again.predict_proba(pd.DataFrame(data)[["x", "sure"]]).shape == (N, 2)


def test_allow_missing_columns_is_a_truth_value():
    with pytest.raises(TypeError, match="allow_missing_columns='yes' must be True or False"):
        NBClassifier(allow_missing_columns="yes").fit(pd.DataFrame(ordinary()), Y)
