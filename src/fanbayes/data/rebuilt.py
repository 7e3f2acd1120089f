"""Encoded rows as a user's own: a data frame like the one that the schema was learnt from, or an array."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from fanbayes.arrays import Floats
from fanbayes.data.schema import Column, Schema
from fanbayes.data.table import EncodedTable

# Libraries whose columns mark a missing value by NaN.
_LIKE_PANDAS = ("pandas", "modin", "cudf")


def rebuilt(table: EncodedTable, schema: Schema) -> Any:
    """The columns of rows that were encoded by a schema without bins, in their own units, as they came.

    Numbers are numbers again, and categories the same categories in every table. A column with fewer than two distinct
    values has that value everywhere: whether it is missing is not encoded.

    Returns
    -------
    frame of the schema's library, or ndarray of shape (n_rows, n_columns)
    """
    codes = table.codes_of_columns()
    values = [_values(schema, j, codes, table.numbers, table.n_rows) for j in range(len(schema.columns))]
    if schema.frame is None:
        dtype = object if any(x.dtype == object for x in values) else np.float64
        return np.column_stack([x.astype(dtype) for x in values])
    library: Any = nw.Implementation.from_string(schema.frame)
    data = {c.name: _series(c, x, library) for c, x in zip(schema.columns, values)}
    return nw.from_dict(data, backend=library).to_native()


def _values(schema: Schema, j: int, codes: NDArray[np.int64], numbers: Floats, n: int) -> NDArray[Any]:
    """One column (n_rows,), NaN where missing; text and truth values as objects."""
    column, place = schema.columns[j], schema.place.get(j)
    if column.kind == "continuous":
        return _as_integers(column, column.restore(np.zeros(n) if place is None else numbers[:, place]))
    of_rows = np.zeros(n, dtype=np.int64) if place is None else codes[:, place]
    levels = np.array([*column.levels, np.nan], dtype=object)
    if not any(isinstance(level, (str, bool)) for level in column.levels):
        return _as_integers(column, levels.astype(np.float64)[of_rows])
    is_flag = column.dtype.lower().startswith("bool") and not (of_rows == column.n_levels).any()
    return np.asarray(levels[of_rows], dtype=bool if is_flag else object)


def _as_integers(column: Column, x: Floats) -> NDArray[Any]:
    """Integers again, if they were and none is missing."""
    is_whole = column.dtype.lower().startswith(("int", "uint"))
    return np.rint(x).astype(np.int64) if is_whole and (np.abs(x) < 2.0**63).all() else x


def _series(column: Column, values: NDArray[Any], library: Any) -> Any:
    """A column as its library has it."""
    is_category = column.dtype.startswith(("Categorical", "Enum"))
    is_pandas = library.value in _LIKE_PANDAS
    if is_pandas and is_category:
        place = {level: k for k, level in enumerate(column.levels)}
        codes = [place.get(v, -1) for v in values.tolist()]
        pandas, is_ordered = library.to_native_namespace(), column.dtype.startswith("Enum")
        return pandas.Categorical.from_codes(codes, categories=list(column.levels), ordered=is_ordered)
    if is_pandas:
        return values
    known = [None if v != v else v for v in values.tolist()]
    if not is_category or not column.has_strings:
        return nw.new_series(column.name, known, backend=library).to_native()
    text = nw.new_series(column.name, known, nw.String(), backend=library)
    is_enum = column.dtype.startswith("Enum") and library is not nw.Implementation.PYARROW
    return text.cast(nw.Enum([str(v) for v in column.levels]) if is_enum else nw.Categorical()).to_native()
