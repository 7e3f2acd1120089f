"""Records on disk: a file for each method, a line for each fold.

Lines are only ever added, each in one write, so a run may be killed at any moment. Of two lines about the same fold
the later one counts; a fold whose record is an error is run again.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, BinaryIO

Record = dict[str, Any]
Key = tuple[str, int, int]


class Records:
    """The records of a folder.

    Parameters
    ----------
    folder : Path
        Made if it is not there.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.known = {path.stem: _read(path) for path in sorted(folder.glob("*.jsonl"))}

    def has(self, method: str, dataset: str, fold: int, n_folds: int) -> bool:
        """Whether there is a result, and not an error only."""
        record = self.known.get(method, {}).get((dataset, fold, n_folds))
        return record is not None and "error" not in record

    def add(self, record: Record) -> None:
        """Write a record, after a new line if the last run was cut short within one."""
        path = self.folder / f"{record['method']}.jsonl"
        line = json.dumps(record, separators=(",", ":")).encode() + b"\n"
        with path.open("ab+") as file:
            file.write(line if _ends_a_line(file) else b"\n" + line)

    def all(self) -> list[Record]:
        """All records, the latest of each fold."""
        return [record for method in self.known.values() for record in method.values()]


def _ends_a_line(file: BinaryIO) -> bool:
    if not file.tell():
        return True
    file.seek(-1, os.SEEK_END)
    return file.read() == b"\n"


def _read(path: Path) -> dict[Key, Record]:
    found = {}
    for line in path.read_bytes().splitlines():
        try:
            record = json.loads(line)
        except ValueError:  # the line at which a run was killed
            continue
        found[record["dataset"], record["fold"], record["n_folds"]] = record
    return found
