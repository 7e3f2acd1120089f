"""Predictions from many threads, after a fork beside busy threads, and where no thread can be had."""

from __future__ import annotations

import copy
import functools
import os
import pickle
import resource
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fanbayes import FANClassifier, FANClassifierCV, FMClassifier, NBClassifier, load, save
from fuzz.processes import wait_for
from fuzz.races import child
from fuzz.verdict import require

JOBS = [None, 1, 2, 3, 8, 64, 20_000]


@functools.cache
def rows() -> tuple[Any, Any]:
    """Make rows of every kind of column, and labels."""
    rng = np.random.default_rng(0)
    n = 300
    y = rng.integers(0, 2, n)
    frame = pd.DataFrame(
        {"x": rng.normal(y), "z": rng.normal(size=n), "c": np.array(list("abc"))[rng.integers(0, 3, n)]}
    )
    frame.loc[::7, "x"] = np.nan
    return frame, y


@functools.cache
def models() -> tuple[Any, ...]:
    """Fit one of each."""
    few = {"random_state": 0, "n_init": 2}
    classifiers = [
        NBClassifier(),
        FANClassifier(3, **few),
        FANClassifier(2, mixing="per_class", discretize="mdlp", **few),
        FMClassifier(3, **few),
        FANClassifierCV(effort="fast", random_state=0),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tuple(clf.fit(*rows()) for clf in classifiers)


@functools.cache
def expected(model: int, task: int) -> bytes:
    """Bits of what one thread computes."""
    return TASKS[task](models()[model], rows()[0][:40], None)


def prepare() -> None:
    """Compute all that threads are compared with."""
    for model in range(len(models())):
        for task in range(len(TASKS)):
            expected(model, task)


def _saved(clf: Any, X: Any, folder: Path | None) -> bytes:
    if folder is not None:
        path = folder / f"{threading.get_ident()}.fan"
        save(clf, path)
        clf = load(path)
    return _proba(clf, X, folder)


def _proba(clf: Any, X: Any, folder: Path | None) -> bytes:
    return bytes(clf.predict_proba(X).tobytes())


def _pickled(clf: Any, X: Any, folder: Path | None) -> bytes:
    return _proba(pickle.loads(pickle.dumps(clf)), X, folder)


def _explained(clf: Any, X: Any, folder: Path | None) -> bytes:
    return bytes(clf.explain(X[:5]).contributions.tobytes())


def _sampled(clf: Any, X: Any, folder: Path | None) -> bytes:
    return str(clf.sample(3, random_state=0)).encode()


def _refitted(clf: Any, X: Any, folder: Path | None) -> bytes:
    if isinstance(clf, FANClassifierCV):
        return b""  # seconds
    return _proba(copy.deepcopy(clf).fit(X, rows()[1][: len(X)]), X, folder)


TASKS: tuple[Callable[[Any, Any, Path | None], bytes], ...] = (
    _proba,
    _pickled,
    _explained,
    _sampled,
    _saved,
    _refitted,
)


def _do(model: int, task: int, jobs: int | None, folder: Path | None) -> None:
    """Do a task with so many threads, and compare."""
    clf = copy.copy(models()[model]).set_params(n_jobs=jobs)
    require(TASKS[task](clf, rows()[0][:40], folder) == expected(model, task), f"other bits of {TASKS[task].__name__}")


def _draw(rng: np.random.Generator) -> tuple[int, int, int | None]:
    return int(rng.integers(len(models()))), int(rng.integers(len(TASKS))), JOBS[rng.integers(len(JOBS))]


def try_threads(rng: np.random.Generator, folder: Path) -> None:
    """Use models from many threads at once: the bits are those of one."""
    n = int(rng.choice([2, 4, 8, 16]))
    tasks = [_draw(rng) for _ in range(n)]
    start = threading.Barrier(n)

    def work(model: int, task: int, jobs: int | None) -> None:
        start.wait()
        _do(model, task, jobs, folder)

    with ThreadPoolExecutor(n) as pool:
        for future in [pool.submit(work, *task) for task in tasks]:
            future.result()


def try_fork(rng: np.random.Generator, folder: Path) -> None:
    """Fork while threads predict: the child predicts as well, and ends."""
    stop = threading.Event()
    busy = [_draw(rng) for _ in range(int(rng.integers(1, 4)))]

    def work(model: int, task: int, jobs: int | None) -> None:
        while not stop.is_set():
            _do(model, task, jobs, None)

    with ThreadPoolExecutor(len(busy)) as pool:
        futures = [pool.submit(work, *task) for task in busy]
        try:
            for _ in range(5):
                model, task, jobs = _draw(rng)
                pid = child(lambda m=model, t=task, j=jobs: _do(m, t, j, folder))
                require(wait_for(pid, 30.0) == 0, f"a forked process failed at {TASKS[task].__name__}")
        finally:
            stop.set()
        for future in futures:
            future.result()


def try_no_threads(rng: np.random.Generator, folder: Path) -> None:
    """Let the system refuse threads: the work is done with those there are."""
    model, task, jobs = _draw(rng)
    allowed = int(rng.integers(0, 4))
    for path, mode in ((folder, 0o777), (folder.parent, 0o711)):  # root becomes another user
        path.chmod(mode)
    pid = child(lambda: _with_few_threads(allowed, lambda: _do(model, task, jobs, folder)))
    require(wait_for(pid) == 0, f"it failed with {allowed} threads at {TASKS[task].__name__}, n_jobs={jobs}")


def _with_few_threads(allowed: int, work: Callable[[], None]) -> None:
    """Do something as a user who may have so many threads more; no limit holds for root."""
    if os.geteuid() == 0:
        os.setuid(40_000 + os.getpid() % 20_000)
    resource.setrlimit(resource.RLIMIT_NPROC, (1 + allowed, 1 + allowed))
    work()
