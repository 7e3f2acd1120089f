"""Tables handed back to the user, in the library that theirs came in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import narwhals as nw
import numpy as np

from fanbayes.data.schema import Column, Schema


def to_user_table(columns: Mapping[str, Sequence[Any]], frame: str | None) -> Any:
    """Columns as a data frame of the library `frame`, or as a dict where that is None."""
    if frame is None:
        return dict(columns)
    return nw.from_dict({name: list(values) for name, values in columns.items()}, backend=_backend(frame)).to_native()


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
    return frame.with_columns(*(nw.col(c.name).cast(_category_type(c)) for c in categories)).to_native()


def _category_type(column: Column) -> Any:
    levels = [level for level in column.levels if isinstance(level, str)]
    is_enum = column.dtype.startswith("Enum") and len(levels) == column.n_levels
    return nw.Enum(levels) if is_enum else nw.Categorical


def _backend(frame: str) -> Any:
    return nw.Implementation.from_string(frame)


def _as_it_came(column: Column, values: Any) -> list[Any]:
    if column.dtype.lower().startswith(("int", "uint")):
        return [None if v is None or v != v else round(v) for v in np.asarray(values).tolist()]
    return list(np.asarray(values).tolist())
