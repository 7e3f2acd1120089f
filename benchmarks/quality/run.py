"""Compare FANClassifierCV with other classifiers on a folder of datasets.

    python benchmarks/quality/run.py --data DIR [--methods a,b] [--datasets a,b] [--half HALF] [--jobs 2]

Goes on where an earlier run ended: `OUT/records/METHOD.jsonl` has a line for each fold; delete it to run a method
again. `report.py` makes the page.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import traceback
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

# Before NumPy and OpenMP are loaded, here and in the processes: every method has one thread.
os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

import numpy as np
from folds import folds, half
from methods import METHODS, Problem
from records import Record, Records
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from scores import scores
from settings import PACKAGES

from fanbayes.commands.output import printable
from fanbayes.datasets import Dataset, load_suite
from fanbayes.study.provenance import environment


@dataclass(frozen=True)
class Task:
    """One method on one fold of a dataset of a folder."""

    data: Path
    dataset: str
    fold: int
    n_folds: int
    method: str


def main() -> None:
    options = arguments()
    records = Records(options.out / "records")
    tasks = [task for task in plan(options) if not records.has(task.method, task.dataset, task.fold, task.n_folds)]
    number = records.begin(environment(PACKAGES, Path(__file__).parent) | {"threads": "1"})
    failures = run(tasks, records, options.jobs, number)
    for line in failures:
        print(line, file=sys.stderr)  # the page tells of them too


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of datasets with a manifest.json")
    parser.add_argument("--out", type=Path, default=Path("build/quality"))
    parser.add_argument("--methods", type=_names, default=list(METHODS), help=", ".join(METHODS))
    parser.add_argument("--datasets", type=_names, help="all by default")
    parser.add_argument("--half", choices=["development", "report"], help="both by default")
    parser.add_argument("--jobs", type=int, default=2, help="processes, each on one thread")
    options = parser.parse_args()
    for name in options.methods:
        if name not in METHODS:
            parser.error(f"no method {name!r}; the methods are {', '.join(METHODS)}")
    return options


def _names(text: str) -> list[str]:
    return text.split(",")


def plan(options: argparse.Namespace) -> list[Task]:
    """All tasks, small datasets first, so that something can be seen early."""
    suite = load_suite(options.data)
    chosen = [suite[name] for name in options.datasets or suite]
    chosen = [dataset for dataset in chosen if options.half in (None, half(dataset))]
    tasks = []
    for dataset in sorted(chosen, key=lambda dataset: (len(dataset.y), dataset.name)):
        n_folds = len(folds(dataset))
        for fold in range(n_folds):
            tasks += [Task(options.data, dataset.name, fold, n_folds, method) for method in options.methods]
    return tasks


def run(tasks: list[Task], records: Records, jobs: int, number: int) -> list[str]:
    """Do the tasks in processes of their own, write what comes back with the number of the run; return what failed."""
    failures = []
    columns = TextColumn("{task.description:32}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with (
        Progress(*columns, console=Console(stderr=True)) as progress,
        # Fresh interpreters: forked ones would inherit locks of threads that they do not have.
        ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool,
    ):
        bar = progress.add_task("", total=len(tasks))
        waiting = {pool.submit(execute, task): task for task in tasks}
        try:
            for future in as_completed(waiting):
                task = waiting.pop(future)
                record = future.result() | {"run": number}
                records.add(record)
                if "error" in record:
                    failures.append(f"{task.method} on {task.dataset}, fold {task.fold}: {record['error']}")
                    progress.console.print(printable(failures[-1]), markup=False)
                progress.update(bar, advance=1, description=printable(f"{task.dataset} {task.method}"))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return failures


def execute(task: Task) -> Record:
    """Fit and predict; a failure becomes part of the record."""
    identity = {"method": task.method, "dataset": task.dataset, "fold": task.fold, "n_folds": task.n_folds}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return identity | fit_and_predict(_dataset(task.data, task.dataset), task)
    except Exception as error:
        return identity | {"error": f"{type(error).__name__}: {error} (in {raised_in(error)})"}


def raised_in(error: Exception) -> str:
    """Modules that an exception came through, the deepest of each library."""
    deepest: dict[str, str] = {}
    for frame, _ in traceback.walk_tb(error.__traceback__):
        module = str(frame.f_globals["__name__"])
        deepest[module.partition(".")[0]] = module
    return ", ".join(deepest.values())


@lru_cache(maxsize=1)
def _dataset(folder: Path, name: str) -> Dataset:
    return load_suite(folder)[name]


def fit_and_predict(dataset: Dataset, task: Task) -> Record:
    """Scores of one fold; seconds are those of the processor, which others on the machine disturb least."""
    trained, tested = folds(dataset)[task.fold]
    # Codes from 0 without gaps: some peers need them.
    known, y = np.unique(dataset.y[trained].astype(str), return_inverse=True)
    X, X_test = dataset.X.iloc[trained], dataset.X.iloc[tested]
    began = time.process_time()
    model = METHODS[task.method](Problem(dataset.kinds, y)).fit(X, y)
    fitted = time.process_time()
    proba = model.predict_proba(X_test)
    predicted = time.process_time()
    return {
        "n_train": len(trained),
        "n_test": len(tested),
        "fit_s": round(fitted - began, 6),
        "predict_s": round(predicted - fitted, 6),
        **scores(dataset.y[tested], np.asarray(proba, np.float64), known, dataset.classes),
        **choice(model),
    }


def choice(model: Any) -> Record:
    """What one of our classifiers chose, where it tells."""
    found = getattr(model, "n_components_", None)
    return {"n_components": int(found)} if isinstance(found, int | np.integer) else {}


if __name__ == "__main__":
    main()
