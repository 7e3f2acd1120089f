"""What rows add up to: enough to learn naive Bayes from, in whatever pieces they came.

Of every column and cell (a class, for naive Bayes) the totals are the cases of each level or, of numbers, the cases,
their mean and the sum of their squared deviations, which are merged by

    n = n_a + n_b ,  d = m_b - m_a ,  m = m_a + d n_b / n ,  S = S_a + S_b + d^2 n_a n_b / n                      (T1)

(T. F. Chan, G. H. Golub and R. J. LeVeque, Algorithms for computing the sample variance, The American Statistician 37,
1983). They are kept in the column's own unit but for a power of two, that of its largest value, so that nothing
depends on the pieces but rounding: levels, centre and scale of a column, and whether it is constant, are those of all
rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from fanbayes.arrays import Floats
from fanbayes.data.schema import Column, Missing, Schema
from fanbayes.data.sources import kind_of
from fanbayes.data.state import Arrays, read_array, require, require_names
from fanbayes.data.summary import ColumnSummary, Moments, TableSummary
from fanbayes.data.table import Layout, layout_of
from fanbayes.learning.state import EMState
from fanbayes.model.network import Statistics, Terms
from fanbayes.model.structure import Structure

_MOST_CASES = 1e100


@dataclass(frozen=True)
class Totals:
    """What rows add up to. Those of other rows may be added `at` the same columns.

    Attributes
    ----------
    columns : what each column is, by all rows
    states : (n_states,)
        Cases of each state.
    parts : an array for each column
        (n_levels + 1, n_cells), cases of each level of a discrete column, "missing" last; or (4, n_cells), of a
        continuous one cases, mean and sum of squared deviations, in units of two to the `power_of` the column, and
        cases in which it is missing.
    """

    columns: tuple[Column, ...]
    states: Floats
    parts: tuple[Floats, ...]

    def at(self, columns: Sequence[Column]) -> Totals:
        """The same totals, of columns that are known better: more levels, larger numbers."""
        parts = [_at(now, before, part) for now, before, part in zip(columns, self.columns, self.parts)]
        return Totals(tuple(columns), self.states, tuple(parts))

    def __add__(self, other: Totals) -> Totals:
        parts = (
            x + y if column.kind == "discrete" else _merged(x, y)
            for column, x, y in zip(self.columns, self.parts, other.parts)
        )
        return replace(self, states=self.states + other.states, parts=tuple(parts))

    def statistics(self, schema: Schema) -> Floats:
        """Statistics of the cells (n_statistics, n_cells), as an E-step gives them of rows encoded by this schema."""
        n = len(self.columns)
        rows = [self.parts[j] if j < n else self._indicator(schema.feature(j)) for j in schema.discrete]
        rows += [_sums(schema[j], self.parts[j]) for j in schema.continuous]
        return np.concatenate([np.zeros((0, self.parts[0].shape[1])), *rows])

    def _indicator(self, j: int) -> Floats:
        """Cases in which a column is there, and is missing; it is known of all (3, n_cells)."""
        observed, absent = _observed(self.columns[j], self.parts[j]), self.parts[j][-1]
        return np.stack([observed, absent, np.zeros_like(absent)])

    def summary(self, indicates: Sequence[int], missing: Missing, where: str) -> TableSummary:
        """What the rows tell of the columns, to be added to what others tell.

        Parameters
        ----------
        indicates : positions of columns that have some values, but not all
        missing : whether it matters that they have
        where : which rows these are, for messages
        """
        n_rows, weight = 2, float(self.states.sum())  # it matters alone whether values are missing in some rows or all
        columns = []
        for j, (column, part) in enumerate(zip(self.columns, self.parts)):
            n_missing = None
            if missing == "informative":
                n_missing = 1 if j in indicates else 0 if _observed(column, part).any() else n_rows
            columns.append(_summary(column, part, where, n_missing))
        return TableSummary(tuple(columns), n_rows, weight, np.arange(0), 0, where)

    def to_state(self) -> Arrays:
        """Arrays that with the columns are all of it."""
        return {"states": self.states, "columns": np.concatenate(self.parts)}


def read_totals(arrays: Arrays, schema: Schema, structure: Structure) -> Totals:
    """Inverse of `to_state`, given the columns and the states."""
    flaw = "its totals are damaged"
    require_names(arrays, ("states", "columns"))
    require(all(c.kind != "binned" for c in schema.columns), flaw)
    sizes = [4 if c.kind == "continuous" else c.n_levels + 1 for c in schema.columns]
    states = read_array(arrays, "states", (structure.n_states,))
    parts = np.split(read_array(arrays, "columns", (sum(sizes), structure.n_cells)), np.cumsum(sizes)[:-1])
    for column, part in zip(schema.columns, parts):
        cases = part if column.kind == "discrete" else part[[0, 2, 3]]
        require(((cases >= 0) & (cases <= _MOST_CASES)).all(), flaw)
        require(column.kind == "discrete" or (np.abs(part[1]) <= 1.0 + 1e-9).all(), flaw)
    require(((states >= 0) & (states <= _MOST_CASES)).all(), flaw)
    return Totals(schema.columns, states, tuple(parts))


def totals_of(
    schema: Schema, structure: Structure, statistics: Statistics, observed: Callable[[int], Floats]
) -> Totals:
    """Totals of rows, in the cells of a structure.

    Parameters
    ----------
    schema : what the columns are
    structure : Structure
    statistics : of the rows, encoded by the schema
    observed : function from the position of a column that the schema finds constant to its cases in each cell
    """
    layout, states, cells = layout_of(schema), statistics.states[0], statistics.cells[0]
    cases = np.bincount(structure.cell_of, states)
    parts = []
    for j, column in enumerate(schema.columns):
        place = schema.place.get(j)
        if column.kind == "discrete" and place is not None:
            parts.append(cells[layout.first_level[place] : layout.first_level[place + 1]].copy())
            continue
        if place is not None:
            first = int(layout.first_level[-1]) + 3 * place
            known = _moments(column, cells[first : first + 3])
        else:
            n = observed(j)
            value = 0.0 if math.isnan(column.low) else math.ldexp(column.low, -power_of(column))
            known = np.stack([n, np.where(n > 0, value, 0.0), np.zeros_like(n)])
        absent = np.maximum(cases - known[0], 0.0)
        if column.kind == "discrete":  # of one level, or of none
            known = known[: column.n_levels]
        parts.append(np.vstack([known, absent]))
    return Totals(schema.columns, states, tuple(parts))


def power_of(column: Column) -> int:
    """Power of two above the largest size of a value that was seen of a continuous column."""
    return 0 if math.isnan(column.low) else math.frexp(max(abs(column.low), abs(column.high)))[1]


def _observed(column: Column, part: Floats) -> Floats:
    """Cases in which a column has a value (n_cells,)."""
    return np.asarray(part[0] if column.kind == "continuous" else part[:-1].sum(axis=0))


def _moments(column: Column, sums: Floats) -> Floats:
    """N, mean and squared deviations (3, n_cells) of N, sum z and sum z^2 of encoded numbers z."""
    n, first, second = sums
    mean = np.divide(first, n, out=np.zeros_like(n), where=n > 0)
    squares = np.maximum(second - first * mean, 0.0)
    if column.is_standardised:
        mean = np.where(n > 0, column.centre + column.scale * mean, 0.0)
        return np.stack([n, mean, squares * column.scale**2])
    power = power_of(column)
    return np.stack([n, np.ldexp(mean, -power), np.ldexp(squares, -2 * power)])


def _sums(column: Column, part: Floats) -> Floats:
    """Inverse of `_moments`, by a column whose centre and scale may be others."""
    n, mean, squares, _ = part
    if column.is_standardised:
        mean, squares = (mean - column.centre) / column.scale, squares / column.scale**2
    else:
        power = power_of(column)
        mean, squares = np.ldexp(mean, power), np.ldexp(squares, 2 * power)
    return np.stack([n, n * mean, squares + n * mean**2])


def _at(column: Column, before: Column, part: Floats) -> Floats:
    """Totals of a column that is known better than before."""
    if before.kind == column.kind == "continuous":
        return _rescaled(part, power_of(before) - power_of(column))
    if before.levels == column.levels and before.kind == "discrete":
        return part
    out = np.zeros((4 if column.kind == "continuous" else column.n_levels + 1, part.shape[1]))
    out[-1] = part[-1]
    if before.levels:
        place = {level: k for k, level in enumerate(column.levels)}
        np.add.at(out, [place[level] for level in before.levels], part[:-1])
    return out


def _rescaled(part: Floats, power: int) -> Floats:
    """Totals of numbers in a unit that is a power of two larger."""
    n, mean, squares, absent = part
    return np.stack([n, np.ldexp(mean, power), np.ldexp(squares, 2 * power), absent])


def _merged(x: Floats, y: Floats) -> Floats:
    """(T1), in each cell."""
    n = x[0] + y[0]
    share = np.divide(y[0], n, out=np.zeros_like(n), where=n > 0)
    gap = y[1] - x[1]
    return np.stack([n, x[1] + gap * share, x[2] + y[2] + gap**2 * x[0] * share, x[3] + y[3]])


def _summary(column: Column, part: Floats, where: str, n_missing: int | None) -> ColumnSummary:
    """What rows tell of a column, by its totals."""
    if column.kind == "discrete":
        kinds = frozenset(kind_of(level) for level in column.levels)
        found = ColumnSummary(column.name, column.dtype, where, True, kinds, n_missing)
        is_declared = column.dtype.startswith(("Categorical", "Enum"))
        return replace(found, declared=column.levels) if is_declared else replace(found, levels=column.levels)
    if math.isnan(column.low):
        return ColumnSummary(column.name, column.dtype, where, False, frozenset(), n_missing)
    n, means, squares, _ = part
    weight = float(n.sum())
    mean = float(n @ means) / weight
    moments = (power_of(column), weight, mean, float(squares.sum() + n @ (means - mean) ** 2))
    known = Moments(column.low, column.high, *moments)
    return ColumnSummary(column.name, column.dtype, where, False, frozenset({"numbers"}), n_missing, moments=known)


# ---------------------------------------------------------------- rows to learn from


@dataclass(frozen=True)
class SummedData:
    """Rows of which the totals are known: by class, all that naive Bayes asks of them.

    Attributes
    ----------
    layout : Layout
    states : (n_states,), cases of each state; a class is one, for naive Bayes
    cells : (n_statistics, n_cells), statistics of each cell
    """

    layout: Layout
    states: Floats
    cells: Floats

    @classmethod
    def of(cls, totals: Totals, schema: Schema) -> SummedData:
        """Rows of these totals, as if they were encoded by the schema."""
        return cls(layout_of(schema), totals.states, totals.statistics(schema))

    def statistics(self, structure: Structure) -> Statistics:
        """Expected statistics, of one network, of which the log-likelihood is not known."""
        nothing = np.zeros(1)
        of_classes = np.zeros((1, structure.n_classes))
        return Statistics(self.states[None], self.cells[None], of_classes, nothing, nothing, nothing)

    def by_class(self, structure: Structure) -> SummedData:
        """The same rows by class; those of a cell that classes share (FM) as if columns told nothing of the class."""
        share = np.zeros((structure.n_cells, structure.n_classes))
        np.add.at(share, (structure.cell_of, structure.class_of), self.states)
        total = share.sum(axis=1, keepdims=True)
        share = np.divide(share, total, out=np.full_like(share, 1 / structure.n_classes), where=total > 0)
        classes = np.bincount(structure.class_of, self.states).astype(np.float64)
        return SummedData(self.layout, classes, self.cells @ share)

    @property
    def total_weight(self) -> float:
        """N: the sum of the weights."""
        return float(self.states.sum())

    @property
    def is_labelled(self) -> bool:
        """Every row has a label."""
        return True

    def e_step(self, terms: Terms, *, hard: bool = False) -> Statistics:
        """Statistics under networks of naive Bayes, in which nothing is hidden."""
        if terms.structure.n_states != terms.structure.n_classes:
            raise ValueError("totals by class tell nothing of what is hidden")
        table, n_normal = self.cells[: terms.log_table.shape[1]], terms.numeric.shape[1] - terms.n_linear
        n, first, second = self.cells[len(table) :].reshape(-1, 3, len(self.states)).swapaxes(0, 1)
        slope, intercept, log_norm = terms.numeric.transpose(2, 0, 1, 3)
        squares = (slope**2 * second + 2 * slope * intercept * first + intercept**2 * n)[:, :n_normal]
        each = self.states * terms.log_weight + (table * terms.log_table).sum(axis=1) + (n * log_norm).sum(axis=1)
        each += (slope * first)[:, n_normal:].sum(axis=1) - squares.sum(axis=1)
        states, cells = (np.repeat(x[None], len(each), axis=0) for x in (self.states, self.cells))
        return Statistics(states, cells, each, *[each.sum(axis=1)] * 3)

    def e_step_by_class(self, terms: Terms) -> list[Statistics]:
        """Statistics of the rows of each class."""
        own = np.eye(len(self.states))
        return [replace(self, states=self.states * c, cells=self.cells * c).e_step(terms) for c in own]

    def subsample(self, n_cases: int) -> Self:
        """All of them: they are one case for each class."""
        return self

    def labelled(self) -> Self:
        """All of them."""
        return self

    def run_em(
        self, state: EMState, n_passes: int, least_gain: float, *, hard: bool, accelerate: bool
    ) -> EMState | None:
        """There is nothing to run natively."""
        return None
