"""What distinguishes the components of a model.

For a number z of a row, a continuous feature or the indicator of a level, the standardised difference of a cell is

    (E[z | cell] - E[z | others]) / sd[z | others] ,

where the others are all cells of its class (itself included) if classes have components of their own, else all cells.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from fanbayes.arrays import Floats
from fanbayes.data.schema import Schema
from fanbayes.model.blocks.categorical import level_names
from fanbayes.model.network import Network
from fanbayes.model.tree_network import marginal_network


@dataclass(frozen=True)
class Profiles:
    """Standardised differences of all cells.

    Attributes
    ----------
    traits : (feature, level) of each line, in the order of the columns; level None for a continuous feature.
        Of two levels, which mirror each other, the second is kept.
    difference : (n_traits, n_cells), in standard deviations
    share : (n_cells,), p(cell)
    class_of : int (n_cells,), or None where classes share cells (FM)
    component_of : int (n_cells,)
    """

    traits: tuple[tuple[str, Any], ...]
    difference: Floats
    share: Floats
    class_of: NDArray[np.intp] | None
    component_of: NDArray[np.intp]

    @property
    def weight(self) -> Floats:
        """How much each trait distinguishes the cells: root mean square of its differences (n_traits,)."""
        return np.asarray(np.sqrt(np.square(self.difference) @ self.share))


def component_profiles(network: Network, schema: Schema) -> Profiles:
    """Profiles of the components of a network of one."""
    network = marginal_network(network)
    structure = network.structure
    log_share = np.full(structure.n_cells, -np.inf)
    np.logaddexp.at(log_share, structure.cell_of, network.log_weight[0])
    share = np.exp(log_share)
    traits: list[tuple[str, Any]] = []
    mean, variance = [np.empty((0, len(share)))], [np.empty((0, len(share)))]
    for j in sorted(schema.position_in_layout):
        column = schema[j]
        names = [None] if column.kind == "continuous" else level_names(column)
        skip = int(len(names) == 2)
        m, v = network.column(schema.position_in_layout[j]).traits()
        traits += [(column.name, name) for name in names[skip:]]
        mean.append(m[skip:])
        variance.append(v[skip:])
    m, v = np.concatenate(mean), np.concatenate(variance)
    difference = np.zeros_like(m)
    group = structure.class_of_cell if structure.n_components > 1 else None
    for alike in [slice(None)] if group is None else [group == c for c in range(structure.n_classes)]:
        weight = softmax(log_share[alike])
        gap = m[:, alike] - (m[:, alike] @ weight)[:, None]
        spread = (v[:, alike] + np.square(gap)) @ weight
        difference[:, alike] = gap / np.sqrt(np.where(spread > 0, spread, np.inf))[:, None]
    return Profiles(tuple(traits), difference, share, structure.class_of_cell, structure.component_of_cell)
