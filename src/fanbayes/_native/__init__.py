"""The native core (C++ in src/native): EM with its fused E-step, and the posterior, over arrays."""

from fanbayes._native._core import (
    Crew,
    Learner,
    RawColumns,
    Rows,
    States,
    advance,
    backend,
    backends,
    exp,
    expect,
    gather,
    log,
    posterior,
    rows_visited,
    use_backend,
)

__all__ = [
    "Crew",
    "Learner",
    "RawColumns",
    "Rows",
    "States",
    "advance",
    "backend",
    "backends",
    "exp",
    "expect",
    "gather",
    "log",
    "posterior",
    "rows_visited",
    "use_backend",
]
