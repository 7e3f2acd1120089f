"""The E-step and the posterior: blocks and threads around the native core.

Rows are cut into blocks whose number depends on the table alone; blocks are added up in their order. So
the result does not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from fanbayes import _native
from fanbayes.data.table import EncodedTable
from fanbayes.model.network import Statistics
from fanbayes.model.structure import Structure

Floats = NDArray[np.float64]

# A block should keep a thread busy for much longer than it takes to hand it over.
_CELLS_PER_BLOCK = 400_000
_MOST_BLOCKS = 32


class Model(Protocol):
    """What the native core can evaluate: networks, or a network with feature weights."""

    @property
    def structure(self) -> Structure: ...  # noqa: D102

    @property
    def kernel_arguments(self) -> tuple[Floats, Floats, Floats]: ...  # noqa: D102

    def __len__(self) -> int: ...


@dataclass(frozen=True)
class Workers:
    """Threads that share the blocks; none: the calling thread alone."""

    crew: _native.Crew | None = None


@contextmanager
def workers(n_threads: int) -> Iterator[Workers]:
    """`n_threads` threads, released at the end."""
    yield Workers() if n_threads == 1 else Workers(_native.Crew(n_threads))


def expect(table: EncodedTable, network: Model, hard: bool, crew: Workers) -> Statistics:
    """Statistics of all rows under each network: expected (8), or of the best completion (9) if `hard`."""
    arguments = (table.rows, network.structure.native, *network.kernel_arguments)
    states, counts, moments, sums, of_class = _native.expect(
        *arguments, 0, table.n_rows, hard, n_blocks(table, network), crew.crew
    )
    return Statistics(states, counts, moments, of_class, *sums)


def posterior(
    table: EncodedTable,
    network: Model,
    what: Literal["log_joint", "log_proba", "proba", "states"],
    crew: Workers,
) -> Floats:
    """Probabilities of classes (n_rows, n_classes), or log p(s, x) of states (n_rows, n_states)."""
    structure, n = network.structure, table.n_rows
    out = np.empty((n, structure.n_states if what == "states" else structure.n_classes))
    blocks = _n_blocks(table, network, 1)
    _native.posterior(table.rows, structure.native, *network.kernel_arguments, 0, n, what, out, blocks, crew.crew)
    return out


def n_blocks(table: EncodedTable, network: Model) -> int:
    """Return the number of blocks of an E-step."""
    return _n_blocks(table, network, (table.rows.n_levels + 3 * table.layout.n_numbers) * network.structure.n_cells)


def _n_blocks(table: EncodedTable, network: Model, n_statistics: int) -> int:
    """Number of blocks: enough work in each, and much less to add up in all than there is work."""
    columns = table.layout.n_discrete + 4 * table.layout.n_numbers + 1
    work = table.n_rows * columns
    most = max(1, work // (16 * max(1, n_statistics)))
    return min(_MOST_BLOCKS, most, 1 + work * network.structure.n_components // _CELLS_PER_BLOCK)
