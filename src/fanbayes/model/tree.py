"""Arcs between features: every column may have one other column as a second parent (TAN; Friedman et al. 1997).

    log p(s, x) = log_weight[s] + sum_i log p(x_i | x_pa(i), cell_of[s])

One forest serves all cells. "x_i given x_pa(i) = u" is a column like any other, seen only in the rows where x_pa(i) is
u: so a column with a discrete parent becomes one column for each of the parent's levels, and all that is known about
blocks, EM and scores stays as it is. A discrete column and its parent are one code, (u, v) -> u (r_i + 1) + v, of which
the E-step looks up one entry; a number with a continuous parent is a regression.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fanbayes.arrays import Ints, Mask
from fanbayes.data.caching import cached_property, fields_only
from fanbayes.data.table import EncodedTable, Layout, rewritten

# Most levels of a code that stands for a column and its parent.
MOST_PAIRS = 65_535

# Most levels of a discrete parent of a number, which becomes as many columns: memory of the rows grows with them.
MOST_SELECTED = 16

_PIECE = 65_536  # rows


@dataclass(frozen=True)
class Tree:
    """A forest of arcs.

    Attributes
    ----------
    parent : of each column of a layout, discrete ones and then numbers, the number of its parent; -1: none
    weight : what each arc is worth, N I(X_i; X_pa | S) in nats; 0 where there is none
    """

    parent: tuple[int, ...]
    weight: tuple[float, ...]

    @property
    def n_arcs(self) -> int:
        """Number of arcs."""
        return sum(p >= 0 for p in self.parent)

    @cached_property
    def order(self) -> tuple[int, ...]:
        """Columns, parents before their children.

        Raises
        ------
        ValueError
            If arcs go round in a circle.
        """
        children: dict[int, list[int]] = {}
        for i, p in enumerate(self.parent):
            children.setdefault(p, []).append(i)
        found = list(children.get(-1, []))
        for i in found:  # grows on the way
            found += children.get(i, [])
        if len(found) != len(self.parent):
            raise ValueError("the arcs of a tree go round in a circle")
        return tuple(found)


@dataclass(frozen=True, kw_only=True)
class TreeLayout(Layout):
    """Layout of the columns "x_i given x_pa(i) = u": discrete ones, numbers, then regressions.

    Attributes
    ----------
    base : Layout of the columns themselves
    tree : Tree over these
    """

    base: Layout
    tree: Tree

    __getstate__ = fields_only

    @cached_property
    def n_parts(self) -> Ints:
        """Columns that each column of `base` has become (n_base,): one for each level of a discrete parent."""
        sizes = self.base.n_levels
        discrete = (p >= 0 and p < self.base.n_discrete for p in self.tree.parent)
        return np.array([sizes[p] if d else 1 for p, d in zip(self.tree.parent, discrete)], dtype=np.intp)

    @cached_property
    def columns(self) -> Ints:
        """Columns of `base`, in the order in which their parts lie here."""
        base, parent = self.base, np.array(self.tree.parent, dtype=np.intp)
        numbers = np.arange(base.n_discrete, base.n_discrete + base.n_numbers)
        regress = parent[numbers] >= base.n_discrete
        wide = self.n_parts[: base.n_discrete] * (base.n_levels + 1) > 256
        return np.concatenate([np.argsort(wide, kind="stable"), numbers[~regress], numbers[regress]])

    @cached_property
    def feature_of(self) -> Ints:
        """Column of `base` that each column here is a part of."""
        return np.repeat(self.columns, self.n_parts[self.columns])

    @cached_property
    def first_part(self) -> Ints:
        """First column here of each column of `base` (n_base,); the others follow it."""
        ends = np.cumsum(self.n_parts[self.columns])
        first = np.empty(len(self.columns), dtype=np.intp)
        first[self.columns] = ends - self.n_parts[self.columns]
        return first

    @cached_property
    def codes(self) -> Layout:
        """Of tables, in which a discrete column and its parent are one code; levels lie where they lie here."""
        n_codes = self.base.n_discrete
        first = self.first_level[self.first_part[self.columns[:n_codes]]] if n_codes else self.first_level[:0]
        sizes = np.diff(first, append=self.first_level[-1])
        n_narrow = int((sizes <= 256).sum())
        return Layout(
            np.append(first, self.first_level[-1]), n_narrow, self.distributions, self.means, self.n_regressions
        )

    def encode(self, table: EncodedTable) -> EncodedTable:
        """Rows of a table of `base`, not fused, as the model sees them.

        A value whose parent is missing is left out; `holes` tells for which rows this is more than leaving out factors.
        """
        return rewritten(table, self.codes, self._encode)

    def _encode(self, table: EncodedTable) -> EncodedTable:
        n_discrete, parent = self.base.n_discrete, self.tree.parent
        codes = self.codes
        narrow = np.empty((table.n_rows, codes.n_narrow), dtype=np.uint8)
        wide = np.empty((table.n_rows, codes.n_discrete - codes.n_narrow), dtype=np.uint16)
        for out, i in zip((*narrow.T, *wide.T), self.columns[:n_discrete].tolist()):
            out[:] = self._code(table, i)
        numbers = np.full((table.n_rows, codes.n_numbers), np.nan)
        pairs = np.full((table.n_rows, codes.n_regressions, 2), np.nan)
        n_numbers_before = int(self.n_parts[:n_discrete].sum())
        for i in self.columns[n_discrete:].tolist():
            x, p = table.numbers[:, i - n_discrete], parent[i]
            at = int(self.first_part[i]) - n_numbers_before
            if p < 0:
                numbers[:, at] = x
            elif p < n_discrete:
                u = table.codes_of(p)
                known = np.flatnonzero(u < self.base.n_levels[p])
                numbers[known, at + u[known].astype(np.intp)] = x[known]
            else:
                both = np.column_stack([x, table.numbers[:, p - n_discrete]])
                both[np.isnan(both).any(axis=1)] = np.nan
                pairs[:, at - codes.n_numbers] = both
        return EncodedTable(codes, narrow, wide, numbers, table.labels, table.weights, pairs=pairs)

    def _code(self, table: EncodedTable, i: int) -> NDArray[np.integer[Any]]:
        """Codes of a discrete column and its parent (n_rows,)."""
        v, p = table.codes_of(i), self.tree.parent[i]
        if p < 0:
            return v
        size, n_parent = int(self.base.n_levels[i]) + 1, int(self.base.n_levels[p])
        u = table.codes_of(p)
        code = u.astype(np.uint16) * np.uint16(size) + v  # may overflow where u is missing
        code[u == n_parent] = n_parent * size - 1
        return code

    def holes(self, table: EncodedTable) -> Mask:
        """Rows (n_rows,) of a table of `base` in which a value is missing while one below it is known.

        A missing value with nothing known below has no factor, as in naive Bayes; these have to be summed over.
        """
        found = np.zeros(table.n_rows, dtype=bool)
        inner = set(self.tree.parent) - {-1}
        if not inner or not (len(table.has_gaps()) or table.lacks_numbers()):
            return found
        for at in range(0, table.n_rows, _PIECE):
            rows = slice(at, at + _PIECE)
            known = self._known(table, rows)
            live = known.copy()
            for i in reversed(self.tree.order):
                if self.tree.parent[i] >= 0:
                    live[:, self.tree.parent[i]] |= live[:, i]
            found[rows] = (live & ~known).any(axis=1)
        return found

    def _known(self, table: EncodedTable, rows: slice) -> Mask:
        """Where columns of `base` are not missing (n, n_base)."""
        codes = table.codes_of_columns(rows)
        return np.concatenate([codes < self.base.n_levels, ~np.isnan(table.numbers[rows])], axis=1)


def tree_layout(base: Layout, tree: Tree) -> TreeLayout:
    """Layout of the columns of `base` given their parents.

    Raises
    ------
    ValueError
        If a discrete column has a continuous parent, or arcs go round in a circle.
    """
    n_discrete, parent = base.n_discrete, np.array(tree.parent, dtype=np.intp)
    if (parent[:n_discrete] >= n_discrete).any():
        raise ValueError("a discrete column cannot have a continuous parent")
    assert len(tree.order) == len(parent) == n_discrete + base.n_numbers
    empty = TreeLayout(base.first_level, base.n_narrow, base.distributions, base.means, base=base, tree=tree)
    columns, n_parts = empty.columns, empty.n_parts
    discrete = columns[:n_discrete]
    numbers = columns[n_discrete:][parent[columns[n_discrete:]] < n_discrete] - n_discrete
    sizes = np.repeat(base.n_levels[discrete] + 1, n_parts[discrete])
    repeated = np.repeat(numbers, n_parts[numbers + n_discrete]).tolist()
    return TreeLayout(
        np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        int((sizes <= 256).sum()),
        tuple(base.distributions[k] for k in repeated),
        tuple(base.means[k] for k in repeated) if base.means else (),
        base.n_numbers - len(numbers),
        base=base,
        tree=tree,
    )
