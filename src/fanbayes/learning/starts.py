"""Initial networks.

They are drawn in parameter space, around the parameters of a simpler network: they do not depend on the order of the
rows, and a row of weight 2 counts as the row twice.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fanbayes.arrays import Floats, Ints
from fanbayes.learning.em import Problem
from fanbayes.model.blocks.gaussian import Gaussian
from fanbayes.model.blocks.multivariate_normal import MultivariateNormal
from fanbayes.model.network import Model, Network, Statistics, Terms
from fanbayes.model.structure import naive_bayes


def labelled_naive_bayes(problem: Problem, n_classes: int) -> tuple[Network, Statistics]:
    """NB (10) of the labelled rows, and their statistics under it.

    With one state a class nothing is hidden: the statistics do not depend on the parameters, and their
    log-likelihood follows from them.
    """
    model = problem.model(naive_bayes(n_classes))
    statistics = problem.data.labelled().e_step(Terms.nothing(model.structure, model.layout))
    network = model.estimate(statistics)
    fit = network.log_likelihood_of(statistics)
    return network, replace(statistics, log_likelihood=fit, joint=fit, classification=fit)


def random_networks(nb: Network, model: Model, rng: np.random.Generator, n: int) -> Network:
    """`n` networks whose cells are those of naive Bayes, disturbed.

    A cell of FAN is a disturbed copy of its class's; a component of FM of that of a class, drawn by the
    class's share without replacement until all have been drawn, and prefers that class.
    """
    structure, class_prior = model.structure, np.exp(nb.factors[0])
    n_classes, n_components = structure.n_classes, structure.n_components
    if structure.class_of_cell is not None:
        origin = np.tile(structure.class_of_cell, (n, 1))
        states = class_prior[structure.class_of] / np.bincount(structure.class_of)[structure.class_of]
        weights = np.tile(states, (n, 1))
    else:
        rounds = -(-n_components // n_classes)
        draws = [
            [rng.choice(n_classes, n_classes, replace=False, p=class_prior) for _ in range(rounds)] for _ in range(n)
        ]
        origin = np.array(draws).reshape(n, -1)[:, :n_components]
        own = origin[:, structure.component_of] == structure.class_of
        weights = (0.5 * class_prior[structure.class_of] + 0.5 * own) / n_components
    return _copied(nb, model, weights, 1e-3, origin).perturb(np.ones((n, structure.n_cells)), rng)


def split_networks(smaller: Network, model: Model, rng: np.random.Generator, n: int) -> Network:
    """`n` networks with one component more than `smaller`: a copy, disturbed, of one of its own.

    The component is drawn by its share; original and copy get half of it each.
    """
    small, structure = smaller.structure, model.structure
    weight = np.exp(smaller.log_weight[0])
    share = np.bincount(small.component_of, weights=weight)
    chosen = rng.choice(small.n_components, n, p=share / share.sum())
    new = structure.component_of >= small.n_components  # (n_states,)
    source = np.where(new, chosen[:, None], structure.component_of)  # component that each state copies
    position = np.full((small.n_classes, small.n_components), -1)
    position[small.class_of, small.component_of] = np.arange(small.n_states)
    state = position[structure.class_of, source]  # (n, n_states)
    halved = source == chosen[:, None]
    cells = np.zeros((n, structure.n_cells), dtype=np.intp)
    noise = np.zeros((n, structure.n_cells))
    cells[:, structure.cell_of] = small.cell_of[state]
    noise[:, structure.cell_of] = np.where(new, 1.0, 0.0)
    states = weight[state] * np.where(halved, 0.5, 1.0)
    return _copied(smaller, model, states, 1e-6, cells).perturb(noise, rng)


def uncorrelated(network: Network, model: Model) -> Network:
    """The network of a model with full covariances that is equal to one in which columns are independent."""
    parts = []
    for there, (here, *theta) in zip(model.places, network.parts):
        if isinstance(there.block, MultivariateNormal) and isinstance(here.block, Gaussian):
            parts.append(there.block.uncorrelated(*here.block.unpack(*theta)))
        else:
            parts.append((theta[0], theta[1]))
    return model.assemble(network.factors, parts)


def _copied(source: Network, model: Model, states: Floats, alpha: float, cells: Ints) -> Network:
    """Networks whose cells are copies of those of another, by number (n, n_cells), and states of these weights."""
    written = source.per_cell()[0].T[cells].swapaxes(1, 2)
    return model.from_cells(model.structure.estimate_factors(states, alpha), written)
