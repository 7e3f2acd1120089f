"""Compare FANClassifierCV with other classifiers on a folder of datasets.

    python benchmarks/quality/run.py --data DIR [--methods a,b] [--datasets a,b] [--half HALF] [--jobs 2]

Goes on where an earlier run ended: `OUT/records.jsonl` has a line for each fold of each method; take lines out to run
them again. `report.py` makes the page.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

# Before NumPy and OpenMP are loaded, here and in the processes: every method has one thread.
os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

from methods import METHODS
from plan import QualityPlan
from settings import PACKAGES

from fanbayes.commands.study import run_on_screen
from fanbayes.datasets import load_suite
from fanbayes.study.provenance import environment


def main() -> None:
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
    suite = load_suite(options.data)
    suite = suite if options.datasets is None else suite.only(options.datasets)
    about = environment(PACKAGES, Path(__file__).parent) | {"threads": "1"}
    run_on_screen(QualityPlan(options.methods, options.half), suite, options.out, options.jobs, about)


def _names(text: str) -> list[str]:
    return text.split(",")


if __name__ == "__main__":
    main()
