"""Discriminative fine-tuning: parameters moved from their generative estimate towards telling the classes apart.

    max over theta of  sum_n log p(y_n | x_n, theta) - (STRENGTH / 2) |theta - theta_EM|^2                (D1)

theta are the log weights, the log probabilities of levels and the means, these in standard deviations. One component
makes it logistic regression that is shrunk towards naive Bayes instead of towards nothing. As for feature weights, the
conditional likelihood is the difference of two log-likelihoods, of the rows with their labels and without, and its
gradient the difference of two sets of expected statistics.

The tables need not be normalised any more: they are for prediction.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.optimize import minimize

from fanbayes.arrays import Floats
from fanbayes.data.table import EncodedTable
from fanbayes.learning.e_step import ThreadPool, e_step
from fanbayes.model.network import Network, Statistics

# How much it costs to move, in cases.
STRENGTH = 0.3
# The search ends when a step gains less than this share of the loss.
TOLERANCE = 1e-5
MOST_STEPS = 100


def fine_tune(table: EncodedTable, network: Network, pool: ThreadPool) -> Network:
    """Maximise (D1), beginning at the network given.

    Parameters
    ----------
    table : rows; those without a label are left out
    network : Network of one, as EM found it
    """
    labelled = table.labelled_only()
    unlabelled = replace(labelled, labels=None)
    n_factors = network.factors.shape[1]
    sizes = [n_factors, *(p.block.n_steps * network.structure.n_cells for p in network.model.places)]

    ends = np.cumsum(sizes).tolist()

    def at(step: Floats) -> Network:
        factors, *steps = (step[a:b] for a, b in zip([0, *ends], ends))
        moved = [
            p.block.move(cells, shared, own.reshape(1, p.block.n_steps, -1))
            for (p, cells, shared), own in zip(network.parts, steps)
        ]
        return network.model.assemble(network.factors + factors, moved)

    def loss(step: Floats) -> tuple[float, Floats]:
        model = at(step)
        given, free = (e_step(t, model.terms, False, pool) for t in (labelled, unlabelled))
        value = float(free.log_likelihood[0] - given.log_likelihood[0]) + 0.5 * STRENGTH * float(step @ step)
        return value, _gradient(free, model) - _gradient(given, model) + STRENGTH * step

    options: Any = {"maxiter": MOST_STEPS, "ftol": TOLERANCE}
    found = minimize(loss, np.zeros(sum(sizes)), jac=True, method="L-BFGS-B", options=options)
    return at(found.x)


def _gradient(s: Statistics, network: Network) -> Floats:
    """Derivative of the log-likelihood by log factors and by what the blocks move."""
    factors = [s.states @ f.indicator for f in network.structure.factors]
    blocks = [p.block.gradient(s.cells[:, p.statistics], *theta) for p, *theta in network.parts]
    return np.concatenate([x.ravel() for x in (*factors, *blocks)])
