"""What the benchmark runs: every method on the same folds of every dataset, one thread each."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, ClassVar, Literal

import numpy as np
from methods import METHODS, Problem
from numpy.typing import NDArray
from settings import FIRST_FOLDS, MOST_CELLS, N_FOLDS

from fanbayes.evaluation import metrics
from fanbayes.evaluation.folds import folds
from fanbayes.files.dataset import Dataset
from fanbayes.study.cards import Card
from fanbayes.study.outcomes import Outcomes, quality, reliability_of
from fanbayes.study.records import Record

Half = Literal["development", "report"]


def half(card: Card) -> Half:
    """Half by the parity of a hash of the related group, or of the name: related sets are never divided."""
    first = sha256((card.group or card.name).encode()).digest()[0]
    return "development" if first % 2 == 0 else "report"


def parts(dataset: Dataset) -> NDArray[np.intp]:
    """Part in which each row is tested (n_rows,); large datasets are split once, by the donors where they did."""
    for most, n_folds in N_FOLDS.items():
        if len(dataset.y) <= most:
            return folds(replace(dataset, split=None), n_folds, seed=0)
    return folds(dataset, 3, seed=0)


@dataclass(frozen=True)
class QualityTask:
    """One method on one fold of a dataset."""

    dataset: str
    fold: int
    n_folds: int
    method: str
    criteria: ClassVar[tuple[str, ...]] = ("none",)


@dataclass(frozen=True)
class QualityPlan:
    """Some of the methods, on a half of the datasets or on all."""

    study: ClassVar[str] = "quality"
    settings: ClassVar[Mapping[str, Any]] = {
        "folds": {str(most): n for most, n in N_FOLDS.items()},
        "most_cells": MOST_CELLS,
        "first_folds": FIRST_FOLDS,
    }
    methods: Sequence[str] = tuple(METHODS)
    half: Half | None = None

    def choose(self, cards: list[Card]) -> list[Card]:
        """Datasets of the half."""
        return [card for card in cards if self.half in (None, half(card))]

    def tasks(self, card: Card) -> list[QualityTask]:
        """All tasks of a dataset."""
        n = next((n for most, n in N_FOLDS.items() if card.n_rows <= most), 1)
        if card.n_rows * (card.n_discrete + card.n_continuous) > MOST_CELLS:
            n = min(n, FIRST_FOLDS)
        return [QualityTask(card.name, fold, n, method) for fold in range(n) for method in self.methods]

    def cost(self, task: QualityTask, card: Card) -> float:
        """Work, roughly: all methods look at all cells."""
        return 1.0 + 1e-5 * card.n_rows * (card.n_discrete + card.n_continuous) * card.n_classes

    def execute(self, task: QualityTask, dataset: Dataset) -> dict[str, Record]:
        """Fit and predict one fold; seconds are those of the processor, which others on the machine disturb least."""
        part = parts(dataset)
        X, labels = dataset.take(np.flatnonzero((part != task.fold) & dataset.labelled))
        X_test, truth = dataset.take(np.flatnonzero(part == task.fold))
        # Codes from 0 without gaps: some peers need them.
        known, y = np.unique(labels.astype(str), return_inverse=True)
        began = time.process_time()
        model = METHODS[task.method](Problem(dataset.kinds, y)).fit(X, y)
        fitted = time.process_time()
        proba = np.asarray(model.predict_proba(X_test), np.float64)
        predicted = time.process_time()
        with np.errstate(divide="ignore"):
            log_proba = np.log(proba / proba.sum(axis=1, keepdims=True))
            log_share = np.log(np.bincount(y) / len(y))
        found = quality(truth, log_proba, known, dataset.classes)
        record = {
            "n_train": len(y),
            "n_test": len(truth),
            "fit_seconds": round(fitted - began, 6),
            "predict_seconds": round(predicted - fitted, 6),
            **found,
            "auc": roc_area(truth, log_proba, known),
            "ece": reliability_of([Outcomes.unpack(found["rows"])], "quantile").calibration_error,
            "loss_of_shares": metrics.conditional_entropy(truth, np.tile(log_share, (len(truth), 1)), classes=known),
        }
        size = getattr(model, "n_components_", None)
        return {"none": record | ({"n_components": int(size)} if isinstance(size, int | np.integer) else {})}


def roc_area(y: NDArray[Any], log_proba: NDArray[np.float64], classes: Sequence[str]) -> float | None:
    """Mean over the classes present of the area of each against the rest; None if all rows are of one class.

    Ranked by log-odds, where probabilities that round to 1 still differ. A class without a column has all rows tied.
    """
    areas = []
    for label in np.unique(y.astype(str)):
        positive = y == label
        if not positive.all():
            own = np.asarray(classes) == label
            one, rest = (np.logaddexp.reduce(log_proba[:, some], axis=1, initial=-np.inf) for some in (own, ~own))
            areas.append(metrics.roc_area(positive, np.column_stack([rest, one]), classes=[False, True]))
    return float(np.mean(areas)) if areas else None
