"""Rows to learn from for models with arcs between features, and what such models say of rows.

Most rows need one look-up a column, and go through the same E-step as all others. Rows in which a value is missing
above one that is known are summed over by messages along the tree (`tree_inference.py`); both statistics add up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import logsumexp

from fanbayes.arrays import Floats, Ints
from fanbayes.data.table import EncodedTable, Layout
from fanbayes.learning import e_step as kernel
from fanbayes.learning.data import InMemoryData
from fanbayes.learning.e_step import Posterior, ThreadPool
from fanbayes.learning.partitioned import PartitionedData, PartitionedTable
from fanbayes.learning.state import EMState
from fanbayes.learning.tree_inference import Nodes, e_step, log_states
from fanbayes.model.network import Statistics, Terms
from fanbayes.model.tree import TreeLayout

_ROWS_AT_ONCE = 8192
_NUMBERS_AT_ONCE = 1 << 23


@dataclass(frozen=True)
class TreeData:
    """Rows in memory, of a table whose columns have arcs between them.

    Attributes
    ----------
    layout : TreeLayout
    simple : rows that the kernel can do, as the model sees them
    holes : EncodedTable of the other rows, their columns as they are
    """

    layout: TreeLayout
    simple: InMemoryData
    holes: EncodedTable

    @property
    def total_weight(self) -> float:
        """N: the sum of the weights."""
        return self.simple.total_weight + self.holes.total_weight

    @property
    def is_labelled(self) -> bool:
        """Whether nothing but components is hidden: every row has a label, and no value has to be summed over."""
        return self.simple.is_labelled and not self.holes.n_rows

    def e_step(self, terms: Terms, *, hard: bool = False) -> Statistics:
        """Statistics of all rows under each network: expected (8), or of the best completion (9) if `hard`."""
        found = self.simple.e_step(terms, hard=hard)
        return found + self._e_step_of_holes(terms, hard) if self.holes.n_rows else found

    def _e_step_of_holes(self, terms: Terms, hard: bool) -> Statistics:
        rows = self.holes
        values = rows.codes_of_columns(), rows.numbers, rows.labels, rows.weights
        return e_step(nodes_of(self.layout), *values, terms, hard, self.simple.pool)

    def e_step_by_class(self, terms: Terms) -> Sequence[Statistics]:
        """Expected statistics of the rows of each class; unlabelled rows count for every class by its probability."""
        found, rows = list(self.simple.e_step_by_class(terms)), self.holes
        share = posterior(self.layout, rows, terms, "proba", self.simple.pool)
        if rows.labels is not None:
            known = rows.labels >= 0
            share[known] = rows.labels[known, None] == np.arange(share.shape[1])
        for c in range(len(found) if rows.n_rows else 0):
            weights = rows.case_weights * share[:, c]
            as_c = replace(rows, labels=np.full(len(weights), c, dtype=np.int32), weights=weights).only(weights > 0)
            found[c] += replace(self, holes=as_c)._e_step_of_holes(terms, hard=False)
        return found

    def subsample(self, n_cases: int) -> TreeData:
        """All rows: short runs are over before there is a tree."""
        return self

    def labelled(self) -> TreeData:
        """Rows that have a label."""
        return replace(self, simple=self.simple.labelled(), holes=self.holes.labelled_only())

    def reweighted(self, rng: np.random.Generator) -> TreeData:
        """The same rows, the weight w of each a draw from Gamma(w): a Bayesian bootstrap of the cases."""
        return replace(self, simple=self.simple.reweighted(rng), holes=self.holes.reweighted(rng))

    def run_em(
        self, state: EMState, n_passes: int, least_gain: float, *, hard: bool, accelerate: bool
    ) -> EMState | None:
        """Run EM in the native core, if no row has to be summed over."""
        if self.holes.n_rows:
            return None
        return self.simple.run_em(state, n_passes, least_gain, hard=hard, accelerate=accelerate)


def tree_data(
    layout: TreeLayout, rows: EncodedTable | PartitionedTable, pool: ThreadPool
) -> TreeData | PartitionedData:
    """Rows of a table, not fused, for networks with arcs."""
    if isinstance(rows, PartitionedTable):
        return PartitionedData(rows.kept.map(_tree_data, layout).persist(), layout, rows.n_classes, pool)
    return _tree_data(rows, layout, pool)


def _tree_data(rows: EncodedTable, layout: TreeLayout, pool: ThreadPool = None) -> TreeData:
    holes = layout.holes(rows)
    whole = layout.encode(rows if not holes.any() else rows.only(~holes))
    return TreeData(layout, InMemoryData(whole.fused().by_class(), pool), rows.only(holes))


def posterior(layout: Layout, table: EncodedTable, terms: Terms, what: Posterior, pool: ThreadPool) -> Floats:
    """Probabilities of classes (n_rows, n_classes), or log p(s, x) of states (n_rows, n_states), arcs or not."""
    if not isinstance(layout, TreeLayout):
        return kernel.posterior(table, terms, what, pool)
    width = terms.structure.n_states if what == "states" else terms.structure.n_classes
    found = np.empty((table.n_rows, width))
    step = max(1024, _NUMBERS_AT_ONCE // (1 + layout.n_numbers))  # a number may have become many
    for at in range(0, table.n_rows, step):
        rows = np.arange(at, min(at + step, table.n_rows))
        found[rows] = kernel.posterior(layout.encode(table.only(rows)), terms, what, pool)
    holes = np.flatnonzero(layout.holes(table))
    for rows in np.split(holes, range(_ROWS_AT_ONCE, len(holes), _ROWS_AT_ONCE)):
        log_p = known_log_states(layout, table.codes_of_columns(rows), table.numbers[rows], terms, pool)
        found[rows] = _of_states(log_p, terms, what)
    return found


def known_log_states(layout: TreeLayout, codes: Ints, numbers: Floats, terms: Terms, pool: ThreadPool = None) -> Floats:
    """Log p(s, x) (n_rows, n_states) of any rows, by messages along the tree: codes and numbers of `layout.base`."""
    return log_states(nodes_of(layout), codes, numbers, terms, pool)


def nodes_of(layout: Layout) -> Nodes:
    """Columns as nodes of their tree, those of `layout.base` where there are arcs; without any, each is alone."""
    if not isinstance(layout, TreeLayout):
        n = layout.n_discrete + layout.n_numbers
        levels = (*layout.n_levels.tolist(), *[0] * layout.n_numbers)
        return Nodes(levels, (-1,) * n, (*layout.first_level[:-1].tolist(), *range(layout.n_numbers)))
    base, first = layout.base, layout.first_part
    discrete = layout.first_level[first[: base.n_discrete]]
    numbers = first[base.n_discrete :] - layout.n_discrete
    regress = numbers >= layout.n_numbers
    numbers = np.where(regress, numbers - layout.n_numbers, numbers)
    levels = (*base.n_levels.tolist(), *[0] * base.n_numbers)
    return Nodes(levels, layout.tree.parent, (*discrete.tolist(), *numbers.tolist()))


def _of_states(log_p: Floats, terms: Terms, what: Posterior) -> Floats:
    """What is asked for, of log p(s, x) (n_rows, n_states)."""
    if what == "states":
        return log_p
    structure = terms.structure
    first = np.searchsorted(structure.class_of, np.arange(structure.n_classes))
    log_joint = np.logaddexp.reduceat(log_p, first, axis=1)
    if what == "log_joint":
        return np.asarray(log_joint)
    log_proba = log_joint - logsumexp(log_joint, axis=1, keepdims=True)
    return np.asarray(np.exp(log_proba) if what == "proba" else log_proba)
