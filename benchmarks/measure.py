"""How times are taken and results are told."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from fanbayes import _native


@dataclass(frozen=True)
class Result:
    """One line of the table: a goal, what was reached.

    `value` and `target` are ratios wherever possible: these machines are shared and noisy. `better` tells
    whether more or less is better.
    """

    name: str
    value: float
    target: float | None = None
    better: str = "more"
    unit: str = "x"
    detail: dict[str, Any] = field(default_factory=dict)

    @property
    def met(self) -> bool | None:
        """Whether the target was reached; None if there is none."""
        if self.target is None:
            return None
        return self.value >= self.target if self.better == "more" else self.value <= self.target

    def to_json(self) -> dict[str, Any]:
        """Plain values only."""
        return {**asdict(self), "met": self.met}


def seconds(*functions: Callable[[], Any], repeat: int = 5) -> list[float]:
    """Least time of each function; they take turns, so that a slow moment of the machine hits all alike."""
    best = [float("inf")] * len(functions)
    for _ in range(repeat):
        for k, function in enumerate(functions):
            gc.collect()
            start = time.perf_counter()
            function()
            best[k] = min(best[k], time.perf_counter() - start)
    return best


def seconds_per_iteration(
    *fits: Callable[[int], float | None], few: int = 4, many: int = 24, repeat: int = 5
) -> list[float]:
    """Time that one more iteration takes: the difference of a long and a short run, set-up cancelled.

    A fit is told how many iterations to make, and may return how many passes over all rows it took (`passes`).
    """
    made = {}

    def run(k: int, n: int) -> None:
        made[k, n] = fits[k](n) or n

    short, long = (seconds(*(lambda k=k, n=n: run(k, n) for k in range(len(fits))), repeat=repeat) for n in (few, many))
    return [(b - a) / (made[k, many] - made[k, few]) for k, (a, b) in enumerate(zip(short, long))]


def passes(fit: Callable[[], Any], n_rows: int) -> float:
    """Passes over all rows that a fit of ours takes; one over half of them is half a pass."""
    before = _native.rows_visited()
    fit()
    return (_native.rows_visited() - before) / n_rows
