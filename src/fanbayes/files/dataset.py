"""Read one table of labelled rows from a CSV, ARFF or Parquet file, and say what each column was taken for.

Text is read by the standard ``csv`` module, block by block, whatever data-frame library is installed: one
reader means one behaviour, exact line numbers in every message, and labels such as ``NA``, ``None`` or
``01`` that no library has had a chance to reinterpret. A column is kept as numbers, or as small codes of its
distinct texts, so a million rows of twenty columns take seconds and the memory of the finished table.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, time, timedelta
from difflib import get_close_matches
from functools import partial
from importlib.util import find_spec
from itertools import count, islice
from numbers import Number
from operator import itemgetter
from os import PathLike
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from fanbayes.files.text import (
    COMPRESSION,
    DatasetError,
    Header,
    Kind,
    Reader,
    Records,
    open_bytes,
    quoted,
    read_arff,
    read_csv,
)

__all__ = [
    "Dataset",
    "DatasetError",
    "Kind",
    "column_names",
    "from_columns",
    "from_frame",
    "near",
    "open_bytes",
    "read_table",
]

MISSING = ("", "?")
_CSV_SUFFIXES = {".csv", ".tsv", ".tab", ".txt", ".data", ".dat"}
_FRAMES: tuple[Literal["pandas", "polars"], ...] = ("pandas", "polars")
_INSTALL = "pip install 'fanbayes[files]'"
_DATES = (date, time, timedelta)  # text only if declared discrete
_BLOCK = 1 << 9  # rows; more no longer fit the processor cache, and take twice the time


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
        Labels as text; None where the label is missing, and everywhere if no target was named. Numbers of the same
        value are one label.
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
    def labelled(self) -> NDArray[np.bool_]:
        """Whether each row has a label (n_rows,)."""
        return np.array([label is not None for label in self.y])

    def take(self, rows: NDArray[np.intp]) -> tuple[Any, NDArray[np.object_]]:
        """Features and labels of some rows, given by their numbers."""
        return nw.from_native(self.X, eager_only=True)[rows].to_native(), self.y[rows]

    @property
    def classes(self) -> list[str]:
        """The distinct labels, sorted."""
        return sorted({label for label in self.y if label is not None})


class _Column(NamedTuple):
    """A column as read: float64 with NaN, text with None, or a series that is fit as it is.

    `is_text`: the file itself says that its values are no numbers.
    """

    kind: Kind
    reason: str
    values: NDArray[Any] | nw.Series[Any]
    levels: tuple[str, ...] = ()
    is_text: bool = False


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
    decimal: str = ".",
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
        The column of the labels. Without it the dataset has none (all of `y` is None). Numbers that are not whole are
        refused, as the classifiers do, unless `discrete` names it as well.
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
    decimal : "." or ","
        What the numbers of a text file are written with.
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
    roles = _Roles(str(path), target, discrete, continuous, ignore, split)
    if decimal not in (".", ","):
        raise DatasetError(f"decimal={quoted(decimal)} is neither '.' nor ','.")
    read = _text_reader(path, encoding, separator)
    columns = _text_columns(read, roles, missing, decimal) if read else _frame_columns(_read_parquet(path), roles)
    return _dataset(_plain(path).stem if name is None else name, columns, roles, decimal)


def column_names(path: Path, *, encoding: str | None = None, separator: str | None = None) -> list[str]:
    """Names of the columns of a file, as they stand there: some may be empty or come twice."""
    read = _text_reader(path, encoding, separator)
    return [header.name for header in read()[0]] if read else _frame_names(_read_parquet(path))


def _plain(path: Path) -> Path:
    return path.with_suffix("") if path.suffix.lower() in COMPRESSION else path


def _text_reader(path: Path, encoding: str | None, separator: str | None) -> Reader | None:
    """What reads the file by its name; None for Parquet."""
    suffix = _plain(path).suffix.lower()
    if suffix == ".parquet":
        return None
    if suffix == ".arff":
        return partial(read_arff, path, encoding)
    if suffix in _CSV_SUFFIXES:
        return partial(read_csv, path, encoding, separator)
    raise DatasetError(f"cannot tell the format of {path}: save it as .csv, .arff or .parquet.")


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
    columns["class"] = _Column("discrete", reason, y.astype(object), is_text=True)
    return _dataset(name, columns, _Roles(name, target="class"))


def near(word: str, known: Iterable[str]) -> str:
    """Say which of the known words may have been meant."""
    known = list(known)
    close = get_close_matches(word, known, n=3, cutoff=0.6)
    if close:
        return f"did you mean {' or '.join(map(quoted, close))}?"
    return f"there are {', '.join(quoted(word, 30) for word in known[:8])}{' ...' if len(known) > 8 else '.'}"


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
            named = getattr(self, option)
            if isinstance(named, str):
                raise DatasetError(f"{option} is a list of column names, not one text.")
            object.__setattr__(self, option, dict.fromkeys(named))  # in their order, and quick to find
        roles = Counter([*self.continuous, *self.ignore, *{self.target, self.split} - {None}])
        roles.update({*self.discrete} - {self.target})
        for column, uses in roles.items():
            if uses > 1:
                raise DatasetError(f"column {quoted(column)} of {self.table} is given two roles: name it once.")

    def kind(self, name: str) -> Kind | None:
        """Tell what the caller declares a column to be."""
        if name in self.continuous:
            return "continuous"
        return "discrete" if name in self.discrete or name in (self.target, self.split) else None

    def check(self, names: Sequence[str]) -> None:
        """Refuse column names that are missing or ambiguous."""
        wanted, present = [self.target, self.split, *self.discrete, *self.continuous, *self.ignore], {*names}
        for name in wanted:
            if name is not None and name not in present:
                raise DatasetError(f"{self.table} has no column {quoted(name)}; {near(name, names)}")
        for name, uses in Counter(name for name in names if name not in self.ignore).items():
            if not name:
                where = names.index(name) + 1
                raise DatasetError(f"column {where} of {self.table} has no name:", "unnamed")
            if uses > 1:
                raise DatasetError(f"{self.table} has {uses} columns {quoted(name)}:", "same_name")


def _dataset(name: str, columns: dict[str, _Column], roles: _Roles, decimal: str = ".") -> Dataset:
    """Set the labels and the partition apart from the features."""
    features = {key: column for key, column in columns.items() if key not in (roles.target, roles.split)}
    if not features:
        raise DatasetError(f"{roles.table} has no feature left.")
    n_rows = len(next(iter(features.values())).values)
    if not n_rows:
        raise DatasetError(f"{roles.table} has column names but no rows.")
    y, split = np.full(n_rows, None, object), None
    if roles.target is not None:
        where = f"column {quoted(roles.target)} of {roles.table}"
        y = cast("NDArray[np.object_]", columns[roles.target].values)
        if not columns[roles.target].is_text and roles.target not in roles.discrete:
            y = _classes_of_numbers(y, where, decimal)
        classes = {label for label in y if label is not None}
        if len(classes) < 2:
            found = f"only the class {quoted(classes.pop())}" if classes else "no label"
            raise DatasetError(f"{where} holds {found}: a classifier needs two classes or more.")
    if roles.split is not None:
        split = np.asarray(columns[roles.split].values, np.str_)
        for row in np.flatnonzero(~np.isin(split, ("train", "test")))[:1]:
            where = f"column {quoted(roles.split)} of {roles.table}, row {row + 1}"
            raise DatasetError(f"{where} holds {quoted(str(split[row]))}: a split is 'train' or 'test'.")
    return Dataset(
        name=name,
        X=_frame(features),
        y=y,
        kinds={key: column.kind for key, column in features.items()},
        reasons={key: column.reason for key, column in features.items()},
        target=roles.target,
        split=split,
    )


def _classes_of_numbers(y: NDArray[np.object_], where: str, decimal: str) -> NDArray[np.object_]:
    """Labels of which those that are the same number are one class; all as they are unless each is a number.

    What the classifiers refuse as the target of a regression is refused here as well.
    """
    texts = sorted({label for label in y if label is not None}, key=lambda text: (len(text), text))
    values = _numbers(texts, frozenset(), decimal)
    if values is None or not texts:
        return y
    from sklearn.utils.multiclass import check_classification_targets

    value_of = dict(zip(texts, values.tolist()))
    try:
        with np.errstate(invalid="ignore"):  # numbers beyond all integers are not whole
            check_classification_targets(np.array([value_of[label] for label in y if label is not None]))
    except ValueError:
        raise DatasetError(
            f"{where} holds {len({*value_of.values()})} different numbers, not all whole, like the target of a "
            "regression: a classifier needs classes;",
            "regression",
        ) from None
    name_of: dict[float, str] = {}
    for text, value in value_of.items():
        name_of.setdefault(value, text)
    return np.array([None if label is None else name_of[value_of[label]] for label in y], object)


def _frame(columns: Mapping[str, _Column]) -> Any:
    """Hand the columns over to the data-frame library they are in, or to the first one there is."""
    own = (column.values for column in columns.values() if isinstance(column.values, nw.Series))
    backend = next((series.implementation for series in own), None) or _installed()
    series = {}
    for name, column in columns.items():
        if isinstance(column.values, nw.Series):
            series[name] = column.values
            continue
        dtype: nw.dtypes.DType | None = nw.Enum(column.levels) if column.levels else None
        # A cast to text would turn None into the label "None" in older versions of pandas, which need
        # none; polars needs it for a column without any value.
        if column.kind == "discrete" and dtype is None and str(backend) != "pandas":
            dtype = nw.String()
        values = column.values if column.kind == "continuous" else column.values.tolist()
        series[name] = nw.new_series(name, values, dtype, backend=backend)
    return nw.from_dict(series).to_native()


def _installed() -> Literal["pandas", "polars"]:
    for library in _FRAMES:
        if find_spec(library):
            return library
    raise DatasetError(f"a table needs pandas or polars: {_INSTALL}.")


class _Growing:
    """A column while it is being read: numbers as long as every field is one, else codes of its texts."""

    def __init__(
        self, header: Header, declared: Kind | None, missing: frozenset[str], decimal: str, table: str
    ) -> None:
        self.name, self.levels = header.name, header.levels
        self.kind = declared or header.kind
        self.is_text = header.kind == "discrete"
        self.reason = "declared" if declared else "declared in the file"
        self.missing, self.decimal, self.table = missing, decimal, table
        self.late = False
        self.blocks: list[NDArray[Any]] = []
        self.codes: defaultdict[str, int] = defaultdict(count().__next__)
        self.codes.update(dict.fromkeys(missing, -1))
        self.codes.update({level: code for code, level in enumerate(self.levels)})
        self.known = frozenset(self.codes)

    def add(self, lines: Sequence[int], fields: Sequence[str]) -> None:
        """Append a block of fields, or note that the earlier ones should not have become numbers."""
        if self.late:
            return
        if self.kind != "discrete":
            numbers = _numbers(fields, self.missing, self.decimal)
            if numbers is not None:
                self.blocks.append(numbers)
                return
            self._become_text(lines, fields)
        if not self.late:
            self.blocks.append(np.fromiter(map(self.codes.__getitem__, fields), np.int32, len(fields)))
        if self.levels and len(self.codes) > len(self.known):
            line, text = next((line, text) for line, text in zip(lines, fields) if text not in self.known)
            where = f"{self.table}, line {line}: {quoted(text)}"
            raise DatasetError(f"{where} is not a declared level of {quoted(self.name)}; {near(text, self.levels)}")

    def _become_text(self, lines: Sequence[int], fields: Sequence[str]) -> None:
        line, text = next(
            (line, text) for line, text in zip(lines, fields) if _numbers([text], self.missing, self.decimal) is None
        )
        if self.kind == "continuous":
            raise DatasetError(
                f"{self.table}, line {line}: {quoted(text)} in the continuous column {quoted(self.name)} is not a "
                "finite number:",
                "not_finite",
            )
        self.kind, self.reason = "discrete", f"{quoted(text)} on line {line} is not a number"
        self.late = bool(self.blocks)
        self.blocks.clear()

    def finish(self) -> _Column:
        """Join the blocks; a kind still undecided means that nothing but numbers was seen."""
        values = np.concatenate(self.blocks) if self.blocks else np.empty(0, np.int32)
        if self.kind == "discrete":
            # Codes were given in the order of the dictionary; -1, a missing value, picks the last entry.
            texts = [text for text, code in sorted(self.codes.items(), key=itemgetter(1)) if code >= 0]
            labels = np.array([*texts, None], object)[values]
            return _Column("discrete", self.reason, labels, self.levels, self.is_text)
        if self.kind is None:
            self.reason = "no value at all" if np.isnan(values).all() else "every value is a number"
        return _Column("continuous", self.reason, values)


def _numbers(fields: Sequence[str], missing: frozenset[str], decimal: str = ".") -> NDArray[np.float64] | None:
    """Parse fields, NaN where missing; None if one is no finite number."""
    if decimal == ",":  # and a point is no part of a number then
        fields = [text if text in missing else text.translate({ord(","): ".", ord("."): ","}) for text in fields]
    try:
        values = np.array([math.nan if text in missing else float(text) for text in fields])
    except ValueError:
        return None
    # float() also understands "nan", "inf" and "1_000", which are words here.
    words = {fields[i] for i in np.flatnonzero(~np.isfinite(values)).tolist()}
    if "_" in "".join(fields):
        words.update(text for text in fields if "_" in text)
    return None if words - missing else values


def _text_columns(read: Reader, roles: _Roles, missing: Collection[str], decimal: str) -> dict[str, _Column]:
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
        else _Growing(header, roles.kind(header.name), frozenset(missing), decimal, roles.table)
        for header in headers
    ]
    _fill(columns, records, roles.table)
    late = [column if column and column.late else None for column in columns]
    for column in filter(None, late):
        column.late = False
    if any(late):
        again, records = read()
        _fill(late, records, roles.table)
        if again != headers or len({sum(map(len, column.blocks)) for column in columns if column}) > 1:
            raise DatasetError(f"{roles.table} changed while it was read: read it again.")
    return {column.name: column.finish() for column in columns if column}


def _fill(columns: Sequence[_Growing | None], records: Records, table: str) -> None:
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


def _read_parquet(path: Path) -> nw.DataFrame[Any]:
    if not path.is_file():
        raise DatasetError(f"there is no file {path}.")
    for library in _FRAMES:
        try:
            return nw.read_parquet(str(path), backend=library)
        except ImportError:
            continue
        except Exception as error:  # each library has errors of its own
            reason = " ".join(str(error).split()).rstrip(".")
            raise DatasetError(f"cannot read {path} as Parquet: {reason}.") from None
    raise DatasetError(f"reading Parquet needs polars, or pandas with pyarrow: {_INSTALL}.")


def _frame_columns(frame: nw.DataFrame[Any], roles: _Roles) -> dict[str, _Column]:
    """Take the wanted columns of a frame; text and categoricals stay as they are."""
    names = _frame_names(frame)
    roles.check(names)
    return {name: _frame_column(frame[name], name, roles) for name in names if name not in roles.ignore}


def _frame_names(frame: nw.DataFrame[Any]) -> list[str]:
    # How pandas stores an index without a name; another library shows it as a column.
    return [name for name in frame.columns if not re.fullmatch(r"__index_level_\d+__", name)]


def _frame_column(series: nw.Series[Any], name: str, roles: _Roles) -> _Column:
    declared, dtype = roles.kind(name), series.dtype
    reason = "declared" if declared else f"stored as {dtype}"
    where = f"column {quoted(name)} of {roles.table}"
    if declared == "discrete" or not (declared or dtype.is_numeric()):
        stays = dtype in (nw.String, nw.Categorical, nw.Enum) and name not in (roles.target, roles.split)
        labels = series if stays else _labels(series, where, dates=declared is not None)
        return _Column("discrete", reason, labels, is_text=not dtype.is_numeric())
    if not dtype.is_numeric():
        raise DatasetError(f"{where} is stored as {dtype}:", "not_numeric")
    values = series.cast(nw.Float64).to_numpy().astype(np.float64)
    if np.isinf(values).any():
        row = np.flatnonzero(np.isinf(values))[0] + 1
        raise DatasetError(f"{where} is infinite in row {row}:", "infinite")
    return _Column("continuous", reason, values)


def _labels(series: nw.Series[Any], where: str, *, dates: bool) -> NDArray[np.object_]:
    """Text of each value, None where missing; a code that came as 1.0, for lack of a null, is "1" again."""
    known = (str, Number, np.generic, *(_DATES if dates else ()))
    labels = np.full(len(series), None, object)
    for row, (value, null) in enumerate(zip(series.to_list(), series.is_null().to_list())):
        if not null and not isinstance(value, known):
            kind = type(value).__name__
            raise DatasetError(f"{where} holds {kind} values (row {row + 1}):", "objects")
        if not null and value == value:
            whole = isinstance(value, float) and value.is_integer()
            labels[row] = str(int(value) if whole else value)
    return labels
