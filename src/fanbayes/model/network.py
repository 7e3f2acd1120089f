"""Networks: a structure with parameters, learnt from expected statistics.

Parameters and statistics carry a leading axis of *networks*, so that EM advances all of its starts at
once; a fitted model is a network of one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from fanbayes import _native
from fanbayes.data.caching import cached_property, fields_only
from fanbayes.data.table import Layout
from fanbayes.model.families import categorical, gaussian
from fanbayes.model.families.gaussian import Variance
from fanbayes.model.structure import Factor, Structure

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Prior:
    """What is assumed before the data.

    Attributes
    ----------
    alpha : float
        Added to every count of every multinomial (5).
    variance : {"map", "tied", "tied_class", "paper"}
        How variances are estimated: each cell its own, one for all cells or for those of a class, or (7).
    floor : float
        Least variance, in units of the column's own.
    """

    alpha: float
    variance: Variance
    floor: float


@dataclass(frozen=True)
class Statistics:
    """Expected sufficient statistics (8), or those of the most probable completion (9).

    Attributes
    ----------
    states : (n_networks, n_states)
    counts : (n_networks, n_levels, n_cells)
    moments : (n_networks, 3, n_numbers, n_cells)
        N, sum x and sum x^2 of the observed values.
    of_class : (n_networks, n_classes)
        log p(D_c | theta), of the rows that are labelled c.
    log_likelihood : (n_networks,)
        log p(D | theta).
    joint : (n_networks,)
        log p(D, z | theta), z the most probable state of each row: what CEM climbs.
    classification : (n_networks,)
        log p(D, z | theta), z the most probable component of each row: what ICL scores. Where components are
        those of a class and a row has no label, z is one for each class, and the class is summed out.
    """

    states: Floats
    counts: Floats
    moments: Floats
    of_class: Floats
    log_likelihood: Floats
    joint: Floats
    classification: Floats

    def map(self, function: Callable[..., Floats], *others: Statistics) -> Statistics:
        """Apply a function to each array, and to those of others beside it."""
        return Statistics(*(function(*(getattr(s, f.name) for s in (self, *others))) for f in fields(self)))


@dataclass(frozen=True)
class Network:
    """Structure and parameters of one or more networks.

    Attributes
    ----------
    structure : Structure
    layout : Layout
    log_factors : one (n_networks, n_entries) for each factor of the structure
    log_table : (n_networks, n_levels, n_cells)
    mean, sigma2 : (n_networks, n_numbers, n_cells)
    """

    structure: Structure
    layout: Layout
    log_factors: tuple[Floats, ...]
    log_table: Floats
    mean: Floats
    sigma2: Floats

    __getstate__ = fields_only

    def __len__(self) -> int:
        return len(self.log_table)

    @property
    def log_weight(self) -> Floats:
        """Log probability of each state, (n_networks, n_states)."""
        terms = [theta[:, f.entry] for f, theta in zip(self.structure.factors, self.log_factors)]
        return np.ascontiguousarray(sum(terms[1:], start=terms[0]))

    @cached_property
    def kernel_arguments(self) -> tuple[Floats, Floats, Floats]:
        """What the native core wants."""
        return (
            self.log_weight,
            np.ascontiguousarray(self.log_table),
            np.ascontiguousarray(gaussian.for_kernel(self.mean, self.sigma2)),
        )

    def class_marginal(self) -> Floats:
        """p(c) of the first network (n_classes,)."""
        return np.bincount(self.structure.class_of, weights=np.exp(self.log_weight[0])).astype(np.float64)

    def component_prior(self) -> Floats:
        """p(h) of the first network (n_components,), or p(h | c) (n_classes, n_components) if it depends on c."""
        structure, weight = self.structure, np.exp(self.log_weight[0])
        joint = np.zeros((structure.n_classes, structure.n_components))
        joint[structure.class_of, structure.component_of] = weight
        if structure.has_common_components:
            return np.asarray(joint.sum(axis=0))
        return np.asarray(joint / joint.sum(axis=1, keepdims=True))

    @property
    def parameters(self) -> tuple[Floats, ...]:
        """All arrays of parameters."""
        return (*self.log_factors, self.log_table, self.mean, self.sigma2)

    def with_parameters(self, parameters: Sequence[Floats]) -> Network:
        """The same structure with other parameters."""
        *log_factors, log_table, mean, sigma2 = parameters
        return Network(self.structure, self.layout, tuple(log_factors), log_table, mean, sigma2)

    def map(self, function: Callable[..., Floats], *others: Network) -> Network:
        """Apply a function to each array of parameters, and to those of others beside it."""
        return self.with_parameters([function(*p) for p in zip(self.parameters, *(o.parameters for o in others))])


def n_parameters(structure: Structure, layout: Layout, variance: Variance = "map") -> int:
    """Return d, the number of free parameters."""
    of_column = gaussian.n_parameters(structure.n_cells, tied_cells(structure, variance))
    return structure.n_parameters(categorical.n_parameters(layout)) + layout.n_numbers * of_column


def tied_cells(structure: Structure, variance: Variance) -> gaussian.Groups | None:
    """Cells that share one variance: all of them, or those of a class where cells have one; else None."""
    if variance not in ("tied", "tied_class"):
        return None
    of_class = structure.class_of_cell if variance == "tied_class" else None
    of = np.zeros(structure.n_cells, dtype=np.intp) if of_class is None else of_class
    return gaussian.Groups(np.flatnonzero(np.diff(of, prepend=-1)), of)


def estimate(s: Statistics, structure: Structure, layout: Layout, prior: Prior) -> Network:
    """M-step: the parameters that maximise the posterior, given (expected) complete data."""
    tied = tied_cells(structure, prior.variance)
    mean, sigma2 = gaussian.estimate(s.moments, prior.variance, prior.floor, tied)
    return Network(
        structure,
        layout,
        estimate_factors(s.states, structure, prior.alpha),
        categorical.estimate(s.counts, layout, prior.alpha),
        mean,
        sigma2,
    )


def learner(structure: Structure, layout: Layout, prior: Prior) -> _native.Learner:
    """The native core's `estimate` and `log_prior`."""
    tied = tied_cells(structure, prior.variance)
    return _native.Learner(
        layout.first_level.tolist(),
        layout.n_numbers,
        [(f.entry.tolist(), f.parent.tolist()) for f in structure.factors],
        structure.n_cells,
        prior.alpha,
        prior.variance,
        prior.floor,
        [] if tied is None else tied.of.tolist(),
        [gaussian.KAPPA, gaussian.A, gaussian.B, gaussian.LEAST_FOR_PAPER],
    )


def log_prior(network: Network, prior: Prior) -> Floats:
    """Log prior density of the parameters (n_networks,), what `estimate` adds to the log-likelihood.

    The variance of the paper (7) maximises nothing; then only the multinomials count.
    """
    total = categorical.log_prior(network.log_table, prior.alpha)
    for theta in network.log_factors:
        total += prior.alpha * theta.sum(axis=-1)
    if prior.variance != "paper":
        total += gaussian.log_prior(network.mean, network.sigma2, tied_cells(network.structure, prior.variance))
    return total


def log_complete_likelihood(s: Statistics, network: Network) -> Floats:
    """Log p(D' | theta) of the data completed with their expected statistics (n_networks,)."""
    total = categorical.log_likelihood(s.counts, network.log_table)
    total += gaussian.log_likelihood(s.moments, network.mean, network.sigma2)
    total += np.einsum("ns,ns->n", s.states, network.log_weight)
    return total


def log_complete_marginal(s: Statistics, structure: Structure, layout: Layout, prior: Prior) -> Floats:
    """Log p(D' | M) of the completed data, parameters integrated out (n_networks,)."""
    alpha = prior.alpha
    total = categorical.log_marginal(s.counts, layout, alpha)
    total += gaussian.log_marginal(s.moments, tied_cells(structure, prior.variance))
    for f in structure.factors:
        entries = s.states @ f.indicator
        parents = np.add.reduceat(entries, f.first, axis=-1)
        total += (gammaln(entries + alpha) - gammaln(alpha)).sum(axis=-1)
        total += (gammaln(alpha * f.size) - gammaln(alpha * f.size + parents)).sum(axis=-1)
    return total


def estimate_factors(states: Floats, structure: Structure, alpha: float) -> tuple[Floats, ...]:
    """Log of (5) for the weights of the states: (alpha + N_jk) / (alpha r + N_j) in every factor."""

    def one(f: Factor) -> Floats:
        entries = states @ f.indicator + alpha
        return np.log(entries) - np.log(np.add.reduceat(entries, f.first, axis=-1))[:, f.parent]

    return tuple(one(f) for f in structure.factors)
