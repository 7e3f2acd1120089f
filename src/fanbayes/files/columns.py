"""Columns as files hold them: what the caller says of each, what it is taken for, and frames of them."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, time, timedelta
from difflib import get_close_matches
from importlib.util import find_spec
from numbers import Number
from typing import Any, Literal, NamedTuple

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from fanbayes.data.schema import MAX_LEVELS
from fanbayes.files.text import DatasetError, Kind, RoleError, quoted

FRAMES: tuple[Literal["pandas", "polars"], ...] = ("pandas", "polars")
INSTALL = "pip install 'fanbayes[files]'"
_DATES = (date, time, timedelta)  # text only if declared discrete


class Column(NamedTuple):
    """A column as read: float64 with NaN, text with None, or a series that is fit as it is.

    `is_text`: the file itself says that its values are no numbers.
    """

    kind: Kind
    reason: str
    values: NDArray[Any] | nw.Series[Any]
    levels: tuple[str, ...] = ()
    is_text: bool = False


def near(word: str, known: Iterable[str]) -> str:
    """Say which of the known words may have been meant."""
    known = list(known)
    close = get_close_matches(word, known, n=3, cutoff=0.6)
    if close:
        return f"did you mean {' or '.join(map(quoted, close))}?"
    return f"there are {', '.join(quoted(word, 30) for word in known[:8])}{' ...' if len(known) > 8 else '.'}"


@dataclass(frozen=True)
class Roles:
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
                raise RoleError(f"{option} is a list of column names, not one text.")
            object.__setattr__(self, option, dict.fromkeys(named))  # in their order, and quick to find
        roles = Counter([*self.continuous, *self.ignore, *{self.target, self.split} - {None}])
        roles.update({*self.discrete} - {self.target})
        for column, uses in roles.items():
            if uses > 1:
                raise RoleError(f"column {quoted(column)} of {self.table} is given two roles: name it once.")

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
                raise RoleError(f"{self.table} has no column {quoted(name)}; {near(name, names)}")
        for name, uses in Counter(name for name in names if name not in self.ignore).items():
            if not name:
                where = names.index(name) + 1
                raise DatasetError(f"column {where} of {self.table} has no name:", "unnamed")
            if uses > 1:
                raise DatasetError(f"{self.table} has {uses} columns {quoted(name)}:", "same_name")


def frame_of(columns: Mapping[str, Column], library: str | None = None) -> Any:
    """Hand the columns over to the data-frame library they are in, or to the first one there is."""
    own = (column.values for column in columns.values() if isinstance(column.values, nw.Series))
    backend: Any = library or next((series.implementation for series in own), None) or installed()
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


def installed() -> Literal["pandas", "polars"]:
    """The data-frame library that there is."""
    for library in FRAMES:
        if find_spec(library):
            return library
    raise DatasetError(f"a table needs pandas or polars: {INSTALL}.")


def frame_columns(frame: nw.DataFrame[Any], roles: Roles) -> dict[str, Column]:
    """Take the wanted columns of a frame; text and categoricals stay as they are."""
    names = frame_names(frame.columns)
    roles.check(names)
    return {name: frame_column(frame[name], name, roles) for name in names if name not in roles.ignore}


def frame_names(columns: Sequence[str]) -> list[str]:
    """Names of columns, without those of an index."""
    # How pandas stores an index without a name; another library shows it as a column.
    return [name for name in columns if not re.fullmatch(r"__index_level_\d+__", name)]


def frame_column(series: nw.Series[Any], name: str, roles: Roles) -> Column:
    """What a column of a frame is taken for, by its role or its type."""
    declared, dtype = roles.kind(name), series.dtype
    reason = "declared" if declared else f"stored as {dtype}"
    where = f"column {quoted(name)} of {roles.table}"
    if declared == "discrete" or not (declared or dtype.is_numeric()):
        stays = dtype in (nw.String, nw.Categorical, nw.Enum) and name not in (roles.target, roles.split)
        labels = series if stays else labels_of(series, where, dates=declared is not None)
        return Column("discrete", reason, labels, is_text=not dtype.is_numeric())
    if not dtype.is_numeric():
        raise RoleError(f"{where} is stored as {dtype}:", "not_numeric")
    values = series.cast(nw.Float64).to_numpy().astype(np.float64)
    if np.isinf(values).any():
        row = np.flatnonzero(np.isinf(values))[0] + 1
        raise DatasetError(f"{where} is infinite in row {row}:", "infinite")
    return Column("continuous", reason, values)


def labels_of(series: nw.Series[Any], where: str, *, dates: bool) -> NDArray[np.object_]:
    """Text of each value, None where missing; a code that came as 1.0, for lack of a null, is "1" again."""
    known = (str, Number, np.generic, *(_DATES if dates else ()))
    labels = np.full(len(series), None, object)
    for row, (value, null) in enumerate(zip(series.to_list(), series.is_null().to_list())):
        if not null and not isinstance(value, known):
            kind, remedy = type(value).__name__, "dates" if isinstance(value, _DATES) else "objects"
            raise DatasetError(f"{where} holds {kind} values (row {row + 1}):", remedy)
        if not null and value == value:
            whole = isinstance(value, float) and value.is_integer()
            labels[row] = str(int(value) if whole else value)
    return labels


# ---------------------------------------------------------------- text that may be numbers


def parse_numbers(fields: Sequence[str], missing: frozenset[str], decimal: str = ".") -> NDArray[np.float64] | None:
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


def class_names(texts: Collection[str], roles: Roles, is_text: bool, decimal: str = ".") -> dict[str, str]:
    """What the labels of the target are called: those that are the same number are one class.

    Parameters
    ----------
    texts : the labels that there are
    roles : Roles, with a target
    is_text : whether the file itself says that they are no numbers; so do `roles` where they name the target discrete
    decimal : "." or ","

    Returns
    -------
    dict of label to class; empty where each label is a class of its own

    Raises
    ------
    RoleError
        If they are numbers that are not whole, like the target of a regression.
    """
    is_code = is_text or roles.target in roles.discrete
    shortest_first = sorted(texts, key=lambda text: (len(text), text))
    found = None if is_code or not texts else parse_numbers(shortest_first, frozenset(), decimal)
    if found is None:
        return {}
    values = found.tolist()
    if not all(value.is_integer() and abs(value) < 2**63 for value in values):
        raise RoleError(
            f"column {quoted(roles.target)} of {roles.table} holds {len({*values})} different numbers, not all whole, "
            "like the target of a regression: a classifier needs classes;",
            "regression",
        )
    name_of = dict(zip(reversed(values), reversed(shortest_first)))
    return {text: name_of[value] for text, value in zip(shortest_first, values)}


def require_classes(classes: Collection[str], roles: Roles) -> None:
    """Refuse a target with fewer than two classes, or with more than a model can have."""
    where = f"column {quoted(roles.target)} of {roles.table}"
    if len(classes) > MAX_LEVELS:
        raise RoleError(
            f"{where} holds {len(classes):,} classes, more than {MAX_LEVELS:,}: name a column of classes, not of "
            "identifiers or measurements."
        )
    if len(classes) < 2:
        found = f"only the class {quoted(next(iter(classes)))}" if classes else "no label"
        raise RoleError(f"{where} holds {found}: a classifier needs two classes or more.")
