"""Trees with naive Bayes or FAN in their leaves: why this class, and the tree as a person can read it.

In a leaf k, log p_k(c, h, x) is a sum over features. The prior of the leaf is the prior of the root and what every
split on the way there changed of it, which counts for the column split on:

    u_k(c, h; t) = log p_root(c) + log p_k(h | c) + t sum_i l_i(k, c, h)
    l_i(k, c, h) = log p_k(x_i | c, h) + sum over splits on column i of log p_below(c) - log p_above(c)

t = 0 is the root with nothing known, t = 1 the leaf with the row. A row that arrives in several leaves is their
mixture, by its shares v_k: with p_k(c) = sum_{s of c} q_k(s), q_k = softmax_s u_k, and r_k(c) the share of leaf k in
sum_k v_k p_k(c),

    d/dt log sum_k v_k p_k(c) = sum_i sum_ks r_k(c) [ [s of c] q_k(s) / p_k(c) - q_k(s) ] l_i(k, s)

whose integral over t (`explanation.path`) gives the contributions, those of Aumann and Shapley. In one leaf these are
differences of the l_i. So what is missing may contribute, where the tree splits on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, softmax, xlogy

from fanbayes.arrays import Floats, Ints, Mask
from fanbayes.data.table import EncodedTable
from fanbayes.data.views import Encodings
from fanbayes.explanation.contributions import by_feature, check_sum, chosen_pairs, missing_values, told
from fanbayes.explanation.explanation import Attribution, Explanation
from fanbayes.explanation.information import Density, column_density, feature_density
from fanbayes.explanation.path import integrate
from fanbayes.learning.e_step import ThreadPool
from fanbayes.learning.ensembles.nb_tree import NBTree
from fanbayes.model.blocks.categorical import level_names
from fanbayes.model.network import Network

_NUMBERS_AT_ONCE = 1 << 20
_MOST_CLASSES = 3  # in the text of a node


def explain_tree(
    model: NBTree, table: EncodedTable, classes: NDArray[Any], pair: Sequence[Any] | None, pool: ThreadPool
) -> Explanation:
    """Attribute the log-odds of two classes to the features of encoded rows.

    Parameters
    ----------
    model : NBTree
    table : rows by its schema
    classes : labels (n_classes,)
    pair : two of the labels; None for the most probable class of each row against the next

    Returns
    -------
    Explanation
        `part` is the leaf that adds most to the probability of the class.
    """
    schema, n = model.schema, table.n_rows
    pairs = chosen_pairs(model.posterior(Encodings((schema,), (table,)), "log_proba", pool), classes, pair)
    missing = missing_values(schema, table)
    n_columns = len(schema.columns)
    found = Attribution(np.empty(n), np.empty(n), np.zeros((n, n_columns)), np.empty(n, dtype=np.intp), np.empty(n))
    gain = np.where(missing, 0.0, np.nan)
    paths = _Paths(model)
    for leaves, rows, log_share in _together(model, table):
        step = max(1, _NUMBERS_AT_ONCE // (paths.n_states(leaves) * max(1, len(schema.discrete))))
        for at in range(0, len(rows), step):
            some = rows[at : at + step]
            part, states = paths.attribute(table.only(some), leaves, log_share[at : at + step], pairs[some], some)
            part = replace(part, contributions=by_feature(schema, part.contributions))
            for f in fields(Attribution):
                getattr(found, f.name)[some] = getattr(part, f.name)
            gain[some] = paths.information(states, missing[some], column_density)
    return told(found, "leaf", schema, table, classes[pairs], gain)


def _together(model: NBTree, table: EncodedTable) -> list[tuple[Ints, Ints, Floats]]:
    """Sets of leaves, with the rows that arrive in exactly these, and the logs of their shares (n_rows, n_leaves)."""
    arrivals = list(model.tree.arrivals(table))
    row = np.concatenate([rows for _, rows, _ in arrivals])
    leaf = np.repeat([number for number, _, _ in arrivals], [len(rows) for _, rows, _ in arrivals])
    log_share = np.concatenate([shares for _, _, shares in arrivals])
    order = np.lexsort((leaf, row))
    row, leaf, log_share = row[order], leaf[order], log_share[order]
    first = np.searchsorted(row, np.arange(table.n_rows + 1))
    groups: dict[bytes, list[int]] = {}
    for i in range(table.n_rows):
        groups.setdefault(leaf[first[i] : first[i + 1]].tobytes(), []).append(i)
    found = []
    for members in groups.values():
        rows = np.array(members)
        size = first[rows[0] + 1] - first[rows[0]]
        place = first[rows][:, None] + np.arange(size)
        found.append((leaf[place[0]], rows, log_share[place]))
    return found


def _log_prior(leaf: Network) -> Floats:
    """Log p(c) (n_classes,)."""
    first = np.searchsorted(leaf.structure.class_of, np.arange(leaf.structure.n_classes))
    return np.logaddexp.reduceat(leaf.log_weight[0], first)


@dataclass(frozen=True)
class _MixturePath:
    """From the root with nothing known to the rows.

    Attributes
    ----------
    classes, leaf : int (n_states,), class and leaf of each state
    log_share : (n_rows, n_leaves), log v_k
    pairs : int (n_rows, 2)
    start : (n_states,), u at t = 0
    slope : (n_rows, n_states), sum_i l_i(k, s)
    """

    classes: Ints
    leaf: Ints
    log_share: Floats
    pairs: Ints
    start: Floats
    slope: Floats

    def log_odds(self, t: Floats, row: Ints) -> tuple[Floats, Floats]:
        """Log-odds at t, (n,), and the leaves' shares in the first class, (n, n_leaves)."""
        _, log_p = self._log_classes(t, row)
        log_mixed = log_p + self.log_share[row]
        total = logsumexp(log_mixed, axis=2)  # (2, n)
        return total[0] - total[1], np.exp(log_mixed[0] - total[0][:, None])

    def _log_classes(self, t: Floats, row: Ints) -> tuple[Floats, Floats]:
        """Log q_k(s), (n, n_states), and log p_k(c) of both classes, (2, n, n_leaves)."""
        u = self.start + t[:, None] * self.slope[row]
        edges = np.flatnonzero(np.diff(self.leaf, prepend=-1))
        log_q = u - np.logaddexp.reduceat(u, edges, axis=1)[:, self.leaf]
        of_pair = [np.where(self.classes == self.pairs[row][:, [k]], log_q, -np.inf) for k in (0, 1)]
        with np.errstate(invalid="ignore"):
            return log_q, np.stack([np.logaddexp.reduceat(x, edges, axis=1) for x in of_pair])

    def coefficient(self, t: Floats, row: Ints) -> Floats:
        """What multiplies l_i(k, s) in the derivative of the log-odds, (n, n_states)."""
        log_q, log_p = self._log_classes(t, row)
        log_mixed = log_p + self.log_share[row]
        share = np.exp(log_mixed - logsumexp(log_mixed, axis=2, keepdims=True))  # r_k(c), (2, n, n_leaves)
        total = -(share[0] - share[1])[:, self.leaf] * np.exp(log_q)
        for k, sign in ((0, 1.0), (1, -1.0)):
            mine = self.classes == self.pairs[row][:, [k]]
            within = np.exp(np.where(mine, log_q - log_p[k][:, self.leaf], -np.inf))
            total += sign * share[k][:, self.leaf] * within
        return np.asarray(total)


class _Paths:
    """The ways from the root to the leaves of a tree."""

    def __init__(self, model: NBTree) -> None:
        tree = model.tree
        self.model = model
        self._prior = tree.log_prior.copy()  # of the nodes (n_nodes, n_classes)
        self._prior[tree.leaves] = [_log_prior(leaf) for leaf in model.leaves]

    def n_states(self, leaves: Ints) -> int:
        """Number of states of some leaves together."""
        return sum(self.model.leaves[k].structure.n_states for k in leaves)

    def _changes(self, number: int) -> Floats:
        """What the splits above a leaf change of the log prior, by column (n_discrete, n_classes)."""
        tree, node = self.model.tree, int(self.model.tree.leaves[number])
        changes = np.zeros((len(self.model.schema.discrete), self._prior.shape[1]))
        while node:
            above = int(tree.parent[node])
            changes[tree.column[above]] += self._prior[node] - self._prior[above]
            node = above
        return changes

    def attribute(
        self, table: EncodedTable, leaves: Ints, log_share: Floats, pairs: Ints, names: Ints
    ) -> tuple[Attribution, list[tuple[int, Floats]]]:
        """Contributions of the discrete columns for rows of some leaves, and of each leaf its p(k, c, h | x).

        Parameters
        ----------
        log_share : (n_rows, n_leaves)
        pairs : int (n_rows, 2)
        names : numbers of the rows, for errors
        """
        n, levels = table.n_rows, table.layout.first_level[:-1] + table.codes_of_columns()
        start, classes, terms, sizes = [], [], [], []
        for k in leaves:
            network = self.model.leaves[k]
            structure = network.structure
            own = network.terms.log_table[0][levels[:, :, None], structure.cell_of]  # (n, n_discrete, n_states)
            terms.append(own + self._changes(k)[:, structure.class_of])
            of_leaf = self._prior[self.model.tree.leaves[k]]
            start.append(self._prior[0][structure.class_of] + network.log_weight[0] - of_leaf[structure.class_of])
            classes.append(structure.class_of)
            sizes.append(structure.n_states)
        owner = np.repeat(np.arange(len(leaves)), sizes)
        every = np.concatenate(terms, axis=2)
        path = _MixturePath(
            np.concatenate(classes), owner, log_share, pairs, np.concatenate(start), np.asarray(every.sum(axis=1))
        )
        size = np.maximum(1.0, np.abs(every).sum(axis=1).max(axis=1))
        contributions = np.einsum("nis,ns->ni", every, integrate(path, size))
        row = np.arange(n)
        begin, (end, share) = path.log_odds(np.zeros(n), row)[0], path.log_odds(np.ones(n), row)
        best = np.argmax(share, axis=1)
        found = Attribution(end, begin, contributions, leaves[best], share[row, best])
        check_sum(found, size, names)
        ends = np.cumsum(sizes)[:-1]
        within = [softmax(u, axis=1) for u in np.split(path.start + path.slope, ends, axis=1)]
        states = [np.exp(log_share[:, [m]]) * q for m, q in enumerate(within)]
        return found, [(int(k), q) for k, q in zip(leaves, states)]

    def information(self, states: list[tuple[int, Floats]], wanted: Mask, density_of: Density) -> Floats:
        """I(C; X_i | x) (n_rows, n_features) of what is wanted, NaN elsewhere, given p(k, c, h | x) of each leaf.

        The joint probability of class and value is the mixture over the leaves, each of which has some of the values.
        """
        schema, K = self.model.schema, self._prior.shape[1]
        gain = np.where(wanted, 0.0, np.nan)
        for j in schema.features:
            rows = np.flatnonzero(wanted[:, j])
            if not len(rows):
                continue
            joint: Floats | float = 0.0  # (n_rows, n_classes, n_points)
            for k, q in states:
                leaf = self.model.leaves[k]
                density = density_of(leaf, schema, j)[0][leaf.structure.cell_of]  # (n_states, n_points)
                of_class = [leaf.structure.class_of == c for c in range(K)]
                joint = joint + np.stack([q[rows][:, mine] @ density[mine] for mine in of_class], axis=1)
            p = np.asarray(joint)
            terms = xlogy(p, p) - xlogy(p, p.sum(axis=2, keepdims=True)) - xlogy(p, p.sum(axis=1, keepdims=True))
            gain[rows, j] = np.maximum(terms.sum(axis=(1, 2)), 0.0)
        return gain


# ---------------------------------------------------------------- the tree itself


def tree_information(model: NBTree) -> Floats:
    """Mutual information of each column with the class (n_columns,), in nats, under the mixture of all leaves."""
    leaves = enumerate(zip(model.shares.tolist(), model.leaves))
    states = [(k, share * np.exp(leaf.log_weight)) for k, (share, leaf) in leaves]
    wanted = np.ones((1, len(model.schema.columns)), dtype=bool)
    return _Paths(model).information(states, wanted, feature_density).ravel()


def describe_tree(model: NBTree, classes: Sequence[Any]) -> list[dict[str, Any]]:
    """Nodes, each before those below it, as plain values.

    Returns
    -------
    list of dict
        "node", "parent" (None for the root), "depth", "condition" that leads here, the "feature" split on (None for a
        leaf), "cases", "loss" (None where it was not judged), "components" of a leaf and "prior", p(c) by class.
    """
    tree = model.tree
    conditions = _conditions(model)
    n_components = iter([leaf.structure.n_components for leaf in model.leaves])
    prior = np.exp(tree.log_prior - logsumexp(tree.log_prior, axis=1, keepdims=True))
    return [
        {
            "node": node,
            "parent": int(tree.parent[node]) if node else None,
            "depth": int(tree.depth[node]),
            "condition": conditions[node],
            "feature": None if column < 0 else model.schema[model.schema.discrete[column]].name,
            "cases": float(tree.cases[node]),
            "loss": None if np.isnan(tree.loss[node]) else float(tree.loss[node]),
            "components": next(n_components) if column < 0 else None,
            "prior": [{"class": label, "prior": p} for label, p in zip(classes, prior[node].tolist())],
        }
        for node, column in enumerate(tree.column.tolist())
    ]


def _conditions(model: NBTree) -> list[str]:
    """What has to hold of a node's parent's column for a row to come to it (n_nodes,)."""
    tree, schema = model.tree, model.schema
    found = [""]
    for node in range(1, len(tree)):
        above = tree.parent[node]
        column, branch = schema[schema.discrete[tree.column[above]]], int(tree.branch[node])
        if tree.threshold[above] < 0:
            found.append(f"{column.name} = {level_names(column)[branch]}")
        elif column.kind == "binned":
            found.append(f"{column.name} {'>' if branch else '<='} {column.cuts[tree.threshold[above]]:.6g}")
        else:  # no fit splits so, but a file may
            found.append(f"{column.name} {'after' if branch else 'up to'} {level_names(column)[tree.threshold[above]]}")
    return found


def tree_text(nodes: Sequence[dict[str, Any]], max_depth: int | None = None) -> str:
    """Nodes, as `describe_tree` describes them, as lines of text, those below a node further to the right."""
    shown = [node for node in nodes if max_depth is None or node["depth"] <= max_depth]
    cut = [node["depth"] == max_depth and node["feature"] is not None for node in shown]
    more = (f"; split on {node['feature']}" if is_cut else "" for node, is_cut in zip(shown, cut))
    return "".join(f"{node_line(node)}{split}\n" for node, split in zip(shown, more))


def node_line(node: dict[str, Any]) -> str:
    """The condition that leads to a node, its cases, its most probable classes, and what it is."""
    n = node["components"]
    kind = "" if n is None else "; naive Bayes" if n == 1 else f"; FAN, {n} components"
    likely = sorted(node["prior"], key=lambda entry: -entry["prior"])[:_MOST_CLASSES]
    shares = ", ".join(f"{entry['class']} {entry['prior']:.2f}" for entry in likely)
    more = ", ..." if len(node["prior"]) > _MOST_CLASSES else ""
    condition = f"{node['condition']}: " if node["condition"] else ""
    return f"{'|   ' * node['depth']}|--- {condition}{node['cases']:.6g} cases, {shares}{more}{kind}"
