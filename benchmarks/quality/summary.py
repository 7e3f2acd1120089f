"""All that the pages show, as values: they are made from it, and so can be made again without the records."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
from analysis import TESTED, Comparison, Results, against_each, common, gather, standings
from settings import NAMES, NOT_RANKED, SCENARIOS

from fanbayes.study.cards import Card
from fanbayes.study.records import Record, runs_of

if TYPE_CHECKING:
    from goals import Answer, Question

SCOPES = {"all": "All", "report": "Report half", "development": "Development half"}
# A method that was run on fewer than this share of the datasets of ours and of the stack is not ranked, and told of.
ENOUGH = 0.9

Summary = dict[str, Any]


def merged(studies: Sequence[tuple[dict[str, Any], list[Record]]]) -> tuple[dict[str, Any], list[Record]]:
    """Several folders as one; of records of the same thing that of the last folder counts."""
    head: dict[str, Any] = {"datasets": {}, "environments": []}
    records: dict[tuple[str, str, int], Record] = {}
    for own, lines in studies:
        for name, card in own["datasets"].items():
            if head["datasets"].setdefault(name, card)["sha256"] != card["sha256"]:
                raise SystemExit(f"the folders have different content of dataset {name!r}: they cannot be merged")
        first = len(head["environments"])
        head["environments"] += own["environments"]
        for line in lines:
            records[line["criterion"], line["dataset"], line["fold"]] = line | {"run": first + line["run"]}
    return head, list(records.values())


def summary(
    head: Mapping[str, Any], records: Sequence[Record], ours: str, timing: Mapping[str, Any] | None = None
) -> Summary:
    """All numbers of the pages, and which run they come from; `ours` is the method held against the others."""
    from goals import View, questions
    from plan import half

    scenarios = gather(records)
    complete = scenarios.get("complete", {})
    if ours not in complete:
        raise SystemExit(f"{ours} has been run on no dataset: run it first, or give another method by --ours.")
    least = ENOUGH * min(len(complete[method]) for method in (ours, "stack") if method in complete)
    methods = [m for m in NAMES if m not in NOT_RANKED and len(complete.get(m, {})) >= least]
    cards = {name: Card(**card) for name, card in sorted(head["datasets"].items())}
    groups = {name: card.group or name for name, card in cards.items()}
    halves = {name: half(card) for name, card in cards.items()}
    shares = _loss_of_shares(records)
    chosen = {key: [name for name in cards if key in ("all", halves[name])] for key in SCOPES}
    views = {key: View(scenarios, methods, names, cards, groups, shares, timing or {}) for key, names in chosen.items()}
    return {
        "ours": ours,
        "names": {method: NAMES[method] for method in NAMES if method in complete},
        "methods": methods,
        "runs": _runs(head, records),
        "timed": (timing or {}).get("environment"),
        "coverage": _coverage(records, cards, methods),
        "failures": _failures(records),
        "goals": [
            {
                "what": question.what,
                "goal": question.goal,
                "reached": {key: _answer(question, question.answer(view)) for key, view in views.items()},
            }
            for question in questions(ours)
        ],
        "scopes": [_scope(complete, methods, ours, key, chosen[key], groups) for key in SCOPES],
        "scenarios": [
            found
            for key, title in SCENARIOS.items()
            if (found := _scenario(scenarios.get(key, {}), methods, ours, key, title, chosen["all"], groups))
        ],
        "weights": _weights(records),
        "datasets": {
            name: {
                "half": halves[name],
                "group": card.group,
                "n_rows": card.n_rows,
                "n_classes": card.n_classes,
                "kind": card.kind,
                "log_loss_of_shares": float(f"{shares[name]:.9g}"),
                "n_folds": len(next(iter(complete[m][name].folds for m in methods if name in complete[m]))),
                "measures": {
                    m: _measures(complete[m][name].measures)
                    for m in methods
                    if name in complete[m] and not complete[m][name].failed
                },
            }
            for name, card in cards.items()
            if any(name in complete[m] for m in methods)
        },
    }


def _scope(
    results: Results, methods: Sequence[str], ours: str, key: str, names: Sequence[str], groups: Mapping[str, str]
) -> dict[str, Any]:
    datasets = common(results, methods, names)
    table = standings(results, methods, datasets, groups)
    others = [method for method in methods if method != ours]
    return {
        "key": key,
        "title": SCOPES[key],
        "datasets": datasets,
        "n_groups": len({groups[name] for name in datasets}),
        "friedman": None if table is None else table.ranking.friedman,
        "standings": [] if table is None else [_finite(asdict(standing)) for standing in table.standings],
        "alike": [] if table is None else [list(group) for group in table.alike],
        "against": _against({m: against_each(results, ours, others, names, m, groups) for m in TESTED}),
    }


def _scenario(
    results: Results,
    methods: Sequence[str],
    ours: str,
    key: str,
    title: str,
    names: Sequence[str],
    groups: Mapping[str, str],
) -> dict[str, Any] | None:
    """Standings of one scenario, with tests against ours where it was run."""
    run = [method for method in methods if results.get(method)]
    datasets = common(results, run, names)
    table = standings(results, run, datasets, groups)
    if table is None:
        return None
    against = (
        against_each(results, ours, [m for m in run if m != ours], names, "log_loss", groups) if ours in run else []
    )
    p = {comparison.second: p_holm for comparison, p_holm in against}
    return {
        "key": key,
        "title": title,
        "n_datasets": len(datasets),
        "n_groups": len({groups[name] for name in datasets}),
        "n_folds": sum(len(results[run[0]][name].folds) for name in datasets),
        "standings": [
            {
                "method": s.method,
                "rank": s.rank["log_loss"],
                "mean": _number(s.mean["log_loss"]),
                "median": _number(s.median["log_loss"]),
                "accuracy": _number(s.mean["accuracy"]),
                "p": p.get(s.method),
            }
            for s in table.standings
        ],
    }


def _runs(head: Mapping[str, Any], records: Sequence[Record]) -> list[dict[str, Any]]:
    """Environments and what they made; equal ones of several folders are one."""
    named = [record | {"method": record["criterion"].split()[0]} for record in records]
    found: list[dict[str, Any]] = []
    for run in runs_of(head, named, "method"):
        about = {key: value for key, value in run.items() if key != "records"}
        same = next((one for one in found if {k: v for k, v in one.items() if k != "records"} == about), None)
        if same is None:
            found.append(run)
        else:
            same["records"] = dict(sorted((Counter(same["records"]) + Counter(run["records"])).items()))
    return found


def _coverage(records: Sequence[Record], cards: Mapping[str, Card], methods: Sequence[str]) -> dict[str, Any]:
    """How much of what was planned is there, of complete tables, and which methods are not ranked for want of it."""
    from plan import n_tested

    there: Counter[str] = Counter()
    for record in records:
        method, scenario = record["criterion"].split()
        if scenario == "complete" and "error" not in record:
            there[method] += 1
    planned = sum(n_tested(card.n_rows) for card in cards.values())
    left_out = [method for method in there if method not in methods and method not in NOT_RANKED]
    return {"planned": planned, "folds": {m: there[m] for m in NAMES if m in there}, "not_ranked": left_out}


def _failures(records: Sequence[Record]) -> list[dict[str, Any]]:
    failed: defaultdict[tuple[str, str, str], int] = defaultdict(int)
    for record in records:
        method = record["criterion"].split()[0]
        if why := record.get("failed") or record.get("error"):
            failed[method, record["dataset"], why] += 1
    return [
        {"method": method, "dataset": dataset, "why": why, "n": n}
        for (method, dataset, why), n in sorted(failed.items())
    ]


def _weights(records: Sequence[Record]) -> dict[str, float]:
    """Mean weight of each peer in the stack, over the folds of complete tables."""
    given = [r["chosen"]["weights"] for r in records if r["criterion"] == "stack complete" and "chosen" in r]
    total: Counter[str] = Counter()
    for weights in given:
        total.update(weights)
    return {method: total[method] / len(given) for method in NAMES if method in total}


def _loss_of_shares(records: Sequence[Record]) -> dict[str, float]:
    """Log loss of the classes' shares in the training parts, whatever the row, of each dataset."""
    folds = {
        (r["dataset"], r["fold"]): (r["n_test"], r["loss_of_shares"])
        for r in records
        if r["criterion"].endswith(" complete") and "loss_of_shares" in r
    }
    of: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)
    for (name, _), fold in folds.items():
        of[name].append(fold)
    return {name: sum(n * loss for n, loss in parts) / sum(n for n, _ in parts) for name, parts in of.items()}


def _answer(question: Question, answer: Answer | None) -> dict[str, Any] | None:
    if answer is None:
        return None
    return {"value": _number(answer.value), "text": answer.text, "met": question.met(answer)}


def _against(found: Mapping[str, Sequence[tuple[Comparison, float]]]) -> list[dict[str, Any]]:
    """A row for each other method that can be compared by all measures tested."""
    rows: defaultdict[str, dict[str, Any]] = defaultdict(dict)
    for measure, comparisons in found.items():
        for comparison, p in comparisons:
            rows[comparison.second][measure] = _comparison(comparison, p)
    return [{"method": other, **row} for other, row in rows.items() if len(row) == len(TESTED)]


def _comparison(comparison: Comparison, p_holm: float) -> dict[str, Any]:
    finite = comparison.differences[np.isfinite(comparison.differences)]
    found = {
        "won": comparison.count.wins,
        "lost": comparison.count.losses,
        "median": _number(float(np.median(comparison.differences))),
        "mean": float(finite.mean()) if finite.size else None,
        "p": comparison.p_value,
        "p_holm": float(p_holm),
    }
    if comparison.measure != "log_loss":
        return found
    sure = comparison.p_values <= 0.05
    won, lost = (int((sure & (sign * comparison.differences > 0)).sum()) for sign in (1, -1))
    return found | {"sure": {"won": won, "lost": lost}}


def _number(value: float) -> float | None:
    return float(f"{value:.9g}") if np.isfinite(value) else None


def _finite(found: dict[str, Any]) -> dict[str, Any]:
    return {
        k: _finite(v) if isinstance(v, dict) else _number(v) if isinstance(v, float) else v for k, v in found.items()
    }


def _measures(values: Mapping[str, float]) -> dict[str, float | None]:
    return {name: _number(value) for name, value in values.items()}
