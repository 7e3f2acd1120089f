"""Trees of columns that are seen as codes, and what they predict.

A number is one of up to MOST_CODES ranges, a category a code of its own while there are not too many. At each node
some codes of a column go to the left, some to the right; a row of neither stays where it is. With k the node in which
a row ends in a tree, and with a network in the node that may know p_k(x_i | c),

    log p(c | x) = log p(c) + sum over trees of [ v_k(c) + sum_i t_k(c, x_i) ] + const               (T1)

where roots add nothing. (T1) is a sum over the columns: the steps from the root to k count for the columns split on.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from fanbayes import _native
from fanbayes.arrays import Floats
from fanbayes.data.caching import cached_property, fields_only
from fanbayes.data.state import Arrays, State, entry, grouped, read_array, refuse, require, require_names
from fanbayes.data.table import EncodedTable, Layout, layout_of
from fanbayes.data.views import View
from fanbayes.learning.e_step import ThreadPool

# Codes of a column, without "missing"; a set of codes is a word.
MOST_CODES = 63
# Levels of a number in a network.
N_BINS = 6
# Of more categories than codes, the most frequent have codes of their own; the others share these.
SHARED_CODES = 16
# Rows that cuts are learnt from, about.
ROWS_FOR_CUTS = 20_000
_MOST_CAPPINGS = 20  # of frequent values, until hardly any is left
_MOST_SCORE = 1e4  # of a node or a level


# ---------------------------------------------------------------- columns as codes


@dataclass(frozen=True)
class Coding:
    """Columns of a layout, the discrete ones and then the numbers, as codes and as levels of the networks.

    Attributes
    ----------
    code_of : uint8 (n_levels,) for each discrete column, code of each level
    cuts : float64 (n_cuts,) for each number, increasing; the k-th code holds ``cuts[k - 1] < x <= cuts[k]``
    """

    code_of: tuple[NDArray[np.uint8], ...]
    cuts: tuple[Floats, ...]

    __getstate__ = fields_only

    @cached_property
    def n_codes(self) -> list[int]:
        """Codes of each column, those that no level has included; the next one is "missing"."""
        return [int(codes.max(initial=0)) + 1 for codes in self.code_of] + [len(cuts) + 1 for cuts in self.cuts]

    @cached_property
    def n_levels(self) -> list[int]:
        """Levels of each column in the networks."""
        n_discrete = len(self.code_of)
        return self.n_codes[:n_discrete] + [min(n, N_BINS) for n in self.n_codes[n_discrete:]]

    @cached_property
    def level(self) -> NDArray[np.uint8]:
        """Level of each code (n_columns, MOST_CODES + 1), that of "missing" the one after the last."""
        level = np.zeros((len(self.n_codes), MOST_CODES + 1), dtype=np.uint8)
        for row, n, r in zip(level, self.n_codes, self.n_levels):
            row[:n] = np.arange(n) * r // n
            row[n] = r
        return level

    def native(self) -> tuple[list[int], list[int], NDArray[np.uint8], list[int]]:
        """What the native core needs to grow trees: codes, which columns are ordered, levels of codes, and levels."""
        is_ordered = [0] * len(self.code_of) + [1] * len(self.cuts)
        return self.n_codes, is_ordered, self.level, self.n_levels

    def codes(self, table: EncodedTable) -> NDArray[np.uint8]:
        """Codes of rows (n_rows, n_columns)."""
        out = np.empty((table.n_rows, len(self.n_codes)), dtype=np.uint8)
        n_discrete = len(self.code_of)
        for j, (levels, codes) in enumerate(zip(table.codes_of_columns().T, self.code_of)):
            out[:, j] = np.append(codes, np.uint8(self.n_codes[j]))[levels]
        for j, (x, cuts) in enumerate(zip(table.numbers.T, self.cuts), n_discrete):
            out[:, j] = np.where(np.isnan(x), self.n_codes[j], np.searchsorted(cuts, x))
        return out


def learn_coding(table: EncodedTable) -> Coding:
    """Codes of the columns of rows, by how often values occur, whatever their classes."""
    weights = table.case_weights
    code_of = []
    for k, n in enumerate(table.layout.n_levels.tolist()):
        codes = np.arange(n)
        if n > MOST_CODES:
            cases = np.bincount(table.codes_of(k), weights, n + 1)[:n]
            codes = MOST_CODES - 1 - codes % SHARED_CODES
            own = np.argsort(-cases, kind="stable")[: MOST_CODES - SHARED_CODES]
            codes[own] = np.arange(len(own))
        code_of.append(codes.astype(np.uint8))
    step = max(1, table.n_rows // ROWS_FOR_CUTS)
    return Coding(
        tuple(code_of), tuple(_cuts(x, w) for x, w in ((x[::step], weights[::step]) for x in table.numbers.T))
    )


def _cuts(x: Floats, weights: Floats) -> Floats:
    """Cuts between distinct values, those that divide the cases most evenly if there are many.

    A value of more cases than a code would hold counts as so many, so that it leaves the other codes to others.
    """
    values, place = np.unique(x[~np.isnan(x)], return_inverse=True)
    below = np.arange(len(values) - 1)
    if len(values) > MOST_CODES:
        cases = np.bincount(place, weights[~np.isnan(x)])
        for _ in range(_MOST_CAPPINGS):
            cases = np.minimum(cases, cases.sum() / MOST_CODES)
        share = np.cumsum(cases)
        wanted = share[-1] * np.arange(1, MOST_CODES) / MOST_CODES
        below = np.unique(np.minimum(np.searchsorted(share, wanted), len(values) - 2))
    return np.asarray((values[below] + values[below + 1]) / 2)


# ---------------------------------------------------------------- prediction


@dataclass(frozen=True)
class Trees:
    """Trees one after the other, each node before those below it, the left one next.

    Attributes
    ----------
    first_node, first_number : int64 (n_trees + 1,), of each tree among nodes and numbers in `tables`
    column : int32 (n_nodes,), column of the layout that is split on, -1 for a leaf
    right : int32 (n_nodes,), the node on the right, counted from the first of the tree
    network : int32 (n_nodes,), number in the tree
    to_left, to_right : uint64 (n_nodes,), sets of codes that go there; a row of neither stays
    values : float32 (n_nodes, n_classes), v of (T1)
    known : int32 (n_trees, n_known), columns of the layout that the networks of a tree know
    tables : float32, t of (T1), networks (n_levels of the known columns, n_classes) one after the other
    """

    first_node: NDArray[np.int64]
    first_number: NDArray[np.int64]
    column: NDArray[np.int32]
    right: NDArray[np.int32]
    network: NDArray[np.int32]
    to_left: NDArray[np.uint64]
    to_right: NDArray[np.uint64]
    values: NDArray[np.float32]
    known: NDArray[np.int32]
    tables: NDArray[np.float32]


@dataclass(frozen=True)
class ForestPredictor:
    """Trees and the columns that they see.

    Attributes
    ----------
    view : View
    class_prior : (n_classes,), p(c)
    coding : Coding
    trees : Trees
    """

    view: View
    class_prior: Floats
    coding: Coding
    trees: Trees

    __getstate__ = fields_only

    @property
    def n_components(self) -> int:
        """Of a network in the trees."""
        return 1

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.trees.known)

    @cached_property
    def native(self) -> _native.Forest:
        """The trees as the native core has them."""
        t, c = self.trees, self.coding
        nodes = (t.first_node, t.first_number, t.column, t.right, t.network, t.to_left, t.to_right, t.values)
        return _native.Forest(*nodes, t.known, t.tables, c.n_codes, c.level, c.n_levels)

    def proba(self, table: EncodedTable, pool: ThreadPool) -> Floats:
        """p(c | x) (n_rows, n_classes) of rows as the view shows them."""
        return np.exp(self.log_proba(table, pool))

    def log_proba(self, table: EncodedTable, pool: ThreadPool) -> Floats:
        """Log p(c | x) (n_rows, n_classes) of rows as the view shows them."""
        scores = self.native.scores(self.coding.codes(table), pool)
        return np.asarray(log_softmax(np.log(self.class_prior) + scores, axis=1))

    def terms(self, table: EncodedTable, pool: ThreadPool) -> Floats:
        """What each feature adds to log p(c | x) by (T1), up to the constant, (n_rows, n_features, n_classes)."""
        terms = np.zeros((table.n_rows, len(self.view.schema.columns), len(self.class_prior)))
        by_column = self.native.terms(self.coding.codes(table), pool)
        for j, of_column in zip(self.view.feature_of.tolist(), np.moveaxis(by_column, 1, 0)):
            terms[:, j] += of_column  # a value and its indicator are one feature
        return terms

    def to_state(self) -> State:
        """Codes of the columns, trees and networks; the view is left to others."""
        flat = {"code_of": np.concatenate([np.empty(0, dtype=np.uint8), *self.coding.code_of])}
        flat["cuts"] = np.concatenate([np.empty(0), *self.coding.cuts])
        arrays: Arrays = {"class_prior": self.class_prior, **flat}
        arrays |= {f"trees/{f.name}": getattr(self.trees, f.name) for f in fields(Trees)}
        return {"kind": "forest", "n_cuts": [len(cuts) for cuts in self.coding.cuts]}, arrays

    @classmethod
    def from_state(cls, values: dict[str, Any], arrays: Arrays, view: View, n_classes: int) -> ForestPredictor:
        """Inverse of `to_state`."""
        groups = grouped(arrays, ("", "trees"))
        require_names(groups[""], {"class_prior", "code_of", "cuts"})
        prior = read_array(arrays, "class_prior", (n_classes,))
        require(((prior > 0) & (prior <= 1)).all() and abs(prior.sum() - 1) < 1e-6, _FLAW)
        coding = _read_coding(entry(values, "n_cuts", list), groups[""], layout_of(view.schema))
        forest = cls(view, prior, coding, _read_trees(groups["trees"], n_classes))
        try:
            forest.native  # noqa: B018 -- it checks that no path leaves a tree and no look-up a table
        except ValueError:
            refuse(_FLAW)
        require(not forest.trees.values[forest.trees.first_node[:-1]].any(), _FLAW)  # roots add nothing to the prior
        return forest


_FLAW = "its trees are damaged"
_TYPES = {
    "first_node": np.int64,
    "first_number": np.int64,
    "column": np.int32,
    "right": np.int32,
    "network": np.int32,
    "to_left": np.uint64,
    "to_right": np.uint64,
    "values": np.float32,
    "known": np.int32,
    "tables": np.float32,
}


def _read_coding(n_cuts: list[Any], arrays: Arrays, layout: Layout) -> Coding:
    """Codes of the columns of a layout."""
    n_levels = layout.n_levels.tolist()
    require(len(n_cuts) == layout.n_numbers, _FLAW)
    require(all(type(n) is int and 0 <= n < MOST_CODES for n in n_cuts), _FLAW)
    cuts = np.split(read_array(arrays, "cuts", (sum(n_cuts),)), np.cumsum(n_cuts)[:-1]) if n_cuts else []
    require(all(np.isfinite(x).all() and (np.diff(x) > 0).all() for x in cuts), _FLAW)
    codes = arrays["code_of"]
    require(codes.dtype == np.uint8 and codes.shape == (sum(n_levels),) and (codes < MOST_CODES).all(), _FLAW)
    code_of = np.split(codes.copy(), np.cumsum(n_levels)[:-1]) if n_levels else []
    return Coding(tuple(code_of), tuple(cuts))


def _read_trees(arrays: Arrays, n_classes: int) -> Trees:
    """Trees of arrays of the right types, whose numbers can be added up."""
    require_names(arrays, _TYPES)
    require(all(arrays[name].dtype == kind for name, kind in _TYPES.items()), _FLAW)
    trees = Trees(**{name: np.array(arrays[name]) for name in _TYPES})
    require(trees.values.shape == (len(trees.column), n_classes) and trees.known.ndim == 2, _FLAW)
    flat = (getattr(trees, name) for name in _TYPES if name not in ("values", "known"))
    require(all(array.ndim == 1 for array in flat), _FLAW)
    for numbers in (trees.values, trees.tables):
        require(np.isfinite(numbers).all() and (np.abs(numbers) <= _MOST_SCORE).all(), _FLAW)
    return trees


def no_trees(n_classes: int) -> Trees:
    """Nothing but the prior."""
    first, whole, codes = np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.int32), np.empty(0, dtype=np.uint64)
    values = np.empty((0, n_classes), dtype=np.float32)
    return Trees(
        first, first, whole, whole, whole, codes, codes, values, whole.reshape(0, 0), np.empty(0, dtype=np.float32)
    )
