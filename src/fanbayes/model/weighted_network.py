"""A network with feature weights: generative parameters, discriminative exponents.

    log p(c) + b_c + log sum_h p(h) prod_i p(x_i | c, h)^{w_i}                                       (E1)

`w = 1` and `b = 0` is the network itself. For one component and equal weights it is temperature scaling. A missing
feature drops its factor, whatever its weight. The weights undo what naive independence counts twice: of two copies of
one feature each gets half a weight.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fanbayes.data.caching import cached_property, fields_only
from fanbayes.model.families import categorical, gaussian
from fanbayes.model.network import Network, Statistics
from fanbayes.model.structure import Structure

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class WeightedNetwork:
    """A network and the weights of its features.

    Attributes
    ----------
    network : Network of one
    feature_weights : (n_discrete + n_numbers,)
        w_i >= 0 of the discrete columns in the order of the layout, then of the continuous ones.
    offset : (n_classes,)
        b_c.
    """

    network: Network
    feature_weights: Floats
    offset: Floats

    __getstate__ = fields_only

    def __len__(self) -> int:
        return len(self.network)

    @property
    def structure(self) -> Structure:
        """That of the network."""
        return self.network.structure

    @cached_property
    def kernel_arguments(self) -> tuple[Floats, Floats, Floats]:
        """What the native core wants: it adds log_norm - (slope x + intercept)^2, all of it times w_i."""
        log_weight, log_table, normal = self.network.kernel_arguments
        layout = self.network.layout
        discrete, continuous = np.split(self.feature_weights, [layout.n_discrete])
        root = np.sqrt(continuous)
        return (
            log_weight + self.offset[self.structure.class_of],
            log_table * discrete[layout.column_of, None],
            normal * np.stack([root, root, continuous])[..., None],
        )


def column_log_likelihood(s: Statistics, network: Network) -> Floats:
    """Sum over the rows of E[log p(x_i | cell)], for each column (n_discrete + n_numbers,).

    The derivative of the log-likelihood of (E1) by w_i, if the expectation is the one under its responsibilities.
    """
    discrete = categorical.column_log_likelihood(s.counts[0], network.log_table[0], network.layout)
    continuous = gaussian.column_log_likelihood(s.moments[0], network.mean[0], network.sigma2[0])
    return np.concatenate([discrete, continuous])
