"""Summaries of parts of a table add up to the summary of the table."""

import itertools
import pickle

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fanbayes.data.sources import frame_sources
from fanbayes.data.summary import summarise

N = 400


def table(seed=0):
    """Columns of all kinds, with values missing, constant ones and an empty one; labels, some of them missing."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(-1, 3, N)

    def with_gaps(values, share=0.2):
        return [None if gap else v for v, gap in zip(values, rng.random(N) < share)]

    frame = {
        "text": with_gaps(rng.choice(["b", "a", "däm", "zz"], N)),
        "whole": rng.integers(-3, 9, N).tolist(),
        "codes": with_gaps(rng.integers(0, 5, N).tolist()),
        "halves": (rng.integers(0, 60, N) / 2).tolist(),
        "truth": (rng.random(N) < 0.3).tolist(),
        "perhaps": with_gaps((rng.random(N) < 0.5).tolist()),
        "x": with_gaps((3 + 2 * rng.normal(size=N) + 3 * labels).tolist()),
        "large": (1e300 * rng.normal(size=N)).tolist(),
        "spread": (10.0 ** rng.uniform(-200, 200, N)).tolist(),
        "offset": (1e9 + rng.normal(size=N)).tolist(),
        "flat": [2.5] * N,
        "one": ["only"] * N,
        "none": pl.Series([None] * N, dtype=pl.String),
        "no_numbers": pl.Series([None] * N, dtype=pl.Float64),
    }
    return pl.DataFrame(frame, strict=False), labels, rng.integers(1, 4, N) / 2


def summary(frame, labels, weights=None, where="the table"):
    classes = np.unique(labels[labels >= 0])
    codes = np.where(labels < 0, -1, np.searchsorted(classes, labels)).astype(np.int32)
    sources = list(frame_sources(nw.from_native(frame, eager_only=True)))
    is_category = [s.name in {"codes", "halves"} or s.symbolic for s in sources]
    options = {"counts": True, "missing": "informative", "where": where}
    return summarise(sources, is_category, codes, weights, np.array(["no", "so", "yes"])[classes], **options)


def pieces(frame, labels, weights, ends):
    edges = [0, *sorted(ends), N]
    for i, (a, b) in enumerate(itertools.pairwise(edges)):
        yield summary(frame[a:b], labels[a:b], None if weights is None else weights[a:b], f"part {i}")


def assert_same(found, whole):
    assert found.n_rows == whole.n_rows
    assert found.n_unlabelled == whole.n_unlabelled
    assert found.weight == pytest.approx(whole.weight, rel=1e-12)
    assert found.classes.tolist() == whole.classes.tolist()
    options = ("polars", "mdlp", {3: "poisson"}, "informative")
    one, other = found.schema(*options), whole.schema(*options)
    assert one.indicates == other.indicates
    for a, b in zip(one.columns, other.columns):
        for name in ("name", "kind", "dtype", "levels", "low", "high", "exponent", "distribution"):
            np.testing.assert_equal(getattr(a, name), getattr(b, name), err_msg=a.name)
        assert [*map(type, a.levels)] == [*map(type, b.levels)]
        np.testing.assert_allclose([a.centre, a.scale, a.mean], [b.centre, b.scale, b.mean], rtol=1e-12, atol=1e-15)
        np.testing.assert_array_equal(a.cuts, b.cuts)


@settings(max_examples=25, deadline=None)
@given(ends=st.lists(st.integers(0, N), max_size=12), weighted=st.booleans(), seed=st.integers(0, 3))
def test_parts_add_up_to_the_whole(ends, weighted, seed):
    frame, labels, weights = table(seed)
    weights = weights if weighted else None
    found, *others = pieces(frame, labels, weights, ends)
    for other in others:
        found = pickle.loads(pickle.dumps(found + other.compact()))
    assert_same(found, summary(frame, labels, weights))


def test_the_whole_has_what_the_columns_hold():
    frame, labels, _ = table()
    schema = summary(frame, labels).schema("polars", "mdlp", missing="informative")
    assert schema["codes"].levels == (0, 1, 2, 3, 4)
    assert schema["halves"].levels[:3] == (0.0, 0.5, 1.0)
    assert schema["text"].levels == ("a", "b", "däm", "zz")
    assert schema["truth"].levels == (False, True)
    assert schema["x"].kind == "binned"
    assert len(schema["x"].cuts) >= 1
    assert schema["none"].kind == "continuous"
    assert {schema[j].name for j in schema.indicates} == {"text", "codes", "perhaps", "x"}


def test_rows_of_one_class_at_a_time():
    frame, labels, weights = table()
    order = np.argsort(labels, kind="stable")
    frame, labels = frame[order.tolist()], labels[order]
    found, *others = pieces(frame, labels, weights, np.searchsorted(labels, [0, 1, 2]).tolist())
    assert found.n_unlabelled == found.n_rows
    assert len(found.classes) == 0
    for other in others:
        assert len(other.classes) == 1
        found += other
    assert_same(found, summary(frame, labels, weights))


@pytest.mark.parametrize("empty_first", [False, True])
def test_an_empty_part(empty_first):
    frame, labels, _ = table()
    empty, whole = summary(frame[:0], labels[:0]), summary(frame, labels)
    assert_same(empty + whole if empty_first else whole + empty, whole)


def test_values_that_appear_late_in_columns_of_nulls():
    frame = pl.DataFrame({"text": [None, None, "a"], "x": [None, 1.0, 2.0], "t": [None, None, True]})
    labels = np.zeros(3, dtype=int)
    found = summary(frame[:1], labels[:1]) + summary(frame[1:2], labels[1:2]) + summary(frame[2:], labels[2:])
    schema = found.schema("polars")
    assert schema["text"].levels == ("a",)
    assert (schema["x"].low, schema["x"].high) == (1.0, 2.0)
    assert schema["t"].levels == (True,)


def test_whole_numbers_and_fractions_as_categories():
    parts = [pl.DataFrame({"codes": values}) for values in ([1.0, 3.0], [2.5], [7.0])]
    found = [summary(part, np.zeros(len(part), dtype=int)) for part in parts]
    levels = (found[0] + found[1] + found[2]).schema("polars")["codes"].levels
    assert levels == (1.0, 2.5, 3.0, 7.0)
    assert {*map(type, levels)} == {float}


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda v: pa.table({"c": pa.array(v).dictionary_encode()}), ("a", "b", "c")),
        (lambda v: pd.DataFrame({"c": pd.Categorical(v, categories=["c", "b", "a", "z"])}), ("c", "b", "a", "z")),
        (lambda v: pd.DataFrame({"c": pd.Categorical(v)}), ("a", "b", "c")),
        (lambda v: pl.DataFrame({"c": v}, schema={"c": pl.Enum(["c", "a", "b"])}), ("c", "a", "b")),
        (lambda v: pl.DataFrame({"c": v}, schema={"c": pl.Categorical}), ("a", "b", "c")),
    ],
)
def test_categories_of_types_that_declare_them(make, expected):
    found = [summary(make(v), np.zeros(2, dtype=int)) for v in (["b", None], ["c", "a"], [None, None])]
    assert (found[0] + found[1] + found[2]).schema("pandas")["c"].levels == expected


def test_columns_that_differ_are_named():
    labels = np.zeros(2, dtype=int)
    one = summary(pl.DataFrame({"a": [1.0, 2.0], "b": ["u", "v"]}), labels, where="one.parquet")
    for frame, said in [
        ({"a": [1.0, 2.0]}, r"two\.parquet has no column 'b', which one\.parquet has"),
        ({"a": [1.0, 2.0], "b": ["u", "v"], "c": [1, 2]}, r"one\.parquet has no column 'c', which two\.parquet has"),
        ({"b": ["u", "v"], "a": [1.0, 2.0]}, r"in another order"),
        ({"a": [1.0, 2.0], "b": [1, 2]}, r"column 'b' holds strings in one\.parquet and numbers in two\.parquet"),
        ({"a": [True, False], "b": ["u", "v"]}, r"'a' holds numbers in one\.parquet and booleans in two\.parquet"),
    ]:
        with pytest.raises(ValueError, match=said):
            one + summary(pl.DataFrame(frame), labels, where="two.parquet")
    nulls = pl.DataFrame({"a": [None, None], "b": [None, None]}, schema={"a": pl.Float64, "b": pl.String})
    later = summary(pl.DataFrame({"a": ["x", "y"], "b": ["u", "v"]}), labels, where="three.parquet")
    with pytest.raises(ValueError, match=r"'a' holds numbers in one\.parquet and strings in three\.parquet"):
        summary(nulls, labels, where="zero.parquet") + one + later


def test_classes_of_different_types_are_refused():
    one = summary(pl.DataFrame({"a": [1.0]}), np.zeros(1, dtype=int))
    sources = list(frame_sources(nw.from_native(pl.DataFrame({"a": [1.0]}))))
    other = summarise(sources, [False], np.zeros(1, np.int32), None)
    with pytest.raises(ValueError, match="y mixes labels of different types"):
        one + other


def test_integers_and_floats_are_numbers():
    labels = np.zeros(2, dtype=int)
    found = summary(pl.DataFrame({"a": [1, 2]}), labels) + summary(pl.DataFrame({"a": [0.5, 2.5]}), labels)
    assert found.schema("polars")["a"].dtype == "Float64"
    assert found.schema("polars")["a"].low == 0.5


def test_categories_that_one_part_declares_and_another_has_as_text_are_all_known():
    declared, text = pd.DataFrame({"c": pd.Categorical(["b"], ["b", "a"])}), pd.DataFrame({"c": ["new", "a"]})
    labels = np.zeros(2, dtype=np.int32)
    parts = [
        summarise(list(frame_sources(nw.from_native(part))), [True], labels[: len(part)], None)
        for part in (declared, text)
    ]
    for one, other in (parts, parts[::-1]):
        assert (one + other).schema("pandas")["c"].levels == ("a", "b", "new")
