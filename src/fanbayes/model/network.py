"""Networks: a model with parameters, learnt from expected statistics.

Parameters and statistics are flat and carry a leading axis of *networks*, so that EM advances all of its starts at
once; a fitted model is a network of one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from itertools import accumulate, groupby, pairwise
from typing import Any

import numpy as np
from scipy.special import gammaln

from fanbayes import _native
from fanbayes.arrays import Floats, Ints
from fanbayes.data.caching import cached_property, fields_only
from fanbayes.data.schema import Column
from fanbayes.data.table import Layout
from fanbayes.model.blocks import Block, EstimationOptions, block_type
from fanbayes.model.normals import Normals
from fanbayes.model.structure import Structure


@dataclass(frozen=True)
class Statistics:
    """Expected sufficient statistics (8), or those of the most probable completion (9). They add up.

    Attributes
    ----------
    states : (n_networks, n_states)
    cells : (n_networks, n_statistics, n_cells)
        Those of each block in turn.
    class_log_likelihood : (n_networks, n_classes)
        log p(D_c | theta), of the rows that are labelled c.
    log_likelihood : (n_networks,)
        log p(D | theta).
    joint : (n_networks,)
        log p(D, z | theta), z the most probable state of each row: what CEM maximises.
    classification : (n_networks,)
        log p(D, z | theta), z the most probable component of each row: what ICL scores. Where components are
        those of a class and a row has no label, z is one for each class, and the class is summed out.
    """

    states: Floats
    cells: Floats
    class_log_likelihood: Floats
    log_likelihood: Floats
    joint: Floats
    classification: Floats

    def map(self, function: Callable[..., Floats], *others: Statistics) -> Statistics:
        """Apply a function to each array, and to those of others beside it."""
        return Statistics(*(function(*(getattr(s, f.name) for s in (self, *others))) for f in fields(self)))

    def __add__(self, other: Statistics) -> Statistics:
        return self.map(np.add, other)


@dataclass(frozen=True)
class Terms:
    """What the native core evaluates, of one or more networks: log p(s, x) as a sum of terms.

    Attributes
    ----------
    structure : Structure
    log_weight : (n_networks, n_states)
    log_table : (n_networks, n_levels, n_cells)
        What each level of each discrete column adds.
    numeric : (n_networks, n_numbers, 3, n_cells)
        Slope, intercept and log_norm of each number: it adds log_norm - (slope x + intercept)^2,
    n_linear : and of the last so many numbers log_norm + slope x
    regression : (n_networks, n_regressions, 4, n_cells)
        Slope, intercept, log_norm and coefficient of each pair of numbers, response x and regressor p: it adds
        log_norm - (slope x + coefficient p + intercept)^2
    normals : Normals or None
        Where numbers are correlated: what they are together. The terms are of complete rows then, without what all
        cells of a covariance have in common.
    """

    structure: Structure
    log_weight: Floats
    log_table: Floats
    numeric: Floats
    n_linear: int
    regression: Floats
    normals: Normals | None = None

    @classmethod
    def nothing(cls, structure: Structure, layout: Layout) -> Terms:
        """All 0, of one network: what a row may be, it is as probably."""
        shapes = (int(layout.first_level[-1]),), (layout.n_numbers, 3), (layout.n_regressions, 4)
        table, numeric, regression = (np.zeros((1, *shape, structure.n_cells)) for shape in shapes)
        return cls(structure, np.zeros((1, structure.n_states)), table, numeric, 0, regression)

    def log_prob(self, levels: Ints, numbers: Floats, pairs: Floats, cells: Ints) -> Floats:
        """What each column adds in the first network (n_rows, n_columns, n), 0 where missing.

        Parameters
        ----------
        levels : int (n_rows, n_discrete), on the axis of levels
        numbers : (n_rows, n_numbers)
        pairs : (n_rows, n_regressions, 2)
        cells : int (n_rows, n), for each row
        """
        discrete = self.log_table[0][levels[:, :, None], cells[:, None, :]]
        if self.normals is not None:
            return np.concatenate([discrete, self.normals.by_column(numbers, cells)], axis=1)
        slope, intercept, log_norm = _in_cells(self.numeric, cells)
        x = numbers[:, :, None]  # beside parameters (n_rows, n_numbers, n)
        n_normal = numbers.shape[1] - self.n_linear
        terms = np.concatenate([-((slope * x + intercept)[:, :n_normal] ** 2), (slope * x)[:, n_normal:]], axis=1)
        alone = np.where(np.isnan(x), 0.0, log_norm + terms)
        slope, intercept, log_norm, coefficient = _in_cells(self.regression, cells)
        x, p = pairs[:, :, :1], pairs[:, :, 1:]
        terms = log_norm - (slope * x + coefficient * p + intercept) ** 2
        return np.concatenate([discrete, alone, np.where(np.isnan(x), 0.0, terms)], axis=1)


def _in_cells(terms: Floats, cells: Ints) -> Floats:
    """Terms (n_networks, n_columns, n_terms, n_cells) of the first network: (n_terms, n_rows, n_columns, n)."""
    return np.asarray(terms[0][:, :, cells].transpose(1, 2, 0, 3))


@dataclass(frozen=True)
class Place:
    """Where a block has its parameters and statistics on the flat axes, and its columns in the layout."""

    block: Block
    rows: slice
    shared: slice
    statistics: slice
    columns: slice


@dataclass(frozen=True)
class Model:
    """What is fitted: states, columns, and how parameters are estimated; the blocks follow from it (`places`)."""

    structure: Structure
    layout: Layout
    options: EstimationOptions

    __getstate__ = fields_only

    @cached_property
    def places(self) -> tuple[Place, ...]:
        """The blocks, discrete columns first, then numbers of each distribution, then regressions."""
        layout = self.layout
        names = ["categorical"] * layout.n_discrete + list(layout.distributions)
        names += ["linear_gaussian"] * layout.n_regressions
        sizes = [(name, len(list(columns))) for name, columns in groupby(names)]
        blocks = [block_type(name, self.options).of(layout, self.structure, self.options, n) for name, n in sizes]
        linear = [block.term == "linear" for block in blocks if block.term != "regression"]
        if linear != sorted(linear):  # numbers lie in the order of the names of their distributions
            raise ValueError("linear terms come last: give the distribution a name that sorts behind the others")
        axes = ("n_rows", "n_shared", "n_statistics", "n_columns")
        ends = [list(accumulate((getattr(b, axis) for b in blocks), initial=0)) for axis in axes]
        slices = [[slice(a, b) for a, b in pairwise(end)] for end in ends]
        return tuple(Place(*place) for place in zip(blocks, *slices))

    @cached_property
    def native(self) -> _native.MStep | None:
        """The native core's M-step; None where a block has none there."""
        arguments: dict[str, Any] = {}
        for place in self.places:
            own = place.block.native_arguments()
            if own is None:
                return None
            arguments |= own
        factors = [f.native for f in self.structure.factors]
        return _native.MStep(factors=factors, n_cells=self.structure.n_cells, alpha=self.options.alpha, **arguments)

    @property
    def n_parameters(self) -> int:
        """Return d, the number of free parameters."""
        of_blocks = sum(p.block.n_parameters for p in self.places)
        return of_blocks + sum(f.n_parameters for f in self.structure.factors)

    @property
    def cells_of_shared(self) -> Ints:
        """Cells that each shared parameter stands for (n_shared,)."""
        return np.concatenate([np.zeros(0, dtype=np.intp), *(p.block.cells_of_shared for p in self.places)])

    def assemble(self, factors: Floats, parts: list[tuple[Floats, Floats]]) -> Network:
        """The network of factors and of the parameters of each block, cells and shared."""
        n, K = len(factors), self.structure.n_cells
        cells = np.concatenate([cells for cells, _ in parts], axis=1) if parts else np.zeros((n, 0, K))
        shared = np.concatenate([shared for _, shared in parts], axis=1) if parts else np.zeros((n, 0))
        return Network(self, factors, cells, shared)

    def estimate(self, s: Statistics) -> Network:
        """M-step: the parameters that maximise the posterior, given (expected) complete data."""
        parts = [p.block.estimate(s.cells[:, p.statistics]) for p in self.places]
        return self.assemble(self.structure.estimate_factors(s.states, self.options.alpha), parts)

    def draw(self, s: Statistics, rng: np.random.Generator) -> Network | None:
        """Parameters drawn from their posterior, given complete data; None where a block cannot."""
        parts = [p.block.draw(s.cells[:, p.statistics], rng) for p in self.places]
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return None
        return self.assemble(self.structure.draw_factors(s.states, self.options.alpha, rng), known)

    def bootstrap_estimate(self, s: Statistics, rng: np.random.Generator) -> Network:
        """Last M-step of a bootstrap, from rows of drawn weights: what stands for the prior is drawn as well."""
        parts = [p.block.bootstrap_estimate(s.cells[:, p.statistics], rng) for p in self.places]
        return self.assemble(self.structure.bootstrap_factors(s.states, self.options.alpha, rng), parts)

    def from_cells(self, factors: Floats, written: Floats) -> Network:
        """The network of factors and of parameters written out for each cell (n_networks, n, n_cells)."""
        ends = np.cumsum([p.block.n_written for p in self.places])
        parts = np.split(written, ends[:-1], axis=1)
        return self.assemble(factors, [p.block.from_cells(part) for p, part in zip(self.places, parts)])

    def log_marginal(self, s: Statistics) -> Floats:
        """Log p(D' | M) of the data completed with their expected statistics, parameters integrated out."""
        alpha, total = self.options.alpha, np.zeros(len(s.states))
        for p in self.places:
            total += p.block.log_marginal(s.cells[:, p.statistics])
        for f in self.structure.factors:
            entries = s.states @ f.indicator
            parents = np.add.reduceat(entries, f.first, axis=-1)
            total += (gammaln(entries + alpha) - gammaln(alpha)).sum(axis=-1)
            total += (gammaln(alpha * f.size) - gammaln(alpha * f.size + parents)).sum(axis=-1)
        return total


@dataclass(frozen=True)
class ColumnDistribution:
    """p(x_i | cell) of one column: its block, the block's parameters in one network, and its number there.

    Of a regression, the methods take what is known of the regressor (see `LinearGaussian`).
    """

    block: Block
    cells: Floats
    shared: Floats
    number: int

    def quantile(self, cell: Ints, u: Floats, *regressor: Floats) -> Floats | Ints:
        """Value (n,) up to which there is the share u (n,) of the distribution in the cells (n,)."""
        return self.block.quantile(self.cells, self.shared, self.number, cell, u, *regressor)

    def density(self, *regressor: Floats) -> tuple[Floats, Floats]:
        """Points to sum or integrate over: p(x | cell) (n_cells, n), and their weights (n,)."""
        return self.block.density(self.cells, self.shared, self.number, *regressor)

    def traits(self, *regressor: Floats) -> tuple[Floats, Floats]:
        """Means and variances (n_traits, n_cells): of the indicator of each level, or of the number."""
        return self.block.traits(self.cells, self.shared, self.number, *regressor)

    def describe(self, about: Column, *regressor: Column) -> dict[str, Any]:
        """Parameters in the column's own unit."""
        return self.block.describe(self.cells, self.shared, self.number, about, *regressor)


@dataclass(frozen=True)
class Network:
    """A model with the parameters of one or more networks.

    Attributes
    ----------
    model : Model
    factors : (n_networks, n_entries)
        Logarithms of all factors of the structure, one after the other.
    cells : (n_networks, n_rows, n_cells)
        Parameters in the cells, those of each block in turn.
    shared : (n_networks, n_shared)
        Parameters that cells share, of each block in turn.
    """

    model: Model
    factors: Floats
    cells: Floats
    shared: Floats

    __getstate__ = fields_only

    def __len__(self) -> int:
        return len(self.factors)

    def each(self) -> Iterator[Network]:
        """Each of the networks by itself, a network of one."""
        return (self.map(lambda x, k=k: x[k : k + 1]) for k in range(len(self)))

    @property
    def structure(self) -> Structure:
        """That of the model."""
        return self.model.structure

    @property
    def layout(self) -> Layout:
        """That of the model."""
        return self.model.layout

    @property
    def parts(self) -> Iterator[tuple[Place, Floats, Floats]]:
        """Each block with its parameters."""
        return ((p, self.cells[:, p.rows], self.shared[:, p.shared]) for p in self.model.places)

    def column(self, number: int) -> ColumnDistribution:
        """What the first network believes about a column of the layout."""
        place = next(p for p in self.model.places if number < p.columns.stop)
        theta = self.cells[0, place.rows], self.shared[0, place.shared]
        return ColumnDistribution(place.block, *theta, number - place.columns.start)

    @property
    def log_weight(self) -> Floats:
        """Log probability of each state, (n_networks, n_states)."""
        return self.structure.log_weight(self.factors)

    @cached_property
    def terms(self) -> Terms:
        """What the native core evaluates."""
        n, K = len(self), self.structure.n_cells

        def terms(kinds: tuple[str, ...], *each: int) -> Floats:
            own = [p.block.kernel_terms(*theta) for p, *theta in self.parts if p.block.term in kinds]
            return np.concatenate(own, axis=1) if own else np.zeros((n, 0, *each, K))

        n_linear = sum(p.block.n_columns for p in self.model.places if p.block.term == "linear")
        table, numeric, regression = terms(("lookup",)), terms(("normal", "linear"), 3), terms(("regression",), 4)
        normals = [found for p, *theta in self.parts if (found := p.block.normals(*theta)) is not None]
        return Terms(self.structure, self.log_weight, table, numeric, n_linear, regression, *normals)

    def log_prior(self) -> Floats:
        """Log prior density of the parameters (n_networks,), what `estimate` adds to the log-likelihood."""
        total: Floats = self.model.options.alpha * self.factors.sum(axis=1)
        for p, cells, shared in self.parts:
            total += p.block.log_prior(cells, shared)
        return total

    def log_likelihood_of(self, s: Statistics) -> Floats:
        """Log p(D' | theta) of the data completed with their expected statistics (n_networks,)."""
        weights = np.einsum("ns,ns->n", s.states, self.log_weight)
        return np.asarray(weights + self.column_log_likelihood(s).sum(axis=1))

    def column_log_likelihood(self, s: Statistics) -> Floats:
        """Sum over the rows of E[log p(x_i | cell)], for each column (n_networks, n_columns)."""
        parts = [p.block.log_likelihood(s.cells[:, p.statistics], *theta) for p, *theta in self.parts]
        return np.concatenate([np.zeros((len(self), 0)), *parts], axis=1)

    def per_cell(self) -> Floats:
        """All parameters of the features written out for every cell (n_networks, n, n_cells)."""
        parts = [p.block.per_cell(cells, shared) for p, cells, shared in self.parts]
        return np.concatenate([np.zeros((len(self), 0, self.structure.n_cells)), *parts], axis=1)

    def perturb(self, strength: Floats, rng: np.random.Generator) -> Network:
        """Networks to start from; strength : (n_networks, n_cells), 0 leaves a cell as it is."""
        parts = [p.block.perturb(cells, shared, strength, rng) for p, cells, shared in self.parts]
        return self.model.assemble(self.factors, parts)

    def coordinates(self) -> Floats:
        """All parameters as numbers without constraints, (n_networks, n)."""
        parts = [p.block.unconstrain(cells, shared) for p, cells, shared in self.parts]
        free = self.model.assemble(self.factors, parts)
        return np.concatenate([free.factors, free.cells.reshape(len(self), -1), free.shared], axis=1)

    def at(self, coordinates: Floats) -> Network:
        """The network nearest to coordinates (n_networks, n)."""
        ends = np.cumsum([self.factors.shape[1], self.cells[0].size])
        factors, cells, shared = np.split(coordinates, ends, axis=1)
        free = Network(self.model, factors, cells.reshape(self.cells.shape), shared)
        parts = [p.block.project(cells, shared) for p, cells, shared in free.parts]
        return self.model.assemble(self.structure.normalise(factors), parts)

    def class_marginal(self) -> Floats:
        """p(c) of the first network (n_classes,)."""
        return np.bincount(self.structure.class_of, weights=np.exp(self.log_weight[0])).astype(np.float64)

    def cells_given_class(self) -> Floats:
        """p(cell | c) of the first network (n_classes, n_cells)."""
        structure = self.structure
        joint = np.zeros((structure.n_classes, structure.n_cells))
        np.add.at(joint, (structure.class_of, structure.cell_of), np.exp(self.log_weight[0]))
        return np.asarray(joint / joint.sum(axis=1, keepdims=True))

    def component_prior(self) -> Floats:
        """p(h) of the first network (n_components,), or p(h | c) (n_classes, n_components) if it depends on c."""
        structure, weight = self.structure, np.exp(self.log_weight[0])
        joint = np.zeros((structure.n_classes, structure.n_components))
        joint[structure.class_of, structure.component_of] = weight
        if structure.has_common_components:
            return np.asarray(joint.sum(axis=0))
        return np.asarray(joint / joint.sum(axis=1, keepdims=True))

    def map(self, function: Callable[..., Floats], *others: Network) -> Network:
        """Apply a function to each array of parameters, and to those of others beside it."""
        arrays = [(n.factors, n.cells, n.shared) for n in (self, *others)]
        return Network(self.model, *(function(*theta) for theta in zip(*arrays)))
