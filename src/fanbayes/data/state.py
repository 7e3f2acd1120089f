"""Models as plain state: values that JSON has, and named arrays.

What is read may come from anywhere, so everything is checked before it is used; what is wrong is a `StateError`, whose
text goes on after "cannot be loaded: ".
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import fields
from itertools import pairwise
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from fanbayes.data.frames import to_user_table
from fanbayes.data.schema import MAX_LEVELS, Column, Schema

Arrays = dict[str, NDArray[Any]]
State = tuple[dict[str, Any], Arrays]

_FRAMES = ("pandas", "modin", "cudf", "polars", "pyarrow")


class StateError(ValueError):
    """State that is no model, or a model that has no such state."""


def refuse(reason: str) -> NoReturn:
    """Say why not."""
    raise StateError(reason)


def require(condition: object, reason: str) -> None:
    """Refuse what does not hold."""
    if not condition:
        refuse(reason)


# ---------------------------------------------------------------- values


def plain(value: Any) -> Any:
    """What JSON can say: a number that is not finite becomes ``{"float": "nan" | "inf" | "-inf"}``."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Mapping):
        return {str(name): plain(v) for name, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    if value is None or type(value) in (str, bool, int, float):
        return value
    refuse(f"a file has no form for {value!r:.80}, a {type(value).__name__}; turn it into text or a number")


def not_finite(values: dict[str, Any]) -> Any:
    """Inverse of `plain`, for one object of JSON."""
    if values.keys() != {"float"}:
        return values
    known = values["float"] in ("nan", "inf", "-inf")
    return float(values["float"]) if known else refuse("its header is not valid JSON")


def entry(values: Any, key: str, kind: type) -> Any:
    """An entry of an object, of exactly this type."""
    value = values.get(key) if isinstance(values, dict) else None
    require(type(value) is kind, f"its header has no {key!r}, or one that is no {kind.__name__}")
    return value


def read_table(values: dict[str, Any], frame: str | None) -> Any:
    """A table for the user, of columns of one length and one type each; a dict where the frame library is not there."""
    flaw = "its tables are damaged"
    for column in values.values():
        require(isinstance(column, list) and len(column) == len(next(iter(values.values()))), flaw)
        require(len({type(v) for v in column}) <= 1, flaw)
        require(all(type(v) in (str, bool, float) or (type(v) is int and abs(v) < 2**63) for v in column), flaw)
    try:
        return to_user_table(values, frame)
    except ImportError:
        return values


# ---------------------------------------------------------------- arrays


def prefixed(prefix: str, arrays: Arrays) -> Arrays:
    """Arrays under ``prefix/``."""
    return {f"{prefix}/{name}": array for name, array in arrays.items()}


def grouped(arrays: Arrays, wanted: Collection[str]) -> dict[str, Arrays]:
    """Arrays by what stands before the first "/" of their names, "" where there is none; all are `wanted`."""
    groups: dict[str, Arrays] = {key: {} for key in wanted}
    for name, array in arrays.items():
        key, slash, rest = name.partition("/")
        key, rest = (key, rest) if slash else ("", name)
        require(key in groups, "it does not have the arrays that it should")
        groups[key][rest] = array
    return groups


def apart(arrays: Arrays, prefix: str) -> tuple[Arrays, Arrays]:
    """Arrays that are not under ``prefix/``, and those that are, without it."""
    start = f"{prefix}/"
    own = {name.removeprefix(start): array for name, array in arrays.items() if name.startswith(start)}
    return {name: array for name, array in arrays.items() if not name.startswith(start)}, own


def require_names(arrays: Arrays, names: Collection[str]) -> None:
    """Refuse arrays that are not the ones named."""
    require(arrays.keys() == set(names), "it does not have the arrays that it should")


def read_array(arrays: Arrays, name: str, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """A copy of an array of this shape."""
    array = arrays[name]
    require(array.dtype == np.float64, f"its array {name!r} has type {array.dtype}, not float64")
    require(array.shape == shape, f"its array {name!r} has shape {array.shape}, not {shape}")
    return np.array(array)


# ---------------------------------------------------------------- columns


def read_schema(values: dict[str, Any]) -> Schema:
    """Inverse of `Schema.to_json`."""
    frame = values.get("frame")
    require(frame is None or frame in _FRAMES, "its frame library is unknown")
    columns = tuple(_column(c) for c in entry(values, "columns", list))
    require(len({c.name for c in columns}) == len(columns) > 0, "its columns have no names of their own")
    indicates = values.get("indicates", [])
    known = isinstance(indicates, list) and all(type(j) is int and 0 <= j < len(columns) for j in indicates)
    require(known and all(a < b for a, b in pairwise(indicates)), "its schema is damaged")
    return Schema(columns, frame, tuple(indicates))


def _column(values: Any) -> Column:
    """A column, its numbers within what the encoding of tables relies on."""
    flaw = "its schema is damaged"
    require(isinstance(values, dict) and values.keys() == {f.name for f in fields(Column)}, flaw)
    for key in ("name", "kind", "dtype", "distribution"):
        entry(values, key, str)
    for key in ("levels", "cuts"):
        entry(values, key, list)
    for key in ("low", "high", "centre", "scale", "mean"):
        entry(values, key, float)
    column = Column.from_json(values)
    cuts = np.array(column.cuts) if all(type(c) is float for c in column.cuts) else np.array([np.nan])
    require(column.kind in ("discrete", "continuous", "binned"), flaw)
    if not column.is_standardised and column.is_informative:
        as_it_is = (column.exponent, column.centre, column.scale) == (0, 0.0, 1.0)
        require(column.kind == "continuous" and as_it_is and math.isfinite(column.mean), flaw)
    require(column.kind == "discrete" or not column.levels, flaw)
    require(column.kind == "binned" or not column.cuts, flaw)
    require(column.n_levels <= MAX_LEVELS, flaw)
    require(np.isfinite(cuts).all() and (np.diff(cuts) > 0).all(), flaw)
    edges = np.array([column.low, *column.cuts, column.high])
    require(column.kind != "binned" or (np.isfinite(edges).all() and (edges[1:] >= edges[:-1]).all()), flaw)
    require(all(is_level(level) for level in column.levels) and are_distinct(column.levels), flaw)
    kinds = {float if type(level) is int else type(level) for level in column.levels}
    require(len(kinds) <= 1 or column.dtype.startswith("Categorical"), flaw)
    require(abs(entry(values, "exponent", int)) <= 1100, flaw)
    require(0 <= column.scale < math.inf and (column.scale == 0 or math.isfinite(column.centre)), flaw)
    return column


def is_level(value: Any) -> bool:
    """Whether it can be a category."""
    if type(value) is float:
        return math.isfinite(value)
    return type(value) in (str, bool) or (type(value) is int and -(2**63) <= value < 2**63)


def are_distinct(values: Collection[Any]) -> bool:
    """Whether no two are equal."""
    return len(set(values)) == len(values)
