"""Random networks and tables, both as fanbayes has them and as `oracles` wants them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import oracles

from fanbayes.data.table import EncodedTable, Layout
from fanbayes.model.families import categorical, gaussian
from fanbayes.model.network import Network, Prior
from fanbayes.model.structure import Structure, fan, finite_mixture, naive_bayes

# The formulas are SPEC's, the constants of the prior are the library's to choose.
oracles.KAPPA, oracles.A, oracles.B = gaussian.KAPPA, gaussian.A, gaussian.B

KINDS = ("nb", "fan", "per_class", "ragged", "fm")


def normalise_factors(log_factors, structure):
    """Turn any real numbers into log probabilities."""
    return tuple(
        theta - np.logaddexp.reduceat(theta, f.first, axis=-1)[:, f.parent]
        for f, theta in zip(structure.factors, log_factors)
    )


def oracle_kind(kind: str) -> str:
    return "per_class" if kind == "ragged" else kind


def sizes(kind: str, n_classes: int, n_components: int) -> list[int]:
    """r_h of each class: "ragged" goes from n_components downwards."""
    if kind == "nb":
        return [1] * n_classes
    return [max(1, n_components - 3 * c if kind == "ragged" else n_components) for c in range(n_classes)]


def make_structure(kind: str, n_classes: int, n_components: int) -> Structure:
    if kind == "nb":
        return naive_bayes(n_classes)
    if kind == "fm":
        return finite_mixture(n_classes, n_components)
    return fan(sizes(kind, n_classes, n_components), "shared" if kind == "fan" else "per_class")


def make_layout(levels: tuple[int, ...], n_numbers: int) -> Layout:
    """Levels of the discrete columns, those with more than 255 last."""
    first = np.concatenate([[0], np.cumsum([r + 1 for r in levels])]).astype(np.int64)
    return Layout(first, sum(r <= 255 for r in levels), n_numbers)


def random_rows(
    rng: np.random.Generator,
    levels: tuple[int, ...],
    n_numbers: int,
    n_classes: int,
    n: int,
    *,
    missing: float = 0.15,
    unlabelled: float = 0.2,
    weighted: bool = True,
) -> oracles.Rows:
    codes = np.column_stack([rng.integers(0, r, n) for r in levels] or [np.zeros((n, 0), dtype=int)])
    codes[rng.random(codes.shape) < missing] = -1
    numbers = rng.normal(size=(n, n_numbers))
    numbers[rng.random(numbers.shape) < missing] = np.nan
    labels = rng.integers(0, n_classes, n)
    labels[rng.random(n) < unlabelled] = -1
    labels[:n_classes] = np.arange(n_classes)
    weights = rng.choice([0.25, 1.0, 1.7, 3.0], n) if weighted else np.ones(n)
    return oracles.Rows(codes, numbers, labels, weights)


def encode(rows: oracles.Rows, layout: Layout) -> EncodedTable:
    codes = np.where(rows.codes < 0, layout.n_levels, rows.codes)
    return EncodedTable(
        layout,
        np.ascontiguousarray(codes[:, : layout.n_narrow].astype(np.uint8)),
        np.ascontiguousarray(codes[:, layout.n_narrow :].astype(np.uint16)),
        np.ascontiguousarray(rows.numbers),
        rows.labels.astype(np.int32),
        None if (rows.weights == 1).all() else rows.weights,
    )


def random_network(rng: np.random.Generator, structure: Structure, layout: Layout, n: int = 1) -> Network:
    """`n` networks with parameters drawn at random."""
    factors = tuple(rng.normal(size=(n, len(f.parent))) for f in structure.factors)
    shape = (n, layout.n_numbers, structure.n_cells)
    table = rng.normal(size=(n, int(layout.first_level[-1]), structure.n_cells))
    return Network(
        structure,
        layout,
        normalise_factors(factors, structure),
        categorical.normalise(table, layout),
        rng.normal(size=shape),
        rng.gamma(4.0, 0.25, size=shape) + 0.05,
    )


def plain(network: Network, k: int = 0) -> oracles.Plain:
    """The k-th network, without any of the library's own types."""
    s, first = network.structure, network.layout.first_level
    tables = [network.log_table[k, a : b - 1] for a, b in pairwise(first)]
    weight = sum(theta[k, f.entry] for f, theta in zip(s.factors, network.log_factors))
    return oracles.Plain(
        s.class_of.tolist(),
        s.component_of.tolist(),
        s.cell_of.tolist(),
        weight,
        tables,
        network.mean[k],
        network.sigma2[k],
    )


@dataclass(frozen=True)
class World:
    """A table, a network, and both in plain form."""

    kind: str
    network: Network
    table: EncodedTable
    rows: oracles.Rows

    @property
    def plain(self) -> oracles.Plain:
        return plain(self.network)

    def objective(self, prior: Prior, hard: bool = False, network: Network | None = None) -> float:
        network = self.network if network is None else network
        factors = [theta[0] for theta in network.log_factors]
        return oracles.objective(plain(network), self.rows, factors, hard, prior.alpha, prior.variance)


def make_world(
    seed: int,
    kind: str,
    n_components: int,
    *,
    n_classes: int = 3,
    levels: tuple[int, ...] = (2, 4, 300),
    n_numbers: int = 2,
    n: int = 23,
    **options: float,
) -> World:
    rng = np.random.default_rng(seed)
    layout = make_layout(levels, n_numbers)
    structure = make_structure(kind, n_classes, n_components)
    rows = random_rows(rng, levels, n_numbers, n_classes, n, **options)
    return World(kind, random_network(rng, structure, layout), encode(rows, layout), rows)
