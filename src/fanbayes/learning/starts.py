"""Initial networks.

They are drawn in parameter space, around the parameters of a simpler network: they do not depend on the order of the
rows, and a row of weight 2 counts as the row twice.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fanbayes.data.table import EncodedTable
from fanbayes.learning.expectation import Workers, expect
from fanbayes.model.families import categorical
from fanbayes.model.network import (
    Network,
    Prior,
    Statistics,
    estimate,
    estimate_factors,
    log_complete_likelihood,
    tied_cells,
)
from fanbayes.model.structure import Structure, naive_bayes

Floats = NDArray[np.float64]


def labelled_naive_bayes(
    table: EncodedTable, n_classes: int, prior: Prior, crew: Workers
) -> tuple[Network, Statistics]:
    """NB (10) of the labelled rows, and their statistics under it.

    With one state a class nothing is hidden: the statistics do not depend on the parameters, and their
    log-likelihood follows from them.
    """
    structure, layout = naive_bayes(n_classes), table.layout
    shape = (1, layout.n_numbers, n_classes)
    flat = Network(
        structure,
        layout,
        (np.zeros((1, n_classes)),),
        np.zeros((1, int(layout.first_level[-1]), n_classes)),
        np.zeros(shape),
        np.ones(shape),
    )
    statistics = expect(table.labelled_only(), flat, hard=False, crew=crew)
    network = estimate(statistics, structure, layout, prior)
    fit = log_complete_likelihood(statistics, network)
    return network, replace(statistics, log_likelihood=fit, joint=fit, classification=fit)


def random_networks(nb: Network, structure: Structure, prior: Prior, rng: np.random.Generator, n: int) -> Network:
    """`n` networks whose cells are those of naive Bayes, disturbed.

    A cell of FAN is a disturbed copy of its class's; a component of FM of that of a class, drawn by the
    class's share without replacement until all have been drawn, and prefers that class.
    """
    class_prior = np.exp(nb.log_factors[0][0])
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
    network = Network(
        structure,
        nb.layout,
        estimate_factors(weights, structure, 1e-3),
        nb.log_table[0].T[origin].swapaxes(1, 2),
        nb.mean[0].T[origin].swapaxes(1, 2),
        nb.sigma2[0].T[origin].swapaxes(1, 2),
    )
    return _disturb(network, prior, rng, np.ones((n, structure.n_cells)))


def split_networks(smaller: Network, structure: Structure, prior: Prior, rng: np.random.Generator, n: int) -> Network:
    """`n` networks with one component more than `smaller`: a copy, disturbed, of one of its own.

    The component is drawn by its share; original and copy get half of it each.
    """
    small = smaller.structure
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
    network = Network(
        structure,
        smaller.layout,
        estimate_factors(weight[state] * np.where(halved, 0.5, 1.0), structure, 1e-6),
        smaller.log_table[0].T[cells].swapaxes(1, 2),
        smaller.mean[0].T[cells].swapaxes(1, 2),
        smaller.sigma2[0].T[cells].swapaxes(1, 2),
    )
    return _disturb(network, prior, rng, noise)


def _disturb(network: Network, prior: Prior, rng: np.random.Generator, strength: Floats) -> Network:
    """Multiply probabilities by exponential variates and move means by a standard deviation.

    strength : (n_networks, n_cells), 0 leaves a cell as it is
    """
    tied = tied_cells(network.structure, prior.variance)
    sigma2 = network.sigma2 if tied is None else tied.mean(network.sigma2)
    by = strength[:, None, :]
    table = network.log_table + by * np.log(rng.exponential(size=network.log_table.shape))
    mean = network.mean + by * np.sqrt(network.sigma2) * rng.standard_normal(network.mean.shape)
    return replace(
        network,
        log_table=categorical.normalise(table, network.layout),
        mean=mean,
        sigma2=np.maximum(sigma2, prior.floor),
    )
