"""AODE: predictions against Weka's. Without Weka (benchmarks/witnesses/weka.py) there is nothing to compare with."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from measure import Result, seconds

from fanbayes import AODEClassifier

sys.path.insert(0, str(Path(__file__).parent / "witnesses"))


def run() -> list[Result]:
    import weka
    from discrete_sets import DiscreteSet

    if not weka.is_installed():
        print(f"aode: left out, as there is no {weka.JAR}", file=sys.stderr)
        return []
    results = []
    for n_rows, n_columns, n_levels, n_classes in ((200_000, 20, 5, 2), (50_000, 16, 10, 26), (20_000, 60, 8, 10)):
        rng = np.random.default_rng(0)
        y = rng.integers(n_classes, size=n_rows)
        X = (rng.integers(n_levels, size=(n_rows, n_columns)) + y[:, None] * rng.integers(2, size=n_columns)) % n_levels
        rows, theirs = weka.instances(DiscreteSet(X, y)), weka.aode()
        theirs.buildClassifier(rows)
        b = weka.prediction_seconds(theirs, rows)
        for n_jobs in (1, 2):
            ours = AODEClassifier(categorical_features="all", n_jobs=n_jobs).fit(X, y)
            [a] = seconds(lambda: ours.predict_proba(X))  # noqa: B023
            what = f"{n_rows:,} x {n_columns}, {n_classes} classes, {n_jobs} thread{'s' if n_jobs > 1 else ''}"
            target = 20 if n_jobs == 2 else None
            detail = {"s": {"fanbayes": a, "Weka, one thread": b}}
            results.append(Result(f"predict_proba, {what}: Weka's AODE / AODEClassifier", b / a, target, detail=detail))
    return results
