"""Columns as they come: a NumPy array or a data frame, one column at a time.

A `Source` answers the few questions that schemas and tables ask of a raw column, whatever library
it comes from. Nothing downstream of `fanbayes.data` knows data frames.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, time, timedelta
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Literal, Protocol

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from fanbayes.arrays import Mask

Level = str | bool | int | float
Content = Literal["numbers", "symbols", "nothing"]
ValueKind = Literal["strings", "booleans", "numbers"]

# What the native core reads as it is.
_NATIVE_TYPES = {np.dtype(name) for name in ("float64", "float32", "int64", "int32", "uint8")}

# Types of data frames, and what NumPy makes of a column without nulls.
_NUMPY_TYPES: dict[type[nw.dtypes.DType], np.dtype[Any]] = {
    **{dtype: np.dtype(dtype.__name__.lower()) for dtype in (nw.Float64, nw.Float32, nw.Int64, nw.Int32, nw.Int16)},
    **{dtype: np.dtype(dtype.__name__.lower()) for dtype in (nw.Int8, nw.UInt64, nw.UInt32, nw.UInt16, nw.UInt8)},
    nw.Boolean: np.dtype(bool),
    nw.String: np.dtype(object),  # which may hold None or NaN
}

# Values of a table of more rows than columns up to which its numbers are converted together: they are copied.
MOST_TOGETHER = 1 << 17

_REMEDY = "turn it into numbers, strings or categories, or drop it"
DATES = "turn them into numbers, such as the days since one of them or the month"
_TIMES = (date, time, timedelta, np.datetime64, np.timedelta64)
_TYPES_OF_TIMES = re.compile("date|time|duration|period", re.IGNORECASE)


class Source(Protocol):
    """One raw column.

    Attributes
    ----------
    name : str
    symbolic : bool
        Whether its type is one of strings, booleans or categories.
    content : {"numbers", "symbols", "nothing"}
        What the values are; "nothing" is a column without any value.
    dtype : str
        The name of its type, for messages and to give samples back as they came.
    declared : sequence of levels or None
        The categories of a categorical type, in their order.
    """

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def symbolic(self) -> bool: ...  # noqa: D102
    @property
    def content(self) -> Content: ...  # noqa: D102
    @property
    def dtype(self) -> str: ...  # noqa: D102
    @property
    def declared(self) -> Sequence[Level] | None: ...  # noqa: D102

    def numbers(self) -> NDArray[np.float64]:
        """Values of a column of numbers, NaN where missing."""

    def distinct(self) -> list[Level]:
        """Distinct observed values, sorted."""

    def codes(self, levels: Sequence[Level]) -> NDArray[np.integer[Any]]:
        """Index of each value in `levels`; ``len(levels)`` where it is missing or not among them."""

    def missing(self) -> Mask:
        """Where no value was observed."""

    def kinds(self) -> set[ValueKind]:
        """What its observed values are; a column of categories may hold several kinds, one without values none."""

    def checksum(self) -> int:
        """Below 2^64, a function of the values in any order; modulo 2^64, those of parts add up to that of all."""


def _sum_of_bits(numbers: NDArray[np.float64]) -> int:
    """Of their squares, modulo 2^64, high ones folded down: a plain sum does not tell 5 and 7 from 6 and 6."""
    bits = numbers.view(np.uint64)
    folded = bits ^ (bits >> np.uint64(32))
    return int(folded @ folded)


_MISSING_KEY = _sum_of_bits(np.array([np.nan]))  # of a missing value in a checksum, whatever the column holds


@lru_cache(1 << 16, typed=True)
def _key(level: Level) -> int:
    """Of a category in a checksum, the same in every process."""
    return int.from_bytes(blake2b(repr(level).encode(errors="backslashreplace"), digest_size=8).digest())


def _checksum(counts: Iterable[tuple[object, int]]) -> int:
    """Of categories, so many times each."""
    return sum((_MISSING_KEY if is_missing(value) else _key(value)) * n for value, n in counts) % 2**64


def kind_of(level: Level) -> ValueKind:
    """What a value is."""
    return "strings" if isinstance(level, str) else "booleans" if isinstance(level, bool) else "numbers"


def is_missing(value: object) -> bool:
    """Whether a Python object stands for a missing value: None, NaN, NaT or NA."""
    if value is None:
        return True
    try:
        return bool(value != value)
    except TypeError:  # pandas.NA: its truth is not defined
        return True
    except ValueError:  # an array
        return False


@dataclass(frozen=True)
class NumericColumn:
    """A column of integers, floats or booleans."""

    name: str
    values: NDArray[Any]
    dtype: str
    declared: Sequence[Level] | None = None

    @property
    def symbolic(self) -> bool:
        """Whether it is boolean."""
        return self.values.dtype.kind == "b"

    @property
    def content(self) -> Content:
        """Numbers, symbols if boolean, nothing if all are missing."""
        if self.values.dtype.kind == "b":
            return "symbols"
        return "nothing" if self.values.dtype.kind == "f" and bool(np.isnan(self.values).all()) else "numbers"

    @property
    def native(self) -> NDArray[Any]:
        """Values in one of the types that the native core reads."""
        values, kind = self.values, self.values.dtype.kind
        if kind == "b":
            return values.view(np.uint8)
        if values.dtype in _NATIVE_TYPES:
            whole_steps = values.flags.aligned and values.strides[0] % values.itemsize == 0
            return values if whole_steps else values.copy()
        return values.astype(np.int64 if kind in "iu" and values.dtype != np.uint64 else np.float64)

    def numbers(self) -> NDArray[np.float64]:
        """Values as float64, NaN where missing."""
        return self.values.astype(np.float64, copy=False)

    def missing(self) -> Mask:
        """Where the value is NaN."""
        if self.values.dtype.kind == "f":
            return np.asarray(np.isnan(self.values))
        return np.zeros(len(self.values), dtype=bool)

    def kinds(self) -> set[ValueKind]:
        """Numbers or booleans, unless all are missing."""
        return set() if self.content == "nothing" else {"booleans" if self.symbolic else "numbers"}

    def checksum(self) -> int:
        """By the bits."""
        return _sum_of_bits(np.ascontiguousarray(self.numbers()))

    def distinct(self) -> list[Level]:
        """Distinct values; whole numbers as int."""
        values = np.unique(self.values[~self.missing()])
        if values.dtype.kind == "b":
            return [bool(v) for v in values]
        if np.isinf(values).any():
            raise ValueError(infinite(self.name))
        return [int(v) for v in values] if _are_integers(values) else [float(v) for v in values]

    def codes(self, levels: Sequence[Level]) -> NDArray[np.integer[Any]]:
        """Index in `levels` by search; categories that are text are passed over."""
        n = len(levels)
        places = np.array([k for k, level in enumerate(levels) if not isinstance(level, str)], dtype=np.int32)
        if len(places) == 0:
            return np.full(len(self.values), n, dtype=np.int32)
        numbers: list[Any] = [levels[k] for k in places]
        # Of int64 and uint64 NumPy would make float64, in which neighbours are alike.
        unsigned = self.values.dtype == np.uint64 and all(isinstance(v, int) and v >= 0 for v in numbers)
        keys = np.asarray(numbers, dtype=np.uint64 if unsigned else None)
        order = np.argsort(keys)
        at = np.minimum(np.searchsorted(keys[order], self.values), len(keys) - 1)
        return np.where(keys[order][at] == self.values, places[order[at]], n).astype(np.int32)


def _are_integers(values: NDArray[Any]) -> bool:
    if values.dtype.kind in "iu":
        return True
    values = values.astype(np.float64)  # in which the bound has a place
    return bool((np.abs(values) < 2**53).all()) and bool((values == np.floor(values)).all())


@dataclass(frozen=True)
class ObjectColumn:
    """A column of a NumPy array of strings or objects that holds strings or booleans."""

    name: str
    values: NDArray[Any]
    dtype: str
    content: Content = "symbols"
    declared: Sequence[Level] | None = None
    symbolic: bool = True

    def numbers(self) -> NDArray[np.float64]:
        """Not a column of numbers."""
        raise TypeError(f"column {self.name!r} holds strings, not numbers")

    def missing(self) -> Mask:
        """Where the object stands for a missing value."""
        return np.fromiter(map(is_missing, self.values), bool, len(self.values))

    def kinds(self) -> set[ValueKind]:
        """What the first observed value is."""
        first = next((value for value in self.values if not is_missing(value)), None)
        return set() if first is None else {kind_of(first)}

    def checksum(self) -> int:
        """By how often each value is there."""
        return _checksum(Counter(None if is_missing(v) else v for v in self.values.tolist()).items())

    def distinct(self) -> list[Level]:
        """Distinct values, sorted."""
        return sorted({v for v in self.values.tolist() if not is_missing(v)}, key=lambda v: (str(type(v)), v))

    def codes(self, levels: Sequence[Level]) -> NDArray[np.integer[Any]]:
        """Index in `levels` by dictionary."""
        index = {level: k for k, level in enumerate(levels)}
        found = (index.get(v, len(levels)) for v in self.values.tolist())
        return np.fromiter(found, np.int32, len(self.values))


@dataclass(frozen=True)
class CategoryColumn:
    """A column as codes: `values` index `categories`, -1 where missing.

    `cases`, where they are known, tells how many values are missing, and how many are of each category.
    """

    name: str
    values: NDArray[np.integer[Any]]
    dtype: str
    categories: Sequence[Level]
    declared: Sequence[Level] | None = None
    cases: Sequence[int] | None = None
    symbolic: bool = True

    @property
    def content(self) -> Content:
        """Symbols, or nothing if all are missing."""
        return "nothing" if bool((self.values < 0).all()) else "symbols"

    def numbers(self) -> NDArray[np.float64]:
        """Not a column of numbers."""
        raise TypeError(f"column {self.name!r} holds categories, not numbers")

    def missing(self) -> Mask:
        """Where there is no code."""
        return self.values < 0

    def kinds(self) -> set[ValueKind]:
        """Those of the categories that occur."""
        return {kind_of(level) for level in self.distinct()}

    def checksum(self) -> int:
        """By how often each category is there."""
        return _checksum(zip((None, *self.categories), self._counts))

    @property
    def _counts(self) -> Sequence[int]:
        if self.cases is not None:
            return self.cases
        counts: list[int] = np.bincount(self.values.astype(np.intp) + 1, minlength=len(self.categories) + 1).tolist()
        return counts

    def distinct(self) -> list[Level]:
        """Categories that occur."""
        return [level for level, n in zip(self.categories, self._counts[1:]) if n]

    def codes(self, levels: Sequence[Level]) -> NDArray[np.integer[Any]]:
        """Index in `levels`, looked up once per category."""
        index = {level: k for k, level in enumerate(levels)}
        table = np.array([index.get(c, len(levels)) for c in self.categories] + [len(levels)], dtype=np.int32)
        return np.asarray(table[self.values])  # -1, missing, takes the last entry


@dataclass(frozen=True)
class SeriesColumn:
    """A column of strings of a data frame."""

    name: str
    series: nw.Series[Any]
    dtype: str
    content: Content
    declared: Sequence[Level] | None = None
    symbolic: bool = True

    def numbers(self) -> NDArray[np.float64]:
        """Not a column of numbers."""
        raise TypeError(f"column {self.name!r} holds {self.dtype} values, not numbers")

    def missing(self) -> Mask:
        """Where the frame has no value."""
        return np.asarray(self.series.is_null().to_numpy(), dtype=bool)

    def kinds(self) -> set[ValueKind]:
        """Strings, unless all are missing."""
        return set() if self.content == "nothing" else {"strings"}

    def checksum(self) -> int:
        """By how often each value is there."""
        return _checksum(self.series.value_counts().iter_rows())

    def distinct(self) -> list[Level]:
        """Distinct values, sorted."""
        try:
            return sorted(self.series.drop_nulls().unique().to_list())
        except UnicodeEncodeError:
            raise ValueError(not_unicode(self.name)) from None

    def codes(self, levels: Sequence[Level]) -> NDArray[np.integer[Any]]:
        """Index in `levels`, mapped by the frame's own library."""
        n = len(levels)
        texts = {level: k for k, level in enumerate(levels) if isinstance(level, str)}
        if not texts:
            return np.full(len(self.series), n, dtype=np.int32)
        codes = self.series.replace_strict([*texts], [*texts.values()], default=n, return_dtype=nw.Int32)
        return np.asarray(codes.to_numpy())


def compact(source: Source) -> NumericColumn | CategoryColumn:
    """The same column in one array, a byte or two for each category: to be kept, or sent elsewhere."""
    if isinstance(source, NumericColumn):
        return source
    if isinstance(source, CategoryColumn):
        codes, levels, cases = source.values, source.categories, source.cases
    else:
        levels = source.distinct() if source.declared is None else source.declared
        found = source.codes(levels)
        codes, cases = np.where(found < len(levels), found, -1), None
    codes = codes.astype(np.min_scalar_type(-max(1, len(levels))), copy=False)
    return CategoryColumn(source.name, codes, source.dtype, levels, source.declared, cases)


def array_sources(X: NDArray[Any], names: Sequence[str]) -> Iterator[Source]:
    """Columns of a two-dimensional NumPy array.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_columns)
    names : names of the columns, for messages
    """
    if X.dtype.kind in "biuf":
        dtype = str(X.dtype)
        for values, name in zip(X.T, names):
            yield NumericColumn(name, values, dtype)
        return
    for values, name in zip(X.T, names):
        yield array_source(values, name)


def array_source(values: NDArray[Any], name: str, dtype: str | None = None) -> Source:
    """Source of a one-dimensional NumPy array; `dtype` is how its type is called, if not by NumPy's name."""
    kind, dtype = values.dtype.kind, dtype or str(values.dtype)
    if kind in "biuf":
        return NumericColumn(name, values, dtype)
    if kind in "UT":
        return ObjectColumn(name, values, dtype)
    if kind != "O":
        raise TypeError(_unsupported(name, dtype))
    observed = [v for v in values.tolist() if not is_missing(v)]
    if not observed:
        return NumericColumn(name, np.full(len(values), np.nan), dtype)
    types = {type(v) for v in observed}
    if all(issubclass(t, str) for t in types):
        return ObjectColumn(name, _plain(values, str), dtype)
    if all(issubclass(t, (bool, np.bool_)) for t in types):
        return ObjectColumn(name, _plain(values, bool), dtype)
    if any(issubclass(t, _TIMES) for t in types):
        raise TypeError(_unsupported(name, " and ".join(sorted(t.__name__ for t in types))))
    if any(issubclass(t, str) for t in types):
        found = " and ".join(sorted(t.__name__ for t in types))
        raise ValueError(
            f"column {name!r} mixes {found} values; make all of them strings to have categories, or all of them numbers"
        )
    # Whatever is left must be a number: Python's own TypeError says what is not.
    try:
        numbers = [np.nan if is_missing(v) else float(v) for v in values.tolist()]
    except OverflowError as error:
        raise TypeError(f"column {name!r} holds a number beyond 1.8e308; divide the column, or drop it") from error
    except (TypeError, ValueError) as error:
        raise TypeError(f"column {name!r}: {error}; {_REMEDY}") from error
    return NumericColumn(name, np.array(numbers, dtype=np.float64), dtype)


def _plain(values: NDArray[Any], kind: type) -> NDArray[Any]:
    """Values of Python's own type, None where missing, so that NumPy's and Python's are the same category."""
    return np.fromiter((None if is_missing(v) else kind(v) for v in values.tolist()), object, len(values))


def frame_sources(frame: nw.DataFrame[Any]) -> Iterator[Source]:
    """Columns of a data frame."""
    n_rows, names = len(frame), frame.columns
    is_wide = n_rows < len(names)
    if not is_wide and n_rows * len(names) > MOST_TOGETHER:
        for series in frame.iter_columns():
            yield series_source(series, str(series.name))
        return
    together = _converted_together(frame, names, texts=is_wide)  # with many texts the frame's own library is faster
    for j, name in enumerate(names):
        yield together[j] if j in together else series_source(frame.get_column(name), str(name))


def without_encodings(frame: nw.DataFrame[Any]) -> nw.DataFrame[Any]:
    """The table; if it is one of Arrow, with string views and run ends unpacked: few of its functions read them."""
    if not frame.implementation.is_pyarrow():
        return frame
    import pyarrow.compute

    table = frame.to_native()
    kinds = {kind.id: kind for kind in table.schema.types}
    if not any(str(kind).startswith(("run_end_encoded", "string_view")) for kind in kinds.values()):
        return frame
    for j, field in enumerate(table.schema):
        kind = str(field.type)
        if kind.startswith("run_end_encoded"):
            table = table.set_column(j, field.name, pyarrow.compute.run_end_decode(table.column(j)))
        elif kind == "string_view":
            table = table.set_column(j, field.name, table.column(j).cast(pyarrow.large_string()))
    return nw.from_native(table, eager_only=True)


def _converted_together(frame: nw.DataFrame[Any], names: Sequence[str], *, texts: bool) -> dict[int, Source]:
    """Columns of plain types by position; one by one takes most of the time where rows are few."""
    by_type: dict[type[nw.dtypes.DType], list[int]] = {}
    for j, dtype in enumerate(frame.schema.values()):
        if type(dtype) in _NUMPY_TYPES and (texts or dtype != nw.String):
            by_type.setdefault(type(dtype), []).append(j)
    found: dict[int, Source] = {}
    for kind, places in by_type.items():
        block = (frame if len(places) == len(names) else frame[:, places]).to_numpy()
        if block.dtype == _NUMPY_TYPES[kind]:  # where nulls do not make something else of it
            title = str(kind())
            found |= {j: array_source(values, str(names[j]), title) for j, values in zip(places, block.T)}
    return found


def series_source(series: nw.Series[Any], name: str) -> Source:
    """Source of one column of a data frame."""
    dtype = series.dtype
    if dtype.is_numeric():
        return NumericColumn(name, _numeric_values(series), str(dtype))
    if dtype == nw.Boolean:
        if series.null_count() == 0:
            return NumericColumn(name, np.asarray(series.to_numpy(), dtype=bool), str(dtype))
        return ObjectColumn(name, _plain(np.fromiter(series.to_list(), object, len(series)), bool), str(dtype))
    if dtype in (nw.Categorical, nw.Enum):
        return _category_source(series, name)
    if series.null_count() == len(series):
        return NumericColumn(name, np.full(len(series), np.nan), str(dtype))
    if dtype == nw.String:
        native = series.to_native()
        if getattr(getattr(native, "dtype", None), "storage", None) == "pyarrow":  # pandas is slow to look texts up
            return _dictionary_source(native.array.__arrow_array__().dictionary_encode(), name, str(dtype))
        return SeriesColumn(name, series, str(dtype), "symbols")
    if dtype == nw.Object:
        return array_source(np.fromiter(series.to_list(), object, len(series)), name)
    known = dtype if dtype != nw.Unknown else getattr(series.to_native(), "dtype", dtype)
    raise TypeError(_unsupported(name, str(known)))


def _category_source(series: nw.Series[Any], name: str) -> Source:
    """Source of a column of categories: those that its type declares, in their order, or else those seen, sorted."""
    dtype, native, is_pandas = series.dtype, series.to_native(), series.implementation.is_pandas_like()
    title = "Enum" if isinstance(dtype, nw.Enum) else str(dtype)  # without the list of all categories
    is_empty = series.null_count() == len(series)
    if is_pandas and hasattr(native, "cat"):
        levels = _levels(native.cat.categories, name)
        return CategoryColumn(name, native.cat.codes.to_numpy(), title, levels, levels)
    if isinstance(dtype, nw.Enum):
        content: Content = "nothing" if is_empty else "symbols"
        return SeriesColumn(name, series.cast(nw.String), title, content, dtype.categories)
    if is_empty:
        return NumericColumn(name, np.full(len(series), np.nan), title)
    if series.implementation.is_polars():
        return SeriesColumn(name, series.cast(nw.String), title, "symbols")
    found = _dictionary_source(native.array.__arrow_array__() if is_pandas else native, name, title)
    return replace(found, declared=found.categories)


def _levels(categories: Any, name: str) -> list[Level]:
    """Categories of pandas as levels: intervals, dates and the like as text."""
    if str(categories.dtype).startswith(("interval", "period", "datetime64", "timedelta64")):
        return [str(category) for category in categories]
    return [_level(category, name) for category in categories.tolist()]


def _level(value: Any, name: str) -> Level:
    """A category as a plain text, truth value or number; refused if it is none."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (int, np.integer)) and -(2**63) <= value < 2**63:
        return int(value)
    if isinstance(value, (float, np.floating)) and math.isfinite(value):
        return float(value)
    raise TypeError(
        f"column {name!r} has the category {value!r:.60}, which is neither text nor a truth value nor a finite number; "
        f"turn its categories into text (pandas: X[{name!r}].cat.rename_categories(str)), or drop it"
    )


def _dictionary_source(values: Any, name: str, dtype: str) -> CategoryColumn:
    """Source of a dictionary array of Arrow; its categories are the ones seen, sorted."""
    flat = values.unify_dictionaries().combine_chunks()
    try:
        found = flat.dictionary.to_pylist()
    except (ValueError, OverflowError):  # moments that Python's types cannot hold
        raise TypeError(_unsupported(name, dtype)) from None
    entries = [None if is_missing(entry) else _level(entry, name) for entry in found]
    indices = flat.indices.fill_null(len(entries)) if flat.indices.null_count else flat.indices
    codes = indices.to_numpy(zero_copy_only=False)
    entries.append(None)
    cases = np.bincount(codes, minlength=len(entries))
    seen = sorted({entry for entry, n in zip(entries, cases) if n and entry is not None})
    place = {level: k for k, level in enumerate(seen)}
    codes_of_entries = [-1 if entry is None else place.get(entry, -1) for entry in entries]
    new_code = np.array(codes_of_entries, dtype=np.min_scalar_type(-max(1, len(seen))))
    of_each = np.bincount(np.array(codes_of_entries) + 1, cases, len(seen) + 1).astype(np.intp).tolist()
    return CategoryColumn(name, new_code[codes], dtype, seen, cases=of_each)


def _numeric_values(series: nw.Series[Any]) -> NDArray[Any]:
    """NumPy values of a numeric column; float64 with NaN as soon as one is missing."""
    if series.dtype.is_integer():
        return _integer_values(series)
    if series.null_count() == 0:
        values = np.asarray(series.to_numpy())
        if values.dtype.kind == "f":
            return values
    floats = np.asarray(series.cast(nw.Float64).to_numpy())
    if floats.dtype.kind == "f":
        return floats
    return np.array([np.nan if is_missing(v) else v for v in floats.tolist()], dtype=np.float64)


def _integer_values(series: nw.Series[Any]) -> NDArray[Any]:
    """NumPy values of a column of integers, float64 where one is missing or beyond 64 bits."""
    has_gaps = series.null_count() > 0
    filled = series.fill_null(0) if has_gaps else series
    if series.dtype in (nw.Int128, nw.UInt128):
        is_short = filled.min() >= -(2**63) and filled.max() < 2**63
        filled = filled.cast(nw.Int64 if is_short else nw.Float64)
    values = np.asarray(filled.to_numpy())
    if has_gaps:
        values = values.astype(np.float64)
        values[np.asarray(series.is_null().to_numpy(), dtype=bool)] = np.nan
    return values


def infinite(name: str) -> str:
    """What to say of a column with an infinite value."""
    return f"column {name!r} contains infinity; replace it by a finite or a missing value"


def not_unicode(name: str) -> str:
    """What to say of a column with half of a surrogate pair, which no file and few libraries can hold."""
    return f"column {name!r} holds text that is not valid Unicode; correct it, or drop it"


def _unsupported(name: str, dtype: str) -> str:
    if _TYPES_OF_TIMES.match(dtype):
        return f"column {name!r} holds dates or times ({dtype}); {DATES}, or drop it"
    return f"column {name!r} has type {dtype}, which is neither a number nor a category; {_REMEDY}"
