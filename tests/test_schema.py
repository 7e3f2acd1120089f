"""What columns are: learnt, written down, read back."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fanbayes.data.schema import MAX_LEVELS, Column, Schema, category_mask, check_content, is_wide
from fanbayes.data.sources import array_source

FINITE = st.floats(allow_nan=False, allow_infinity=False)
LEVELS = st.one_of(
    st.lists(st.text(max_size=5), unique=True, max_size=6),
    st.lists(st.integers(-(2**40), 2**40), unique=True, max_size=6),
    st.lists(FINITE, unique=True, max_size=6),
    st.sampled_from([[], [False], [False, True]]),
)


@st.composite
def columns(draw):
    name, dtype = draw(st.text(max_size=8)), draw(st.sampled_from(["float64", "String", "Enum(categories=['a'])"]))
    kind = draw(st.sampled_from(["discrete", "continuous", "binned"]))
    if kind == "discrete":
        return Column(name, kind, dtype, levels=tuple(draw(LEVELS)))
    numbers = {
        "low": draw(st.one_of(FINITE, st.just(math.nan))),
        "high": draw(FINITE),
        "exponent": draw(st.integers(-1074, 1024)),
        "centre": draw(st.one_of(FINITE, st.just(math.nan))),
        "scale": draw(st.floats(0, 1)),
    }
    cuts = tuple(sorted(draw(st.lists(FINITE, unique=True, max_size=5)))) if kind == "binned" else ()
    return Column(name, kind, dtype, cuts=cuts, **numbers)


@settings(max_examples=100, deadline=None)
@given(st.lists(columns(), max_size=5), st.sampled_from([None, "pandas", "polars", "pyarrow"]))
def test_schemas_survive_json(found, frame):
    schema = Schema(tuple(found), frame)
    values = json.loads(json.dumps(schema.to_json()))
    again = Schema(tuple(map(Column.from_json, values["columns"])), values["frame"])
    assert repr(again.to_json()) == repr(schema.to_json())  # NaN is not equal to itself; True is equal to 1
    assert hash(again) is not None  # tuples, as before


def discrete(name, *levels):
    return Column(name, "discrete", "object", levels=levels)


def continuous(name, scale=1.0):
    return Column(name, "continuous", "float64", low=0.0, high=1.0, centre=0.5, scale=scale)


def test_columns_by_name_and_by_position():
    schema = Schema((discrete("a", "x", "y"), continuous("b")), None)
    assert schema["b"] is schema[1] is schema.columns[1]
    with pytest.raises(KeyError, match="no column 'c'; the columns are 'a', 'b'"):
        schema["c"]


def test_columns_that_tell_nothing_are_left_out():
    binned = Column("cut", "binned", "float64", cuts=(0.5,), scale=1.0)
    uncut = Column("uncut", "binned", "float64", scale=1.0)
    constant = Column("constant", "binned", "float64", scale=0.0)
    schema = Schema(
        (
            discrete("one", "x"),
            continuous("number"),
            discrete("none"),
            binned,
            continuous("flat", 0.0),
            uncut,
            constant,
            discrete("two", "x", "y"),
        ),
        None,
    )
    assert schema.discrete == [3, 7]
    assert schema.continuous == [1]
    # One interval is a finding about the classes, no defect of the column: nothing to warn of.
    assert schema.constant == ["one", "none", "flat", "constant"]


def test_narrow_columns_come_before_wide_ones():
    wide, narrow = discrete("wide", *range(256)), discrete("narrow", *range(255))
    assert is_wide(wide)
    assert not is_wide(narrow)
    found = Schema((wide, narrow, continuous("x"), discrete("b", 0, 1)), None).discrete
    assert sorted(found) == [0, 1, 3]
    assert found[-1] == 0


def test_too_many_categories():
    from fanbayes.data.summary import summarise

    def learnt(values):
        return summarise([array_source(values, "id")], [True], np.zeros(len(values), np.int32), None)

    values = np.array([f"v{i}" for i in range(MAX_LEVELS + 1)])
    assert learnt(values[1:]).schema(None)["id"].n_levels == MAX_LEVELS
    with pytest.raises(ValueError, match=r"'id' has 65536 categories, more than 65535; drop it .* or merge"):
        learnt(values).schema(None)
    with pytest.raises(ValueError, match=r"'id' has 65536 categories, more than 65535; drop it .* or merge"):
        learnt(values[1:]) + learnt(values[:1])


# ---------------------------------------------------------------- which columns are categories

NAMES = ("a", "b", "c")


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ("from_dtype", [True, False, False]),
        ("all", [True, True, True]),
        (None, [False, False, False]),
        ([], [False, False, False]),
        (["b", "c"], [False, True, True]),
        (np.array(["c"]), [False, False, True]),
        ([0, 2], [True, False, True]),
        ([-1], [False, False, True]),
        (np.array([1]), [False, True, False]),
        ([False, True, False], [False, True, False]),
        ((True, True, False), [True, True, False]),
    ],
    ids=str,
)
def test_categorical_features(said, wanted):
    assert category_mask(said, NAMES, [True, False, False]) == wanted


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("b", "neither 'from_dtype' nor 'all'; put the name of a single column into a list"),
        (["d"], r"names 'd', which is not a column; the columns are \['a', 'b', 'c'\]"),
        ([3], "contains 3; it takes names, a mask, or indices from 0 to 2"),
        ([-4], "contains -4"),
        ([0.5], "contains 0.5"),
        ([True, False], r"mask of shape \(2,\); it needs one entry for each of 3 columns"),
    ],
    ids=str,
)
def test_categorical_features_that_make_no_sense(said, message):
    with pytest.raises(ValueError, match=message):
        category_mask(said, NAMES, [True, False, False])


# ---------------------------------------------------------------- the same content as in training

STRINGS, NUMBERS = np.array(["x", "y"]), np.array([1.0, 2.0])
NOTHING = np.full(2, np.nan)


@pytest.mark.parametrize(
    ("column", "values"),
    [
        (continuous("a"), NUMBERS),
        (continuous("a"), NOTHING),
        (discrete("a", "x"), STRINGS),
        (discrete("a", "x"), np.array([None, None], dtype=object)),
        (discrete("a", 1, 2), NUMBERS),
        (discrete("a", 1, 2), np.array([1, 2], dtype=np.int8)),
        (discrete("a", False, True), np.array([True, False])),
        (discrete("a", False, True), np.array([1.0, 0.0])),
        (discrete("a", 0, 1), np.array([True, False])),
        (discrete("a", 0, 1), np.array([True, None], dtype=object)),
        (discrete("a"), STRINGS),
    ],
)
def test_content_that_fits(column, values):
    check_content(column, array_source(values, "a"))


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        (continuous("a"), STRINGS, "'a' held numbers in training and holds <U1 values now; convert it to numbers"),
        (continuous("a"), np.array([True, False]), "'a' held numbers in training and holds bool values now"),
        (discrete("a", "x"), NUMBERS, "'a' held categories such as 'x' in training and holds numbers now; convert"),
        (discrete("a", 7), STRINGS, "'a' held values such as 7 in training and holds strings now; convert"),
        (
            discrete("a", "x"),
            np.array([True, False]),
            "'a' held categories such as 'x' in training and holds booleans now",
        ),
        (
            discrete("a", 1, 2),
            np.array([True, None], dtype=object),
            "'a' held values such as 1 in .* holds booleans now",
        ),
        (discrete("a", False, True), np.array([1, 2]), "'a' held booleans in training and holds 2 now; convert it to"),
    ],
)
def test_content_that_does_not_fit(column, values, message):
    with pytest.raises(ValueError, match=message):
        check_content(column, array_source(values, "a"))


def test_it_can_be_read():
    schema = Schema(
        (
            Column("age", "continuous", "float64", low=20.0, high=87.5, centre=50.0, scale=9.0),
            Column("visits", "continuous", "int64", low=0.0, high=9.0, scale=1.0, distribution="poisson", mean=2.0),
            Column("bill", "binned", "float64", cuts=(1.5, 2.5), low=0.25, high=4.0, scale=1.0),
            Column("colour\n", "discrete", "String", levels=tuple("abcdef")),
            Column("nothing", "continuous", "float64"),
            Column("also nothing", "discrete", "String"),
        ),
        None,
    )
    assert repr(schema).splitlines() == [
        "Schema of 6 columns",
        "name          kind        levels or range",
        "age           continuous  20 to 87.5",
        "visits        continuous  0 to 9, poisson",
        "bill          binned      0.25 to 4, 3 intervals",
        "colour\\n      discrete    a, b, c, d and 2 more",
        "nothing       continuous  nothing",
        "also nothing  discrete    nothing",
    ]
    wide = repr(Schema(tuple(Column(f"c{k}" * 30, "continuous", "float64") for k in range(200)), None)).splitlines()
    assert len(wide) == 33
    assert wide[-1] == "170 more"
    assert max(map(len, wide)) < 80
