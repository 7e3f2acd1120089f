"""All that the pages show, as values: they are made from it, and so can be made again without the records."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
from analysis import MEASURES, RECORDED, Comparison, against_each, common, gather, standings

from fanbayes.study.cards import Card
from fanbayes.study.records import Record, failures_of, runs_of

if TYPE_CHECKING:  # the methods need their libraries, the pages do not
    from goals import Answer, Question

COLUMNS = ("method", "dataset", "fold", "n_folds", "n_train", "n_test", *RECORDED.values(), "ece")
COLUMNS += ("fit_seconds", "predict_seconds", "n_components")
SCOPES = {"report": "Report half", "all": "All", "development": "Development half"}

Summary = dict[str, Any]


def csv_lines(records: Sequence[Record]) -> list[str]:
    """Records without what is kept of each row."""
    lines = [",".join(COLUMNS)]
    for record in sorted(records, key=lambda r: (r["method"], r["dataset"], r["fold"])):
        if "error" not in record:
            values = (record.get(name) for name in COLUMNS)
            lines.append(",".join("" if v is None else f"{v:.6g}" if isinstance(v, float) else str(v) for v in values))
    return [line + "\n" for line in lines]


def summary(head: Mapping[str, Any], records: Sequence[Record], ours: str) -> Summary:
    """All numbers of the pages, and which run they come from; `ours` is the method held against the others."""
    from goals import View, questions
    from plan import METHODS, half

    results = gather(records)
    if ours not in results:
        raise SystemExit(f"{ours} has finished no dataset: run it first, or give another method by --ours.")
    methods = [method for method in METHODS if method in results]
    cards = {name: Card(**card) for name, card in head["datasets"].items()}
    halves = {name: half(card) for name, card in cards.items()}
    shares = _loss_of_shares(records)
    chosen = {key: [name for name in cards if key in ("all", halves[name])] for key in SCOPES}
    finished = {key: common(results, methods, names) for key, names in chosen.items()}
    views = {key: View(results, methods, names, cards, shares) for key, names in finished.items()}
    others = [method for method in methods if method != ours]
    return {
        "ours": ours,
        "methods": methods,
        "runs": runs_of(head, records, "method"),
        "unfinished": failures_of([r for r in records if r["method"] in methods], ("method", "dataset", "n_folds")),
        "goals": [
            {
                "what": question.what,
                "goal": question.goal,
                "reached": {key: _answer(question, question.answer(view)) for key, view in views.items()},
            }
            for question in questions(ours)
        ],
        "scopes": [
            {
                "key": key,
                "title": title,
                "datasets": finished[key],
                "standings": [asdict(standing) for standing in standings(results, methods, finished[key])],
                "against": _against(
                    {m: against_each(results, ours, others, chosen[key], m) for m in MEASURES},
                ),
            }
            for key, title in SCOPES.items()
        ],
        "datasets": {
            name: {
                "half": halves[name],
                "n_rows": card.n_rows,
                "n_classes": card.n_classes,
                "kind": card.kind,
                "log_loss_of_shares": float(f"{shares[name]:.9g}"),
                "measures": {m: _measures(results[m][name].measures) for m in methods if name in results[m]},
            }
            for name, card in cards.items()
        },
    }


def _loss_of_shares(records: Sequence[Record]) -> dict[str, float]:
    """Log loss of the classes' shares in the training parts, whatever the row, of each dataset."""
    folds = {(r["dataset"], r["fold"]): (r["n_test"], r["loss_of_shares"]) for r in records if "error" not in r}
    of: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)
    for (name, _), fold in folds.items():
        of[name].append(fold)
    return {name: sum(n * loss for n, loss in parts) / sum(n for n, _ in parts) for name, parts in of.items()}


def _answer(question: Question, answer: Answer | None) -> dict[str, Any] | None:
    return None if answer is None else asdict(answer) | {"met": question.met(answer)}


def _against(found: Mapping[str, Sequence[tuple[Comparison, float]]]) -> list[dict[str, Any]]:
    """A row for each other method that can be compared by all measures."""
    rows: defaultdict[str, dict[str, Any]] = defaultdict(dict)
    for measure, comparisons in found.items():
        for comparison, p in comparisons:
            rows[comparison.second][measure] = _comparison(comparison, p)
    return [{"method": other, **row} for other, row in rows.items() if len(row) == len(MEASURES)]


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
