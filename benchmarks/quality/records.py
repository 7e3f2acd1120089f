"""Records on disk: a file for each method, a line for each fold.

Lines are only ever added, so a run may be killed at any moment. Of two lines about the same fold the later one
counts; a fold whose record is an error is run again.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fanbayes.files.atomic import append_line, write_file

Record = dict[str, Any]
Key = tuple[str, int, int]


class Records:
    """The records of a folder.

    Parameters
    ----------
    folder : Path
        Made if it is not there.

    Attributes
    ----------
    runs : list of dict
        Environments of all runs that wrote here, in `runs.json`; a record has the place of its own in that list.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / "runs.json"
        self.runs: list[Record] = json.loads(file.read_bytes()) if file.exists() else []
        self.known = {path.stem: _read(path) for path in sorted(folder.glob("*.jsonl"))}

    def begin(self, environment: Record) -> int:
        """Place of a run in the list; one that goes on in the same environment is the same run."""
        if environment not in self.runs:
            self.runs.append(environment)
            write_file(self.folder / "runs.json", (json.dumps(self.runs, indent=1) + "\n").encode())
        return self.runs.index(environment)

    def has(self, method: str, dataset: str, fold: int, n_folds: int) -> bool:
        """Whether there is a result, and not an error only."""
        record = self.known.get(method, {}).get((dataset, fold, n_folds))
        return record is not None and "error" not in record

    def add(self, record: Record) -> None:
        """Write a record."""
        path = self.folder / f"{record['method']}.jsonl"
        append_line(path, json.dumps(record, separators=(",", ":")).encode())

    def all(self) -> list[Record]:
        """All records, the latest of each fold."""
        return [record for method in self.known.values() for record in method.values()]


def _read(path: Path) -> dict[Key, Record]:
    found = {}
    for line in path.read_bytes().splitlines():
        try:
            record = json.loads(line)
        except ValueError:  # the line at which a run was killed
            continue
        found[record["dataset"], record["fold"], record["n_folds"]] = record
    return found
