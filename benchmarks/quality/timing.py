"""Seconds of FANClassifierCV where the comparison has no table: large ones, with a second thread, and of predictions.

    python benchmarks/quality/timing.py [--data DIR] [--out DIR] [--rows 150,2000] [--ours fan_cv]

Writes OUT/timing.json, which `report.py` reads with the records. Wall-clock seconds: nothing else should run.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from encoding import Categories
from settings import packages
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import log_loss
from threadpoolctl import threadpool_limits

from fanbayes import FANClassifierCV
from fanbayes.datasets import load_suite
from fanbayes.files.atomic import write_file
from fanbayes.study.provenance import environment

ROWS = (150, 2_000, 20_000, 100_000, 1_000_000)
N_TEST = 5_000
N_PREDICTED = 1_000
SETS = ("solar-flare", "car", "segment", "kr-vs-kp", "waveform-21", "satimage", "pendigits", "nursery")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of datasets with a manifest.json")
    parser.add_argument("--out", type=Path, default=Path("build/quality"))
    parser.add_argument("--rows", type=lambda text: [int(n) for n in text.split(",")], default=list(ROWS))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    file = options.out / "timing.json"
    found: dict[str, Any] = {"environment": environment(packages(), Path(__file__).parent)}
    found |= {"tables": [], "threads": [], "predictions": []}
    # The first table twice: the first fit of a process loads modules besides.
    for rows, threads in [(options.rows[0], 1), *product(options.rows, (1, 2))]:
        found["tables"].append(of_table(rows, threads))
        print(found["tables"][-1], flush=True)
        write_file(file, (json.dumps(found, indent=1) + "\n").encode())
    if options.data and (os.cpu_count() or 1) > 1:
        suite = load_suite(options.data)
        for name in (name for name in SETS if name in suite):
            data = suite[name]
            X, y = data.take(np.flatnonzero(data.labelled))
            found["predictions"].append({"dataset": name, **of_predictions(X.reset_index(drop=True), y)})
            print(found["predictions"][-1], flush=True)
            one, two = (
                seconds(lambda: FANClassifierCV(random_state=0, n_jobs=n).fit(X, y))  # noqa: B023
                for n in (1, 2)
            )
            found["threads"].append({"dataset": name, "rows": len(y), "one": one, "two": two, "gain": one / two})
            print(found["threads"][-1], flush=True)
            write_file(file, (json.dumps(found, indent=1) + "\n").encode())


def of_table(rows: int, threads: int) -> dict[str, Any]:
    """Both classifiers on a table of so many rows: seconds of the fit, and log loss of other rows."""
    X, y = mixed_table(rows + N_TEST, np.random.default_rng(0))
    train, test = slice(0, rows), slice(rows, None)
    ours = FANClassifierCV(random_state=0, n_jobs=threads)
    took = seconds(lambda: ours.fit(X[train], y[train]))
    categories = Categories([name for name in X if not pd.api.types.is_numeric_dtype(X[name])]).fit(X[train])
    peer = HistGradientBoostingClassifier(random_state=0)
    with threadpool_limits(threads):
        theirs = seconds(lambda: peer.fit(categories.transform(X[train]), y[train]))
    return {
        "rows": rows,
        "threads": threads,
        "seconds": round(took, 3),
        "boosting": round(theirs, 3),
        "log_loss": round(float(log_loss(y[test], ours.predict_proba(X[test]))), 5),
        "log_loss_of_boosting": round(float(log_loss(y[test], peer.predict_proba(categories.transform(X[test])))), 5),
    }


def of_predictions(X: pd.DataFrame, y: np.ndarray) -> dict[str, Any]:
    """Both classifiers, learnt from two thirds of the rows, on one thread: seconds for N_PREDICTED of the others."""
    rng = np.random.default_rng(0)
    order = rng.permutation(len(y))
    train, test = np.split(order, [2 * len(y) // 3])
    rows = X.iloc[np.resize(test, N_PREDICTED)].reset_index(drop=True)
    holes = rows.mask(rng.random(rows.shape) < 0.1)
    ours = FANClassifierCV(random_state=0, n_jobs=1).fit(X.iloc[train], y[train])
    categories = Categories([c for c in X if not pd.api.types.is_numeric_dtype(X[c])]).fit(X.iloc[train])
    with threadpool_limits(1):
        peer = HistGradientBoostingClassifier(random_state=0).fit(categories.transform(X.iloc[train]), y[train])
        return {
            "complete": least(lambda: ours.predict_proba(rows)),
            "missing": least(lambda: ours.predict_proba(holes)),
            "boosting": least(lambda: peer.predict_proba(categories.transform(rows))),
            "boosting_missing": least(lambda: peer.predict_proba(categories.transform(holes))),
        }


def least(function: Callable[[], Any]) -> float:
    """The least of several times: a prediction is over before a machine that is shared has been quiet."""
    return round(min(seconds(function) for _ in range(7)), 5)


def mixed_table(n: int, rng: np.random.Generator) -> tuple[pd.DataFrame, np.ndarray]:
    """Two classes of four components each, in ten numbers and ten categories of three, one value in fifty missing."""
    y = rng.integers(0, 2, n)
    component = 4 * y + rng.integers(0, 4, n)
    model = np.random.default_rng(1)  # the same whatever the number of rows
    means = model.normal(scale=0.8, size=(8, 10))
    chances = model.dirichlet(np.ones(3), size=(8, 10)).cumsum(axis=2)
    numbers = means[component] + rng.normal(size=(n, 10))
    texts = (rng.random((n, 10, 1)) > chances[component]).sum(axis=2)
    columns = {f"number{j}": numbers[:, j] for j in range(10)}
    columns |= {f"text{j}": np.array(["a", "b", "c"], object)[np.minimum(texts[:, j], 2)] for j in range(10)}
    X = pd.DataFrame(columns)
    return X.mask(rng.random(X.shape) < 0.02), y


def seconds(function: Callable[[], Any]) -> float:
    began = time.perf_counter()
    function()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
