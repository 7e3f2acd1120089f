"""Decision trees with naive Bayes in the leaves: NBTree (Kohavi 1996).

All columns are discrete, the continuous ones binned once by all training rows. With l(S) the loss of naive Bayes on the
cases S of a node, summed over the cases, each predicted by the cases of the other folds in S, a node is split where

    sum_b l(S_b) < (1 - d) l(S)                                                                       (T1)

for the split into branches S_b of least loss, and the node has enough cases. The loss is the error (Kohavi: d = 5 %, 30
cases), or minus the log score. A discrete column has a branch for each of its levels, a binned one two, at the
cut of largest information gain. Folds are dealt out once, for all nodes.

A branch is naive Bayes with pseudo-counts, shrunk towards what its parent knows:

    theta(x | c) = (N(x, c) + B(x, c)) / (N(c) + sum_x B(x, c)) ,   B(x, c) = alpha + s theta_parent(x | c)   (T2)

and p(c) alike; B is 0 for levels that the branch cannot have, so that a column split on level by level drops out. The
shrinkage s counts cases of the parent's kind; 0 is the rule of Laplace, as at the root. Without alpha, a level that the
class has nowhere would become less probable with every split.

A case whose value of a split is missing, or was not seen in the node, goes down all branches, in the shares of the
training cases there; p(c | x) is the mean over the leaves in which it arrives, weighted by these.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, xlogy

from fanbayes import _native
from fanbayes.arrays import Floats, Ints, Mask
from fanbayes.data.caching import cached_property, fields_only
from fanbayes.data.schema import Schema
from fanbayes.data.state import Arrays, State, entry, grouped, prefixed, read_array, require, require_names
from fanbayes.data.table import EncodedTable, Layout
from fanbayes.data.views import Encodings
from fanbayes.learning.data import InMemoryData
from fanbayes.learning.e_step import ThreadPool, posterior
from fanbayes.learning.em import Problem
from fanbayes.learning.selection import Search, select
from fanbayes.model.blocks import EstimationOptions
from fanbayes.model.network import Model, Network
from fanbayes.model.state import FAN, network_state, read_network
from fanbayes.model.structure import Structure, fan, naive_bayes

SplitScore = Literal["accuracy", "log_score"]
Leaf = Literal["nb", "fan"]

N_FOLDS = 5
# Log probability of a level that a leaf cannot have.
IMPOSSIBLE = -100.0
# A smaller alpha is as good as this one, and quotients of it would underflow.
LEAST_ALPHA = 1e-100
# The tables of all leaves together have at most so many numbers; nodes are not split beyond.
MOST_NUMBERS = 1 << 26
# Of splits whose losses differ by no more than rounding, the first is taken.
_ROUNDING = 1e-9
_ROWS_AT_ONCE = 8192
_MOST_COMPONENTS = 10


@dataclass(frozen=True)
class Settings:
    """How a tree is grown.

    Attributes
    ----------
    split_score : "accuracy" or "log_score"
    leaf : "nb" or "fan"
    shrinkage : s of (T2)
    min_cases : of a node that is split
    min_decrease : d of (T1)
    alpha : added to every count
    seed : of the starts of FAN
    """

    split_score: SplitScore
    leaf: Leaf
    shrinkage: float
    min_cases: int
    min_decrease: float
    alpha: float
    seed: int


# ---------------------------------------------------------------- the tree


@dataclass(frozen=True)
class Tree:
    """Nodes, each before those below it.

    Attributes
    ----------
    parent : int (n_nodes,), -1 for the root
    branch : int (n_nodes,)
        Code of the level that leads here from the parent; of a threshold 0 for the codes up to it, 1 for the others.
    column : int (n_nodes,)
        Number of the column that is split on, -1 for a leaf.
    threshold : int (n_nodes,)
        Last code of the lower branch; -1 where each level has a branch.
    cases : (n_nodes,), weight of the training cases
    loss : (n_nodes,)
        Mean loss of naive Bayes in the node, cross-validated; NaN where there are too few cases to be split.
    log_prior : (n_nodes, n_classes), log p(c) in the node
    """

    parent: Ints
    branch: Ints
    column: Ints
    threshold: Ints
    cases: Floats
    loss: Floats
    log_prior: Floats

    __getstate__ = fields_only

    def __len__(self) -> int:
        return len(self.parent)

    @cached_property
    def children(self) -> list[Ints]:
        """Nodes below each node, in their order."""
        order = np.argsort(self.parent, kind="stable")
        first = np.searchsorted(self.parent[order], np.arange(len(self) + 1))
        return [order[a:b] for a, b in pairwise(first)]

    @cached_property
    def log_share(self) -> Floats:
        """Log of the share of each node among the cases of its siblings (n_nodes,)."""
        siblings = np.bincount(self.parent + 1, self.cases, len(self) + 1)
        return np.asarray(np.log(self.cases) - np.log(siblings[self.parent + 1]))

    @cached_property
    def leaves(self) -> Ints:
        """Nodes without children."""
        return np.flatnonzero(self.column < 0)

    @cached_property
    def depth(self) -> Ints:
        """Splits above each node (n_nodes,)."""
        depth = np.zeros(len(self), dtype=np.intp)
        for node in range(1, len(self)):
            depth[node] = depth[self.parent[node]] + 1
        return depth

    def branch_of(self, node: int, n_levels: int) -> Ints:
        """Which child each code of the column leads to (n_levels + 1,), the last for missing; -1: to all."""
        place = np.full(n_levels + 1, -1)
        if self.threshold[node] >= 0:
            place[: self.threshold[node] + 1] = 0
            place[self.threshold[node] + 1 : n_levels] = 1
        else:
            place[self.branch[self.children[node]]] = np.arange(len(self.children[node]))
        return place

    def arrivals(self, table: EncodedTable) -> Iterator[tuple[int, Ints, Floats]]:
        """Each leaf, by its number, with the rows that arrive there and the logs of their shares."""
        waiting = {0: (np.arange(table.n_rows), np.zeros(table.n_rows))}
        number = np.cumsum(self.column < 0) - 1
        for node in range(len(self)):
            rows, log_share = waiting.pop(node, (np.empty(0, dtype=np.intp), np.empty(0)))
            if not len(rows):
                continue
            if self.column[node] < 0:
                yield int(number[node]), rows, log_share
                continue
            column = int(self.column[node])
            place = self.branch_of(node, int(table.layout.n_levels[column]))[table.codes_of(column)[rows]]
            for kid, mine, lost in _divided(place, self.children[node]):
                some = np.concatenate([mine, lost])
                more = np.repeat([0.0, self.log_share[kid]], [len(mine), len(lost)])
                waiting[kid] = rows[some], log_share[some] + more


def _divided(place: Ints, kids: Ints) -> Iterator[tuple[int, Ints, Ints]]:
    """Each child with the cases whose place it is, and those that go everywhere."""
    order = np.argsort(place, kind="stable")
    first = np.searchsorted(place[order], np.arange(len(kids) + 1))
    lost = order[: first[0]]
    for k, kid in enumerate(kids.tolist()):
        yield kid, order[first[k] : first[k + 1]], lost


# ---------------------------------------------------------------- growing


@dataclass(frozen=True)
class Cases:
    """Rows as cases of folds; a row of several cases may have some in one fold and some in another.

    Attributes
    ----------
    levels : int32 (n, n_columns), on the flat axis of all levels
    labels, folds : int32 (n,)
    weights : (n,)
    row : int (n,), in the table
    """

    levels: NDArray[np.int32]
    labels: NDArray[np.int32]
    folds: NDArray[np.int32]
    weights: Floats
    row: Ints

    @cached_property
    def total(self) -> float:
        """Sum of the weights."""
        return float(self.weights.sum())

    def only(self, some: Ints, weights: Floats) -> Cases:
        """Some of them, with other weights."""
        return Cases(self.levels[some], self.labels[some], self.folds[some], weights, self.row[some])


def cases_of(table: EncodedTable, folds: Floats) -> Cases:
    """Cases of labelled rows, given the share of each row that each fold holds out (n_folds, n_rows)."""
    assert table.labels is not None
    row, fold = np.nonzero(folds.T)
    levels = (table.layout.first_level[:-1] + table.codes_of_columns()).astype(np.int32)
    weights = folds[fold, row] * table.case_weights[row]
    return Cases(levels[row], table.labels[row], fold.astype(np.int32), weights, row)


@dataclass(frozen=True)
class NaiveBayes:
    """Probabilities, or pseudo-counts, by all cases of a node and by those outside of each fold.

    Attributes
    ----------
    levels : (1 + n_folds, n_levels, n_classes), 0 for what is missing or cannot be
    classes : (1 + n_folds, n_classes)
    """

    levels: Floats
    classes: Floats


@dataclass(frozen=True)
class Split:
    """The column that a node is split on and its threshold, -1 for none, and the mean loss of the node itself."""

    column: int
    threshold: int
    loss: float


@dataclass(frozen=True)
class Growth:
    """What all nodes of a tree have in common.

    Attributes
    ----------
    layout : Layout
    columns : numbers of the columns in the order of the features
    is_binned : (n_columns,), whether a column is split at a threshold
    n_classes : int
    n_folds : int
        0: nothing can be held out, and the root is the only leaf.
    """

    layout: Layout
    columns: Sequence[int]
    is_binned: Mask
    n_classes: int
    n_folds: int
    settings: Settings
    pool: ThreadPool

    def grow(self, cases: Cases) -> tuple[Tree, list[tuple[Cases, Floats]]]:
        """A tree, and of each leaf its cases and theta (n_levels, n_classes)."""
        nodes: list[tuple[int, int, int, int, float, float, Floats]] = []
        leaves: list[tuple[Cases, Floats]] = []
        n_leaves, everything = 1, np.ones(int(self.layout.first_level[-1]), dtype=bool)
        waiting = [(cases, -1, 0, self.laplace(), everything)]
        while waiting:
            mine, parent, branch, pseudo, possible = waiting.pop()
            n_folds = self.n_folds if self.is_large(mine) else 0
            pseudo = NaiveBayes(pseudo.levels[: 1 + n_folds] * possible[:, None], pseudo.classes[: 1 + n_folds])
            counts = self.counts(mine, n_folds)
            own = self.estimate(counts, pseudo)
            below = self.pseudo_counts_below(own)
            split = self.best_split(mine, counts.levels[0], pseudo, below, n_leaves)
            nodes.append(
                (parent, branch, split.column, split.threshold, mine.total, split.loss, np.log(own.classes[0]))
            )
            if split.column < 0:
                leaves.append((mine, own.levels[0]))
                continue
            node, parts = len(nodes) - 1, list(self.branches(mine, split))
            n_leaves += len(parts) - 1
            for code, some, weights in reversed(parts):
                waiting.append((mine.only(some, weights), node, code, below, self.possible(split, code)))
        parent_of, branch_of, column, threshold, total, loss, log_prior = (np.array(values) for values in zip(*nodes))
        return Tree(parent_of, branch_of, column, threshold, total, loss, log_prior), leaves

    def is_large(self, cases: Cases) -> bool:
        """Whether a node has cases enough to be split."""
        return cases.total >= self.settings.min_cases * (1 - _ROUNDING)

    def laplace(self) -> NaiveBayes:
        """Pseudo-counts of the root."""
        shape = (1 + self.n_folds, int(self.layout.first_level[-1]), self.n_classes)
        levels = np.full(shape, self.settings.alpha)
        levels[:, self.layout.missing_level] = 0.0
        return NaiveBayes(levels, np.full(shape[::2], self.settings.alpha))

    def counts(self, cases: Cases, n_folds: int) -> NaiveBayes:
        """Cases of each class and level, those of what is missing included, all and without each fold."""
        n_levels, K, F = int(self.layout.first_level[-1]), self.n_classes, max(1, n_folds)
        fold = cases.folds if n_folds else np.zeros_like(cases.folds)
        place = (fold[:, None] * np.int64(n_levels) + cases.levels) * K + cases.labels[:, None]
        weights = np.repeat(cases.weights, cases.levels.shape[1])
        levels = np.bincount(place.ravel(), weights, F * n_levels * K).reshape(F, n_levels, K)
        classes = np.bincount(fold * K + cases.labels, cases.weights, F * K).reshape(F, K)
        both = (x.astype(np.float64, copy=False) for x in (levels, classes))
        return NaiveBayes(*(_without_each(x)[: 1 + n_folds] for x in both))

    def estimate(self, counts: NaiveBayes, pseudo: NaiveBayes) -> NaiveBayes:
        """Probabilities (T2)."""
        levels, layout = counts.levels + pseudo.levels, self.layout
        levels[:, layout.missing_level] = 0.0
        if layout.n_discrete:
            levels /= np.add.reduceat(levels, layout.first_level[:-1], axis=1)[:, layout.column_of]
        classes = counts.classes + pseudo.classes
        return NaiveBayes(levels, classes / classes.sum(axis=1, keepdims=True))

    def pseudo_counts_below(self, own: NaiveBayes) -> NaiveBayes:
        """B of the branches of a node, before it is known which levels they can have."""
        s, alpha = self.settings.shrinkage, self.settings.alpha
        return NaiveBayes(np.where(own.levels > 0, alpha + s * own.levels, 0.0), alpha + s * own.classes)

    def possible(self, split: Split, code: int) -> Mask:
        """Which levels (n_levels,) a branch can have."""
        first, missing = self.layout.first_level[split.column], self.layout.missing_level[split.column]
        possible = np.ones(int(self.layout.first_level[-1]), dtype=bool)
        codes = np.arange(missing - first)
        possible[first:missing] = codes == code if split.threshold < 0 else (codes > split.threshold) == code
        return possible

    def best_split(self, cases: Cases, counts: Floats, pseudo: NaiveBayes, below: NaiveBayes, n_leaves: int) -> Split:
        """The split of a node by (T1), given the counts (n_levels, n_classes) of its cases."""
        settings = self.settings
        if not self.n_folds or not self.is_large(cases):
            return Split(-1, -1, math.nan)
        [loss] = self.losses(cases, pseudo, [(-1, -1)])
        leaf = Split(-1, -1, loss / cases.total)
        thresholds = best_thresholds(counts, self.layout)
        some = [(j, int(thresholds[j]) if self.is_binned[j] else -1) for j in self.columns]
        some = [(j, t) for j, t in some if not self.is_binned[j] or t >= 0]
        if loss <= 0 or not some:
            return leaf
        losses = np.array(self.losses(cases, below, some))
        column, threshold = some[int(np.argmax(losses <= losses.min() + _ROUNDING * loss))]
        n_branches = 2 if threshold >= 0 else int(self.layout.n_levels[column])
        is_better = losses.min() < (1 - settings.min_decrease - _ROUNDING) * loss
        if not is_better or (n_leaves + n_branches) * counts.size > MOST_NUMBERS:
            return leaf
        return Split(column, threshold, leaf.loss)

    def losses(self, cases: Cases, pseudo: NaiveBayes, splits: Sequence[tuple[int, int]]) -> list[float]:
        """Cross-validated loss of each split, summed over the cases."""
        return _native.split_losses(
            cases.levels,
            cases.labels,
            cases.folds,
            cases.weights,
            self.layout.first_level.tolist(),
            np.ascontiguousarray(pseudo.levels[1:]),
            np.ascontiguousarray(pseudo.classes[1:]),
            splits,
            "error" if self.settings.split_score == "accuracy" else "log_loss",
            N_FOLDS,
            self.pool,
        )

    def branches(self, cases: Cases, split: Split) -> Iterator[tuple[int, Ints, Floats]]:
        """Code, cases and their weights of each branch that has any; those whose value is missing are in all."""
        first, n_levels = self.layout.first_level[split.column], int(self.layout.n_levels[split.column])
        code = (cases.levels[:, split.column] - first).astype(np.intp)
        is_lost = code == n_levels
        side = code if split.threshold < 0 else (code > split.threshold).astype(np.intp)
        side[is_lost] = -1
        sides = np.unique(side[~is_lost])
        place = np.where(is_lost, -1, np.searchsorted(sides, side))
        total = cases.total - cases.weights[is_lost].sum()
        for k, mine, lost in _divided(place, np.arange(len(sides))):
            weights, more = cases.weights[mine], cases.weights[lost]
            some = np.concatenate([mine, lost])
            yield int(sides[k]), some, np.concatenate([weights, more * (weights.sum() / total)])


def _without_each(counts: Floats) -> Floats:
    """Counts of each fold (n_folds, ...) -> of all, and of all but each (1 + n_folds, ...)."""
    total = counts.sum(axis=0, keepdims=True)
    return np.concatenate([total, np.maximum(total - counts, 0.0)])


def best_thresholds(counts: Floats, layout: Layout) -> Ints:
    """Last code below the cut of largest information gain, of each column (n_columns,); -1 where there is no cut.

    Parameters
    ----------
    counts : (n_levels, n_classes), of all columns one after the other; what is missing tells nothing
    """
    if not layout.n_discrete:
        return np.empty(0, dtype=np.intp)
    known = counts.copy()
    known[layout.missing_level] = 0.0
    first = layout.first_level[:-1]
    summed = np.cumsum(known, axis=0)
    left = summed - (summed - known)[first][layout.column_of]  # up to each level, within its column
    right = np.add.reduceat(known, first, axis=0)[layout.column_of] - left

    def negative_entropy(n: Floats) -> Floats:
        return np.asarray(xlogy(n, n).sum(axis=1) - xlogy(n.sum(axis=1), n.sum(axis=1)))

    gain = negative_entropy(np.maximum(left, 0.0)) + negative_entropy(np.maximum(right, 0.0))
    least = _ROUNDING * float(counts[: layout.first_level[1]].sum())  # beside all cases
    gain[(left.sum(axis=1) <= least) | (right.sum(axis=1) <= least)] = -np.inf
    gain[layout.missing_level] = -np.inf
    best = np.maximum.reduceat(gain, first)
    is_best = gain >= best[layout.column_of] - least
    place = np.where(is_best, np.arange(len(gain)), len(gain))
    found = np.minimum.reduceat(place, first) - first
    return np.where(np.isfinite(best), found, -1)


# ---------------------------------------------------------------- prediction


@dataclass(frozen=True)
class NBTree:
    """A tree and the networks of its leaves.

    Attributes
    ----------
    schema : Schema
        All columns discrete or binned.
    tree : Tree
    leaves : a network for each leaf, in the order of the nodes
    """

    schema: Schema
    tree: Tree
    leaves: tuple[Network, ...]

    __getstate__ = fields_only

    @property
    def schemas(self) -> tuple[Schema, ...]:
        """Its only one."""
        return (self.schema,)

    @property
    def n_components(self) -> int:
        """Number of components of the largest leaf."""
        return max(leaf.structure.n_components for leaf in self.leaves)

    @cached_property
    def shares(self) -> Floats:
        """Share of each leaf in a row in which everything is missing (n_leaves,)."""
        log_share = np.zeros(len(self.tree))
        for node in range(1, len(self.tree)):
            log_share[node] = log_share[self.tree.parent[node]] + self.tree.log_share[node]
        return np.exp(log_share[self.tree.leaves])

    @cached_property
    def class_prior(self) -> Floats:
        """What is predicted for such a row (n_classes,)."""
        p = self.shares @ np.array([leaf.class_marginal() for leaf in self.leaves])
        return np.asarray(p / p.sum())

    def posterior(self, rows: Encodings, what: Literal["proba", "log_proba"], pool: ThreadPool) -> Floats:
        """p(c | x) or its log, (n_rows, n_classes)."""
        table = rows[self.schema]
        out = np.full((table.n_rows, self.tree.log_prior.shape[1]), -np.inf)
        for at in range(0, table.n_rows, _ROWS_AT_ONCE):
            block = np.arange(at, min(at + _ROWS_AT_ONCE, table.n_rows))
            self._add_posterior(table.only(block), out[at : at + _ROWS_AT_ONCE], pool)
        out -= logsumexp(out, axis=1, keepdims=True)
        return np.exp(out) if what == "proba" else out

    def _add_posterior(self, table: EncodedTable, out: Floats, pool: ThreadPool) -> None:
        for number, some, log_share in self.tree.arrivals(table):
            log_p = posterior(table.only(some), self.leaves[number].terms, "log_proba", pool)
            out[some] = np.logaddexp(out[some], log_p + log_share[:, None])

    def to_state(self) -> State:
        """Nodes, and structures and parameters of the leaves; the schema is left to others."""
        names = ("parent", "branch", "column", "threshold", "cases", "loss", "log_prior")
        arrays: Arrays = {f"nodes/{name}": getattr(self.tree, name).astype(np.float64) for name in names}
        structures = []
        for number, leaf in enumerate(self.leaves):
            structure, own = network_state(leaf)
            structures.append(structure)
            arrays |= prefixed(str(number), own)
        return {"leaves": structures}, arrays

    @classmethod
    def from_state(cls, values: dict[str, Any], arrays: Arrays, schema: Schema, n_classes: int) -> NBTree:
        """Inverse of `to_state`."""
        require(not schema.continuous, "its columns are not binned")
        structures = entry(values, "leaves", list)
        require(len(structures) <= len(arrays), "its leaves are damaged")
        groups = grouped(arrays, ["nodes", *map(str, range(len(structures)))])
        tree = _read_tree(groups["nodes"], schema, n_classes)
        require(len(structures) == len(tree.leaves), "its leaves are damaged")
        kinds = [("class",), *FAN]
        leaves = (read_network(s, groups[str(k)], schema, n_classes, kinds) for k, s in enumerate(structures))
        return cls(schema, tree, tuple(leaves))


def _read_tree(arrays: Arrays, schema: Schema, n_classes: int) -> Tree:
    """Nodes that are a tree, of the columns of a schema."""
    flaw = "its tree is damaged"
    require_names(arrays, {"parent", "branch", "column", "threshold", "cases", "loss", "log_prior"})
    n = arrays["parent"].size
    require(n >= 1, flaw)
    whole = {}
    for name in ("parent", "branch", "column", "threshold"):
        values = read_array(arrays, name, (n,))
        require((np.abs(values) < 2**31).all() and (values == np.floor(values)).all(), flaw)
        whole[name] = values.astype(np.intp)
    cases, loss = read_array(arrays, "cases", (n,)), read_array(arrays, "loss", (n,))
    log_prior = read_array(arrays, "log_prior", (n, n_classes))
    require(np.isfinite(log_prior).all() and (np.abs(log_prior) <= 1e6).all(), flaw)
    require(np.isfinite(cases).all() and ((cases > 0) & (cases <= 1e100)).all() and not np.isinf(loss).any(), flaw)
    tree = Tree(**whole, cases=cases, loss=loss, log_prior=log_prior)
    require(tree.parent[0] == -1 and ((tree.parent[1:] >= 0) & (tree.parent[1:] < np.arange(1, n))).all(), flaw)
    levels = np.array([schema[j].n_levels for j in schema.discrete], dtype=np.intp)
    require(((tree.column >= -1) & (tree.column < len(levels)) & (tree.threshold >= -1)).all(), flaw)
    for node, kids in enumerate(tree.children):
        column, threshold = tree.column[node], tree.threshold[node]
        require((len(kids) == 0) == (column < 0) and (column >= 0 or threshold < 0), flaw)
        if column >= 0:
            codes = tree.branch[kids]
            require(threshold < levels[column] - 1 and (np.diff(codes) > 0).all(), flaw)
            require(codes[0] >= 0 and codes[-1] < levels[column] and (threshold < 0 or codes.tolist() == [0, 1]), flaw)
    return tree


# ---------------------------------------------------------------- fitting


def fit_tree(
    table: EncodedTable, schema: Schema, folds: Floats, n_classes: int, settings: Settings, pool: ThreadPool
) -> NBTree:
    """Grow a tree and learn its leaves.

    Parameters
    ----------
    table : labelled rows, all columns discrete or binned
    folds : (n_folds, n_rows), share of each row that each fold holds out; none where nothing can be held out
    """
    settings = replace(settings, alpha=max(settings.alpha, LEAST_ALPHA))
    is_binned = np.array([schema[j].kind == "binned" for j in schema.discrete], dtype=bool)
    columns = np.argsort(schema.discrete).tolist()
    growth = Growth(table.layout, columns, is_binned, n_classes, len(folds), settings, pool)
    tree, of_leaves = growth.grow(cases_of(table, folds if len(folds) else np.ones((1, table.n_rows))))
    options = EstimationOptions(alpha=settings.alpha)
    model = Model(naive_bayes(n_classes), table.layout, options)
    leaves = []
    for (cases, theta), log_prior in zip(of_leaves, tree.log_prior[tree.leaves]):
        impossible = theta <= 0
        impossible[table.layout.missing_level] = False
        with np.errstate(divide="ignore"):
            log_table = np.where(impossible, IMPOSSIBLE, np.log(theta))
        log_table[table.layout.missing_level] = 0.0
        leaf = Network(model, log_prior[None], log_table[None], np.empty((1, 0)))
        if settings.leaf == "fan":
            leaf = _fan_leaf(table, cases, leaf, impossible, settings, pool)
        leaves.append(leaf)
    return NBTree(schema, tree, tuple(leaves))


def _fan_leaf(
    table: EncodedTable, cases: Cases, leaf: Network, impossible: Mask, settings: Settings, pool: ThreadPool
) -> Network:
    """FAN of the cases of a leaf, if ICL finds more than one component there; else the leaf as it is."""
    rows = np.unique(cases.row)
    weights = np.bincount(np.searchsorted(rows, cases.row), cases.weights).astype(np.float64)
    few = replace(table.only(rows), weights=weights).fused().by_class()
    n_classes = leaf.structure.n_classes
    sizes = range(1, max(1, min(_MOST_COMPONENTS, int(weights.sum()))) + 1)
    search = Search(partial(_fan, n_classes), sizes, criteria=("icl",), patience=2, n_init=14, seed=settings.seed)
    problem = Problem(InMemoryData(few, pool), leaf.model.options)
    selection = select(problem, search, n_classes, lambda fit: None)
    network = selection.fits[selection.best("icl")].network
    if network.structure.n_components == 1:
        return leaf
    cells = np.where(np.any(impossible, axis=1, keepdims=True), IMPOSSIBLE, network.cells)
    parts = [place.block.project(cells[:, place.rows], network.shared) for place in network.model.places]
    return network.model.assemble(network.factors, parts)


def _fan(n_classes: int, n_components: int) -> Structure:
    return fan([n_components] * n_classes, "shared")
