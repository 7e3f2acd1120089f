"""Run the benchmarks and print the goals and what was reached.

    python benchmarks/run.py [SECTION ...] [--data DIR] [--rows N ...] [--out DIR]

Sections are the modules beside this file that have a `run` function; those of scale are run where they are named.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import time
from importlib.metadata import distributions
from pathlib import Path

import page
from measure import Result
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fanbayes import _native
from fanbayes.files.atomic import write_file
from fanbayes.study.provenance import environment

SECTIONS = [
    "iteration",
    "roofline",
    "naive_bayes",
    "tan",
    "acceleration",
    "starts",
    "whole_job",
    "prediction",
    "growth",
    "startup",
    "memory",
    "missing",
    "aode",
    "mda",
    "nb_tree",
    "intervals",
]
SCALE = ["scale", "scale_dask", "scale_peers"]
PEERS = ["numpy", "scipy", "scikit-learn", "stepmix", "pomegranate", "lightgbm", "pyagrum"]
PEERS += ["pyarrow", "dask", "dask-ml", "pyspark"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", default=SECTIONS, metavar="SECTION", help=", ".join(SECTIONS + SCALE))
    parser.add_argument("--data", type=Path, help="folder of datasets with a manifest.json")
    parser.add_argument("--rows", type=int, nargs="+", help="of the sections of scale, in place of what each has")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    if options.data is not None:
        os.environ["FANBAYES_DATA"] = str(options.data.resolve())
    results: dict[str, list[Result]] = {}
    before = os.getloadavg()[0]
    for name in options.sections:
        if name not in SECTIONS + SCALE:
            parser.error(f"no section {name!r}; the sections are {', '.join(SECTIONS + SCALE)}")
        start = time.perf_counter()
        results[name] = importlib.import_module(name).run(*([options.rows] if name in SCALE else []))
        print(f"{name}: {time.perf_counter() - start:.0f} s", file=sys.stderr)
    write(options.out, results, f"{before:.1f} before and {os.getloadavg()[0]:.1f} after")
    show([r for section in results.values() for r in section])
    print(f"The page: {page.write(options.out)}")


def write(folder: Path, results: dict[str, list[Result]], load: str) -> None:
    """One JSON file for each section, with the environment that it was measured in, the machine's load included."""
    folder.mkdir(parents=True, exist_ok=True)
    installed = {d.name for d in distributions()}
    about = environment([name for name in PEERS if name in installed], Path(__file__).parent)
    about["backend"] = _native.backend()
    about["load"] = load
    for name, section in results.items():
        content = {"environment": about, "results": [r.to_json() for r in section]}
        write_file(folder / f"{name}.json", (json.dumps(content, indent=1) + "\n").encode())


def show(results: list[Result]) -> None:
    table = Table("what", "goal", "reached", "")
    for r in results:
        met = {True: "[green]yes", False: "[red]no", None: ""}[r.met]
        table.add_row(Text(r.name), page.goal(r.to_json()), page.reached(r.to_json()), met)
    Console(width=None if sys.stdout.isatty() else 150).print(table)


if __name__ == "__main__":
    main()
