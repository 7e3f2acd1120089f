"""Raw columns of any library, asked the same few questions."""

import datetime
import decimal
import math

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fanbayes.data.sources import MOST_TOGETHER, array_source, array_sources, frame_sources, is_missing, series_source

FEW = settings(max_examples=60, deadline=None)


def source_of(native, name="a"):
    return series_source(nw.from_native(native, series_only=True), name)


def objects(*values):
    return np.fromiter(values, object, len(values))


def decode(source):
    """Values of a discrete source by way of its codes, None where missing."""
    levels = [*source.distinct(), None]
    return [levels[k] for k in source.codes(levels[:-1])]


# ---------------------------------------------------------------- what is missing


@pytest.mark.parametrize("value", [None, math.nan, np.nan, np.float32("nan"), pd.NA, pd.NaT, np.datetime64("NaT")])
def test_missing_values(value):
    assert is_missing(value)


@pytest.mark.parametrize("value", [0, 0.0, "", "nan", False, -1, math.inf, [], np.arange(2)])
def test_values_that_are_not_missing(value):
    assert not is_missing(value)


# ---------------------------------------------------------------- NumPy


@FEW
@given(
    hnp.arrays(
        st.sampled_from([np.int8, np.uint8, np.int16, np.uint16, np.int32, np.int64, np.uint64]), st.integers(1, 30)
    )
)
def test_integers_are_found_again(values):
    """Whatever their width: differences within a type may not fit into it."""
    source = array_source(values, "a")
    assert source.distinct() == sorted(set(values.tolist()))
    assert decode(source) == values.tolist()
    assert not source.missing().any()
    assert source.content == "numbers"


@FEW
@given(hnp.arrays(st.sampled_from([np.float32, np.float64]), st.integers(1, 30), elements={"allow_infinity": False}))
def test_floats_are_found_again(values):
    source = array_source(values, "a")
    known = values[~np.isnan(values)]
    assert source.distinct() == sorted(set(known.tolist()))
    assert decode(source) == [None if v != v else v for v in values.tolist()]
    np.testing.assert_array_equal(source.missing(), np.isnan(values))
    np.testing.assert_array_equal(source.numbers(), values.astype(float))


@FEW
@given(st.lists(st.one_of(st.none(), st.text(max_size=3)), min_size=1).filter(any))
def test_strings_are_found_again(values):
    source = array_source(objects(*values), "a")
    assert source.content == "symbols"
    assert source.distinct() == sorted({v for v in values if v is not None})
    assert decode(source) == values


def test_levels_that_were_never_seen_have_no_code():
    codes = array_source(np.array([3.0, 1.5, np.nan, 7, -2]), "a").codes([1, 3, 7])
    np.testing.assert_array_equal(codes, [1, 3, 3, 2, 3])
    codes = array_source(np.array([-5, 5, 100], dtype=np.int8), "a").codes(list(range(301)))
    np.testing.assert_array_equal(codes, [301, 5, 100])
    codes = array_source(objects("a", "zz", None), "a").codes(["zz", "a"])
    np.testing.assert_array_equal(codes, [1, 0, 2])


def test_whole_floats_are_integers():
    found = array_source(np.array([2.0, 1.0]), "a").distinct()
    assert found == [1, 2]
    assert all(type(v) is int for v in found)


@pytest.mark.parametrize("values", [np.array([True, False, True]), objects(True, False, True)])
def test_booleans_are_symbols(values):
    source = array_source(values, "a")
    assert source.content == "symbols"
    assert all(type(v) is bool for v in source.distinct())
    assert decode(source) == [True, False, True]


def test_numpys_and_pythons_scalars_are_the_same_category():
    source = array_source(objects(np.str_("a"), "b", None, np.str_("b")), "a")
    assert decode(source) == ["a", "b", None, "b"]
    assert all(type(v) is str for v in source.distinct())
    assert decode(array_source(objects(np.True_, False, None), "a")) == [True, False, None]


def test_objects_that_are_numbers():
    source = array_source(objects(1, 2.5, None, np.float32(3), decimal.Decimal("4.5")), "a")
    np.testing.assert_array_equal(source.numbers(), [1, 2.5, np.nan, 3, 4.5])
    assert array_source(objects(None, np.nan, pd.NA), "a").content == "nothing"


@pytest.mark.parametrize(
    "values",
    [
        objects([1], [2]),
        objects([1, 2], [3, 4]),
        objects(np.arange(2), np.arange(2)),
        objects({"a": 1}, {"a": 2}),
        objects(datetime.date(2020, 1, 1), None),
        objects(1 + 2j, 1j),
        np.array(["2020-01-01"], dtype="datetime64[D]"),
        np.array([3], dtype="timedelta64[s]"),
    ],
    ids=lambda v: str(v[0]),
)
def test_what_is_neither_number_nor_category(values):
    with pytest.raises(TypeError, match=r"column 'age'.*(turn (it|them) into numbers, .*, or drop it)"):
        array_source(values, "age")


def test_strings_among_numbers():
    with pytest.raises(ValueError, match="column 'age' mixes int and str values; make all of them strings"):
        array_source(objects(1, "a"), "age")


def test_an_infinite_category():
    with pytest.raises(ValueError, match="column 'age' contains infinity"):
        array_source(np.array([1.5, np.inf]), "age").distinct()


def test_columns_of_an_array_keep_their_names():
    found = list(array_sources(np.array([[1.0, 2.0], [3.0, 4.0]]), ["a", "b"]))
    assert [s.name for s in found] == ["a", "b"]
    np.testing.assert_array_equal(found[1].numbers(), [2, 4])


# ---------------------------------------------------------------- data frames

NUMBERS = [1, None, 3]
NUMERIC_SERIES = {
    "pandas float": pd.Series([1.0, np.nan, 3.0]),
    "pandas Int64": pd.Series(NUMBERS, dtype="Int64"),
    "pandas Float32": pd.Series(NUMBERS, dtype="Float32"),
    "pandas pyarrow": pd.Series(NUMBERS, dtype="int64[pyarrow]"),
    "pandas object": pd.Series(NUMBERS, dtype=object),
    "polars Int8": pl.Series(NUMBERS, dtype=pl.Int8),
    "polars Float64": pl.Series([1.0, None, 3.0]),
    "polars UInt64": pl.Series(NUMBERS, dtype=pl.UInt64),
    "polars Int128": pl.Series(NUMBERS, dtype=pl.Int128),
    "polars NaN": pl.Series([1.0, float("nan"), 3.0]),
    "pyarrow int32": pa.chunked_array([NUMBERS], pa.int32()),
    "pyarrow chunks": pa.chunked_array([NUMBERS[:1], NUMBERS[1:]], pa.float64()),
    "pyarrow decimal": pa.chunked_array([[decimal.Decimal(1), None, decimal.Decimal(3)]]),
}


@pytest.mark.parametrize("native", NUMERIC_SERIES.values(), ids=NUMERIC_SERIES.keys())
def test_numbers_of_a_frame(native):
    source = source_of(native)
    assert source.content == "numbers"
    np.testing.assert_array_equal(source.numbers(), [1, np.nan, 3])
    np.testing.assert_array_equal(source.missing(), [False, True, False])
    assert source.distinct() == [1, 3]
    np.testing.assert_array_equal(source.codes([3, 2, 1]), [2, 3, 0])


STRINGS = ["b", None, "a", "b"]
STRING_SERIES = {
    "pandas str": pd.Series(STRINGS),
    "pandas object": pd.Series(STRINGS, dtype=object),
    "pandas string": pd.Series(STRINGS, dtype="string"),
    "pandas pyarrow": pd.Series(STRINGS, dtype="string[pyarrow]"),
    "pandas category": pd.Series(STRINGS, dtype="category"),
    "polars String": pl.Series(STRINGS),
    "polars Categorical": pl.Series(STRINGS, dtype=pl.Categorical),
    "polars Enum": pl.Series(STRINGS, dtype=pl.Enum(["a", "b"])),
    "pyarrow string": pa.chunked_array([STRINGS]),
    "pyarrow large_string": pa.chunked_array([STRINGS], pa.large_string()),
    "pyarrow dictionary": pa.chunked_array([pa.array(STRINGS).dictionary_encode()]),
    "pyarrow dictionaries": pa.chunked_array(
        [pa.array(part).dictionary_encode() for part in (STRINGS[:3], STRINGS[3:])]
    ),
    "pandas pyarrow dictionary": pd.Series(STRINGS, dtype=pd.ArrowDtype(pa.dictionary(pa.int32(), pa.string()))),
}


@pytest.mark.parametrize("native", STRING_SERIES.values(), ids=STRING_SERIES.keys())
def test_strings_of_a_frame(native):
    source = source_of(native)
    assert source.content == "symbols"
    assert source.distinct() == ["a", "b"]
    assert decode(source) == STRINGS
    np.testing.assert_array_equal(source.missing(), [False, True, False, False])
    np.testing.assert_array_equal(source.codes(["x", "b"]), [1, 2, 2, 1])
    np.testing.assert_array_equal(source.codes([1, 2]), [2, 2, 2, 2])
    with pytest.raises(TypeError, match="column 'a' holds"):
        source.numbers()


BOOLEANS = [True, None, False]
BOOLEAN_SERIES = {
    "pandas boolean": pd.Series(BOOLEANS, dtype="boolean"),
    "pandas object": pd.Series(BOOLEANS, dtype=object),
    "polars": pl.Series(BOOLEANS),
    "pyarrow": pa.chunked_array([BOOLEANS]),
}


@pytest.mark.parametrize("native", BOOLEAN_SERIES.values(), ids=BOOLEAN_SERIES.keys())
def test_booleans_of_a_frame(native):
    source = source_of(native)
    assert source.content == "symbols"
    assert decode(source) == BOOLEANS
    assert all(type(v) is bool for v in source.distinct())


@pytest.mark.parametrize(
    "native", [pd.Series([True, False]), pl.Series([True, False]), pa.chunked_array([[True, False]])]
)
def test_booleans_without_a_missing_value(native):
    assert decode(source_of(native)) == [True, False]


@pytest.mark.parametrize(
    "native",
    [
        pd.Series(pd.Categorical(["b", "a"], categories=["c", "b", "a"])),
        pd.Series(pd.Categorical(["b", "a"], categories=["c", "b", "a"], ordered=True)),
        pl.Series(["b", "a"], dtype=pl.Enum(["c", "b", "a"])),
    ],
    ids=["pandas", "pandas ordered", "polars Enum"],
)
def test_declared_categories_keep_their_order(native):
    source = source_of(native)
    assert list(source.declared) == ["c", "b", "a"]
    np.testing.assert_array_equal(source.codes(source.declared), [1, 2])


@pytest.mark.parametrize("levels", [[1, 2], [1.5, 2.5], [True, False]])
def test_categories_of_pandas_need_not_be_strings(levels):
    source = source_of(pd.Series(pd.Categorical(levels)))
    assert source.content == "symbols"
    assert decode(source) == levels


def test_categories_of_other_columns_do_not_leak_in():
    pl.Series(["x", "y", "z"], dtype=pl.Categorical)
    assert source_of(pl.Series(["b", "a"], dtype=pl.Categorical)).distinct() == ["a", "b"]


@pytest.mark.parametrize(
    "native",
    [
        pd.Series([None, None]),
        pd.Series([np.nan, np.nan]),
        pd.Series([pd.NaT, pd.NaT]),
        pd.Series([None, None], dtype="string"),
        pd.Series([None, None], dtype="category"),
        pd.Series([None, None], dtype="Int64"),
        pl.Series([None, None]),
        pl.Series([None, None], dtype=pl.String),
        pl.Series([None, None], dtype=pl.Categorical),
        pl.Series([None, None], dtype=pl.Enum(["a"])),
        pa.chunked_array([[None, None]]),
        pa.chunked_array([[None, None]], pa.string()),
    ],
    ids=lambda s: f"{type(s).__module__.split('.')[0]} {getattr(s, 'dtype', getattr(s, 'type', ''))}",
)
def test_columns_without_any_value(native):
    source = source_of(native)
    assert source.content == "nothing"
    assert source.missing().all()
    np.testing.assert_array_equal(source.codes(["a", "b"]), [2, 2])
    np.testing.assert_array_equal(source.codes([1, 2, 3]), [3, 3])


@pytest.mark.parametrize(
    "native",
    [
        pd.Series(pd.to_datetime(["2020-01-01"])),
        pd.Series(pd.to_timedelta([3])),
        pd.Series([[1, 2]]),
        pd.Series([{"a": 1}]),
        pl.Series([datetime.date(2020, 1, 1)]),
        pl.Series([datetime.time(1)]),
        pl.Series([[1, 2]]),
        pl.Series([{"a": 1}]),
        pa.chunked_array([[datetime.datetime(2020, 1, 1)]]),
        pa.chunked_array([[[1, 2]]]),
        pa.chunked_array([[{"a": 1}]]),
    ],
    ids=lambda s: f"{type(s).__module__.split('.')[0]} {getattr(s, 'dtype', getattr(s, 'type', ''))}",
)
def test_frames_with_dates_or_nested_values(native):
    with pytest.raises(TypeError, match=r"column 'when'.*turn (it|them) into numbers, .*, or drop it"):
        source_of(native, "when")


LARGEST = 2**63 - 1
NULLABLE_INTEGERS = {
    "pyarrow uint64": pa.chunked_array([[1, None, LARGEST]], pa.uint64()),
    "pyarrow int64": pa.chunked_array([[1, None, LARGEST]], pa.int64()),
    "pandas pyarrow": pd.Series([1, None, LARGEST], dtype=pd.ArrowDtype(pa.uint64())),
    "pandas UInt64": pd.Series([1, None, LARGEST], dtype="UInt64"),
    "polars UInt64": pl.Series([1, None, LARGEST], dtype=pl.UInt64),
    "polars Int128": pl.Series([1, None, LARGEST], dtype=pl.Int128),
}


@pytest.mark.parametrize("native", NULLABLE_INTEGERS.values(), ids=NULLABLE_INTEGERS)
def test_integers_beside_nulls_may_be_as_large_as_there_are(native):
    np.testing.assert_array_equal(source_of(native).numbers(), [1, np.nan, 2.0**63])


def test_integers_of_128_bits():
    assert source_of(pl.Series([1, 2**62 + 1], dtype=pl.Int128)).distinct() == [1, 2**62 + 1]
    np.testing.assert_array_equal(source_of(pl.Series([1, 2**100], dtype=pl.Int128)).numbers(), [1, 2.0**100])


def test_categories_of_an_arrow_dictionary_keep_their_type():
    dictionary = pa.array([7, None, 3, 7]).dictionary_encode()
    for native in (pa.chunked_array([dictionary]), pd.Series(dictionary, dtype=pd.ArrowDtype(dictionary.type))):
        assert decode(source_of(native)) == [7, None, 3, 7]


@pytest.mark.parametrize(
    ("categories", "texts"),
    [
        (pd.interval_range(0, 2), ["(0, 1]", "(1, 2]"]),
        (pd.to_datetime(["2020-01-01", "2021-01-01"]), ["2020-01-01 00:00:00", "2021-01-01 00:00:00"]),
        (pd.period_range("2020", periods=2, freq="Y"), ["2020", "2021"]),
    ],
    ids=["intervals", "dates", "periods"],
)
def test_categories_of_pandas_that_are_written_out(categories, texts):
    source = source_of(pd.Series(pd.Categorical.from_codes([1, 0, -1], categories)))
    assert source.declared == texts
    assert decode(source) == [texts[1], texts[0], None]


@pytest.mark.parametrize(
    "category", [(1, 2), np.inf, 10**400, decimal.Decimal(1)], ids=["tuple", "inf", "10**400", "decimal"]
)
def test_categories_that_are_neither_text_nor_numbers(category):
    values = pd.Categorical.from_codes([0, 1], pd.Index(["a", category], dtype=object, tupleize_cols=False))
    with pytest.raises(TypeError, match=r"column 'a' has the category .*neither text.*rename_categories\(str\)"):
        source_of(pd.Series(values))
    nested = pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array([[1], [2]]))
    with pytest.raises(TypeError, match=r"column 'a' has the category \[1\]"):
        source_of(pa.chunked_array([nested]))


def test_numbers_too_large_for_a_float():
    with pytest.raises(TypeError, match=r"column 'a' holds a number beyond 1\.8e308; divide"):
        array_source(objects(1, 10**400), "a")


@pytest.mark.parametrize("native", [*NUMERIC_SERIES.values(), *STRING_SERIES.values(), *BOOLEAN_SERIES.values()])
@pytest.mark.parametrize("n_columns", [1, 7])
def test_columns_of_a_frame_are_read_alike_together_and_alone(native, n_columns):
    """Where columns outnumber rows all of plain types are converted together, else numbers are."""
    series = nw.from_native(native, series_only=True)
    alone = series_source(series, "a")
    assert len(series) in range(1, 7)
    for one in frame_sources(nw.from_dict({name: series.alias(name) for name in "abcdefg"[:n_columns]})):
        assert one.dtype == alone.dtype
        assert (one.symbolic, one.content, one.declared) == (alone.symbolic, alone.content, alone.declared)
        assert one.distinct() == alone.distinct()
        np.testing.assert_array_equal(one.missing(), alone.missing())
        np.testing.assert_array_equal(one.codes(alone.distinct()), alone.codes(alone.distinct()))


def test_numbers_of_many_rows_are_not_copied():
    values = np.arange(MOST_TOGETHER + 1.0)
    [source] = frame_sources(nw.from_native(pd.DataFrame({"a": values}, copy=False)))
    assert np.shares_memory(source.values, values)


def test_columns_of_a_frame_keep_their_names():
    frame = nw.from_native(pl.DataFrame({"a": [1.0], "b": ["x"]}))
    assert [(s.name, s.content) for s in frame_sources(frame)] == [("a", "numbers"), ("b", "symbols")]


def test_numbers_among_categories_that_are_also_text():
    """A pandas type may declare both; the numbers are found whatever they come as."""
    levels = [2.0, "unused", 1.0]
    for values in ([1, 2, 3], [1.0, 2.0, np.nan]):
        assert array_source(np.array(values), "a").codes(levels).tolist() == [2, 0, 3]


TEXTS = ["b", None, "a", "b", "c", None]


@pytest.mark.parametrize(
    "make",
    [
        lambda v: array_source(np.array(v, dtype=object), "x"),
        lambda v: source_of(pd.Series(v, dtype=object)),
        lambda v: source_of(pd.Series(v, dtype="string[pyarrow]")),
        lambda v: source_of(pd.Series(v, dtype="category")),
        lambda v: source_of(pl.Series(v)),
        lambda v: source_of(pa.chunked_array([v])),
        lambda v: source_of(pa.chunked_array([pa.array(v).dictionary_encode()])),
    ],
)
def test_checksums_of_texts_add_up_whatever_they_came_in(make):
    whole = make(TEXTS).checksum()
    assert whole == make(TEXTS[::-1]).checksum() == (make(TEXTS[:2]).checksum() + make(TEXTS[2:]).checksum()) % 2**64
    assert whole == array_source(np.array(TEXTS, dtype=object), "x").checksum()
    assert whole != make(["b", None, "a", "b", "b", None]).checksum()


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.uint8, bool])
def test_checksums_of_numbers_add_up(dtype):
    values = np.array([3, 0, 1, 1, 7]).astype(dtype)
    whole = array_source(values, "x").checksum()
    parts = (array_source(part, "x").checksum() for part in (values[::-2], values[1::2]))
    assert whole == sum(parts) % 2**64
    assert whole != array_source(np.array([0, 0, 1, 1, 7]).astype(dtype), "x").checksum()
