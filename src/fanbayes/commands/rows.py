"""Read tables for the commands: labelled rows to learn from, and rows for a model that exists."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from fanbayes.commands.options import names, pasted
from fanbayes.commands.output import WrongUse, note, shortened, warnings_as_notes
from fanbayes.commands.traps import note_trap
from fanbayes.data.schema import Column
from fanbayes.data.sources import Level, kind_of
from fanbayes.data.traps import Unseen, absent_trap, unseen_trap
from fanbayes.estimators.tabular import TableClassifier
from fanbayes.files.dataset import MISSING, Dataset, DatasetError, column_names, near, read_table

_HEADER = "(does the first line hold the names?)"
_ENCODING = {
    "no_encoding": "--encoding utf-8 or --encoding cp1252 may do",
    "encoding": "name its encoding, for example with --encoding cp1252, or save it as UTF-8",
}
# Remedies as options of commands that learn, and of those that use a model.
_LEARNING = {
    **_ENCODING,
    "not_finite": "correct it, or use --missing or --discrete",
    "infinite": "correct it, or use --discrete",
    "not_numeric": "store it as numbers, or leave it out of --continuous",
    "regression": "if they are codes, use --discrete TARGET",
    "objects": "use --ignore, or convert it to numbers or text",
    "unnamed": f"name it or use --ignore '' {_HEADER}",
    "same_name": f"rename them or use --ignore {_HEADER}",
}
_USING = {
    **_ENCODING,
    "not_finite": "correct it, or use --missing",
    "infinite": "correct it",
    "not_numeric": "store it as numbers",
    "objects": "convert it to numbers or text",
    "unnamed": f"name it {_HEADER}",
    "same_name": f"rename them {_HEADER}",
}


@dataclass(frozen=True)
class Reading:
    """How a file is read, as options of the commands say it."""

    missing: list[str] | None
    separator: str | None
    encoding: str | None
    decimal: str

    def settings(self) -> dict[str, Any]:
        """The same for `read_table`."""
        return vars(self) | {"missing": [*MISSING, *names(self.missing)]}


def read_labelled(path: Path, target: str, reading: Reading, **columns: list[str] | None) -> Dataset:
    """Read rows to learn from, some columns being declared or left out, as in `read_table`.

    Raises
    ------
    WrongUse
        If the file can be read but not with these options, such as a target that it does not have.
    DatasetError
        If the file itself is at fault.
    """
    settings, declared = reading.settings(), {role: names(given) for role, given in columns.items()}
    try:
        with warnings_as_notes():
            return read_table(path, target=target, **settings | declared)
    except DatasetError as error:
        try:
            read_table(path, **settings)
        except DatasetError:
            raise _with_options(error, target) from None
        raise WrongUse(str(_with_options(error, target))) from None


def read_for(
    clf: TableClassifier,
    path: Path,
    reading: Reading,
    *,
    keep: Collection[str] = (),
    allow_missing_columns: bool = False,
) -> tuple[Any, dict[str, list[Any]]]:
    """Read the columns that a model needs, by name, and take each for what it was in training.

    Parameters
    ----------
    clf : fitted classifier
    path : file
    keep : columns to hand through as text
    allow_missing_columns : whether the file may lack columns; the classifier is told so

    Returns
    -------
    X : rows as the classifier wants them
    kept : columns that are handed through
    """
    columns = clf.schema_.columns
    needed = {column.name for column in columns}
    extra = [name for name in keep if name not in needed]
    try:
        present = column_names(path, encoding=reading.encoding, separator=reading.separator)
        absent = _absent_columns(path, present, [column.name for column in columns], extra, allow_missing_columns)
        there = [column for column in columns if column.name not in absent]
        discrete = [column.name for column in there if column.kind == "discrete"]
        continuous = [column.name for column in there if column.kind != "discrete"]
        ignored = [name for name in dict.fromkeys(present) if name not in needed and name not in keep]
        roles: dict[str, Any] = {"discrete": [*discrete, *extra], "continuous": continuous, "ignore": {*ignored}}
        table = read_table(path, **roles, **reading.settings())
    except DatasetError as error:
        raise _with_options(error) from None
    frame = nw.from_native(table.X, eager_only=True)
    if ignored:
        listed = shortened([name or repr(name) for name in ignored], 10)
        note(f"columns of {path} that the model does not use: {listed}.")
    if absent:
        note_trap(absent_trap([*absent]))
    _judge_unseen(frame, there, clf)
    series = {column.name: _as_learnt(frame[column.name], column) for column in there}
    kept = {name: [None if value != value else value for value in frame[name].to_list()] for name in keep}
    if not hasattr(clf, "feature_names_in_"):  # it was fitted on an array, in which columns are empty but never absent
        nothing = [None] * len(frame)
        given = [nothing if column.name in absent else series[column.name].to_list() for column in columns]
        return np.array(given, dtype=object).T, kept
    clf.allow_missing_columns |= allow_missing_columns
    return nw.from_dict(series).to_native(), kept


def read_labelled_for(
    clf: TableClassifier, path: Path, target: str, reading: Reading, *, allow_missing_columns: bool = False
) -> tuple[Any, NDArray[Any]]:
    """Labelled rows as a model wants them, and their labels: classes of the model, or text that it does not know."""
    if target in (column.name for column in clf.schema_.columns):
        raise WrongUse(f"--target {pasted([target])}: the model uses this column as a feature.")
    there = column_names(path, encoding=reading.encoding, separator=reading.separator)
    if target not in there:
        raise WrongUse(f"{path} has no column {target!r}; {near(target, there)}")
    X, kept = read_for(clf, path, reading, keep=[target], allow_missing_columns=allow_missing_columns)
    texts = np.array(kept[target], dtype=object)
    known = np.flatnonzero([text is not None for text in texts])
    if len(known) < 2:
        raise WrongUse(f"rows of {path} with a label in {target!r}: {len(known)}; two at least are needed.")
    if len(known) < len(texts):
        note(f"{len(texts) - len(known)} rows of {path} have no label, and are left out.")
        X = X[known] if isinstance(X, np.ndarray) else nw.from_native(X, eager_only=True)[known].to_native()
    class_of = {str(label): label for label in clf.classes_.tolist()}
    by_value = {_value(text): label for text, label in class_of.items()}
    labels = [class_of.get(text, by_value.get(_value(text), text)) for text in texts[known].tolist()]
    return X, np.array([*labels, None], dtype=object)[:-1]


def _value(text: str) -> float | str:
    """The number that a label is, so that 1.0 is 1; else the text."""
    try:
        return float(text)
    except ValueError:
        return text


def _with_options(error: DatasetError, target: str | None = None) -> DatasetError:
    """The same error, its remedy said as options of commands that learn a target, or of those that use a model."""
    words = (_USING if target is None else _LEARNING).get(error.remedy or "")
    if words is None:
        return error
    return DatasetError(f"{error.fault} {words.replace('TARGET', pasted([target or '']))}.")


def _absent_columns(
    path: Path, present: list[str], needed: list[str], extra: list[str], allowed: bool
) -> dict[str, None]:
    """Columns that the file does not have, in their order; refused, all by name, unless some may be absent."""
    there = {*present}
    unknown = [name for name in extra if name not in there]
    if unknown:
        raise WrongUse(f"{path} has no column {unknown[0]!r} to keep.")
    absent = [name for name in needed if name not in there]
    if absent and not (allowed and len(absent) < len(needed)):
        what, it = ("a column", "it") if len(absent) == 1 else ("columns", "them")
        names = shortened([repr(name) for name in absent], 20)
        option = "" if len(absent) == len(needed) else f", or use --allow-missing-columns to have {it} summed out"
        raise DatasetError(
            f"{path} lacks {what} that the model needs: {names}; add {it}, left empty where nothing is known{option}."
        )
    return dict.fromkeys(absent)


def _judge_unseen(frame: nw.DataFrame[Any], columns: list[Column], clf: TableClassifier) -> None:
    """Refuse or note texts that were no level of a column in training."""
    unseen = []
    for column in columns:
        if column.kind == "discrete":
            texts = [value if isinstance(value, str) else None for value in frame[column.name].to_list()]
            level_of = _levels(column, {*texts} - {None})
            rows = [row for row, text in enumerate(texts) if text is not None and text not in level_of]
            if rows:
                n_observed = len(texts) - texts.count(None)
                unseen.append(Unseen(column.name, len(rows), n_observed, str(texts[rows[0]]), rows[0]))
    if unseen and clf.handle_unknown == "error":
        first = unseen[0]
        raise DatasetError(
            f"column {first.column!r} holds {first.example!r:.60} in row {first.row + 1}, which was not seen in "
            "training: correct it, or leave it empty."
        )
    trap = unseen_trap(unseen, tolerated=0.0)
    if trap is not None:
        note_trap(trap)


def _as_learnt(series: nw.Series[Any], column: Column) -> nw.Series[Any]:
    """Values as levels of the column, where those are not text."""
    if column.kind != "discrete" or all(isinstance(level, str) for level in column.levels):
        return series
    texts = [value if isinstance(value, str) else None for value in series.to_list()]
    level_of = _levels(column, {*texts} - {None})
    return nw.new_series(column.name, [level_of.get(text) for text in texts], backend=series.implementation)


def _levels(column: Column, texts: Collection[Any]) -> dict[Any, Level]:
    """Levels that texts stand for, as far as they stand for one: numbers by their value, 2.0 is 2."""
    by_text = {str(level): level for level in column.levels}
    by_value = {float(level): level for level in column.levels if kind_of(level) == "numbers"}
    found = {text: by_text[text] for text in texts if text in by_text}
    for text in texts if by_value else ():
        with suppress(ValueError, KeyError):
            found.setdefault(text, by_value[float(text)])
    return found
