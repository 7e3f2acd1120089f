"""Rows to learn from, wherever they are.

EM, starts, selection and scores know rows by `TrainingData` alone: rows in memory (below), or in parts on other
machines (`partitioned.py`). Statistics add up, so an E-step over parts of the rows is the sum of theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, Self

import numpy as np

from fanbayes import _native
from fanbayes.arrays import Floats
from fanbayes.data.table import EncodedTable, Layout
from fanbayes.learning.e_step import ThreadPool, e_step, n_blocks, posterior
from fanbayes.learning.state import EMState
from fanbayes.model.network import Network, Statistics, Terms


class TrainingData(Protocol):
    """Encoded rows with their labels and weights."""

    @property
    def layout(self) -> Layout:
        """How their columns lie in flat arrays."""

    @property
    def total_weight(self) -> float:
        """N: the sum of the weights."""

    @property
    def is_labelled(self) -> bool:
        """Whether every row has a label."""

    def e_step(self, terms: Terms, *, hard: bool = False) -> Statistics:
        """Statistics of all rows under each network: expected (8), or of the best completion (9) if `hard`."""

    def e_step_by_class(self, terms: Terms) -> Sequence[Statistics]:
        """Expected statistics of the rows of each class; unlabelled rows count for every class by its probability."""

    def subsample(self, n_cases: int) -> TrainingData:
        """About so many cases that stand for all; or all, if they are not many more."""

    def labelled(self) -> Self:
        """Rows that have a label."""

    def run_em(
        self, state: EMState, n_passes: int, least_gain: float, *, hard: bool, accelerate: bool
    ) -> EMState | None:
        """Run EM where the rows are, if they know how to; else None, and it is run pass by pass."""


@dataclass(frozen=True)
class InMemoryData:
    """Rows in memory, and the threads that work on them."""

    table: EncodedTable
    pool: ThreadPool = None

    @property
    def layout(self) -> Layout:
        """How their columns lie in flat arrays."""
        return self.table.layout

    @property
    def total_weight(self) -> float:
        """N: the sum of the weights."""
        return self.table.total_weight

    @property
    def is_labelled(self) -> bool:
        """Whether every row has a label."""
        return self.table.is_labelled

    def e_step(self, terms: Terms, *, hard: bool = False) -> Statistics:
        """Statistics of all rows under each network: expected (8), or of the best completion (9) if `hard`."""
        return e_step(self.table, terms, hard, self.pool)

    def e_step_by_class(self, terms: Terms) -> list[Statistics]:
        """Expected statistics of the rows of each class; unlabelled rows count for every class by its probability."""
        table, n_classes = self.table, terms.structure.n_classes
        labels = np.full(table.n_rows, -1, dtype=np.int32) if table.labels is None else table.labels
        found = [self._of(table.only(labels == c)).e_step(terms) for c in range(n_classes)]
        unlabelled = table.only(labels < 0)
        if unlabelled.n_rows:
            proba = self.posterior(unlabelled, terms)
            for c in range(n_classes):
                weights = unlabelled.case_weights * proba[:, c]
                as_c = replace(unlabelled, labels=np.full(len(weights), c, dtype=np.int32), weights=weights)
                found[c] += self._of(as_c).e_step(terms)
        return found

    def posterior(self, table: EncodedTable, terms: Terms) -> Floats:
        """p(c | x) of rows (n_rows, n_classes)."""
        return posterior(table, terms, "proba", self.pool)

    def subsample(self, n_cases: int) -> Self:
        """About so many cases that stand for all; or all, if they are not many more."""
        return self._of(self.table.subsample(n_cases))

    def labelled(self) -> Self:
        """Rows that have a label."""
        return self._of(self.table.labelled_only())

    def reweighted(self, rng: np.random.Generator) -> Self:
        """The same rows, the weight w of each a draw from Gamma(w): a Bayesian bootstrap of the cases."""
        return self._of(self.table.reweighted(rng))

    def _of(self, table: EncodedTable) -> Self:
        return self if table is self.table else replace(self, table=table)

    def run_em(
        self, state: EMState, n_passes: int, least_gain: float, *, hard: bool, accelerate: bool
    ) -> EMState | None:
        """Run EM in the native core (src/native/em.cpp), if all blocks are known there."""
        network, s = state.network, state.statistics
        if network.model.native is None:
            return None
        whole = np.ascontiguousarray
        *arrays, sums, numbers, traces = _native.run_em(
            self.table.rows,
            network.structure.native,
            network.model.native,
            whole(network.factors),
            whole(network.cells),
            whole(network.shared),
            whole(s.states),
            whole(s.cells),
            whole(s.class_log_likelihood),
            whole(state.objective),
            whole(state.gain),
            whole(state.reach),
            n_passes,
            least_gain,
            accelerate,
            hard,
            n_blocks(self.table, network.structure),
            self.pool,
        )
        return EMState(
            Network(network.model, *arrays[:3]),
            Statistics(*arrays[3:], *sums),
            numbers[0],
            np.concatenate([state.traces, traces[0]], axis=1),
            np.concatenate([state.shares, traces[1] / max(1, self.table.n_rows)], axis=1),
            gain=numbers[1],
            reach=numbers[2],
        )
