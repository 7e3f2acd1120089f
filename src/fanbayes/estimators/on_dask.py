"""Tables of Dask: partitions are read, summarised and encoded by the workers, and their rows stay there.

Each partition is read once, into arrays that take about as much as encoded rows do, and tells what it holds
(`TableSummary`). Once all have, it is encoded and let go. By their lengths alone, small neighbours are encoded
together, and joined into blocks of about a million rows; a pass of EM is one task a block.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import compress, groupby
from typing import Any, Literal, NamedTuple
from uuid import uuid4

import dask.array as da
import numpy as np
from dask.delayed import delayed
from dask.sizeof import sizeof
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data

from fanbayes.arrays import Floats
from fanbayes.data.schema import Missing, Schema, category_mask
from fanbayes.data.sources import CategoryColumn, NumericColumn, compact
from fanbayes.data.summary import TableSummary, summarise
from fanbayes.data.table import EncodedTable, encode_table, joined, layout_of
from fanbayes.data.traps import Trap, training_traps, warn_of
from fanbayes.data.views import View, with_sources
from fanbayes.estimators.batch_cases import checksums
from fanbayes.estimators.dask_parts import DaskParts, blaming, check_versions, naming_partition, tasks
from fanbayes.estimators.sampled import Draw, Sample, SomeOfPart, draw_of, sample_of
from fanbayes.estimators.tabular import check_numbers
from fanbayes.estimators.validation import (
    Rows,
    as_frame,
    finite_weights,
    is_labelled,
    labels_of,
    read_bytes,
    read_labels,
    require_classes,
    seen_classes,
)
from fanbayes.learning.data import TrainingData
from fanbayes.learning.ensembles.race import Elsewhere
from fanbayes.learning.partitioned import PartitionedTable, training_data

# Rows of a block of encoded ones, and of partitions that are encoded in one task.
_ROWS_A_BLOCK = 1_000_000
_ROWS_TOGETHER = 100_000
# Rows of a partition by which traps are judged.
_FIRST_ROWS = 65_536


# ---------------------------------------------------------------- rows to learn from


@dataclass(frozen=True)
class Reading:
    """How partitions are read.

    Attributes
    ----------
    names : of the columns of an array, None for frames, which have their own
    categorical_features : as the classifier's
    all_rows : whether rows without a label are learnt from
    """

    names: list[str] | None
    categorical_features: Any
    all_rows: bool


class PartitionRows(NamedTuple):
    """Rows of a partition that count, each column in one array; `checksum` is of all that they hold."""

    where: str
    sources: list[NumericColumn | CategoryColumn]
    classes: NDArray[Any]
    labels: NDArray[np.int32]
    weights: Floats | None
    groups: list[Any] | None
    checksum: int

    @property
    def mark(self) -> Mark:
        """What they are known by when they are read again."""
        return len(self.labels), self.checksum


Mark = tuple[int, int]


@sizeof.register(PartitionRows)  # type: ignore[untyped-decorator]
def _bytes_of_rows(rows: PartitionRows) -> int:
    weights = 0 if rows.weights is None else rows.weights.nbytes
    return rows.labels.nbytes + weights + sum(source.values.nbytes for source in rows.sources)


def _read(where: str, X: Any, y: Any, weights: Any, groups: Any, how: Reading) -> PartitionRows:
    """Rows of a partition; it may have no rows, no labels, or no weights but 0."""
    with naming_partition(where):
        X, y, weights, groups = _columns_taken(X, y, weights, groups)
        frame = as_frame(X)
        content = np.asarray(X) if frame is None else frame
        rows = Rows(content, [*map(str, frame.columns)] if frame is not None else list(how.names or []))
        n = len(rows)
        classes, labels = labels_of(y, n)
        groups = None if groups is None else np.asarray(groups).tolist()
        present = (labels >= 0) | how.all_rows
        if weights is not None:
            weights = finite_weights(weights, n)
            present &= weights > 0
        if not present.all():
            rows, (classes, labels) = rows.take(present), seen_classes(classes, labels[present])
            weights = None if weights is None else weights[present]
            groups = None if groups is None else [*compress(groups, present)]
        if weights is not None and bool((weights == 1.0).all()):
            weights = None
        sources = [compact(source) for source in rows.sources()]
        mixed = zlib.crc32(checksums(sources, classes, labels, weights).tobytes())
        return PartitionRows(where, sources, classes, labels, weights, groups, mixed)


def _columns_taken(X: Any, *others: Any) -> tuple[Any, ...]:
    """X without the columns that are named, and these."""
    named = [other for other in others if isinstance(other, str)]
    for name in named:
        if name not in X.columns:
            raise ValueError(f"it has no column {name!r}; give all partitions the same columns")
    return (X.drop(columns=named) if named else X, *(X[other] if isinstance(other, str) else other for other in others))


@dataclass(frozen=True)
class Told:
    """What partitions hold: marks of each, and what all tell of the columns."""

    marks: tuple[Mark, ...]
    summary: TableSummary

    def __add__(self, other: Told) -> Told:
        return Told(self.marks + other.marks, self.summary + other.summary)


def _summary(rows: PartitionRows, how: Reading, counts: bool, missing: Missing) -> Told:
    where, sources, classes, labels, weights, *_ = rows
    with naming_partition(where):
        names = [source.name for source in sources]
        is_category = category_mask(how.categorical_features, names, [source.symbolic for source in sources])
        columns = sources, is_category, labels, weights, classes
        found = summarise(*columns, counts=counts, missing=missing, where=where).compact()
        return Told((rows.mark,), found)


def _encode(partitions: list[PartitionRows], marks: list[Mark], schema: Schema, classes: NDArray[Any]) -> EncodedTable:
    """Rows of neighbouring partitions, which had these marks when they were read first."""
    tables = []
    for rows, mark in zip(partitions, marks):
        with naming_partition(rows.where):
            _check_mark(rows, mark)
            tables.append(_encoded(rows, schema, classes))
    return joined(tables)


def _check_mark(rows: PartitionRows, before: Mark) -> None:
    """Refuse rows that are not those that were read first."""
    (n, checksum), (n_before, checksum_before) = rows.mark, before
    if n != n_before:
        raise ValueError(f"it had {n_before} rows when it was read first, and has {n} now; fit when it is at rest")
    if checksum != checksum_before:
        raise ValueError("it had other values when it was read first; fit when it is at rest, or to a copy of it")


def _encoded(rows: PartitionRows, schema: Schema, classes: NDArray[Any]) -> EncodedTable:
    table = encode_table(schema, rows.sources, len(rows.labels))
    check_numbers(schema, table)
    place = np.append(np.searchsorted(classes, rows.classes), -1).astype(np.int32)  # -1, no label, is the last entry
    return replace(table, labels=place[rows.labels], weights=rows.weights)


def _sample(
    rows: PartitionRows, mark: Mark, first: int, schema: Schema, classes: NDArray[Any], draw: Draw
) -> SomeOfPart:
    with naming_partition(rows.where):
        _check_mark(rows, mark)
        table = _encoded(rows, schema, classes)
        return draw.of_rows(with_sources(schema, table, rows.sources, len(classes)), rows.groups, first)


def _first_rows(source: Any) -> Any:
    first = replace(source, values=source.values[:_FIRST_ROWS])
    return replace(first, cases=None) if isinstance(source, CategoryColumn) else first


def _traps(rows: PartitionRows, schema: Schema, declared: set[str]) -> list[Trap]:
    sources = [_first_rows(source) for source in rows.sources]
    return training_traps(schema, sources, None if rows.weights is None else rows.weights[:_FIRST_ROWS], declared)


@dataclass(frozen=True)
class DaskCases:
    """Rows that `fit` was given and that count, in the partitions of a table of Dask.

    Attributes
    ----------
    partitions : DaskParts, each a PartitionRows, which are read when they are asked for
    kept : the same as they were read for the summary, until they are encoded; then none
    first : the first of them that has rows, kept
    summary : what they hold
    marks : of each, by which it is known
    frame : name of the library of the partitions' frames, None for arrays
    is_declared : whether the user said which columns are categories
    distributions : of continuous columns that are not normal, by position
    memory : bytes that rows may take here
    verbose : whether progress is shown
    """

    partitions: DaskParts
    kept: list[DaskParts]
    first: DaskParts
    summary: TableSummary
    marks: list[Mark]
    frame: str | None
    is_declared: bool
    distributions: dict[int, str]
    memory: int
    verbose: bool

    @property
    def classes(self) -> NDArray[Any]:
        """All classes, in order (n_classes,)."""
        return self.summary.classes

    def encoded(
        self, discretize: Literal["none", "mdlp"], missing: Missing = "ignorable"
    ) -> tuple[Schema, PartitionedTable]:
        """What the columns are, binned or not, with or without indicators, and the rows, on the workers."""
        schema = self.summary.schema(self.frame, discretize, self.distributions, missing)
        return schema, self.table(schema)

    def table(self, schema: Schema) -> PartitionedTable:
        """The rows as a schema encodes them, on the workers."""
        with blaming(self.partitions):
            parts = self._blocks(schema).persist()
            self.kept.clear()  # each is let go as soon as it is encoded
            parts.wait("encoding partitions", self.verbose)
        return PartitionedTable(parts, layout_of(schema), len(self.classes), self.summary.weight)

    def _blocks(self, schema: Schema) -> DaskParts:
        """Encoded rows of neighbours, about a million in each block."""
        rows = self._rows()
        together = blocks_of([n for n, _ in self.marks], _ROWS_TOGETHER)
        own = [([rows.values[k] for k in some], [self.marks[k] for k in some]) for some in together]
        tables = DaskParts.of(_encode, own, schema, self.classes)
        blocks = blocks_of([sum(n for n, _ in marks) for _, marks in own], _ROWS_A_BLOCK)
        return DaskParts(tasks(joined, [([tables.values[k] for k in block],) for block in blocks]))

    def _rows(self) -> DaskParts:
        """Rows as they were read, or to be read again."""
        return self.kept[0] if self.kept else self.partitions

    def sample(self, seed: int, missing: Missing = "ignorable") -> Sample:
        """As many rows as fit into memory here, with or without indicators, and where the others are."""
        schema = self.summary.schema(self.frame, missing=missing)
        draw = draw_of(self.summary, layout_of(schema), self.memory, seed)
        firsts = np.cumsum([0, *(n for n, _ in self.marks)]).tolist()
        some = DaskParts.of(_sample, zip(self._rows().values, self.marks, firsts), schema, self.classes, draw)
        with blaming(some):
            parts = some.gather()
        return sample_of(parts, self.classes, None if draw.is_all else self._elsewhere(schema))

    def _elsewhere(self, schema: Schema) -> Elsewhere:
        """All rows as a schema encodes them; others read them again."""
        whole = self.table(schema)

        def seen_by(view: View) -> TrainingData:
            table = whole if view.schema is schema else self.table(view.schema)
            return training_data(table.seen_by(view).fused(), None)

        return Elsewhere(seen_by, whole.class_cases[1:])

    def warn_of_traps(self, schema: Schema) -> None:
        """Warn of what may be wrong with columns that were taken for what the schema says, by the first rows."""
        of_columns = range(len(schema.columns)) if self.is_declared else self.distributions
        declared = {schema.columns[j].name for j in of_columns}
        [found] = self.first.map(_traps, schema, declared).gather()
        warn_of(found)


def blocks_of(lengths: Sequence[int], n_rows: int) -> list[list[int]]:
    """Numbers of the partitions of each block: neighbours, of about so many rows together."""
    before = np.cumsum([0, *lengths])[:-1] // n_rows
    return [list(block) for _, block in groupby(range(len(lengths)), key=before.__getitem__)]


def dask_cases(estimator: Any, X: Any, y: Any, sample_weight: Any, groups: Any = None) -> DaskCases:
    """What `fit` was given, summarised: X a frame or array of Dask, the others of Dask, or names of columns of X."""
    check_versions()
    own = _partitions(X, y, sample_weight, groups)
    is_frame = hasattr(X, "columns")
    meta = _columns_taken(X._meta, y, sample_weight, groups)[0] if is_frame else np.empty((0, X.shape[1]))
    if not meta.shape[1]:
        raise ValueError("X has no column beside y and sample_weight; give it at least one feature")
    validate_data(estimator, meta, reset=True, skip_check_array=True)
    names = None if is_frame else [f"x{j}" for j in range(X.shape[1])]
    how = Reading(names, estimator.categorical_features, estimator._learns_from_unlabelled)
    counts = getattr(estimator, "discretize", "none") == "mdlp"
    partitions = DaskParts.of(_read, own, how)
    with blaming(partitions):
        kept = partitions.persist()
        summaries = kept.map(_summary, how, counts, estimator.missing)
        if estimator.verbose:
            summaries = summaries.persist()
            summaries.wait("reading partitions", verbose=True)
        told = summaries.sum()
    summary, marks = told.summary, list(told.marks)
    require_classes(len(summary.classes))
    columns = summary.columns
    distributions = estimator._distributions([c.name for c in columns], [c.is_category for c in columns])
    memory = read_bytes("memory", estimator.memory)
    at = next(k for k, (n, _) in enumerate(marks) if n)
    return DaskCases(
        partitions,
        [kept],
        DaskParts(kept.values[at : at + 1]),
        summary,
        marks,
        "pandas" if is_frame else None,
        not isinstance(estimator.categorical_features, str),
        distributions,
        memory,
        bool(estimator.verbose),
    )


def _partitions(X: Any, y: Any, weights: Any, groups: Any = None) -> list[tuple[Any, ...]]:
    """Name, rows, labels, weights and groups of each partition; those that are columns of X stay names."""
    if X.ndim != 2:
        raise ValueError(f"X has {X.ndim} dimensions; give a frame, or an array of shape (n_samples, n_features)")
    for name in (part for part in (y, weights, groups) if isinstance(part, str)):
        if name not in getattr(X, "columns", ()):
            raise ValueError(f"X has no column {name!r}; it has {', '.join(map(repr, getattr(X, 'columns', ()))):.200}")
    rows, beside = _delayed(X), []
    for name, part in (("y", y), ("sample_weight", weights), ("groups", groups)):
        is_column = part is None or isinstance(part, str)
        beside.append([part] * len(rows) if is_column else _delayed(part, X))
        if len(beside[-1]) != len(rows):
            given = len(beside[-1])
            raise ValueError(f"X has {len(rows)} partitions and {name} has {given}; give both the same partitions")
    return [(f"partition {k}", *part) for k, part in enumerate(zip(rows, *beside))]


def _delayed(collection: Any, like: Any = None) -> list[Any]:
    """Partitions of a frame, or blocks of rows of an array, as those of `like` if it is known where these end."""
    if not hasattr(collection, "__dask_graph__"):
        raise TypeError(
            f"X is a table of Dask and y, sample_weight or groups a {type(collection).__name__}; name a column of X, "
            "or one of Dask"
        )
    if not isinstance(collection, da.Array):
        # Columns that nobody asks for are not read. What else Dask optimises would join partitions of few columns, and
        # rows would no longer lie beside their labels.
        return list(collection.simplify().to_delayed(optimize_graph=False))
    if collection.ndim == 2:
        collection = collection.rechunk({1: -1})
    chunks = getattr(like, "chunks", ((np.nan,),))[0]
    if not np.isnan(chunks).any() and not np.isnan(collection.chunks[0]).any() and sum(chunks) == len(collection):
        collection = collection.rechunk({0: chunks})
    return list(collection.to_delayed().ravel())


# ---------------------------------------------------------------- prediction


def predicted(estimator: Any, method: str, X: Any, n_columns: int | None, dtype: Any = np.float64) -> Any:
    """What a method says of the rows of X, an array of Dask (n_samples, n_columns), computed when it is asked for."""
    X = _known_columns(estimator, X)
    rows, width = _delayed(X), () if n_columns is None else (n_columns,)
    lengths = X.chunks[0] if isinstance(X, da.Array) else (np.nan,) * len(rows)
    shared = delayed(_alone(estimator), traverse=False, name=f"fanbayes-model-{uuid4().hex}")
    arguments = [(f"partition {k}", part, shared, method, width, dtype) for k, part in enumerate(rows)]
    found = tasks(_predict, arguments)
    return da.concatenate([da.from_delayed(p, (n, *width), dtype=dtype) for p, n in zip(found, lengths)])


def score(estimator: Any, X: Any, y: Any, sample_weight: Any) -> float:
    """Accuracy over the labelled rows of X, as `TableClassifier.score`."""
    beside = [column for column in (y, sample_weight) if isinstance(column, str)]
    own = _partitions(_known_columns(estimator, X, beside), y, sample_weight)
    counted = DaskParts.of(_count_right, own, _alone(estimator))
    with blaming(counted):
        right, total = counted.sum()
    if not total:
        raise ValueError("no row has a label to compare with; give at least one row of y a class")
    return float(right / total)


def _alone(estimator: Any) -> Any:
    """The classifier as a task uses it: other threads have tasks of their own."""
    found = copy(estimator)
    found.n_jobs, found.verbose = None, False
    return found


def _known_columns(estimator: Any, X: Any, beside: Sequence[str] = ()) -> Any:
    """The columns that the classifier knows, where X has names, and some beside them."""
    names = getattr(estimator, "feature_names_in_", None)
    if names is None or not hasattr(X, "columns"):
        return X
    absent = [name for name in names if name not in X.columns]
    if absent and not estimator.allow_missing_columns:
        raise ValueError(
            f"X has no column {absent[0]!r}, which was there in training; give it, or set allow_missing_columns=True"
        )
    return X[[name for name in (*names, *beside) if name in X.columns]]


def _predict(where: str, X: Any, estimator: Any, method: str, width: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    with naming_partition(where):
        if not len(X):
            return np.empty((0, *width), dtype=dtype)
        return np.asarray(getattr(estimator, method)(X))


def _count_right(where: str, X: Any, y: Any, weights: Any, groups: Any, estimator: Any) -> Floats:
    """Weight of the rows whose class is predicted, and of all that have one."""
    with naming_partition(where):
        if not len(X):
            return np.zeros(2)
        X, y, weights, _ = _columns_taken(X, y, weights, groups)
        y = read_labels(y, len(X))
        weights = np.ones(len(y)) if weights is None else np.asarray(weights, dtype=np.float64)
        known = is_labelled(y)
        right = estimator.predict(X)[known] == y[known]
        return np.array([weights[known][right].sum(), weights[known].sum()])
