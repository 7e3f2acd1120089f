"""What one pass over rows tells of the columns, as values that add up: a schema is learnt from their sum.

A table in memory is one such part; of a table that is read in batches, or lies in partitions, each of them is one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fanbayes import _native
from fanbayes.arrays import Floats
from fanbayes.data.class_counts import ClassCounts
from fanbayes.data.schema import MAX_LEVELS, Column, Missing, Schema
from fanbayes.data.sources import Level, NumericColumn, Source, ValueKind, infinite, kind_of, not_unicode

# Integers of a range that is not much longer than the rows are counted through rather than sorted.
_COUNTED_PER_ROW = 4


class Moments(NamedTuple):
    """Observed numbers: their range, and weight, mean and squared deviations of ``x * 2**-exponent``."""

    low: float
    high: float
    exponent: int
    weight: float
    mean: float
    squares: float

    def scaled(self, exponent: int) -> tuple[float, float, float]:
        """Weight, mean and squared deviations of ``x * 2**-exponent``."""
        less = self.exponent - exponent
        return self.weight, math.ldexp(self.mean, less), math.ldexp(self.squares, 2 * less)

    def merged(self, other: Moments) -> Moments:
        """Of both (Chan, Golub & LeVeque 1983)."""
        exponent = max(self.exponent, other.exponent)
        (n, mean, squares), (m, other_mean, other_squares) = self.scaled(exponent), other.scaled(exponent)
        gap = other_mean - mean
        return Moments(
            min(self.low, other.low),
            max(self.high, other.high),
            exponent,
            n + m,
            mean + gap * (m / (n + m)),
            squares + other_squares + gap * gap * (n * (m / (n + m))),
        )


@dataclass(frozen=True)
class ColumnSummary:
    """What some rows tell of a column.

    Attributes
    ----------
    name : str
    dtype : name of its type
    where : which rows, the first of those that have values
    is_category : whether it is taken as categories
    kinds : what its values are; of a column without any, nothing
    n_missing : rows without a value; None where nobody counted them
    levels : categories seen, sorted
    declared : categories of its type, in their order, or None
    moments : of observed numbers that are no categories, or None
    counts : of the same, for cuts; or None
    """

    name: str
    dtype: str
    where: str
    is_category: bool
    kinds: frozenset[ValueKind]
    n_missing: int | None = None
    levels: tuple[Level, ...] = ()
    declared: tuple[Level, ...] | None = None
    moments: Moments | None = None
    counts: ClassCounts | None = None

    def __add__(self, other: ColumnSummary) -> ColumnSummary:
        if self.kinds and other.kinds and (self.is_category != other.is_category or not self.kinds & other.kinds):
            raise ValueError(
                f"column {self.name!r} holds {_words(self)} in {self.where} and {_words(other)} in {other.where}; give "
                "it the same type everywhere"
            )
        known = self if self.kinds or not other.kinds else other
        levels, declared = _categories(self, other)
        found = replace(
            known,
            dtype=_dtype([part.dtype for part in (self, other) if part.kinds] or [self.dtype]),
            kinds=self.kinds | other.kinds,
            n_missing=None if self.n_missing is None or other.n_missing is None else self.n_missing + other.n_missing,
            levels=levels,
            declared=declared,
            moments=_sum_of(self.moments, other.moments, Moments.merged),
            counts=_sum_of(self.counts, other.counts, ClassCounts.__add__),
        )
        _refuse_too_many(found.name, found.levels)
        return found

    def column(self) -> Column:
        """What is made of it: levels of its own, or a number."""
        if self.is_category:
            levels = self.levels if self.declared is None else self.declared
            _refuse_too_many(self.name, levels)
            _refuse_half_characters(self.name, levels)
            return Column(self.name, "discrete", self.dtype, levels=levels)
        column, m = Column(self.name, "continuous", self.dtype), self.moments
        if m is None:
            return column
        if m.low == m.high:
            return replace(column, low=m.low, high=m.high, centre=m.low)
        scale = math.sqrt(m.squares / m.weight)
        return replace(column, low=m.low, high=m.high, exponent=m.exponent, centre=m.mean, scale=scale)


@dataclass(frozen=True)
class TableSummary:
    """What some rows tell of the columns and of the classes.

    Attributes
    ----------
    columns : tuple of ColumnSummary
    n_rows : int
    weight : float
        Sum of the weights.
    classes : (n_classes,), sorted
    n_unlabelled : rows without a label
    where : which rows, the first of them, for messages
    """

    columns: tuple[ColumnSummary, ...]
    n_rows: int
    weight: float
    classes: NDArray[Any]
    n_unlabelled: int
    where: str = "the table"

    def __add__(self, other: TableSummary) -> TableSummary:
        """Of both parts; refused where their columns differ."""
        mine, others = [c.name for c in self.columns], [c.name for c in other.columns]
        if mine != others:
            raise ValueError(_difference(mine, others, self.where, other.where))
        if not other.n_rows:
            return self
        if not self.n_rows:
            return other
        classes = merged_classes(self.classes, other.classes)
        parts = (part._with_classes(classes).columns for part in (self, other))
        return TableSummary(
            tuple(one + two for one, two in zip(*parts)),
            self.n_rows + other.n_rows,
            self.weight + other.weight,
            classes,
            self.n_unlabelled + other.n_unlabelled,
            self.where,
        )

    def _with_classes(self, classes: NDArray[Any]) -> TableSummary:
        """Class counts in terms of more classes."""
        if len(classes) == len(self.classes):
            return self
        place = np.searchsorted(classes, self.classes)
        columns = (c if c.counts is None else replace(c, counts=c.counts.relabelled(place)) for c in self.columns)
        return replace(self, columns=tuple(columns), classes=classes)

    def compact(self) -> TableSummary:
        """The same, without anything as long as the rows, to be kept or sent; a sum is so already."""
        columns = (c if c.counts is None else replace(c, counts=c.counts.compact()) for c in self.columns)
        return replace(self, columns=tuple(columns))

    def schema(
        self,
        frame: str | None,
        discretize: Literal["none", "mdlp"] = "none",
        distributions: Mapping[int, str] | None = None,
        missing: Missing = "ignorable",
    ) -> Schema:
        """What the columns are.

        Parameters
        ----------
        frame : name of the frame library, None for an array
        discretize : "mdlp": continuous columns are binned by class entropy
        distributions : of continuous columns, by position, that are taken as they are, neither standardised nor binned
        missing : "informative": columns with some but not all values missing have an indicator
        """
        columns = [c.column() for c in self.columns]
        for j, (column, known) in enumerate(zip(columns, self.columns)):
            if column.kind != "continuous":
                continue
            if distributions and j in distributions:
                columns[j] = _as_it_is(column, distributions[j])
            elif discretize == "mdlp" and known.moments is not None:
                assert known.counts is not None
                cuts = known.counts.cut_points(len(self.classes))
                columns[j] = replace(column, kind="binned", cuts=tuple(cuts.tolist()))
        indicates: tuple[int, ...] = ()
        if missing == "informative":
            indicates = tuple(j for j, c in enumerate(self.columns) if 0 < (c.n_missing or 0) < self.n_rows)
        return Schema(tuple(columns), frame, indicates)


def summarise(
    sources: Sequence[Source],
    is_category: Sequence[bool],
    labels: NDArray[np.int32],
    weights: Floats | None,
    classes: NDArray[Any] | None = None,
    *,
    counts: bool = False,
    missing: Missing = "ignorable",
    where: str = "the table",
) -> TableSummary:
    """What rows tell of the columns.

    Parameters
    ----------
    sources : the raw columns
    is_category : whether each is taken as categories
    labels : int32 (n_rows,), -1 where unlabelled
    weights : float64 (n_rows,) or None, all positive
    classes : (n_classes,), sorted, that the labels are numbers of; None: 0, 1, ...
    counts : whether cases are counted by value and class, for cuts (`ClassCounts`)
    missing : "informative": missing values are counted in every column
    where : which rows, for messages
    """
    for source, category in zip(sources, is_category):
        if source.symbolic and not category:
            raise ValueError(
                f"column {source.name!r} holds {source.dtype} values but is said to be numeric; add it to "
                "categorical_features or convert it to numbers"
            )
    if classes is None:
        classes = np.arange(int(labels.max(initial=-1)) + 1)
    numeric = [j for j, s in enumerate(sources) if isinstance(s, NumericColumn)]
    of_numbers = [s for s in sources if isinstance(s, NumericColumn)]
    found = dict(zip(numeric, _numeric(of_numbers, [is_category[j] for j in numeric], weights, where)))
    for j, source in enumerate(sources):
        if j not in found:
            found[j] = _symbolic(source, where, missing == "informative")
        elif counts and found[j].moments is not None:
            found[j] = replace(found[j], counts=ClassCounts(source.numbers(), labels, weights))
    return TableSummary(
        tuple(found[j] for j in range(len(sources))),
        len(labels),
        float(len(labels) if weights is None else weights.sum()),
        classes,
        int(np.count_nonzero(labels < 0)),
        where,
    )


def merged_classes(one: NDArray[Any], other: NDArray[Any]) -> NDArray[Any]:
    """Classes of either, sorted; refused where some are texts and others numbers."""
    if len(one) == 0 or len(other) == 0:
        return other if len(one) == 0 else one
    if isinstance(one[0], str) != isinstance(other[0], str):
        raise ValueError("y mixes labels of different types, such as strings and numbers; make them all of one type")
    return np.unique(np.concatenate([one, other]))


def _numeric(
    sources: Sequence[NumericColumn], is_category: Sequence[bool], weight: Floats | None, where: str
) -> list[ColumnSummary]:
    """Columns of numbers, taken as categories or as continuous."""
    columns: list[ColumnSummary] = []
    counted = []  # positions of integers of a modest range, taken as categories: their levels are counted through
    lows, spans = [], []
    for source, category, found in zip(sources, is_category, _raw(sources).summarise(weight)):
        n_missing, has_infinity, is_integral, low, high, exponent, *moments = found
        if has_infinity:
            raise ValueError(infinite(source.name))
        kinds: set[ValueKind] = set()
        if n_missing < len(source.values):
            kinds = {"booleans" if source.symbolic else "numbers"}
        column = ColumnSummary(source.name, source.dtype, where, category, frozenset(kinds), n_missing)
        if category and is_integral and 0 <= high - low < _COUNTED_PER_ROW * len(source.values):
            counted.append(len(columns))
            lows.append(int(low))
            spans.append(int(high - low) + 1)
        elif category:
            column = replace(column, levels=tuple(source.distinct()))
        elif kinds:
            column = replace(column, moments=Moments(low, high, exponent, *moments))
        columns.append(column)
    for k, levels in zip(counted, _raw([sources[k] for k in counted]).distinct(lows, spans)):
        boolean = sources[k].symbolic
        columns[k] = replace(columns[k], levels=tuple(bool(v) if boolean else v for v in levels))
    return columns


def _raw(sources: Sequence[NumericColumn]) -> _native.RawColumns:
    return _native.RawColumns([s.native for s in sources])


def _symbolic(source: Source, where: str, count_missing: bool) -> ColumnSummary:
    """A column of symbols: the categories that its type declares, else those seen."""
    declared = None if source.declared is None else tuple(source.declared)
    levels = tuple(source.distinct()) if declared is None else ()
    if declared is None:
        kinds = {kind_of(level) for level in levels}
    else:
        kinds = set() if source.content == "nothing" else {kind_of(level) for level in declared}
    n_missing = int(np.count_nonzero(source.missing())) if count_missing else None
    return ColumnSummary(source.name, source.dtype, where, True, frozenset(kinds), n_missing, levels, declared)


def _as_it_is(column: Column, distribution: str) -> Column:
    """A column of numbers that is not standardised."""
    column = replace(column, distribution=distribution)
    if not column.is_informative:
        return column
    return replace(column, exponent=0, centre=0.0, scale=1.0, mean=math.ldexp(column.centre, column.exponent))


# ---------------------------------------------------------------- sums


def _sum_of(one: Any, other: Any, add: Any) -> Any:
    if one is None or other is None:
        return other if one is None else one
    return add(one, other)


def _merged(one: tuple[Level, ...], other: tuple[Level, ...]) -> tuple[Level, ...]:
    """Levels of either, sorted as those of one table are; whole numbers beside others as float."""
    if one == other or not other:
        return one
    levels = {*one, *other}
    if any(type(level) is float for level in levels):
        levels = {float(level) if type(level) is int else level for level in levels}
    return tuple(sorted(levels, key=lambda level: (str(type(level)), level)))


def _categories(one: ColumnSummary, other: ColumnSummary) -> tuple[tuple[Level, ...], tuple[Level, ...] | None]:
    """Levels seen, and those that both types declare: in their order, or sorted where they differ.

    Where one type declares categories and the other's values were looked through, they are as if seen.
    """
    if one.declared is not None and other.declared is not None:
        return (), one.declared if one.declared == other.declared else _merged(one.declared, other.declared)
    if not (one.kinds and other.kinds):  # one of them knows nothing
        known = one if one.kinds or not other.kinds else other
        return known.levels, known.declared
    levels = (c.levels if c.declared is None else c.declared for c in (one, other))
    return _merged(*levels), None


def _dtype(found: Sequence[str]) -> str:
    """Name of the type of all: that of the first, unless others of them hold more than integers."""
    wider = [dtype for dtype in found if not dtype.lower().startswith(("int", "uint"))]
    return wider[0] if wider else found[0]


def _words(column: ColumnSummary) -> str:
    """What a column holds."""
    kinds = " and ".join(sorted(column.kinds))
    return kinds if column.is_category == (column.kinds != {"numbers"}) else f"{kinds}, taken as categories,"


def _difference(mine: Sequence[str], others: Sequence[str], here: str, there: str) -> str:
    """What to say of parts of a table that do not have the same columns."""
    for names, has, where, other in ((mine, {*others}, there, here), (others, {*mine}, here, there)):
        lost = [name for name in names if name not in has]
        if lost:
            return f"{where} has no column {lost[0]!r}, which {other} has; give all parts of a table the same columns"
    return f"{there} has the columns of {here} in another order; give all parts of a table the same order"


def _refuse_too_many(name: str, levels: Sequence[Level]) -> None:
    if len(levels) > MAX_LEVELS:
        raise ValueError(
            f"column {name!r} has {len(levels)} categories, more than {MAX_LEVELS}; drop it if it is an "
            "identifier, or merge its rare categories"
        )


def _refuse_half_characters(name: str, levels: Sequence[Level]) -> None:
    try:
        "".join(level for level in levels if isinstance(level, str)).encode()
    except UnicodeEncodeError:
        raise ValueError(not_unicode(name)) from None
