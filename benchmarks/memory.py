"""Peak memory of a fit: ten million rows of twenty discrete columns, measured in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys

from measure import Result

ROWS, COLUMNS = 10_000_000, 20

# Read from the kernel: `ru_maxrss` of a new process begins with its parent's.
SCRIPT = f"""
import json
import numpy as np
from fanbayes import FANClassifier
def memory(what):
    line = next(line for line in open("/proc/self/status") if line.startswith(what))
    return int(line.split()[1]) * 1024
rng = np.random.default_rng(0)
X = np.empty(({ROWS}, {COLUMNS}), dtype=np.uint8)
for j in range({COLUMNS}):
    X[:, j] = rng.integers(0, 5, {ROWS}, dtype=np.uint8)
y = rng.integers(0, 2, {ROWS}, dtype=np.int32)
FANClassifier(1, categorical_features="all").fit(X[:1000], y[:1000])
before = memory("VmRSS")
FANClassifier(3, n_init=2, max_iter=6, tol=1.0, categorical_features="all", random_state=0, n_jobs=2).fit(X, y)
print(json.dumps([before, memory("VmHWM")]))
"""


def run() -> list[Result]:
    out = subprocess.run([sys.executable, "-W", "ignore", "-c", SCRIPT], capture_output=True, text=True, check=True)
    before, after = json.loads(out.stdout)
    per_cell = (after - before) / (ROWS * COLUMNS)
    detail = {"bytes before": before, "bytes at the peak": after}
    return [
        Result(
            "peak memory of a fit above the input, 10,000,000 x 20 discrete", per_cell, 2, "less", "bytes/cell", detail
        )
    ]
