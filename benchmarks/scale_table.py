"""Rows of the benchmarks of scale: 15 discrete and 5 continuous columns, written as Parquet in pieces."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

TARGET = "y"
N_DISCRETE, N_CONTINUOUS, N_COMPONENTS, N_CLASSES = 15, 5, 4, 2
ROWS_A_FILE = 1_000_000
_BYTES_A_ROW = 46  # of Parquet


def draw(n_rows: int, number: int) -> tuple[list[NDArray[np.int8]], list[NDArray[np.float64]], NDArray[np.int8]]:
    """Piece number so and so of a FAN's rows: codes and numbers by column, and classes, each (n_rows,)."""
    of_model, rng = np.random.default_rng(0), np.random.default_rng([1, number])
    y = rng.integers(0, N_CLASSES, n_rows, dtype=np.int8)
    h = rng.choice(np.arange(N_COMPONENTS, dtype=np.int8), n_rows, p=[0.4, 0.3, 0.2, 0.1])
    cell = y * np.int8(N_COMPONENTS) + h
    n_cells, codes, numbers = N_CLASSES * N_COMPONENTS, [], []
    for j in range(N_DISCRETE):
        bounds = of_model.dirichlet(np.ones(2 + j % 6), n_cells).cumsum(axis=1)[:, :-1].astype(np.float32)
        u, code = rng.random(n_rows, dtype=np.float32), np.zeros(n_rows, dtype=np.int8)
        for bound in bounds.T:
            code += u > bound[cell]
        codes.append(code)
    for _ in range(N_CONTINUOUS):
        numbers.append(of_model.normal(size=n_cells)[cell] + rng.standard_normal(n_rows))
    return codes, numbers, y


def piece(n_rows: int, number: int) -> pa.Table:
    """A piece as a table."""
    codes, numbers, y = draw(n_rows, number)
    columns: dict[str, Any] = {f"c{j}": _texts(code, f"level {j}-") for j, code in enumerate(codes)}
    columns |= {f"x{j}": x for j, x in enumerate(numbers)}
    return pa.table({**columns, TARGET: _texts(y, "class ")})


def _texts(codes: NDArray[np.int8], name: str) -> pa.Array:
    levels = [f"{name}{k}" for k in range(int(codes.max()) + 1)]
    return pa.DictionaryArray.from_arrays(codes, levels)


@contextmanager
def files(n_rows: int, rows_a_file: int = ROWS_A_FILE) -> Iterator[list[str]]:
    """Files of so many rows in all, in a folder that is gone afterwards; refused where the disk is too small."""
    folder = Path(tempfile.mkdtemp(prefix="fanbayes-scale-"))
    try:
        free = shutil.disk_usage(folder).free
        if free < 4 * n_rows * _BYTES_A_ROW:
            raise OSError(f"{n_rows:,} rows need {4 * n_rows * _BYTES_A_ROW:,} bytes in {folder}; {free:,} are free")
        firsts = range(0, n_rows, rows_a_file)
        paths = [str(folder / f"{number:05}.parquet") for number in range(len(firsts))]

        def write(number: int) -> None:
            table = piece(min(rows_a_file, n_rows - firsts[number]), number)
            pq.write_table(table, paths[number], store_schema=False)  # so that texts are texts

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(write, range(len(firsts))))
        yield paths
    finally:
        shutil.rmtree(folder, ignore_errors=True)
