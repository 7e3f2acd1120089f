"""Read tables for the commands: labelled rows to learn from, and rows for a model that exists."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np

from fanbayes.commands.options import pasted
from fanbayes.commands.output import WrongUse, note, shortened, warnings_as_notes
from fanbayes.data.schema import Column
from fanbayes.data.sources import Level
from fanbayes.study.tables import MISSING, Dataset, DatasetError, column_names, read_table
from fanbayes.use.model_file import Classifier

# Remedies as the library words them; as options of commands that learn; as options of those that use a model.
_REMEDIES = {
    "correct it, list it as a missing value, or declare the column discrete": (
        "correct it, or use --missing or --discrete",
        "correct it, or use --missing",
    ),
    "correct it, or declare the column discrete": ("correct it, or use --discrete", "correct it"),
    "store it as numbers, or do not call it continuous": (
        "store it as numbers, or leave it out of --continuous",
        "store it as numbers",
    ),
    "if they are codes, declare it discrete": ("if they are codes, use --discrete TARGET",),
    "ignore it, or convert it": ("use --ignore, or convert it", "convert it"),
    "name it or ignore ''": ("name it or use --ignore ''", "name it"),
    "rename or ignore them": ("rename them or use --ignore", "rename them"),
    "there is no encoding": ("--encoding: there is no encoding",),
    "name its encoding, for example 'cp1252'": ("name its encoding, for example with --encoding cp1252",),
}


def read_labelled(path: Path, target: str, *, missing: Collection[str], **options: Any) -> Dataset:
    """Read rows to learn from.

    Raises
    ------
    WrongUse
        If the file can be read but not with these options, such as a target that it does not have.
    DatasetError
        If the file itself is at fault.
    """
    reading = {name: options.pop(name) for name in ("separator", "encoding")} | {"missing": [*MISSING, *missing]}
    try:
        with warnings_as_notes():
            return read_table(path, target=target, **options, **reading)
    except DatasetError as error:
        try:
            read_table(path, **reading)
        except DatasetError:
            raise _with_options(error, target) from None
        raise WrongUse(str(_with_options(error, target))) from None


def read_for(
    clf: Classifier, path: Path, *, missing: Collection[str], keep: Collection[str] = (), **options: Any
) -> tuple[Any, dict[str, list[Any]]]:
    """Read the columns that a model needs, by name, and take each for what it was in training.

    Parameters
    ----------
    clf : fitted classifier
    path : file
    missing : further texts that mean a missing value
    keep : columns to hand through as text
    **options : as in `read_table`

    Returns
    -------
    X : rows as the classifier wants them
    kept : columns that are handed through
    """
    columns = clf.schema_.columns
    discrete = [column.name for column in columns if column.kind == "discrete"]
    continuous = [column.name for column in columns if column.kind != "discrete"]
    options["missing"] = [*MISSING, *missing]
    needed = {column.name for column in columns}
    extra = [name for name in keep if name not in needed]
    try:
        present = column_names(path, encoding=options.get("encoding"), separator=options.get("separator"))
        _require_columns(path, present, [column.name for column in columns], extra)
        ignored = [name for name in dict.fromkeys(present) if name not in needed and name not in keep]
        table = read_table(path, discrete=[*discrete, *extra], continuous=continuous, ignore={*ignored}, **options)
    except DatasetError as error:
        raise _with_options(error) from None
    frame = nw.from_native(table.X, eager_only=True)
    if ignored:
        names = shortened([name or repr(name) for name in ignored], 10)
        note(f"columns of {path} that the model does not use: {names}.")
    series = {column.name: _as_learnt(frame[column.name], column, clf) for column in columns}
    kept = {name: [None if value != value else value for value in frame[name].to_list()] for name in keep}
    if not hasattr(clf, "feature_names_in_"):  # it was fitted on an array
        return np.array([one.to_list() for one in series.values()], dtype=object).T, kept
    return nw.from_dict(series).to_native(), kept


def _with_options(error: DatasetError, target: str | None = None) -> DatasetError:
    """The same error, its remedies said as options of commands that learn a target, or of those that use a model."""
    text = str(error)
    for remedy, options in _REMEDIES.items():
        text = text.replace(remedy, options[-1] if target is None else options[0].replace("TARGET", pasted([target])))
    return DatasetError(text)


def _require_columns(path: Path, present: list[str], needed: list[str], extra: list[str]) -> None:
    """If columns are missing, name all of them."""
    there = {*present}
    unknown = [name for name in extra if name not in there]
    if unknown:
        raise WrongUse(f"{path} has no column {unknown[0]!r} to keep.")
    absent = [repr(name) for name in needed if name not in there]
    if absent:
        one = len(absent) == 1
        raise DatasetError(
            f"{path} lacks {'a column' if one else 'columns'} that the model needs: {shortened(absent, 20)}; "
            f"add {'it' if one else 'them'}, left empty where nothing is known."
        )


def _as_learnt(series: nw.Series[Any], column: Column, clf: Classifier) -> nw.Series[Any]:
    """Values as levels of the column, where those are not text; say which were never seen."""
    if column.kind != "discrete":
        return series
    levels = {_text(level): level for level in column.levels}
    present = [value for value in series.unique().to_list() if isinstance(value, str)]
    unknown = sorted(repr(value) for value in present if value not in levels)
    if unknown and clf.handle_unknown == "missing":
        note(f"column {column.name!r} was never {shortened(unknown, 5)} in training; that counts as missing.")
    if all(isinstance(level, str) for level in column.levels):
        return series
    if unknown and clf.handle_unknown == "error":
        raise DatasetError(f"column {column.name!r} was never {shortened(unknown, 5)} in training.")
    values = [levels.get(value) if isinstance(value, str) else None for value in series.to_list()]
    return nw.new_series(column.name, values, backend=series.implementation)


def _text(level: Level) -> str:
    return str(int(level)) if isinstance(level, float) and level.is_integer() else str(level)
