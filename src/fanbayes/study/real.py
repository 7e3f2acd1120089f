"""NB, FM and FAN on real datasets by cross-validation, section 5.2 of the paper."""

from __future__ import annotations

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
    Model,
    PresetName,
    assess,
    classifier,
    cost,
    learn,
    most_components,
    presets,
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
        parts = 1 if card.donor_split else min(self.n_folds, card.n_labelled)
        return [
            RealTask(card.name, version, fold, model, preset)
            for version in card.versions
            for fold in range(parts)
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
