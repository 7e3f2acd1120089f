"""The guide's page on what a billion rows cost on a cluster, from constants that the benchmarks of scale have measured.

python benchmarks/cluster_costs.py          writes docs/cluster-costs.md
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scale_table import N_CLASSES, N_COMPONENTS, N_CONTINUOUS, N_DISCRETE

from fanbayes.files.atomic import write_file

ROOT = Path(__file__).parent.parent
ROWS, DISCRETE, CONTINUOUS = 10**9, 38, 12
PASSES, ROWS_A_BLOCK = 100, 10**6
WORKERS, CORES = (1, 4, 16, 64, 256), 4
# Seconds of a pass over two blocks and of each one more, where `scale_dask` has not been run.
STATED = (0.005, 0.0025)
STATED_BY = "were not measured with them: 200 tasks that do nothing, and their sum, took half a second on two cores"

PAGE = """# What a billion rows cost on a cluster

<!-- Made by `python benchmarks/cluster_costs.py` from benchmarks/results: change it there. -->

A calculation, not a measurement: nobody has run it at this size here. Its constants were measured on one machine, and
everything is taken to be proportional to rows and columns, and to be shared evenly by the cores.

For `N` rows of `d` discrete and `c` continuous columns, `n` workers with `k` cores each, and `P` passes of EM:

```text
bytes on each worker  =  N (d + 8 c + 4) / n
seconds               =  N (d + c) read / (n k)                 reading, encoding
                       + P (N (d + c) s pass / (n k)            passes: s states, classes times components
                            + start + block N / 1,000,000)      and what the scheduler takes for each
```

| constant | | value |
|---|---|---|
| `read` | reading Parquet, twice in one process, and encoding it, one core, a cell | {read:.0f} ns |
| `pass` | one pass, one core, a cell and state | {each:.2f} ns |
| `start` | a pass of Dask over two blocks of nothing | {start:.0f} ms |
| `block` | each block of a million rows more, in a pass | {block:.1f} ms |

A discrete cell takes one byte up to 254 levels, else two; a number eight; the label four, and a weight eight where
there are weights. `read` and `pass` are processor time of {rows:,} rows x {columns} columns that Arrow reads, in one
process ({commit}; {machine}). `start` and `block` {source}.

{n_rows:,} rows x {n_columns} columns ({discrete} discrete, {continuous} continuous), {classes} classes, {components}
components, {passes} passes, workers with {cores} cores:

| workers | GB on each | reading, encoding | a pass | all |
|---|---|---|---|---|
{lines}

```python
import numpy as np
from matplotlib import pyplot as plt


def seconds(n, k={cores}, N={n_rows:_}, d={discrete}, c={continuous}, s={classes} * {components}, P={passes}):
    read, each, start, block = {read:.3g}e-9, {each:.3g}e-9, {start:.3g}e-3, {block:.3g}e-3
    return N * (d + c) * (read + P * s * each) / (n * k), P * (start + block * N / 1e6)


workers = 4.0 ** np.arange(5)
shared, scheduler = seconds(workers)
figure, ax = plt.subplots(figsize=(6.4, 2.8), layout="constrained")
ax.loglog(workers, (shared + scheduler) / 60, marker="o", label="all")
ax.loglog(workers, shared / 60, linestyle="--", label="what the workers share")
ax.axhline(scheduler / 60, linestyle=":", color="black", label="what the scheduler takes")
ax.set_xticks(workers, [f"{{n:.0f}}" for n in workers])
ax.set(xlabel="workers", ylabel="minutes")
ax.legend()
figure.savefig("cluster.svg")
```

![Minutes against the number of workers](figures/cluster.svg)

What it tells:

- Rows have to fit into the memory of the workers together: {total:.0f} GB here, and some more while they are encoded.
  On one machine, `fit` of a dataset keeps them in files that are mapped into memory, and `memory` bounds the rest
  ([Tables larger than memory](large-tables.md)).
- The scheduler's share of a pass, {scheduler:.1f} s for {blocks:,} blocks, does not shrink with more workers: beyond
  some {enough} workers a pass is mostly that.
- Not in it: the storage that rows are read from, and its network; workers that wait for each other; the search
  for a number of components, which takes the passes of all sizes that are tried. Statistics that come back are some
  ten kilobytes a block and pass.
"""


@dataclass(frozen=True)
class Costs:
    """Seconds a cell of reading, a cell and state of a pass, a pass, and a block of a pass."""

    read: float
    each: float
    start: float
    block: float

    def reading(self, n_workers: int) -> float:
        """Seconds until all rows are encoded."""
        return ROWS * (DISCRETE + CONTINUOUS) * self.read / (n_workers * CORES)

    def work(self, n_workers: int) -> float:
        """Seconds of a pass, without the scheduler's."""
        return ROWS * (DISCRETE + CONTINUOUS) * N_CLASSES * N_COMPONENTS * self.each / (n_workers * CORES)

    @property
    def scheduler(self) -> float:
        """Seconds of a pass that do not depend on the workers."""
        return self.start + self.block * ROWS / ROWS_A_BLOCK


def costs_of(largest: dict[str, Any], start: float, block: float) -> Costs:
    """Constants of the largest table that was measured, and of passes of Dask."""
    cells = largest["rows"] * (N_DISCRETE + N_CONTINUOUS)
    each = largest["processor seconds a pass"] / (cells * N_CLASSES * largest["components"])
    return Costs(largest["processor seconds reading"] / cells, each, start, block)


def scheduler_of(path: Path) -> tuple[float, float, str]:
    """Seconds of a pass over two blocks, of each one more, and how these are known."""
    if not path.exists():
        return *STATED, STATED_BY
    found = json.loads(path.read_text())
    values = {r["name"]: r["value"] for r in found["results"]}
    start, block = (next(v for k, v in values.items() if word in k) for word in ("over two blocks", "one block more"))
    return start, block, f"the least of thirty by the clock (load of the machine: {found['environment']['load']})"


def page(results: Path) -> str:
    """The page, from the files of a folder."""
    scale = json.loads((results / "scale.json").read_text())
    largest = scale["results"][0]["detail"]["sizes"][-1]
    start, block, source = scheduler_of(results / "scale_dask.json")
    costs = costs_of(largest, start, block)
    about, total = scale["environment"], ROWS * (DISCRETE + 8 * CONTINUOUS + 4)
    lines = []
    for n in WORKERS:
        reading, a_pass = costs.reading(n), costs.work(n) + costs.scheduler
        words = (
            f"{n}",
            f"{total / n / 1e9:.1f}",
            duration(reading),
            duration(a_pass),
            duration(reading + PASSES * a_pass),
        )
        lines.append(f"| {' | '.join(words)} |")
    return PAGE.format(
        read=costs.read * 1e9, each=costs.each * 1e9, start=costs.start * 1e3, block=costs.block * 1e3,
        rows=largest["rows"], columns=N_DISCRETE + N_CONTINUOUS, commit=f"commit {about['commit']}, {about['date']}",
        machine=f"{about['cores']} cores, {about['processor']}", source=source,
        n_rows=ROWS, n_columns=DISCRETE + CONTINUOUS, discrete=DISCRETE, continuous=CONTINUOUS, classes=N_CLASSES,
        components=N_COMPONENTS, passes=PASSES, cores=CORES, lines="\n".join(lines), total=total / 1e9,
        scheduler=costs.scheduler, blocks=ROWS // ROWS_A_BLOCK, enough=round(costs.work(1) / costs.scheduler),
    )  # fmt: skip


def duration(seconds: float) -> str:
    """In the unit that is read most easily.

    >>> [duration(s) for s in (0.25, 90, 7200)]
    ['0.2 s', '90 s', '2.0 h']
    """
    if seconds < 10:
        return f"{seconds:.1f} s"
    return (
        f"{seconds:.0f} s"
        if seconds < 120
        else f"{seconds / 60:.0f} min"
        if seconds < 7200
        else f"{seconds / 3600:.1f} h"
    )


if __name__ == "__main__":
    write_file(ROOT / "docs" / "cluster-costs.md", page(ROOT / "benchmarks" / "results").encode())
