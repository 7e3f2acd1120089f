"""The E-step and the posterior: blocks of rows and threads around the native core.

Rows are cut into blocks whose number depends on the table and the structure alone; blocks are added up in their order.
So the result does not depend on the number of threads.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from fanbayes import _native
from fanbayes.arrays import Floats
from fanbayes.data.table import EncodedTable
from fanbayes.model.network import Statistics, Terms
from fanbayes.model.structure import Structure

ThreadPool = _native.ThreadPool | None
Posterior = Literal["log_joint", "log_proba", "proba", "states"]

# A block should keep a thread busy for much longer than it takes to hand it over.
_CELLS_PER_BLOCK = 400_000
_MOST_BLOCKS = 32


def thread_pool(n_threads: int) -> ThreadPool:
    """Threads that share the blocks of rows, until nobody holds it any more; None: the calling thread alone."""
    return None if n_threads == 1 else _native.ThreadPool(n_threads)


def e_step(table: EncodedTable, terms: Terms, hard: bool, pool: ThreadPool) -> Statistics:
    """Statistics of all rows under each network: expected (8), or of the best completion (9) if `hard`."""
    blocks = n_blocks(table, terms.structure)
    *arrays, sums = _native.e_step(table.rows, *native_terms(terms), hard, blocks, pool)
    return Statistics(*arrays, *sums)


def posterior(
    table: EncodedTable,
    terms: Terms,
    what: Posterior,
    pool: ThreadPool,
) -> Floats:
    """Probabilities of classes (n_rows, n_classes), or log p(s, x) of states (n_rows, n_states)."""
    structure = terms.structure
    out = np.empty((table.n_rows, structure.n_states if what == "states" else structure.n_classes))
    _native.posterior(table.rows, *native_terms(terms), what, out, _n_blocks(table, structure, 1), pool)
    return out


def native_terms(t: Terms) -> tuple[_native.States, Floats, Floats, Floats, int, Floats]:
    """States and terms as the native core takes them."""
    weight, table, numeric, regression = map(np.ascontiguousarray, (t.log_weight, t.log_table, t.numeric, t.regression))
    return t.structure.native, weight, table, numeric, t.n_linear, regression


def n_blocks(table: EncodedTable, structure: Structure) -> int:
    """Return the number of blocks of an E-step."""
    of_cell = table.rows.n_levels + 3 * table.layout.n_numbers + 6 * table.layout.n_regressions
    return _n_blocks(table, structure, of_cell * structure.n_cells)


def _n_blocks(table: EncodedTable, structure: Structure, n_statistics: int) -> int:
    """Number of blocks: enough work in each, and much less to add up in all than there is work."""
    columns = table.layout.n_discrete + 4 * table.layout.n_numbers + 8 * table.layout.n_regressions + 1
    work = table.n_rows * columns
    most = max(1, work // (16 * max(1, n_statistics)))
    return min(_MOST_BLOCKS, most, 1 + work * structure.n_components // _CELLS_PER_BLOCK)
