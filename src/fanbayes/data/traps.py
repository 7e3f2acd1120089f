"""Traps: tables that can be learnt from, or predicted, and yet may not mean what they are taken for.

Pure functions find them, one for each kind of trap; `warn_of` is the one place where they become warnings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fanbayes.data.schema import Column, Schema
from fanbayes.data.sources import DATES, Level, Source
from fanbayes.data.table import EncodedTable
from fanbayes.data.warning import warn

TrapKind = Literal[
    "few_values",
    "identifier",
    "missing_text",
    "decimal_comma",
    "date",
    "constant",
    "one_class",
    "weights",
    "unseen",
    "absent",
]

# Most different whole numbers that may be codes, and how many rows there are for each at least. On 76 classic sets
# that finds 545 of 557 columns of numeric codes and names 41 of 930 others, most of which (breast-w, lymphography,
# anneal) naive Bayes predicts from much better as categories.
MOST_FEW = 10
_ROWS_PER_VALUE = 10
# Share of the rows that have a category of their own in a column that names them; with few rows that may be chance.
_SHARE_OF_NAMES = 0.75
_LEAST_ROWS = 20
# Weights that are not even a tenth of a case, on average, are shares rather than numbers of cases.
_LEAST_MEAN_WEIGHT = 0.1
# Share of a column's values that may be unseen without a word: rare categories fall into one fold of a
# cross-validation or another, in 3 of the 76 sets more of them than that.
TOLERATED_SHARE = 0.1
# Words that mean "missing" in files; "none" is often a category, as in "pain: none".
_MISSING_TEXTS = frozenset({"", "?", "na", "n/a", "#n/a", "<na>", "nan", "null"})
# Most odd texts in a column that else holds numbers, as a number and as a share, and the least number of numbers.
_MOST_ODD, _ODD_SHARE, _LEAST_NUMBERS = 5, 0.2, 10
_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*")
# Days as 2024-01-31, 31.1.2024 or 1/31/24, with or without a time.
_DATE = re.compile(
    r"\s*(\d{4}([-/.])\d\d?\2\d\d?|\d\d?([-/.])\d\d?\3(\d\d){1,2})([T ]+\d\d?:\d\d\S*( ?[AaPp][Mm])?)?\s*"
)
_MOST_LISTED = 10


class DataWarning(UserWarning):
    """Data may not mean what they were taken for.

    Of all the traps of one kind in a table there is one warning, which lists the columns and ends with a remedy that
    can be pasted. ``warnings.simplefilter("ignore", fanbayes.DataWarning)`` silences them. The `Trap` is ``args[0]``.
    """


@dataclass(frozen=True)
class Trap:
    """One kind of trap, and the columns that have it.

    Attributes
    ----------
    kind : name of the kind
    columns : names of the columns
    message : what was found, and what is made of it
    condition : when the remedy is one, such as "if they are codes"
    remedy : Python, to be pasted; "" if there is nothing to do
    texts : texts that the remedy is about
    """

    kind: TrapKind
    columns: tuple[str, ...]
    message: str
    condition: str = ""
    remedy: str = ""
    texts: tuple[str, ...] = ()

    def __str__(self) -> str:
        return with_remedy(self, self.remedy)


def with_remedy(trap: Trap, remedy: str) -> str:
    """The sentence, with one or another way to say the remedy."""
    return f"{trap.message}; {trap.condition}, use {remedy}" if remedy else trap.message


_WARNED: ContextVar[set[str] | None] = ContextVar("warned", default=None)


def warn_of(traps: Iterable[Trap]) -> None:
    """Issue a warning for each trap, at the line that called the library."""
    warned = _WARNED.get()
    for trap in traps:
        if warned is None or trap.kind not in warned:
            warn(DataWarning(trap))
        if warned is not None:
            warned.add(trap.kind)


@contextmanager
def each_kind_once(warned: set[str]) -> Iterator[None]:
    """Within it, there is no warning of the kinds in the set, and those that are warned of are added to it."""
    token = _WARNED.set(warned)
    try:
        yield
    finally:
        _WARNED.reset(token)


# ---------------------------------------------------------------- in training


def training_traps(
    schema: Schema, sources: Sequence[Source], weights: NDArray[np.float64] | None, declared: Collection[str] = ()
) -> list[Trap]:
    """Traps of a table to learn from: at most one of each kind.

    Parameters
    ----------
    schema : what the columns were taken for
    sources : the raw columns
    weights : (n_rows,) or None
    declared : names of columns that are as their user said: their numbers are numbers, their categories categories
    """
    columns = list(zip(schema.columns, sources))
    guessed = [(c, source) for c, source in columns if c.name not in declared]
    as_text = [_missing_texts(schema, columns, declared), _decimal_commas(guessed), _dates(schema, guessed)]
    numbers = {name for trap in as_text if trap is not None for name in trap.columns}
    found = [
        _few_values(schema, guessed),
        *as_text,
        _identifiers(schema, [(c, source) for c, source in columns if c.name not in numbers]),
        _constant(schema),
        _weights(weights),
    ]
    return [trap for trap in found if trap is not None]


Columns = Sequence[tuple[Column, Source]]


def _few_values(schema: Schema, columns: Columns) -> Trap | None:
    found = {c.name: f"{c.name!r} ({n} values)" for c, source in columns if (n := _n_whole_numbers(c, source))}
    codes = [j for j, c in enumerate(schema.columns) if c.kind == "discrete" or c.name in found]
    remedy = f"categorical_features={codes if schema.frame is None else [schema[j].name for j in codes]}"
    message = "whole numbers of few different values are taken as continuous"
    return _trap("few_values", found, message, "if they are codes", remedy)


def _n_whole_numbers(column: Column, source: Source) -> int:
    """Number of different values of a continuous column, if these are few whole numbers; else 0."""
    if column.kind != "continuous" or not column.is_informative:
        return 0
    if not (column.low.is_integer() and column.high.is_integer()):
        return 0
    values, n_observed = source.numbers(), 0
    seen: set[float] = set()
    for at in [slice(0, 256), *(slice(at, at + 65_536) for at in range(256, len(values), 65_536))]:
        part = values[at]
        known = part[~np.isnan(part)]
        n_observed += len(known)
        seen |= {*np.unique(known).tolist()}
        if len(seen) > MOST_FEW or not all(value.is_integer() for value in seen):
            return 0
    return len(seen) if n_observed >= _ROWS_PER_VALUE * len(seen) else 0


def _identifiers(schema: Schema, columns: Columns) -> Trap | None:
    found: dict[str, str] = {}
    for column, source in columns:
        if column.kind == "discrete" and column.n_levels > _LEAST_ROWS // 2:
            n_observed = int(np.count_nonzero(~source.missing()))
            if n_observed > _LEAST_ROWS and column.n_levels >= _SHARE_OF_NAMES * n_observed:
                n_seen = len(source.distinct())  # of the categories that its type may have declared
                if n_seen >= _SHARE_OF_NAMES * n_observed:
                    found[column.name] = f"{column.name!r} ({n_seen} in {n_observed} rows)"
    message = "most rows have a category of their own, which tells nothing of new rows"
    return _trap("identifier", found, message, "if they are identifiers", _dropped(schema, [*found]))


def _missing_texts(schema: Schema, columns: Columns, declared: Collection[str]) -> Trap | None:
    odd = {c.name: texts for c, source in columns if (texts := _texts_for_missing(c, source, c.name in declared))}
    found = {name: f"{', '.join(f'{text!r:.60}' for text in some)} of {name!r}" for name, some in odd.items()}
    texts = list(dict.fromkeys(text for some in odd.values() for text in some))
    message, remedy = (
        "texts that look like missing values are categories",
        _REPLACE.get(schema.frame, _REPLACE["pandas"]),
    )
    return _trap("missing_text", found, message, "if they mean that nothing is known", remedy(texts), texts)


def _texts_for_missing(column: Column, source: Source, is_declared: bool) -> list[str]:
    """Categories that usually mean "missing"; or that are odd among numbers, unless these were called categories."""
    if column.kind != "discrete" or not column.has_strings:
        return []
    levels = [level for level in column.levels if isinstance(level, str)]
    words = [text for text in levels if text.strip().casefold() in _MISSING_TEXTS]
    odd = [text for text in levels if not _NUMBER.fullmatch(text)]
    if is_declared or words or not odd or len(odd) > _MOST_ODD or len(levels) - len(odd) < _LEAST_NUMBERS:
        return words
    rows = np.bincount(source.codes(column.levels), minlength=column.n_levels + 1)
    n_odd = sum(int(rows[k]) for k, level in enumerate(column.levels) if level in odd)
    return odd if 0 < n_odd <= _ODD_SHARE * rows[:-1].sum() else []


def _decimal_commas(columns: Columns) -> Trap | None:
    found: dict[str, str] = {}
    for column, _ in columns:
        if column.kind == "discrete" and column.has_strings:
            texts = _known_texts(column)
            example = next((text for text in texts if "," in text), None)
            if example is not None and all(_NUMBER.fullmatch(text.replace(",", ".", 1)) for text in texts):
                found[column.name] = f"{column.name!r}, such as {example!r:.60}"
    message = "numbers with a decimal comma are text, and so categories"
    return _trap("decimal_comma", found, message, "to have numbers", "decimal=',' in pandas.read_csv")


def _dates(schema: Schema, columns: Columns) -> Trap | None:
    found: dict[str, str] = {}
    for column, source in columns:
        if column.kind == "discrete" and column.has_strings and source.declared is None:
            texts = _known_texts(column)
            if texts and all(map(_DATE.fullmatch, texts)):
                found[column.name] = f"{column.name!r}, such as {texts[0]!r:.60}"
    condition = f"{DATES}, or, to leave them out"
    return _trap("date", found, "dates are text, and so categories", condition, _dropped(schema, [*found]))


def _known_texts(column: Column) -> list[str]:
    """Categories as text, without those that usually mean "missing"."""
    texts = (str(level) for level in column.levels)
    return [text for text in texts if text.strip().casefold() not in _MISSING_TEXTS]


def _constant(schema: Schema) -> Trap | None:
    found = {name: repr(name) for name in schema.constant}
    if not (schema.indicates or any(column.is_informative for column in schema.columns)):
        names = [column.name for column in schema.columns]
        told = f"{_listed(map(repr, names))} {'has' if len(names) == 1 else 'have'} one value or interval, or none"
        return Trap("constant", (*names,), f"no column tells anything, so each row will get the class shares: {told}")
    message = "columns with fewer than two distinct values tell nothing and are left out"
    return _trap("constant", found, message, "to be rid of them", _dropped(schema, [*found]))


def _weights(weights: NDArray[np.float64] | None) -> Trap | None:
    if weights is None or weights.sum() >= _LEAST_MEAN_WEIGHT * len(weights):
        return None
    return Trap(
        "weights",
        (),
        f"weights are numbers of cases, and those of {len(weights)} rows sum to {weights.sum():.3g}: they count as so "
        "many rows",
        "if they are relative",
        "sample_weight=w * (len(w) / w.sum())",
    )


def one_class_trap(label: object) -> Trap:
    """The trap of rows that are all of one class, or have no label."""
    message = f"y holds only the class {label!r:.60}, which every row will get; a classifier needs two classes or more"
    return Trap("one_class", (), message)


# ---------------------------------------------------------------- in prediction


@dataclass(frozen=True)
class Unseen:
    """Categories of one column that were not seen in training.

    Attributes
    ----------
    column : its name
    n_rows : number of rows that have one of them
    n_observed : number of rows that have any value
    example : one of them
    row : the first row that has one
    """

    column: str
    n_rows: int
    n_observed: int
    example: Level
    row: int

    @property
    def percent(self) -> float:
        """Share of the values, in percent."""
        return 100 * self.n_rows / self.n_observed


def unseen_categories(schema: Schema, sources: Sequence[Source], table: EncodedTable) -> list[Unseen]:
    """Categories of encoded rows that the schema does not know."""
    found = []
    for k in table.has_gaps().tolist():
        j = schema.discrete[k]
        if j >= len(sources) or schema[j].kind != "discrete":  # an indicator, or binned
            continue
        column, source = schema[j], sources[j]
        observed = ~source.missing()
        unknown = observed & (table.codes_of(k) == column.n_levels)
        if unknown.any():
            known = {*column.levels}
            example = next(value for value in source.distinct() if value not in known)
            n_rows, n_observed = int(np.count_nonzero(unknown)), int(np.count_nonzero(observed))
            found.append(Unseen(column.name, n_rows, n_observed, example, int(np.argmax(unknown))))
    return found


def unseen_trap(unseen: Sequence[Unseen], tolerated: float = TOLERATED_SHARE) -> Trap | None:
    """The trap of categories that were not seen, in more than the tolerated share of a column's values."""
    found = {
        u.column: f"{u.column!r} in {u.n_rows} of {u.n_observed} rows ({u.percent:.3g} %), such as {u.example!r:.60}"
        for u in unseen
        if u.n_rows > tolerated * u.n_observed
    }
    message = "categories that were not seen in training count as missing"
    return _trap("unseen", found, message, "to have them refused", "handle_unknown='error'", separator="; ")


def absent_trap(names: Sequence[str]) -> Trap:
    """The trap of columns that rows do not have, where that is allowed."""
    return Trap("absent", (*names,), f"columns that are not there are summed out: {_listed(map(repr, names))}")


# ---------------------------------------------------------------- words


def _trap(
    kind: TrapKind,
    found: Mapping[str, str],
    message: str,
    condition: str,
    remedy: str,
    texts: Sequence[str] = (),
    separator: str = ", ",
) -> Trap | None:
    """The trap of some columns, with what is told of each; None without columns."""
    told = f"{message}: {_listed(found.values(), separator)}"
    return Trap(kind, (*found,), told, condition, remedy, (*texts,)) if found else None


def _listed(texts: Iterable[str], separator: str = ", ") -> str:
    texts = list(texts)
    more = f" and {len(texts) - _MOST_LISTED} more" if len(texts) > _MOST_LISTED else ""
    return separator.join(texts[:_MOST_LISTED]) + more


def _dropped(schema: Schema, names: list[str]) -> str:
    """Python that leaves columns out."""
    if schema.frame is None:
        return f"np.delete(X, {[schema.position(name) for name in names]}, axis=1)"
    how = {"polars": "X.drop({})", "pyarrow": "X.drop_columns({})"}
    return how.get(schema.frame, "X.drop(columns={})").format(names)


_REPLACE: dict[str | None, Callable[[list[str]], str]] = {
    None: lambda texts: f"np.where(np.isin(X, {texts}), None, X)",
    "pandas": lambda texts: f"X.replace({texts}, None)",
    "polars": lambda texts: f"X.with_columns(pl.col(pl.String).replace({texts}, None))",
    "pyarrow": lambda texts: f"X.to_pandas().replace({texts}, None)",
}
