"""Tables that are read in batches, of a table in memory."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import narwhals as nw

from fanbayes.data.batches import Batch


@dataclass(frozen=True)
class Pieces:
    """A table in batches of so many rows, every third of them followed by an empty one."""

    table: Any
    rows_at_once: int = 7
    columns: list[str] = field(init=False)
    frame: str | None = "polars"
    n_rows: int | None = None

    def __post_init__(self):
        object.__setattr__(self, "columns", list(self.table.columns))

    def __iter__(self):
        for k, at in enumerate(range(0, len(self.table), self.rows_at_once)):
            some = self.table[at : at + self.rows_at_once]
            yield Batch(f"part {k}", nw.from_native(some, eager_only=True))
            if k % 3 == 0:
                yield Batch(f"empty part {k}", nw.from_native(self.table[:0], eager_only=True))

    def only(self, columns):
        return replace(self, table=self.table.select(columns))
