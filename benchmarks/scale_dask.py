"""Dask beside the threads of one process, and many small partitions beside two, on the columns of `scale_table.py`.

Every cluster is of worker processes with one thread each, on this machine. What is compared are fits of a FAN with a
given number of components and of passes.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import dask.dataframe as dd
import numpy as np
import pyarrow.dataset as ds
from distributed import Client, LocalCluster
from measure import Result
from scale_table import TARGET, files

from fanbayes import FANClassifier
from fanbayes.estimators.dask_parts import DaskParts

SMALL, MANY = 10_000, 200  # rows of a partition, and how many of these
PASSES = 20


def run(rows: list[int] | None = None) -> list[Result]:
    """Fits of as many rows, by default twenty million, in files of a million."""
    warnings.simplefilter("ignore")
    n = max(rows or [20_000_000])
    with files(n, min(n, 1_000_000)) as written, files(SMALL * MANY, SMALL) as small, files(SMALL * MANY) as large:
        threads = clock(lambda: model(2).fit(ds.dataset(written), TARGET))
        with workers(1):
            one = on_cluster(written)
        with workers(2):
            two = on_cluster(written)
            in_two, in_many = on_cluster(large), on_cluster(small)
            overhead = [overhead_of(k) for k in (2, MANY)]
    what = f"{n:,} x 20, {PASSES} passes"
    load = {"load": os.getloadavg()[0]}
    return [
        Result(f"FAN on Dask, {what}: one worker process / two", one / two, 1.6, detail=load | {"s": [one, two]}),
        Result(f"FAN, {what}: two workers / two threads", two / threads, 1.3, "less", detail={"s": [two, threads]}),
        Result(
            f"FAN on Dask, {MANY} partitions of {SMALL:,} rows / the same rows in two",
            in_many / in_two, 2, "less", detail={"s": [in_many, in_two]},
        ),
        Result("Dask: overhead of a pass over two blocks", overhead[0], unit="s"),
        Result("Dask: overhead of a pass for one block more", (overhead[1] - overhead[0]) / (MANY - 2), unit="s"),
    ]  # fmt: skip


@contextmanager
def workers(n: int) -> Iterator[None]:
    """A cluster of this machine, which everything within it goes to."""
    settings = {"threads_per_worker": 1, "dashboard_address": ":0", "memory_limit": 0}
    with LocalCluster(n_workers=n, **settings) as cluster, Client(cluster) as client:
        client.run(__import__, "fanbayes.estimators.on_dask")
        yield


def model(n_jobs: int | None = None) -> FANClassifier:
    return FANClassifier(4, n_init=2, max_iter=PASSES, tol=0.0, random_state=0, n_jobs=n_jobs)


def on_cluster(paths: list[str]) -> float:
    """Seconds of a fit to files, each a partition."""
    return clock(lambda: model().fit(dd.read_parquet(paths), TARGET))


def clock(fit: Callable[[], object]) -> float:
    """Seconds by the clock, as workers are other processes."""
    began = time.perf_counter()
    fit()
    return time.perf_counter() - began


def overhead_of(n_blocks: int) -> float:
    """Of a pass whose tasks do nothing: sent, added up in a tree, brought back."""
    parts = DaskParts.of(np.zeros, [(4,)] * n_blocks).persist()
    found = []
    for _ in range(10):
        began = time.perf_counter()
        parts.map(np.multiply, np.zeros(4)).sum()
        found.append(time.perf_counter() - began)
    return min(found)
