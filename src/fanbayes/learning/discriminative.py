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
from numpy.typing import NDArray
from scipy.optimize import minimize

from fanbayes.data.table import EncodedTable
from fanbayes.learning.expectation import Workers, expect
from fanbayes.model.network import Network, Statistics

Floats = NDArray[np.float64]


# How much it costs to move, in cases.
STRENGTH = 0.3
# The search ends when a step gains less than this share of the loss.
TOLERANCE = 1e-5
MOST_STEPS = 100


def fine_tune(table: EncodedTable, network: Network, crew: Workers) -> Network:
    """Maximise (D1), beginning at the network given.

    Parameters
    ----------
    table : rows; those without a label are left out
    network : Network of one, as EM found it
    """
    labelled = table.labelled_only()
    unlabelled = replace(labelled, labels=None)
    deviation = np.sqrt(network.sigma2)
    *origin, sigma2 = network.parameters
    sizes = np.cumsum([p.size for p in origin])[:-1]

    def at(step: Floats) -> Network:
        moves = [part.reshape(p.shape) for part, p in zip(np.split(step, sizes), origin)]
        moves[-1] = moves[-1] * deviation
        return network.with_parameters([*(p + move for p, move in zip(origin, moves)), sigma2])

    def loss(step: Floats) -> tuple[float, Floats]:
        model = at(step)
        given, free = (expect(t, model, False, crew) for t in (labelled, unlabelled))
        value = float(free.log_likelihood[0] - given.log_likelihood[0]) + 0.5 * STRENGTH * float(step @ step)
        return value, _gradient(free, model) - _gradient(given, model) + STRENGTH * step

    start = np.zeros(sum(p.size for p in origin))
    options: Any = {"maxiter": MOST_STEPS, "ftol": TOLERANCE}
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options=options)
    return at(found.x)


def _gradient(s: Statistics, network: Network) -> Floats:
    """Derivative of the log-likelihood by log factors, log table and means (in standard deviations)."""
    n, first = s.moments[:, 0], s.moments[:, 1]
    parts = [
        *(s.states @ f.indicator for f in network.structure.factors),
        _without_missing(s.counts, network),
        (first - n * network.mean) / np.sqrt(network.sigma2),
    ]
    return np.concatenate([p.ravel() for p in parts])


def _without_missing(counts: Floats, network: Network) -> Floats:
    counts = counts.copy()
    counts[:, network.layout.missing_level] = 0.0
    return counts
