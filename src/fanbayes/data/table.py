"""Encoded tables: once encoded, only numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fanbayes import _native
from fanbayes.data.schema import (
    Column,
    Schema,
    check_content,
    continuous_column,
    discrete_column,
    is_wide,
)
from fanbayes.data.sources import Source, infinite

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Layout:
    """How the parameters of a schema's columns lie in flat arrays.

    Discrete column number j (in `Schema.discrete` order) has levels ``first_level[j] .. first_level[j + 1]``
    of one flat axis, the last of which stands for "missing".
    """

    first_level: NDArray[np.int64]  # (n_discrete + 1,)
    n_narrow: int
    n_numbers: int

    @classmethod
    def of(cls, schema: Schema) -> Layout:
        """Layout of a schema."""
        columns = [schema[j] for j in schema.discrete]
        sizes = [c.n_levels + 1 for c in columns]
        first = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        return cls(first, sum(not is_wide(c) for c in columns), len(schema.continuous))

    @property
    def n_discrete(self) -> int:
        """Number of discrete columns."""
        return len(self.first_level) - 1

    @cached_property
    def n_levels(self) -> NDArray[np.int64]:
        """Levels of each discrete column (n_discrete,), "missing" not counted."""
        return np.diff(self.first_level) - 1

    @cached_property
    def column_of(self) -> NDArray[np.int64]:
        """Discrete column of each level of the flat axis."""
        return np.repeat(np.arange(self.n_discrete), self.n_levels + 1)

    @cached_property
    def missing_level(self) -> NDArray[np.int64]:
        """Position of each column's "missing" on the flat axis (n_discrete,)."""
        return self.first_level[1:] - 1


@dataclass(frozen=True)
class EncodedTable:
    """Rows as codes and standardised numbers.

    Attributes
    ----------
    layout : Layout
    narrow : uint8 (n_rows, n_narrow) and wide : uint16 (n_rows, n_wide)
        Codes of the discrete columns; the last level of a column is "missing".
    numbers : float64 (n_rows, n_numbers)
        Standardised values of the continuous columns, NaN where missing.
    labels : int32 (n_rows,) or None
        Class of each row, -1 where unlabelled; None: no row is labelled.
    weights : float64 (n_rows,) or None
        Case counts; None: all 1.
    """

    layout: Layout
    narrow: NDArray[np.uint8]
    wide: NDArray[np.uint16]
    numbers: Floats
    labels: NDArray[np.int32] | None = None
    weights: Floats | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.narrow)

    @cached_property
    def total_weight(self) -> float:
        """N: the sum of the weights."""
        return float(self.n_rows if self.weights is None else self.weights.sum())

    @cached_property
    def rows(self) -> _native.Rows:
        """The native core's view of it."""
        return _native.Rows(self.narrow, self.wide, self.numbers, self.layout.first_level, self.labels, self.weights)

    def labelled_only(self) -> EncodedTable:
        """Rows that have a label."""
        if self.labels is None or (self.labels >= 0).all():
            return self
        keep = self.labels >= 0
        return replace(
            self,
            narrow=self.narrow[keep],
            wide=self.wide[keep],
            numbers=self.numbers[keep],
            labels=self.labels[keep],
            weights=None if self.weights is None else self.weights[keep],
        )


def learn_table(
    sources: Iterable[Source],
    is_category: Sequence[bool],
    frame: str | None,
    labels: NDArray[np.int32],
    weights: Floats | None,
    cut_points: Callable[[Floats], Floats] | None = None,
) -> tuple[Schema, EncodedTable]:
    """Learn what the columns are and encode them, one column at a time.

    Parameters
    ----------
    sources : the raw columns
    is_category : whether each is taken as categories
    frame : name of the frame library, None for an array
    labels : int32 (n_rows,), -1 where unlabelled
    weights : float64 (n_rows,) or None, all positive
    cut_points : function from values (n_rows,) to cut points, to bin the continuous columns; or None

    Returns
    -------
    schema : Schema
    table : EncodedTable
    """
    n = len(labels)
    # Codes go straight to where they stay; no second copy of the table exists but for wide columns.
    narrow = np.empty((n, len(is_category)), dtype=np.uint8)
    wide: list[NDArray[np.uint16]] = []
    numbers: list[Floats] = []
    columns: list[Column] = []
    n_narrow = 0
    for source, category in zip(sources, is_category):
        if category:
            column = discrete_column(source)
            codes = source.codes(column.levels)
        else:
            if source.content == "symbols":
                raise ValueError(
                    f"column {source.name!r} holds {source.dtype} values but is said to be numeric; add it to "
                    "categorical_features or convert it to numbers"
                )
            x = source.numbers()
            column = continuous_column(source.name, source.dtype, x, weights)
            if cut_points is None:
                if column.is_informative:
                    numbers.append(column.standardise(x))
                columns.append(column)
                continue
            cuts = cut_points(x)
            column = replace(column, kind="binned", cuts=tuple(float(c) for c in cuts))
            codes = binned_codes(x, column)
        columns.append(column)
        if not column.is_informative:
            continue
        if is_wide(column):
            wide.append(codes.astype(np.uint16))
        else:
            narrow[:, n_narrow] = codes
            n_narrow += 1
    schema = Schema(tuple(columns), frame)
    table = EncodedTable(
        Layout.of(schema),
        narrow if n_narrow == narrow.shape[1] else np.ascontiguousarray(narrow[:, :n_narrow]),
        _side_by_side(wide, n, np.uint16),
        _side_by_side(numbers, n, np.float64),
        labels,
        weights,
    )
    return schema, table


def encode_table(schema: Schema, sources: Sequence[Source], n_rows: int, unknown_is_error: bool) -> EncodedTable:
    """Encode rows by a schema that is already known.

    A category that the schema does not know counts as missing, or is an error.
    """
    layout = Layout.of(schema)
    narrow = np.empty((n_rows, layout.n_narrow), dtype=np.uint8)
    wide = np.empty((n_rows, layout.n_discrete - layout.n_narrow), dtype=np.uint16)
    numbers = np.empty((n_rows, layout.n_numbers))
    for column, source in zip(schema.columns, sources):
        check_content(column, source)
    for k, j in enumerate(schema.discrete):
        column, source = schema[j], sources[j]
        codes = binned_codes(_finite(source), column) if column.kind == "binned" else source.codes(column.levels)
        if unknown_is_error and column.kind == "discrete":
            unknown = (codes == column.n_levels) & ~source.missing()
            if unknown.any():
                row = int(np.argmax(unknown))
                raise ValueError(
                    f"column {column.name!r} has a category in row {row} that was not seen in training; "
                    "handle_unknown='missing' would take it as missing"
                )
        if k < layout.n_narrow:
            narrow[:, k] = codes
        else:
            wide[:, k - layout.n_narrow] = codes
    for k, j in enumerate(schema.continuous):
        numbers[:, k] = schema[j].standardise(_finite(sources[j]))
    return EncodedTable(layout, narrow, wide, numbers)


def binned_codes(x: Floats, column: Column) -> NDArray[np.intp]:
    """Interval of each value: the k-th holds ``cuts[k - 1] < x <= cuts[k]``; missing comes last."""
    codes = np.searchsorted(np.asarray(column.cuts, dtype=np.float64), x, side="left")
    codes[np.isnan(x)] = column.n_levels
    return codes


def _finite(source: Source) -> Floats:
    x = source.numbers()
    if np.isinf(x).any():
        raise ValueError(infinite(source.name))
    return x


def _side_by_side(columns: list[NDArray[Any]], n_rows: int, dtype: type) -> NDArray[Any]:
    """Columns (n_rows,) as one row-major block (n_rows, n_columns), freeing each as it is copied."""
    block: NDArray[Any] = np.empty((n_rows, len(columns)), dtype=dtype)
    for k in range(len(columns)):
        block[:, k] = columns[k]
        columns[k] = columns[k][:0]
    return block
