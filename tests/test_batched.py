"""Predictions of tables in batches are those of the same rows in memory."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import fanbayes
from fanbayes import DataWarning

N_ROWS = 300


def table(seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    fraud = rng.integers(2, size=N_ROWS)
    return pd.DataFrame(
        {
            "fraud": fraud,
            "amount": np.where(rng.random(N_ROWS) < 0.1, np.nan, rng.normal(fraud, 1.0)),
            "kind": rng.choice(["car", "house", "boat"], N_ROWS, p=[0.5, 0.3, 0.2]),
        }
    )


@pytest.fixture(scope="module")
def clf() -> Any:
    rows = table()
    return fanbayes.FANClassifier(random_state=0, n_components=2).fit(rows[["amount", "kind"]], rows["fraud"])


@pytest.fixture
def dataset(tmp_path: Path) -> Any:
    rows = pa.Table.from_pandas(table(1))
    for k in range(3):
        pq.write_table(rows.slice(k * 100, 100), tmp_path / f"{k}.parquet")
    return ds.dataset(tmp_path)


METHODS = ["predict", "predict_proba", "predict_log_proba", "predict_joint_log_proba", "score_samples"]


@pytest.mark.parametrize("method", [*METHODS, "predict_components"])
def test_answers_are_those_in_memory(clf: Any, dataset: Any, method: str) -> None:
    expected = getattr(clf, method)(table(1)[["amount", "kind"]])
    np.testing.assert_array_equal(getattr(clf, method)(dataset), expected)
    np.testing.assert_array_equal(getattr(clf, method)(pl.from_pandas(table(1)).lazy()), expected)


def test_aode_and_the_average_predict_batches(dataset: Any) -> None:
    rows = table()
    for model in (fanbayes.AODEClassifier(), fanbayes.FANClassifierCV(effort="fast", random_state=0)):
        model.fit(rows[["amount", "kind"]], rows["fraud"])
        np.testing.assert_array_equal(model.predict_proba(dataset), model.predict_proba(table(1)[["amount", "kind"]]))


def test_an_iterator_of_answers(clf: Any, dataset: Any) -> None:
    rows = table(1)[["amount", "kind"]]
    for X in (dataset, rows):
        parts = list(clf.predict_proba_batches(X))
        np.testing.assert_array_equal(np.concatenate(parts), clf.predict_proba(rows))
    assert [len(part) for part in clf.predict_proba_batches(dataset)] == [100, 100, 100]


def test_score_is_that_in_memory(dataset: Any) -> None:
    rows = table(1)
    model = fanbayes.NBClassifier().fit(table(), "fraud")
    known = rows.assign(fraud=rows["fraud"].where(np.arange(N_ROWS) % 4 > 0))  # a quarter without a label
    weights = np.arange(N_ROWS) % 3
    lazy = pl.from_pandas(rows.assign(known=known["fraud"], times=weights)).lazy()
    for y, sample_weight, names in (
        (rows["fraud"], None, ("fraud",)),
        (known["fraud"], None, ("known",)),
        (known["fraud"], weights, ("known", "times")),
    ):
        expected = model.score(rows[["amount", "kind"]], y, sample_weight)
        assert model.score(lazy, *names) == pytest.approx(expected, rel=1e-12)
    expected = model.score(rows[["amount", "kind"]], rows["fraud"])
    assert model.score(dataset, "fraud") == model.score(rows, "fraud") == pytest.approx(expected, rel=1e-12)
    with pytest.raises(ValueError, match="no row has a label to compare with"):
        model.score(pl.from_pandas(rows.assign(fraud=np.nan)).lazy(), "fraud")
    with pytest.raises(ValueError, match="y names 'price', which is not a column"):
        model.score(dataset, "price")


def test_explanations_are_of_rows_in_memory(clf: Any, dataset: Any) -> None:
    for X in (dataset, pl.from_pandas(table(1)).lazy()):
        with pytest.raises(TypeError, match=r"read in batches, and this needs rows in memory; give it X.head\(1000\)"):
            clf.explain(X)


def test_rows_to_predict_may_have_the_target_still(tmp_path: Path) -> None:
    """The columns that `fit` was told are target and weights, and no others; also after the model was in a file."""
    rows = table(1).assign(times=1.0)
    model = fanbayes.NBClassifier().fit(rows, "fraud", "times")
    expected = model.predict_proba(rows[["amount", "kind"]])
    fanbayes.save(model, tmp_path / "model.fan")
    for found in (model, fanbayes.load(tmp_path / "model.fan")):
        np.testing.assert_array_equal(found.predict_proba(rows), expected)
        np.testing.assert_array_equal(found.predict_proba(rows.drop(columns="times")), expected)
        with pytest.raises(ValueError, match="Feature names unseen at fit time:\n- price"):
            found.predict_proba(rows.assign(price=1.0))
    again = model.fit(rows[["amount", "kind"]], rows["fraud"])
    with pytest.raises(ValueError, match="Feature names unseen at fit time:\n- fraud"):
        again.predict_proba(rows)


def test_a_model_of_an_array_takes_columns_by_position(dataset: Any) -> None:
    rows = table()
    model = fanbayes.NBClassifier().fit(rows[["amount"]].to_numpy(), rows["fraud"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        only = pl.from_pandas(table(1)[["amount"]]).lazy()
        np.testing.assert_array_equal(model.predict_proba(only), model.predict_proba(table(1)[["amount"]].to_numpy()))


def test_a_column_that_is_not_there_is_an_error_or_summed_out(clf: Any) -> None:
    lacking = pl.from_pandas(table(1)[["kind", "fraud"]]).lazy()
    with pytest.raises(ValueError, match="amount"):
        clf.predict_proba(lacking)
    lenient = fanbayes.NBClassifier(allow_missing_columns=True).fit(table()[["amount", "kind"]], table()["fraud"])
    with pytest.warns(DataWarning, match="summed out"):
        found = lenient.predict_proba(lacking)
    with pytest.warns(DataWarning, match="summed out"):
        np.testing.assert_array_equal(found, lenient.predict_proba(table(1)[["kind"]]))


def test_a_kind_of_trap_is_warned_of_once(clf: Any, tmp_path: Path) -> None:
    for k in range(3):
        pq.write_table(pa.table({"amount": [1.0], "kind": [f"new {k}"]}), tmp_path / f"{k}.parquet")
    with pytest.warns(DataWarning) as caught:
        clf.predict(ds.dataset(tmp_path))
    assert len(caught) == 1


def test_an_error_names_the_batch(clf: Any, tmp_path: Path) -> None:
    pq.write_table(pa.table({"amount": [1.0], "kind": ["car"]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"amount": [np.inf], "kind": ["car"]}), tmp_path / "b.parquet")
    with pytest.raises(ValueError, match=r"b\.parquet: column 'amount' contains infinity; replace it"):
        clf.predict_proba(ds.dataset(tmp_path))


def test_a_table_without_rows_is_refused(clf: Any) -> None:
    with pytest.raises(ValueError, match="the table has no rows; give at least one"):
        clf.predict_proba(pl.from_pandas(table(1)).lazy().filter(pl.lit(False)))
