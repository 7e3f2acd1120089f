"""Read one table of labelled rows from a CSV, ARFF or Parquet file, and say what each column was taken for.

Text is read by the standard ``csv`` module, block by block, whatever data-frame library is installed: one
reader means one behaviour, exact line numbers in every message, and labels such as ``NA``, ``None`` or
``01`` that no library has had a chance to reinterpret. A column is kept as numbers, or as small codes of its
distinct texts, so a million rows of twenty columns take seconds and the memory of the finished table.
"""

from __future__ import annotations

import codecs
import csv
import io
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from itertools import count, islice
from os import PathLike
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple, TypeAlias, cast

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

__all__ = ["Dataset", "DatasetError", "Kind", "from_columns", "from_frame", "near", "open_bytes", "read_table"]

Kind: TypeAlias = Literal["discrete", "continuous"]

MISSING = ("", "?")
SEPARATORS = ",;\t|"
_COMPRESSION = {".gz": "gzip", ".xz": "lzma", ".bz2": "bz2"}
_CSV_SUFFIXES = {".csv", ".tsv", ".tab", ".txt", ".data", ".dat"}
_FRAMES: tuple[Literal["pandas", "polars"], ...] = ("pandas", "polars")
_INSTALL = "pip install 'fanbayes[files]'"
_BLOCK = 1 << 16


class DatasetError(ValueError):
    """A file, column or suite that cannot be used, in one sentence that names it and the remedy."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """A table of features with its labels.

    Parameters
    ----------
    name : str
        How reports call it.
    X : data frame of shape (n_rows, n_features)
        Of pandas, or of polars where pandas is not installed. Discrete columns hold text (categoricals
        where the file declares the levels), continuous ones float64; missing values are null or NaN.
    y : ndarray of shape (n_rows,), dtype object
        Labels as text; None where the label is missing, and everywhere if no target was named.
    kinds : mapping of str to {"discrete", "continuous"}
        What each column of `X` is, in column order.
    reasons : mapping of str to str
        Why each column of `X` was taken for that, for a reader to check.
    target : str or None
        The column the labels came from.
    split : ndarray of shape (n_rows,) of "train" and "test", or None
        The donors' partition, where there is one.
    group : str or None
        Datasets of one group are related; a study may want to count only one of them.
    """

    name: str
    X: Any = field(repr=False)
    y: NDArray[np.object_] = field(repr=False)
    kinds: Mapping[str, Kind]
    reasons: Mapping[str, str] = field(repr=False)
    target: str | None = None
    split: NDArray[np.str_] | None = field(default=None, repr=False)
    group: str | None = None

    @property
    def classes(self) -> list[str]:
        """The distinct labels, sorted."""
        return sorted({label for label in self.y if label is not None})


class _Column(NamedTuple):
    """A column as read: float64 with NaN, text with None, or a series that is fit as it is."""

    kind: Kind
    reason: str
    values: NDArray[Any] | nw.Series[Any]
    levels: tuple[str, ...] = ()


class _Header(NamedTuple):
    """What a text file itself says of a column; `levels` is empty unless the file lists them."""

    name: str
    kind: Kind | None = None
    levels: tuple[str, ...] = ()


_Records: TypeAlias = Iterator[tuple[int, Sequence[str]]]
_Reader: TypeAlias = Callable[[], tuple[list[_Header], _Records]]


def read_table(
    path: str | PathLike[str],
    *,
    target: str | None = None,
    discrete: Collection[str] = (),
    continuous: Collection[str] = (),
    ignore: Collection[str] = (),
    split: str | None = None,
    missing: Collection[str] = MISSING,
    separator: str | None = None,
    encoding: str | None = None,
    name: str | None = None,
) -> Dataset:
    """Read a CSV, ARFF or Parquet file.

    A column that nobody declares is continuous if each of its values is a finite number, else discrete.
    ARFF and Parquet declare their columns themselves; `discrete` and `continuous` have the last word.

    Parameters
    ----------
    path : path-like
        ``.csv`` (``.tsv``, ``.tab``, ``.txt``, ``.data``, ``.dat``) or ``.arff``, each also compressed with
        gzip, xz or bzip2, or ``.parquet``. The first line of a CSV file names the columns. Spaces after a
        separator do not count, any other text is kept as it is.
    target : str, optional
        The column of the labels. Without it the dataset has none (all of `y` is None).
    discrete, continuous : collection of str
        Columns whose kind the file cannot tell, such as numbers that are codes.
    ignore : collection of str
        Columns to leave out, such as a row number.
    split : str, optional
        The column that says "train" or "test".
    missing : collection of str
        Fields of a text file that mean a missing value.
    separator : str, optional
        Of a CSV file; found among comma, semicolon, tab and bar if not given.
    encoding : str, optional
        Of a text file; UTF-8 (or UTF-16 with a byte-order mark) if not given.
    name : str, optional
        The dataset's name; the file's if not given.

    Returns
    -------
    Dataset
        With at least one row and one feature and, if a target is named, at least two classes.

    Raises
    ------
    DatasetError
        With one sentence that names the file, the line or column, and what to do.
    """
    path = Path(path)
    plain = path.with_suffix("") if path.suffix.lower() in _COMPRESSION else path
    suffix = plain.suffix.lower()
    roles = _Roles(str(path), target, discrete, continuous, ignore, split)
    if suffix == ".parquet":
        columns = _frame_columns(_read_parquet(path), roles)
    elif suffix == ".arff":
        columns = _text_columns(partial(_arff, path, encoding), roles, missing)
    elif suffix in _CSV_SUFFIXES:
        columns = _text_columns(partial(_csv, path, encoding, separator), roles, missing)
    else:
        raise DatasetError(f"cannot tell the format of {path}: save it as .csv, .arff or .parquet.")
    return _dataset(plain.stem if name is None else name, columns, roles)


def from_frame(
    frame: Any,
    *,
    name: str,
    target: str | None = None,
    discrete: Collection[str] = (),
    continuous: Collection[str] = (),
    ignore: Collection[str] = (),
    split: str | None = None,
) -> Dataset:
    """Take a dataset from a pandas or polars frame of shape (n_rows, n_columns); see `read_table`.

    Numbers are continuous; text, categoricals and truth values discrete, unless declared otherwise.
    """
    roles = _Roles(name, target, discrete, continuous, ignore, split)
    return _dataset(name, _frame_columns(nw.from_native(frame, eager_only=True), roles), roles)


def from_columns(name: str, features: Mapping[str, NDArray[Any]], y: NDArray[Any], reason: str) -> Dataset:
    """Make a dataset of arrays of shape (n_rows,): floats are continuous, text is discrete."""
    columns = {
        key: _Column("continuous", reason, values.astype(np.float64))
        if values.dtype.kind == "f"
        else _Column("discrete", reason, values.astype(object))
        for key, values in features.items()
    }
    columns["class"] = _Column("discrete", reason, y.astype(object))
    return _dataset(name, columns, _Roles(name, target="class"))


def near(word: str, known: Iterable[str]) -> str:
    """Say which of the known words may have been meant."""
    known = list(known)
    close = get_close_matches(word, known, n=3, cutoff=0.6)
    if close:
        return f"did you mean {' or '.join(map(repr, close))}?"
    return f"there are {', '.join(map(repr, known[:20]))}{' ...' if len(known) > 20 else '.'}"


@dataclass(frozen=True)
class _Roles:
    """What the caller says of the columns of one table."""

    table: str
    target: str | None = None
    discrete: Collection[str] = ()
    continuous: Collection[str] = ()
    ignore: Collection[str] = ()
    split: str | None = None

    def __post_init__(self) -> None:
        for option in ("discrete", "continuous", "ignore"):
            if isinstance(getattr(self, option), str):
                raise DatasetError(f"{option} is a list of column names, not one text.")
        named = Counter([*{*self.continuous}, *{*self.ignore}, *{self.target, self.split} - {None}])
        named.update({*self.discrete} - {self.target})
        for column, uses in named.items():
            if uses > 1:
                raise DatasetError(f"column {column!r} of {self.table} is given two roles: name it once.")

    def kind(self, name: str) -> Kind | None:
        """What the caller declares a column to be."""
        if name in self.continuous:
            return "continuous"
        return "discrete" if name in self.discrete or name in (self.target, self.split) else None

    def check(self, names: Sequence[str]) -> None:
        """Refuse column names that are missing or ambiguous."""
        wanted = [self.target, self.split, *self.discrete, *self.continuous, *self.ignore]
        for name in wanted:
            if name is not None and name not in names:
                raise DatasetError(f"{self.table} has no column {name!r}; {near(name, names)}")
        hint = "(does the first line hold the names?)"
        for name, uses in Counter(name for name in names if name not in self.ignore).items():
            if not name:
                where = names.index(name) + 1
                raise DatasetError(f"column {where} of {self.table} has no name: name it or ignore '' {hint}.")
            if uses > 1:
                raise DatasetError(f"{self.table} has {uses} columns {name!r}: rename or ignore them {hint}.")


def _dataset(name: str, columns: dict[str, _Column], roles: _Roles) -> Dataset:
    """Set the labels and the partition apart from the features."""
    n_rows = len(next(iter(columns.values())).values)
    if not n_rows:
        raise DatasetError(f"{roles.table} has columns but no rows.")
    y = np.full(n_rows, None, object)
    split = None
    if roles.target is not None:
        y = cast("NDArray[np.object_]", columns.pop(roles.target).values)
        seen = {label for label in y if label is not None}
        if len(seen) < 2:
            found = f"only the class {seen.pop()!r}" if seen else "no label at all"
            raise DatasetError(
                f"column {roles.target!r} of {roles.table} holds {found}: a classifier needs two classes or more."
            )
    if roles.split is not None:
        split = columns.pop(roles.split).values
        odd = next((part for part in split if part not in ("train", "test")), "")
        if odd != "":
            raise DatasetError(
                f"column {roles.split!r} of {roles.table} holds {odd!r}: a split is 'train' or 'test' in each row."
            )
    if not columns:
        raise DatasetError(f"{roles.table} has no feature left beside the target.")
    return Dataset(
        name=name,
        X=_frame(columns),
        y=y,
        kinds={key: column.kind for key, column in columns.items()},
        reasons={key: column.reason for key, column in columns.items()},
        target=roles.target,
        split=None if split is None else np.asarray(split, np.str_),
    )


def _frame(columns: Mapping[str, _Column]) -> Any:
    """Hand the columns over to the data-frame library they are in, or to the first one there is."""
    own = (column.values.implementation for column in columns.values() if isinstance(column.values, nw.Series))
    backend = next(own, None) or next((library for library in _FRAMES if find_spec(library)), None)
    if backend is None:
        raise DatasetError(f"a table needs pandas or polars: {_INSTALL}.")
    series = {}
    for name, column in columns.items():
        if isinstance(column.values, nw.Series):
            series[name] = column.values
        elif column.levels:
            series[name] = nw.new_series(name, column.values.tolist(), nw.Enum(column.levels), backend=backend)
        elif column.kind == "discrete":
            # A cast to text would turn None into the label "None" in older versions of pandas,
            # which need none; polars needs it for a column without any value.
            dtype = None if str(backend) == "pandas" else nw.String()
            series[name] = nw.new_series(name, column.values.tolist(), dtype, backend=backend)
        else:
            series[name] = nw.new_series(name, column.values, backend=backend)
    return nw.from_dict(series).to_native()


class _Growing:
    """A column while it is being read: numbers as long as every field is one, else codes of its texts."""

    def __init__(self, header: _Header, declared: Kind | None, missing: Collection[str], table: str) -> None:
        self.name, self.levels = header.name, header.levels
        self.kind = declared or header.kind
        self.reason = "declared" if declared else "declared in the file"
        self.missing, self.table = missing, table
        self.late = False
        self.blocks: list[NDArray[Any]] = []
        self.codes: defaultdict[str, int] = defaultdict(count(len(self.levels)).__next__)
        self.codes.update(dict.fromkeys(missing, -1))
        self.codes.update({level: code for code, level in enumerate(self.levels)})
        self.known = frozenset(self.codes)

    def add(self, lines: Sequence[int], fields: Sequence[str]) -> None:
        """Append a block of fields, or note that the earlier ones should not have become numbers."""
        if self.late:
            return
        if self.kind != "discrete":
            numbers = _numbers(fields, self.missing)
            if numbers is not None:
                self.blocks.append(numbers)
                return
            line, text = next(
                (line, text)
                for line, text in zip(lines, fields)
                if text not in self.missing and _numbers([text], ()) is None
            )
            if self.kind == "continuous":
                raise DatasetError(
                    f"{self.table}, line {line}: {text!r} in the continuous column {self.name!r} is not a finite "
                    "number: correct it, list it among the missing values, or declare the column discrete."
                )
            self.kind, self.reason = "discrete", f"{text!r} on line {line} is not a number"
            self.late = bool(self.blocks)
            self.blocks.clear()
        if not self.late:
            self.blocks.append(np.fromiter(map(self.codes.__getitem__, fields), np.int32, len(fields)))
        if self.levels and len(self.codes) > len(self.known):
            line, text = next((line, text) for line, text in zip(lines, fields) if text not in self.known)
            raise DatasetError(
                f"{self.table}, line {line}: {text!r} is not a declared level of {self.name!r}; "
                f"{near(text, self.levels)}"
            )

    def finish(self) -> _Column:
        """Join the blocks; a kind still undecided means that nothing but numbers was seen."""
        values = np.concatenate(self.blocks) if self.blocks else np.empty(0, np.int32)
        if self.kind == "discrete":
            # Codes were given in the order of the dictionary; -1, a missing value, picks the last entry.
            texts = [text for text, code in sorted(self.codes.items(), key=itemgetter(1)) if code >= 0]
            return _Column("discrete", self.reason, np.array([*texts, None], object)[values], self.levels)
        if self.kind is None:
            self.reason = "no value at all" if np.isnan(values).all() else "every value is a number"
        return _Column("continuous", self.reason, values)


def _numbers(fields: Sequence[str], missing: Collection[str]) -> NDArray[np.float64] | None:
    """Parse fields, NaN where missing; None if one is no finite number."""
    try:
        values = np.array([math.nan if text in missing else float(text) for text in fields])
    except ValueError:
        return None
    # float() also understands "nan", "inf" and "1_000", which are words here.
    if "_" in "".join(fields) or any(fields[i] not in missing for i in np.flatnonzero(~np.isfinite(values))):
        return None
    return values


def _text_columns(read: _Reader, roles: _Roles, missing: Collection[str]) -> dict[str, _Column]:
    """Read the wanted columns of a text file.

    Most columns show their kind in the first block. Those that turn out to be text only later, when their
    first fields are already numbers, are read a second time.
    """
    if isinstance(missing, str):
        raise DatasetError("missing is a list of texts, not one text.")
    headers, records = read()
    roles.check([header.name for header in headers])
    columns = [
        None
        if header.name in roles.ignore
        else _Growing(header, roles.kind(header.name), frozenset(missing), roles.table)
        for header in headers
    ]
    _fill(columns, records, roles.table)
    late = [column if column and column.late else None for column in columns]
    for column in filter(None, late):
        column.late = False
    if any(late):
        _fill(late, read()[1], roles.table)
    return {column.name: column.finish() for column in columns if column}


def _fill(columns: Sequence[_Growing | None], records: _Records, table: str) -> None:
    """Give the fields of the records to their columns, a block at a time."""
    while block := list(islice(records, _BLOCK)):
        lines, rows = zip(*block)
        for line, row in block:
            if len(row) != len(columns):
                raise DatasetError(
                    f"{table}, line {line} has {len(row)} fields instead of {len(columns)}: "
                    "complete it, or put quotes around a field that holds the separator."
                )
        for column, fields in zip(columns, zip(*rows)):
            if column:
                column.add(lines, fields)


def open_bytes(path: Path) -> IO[bytes]:
    """Open a file for reading, decompressed if its name says that it is compressed."""
    library = _COMPRESSION.get(path.suffix.lower())
    return cast("IO[bytes]", import_module(library).open(path, "rb") if library else path.open("rb"))


@contextmanager
def _open_text(path: Path, encoding: str | None) -> Iterator[IO[str]]:
    """Open a text file; whatever goes wrong while it is read becomes a `DatasetError`."""
    try:
        with open_bytes(path) as file:
            if encoding is None:
                start = file.read(2)
                file.seek(0)
                encoding = "utf-16" if start in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "utf-8-sig"
            # The csv module has to see line ends as they are.
            yield io.TextIOWrapper(file, encoding=encoding, newline="")
    except LookupError:
        raise DatasetError(f"there is no encoding {encoding!r}: try 'utf-8', 'latin-1' or 'cp1252'.") from None
    except UnicodeDecodeError as error:
        raise DatasetError(
            f"{path}{_undecodable(path, encoding)} is not {error.encoding} text: name its encoding, "
            "for example encoding='cp1252', or save it as UTF-8."
        ) from None
    except FileNotFoundError:
        raise DatasetError(f"there is no file {path}.") from None
    except (OSError, EOFError, ImportError, zlib.error, *_lzma_errors()) as error:
        raise DatasetError(f"cannot read {path}: {error}.") from None


def _undecodable(path: Path, encoding: str | None) -> str:
    """Find the line and byte that the decoder stumbled over, which reads ahead and cannot tell itself."""
    with open_bytes(path) as file:
        for number, line in enumerate(file, start=1):
            try:
                line.decode(encoding or "utf-8")
            except UnicodeDecodeError as error:
                return f", line {number}, byte {error.start + 1} ({line[error.start]:#04x})"
    return ""


