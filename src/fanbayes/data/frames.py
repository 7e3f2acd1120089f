"""Tables handed back to the user, in the library that theirs came in."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from fanbayes.arrays import Floats
from fanbayes.data.schema import Column, Schema


def to_user_table(columns: Mapping[str, Sequence[Any]], frame: str | None) -> Any:
    """Columns as a data frame of the library `frame`, or as a dict where that is None."""
    if frame is None:
        return dict(columns)
    return nw.from_dict({name: list(values) for name, values in columns.items()}, backend=_backend(frame)).to_native()


def from_user_table(table: Any) -> dict[str, list[Any]]:
    """Columns of a table that `to_user_table` made."""
    if isinstance(table, dict):
        return table
    columns: dict[str, list[Any]] = nw.from_native(table, eager_only=True).to_dict(as_series=False)
    return columns


def rows_of(table: Any) -> list[dict[str, Any]]:
    """Rows of a table that was handed to the user."""
    columns = from_user_table(table)
    return [dict(zip(columns, values)) for values in zip(*columns.values())]


def to_user_rows(columns: Sequence[Any], schema: Schema) -> Any:
    """Values of each column as rows like those that the schema was learnt from.

    Parameters
    ----------
    columns : one array (n_rows,) for each column of the schema; NaN or None where missing
    """
    if schema.frame is None:
        symbolic = any(
            c.kind == "discrete" and any(isinstance(v, (str, bool)) for v in c.levels) for c in schema.columns
        )
        return np.column_stack([np.asarray(c, dtype=object if symbolic else np.float64) for c in columns])
    data = {c.name: _as_it_came(c, values) for c, values in zip(schema.columns, columns)}
    frame = nw.from_dict(data, backend=_backend(schema.frame))
    categories = [c for c in schema.columns if c.kind == "discrete" and c.dtype.startswith(("Categorical", "Enum"))]
    if schema.frame == "pyarrow":  # which makes categories of text only
        categories = [c for c in categories if c.has_strings]
    return frame.with_columns(*(nw.col(c.name).cast(_category_type(c)) for c in categories)).to_native()


def interval_series(name: str, codes: NDArray[np.intp], cuts: Floats, library: nw.Implementation) -> nw.Series[Any]:
    """Interval of each row as an ordered category, null where the code is negative."""
    labels = interval_names(cuts)
    values = [None if k < 0 else labels[k] for k in codes.tolist()]
    if library is nw.Implementation.PYARROW:  # which has no enumerations, and makes categories of text only
        return nw.new_series(name, values, nw.String(), backend=library).cast(nw.Categorical())
    return nw.new_series(name, values, nw.Enum(labels), backend=library)  # type: ignore[arg-type]


def interval_names(cuts: Sequence[float] | Floats) -> list[str]:
    """Such as "(-inf, 2.45]", "(2.45, inf)"; as many digits as tell the cuts apart."""
    edges = [-math.inf, *(float(c) for c in cuts), math.inf]
    digits = next(d for d in range(6, 18) if len({f"{e:.{d}g}" for e in edges}) == len(edges))
    text = [f"{e:.{digits}g}" for e in edges]
    return [f"({a}, {b}{')' if b == 'inf' else ']'}" for a, b in pairwise(text)]


def _category_type(column: Column) -> Any:
    levels = [level for level in column.levels if isinstance(level, str)]
    is_enum = column.dtype.startswith("Enum") and len(levels) == column.n_levels
    return nw.Enum(levels) if is_enum else nw.Categorical


def _backend(frame: str) -> Any:
    return nw.Implementation.from_string(frame)


def _as_it_came(column: Column, values: Any) -> list[Any]:
    found = np.asarray(values).tolist()
    if column.dtype.lower().startswith(("int", "uint")):
        whole = [None if v is None or v != v else round(v) for v in found]
        if all(v is None or -(2**63) <= v < 2**63 for v in whole):  # a draw may lie beyond all integers of a frame
            return whole
    return list(found)
