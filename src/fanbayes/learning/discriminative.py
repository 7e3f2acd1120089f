"""Discriminative fine-tuning: parameters moved from their generative estimate towards telling the classes apart.

    max over theta of  sum_n log p(y_n | x_n, theta) - (strength / 2) |theta - theta_EM|^2                (D1)

theta are the log weights, the log probabilities of levels and the means, these in standard deviations. One component
makes it logistic regression that is shrunk towards naive Bayes instead of towards nothing. The derivative of a row's
log p(y | x) by log p(s, x) is p(s | x, y) - p(s | x), and the gradient is the sum of the statistics of these, which the
native core collects as those of an E-step; it runs the whole search (src/native/discriminative.cpp).

The tables need not be normalised any more: they are for prediction.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fanbayes import _native
from fanbayes.arrays import Floats
from fanbayes.data.table import EncodedTable
from fanbayes.learning.e_step import ThreadPool, n_blocks, native_terms
from fanbayes.model.network import Network

# The search ends when a step gains less than this share of the loss. A tenth of it cost half as many passes again on 16
# sets, and gained nothing on rows held out.
TOLERANCE = 1e-4
MOST_STEPS = 100


def fine_tune(table: EncodedTable, network: Network, strengths: Sequence[float], pool: ThreadPool) -> list[Network]:
    """Maximise (D1) for each strength, beginning at the network given and then where the strength before has led.

    Parameters
    ----------
    table : rows; those without a label are left out
    network : Network of one, as EM found it
    strengths : how much it costs to move, in cases; decreasing, so that the way is short from one to the next
    """
    labelled, structure = table.labelled_only(), network.structure
    factors, cells = _native.fine_tune(
        labelled.rows,
        *native_terms(network.terms),
        [f.native for f in structure.factors],
        strengths,
        TOLERANCE,
        MOST_STEPS,
        n_blocks(labelled, structure),
        pool,
    )
    return [_moved(network, *steps) for steps in zip(factors[:, None], cells[:, None])]


def _moved(network: Network, of_factors: Floats, of_blocks: Floats) -> Network:
    """The network after steps (1, n_entries) of its factors and (1, n_steps, n_cells) of its blocks in turn."""
    ends = np.cumsum([p.block.n_steps for p in network.model.places])
    steps = np.split(of_blocks, ends[:-1], axis=1)
    moved = [p.block.move(cells, shared, own) for (p, cells, shared), own in zip(network.parts, steps)]
    return network.model.assemble(network.factors + of_factors, moved)
