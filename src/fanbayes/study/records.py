"""The folder of a study: its settings in `study.json`, and one line of `records.jsonl` for each outcome.

Lines are only ever added, so a run may be killed at any moment: at worst the last line is cut short, and it is
dropped when the run goes on. Where two lines are about the same thing, the later one counts.
"""

from __future__ import annotations

import json
import lzma
import sys
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from zlib import compress, decompress

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fanbayes.evaluation.metrics import CLIP
from fanbayes.files.atomic import append_line, write_file
from fanbayes.study.plan import Card, Task
from fanbayes.study.provenance import environment

Record = dict[str, Any]
Key = tuple[tuple[str, Any], ...]

IDENTITY = ("dataset", "version", "fold", "size", "pair", "model", "preset", "criterion")
TIMES = ("fit_seconds", "search_seconds", "predict_seconds")


class StudyError(RuntimeError):
    """A study that cannot be run or read, in one sentence that says what to do."""


class OtherStudy(StudyError):
    """A folder that belongs to another study, or to the same one with other settings."""


# ---------------------------------------------------------------- what is kept of each row


@dataclass(frozen=True)
class Outcomes:
    """What the tests on one dataset need of each predicted row, all of shape (n,).

    Attributes
    ----------
    correct : bool
    loss : float
        ``-log p(c | x)`` of the true class, clipped.
    confidence : float
        Probability of the class predicted.
    log_odds : float or None
        Of the second of two classes.
    positive : bool or None
        Whether the second of two classes is the true one.
    """

    correct: NDArray[np.bool_]
    loss: NDArray[np.float64]
    confidence: NDArray[np.float64]
    log_odds: NDArray[np.float64] | None = None
    positive: NDArray[np.bool_] | None = None

    def pack(self) -> dict[str, str]:
        """Shorten for a record: numbers keep five digits, and what follows from them is left out."""
        if self.log_odds is not None and self.positive is not None:
            return {"log_odds": _pack(self.log_odds), "positive": _pack_bits(self.positive)}
        wrong = self.confidence[~self.correct]
        return {"correct": _pack_bits(self.correct), "loss": _pack(self.loss), "confidence": _pack(wrong)}

    @classmethod
    def unpack(cls, packed: Mapping[str, str]) -> Outcomes:
        """Undo `pack`."""
        if "log_odds" in packed:
            odds = _unpack(packed["log_odds"])
            positive = _unpack_bits(packed["positive"], len(odds))
            loss = np.minimum(np.logaddexp(0.0, np.where(positive, -odds, odds)), -np.log(CLIP))
            confidence = np.exp(-np.logaddexp(0.0, -np.abs(odds)))
            return cls((odds > 0) == positive, loss, confidence, odds, positive)
        loss = _unpack(packed["loss"])
        correct = _unpack_bits(packed["correct"], len(loss))
        confidence = np.exp(-loss)
        confidence[~correct] = _unpack(packed["confidence"])
        return cls(correct, loss, confidence)

    @classmethod
    def pool(cls, parts: Iterable[Outcomes]) -> Outcomes:
        """Rows of all parts, one part after the other."""
        columns: Any = zip(*([getattr(part, f.name) for f in fields(cls)] for part in parts))
        pooled: Any = [None if column[0] is None else np.concatenate(column) for column in columns]
        return cls(*pooled)


def _pack(values: ArrayLike) -> str:
    """Floats of 24 bits: single precision, rounded to its three leading bytes."""
    rounded = np.ascontiguousarray(values, "<f4").view("<u4") + np.uint32(0x80)
    planes = rounded.view(np.uint8).reshape(-1, 4)[:, 1:].T
    return _text(planes.tobytes())


def _unpack(text: str) -> NDArray[np.float64]:
    planes = np.frombuffer(_bytes(text), np.uint8).reshape(3, -1)
    floats = np.zeros((planes.shape[1], 4), np.uint8)
    floats[:, 1:] = planes.T
    return floats.view("<f4")[:, 0].astype(np.float64)


def _pack_bits(values: NDArray[np.bool_]) -> str:
    return _text(np.packbits(values).tobytes())


def _unpack_bits(text: str, n: int) -> NDArray[np.bool_]:
    return np.unpackbits(np.frombuffer(_bytes(text), np.uint8), count=n).astype(np.bool_)


def _text(content: bytes) -> str:
    return b64encode(compress(content, 9)).decode()


def _bytes(text: str) -> bytes:
    return decompress(b64decode(text))


# ---------------------------------------------------------------- the folder


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
    """

    def __init__(self, path: Path, settings: Mapping[str, Any], cards: list[Card], broken: Mapping[str, str]) -> None:
        self.path = path
        head = _head(path, settings)
        _same_content(path, head["datasets"], cards)
        head["datasets"] |= {card.name: asdict(card) for card in cards}
        head["broken"] = {n: why for n, why in (head["broken"] | dict(broken)).items() if n not in head["datasets"]}
        if (here := environment()) not in head["environments"]:
            head["environments"].append(here)
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
                append_line(self.path / "records.jsonl", json.dumps(record, separators=(",", ":")).encode())
                self.records[key_of(record)] = record

    def is_done(self, task: Task) -> bool:
        """Whether each criterion of a task has a record without an error."""
        about = asdict(task)
        keys = (key_of(about | {"criterion": criterion}) for criterion in task.criteria)
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
