"""Write the page, the tables and the records of the quality benchmark.

    python benchmarks/quality/report.py --data DIR [--records DIR] [--out DIR]

May be run while the benchmark is still running: methods are compared on the datasets that all have finished.
"""

from __future__ import annotations

import argparse
import json
import lzma
from collections.abc import Sequence
from pathlib import Path

from methods import METHODS
from page import page
from readme import readme
from records import Record, Records
from study import Study, read
from summary import csv_lines, summary

from fanbayes.files.atomic import write_file


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of datasets with a manifest.json")
    parser.add_argument("--records", type=Path, default=Path("build/quality"), help="where run.py has written")
    parser.add_argument("--out", type=Path, default=Path("docs/results/quality"))
    parser.add_argument("--ours", default="fan_cv", choices=METHODS, help="the method that is held against the others")
    options = parser.parse_args()
    records = Records(options.records / "records").all()
    study = read(options.data, records, options.ours)
    write(options.out, study, records)
    print(f"The page: {options.out / 'index.html'}")


def write(folder: Path, study: Study, records: Sequence[Record]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    scopes = study.scopes()
    asked = study.asked(scopes)
    files = {
        "index.html": page(study, scopes, asked).encode(),
        "README.md": readme(study, scopes, asked).encode(),
        "summary.json": (json.dumps(summary(study, scopes, asked), indent=1) + "\n").encode(),
        "records.csv.xz": lzma.compress("".join(csv_lines(records)).encode()),
    }
    for name, content in files.items():
        write_file(folder / name, content)


if __name__ == "__main__":
    main()
