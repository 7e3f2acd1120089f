"""Tables of every library and type, sound, odd and broken, through every estimator."""

from __future__ import annotations

import datetime
import decimal
import fractions
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from scipy import sparse

from fanbayes import (
    AODEClassifier,
    BoostedNBClassifier,
    CostSensitiveClassifier,
    FANClassifier,
    FANClassifierCV,
    FMClassifier,
    MDAClassifier,
    MDLPDiscretizer,
    ModelFileError,
    NBClassifier,
    NBTreeClassifier,
    TANClassifier,
    load,
    save,
)
from fanbayes.estimators.tabular import TableClassifier
from fuzz.verdict import answer, require, require_probabilities, require_sums

Values = list[Any]
Maker = Callable[[np.random.Generator, int], Any]

TEXTS = [
    "a",
    "b",
    "c",
    "",
    " ",
    "nan",
    "NA",
    "None",
    "é",
    "日本",
    "x" * 3000,
    "a\0b",
    "a\nb",
    "\x1b[31mred",
    "1",
    "1.0",
]
EXTREMES = [0.0, -0.0, 1.0, 1e308, -1e308, 5e-324, 1e-300, 1e150, np.pi, 2.0**53, 2.0**63, 1e16 + 2]
INTEGERS = [0, 1, -1, 127, -128, 2**31 - 1, -(2**31), 2**53 + 1, 2**63 - 1, -(2**63), 2**20]
NAMES = ["a", "b", "x", "", " ", "class", "é", "x\ny", "\x1b[1m", "x" * 100, "0", "f0", "(prior)", "n\0"]
# What an error may speak of that is no column.
ARGUMENTS = [
    "X",
    "y",
    "sample_weight",
    "feature names",
    "features",
    "sample",
    "row",
    "label",
    "class",
    "column",
    "array",
]


def attempt(rng: np.random.Generator, folder: Path) -> None:
    """Fit one estimator on a hostile table, then predict from it and from another one."""
    n = int(rng.choice([1, 2, 3, 8, 20, 40], p=[0.03, 0.05, 0.07, 0.2, 0.35, 0.3]))
    table, again = _table(rng, n)
    y = _labels(rng, n)
    weight = _weights(rng, n) if rng.random() < 0.1 else None
    estimator = _estimator(rng)
    names = [*ARGUMENTS, "cost", *(name.rpartition("__")[2] for name in estimator.get_params())]
    before = {*vars(estimator)}
    try:
        if weight is None:
            answer(lambda: estimator.fit(table, y), names)
        else:
            answer(lambda: estimator.fit(table, y, sample_weight=weight), names)
    except BaseException:
        if isinstance(estimator, TableClassifier):
            require({*vars(estimator)} == before, "a fit that failed left something behind")
        raise
    if isinstance(estimator, MDLPDiscretizer):
        require(len(estimator.transform(table)) == _length(table), "a row was lost")
        answer(lambda: estimator.transform(again), names)
        return
    if weight is not None:  # rows of weight 0 may have categories that were not learnt from
        answer(lambda: estimator.predict_proba(table), names)
    _predict(estimator, table, names, folder)
    answer(lambda: estimator.predict_proba(again), names)  # other rows may be refused, the ones of training may not
    # A lazy frame is predicted in batches, and explained in memory.
    _predict(estimator, again.collect() if hasattr(again, "collect") else again, names, folder)


def _predict(clf: Any, table: Any, names: list[str], folder: Path) -> None:
    n = _length(table)
    proba = clf.predict_proba(table)
    require_probabilities(proba, n, len(clf.classes_))
    require(len(clf.predict(table)) == n, "a row was lost")
    if isinstance(clf, CostSensitiveClassifier):
        return
    log_proba = clf.predict_log_proba(table)
    require(not np.isnan(log_proba).any(), "a log probability that is no number")
    require(np.abs(np.exp(log_proba) - proba).max() < 1e-9, "log probabilities of others than the probabilities")
    if hasattr(clf, "sample"):
        X, labels = clf.sample(3, random_state=0)
        require(len(X) == len(labels) == 3, "a sample of another size")
        require_probabilities(clf.predict_proba(X), 3, len(clf.classes_))
    _save(clf, table, proba, folder / "model.fan")
    if len(clf.classes_) > 1:
        require_sums(clf, table)


def _save(clf: Any, table: Any, proba: Any, path: Path) -> None:
    try:
        save(clf, path)
    except ModelFileError:
        return  # categories or classes that a file has no form for
    require(load(path).predict_proba(table).tobytes() == proba.tobytes(), "other bits after saving")
    require([p.name for p in path.parent.iterdir()] == ["model.fan"], "a temporary file was left")


def _length(table: Any) -> int:
    return table.shape[0] if hasattr(table, "shape") else len(table)


def _estimator(rng: np.random.Generator) -> Any:
    shared = {
        "categorical_features": _pick(rng, ["from_dtype"] * 30 + ["all", None, [0], ["a"], [True, False], "a", [99]]),
        "handle_unknown": _pick(rng, ["missing", "missing", "error"]),
        "n_jobs": _pick(rng, [None, None, 1, 2, -1]),
    }
    if rng.random() < 0.02:
        return FANClassifierCV(effort="fast", random_state=0, **shared)
    if rng.random() < 0.3:
        return _relative(rng, shared)
    shared |= {
        "alpha": _pick(rng, [1.0] * 6 + [1e-300, 1e9]),
        "variance_estimator": _pick(rng, ["map", "map", "paper"]),
        "variance_tying": _pick(rng, ["none", "none", "all", "class"]),
        "algorithm": _pick(rng, ["em", "em", "em", "cem"]),
        "discretize": _pick(rng, ["none", "none", "mdlp"]),
    }
    hidden = shared | {"n_init": 2, "random_state": 0, "max_iter": 50}
    size = _pick(rng, [1, 2, 2, 3, 40])
    what = rng.integers(6)
    if what == 0:
        return MDLPDiscretizer()
    if what == 1:
        return FMClassifier(size, **hidden)
    if what == 2:
        return FANClassifier(size, mixing=_pick(rng, ["shared", "per_class"]), **hidden)
    if what == 3:
        return FANClassifier("auto", max_components=3, patience=1, **hidden)
    if what == 4 and rng.random() < 0.3:
        return CostSensitiveClassifier(NBClassifier(**shared), costs=[[0, 1], [5, 0]])
    return NBClassifier(**shared)


def _relative(rng: np.random.Generator, shared: dict[str, Any]) -> Any:
    few = shared | {"n_init": 2, "random_state": 0, "max_iter": 50}
    alpha = {"alpha": _pick(rng, [1.0] * 6 + [1e-300, 1e9])}
    discretize = {"discretize": _pick(rng, ["none", "none", "mdlp"])}
    tree = {"tree": _pick(rng, ["full", "forest"])}
    labelled = shared | {"handle_unknown": "missing"}  # what only rows without a label have, these have not seen
    return _pick(
        rng,
        [
            TANClassifier(**shared, **alpha, **discretize, **tree),
            FANClassifier(2, **few, **alpha, **discretize, **tree),
            AODEClassifier(**labelled, **alpha),
            MDAClassifier(_pick(rng, [1, 2]), covariance_tying=_pick(rng, ["all", "class"]), **few, **alpha),
            BoostedNBClassifier(_pick(rng, ["auto", 3]), random_state=0, **labelled, **alpha),
            NBTreeClassifier(random_state=0, **labelled, **alpha),
        ],
    )


# ---------------------------------------------------------------- labels and weights


def _labels(rng: np.random.Generator, n: int) -> Any:
    few = rng.integers(0, rng.integers(1, 4), n)
    makers: list[Callable[[], Any]] = [
        lambda: few,
        lambda: few.astype(bool),
        lambda: few.astype(float),
        lambda: np.array(["no", "yes", "é\n"])[few],
        lambda: np.array(["no", "yes", None], dtype=object)[few],
        lambda: np.where(few == 0, np.nan, few),
        lambda: np.array([1, None, 3], dtype=object)[few],
        lambda: pd.Series(np.array(["u", "v", "w"])[few]),
        lambda: pd.Categorical.from_codes(few - (few == 2) * 3, ["a", "b"]),
        lambda: pd.Series(few).astype("Int64").mask(few == 1),
        lambda: pl.Series(few),
        lambda: pl.Series(np.array(["u", "v", "w"])[few].tolist(), dtype=pl.Categorical),
        lambda: pa.array(few),
        lambda: few.astype(np.uint64) + np.uint64(2**63),
        lambda: few.tolist(),
    ]
    hostile: list[Callable[[], Any]] = [
        lambda: rng.normal(size=n),
        lambda: few[: n - 1],
        lambda: np.column_stack([few, few]),
        lambda: np.array([1, "a", 2.5], dtype=object)[few],
        lambda: np.array([np.inf, 1.0, 2.0])[few],
        lambda: None,
        lambda: np.full(n, np.nan),
        lambda: few + 1j,
        lambda: np.array(["2020-01-01", "2021-01-01", "NaT"], dtype="M8[D]")[few],
        lambda: [[k] for k in few.tolist()],
        lambda: np.array([(1,), (2, 3), {}], dtype=object)[few],
        lambda: np.array([10**400, 1, 2], dtype=object)[few],
        lambda: np.array([b"a", b"b", b"c"])[few],
        lambda: 3,
        lambda: {"y": few},
    ]
    return _pick(rng, makers if rng.random() < 0.94 else hostile)()


def _weights(rng: np.random.Generator, n: int) -> Any:
    makers: list[Callable[[], Any]] = [
        lambda: np.ones(n),
        lambda: rng.integers(0, 3, n),
        lambda: 10.0 ** rng.uniform(-300, 300, n),
        lambda: np.full(n, 1e-320),
        lambda: rng.random(n).astype(np.float16),
        lambda: pd.Series(rng.random(n)),
        lambda: pl.Series(rng.random(n)),
        lambda: np.zeros(n),
        lambda: -np.ones(n),
        lambda: np.where(np.arange(n) == 0, np.nan, 1.0),
        lambda: np.ones(n + 1),
        lambda: np.ones((n, 2)),
        lambda: ["1"] * n,
        lambda: [None] * n,
        lambda: 2.0,
        lambda: "many",
        lambda: np.full(n, 1e308),
        lambda: np.array([True] * n),
        lambda: np.ones(n) * 1j,
    ]
    return _pick(rng, makers)()


# ---------------------------------------------------------------- tables


def _table(rng: np.random.Generator, n: int) -> tuple[Any, Any]:
    """Make a table of n rows, and another one of the same columns, more or less."""
    library = _pick(rng, [_pandas, _polars, _arrow, _numpy])
    makers = [_pick(rng, SOUND if rng.random() < 0.93 else ODD) for _ in range(rng.integers(1, 6))]
    names = [f"c{k}" for k in range(len(makers))]
    if rng.random() < 0.15:
        names = [str(_pick(rng, NAMES)) for _ in makers] if rng.random() < 0.5 else _distinct_names(rng, len(makers))
    first = library(rng, [_column(rng, maker, n) for maker in makers], names)
    m = int(_pick(rng, [1, 5, 30] * 5 + [0]))
    if rng.random() < 0.2:  # other columns, other types, another library
        library = _pick(rng, [library, _pandas, _polars, _arrow, _numpy])
        makers = [_pick(rng, SOUND + ODD) if rng.random() < 0.3 else maker for maker in makers]
        if rng.random() < 0.3:
            order = rng.permutation(len(makers))[: rng.integers(1, len(makers) + 1)]
            makers, names = [makers[k] for k in order], [names[k] for k in order]
    return first, library(rng, [_column(rng, maker, m) for maker in makers], names)


def _distinct_names(rng: np.random.Generator, n: int) -> list[str]:
    return [NAMES[k] for k in rng.permutation(len(NAMES))[:n]]


def _column(rng: np.random.Generator, maker: Maker, n: int) -> Values:
    values = list(maker(rng, n))
    if rng.random() < 0.4:
        share = _pick(rng, [0.05, 0.3, 1.0])
        nothing = _pick(rng, [None, None, float("nan"), pd.NA, pd.NaT])
        values = [nothing if rng.random() < share else v for v in values]
    return values


def _draw(values: Values) -> Maker:
    return lambda rng, n: [values[int(k)] for k in rng.integers(0, len(values), n)]


SOUND: list[Maker] = [
    lambda rng, n: rng.normal(size=n).tolist(),
    lambda rng, n: (10.0 ** rng.uniform(-300, 300, n)).tolist(),
    lambda rng, n: (1e16 + rng.integers(0, 9, n)).tolist(),
    lambda rng, n: rng.integers(-5, 5, n).tolist(),
    lambda rng, n: np.repeat(3.5, n).tolist(),
    lambda rng, n: (rng.random(n) < 0.5).tolist(),
    _draw(TEXTS),
    _draw(TEXTS[:3]),
    _draw(EXTREMES),
    _draw(INTEGERS),
    lambda rng, n: [f"v{k}" for k in range(n)],
    lambda rng, n: list(range(n)),
]
ODD: list[Maker] = [
    _draw([1.0, float("inf"), 2.0]),
    _draw([1, "a", 2.5]),
    _draw([True, 1, "yes"]),
    _draw([10**400, 1, 2]),
    _draw([10**30, -(10**30)]),
    _draw([2**64 - 1, 0, 2**63]),
    _draw([1 + 2j, 0j]),
    _draw([decimal.Decimal("1.5"), decimal.Decimal("1e400"), decimal.Decimal(0)]),
    _draw([decimal.Decimal("1.5"), decimal.Decimal("2")]),
    _draw([fractions.Fraction(1, 3), fractions.Fraction(5)]),
    _draw([datetime.datetime(2020, 1, 1), datetime.datetime(2021, 5, 5)]),
    _draw([datetime.date(2020, 1, 1), datetime.date(2021, 5, 5)]),
    _draw([datetime.timedelta(1), datetime.timedelta(2)]),
    _draw([datetime.time(1), datetime.time(2)]),
    _draw([b"a", b"\xff"]),
    _draw([[1, 2], [], [3]]),
    _draw([{"a": 1}, {"a": 2}]),
    _draw([(1, 2), (3, 4)]),
    _draw([{1}, {2}]),
    _draw(["\ud800", "a"]),
    _draw([object(), object()]),
    _draw([np.array([1, 2]), np.array([3])]),
    _draw([np.float32(1.5), np.int8(3), 7]),
    _draw([pd.Timestamp("2020"), pd.Timestamp("2021", tz="UTC")]),
    _draw([pd.Interval(0, 1), pd.Interval(1, 2)]),
    _draw([type, len]),
    lambda rng, n: [None] * n,
]

PANDAS = ["float32", "float16", "Int64", "Float64", "Int8", "UInt64", "boolean", "string", "category", "object"]
PANDAS += ["int64[pyarrow]", "uint64[pyarrow]", "double[pyarrow]", "string[pyarrow]", "bool[pyarrow]", "complex128"]
PANDAS += ["datetime64[ns]", "timedelta64[ns]", "Sparse[float]", "uint8", "str"]
POLARS = [pl.Float32, pl.Int8, pl.UInt64, pl.Int128, pl.Categorical, pl.String, pl.Boolean, pl.Object, pl.Null]
POLARS += [pl.Decimal(10, 2), pl.Binary, pl.Date, pl.Datetime, pl.Duration, pl.List(pl.Int64), pl.Enum(["a", "b", "c"])]
ARROW = [pa.float32(), pa.float16(), pa.int8(), pa.uint64(), pa.large_string(), pa.bool_(), pa.null()]
ARROW += [pa.decimal128(20, 3), pa.decimal256(60, 3), pa.binary(), pa.date32(), pa.timestamp("us"), pa.duration("s")]
ARROW += [pa.list_(pa.int64()), pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.int32(), pa.int64())]
NUMPY = ["f8", ">f8", "f4", "f2", "g", "i8", "u1", "?", "c16", "U5", "S5", "M8[s]", "m8[s]"]
# What older versions do not have.
ARROW += [getattr(pa, name)() for name in ("string_view",) if hasattr(pa, name)]
NUMPY += [getattr(np.dtypes, name)() for name in ("StringDType",) if hasattr(np.dtypes, name)]
_CANNOT_MAKE = (Exception, pl.exceptions.PanicException)


def _pandas(rng: np.random.Generator, columns: list[Values], names: list[str]) -> Any:
    made = [_converted(pd.Series(_object(values), dtype=object), pd.Series.infer_objects) for values in columns]
    made = [_converted(s, functools.partial(_as_pandas, rng)) if rng.random() < 0.4 else s for s in made]
    frame = pd.concat(made, axis=1)
    frame.columns = names
    what = rng.integers(25)
    if what == 0:
        frame.columns = range(len(names))
    elif what == 1:
        frame.columns = pd.MultiIndex.from_tuples([("m", name) for name in names])
    elif what == 2:
        frame.columns = [_pick(rng, [name, 1, 1.5, None, ("a", 1)]) for name in names]
    elif what == 3:
        frame.index = rng.integers(0, 3, len(frame))
    elif what == 4:
        frame.columns = pd.date_range("2020", periods=len(names))
    return frame


def _as_pandas(rng: np.random.Generator, series: Any) -> Any:
    what = rng.integers(8)
    if what == 0:
        codes, found = pd.factorize(series)
        return pd.Series(pd.Categorical.from_codes(codes, [*found, *_pick(rng, [[], ["unused"]])], ordered=True))
    if what == 1:
        return series.astype(pd.ArrowDtype(pa.dictionary(pa.int32(), pa.string())))
    if what == 2:
        return pd.Series(pd.cut(series, 2))
    return series.astype(_pick(rng, PANDAS))


def _polars(rng: np.random.Generator, columns: list[Values], names: list[str]) -> Any:
    made = []
    for values in columns:
        series = _converted(values, lambda v: pl.Series(v, strict=False), lambda v: pl.Series(v, dtype=pl.Object))
        made.append(_converted(series, lambda s: s.cast(_pick(rng, POLARS))) if rng.random() < 0.4 else series)
    if len({*names}) < len(names):
        names = [f"c{k}" for k in range(len(names))]  # polars has no equal names
    frame = pl.DataFrame([s.alias(name) for s, name in zip(made, names)])
    return frame.lazy() if rng.random() < 0.02 else frame


def _arrow(rng: np.random.Generator, columns: list[Values], names: list[str]) -> Any:
    made = []
    for values in columns:
        array = _converted(values, lambda v: pa.array(v, from_pandas=True), lambda v: pa.array([repr(x) for x in v]))
        if rng.random() < 0.4:
            array = _converted(array, lambda a: a.cast(_pick(rng, ARROW)))
        if rng.random() < 0.2:
            encode = _pick(rng, [pc.dictionary_encode, pc.run_end_encode])
            array = _converted(array, encode)
        cut = int(rng.integers(len(array) + 1))
        made.append(pa.chunked_array([array[:cut], array[cut:]]) if rng.random() < 0.5 else array)
    return pa.Table.from_arrays(made, names)


def _numpy(rng: np.random.Generator, columns: list[Values], names: list[str]) -> Any:
    array = np.empty((len(columns[0]), len(columns)), dtype=object)
    for k, values in enumerate(columns):
        array[:, k] = _object(values)
    if rng.random() < 0.7:
        array = _converted(array, lambda a: a.astype(_pick(rng, NUMPY)))
    shapes: list[Callable[[], Any]] = [
        lambda: np.asfortranarray(array),
        lambda: array[::-1],
        lambda: np.repeat(array, 2, axis=0)[::2],
        lambda: np.broadcast_to(array[:1], array.shape),
        lambda: np.ma.masked_array(array, mask=rng.random(array.shape) < 0.3),
        lambda: array.ravel(),
        lambda: array[None],
        lambda: array.tolist(),
        lambda: tuple(map(tuple, array.tolist())),
        lambda: array.astype("f8").view(np.recarray),
        lambda: np.array(list(map(tuple, array.tolist())), dtype=[(f"f{k}", "f8") for k in range(array.shape[1])]),
        lambda: sparse.csr_array(array.astype("f8")),
        lambda: _read_only(array),
        lambda: np.frombuffer(b"\0" + array.astype("f8").tobytes(), "u1")[1:].view("f8").reshape(array.shape),
        lambda: array[0, 0],
        lambda: dict(zip(names, columns)),
        lambda: pd.Series(columns[0], dtype=object),
        lambda: pl.Series(columns[0]),
        lambda: "table",
    ]
    return _converted(array, lambda a: _pick(rng, shapes)()) if rng.random() < 0.25 else array


def _read_only(array: Any) -> Any:
    array = array.copy()
    array.flags.writeable = False
    return array


def _converted(value: Any, convert: Callable[[Any], Any], otherwise: Callable[[Any], Any] = lambda v: v) -> Any:
    """Value as something else, or unchanged where the library itself cannot do it."""
    try:
        return convert(value)
    except _CANNOT_MAKE:
        return otherwise(value)


def _object(values: Values) -> Any:
    array = np.empty(len(values), dtype=object)
    for k, value in enumerate(values):
        array[k] = value
    return array


def _pick(rng: np.random.Generator, values: Any) -> Any:
    return values[int(rng.integers(len(values)))]
