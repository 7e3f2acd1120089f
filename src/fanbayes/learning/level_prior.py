"""Columns of many levels: how far what a class says of a level is to be trusted, by evidence.

Laplace's rule adds one case to every level in every class. Of a postcode with 2,000 levels that is more than the cases
of a rare class, in which it makes rare levels as frequent as in a common one; yet where the column tells nothing,
single cases still make levels speak for a class. Instead, of level x in class c,

    p(x | c) = (N_c(x) + pi_c B(x)) / (N_c + pi_c sum_x B(x)) ,   B(x) = s + k r p(x)                         (L1)

with class shares pi, r levels and their frequency p(x) in all cases: what the classes say of a level is shrunk towards
what all say, as by s cases a level and k r cases of the column. With k -> infinity p(x | c) is p(x). This is the
posterior mean if N_c(x) is a Poisson number whose rate has a gamma distribution of shape pi_c B(x); given the
number of cases n(x) of each level, the cases of the classes are then Dirichlet-multinomial, with the evidence

    sum_x [ lgamma(B) - lgamma(n + B) + sum_c lgamma(N_c + pi_c B) - lgamma(pi_c B) ](x)                       (L2)

which chooses s and k. Among those within a nat of the best, k is the largest, then s the least: what the cases do not
show is not believed. (The evidence of levels given classes would not do, as p(x) is made of the same counts: it finds
classes more alike than they are.)

Several components of a class (or a column given the levels of its parent) have as their prior counts the posterior
counts of the class, N_c(x) + pi_c B(x): p(x | c, h) is shrunk towards p(x | c) as by the cases of the class. Components
that classes share (FM) have B(x) in equal parts. All of this is learnt from the labelled cases, once, before EM.
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

from fanbayes.arrays import Floats
from fanbayes.learning.data import TrainingData
from fanbayes.model.blocks.base import LevelPrior
from fanbayes.model.network import Terms
from fanbayes.model.structure import naive_bayes

# A column has many levels if there are more than so many, and fewer than so many cases of each in the rarest class.
MOST_FEW = 10
CASES_PER_LEVEL = 10
_CASES_A_LEVEL = np.geomspace(1.0, 128.0, 8)  # s
_CASES_OF_COLUMN = np.concatenate([[0.0], np.geomspace(0.25, 4096.0, 8)])  # k
_INDIFFERENCE = 1.0  # nats


def level_prior(data: TrainingData, n_classes: int) -> LevelPrior | None:
    """Prior counts of the columns with many levels; None where there is no such column."""
    layout = data.layout
    if (layout.n_levels <= MOST_FEW).all():
        return None
    structure = naive_bayes(n_classes)
    statistics = data.labelled().e_step(Terms.nothing(structure, layout))
    rarest = float(statistics.states[0].min())
    many = np.flatnonzero((layout.n_levels > MOST_FEW) & (rarest < CASES_PER_LEVEL * layout.n_levels))
    if len(many) == 0:
        return None
    of_class, within_class = (np.full((int(layout.first_level[-1]), n_classes), np.nan) for _ in range(2))
    of_all = np.full(len(of_class), np.nan)
    for j in many.tolist():
        rows = slice(int(layout.first_level[j]), int(layout.missing_level[j]))
        counts = statistics.cells[0, rows]  # (n_levels, n_classes): the counts come first
        shares, of_level = prior_counts(counts)
        of_all[rows] = of_level
        of_class[rows] = of_level[:, None] * shares
        within_class[rows] = of_class[rows] + counts
    return LevelPrior(of_class, within_class, of_all)


def prior_counts(counts: Floats) -> tuple[Floats, Floats]:
    """Class shares (n_classes,) and B (n_levels,) of (L1), given counts (n_levels, n_classes)."""
    of_level, of_class = counts.sum(axis=1), counts.sum(axis=0)
    shares = (of_class + 1.0) / (of_class.sum() + len(of_class))
    frequency = (of_level + 0.5) / (of_level + 0.5).mean()  # r p(x)
    found = np.array(
        [[log_evidence(counts, shares, s + k * frequency) for k in _CASES_OF_COLUMN] for s in _CASES_A_LEVEL]
    )
    good = found >= found.max() - _INDIFFERENCE
    k = int(np.flatnonzero(good.any(axis=0))[-1])
    s = int(np.argmax(good[:, k]))
    return shares, _CASES_A_LEVEL[s] + _CASES_OF_COLUMN[k] * frequency


def log_evidence(counts: Floats, shares: Floats, of_level: Floats) -> float:
    """(L2), of counts (n_levels, n_classes), given class shares and B (n_levels,)."""
    level, c = np.nonzero(counts)
    prior = of_level[level] * shares[c]
    apart = gammaln(counts[level, c] + prior) - gammaln(prior)
    together = gammaln(of_level) - gammaln(counts.sum(axis=1) + of_level)
    return float(apart.sum() + together.sum())
