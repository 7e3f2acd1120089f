"""A number of components for each class.

With p(h | c) the classes are separate mixtures: what is learnt of one does not depend on the number of components of
another. So one search with equal numbers tells the score of every class at every number, and a network can be put
together from the best of each. An unlabelled row counts for every class by its probability.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fanbayes.arrays import Floats
from fanbayes.learning.em import Problem
from fanbayes.learning.scores import Criterion
from fanbayes.model.network import Network, Statistics
from fanbayes.model.structure import fan


def class_scores(problem: Problem, network: Network, criterion: Criterion) -> Floats:
    """Share of each class in the score of a network with equal numbers of components (n_classes,).

    The penalty for parameters is shared out evenly: the classes have as many.
    """
    n, model = problem.data.total_weight, network.model
    d = model.n_parameters / model.structure.n_classes
    penalty = {"bic": 0.5 * d * math.log(n), "icl": 0.5 * d * math.log(n), "aic": d, "cs": 0.0}[criterion]

    def score(s: Statistics) -> float:
        fit = s.classification if criterion == "icl" else s.log_likelihood
        if criterion == "cs":
            fit = fit + model.log_marginal(s) - network.log_likelihood_of(s)
        return float(fit[0]) - penalty

    return np.array([score(s) for s in problem.data.e_step_by_class(network.terms)])


def compose(networks: Sequence[Network], chosen: Sequence[int]) -> Network:
    """One network of networks with equal numbers of components: of each class that of the network chosen for it."""
    parts = [(networks[k], networks[k].structure.class_of == c) for c, k in enumerate(chosen)]
    structure = fan([network.structure.n_components for network, _ in parts], "per_class")
    of_class, _ = networks[max(chosen)].structure.split(networks[max(chosen)].factors)
    components = [network.structure.split(network.factors)[1][:, own] for network, own in parts]
    cells = np.concatenate([network.per_cell()[..., own] for network, own in parts], axis=-1)
    model = replace(networks[0].model, structure=structure)
    return model.from_cells(np.concatenate([of_class, *components], axis=1), cells)
