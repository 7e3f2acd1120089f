"""FAN and its relatives on the same folds: standings, who beats whom, and for which data.

A model that fails on a dataset loses to all that do not; it does not take the dataset from the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np

from fanbayes.arrays import Floats
from fanbayes.evaluation import significance
from fanbayes.evaluation.ranks import Ranking, mean_ranks, ranking
from fanbayes.evaluation.significance import WinLoss
from fanbayes.study.analysis import LEVELS, SPLITS, Case, Column, Measure, gather, independent
from fanbayes.study.cards import Card
from fanbayes.study.figures import rank_figure
from fanbayes.study.models import RELATIVES
from fanbayes.study.records import Record, StudyError, failures_of, runs_of

DEFAULTS = Column("default", "none", "Library defaults")
BASELINE = "NB"
MEASURES: Mapping[str, str] = {
    "conditional_entropy": "Conditional entropy",
    "accuracy": "Accuracy",
    "brier_score": "Brier score",
    "roc_area": "ROC area",
}
MORE_IS_BETTER = ("accuracy", "roc_area")
TESTED: Mapping[str, Measure] = {name: name for name in get_args(Measure)}  # on one dataset: McNemar, paired t, DeLong
LEAST_CASES = 4  # of a kind of data, for ranks of it to be shown


@dataclass(frozen=True)
class Scope:
    """Some models on some cases, on each of which all of them have finished or failed.

    Attributes
    ----------
    failed : set of (dataset, version, model)
    """

    title: str
    cases: Sequence[Case]
    models: Sequence[str]
    failed: frozenset[tuple[str, str, str]]

    def only(self, belongs: Callable[[Case], bool]) -> Scope:
        """The cases of a kind."""
        return Scope(self.title, [case for case in self.cases if belongs(case)], self.models, self.failed)

    def has_failed(self, case: Case, model: str) -> bool:
        """Whether a model has failed in some fold."""
        return (case.card.name, case.version, model) in self.failed

    @property
    def whole(self) -> list[Case]:
        """Cases on which no model has failed."""
        return [case for case in self.cases if not any(self.has_failed(case, model) for model in self.models)]

    def scores(self, measure: str) -> Floats:
        """Larger is better (n, k), -inf where a model has failed; without cases that do not have the measure."""
        sign = 1.0 if measure in MORE_IS_BETTER else -1.0
        rows = [[value_of(case, model, measure) for model in self.models] for case in self.cases]
        known = [[-np.inf if v is None else sign * v for v in row] for row in rows if any(v is not None for v in row)]
        return np.array(known).reshape(-1, len(self.models))

    def ranking(self, measure: str) -> Ranking | None:
        """Mean ranks and tests, or None where no case has the measure."""
        scores = self.scores(measure)
        return ranking(scores) if len(scores) else None


def value_of(case: Case, model: str, measure: str) -> float | None:
    """A measure of a model on a case, or None if it has none there."""
    result = case.result(model, DEFAULTS)
    if result is None:
        return None
    return result.roc_area if measure == "roc_area" else result.mean(measure)


def scopes(head: Mapping[str, Any], records: Sequence[Record]) -> tuple[Scope, Scope, Scope]:
    """All cases, as the paper counts; and of each related group one dataset, as it is and discretised."""
    failed = frozenset((r["dataset"], r["version"], r["model"]) for r in records if "error" in r)
    run = {r["model"] for r in records}
    models = [model for model in RELATIVES if model in run]
    everything = Scope("All cases", gather(head, records), models, failed)
    whole = everything.only(lambda case: _is_done(everything, case))
    return (
        whole,
        Scope("As they are", independent(whole.cases, "raw"), models, failed),
        Scope("Discretised", independent(whole.cases, "discretised"), models, failed),
    )


def _is_done(scope: Scope, case: Case) -> bool:
    done = [case.result(model, DEFAULTS) is not None for model in scope.models]
    return any(done) and all(is_there or scope.has_failed(case, m) for is_there, m in zip(done, scope.models))


# ---------------------------------------------------------------- standings


@dataclass(frozen=True)
class Standing:
    """One model over the cases of a scope.

    Attributes
    ----------
    n_failed : int
        Cases on which it failed; means and medians are over those on which no model did.
    mean, median, rank : mappings by measure
    fit_seconds : float
        Of one training part, median.
    slower, slower_mean : float
        Seconds to train for each second of naive Bayes, median and mean over cases.
    """

    model: str
    n_failed: int
    mean: Mapping[str, float]
    median: Mapping[str, float]
    rank: Mapping[str, float]
    fit_seconds: float
    slower: float
    slower_mean: float


def standings(scope: Scope) -> list[Standing]:
    """All models, by mean rank in conditional entropy."""
    ranks = {measure: scope.scores(measure) for measure in MEASURES}
    by_model = {m: dict(zip(scope.models, mean_ranks(s))) for m, s in ranks.items() if len(s)}
    found = []
    for model in scope.models:
        values = {m: [v for case in scope.whole if (v := value_of(case, model, m)) is not None] for m in MEASURES}
        seconds, ratios = _times(scope, model)
        found.append(
            Standing(
                model,
                sum(scope.has_failed(case, model) for case in scope.cases),
                {m: float(np.mean(v)) for m, v in values.items() if v},
                {m: float(np.median(v)) for m, v in values.items() if v},
                {m: float(by_model[m][model]) for m in by_model},
                float(np.median(seconds)) if seconds else float("nan"),
                float(np.median(ratios)) if ratios else float("nan"),
                float(np.mean(ratios)) if ratios else float("nan"),
            )
        )
    return sorted(found, key=lambda standing: standing.rank.get("conditional_entropy", 0.0))


def _times(scope: Scope, model: str) -> tuple[list[float], list[float]]:
    """Seconds to train on one part, and seconds for each of naive Bayes's."""
    seconds, ratios = [], []
    for case in scope.cases:
        result, plain = case.result(model, DEFAULTS), case.result(BASELINE, DEFAULTS)
        if result is not None:
            seconds.append(result.total("fit_seconds") / len(result.folds))
            if plain is not None and plain.total("fit_seconds") > 0:
                ratios.append(result.total("fit_seconds") / plain.total("fit_seconds"))
    return seconds, ratios


# ---------------------------------------------------------------- two models


@dataclass(frozen=True)
class Pair:
    """Cases won and lost by the first of two models, and at each of LEVELS where rows can be tested."""

    first: str
    second: str
    all: WinLoss
    levels: tuple[WinLoss, ...]


def compare(scope: Scope, first: str, second: str, measure: str) -> Pair | None:
    """Count wins and losses, or None where there is nothing to compare; who fails alone loses at every level."""
    gains, p_values = [], []
    for case in scope.cases:
        ours, theirs = (value_of(case, model, measure) for model in (first, second))
        if ours is not None and theirs is not None:
            gains.append(ours - theirs if measure in MORE_IS_BETTER else theirs - ours)
            name = TESTED.get(measure)
            tested = None if name is None else case.compare(DEFAULTS, first, second, name)
            p_values.append(1.0 if tested is None else tested.p_value)
        elif ours is not None or theirs is not None:
            gains.append(-np.inf if ours is None else np.inf)
            p_values.append(0.0)
    if not gains:
        return None
    levels = LEVELS if measure in TESTED else ()
    certain = tuple(significance.win_loss(gains, p_values, level) for level in levels)
    return Pair(first, second, significance.win_loss(gains), certain)


def table_of_pairs(scope: Scope, measure: str) -> list[tuple[str, list[Pair | None]]]:
    """Each model against each, rows and columns in the order of the scope; None on the diagonal."""
    return [(a, [None if a == b else compare(scope, a, b, measure) for b in scope.models]) for a in scope.models]


# ---------------------------------------------------------------- kinds of data


def ranks_by_kind(scope: Scope, measure: str) -> list[tuple[str, str, int, list[float]]]:
    """Mean rank of each model on each kind of data: (split, part, cases, ranks in the order of the scope)."""
    rows = []
    for split, parts in SPLITS.items():
        for part, belongs in parts.items():
            scores = scope.only(belongs).scores(measure)
            if len(scores) >= LEAST_CASES:
                rows.append((split, part, len(scores), mean_ranks(scores).tolist()))
    return rows


def not_run(head: Mapping[str, Any], cases: Iterable[Case]) -> list[Card]:
    """Datasets of which no version could be compared, the smallest first."""
    there = {case.card.name for case in cases}
    cards = (Card(**card) for name, card in head["datasets"].items() if name not in there)
    return sorted(cards, key=lambda card: (card.n_values, card.name))


# ---------------------------------------------------------------- the page


def content(head: Mapping[str, Any], records: Sequence[Record]) -> dict[str, Any]:
    """What the page shows."""
    whole, *independent_scopes = scopes(head, records)
    if not whole.cases:
        raise StudyError("no dataset has been finished by all models yet: go on with the study first.")
    slower = {s.model: s for s in standings(whole)}
    raw = independent_scopes[0]
    return {
        "head": head,
        "models": whole.models,
        "measures": MEASURES,
        "baseline": BASELINE,
        "n_sets": len({case.card.name for case in whole.cases}),
        "all_cases": len(whole.cases),
        "against": [
            {
                "model": model,
                "pairs": [compare(whole, model, BASELINE, measure) for measure in MEASURES],
                "slower": slower[model].slower,
                "slower_mean": slower[model].slower_mean,
            }
            for model in whole.models
            if model != BASELINE
        ],
        "runs": runs_of(head, records, "model"),
        "failures": [
            (f"{f['model']} on {f['dataset']} ({f['version']}, {len(f['folds'])} folds)", f["error"])
            for f in failures_of(records, ("model", "dataset", "version"))
        ],
        "not_run": not_run(head, whole.cases),
        "scopes": [_scope(scope) for scope in independent_scopes],
        "kinds": [
            {"name": MEASURES[measure], "rows": ranks_by_kind(raw, measure)}
            for measure in ("conditional_entropy", "accuracy")
        ],
        "each": [{"name": name, "rows": _each(whole, measure)} for measure, name in MEASURES.items()],
    }


def _scope(scope: Scope) -> dict[str, Any]:
    rankings = {measure: scope.ranking(measure) for measure in MEASURES}
    return {
        "title": scope.title,
        "n": len(scope.cases),
        "models": scope.models,
        "figures": [_figure(scope, measure, found) for measure, found in rankings.items() if found is not None],
        "standings": standings(scope),
        "pairs": [{"name": name, "rows": table_of_pairs(scope, measure)} for measure, name in MEASURES.items()],
    }


def _figure(scope: Scope, measure: str, found: Ranking) -> dict[str, Any]:
    """A critical-difference diagram and the test that all are alike."""
    order = np.argsort(found.ranks, kind="stable").tolist()
    ranks = [(scope.models[k], float(found.ranks[k])) for k in order]
    groups = [[order.index(k) for k in group] for group in found.groups()]
    ours = {model for model in scope.models if model != BASELINE}
    label = f"Mean rank in {MEASURES[measure].lower()}"
    drawn = rank_figure(ranks, label, ours, groups, width=380, left=104)
    return {"name": MEASURES[measure], "n": found.n_datasets, "friedman": found.friedman, "svg": drawn}


def _each(scope: Scope, measure: str) -> list[dict[str, Any]]:
    """Values of all models on each case that has the measure, the best as it is shown."""
    rows = []
    for case in scope.cases:
        found = [value_of(case, model, measure) for model in scope.models]
        shown = [None if value is None else round(value, 3) for value in found]
        known = [value for value in shown if value is not None]
        if known:
            best = max(known) if measure in MORE_IS_BETTER else min(known)
            rows.append({"case": case, "values": shown, "best": best})
    return rows
