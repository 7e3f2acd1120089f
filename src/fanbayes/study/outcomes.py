"""How good predictions are, and what is kept of each row for the tests to come."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any
from zlib import compress, decompress

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fanbayes.evaluation import metrics
from fanbayes.evaluation.metrics import CLIP, ReliabilityCurve, Strategy


def quality(
    y: NDArray[Any], log_proba: NDArray[np.float64], known: NDArray[Any], classes: Sequence[str]
) -> dict[str, Any]:
    """Measures of predictions, and under "rows" what the tests need of each row.

    Parameters
    ----------
    y : labels (n,)
    log_proba : log-probabilities (n, len(known))
    known : classes of the training part, in the order of the columns
    classes : all classes of the dataset, sorted; one that the training part lacks has probability 0
    """
    table = np.full((len(y), len(classes)), -np.inf)
    table[:, np.searchsorted(classes, known)] = log_proba
    outcomes = outcomes_of(y, table, classes)
    return {
        "accuracy": float(outcomes.correct.mean()),
        "conditional_entropy": float(outcomes.loss.mean()),
        "brier_score": metrics.brier_score(y, table, classes=classes),
        "clipped": round(metrics.clipped_share(y, table, classes=classes) * len(y)),
        "absent": int((~np.isin(y, known)).sum()),
        "rows": outcomes.pack(),
    }


def outcomes_of(y: NDArray[Any], log_proba: NDArray[np.float64], classes: Sequence[str]) -> Outcomes:
    """What is kept of each row, from log-probabilities of shape (n, n_classes)."""
    truth, predicted = np.searchsorted(classes, y.astype(str)), log_proba.argmax(axis=1)
    binary = len(classes) == 2
    return Outcomes(
        correct=predicted == truth,
        loss=metrics.log_losses(y, log_proba, classes=classes),
        confidence=np.exp(log_proba.max(axis=1)),
        log_odds=metrics.log_odds(log_proba) if binary else None,
        positive=truth == 1 if binary else None,
    )


def roc_area(outcomes: Outcomes) -> float | None:
    """Area under the ROC curve of pooled log-odds, or None where there are not two classes to tell apart."""
    odds, positive = outcomes.log_odds, outcomes.positive
    if odds is None or positive is None or positive.all() or not positive.any():
        return None
    both = np.stack([-np.logaddexp(0.0, odds), -np.logaddexp(0.0, -odds)], axis=1)
    return metrics.roc_area(positive, both, classes=[False, True])


def reliability_of(outcomes: Sequence[Outcomes], strategy: Strategy = "uniform") -> ReliabilityCurve:
    """Confidence against accuracy in 15 bins, each dataset with the same weight."""
    confidence = np.concatenate([o.confidence for o in outcomes])
    correct = np.concatenate([o.correct for o in outcomes])
    most = max(len(o.correct) for o in outcomes)
    weight = np.concatenate([np.full(len(o.correct), most / len(o.correct)) for o in outcomes])
    with np.errstate(divide="ignore"):
        table = np.log(np.stack([1 - confidence, confidence], axis=1))
    return metrics.reliability_curve(
        correct,
        table,
        classes=[False, True],
        positive=True,
        strategy=strategy,
        sample_weight=weight,
    )


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
