"""MDLPDiscretizer: a thin face of data/mdl.py, so the cuts themselves are tested there."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from in_batches import Pieces
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline

from fanbayes import MDLPDiscretizer, NBClassifier

IRIS = load_iris(as_frame=True)


def test_array_becomes_interval_numbers():
    X, y = IRIS.data.to_numpy().copy(), IRIS.target.to_numpy()
    X[0, 2] = np.nan
    out = MDLPDiscretizer().fit(X, y).transform(X)
    assert np.isnan(out[0, 2])
    assert np.array_equal(out[1:, 2], np.searchsorted([2.45, 4.75], X[1:, 2]))


@pytest.mark.parametrize("convert", [lambda f: f, pl.from_pandas, pa.Table.from_pandas])
def test_frame_becomes_categories_of_its_own_library(convert):
    frame = convert(IRIS.data.assign(colour=["red", "blue", None] * 50))
    out = MDLPDiscretizer().fit_transform(frame, IRIS.target)
    assert type(out) is type(frame)
    values = pd.DataFrame(
        out.to_dict(as_series=False)
        if isinstance(out, pl.DataFrame)
        else out.to_pydict()
        if isinstance(out, pa.Table)
        else out
    )
    assert set(values["petal length (cm)"]) == {"(-inf, 2.45]", "(2.45, 4.75]", "(4.75, inf)"}
    assert list(values["colour"].iloc[:2]) == ["red", "blue"]
    assert list(values.columns) == [*IRIS.data.columns, "colour"]


def test_columns_named_by_numbers_and_the_index_stay_as_they_are():
    frame = pd.DataFrame(IRIS.data.to_numpy(), index=np.arange(150) * 3).assign(**{"4": "x"})
    frame.columns = range(5)
    out = MDLPDiscretizer().fit_transform(frame, IRIS.target)
    assert out.columns.tolist() == [0, 1, 2, 3, 4]
    assert out.index.equals(frame.index)
    assert out[2].iloc[0] == "(-inf, 2.45]"
    assert (out[4] == "x").all()


def test_names_out_and_set_output():
    out = MDLPDiscretizer().set_output(transform="pandas").fit_transform(IRIS.data, IRIS.target)
    assert list(out.columns) == list(MDLPDiscretizer().fit(IRIS.data, IRIS.target).get_feature_names_out())


def test_before_a_classifier_it_equals_the_classifiers_own_binning():
    X, y = IRIS.data, IRIS.target
    outside = make_pipeline(MDLPDiscretizer(), NBClassifier()).fit(X, y).predict_proba(X)
    inside = NBClassifier(discretize="mdlp").fit(X, y).predict_proba(X)
    np.testing.assert_allclose(outside, inside, rtol=1e-12)


def test_unlabelled_rows_and_weights():
    X, y = IRIS.data.to_numpy(), IRIS.target.to_numpy().astype(float)
    some = y.copy()
    some[::3] = np.nan
    weight = np.isfinite(some).astype(float)
    a = MDLPDiscretizer().fit(X, some).cut_points_
    b = MDLPDiscretizer().fit(X, y, sample_weight=weight).cut_points_
    assert all(np.array_equal(u, v) for u, v in zip(a, b))
    assert any(not np.array_equal(u, v) for u, v in zip(a, MDLPDiscretizer().fit(X, y).cut_points_))


def test_infinity_is_refused_by_name():
    X = IRIS.data.copy()
    X.iloc[3, 1] = np.inf
    with pytest.raises(ValueError, match=r"'sepal width \(cm\)' contains infinity"):
        MDLPDiscretizer().fit(X, IRIS.target)


# ---------------------------------------------------------------- batches


def test_batches_are_binned_as_the_table_is():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 200)
    table = pl.DataFrame(
        {"x": y + rng.normal(size=200) / 3, "s": ["u", "v"] * 100, "y": y, "w": rng.integers(0, 3, 200)}
    )
    table = table.with_columns(pl.when(pl.col("x") < 0).then(None).otherwise(pl.col("x")).alias("x"))
    expected = MDLPDiscretizer().fit(table, "y", "w")
    found = MDLPDiscretizer().fit(Pieces(table), "y", "w")
    assert found.feature_names_in_.tolist() == expected.feature_names_in_.tolist() == ["x", "s"]
    assert len(found.cut_points_[0]) >= 2
    np.testing.assert_array_equal(found.cut_points_[0], expected.cut_points_[0])
    assert found.cut_points_[1] is None
    binned = found.transform(Pieces(table))
    whole = pl.concat([batch.frame.to_native() for batch in binned])
    assert whole.drop("y", "w").equals(expected.transform(table.drop("y", "w")))
    assert whole["y"].to_list() == y.tolist()
    # and a classifier is fitted to them
    nb = NBClassifier().fit(binned.only(["x", "y"]), "y")
    assert nb.schema_["x"].kind == "discrete"
    assert nb.schema_["x"].n_levels == len(found.cut_points_[0]) + 1


def test_batches_without_a_column_that_was_cut():
    table = pl.DataFrame({"x": [1.0, 2.0], "y": [0, 1]})
    with pytest.raises(ValueError, match="there is no column 'x'"):
        MDLPDiscretizer().fit(table, "y").transform(Pieces(table.drop("x")))
