"""As many rows of a table as fit into memory, for models that want all of their rows there.

Which rows these are depends on their numbers and on a seed alone. So they are the same however the table is cut into
batches or partitions, and whoever reads them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fanbayes.arrays import Ints
from fanbayes.data.summary import TableSummary
from fanbayes.data.table import Layout, bytes_of
from fanbayes.data.views import TrainingTable, joined_rows
from fanbayes.estimators.splits import MOST_JUDGED, Labelled, SomeRows, read_groups
from fanbayes.learning.ensembles.race import Elsewhere

# Rows that are drawn however little memory there may be.
LEAST_ROWS = 2 * MOST_JUDGED
# What is made of a row while models are fitted to it, as a multiple of what it takes when it is encoded.
_COPIES = 6


class Sample(NamedTuple):
    """Rows in memory, and what they stand for.

    Attributes
    ----------
    cases : their classes, labels and weights
    rows : TrainingTable
    groups : number of the group of each (n_rows,), or None
    elsewhere : all rows of the table; None where these are all
    """

    cases: Labelled
    rows: TrainingTable
    groups: Ints | None
    elsewhere: Elsewhere | None


class SomeOfPart(NamedTuple):
    """Rows of a part of the table that were drawn, and their groups as they came."""

    rows: TrainingTable
    groups: list[Any] | None


@dataclass(frozen=True)
class Draw:
    """Which rows are drawn: a share of those without a label, and one of the others."""

    unlabelled: float
    labelled: float
    seed: int

    @property
    def is_all(self) -> bool:
        """Whether all rows are."""
        return min(self.unlabelled, self.labelled) >= 1.0

    def of_rows(self, rows: TrainingTable, groups: list[Any] | None, first: int) -> SomeOfPart:
        """Those that are drawn of neighbouring rows of a table, of which `first` is the number of the first."""
        stream = np.random.Generator(np.random.PCG64(self.seed).advance(first))
        share = np.where(rows.labels < 0, self.unlabelled, self.labelled)
        some = np.flatnonzero(stream.random(len(share)) < share)
        return SomeOfPart(rows.only(some), None if groups is None else [groups[k] for k in some.tolist()])


def draw_of(summary: TableSummary, layout: Layout, memory: int, seed: int) -> Draw:
    """Draw as many rows as fit into so many bytes; those with a label are at least half of them, or all there are."""
    most = max(LEAST_ROWS, memory // (_COPIES * bytes_of(layout, 1)))
    n_unlabelled = summary.n_unlabelled
    n_labelled = summary.n_rows - n_unlabelled
    of_labelled = min(n_labelled, max(most // 2, most - n_unlabelled))
    share = (most - of_labelled) / n_unlabelled if n_unlabelled else 1.0
    return Draw(min(1.0, share), of_labelled / n_labelled, seed)


def sample_of(parts: Sequence[SomeOfPart], classes: NDArray[Any], elsewhere: Elsewhere | None) -> Sample:
    """The rows that were drawn, in their order."""
    rows = joined_rows([part.rows for part in parts])
    cases = SomeRows(classes, rows)
    groups = [group for part in parts for group in part.groups or ()]
    has_groups = any(part.groups is not None for part in parts)
    return Sample(cases, rows, read_groups(groups, cases) if has_groups else None, elsewhere)
