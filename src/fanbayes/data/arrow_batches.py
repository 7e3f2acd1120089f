"""Batches of Arrow: files of a dataset, and what a query answers; only `as_batches` imports this."""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import IO, Any

import narwhals as nw
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet

from fanbayes.data.batches import Batch, checked, naming, numbered, reading, reason_of
from fanbayes.data.sources import without_encodings

_BUFFER = 1 << 18  # bytes of a column of Parquet that are read at once
_CODES = pa.dictionary(pa.int32(), pa.string())
_UNTYPED = (pyarrow.dataset.CsvFileFormat, pyarrow.dataset.JsonFileFormat)  # that do not say what their columns are
_TYPES = "write the file again, or give the types (pyarrow.dataset.dataset(..., schema=...))"


def dataset_batches(X: Any, rows_at_once: int) -> DatasetBatches | None:
    """Batches of a dataset of Arrow; None if it is none."""
    if not isinstance(X, pyarrow.dataset.Dataset):
        return None
    return DatasetBatches(X, rows_at_once, list(X.schema.names))


def of_reader(X: Any, once: bool) -> QueryBatches | None:
    """Batches of a reader of Arrow batches, which can be gone through once; None if it is none."""
    if not isinstance(X, pa.RecordBatchReader):
        return None
    left = [X]

    def open_reader() -> Any:
        if not left:
            raise ValueError("it was read before, and gives its rows once; make a new one")
        return left.pop()

    return QueryBatches(open_reader, list(X.schema.names), "reader", once)


# ---------------------------------------------------------------- datasets


@dataclass(frozen=True)
class DatasetBatches:
    """A dataset of Arrow: files of Parquet, Arrow or CSV, partitioned or not, or tables in memory."""

    dataset: Any = field(repr=False)
    rows_at_once: int
    columns: list[str]
    frame: str | None = "pyarrow"
    texts_as_codes: bool = False

    def __iter__(self) -> Iterator[Batch]:
        if self._fragments is None:
            yield from self._scanned()
            return
        for fragment in self._fragments:
            where = _path(fragment)
            tables = reading(where or "the dataset", self._tables(fragment))
            if where is None:
                yield from numbered(map(_frame, tables), "the dataset")
            else:
                yield from (Batch(where, _frame(table)) for table in tables if table.num_rows)

    def only(self, columns: Sequence[str]) -> DatasetBatches:
        """The same rows, of which only these columns are read."""
        return replace(self, columns=checked(columns, self.columns))

    def coded(self) -> tuple[DatasetBatches, frozenset[str]]:
        """The same rows, texts as the codes that Parquet has of them, which is many times faster; and their names."""
        texts = frozenset(name for name in self.columns if _is_text(self.dataset.schema.field(name).type))
        return replace(self, texts_as_codes=True), texts

    @cached_property
    def n_rows(self) -> int | None:
        """Number of rows, by the footers of Parquet files."""
        if self._fragments is None or not all(
            isinstance(f, pyarrow.dataset.ParquetFileFragment) for f in self._fragments
        ):
            return None
        total = 0
        for fragment in self._fragments:
            with naming(fragment.path):
                total += fragment.metadata.num_rows
        return total

    @cached_property
    def _fragments(self) -> list[Any] | None:
        """The files in their order; None of a dataset with a filter, whose files Arrow does not tell."""
        try:
            return list(self.dataset.get_fragments())
        except ValueError:
            return None

    def _scanned(self) -> Iterator[Batch]:
        """Batches that Arrow itself makes, those of a filter among them."""
        scanner = self.dataset.scanner(columns=self.columns, **self._in_order)
        for tagged in reading("the dataset", scanner.scan_batches()):
            if tagged.record_batch.num_rows:
                table = pa.Table.from_batches([tagged.record_batch])
                yield Batch(_path(tagged.fragment) or "the dataset", _frame(table))

    @property
    def _in_order(self) -> dict[str, Any]:
        """Settings of a scan that has one batch in memory at a time."""
        return {"batch_size": self.rows_at_once, "batch_readahead": 0, "fragment_readahead": 0}

    def _tables(self, fragment: Any) -> Iterator[pa.Table]:
        """Rows of one file, with the columns that the dataset says."""
        own = _partition_keys(fragment)
        wanted = [self.dataset.schema.field(name) for name in self.columns]
        if self.texts_as_codes:
            wanted = [field.with_type(_CODES) if _is_text(field.type) else field for field in wanted]
        is_typed = not isinstance(getattr(fragment, "format", None), _UNTYPED)
        present = [f.name for f in wanted if f.name not in own]
        if isinstance(fragment, pyarrow.dataset.ParquetFileFragment):
            # The dataset's own scan has whole groups of rows in memory.
            with fragment.open() as file:
                categories = [*fragment.format.read_options.dictionary_columns]
                held = {*fragment.physical_schema.names}  # neither keys of folders nor columns that the file lacks
                categories += [field.name for field in wanted if field.type == _CODES and field.name in held]
                options = {"read_dictionary": categories, "buffer_size": _BUFFER, "pre_buffer": False}
                reader = pyarrow.parquet.ParquetFile(file, **options)
                if reader.metadata.num_rows:
                    self._check_columns(reader.schema_arrow, [f for f in wanted if f.name in present], is_typed)
                    batches = reader.iter_batches(self.rows_at_once, columns=present)
                    yield from (_conformed(batch, wanted, own) for batch in batches)
            return
        found = fragment.physical_schema
        self._check_columns(found, [f for f in wanted if f.name in present], is_typed)
        schema = found if is_typed else self.dataset.schema
        for batch in fragment.to_batches(schema, columns=present, **self._in_order):
            yield _conformed(batch, wanted, own)

    def _check_columns(self, found: pa.Schema, wanted: Sequence[pa.Field], is_typed: bool) -> None:
        """Refuse a file without a column, or with something else in it; types are usually those of the first file."""
        for column in wanted:
            places = found.get_all_field_indices(column.name)
            if len(places) != 1:
                times = "no column" if not places else f"{len(places)} columns"
                raise ValueError(
                    f"it has {times} {column.name!r}, which the dataset has; add it, or leave the file out"
                )
            kind = found.field(places[0]).type
            has, needs = _content(kind), _content(column.type)
            differ = has not in (needs, "nothing")
            if not is_typed:  # texts may look like numbers
                differ = differ and has == "text"
                if pa.types.is_floating(kind) and pa.types.is_integer(column.type):
                    has, needs, differ = "fractions", "whole numbers", True
            if differ:
                first = _path((self._fragments or [None])[0]) or "the first"
                raise ValueError(
                    f"column {column.name!r} holds {has}, and {needs} in the dataset, as in {first}; {_TYPES}"
                )


def _partition_keys(fragment: Any) -> dict[str, Any]:
    """Columns that the folder of a file tells: {"year": 2024}."""
    keys: dict[str, Any] = pyarrow.dataset.get_partition_keys(fragment.partition_expression)
    return keys


def _path(fragment: Any) -> str | None:
    path = getattr(fragment, "path", None)
    return path or None


def _content(kind: pa.DataType) -> str:
    """What values of a type are, as far as files must agree about it."""
    if pa.types.is_dictionary(kind) or str(kind).startswith("run_end_encoded"):
        return _content(kind.value_type)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "numbers"
    if _is_text(kind):
        return "text"
    return "nothing" if pa.types.is_null(kind) else str(kind)


def _is_text(kind: pa.DataType) -> bool:
    return str(kind) in ("string", "large_string", "string_view")


def _conformed(batch: pa.RecordBatch, wanted: Sequence[pa.Field], own: dict[str, Any]) -> pa.Table:
    """The batch with the columns and types that are wanted, those that its folder tells among them."""
    columns = [
        pa.repeat(pa.scalar(own[field.name]), batch.num_rows) if field.name in own else batch.column(field.name)
        for field in wanted
    ]
    return pa.table(
        [_cast(values, field) for values, field in zip(columns, wanted)], names=[field.name for field in wanted]
    )


def _cast(values: pa.Array, field: pa.Field) -> pa.Array:
    if values.type == field.type:
        return values
    kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    plain = values.dictionary_decode() if pa.types.is_dictionary(values.type) else values
    try:
        plain = plain.cast(kind)
    except pa.ArrowException as error:
        raise ValueError(
            f"column {field.name!r} is stored as {values.type}, and as {field.type} in the dataset "
            f"({reason_of(error)}); {_TYPES}"
        ) from error
    return plain.dictionary_encode() if pa.types.is_dictionary(field.type) else plain


def _frame(table: pa.Table) -> nw.DataFrame[Any]:
    return without_encodings(nw.from_native(table, eager_only=True))


# ---------------------------------------------------------------- queries


@dataclass(frozen=True)
class QueryBatches:
    """What a query answers, asked once: rows that come by are kept in a temporary file for those who come later."""

    open_reader: Callable[[], Any] = field(repr=False)
    columns: list[str]
    what: str
    once: bool
    frame: str | None = "pyarrow"
    n_rows: int | None = None
    kept: _Kept = field(default_factory=lambda: _Kept(), repr=False)

    def __iter__(self) -> Iterator[Batch]:
        of = f"the {self.what}"
        if self.kept.is_complete:
            found = self.kept.read()
        else:
            answered = reading(of, self._answered())
            found = answered if self.once else self.kept.keep(answered)
        tables = (pa.Table.from_batches([batch]).select(self.columns) for batch in found)
        return numbered(map(_frame, tables), of)

    def _answered(self) -> Iterator[Any]:
        yield from self.open_reader()

    def only(self, columns: Sequence[str]) -> QueryBatches:
        """The same rows, of which only these columns are handed on."""
        return replace(self, columns=checked(columns, self.columns))


class _Kept:
    """Batches in a temporary file that has no name: it is gone with the process, however that ends."""

    def __init__(self) -> None:
        self.file: IO[bytes] | None = None
        self.is_complete = False

    def keep(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Hand the batches on, each after it was written; all must be taken for the file to be of use."""
        file, writer = tempfile.TemporaryFile(), None  # noqa: SIM115
        try:
            for batch in batches:
                with _on_disk():
                    if writer is None:
                        options = pa.ipc.IpcWriteOptions(compression="lz4")
                        writer = pa.ipc.new_stream(pa.PythonFile(file, "w"), batch.schema, options=options)
                    writer.write_batch(batch)
                yield batch
            with _on_disk():
                if writer is not None:
                    writer.close()
                file.flush()
        except BaseException:
            file.close()
            raise
        self.file, self.is_complete = file, True
        weakref.finalize(self, file.close)

    def read(self) -> Iterator[pa.RecordBatch]:
        """The batches again."""
        assert self.file is not None
        own = _Place(self.file)
        if own.read(1):
            own.at = 0
            yield from pa.ipc.open_stream(pa.PythonFile(own, "r"))


class _Place:
    """A place in a file that several read from, each at its own."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file, self.at, self.closed = file, 0, False

    def read(self, size: int) -> bytes:
        """The next bytes."""
        self.file.seek(self.at)
        found = self.file.read(size)
        self.at += len(found)
        return found

    def tell(self) -> int:
        """Where the next bytes are."""
        return self.at

    def close(self) -> None:
        """Leave the file to the others."""
        self.closed = True


@contextmanager
def _on_disk() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        folder = tempfile.gettempdir()
        raise OSError(
            error.errno,
            f"rows of the query cannot be kept in {folder}: {reason_of(error)}; make room there, or name another "
            "folder by the environment variable TMPDIR",
        ) from error
