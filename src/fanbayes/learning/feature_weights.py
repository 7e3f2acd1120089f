"""Feature weights (E1) that maximise the conditional likelihood of rows that the networks have not seen.

    sum_n log p(y_n | x_n) = sum_n [ log sum_h (E1)(y_n, h) - log sum_{c,h} (E1)(c, h) ]                 (E2)

Both terms are log-likelihoods of the same rows, once with their labels and once without, so that two E-steps give
(E2) and, by their expected statistics, its gradient: the difference of E[log p(x_i | c, h)] for w_i, and of the
expected class counts for b_c. Nothing is kept for single rows.

The weights are shrunk towards their mean, the mean weakly towards 1, the offsets towards 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from fanbayes.arrays import Floats
from fanbayes.data.table import EncodedTable
from fanbayes.learning.e_step import ThreadPool, e_step
from fanbayes.model.network import Network
from fanbayes.model.weighted_network import WeightedNetwork

MOST = 3.0
# The search ends when a step gains less than this share of the loss.
TOLERANCE = 1e-5
MOST_STEPS = 50
SHRINK_WEIGHTS = 16.0
SHRINK_MEAN = 1.0
SHRINK_OFFSET = 1.0


@dataclass(frozen=True)
class HeldOut:
    """Rows, and a network that was learnt without them.

    Attributes
    ----------
    table : EncodedTable
        All rows labelled.
    network : Network of one
    feature_of : int (n_discrete + n_numbers,)
        Feature of each column of the layout.
    """

    table: EncodedTable
    network: Network
    feature_of: NDArray[np.intp]

    def weighted(self, found: FeatureWeights) -> WeightedNetwork:
        """The network with the weights of its columns."""
        return WeightedNetwork(self.network, found.weights[self.feature_of], found.offset)


@dataclass(frozen=True)
class FeatureWeights:
    """Weights of the features (n_features,) and offsets of the classes (n_classes,)."""

    weights: Floats
    offset: Floats


def neutral(n_features: int, n_classes: int) -> FeatureWeights:
    """Those of the network itself."""
    return FeatureWeights(np.ones(n_features), np.zeros(n_classes))


def learn_feature_weights(
    parts: Sequence[HeldOut], n_features: int, pool: ThreadPool, each: bool = True
) -> list[FeatureWeights]:
    """The best common weight and, if one for `each` feature is asked for, the best weights.

    The problem is not concave if there is more than one component. The search for the weights begins at the common
    one and does not end below it.
    """
    halves = [(p, p.table, replace(p.table, labels=None)) for p in parts]

    def loss(x: Floats) -> tuple[float, Floats]:
        """Negative of the penalised (E2), and its gradient, at the weights and offsets."""
        w, b = x[:n_features], x[n_features:]
        mean = w.mean()
        value = SHRINK_WEIGHTS * ((w - mean) ** 2).sum() + SHRINK_MEAN * (mean - 1) ** 2 + SHRINK_OFFSET * (b**2).sum()
        by_w = SHRINK_WEIGHTS * (w - mean) + SHRINK_MEAN * (mean - 1) / n_features
        gradient = np.concatenate([by_w, SHRINK_OFFSET * b])
        value /= 2
        for part, labelled, unlabelled in halves:
            model = part.weighted(FeatureWeights(w, b))
            given, free = (e_step(t, model.terms, False, pool) for t in (labelled, unlabelled))
            value -= float(given.log_likelihood[0] - free.log_likelihood[0])
            by_column = (part.network.column_log_likelihood(given) - part.network.column_log_likelihood(free))[0]
            np.subtract.at(gradient, part.feature_of, by_column)
            by_state = (given.states - free.states)[0]
            np.subtract.at(gradient, n_features + model.structure.class_of, by_state)
        return value, gradient

    def common_loss(z: Floats) -> tuple[float, Floats]:
        value, gradient = loss(np.concatenate([np.full(n_features, z[0]), z[1:]]))
        return value, np.concatenate([[gradient[:n_features].sum()], gradient[n_features:]])

    n_classes = parts[0].network.structure.n_classes
    common, common_value = _minimum(common_loss, np.concatenate([[1.0], np.zeros(n_classes)]), 1)
    start = np.concatenate([np.full(n_features, common[0]), common[1:]])
    found = [start]
    if each:
        best, value = _minimum(loss, start, n_features)
        found.append(start if value > common_value else best)
    return [FeatureWeights(x[:n_features], x[n_features:]) for x in found]


def _minimum(loss: Callable[[Floats], tuple[float, Floats]], start: Floats, n_weights: int) -> tuple[Floats, float]:
    """Where the loss is least, and how much it is; the first numbers are weights."""
    bounds = [(0, MOST)] * n_weights + [(None, None)] * (len(start) - n_weights)
    options: Any = {"maxiter": MOST_STEPS, "ftol": TOLERANCE}
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return np.asarray(found.x), float(found.fun)
