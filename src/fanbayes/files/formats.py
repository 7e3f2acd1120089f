"""Formats of tables, by the names of files: text is read by records, others as frames."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import narwhals as nw

from fanbayes.data.batches import reason_of
from fanbayes.files.columns import FRAMES, INSTALL
from fanbayes.files.sheet import read_sheet
from fanbayes.files.text import COMPRESSION, STDIN, DatasetError, Reader, open_bytes, read_arff, read_csv
from fanbayes.files.text_columns import TextFiles

SUFFIXES = {
    **dict.fromkeys((".csv", ".tsv", ".tab", ".txt", ".data", ".dat"), "CSV"),
    ".arff": "ARFF",
    ".xlsx": "Excel",
    **dict.fromkeys((".parquet", ".pq"), "Parquet"),
    **dict.fromkeys((".arrow", ".feather", ".ipc"), "Arrow"),
}
_FRAMES = ("Parquet", "Arrow")
_MAGIC = {b"PAR1": "Parquet", b"ARROW1": "Arrow", b"PK\x03\x04": "Excel", b"@relation": "ARFF"}


def format_of(path: Path) -> str:
    """Format of a table, by the name of its file; of standard input by how it begins."""
    if path is STDIN:
        with open_bytes(path) as file:
            start = file.read(16)
        return next((name for magic, name in _MAGIC.items() if start.lower().startswith(magic.lower())), "CSV")
    known = SUFFIXES.get(_plain(path).suffix.lower())
    if known is None or (known not in ("CSV", "ARFF") and _plain(path) != path):
        raise DatasetError(f"cannot tell the format of {path}: save it as .csv, .arff, .xlsx, .parquet or .arrow.")
    return known


def plain_name(path: Path) -> str:
    """Name of a file without what tells its format."""
    return _plain(path).stem


def _plain(path: Path) -> Path:
    return path.with_suffix("") if path.suffix.lower() in COMPRESSION else path


def text_files(
    paths: Sequence[Path],
    missing: Collection[str],
    separator: str | None = None,
    encoding: str | None = None,
    decimal: str = ".",
) -> TextFiles | None:
    """Files that are read by records; None if they are tables of Parquet or Arrow."""
    if isinstance(missing, str):
        raise DatasetError("missing is a list of texts, not one text.")
    formats = {path: format_of(path) for path in paths}
    kind = one_format(formats)
    if kind in _FRAMES:
        return None
    readers: dict[str, Reader] = {}
    for path in paths:
        if kind == "ARFF":
            readers[str(path)] = partial(read_arff, path, encoding)
        elif kind == "Excel":
            readers[str(path)] = partial(read_sheet, path)
        else:
            readers[str(path)] = partial(read_csv, path, encoding, separator)
    return TextFiles(readers, frozenset(missing), "." if kind == "Excel" else decimal)


def one_format(formats: dict[Path, str]) -> str:
    """The format that all files have."""
    first, kind = next(iter(formats.items()))
    for path, other in formats.items():
        if other != kind:
            raise DatasetError(f"{first} is {kind} and {path} is {other}: give files of one format at a time.")
    return kind


def read_frame(path: Path) -> nw.DataFrame[Any]:
    """A file of Parquet or Arrow, whole, by the first library that can read it."""
    kind = format_of(path)
    with open_bytes(path) as file:
        for library in FRAMES:
            try:
                module = import_module(library)
                frame = module.read_parquet(file) if kind == "Parquet" else _read_arrow(module, file)
                return nw.from_native(frame, eager_only=True)
            except ImportError:
                continue
            except Exception as error:  # each library has errors of its own
                raise DatasetError(f"cannot read {path} as {kind}: {reason_of(error)}.") from None
    raise DatasetError(f"reading {kind} needs polars, or pandas with pyarrow: {INSTALL}.")


def _read_arrow(library: Any, file: Any) -> Any:
    return library.read_feather(file) if hasattr(library, "read_feather") else library.read_ipc(file)
