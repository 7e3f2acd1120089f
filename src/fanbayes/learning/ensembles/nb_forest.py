"""Forests of randomised trees with naive Bayes in their nodes, judged by the cases that each tree has left out.

A tree is grown on two thirds of the cases, down to small nodes. At each it takes, of some columns drawn at random, the
cut of largest information gain. Every node k has class shares p_k(c), and every node of enough cases a naive Bayes
network p_k(x_i | c), both shrunk towards those of the node above,

    p_k(c) = (N_k(c) + m p_above(c)) / (N_k + m) ,                                                   (R1)

and the other nodes the network of the nearest such node above. With k the node in which a row ends, the forest is

    log p(c | x) = log p(c) + mean over trees of [ v (q_k(c) - p(c)) + u log q'_k(c) / p(c) + w log q"_k(c) / p(c)
                                    + a sum_i log p_k(x_i | c) + b sum_i log p_root(x_i | c) ]  + const  (R2)

where q, q' and q" are p_k for m = 0.3, 0.03 and 3: what shares say as votes, and as evidence that is less or more
cautious. The five weights are those, none negative, that maximise the log score of the cases left out; so they
temper the evidence, which the trees share, and choose between deep trees and networks. (R2) is a sum over the columns:
the steps from the root to k count for the columns split on.

A case ends before a leaf where its value is missing, or one that no case in the node had: what else is known of it is
left to the network of the node. Where cases of the node lack the value they go to the side that suits them better,
and so does a row. Thus, if no case lacks anything, a row that lacks everything gets p(c).

The trees come in groups of three: each leaves out another third of the cases, so that every case is left out as often
as any other; it is judged by the trees that have left it out, with weights learnt without it. Equal rows with numbers
are left out together, as are those of a group. Where others will stand for a row when it is predicted (M1), these
are judged in its place.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from fanbayes import _native
from fanbayes.arrays import AnyInts, Floats, Ints, Mask
from fanbayes.data.caching import cached_property, fields_only
from fanbayes.data.state import Arrays, State, entry, grouped, read_array, refuse, require, require_names
from fanbayes.data.table import EncodedTable, Layout, layout_of
from fanbayes.data.views import View
from fanbayes.learning.e_step import ThreadPool
from fanbayes.learning.ensembles.folds import repeats_are_copies

# Codes of a column, without "missing"; a set of codes is a word.
MOST_CODES = 63
# Levels of a number in a network.
N_BINS = 6
# Of more categories than codes, the most frequent have codes of their own; the others share these.
SHARED_CODES = 16
# Trees are grown in groups of so many.
N_PARTS = 3
# Columns that the networks of a tree know, drawn at random where there are more.
MOST_KNOWN = 128
# Numbers in the tables of all networks together, about.
MOST_NUMBERS = 1 << 22
# Least cases of a node that has a network of its own.
LEAST_NETWORK = 15.0
# Nodes of fewer cases than this part of all are not split.
MOST_SMALL_NODES = 2000
LEAST_GROUPS, MOST_GROUPS = 12, 27
# Cases that the weights of (R2) are learnt from, and rows that cuts are.
MOST_JUDGED = 20_000
# v, u, w, a, b of (R2) before any case has been seen, and by how much they are expected to differ from these.
WEIGHTS = np.array([2.0, 0.1, 0.2, 0.2, 0.1])
SCALE = np.array([1.0, 0.4, 0.4, 0.4, 0.4])
# Folds of the cases; those of each are judged by weights that were learnt from the others.
N_FOLDS = 5
_MOST_SCORE = 1e4  # of a node or a level
# Cases that a row of that weight may be dealt out as.
_MOST_CHUNKS = 16
# Weights of rows that are judged in place of others are not less than this.
_LEAST_SHARE = 1e-9


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
    step = max(1, table.n_rows // MOST_JUDGED)
    return Coding(
        tuple(code_of), tuple(_cuts(x, w) for x, w in ((x[::step], weights[::step]) for x in table.numbers.T))
    )


def _cuts(x: Floats, weights: Floats) -> Floats:
    """Cuts between distinct values, those that divide the cases most evenly if there are many."""
    values, place = np.unique(x[~np.isnan(x)], return_inverse=True)
    below = np.arange(len(values) - 1)
    if len(values) > MOST_CODES:
        share = np.cumsum(np.bincount(place, weights[~np.isnan(x)]))
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
    values : float32 (n_nodes, n_classes), what (R2) has of the shares, divided by the number of trees
    known : int32 (n_trees, n_known), columns of the layout that the networks of a tree know
    tables : float32, networks (n_levels of the known columns, n_classes) one after the other, the same
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
    """A forest and the columns that it sees.

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
        """What each feature adds to log p(c | x) by (R2), up to the constant, (n_rows, n_features, n_classes)."""
        terms = np.zeros((table.n_rows, len(self.view.schema.columns), len(self.class_prior)))
        terms[:, self.view.feature_of] = self.native.terms(self.coding.codes(table), pool)
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


# ---------------------------------------------------------------- learning


def fit_forest(
    table: EncodedTable,
    view: View,
    n_classes: int,
    seed: int,
    pool: ThreadPool,
    groups: AnyInts | None = None,
    asked: tuple[EncodedTable, Ints] | None = None,
) -> tuple[ForestPredictor, Floats]:
    """Grow a forest and weigh what its trees say.

    Parameters
    ----------
    table : rows as the view shows them; those without a label, or of weight 0, are not learnt from
    view : View
    n_classes : int
    seed : int
    pool : threads; the forest is the same for any number
    groups : int (n_rows,) or None, rows of a group are left out together
    asked : rows to judge instead, of any weights, and the row of the table that each stands for, learnt from as well

    Returns
    -------
    ForestPredictor
    log_proba : (n_rows, n_classes), or (n_asked, n_classes)
        Log p(c | x) of each row by the trees that have left it out.
    """
    is_used = _is_used(table)
    few = table.only(is_used)
    assert few.labels is not None
    n_cases = np.bincount(few.labels, few.case_weights, n_classes).astype(np.float64) + 1 / n_classes
    prior = n_cases / n_cases.sum()
    coding = learn_coding(few)
    cases = _cases(few, None if groups is None else groups[is_used])
    if cases.n_units < 2 * N_PARTS or len(np.unique(few.labels)) < 2 or not coding.n_codes:
        forest = ForestPredictor(view, prior, coding, _no_trees(n_classes))
        return forest, np.tile(np.log(prior), (table.n_rows if asked is None else asked[0].n_rows, 1))
    codes, case, judged = coding.codes(few)[cases.row], None, cases
    if asked is not None:
        case, judged = _standing_for(cases, (np.cumsum(is_used) - 1)[asked[1]], asked[0].case_weights)
        codes = np.concatenate([codes, coding.codes(asked[0])[judged.row]])
    trees, components = _grow(coding, codes, cases, case, prior, seed, pool)
    weights, of_cases = _learn_weights(components, prior, judged, pool)
    forest = ForestPredictor(view, prior, coding, _weighted(trees, weights, coding))
    if asked is not None:
        return forest, judged.log_mean(of_cases, asked[0].n_rows)
    log_proba = np.empty((table.n_rows, n_classes))
    log_proba[is_used] = cases.log_mean(of_cases, few.n_rows)
    log_proba[~is_used] = forest.log_proba(table.only(~is_used), pool)
    return forest, log_proba


def _is_used(table: EncodedTable) -> Mask:
    """Which rows are learnt from (n_rows,)."""
    if table.labels is None:
        return np.zeros(table.n_rows, dtype=bool)
    return np.asarray((table.labels >= 0) & (table.case_weights > 0))


@dataclass(frozen=True)
class Cases:
    """Rows in an order that depends on their content alone; one of several cases may be there several times.

    Attributes
    ----------
    row : int (n,), in the table
    labels : int32 (n,)
    weights : (n,)
    unit : int (n,), those of a unit are left out together
    """

    row: Ints
    labels: NDArray[np.int32]
    weights: Floats
    unit: Ints

    @property
    def n_units(self) -> int:
        """Number of units."""
        return int(self.unit.max(initial=-1)) + 1

    def parts(self, n_groups: int, rng: np.random.Generator) -> NDArray[np.int32]:
        """Third of the units, those of a class dealt out evenly, in which each case is (n_groups, n)."""
        label = np.empty(self.n_units, dtype=np.uint16)  # sorted by their digits
        label[self.unit] = self.labels
        parts = np.empty((n_groups, len(self.row)), dtype=np.int32)
        part = np.empty(self.n_units, dtype=np.int32)
        for of_group in parts:
            order = rng.permutation(self.n_units)
            part[order[np.argsort(label[order], kind="stable")]] = np.arange(self.n_units) % N_PARTS
            of_group[:] = part[self.unit]
        return parts

    def log_mean(self, log_p: Floats, n_rows: int) -> Floats:
        """Log of the mean of p over the cases of each row (n_rows, n_classes)."""
        log_share = np.log(self.weights / np.bincount(self.row, self.weights)[self.row])
        out = np.full((n_rows, log_p.shape[1]), -np.inf)
        np.logaddexp.at(out, self.row, log_p + log_share[:, None])
        return out


def _cases(table: EncodedTable, groups: AnyInts | None) -> Cases:
    """Cases of labelled rows.

    Equal rows are copies of one case, or cases that happen to be alike, as those of one row of such weight are
    (`folds`).
    """
    assert table.labels is not None
    order = np.lexsort((table.labels, table.fingerprint))
    if groups is not None:
        _, unit = np.unique(groups[order], return_inverse=True)
    elif repeats_are_copies(table):
        _, unit = np.unique(table.fingerprint[order], return_inverse=True)
    else:
        n_chunks = np.clip(np.ceil(table.case_weights), 1, _MOST_CHUNKS).astype(np.intp)
        row = np.repeat(order, n_chunks[order])
        return Cases(row, table.labels[row], (table.case_weights / n_chunks)[row], np.arange(len(row)))
    return Cases(order, table.labels[order], table.case_weights[order], unit)


def _standing_for(cases: Cases, row: Ints, weights: Floats) -> tuple[Ints, Cases]:
    """Rows (n_asked,) of these numbers and weights as cases: each is all those of its row, which are the first result.

    These may be several (`_cases`), each left out by trees of its own.
    """
    order = np.argsort(cases.row, kind="stable")
    first = np.searchsorted(cases.row[order], np.arange(cases.row.max() + 2))
    n_each = np.diff(first)[row]
    at = np.repeat(np.arange(len(row)), n_each)
    case = order[np.arange(len(at)) - np.repeat(np.cumsum(n_each) - n_each - first[row], n_each)]
    each = cases.weights[case] * np.maximum(weights, _LEAST_SHARE)[at]
    return case, Cases(at, cases.labels[case], each, cases.unit[case])


def _grow(
    coding: Coding,
    codes: NDArray[np.uint8],
    cases: Cases,
    asked: Ints | None,
    prior: Floats,
    seed: int,
    pool: ThreadPool,
) -> tuple[Trees, NDArray[np.float32]]:
    """Trees whose values are the shares (n_nodes, 3, n_classes), and the components of (R2) of the cases judged.

    The components (n_judged, 5, n_classes) are means over the trees that have left out the case.

    Parameters
    ----------
    codes : (n, n_columns), of the cases and then of those asked for
    asked : the case with which each of these is left out; None: the cases themselves are judged
    """
    n_columns, n_classes = len(coding.n_codes), len(prior)
    n_groups = _n_groups(len(cases.row))
    rng = np.random.default_rng(seed)
    parts, every = cases.parts(n_groups, rng), np.arange(len(cases.row))
    if asked is not None:
        parts, every = np.concatenate([parts, N_PARTS + parts[:, asked]], axis=1), np.append(every, asked)
    total = cases.weights.sum() * (N_PARTS - 1) / N_PARTS
    n_known = min(n_columns, MOST_KNOWN)
    numbers = sum(coding.n_levels) * n_known / n_columns * n_classes * n_groups * N_PARTS  # if each had one network
    *trees, components = _native.grow_forest(
        np.ascontiguousarray(codes.T),
        cases.labels[every],
        cases.weights[every],
        parts,
        coding.n_codes,
        [0] * len(coding.code_of) + [1] * len(coding.cuts),
        coding.level,
        coding.n_levels,
        prior.tolist(),
        max(2.0, total / MOST_SMALL_NODES),
        max(LEAST_NETWORK, 2 * total * numbers / MOST_NUMBERS),
        n_known,
        int(rng.integers(2**63)),
        pool,
    )
    return Trees(*trees), components if asked is None else components[len(cases.row) :]


def _n_groups(n_cases: int) -> int:
    """Fewer groups of trees for many cases, on which they differ less."""
    return int(np.clip(66_000 // n_cases, LEAST_GROUPS, MOST_GROUPS))


def _learn_weights(
    components: NDArray[np.float32], prior: Floats, cases: Cases, pool: ThreadPool
) -> tuple[Floats, Floats]:
    """Weights of (R2), (5,), and log p(c | x) (n_cases, n_classes), each case by the weights without its fold.

    Parameters
    ----------
    components : (n_cases, 5, n_classes), of the cases left out
    """
    fold = (cases.unit % N_FOLDS).astype(np.int32)
    step = -(-len(components) // MOST_JUDGED)
    found = _native.forest_weights(
        np.ascontiguousarray(components[::step]),
        np.ascontiguousarray(cases.labels[::step]),
        np.ascontiguousarray(cases.weights[::step]),
        np.ascontiguousarray(fold[::step]),
        N_FOLDS,
        np.log(prior).tolist(),
        WEIGHTS.tolist(),
        SCALE.tolist(),
        pool,
    )
    scores = np.log(prior) + np.einsum("nsk,ns->nk", components, found[1 + fold])
    return found[0], np.asarray(log_softmax(scores, axis=1))


def _weighted(trees: Trees, weights: Floats, coding: Coding) -> Trees:
    """One vector for each node and one table for each network, of shares and of networks as they are."""
    *of_shares, own, of_root = weights / len(trees.known)
    values = np.einsum("nsk,s->nk", trees.values, of_shares)
    n_classes = values.shape[1]
    tables = np.empty_like(trees.tables)
    for known, begin, end in zip(trees.known, *(trees.first_number[k:].tolist() for k in (0, 1))):
        width = n_classes * sum(coding.n_levels[j] for j in known)
        networks = trees.tables[begin:end].reshape(-1, width)
        tables[begin:end] = (own * networks + of_root * networks[0]).ravel()
    return replace(trees, values=values.astype(np.float32), tables=tables)


def _no_trees(n_classes: int) -> Trees:
    first, whole, codes = np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.int32), np.empty(0, dtype=np.uint64)
    values = np.empty((0, n_classes), dtype=np.float32)
    return Trees(
        first, first, whole, whole, whole, codes, codes, values, whole.reshape(0, 0), np.empty(0, dtype=np.float32)
    )
