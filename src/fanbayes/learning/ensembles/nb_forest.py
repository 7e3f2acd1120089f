"""Forests of randomised trees with naive Bayes in their nodes.

A tree is grown on two thirds of the cases, down to small nodes. At each it takes, of some columns drawn at random, the
cut of largest information gain. Every node k has class shares p_k(c), and every node of enough cases a naive Bayes
network p_k(x_i | c), both shrunk towards those of the node above,

    p_k(c) = (N_k(c) + m p_above(c)) / (N_k + m) ,                                                   (R1)

and the other nodes the network of the nearest such node above. With k the node in which a row ends, the forest is

    log p(c | x) = log p(c) + mean over trees of [ v (q_k(c) - p(c)) + u log q'_k(c) / p(c) + w log q"_k(c) / p(c)
                                    + a sum_i log p_k(x_i | c) + b sum_i log p_root(x_i | c) ]  + const  (R2)

where q, q' and q" are p_k for m = 0.3, 0.03 and 3: what shares say as votes, and as evidence that is less or more
cautious. The five weights are learnt from the cases left out (T2); so they temper the evidence, which the trees share,
and choose between deep trees and networks.

A case ends before a leaf where its value is missing, or one that no case in the node had: what else is known of it is
left to the network of the node. Where cases of the node lack the value they go to the side that suits them better,
and so does a row. Thus, if no case lacks anything, a row that lacks everything gets p(c).

The trees come in groups of three: each leaves out another third of the cases, so that every case is left out as often
as any other.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from fanbayes import _native
from fanbayes.arrays import Floats
from fanbayes.learning.e_step import ThreadPool
from fanbayes.learning.ensembles.coded_trees import Coding, Trees
from fanbayes.learning.ensembles.left_out import Grown, Material, Method, fit_trees

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


def _grow(material: Material, rng: np.random.Generator, pool: ThreadPool) -> Grown:
    """Trees whose values are the shares (n_nodes, 3, n_classes)."""
    coding, cases, n_classes = material.coding, material.cases, len(material.prior)
    n_groups = _n_groups(len(cases.row))
    parts = material.parts(n_groups, N_PARTS, rng)
    total = cases.weights.sum() * (N_PARTS - 1) / N_PARTS
    n_columns = len(coding.n_codes)
    n_known = min(n_columns, MOST_KNOWN)
    numbers = sum(coding.n_levels) * n_known / n_columns * n_classes * n_groups * N_PARTS  # if each had one network
    codes, labels, weights, _ = material.native()
    *grown, components = _native.grow_forest(
        codes,
        labels,
        weights,
        parts,
        *coding.native(),
        material.prior.tolist(),
        max(2.0, total / MOST_SMALL_NODES),
        max(LEAST_NETWORK, 2 * total * numbers / MOST_NUMBERS),
        n_known,
        int(rng.integers(2**63)),
        pool,
    )
    trees = Trees(*grown)
    return Grown(components[-len(material.judged.row) :], lambda weights: _weighted(trees, weights, coding))


def _n_groups(n_cases: int) -> int:
    """Fewer groups of trees for many cases, on which they differ less."""
    return int(np.clip(66_000 // n_cases, LEAST_GROUPS, MOST_GROUPS))


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


# v, u, w, a, b of (R2)
FOREST = Method(_grow, np.array([2.0, 0.1, 0.2, 0.2, 0.1]), np.array([1.0, 0.4, 0.4, 0.4, 0.4]))
fit_forest = partial(fit_trees, FOREST)
