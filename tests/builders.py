"""Random networks and tables, both as fanbayes has them and as `oracles` wants them."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

import numpy as np
import oracles

from fanbayes.data.table import EncodedTable, Layout
from fanbayes.files.dataset import Dataset, from_columns
from fanbayes.learning.data import InMemoryData
from fanbayes.learning.em import Problem
from fanbayes.learning.partitioned import PartitionedData, PartitionedTable, added_up, training_data
from fanbayes.model.blocks import EstimationOptions
from fanbayes.model.blocks.linear_gaussian import LAMBDA
from fanbayes.model.blocks.normal import KAPPA, A, B
from fanbayes.model.network import Model, Network
from fanbayes.model.structure import Structure, fan, finite_mixture, naive_bayes

KINDS = ("nb", "fan", "per_class", "ragged", "fm")
MAP = EstimationOptions()
PAPER = EstimationOptions(variance_estimator="paper")


def oracle_kind(kind: str) -> str:
    return "per_class" if kind == "ragged" else kind


def oracle_prior(options: EstimationOptions) -> oracles.Prior:
    """The formulas are SPEC's, the constants of the prior are the library's to choose."""
    return oracles.Prior(options.alpha, KAPPA, A, B, LAMBDA)


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


def make_layout(levels: tuple[int, ...], n_numbers: int, n_regressions: int = 0) -> Layout:
    """Levels of the discrete columns, those with more than 255 last."""
    first = np.concatenate([[0], np.cumsum([r + 1 for r in levels])]).astype(np.int64)
    return Layout(first, sum(r <= 255 for r in levels), ("gaussian",) * n_numbers, n_regressions=n_regressions)


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
    n_regressions: int = 0,
) -> oracles.Rows:
    codes = np.column_stack([rng.integers(0, r, n) for r in levels] or [np.zeros((n, 0), dtype=int)])
    codes[rng.random(codes.shape) < missing] = -1
    numbers = rng.normal(size=(n, n_numbers))
    numbers[rng.random(numbers.shape) < missing] = np.nan
    labels = rng.integers(0, n_classes, n)
    labels[rng.random(n) < unlabelled] = -1
    labels[:n_classes] = np.arange(n_classes)
    weights = rng.choice([0.25, 1.0, 1.7, 3.0], n) if weighted else np.ones(n)
    pairs = rng.normal(size=(n, n_regressions, 2))
    pairs[..., 0] += 0.7 * pairs[..., 1]
    pairs[rng.random((n, n_regressions)) < missing] = np.nan
    return oracles.Rows(codes, numbers, labels, weights, pairs)


def encode(rows: oracles.Rows, layout: Layout) -> EncodedTable:
    codes = np.where(rows.codes < 0, layout.n_levels, rows.codes)
    return EncodedTable(
        layout,
        np.ascontiguousarray(codes[:, : layout.n_narrow].astype(np.uint8)),
        np.ascontiguousarray(codes[:, layout.n_narrow :].astype(np.uint16)),
        np.ascontiguousarray(rows.numbers),
        rows.labels.astype(np.int32),
        None if (rows.weights == 1).all() else rows.weights,
        pairs=rows.pairs,
    )


def random_network(
    rng: np.random.Generator,
    structure: Structure,
    layout: Layout,
    n: int = 1,
    options: EstimationOptions = MAP,
) -> Network:
    """`n` networks with parameters drawn at random; variances that cells share are the mean of theirs."""
    factors = np.concatenate([rng.normal(size=(n, len(f.parent))) for f in structure.factors], axis=1)
    table = rng.normal(size=(n, int(layout.first_level[-1]), structure.n_cells))
    mean = rng.normal(size=(n, layout.n_numbers, structure.n_cells))
    sigma2 = rng.gamma(4.0, 0.25, size=mean.shape) + 0.05
    lines = rng.normal(size=(n, 2 * layout.n_regressions, structure.n_cells))
    residual = rng.gamma(4.0, 0.25, size=(n, layout.n_regressions, structure.n_cells)) + 0.05
    model = Model(structure, layout, options)
    network = model.from_cells(factors, np.concatenate([table, mean, sigma2, lines, residual], axis=1))
    return network.at(network.coordinates())  # which makes them probabilities


def rows_of(layout: Layout) -> dict[str, slice]:
    """Where the parameters of a cell lie that shares none with others."""
    n, pairs = layout.n_numbers, layout.n_regressions
    sizes = {"log_table": int(layout.first_level[-1]), "mean": n, "sigma2": n}
    sizes |= {"intercept": pairs, "slope": pairs, "residual": pairs}
    ends = accumulate(sizes.values(), initial=0)
    return {name: slice(*at) for name, at in zip(sizes, pairwise(ends))}


def part(network: Network, name: str) -> np.ndarray:
    """log_table (n, n_levels, n_cells), mean or sigma2 (n, n_numbers, n_cells), written out for every cell.

    Or intercept, slope or residual variance (n, n_regressions, n_cells).
    """
    return network.per_cell()[:, rows_of(network.layout)[name]]


def changed(network: Network, **parts: np.ndarray) -> Network:
    """The network with other `factors` and `shared`, or `log_table`, `mean` and `sigma2` of its cells, as they are."""
    whole = {name: parts.pop(name) for name in ("factors", "shared") if name in parts}
    assert not (network.shared.size and "sigma2" in parts)
    cells = network.cells.copy()
    for name, values in parts.items():
        cells[:, rows_of(network.layout)[name]] = values
    return replace(network, cells=cells, **whole)


def arrays(network: Network) -> tuple[np.ndarray, ...]:
    """All parameters."""
    return network.factors, network.cells, network.shared


def plain(network: Network, k: int = 0) -> oracles.Plain:
    """The k-th network, without any of the library's own types."""
    s, first = network.structure, network.layout.first_level
    table, mean, sigma2, *lines = (part(network, name)[k] for name in rows_of(network.layout))
    weight = sum(theta[f.entry] for f, theta in zip(s.factors, s.split(network.factors[k])))
    return oracles.Plain(
        s.class_of.tolist(),
        s.component_of.tolist(),
        s.cell_of.tolist(),
        weight,
        [table[a : b - 1] for a, b in pairwise(first)],
        mean,
        sigma2,
        np.stack(lines, axis=1),
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

    def problem(self, hard: bool = False, accelerate: bool = True) -> Problem:
        return Problem(InMemoryData(self.table), self.network.model.options, hard, accelerate)

    def objective(self, hard: bool = False, network: Network | None = None) -> float:
        network = self.network if network is None else network
        options = network.model.options
        prior, variance = oracle_prior(options), options.variance_estimator
        return oracles.objective(plain(network), self.rows, [network.factors[0]], hard, prior, variance)


def make_world(
    seed: int,
    kind: str,
    n_components: int,
    *,
    n_classes: int = 3,
    levels: tuple[int, ...] = (2, 4, 300),
    n_numbers: int = 2,
    n: int = 23,
    options: EstimationOptions = MAP,
    n_regressions: int = 0,
    **rows_like: float,
) -> World:
    rng = np.random.default_rng(seed)
    layout = make_layout(levels, n_numbers, n_regressions)
    structure = make_structure(kind, n_classes, n_components)
    rows = random_rows(rng, levels, n_numbers, n_classes, n, n_regressions=n_regressions, **rows_like)
    return World(kind, random_network(rng, structure, layout, options=options), encode(rows, layout), rows)


def sent(value):
    return pickle.loads(pickle.dumps(value))


@dataclass(frozen=True)
class LocalParts:
    """Parts in this process; what goes to them and comes back is sent."""

    values: tuple

    def map(self, function, *arguments):
        function, arguments = sent((function, arguments))
        return LocalParts(tuple(function(value, *arguments) for value in self.values))

    def persist(self):
        return self

    def gather(self):
        return sent(list(self.values))

    def sum(self):
        [total] = added_up(self.values, lambda some: sum(some[1:], start=some[0]))
        return sent(total)


def in_parts(table: EncodedTable, n_parts: int = 4, kind: type[InMemoryData] = InMemoryData) -> PartitionedData:
    """Unequal parts of rows that lie apart, the last of them empty."""
    of_part = np.array([0, 1, 1, 2, 1, 0, 1])[np.arange(table.n_rows) % 7] % (n_parts - 1)
    parts = LocalParts(tuple(table.only(of_part == k) for k in range(n_parts)))
    n_classes = int(table.labels.max()) + 1
    return training_data(PartitionedTable(parts, table.layout, n_classes, table.total_weight), None, kind)


def toy_dataset(labels, name="toy", **changes) -> Dataset:
    """A dataset of one continuous column, with these labels."""
    labels = np.array(labels, object)
    rng = np.random.default_rng(0)
    made = from_columns(name, {"x": rng.normal(size=len(labels))}, np.where(labels == None, "a", labels), "made")  # noqa: E711
    return replace(made, y=labels, **changes)
