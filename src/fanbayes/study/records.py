"""The folder of a study: its settings in `study.json`, and one line of `records.jsonl` for each outcome.

Lines are only ever added, so a run may be killed at any moment: at worst the last line is cut short, and it is
dropped when the run goes on. Where two lines are about the same thing, the later one counts.
"""

from __future__ import annotations

import json
import lzma
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from fanbayes.files.atomic import append_line, write_file
from fanbayes.study.cards import Card

Record = dict[str, Any]
Key = tuple[tuple[str, Any], ...]

IDENTITY = ("dataset", "version", "fold", "size", "pair", "model", "method", "preset", "criterion")
TIMES = ("fit_seconds", "search_seconds", "predict_seconds")


class Task(Protocol):
    """A piece of work: the fields of a dataclass say what it is about."""

    @property
    def dataset(self) -> str:
        """Name of its dataset."""

    @property
    def criteria(self) -> tuple[str, ...]:
        """What it gives a record for, each."""


class StudyError(RuntimeError):
    """A study that cannot be run or read, in one sentence that says what to do."""


class OtherStudy(StudyError):
    """A folder that belongs to another study, or to the same one with other settings."""


def key_of(record: Mapping[str, Any]) -> Key:
    """What a record is about."""
    return tuple((name, record[name]) for name in IDENTITY if name in record)


class StudyFolder:
    """A folder that one run writes to.

    Parameters
    ----------
    path : Path
        Made if it does not exist.
    settings : mapping
        What makes two runs the same study. A folder with other settings is refused.
    cards : list of Card
        The datasets that will be used. A folder that knows them with other content is refused.
    broken : mapping of str to str
        Datasets that could not be read, and why.
    about : mapping
        Which code runs, where and with what. `environments` in the settings lists those of all runs, and each record
        has the place of its own in that list.
    """

    def __init__(
        self,
        path: Path,
        settings: Mapping[str, Any],
        cards: list[Card],
        broken: Mapping[str, str],
        about: Mapping[str, str],
    ) -> None:
        self.path = path
        head = _head(path, settings)
        _same_content(path, head["datasets"], cards)
        head["datasets"] |= {card.name: asdict(card) for card in cards}
        head["broken"] = {n: why for n, why in (head["broken"] | dict(broken)).items() if n not in head["datasets"]}
        if dict(about) not in head["environments"]:
            head["environments"].append(dict(about))
        self._run = head["environments"].index(dict(about))
        path.mkdir(parents=True, exist_ok=True)
        self._lock = _lock(path / "records.jsonl")
        try:
            write_file(path / "study.json", (json.dumps(head, indent=1) + "\n").encode())
            self.records: dict[Key, Record] = {key_of(record): record for record in self._recover()}
        except BaseException:
            self._lock.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._lock.close()

    def add(self, records: Iterable[Record]) -> None:
        """Write outcomes that are not yet known; a task that fails as it did before tells nothing new."""
        for record in records:
            known = self.records.get(key_of(record))
            if known is None or ("error" in known and known["error"] != record.get("error")):
                record = record | {"run": self._run}
                append_line(self.path / "records.jsonl", json.dumps(record, separators=(",", ":")).encode())
                self.records[key_of(record)] = record

    def is_done(self, task: Task) -> bool:
        """Whether each criterion of a task has a record without an error."""
        keys = (key_of({**vars(task), "criterion": criterion}) for criterion in task.criteria)
        return all("error" not in self.records.get(key, {"error": "unknown"}) for key in keys)

    def _recover(self) -> list[Record]:
        """Read what is there, without a last line that was cut short: the first line that is added replaces it."""
        content = (self.path / "records.jsonl").read_bytes()
        return _parse(content[: content.rfind(b"\n") + 1], self.path)


def read_settings(path: Path) -> dict[str, Any]:
    """Settings of the study in a folder."""
    try:
        return dict(json.loads((path / "study.json").read_text("utf-8")))
    except FileNotFoundError:
        raise StudyError(f"{path} is not the folder of a study: it has no study.json.") from None
    except (OSError, ValueError, TypeError) as error:
        raise StudyError(f"cannot read {path / 'study.json'}: {error}.") from None


def read_study(path: Path) -> tuple[dict[str, Any], list[Record]]:
    """Settings and records of a folder; the records may be compressed (`records.jsonl.xz`)."""
    head = read_settings(path)
    plain, packed = path / "records.jsonl", path / "records.jsonl.xz"
    try:
        content = plain.read_bytes() if plain.exists() else lzma.decompress(packed.read_bytes())
    except FileNotFoundError:
        raise StudyError(f"{path} has no records.jsonl: run the study first.") from None
    except (OSError, lzma.LZMAError) as error:
        raise StudyError(f"cannot read the records of {path}: {error}.") from None
    records = _parse(content[: content.rfind(b"\n") + 1], path)
    return head, list({key_of(record): record for record in records}.values())


def runs_of(head: Mapping[str, Any], records: Iterable[Record], by: str) -> list[dict[str, Any]]:
    """Environment of each run that made records, and how many of them are of each model or method."""
    made: defaultdict[int, Counter[str]] = defaultdict(Counter)
    for record in records:
        if "error" not in record:
            made[record["run"]][record[by]] += 1
    runs = head["environments"]
    return [{**runs[number], "records": dict(sorted(counts.items()))} for number, counts in sorted(made.items())]


def failures_of(records: Iterable[Record], by: Sequence[str]) -> list[dict[str, Any]]:
    """Folds that failed, for what the records have in common and for each error."""
    failed: defaultdict[tuple[Any, ...], list[int]] = defaultdict(list)
    for record in records:
        if "error" in record:
            failed[*(record[name] for name in by), record["error"]].append(record["fold"])
    return [{**dict(zip((*by, "error"), what)), "folds": sorted(folds)} for what, folds in sorted(failed.items())]


def _head(path: Path, settings: Mapping[str, Any]) -> dict[str, Any]:
    """What `study.json` says, or the beginning of a new one."""
    file = path / "study.json"
    if not file.exists():
        for name in ("records.jsonl", "records.jsonl.xz"):
            if (path / name).exists() and (path / name).stat().st_size:
                raise OtherStudy(f"{path} has records but no study.json: give another folder.")
        return {**settings, "datasets": {}, "broken": {}, "environments": []}
    try:
        head = dict(json.loads(file.read_text("utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise OtherStudy(f"cannot read {file}: {error}; give another folder.") from None
    for name, value in json.loads(json.dumps(settings)).items():
        if head.get(name) != value:
            said = "" if isinstance(value, dict) else f" is {head.get(name)!r} there and {value!r} here"
            raise OtherStudy(
                f"{path} belongs to another study, whose setting {name!r}{said or ' differs'}: give another folder."
            )
    if not (path / "records.jsonl").exists() and (path / "records.jsonl.xz").exists():
        raise OtherStudy(f"the records of {path} are compressed: unpack records.jsonl.xz to go on with the study.")
    return head


def _same_content(path: Path, known: Mapping[str, Any], cards: list[Card]) -> None:
    for card in cards:
        if card.name in known and known[card.name]["sha256"] != card.sha256:
            raise OtherStudy(
                f"{path} belongs to another study, whose dataset {card.name!r} has other content: give another folder."
            )


def _lock(path: Path) -> FileIO:
    """Open for adding lines, for one process at a time where the system can tell."""
    file = FileIO(path, "a")
    if sys.platform != "win32":
        import fcntl

        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            raise StudyError(f"another run writes to {path.parent}: wait for it, or give another folder.") from None
    return file


def _parse(content: bytes, path: Path) -> list[Record]:
    records = []
    for number, line in enumerate(content.splitlines(), start=1):
        try:
            records.append(dict(json.loads(line)))
        except (ValueError, TypeError):
            raise StudyError(f"line {number} of the records of {path} is damaged: delete that line.") from None
    return records
