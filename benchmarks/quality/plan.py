"""What the benchmark runs: every method on the same folds of every dataset, one thread each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, ClassVar, Literal

import numpy as np
from bundles import BUNDLES, Found, run_bundle
from numpy.typing import NDArray
from problem import Problem
from scenarios import TestPart, scenario_parts, source, training_labels, training_rows
from settings import AT_TEST, AT_TRAINING, FEW_ROWS, FIRST_FOLDS, MOST_ROWS, ONE_OF_GROUP, OUTER

from fanbayes.decisions.priors import adjust_prior
from fanbayes.evaluation import metrics
from fanbayes.evaluation.folds import folds
from fanbayes.files.dataset import Dataset
from fanbayes.study.cards import Card
from fanbayes.study.outcomes import Outcomes, quality, reliability_of
from fanbayes.study.records import Record

Half = Literal["development", "report"]
FAMILIES = ("test", *AT_TRAINING)


def half(card: Card) -> Half:
    """Half by the parity of a hash of the related group, or of the name: related sets are never divided."""
    first = sha256((card.group or card.name).encode()).digest()[0]
    return "development" if first % 2 == 0 else "report"


def n_tested(n_rows: int) -> int:
    """How many folds of a dataset are run."""
    return next((run for most, (_, _, run) in OUTER.items() if n_rows <= most), 1)


def rows_of_fold(dataset: Dataset, fold: int) -> NDArray[np.bool_]:
    """Which rows a fold tests (n_rows,); large datasets are split once, by the donors where they did."""
    for most, (_, n_parts, _) in OUTER.items():
        if len(dataset.y) <= most:
            part = folds(replace(dataset, split=None), n_parts, seed=fold // n_parts)
            return part == fold % n_parts
    return folds(dataset, 3, seed=0) == 0


def is_extended(card: Card) -> bool:
    """Whether a dataset is used in all scenarios."""
    return card.n_rows <= MOST_ROWS and (card.group is None or card.name in ONE_OF_GROUP)


@dataclass(frozen=True)
class QualityTask:
    """One bundle, fitted to one training part of a dataset; a record for each of its methods and scenarios."""

    dataset: str
    fold: int
    n_folds: int
    bundle: str
    family: str
    extended: bool

    @property
    def scenarios(self) -> tuple[str, ...]:
        """What is predicted with the one fit."""
        if self.family != "test":
            return (self.family,)
        return AT_TEST if self.extended else AT_TEST[:1]

    @property
    def criteria(self) -> tuple[str, ...]:
        """A method and a scenario each."""
        return tuple(f"{method} {scenario}" for method in BUNDLES[self.bundle] for scenario in self.scenarios)


@dataclass(frozen=True)
class QualityPlan:
    """Some of the bundles and families of scenarios, on a half of the datasets or on all."""

    study: ClassVar[str] = "quality"
    settings: ClassVar[Mapping[str, Any]] = {"folds": {str(most): list(n) for most, n in OUTER.items()}}
    bundles: Sequence[str] = tuple(BUNDLES)
    families: Sequence[str] = FAMILIES
    half: Half | None = None

    def choose(self, cards: list[Card]) -> list[Card]:
        """Datasets of the half."""
        return [card for card in cards if self.half in (None, half(card))]

    def tasks(self, card: Card) -> list[QualityTask]:
        """All tasks of a dataset."""
        n, extended = n_tested(card.n_rows), is_extended(card)
        found = []
        for family in self.families:
            if family == "test":
                n_run = n
            elif extended and FEW_ROWS.get(family, 0) < 0.7 * card.n_labelled:
                n_run = min(n, FIRST_FOLDS)
            else:
                n_run = 0
            found += [
                QualityTask(card.name, fold, n_run, bundle, family, extended)
                for fold in range(n_run)
                for bundle in self.bundles
                if family == "test" or bundle != "lightgbm_two"
            ]
        return found

    def cost(self, task: QualityTask, card: Card) -> float:
        """Seconds that a task may take, roughly."""
        n = FEW_ROWS.get(task.family, card.n_rows)
        size = n * (card.n_discrete + card.n_continuous) * card.n_classes
        if task.bundle == "peers":
            return min(7 + 3e-4 * size, 97 + 8e-5 * size)
        return 0.3 + 2e-5 * size

    def execute(self, task: QualityTask, dataset: Dataset) -> dict[str, Record]:
        """Fit a bundle to one training part and predict the test part as each scenario has it."""
        tested = rows_of_fold(dataset, task.fold)
        X, labels = dataset.take(np.flatnonzero(~tested & dataset.labelled))
        X_test, truth = dataset.take(np.flatnonzero(tested & dataset.labelled))
        X, X_test = X.reset_index(drop=True), X_test.reset_index(drop=True)
        # Codes from 0 without gaps: some peers need them.
        known, y = np.unique(labels.astype(str), return_inverse=True)
        chosen = training_rows(task.family, y, source(task.dataset, task.fold, task.family))
        known, y = np.unique(known[y[chosen]], return_inverse=True)
        X = X.iloc[chosen].reset_index(drop=True)
        y = training_labels(task.family, y, source(task.dataset, task.fold, task.family))
        shares = np.bincount(y) / len(y)
        codes = np.array([np.searchsorted(known, label) if label in known else -1 for label in truth.astype(str)])
        parts = scenario_parts(task.scenarios, X_test, codes, X, shares, task.dataset, task.fold)
        found = run_bundle(task.bundle, Problem(dataset.kinds, X, y), parts)
        about = {"n_train": len(y)}
        return {
            f"{method} {scenario}": about
            | ({"failed": one} if isinstance(one, str) else _record(one, scenario, part, truth, known, shares, dataset))
            for method, one in found.items()
            for scenario, part in parts.items()
        }


def _record(
    found: Found,
    scenario: str,
    part: TestPart,
    truth: NDArray[Any],
    known: NDArray[Any],
    shares: NDArray[np.float64],
    dataset: Dataset,
) -> Record:
    log_proba, y = found.log_proba[scenario], truth[part.rows]
    prior = shares
    if part.prior is not None:
        log_proba, prior = adjust_prior(log_proba, shares, part.prior, log=True), part.prior
    judged = quality(y, log_proba, known, dataset.classes)
    with np.errstate(divide="ignore"):
        constant = np.tile(np.log(prior), (len(y), 1))
    return {
        "n_test": len(y),
        "fit_seconds": round(found.fit_seconds, 4),
        "predict_seconds": round(found.predict_seconds, 4),
        **judged,
        "auc": roc_area(y, log_proba, known),
        "ece": reliability_of([Outcomes.unpack(judged["rows"])], "quantile").calibration_error,
        "loss_of_shares": metrics.conditional_entropy(y, constant, classes=known),
        "chosen": dict(found.chosen),
    }


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
