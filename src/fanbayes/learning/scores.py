"""Scores of a fitted network: larger is better.

scikit-learn's `GaussianMixture.bic` and `.aic` are -2 times these.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from fanbayes.model.network import Network, Statistics

Criterion = Literal["icl", "bic", "aic", "cs"]


@dataclass(frozen=True)
class Scores:
    """What `score` found; N is the sum of the weights, d the number of free parameters."""

    log_likelihood: float
    n_parameters: int
    bic: float
    aic: float
    cs: float
    icl: float


def score(network: Network, s: Statistics, n: float) -> Scores:
    """Score the first network, given its statistics at its own parameters.

    - BIC: log p(D | theta) - (d / 2) log N
    - AIC: log p(D | theta) - d
    - CS:  log p(D' | M) - log p(D' | theta) + log p(D | theta), D' the data with expected statistics
    - ICL: log p(D, z | theta) - (d / 2) log N, z the most probable component of each row

    z = argmax_h p(h | x, c). For a row without a label it is argmax_h p(h | x), the class summed out. Where each class
    has components of its own, p(h | x) has no meaning; then z(c) = argmax_h p(h | x, c) for every class, and the row
    counts as log p(x, H = z(C)) = log sum_c p(c, z(c), x). In all cases ICL = BIC where r_h = 1.
    """
    d = network.model.n_parameters
    log_likelihood = float(s.log_likelihood[0])
    penalty = 0.5 * d * math.log(n)
    return Scores(
        log_likelihood=log_likelihood,
        n_parameters=d,
        bic=log_likelihood - penalty,
        aic=log_likelihood - d,
        cs=float((network.model.log_marginal(s) - network.log_likelihood_of(s))[0]) + log_likelihood,
        icl=float(s.classification[0]) - penalty,
    )
