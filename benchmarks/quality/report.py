"""Write the page and the tables of the quality benchmark.

    python benchmarks/quality/report.py --records DIR [--out DIR]     from the records of a run
    python benchmarks/quality/report.py [--out DIR]                   again, from OUT/summary.json

May be run while the benchmark is still running: methods are compared on the datasets that all have finished.
"""

from __future__ import annotations

import argparse
import json
import lzma
from pathlib import Path

from page import pages
from summary import csv_lines, summary

from fanbayes.files.atomic import write_file
from fanbayes.study.records import read_study


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=Path, help="where run.py has written")
    parser.add_argument("--out", type=Path, default=Path("docs/results/quality"))
    parser.add_argument("--ours", default="fan_cv", help="the method that is held against the others")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.records is not None:
        summarise(options.records, options.ours, options.out)
    for name, content in pages(json.loads((options.out / "summary.json").read_bytes())).items():
        write_file(options.out / name, content.encode())
    print(f"The page: {options.out / 'index.html'}")


def summarise(folder: Path, ours: str, out: Path) -> None:
    """Write the summary, and the records without what is kept of each row."""
    head, records = read_study(folder)
    found = summary(head, records, ours)
    write_file(out / "summary.json", (json.dumps(found, indent=1) + "\n").encode())
    write_file(out / "records.csv.xz", lzma.compress("".join(csv_lines(records)).encode()))


if __name__ == "__main__":
    main()
