"""The native core (C++ in src/native): EM with its fused E-step, and the posterior, over arrays."""

from fanbayes._native._core import (
    MStep,
    Pairs,
    RawColumns,
    Rows,
    States,
    ThreadPool,
    Tree,
    backend,
    backends,
    e_step,
    exp,
    log,
    posterior,
    rows_visited,
    run_em,
    use_backend,
)

__all__ = [
    "MStep",
    "Pairs",
    "RawColumns",
    "Rows",
    "States",
    "ThreadPool",
    "Tree",
    "backend",
    "backends",
    "e_step",
    "exp",
    "log",
    "posterior",
    "rows_visited",
    "run_em",
    "use_backend",
]
