"""FAN of tables larger than memory: 15 discrete and 5 continuous columns of Parquet, components chosen.

Every size has a process of its own, which is given the first files of one table. A pass is an E-step over all rows, by
two threads, of the network that was chosen; its time is the least of five. Where other work shares the machine, only
times of the processor tell much.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.dataset as ds
from growth import slope
from measure import Result
from scale_table import ROWS_A_FILE, TARGET, files

from fanbayes import FANClassifier, _native
from fanbayes.data.storage import MEMORY as IN_MEMORY
from fanbayes.data.table import EncodedTable, bytes_of
from fanbayes.learning.data import InMemoryData
from fanbayes.learning.e_step import thread_pool
from fanbayes.learning.em import Problem

THREADS = 2
MEMORY = "100MB"  # so that codes of two million rows and more are on disk


def run(rows: list[int] | None = None) -> list[Result]:
    """Fits of each number of rows; by default a million, ten and a hundred million."""
    sizes = sorted(rows or [1_000_000, 10_000_000, 100_000_000])
    found = []
    with files(sizes[-1], min(ROWS_A_FILE, sizes[0])) as written:
        for n in sizes:
            command = [sys.executable, "-W", "ignore", __file__, *written[: -(-n // min(ROWS_A_FILE, sizes[0]))]]
            out = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            found.append(json.loads(out.stdout))
            print(f"  {json.dumps(found[-1])}", file=sys.stderr)
    return results_of(found)


def results_of(found: list[dict[str, float]]) -> list[Result]:
    """What fits of growing tables tell (`measured`)."""
    largest, n = found[-1], [each["rows"] for each in found]
    what, axis = f"{n[-1]:,} x 20", f"against rows, {n[0]:,} to {n[-1]:,}"
    is_whole = n[-1] >= 100_000_000
    missed = "" if is_whole else " (the goal, 2 GB, is of 100,000,000, which were not run)"
    took = ", ".join(format(each["passes"], ".0f") for each in found)
    # How many passes EM takes is chance: as many for all.
    equal = [each["processor seconds reading"] + each["processor seconds a pass"] * largest["passes"] for each in found]
    mapped = f"{largest['bytes mapped']:,} bytes of codes are mapped, and the machine has {_memory():,} of memory"

    def of_time(what: str, values: list[float], note: str = "") -> Result:
        detail = {"axis": "rows", "steps": n, "seconds": values, "note": note}
        return Result(f"slope of time {axis}: {what}", slope(n, values), 1.05, "less", "", detail)

    def of_pass(seconds: str) -> float:
        return largest[f"{seconds} a pass"] / largest["rows"] / largest[f"{seconds} a row in memory"]

    return [
        Result(
            f"FAN, components chosen, {what}: peak of anonymous memory{missed}",
            largest["peak"] / 1e9, 2 if is_whole else None, "less", "GB", {"sizes": found},
        ),
        Result(f"pass over {what}, on disk / in memory", of_pass("seconds"), 1.5, "less", detail={"note": mapped}),
        Result(f"pass over {what}, on disk / in memory, processor", of_pass("processor seconds"), 1.5, "less"),
        of_time("reading, and as many passes for all, processor", equal),
        of_time("whole fits, processor", [each["processor seconds"] for each in found], f"EM took {took} passes"),
        of_time("whole fits, clock", [each["seconds"] for each in found], f"EM took {took} passes"),
        *(
            Result(
                f"FAN, {what}: {part}, processor", largest[f"processor seconds{key}"], unit="s",
                detail={"by the clock": largest[f"seconds{key}"]},
            )
            for part, key in (("whole fit", ""), ("Parquet read twice, and encoded", " reading"), ("a pass", " a pass"))
        ),
    ]  # fmt: skip


def _memory() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


# ---------------------------------------------------------------- in a process of its own


class Keeping(FANClassifier):
    """FAN that lets its encoded rows be looked at."""

    def _problem(self, table: Any, n_classes: int) -> Problem:
        self.encoded_ = time.perf_counter(), time.process_time(), table
        return super()._problem(table, n_classes)


def measured(paths: list[str]) -> dict[str, float]:
    """Fit a FAN to files."""
    warnings.simplefilter("ignore")
    with peak_of_anonymous() as peak:
        visited, began, first = _native.rows_visited(), time.perf_counter(), time.process_time()
        clf = Keeping(random_state=0, memory=MEMORY, n_jobs=THREADS).fit(ds.dataset(paths), TARGET)
        ended, last = time.perf_counter(), time.process_time()
    at, processor_at, table = clf.encoded_
    visited = _native.rows_visited() - visited
    few = in_memory(table, min(table.n_rows, ROWS_A_FILE))
    pool, terms = thread_pool(THREADS), clf.network_.terms
    tables = (table, few, few.by_class())
    found = [[both(lambda t=t: InMemoryData(t, pool).e_step(terms)) for t in tables] for _ in range(5)]  # in turn
    (on_disk, *here), (on_disk_processor, *here_processor) = np.min(found, axis=0).T.tolist()
    return {
        "rows": table.n_rows,
        "components": clf.n_components_,
        "seconds": ended - began,
        "processor seconds": last - first,
        "seconds reading": at - began,
        "processor seconds reading": processor_at - first,
        "passes": visited / table.n_rows,
        "seconds a pass": on_disk,
        "processor seconds a pass": on_disk_processor,
        "seconds a row in memory": min(here) / few.n_rows,
        "processor seconds a row in memory": min(here_processor) / few.n_rows,
        "peak": peak[0],
        "bytes mapped": 0 if table.storage is IN_MEMORY else bytes_of(table.layout, table.n_rows),
        "load": os.getloadavg()[0],
    }


def both(function: Callable[[], Any]) -> tuple[float, float]:
    """Seconds by the clock, and of the processor."""
    clock, processor = time.perf_counter(), time.process_time()
    function()
    return time.perf_counter() - clock, time.process_time() - processor


def in_memory(table: EncodedTable, n_rows: int) -> EncodedTable:
    """The first rows, copied."""
    few = table.piece(slice(0, n_rows))
    arrays = {name: np.array(getattr(few, name)) for name in ("narrow", "wide", "numbers", "pairs", "labels")}
    return replace(few, **arrays)


@contextmanager
def peak_of_anonymous() -> Iterator[list[int]]:
    """The largest RssAnon of this process within it, looked at every 20 ms."""
    gc.collect()
    done, found = threading.Event(), [0]

    def watch() -> None:
        while not done.wait(0.02):
            lines = Path("/proc/self/status").read_text().splitlines()
            now = int(next(line for line in lines if line.startswith("RssAnon")).split()[1]) * 1024
            found[0] = max(found[0], now)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        done.set()
        thread.join()


if __name__ == "__main__":
    print(json.dumps(measured(sys.argv[1:])))
