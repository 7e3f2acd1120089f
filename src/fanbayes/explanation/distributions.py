"""What a feature is like in each class, and in each of the components that a class is made of.

p(x_i | c) = sum_k p(cell k | c) p(x_i | cell k)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from fanbayes.arrays import Floats, Ints
from fanbayes.data.schema import Schema
from fanbayes.model.blocks.categorical import level_names
from fanbayes.model.network import Network
from fanbayes.model.tree_network import marginal_network

_SHARES = ndtr(np.linspace(-3.8, 3.8, 77))  # of a cell's distribution, where a number is looked at
_EVENLY = 200  # points between the least and the largest of these
_LARGEST = np.finfo(np.float64).max


@dataclass(frozen=True)
class FeatureDistribution:
    """Distributions of one feature.

    Attributes
    ----------
    feature : str
    levels : names of the levels of a discrete or binned column; None of a number
    x : (n_points,), numbers in the unit of the column, increasing; positions of the levels
    is_density : whether it is a density, of a number that is not a count
    cells : (n_points, n_cells), p(x | cell)
    weight : (n_classes, n_cells), p(cell | c)
    component_of : int (n_cells,)
    """

    feature: str
    levels: tuple[str, ...] | None
    x: Floats
    is_density: bool
    cells: Floats
    weight: Floats
    component_of: Ints

    @property
    def classes(self) -> Floats:
        """p(x | c) (n_points, n_classes)."""
        return np.asarray(self.cells @ self.weight.T)


def feature_distribution(network: Network, schema: Schema, feature: str | int) -> FeatureDistribution:
    """Distributions of a feature by itself in the cells of a network of one.

    Of a number below a discrete feature in a tree it is the normal distribution of
    its mean and variance (`marginal_network`).
    """
    j = schema.position(feature)
    column, network = schema[j], marginal_network(network)
    if j not in schema.position_in_layout:
        raise ValueError(f"column {column.name!r} has one value, or one interval, only: there is no distribution of it")
    structure = network.structure
    weight, component_of = network.cells_given_class(), structure.component_of_cell
    place = schema.position_in_layout[j]
    if column.kind != "continuous":
        levels = tuple(map(str, level_names(column)))
        p = network.column(place).traits()[0]
        return FeatureDistribution(
            column.name, levels, np.arange(len(levels), dtype=np.float64), False, p, weight, component_of
        )
    of_column = network.column(place)
    shares = [of_column.quantile(np.full(len(_SHARES), k), _SHARES) for k in range(structure.n_cells)]
    z = np.unique(np.concatenate(shares).astype(np.float64))
    is_density = bool((z != np.floor(z)).any())
    between = np.linspace(z[0], z[-1], _EVENLY)
    z = np.unique(np.concatenate([z, between if is_density else np.floor(between)]))
    if not column.is_standardised:
        return FeatureDistribution(column.name, None, z, is_density, _density(network, place, z), weight, component_of)
    (mean,), (variance,) = of_column.traits()
    deviation = np.sqrt(variance)
    log_p = -(((z[:, None] - mean) / deviation) ** 2) / 2 - np.log(deviation) - np.log(2 * np.pi) / 2
    with np.errstate(over="ignore"):
        p = np.minimum(np.exp(log_p - column.log_scale), _LARGEST)
    return FeatureDistribution(column.name, None, column.restore(z), True, p, weight, component_of)


def _density(network: Network, place: int, z: Floats) -> Floats:
    """p(x | cell) (n, n_cells) of values (n,) of a number that is used as it is, by what the core evaluates."""
    layout, n_cells = network.layout, network.structure.n_cells
    numbers = np.full((len(z), layout.n_numbers), np.nan)
    numbers[:, place - layout.n_discrete] = z
    missing = np.tile(layout.missing_level, (len(z), 1))
    cells = np.tile(np.arange(n_cells), (len(z), 1))
    log_p = network.terms.log_prob(missing, numbers, np.zeros((len(z), 0, 2)), cells)[:, place]
    own = next(p for p in network.model.places if place < p.columns.stop)
    of_block = numbers[:, own.columns.start - layout.n_discrete : own.columns.stop - layout.n_discrete]
    return np.asarray(np.exp(log_p + own.block.log_base_measure(of_block)[:, None]))
