"""What a feature tells about the class, under the model.

    I(C; X_i | x) = sum_c ∫ p(c, x_i | x) log [ p(c, x_i | x) / (p(c | x) p(x_i | x)) ] dx_i

x is what has been observed of a row, X_i a feature that has not. Features are independent given the state s,
so the row enters by p(s | x) alone: p(c, x_i | x) = sum_{s of c} p(s | x) p(x_i | s). With x empty it is the
mutual information of feature and class.

The sum over the levels of a discrete feature is exact; the integral over a continuous one is taken at the points that
its block gives (`Block.density`). Numbers that are correlated given the state are taken given those that the row has.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
from scipy.special import xlogy

from fanbayes.arrays import Floats, Mask
from fanbayes.data.schema import Schema
from fanbayes.model.blocks.gaussian import Gaussian
from fanbayes.model.network import Network
from fanbayes.model.tree_network import marginal_network

_NUMBERS_AT_ONCE = 1 << 21


def feature_information(network: Network, schema: Schema) -> Floats:
    """Mutual information of each feature with the class (n_features,), in nats; 0 for one without parameters.

    Where features depend on each other, that of their marginals (`marginal_network`).
    """
    network = marginal_network(network)
    prior = np.exp(network.log_weight[0])[None, :]
    gain = np.zeros((1, len(schema.columns)))
    for j in schema.features:
        density, weight = feature_density(network, schema, j)
        fill(gain[:, j], network, prior, density[network.structure.cell_of], weight)
    return gain.ravel()


Density = Callable[[Network, Schema, int], tuple[Floats, Floats]]


def column_density(network: Network, schema: Schema, j: int) -> tuple[Floats, Floats]:
    """Points to sum or integrate over: p(x_j | cell) (n_cells, n), and their weights (n,)."""
    if j not in schema.position_in_layout:
        return np.ones((network.structure.n_cells, 1)), np.ones(1)
    return network.column(schema.position_in_layout[j]).density()


def feature_density(network: Network, schema: Schema, j: int) -> tuple[Floats, Floats]:
    """The same of what may be found in a row; where it counts that the value is missing, this is one more point."""
    density, weight = column_density(network, schema, j)
    if j not in schema.indicator_of:
        return density, weight
    seen, missing = column_density(network, schema, schema.indicator_of[j])[0].T
    return np.column_stack([density * seen[:, None], missing]), np.append(weight, 1.0)


def information_gain(
    network: Network, schema: Schema, states: Floats, wanted: Mask, numbers: Floats | None = None
) -> Floats:
    """I(C; X_i | x) of rows with what they lack: how much the class is expected to become surer, in nats.

    Parameters
    ----------
    network : Network of one
    schema : Schema of its columns
    states : p(s | x) (n_rows, n_states)
    wanted : (n_rows, n_columns), where it is asked for, of columns that have parameters
    numbers : (n_rows, n_numbers), those that the rows have; where they are correlated it is asked for all others

    Returns
    -------
    ndarray of shape (n_rows, n_columns), NaN where not wanted
    """
    gain = np.where(wanted, 0.0, np.nan)
    cells = network.structure.cell_of
    normals = None if numbers is None else network.terms.normals
    for j in range(len(schema.columns)):
        if j in schema.place and (normals is None or schema[j].kind != "continuous"):
            density, weight = column_density(network, schema, j)
            fill(gain[:, j], network, states, density[cells], weight)
    if normals is not None and numbers is not None:
        block = Gaussian(1, len(normals.group), 0.0, None)
        for row, column, *theta in normals.conditionals(numbers):
            density, weight = block.density(np.stack(theta), np.zeros(0), 0)
            own = slice(row, row + 1)
            fill(gain[own, schema.continuous[column]], network, states[own], density[cells], weight)
    return gain


def fill(gain: Floats, network: Network, states: Floats, p: Floats, weight: Floats) -> None:
    """Set the wanted entries of a column (n_rows,), given p(x_i | s) (n_states, n_points) and the points' weights."""
    class_of = network.structure.class_of
    edges = np.searchsorted(class_of, np.arange(network.structure.n_classes + 1))
    rows = np.flatnonzero(~np.isnan(gain))
    step = max(1, _NUMBERS_AT_ONCE // (len(edges) * p.shape[1]))
    for block in np.split(rows, range(step, len(rows), step)):
        q = states[block]
        joint = np.stack([q[:, a:b] @ p[a:b] for a, b in pairwise(edges)])  # (classes, rows, points)
        class_prior = np.add.reduceat(q, edges[:-1], axis=1).T[:, :, None]
        terms = xlogy(joint, joint) - xlogy(joint, class_prior) - xlogy(joint, joint.sum(axis=0))
        gain[block] = np.maximum(terms.sum(axis=0) @ weight, 0.0)
