"""Write the page and the tables of the quality benchmark.

    python benchmarks/quality/report.py --records DIR [DIR ...] [--out DIR]     from the records of one run or several
    python benchmarks/quality/report.py [--out DIR]                             again, from OUT/summary.json

May be run while the benchmark is still running: methods are compared on the folds that all of them have. The records
are kept beside the page, each folder by its name, so that a run can go on with them (unpack a copy).
"""

from __future__ import annotations

import argparse
import json
import lzma
import re
from collections.abc import Sequence
from pathlib import Path

from page import excerpts, pages
from summary import merged, summary

from fanbayes.files.atomic import write_file
from fanbayes.study.records import read_study

ROOT = Path(__file__).parent.parent.parent
PUBLISHED = ROOT / "docs" / "results" / "quality"
_PLACE = re.compile(r"(?<=<!-- quality -->\n).*?(?=<!-- /quality -->)", re.DOTALL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=Path, nargs="+", help="where run.py has written; the last of several counts")
    parser.add_argument("--out", type=Path, default=PUBLISHED)
    parser.add_argument("--ours", default="fan_cv", help="the method that is held against the others")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.records is not None:
        summarise(options.records, options.ours, options.out)
    found = json.loads((options.out / "summary.json").read_bytes())
    for name, content in pages(found).items():
        write_file(options.out / name, content.encode())
    if options.out == PUBLISHED:
        for name, excerpt in excerpts(found).items():
            text = _PLACE.sub(lambda _: f"{excerpt.strip()}\n", (ROOT / name).read_text("utf-8"))  # noqa: B023
            write_file(ROOT / name, text.encode())
    print(f"The page: {options.out / 'index.html'}")


def summarise(folders: Sequence[Path], ours: str, out: Path) -> None:
    """Write the summary, and keep the records that it is of."""
    head, records = merged([read_study(folder) for folder in folders])
    timing: dict[str, object] = {}
    for folder in folders:
        if (folder / "timing.json").exists():
            timing |= json.loads((folder / "timing.json").read_bytes())
    found = summary(head, records, ours, timing)
    write_file(out / "summary.json", (json.dumps(found, indent=1, allow_nan=False) + "\n").encode())
    for folder in folders:
        kept = out / folder.name
        kept.mkdir(exist_ok=True)
        write_file(kept / "study.json", (folder / "study.json").read_bytes())
        write_file(kept / "records.jsonl.xz", lzma.compress((folder / "records.jsonl").read_bytes()))


if __name__ == "__main__":
    main()
