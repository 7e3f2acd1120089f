"""The native core (C++ in src/native): the fused E-step and the posterior, over arrays."""

from fanbayes._native._core import (
    Crew,
    RawColumns,
    Rows,
    States,
    backend,
    backends,
    exp,
    expect,
    gather,
    log,
    posterior,
    use_backend,
)

__all__ = [
    "Crew",
    "RawColumns",
    "Rows",
    "States",
    "backend",
    "backends",
    "exp",
    "expect",
    "gather",
    "log",
    "posterior",
    "use_backend",
]
