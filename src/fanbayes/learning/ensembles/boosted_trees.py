"""Boosted trees: small trees, each grown on what those before it leave unexplained.

Of each class, a tree sees the derivatives of the loss by its score F(c), which is log p(c) before the first tree: over
the cases of a node k,

    G_k(c) = sum of p(c | x) - [y = c] ,    H_k(c) = sum of p(c | x) (1 - p(c | x)) ,    p = softmax F

It takes the cut with the largest sum over both sides and the classes of G^2 / (H + m), and moves the scores by

    v_k(c) = - r (K - 1) / K  G_k(c) / (H_k(c) + m)                                                  (B1)

with K classes and a small rate r. Of many classes, the cuts of a tree look at a few, drawn by how much is unexplained
of them; all of them move.

There is a sequence of trees for each part of the cases, grown without it; their mean is what predicts,

    log p(c | x) = log p(c) + sum_s w_s mean over sequences of sum over the trees of stage s of v_k(c) + const   (B2)

with weights of the stages, the first rounds of boosting, the next ones and so on, learnt from the cases left out (T2):
that is how many rounds are taken, and how far their steps reach. What one sequence says of a case that it has left out
is what is weighed. No stage is begun after one that has hardly helped. Of many cases, a tree is grown on those of which
much is unexplained and on some of the others, which count for all of them (src/native/boosted_trees.cpp). As in all
trees of this library a row that lacks a value ends where no case lacked it (`nb_forest`), with the step of that node.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from fanbayes import _native
from fanbayes.arrays import Floats
from fanbayes.learning.e_step import ThreadPool
from fanbayes.learning.ensembles.coded_trees import Trees
from fanbayes.learning.ensembles.left_out import Grown, Material, Method, fit_trees

# Rounds of boosting at the end of each stage.
ENDS = (20, 60, 150, 300, 500)
# r and m of (B1).
RATE, SHRINKAGE = 0.1, 1.0
# Least cases of a node.
LEAST_CASES = 3.0
# Steps from the root to a leaf: more where there are more cases to tell interactions from chance.
LEAST_DEPTH, MOST_DEPTH = 3, 6
# Where there are more cases, so large a part of those of a sequence as this is of all is drawn anew for each tree.
MOST_DRAWN = 40_000
# A node takes the best of a third of the columns, and of no more than these.
MOST_TRIED = 128
# Sequences, and how many there are of many cases, where one is much like another.
N_SEQUENCES, FEW_SEQUENCES, MANY_CASES = 5, 3, 5_000
# Rows that are learnt from.
MOST_ROWS = 100_000


def _grow(material: Material, rng: np.random.Generator, pool: ThreadPool) -> Grown:
    n, n_columns = float(material.cases.weights.sum()), len(material.coding.n_codes)
    n_sequences = min(N_SEQUENCES if n < MANY_CASES else FEW_SEQUENCES, material.cases.n_units // 2)
    codes, labels, weights, units = material.native()
    first_node, stage, *nodes, values, components = _native.grow_boosted(
        codes,
        labels,
        weights,
        units,
        material.parts(1, n_sequences, rng)[0],
        n_sequences,
        *material.coding.native(),
        material.prior.tolist(),
        list(ENDS),
        int(np.clip(np.log2(n / 100), LEAST_DEPTH, MOST_DEPTH)),
        RATE,
        SHRINKAGE,
        LEAST_CASES,
        min(1.0, MOST_DRAWN / len(material.cases.row)),
        int(np.clip((n_columns + 2) // 3, 1, MOST_TRIED)),
        int(rng.integers(2**63)),
        pool,
    )

    def weighted(weights: Floats) -> Trees:
        """Without the trees of stages that do not count; none has a network."""
        n_nodes = np.diff(first_node)
        is_kept, of_node = weights[stage] > 0, np.repeat(weights[stage] / n_sequences, n_nodes)
        first = np.append(0, np.cumsum(n_nodes[is_kept]))
        column, right, to_left, to_right = (array[of_node > 0] for array in nodes)
        moved = (values * of_node[:, None]).astype(np.float32)[of_node > 0]
        known, tables = np.empty((len(first) - 1, 0), dtype=np.int32), np.empty(0, dtype=np.float32)
        return Trees(
            first, np.zeros_like(first), column, right, np.zeros_like(column), to_left, to_right, moved, known, tables
        )

    return Grown(components[-len(material.judged.row) :], weighted)


BOOSTED = Method(_grow, np.full(len(ENDS), 1.0), np.full(len(ENDS), 1.0), MOST_ROWS)
fit_boosted = partial(fit_trees, BOOSTED)
