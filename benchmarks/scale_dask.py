"""Dask beside the threads of one process, and many small partitions beside two, on the columns of `scale_table.py`.

Every cluster is of worker processes with one thread each, on this machine. What is compared are fits of a FAN with a
given number of components and of passes; they take turns, and the least of some repeats counts. By the processor a fit
takes what the client and the busiest of its workers do, which is what it would take on cores of its own; threads of one
process take half of what they do together, or more.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import reduce
from typing import NamedTuple

import dask.dataframe as dd
import numpy as np
import pyarrow.dataset as ds
from distributed import Client, LocalCluster
from measure import Result
from scale_table import TARGET, files

from fanbayes import FANClassifier
from fanbayes.estimators.dask_parts import DaskParts

SMALL, MANY = 10_000, 200  # rows of a partition, and how many of these
PASSES, REPEAT = 20, 3


class Times(NamedTuple):
    """Seconds of a fit, by the clock and by the processor."""

    clock: float
    processor: float

    def least(self, other: Times) -> Times:
        """The least of both, each by itself."""
        return Times(min(self.clock, other.clock), min(self.processor, other.processor))


def run(rows: list[int] | None = None) -> list[Result]:
    """Fits of as many rows, by default twenty million, in files of a million."""
    warnings.simplefilter("ignore")
    n = max(rows or [20_000_000])
    overhead = {2: float("inf"), MANY: float("inf")}
    with files(n, min(n, 1_000_000)) as written, files(SMALL * MANY, SMALL) as small, files(SMALL * MANY) as large:
        found: list[list[Times]] = []
        for _ in range(REPEAT):
            of_threads = threads(written)
            with workers(1) as client:
                on_cluster(client, large)  # for what is done once
                one = on_cluster(client, written)
            with workers(2) as client:
                on_cluster(client, large)
                found.append([of_threads, one, *(on_cluster(client, paths) for paths in (written, large, small))])
                overhead = {k: min(least, overhead_of(k)) for k, least in overhead.items()}
        of_threads, one, two, in_two, in_many = (reduce(Times.least, turns) for turns in zip(*found))
    what, load = f"{n:,} x 20, {PASSES} passes", {"load": os.getloadavg()[0]}
    compared = [
        (f"FAN on Dask, {what}: one worker process / two", one, two, 1.6, "more"),
        (f"FAN, {what}: two workers / two threads", two, of_threads, 1.3, "less"),
        (f"FAN on Dask, {MANY} partitions of {SMALL:,} rows / the same rows in two", in_many, in_two, 2, "less"),
    ]
    results = []
    for name, over, under, target, better in compared:
        for how, a, b in zip(("", ", processor"), over, under):
            results.append(Result(f"{name}{how}", a / b, target, better, detail=load | {"s": [a, b]}))
    a_block = (overhead[MANY] - overhead[2]) / (MANY - 2)
    return [
        *results,
        Result("Dask: overhead of a pass over two blocks", overhead[2], unit="s"),
        Result("Dask: overhead of a pass for one block more", a_block, unit="s"),
    ]


@contextmanager
def workers(n: int) -> Iterator[Client]:
    """A cluster of this machine, which everything within it goes to."""
    settings = {"threads_per_worker": 1, "dashboard_address": ":0", "memory_limit": 0}
    with LocalCluster(n_workers=n, **settings) as cluster, Client(cluster) as client:
        client.run(__import__, "fanbayes.estimators.on_dask")
        yield client


def model(n_jobs: int | None = None) -> FANClassifier:
    return FANClassifier(4, n_init=2, max_iter=PASSES, tol=0.0, random_state=0, n_jobs=n_jobs)


def on_cluster(client: Client, paths: list[str]) -> Times:
    """Of a fit to files, each a partition."""
    before = client.run(time.process_time)
    found = timed(lambda: model().fit(dd.read_parquet(paths), TARGET))
    after = client.run(time.process_time)
    return Times(found.clock, found.processor + max(after[worker] - before[worker] for worker in after))


def threads(paths: list[str]) -> Times:
    """Of a fit of this process, two threads."""
    found = timed(lambda: model(2).fit(ds.dataset(paths), TARGET))
    return Times(found.clock, found.processor / 2)


def timed(fit: Callable[[], object]) -> Times:
    """Of this process."""
    began, worked = time.perf_counter(), time.process_time()
    fit()
    return Times(time.perf_counter() - began, time.process_time() - worked)


def overhead_of(n_blocks: int) -> float:
    """Of a pass whose tasks do nothing: sent, added up in a tree, brought back."""
    parts = DaskParts.of(np.zeros, [(4,)] * n_blocks).persist()
    found = []
    for _ in range(10):
        began = time.perf_counter()
        parts.map(np.multiply, np.zeros(4)).sum()
        found.append(time.perf_counter() - began)
    return min(found)
