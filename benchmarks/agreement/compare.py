"""Do two commits give the same answers? Each is built in an environment of its own and makes the fits of `fits.py`.

    python benchmarks/agreement/compare.py OLD [NEW] [--tolerance 1e-8] [--only WORD ...]

Ends with status 1 if probabilities, log densities or scores differ by more than the tolerance, or chosen sizes at all.
Numbers of passes are shown, but may differ: rounding can move them.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import venv
from itertools import zip_longest
from math import inf
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FITS = Path(__file__).with_name("fits.py")
Outcome = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new", nargs="?", default="HEAD")
    parser.add_argument("--tolerance", type=float, default=1e-8)
    parser.add_argument("--only", nargs="*", default=[], metavar="WORD", help="cases whose names contain one of these")
    options = parser.parse_args()
    old, new = (fits(interpreter(commit), options.only) for commit in (options.old, options.new))
    rows = [(name, *compared(old[name], new[name], options.tolerance)) for name in old]
    print(table(rows))
    differing = [name for name, agrees, _ in rows if not agrees]
    print(f"{len(rows) - len(differing)} of {len(rows)} cases agree within {options.tolerance:g}.")
    sys.exit(bool(differing))


def interpreter(commit: str) -> Path:
    """Python of an environment in which the commit is installed, made unless it is there."""
    name = subprocess.check_output(["git", "-C", ROOT, "rev-parse", f"{commit}^{{commit}}"], text=True).strip()
    folder = ROOT / "build" / "agreement" / name
    done = folder / "done"
    if not done.exists():
        print(f"Building {commit} ({name[:7]})", file=sys.stderr)
        venv.create(folder, with_pip=True, clear=True)
        pip = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, f"git+{ROOT.as_uri()}@{name}", "pandas"], check=True)
        done.touch()
    return folder / "bin" / "python"


def fits(python: Path, only: list[str]) -> dict[str, Outcome]:
    """Outcome of every case by the commit of this interpreter."""
    found: dict[str, Outcome] = json.loads(subprocess.check_output([python, FITS, *only]))
    return found


def compared(old: Outcome, new: Outcome, tolerance: float) -> tuple[bool, list[str]]:
    """Whether two outcomes agree, and the cells of the table, from the probabilities on."""
    if "error" in old or "error" in new:
        said = [o.get("error", "a result") for o in (old, new)]
        return ("error" in old) == ("error" in new), [*[""] * 5, change(*said)]
    gaps = [
        max((gap(a, b, scale) for a, b in zip_longest(old[what], new[what], fillvalue=inf)), default=0.0)
        for what, scale in (("complete", 0.0), ("holes", 0.0), ("log_joint", 1.0), ("scores", 1.0))
    ]
    passes, sizes = (change(str(old.get(what, "")), str(new.get(what, ""))) for what in ("n_iter", "sizes"))
    return old["sizes"] == new["sizes"] and max(gaps) <= tolerance, [*(f"{g:.1e}" for g in gaps), passes, sizes]


def change(old: str, new: str) -> str:
    return old if old == new else f"{old} -> {new}"


def gap(a: float, b: float, relative: float) -> float:
    """|a - b|, or with `relative` 1 as a share of a if that is larger than 1; 0 between equal infinities or NaN."""
    if a == b or (a != a and b != b):
        return 0.0
    difference = abs(a - b) / max(1.0, relative * abs(a))
    return difference if difference == difference else inf


def table(rows: list[tuple[str, bool, list[str]]]) -> str:
    """The cases, those that differ last; probabilities are those of rows that are complete and of rows with holes."""
    lines = [["case", "agrees", "complete", "holes", "log joint", "scores", "passes", "sizes"]]
    lines += [[name, "yes" if agrees else "NO", *cells] for name, agrees, cells in sorted(rows, key=lambda r: not r[1])]
    widths = [max(map(len, column)) for column in zip(*lines)][:-1]
    return "\n".join("  ".join([*map(str.ljust, line, widths), line[-1]]).rstrip() for line in lines)


if __name__ == "__main__":
    main()
