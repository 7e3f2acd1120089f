"""Put the results of a run where they are published: records of the studies compressed, the rest as it is.

    python benchmarks/publish.py RUN [--root DIR]

RUN is a folder with the folders `real`, `simulated` and `relatives` that `fanbayes study` has written, and `speed` of
`run.py`.
"""

from __future__ import annotations

import argparse
import lzma
from pathlib import Path

from fanbayes.files.atomic import write_file


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--root", type=Path, default=Path(__file__).parent.parent, help="of the project")
    options = parser.parse_args()
    for study in ("real", "simulated", "relatives"):
        made, published = options.run / study, options.root / "docs" / "results" / study
        publish(published / "study.json", (made / "study.json").read_bytes())
        publish(published / "records.jsonl.xz", lzma.compress((made / "records.jsonl").read_bytes()))
    for section in sorted((options.run / "speed").glob("*.json")):
        publish(options.root / "benchmarks" / "results" / section.name, section.read_bytes())


def publish(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, content)


if __name__ == "__main__":
    main()
