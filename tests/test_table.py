"""Encoded tables: nothing is lost but the units, and those are known."""

import math
import pickle
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fanbayes import FANClassifier
from fanbayes.data.sources import array_sources, frame_sources
from fanbayes.data.table import encode_table, layout_of, learn_table
from fanbayes.data.traps import unseen_categories


def learn(data, categories, weights=None, names=None, discretize="none"):
    if isinstance(data, np.ndarray):
        sources, frame = list(array_sources(data, names or [f"x{j}" for j in range(data.shape[1])])), None
    else:
        sources, frame = list(frame_sources(nw.from_native(data))), "pandas"
    labels = np.zeros(len(data), dtype=np.int32)
    return learn_table(sources, categories, frame, labels, weights, discretize)


def sources_of(schema, data):
    if isinstance(data, np.ndarray):
        return list(array_sources(data, [c.name for c in schema.columns]))
    return list(frame_sources(nw.from_native(data)))


def encode(schema, data):
    return encode_table(schema, sources_of(schema, data), len(data))


def exactly_standardised(x, w):
    """(x - mean) / standard deviation in exact arithmetic, rounded at the end."""
    largest = Fraction(float(np.abs(x).max()))
    x, w = [Fraction(float(v)) / largest for v in x], [Fraction(float(v)) for v in w]
    mean = sum(a * b for a, b in zip(w, x)) / sum(w)
    variance = sum(a * (b - mean) ** 2 for a, b in zip(w, x)) / sum(w)
    return np.array([float(b - mean) / math.sqrt(variance) for b in x])


# ---------------------------------------------------------------- numbers

COLUMNS = {
    "ordinary": lambda z: 3 + 2 * z,
    "an offset of 1e9": lambda z: 1e9 + z,
    "an offset of -1e15": lambda z: -1e15 + np.rint(8 * z),
    "huge": lambda z: 1e307 * z,
    "the largest": lambda z: np.where(z > 0, 1.7e308, -1.7e308),
    "tiny": lambda z: 1e-300 * z,
    "subnormal": lambda z: 5e-324 * np.rint(100 * z),
    "all scales": lambda z: np.sign(z) * 10.0 ** np.linspace(-308, 308, len(z)),
}


@pytest.mark.parametrize("make", COLUMNS.values(), ids=COLUMNS.keys())
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n", [40, 5000])
def test_numbers_are_centred_and_scaled_before_anything_is_squared(make, weighted, n):
    rng = np.random.default_rng(0)
    x = make(rng.normal(size=n))
    w = rng.uniform(0.5, 2, n) if weighted else np.ones(n)
    schema, table = learn(x[:, None], [False], w if weighted else None)
    z = table.numbers[:, 0]
    assert np.isfinite(z).all()
    sample = slice(None, None, n // 40)
    column, size = schema[0], np.abs(x).max()
    # What is lost is rounding in the units of x: some of its last places, measured by the deviation.
    lost = 32 * float(Fraction(np.spacing(size)) / Fraction(size)) * max(1.0, abs(column.centre)) / column.scale
    if n == 40:
        np.testing.assert_allclose(z, exactly_standardised(x, w), rtol=1e-12, atol=lost)
    assert np.average(z, weights=w) == pytest.approx(0, abs=lost + 1e-12)
    assert np.average(z**2, weights=w) == pytest.approx(1, rel=lost + 1e-9)
    np.testing.assert_allclose(column.restore(z)[sample], x[sample], rtol=1e-12, atol=8 * np.spacing(size))
    np.testing.assert_array_equal(encode(schema, x[:, None]).numbers, table.numbers)
    assert (column.low, column.high) == (x.min(), x.max())


def test_values_far_outside_of_training_have_finite_squares():
    schema, _ = learn(np.array([[0.0], [1e-200]]), [False])
    z = encode(schema, np.array([[1e308], [-1e308]])).numbers
    assert np.isfinite(z**2).all()
    assert z[0] > 0 > z[1]


def test_missing_numbers_do_not_count():
    x = np.array([[1.0], [np.nan], [3.0], [np.nan]])
    schema, table = learn(x, [False], np.array([1.0, 50.0, 1.0, 50.0]))
    np.testing.assert_allclose(table.numbers[:, 0], [-1, np.nan, 1, np.nan])
    np.testing.assert_array_equal(encode(schema, x).numbers, table.numbers)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int32, np.int64, np.uint64, np.float32, np.float16])
def test_numbers_of_any_type(dtype):
    x = np.array([[1], [5], [100]], dtype=dtype)
    schema, table = learn(x, [False])
    wanted = (x[:, 0].astype(float) - 106 / 3) / x[:, 0].astype(float).std()
    np.testing.assert_allclose(table.numbers[:, 0], wanted)
    np.testing.assert_allclose(schema[0].restore(table.numbers[:, 0]), [1, 5, 100])


def test_arrays_of_any_layout():
    x = np.random.default_rng(0).normal(size=(30, 4))
    _, wanted = learn(x, [False] * 4)
    packed = np.zeros(30, dtype=[("byte", "i1"), ("x", "f8", 4)])
    packed["x"] = x
    for same in (np.asfortranarray(x), np.repeat(x, 2, axis=0)[::2], x[::-1][::-1], x.astype(">f8"), packed["x"]):
        np.testing.assert_array_equal(learn(same, [False] * 4)[1].numbers, wanted.numbers)


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_infinity(value):
    x = np.array([[1.0, 2.0], [2.0, value], [3.0, 4.0]])
    for categories in ([False, False], [False, True]):
        with pytest.raises(ValueError, match="column 'x1' contains infinity; replace it by a finite or a missing"):
            learn(x, categories)
    schema, _ = learn(np.nan_to_num(x, posinf=9, neginf=9), [False, False])
    with pytest.raises(ValueError, match="column 'x1' contains infinity"):
        encode(schema, x)


def test_columns_without_two_values_have_no_place():
    x = np.column_stack([np.ones(4), [1.0, 2, 1, 2], np.full(4, np.nan), [1, 1, np.nan, 1]])
    schema, table = learn(x, [False] * 4)
    assert table.numbers.shape == (4, 1)
    assert schema.constant == ["x0", "x2", "x3"]
    schema, table = learn(x, [True] * 4)
    assert table.narrow.shape == (4, 1)
    assert [c.levels for c in schema.columns] == [(1,), (1, 2), (), (1,)]


# ---------------------------------------------------------------- categories


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.sampled_from(["u8", "i1", "i2", "i4", "i8", "u8", "f4", "f8", "O", "?"]), min_size=1, max_size=5),
    st.integers(1, 12),
    st.randoms(use_true_random=False),
)
def test_codes_lead_back_to_the_values(dtypes, n, random):
    """Whatever the types of the columns: level of each code = value."""
    data = {}
    for j, dtype in enumerate(dtypes):
        if dtype == "O":
            values = [random.choice(["p", "q", None, "r"]) for _ in range(n)]
        elif dtype == "?":
            values = [random.random() < 0.5 for _ in range(n)]
        elif dtype.startswith("f"):
            values = [random.choice([0.5, -2.0, 1e20, float("nan"), 2.0**24, 1234.5]) for _ in range(n)]
        else:
            low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
            values = [random.choice([low, high, 0, 3, high // 2]) for _ in range(n)]
        data[f"c{j}"] = np.array(values, dtype=dtype)
    schema, table = learn(pd.DataFrame(data), [True] * len(dtypes))
    for k, j in enumerate(schema.discrete):
        levels = [*schema[j].levels, None]
        found = [levels[code] for code in table.narrow[:, k]]
        wanted = [None if v is None or v != v else v for v in data[f"c{j}"].tolist()]
        assert found == wanted
    again = encode(schema, pd.DataFrame(data))
    np.testing.assert_array_equal(again.narrow, table.narrow)


def test_codes_take_one_byte_up_to_255_levels_and_two_beyond():
    n = 70_000
    data = pd.DataFrame({"wide": np.arange(n) % 256, "narrow": np.arange(n) % 255, "max": np.arange(n) % 65_535})
    data["text"] = (np.arange(n) % 300).astype(str)
    data.loc[0, :] = None
    schema, table = learn(data.astype({"wide": "Int64", "narrow": "Int64", "max": "Int64"}), [True] * 4)
    assert table.narrow.dtype == np.uint8
    assert table.wide.dtype == np.uint16
    assert table.narrow.shape == (n, 1)
    assert table.wide.shape == (n, 3)
    np.testing.assert_array_equal(table.narrow[0], [255])
    np.testing.assert_array_equal(table.narrow[1:, 0], np.arange(1, n) % 255)
    names = [schema[j].name for j in schema.discrete]
    assert names[0] == "narrow"
    missing = {"wide": 256, "max": 65_535, "text": 300}  # one beyond the last level
    np.testing.assert_array_equal(table.wide[0], [missing[name] for name in names[1:]])
    np.testing.assert_array_equal(table.wide[1:, names.index("max") - 1], np.arange(1, n) % 65_535)
    assert table.layout.n_narrow == 1


def test_layout():
    schema, table = learn(np.array([["x", "a"], ["y", "b"], ["x", "c"]]), [True, True])
    layout = layout_of(schema)
    np.testing.assert_array_equal(layout.first_level, [0, 3, 7])
    np.testing.assert_array_equal(layout.n_levels, [2, 3])
    np.testing.assert_array_equal(layout.missing_level, [2, 6])
    np.testing.assert_array_equal(layout.column_of, [0, 0, 0, 1, 1, 1, 1])
    assert table.rows.n_rows == 3


@pytest.mark.parametrize(
    ("train", "test"),
    [
        (np.array([["a"], ["b"]]), np.array([["b"], ["z"]])),
        (np.array([[1], [2]]), np.array([[2.0], [1.5]])),
        (np.array([[0.5], [2.5]]), np.array([[2.5], [2.0]])),
        (np.array([[1], [2]]), np.array([[2], [-1]], dtype=np.int8)),
        (pl.DataFrame({"x0": ["a", "b"]}), pl.DataFrame({"x0": ["b", "z"]})),
        (pd.DataFrame({"x0": ["a", "b"]}, dtype="category"), pd.DataFrame({"x0": ["b", "z"]}, dtype="category")),
        (pa.table({"x0": ["a", "b"]}), pa.table({"x0": ["b", "z"]})),
    ],
)
def test_unknown_categories_are_missing_and_counted(train, test):
    schema, _ = learn(train, [True])
    table = encode(schema, test)
    np.testing.assert_array_equal(table.narrow, [[1], [2]])
    [unseen] = unseen_categories(schema, sources_of(schema, test), table)
    assert (unseen.column, unseen.n_rows, unseen.n_observed, unseen.row) == ("x0", 1, 2, 1)
    assert unseen.example in ("z", 1.5, 2.0, -1)


def test_a_missing_value_is_not_an_unknown_category():
    schema, _ = learn(np.array([["a"], ["b"]], dtype=object), [True])
    data = np.array([[None], ["a"]], dtype=object)
    table = encode(schema, data)
    np.testing.assert_array_equal(table.narrow, [[2], [0]])
    assert unseen_categories(schema, sources_of(schema, data), table) == []


@pytest.mark.parametrize("values", [["a", "b"], [True, False]])
def test_symbols_cannot_be_numbers(values):
    with pytest.raises(ValueError, match=r"column 'x0' holds .* said to be numeric; add it to categorical_features"):
        learn(np.array(values)[:, None], [False])


def test_fused_codes_are_digits_of_the_columns():
    rng = np.random.default_rng(0)
    data = np.column_stack([rng.integers(0, r, 400) for r in (2, 3, 3, 200, 5)]).astype(float)
    data[rng.random(data.shape) < 0.1] = np.nan
    _, table = learn(data, [True] * 5)
    fused = table.fused()
    sizes = table.layout.n_levels + 1
    assert len(fused.group) < 6
    for g, (begin, end) in enumerate(pairwise(fused.group)):
        code = np.zeros(400, dtype=int)
        for j in range(begin, end):
            code = code * sizes[j] + table.narrow[:, j]
        np.testing.assert_array_equal(fused.narrow[:, g], code)
    for rows in (slice(None), slice(7, 50)):
        np.testing.assert_array_equal(fused.codes_of_columns(rows), table.codes_of_columns(rows))
        np.testing.assert_array_equal(table.codes_of_columns(rows), table.narrow[rows])
    few = learn(data[:5], [True] * 5)[1]
    assert few.fused() is few  # not worth it


def test_a_table_in_use_can_be_pickled():
    _, table = learn(np.column_stack([np.arange(100) % 2, np.arange(100.0)]), [True, False])
    assert table.rows.n_rows == 100  # the native view of it, which cannot be
    again = pickle.loads(pickle.dumps(table))
    np.testing.assert_array_equal(again.narrow, table.narrow)
    np.testing.assert_array_equal(again.numbers, table.numbers)
    assert again.rows.n_rows == 100


def test_few_different_rows_are_not_subsampled():
    """Equal rows stay or go together: a handful of them would stand for nothing."""
    rng = np.random.default_rng(0)
    _, table = learn(rng.integers(1, 3, (20_000, 3)), [True] * 3)
    assert table.subsample(1000) is table
    _, table = learn(np.repeat(rng.normal(size=(20, 2)), 1000, axis=0), [False] * 2)
    assert table.subsample(1000) is table
    _, table = learn(rng.normal(size=(20_000, 2)), [False] * 2)
    few = table.subsample(1000)
    assert few.n_rows < 2000
    assert few.total_weight == pytest.approx(20_000, rel=0.2)


# ---------------------------------------------------------------- intervals


def test_binned_columns_take_a_value_at_the_cut_to_the_left():
    x = np.array([[1.0], [2.0], [3.0], [np.nan]])
    schema, _ = learn(x, [False])
    schema = replace(schema, columns=(replace(schema[0], kind="binned", cuts=(2.0,)),))
    np.testing.assert_array_equal(encode(schema, x).narrow, [[0], [0], [1], [2]])
    again = encode(schema, np.array([[2.0], [np.nextafter(2, 3)], [-1e300], [1e300]]))
    np.testing.assert_array_equal(again.narrow, [[0], [1], [0], [1]])
    with pytest.raises(ValueError, match="column 'x0' contains infinity"):
        encode(schema, np.array([[np.inf]]))


def test_a_column_without_cuts_is_one_interval():
    schema, table = learn(np.array([[1.0], [2.0]]), [False], discretize="mdlp")
    assert schema[0].kind == "binned"
    assert schema[0].n_levels == 1
    assert table.narrow.shape == (2, 0)


# ---------------------------------------------------------------- rows


def test_labelled_rows_only():
    _, table = learn(np.array([[1.0], [2.0], [4.0]]), [False])
    object.__setattr__(table, "labels", np.array([0, -1, 1], dtype=np.int32))
    object.__setattr__(table, "weights", np.array([1.0, 2.0, 3.0]))
    some = table.labelled_only()
    np.testing.assert_array_equal(some.labels, [0, 1])
    np.testing.assert_array_equal(some.weights, [1, 3])
    np.testing.assert_array_equal(some.numbers, table.numbers[[0, 2]])
    assert table.total_weight == 6
    assert some.total_weight == 4


# ---------------------------------------------------------------- rows in another order, or together


def discrete_table(n, weights=None, unlabelled=0.2):
    rng = np.random.default_rng(3)
    data = rng.integers(0, 3, (n, 3)).astype(float)
    data[rng.random(data.shape) < 0.1] = np.nan
    _, table = learn(data, [True] * 3, weights)
    labels = np.where(rng.random(n) < unlabelled, -1, rng.integers(0, 2, n)).astype(np.int32)
    return replace(table, labels=labels)


def counted(table):
    """Cases of each kind of row."""
    weights = np.ones(table.n_rows) if table.weights is None else table.weights
    found = Counter()
    for row, label, weight in zip(table.narrow.tolist(), table.labels.tolist(), weights.tolist()):
        found[(*row, label)] += weight
    return found


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("fuse", [False, True])
def test_equal_rows_collapse_into_one_of_their_weight(weighted, fuse):
    n = 70_000  # more than one piece
    table = discrete_table(n, np.random.default_rng(0).integers(1, 4, n).astype(float) if weighted else None)
    table = table.fused() if fuse else table
    few = table.collapsed()
    wanted = counted(table)
    assert few.n_rows == len(wanted) < 4**3 * 3 + 1
    assert counted(few) == pytest.approx(wanted)
    assert few.total_weight == pytest.approx(table.total_weight)


def test_rows_that_may_all_differ_stay():
    few = discrete_table(50)  # fewer than twice the kinds that there may be
    assert few.collapsed() is few
    _, numbers = learn(np.column_stack([np.arange(100) % 2, np.arange(100.0)]), [True, False])
    assert numbers.collapsed() is numbers


def test_rows_of_a_class_together():
    table = discrete_table(500)
    ordered = table.by_class()
    assert (np.diff(ordered.labels) >= 0).all()
    assert counted(ordered) == counted(table)


# ---------------------------------------------------------------- subsamples


def make(X, y, weights=None):
    sources = list(array_sources(X, ["a", "b", "c"]))
    return learn_table(sources, [True, False, False], None, y.astype(np.int32), weights)[1]


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 4, 20_000), rng.standard_normal((20_000, 2))])
    y = rng.choice([-1, 0, 1, 2], 20_000, p=[0.1, 0.6, 0.299, 0.001])
    return X, y


def content(table):
    columns = [table.narrow[:, 0], *table.numbers.T.round(9), table.labels, table.weights]
    return sorted(map(tuple, np.column_stack(columns).tolist()))


def test_cases_add_up_and_rare_classes_stay(rows):
    table = make(*rows)
    few = table.subsample(2000)
    assert 2000 * 0.9 < few.n_rows < 2000 * 2.2
    for c in (-1, 0, 1):
        total = few.weights[few.labels == c].sum()
        assert total == pytest.approx((table.labels == c).sum(), rel=0.2)
    assert (few.labels == 2).sum() == (table.labels == 2).sum()
    mean = np.average(few.numbers, axis=0, weights=few.weights)
    assert np.abs(mean).max() < 0.1


def test_small_tables_stay_whole(rows):
    table = make(*rows)
    assert table.subsample(10_000) is table


def test_order_duplicates_and_weights_do_not_matter(rows):
    X, y = rows
    order = np.random.default_rng(1).permutation(len(y))
    plain = make(X, y).subsample(2000)
    assert content(make(X[order], y[order]).subsample(2000)) == content(plain)
    twice = make(np.vstack([X, X]), np.concatenate([y, y])).subsample(2000)
    heavy = make(X, y, np.full(len(y), 2.0)).subsample(2000)
    once = {row[:-1]: row[-1] for row in content(heavy)}
    assert {row[:-1] for row in content(twice)} == set(once)
    assert twice.weights.sum() == pytest.approx(heavy.weights.sum())


def test_a_large_fit_ends_on_all_rows(rows):
    X, y = rows
    clf = FANClassifier(3, random_state=0, categorical_features=[0]).fit(X[y >= 0], y[y >= 0])
    assert clf.converged_
    assert (np.diff(clf.trace_) >= -1e-9 * abs(clf.trace_[0])).all()
    joint = clf.predict_joint_log_proba(X[y >= 0])
    units = sum(clf.schema_[j].log_scale for j in clf.schema_.continuous)
    own = joint[np.arange(len(joint)), y[y >= 0]].sum() + units * len(joint)
    assert clf.log_likelihood_ == pytest.approx(own, rel=1e-9)
