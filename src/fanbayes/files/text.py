"""Text files of rows: CSV and ARFF, also compressed, as a header and records."""

from __future__ import annotations

import codecs
import csv
import io
import os
import re
import shutil
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple, TextIO, TypeAlias, cast

from fanbayes.data.sources import DATES

Kind: TypeAlias = Literal["discrete", "continuous"]

SEPARATORS = ",;\t|"
STDIN = Path("standard input")  # this object, whatever other files are called
COMPRESSION = {".gz": "gzip", ".xz": "lzma", ".bz2": "bz2"}
_DAMAGED: tuple[type[Exception], ...] = (OSError, EOFError, ImportError, zlib.error)
with suppress(ImportError):  # some builds of Python lack xz
    from lzma import LZMAError

    _DAMAGED += (LZMAError,)


# What a user can do about a fault; programs that read files may say it in the words of their own options.
REMEDIES = {
    "not_finite": "correct it, list it as a missing value, or declare the column discrete",
    "infinite": "correct it, or declare the column discrete",
    "not_numeric": "store it as numbers, or do not call it continuous",
    "regression": "if they are codes, declare it discrete",
    "dates": f"{DATES}, or ignore it",
    "objects": "ignore it, or convert it to numbers or text",
    "unnamed": "name it or ignore '' (does the first line hold the names?)",
    "same_name": "rename or ignore them (does the first line hold the names?)",
    "no_encoding": "'utf-8' or 'cp1252' may do",
    "encoding": "name its encoding, for example 'cp1252', or save it as UTF-8",
    "as_cp1252": "if that is right, give encoding='cp1252', else the one that it has",
    "as_latin-1": "if that is right, give encoding='latin-1', else the one that it has",
}


class DatasetError(ValueError):
    """A file, column or suite that cannot be used, in one sentence that names it and the remedy.

    Parameters
    ----------
    fault : str
        The sentence, or its beginning if a remedy ends it.
    remedy : a key of REMEDIES, optional
    """

    def __init__(self, fault: str, remedy: str | None = None) -> None:
        super().__init__(fault if remedy is None else f"{fault} {REMEDIES[remedy]}.")
        self.fault, self.remedy = fault, remedy


class RoleError(DatasetError):
    """What the caller says of the columns does not fit the table."""


class NoTable(DatasetError):
    """What the caller names is no table."""


def quoted(value: object, room: int = 60) -> str:
    """A name or a value as Python writes it, or as much of it as a sentence has room for."""
    whole = repr(value)
    return whole if len(whole) <= room else f"{whole[: room - 4]}...{whole[-1]}"


class Header(NamedTuple):
    """What a text file itself says of a column; `levels` is empty unless the file lists them."""

    name: str
    kind: Kind | None = None
    levels: tuple[str, ...] = ()


Records: TypeAlias = Iterator[tuple[int, Sequence[str]]]
Reader: TypeAlias = Callable[[], tuple[list[Header], Records]]


@contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """Open a file, decompressed if its name asks for it; damage found on the way is a `DatasetError`."""
    library = COMPRESSION.get(path.suffix.lower())
    if path is STDIN:
        yield _standard_input()
        return
    try:
        with import_module(library).open(path, "rb") if library else path.open("rb") as file:
            yield file
    except FileNotFoundError:
        raise DatasetError(f"there is no file {path}.") from None
    except _DAMAGED as error:
        raise DatasetError(f"cannot read {path}: {error}.") from None


@cache
def _all_of_standard_input() -> IO[bytes]:
    """What comes in, in a temporary file without a name."""
    if sys.stdin is None:
        raise DatasetError(f"{STDIN} is closed: name a file.")
    file = tempfile.TemporaryFile()  # noqa: SIM115
    try:
        shutil.copyfileobj(sys.stdin.buffer, file)
        file.flush()
    except OSError as error:
        raise DatasetError(f"cannot keep {STDIN} in {tempfile.gettempdir()}: {error.strerror}.") from None
    return file


def _standard_input() -> IO[bytes]:
    """Standard input from its beginning; who reads it twice sees the same."""
    return cast("IO[bytes]", io.BufferedReader(_Again(_all_of_standard_input())))


class _Again(io.RawIOBase):
    """A file from its beginning, whoever else reads it."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file, self.at = file, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, to: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self.at, io.SEEK_END: os.fstat(self.file.fileno()).st_size}[whence]
        self.at = start + to
        return self.at

    def tell(self) -> int:
        return self.at

    def readinto(self, buffer: Any) -> int:
        self.file.seek(self.at)
        found = self.file.read(len(buffer))
        buffer[: len(found)] = found
        self.at += len(found)
        return len(found)


@contextmanager
def _open_text(path: Path, encoding: str | None) -> Iterator[TextIO]:
    with open_bytes(path) as file:
        if encoding is None:
            start = file.read(2)
            file.seek(0)
            encoding = "utf-16" if start in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "utf-8-sig"
        try:
            # The csv module has to see line ends as they are.
            text = io.TextIOWrapper(file, encoding=encoding, newline="")
        except (LookupError, ValueError):  # ValueError: a null character in the name
            raise DatasetError(f"there is no encoding {quoted(encoding)}:", "no_encoding") from None
        try:
            yield text
        except UnicodeError:
            raise _undecodable(path, encoding) from None


def _undecodable(path: Path, encoding: str) -> DatasetError:
    """What to say of a file that is not in its encoding: where, and in which one it may be.

    The decoder reads ahead and cannot tell itself where it stumbled.
    """
    said = f"is not {encoding.removesuffix('-sig')} text"
    if not encoding.startswith("utf-8"):
        return DatasetError(f"{path} {said}:", "encoding")
    with open_bytes(path) as file:
        if b"\0" in file.read(1 << 12):
            kind = "a binary file, or text in UTF-16"
            return DatasetError(f"{path} is not text but {kind}: save it as CSV in UTF-8, or name its encoding.")
        file.seek(0)
        for number, line in enumerate(file, start=1):
            try:
                line.decode(encoding)
            except UnicodeDecodeError as error:
                where = f"{path}, line {number}, byte {error.start + 1} ({line[error.start]:#04x})"
                # All bytes but five are letters of Windows' Latin-1, and all are of Latin-1 itself.
                guess = "cp1252" if _decodes(line, "cp1252") else "latin-1"
                word = re.search(rb"[^\s,;|\"]*$", line[: error.start])
                start = error.start - len(word[0]) if word else error.start
                shown = re.split(r"[\s,;|\"]", line[start : start + 40].decode(guess, "replace"))[0]
                return DatasetError(f"{where} {said}; as {guess} it reads {quoted(shown, 30)}:", f"as_{guess}")
    return DatasetError(f"{path} {said}:", "encoding")  # any more: it has changed


def _decodes(data: bytes, encoding: str) -> bool:
    try:
        data.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True


def read_csv(path: Path, encoding: str | None, separator: str | None) -> tuple[list[Header], Records]:
    """Read the header line of a CSV file, and its records."""
    with _open_text(path, encoding) as file:
        sample = file.read(1 << 16)
    empty = DatasetError(f"{path} is empty: it needs a line of column names, then a line for each row.")
    if not sample.strip(' "\t\r\n'):
        raise empty
    if separator is None:
        separator = max(SEPARATORS, key=partial(_fit, sample))
    elif len(separator) != 1 or separator in '"\r\n':
        raise DatasetError(f"the separator {quoted(separator)} is not a single character such as ',' or ';'.")
    records = _csv_records(path, encoding, separator)
    for _, names in records:
        return [Header(name.strip()) for name in names], records
    raise empty  # by now


def _fit(sample: str, separator: str) -> tuple[bool, int]:
    """Prefer a separator that cuts the first two lines alike, then one that cuts the first more often."""
    lines = io.StringIO(sample, newline="")
    rows = (row for row in csv.reader(lines, delimiter=separator, skipinitialspace=True) if row)
    first, second = next(rows), next(rows, [])
    return len(first) == len(second) > 1, len(first)


def _csv_records(path: Path, encoding: str | None, separator: str) -> Records:
    """Yield the number of each line that is not blank and its fields; the first has the names."""
    width, began = 0, 1  # line at which the record begins
    with _open_text(path, encoding) as file:
        reader = csv.reader(file, delimiter=separator, skipinitialspace=True, strict=True)
        try:
            for row in reader:
                began = reader.line_num + 1
                if row and (row != [""] or width == 1):
                    width = width or len(row)
                    yield reader.line_num, row
        except csv.Error as error:
            if "field limit" in str(error):
                raise DatasetError(
                    f"{path}, line {began}: a field that begins here has more than {csv.field_size_limit()} "
                    "characters: shorten it, or look for a quote that is not closed."
                ) from None
            where = f"{path}, line {reader.line_num}"
            raise DatasetError(f"{where}: {error}; look for a quote too many or too few above.") from None


_QUOTED = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_ATTRIBUTE = re.compile(rf"@attribute\s+({_QUOTED}|[^\s{{]+)\s*(.*)", re.IGNORECASE)
_FIELD = re.compile(rf"\s*({_QUOTED}|[^,]*?)\s*(,|$)")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


def read_arff(path: Path, encoding: str | None) -> tuple[list[Header], Records]:
    """Read the declarations of an ARFF file, and its records."""
    lines = _arff_lines(path, encoding)
    headers: list[Header] = []
    for number, line in lines:
        if line.lower().startswith("@data"):
            return headers, _arff_records(lines, path)
        if line.lower().startswith("@attribute"):
            headers.append(_arff_attribute(line, f"{path}, line {number}"))
        elif not line.lower().startswith("@relation"):
            raise DatasetError(f"{path}, line {number}: {quoted(line)} is not an ARFF declaration.")
    raise DatasetError(f"{path} has no @data line: it is not a complete ARFF file.")


def _arff_lines(path: Path, encoding: str | None) -> Iterator[tuple[int, str]]:
    """Yield the lines that are neither blank nor comments, numbered."""
    with _open_text(path, encoding) as file:
        for number, line in enumerate(file, start=1):
            line = line.strip()
            if line and not line.startswith("%"):
                yield number, line


def _arff_attribute(line: str, where: str) -> Header:
    match = _ATTRIBUTE.fullmatch(line)
    if match is None or not match[2]:
        raise DatasetError(f"{where}: an attribute needs a name and a type.")
    name, type_ = _unquote(match[1]), match[2]
    if type_.startswith("{"):
        if "}" not in type_:
            raise DatasetError(f"{where}: the levels of {quoted(name)} do not end with a brace on the same line.")
        levels = _arff_fields(type_[1 : type_.rindex("}")], where)
        return Header(name, "discrete", tuple(dict.fromkeys(levels)))
    type_ = type_.split()[0].lower()
    if type_ == "relational":
        raise DatasetError(f"{where}: {quoted(name)} is a table of its own, which a classifier cannot use.")
    if type_ in ("numeric", "real", "integer"):
        return Header(name, "continuous")
    return Header(name, "discrete" if type_ == "string" else None)


def _arff_records(lines: Iterator[tuple[int, str]], path: Path) -> Records:
    for number, line in lines:
        where = f"{path}, line {number}"
        if line.startswith("{"):
            raise DatasetError(f"{where}: sparse ARFF is not read: convert the file to plain ARFF or CSV.")
        yield number, _arff_fields(line, where)


def _arff_fields(line: str, where: str) -> list[str]:
    """Split at the commas outside quotes."""
    if not {"'", '"'} & set(line):
        return [text.strip() for text in line.split(",")]
    fields, start, more = [], 0, ","
    while more:
        match = _FIELD.match(line, start)
        if match is None:
            raise DatasetError(f"{where}: look for a quote too many or too few.")
        fields.append(_unquote(match[1]))
        start, more = match.end(), match[2]
    return fields


def _unquote(text: str) -> str:
    if text[:1] not in ("'", '"'):
        return text
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), text[1:-1])
