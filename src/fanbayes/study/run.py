"""Run a study: resumable, in several processes, one failure stopping nothing but itself."""

from __future__ import annotations

import signal
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from fanbayes import __version__
from fanbayes.datasets import Suite
from fanbayes.estimators.criteria import fit_by_criteria
from fanbayes.evaluation import metrics
from fanbayes.evaluation.folds import folds
from fanbayes.files.tables import Dataset, DatasetError
from fanbayes.study.plan import (
    AFTER_CEM,
    CRITERIA,
    Card,
    Classifier,
    Plan,
    RealPlan,
    RealTask,
    SimulatedPlan,
    SimulatedTask,
    Task,
    classifier,
    describe,
    title,
)
from fanbayes.study.records import Outcomes, Record, StudyError, StudyFolder


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
    plan: Plan,
    suite: Suite,
    out: Path,
    *,
    jobs: int = 1,
    report: Callable[[Progress], None] = lambda progress: None,
) -> Summary:
    """Run all tasks that have no record yet, the longest first.

    Parameters
    ----------
    plan : RealPlan or SimulatedPlan
    suite : Suite
    out : Path
        Folder of the study. If it has records of the same study, the run goes on where that ended.
    jobs : int
        Processes, each on one thread. The records do not depend on it.
    report : callable
        Told of each finished task.

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
    with StudyFolder(out, settings, cards, broken) as folder:
        costs = {task: plan.cost(task, card) for card in cards for task in plan.tasks(card)}
        by_dataset: defaultdict[str, float] = defaultdict(float)
        for task, cost in costs.items():
            by_dataset[task.dataset] += cost
        # Large datasets first and their longest tasks first, so that no process is left with a long one.
        left = [task for task in costs if not folder.is_done(task)]
        left.sort(key=lambda task: (-by_dataset[task.dataset], task.dataset, -costs[task]))
        total, done = sum(costs[task] for task in left), 0.0
        report(Progress(done, total))
        failures = {}
        executor = Executor(plan, suite)
        for task, records in _each(executor, left, jobs):
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


def _each(executor: Executor, tasks: list[Task], jobs: int) -> Iterator[tuple[Task, list[Record]]]:
    """Tasks with their records, as they become known."""
    if jobs > 1 and len(tasks) > 1:
        return _in_processes(executor, tasks, min(jobs, len(tasks)))
    return ((task, executor(task)) for task in tasks)


def _in_processes(executor: Executor, tasks: list[Task], jobs: int) -> Iterator[tuple[Task, list[Record]]]:
    """Hand tasks to processes, one at a time; a process that dies costs its own task only."""
    busy: dict[Connection, tuple[BaseProcess, Task]] = {}
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
            hand_over(*_start(executor))
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
                    connection, process = _start(executor)
                hand_over(connection, process)
                yield task, records
    finally:
        for connection, (process, _) in busy.items():
            process.terminate()
            connection.close()


def _start(executor: Executor) -> tuple[Connection, BaseProcess]:
    # A fresh interpreter: a forked one would inherit locks of threads that it does not have.
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(theirs, executor), daemon=True)
    process.start()
    theirs.close()
    return ours, process


def _work(connection: Connection, executor: Executor) -> None:
    """Do tasks until there are none, or nobody to send the records to."""
    for number in (signal.SIGINT, *([] if sys.platform == "win32" else [signal.SIGHUP])):
        signal.signal(number, signal.SIG_IGN)  # the parent decides
    with suppress(EOFError, OSError):
        while True:
            connection.send(executor(connection.recv()))


def _failed(task: Task, error: str) -> list[Record]:
    return [asdict(task) | {"criterion": criterion, "error": error} for criterion in task.criteria]


# ---------------------------------------------------------------- tasks


class Executor:
    """Does tasks, and keeps the datasets and gold standards it has needed."""

    def __init__(self, plan: Plan, suite: Suite) -> None:
        self.plan, self.suite = plan, suite
        self._datasets: dict[str, Dataset] = {}
        self._parts: dict[str, NDArray[np.intp]] = {}
        self._gold: dict[str, Classifier] = {}

    def __call__(self, task: Task) -> list[Record]:
        """Records of a task, one for each criterion; if it fails they say why."""
        try:
            with warnings.catch_warnings(), threadpool_limits(1):
                warnings.simplefilter("ignore")  # what they tell is in the records
                found = self._real(task) if isinstance(task, RealTask) else self._simulated(task)
        except Exception as error:
            return _failed(task, f"{type(error).__name__}: {error}")
        return [asdict(task) | {"criterion": criterion} | found[criterion] for criterion in task.criteria]

    def dataset(self, name: str) -> Dataset:
        """Load a dataset, once."""
        if name not in self._datasets:
            self._datasets[name] = self.suite[name]
        return self._datasets[name]

    def _real(self, task: RealTask) -> dict[str, Record]:
        plan = self.plan
        assert isinstance(plan, RealPlan)
        data = self.dataset(task.dataset)
        if task.dataset not in self._parts:
            self._parts[task.dataset] = folds(data, plan.n_folds, plan.seed)
        part = self._parts[task.dataset]
        tested, trained = np.flatnonzero(part == task.fold), np.flatnonzero(part != task.fold)
        rows = nw.from_native(data.X, eager_only=True)
        seed = _seed(plan.seed, task.dataset, task.fold)
        model = classifier(task.model, task.preset, task.version, len(data.classes), seed)
        learnt = _learn(model, rows[trained].to_native(), data.y[trained], task.criteria)
        assessed = _assess(learnt, rows[tested].to_native(), data.y[tested], data.classes)
        about = {"n_train": len(trained), "n_test": len(tested)}
        return {name: about | record for name, record in assessed.items()}

    def _simulated(self, task: SimulatedTask) -> dict[str, Record]:
        plan = self.plan
        assert isinstance(plan, SimulatedPlan)
        data, gold = self.dataset(task.dataset), self._gold_standard(plan, task.dataset)
        draw = [_seed(plan.seed, task.dataset, task.size, task.pair, which) for which in range(2)]
        X, y = gold.sample(task.size, random_state=draw[0])
        X_test, y_test = gold.sample(plan.test_size, random_state=draw[1])
        model = classifier("FAN", task.preset, "raw", len(data.classes), draw[0])
        learnt = _learn(model.set_params(max_components=plan.max_components), X, y, CRITERIA)
        learnt["gold"] = gold, {"n_components": gold.n_components_}
        assessed = _assess(learnt, X_test, y_test, data.classes)
        for record in assessed.values():
            outcomes = Outcomes.unpack(record.pop("rows"))
            record |= {"roc_area": roc_area(outcomes), "true_components": gold.n_components_}
        return assessed

    def _gold_standard(self, plan: SimulatedPlan, name: str) -> Classifier:
        """FAN of the `paper` preset, chosen by BIC, on all rows."""
        if name not in self._gold:
            data = self.dataset(name)
            model = classifier("FAN", "paper", "raw", len(data.classes), _seed(plan.seed, name))
            model.set_params(criterion="bic", max_components=plan.max_components)
            self._gold[name] = model.fit(data.X, data.y)
        return self._gold[name]


def _seed(*origin: int | str) -> int:
    """Seed of one thing, whatever else is run."""
    entropy = [int.from_bytes(part.encode(), "little") if isinstance(part, str) else part for part in origin]
    return int(np.random.SeedSequence(entropy).generate_state(1)[0] >> 1)


def _learn(model: Classifier, X: Any, y: Any, criteria: tuple[str, ...]) -> dict[str, tuple[Classifier, Record]]:
    """Fit once; for each criterion the classifier it chooses and the seconds it would have taken alone.

    A criterion alone would have gone on for `patience` sizes beyond its choice; with CEM, all of them twice. The
    seconds of the search are those without reading the table.
    """
    began, cpu = time.perf_counter(), time.process_time()
    if criteria == ("none",):
        chosen: dict[str, Any] = {"none": model.fit(X, y)}
    else:
        scores = tuple(score for score in CRITERIA if score in criteria)
        chosen = fit_by_criteria(model, X, y, scores, cem=AFTER_CEM in criteria)
    elapsed, cpu = time.perf_counter() - began, time.process_time() - cpu
    plain = next(iter(chosen.values()))
    em, sizes = np.array(plain.selection_["seconds"]), np.array(plain.selection_["n_components"])
    cem = np.array(chosen[AFTER_CEM].selection_["seconds"]) if AFTER_CEM in chosen else np.zeros_like(em)
    learnt = {}
    for name, fit in chosen.items():
        needed = sizes <= fit.n_components_ + getattr(fit, "patience", 0)
        spent = em[needed].sum() + (cem[needed].sum() if name == AFTER_CEM else 0.0)
        share = (elapsed - em.sum() - cem.sum() + spent) / elapsed
        learnt[name] = (
            fit,
            {
                "n_components": int(fit.n_components_),
                "capped": fit.n_components_ == getattr(fit, "max_components", None),
                "converged": bool(fit.converged_),
                "fit_seconds": round(cpu * share, 6),
                "search_seconds": round(cpu * float(spent) / elapsed, 6),
            },
        )
    return learnt


def _assess(
    learnt: dict[str, tuple[Classifier, Record]], X: Any, y: NDArray[Any], classes: list[str]
) -> dict[str, Record]:
    """Facts of each classifier and how good its predictions are; criteria that agree share them."""
    known: dict[int, Record] = {}
    for fit, _ in learnt.values():
        if id(fit.network_) not in known:
            known[id(fit.network_)] = _quality(fit, X, y, classes)
    return {name: facts | known[id(fit.network_)] for name, (fit, facts) in learnt.items()}


def _quality(model: Classifier, X: Any, y: NDArray[Any], classes: list[str]) -> Record:
    """Measures of the predictions; a class that the training part lacks has probability 0."""
    cpu = time.process_time()
    log_proba = model.predict_log_proba(X)
    cpu = time.process_time() - cpu
    table = np.full((len(y), len(classes)), -np.inf)
    table[:, np.searchsorted(classes, model.classes_)] = log_proba
    outcomes = outcomes_of(y, table, classes)
    return {
        "accuracy": float(outcomes.correct.mean()),
        "conditional_entropy": float(outcomes.loss.mean()),
        "brier_score": metrics.brier_score(y, table, classes=classes),
        "clipped": round(metrics.clipped_share(y, table, classes=classes) * len(y)),
        "absent": int((~np.isin(y, model.classes_)).sum()),
        "predict_seconds": round(cpu, 6),
        "rows": outcomes.pack(),
    }


def outcomes_of(y: NDArray[Any], log_proba: NDArray[np.float64], classes: list[str]) -> Outcomes:
    """What is kept of each row, from log-probabilities of shape (n, n_classes)."""
    truth, predicted = np.searchsorted(classes, y.astype(str)), log_proba.argmax(axis=1)
    binary = len(classes) == 2
    return Outcomes(
        correct=predicted == truth,
        loss=metrics.log_losses(y, log_proba, classes=classes),
        confidence=np.exp(log_proba.max(axis=1)),
        log_odds=metrics.log_odds(log_proba) if binary else None,
        positive=truth == 1 if binary else None,
    )


def roc_area(outcomes: Outcomes) -> float | None:
    """Area under the ROC curve of pooled log-odds, or None where there are not two classes to tell apart."""
    odds, positive = outcomes.log_odds, outcomes.positive
    if odds is None or positive is None or positive.all() or not positive.any():
        return None
    both = np.stack([-np.logaddexp(0.0, odds), -np.logaddexp(0.0, -odds)], axis=1)
    return metrics.roc_area(positive, both, classes=[False, True])
