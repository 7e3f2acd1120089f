"""Encoded tables: once encoded, only numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fanbayes import _native
from fanbayes.arrays import Floats
from fanbayes.data.caching import cached_property, fields_only
from fanbayes.data.schema import (
    Column,
    Missing,
    Schema,
    check_content,
    is_wide,
)
from fanbayes.data.sources import NumericColumn, Source, infinite
from fanbayes.data.storage import MEMORY, Storage, pieces, taken
from fanbayes.data.summary import summarise

# Most levels of a code that stands for several columns.
MOST_FUSED_LEVELS = 256

# Most kinds of rows that are told apart to count them.
_MOST_KINDS = 65_536

# Most rows of a table that is copied only to have them in another order.
_MOST_ROWS_TWICE = 1 << 20


@dataclass(frozen=True)
class Layout:
    """How the parameters of a schema's columns lie in flat arrays.

    Discrete column number j (in `Schema.discrete` order) has levels ``first_level[j] .. first_level[j + 1]``
    of one flat axis, the last of which stands for "missing".
    """

    first_level: NDArray[np.int64]  # (n_discrete + 1,)
    n_narrow: int
    distributions: tuple[str, ...]  # of the numbers, those that are alike together
    means: tuple[float, ...] = ()  # of the numbers that are taken as they are, NaN for the others
    n_regressions: int = 0  # pairs of continuous columns, one of which depends on the other

    @property
    def n_numbers(self) -> int:
        """Number of continuous columns."""
        return len(self.distributions)

    @property
    def n_discrete(self) -> int:
        """Number of discrete columns."""
        return len(self.first_level) - 1

    @cached_property
    def n_levels(self) -> NDArray[np.int64]:
        """Levels of each discrete column (n_discrete,), "missing" not counted."""
        return np.diff(self.first_level) - 1

    @cached_property
    def column_of(self) -> NDArray[np.int64]:
        """Discrete column of each level of the flat axis."""
        return np.repeat(np.arange(self.n_discrete), self.n_levels + 1)

    @cached_property
    def missing_level(self) -> NDArray[np.int64]:
        """Position of each column's "missing" on the flat axis (n_discrete,)."""
        return self.first_level[1:] - 1


def layout_of(schema: Schema) -> Layout:
    """Layout of a schema's columns."""
    columns = [schema[j] for j in schema.discrete]
    first = np.concatenate([[0], np.cumsum([c.n_levels + 1 for c in columns])]).astype(np.int64)
    return Layout(
        first,
        sum(not is_wide(c) for c in columns),
        tuple(schema[j].distribution for j in schema.continuous),
        tuple(schema[j].mean for j in schema.continuous),
    )


@dataclass(frozen=True)
class EncodedTable:
    """Rows as codes and standardised numbers.

    Attributes
    ----------
    layout : Layout
    narrow : uint8 (n_rows, n_narrow) and wide : uint16 (n_rows, n_wide)
        Codes of the discrete columns; the last level of a column is "missing".
    numbers : float64 (n_rows, n_numbers)
        Standardised values of the continuous columns, NaN where missing.
    labels : int32 (n_rows,) or None
        Class of each row, -1 where unlabelled; None: no row is labelled.
    weights : float64 (n_rows,) or None
        Case counts; None: all 1.
    group : int (n_codes + 1,) or None
        Where a narrow code stands for several columns (see `fused`), the first column of each; None: one each.
    pairs : float64 (n_rows, n_regressions, 2)
        Standardised response and regressor of each regression, both NaN where one of them is missing.
    storage : Storage
        Where its arrays are, and those that are made of them.
    """

    layout: Layout
    narrow: NDArray[np.uint8]
    wide: NDArray[np.uint16]
    numbers: Floats
    labels: NDArray[np.int32] | None = None
    weights: Floats | None = None
    group: tuple[int, ...] | None = None
    pairs: Floats = field(default_factory=lambda: np.empty((0, 0, 2)))
    storage: Storage = MEMORY

    __getstate__ = fields_only

    def __post_init__(self) -> None:
        if not self.layout.n_regressions:  # none, of as many rows as the table has
            object.__setattr__(self, "pairs", np.empty((self.n_rows, 0, 2)))

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.narrow)

    @property
    def case_weights(self) -> Floats:
        """Weights of the rows (n_rows,), written out."""
        return np.ones(self.n_rows) if self.weights is None else self.weights

    def reweighted(self, rng: np.random.Generator) -> EncodedTable:
        """The same rows, the weight w of each a draw from Gamma(w): so many cases, each of an exponential weight."""
        return replace(self, weights=rng.standard_gamma(self.case_weights))

    def weights_of(self, rows: NDArray[np.intp]) -> Floats:
        """Weights of some rows (n,)."""
        return np.ones(len(rows)) if self.weights is None else self.weights[rows]

    @cached_property
    def total_weight(self) -> float:
        """N: the sum of the weights."""
        return float(self.n_rows if self.weights is None else self.weights.sum())

    @cached_property
    def rows(self) -> _native.Rows:
        """The native core's view of it."""
        first, group = self.layout.first_level.tolist(), self.group or range(self.layout.n_narrow + 1)
        return _native.Rows(self.narrow, self.wide, self.numbers, self.pairs, first, group, self.labels, self.weights)

    def fused(self, n_cases: float | None = None) -> EncodedTable:
        """The same rows, with neighbouring discrete columns of few levels in one code.

        One look-up and one addition then serve several columns. It pays while the levels of a code are few
        beside the rows, and fit into the nearest cache with those of the other codes.

        Parameters
        ----------
        n_cases : of the whole table, where this is a part of one: all parts have the same codes then
        """
        if self.group is not None:
            return self
        n_cases = self.total_weight if n_cases is None else n_cases
        sizes = (self.layout.n_levels[: self.layout.n_narrow] + 1).tolist()
        first, levels = [0], 1
        for j, size in enumerate(sizes):
            if j > first[-1] and levels * size > min(MOST_FUSED_LEVELS, n_cases / 32):
                first.append(j)
                levels = 1
            levels *= size
        group = (*first, len(sizes))
        if len(group) == len(sizes) + 1 or not sizes:
            return self
        codes = self.storage.empty((self.n_rows, len(first)), np.uint8)
        for at in range(0, self.n_rows, 8192):  # in pieces that stay in the cache
            rows, out = self.narrow[at : at + 8192], codes[at : at + 8192]
            for g, (begin, end) in enumerate(pairwise(group)):
                out[:, g] = rows[:, begin]
                for j in range(begin + 1, end):
                    out[:, g] *= np.uint8(sizes[j])
                    out[:, g] += rows[:, j]
        return replace(self, narrow=codes, group=group)

    def codes_of_columns(self, rows: slice | NDArray[np.integer[Any]] = slice(None)) -> NDArray[np.int64]:
        """Codes of the discrete columns, each its own (n_rows, n_discrete), also where some of them are fused."""
        narrow = self.narrow[rows].astype(np.int64)
        if self.group is not None:
            rest, narrow = narrow, np.empty((len(narrow), self.layout.n_narrow), dtype=np.int64)
            for g, (begin, end) in enumerate(pairwise(self.group)):
                for j in reversed(range(begin, end)):
                    rest[:, g], narrow[:, j] = np.divmod(rest[:, g], self.layout.n_levels[j] + 1)
        return np.concatenate([narrow, self.wide[rows]], axis=1, dtype=np.int64)

    def codes_of(self, k: int) -> NDArray[np.uint8] | NDArray[np.uint16]:
        """Codes of discrete column number k (n_rows,), in a table that is not fused."""
        n_narrow = self.layout.n_narrow
        return self.narrow[:, k] if k < n_narrow else self.wide[:, k - n_narrow]

    def has_gaps(self) -> NDArray[np.intp]:
        """Numbers of the discrete columns with a row that has no known level, in a table that is not fused."""
        largest = np.concatenate([block.max(axis=0, initial=0) for block in (self.narrow, self.wide)], dtype=np.int64)
        return np.flatnonzero(largest == self.layout.n_levels)

    def collapsed(self) -> EncodedTable:
        """Equal rows as one row of their weight, if there are many more rows than different ones can be."""
        most = min(self.n_rows // 2, _MOST_KINDS)
        if self.layout.n_numbers or self.layout.n_regressions or math.prod(self.layout.n_levels.tolist()) > most:
            return self
        largest = [0 if self.labels is None else int(self.labels.max()) + 1]
        largest += [*self.narrow.max(axis=0).tolist(), *self.wide.max(axis=0).tolist()]
        sizes = [code + 1 for code in largest]
        n_kinds = math.prod(sizes)
        if n_kinds > most:
            return self
        cases, example = np.zeros(n_kinds), np.zeros(n_kinds, dtype=np.intp)
        for at in self._pieces():
            kind = np.ravel_multi_index(self._codes(at), sizes)
            cases += np.bincount(kind, None if self.weights is None else self.weights[at], n_kinds)
            example[kind] = np.arange(at.start, at.start + len(kind))
        present = np.flatnonzero(cases)
        return replace(self.only(example[present]), weights=cases[present])

    def by_class(self) -> EncodedTable:
        """The same rows, those of a class together, so that its parameters stay in the nearest cache.

        A table that is too large to have twice is left as it is.
        """
        if self.labels is None or self.n_rows > _MOST_ROWS_TWICE:
            return self
        return self.only(np.argsort(self.labels.astype(np.min_scalar_type(-self.labels.max() - 1)), kind="stable"))

    def _codes(self, rows: slice) -> tuple[NDArray[np.integer[Any]], ...]:
        """All that is discrete: class, narrow and wide codes."""
        return (self._group(rows), *self.narrow[rows].T, *self.wide[rows].T)

    def lacks_numbers(self) -> bool:
        """Whether a number is missing."""
        return any(np.isnan(self.numbers[at]).any() for at in self._pieces())

    def labelled_only(self) -> EncodedTable:
        """Rows that have a label."""
        return self if self.labels is None or self.is_labelled else self.only(self.labels >= 0)

    @cached_property
    def is_labelled(self) -> bool:
        """Whether every row has a label."""
        return self.labels is not None and int(self.labels.min(initial=0)) >= 0

    def subsample(self, n_cases: int) -> EncodedTable:
        """About `n_cases` cases that stand for all, chosen by what they contain; or all, if they are not many more.

        Each class gets its share of the cases and, if it is rare, as many as an equal share. A row stays if its
        `fingerprint` is below that share, and is weighted by its inverse. So the choice does not depend on the
        order of the rows, and equal rows or rows of larger weight stay or go together.
        """
        if self.total_weight <= 2 * n_cases:
            return self
        few = self.some_of_each(class_shares(self.class_cases(), n_cases))
        return few if stand_for_all(few.fingerprint, n_cases) else self

    def class_cases(self, n_classes: int | None = None) -> Floats:
        """Cases without a label, then those of each class (n_classes + 1,), by default up to the last in the rows."""
        if n_classes is None:
            n_classes = 0 if self.labels is None else int(self.labels.max(initial=-1)) + 1
        cases = np.zeros(n_classes + 1)
        for at in self._pieces():
            weight = None if self.weights is None else self.weights[at]
            cases += np.bincount(self._group(at), weights=weight, minlength=len(cases))
        return cases

    def some_of_each(self, share: Floats) -> EncodedTable:
        """A share of the rows without a label and of those of each class (n_classes + 1,), weighted by its inverse."""
        keep = np.empty(self.n_rows, dtype=bool)
        for at in self._pieces():
            keep[at] = self.fingerprint[at] < 2.0**32 * share[self._group(at)]
        few = self.only(keep)
        each = 1.0 if few.weights is None else few.weights
        return replace(few, weights=each / share[few._group(slice(None))])

    @cached_property
    def fingerprint(self) -> NDArray[np.uint32]:
        """A number below 2^32 for each row (n_rows,), a function of the row's content alone."""
        out = self.storage.empty((self.n_rows,), np.uint32)
        for at in self._pieces():
            rng = np.random.default_rng(0)
            mixed = np.zeros(len(out[at]), dtype=np.uint64)
            for block in (self.narrow, self.wide, self.numbers, self.pairs[:, :, 0], self.pairs[:, :, 1]):
                for values in block[at].T:
                    if values.dtype == np.float64:  # rounded: their last bits do depend on the order of the rows
                        whole = np.where(np.isnan(values), -1e18, np.clip(values, -1e9, 1e9) * 1e6).round()
                        values = whole.astype(np.int64).view(np.uint64)
                    mixed += values
                    mixed *= rng.integers(2**63, dtype=np.uint64) | np.uint64(1)
                    mixed ^= mixed >> np.uint64(29)
            out[at] = mixed >> np.uint64(32)
        return out

    def _pieces(self) -> Iterator[slice]:
        return pieces(self.n_rows)

    def _group(self, rows: slice) -> NDArray[np.intp]:
        """0 for unlabelled rows, class + 1 for the others."""
        n = len(self.narrow[rows])
        return np.zeros(n, dtype=np.intp) if self.labels is None else self.labels[rows].astype(np.intp) + 1

    def piece(self, rows: slice) -> EncodedTable:
        """Some neighbouring rows, not copied."""
        return replace(
            self,
            narrow=self.narrow[rows],
            wide=self.wide[rows],
            numbers=self.numbers[rows],
            pairs=self.pairs[rows],
            labels=None if self.labels is None else self.labels[rows],
            weights=None if self.weights is None else self.weights[rows],
            storage=MEMORY,
        )

    def only(self, keep: NDArray[np.bool_] | NDArray[np.intp]) -> EncodedTable:
        """Some of the rows, by a mask or in the order given."""
        rows = partial(taken, keep=keep, storage=self.storage)
        return replace(
            self,
            narrow=rows(self.narrow),
            wide=rows(self.wide),
            numbers=rows(self.numbers),
            pairs=rows(self.pairs),
            labels=None if self.labels is None else rows(self.labels),
            weights=None if self.weights is None else rows(self.weights),
        )


def empty_table(
    layout: Layout, n_rows: int, storage: Storage, *, labelled: bool = True, weighted: bool = False
) -> EncodedTable:
    """A table whose rows are yet to be written (`put`)."""
    return EncodedTable(
        layout,
        storage.empty((n_rows, layout.n_narrow), np.uint8),
        storage.empty((n_rows, layout.n_discrete - layout.n_narrow), np.uint16),
        storage.empty((n_rows, layout.n_numbers), np.float64),
        storage.empty((n_rows,), np.int32) if labelled else None,
        storage.empty((n_rows,), np.float64) if weighted else None,
        pairs=storage.empty((n_rows, layout.n_regressions, 2), np.float64),
        storage=storage,
    )


def put(table: EncodedTable, at: int, rows: EncodedTable) -> None:
    """Write rows into a table, the first of them as its row number `at`."""
    places = slice(at, at + rows.n_rows)
    for name in ("narrow", "wide", "numbers", "pairs"):
        getattr(table, name)[places] = getattr(rows, name)
    if table.labels is not None:
        table.labels[places] = -1 if rows.labels is None else rows.labels
    if table.weights is not None:
        table.weights[places] = 1.0 if rows.weights is None else rows.weights


def rewritten(table: EncodedTable, layout: Layout, write: Callable[[EncodedTable], EncodedTable]) -> EncodedTable:
    """The rows in another layout: as a whole in memory, elsewhere in pieces."""
    if table.storage is MEMORY:
        return write(table)
    found = empty_table(layout, table.n_rows, table.storage, labelled=False)
    for piece in pieces(table.n_rows):
        put(found, piece.start, write(table.piece(piece)))
    return replace(found, labels=table.labels, weights=table.weights)


def bytes_of(layout: Layout, n_rows: int) -> int:
    """How much a table takes, without weights."""
    n_wide = layout.n_discrete - layout.n_narrow
    return n_rows * (layout.n_narrow + 2 * n_wide + 8 * layout.n_numbers + 16 * layout.n_regressions + 4)


def class_shares(cases: Floats, n_cases: int) -> Floats:
    """Share of the cases without a label and of each class (n_groups,) that are about `n_cases` in all."""
    wanted = np.maximum(n_cases * cases / cases.sum(), n_cases / np.count_nonzero(cases))
    return np.asarray(np.minimum(1.0, np.divide(wanted, cases, out=np.ones_like(cases), where=cases > 0)))


def stand_for_all(fingerprints: NDArray[np.uint32], n_cases: int) -> bool:
    """Whether there are enough different rows among some that were chosen for them to stand for the others."""
    return len(np.unique(fingerprints)) >= n_cases / 4


def joined(tables: Sequence[EncodedTable]) -> EncodedTable:
    """Rows of tables with one layout, in their order."""
    first = tables[0]
    if len(tables) == 1:
        return first

    def rows(name: str) -> NDArray[Any]:
        return np.concatenate([getattr(table, name) for table in tables])

    labels = None if any(table.labels is None for table in tables) else rows("labels")
    weights = None if all(table.weights is None for table in tables) else rows("case_weights")
    narrow, wide, numbers, pairs = map(rows, ("narrow", "wide", "numbers", "pairs"))
    return replace(first, narrow=narrow, wide=wide, numbers=numbers, pairs=pairs, labels=labels, weights=weights)


def learn_table(
    sources: Sequence[Source],
    is_category: Sequence[bool],
    frame: str | None,
    labels: NDArray[np.int32],
    weights: Floats | None,
    discretize: Literal["none", "mdlp"] = "none",
    distributions: Mapping[int, str] | None = None,
    missing: Missing = "ignorable",
) -> tuple[Schema, EncodedTable]:
    """Learn what the columns are and encode them.

    Parameters
    ----------
    sources : the raw columns
    is_category : whether each is taken as categories
    frame : name of the frame library, None for an array
    labels : int32 (n_rows,), -1 where unlabelled
    weights : float64 (n_rows,) or None, all positive
    discretize : "mdlp": continuous columns are binned by class entropy
    distributions : of continuous columns, by position, that are taken as they are, neither standardised nor binned
    missing : "informative": columns with some but not all values missing have an indicator

    Returns
    -------
    schema : Schema
    table : EncodedTable
    """
    summary = summarise(sources, is_category, labels, weights, counts=discretize == "mdlp", missing=missing)
    schema = summary.schema(frame, discretize, distributions, missing)
    table = encode_table(schema, sources, len(labels))
    return schema, replace(table, labels=labels, weights=weights)


def encode_table(schema: Schema, sources: Sequence[Source], n_rows: int, absent: Collection[str] = ()) -> EncodedTable:
    """Encode rows by a schema that is already known.

    A category that the schema does not know counts as missing; for an indicator, it is there. Of columns that the rows
    do not have at all, `absent` by name, the indicators are missing as well. Nothing but the table itself is
    as long as the rows, save one column of codes at a time for columns that are not looked up natively, and what
    indicators say.
    """
    for column, source in zip(schema.columns, sources):
        check_content(column, source)
    sources = [*sources, *(_indicator(sources[j], n_rows, sources[j].name in absent) for j in schema.indicates)]
    layout = layout_of(schema)
    narrow = np.empty((n_rows, layout.n_narrow), dtype=np.uint8)
    wide = np.empty((n_rows, layout.n_discrete - layout.n_narrow), dtype=np.uint16)
    numbers = np.empty((n_rows, layout.n_numbers))
    for first, block in ((0, narrow), (layout.n_narrow, wide)):
        places = schema.discrete[first : first + block.shape[1]]
        _encode_discrete([(schema[j], sources[j]) for j in places], block)
    _standardise([(schema[j], sources[j]) for j in schema.continuous], numbers)
    return EncodedTable(layout, narrow, wide, numbers)


def _indicator(source: Source, n_rows: int, is_absent: bool) -> Source:
    """Whether each value of a column is missing; nothing is known of it where the rows have no such column."""
    return NumericColumn(source.name, np.full(n_rows, np.nan) if is_absent else source.missing(), "Boolean")


Pairs = Sequence[tuple[Column, Source]]


def _encode_discrete(pairs: Pairs, block: NDArray[np.uint8] | NDArray[np.uint16]) -> None:
    """Fill a block with the codes of its columns."""
    together = []  # integers: looked up natively, all columns in one pass
    for place, (column, source) in enumerate(pairs):
        if isinstance(source, NumericColumn) and column.lookup is not None:
            together.append((place, source.native, *column.lookup))
        elif column.kind == "binned":
            block[:, place] = binned_codes(_finite(source), column)
        else:
            block[:, place] = source.codes(column.levels)
    if together:
        at, values, keys, codes = zip(*together)
        _native.RawColumns(list(values)).look_up(keys, codes, at, block)


def _standardise(pairs: Pairs, block: Floats) -> None:
    """Fill a block with the standardised values of its columns."""
    if not pairs:
        return
    raw = _native.RawColumns([s.native if isinstance(s, NumericColumn) else s.numbers() for _, s in pairs])
    columns = [c for c, _ in pairs]
    exponents, centres, scales = zip(*((c.exponent, c.centre, c.scale) for c in columns))
    has_infinity = raw.standardise(exponents, centres, scales, range(len(columns)), block)
    for column, bad in zip(columns, has_infinity):
        if bad:
            raise ValueError(infinite(column.name))


def binned_codes(x: Floats, column: Column) -> NDArray[np.intp]:
    """Interval of each value: the k-th holds ``cuts[k - 1] < x <= cuts[k]``; missing comes last."""
    codes = np.searchsorted(np.asarray(column.cuts, dtype=np.float64), x, side="left")
    codes[np.isnan(x)] = column.n_levels
    return codes


def _finite(source: Source) -> Floats:
    x = source.numbers()
    if np.isinf(x).any():
        raise ValueError(infinite(source.name))
    return x
