"""How a model sees the columns: as they are, binned, by their normal scores (`normal_scores.py`), or decorrelated.

Decorrelated, the standardised continuous columns z of a row become ``W z``, where W whitens the correlations that are
left within the classes, by the square root that keeps every column closest to itself (ZCA-cor, Kessy, Lewin & Strimmer
2018): the j-th is still the j-th column, cleaned of what the others tell about it. With variances tied, naive Bayes
is then linear discriminant analysis. A missing value stays missing, and counts as the column's mean for the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fanbayes import _native
from fanbayes.arrays import Floats, Mask
from fanbayes.data.caching import cached_property
from fanbayes.data.mdl import cut_points
from fanbayes.data.normal_scores import learn_scores, to_scores
from fanbayes.data.schema import Missing, Schema
from fanbayes.data.sources import Source
from fanbayes.data.storage import pieces
from fanbayes.data.table import EncodedTable, binned_codes, joined, layout_of, learn_table

Treatment = Literal["none", "mdlp", "normal_scores", "decorrelate"]


@dataclass(frozen=True)
class View:
    """Columns, and what becomes of the continuous ones before a model sees them.

    Attributes
    ----------
    schema : Schema
    mixing : (n_numbers, n_numbers) or None
        Column j of what the model sees is ``z @ mixing[:, j]``.
    scores : (n_numbers, 2, N_KNOTS) or None
        Knots of the normal scores that it sees.
    """

    schema: Schema
    mixing: Floats | None
    scores: Floats | None = None

    @property
    def feature_of(self) -> NDArray[np.intp]:
        """Feature of each column of the layout: the discrete ones, then the continuous ones; an indicator's as well."""
        return self.schema.feature_of

    def mix(self, table: EncodedTable) -> EncodedTable:
        """What the model sees of a table that was encoded by the schema."""
        if self.scores is None and self.mixing is None:
            return table
        numbers = table.storage.empty(table.numbers.shape, np.float64)
        for piece in pieces(table.n_rows):
            numbers[piece] = self._mixed(table.numbers[piece])
        return replace(table, numbers=numbers)

    def _mixed(self, numbers: Floats) -> Floats:
        """Scores of numbers (n_rows, n_numbers), decorrelated."""
        if self.scores is not None:
            numbers = to_scores(numbers, self.scores)
        return numbers if self.mixing is None else _native.mix(np.ascontiguousarray(numbers), self.mixing)


@dataclass(frozen=True)
class Encodings:
    """Rows as each of several schemas encodes them, their columns not mixed.

    Attributes
    ----------
    schemas : tuple of Schema
    tables : tuple of EncodedTable, one for each
    """

    schemas: tuple[Schema, ...]
    tables: tuple[EncodedTable, ...]

    def __getitem__(self, schema: Schema) -> EncodedTable:
        """The rows by one of the schemas, the very same object."""
        return self.tables[[s is schema for s in self.schemas].index(True)]

    def only(self, rows: NDArray[np.intp]) -> Encodings:
        """Some of the rows."""
        return Encodings(self.schemas, tuple(table.only(rows) for table in self.tables))

    def without(self, feature: int) -> Encodings:
        """The rows with one feature missing, given by its position; whether it had a value is not known either."""
        tables = []
        for schema, table in zip(self.schemas, self.tables):
            n_narrow, n_discrete = table.layout.n_narrow, table.layout.n_discrete
            narrow, wide, numbers = table.narrow.copy(), table.wide.copy(), table.numbers.copy()
            for k in np.flatnonzero(schema.feature_of == feature).tolist():
                if k < n_narrow:
                    narrow[:, k] = table.layout.n_levels[k]
                elif k < n_discrete:
                    wide[:, k - n_narrow] = table.layout.n_levels[k]
                else:
                    numbers[:, k - n_discrete] = np.nan
            tables.append(replace(table, narrow=narrow, wide=wide, numbers=numbers))
        return Encodings(self.schemas, tuple(tables))

    def clipped(self, furthest: float) -> Encodings:
        """Numbers within so many standard deviations."""
        tables = (replace(t, numbers=np.clip(t.numbers, -furthest, furthest)) for t in self.tables)
        return Encodings(self.schemas, tuple(tables))


@dataclass(frozen=True)
class TrainingTable:
    """Rows to learn from, read and encoded once, to be seen in several ways.

    Attributes
    ----------
    schema : Schema
        Of the columns as they are.
    table : EncodedTable
        Labels and weights included.
    values : dict of ndarray of shape (n_rows,)
        The continuous columns in their own units, NaN where missing, by their positions.
    n_classes : int
    holes : dict of bool ndarray of shape (n_rows,)
        Where columns without parameters are missing, by their positions.
    """

    schema: Schema
    table: EncodedTable
    values: Mapping[int, Floats]
    n_classes: int
    holes: Mapping[int, Mask]

    @property
    def labels(self) -> NDArray[np.int32]:
        """Class of each row (n_rows,), -1 where unlabelled."""
        assert self.table.labels is not None
        return self.table.labels

    def only(self, rows: NDArray[np.intp]) -> TrainingTable:
        """Some of the rows, the schema that of all."""
        values, holes = {j: x[rows] for j, x in self.values.items()}, {j: x[rows] for j, x in self.holes.items()}
        return replace(self, table=self.table.only(rows), values=values, holes=holes)

    def view(
        self, treatment: Treatment, known: NDArray[np.int32], missing: Missing | None = None
    ) -> tuple[View, EncodedTable]:
        """How a model sees the columns, and the rows, not mixed yet; learnt by the labels `known`, -1 elsewhere.

        Where what is `missing` is informative, columns with some but not all values missing have indicators; None:
        those that the rows have.
        """
        schema = self.schema if missing is None else self.schema_with(missing)
        if treatment == "mdlp":
            schema = self._binned(schema, known)
        mixing = scores = None
        if treatment == "decorrelate":
            mixing = whitening(self.table.numbers, known, self.table.weights, self.n_classes)
        elif treatment == "normal_scores":
            scores = learn_scores(self.table.numbers[known >= 0], self.table.case_weights[known >= 0])
        return View(schema, mixing, scores), self.table if schema is self.schema else self._table(schema)

    @cached_property
    def without_indicators(self) -> EncodedTable:
        """The rows as they are if what is missing is ignorable."""
        return self.view("none", self.labels, "ignorable")[1]

    def schema_with(self, missing: Missing) -> Schema:
        """Of the columns as they are, with indicators if what is missing is informative."""
        return self._ignorable if missing == "ignorable" else self._informative

    @cached_property
    def _ignorable(self) -> Schema:
        """Without indicators."""
        return replace(self.schema, indicates=()) if self.schema.indicates else self.schema

    @cached_property
    def _informative(self) -> Schema:
        """With indicators where some but not all values are missing."""
        n = self.table.n_rows
        some = tuple(j for j in range(len(self.schema.columns)) if 0 < np.count_nonzero(self._missing(j)) < n)
        return self.schema if some == self.schema.indicates else replace(self.schema, indicates=some)

    def _missing(self, j: int) -> Mask:
        """Where a column is missing (n_rows,)."""
        if j in self.holes:
            return self.holes[j]
        place, table = self.schema.place[j], self.table
        if self.schema[j].kind == "continuous":
            return np.isnan(table.numbers[:, place])
        return np.asarray(table.codes_of(place) == self.schema[j].n_levels)

    def _binned(self, schema: Schema, known: NDArray[np.int32]) -> Schema:
        columns = list(schema.columns)
        for j, x in self.values.items():
            cuts = cut_points(x, known, self.n_classes, self.table.weights)
            columns[j] = replace(columns[j], kind="binned", cuts=tuple(cuts.tolist()))
        return replace(schema, columns=tuple(columns))

    def _table(self, schema: Schema) -> EncodedTable:
        """The rows by a schema whose continuous columns may be binned, and which may have indicators."""
        table, layout = self.table, layout_of(schema)
        narrow = np.empty((table.n_rows, layout.n_narrow), dtype=np.uint8)
        wide = np.empty((table.n_rows, layout.n_discrete - layout.n_narrow), dtype=np.uint16)
        for codes, j in zip((*narrow.T, *wide.T), schema.discrete):  # columns of the two
            codes[:] = self._codes(schema, j)
        numbers = table.numbers if layout.n_numbers else np.empty((table.n_rows, 0))
        return replace(table, layout=layout, narrow=narrow, wide=wide, numbers=numbers)

    def _codes(self, schema: Schema, j: int) -> NDArray[Any]:
        """Codes of a discrete column of a schema (n_rows,)."""
        if j >= len(schema.columns):
            return self._missing(schema.feature(j))
        if schema[j].kind == "binned":
            return binned_codes(self.values[j], schema[j])
        return self.table.codes_of(self.schema.place[j])


def training_table(
    sources: Sequence[Source],
    is_category: Sequence[bool],
    frame: str | None,
    labels: NDArray[np.int32],
    weights: Floats | None,
    n_classes: int,
    missing: Missing = "ignorable",
) -> TrainingTable:
    """Read and encode the columns; parameters as in `learn_table`."""
    learnt = learn_table(sources, is_category, frame, labels, weights, missing=missing)
    return with_sources(*learnt, sources, n_classes)


def with_sources(schema: Schema, table: EncodedTable, sources: Sequence[Source], n_classes: int) -> TrainingTable:
    """Encoded rows, and what of their raw columns is needed to see them in several ways."""
    numeric = [j for j, c in enumerate(schema.columns) if c.kind == "continuous" and not np.isnan(c.centre)]
    holes = {j: source.missing() for j, source in enumerate(sources) if j not in schema.place}
    return TrainingTable(schema, table, {j: sources[j].numbers() for j in numeric}, n_classes, holes)


def joined_rows(parts: Sequence[TrainingTable]) -> TrainingTable:
    """Rows of parts that one schema has encoded, in their order."""
    first = parts[0]
    values = {j: np.concatenate([part.values[j] for part in parts]) for j in first.values}
    holes = {j: np.concatenate([part.holes[j] for part in parts]) for j in first.holes}
    return replace(first, table=joined([part.table for part in parts]), values=values, holes=holes)


def whitening(numbers: Floats, labels: NDArray[np.int32], weights: Floats | None, n_classes: int) -> Floats:
    """Matrix that makes standardised columns uncorrelated within classes, and leaves each with variance 1.

    The correlations are shrunk towards 0 by as many cases as there are columns.

    Parameters
    ----------
    numbers : (n_rows, n_numbers), NaN where missing
    labels : int32 (n_rows,); rows with a negative label are left out
    weights : (n_rows,) or None
    """
    rows = labels >= 0
    missing, y = np.isnan(numbers[rows]), labels[rows]
    z = np.where(missing, 0.0, numbers[rows])
    w = np.ones(len(y)) if weights is None else weights[rows]
    n, k = float(w.sum()), z.shape[1]
    within = z.copy()
    for j in range(k):
        cases = np.bincount(y, weights=w * ~missing[:, j], minlength=n_classes)
        mean = np.bincount(y, weights=w * z[:, j], minlength=n_classes) / np.maximum(cases, 1e-300)
        within[:, j] -= mean[y]
    within[missing] = 0.0
    scatter = _second_moments(within, w)
    of_column = np.diag(scatter)
    deviation = np.where(of_column > 0, np.sqrt(of_column + 1e-9), 1.0)
    correlation = scatter / deviation / deviation[:, None] * n / (n + k)
    np.fill_diagonal(correlation, 1.0)
    values, vectors = np.linalg.eigh(correlation)
    matrix = (vectors / np.sqrt(np.maximum(values, 1e-9))) @ vectors.T / deviation[:, None]
    mixed = _native.mix(z, matrix)
    spread = np.sqrt(np.einsum("nj,nj,n->j", mixed, mixed, w, optimize=False) / n)
    return np.asarray(matrix / np.where(spread > 1e-9, spread, 1.0))  # of a column without values it is 0


def _second_moments(z: Floats, w: Floats) -> Floats:
    return np.asarray(np.einsum("ni,nj->ij", z * w[:, None], z, optimize=False) / w.sum())
