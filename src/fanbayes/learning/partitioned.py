"""Rows that lie in parts elsewhere, such as on the workers of a cluster.

Functions go to the rows, and what comes back is small: statistics that add up, or the few rows that the short runs see.
Sums are taken in a tree whose shape depends on the number of parts alone, so a result does not depend on who computed
which part. The M-step is made here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

import numpy as np

from fanbayes.arrays import Floats
from fanbayes.data.caching import cached_property
from fanbayes.data.table import EncodedTable, Layout, class_shares, joined, stand_for_all
from fanbayes.data.views import View
from fanbayes.learning.data import InMemoryData, TrainingData
from fanbayes.learning.e_step import ThreadPool
from fanbayes.learning.state import EMState
from fanbayes.model.network import Statistics, Terms

Value = TypeVar("Value")

# Sums that are added at a time.
FAN_IN = 8


class Parts(Protocol):
    """Values that live elsewhere, one for each part of the rows.

    Functions are those of modules, and they and their arguments can be pickled.
    """

    def map(self, function: Callable[..., Any], *arguments: Any) -> Parts:
        """A function of each value and of the arguments."""

    def persist(self) -> Parts:
        """The same values, computed where they are and kept there as long as somebody asks for them."""

    def gather(self) -> list[Any]:
        """The values, brought here."""

    def sum(self) -> Any:
        """Their sum (`added_up`), brought here."""


def added_up(values: Sequence[Value], add: Callable[[Sequence[Value]], Value], most: int = 1) -> Sequence[Value]:
    """Values with the same sum, as many as these at most, neighbours first; `add` adds some of them, or plans to."""
    while len(values) > most:
        values = [add(values[k : k + FAN_IN]) for k in range(0, len(values), FAN_IN)]
    return values


@dataclass(frozen=True)
class PartitionedTable:
    """Encoded rows in parts: what `EncodedTable` is for rows in memory.

    Attributes
    ----------
    parts : Parts, each an EncodedTable
    layout : Layout
    n_classes : int
    total_weight : float
    """

    parts: Parts
    layout: Layout
    n_classes: int
    total_weight: float

    def fused(self) -> PartitionedTable:
        """Neighbouring discrete columns of few levels in one code, the same in all parts."""
        return self._map(EncodedTable.fused, self.total_weight)

    def collapsed(self) -> PartitionedTable:
        """Equal rows of a part as one row of their weight, where there are many of them."""
        return self._map(EncodedTable.collapsed)

    def by_class(self) -> PartitionedTable:
        """The same rows, in each part those of a class together."""
        return self._map(EncodedTable.by_class)

    def seen_by(self, view: View) -> PartitionedTable:
        """What the view shows of the rows."""
        return self._map(_mix, view)

    @cached_property
    def class_cases(self) -> Floats:
        """Cases without a label, then those of each class (n_classes + 1,)."""
        return np.asarray(self.kept.map(EncodedTable.class_cases, self.n_classes).sum())

    def _map(self, function: Callable[..., EncodedTable], *arguments: Any) -> PartitionedTable:
        return replace(self, parts=self.parts.map(function, *arguments))

    @cached_property
    def kept(self) -> Parts:
        """The parts, kept where they are, once for all that is made of them."""
        return self.parts.persist()


def training_data(
    table: EncodedTable | PartitionedTable, pool: ThreadPool, kind: type[InMemoryData] = InMemoryData
) -> InMemoryData | PartitionedData:
    """Rows to learn from, of this kind; threads are for those in memory."""
    if isinstance(table, EncodedTable):
        return kind(table, pool)
    return PartitionedData(table.kept.map(_prepare, kind).persist(), table.layout, table.n_classes, pool)


@dataclass(frozen=True)
class PartitionedData:
    """Rows to learn from, in parts.

    Attributes
    ----------
    parts : Parts, each TrainingData
    layout : Layout
    n_classes : int
    pool : threads for rows that come here
    """

    parts: Parts
    layout: Layout
    n_classes: int
    pool: ThreadPool = None

    @cached_property
    def total_weight(self) -> float:
        """N: the sum of the weights."""
        return float(self.parts.map(_total_weight).sum())

    @cached_property
    def is_labelled(self) -> bool:
        """Whether every row has a label."""
        return all(self.parts.map(_is_labelled).gather())

    def e_step(self, terms: Terms, *, hard: bool = False) -> Statistics:
        """Statistics of all rows under each network: expected (8), or of the best completion (9) if `hard`."""
        found: Statistics = self.parts.map(_e_step, terms, hard).sum()
        return found

    def e_step_by_class(self, terms: Terms) -> list[Statistics]:
        """Expected statistics of the rows of each class; unlabelled rows count for every class by its probability."""
        together: Statistics = self.parts.map(_e_step_by_class, terms).sum()
        n = terms.structure.n_classes
        return [together.map(lambda a, c=c: np.split(a, n)[c]) for c in range(n)]

    @cached_property
    def _class_cases(self) -> Floats:
        """Cases without a label, then those of each class (n_classes + 1,)."""
        return np.asarray(self.parts.map(_class_cases, self.n_classes).sum())

    def subsample(self, n_cases: int) -> TrainingData:
        """About so many cases that stand for all, brought here; or all where they are, if they are not many more.

        They are the cases that `EncodedTable.subsample` chooses of the same rows in memory.
        """
        if self.total_weight <= 2 * n_cases:
            return self
        few: list[InMemoryData] = self.parts.map(_subsample, class_shares(self._class_cases, n_cases)).gather()
        table = joined([part.table for part in few])
        if not stand_for_all(table.fingerprint, n_cases):
            return self
        return replace(few[0], table=table.by_class(), pool=self.pool)

    def labelled(self) -> PartitionedData:
        """Rows that have a label."""
        return self if self.is_labelled else self._labelled

    @cached_property
    def _labelled(self) -> PartitionedData:
        return replace(self, parts=self.parts.map(_labelled).persist())

    def run_em(
        self, state: EMState, n_passes: int, least_gain: float, *, hard: bool, accelerate: bool
    ) -> EMState | None:
        """Leave it to the loop: every pass is made where the rows are, every M-step here."""
        return None


# What is done with a part, where it is. Their names are those of the tasks.


def _mix(table: EncodedTable, view: View) -> EncodedTable:
    return view.mix(table)


def _prepare(table: EncodedTable, kind: type[InMemoryData]) -> InMemoryData:
    return kind(table)


def _total_weight(part: TrainingData) -> float:
    return part.total_weight


def _is_labelled(part: TrainingData) -> bool:
    return part.is_labelled


def _labelled(part: TrainingData) -> TrainingData:
    return part.labelled()


def _e_step(part: TrainingData, terms: Terms, hard: bool) -> Statistics:
    return part.e_step(terms, hard=hard)


def _e_step_by_class(part: TrainingData, terms: Terms) -> Statistics:
    """Statistics of the classes, side by side as those of networks are."""
    first, *others = part.e_step_by_class(terms)
    return first.map(lambda *arrays: np.concatenate(arrays), *others)


def _class_cases(part: InMemoryData, n_classes: int) -> Floats:
    return part.table.class_cases(n_classes)


def _subsample(part: InMemoryData, share: Floats) -> InMemoryData:
    return replace(part, table=part.table.some_of_each(share))
