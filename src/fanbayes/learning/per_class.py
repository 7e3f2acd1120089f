"""A number of components for each class.

With p(h | c) the classes are separate mixtures: what is learnt of one does not depend on the number of components of
another. So one search with equal numbers tells the score of every class at every number, and a network can be put
together from the best of each. An unlabelled row counts for every class by its probability.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from fanbayes.data.table import EncodedTable
from fanbayes.learning.em import Problem
from fanbayes.learning.expectation import expect, posterior
from fanbayes.learning.scores import Criterion
from fanbayes.model.network import Network, log_complete_likelihood, log_complete_marginal, n_parameters
from fanbayes.model.structure import fan

Floats = NDArray[np.float64]


def class_scores(problem: Problem, network: Network, criterion: Criterion) -> Floats:
    """Share of each class in the score of a network with equal numbers of components (n_classes,).

    The penalty for parameters is shared out evenly: the classes have as many.
    """
    n, n_classes = problem.table.total_weight, network.structure.n_classes
    d = n_parameters(network.structure, network.layout, problem.prior.variance) / n_classes
    penalty = {"bic": 0.5 * d * math.log(n), "icl": 0.5 * d * math.log(n), "aic": d, "cs": 0.0}[criterion]
    found = np.empty(n_classes)
    for c, tables in enumerate(_by_class(problem, network)):
        first, *others = (expect(t, network, False, problem.crew) for t in tables)
        s = reduce(lambda a, b: a.map(np.add, b), others, first)
        fit = s.classification if criterion == "icl" else s.log_likelihood
        if criterion == "cs":
            fit = fit + log_complete_marginal(s, network.structure, network.layout, problem.prior)
            fit = fit - log_complete_likelihood(s, network)
        found[c] = float(fit[0]) - penalty
    return found


def _by_class(problem: Problem, network: Network) -> list[list[EncodedTable]]:
    """Rows of each class: those labelled so, and the unlabelled ones weighted by its probability."""
    table, n_classes = problem.table, network.structure.n_classes
    labels = np.full(table.n_rows, -1, dtype=np.int32) if table.labels is None else table.labels
    labelled = [[table.only(labels == c)] for c in range(n_classes)]
    unlabelled = table.only(labels < 0)
    if unlabelled.n_rows == 0:
        return labelled
    proba = posterior(unlabelled, network, "proba", problem.crew)
    weight = np.ones(unlabelled.n_rows) if unlabelled.weights is None else unlabelled.weights
    return [
        [*own, replace(unlabelled, labels=np.full(len(weight), c, dtype=np.int32), weights=weight * proba[:, c])]
        for c, own in enumerate(labelled)
    ]


def compose(networks: Sequence[Network], chosen: Sequence[int]) -> Network:
    """One network of networks with equal numbers of components: of each class that of the network chosen for it."""
    sizes = [networks[k].structure.n_components for k in chosen]
    structure = fan(sizes, "per_class")
    parts = [(networks[k], networks[k].structure.class_of == c) for c, k in enumerate(chosen)]

    def cells(name: str) -> Floats:
        return np.concatenate([getattr(network, name)[..., own] for network, own in parts], axis=-1)

    components = np.concatenate([network.log_factors[1][:, own] for network, own in parts], axis=1)
    largest = networks[max(chosen)]
    return Network(
        structure,
        largest.layout,
        (largest.log_factors[0], components),
        cells("log_table"),
        cells("mean"),
        cells("sigma2"),
    )
