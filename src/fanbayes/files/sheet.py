"""Sheets of Excel (.xlsx), read and written by openpyxl."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from fanbayes.data.batches import reason_of
from fanbayes.files.text import DatasetError, Header, Records, open_bytes

MOST_ROWS = 1 << 20  # of a sheet, its header among them
_INSTALL = "pip install 'fanbayes[xlsx]'"


def openpyxl() -> Any:
    """The library, or a sentence that says how to get it."""
    try:
        return import_module("openpyxl")
    except ImportError:
        raise DatasetError(f"files of Excel need openpyxl: {_INSTALL}.") from None


def read_sheet(path: Path) -> tuple[list[Header], Records]:
    """Read the names in the first row of the first sheet, and the other rows as text."""
    rows = _rows(path)
    for _, names in rows:
        return [Header(name.strip()) for name in names], ((number, row) for number, row in rows if any(row))
    raise DatasetError(f"{path} is empty: its first sheet needs a row of column names, then a row for each case.")


def _rows(path: Path) -> Records:
    """Rows of the first sheet, numbered, each as long as the first."""
    with open_bytes(path) as file:
        with _reading(path):
            book = openpyxl().load_workbook(file, read_only=True, data_only=True)
        try:
            width = None
            with _reading(path):
                for number, cells in enumerate(book.worksheets[0].iter_rows(values_only=True), start=1):
                    row = [_text(value) for value in cells]
                    while width is None and row and not row[-1]:
                        row.pop()  # columns that hold nothing but a format
                    width = len(row) if width is None else width
                    filled = len(row) if not any(row[width:]) else None
                    yield number, ([*row, *[""] * width][:width] if filled is not None else row)
        finally:
            book.close()


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except (DatasetError, GeneratorExit):
        raise
    except Exception as error:  # of zip files, of XML, of openpyxl
        raise DatasetError(f"cannot read {path} as a file of Excel: {reason_of(error)}.") from None


def _text(value: Any) -> str:
    """A cell as a field of CSV would have it."""
    if value is None:
        return ""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
