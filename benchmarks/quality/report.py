"""Write the page and the tables of the quality benchmark.

    python benchmarks/quality/report.py --records DIR [DIR ...] [--out DIR]     from the records of one run or several
    python benchmarks/quality/report.py [--out DIR]                             again, from OUT/summary.json

May be run while the benchmark is still running: methods are compared on the folds that all of them have.
"""

from __future__ import annotations

import argparse
import json
import lzma
from collections.abc import Sequence
from pathlib import Path

from page import pages
from summary import csv_lines, merged, summary

from fanbayes.files.atomic import write_file
from fanbayes.study.records import read_study


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=Path, nargs="+", help="where run.py has written; the last of several counts")
    parser.add_argument("--out", type=Path, default=Path("docs/results/quality"))
    parser.add_argument("--ours", default="fan_cv", help="the method that is held against the others")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.records is not None:
        summarise(options.records, options.ours, options.out)
    found = json.loads((options.out / "summary.json").read_bytes())
    if "scenarios" not in found:
        print(f"{options.out / 'summary.json'} is of an earlier form: its pages are left as they are.")
        return
    for name, content in pages(found).items():
        write_file(options.out / name, content.encode())
    print(f"The page: {options.out / 'index.html'}")


def summarise(folders: Sequence[Path], ours: str, out: Path) -> None:
    """Write the summary, and the records without what is kept of each row."""
    head, records = merged([read_study(folder) for folder in folders])
    timing: dict[str, object] = {}
    for folder in folders:
        if (folder / "timing.json").exists():
            timing |= json.loads((folder / "timing.json").read_bytes())
    found = summary(head, records, ours, timing)
    write_file(out / "summary.json", (json.dumps(found, indent=1, allow_nan=False) + "\n").encode())
    write_file(out / "records.csv.xz", lzma.compress("".join(csv_lines(records)).encode()))


if __name__ == "__main__":
    main()
