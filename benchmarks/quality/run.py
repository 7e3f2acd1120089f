"""Compare FANClassifierCV with other classifiers on a suite of datasets.

    python benchmarks/quality/run.py [--data DIR] [--methods a,b] [--scenarios a,b] [--datasets a,b] [--half HALF]

Goes on where an earlier run ended: `OUT/records.jsonl` has a line for each fold of each method in each scenario; take
lines out to run them again. The first fold of every dataset comes first, then the first five, small ones before large.
`report.py` makes the page, of several folders if need be.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

# Before NumPy and OpenMP are loaded, here and in the processes: every method has one thread.
os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

from bundles import BUNDLES
from plan import FAMILIES, QualityPlan, QualityTask
from settings import packages
from weka_peers import is_installed

from fanbayes.commands.study import run_on_screen
from fanbayes.datasets import Suite, load_suite
from fanbayes.study.provenance import environment


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of datasets with a manifest.json")
    parser.add_argument("--out", type=Path, default=Path("build/quality"))
    parser.add_argument("--methods", type=_names, default=_all(), help=", ".join(BUNDLES))
    parser.add_argument("--scenarios", type=_names, default=list(FAMILIES), help=", ".join(FAMILIES))
    parser.add_argument("--datasets", type=_names, help="all by default")
    parser.add_argument("--half", choices=["development", "report"], help="both by default")
    parser.add_argument("--jobs", type=int, default=2, help="processes, each on one thread")
    options = parser.parse_args()
    for given, known in ((options.methods, BUNDLES), (options.scenarios, FAMILIES)):
        for name in given:
            if name not in known:
                parser.error(f"there is no {name!r}; give some of {', '.join(known)}")
    suite = load_suite(options.data) if options.data else _anyones()
    suite = suite if options.datasets is None else suite.only(options.datasets)
    about = environment(packages(), Path(__file__).parent) | {"threads": "1"}
    plan = QualityPlan(options.methods, options.scenarios, options.half)
    run_on_screen(plan, suite, options.out, options.jobs, about, _order)


def _order(task: QualityTask, cost: float) -> tuple[object, ...]:
    """Complete tables, of these the first fold of each, then five, small ones first: what is early tells most."""
    return task.family != "test", task.fold >= 5, task.fold >= 1, cost, task.dataset, task.fold


def _all() -> list[str]:
    """All methods that can be run here."""
    return [name for name in BUNDLES if is_installed() or not name.startswith("weka")]


def _anyones() -> Suite:
    """What comes with the library, and what OpenML has besides; what cannot be downloaded is told of and left out."""
    print(
        "No --data: the datasets of the suites 'builtin' and 'openml' are taken, as far as openml.org can be reached."
    )
    builtin, openml = load_suite("builtin"), load_suite("openml")
    return Suite("builtin and openml", {**openml.loaders, **builtin.loaders}, {**openml.groups, **builtin.groups})


def _names(text: str) -> list[str]:
    return text.split(",")


if __name__ == "__main__":
    main()
