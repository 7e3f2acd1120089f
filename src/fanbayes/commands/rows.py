"""Read tables for the commands: labelled rows to learn from, and rows for a model that exists."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from fanbayes.commands.models import IN_MEMORY
from fanbayes.commands.options import Model, names, pasted
from fanbayes.commands.output import WrongUse, note, progress, shortened, warnings_as_notes
from fanbayes.commands.traps import note_trap
from fanbayes.data.batches import Batches
from fanbayes.data.schema import Column
from fanbayes.data.sources import DATES, Level, kind_of
from fanbayes.data.traps import Unseen, absent_trap, unseen_trap
from fanbayes.estimators.tabular import TableClassifier
from fanbayes.estimators.validation import read_bytes
from fanbayes.files import tables
from fanbayes.files.columns import Roles, require_classes
from fanbayes.files.dataset import MISSING, Dataset, column_names, near, read_table
from fanbayes.files.tables import BatchTable, TooLarge, open_table
from fanbayes.files.text import DatasetError, Kind, NoTable, RoleError

_HEADER = "(does the first line hold the names?)"
_ENCODING = {
    "no_encoding": "--encoding utf-8 or --encoding cp1252 may do",
    "encoding": "name its encoding, for example with --encoding cp1252, or save it as UTF-8",
    "as_cp1252": "if that is right, use --encoding cp1252, else name the encoding that it has",
    "as_latin-1": "if that is right, use --encoding latin-1, else name the encoding that it has",
}
# Remedies as options of commands that learn, and of those that use a model.
_LEARNING = {
    **_ENCODING,
    "not_finite": "correct it, or use --missing or --discrete",
    "infinite": "correct it, or use --discrete",
    "not_numeric": "store it as numbers, or leave it out of --continuous",
    "regression": "if they are codes, use --discrete TARGET",
    "dates": f"{DATES}, or use --ignore",
    "objects": "use --ignore, or convert it to numbers or text",
    "unnamed": f"name it or use --ignore '' {_HEADER}",
    "same_name": f"rename them or use --ignore {_HEADER}",
}
_USING = {
    **_ENCODING,
    "not_finite": "correct it, or use --missing",
    "infinite": "correct it",
    "not_numeric": "store it as numbers",
    "dates": f"{DATES}, as in training",
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

    def settings(self, known: Collection[str] = ()) -> dict[str, Any]:
        """The same for `read_table`; `known` are further texts for a missing value, which a model has learnt with."""
        return vars(self) | {"missing": [*MISSING, *known, *names(self.missing)]}


def read_labelled(path: Path, target: str, reading: Reading, **columns: list[str] | None) -> Dataset:
    """Read rows to learn from into memory, some columns being declared or left out, as in `read_table`.

    Raises
    ------
    WrongUse
        If the options do not fit the file, such as a target that it does not have.
    DatasetError
        If the file itself is at fault.
    """
    declared = {role: names(given) for role, given in columns.items()}
    with _faults(target), warnings_as_notes():
        return read_table(path, target=target, **reading.settings() | declared)


def read_training(
    sources: list[str],
    query: str | None,
    target: str,
    reading: Reading,
    memory: str,
    model: Model,
    *,
    on_dask: bool = False,
    **columns: list[str] | None,
) -> Dataset | BatchTable:
    """Read rows to learn from, into memory or, where they take too much of it, in batches.

    Raises as `read_labelled`.
    """
    declared: dict[str, Any] = {role: names(given) for role, given in columns.items()}
    try:
        n_bytes = read_bytes("--memory", memory)
    except ValueError as error:
        raise WrongUse(f"{error}.") from None
    with _faults(target), warnings_as_notes():
        table = open_table(sources, query, **reading.settings())
        if on_dask:
            return tables.in_batches(table, Roles(table.name, target, **declared), progress)
        limits: dict[str, Any] = {"memory": n_bytes, "may_be_batches": model not in IN_MEMORY, "progress": progress}
        try:
            return tables.read_labelled(table, target=target, **declared, **limits)
        except TooLarge as error:
            raise WrongUse(
                f"{model.value} learns from rows in memory, and {error}: give --memory more, or fewer rows, or choose "
                "--model fan."
            ) from None


def require_two_classes(table: BatchTable, classes: Collection[str]) -> None:
    """Refuse batches whose rows, now that all are known, are of one class."""
    with _faults(table.target):
        require_classes(classes, Roles(table.name, table.target))


@contextmanager
def _faults(target: str | None = None) -> Iterator[None]:
    """Errors of tables, their remedies as options; what is no table, or what a target does not fit to, is wrong use."""
    try:
        yield
    except DatasetError as error:
        said = _with_options(error, target)
        if isinstance(error, NoTable) or (target is not None and isinstance(error, RoleError)):
            raise WrongUse(str(said)) from None
        raise said from None


def read_for(
    clf: TableClassifier,
    path: Path,
    reading: Reading,
    *,
    keep: Collection[str] = (),
    allow_missing_columns: bool = False,
) -> tuple[Any, dict[str, list[Any]]]:
    """Read the columns that a model needs, all rows at once; see `RowsFor`."""
    rows = rows_for(clf, [str(path)], None, reading, keep=keep, allow_missing_columns=allow_missing_columns)
    return joined(list(rows))


def joined(parts: list[tuple[Any, dict[str, list[Any]]]]) -> tuple[Any, dict[str, list[Any]]]:
    """Rows and kept columns of all parts."""
    first, kept = parts[0]
    if isinstance(first, np.ndarray):
        X = np.concatenate([X for X, _ in parts])
    else:
        X = nw.concat([nw.from_native(X, eager_only=True) for X, _ in parts]).to_native()
    return X, {name: [value for _, some in parts for value in some[name]] for name in kept}


@dataclass(frozen=True)
class RowsFor:
    """Rows for a model that exists, some after the other: each column is taken for what it was in training.

    Attributes
    ----------
    clf : fitted classifier; it is told which columns may be absent
    name : of the table
    batches : its rows
    columns : what the model knows of the columns that are there
    absent : names of those that are not
    kept : columns that are handed through, and what they are
    """

    clf: TableClassifier
    name: str
    batches: Batches
    columns: list[Column]
    absent: Collection[str]
    kept: dict[str, Kind]

    def __iter__(self) -> Iterator[tuple[Any, dict[str, list[Any]]]]:
        """X as the classifier wants it, and the columns that are handed through, for some rows after the other."""
        unseen = {c.name: Unseen(c.name, 0, 0, "", 0) for c in self.columns if c.kind == "discrete"}
        n_rows = 0
        try:
            with _faults():
                for batch in self.batches:
                    for column in self.columns:
                        if column.kind == "discrete":
                            unseen[column.name] = self._judge(batch.frame, column, unseen[column.name], n_rows)
                    n_rows += len(batch.frame)
                    if len(batch.frame):
                        yield self._part(batch.frame)
                if not n_rows:
                    raise DatasetError(f"{self.name} has column names but no rows.")
        finally:
            trap = unseen_trap([one for one in unseen.values() if one.n_rows], tolerated=0.0)
            if trap is not None:
                note_trap(trap)

    def _part(self, frame: nw.DataFrame[Any]) -> tuple[Any, dict[str, list[Any]]]:
        series = {column.name: _as_learnt(frame[column.name], column) for column in self.columns}
        kept = {name: [None if value != value else value for value in frame[name].to_list()] for name in self.kept}
        if hasattr(self.clf, "feature_names_in_"):
            return nw.from_dict(series).to_native(), kept
        nothing = [None] * len(frame)  # it was fitted on an array, in which columns are empty but never absent
        names = [column.name for column in self.clf.schema_.columns]
        given = [nothing if name in self.absent else series[name].to_list() for name in names]
        return np.array(given, dtype=object).T, kept

    def _judge(self, frame: nw.DataFrame[Any], column: Column, before: Unseen, n_before: int) -> Unseen:
        """Refuse, or add to those of the rows before, texts that were no level of a column in training."""
        texts = [value if isinstance(value, str) else None for value in frame[column.name].to_list()]
        n_observed = before.n_observed + len(texts) - texts.count(None)
        level_of = _levels(column, {*texts} - {None})
        rows = [row for row, text in enumerate(texts) if text is not None and text not in level_of]
        if not rows:
            return replace(before, n_observed=n_observed)
        first = n_before + rows[0]
        if self.clf.handle_unknown == "error":
            raise DatasetError(
                f"column {column.name!r} holds {texts[rows[0]]!r:.60} in row {first + 1}, which was not seen in "
                "training: correct it, or leave it empty."
            )
        if before.n_rows:
            return replace(before, n_rows=before.n_rows + len(rows), n_observed=n_observed)
        return Unseen(column.name, len(rows), n_observed, str(texts[rows[0]]), first)


def rows_for(
    clf: TableClassifier,
    sources: list[str],
    query: str | None,
    reading: Reading,
    *,
    keep: Collection[str] = (),
    allow_missing_columns: bool = False,
) -> RowsFor:
    """Find the columns that a model needs, by name.

    Parameters
    ----------
    clf : fitted classifier
    sources : files, folders, patterns, "-", or with a query a database
    query : one SELECT, optional
    keep : columns to hand through as text
    allow_missing_columns : whether the table may lack columns; the classifier is told so
    """
    columns = clf.schema_.columns
    needed = {column.name for column in columns}
    extra = [name for name in keep if name not in needed]
    with _faults():
        table = open_table(sources, query, once=True, **reading.settings(clf._missing_texts))
        present = table.columns
        absent = _absent_columns(table.name, present, [column.name for column in columns], extra, allow_missing_columns)
        there = [column for column in columns if column.name not in absent]
        discrete = [column.name for column in there if column.kind == "discrete"]
        continuous = [column.name for column in there if column.kind != "discrete"]
        ignored = [name for name in dict.fromkeys(present) if name not in needed and name not in keep]
        roles = Roles(table.name, discrete=[*discrete, *extra], continuous=continuous, ignore=ignored)
        batches = table.batches(roles)
    if ignored:
        listed = shortened([name or repr(name) for name in ignored], 10)
        note(f"columns of {table.name} that the model does not use: {listed}.")
    if absent:
        note_trap(absent_trap([*absent]))
    clf.allow_missing_columns |= allow_missing_columns
    kept: dict[str, Kind] = {name: "continuous" if name in roles.continuous else "discrete" for name in keep}
    return RowsFor(clf, table.name, batches, there, absent, kept)


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
    path: str, present: list[str], needed: list[str], extra: list[str], allowed: bool
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
