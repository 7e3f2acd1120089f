"""Columns of text files: numbers as long as every field is one, else categories; all at once, or in batches."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, count, groupby, islice
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from fanbayes.data.batches import Batch, checked
from fanbayes.files.columns import Column, Roles, class_names, frame_of, near, parse_numbers, require_classes
from fanbayes.files.text import DatasetError, Header, Kind, Reader, RoleError, quoted

MISSING = ("", "?")
_BLOCK = 1 << 9  # rows; more no longer fit the processor cache, and take twice the time

Report = Callable[[str, int], None]


class Block(NamedTuple):
    """Some records of a file: the numbers of their lines, and the fields of each column."""

    table: str
    lines: Sequence[int]
    columns: Sequence[Sequence[str]]


@dataclass(frozen=True)
class TextFiles:
    """Files of text that are one table: all have the same columns, in any order.

    Attributes
    ----------
    readers : name of each file, and what reads it
    missing : fields that mean a missing value
    decimal : "." or ","
    """

    readers: Mapping[str, Reader]
    missing: frozenset[str] = frozenset(MISSING)
    decimal: str = "."

    def __post_init__(self) -> None:
        if self.decimal not in (".", ","):
            raise DatasetError(f"decimal={quoted(self.decimal)} is neither '.' nor ','.")

    @cached_property
    def headers(self) -> list[Header]:
        """Columns of the first file."""
        return next(iter(self.readers.values()))()[0]

    def blocks(self) -> Iterator[Block]:
        """All records, some at a time, the columns in the order of the first file."""
        for table, read in self.readers.items():
            headers, records = read()
            order = self._order(table, headers)
            while some := list(islice(records, _BLOCK)):
                for line, row in some:
                    if len(row) != len(headers):
                        raise DatasetError(
                            f"{table}, line {line} has {len(row)} fields instead of {len(headers)}: "
                            "complete it, or put quotes around a field that holds the separator."
                        )
                lines, rows = zip(*some)
                columns = list(zip(*rows))
                yield Block(table, lines, columns if order is None else [columns[k] for k in order])

    def _order(self, table: str, headers: list[Header]) -> list[int] | None:
        """Where a file has the columns of the first one; None where both have the same."""
        if headers == self.headers:
            return None
        first = next(iter(self.readers))
        if table == first:
            raise changed(table)
        mine, others = [header.name for header in headers], [header.name for header in self.headers]
        for name in others:
            if mine.count(name) != others.count(name):
                raise DatasetError(
                    f"{table} has {mine.count(name) or 'no'} column{'s' if mine.count(name) > 1 else ''} "
                    f"{quoted(name)}, unlike {first}: files of one table have the same columns."
                )
        if len(mine) > len(others):
            extra = next(name for name in mine if name not in others)
            raise DatasetError(
                f"{table} has a column {quoted(extra)}, unlike {first}: files of one table have the same columns."
            )
        place = {header.name: k for k, header in enumerate(headers)}
        for header in self.headers:
            if headers[place[header.name]] != header:
                raise DatasetError(f"{table} declares {quoted(header.name)} otherwise than {first}.")
        return [place[name] for name in others]

    def growing(self, roles: Roles) -> list[GrowingColumn | None]:
        """A column for each header, to be filled; None where it is left out."""
        several = len(self.readers) > 1
        return [
            None if header.name in roles.ignore else GrowingColumn(header, roles.kind(header.name), self, several)
            for header in self.headers
        ]


def changed(table: str) -> DatasetError:
    """What to say of a file that is not the same any more."""
    return DatasetError(f"{table} changed while it was read: read it again.")


class GrowingColumn:
    """A column while it is being read: numbers as long as every field is one, else codes of its texts."""

    def __init__(self, header: Header, declared: Kind | None, files: TextFiles, several: bool) -> None:
        self.name, self.levels = header.name, header.levels
        self.kind = declared or header.kind
        self.is_text = header.kind == "discrete"
        self.reason = "declared" if declared else "declared in the file"
        self.missing, self.decimal, self.several = files.missing, files.decimal, several
        self.late = False
        self.blocks: list[NDArray[Any]] = []
        self.codes: defaultdict[str, int] = defaultdict(count().__next__)
        self.codes.update(dict.fromkeys(self.missing, -1))
        self.codes.update({level: code for code, level in enumerate(self.levels)})
        self.known = frozenset(self.codes)

    def add(self, block: Block, fields: Sequence[str]) -> None:
        """Append fields, or note that the earlier ones should not have become numbers."""
        if self.late:
            return
        numbers = self.numbers(block, fields)
        if numbers is not None:
            self.blocks.append(numbers)
        elif not self.late:
            self.blocks.append(np.fromiter(map(self.codes.__getitem__, fields), np.int32, len(fields)))
        if self.levels and len(self.codes) > len(self.known):
            line, text = next((line, text) for line, text in zip(block.lines, fields) if text not in self.known)
            where = f"{block.table}, line {line}: {quoted(text)}"
            raise DatasetError(f"{where} is not a declared level of {quoted(self.name)}; {near(text, self.levels)}")

    def numbers(self, block: Block, fields: Sequence[str]) -> NDArray[np.float64] | None:
        """Fields as numbers; None of text, which the column is from then on."""
        if self.kind == "discrete":
            return None
        numbers = parse_numbers(fields, self.missing, self.decimal)
        if numbers is None:
            self._become_text(block, fields)
        return numbers

    def _become_text(self, block: Block, fields: Sequence[str]) -> None:
        odd = [
            (line, text)
            for line, text in zip(block.lines, fields)
            if parse_numbers([text], self.missing, self.decimal) is None
        ]
        line, text = odd[0]
        if self.kind == "continuous":
            raise (RoleError if self.reason == "declared" else DatasetError)(
                f"{block.table}, line {line}: {quoted(text)} in the continuous column {quoted(self.name)} is not a "
                "finite number:",
                "not_finite",
            )
        among_numbers = self.blocks or len(odd) < len(fields)  # else it is a word among words
        if all(_is_infinite(text) for _, text in odd) and among_numbers:
            raise DatasetError(
                f"{block.table}, line {line}: {quoted(text)} among the numbers of {quoted(self.name)} is infinite:",
                "not_finite",
            )
        where = f"line {line} of {block.table}" if self.several else f"line {line}"
        self.kind, self.reason = "discrete", f"{quoted(text)} on {where} is not a number"
        self.late = bool(self.blocks)
        self.blocks.clear()

    def finish(self) -> Column:
        """Join the blocks; a kind still undecided means that nothing but numbers was seen."""
        values = np.concatenate(self.blocks) if self.blocks else np.empty(0, np.int32)
        if self.kind == "discrete":
            # Codes were given in the order of the dictionary; -1, a missing value, picks the last entry.
            texts = [text for text, code in sorted(self.codes.items(), key=itemgetter(1)) if code >= 0]
            labels = np.array([*texts, None], object)[values]
            return Column("discrete", self.reason, labels, self.levels, self.is_text)
        if self.kind is None:
            self.reason = "no value at all" if np.isnan(values).all() else "every value is a number"
        return Column("continuous", self.reason, values)


def _is_infinite(text: str) -> bool:
    """Whether a text stands for a number beyond all that a float holds, as inf and 1e999 do."""
    try:
        return math.isinf(float(text))
    except ValueError:
        return False


def text_columns(files: TextFiles, roles: Roles) -> dict[str, Column]:
    """Read the wanted columns of text files.

    Most columns show their kind in the first block. Those that turn out to be text only later, when their
    first fields are already numbers, are read a second time.
    """
    roles.check([header.name for header in files.headers])
    columns = files.growing(roles)
    _fill(columns, files.blocks())
    late = [column if column and column.late else None for column in columns]
    for column in filter(None, late):
        column.late = False
    if any(late):
        _fill(late, files.blocks())
        if len({sum(map(len, column.blocks)) for column in columns if column}) > 1:
            raise changed(roles.table)
    return {column.name: column.finish() for column in columns if column}


def _fill(columns: Sequence[GrowingColumn | None], blocks: Iterator[Block]) -> None:
    """Give the fields of the records to their columns."""
    for block in blocks:
        for column, fields in zip(columns, block.columns):
            if column:
                column.add(block, fields)


# ---------------------------------------------------------------- in batches


@dataclass(frozen=True)
class TextBatches:
    """Text files in batches, of which each column is known to be discrete or continuous.

    Attributes
    ----------
    files : TextFiles
    roles : Roles, in which each column that is not left out has a kind
    columns : names of those that are read
    rows_at_once : int
        About how many rows a batch has at most.
    classes : what labels of the target are called where they are numbers
    """

    files: TextFiles
    roles: Roles
    columns: list[str]
    rows_at_once: int
    classes: Mapping[str, str]
    frame: str | None
    n_rows: int | None = None

    def __iter__(self) -> Iterator[Batch]:
        left_out = [header.name for header in self.files.headers if header.name not in self.columns]
        roles = replace(self.roles, ignore={*self.roles.ignore, *left_out}, **self._roles_of_columns(left_out))
        blocks_at_once = max(1, self.rows_at_once // _BLOCK)
        for table, of_table in groupby(self.files.blocks(), attrgetter("table")):
            blocks = iter(of_table)
            for first in blocks:
                columns = self.files.growing(roles)
                _fill(columns, chain([first], islice(blocks, blocks_at_once - 1)))
                yield Batch(table, self._frame({column.name: column.finish() for column in columns if column}))

    def _roles_of_columns(self, left_out: Collection[str]) -> dict[str, Any]:
        """Roles of the columns that are read."""
        out = {*left_out}
        return {
            "target": None if self.roles.target in out else self.roles.target,
            "discrete": [name for name in self.roles.discrete if name not in out],
            "continuous": [name for name in self.roles.continuous if name not in out],
        }

    def _frame(self, columns: dict[str, Column]) -> nw.DataFrame[Any]:
        target = self.roles.target
        if target in columns and self.classes:
            labels = columns[target].values
            named = np.array([None if label is None else self.classes.get(label, label) for label in labels], object)
            columns[target] = columns[target]._replace(values=named)
        return nw.from_native(frame_of({name: columns[name] for name in self.columns}), eager_only=True)

    def only(self, columns: Sequence[str]) -> TextBatches:
        """The same rows, of which only these columns are read."""
        return replace(self, columns=checked(columns, self.columns))


class Scanned(NamedTuple):
    """What a pass over text files tells of their columns.

    Attributes
    ----------
    kinds, reasons : of each column that is not left out, the target aside
    classes : what labels of the target are called where they are numbers
    n_rows : int
    """

    kinds: dict[str, Kind]
    reasons: dict[str, str]
    classes: dict[str, str]
    n_rows: int


def scan(files: TextFiles, roles: Roles, report: Report) -> Scanned:
    """Find out what the columns of text files are; nothing is kept of the rows."""
    roles.check([header.name for header in files.headers])
    columns, n_rows = files.growing(roles), 0
    labels, with_numbers = set[str](), set[str]()
    for block in files.blocks():
        for column, fields in zip(columns, block.columns):
            if column is None:
                continue
            if column.name == roles.target:
                labels.update(fields)
            numbers = column.numbers(block, fields)
            if numbers is not None and column.name not in with_numbers and not np.isnan(numbers).all():
                with_numbers.add(column.name)
        n_rows += len(block.lines)
        report(f"reading {block.table}", len(block.lines))
    target = next((column for column in columns if column and column.name == roles.target), None)
    classes: dict[str, str] = {}
    if target is not None:
        labels -= files.missing
        classes = class_names(labels, roles, target.is_text, files.decimal)
        require_classes({classes.get(label, label) for label in labels}, roles)
    features = [column for column in columns if column and column is not target]
    for column in features:
        if column.kind is None:
            column.reason = "every value is a number" if column.name in with_numbers else "no value at all"
    return Scanned(
        {column.name: column.kind or "continuous" for column in features},
        {column.name: column.reason for column in features},
        classes,
        n_rows,
    )
