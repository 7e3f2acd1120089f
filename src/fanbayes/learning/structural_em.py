"""Arcs and parameters in turn (Friedman 1998; Meila & Jordan 2000): structural EM.

A network completes the rows, the completed rows tell which tree is the best, EM fits the network with that tree, and so
on, until a tree comes again. Within one tree no step of EM can fall; of the trees, the best by its score is taken.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from fanbayes.data.table import EncodedTable
from fanbayes.learning.data import InMemoryData
from fanbayes.learning.em import Problem, final_state, initial_state, run_em
from fanbayes.learning.partitioned import PartitionedData, PartitionedTable
from fanbayes.learning.scores import Criterion
from fanbayes.learning.state import EMState
from fanbayes.learning.tree_data import tree_data
from fanbayes.learning.tree_search import best_tree, completed
from fanbayes.model.network import Network
from fanbayes.model.tree import tree_layout

MOST_TREES = 8


@dataclass(frozen=True)
class ArcSearch:
    """How arcs are found.

    Attributes
    ----------
    rows : not fused
    full : whether all columns are joined, or only where the score rises by it
    root : column of the layout to begin with; None: the one that tells most about the state
    apart : columns of the layout that are never joined, each with the other one: a value and its indicator
    """

    rows: EncodedTable | PartitionedTable
    full: bool
    root: int | None
    apart: Mapping[int, int]


def fit_trees(
    problem: Problem, arcs: ArcSearch, network: Network, criterion: Criterion, n_passes: int, tol: float
) -> list[tuple[Problem, EMState]]:
    """EM with one tree after the other, begun with a network without arcs; nothing where no arc pays."""
    assert isinstance(problem.data, (InMemoryData, PartitionedData))
    pool, n = problem.data.pool, problem.data.total_weight
    price = 1.0 if criterion == "aic" else 0.5 * math.log(n)
    structure, found, seen = network.structure, [], set()
    for _ in range(MOST_TREES):
        rows = completed(arcs.rows, network, pool)
        tree = best_tree(rows, price, full=arcs.full, root=arcs.root, apart=arcs.apart)
        if tree.parent in seen or tree.n_arcs == 0:
            break
        seen.add(tree.parent)
        layout = tree_layout(arcs.rows.layout, tree)
        data = tree_data(layout, arcs.rows, pool)
        with_tree = replace(problem, data=data)
        statistics = rows.statistics(layout)
        network = with_tree.model(structure).estimate(statistics)
        if structure.n_components == 1 and data.is_labelled:  # nothing is hidden
            fit = network.log_likelihood_of(statistics)
            statistics = replace(statistics, log_likelihood=fit, joint=fit, classification=fit)
            return [(with_tree, final_state(with_tree, network, statistics))]
        state = run_em(with_tree, initial_state(with_tree, network), n_passes, tol)
        found.append((with_tree, state))
        network = state.network
    return found
