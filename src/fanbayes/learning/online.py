"""EM over rows as they come, each of them looked at once.

O. Cappé and E. Moulines, On-line expectation-maximization algorithm for latent data models, Journal of the Royal
Statistical Society B 71, 2009. The M-step asks for s, the mean of the expected statistics of a case. Of a minibatch of
m = 1000 cases with the mean b under the parameters so far, after n cases,

    s <- s + g (b - s) ,    g = max(m / (n + m), (1 + n / 1000)^-0.6) ,    theta <- M-step of (n + m) s           (O1)

so the prior weighs as much as in EM over all cases seen. What was learnt first is forgotten by and by, as the
parameters were worse then, but never more slowly than in a mean. Of other m, 1 - g is to the power of m / 1000.

Why 0.6 and 1000: one sweep over 100,000 rows of three kinds (20 mixed columns, 20 discrete ones, 12 by which components
overlap), from a start learnt from 2,000 of them and from one drawn at random, with exponents from 0.5 to 1 and with
300, 1000 and 5000 cases. Of what EM gains over naive Bayes in the log-likelihood of other rows, nearly all settings
keep more than 99 % after a good start. A random start is a matter of luck: 88 %, 99 % and 96 % with these values;
larger exponents forget too slowly, 80 % to 91 % with 1. Averages of the statistics (Polyak & Juditsky 1992) gain less
than one percent after good starts, and are mixed after bad ones. `benchmarks/online.py` measures what is reached.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from fanbayes.data.table import EncodedTable
from fanbayes.learning.data import InMemoryData
from fanbayes.learning.e_step import ThreadPool
from fanbayes.model.network import Model, Network, Statistics

# Cases of a minibatch, and the exponent of the step size.
MINIBATCH = 1000
EXPONENT = 0.6


class Sweep(NamedTuple):
    """What a sweep over rows found."""

    network: Network  # what is believed after it
    statistics: Statistics  # n s of (O1), of the cases seen then
    found: Statistics  # of these rows alone, each minibatch under what was believed before it
    trace: tuple[float, ...]  # mean log-likelihood of each minibatch, before it was learnt from


def online_em(
    model: Model, statistics: Statistics, table: EncodedTable, *, hard: bool = False, pool: ThreadPool = None
) -> Sweep:
    """One sweep of (O1) over rows.

    Parameters
    ----------
    model : what is fitted
    statistics : n s, of the cases seen before: their expected statistics
    table : the rows; a minibatch has rows from all over it, as neighbours may be alike
    hard : whether each row is completed to its most probable state, as in CEM
    """
    n_batches = max(1, round(table.n_rows / MINIBATCH))
    network, found, trace = model.estimate(statistics), None, []
    for k in range(n_batches):
        batch = InMemoryData(table.only(np.arange(k, table.n_rows, n_batches)), pool)
        own = batch.e_step(network.terms, hard=hard)
        before, cases = float(statistics.states.sum()), batch.total_weight
        g = step_size(before, cases)
        old, new = (1 - g) * (before + cases) / before, g * (before + cases) / cases
        statistics = statistics.map(lambda x, y, old=old, new=new: old * x + new * y, own)
        network = model.estimate(statistics)
        found = own if found is None else found + own
        trace.append(float(own.log_likelihood[0]) / cases)
    assert found is not None
    return Sweep(network, statistics, found, tuple(trace))


def step_size(before: float, cases: float) -> float:
    """Return g of (O1), for some cases after those before."""
    kept = 1 - math.pow(1 + before / MINIBATCH, -EXPONENT)
    return max(cases / (before + cases), 1 - math.pow(kept, cases / MINIBATCH))
