"""Prediction: a million rows against gradient boosting, and one row at a time."""

from __future__ import annotations

import statistics
import time

import numpy as np
from measure import Result, seconds
from sklearn.ensemble import HistGradientBoostingClassifier

from fanbayes import FANClassifier


def run() -> list[Result]:
    rng = np.random.default_rng(0)
    n = 1_000_000
    y = rng.integers(0, 2, n)
    X = rng.standard_normal((n, 20)) + 0.5 * y[:, None] * rng.standard_normal(20)
    part = slice(0, 20_000)
    fan = FANClassifier(5, random_state=0, n_jobs=2).fit(X[part], y[part])
    boosting = HistGradientBoostingClassifier(random_state=0).fit(X[part], y[part])
    ours, theirs = seconds(lambda: fan.predict_proba(X), lambda: boosting.predict_proba(X), repeat=3)
    one = FANClassifier(5, random_state=0).fit(X[part], y[part])
    return [
        Result(
            "predict_proba, 1,000,000 x 20: HistGradientBoosting / FAN of 5 components", theirs / ours, 1,
            detail={"s": {"fanbayes": ours, "sklearn": theirs}},
        ),
        Result("predict_proba of one NumPy row of 20 numbers", latency(one, X[:1]), 200, "less", "us"),
    ]  # fmt: skip


def latency(model: FANClassifier, row: np.ndarray) -> float:
    """Median time of a single prediction in microseconds."""
    times = []
    for _ in range(2000):
        start = time.perf_counter()
        model.predict_proba(row)
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e6
