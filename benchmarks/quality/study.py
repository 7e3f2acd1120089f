"""Results brought together with the datasets: what the summary is made of."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from analysis import MEASURES, Results, Standing, against_each, common, gather, standings
from goals import Answer, Question, View, questions
from methods import METHODS
from plan import Half, half

from fanbayes.study.cards import Card
from fanbayes.study.records import Record

# Each question with its answer for each scope.
Goals = Sequence[tuple[Question, list[Answer | None]]]


@dataclass(frozen=True)
class Scope:
    """What the page shows of some datasets."""

    key: str
    title: str
    datasets: list[str]
    standings: list[Standing]
    versus: list[dict[str, Any]]


@dataclass(frozen=True)
class Study:
    """All that is known: results by method and dataset, what the datasets are, their halves.

    `shares` is the log loss of the classes' shares in the training parts, whatever the row.
    """

    results: Results
    methods: list[str]
    cards: Mapping[str, Card]
    halves: Mapping[str, Half]
    shares: Mapping[str, float]
    ours: str

    def scopes(self) -> list[Scope]:
        """Both halves and all datasets."""
        return [
            self._scope("report", "Report half", "report"),
            self._scope("all", "All", None),
            self._scope("development", "Development half", "development"),
        ]

    def goals(self, scopes: Sequence[Scope]) -> Goals:
        """Answer all questions for each scope."""
        views = [View(self.results, self.methods, scope.datasets, self.cards, self.shares) for scope in scopes]
        return [(question, [question.answer(view) for view in views]) for question in questions(self.ours)]

    def _scope(self, key: str, title: str, wanted: Half | None) -> Scope:
        chosen = [name for name in self.cards if wanted in (None, self.halves[name])]
        datasets = common(self.results, self.methods, chosen)
        table = standings(self.results, self.methods, datasets) if datasets else []
        return Scope(key, title, datasets, table, self._versus(chosen))

    def _versus(self, datasets: Sequence[str]) -> list[dict[str, Any]]:
        others = [method for method in self.methods if method != self.ours]
        rows: dict[str, dict[str, Any]] = {}
        for measure in MEASURES:
            for comparison, p in against_each(self.results, self.ours, others, datasets, measure):
                rows.setdefault(comparison.second, {"other": comparison.second})[measure] = (comparison, p)
        return [row for row in rows.values() if len(row) == len(MEASURES) + 1]


def bring_together(head: Mapping[str, Any], records: Sequence[Record], ours: str) -> Study:
    """Results by method and dataset, with what `study.json` and the records say of the datasets."""
    cards = {name: Card(**card) for name, card in head["datasets"].items()}
    halves = {name: half(card) for name, card in cards.items()}
    tested: defaultdict[str, dict[int, Record]] = defaultdict(dict)
    for record in records:
        if "error" not in record:
            tested[record["dataset"]][record["fold"]] = record
    shares = {
        name: sum(f["loss_of_shares"] * f["n_test"] for f in folds.values()) / sum(f["n_test"] for f in folds.values())
        for name, folds in tested.items()
    }
    results = gather(records)
    if ours not in results:
        raise SystemExit(f"{ours} has finished no dataset: run it first, or give another method by --ours.")
    return Study(results, [method for method in METHODS if method in results], cards, halves, shares, ours)
