"""Run a study: resumable, in several processes, one failure stopping nothing but itself.

A *plan* says what is done to which datasets. A *task* is its smallest piece of work, such as one classifier on one
fold; it gives one record for each of its criteria.
"""

from __future__ import annotations

import signal
import sys
import traceback
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from fanbayes import __version__
from fanbayes.datasets import Suite
from fanbayes.files.dataset import Dataset, DatasetError
from fanbayes.study.cards import Card, describe
from fanbayes.study.provenance import environment
from fanbayes.study.records import Record, StudyError, StudyFolder, Task

T = TypeVar("T", bound=Task)


class Plan(Protocol[T]):
    """What a study does, as values."""

    @property
    def study(self) -> str:
        """Name of the study."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """What makes two runs the same study."""

    def choose(self, cards: list[Card]) -> list[Card]:
        """Datasets to use, of those that can be read."""

    def tasks(self, card: Card) -> Sequence[T]:
        """All tasks of a dataset."""

    def cost(self, task: T, card: Card) -> float:
        """Seconds that a task may take, to begin with the longest and to tell the time left."""

    def execute(self, task: T, dataset: Dataset) -> Mapping[str, Record]:
        """Do a task, on one thread: what is found, by criterion."""


def title(task: Task) -> str:
    """How a task is called on screen."""
    return " ".join(str(part) for part in vars(task).values())


@dataclass(frozen=True)
class Progress:
    """How far a run has come; `done` and `total` are estimates of work, in seconds of one machine."""

    done: float
    total: float
    task: Task | None = None
    error: str | None = None


@dataclass(frozen=True)
class Summary:
    """What became of a run."""

    n_tasks: int
    n_resumed: int
    failures: dict[str, str] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)


def run_study(
    plan: Plan[T],
    suite: Suite,
    out: Path,
    *,
    jobs: int = 1,
    report: Callable[[Progress], None] = lambda progress: None,
    about: Mapping[str, str] | None = None,
    order: Callable[[T, float], Any] | None = None,
) -> Summary:
    """Run all tasks that have no record yet.

    Parameters
    ----------
    plan : Plan
    suite : Suite
    out : Path
        Folder of the study. If it has records of the same study, the run goes on where that ended.
    jobs : int
        Processes, each on one thread. The records do not depend on it.
    report : callable
        Told of each finished task.
    about : mapping, optional
        Which code runs, where and with what; `environment()` if not given.
    order : callable, optional
        What tasks are sorted by, from a task and its cost. If not given, large datasets come first, so that no process
        is left with a long one.

    Returns
    -------
    Summary

    Raises
    ------
    StudyError
        If the folder belongs to another study, or no dataset can be read.
    """
    cards, broken = _look(suite)
    cards = plan.choose(cards)
    if not cards:
        raise StudyError(f"no dataset of the suite can be used: {next(iter(broken.values()), 'it is empty.')}")
    settings = {"study": plan.study, "fanbayes": __version__, "suite": Path(suite.name).resolve().name, **plan.settings}
    with StudyFolder(out, settings, cards, broken, environment() if about is None else about) as folder:
        costs = {task: plan.cost(task, card) for card in cards for task in plan.tasks(card)}
        by_dataset: defaultdict[str, float] = defaultdict(float)
        for task, cost in costs.items():
            by_dataset[task.dataset] += cost
        left = [task for task in costs if not folder.is_done(task)]
        if order is None:
            left.sort(key=lambda task: (-by_dataset[task.dataset], task.dataset, -costs[task]))
        else:
            left.sort(key=lambda task: order(task, costs[task]))
        total, done = sum(costs[task] for task in left), 0.0
        report(Progress(done, total))
        failures = {}
        for task, records in _each(Worker(plan, suite), left, jobs):
            folder.add(records)
            done += costs[task]
            error = records[0].get("error")
            if error:
                failures[title(task)] = error
            report(Progress(done, total, task, error))
    return Summary(len(costs), len(costs) - len(left), failures, broken)


def _look(suite: Suite) -> tuple[list[Card], dict[str, str]]:
    """Cards of the datasets that can be read, and why the others cannot."""
    cards, broken = [], {}
    for name in suite:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a download that is tried again; what fails says so itself
                cards.append(describe(suite[name]))
        except DatasetError as error:
            broken[name] = str(error)
        except Exception as error:
            broken[name] = f"dataset {name!r} cannot be read: {type(error).__name__}: {error}"
    return cards, broken


# ---------------------------------------------------------------- processes


def _each(worker: Worker[T], tasks: list[T], jobs: int) -> Iterator[tuple[T, list[Record]]]:
    """Tasks with their records, as they become known."""
    if jobs > 1 and len(tasks) > 1:
        return _in_processes(worker, tasks, min(jobs, len(tasks)))
    return ((task, worker(task)) for task in tasks)


def _in_processes(worker: Worker[T], tasks: list[T], jobs: int) -> Iterator[tuple[T, list[Record]]]:
    """Hand tasks to processes, one at a time; a process that dies costs its own task only."""
    busy: dict[Connection, tuple[BaseProcess, T]] = {}
    queue = iter(tasks)
    deaths = 0  # one after the other

    def hand_over(connection: Connection, process: BaseProcess) -> None:
        task = next(queue, None)
        if task is None:
            connection.close()
            return
        with suppress(OSError):  # a process that has died already: its end of file is seen below
            connection.send(task)
        busy[connection] = process, task

    try:
        for _ in range(jobs):
            hand_over(*_start(worker))
        while busy:
            for connection in wait(list(busy)):
                assert isinstance(connection, Connection)
                process, task = busy.pop(connection)
                try:
                    records, deaths = connection.recv(), 0
                except (EOFError, OSError):
                    process.join()
                    deaths += 1
                    if deaths > max(3, jobs):
                        raise StudyError("processes die as soon as they are started: try --jobs 1.") from None
                    records = _failed(task, f"the process died (exit code {process.exitcode}); is there enough memory?")
                    connection.close()
                    connection, process = _start(worker)
                hand_over(connection, process)
                yield task, records
    finally:
        for connection, (process, _) in busy.items():
            process.terminate()
            connection.close()


def _start(worker: Worker[T]) -> tuple[Connection, BaseProcess]:
    # A fresh interpreter: a forked one would inherit locks of threads that it does not have.
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(theirs, worker), daemon=True)
    process.start()
    theirs.close()
    return ours, process


def _work(connection: Connection, worker: Worker[T]) -> None:
    """Do tasks until there are none, or nobody to send the records to."""
    for number in (signal.SIGINT, *([] if sys.platform == "win32" else [signal.SIGHUP])):
        signal.signal(number, signal.SIG_IGN)  # the parent decides
    with suppress(EOFError, OSError):
        while True:
            connection.send(worker(connection.recv()))


class Worker(Generic[T]):
    """Does tasks, and keeps the dataset of the last one: tasks of a dataset come one after the other."""

    def __init__(self, plan: Plan[T], suite: Suite) -> None:
        self.plan, self.suite = plan, suite
        self._dataset: Dataset | None = None

    def __call__(self, task: T) -> list[Record]:
        """Records of a task, one for each criterion; if it fails they say why."""
        try:
            with warnings.catch_warnings(), threadpool_limits(1):
                warnings.simplefilter("ignore")  # what they tell is in the records
                if self._dataset is None or self._dataset.name != task.dataset:
                    self._dataset = self.suite[task.dataset]
                found = self.plan.execute(task, self._dataset)
        except Exception as error:
            return _failed(task, f"{type(error).__name__}: {error} (in {_raised_in(error)})")
        return [{**vars(task), "criterion": criterion, **found[criterion]} for criterion in task.criteria]


def _failed(task: Task, error: str) -> list[Record]:
    return [{**vars(task), "criterion": criterion, "error": error} for criterion in task.criteria]


def _raised_in(error: Exception) -> str:
    """Modules that an exception came through, the deepest of each library."""
    deepest: dict[str, str] = {}
    for frame, _ in traceback.walk_tb(error.__traceback__):
        module = str(frame.f_globals["__name__"])
        deepest[module.partition(".")[0]] = module
    return ", ".join(deepest.values())
