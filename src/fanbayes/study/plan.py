"""What a study runs, as values: presets, tasks, folds and gold standards.

A *task* is the smallest piece of work: one classifier learnt on one training part. It gives one record for each
criterion that chooses among the sizes it has tried.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

import narwhals as nw
import numpy as np

from fanbayes.estimators.classifiers import FANClassifier, FMClassifier, NBClassifier
from fanbayes.files.tables import Dataset, DatasetError
from fanbayes.learning.scores import Criterion

Model: TypeAlias = Literal["NB", "FM", "FAN"]
PresetName: TypeAlias = Literal["paper", "default"]
Version: TypeAlias = Literal["raw", "discretised"]
Classifier: TypeAlias = NBClassifier | FMClassifier | FANClassifier

MODELS: Mapping[Model, type[Classifier]] = {"NB": NBClassifier, "FM": FMClassifier, "FAN": FANClassifier}
CRITERIA: tuple[Criterion, ...] = ("icl", "bic", "aic", "cs")
AFTER_CEM = "icl_cem"  # ICL of each candidate after CEM continued from EM

_ESTIMATION = {"variance": "paper", "alpha": 1.0, "algorithm": "em", "max_iter": 1000, "tol": 1e-6}
_SELECTION = {"criterion": "icl", "n_init": 8, "patience": 2}
PAPER: Mapping[Model, Mapping[str, Any]] = {
    "NB": _ESTIMATION,
    "FM": {**_ESTIMATION, **_SELECTION, "max_components": "10 + 2 per class"},
    "FAN": {**_ESTIMATION, **_SELECTION, "mixing": "shared", "max_components": 10},
}

# 3 discrete, 3 continuous and 2 mixed ones; where a suite lacks some of them, others of the same kind step in.
GOLD: Mapping[str, tuple[int, tuple[str, ...]]] = {
    "discrete": (3, ("vote", "solar-flare", "nursery", "tic-tac-toe", "led7", "balance-scale")),
    "continuous": (3, ("iris", "diabetes", "waveform-21", "wine", "breast_cancer")),
    "mixed": (2, ("heart-cleveland", "credit-a")),
}


def most_components(model: Model, n_classes: int) -> int:
    """How far the search goes, in both presets."""
    return {"NB": 1, "FM": 10 + 2 * n_classes, "FAN": 10}[model]


def classifier(model: Model, preset: PresetName, version: Version, n_classes: int, seed: int) -> Classifier:
    """One of the three classifiers, not fitted, on one thread."""
    parameters: dict[str, Any] = dict(PAPER[model]) if preset == "paper" else {}
    if model != "NB":
        parameters |= {"random_state": seed, "max_components": most_components(model, n_classes)}
    discretize: Any = "mdlp" if version == "discretised" else "none"
    return MODELS[model](discretize=discretize, n_jobs=1, **parameters)


def presets() -> dict[str, Any]:
    """Parameters of both presets, for the settings of a study."""
    varied = ("random_state", "discretize", "n_jobs", "verbose")
    default = {m: {k: v for k, v in c().get_params().items() if k not in varied} for m, c in MODELS.items()}
    return {"paper": {m: dict(p) for m, p in PAPER.items()}, "default": default}


@dataclass(frozen=True)
class Card:
    """What a plan and a report need to know of a dataset.

    Attributes
    ----------
    n_labelled : int
        Rows with a label; the others are learnt from but not predicted.
    smallest_class : int
        Rows of the rarest class.
    donor_split : bool
        Whether the donors have set a test part aside.
    sha256 : str
        Of names, values and labels.
    """

    name: str
    n_rows: int
    n_labelled: int
    n_discrete: int
    n_continuous: int
    n_classes: int
    smallest_class: int
    donor_split: bool
    group: str | None
    sha256: str

    @property
    def kind(self) -> str:
        """What its features are: discrete, continuous or mixed."""
        if self.n_discrete and self.n_continuous:
            return "mixed"
        return "continuous" if self.n_continuous else "discrete"

    @property
    def versions(self) -> tuple[Version, ...]:
        """A dataset with continuous features is used both as it is and discretised."""
        return ("raw", "discretised") if self.n_continuous else ("raw",)


def describe(dataset: Dataset) -> Card:
    """Look at a dataset once."""
    labels = [label for label in dataset.y if label is not None]
    if not labels:
        raise DatasetError(f"dataset {dataset.name!r} has no labels: name the column of the classes.")
    if dataset.split is not None and {*dataset.split[dataset.labelled]} != {"train", "test"}:
        raise DatasetError(f"dataset {dataset.name!r} needs labelled rows both to train and to test on.")
    counts = np.unique(labels, return_counts=True)[1]
    n_continuous = sum(kind == "continuous" for kind in dataset.kinds.values())
    return Card(
        name=dataset.name,
        n_rows=len(dataset.y),
        n_labelled=len(labels),
        n_discrete=len(dataset.kinds) - n_continuous,
        n_continuous=n_continuous,
        n_classes=len(counts),
        smallest_class=int(counts.min()),
        donor_split=dataset.split is not None,
        group=dataset.group,
        sha256=_fingerprint(dataset),
    )


def _fingerprint(dataset: Dataset) -> str:
    """Digest that does not depend on the data-frame library."""
    digest = hashlib.sha256()
    frame = nw.from_native(dataset.X, eager_only=True)
    for name, kind in dataset.kinds.items():
        digest.update(f"\n{name}\n{kind}\n".encode())
        if kind == "continuous":
            digest.update(np.ascontiguousarray(frame[name].to_numpy(), np.float64).tobytes())
        else:
            digest.update(_text(frame[name].to_list()))
    digest.update(_text(dataset.y))
    digest.update(_text([] if dataset.split is None else dataset.split))
    return digest.hexdigest()


def _text(values: Iterable[object]) -> bytes:
    return "\n".join(f"={value}" if isinstance(value, str) else "" for value in values).encode()


# ---------------------------------------------------------------- the two studies


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
class SimulatedTask:
    """FAN on one training set drawn from a gold standard."""

    dataset: str
    size: int
    pair: int
    preset: PresetName

    @property
    def criteria(self) -> tuple[str, ...]:
        """Criteria that the task gives a record for, and the gold standard itself."""
        return ("gold", *CRITERIA) if self.preset == "paper" else CRITERIA


Task: TypeAlias = RealTask | SimulatedTask


def title(task: Task) -> str:
    """How a task is called on screen."""
    return " ".join(str(part) for part in vars(task).values())


@dataclass(frozen=True)
class RealPlan:
    """NB, FM and FAN on real datasets by cross-validation, section 5.2 of the paper."""

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

    def tasks(self, card: Card) -> list[Task]:
        """All tasks of a dataset."""
        parts = 1 if card.donor_split else min(self.n_folds, card.n_labelled)
        return [
            RealTask(card.name, version, fold, model, preset)
            for version in card.versions
            for fold in range(parts)
            for model in MODELS
            for preset in ("paper", "default")
        ]

    def cost(self, task: Task, card: Card) -> float:
        """Seconds that a task may take, to begin with the longest and to tell the time left."""
        assert isinstance(task, RealTask)
        return _cost(card, card.n_rows, most_components(task.model, card.n_classes), task.preset)


@dataclass(frozen=True)
class SimulatedPlan:
    """FAN under each criterion on data drawn from known FAN models, section 5.1.1 of the paper."""

    study: ClassVar[str] = "simulated"
    seed: int = 0
    sizes: tuple[int, ...] = (250, 1000, 4000)
    test_size: int = 2000
    n_pairs: int = 10
    chosen: tuple[str, ...] = ()
    max_components: int = 20  # well above the truth, so that too many can be told from too few

    @property
    def settings(self) -> dict[str, Any]:
        """What makes two runs the same study."""
        return {
            "seed": self.seed,
            "sizes": list(self.sizes),
            "test_size": self.test_size,
            "pairs": self.n_pairs,
            "max_components": self.max_components,
            "presets": {name: {"FAN": models["FAN"]} for name, models in presets().items()},
        }

    def choose(self, cards: list[Card]) -> list[Card]:
        """Datasets whose FAN by BIC becomes a gold standard: those chosen by name, else by `GOLD`."""
        if self.chosen:
            return cards
        known = {card.name: card for card in cards}
        picked: list[Card] = []
        for kind, (wanted, preferred) in GOLD.items():
            order = [known[name] for name in preferred if name in known]
            order += [card for card in cards if card not in order]
            picked += [card for card in order if card.kind == kind][:wanted]
        return picked

    def tasks(self, card: Card) -> list[Task]:
        """All tasks of a gold standard."""
        return [
            SimulatedTask(card.name, size, pair, preset)
            for size in self.sizes
            for pair in range(self.n_pairs)
            for preset in ("paper", "default")
        ]

    def cost(self, task: Task, card: Card) -> float:
        """Seconds that a task may take."""
        assert isinstance(task, SimulatedTask)
        return _cost(card, task.size, self.max_components, task.preset)


Plan: TypeAlias = RealPlan | SimulatedPlan


def _cost(card: Card, n_rows: int, most: int, preset: PresetName) -> float:
    """Rows x columns x sizes x states of a row, calibrated on one machine."""
    work = n_rows * (card.n_discrete + 2 * card.n_continuous) * most**2
    return (0.02 + 5e-8 * work) * (1.0 if preset == "paper" else 0.6)
