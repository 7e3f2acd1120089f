"""Tables that are read in batches, so that they need not fit into memory.

`as_batches` knows Arrow datasets, lazy frames of polars, relations of DuckDB, tables of Ibis and readers of Arrow
batches. None of these libraries is imported unless an object of it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar, runtime_checkable

import narwhals as nw

from fanbayes.data.sources import without_encodings

T = TypeVar("T")

MOST_ROWS, MOST_CELLS = 1 << 16, 1 << 22  # of a batch
MOST_OF_A_REASON = 400  # letters of what another library says


@dataclass(frozen=True)
class Batch:
    """Some rows of a table, and where they came from, for messages: "claims/a.parquet", "rows 1 to 1,000"."""

    where: str
    frame: nw.DataFrame[Any]


@runtime_checkable
class Batches(Protocol):
    """A table in batches of rows, which can be gone through again and again: the same rows in the same order.

    Attributes
    ----------
    columns : list of str
    frame : str or None
        Name of the library that tables are handed back in.
    n_rows : int or None
        Where it is known without reading.
    """

    @property
    def columns(self) -> list[str]: ...  # noqa: D102
    @property
    def frame(self) -> str | None: ...  # noqa: D102
    @property
    def n_rows(self) -> int | None: ...  # noqa: D102

    def __iter__(self) -> Iterator[Batch]: ...

    def only(self, columns: Sequence[str]) -> Batches:
        """The same rows, of which only these columns are read."""


def as_batches(X: Any, rows_at_once: int, *, once: bool = False) -> Batches | None:
    """A table in batches, or None if it is one in memory, or nothing that is known here.

    Parameters
    ----------
    X : object
        Dataset of Arrow, lazy frame of polars, relation of DuckDB, table of Ibis, reader of Arrow batches, one of these
        wrapped by narwhals, or `Batches`.
    rows_at_once : int
        About how many rows a batch has at most.
    once : bool
        Whether nobody goes through the rows a second time. Otherwise those of a query, which need not come in the same
        order again, are kept in a temporary file.
    """
    if isinstance(X, nw.LazyFrame):
        X = X.to_native()
    kind, library = type(X).__name__, type(X).__module__.partition(".")[0]
    if library == "polars" and kind == "LazyFrame":
        return LazyFrameBatches(X, rows_at_once, list(X.collect_schema().names()))
    if library == "pyarrow":
        from fanbayes.data.arrow_batches import dataset_batches, of_reader

        return dataset_batches(X, rows_at_once) or of_reader(X, once)
    if library in ("duckdb", "_duckdb") and kind == "DuckDBPyRelation":
        # Versions of DuckDB before 1.4 know the other name only.
        open_reader = getattr(X, "to_arrow_reader", None) or X.fetch_arrow_reader
        return _of_query(lambda: open_reader(rows_at_once), X.columns, "relation", once)
    if library == "ibis" and hasattr(X, "to_pyarrow_batches") and hasattr(X, "columns"):
        return _of_query(lambda: X.to_pyarrow_batches(chunk_size=rows_at_once), X.columns, "table", once)
    return X if isinstance(X, Batches) else None


def coded(batches: Batches) -> tuple[Batches, frozenset[str]]:
    """The same rows with texts as codes, where they are stored so; and the names of the columns that are texts."""
    return batches.coded() if hasattr(batches, "coded") else (batches, frozenset())


def rows_at_once(n_columns: int) -> int:
    """Rows of a batch, so that it has some ten megabytes."""
    return max(1, min(MOST_ROWS, MOST_CELLS // max(n_columns, 1)))


def _of_query(open_reader: Callable[[], Any], columns: Iterable[str], what: str, once: bool) -> Batches:
    from fanbayes.data.arrow_batches import QueryBatches

    return QueryBatches(open_reader, list(columns), what, once)


@dataclass(frozen=True)
class LazyFrameBatches:
    """A lazy frame of polars, which runs its query each time that somebody goes through the rows."""

    lazy: Any = field(repr=False)
    rows_at_once: int
    columns: list[str]
    frame: str | None = "polars"
    n_rows: int | None = None

    def __iter__(self) -> Iterator[Batch]:
        if not hasattr(self.lazy, "collect_batches"):
            raise ValueError("a lazy frame is read in batches by polars 1.34 or later; upgrade polars, or collect it")
        frames = self.lazy.select(self.columns).collect_batches(chunk_size=self.rows_at_once, maintain_order=True)
        wrapped = (nw.from_native(frame, eager_only=True) for frame in frames)
        return numbered(reading("the lazy frame", wrapped), "the lazy frame")

    def only(self, columns: Sequence[str]) -> LazyFrameBatches:
        """The same rows, of which only these columns are read."""
        return replace(self, columns=checked(columns, self.columns))


# ---------------------------------------------------------------- what the kinds of tables share


def checked(columns: Sequence[str], known: Sequence[str]) -> list[str]:
    """The columns, all of which must be known."""
    for name in columns:
        if name not in known:
            raise ValueError(f"there is no column {name!r}; the table has {', '.join(map(repr, known)):.200}")
    return list(columns)


def numbered(frames: Iterable[nw.DataFrame[Any]], of: str) -> Iterator[Batch]:
    """Batches that are called by the numbers of their rows; empty ones are left out."""
    at = 0
    for frame in frames:
        if len(frame):
            yield Batch(f"rows {at + 1:,} to {at + len(frame):,} of {of}", without_encodings(frame))
            at += len(frame)


def reading(where: str, items: Iterable[T]) -> Iterator[T]:
    """The items; an error on the way names where they came from."""
    with naming(where):
        yield from items


@contextmanager
def naming(where: str) -> Iterator[None]:
    """Turn what a library says of a table that it cannot read into one sentence that names the table."""
    try:
        yield
    except (MemoryError, NameError, AttributeError):
        raise
    except Exception as error:  # each library has errors of its own
        kind = type(error) if isinstance(error, (FileNotFoundError, PermissionError)) else ValueError
        raise kind(f"{where} cannot be read: {reason_of(error)}") from error


def reason_of(error: BaseException) -> str:
    """What an error says, on one line, without an end."""
    said = " ".join((getattr(error, "strerror", None) or str(error) or type(error).__name__).split())
    return (said if len(said) <= MOST_OF_A_REASON else f"{said[:MOST_OF_A_REASON]} ...").rstrip(".")
