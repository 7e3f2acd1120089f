"""The fused pass as a multiple of what any E-step must do: fetch and add each code's row of the table."""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from measure import Result, seconds

from fanbayes import _native
from fanbayes.data.sources import array_sources
from fanbayes.data.table import learn_table

ROWS, COLUMNS, LEVELS, COMPONENTS = 50_000, 20, 5, 8
FLAGS = {"baseline": [], "avx2": ["-mavx2"], "avx512": ["-mavx512f"]}


def gather_of(backend: str) -> Callable[..., float]:
    """`gather` of gather.cpp, compiled for an instruction set."""
    with TemporaryDirectory() as folder:
        library = Path(folder, "gather.so")
        source = Path(__file__).with_name("gather.cpp")
        compiler = [os.environ.get("CXX", "c++"), "-std=c++20", "-O3", "-shared", "-fPIC", *FLAGS[backend]]
        subprocess.run([*compiler, source, "-o", library], check=True)
        gather = ctypes.CDLL(str(library)).gather
    gather.restype = ctypes.c_double
    return gather


def run() -> list[Result]:
    rng = np.random.default_rng(0)
    X = rng.integers(0, LEVELS, (ROWS, COLUMNS))
    sources = list(array_sources(X, [f"x{j}" for j in range(COLUMNS)]))
    _, table = learn_table(sources, [True] * COLUMNS, None, np.zeros(ROWS, dtype=np.int32), None)
    fused = table.fused()  # as every fit does
    n_levels = int(table.layout.first_level[-1])
    log_table = np.log(rng.random((1, n_levels, COMPONENTS)))
    log_weight = np.full((1, COMPONENTS), -np.log(COMPONENTS))
    states = _native.States([0, COMPONENTS], [0], COMPONENTS, True)
    numeric, regression = np.zeros((1, 0, 3, COMPONENTS)), np.zeros((1, 0, 4, COMPONENTS))

    def e_step() -> None:
        _native.e_step(fused.rows, states, log_weight, log_table, numeric, 0, regression, False)

    first_level = table.layout.first_level
    shape = [ctypes.c_int64(n) for n in table.narrow.shape]
    arguments = [a.ctypes if isinstance(a, np.ndarray) else a for a in (table.narrow, *shape, first_level, log_table)]
    results = []
    best = _native.backend()
    for backend in _native.backends():
        _native.use_backend(backend)
        least, whole = seconds(partial(gather_of(backend), *arguments), e_step, repeat=40)
        target = 4 if backend != "baseline" else None
        name = f"fused pass / gather-and-add, 8 components, {backend}"
        detail = {"ms": {"gather": least * 1e3, "pass": whole * 1e3}, "codes per row": fused.narrow.shape[1]}
        results.append(Result(name, whole / least, target, "less", detail=detail))
    _native.use_backend(best)
    return results
