"""Time against rows, features, components and classes: slopes on logarithmic axes; two threads against one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from measure import Result, seconds_per_iteration

from fanbayes import FANClassifier

BASE = {"rows": 60_000, "features": 16, "components": 8, "classes": 2}
STEPS = {
    "rows": [15_000, 30_000, 60_000, 120_000, 240_000],
    "features": [8, 16, 32, 64, 128],
    "components": [8, 16, 24, 32, 48],
    "classes": [1, 2, 4, 8, 16, 32],
}


def run() -> list[Result]:
    results = []
    for axis, steps in STEPS.items():
        times = [pass_seconds(**{**BASE, axis: step})[0] for step in steps]
        slope = float(np.polyfit(np.log(steps), np.log(times), 1)[0])
        detail = {"steps": steps, "seconds a pass": times}
        results.append(Result(f"slope of time against {axis}", slope, 1.05, "less", "", detail))
    one, two = pass_seconds(**{**BASE, "rows": 400_000})
    results.append(Result("EM pass, 400,000 x 16: one thread / two", one / two, 1.8))
    return results


def pass_seconds(rows: int, features: int, components: int, classes: int) -> list[float]:
    """Time of one pass with one and with two threads, half of the features discrete."""
    rng = np.random.default_rng(0)
    X = np.hstack([rng.integers(0, 5, (rows, features // 2)).astype(float), rng.standard_normal((rows, features // 2))])
    y = rng.integers(0, classes, rows)

    def fit(n_jobs: int) -> Callable[[int], object]:
        return lambda n: FANClassifier(
            components, n_init=1, max_iter=n, tol=0.0, n_jobs=n_jobs, random_state=0,
            categorical_features=list(range(features // 2)),
        ).fit(X, y)  # fmt: skip

    return seconds_per_iteration(fit(1), fit(2), few=2, many=8, repeat=2)
