"""A network with feature weights: generative parameters, weights that were learnt to tell classes apart.

    log p(c) + b_c + log sum_h p(h) prod_i p(x_i | c, h)^{w_i}                                       (E1)

`w = 1` and `b = 0` is the network itself. For one component and equal weights it is temperature scaling. A missing
feature drops its factor, whatever its weight. The weights undo what naive independence counts twice: of two copies of
one feature each gets half a weight.
"""

from __future__ import annotations

from dataclasses import dataclass

from fanbayes.arrays import Floats
from fanbayes.data.caching import cached_property, fields_only
from fanbayes.model.network import Network, Terms
from fanbayes.model.structure import Structure


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

    @property
    def structure(self) -> Structure:
        """That of the network."""
        return self.network.structure

    @cached_property
    def terms(self) -> Terms:
        """What the native core evaluates: the terms of each column, times w_i."""
        return self.network.terms.weighted(self.feature_weights, self.offset, self.network.layout)
