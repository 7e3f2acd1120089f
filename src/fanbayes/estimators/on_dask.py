"""Tables of Dask: partitions are read, summarised and encoded by the workers, and their rows stay there.

Of each table there are two passes: one task a partition tells what it holds (`TableSummary`), one encodes it. Small
partitions are joined into blocks of about a million rows, by their lengths alone; a pass of EM is one task a block.
Nothing is kept without the recipe that it was made by, so a worker that dies costs the time to make it again.

Everything goes through `dask.persist` and `dask.compute`: to the cluster of the current client, or to the threads of
this process where there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from itertools import compress, groupby
from typing import Any, Literal, NamedTuple
from uuid import uuid4

import dask
import dask.array as da
import numpy as np
from dask.delayed import delayed
from dask.sizeof import sizeof
from distributed import KilledWorker, default_client
from distributed.client import ClosedClientError
from distributed.comm import CommClosedError
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data

from fanbayes.arrays import Floats
from fanbayes.data.schema import Missing, Schema, category_mask
from fanbayes.data.sources import Source
from fanbayes.data.summary import TableSummary, summarise
from fanbayes.data.table import EncodedTable, encode_table, joined, layout_of
from fanbayes.data.traps import Trap, training_traps, warn_of
from fanbayes.data.views import View, with_sources
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
)
from fanbayes.learning.data import InMemoryData, TrainingData
from fanbayes.learning.ensembles.race import Elsewhere
from fanbayes.learning.partitioned import PartitionedTable, added_up, training_data

_ROWS_A_BLOCK = 1_000_000


# ---------------------------------------------------------------- values on the workers


@dataclass(frozen=True)
class DaskParts:
    """Values of Dask, one for each partition or block (`fanbayes.learning.partitioned.Parts`)."""

    values: tuple[Any, ...]

    def map(self, function: Callable[..., Any], *arguments: Any) -> DaskParts:
        """A function of each value and of the arguments, which are sent once to a worker."""
        return self.of(function, [(value,) for value in self.values], *arguments)

    @classmethod
    def of(cls, function: Callable[..., Any], own: Iterable[tuple[Any, ...]], *arguments: Any) -> DaskParts:
        """A function of the own arguments of each value, and of those that all have."""
        shared = [delayed(argument, traverse=False, name=f"fanbayes-argument-{uuid4().hex}") for argument in arguments]
        return cls(_tasks(function, [(*each, *shared) for each in own]))

    def persist(self) -> DaskParts:
        """The same values, computed where they are and kept there as long as somebody asks for them."""
        with _on_cluster():
            return DaskParts(dask.persist(*self.values, traverse=False))

    def gather(self) -> list[Any]:
        """The values, brought here."""
        with _on_cluster():
            return list(dask.compute(*self.values, traverse=False))

    def sum(self) -> Any:
        """Their sum, taken by the workers and brought here."""
        [total] = DaskParts((added_up(self.values, _add_later),)).gather()
        return total


def _tasks(function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
    """A task for each of the arguments, all called by the function's name."""
    call = delayed(function, pure=False, traverse=False)
    name = f"fanbayes-{function.__name__.lower().strip('_').replace('_', '-')}-{uuid4().hex}"
    return tuple(call(*each, dask_key_name=f"{name}-{k}") for k, each in enumerate(arguments))


def _add_later(values: Sequence[Any]) -> Any:
    return _tasks(_sum, [(list(values),)])[0]


def _sum(values: list[Any]) -> Any:
    return sum(values[1:], start=values[0])


@sizeof.register(EncodedTable)  # type: ignore[untyped-decorator]
def _bytes_of_table(table: EncodedTable) -> int:
    arrays = (table.narrow, table.wide, table.numbers, table.pairs, table.labels, table.weights)
    return sum(array.nbytes for array in arrays if array is not None)


@sizeof.register(InMemoryData)  # type: ignore[untyped-decorator]
def _bytes_of_data(data: InMemoryData) -> int:
    return int(_bytes_of_table(data.table))


# ---------------------------------------------------------------- what may go wrong


class PartitionError(ValueError):
    """What is wrong with a partition, which its message names."""


@contextmanager
def _naming(where: str) -> Iterator[None]:
    try:
        yield
    except (TypeError, ValueError) as error:
        raise PartitionError(f"{where}: {error}") from None


@contextmanager
def _on_cluster() -> Iterator[None]:
    """Say what has become of the cluster, where it is lost."""
    try:
        yield
    except KilledWorker as error:
        raise RuntimeError(
            f"workers of Dask died again and again over the task {error.task!r:.60}; give them more memory, or make "
            "the partitions smaller"
        ) from error
    except (CancelledError, CommClosedError, ClosedClientError) as error:
        raise ConnectionError(
            f"the scheduler of Dask went away, or what was computed was cancelled ({error!s:.200}); connect to a "
            "scheduler, and fit again"
        ) from error


@contextmanager
def _blaming(parts: DaskParts) -> Iterator[None]:
    """Where a partition cannot be read, name the first of them."""
    try:
        yield
    except (PartitionError, ConnectionError, RuntimeError):
        raise
    except Exception:
        found = _first_failure(parts.map(_nothing).values)
        if found is None:  # each can be read: they do not fit together
            raise
        raise PartitionError(f"partition {found[0]} cannot be read: {found[1]}") from found[1]


def _first_failure(values: Sequence[Any]) -> tuple[int, Exception] | None:
    """Number of the first value that cannot be computed, and why; None where all can."""
    low, high, error = 0, len(values), _error_of(values)
    if error is None:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        if _error_of(values[low:middle]) is None:
            low = middle
        else:
            high = middle
    return low, _error_of(values[low:high]) or error


def _error_of(values: Sequence[Any]) -> Exception | None:
    try:
        DaskParts(tuple(values)).gather()
    except (ConnectionError, RuntimeError):
        raise
    except Exception as error:
        return error
    return None


def _nothing(value: Any) -> None:
    return None


def _check_versions() -> None:
    """Refuse workers with other versions than here of what is sent to and fro."""
    try:
        client = default_client()
    except ValueError:
        return
    with _on_cluster():
        found = client.get_versions(packages=["fanbayes"])
    for name in ("fanbayes", "numpy"):
        here = found["client"]["packages"][name]
        for address, worker in found["workers"].items():
            there = worker["packages"].get(name)
            if there != here:
                has = f"has {name} {there}" if there else f"has no {name}"
                raise ValueError(f"worker {address} of Dask {has}, and here is {name} {here}; install the same there")


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


def _summary(partition: Partition, how: Reading, counts: bool, missing: Missing) -> TableSummary:
    with _naming(partition.where):
        sources, classes, labels, weights, _ = _rows(partition, how)
        names = [source.name for source in sources]
        is_category = category_mask(how.categorical_features, names, [source.symbolic for source in sources])
        columns = sources, is_category, labels, weights, classes
        return summarise(*columns, counts=counts, missing=missing, where=partition.where).compact()


def _encode(partition: Partition, how: Reading, schema: Schema, classes: NDArray[Any]) -> EncodedTable:
    with _naming(partition.where):
        return _encoded(_rows(partition, how), schema, classes)


def _encoded(rows: PartitionRows, schema: Schema, classes: NDArray[Any]) -> EncodedTable:
    table = encode_table(schema, rows.sources, len(rows.labels))
    check_numbers(schema, table)
    place = np.append(np.searchsorted(classes, rows.classes), -1).astype(np.int32)  # -1, no label, is the last entry
    return replace(table, labels=place[rows.labels], weights=rows.weights)


def _sample(
    partition: Partition, first: int, how: Reading, schema: Schema, classes: NDArray[Any], draw: Draw
) -> SomeOfPart:
    with _naming(partition.where):
        rows = _rows(partition, how)
        table = _encoded(rows, schema, classes)
        return draw.of_rows(with_sources(schema, table, rows.sources, len(classes)), rows.groups, first)


def _traps(partition: Partition, how: Reading, schema: Schema, declared: set[str]) -> list[Trap]:
    rows = _rows(partition, how)
    return training_traps(schema, rows.sources, rows.weights, declared)


def _n_rows(value: TableSummary | EncodedTable) -> int:
    return value.n_rows


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
    """

    partitions: DaskParts
    how: Reading
    summary: TableSummary
    lengths: list[int]
    frame: str | None
    distributions: dict[int, str]
    memory: int

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
        tables = self.partitions.map(_encode, self.how, schema, self.classes)
        with _blaming(tables):
            tables = tables.persist()
            lengths = tables.map(_n_rows).gather()
        for k, (before, now) in enumerate(zip(self.lengths, lengths)):
            if before != now:
                raise ValueError(
                    f"partition {k} had {before} rows when it was read first, and has {now} now; keep it as it is"
                )
        blocks = [([tables.values[k] for k in block],) for block in blocks_of(lengths)]
        parts = DaskParts(_tasks(joined, blocks)).persist()
        return PartitionedTable(parts, layout_of(schema), len(self.classes), self.summary.weight)

    def sample(self, seed: int) -> Sample:
        """As many rows as fit into memory here, and where the others are."""
        schema = self.summary.schema(self.frame)
        draw = draw_of(self.summary, layout_of(schema), self.memory, seed)
        firsts = np.cumsum([0, *self.lengths]).tolist()
        some = DaskParts.of(_sample, zip(self.partitions.values, firsts), self.how, schema, self.classes, draw)
        with _blaming(some):
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


def blocks_of(lengths: Sequence[int]) -> list[list[int]]:
    """Numbers of the partitions of each block: neighbours, of about a million rows together."""
    before = np.cumsum([0, *lengths])[:-1] // _ROWS_A_BLOCK
    return [list(block) for _, block in groupby(range(len(lengths)), key=before.__getitem__)]


def dask_cases(estimator: Any, X: Any, y: Any, sample_weight: Any, groups: Any = None) -> DaskCases:
    """What `fit` was given, summarised: X a frame or array of Dask, the others of Dask, or names of columns of X."""
    _check_versions()
    X, *beside = _columns_by_name(X, y, sample_weight, groups)
    partitions = _partitions(X, *beside)
    is_frame = hasattr(X, "columns")
    meta = X._meta if is_frame else np.empty((0, X.shape[1]))
    validate_data(estimator, meta, reset=True, skip_check_array=True)
    names = None if is_frame else [f"x{j}" for j in range(X.shape[1])]
    how = Reading(names, estimator.categorical_features, estimator._learns_from_unlabelled)
    counts = getattr(estimator, "discretize", "none") == "mdlp"
    summaries = partitions.map(_summary, how, counts, estimator.missing)
    with _blaming(summaries):
        kept = summaries.persist()
        summary, lengths = kept.sum(), kept.map(_n_rows).gather()
    if not len(summary.classes):
        raise ValueError("no row has a label; give at least one row of y a class")
    columns = summary.columns
    distributions = estimator._distributions([c.name for c in columns], [c.is_category for c in columns])
    memory = read_bytes("memory", estimator.memory)
    return DaskCases(partitions, how, summary, lengths, "pandas" if is_frame else None, distributions, memory)


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
    return DaskParts(_tasks(Partition, [(f"partition {k}", *part) for k, part in enumerate(zip(rows, *beside))]))


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
    found = _tasks(_predict, arguments)
    return da.concatenate([da.from_delayed(p, (n, *width), dtype=dtype) for p, n in zip(found, lengths)])


def score(estimator: Any, X: Any, y: Any, sample_weight: Any) -> float:
    """Accuracy over the labelled rows of X, as `TableClassifier.score`."""
    X, y, weights = _columns_by_name(X, y, sample_weight)
    parts = _partitions(_known_columns(estimator, X), y, weights)
    counted = parts.map(_count_right, _alone(estimator))
    with _blaming(counted):
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
    with _naming(where):
        if not len(X):
            return np.empty((0, *width), dtype=dtype)
        return np.asarray(getattr(estimator, method)(X))


def _count_right(partition: Partition, estimator: Any) -> Floats:
    """Weight of the rows whose class is predicted, and of all that have one."""
    with _naming(partition.where):
        if not len(partition.X):
            return np.zeros(2)
        y = read_labels(partition.y, len(partition.X))
        weights = np.ones(len(y)) if partition.weights is None else np.asarray(partition.weights, dtype=np.float64)
        known = is_labelled(y)
        right = estimator.predict(partition.X)[known] == y[known]
        return np.array([weights[known][right].sum(), weights[known].sum()])
