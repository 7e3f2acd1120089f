"""Rows that are written some at a time, in the format that the name of the file asks for; whole or not at all."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from fanbayes.files.columns import INSTALL
from fanbayes.files.sheet import MOST_ROWS, openpyxl
from fanbayes.files.text import DatasetError

Columns = Mapping[str, Sequence[Any]]
Write = Callable[[Columns], None]


class Bytes(Protocol):
    """Where bytes go."""

    def write(self, data: bytes) -> Any: ...  # noqa: D102


@contextmanager
def write_csv(out: Bytes, texts: Sequence[str] = (), separator: str = ",") -> Iterator[Write]:
    """CSV, with a line of names."""
    is_first = True

    def write(columns: Columns) -> None:
        nonlocal is_first
        text = io.StringIO()
        writer = csv.writer(text, delimiter=separator, lineterminator="\n")
        if is_first:
            writer.writerow(columns)
        writer.writerows(zip(*columns.values()))
        is_first = False
        out.write(text.getvalue().encode())

    yield write


@contextmanager
def write_tsv(out: Bytes, texts: Sequence[str] = ()) -> Iterator[Write]:
    """The same, with tabs."""
    with write_csv(out, texts, "\t") as write:
        yield write


@contextmanager
def write_json_lines(out: Bytes, texts: Sequence[str] = ()) -> Iterator[Write]:
    """A JSON object on each line."""

    def write(columns: Columns) -> None:
        out.write("".join(f"{line}\n" for line in _objects(columns)).encode())

    yield write


@contextmanager
def write_json(out: Bytes, texts: Sequence[str] = ()) -> Iterator[Write]:
    """One JSON array of objects, each on its line."""
    before = "[\n"

    def write(columns: Columns) -> None:
        nonlocal before
        out.write((before + ",\n".join(_objects(columns))).encode())
        before = ",\n"

    yield write
    out.write(b"\n]\n" if before != "[\n" else b"[]\n")


def _objects(columns: Columns) -> Iterator[str]:
    return (json.dumps(dict(zip(columns, values)), allow_nan=False) for values in zip(*columns.values()))


@contextmanager
def write_parquet(out: Bytes, texts: Sequence[str] = ()) -> Iterator[Write]:
    """A file of Parquet, with a group of rows for each call."""
    from pyarrow import PythonFile
    from pyarrow.parquet import ParquetWriter

    with _arrow(lambda schema: ParquetWriter(PythonFile(out, "w"), schema), texts) as write:
        yield write


@contextmanager
def write_arrow(out: Bytes, texts: Sequence[str] = ()) -> Iterator[Write]:
    """A file of Arrow (Feather, version 2)."""
    import pyarrow as pa

    with _arrow(lambda schema: pa.ipc.new_file(pa.PythonFile(out, "w"), schema), texts) as write:
        yield write


@contextmanager
def _arrow(open_writer: Callable[[Any], Any], texts: Sequence[str]) -> Iterator[Write]:
    import pyarrow as pa

    writer: Any = None
    schema: Any = None

    def write(columns: Columns) -> None:
        nonlocal writer, schema
        # Of text and numbers that may all be missing the type is known before; of others the first values tell it.
        arrays = {name: pa.array(values, pa.string() if name in texts else None) for name, values in columns.items()}
        table = pa.table({n: a.cast(pa.float64()) if pa.types.is_null(a.type) else a for n, a in arrays.items()})
        if writer is None:
            schema, writer = table.schema, open_writer(table.schema)
        writer.write_table(table.cast(schema))

    try:
        yield write
    except BaseException:
        if writer is not None:
            with suppress(Exception):  # nobody sees the file; a writer that is left open complains when it goes
                writer.close()
        raise
    if writer is not None:
        writer.close()


@contextmanager
def write_xlsx(out: Bytes, texts: Sequence[str] = ()) -> Iterator[Write]:
    """A file of Excel with one sheet."""
    library = openpyxl()
    book = library.Workbook(write_only=True)
    sheet, n_rows = book.create_sheet("rows"), 0

    def cell(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        shown = library.cell.WriteOnlyCell(sheet, value)
        shown.data_type = "s"  # text, also where it begins like a formula
        return shown

    def write(columns: Columns) -> None:
        nonlocal n_rows
        rows = ([list(columns)] if not n_rows else []) + [list(values) for values in zip(*columns.values())]
        n_rows += len(rows)
        if n_rows > MOST_ROWS:
            raise DatasetError(f"a sheet of Excel has {MOST_ROWS:,} rows at most: write .csv or .parquet.")
        for row in rows:
            try:
                sheet.append([cell(value) for value in row])
            except library.utils.exceptions.IllegalCharacterError:
                raise DatasetError(f"Excel cannot hold a control character in {row!r:.60}: write .csv.") from None

    yield write
    book.save(out)


Writer = Callable[..., AbstractContextManager[Write]]
WRITERS: dict[str, Writer] = {
    ".csv": write_csv,
    ".tsv": write_tsv,
    ".json": write_json,
    ".jsonl": write_json_lines,
    ".ndjson": write_json_lines,
    ".parquet": write_parquet,
    ".arrow": write_arrow,
    ".feather": write_arrow,
    ".xlsx": write_xlsx,
}


def writer_of(path: Path) -> Writer:
    """What writes a file of this name; devices and pipes get CSV."""
    if path.exists() and not path.is_file():
        return write_csv
    writer = WRITERS.get(path.suffix.lower())
    if writer is None:
        raise DatasetError(f"{path} has no format that is known here: end its name with {', '.join(WRITERS)}.")
    if writer in (write_parquet, write_arrow):
        try:
            import pyarrow.parquet  # noqa: F401
        except ImportError:
            raise DatasetError(f"writing {path.suffix} needs pyarrow: {INSTALL}.") from None
    if writer is write_xlsx:
        openpyxl()
    return writer
