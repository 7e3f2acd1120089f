"""Tables by the names that a user gives: files, folders, patterns, standard input, or the query of a database.

A table that takes more than a quarter of the memory allowed is read in batches, else it is one in memory. What text
takes is the size of its files, ten times that if they are compressed; of other tables it is eight bytes a value.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from glob import glob, has_magic
from pathlib import Path
from typing import Any

import narwhals as nw

from fanbayes.data.batches import Batch, Batches, as_batches, checked, naming, rows_at_once
from fanbayes.files.columns import INSTALL, Roles, class_names, frame_column, frame_names, frame_of, installed
from fanbayes.files.dataset import Dataset, frame_dataset, text_dataset
from fanbayes.files.formats import SUFFIXES, format_of, one_format, plain_name, read_frame, text_files
from fanbayes.files.sql import database, query_batches, without_passwords
from fanbayes.files.text import COMPRESSION, STDIN, DatasetError, Kind, NoTable, open_bytes, quoted
from fanbayes.files.text_columns import MISSING, Report, TextBatches, TextFiles, scan

SHARE = 4  # of the memory allowed, that a table in memory may take: it is copied on its way
_COMPRESSED = 10
_BYTES_A_VALUE = 8
Progress = Callable[[int | None], AbstractContextManager[Report]]


@dataclass(frozen=True)
class TableFiles:
    """Files that are one table.

    Attributes
    ----------
    paths : in their order
    kind : their format
    folder : the one that all of them were found in; names of folders below it may hold values, ``year=2024``
    """

    paths: tuple[Path, ...]
    kind: str
    folder: Path | None = None

    @property
    def name(self) -> str:
        """What the table is called in messages."""
        if self.folder is not None:
            return str(self.folder)
        more = f" and {len(self.paths) - 1} more" if len(self.paths) > 1 else ""
        return f"{self.paths[0]}{more}"

    @property
    def short_name(self) -> str:
        """What reports call it."""
        return plain_name(self.paths[0]) if len(self.paths) == 1 else self.name

    @property
    def text_size(self) -> int:
        """About what text files take in memory."""
        return sum(
            _size(path) * (_COMPRESSED if path.suffix.lower() in (*COMPRESSION, ".xlsx") else 1) for path in self.paths
        )


def _size(path: Path) -> int:
    if path is not STDIN:
        return path.stat().st_size
    with open_bytes(path) as file:
        return file.seek(0, os.SEEK_END)


def find_files(names: Sequence[str]) -> TableFiles:
    """Files that names stand for: files, folders, patterns such as ``claims/*.parquet``, or ``-``, standard input."""
    paths: list[Path] = []
    for name in names:
        if name == "-":
            paths.append(STDIN)
        elif Path(name).is_dir():
            paths += _in_folder(Path(name))
        elif Path(name).exists() or not has_magic(name):
            paths.append(Path(name))
        else:
            found = sorted(glob(name, recursive=True))
            if not found:
                raise NoTable(f"no file matches {quoted(name)}.")
            for match in found:
                paths += _in_folder(Path(match)) if os.path.isdir(match) else [Path(match)]
    paths = list(dict.fromkeys(paths))
    for path in paths:
        if path is not STDIN and not path.exists():
            raise NoTable(f"there is no file {without_passwords(str(path))}.")
    kind = one_format({path: format_of(path) for path in paths})
    return TableFiles(tuple(paths), kind, Path(names[0]) if len(names) == 1 and Path(names[0]).is_dir() else None)


def _in_folder(folder: Path) -> list[Path]:
    """Tables below a folder; what begins with a dot or an underscore is none."""
    found = [
        path
        for path in sorted(folder.rglob("*"))
        if not any(part[0] in "._" for part in path.relative_to(folder).parts)
        and _suffix(path) in SUFFIXES
        and path.is_file()
    ]
    if not found:
        raise NoTable(f"there is no table in the folder {folder}: no {', '.join(SUFFIXES)}.")
    return found


def _suffix(path: Path) -> str:
    return (path.with_suffix("") if path.suffix.lower() in COMPRESSION else path).suffix.lower()


# ---------------------------------------------------------------- tables that are open


@dataclass(frozen=True)
class TextTable:
    """Text files of which the columns are known by name."""

    name: str
    found: TableFiles
    files: TextFiles

    @property
    def columns(self) -> list[str]:
        """Names, as they stand in the first file."""
        return [header.name for header in self.files.headers]

    def batches(self, roles: Roles, n_rows: int | None = None, classes: Mapping[str, str] | None = None) -> TextBatches:
        """The rows, of which each column that is not left out has a kind among the roles."""
        roles.check(self.columns)
        wanted = [name for name in self.columns if name not in roles.ignore]
        n = self.estimated_rows() if n_rows is None else n_rows
        return TextBatches(self.files, roles, wanted, rows_at_once(len(wanted)), classes or {}, installed(), n)

    def estimated_rows(self) -> int | None:
        """About how many rows there are, by the length of the first lines; None of compressed files."""
        if self.found.kind == "Excel" or any(path.suffix.lower() in COMPRESSION for path in self.found.paths):
            return None
        with open_bytes(self.found.paths[0]) as file:
            start = file.read(1 << 16)
        return max(1, self.found.text_size * start.count(b"\n") // max(len(start), 1))


@dataclass(frozen=True)
class FrameTable:
    """Files of Parquet or Arrow, or what a query answers."""

    name: str
    inner: Batches
    found: TableFiles | None = None

    @property
    def columns(self) -> list[str]:
        """Names."""
        return frame_names(self.inner.columns)

    def batches(self, roles: Roles) -> FrameBatches:
        """The rows, of which each column is taken for what the roles say, or its type."""
        roles.check(self.columns)
        return FrameBatches(self.inner, roles, [name for name in self.columns if name not in roles.ignore])

    def held(self, most: int) -> nw.DataFrame[Any] | None:
        """All rows as one frame; None if they take more than so many bytes."""
        bytes_a_row = _BYTES_A_VALUE * len(self.columns)
        if self.inner.n_rows is not None and self.inner.n_rows * bytes_a_row > most:
            return None
        frames: list[nw.DataFrame[Any]] = []
        n_rows = 0
        for batch in self.inner.only(self.columns):
            n_rows += len(batch.frame)
            if n_rows * bytes_a_row <= most:
                frames.append(batch.frame)
            elif self.found is not None:
                return None
            else:  # the rows of a query are kept on disk, if all of them are looked at
                frames.clear()
        if not n_rows:
            raise DatasetError(f"{self.name} has no rows.")
        return nw.concat(frames) if frames else None


def open_table(
    names: Sequence[str],
    query: str | None = None,
    *,
    once: bool = False,
    missing: Collection[str] = MISSING,
    separator: str | None = None,
    encoding: str | None = None,
    decimal: str = ".",
) -> TextTable | FrameTable:
    """The table that a user names.

    Parameters
    ----------
    names : files, folders, patterns, or "-" for standard input; with a query, the database
    query : one SELECT, optional
    once : whether nobody goes through the rows a second time
    missing, separator, encoding, decimal : of text files, as in `read_table`
    """
    if query is not None:
        return _open_query(names, query, once)
    for name in names:
        if not Path(name).is_dir() and database(name) is not None:
            shown = without_passwords(name)
            raise NoTable(f"{shown} is a database: say which rows, for example --query 'SELECT * FROM claims'.")
    found = find_files(names)
    files = text_files(found.paths, missing, separator, encoding, decimal)
    if files is not None:
        return TextTable(found.name, found, files)
    inner = _frame_batches(found)
    return FrameTable(found.name, inner, found)


def _open_query(names: Sequence[str], query: str, once: bool) -> FrameTable:
    source = database(names[0]) if len(names) == 1 else None
    if source is None:
        shown = without_passwords(", ".join(names))
        raise NoTable(
            f"--query asks one database, and {shown} is none: name a file of DuckDB or SQLite, or a PostgreSQL as "
            "postgresql://user@host/name."
        )
    n_columns = len(query_batches(source, query, 1, once=True).columns)
    return FrameTable(f"the query of {source.name}", query_batches(source, query, rows_at_once(n_columns), once=once))


def _frame_batches(found: TableFiles) -> Batches:
    """Batches of files of Parquet or Arrow."""
    try:
        dataset: Any = _arrow_dataset(found)
    except ImportError:
        if len(found.paths) > 1:
            raise DatasetError(f"several files of {found.kind} need pyarrow: {INSTALL}.") from None
        dataset = read_frame(found.paths[0]).lazy().to_native()
    batches = as_batches(dataset, rows_at_once(1))
    assert batches is not None
    return as_batches(dataset, rows_at_once(len(batches.columns))) or batches


def _arrow_dataset(found: TableFiles) -> Any:
    """A dataset whose columns have types that hold what all files have, as far as there are such types."""
    import pyarrow as pa
    import pyarrow.dataset as ds
    from pyarrow.fs import LocalFileSystem

    if found.paths[0] is STDIN:
        return ds.dataset(read_frame(STDIN).to_arrow())
    reader = ds.ParquetFileFormat() if found.kind == "Parquet" else ds.IpcFileFormat()
    system = LocalFileSystem()
    schemas = []
    for path in found.paths:
        with naming(str(path)):
            schemas.append(reader.inspect(str(path), system))
    options = ds.FileSystemFactoryOptions(exclude_invalid_files=False)
    if found.folder is not None:
        base = {"partition_base_dir": str(found.folder), "partitioning": ds.HivePartitioning.discover()}
        options = ds.FileSystemFactoryOptions(exclude_invalid_files=False, **base)
    factory = ds.FileSystemDatasetFactory(system, [str(path) for path in found.paths], reader, options)
    schema = schemas[0]
    with suppress(pa.ArrowException):  # the file that does not fit is named when it is read
        schema = pa.unify_schemas([factory.inspect(), *schemas], promote_options="permissive")
    return factory.finish(schema)


@dataclass(frozen=True)
class BatchTable:
    """A table that is read in batches, and what its columns are taken for (`Dataset` is one in memory).

    Attributes
    ----------
    name : str
    batches : the rows, features and target
    kinds, reasons : of each feature, as in `Dataset`
    target : column of the labels
    found : the files; None of a query
    """

    name: str
    batches: Batches
    kinds: dict[str, Kind]
    reasons: dict[str, str]
    target: str | None
    found: TableFiles | None


@dataclass(frozen=True)
class FrameBatches:
    """Batches of frames, each column taken for what its type or its role says, as `from_frame` does."""

    inner: Batches
    roles: Roles
    columns: list[str]

    @property
    def frame(self) -> str | None:
        """Library that tables are handed back in."""
        return self.inner.frame

    @property
    def n_rows(self) -> int | None:
        """Where it is known without reading."""
        return self.inner.n_rows

    def __iter__(self) -> Iterator[Batch]:
        for batch in self.inner.only(self.columns):
            roles = replace(self.roles, table=batch.where)
            columns = {name: frame_column(batch.frame[name], name, roles) for name in self.columns}
            if roles.target in columns:
                labels = columns[roles.target]
                class_names({*labels.values} - {None}, roles, labels.is_text)
            yield Batch(batch.where, nw.from_native(frame_of(columns, self.frame), eager_only=True))

    def only(self, columns: Sequence[str]) -> FrameBatches:
        """The same rows, of which only these columns are read."""
        return replace(self, columns=checked(columns, self.columns))


class TooLarge(Exception):
    """A table does not fit into the memory allowed."""

    def __init__(self, name: str, memory: int) -> None:
        super().__init__(f"{name} takes more than a quarter of {memory / 1e6:,.0f} MB")


def read_labelled(
    table: TextTable | FrameTable,
    *,
    target: str,
    discrete: Collection[str] = (),
    continuous: Collection[str] = (),
    ignore: Collection[str] = (),
    memory: int,
    may_be_batches: bool,
    progress: Progress,
) -> Dataset | BatchTable:
    """Rows to learn from, in memory or in batches.

    Parameters
    ----------
    table : what `open_table` found
    target, discrete, continuous, ignore : as in `read_table`
    memory : bytes
    may_be_batches : whether rows may come in batches; else a table that takes too much memory is refused
    progress : shows how far a pass has come, of so many rows, if that is known
    """
    roles, most = Roles(table.name, target, discrete, continuous, ignore), memory // SHARE
    roles.check(table.columns)
    if isinstance(table, TextTable):
        if table.found.text_size <= most:
            return text_dataset(table.files, roles, table.found.short_name)
    elif (frame := table.held(most)) is not None:
        return frame_dataset(frame, roles, table.found.short_name if table.found else table.name)
    if not may_be_batches:
        raise TooLarge(table.name, memory)
    return in_batches(table, roles, progress)


def in_batches(table: TextTable | FrameTable, roles: Roles, progress: Progress) -> BatchTable:
    """Rows to learn from in batches; text is gone through once to find out what its columns are."""
    roles.check(table.columns)
    return _scanned(table, roles, progress) if isinstance(table, TextTable) else _by_types(table, roles)


def _scanned(table: TextTable, roles: Roles, progress: Progress) -> BatchTable:
    with progress(table.estimated_rows()) as report:
        found = scan(table.files, roles, report)
    of_kind = {kind: [n for n, own in found.kinds.items() if own == kind] for kind in ("discrete", "continuous")}
    is_code = [name for name in roles.discrete if name == roles.target]
    known = replace(roles, discrete=[*of_kind["discrete"], *is_code], continuous=of_kind["continuous"])
    batches = table.batches(known, found.n_rows, found.classes)
    return BatchTable(table.name, batches, found.kinds, found.reasons, roles.target, table.found)


def _by_types(table: FrameTable, roles: Roles) -> BatchTable:
    batches = table.batches(roles)
    first = next(iter(table.inner.only(batches.columns)), None)
    if first is None:
        raise DatasetError(f"{table.name} has no rows.")
    features = [name for name in batches.columns if name != roles.target]
    taken = {name: frame_column(first.frame[name][:0], name, roles) for name in features}
    kinds, reasons = {n: c.kind for n, c in taken.items()}, {n: c.reason for n, c in taken.items()}
    return BatchTable(table.name, batches, kinds, reasons, roles.target, table.found)
