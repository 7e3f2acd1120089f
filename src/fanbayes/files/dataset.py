"""Read one table of labelled rows from a CSV, ARFF or Parquet file, and say what each column was taken for.

Text is read by the standard ``csv`` module, block by block, whatever data-frame library is installed: one
reader means one behaviour, exact line numbers in every message, and labels such as ``NA``, ``None`` or
``01`` that no library has had a chance to reinterpret. A column is kept as numbers, or as small codes of its
distinct texts, so a million rows of twenty columns take seconds and the memory of the finished table.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, cast

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from fanbayes.files.columns import (
    Column,
    Roles,
    class_names,
    frame_columns,
    frame_names,
    frame_of,
    near,
    require_classes,
)
from fanbayes.files.formats import plain_name, read_frame, text_files
from fanbayes.files.text import DatasetError, Kind, open_bytes, quoted
from fanbayes.files.text_columns import MISSING, TextFiles, text_columns

__all__ = [
    "MISSING",
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


def read_table(
    path: str | PathLike[str] | Sequence[str | PathLike[str]],
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
    """Read a CSV, ARFF, Excel, Parquet or Arrow file.

    A column that nobody declares is continuous if each of its values is a finite number, else discrete.
    ARFF and Parquet declare their columns themselves; `discrete` and `continuous` have the last word.

    Parameters
    ----------
    path : path-like, or a sequence of them
        ``.csv`` (``.tsv``, ``.tab``, ``.txt``, ``.data``, ``.dat``) or ``.arff``, each also compressed with
        gzip, xz or bzip2; ``.xlsx``, of which the first sheet is read; ``.parquet``, ``.arrow`` or ``.feather``. The
        first line of a CSV file names the columns. Spaces after a separator do not count, any other text is kept as
        it is. Several text files are one table if they have the same columns, in any order.
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
    paths = [Path(one) for one in ([path] if isinstance(path, (str, PathLike)) else path)]
    table = str(paths[0]) if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"
    roles = Roles(table, target, discrete, continuous, ignore, split)
    files = text_files(paths, missing, separator, encoding, decimal)
    own_name = plain_name(paths[0]) if name is None else name
    if files is not None:
        return text_dataset(files, roles, own_name)
    return frame_dataset(read_frame(paths[0]), roles, own_name)


def text_dataset(files: TextFiles, roles: Roles, name: str) -> Dataset:
    """Text files as one table in memory."""
    return _dataset(name, text_columns(files, roles), roles, files.decimal)


def column_names(path: Path, *, encoding: str | None = None, separator: str | None = None) -> list[str]:
    """Names of the columns of a file, as they stand there: some may be empty or come twice."""
    files = text_files([path], MISSING, separator, encoding)
    return [header.name for header in files.headers] if files else frame_names(read_frame(path).columns)


def frame_dataset(frame: nw.DataFrame[Any], roles: Roles, name: str) -> Dataset:
    """A frame as a table, of which messages speak as the roles call it."""
    return _dataset(name, frame_columns(frame, roles), roles)


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
    roles = Roles(name, target, discrete, continuous, ignore, split)
    return frame_dataset(nw.from_native(frame, eager_only=True), roles, name)


def from_columns(name: str, features: Mapping[str, NDArray[Any]], y: NDArray[Any], reason: str) -> Dataset:
    """Make a dataset of arrays of shape (n_rows,): floats are continuous, text is discrete."""
    columns = {
        key: Column("continuous", reason, values.astype(np.float64))
        if values.dtype.kind == "f"
        else Column("discrete", reason, values.astype(object))
        for key, values in features.items()
    }
    columns["class"] = Column("discrete", reason, y.astype(object), is_text=True)
    return _dataset(name, columns, Roles(name, target="class"))


def _dataset(name: str, columns: dict[str, Column], roles: Roles, decimal: str = ".") -> Dataset:
    """Set the labels and the partition apart from the features."""
    features = {key: column for key, column in columns.items() if key not in (roles.target, roles.split)}
    if not features:
        raise DatasetError(
            f"{roles.table} has no feature left: a model needs a column beside the target and those left out."
        )
    n_rows = len(next(iter(features.values())).values)
    if not n_rows:
        raise DatasetError(f"{roles.table} has column names but no rows.")
    y, split = np.full(n_rows, None, object), None
    if roles.target is not None:
        y = cast("NDArray[np.object_]", columns[roles.target].values)
        labels = {*y.tolist()} - {None}
        class_of = class_names(labels, roles, columns[roles.target].is_text, decimal)
        require_classes({class_of.get(label, label) for label in labels}, roles)
        if class_of:
            y = np.array([None if label is None else class_of[label] for label in y], object)
    if roles.split is not None:
        split = np.asarray(columns[roles.split].values, np.str_)
        for row in np.flatnonzero(~np.isin(split, ("train", "test")))[:1]:
            where = f"column {quoted(roles.split)} of {roles.table}, row {row + 1}"
            raise DatasetError(f"{where} holds {quoted(str(split[row]))}: a split is 'train' or 'test'.")
    return Dataset(
        name=name,
        X=frame_of(features),
        y=y,
        kinds={key: column.kind for key, column in features.items()},
        reasons={key: column.reason for key, column in features.items()},
        target=roles.target,
        split=split,
    )
