"""NB, FM and FAN on real datasets by cross-validation, section 5.2 of the paper; and their relatives."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fanbayes.evaluation.folds import folds
from fanbayes.files.dataset import Dataset
from fanbayes.study.cards import Card, Version
from fanbayes.study.models import (
    AFTER_CEM,
    CRITERIA,
    MODELS,
    RELATIVES,
    Model,
    PresetName,
    assess,
    classifier,
    cost,
    judge,
    learn,
    most_components,
    presets,
    relative,
    seed_of,
)
from fanbayes.study.records import Record


@dataclass(frozen=True)
class RealTask:
    """One classifier on one training part of one dataset."""

    dataset: str
    version: Version
    fold: int
    model: Model
    preset: PresetName

    @property
    def criteria(self) -> tuple[str, ...]:
        """Criteria that the task gives a record for; naive Bayes has nothing to choose."""
        if self.model == "NB":
            return ("none",)
        return (*CRITERIA, AFTER_CEM) if self.preset == "paper" else ("icl",)


@dataclass(frozen=True)
class RealPlan:
    """Each classifier on each fold of each dataset."""

    study: ClassVar[str] = "real"
    seed: int = 0
    n_folds: int = 10

    @property
    def settings(self) -> dict[str, Any]:
        """What makes two runs the same study."""
        return {"seed": self.seed, "folds": self.n_folds, "presets": presets()}

    def choose(self, cards: list[Card]) -> list[Card]:
        """Take every dataset."""
        return cards

    def tasks(self, card: Card) -> list[RealTask]:
        """All tasks of a dataset."""
        return [
            RealTask(card.name, version, fold, model, preset)
            for version in card.versions
            for fold in range(card.n_parts(self.n_folds))
            for model in MODELS
            for preset in ("paper", "default")
        ]

    def cost(self, task: RealTask, card: Card) -> float:
        """Seconds that a task may take, to begin with the longest and to tell the time left."""
        return cost(card, card.n_rows, most_components(task.model, card.n_classes), task.preset)

    def execute(self, task: RealTask, dataset: Dataset) -> dict[str, Record]:
        """Learn from all folds but one and predict that one."""
        part = folds(dataset, self.n_folds, self.seed)
        tested, trained = np.flatnonzero(part == task.fold), np.flatnonzero(part != task.fold)
        seed = seed_of(self.seed, task.dataset, task.fold)
        model = classifier(task.model, task.preset, task.version, len(dataset.classes), seed)
        learnt = learn(model, *dataset.take(trained), task.criteria)
        assessed = assess(learnt, *dataset.take(tested), dataset.classes)
        about = {"n_train": len(trained), "n_test": len(tested)}
        return {name: about | record for name, record in assessed.items()}


@dataclass(frozen=True)
class RelativeTask:
    """One model, with the library's defaults, on one training part of one dataset."""

    dataset: str
    version: Version
    fold: int
    model: str
    preset: PresetName = "default"
    criteria: ClassVar[tuple[str, ...]] = ("none",)


@dataclass(frozen=True)
class RelativesPlan:
    """Some models on each fold of each dataset that is not too large; others may join them in the same folder later."""

    study: ClassVar[str] = "relatives"
    models: tuple[str, ...] = tuple(RELATIVES)
    seed: int = 0
    n_folds: int = 10
    most_values: int | None = None  # rows x columns

    @property
    def settings(self) -> dict[str, Any]:
        """What makes two runs the same study; records know which code, and so which defaults, made them."""
        return {"seed": self.seed, "folds": self.n_folds}

    def choose(self, cards: list[Card]) -> list[Card]:
        """Take every dataset, so that the page can tell which are too large."""
        return cards

    def tasks(self, card: Card) -> list[RelativeTask]:
        """All tasks of a dataset, none if it is too large."""
        if self.most_values is not None and card.n_values > self.most_values:
            return []
        return [
            RelativeTask(card.name, version, fold, model)
            for version in card.versions
            for fold in range(card.n_parts(self.n_folds))
            for model in self.models
        ]

    def cost(self, task: RelativeTask, card: Card) -> float:
        """Seconds that a task may take, roughly."""
        return cost(card, card.n_rows, 1 if task.model == "NB" else 10, "default")

    def execute(self, task: RelativeTask, dataset: Dataset) -> dict[str, Record]:
        """Learn from all folds but one and predict that one."""
        part = folds(dataset, self.n_folds, self.seed)
        tested, trained = np.flatnonzero(part == task.fold), np.flatnonzero(part != task.fold)
        model = relative(task.model, task.version, seed_of(self.seed, task.dataset, task.fold))
        X, y = dataset.take(trained)
        cpu = time.process_time()
        model.fit(X, y)
        seconds = round(time.process_time() - cpu, 6)
        about = {"n_train": len(trained), "n_test": len(tested), "fit_seconds": seconds}
        return {"none": about | judge(model, *dataset.take(tested), dataset.classes)}
