"""Online EM: how much of what EM gains over naive Bayes one sweep over the rows keeps.

    python benchmarks/online.py [ROWS]          1,000,000 rows by default, in calls of 50,000

`partial_fit` learns its start from the first 10,000 rows; EM over all rows begins at the same network. What is compared
is the mean log-likelihood of 50,000 other rows, those of naive Bayes being 0 % and those of EM 100 %.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fanbayes import FANClassifier, NBClassifier
from fanbayes.data.sources import array_sources
from fanbayes.data.table import encode_table
from fanbayes.learning.data import InMemoryData
from fanbayes.learning.em import Problem, initial_state, run_em
from fanbayes.model.blocks import EstimationOptions

# Codes and numbers of each kind of table.
N_COLUMNS = {"mixed columns": (10, 10), "discrete columns": (20, 0), "overlapping components": (6, 6)}
N_CLASSES, N_COMPONENTS = 3, 4
FIRST, EACH, HELD_OUT = 10_000, 50_000, 50_000


def draw(kind: str, n: int, seed: int = 0) -> tuple[NDArray[Any], NDArray[Any], int]:
    """Rows of a FAN (n, n_columns), their classes, and how many columns, the first, are codes."""
    rng = np.random.default_rng(seed)
    n_codes, n_numbers = N_COLUMNS[kind]
    overlap = kind == "overlapping components"
    y, h = rng.choice(N_CLASSES, n, p=[0.5, 0.3, 0.2]), rng.choice(N_COMPONENTS, n, p=[0.4, 0.3, 0.2, 0.1])
    cell, n_cells = y * N_COMPONENTS + h, N_CLASSES * N_COMPONENTS
    X = np.empty((n, n_codes + n_numbers))
    for j in range(n_codes):
        p = rng.dirichlet(np.full(int(rng.integers(2, 7)), 3.0 if overlap else 1.0), n_cells).cumsum(axis=1)[:, :-1]
        u = rng.random(n)
        X[:, j] = sum(u > p[cell, k] for k in range(p.shape[1]))
    for j in range(n_codes, X.shape[1]):
        mean, deviation = rng.normal(size=n_cells) * (0.7 if overlap else 1.0), rng.uniform(0.7, 1.3, n_cells)
        X[:, j] = mean[cell] + deviation[cell] * rng.normal(size=n)
    return X, y, n_codes


def share_kept(kind: str, n: int, first: int = FIRST, each: int = EACH, held_out: int = HELD_OUT) -> dict[str, float]:
    """What a sweep over n rows keeps of what EM gains over naive Bayes, the start alone, and seconds of both."""
    X, y, n_codes = draw(kind, n + held_out)
    settings = {"alpha": 1.0, "categorical_features": list(range(n_codes))}
    online = FANClassifier(N_COMPONENTS, random_state=0, **settings).partial_fit(X[:first], y[:first], np.unique(y))
    start, began = _joint(online, X[n:], y[n:]), time.perf_counter()
    network, schema = online.network_, online.schema_
    for at in range(first, n, each):
        online.partial_fit(X[at : min(at + each, n)], y[at : min(at + each, n)])
    sweep = time.perf_counter() - began
    began = time.perf_counter()
    sources = list(array_sources(X[:n], [c.name for c in schema.columns]))
    table = replace(encode_table(schema, sources, n), labels=y[:n].astype(np.int32)).fused()
    problem = Problem(InMemoryData(table), EstimationOptions(alpha=1.0))
    em = run_em(problem, initial_state(problem, network), 1000, 1e-6)
    batch = time.perf_counter() - began
    whole = FANClassifier(N_COMPONENTS, random_state=0, **settings).partial_fit(X[:first], y[:first], np.unique(y))
    whole.network_ = em.network
    naive = _joint(NBClassifier(**settings).fit(X[:n], y[:n]), X[n:], y[n:])
    gain = _joint(whole, X[n:], y[n:]) - naive
    return {
        "kept": (_joint(online, X[n:], y[n:]) - naive) / gain,
        "start": (start - naive) / gain,
        "gain": gain,
        "seconds": sweep,
        "seconds of EM": batch,
    }


def _joint(clf: Any, X: NDArray[Any], y: NDArray[Any]) -> float:
    """Mean of log p(c, x), in the units of the columns."""
    return float(clf.predict_joint_log_proba(X)[np.arange(len(y)), y].mean())


if __name__ == "__main__":
    n_rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    for kind in N_COLUMNS:
        found = share_kept(kind, n_rows)
        print(
            f"{kind}: one sweep over {n_rows:,} rows keeps {found['kept']:.2%} of {found['gain']:.3f} nats a row "
            f"(the start has {found['start']:.2%}); {found['seconds']:.1f} s, EM {found['seconds of EM']:.1f} s",
            flush=True,
        )
