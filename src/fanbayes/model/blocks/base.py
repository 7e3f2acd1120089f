"""What a block is: what is believed about a group of columns inside a cell.

A *cell* is one configuration of the variables that index the parameters of the features. A block has some parameters in
every cell, and perhaps some that cells share. Arrays have any leading axes:

    statistics (..., n_statistics, n_cells)    what the E-step collects: counts of the levels of a column, or
                                               N, sum x and sum x^2 of its numbers
    cells      (..., n_rows, n_cells)          parameters in the cells
    shared     (..., n_shared)                 parameters that cells share

Columns are counted within the block. To add a kind of feature: write a file here, and name it in `__init__.py`. Blocks
lie in the order of their names, the normal one first; the kernel wants those of linear terms last.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from fanbayes.arrays import Floats, Ints, Mask
from fanbayes.data.schema import Column
from fanbayes.data.table import Layout
from fanbayes.model.normals import Normals
from fanbayes.model.structure import Structure

Term = Literal["lookup", "normal", "linear", "regression"]
Estimator = Literal["map", "paper"]
Tying = Literal["none", "class", "all"]
Covariance = Literal["diagonal", "full"]
Parameters = tuple[Floats, Floats]  # cells, shared


@dataclass(frozen=True, eq=False)
class LevelPrior:
    """What is added to the counts of discrete columns with many levels, level by level (`learning.level_prior`).

    Levels lie as in a layout without arcs; NaN for those of other columns.

    Attributes
    ----------
    of_class : (n_levels, n_classes)
        In the only cell of a class.
    within_class : (n_levels, n_classes)
        In each of several cells of a class.
    of_all : (n_levels,)
        In all cells together, where classes share them.
    """

    of_class: Floats
    within_class: Floats
    of_all: Floats


@dataclass(frozen=True)
class EstimationOptions:
    """How parameters are estimated.

    Attributes
    ----------
    alpha : float
        Added to every count of every multinomial (5).
    variance_estimator : {"map", "paper"}
        Posterior mode, or (7).
    variance_tying : {"none", "class", "all"}
        Cells that share one variance: none do, those of a class, or all.
    variance_floor : float
        Least variance, in units of the column's own.
    covariance : {"diagonal", "full"}
        Whether continuous columns are independent given the cell, or correlated.
    prior_strength : float
        Exponent of the prior of means and covariance, where that is full.
    level_prior : LevelPrior or None
        What is added to the counts of columns with many levels instead of alpha.
    """

    alpha: float = 1.0
    variance_estimator: Estimator = "map"
    variance_tying: Tying = "none"
    variance_floor: float = 1e-6
    covariance: Covariance = "diagonal"
    prior_strength: float = 1.0
    level_prior: LevelPrior | None = None

    @property
    def is_monotone(self) -> bool:
        """Whether an M-step maximises the objective; (7) maximises nothing."""
        return self.variance_estimator != "paper"


class Block(ABC):
    """Local distributions p(x_i | cell) of some columns, independent given the cell unless they have `normals`."""

    name: ClassVar[str]
    # What the E-step evaluates: log_table[x], log_norm - (slope x + intercept)^2, log_norm + slope x, or
    # log_norm - (slope x + coefficient p + intercept)^2, where p is the number that x depends on.
    term: ClassVar[Term]
    takes: ClassVar[str] = "numbers"  # for messages
    n_columns: int
    n_cells: int

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """Parameters in a cell."""

    @property
    def n_shared(self) -> int:
        """Parameters that cells share."""
        return 0

    @property
    def n_written(self) -> int:
        """Parameters in a cell where all are written out (`per_cell`)."""
        return self.n_rows

    @property
    @abstractmethod
    def n_statistics(self) -> int:
        """Statistics in a cell."""

    @property
    @abstractmethod
    def n_parameters(self) -> int:
        """Free parameters in all."""

    @property
    def n_steps(self) -> int:
        """What discriminative fine-tuning moves in a cell: log probabilities, a mean, the coefficients of a line."""
        return 0

    @classmethod
    @abstractmethod
    def of(cls, layout: Layout, structure: Structure, options: EstimationOptions, n_columns: int) -> Block:
        """The block of so many columns of a layout."""

    @staticmethod
    def refused(x: Floats) -> Mask:
        """Which of the numbers (n,) it can make nothing of; not NaN."""
        return np.zeros(len(x), dtype=bool)

    # ------------------------------------------------------------ learning

    @abstractmethod
    def estimate(self, statistics: Floats) -> Parameters:
        """M-step: the parameters that maximise the posterior, given (expected) complete data."""

    def draw(self, statistics: Floats, rng: np.random.Generator) -> Parameters | None:
        """Draw parameters from the posterior, given complete data; None where it has no form that can be drawn from."""
        return None

    def bootstrap_estimate(self, statistics: Floats, rng: np.random.Generator) -> Parameters:
        """Mean of the posterior, from rows of drawn weights; what stands for the prior is drawn as well.

        Of a block that does not say otherwise, it is the mode, and the prior is as it is.
        """
        return self.estimate(statistics)

    @abstractmethod
    def log_prior(self, cells: Floats, shared: Floats) -> Floats:
        """Log prior density of the parameters (...), what `estimate` adds to the log-likelihood."""

    @abstractmethod
    def cell_log_prior(self, cells: Floats, shared: Floats) -> Floats:
        """`log_prior` of each cell by itself (..., n_cells), to compare cells of several networks."""

    @abstractmethod
    def log_likelihood(self, statistics: Floats, cells: Floats, shared: Floats) -> Floats:
        """Log probability of the values behind the statistics, for each column (..., n_columns)."""

    @abstractmethod
    def log_marginal(self, statistics: Floats) -> Floats:
        """Log probability of the values behind the statistics (...), the parameters integrated out."""

    @abstractmethod
    def unconstrain(self, cells: Floats, shared: Floats) -> Parameters:
        """Coordinates of the same shapes in which every real number is allowed, for accelerated steps."""

    @abstractmethod
    def project(self, cells: Floats, shared: Floats) -> Parameters:
        """Inverse of `unconstrain`, to the nearest valid parameters."""

    @property
    def cells_of_shared(self) -> Ints:
        """Cells that each shared parameter stands for (n_shared,)."""
        return np.ones(self.n_shared, dtype=np.intp)

    def per_cell(self, cells: Floats, shared: Floats) -> Floats:
        """All parameters written out for every cell (..., n_written, n_cells)."""
        return cells

    def from_cells(self, written: Floats) -> Parameters:
        """Inverse of `per_cell`; of what cells should share, their mean."""
        return written, np.zeros((*written.shape[:-2], 0))

    @abstractmethod
    def perturb(self, cells: Floats, shared: Floats, strength: Floats, rng: np.random.Generator) -> Parameters:
        """Parameters to start from; strength : (..., n_cells), 0 leaves a cell as it is."""

    def move(self, cells: Floats, shared: Floats, steps: Floats) -> Parameters:
        """Parameters after the steps (..., n_steps, n_cells) of discriminative fine-tuning.

        Which they are follows from `term`, as the native core knows of no more: what is added to a "lookup"'s log
        probabilities, to the mean of a "normal" or the coefficients of a "regression", in standard deviations.
        """
        return cells, shared

    def native_arguments(self) -> dict[str, Any] | None:
        """What the native M-step has to be told of it; None where it has no `estimate` and `log_prior` of it."""
        return None

    # ------------------------------------------------------------ prediction

    @abstractmethod
    def kernel_terms(self, cells: Floats, shared: Floats) -> Floats:
        """What the E-step evaluates.

        "lookup": log probabilities (..., n_levels, n_cells), 0 for the "missing" of each column; else (..., n_columns,
        3, n_cells), slope, intercept and log_norm of each column, and of a "regression" the coefficient.
        """

    def log_base_measure(self, x: Floats) -> Floats:
        """What rows (n, n_columns) add to log p(x | cell) in every cell, and the terms leave out (n,)."""
        return np.zeros(len(x))

    def normals(self, cells: Floats, shared: Floats) -> Normals | None:
        """What its columns are together, where they are correlated given the cell; its terms are of complete rows."""
        return None

    def sample(self, cells: Floats, shared: Floats, cell: Ints, rng: np.random.Generator) -> Floats | Ints:
        """Draw values of all columns (n_columns, n) in the cells (n,), of one network."""
        draws: Any = [
            self.quantile(cells, shared, j, cell, np.maximum(rng.random(len(cell)), 1e-300))
            for j in range(self.n_columns)
        ]
        return np.array(draws)

    @abstractmethod
    def quantile(self, cells: Floats, shared: Floats, column: int, cell: Ints, u: Floats) -> Floats | Ints:
        """Value (n,) up to which a column has the share u (n,) of its distribution in the cells (n,), one network's."""

    @abstractmethod
    def density(self, cells: Floats, shared: Floats, column: int) -> tuple[Floats, Floats]:
        """Points to sum or integrate over: p(x | cell) (n_cells, n), and their weights (n,), of one network."""

    # ------------------------------------------------------------ for people and files

    @abstractmethod
    def traits(self, cells: Floats, shared: Floats, column: int) -> Parameters:
        """Means and variances (n_traits, n_cells): of the indicator of each level, or of the number."""

    @abstractmethod
    def describe(self, cells: Floats, shared: Floats, column: int, about: Column) -> dict[str, Any]:
        """Parameters in the column's own unit: name to list (n_cells,), or (n_levels, n_cells) beside "level"."""

    @abstractmethod
    def flaw(self, cells: Floats, shared: Floats, normalised: bool) -> str | None:
        """What is wrong with parameters that came from a file, all finite; `normalised`: as a fit finds them."""
