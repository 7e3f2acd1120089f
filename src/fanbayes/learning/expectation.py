"""The E-step and the posterior: blocks and threads around the native core.

Rows are cut into blocks whose number depends on the table alone; blocks are added up in their order. So
the result does not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from operator import add
from typing import Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from fanbayes import _native
from fanbayes.data.table import EncodedTable
from fanbayes.model.network import Statistics
from fanbayes.model.structure import Structure

Floats = NDArray[np.float64]
T = TypeVar("T")

# A block should keep a thread busy for much longer than it takes to hand it over.
_CELLS_PER_BLOCK = 400_000
_MOST_BLOCKS = 32


class Model(Protocol):
    """What the native core can evaluate: networks, or a network with exponents."""

    @property
    def structure(self) -> Structure: ...  # noqa: D102

    @property
    def kernel_arguments(self) -> tuple[Floats, Floats, Floats]: ...  # noqa: D102

    def __len__(self) -> int: ...


@dataclass(frozen=True)
class Workers:
    """Threads that run native calls; none for `map` on the calling thread."""

    pool: ThreadPoolExecutor | None = None

    def map(self, function: Callable[[tuple[int, int]], T], blocks: list[tuple[int, int]]) -> Iterable[T]:
        """Results in the order of the blocks."""
        if self.pool is None or len(blocks) == 1:
            return map(function, blocks)
        return self.pool.map(function, blocks)


@contextmanager
def workers(n_threads: int) -> Iterator[Workers]:
    """`n_threads` threads, released at the end."""
    if n_threads == 1:
        yield Workers()
        return
    with ThreadPoolExecutor(n_threads, thread_name_prefix="fanbayes") as pool:
        yield Workers(pool)


def expect(table: EncodedTable, network: Model, hard: bool, crew: Workers) -> Statistics:
    """Statistics of all rows under each network: expected (8), or of the best completion (9) if `hard`."""
    arguments = network.kernel_arguments
    states = network.structure.native

    def one_block(block: tuple[int, int]) -> Statistics:
        by_state, counts, moments, sums = _native.expect(table.rows, states, *arguments, *block, hard)
        return Statistics(by_state, counts, moments, sums[0], sums[1], sums[2])

    n_statistics = arguments[1][0].size + arguments[2][0].size
    return reduce(add, crew.map(one_block, _blocks(table, network, n_statistics)))


def posterior(
    table: EncodedTable,
    network: Model,
    what: Literal["log_joint", "log_proba", "proba", "states"],
    crew: Workers,
) -> Floats:
    """Probabilities of classes (n_rows, n_classes), or log p(s, x) of states (n_rows, n_states)."""
    arguments = network.kernel_arguments
    states = network.structure.native
    width = network.structure.n_states if what == "states" else network.structure.n_classes
    out = np.empty((table.n_rows, width))

    def one_block(block: tuple[int, int]) -> None:
        _native.posterior(table.rows, states, *arguments, *block, what, out[block[0] : block[1]])

    for _ in crew.map(one_block, _blocks(table, network, 1)):
        pass
    return out


def _blocks(table: EncodedTable, network: Model, n_statistics: int) -> list[tuple[int, int]]:
    """Row ranges: enough work in each, and no more statistics in all than there is work."""
    n = table.n_rows
    columns = table.layout.n_discrete + 4 * table.layout.n_numbers + 1
    work = n * columns * len(network) * network.structure.n_components
    most = max(1, n * columns // (4 * max(1, n_statistics)))
    count = min(_MOST_BLOCKS, most, 1 + work // _CELLS_PER_BLOCK)
    edges = np.linspace(0, n, count + 1).astype(int)
    return [(int(a), int(b)) for a, b in pairwise(edges)]
