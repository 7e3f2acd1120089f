"""Tables of Dask: partitions are read, summarised and encoded by the workers, and their rows stay there.

Of each table there are two passes: one task a partition tells what it holds (`TableSummary`), others encode it. By
their lengths alone, small neighbours are encoded together, and joined into blocks of about a million rows; a pass of EM
is one task a block.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, replace
from itertools import compress, groupby
from typing import Any, Literal, NamedTuple
from uuid import uuid4

import dask.array as da
import numpy as np
from dask.delayed import delayed
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data

from fanbayes.arrays import Floats
from fanbayes.data.schema import Missing, Schema, category_mask
from fanbayes.data.sources import Source
from fanbayes.data.summary import TableSummary, summarise
from fanbayes.data.table import EncodedTable, encode_table, joined, layout_of
from fanbayes.data.traps import Trap, training_traps, warn_of
from fanbayes.data.views import View, with_sources
from fanbayes.estimators.dask_parts import DaskParts, blaming, check_versions, naming_partition, nothing, tasks
from fanbayes.estimators.sampled import Draw, Sample, SomeOfPart, draw_of, sample_of
from fanbayes.estimators.tabular import check_numbers
from fanbayes.estimators.validation import (
    Rows,
    as_frame,
    encode_labels,
    is_labelled,
    read_bytes,
    read_labels,
    read_weights,
    require_classes,
)
from fanbayes.learning.data import TrainingData
from fanbayes.learning.ensembles.race import Elsewhere
from fanbayes.learning.partitioned import PartitionedTable, training_data

# Rows of a block of encoded ones, and of partitions that are encoded together: each takes some hundredths of a second.
_ROWS_A_BLOCK = 1_000_000
_ROWS_TOGETHER = 100_000


# ---------------------------------------------------------------- rows to learn from


class Partition(NamedTuple):
    """Some rows as they came, with labels and weights."""

    where: str
    X: Any
    y: Any
    weights: Any
    groups: Any = None


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
    """Rows of a partition that count."""

    sources: list[Source]
    classes: NDArray[Any]
    labels: NDArray[np.int32]
    weights: Floats | None
    groups: list[Any] | None


def _rows(partition: Partition, how: Reading) -> PartitionRows:
    """Read a partition; it may have no rows, no labels, or no weights but 0."""
    frame = as_frame(partition.X)
    content = np.asarray(partition.X) if frame is None else frame
    rows = Rows(content, [*map(str, frame.columns)] if frame is not None else list(how.names or []))
    n = len(rows)
    y, weights = read_labels(partition.y, n), None
    groups = None if partition.groups is None else np.asarray(partition.groups).tolist()
    present = is_labelled(y) | how.all_rows
    if partition.weights is not None and n:
        given = np.asarray(partition.weights)
        absent = given.shape == (n,) and not given.any()
        weights = np.zeros(n) if absent else read_weights(given, n)
        present &= True if weights is None else weights > 0
    if not present.all():
        rows, y = rows.take(present), y[present]
        weights = None if weights is None else weights[present]
        groups = None if groups is None else [*compress(groups, present)]
    if is_labelled(y).any():
        classes, labels = encode_labels(y)
    else:
        classes, labels = np.empty(0), np.full(len(y), -1, dtype=np.int32)
    return PartitionRows(list(rows.sources()), classes, labels, weights, groups)


@dataclass(frozen=True)
class Told:
    """What partitions hold: how many rows that count, of each, and what all tell of the columns."""

    lengths: tuple[int, ...]
    summary: TableSummary

    def __add__(self, other: Told) -> Told:
        return Told(self.lengths + other.lengths, self.summary + other.summary)


def _summary(partition: Partition, how: Reading, counts: bool, missing: Missing) -> Told:
    with naming_partition(partition.where):
        sources, classes, labels, weights, _ = _rows(partition, how)
        names = [source.name for source in sources]
        is_category = category_mask(how.categorical_features, names, [source.symbolic for source in sources])
        columns = sources, is_category, labels, weights, classes
        found = summarise(*columns, counts=counts, missing=missing, where=partition.where).compact()
        return Told((found.n_rows,), found)


def _encode(
    partitions: list[Partition], lengths: list[int], how: Reading, schema: Schema, classes: NDArray[Any]
) -> EncodedTable:
    """Rows of neighbouring partitions, which had so many when they were read first."""
    if len(partitions) > 1 and len({_types(partition) for partition in partitions}) == 1:
        with suppress(TypeError, ValueError):  # below, each tells of itself
            found = _encoded(_rows(_together(partitions), how), schema, classes)
            if found.n_rows == sum(lengths):
                return found
    tables = []
    for partition, before in zip(partitions, lengths):
        with naming_partition(partition.where):
            tables.append(_encoded(_rows(partition, how), schema, classes))
            if tables[-1].n_rows != before:
                raise ValueError(f"it had {before} rows when it was read first, and has {tables[-1].n_rows} now")
    return joined(tables)


def _types(partition: Partition) -> tuple[Any, ...]:
    """Types of everything in a partition."""
    found = [getattr(value, "dtype", None) for value in partition[1:]]
    return (*found, *partition.X.columns, *partition.X.dtypes) if hasattr(partition.X, "columns") else tuple(found)


def _together(partitions: list[Partition]) -> Partition:
    """Partitions of the same types as one."""
    values = ([getattr(partition, name) for partition in partitions] for name in Partition._fields[1:])
    return Partition(partitions[0].where, *map(_concatenated, values))


def _concatenated(values: list[Any]) -> Any:
    """Frames, columns or arrays, one below the other."""
    if values[0] is None or isinstance(values[0], np.ndarray):
        return None if values[0] is None else np.concatenate(values)
    import pandas as pd  # type: ignore[import-untyped]  # which Dask has frames of

    return pd.concat(values)


def _encoded(rows: PartitionRows, schema: Schema, classes: NDArray[Any]) -> EncodedTable:
    table = encode_table(schema, rows.sources, len(rows.labels))
    check_numbers(schema, table)
    place = np.append(np.searchsorted(classes, rows.classes), -1).astype(np.int32)  # -1, no label, is the last entry
    return replace(table, labels=place[rows.labels], weights=rows.weights)


def _sample(
    partition: Partition, first: int, how: Reading, schema: Schema, classes: NDArray[Any], draw: Draw
) -> SomeOfPart:
    with naming_partition(partition.where):
        rows = _rows(partition, how)
        table = _encoded(rows, schema, classes)
        return draw.of_rows(with_sources(schema, table, rows.sources, len(classes)), rows.groups, first)


def _traps(partition: Partition, how: Reading, schema: Schema, declared: set[str]) -> list[Trap]:
    rows = _rows(partition, how)
    return training_traps(schema, rows.sources, rows.weights, declared)


@dataclass(frozen=True)
class DaskCases:
    """Rows that `fit` was given and that count, in the partitions of a table of Dask.

    Attributes
    ----------
    partitions : DaskParts, each a Partition
    how : how they are read
    summary : what they hold
    lengths : rows that count, of each
    frame : name of the library of the partitions' frames, None for arrays
    distributions : of continuous columns that are not normal, by position
    memory : bytes that rows may take here
    verbose : whether progress is shown
    """

    partitions: DaskParts
    how: Reading
    summary: TableSummary
    lengths: list[int]
    frame: str | None
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
        together = blocks_of(self.lengths, _ROWS_TOGETHER)
        own = [([self.partitions.values[k] for k in some], [self.lengths[k] for k in some]) for some in together]
        tables = DaskParts.of(_encode, own, self.how, schema, self.classes)
        blocks = blocks_of([sum(lengths) for _, lengths in own], _ROWS_A_BLOCK)
        parts = DaskParts(tasks(joined, [([tables.values[k] for k in block],) for block in blocks]))
        with blaming(self.partitions):
            parts = parts.watched("encoding partitions", self.verbose)
            parts.map(nothing).gather()
        return PartitionedTable(parts, layout_of(schema), len(self.classes), self.summary.weight)

    def sample(self, seed: int) -> Sample:
        """As many rows as fit into memory here, and where the others are."""
        schema = self.summary.schema(self.frame)
        draw = draw_of(self.summary, layout_of(schema), self.memory, seed)
        firsts = np.cumsum([0, *self.lengths]).tolist()
        some = DaskParts.of(_sample, zip(self.partitions.values, firsts), self.how, schema, self.classes, draw)
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
        is_declared = not isinstance(self.how.categorical_features, str)
        of_columns = range(len(schema.columns)) if is_declared else self.distributions
        declared = {schema.columns[j].name for j in of_columns}
        first = next(k for k, n in enumerate(self.lengths) if n)
        [found] = DaskParts(self.partitions.values[first : first + 1]).map(_traps, self.how, schema, declared).gather()
        warn_of(found)


def blocks_of(lengths: Sequence[int], n_rows: int) -> list[list[int]]:
    """Numbers of the partitions of each block: neighbours, of about so many rows together."""
    before = np.cumsum([0, *lengths])[:-1] // n_rows
    return [list(block) for _, block in groupby(range(len(lengths)), key=before.__getitem__)]


def dask_cases(estimator: Any, X: Any, y: Any, sample_weight: Any, groups: Any = None) -> DaskCases:
    """What `fit` was given, summarised: X a frame or array of Dask, the others of Dask, or names of columns of X."""
    check_versions()
    X, *beside = _columns_by_name(X, y, sample_weight, groups)
    partitions = _partitions(X, *beside)
    is_frame = hasattr(X, "columns")
    meta = X._meta if is_frame else np.empty((0, X.shape[1]))
    validate_data(estimator, meta, reset=True, skip_check_array=True)
    names = None if is_frame else [f"x{j}" for j in range(X.shape[1])]
    how = Reading(names, estimator.categorical_features, estimator._learns_from_unlabelled)
    counts = getattr(estimator, "discretize", "none") == "mdlp"
    summaries = partitions.map(_summary, how, counts, estimator.missing)
    with blaming(summaries):
        told = summaries.watched("reading partitions", bool(estimator.verbose)).sum()
    summary, lengths = told.summary, list(told.lengths)
    require_classes(len(summary.classes))
    columns = summary.columns
    distributions = estimator._distributions([c.name for c in columns], [c.is_category for c in columns])
    memory = read_bytes("memory", estimator.memory)
    told_of = (partitions, how, summary, lengths, "pandas" if is_frame else None, distributions)
    return DaskCases(*told_of, memory, bool(estimator.verbose))


def _columns_by_name(X: Any, *others: Any) -> tuple[Any, ...]:
    """X without the columns that are named, and these."""
    found, named = [], [other for other in others if isinstance(other, str)]
    for name in named:
        if name not in getattr(X, "columns", ()):
            raise ValueError(f"X has no column {name!r}; it has {', '.join(map(repr, getattr(X, 'columns', ()))):.200}")
    found = [X[other] if isinstance(other, str) else other for other in others]
    return (X.drop(columns=named) if named else X, *found)


def _partitions(X: Any, y: Any, weights: Any, groups: Any = None) -> DaskParts:
    """Rows, labels, weights and groups of each partition together."""
    if X.ndim != 2:
        raise ValueError(f"X has {X.ndim} dimensions; give a frame, or an array of shape (n_samples, n_features)")
    rows = _delayed(X)
    beside = [[None] * len(rows) if part is None else _delayed(part, X) for part in (y, weights, groups)]
    for name, part in zip(("y", "sample_weight", "groups"), beside):
        if len(part) != len(rows):
            raise ValueError(f"X has {len(rows)} partitions and {name} has {len(part)}; give both the same partitions")
    return DaskParts(tasks(Partition, [(f"partition {k}", *part) for k, part in enumerate(zip(rows, *beside))]))


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
    X, y, weights = _columns_by_name(X, y, sample_weight)
    parts = _partitions(_known_columns(estimator, X), y, weights)
    counted = parts.map(_count_right, _alone(estimator))
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


def _known_columns(estimator: Any, X: Any) -> Any:
    """The columns that the classifier knows, where X has names."""
    names = getattr(estimator, "feature_names_in_", None)
    if names is None or not hasattr(X, "columns"):
        return X
    absent = [name for name in names if name not in X.columns]
    if absent and not estimator.allow_missing_columns:
        raise ValueError(
            f"X has no column {absent[0]!r}, which was there in training; give it, or set allow_missing_columns=True"
        )
    return X[[name for name in names if name in X.columns]]


def _predict(where: str, X: Any, estimator: Any, method: str, width: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    with naming_partition(where):
        if not len(X):
            return np.empty((0, *width), dtype=dtype)
        return np.asarray(getattr(estimator, method)(X))


def _count_right(partition: Partition, estimator: Any) -> Floats:
    """Weight of the rows whose class is predicted, and of all that have one."""
    with naming_partition(partition.where):
        if not len(partition.X):
            return np.zeros(2)
        y = read_labels(partition.y, len(partition.X))
        weights = np.ones(len(y)) if partition.weights is None else np.asarray(partition.weights, dtype=np.float64)
        known = is_labelled(y)
        right = estimator.predict(partition.X)[known] == y[known]
        return np.array([weights[known][right].sum(), weights[known].sum()])
