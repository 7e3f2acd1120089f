"""Time and memory against rows, features, components and classes: slopes on logarithmic axes; two threads, one."""

from __future__ import annotations

import ctypes
import gc
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from measure import Result, passes, seconds_per_iteration
from sklearn.exceptions import ConvergenceWarning

from fanbayes import FANClassifier

BASE = {"rows": 60_000, "features": 16, "components": 8, "classes": 2}
STEPS = {
    "rows": [15_000, 30_000, 60_000, 120_000, 240_000],
    "features": [8, 16, 32, 64, 128],
    "components": [8, 16, 24, 32, 48],
    "classes": [1, 2, 4, 8, 16, 32],
}


def run() -> list[Result]:
    warnings.simplefilter("ignore", ConvergenceWarning)
    results = []
    for axis, steps in STEPS.items():
        fits = [fit_of(**{**BASE, axis: step}) for step in steps]
        times = [seconds_per_iteration(lambda n, f=f: f(1, n), few=2, many=12, repeat=3)[0] for f in fits]
        sizes = [peak_memory(f) for f in fits]
        for what, unit, values in (("time", "seconds a pass", times), ("memory", "bytes above the input", sizes)):
            detail = {"axis": axis, "steps": steps, unit: values}
            results.append(Result(f"slope of {what} against {axis}", slope(steps, values), 1.05, "less", "", detail))
    fit = fit_of(**{**BASE, "rows": 400_000})
    one, two = seconds_per_iteration(lambda n: fit(1, n), lambda n: fit(2, n), few=2, many=42, repeat=7)
    results.append(Result("EM pass, 400,000 x 16: one thread / two", one / two, 1.8))
    return results


def fit_of(rows: int, features: int, components: int, classes: int) -> Callable[[int, int], float]:
    """A fit of so many threads and iterations, half of the features discrete."""
    rng = np.random.default_rng(0)
    X = np.hstack([rng.integers(0, 5, (rows, features // 2)).astype(float), rng.standard_normal((rows, features // 2))])
    y = rng.integers(0, classes, rows)

    def fit(n_jobs: int, n: int) -> float:
        model = FANClassifier(
            components, n_init=1, max_iter=n, tol=0.0, n_jobs=n_jobs, random_state=0,
            categorical_features=list(range(features // 2)),
        )  # fmt: skip
        return passes(lambda: model.fit(X, y), rows)

    return fit


def peak_memory(fit: Callable[[int, int], float]) -> int:
    """Bytes that a fit needs at its peak above what is there before it, as the kernel counts them."""

    def memory(what: str) -> int:
        line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(what))
        return int(line.split()[1]) * 1024

    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = memory("VmRSS")
    fit(1, 4)
    return memory("VmHWM") - before


def slope(x: list[int], y: list[float] | list[int]) -> float:
    """Of the line through the points, both axes logarithmic."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])
