"""FAN under each criterion on data drawn from known FAN models, section 5.1.1 of the paper."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

from fanbayes.files.dataset import Dataset
from fanbayes.study.cards import Card
from fanbayes.study.models import CRITERIA, Classifier, PresetName, assess, classifier, cost, learn, presets, seed_of
from fanbayes.study.outcomes import Outcomes, roc_area
from fanbayes.study.records import Record

# 3 discrete, 3 continuous and 2 mixed ones; where a suite lacks some of them, others of the same kind step in.
GOLD: Mapping[str, tuple[int, tuple[str, ...]]] = {
    "discrete": (3, ("vote", "solar-flare", "nursery", "tic-tac-toe", "led7", "balance-scale")),
    "continuous": (3, ("iris", "diabetes", "waveform-21", "wine", "breast_cancer")),
    "mixed": (2, ("heart-cleveland", "credit-a")),
}


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


@dataclass(frozen=True)
class SimulatedPlan:
    """Pairs of training and test sets of each size, drawn from each gold standard."""

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

    def tasks(self, card: Card) -> list[SimulatedTask]:
        """All tasks of a gold standard."""
        return [
            SimulatedTask(card.name, size, pair, preset)
            for size in self.sizes
            for pair in range(self.n_pairs)
            for preset in ("paper", "default")
        ]

    def cost(self, task: SimulatedTask, card: Card) -> float:
        """Seconds that a task may take."""
        return cost(card, task.size, self.max_components, task.preset)

    def execute(self, task: SimulatedTask, dataset: Dataset) -> dict[str, Record]:
        """Draw a training and a test set, learn from the one and predict the other."""
        gold = _gold_standard(self, dataset)
        draw = [seed_of(self.seed, task.dataset, task.size, task.pair, which) for which in range(2)]
        X, y = gold.sample(task.size, random_state=draw[0])
        X_test, y_test = gold.sample(self.test_size, random_state=draw[1])
        model = classifier("FAN", task.preset, "raw", len(dataset.classes), draw[0])
        learnt = learn(model.set_params(max_components=self.max_components), X, y, CRITERIA)
        learnt["gold"] = gold, {"n_components": gold.n_components_}
        assessed = assess(learnt, X_test, y_test, dataset.classes)
        for record in assessed.values():
            outcomes = Outcomes.unpack(record.pop("rows"))
            record |= {"roc_area": roc_area(outcomes), "true_components": gold.n_components_}
        return assessed


@lru_cache(maxsize=1)  # tasks of a dataset come one after the other
def _gold_standard(plan: SimulatedPlan, dataset: Dataset) -> Classifier:
    """FAN of the `paper` preset, chosen by BIC, on all rows."""
    model = classifier("FAN", "paper", "raw", len(dataset.classes), seed_of(plan.seed, dataset.name))
    model.set_params(criterion="bic", max_components=plan.max_components)
    return model.fit(dataset.X, dataset.y)
