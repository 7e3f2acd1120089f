"""All that the pages show, as values: they are made from it, and so can be made again without the records."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
from analysis import MEASURES, RECORDED, Comparison

from fanbayes.study.records import Record

if TYPE_CHECKING:  # the methods need their libraries, the pages do not
    from goals import Answer, Question
    from study import Goals, Scope, Study

COLUMNS = ("method", "dataset", "fold", "n_folds", "n_train", "n_test", *RECORDED.values(), "ece")
COLUMNS += ("fit_seconds", "predict_seconds", "n_components")

Summary = dict[str, Any]


def csv_lines(records: Sequence[Record]) -> list[str]:
    """Records without what is kept of each row."""
    lines = [",".join(COLUMNS)]
    for record in sorted(records, key=lambda r: (r["method"], r["dataset"], r["fold"])):
        if "error" not in record:
            values = (record.get(name) for name in COLUMNS)
            lines.append(",".join("" if v is None else f"{v:.6g}" if isinstance(v, float) else str(v) for v in values))
    return [line + "\n" for line in lines]


def summary(study: Study, records: Sequence[Record], runs: Sequence[Record]) -> Summary:
    """All numbers of the pages, and which run they come from."""
    scopes = study.scopes()
    return {
        "ours": study.ours,
        "methods": study.methods,
        "runs": _runs(study, records, runs),
        "unfinished": _unfinished(study, records),
        "goals": _goals(study.goals(scopes), scopes),
        "scopes": [_scope_summary(scope) for scope in scopes],
        "datasets": {
            name: {
                "half": study.halves[name],
                "n_rows": card.n_rows,
                "n_classes": card.n_classes,
                "kind": card.kind,
                "log_loss_of_shares": float(f"{study.shares[name]:.9g}"),
                "measures": {
                    method: _measures(study.results[method][name].measures)
                    for method in study.methods
                    if name in study.results[method]
                },
            }
            for name, card in study.cards.items()
        },
    }


def _runs(study: Study, records: Sequence[Record], runs: Sequence[Record]) -> list[dict[str, Any]]:
    """Environment of each run, and how many records of each method are its own."""
    made: defaultdict[int, Counter[str]] = defaultdict(Counter)
    for record in records:
        if "error" not in record and record["method"] in study.methods:
            made[record["run"]][record["method"]] += 1
    return [{**runs[number], "records": dict(sorted(counts.items()))} for number, counts in sorted(made.items())]


def _unfinished(study: Study, records: Sequence[Record]) -> list[dict[str, Any]]:
    """Folds that failed, by method, dataset and error."""
    failed: defaultdict[tuple[str, str, int, str], list[int]] = defaultdict(list)
    for r in records:
        if "error" in r and r["method"] in study.methods:
            failed[r["method"], r["dataset"], r["n_folds"], r["error"]].append(r["fold"])
    return [
        {"method": method, "dataset": dataset, "folds": sorted(folds), "n_folds": n_folds, "error": error}
        for (method, dataset, n_folds, error), folds in sorted(failed.items())
    ]


def _goals(goals: Goals, scopes: Sequence[Scope]) -> list[dict[str, Any]]:
    return [
        {
            "what": question.what,
            "goal": question.goal,
            "reached": {scope.key: _answer(question, answer) for scope, answer in zip(scopes, answers)},
        }
        for question, answers in goals
    ]


def _answer(question: Question, answer: Answer | None) -> dict[str, Any] | None:
    return None if answer is None else asdict(answer) | {"met": question.met(answer)}


def _scope_summary(scope: Scope) -> dict[str, Any]:
    return {
        "key": scope.key,
        "title": scope.title,
        "datasets": scope.datasets,
        "standings": [asdict(standing) for standing in scope.standings],
        "against": [
            {
                "method": row["other"],
                **{m: _comparison(*row[m]) for m in MEASURES},
            }
            for row in scope.versus
        ],
    }


def _comparison(comparison: Comparison, p_holm: float) -> dict[str, Any]:
    found = {
        "won": comparison.count.wins,
        "lost": comparison.count.losses,
        "median": float(np.median(comparison.differences)),
        "p": comparison.p_value,
        "p_holm": float(p_holm),
    }
    if comparison.significant is None:
        return found
    certain = {"won": comparison.significant.wins, "lost": comparison.significant.losses, "lost_on": comparison.lost}
    return found | {"at_99": certain}


def _measures(values: Mapping[str, float]) -> dict[str, float | None]:
    return {name: None if np.isnan(value) else float(f"{value:.9g}") for name, value in values.items()}
