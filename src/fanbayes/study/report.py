"""One HTML page of a study, self-contained: it opens from disk, without a network."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from fanbayes.evaluation.metrics import CLIP, N_BINS, ReliabilityCurve
from fanbayes.evaluation.significance import WinLoss
from fanbayes.files.atomic import write_file
from fanbayes.pages.page import html_page, render, script
from fanbayes.pages.text import counts, number
from fanbayes.study import analysis, relatives
from fanbayes.study.analysis import COLUMNS, MAIN, MEASURES, Case, Column, Finding, Result
from fanbayes.study.cards import Card
from fanbayes.study.models import CRITERIA, Model
from fanbayes.study.outcomes import reliability_of
from fanbayes.study.records import Record, StudyError, read_settings, read_study

MODELS: tuple[Model, ...] = ("NB", "FM", "FAN")
PAIRS: tuple[tuple[Model, Model], ...] = (("FAN", "NB"), ("FAN", "FM"), ("FM", "NB"))


def find_studies(folder: Path) -> dict[str, Path]:
    """Folders of the studies at a place: the folder itself, or those in it, by kind of study."""
    places = [folder] if (folder / "study.json").exists() else sorted(p.parent for p in folder.glob("*/study.json"))
    if not places:
        raise StudyError(f"{folder} holds no study: run 'fanbayes study real --out {folder}' first.")
    found: dict[str, Path] = {}
    for place in places:
        kind = read_settings(place).get("study")
        if kind not in ("real", "simulated", "relatives"):
            raise StudyError(f"{place} holds the study {kind!r}, which this version does not know.")
        if kind in found:
            raise StudyError(f"{folder} holds two {kind} studies, {found[kind]} and {place}: give one of them.")
        found[kind] = place
    return found


def write_page(studies: Mapping[str, Path], target: Path) -> list[Claim]:
    """Write the page of up to three studies.

    Parameters
    ----------
    studies : mapping of "real", "simulated" and "relatives" to folders
    target : file to write

    Returns
    -------
    list of Claim
        What the page begins with.
    """
    content = _content({kind: read_study(folder) for kind, folder in studies.items()})
    html = _render(content)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_file(target, html.encode(errors="xmlcharrefreplace"))
    claims: list[Claim] = content["claims"]
    return claims


Studies: TypeAlias = Mapping[str, tuple[dict[str, Any], list[Record]]]


def page(studies: Studies) -> str:
    """HTML of up to three studies, each given as its settings and its records."""
    return _render(_content(studies))


def _content(studies: Studies) -> dict[str, Any]:
    """All that the page shows."""
    content: dict[str, Any] = {"claims": [], "clip": CLIP, "bins": N_BINS, "chance": analysis.CHANCE}
    for kind, assess in (("real", _real), ("simulated", _simulated), ("relatives", relatives.content)):
        if kind in studies:
            content[kind] = assess(*studies[kind])
            content["claims"] += content[kind].get("claims", [])
    content["title"] = "FAN, FM and naive Bayes" if content["claims"] else "FAN and its relatives"
    return content


def _render(content: Mapping[str, Any]) -> str:
    body = render(
        Path(__file__).parent / "templates" / "report.html.jinja", content, {"ratio": _ratio, "counts": counts}
    )
    return html_page(f"{content['title']}: Monti & Cooper (1999) reproduced", body)


def _ratio(value: float) -> str:
    return f"{value:.0f}" if value >= 20 else f"{value:.1f}"


# ---------------------------------------------------------------- the study of real data


@dataclass(frozen=True)
class Claim:
    """What the paper says, what was found, and what a test makes of it; None where there is no test."""

    text: str
    paper: str
    ours: str
    finding: Finding | None


def _won(text: str, paper: str, count: WinLoss, ours: str | None = None) -> Claim:
    """Claim that there are more wins than losses."""
    return Claim(text, paper, counts(count) if ours is None else ours, analysis.more_won(count))


def _real(head: dict[str, Any], records: list[Record]) -> dict[str, Any]:
    """What the page shows of the study of real data."""
    cases = analysis.gather(head, records)
    if not any(case.result(model, MAIN) for case in cases for model in MODELS):
        raise StudyError("no dataset has been finished yet: go on with the study first.")
    components = [(c, analysis.component_summary(cases, c)) for c in COLUMNS]
    tables = {column: analysis.count_table(cases, column) for column in COLUMNS}
    back = analysis.won_back(cases, MAIN)
    times = [(c, row) for c in (MAIN, COLUMNS[-1]) for row in analysis.time_table(cases, c)]
    return {
        "head": head,
        "cases": cases,
        "claims": _real_claims(cases, tables[MAIN], components[0][1], back, times),
        "counts": tables[MAIN],
        "other_columns": [(c, {(r.measure, r.first, r.second): r for r in tables[c]}) for c in COLUMNS],
        "across": [row for measure in MEASURES for row in analysis.across_table(cases, MAIN, measure)],
        "splits": analysis.split_table(cases, MAIN),
        "components": [(c, summary) for c, summary in components if summary is not None],
        "times": times,
        "won_back": back,
        "failures": _failures(records),
        "clipped": _clipped(cases),
        "payload": script(_payload(cases)),
    }


def _real_claims(
    cases: Sequence[Case],
    table: Sequence[analysis.Counts],
    components: analysis.Components | None,
    back: analysis.WonBack,
    times: Sequence[tuple[Column, analysis.Times]],
) -> list[Claim]:
    """Statements of sections 4 and 5 that can be counted."""
    at = {(row.measure, row.first, row.second): row for row in table}
    claims = []

    def count(text: str, key: tuple[analysis.Measure, Model, Model], paper: str, level: int | None = None) -> None:
        row = at.get(key)
        if row is not None:
            found = row.all if level is None else row.levels[level]
            claims.append(_won(text, paper, found))

    count("FAN is more accurate than NB", ("accuracy", "FAN", "NB"), "23/14")
    count("… also where the difference is significant at 95 %", ("accuracy", "FAN", "NB"), "14/1", 0)
    count("FAN is more accurate than FM, at 99 %", ("accuracy", "FAN", "FM"), "25/0", 1)
    count("NB is more accurate than FM, at 99 %", ("accuracy", "NB", "FM"), "21/6", 1)
    count("FAN has a lower conditional entropy than NB", ("conditional_entropy", "FAN", "NB"), "28/9")
    count("FM has a lower conditional entropy than NB, at 99 %", ("conditional_entropy", "FM", "NB"), "27/2", 1)
    count("FM has a lower conditional entropy than FAN, at 99 %", ("conditional_entropy", "FM", "FAN"), "15/8", 1)
    roc = at.get(("roc_area", "FAN", "NB"))
    if roc is not None:
        turned = WinLoss(roc.all.losses, roc.all.wins, roc.all.ties)
        claims.append(_won("NB has a larger ROC area than FAN", "13/8", turned))
    count("FAN has a larger ROC area than FM", ("roc_area", "FAN", "FM"), "yes")
    count("NB has a larger ROC area than FM", ("roc_area", "NB", "FM"), "yes")
    if components is not None:
        fewer = components.fewer
        claims.append(_won("FAN needs fewer components than FM", "yes", fewer))
    claims += _split_claims(cases)
    if back.lost:
        count_back = WinLoss(len(back.won_back), len(back.lost) - len(back.won_back), 0)
        text = "Datasets with continuous features that FAN loses to NB are won once discretised"
        claims.append(_won(text, "8 of 10", count_back, f"{len(back.won_back)} of {len(back.lost)}"))
    for column, row in times:
        if column is MAIN and row.part == "training without reading the table":
            text = f"Training {row.model} takes many times as long as NB (reading the table apart)"
            ours = f"{_ratio(row.quartiles[1])} (median), {_ratio(row.of_totals)} (totals)"
            claims.append(Claim(text, row.paper, ours, None))
    return claims


def _split_claims(cases: Sequence[Case]) -> list[Claim]:
    """FAN against NB on large datasets, and by the number of classes."""
    claims = []
    for text, large in (
        ("on datasets with a donors’ split", [c for c in cases if c.card.donor_split]),
        ("on datasets of 5000 rows and more", [c for c in cases if c.card.n_rows >= 5000]),
    ):
        found = analysis.counts(large, MAIN, "FAN", "NB", "accuracy")
        if found is not None:
            n = found.all.wins + found.all.losses + found.all.ties
            ours = f"{found.all.wins} of {n}, loses {found.all.losses}"
            claims.append(_won(f"FAN is more accurate than NB {text}", "11 of 14", found.all, ours))
    many = analysis.counts([c for c in cases if c.card.n_classes > 2], MAIN, "FAN", "NB", "accuracy")
    two = analysis.counts([c for c in cases if c.card.n_classes == 2], MAIN, "FAN", "NB", "accuracy")
    if many is not None and two is not None:
        ours = f"{counts(many.all)} against {counts(two.all)}"
        finding = analysis.larger_share_won(many.all, two.all)
        claims.append(Claim("FAN does better on many-valued classes than on binary ones", "yes", ours, finding))
    return claims


def _failures(records: Sequence[Record]) -> list[tuple[str, str]]:
    """Tasks that failed, and why; criteria of one task fail together."""
    found = {}
    for record in records:
        if "error" in record:
            parts = (
                str(record[k]) for k in ("dataset", "version", "fold", "size", "pair", "model", "preset") if k in record
            )
            found[" · ".join(parts)] = record["error"]
    return list(found.items())


def _clipped(cases: Sequence[Case]) -> list[dict[str, Any]]:
    """Cases where the true class of a row got less than the clip, and why."""
    found = []
    for case in cases:
        results = {model: result for model in MODELS if (result := case.result(model, MAIN)) is not None}
        clipped = {model: int(result.total("clipped")) for model, result in results.items()}
        if any(clipped.values()):
            some = next(iter(results.values()))
            absent = int(some.total("absent"))
            found.append({"name": case.name, "n_tested": some.n_tested, "rows": clipped, "absent": absent})
    return found


def _payload(cases: Sequence[Case]) -> dict[str, Any]:
    """What the figures and the sortable table are drawn from."""
    shown = [case for case in cases if all(case.result(model, MAIN) for model in MODELS)]
    return {
        "models": MODELS,
        "columns": [{"key": _key(c), "label": c.label} for c in COLUMNS],
        "pairs": [list(pair) for pair in PAIRS],
        "cases": [
            {
                "name": case.card.name,
                "discretised": case.version == "discretised",
                "kind": case.card.kind,
                "rows": case.card.n_rows,
                "features": case.card.n_discrete + case.card.n_continuous,
                "classes": case.card.n_classes,
            }
            for case in shown
        ],
        "results": {_key(c): [[_numbers(case.result(m, c)) for m in MODELS] for case in shown] for c in COLUMNS},
        "p": {_key(c): {"-".join(pair): _p_values(shown, c, pair) for pair in PAIRS} for c in COLUMNS},
        "reliability": {_key(c): _reliability(shown, c) for c in (MAIN, COLUMNS[-1])},
    }


def _key(column: Column) -> str:
    return f"{column.preset}-{column.criterion}"


def _numbers(result: Result | None) -> list[float | None] | None:
    """Accuracy, CE, ROC area, ECE, components, seconds to train and to predict."""
    if result is None:
        return None
    values = (
        result.mean("accuracy"),
        result.mean("conditional_entropy"),
        result.roc_area,
        result.calibration_error,
        float(np.mean(result.components)),
        result.total("fit_seconds"),
        result.total("predict_seconds"),
    )
    return [None if value is None else _short(value, 5) for value in values]


def _p_values(cases: Sequence[Case], column: Column, pair: tuple[Model, Model]) -> list[list[float | None]]:
    by_measure = []
    for measure in MEASURES:
        found = {c.case.name: c.p_value for c in analysis.compare(cases, column, *pair, measure)}
        by_measure.append([_short(found[case.name], 2) if case.name in found else None for case in cases])
    return [list(row) for row in zip(*by_measure)]


def _reliability(cases: Sequence[Case], column: Column) -> dict[str, Any]:
    """Curves of all cases together, each with the same weight, and of each case."""
    whole: dict[str, Any] = {}
    for model in MODELS:
        results = [result for case in cases if (result := case.result(model, column)) is not None]
        if results:
            whole[model] = _curve(reliability_of([result.outcomes for result in results]))
    each = [
        {m: _curve(result.reliability) for m in MODELS if (result := case.result(m, column)) is not None}
        for case in cases
    ]
    return {"all": whole, "cases": each}


def _curve(curve: ReliabilityCurve) -> list[list[float]]:
    share = curve.count / curve.count.sum()
    return [[_short(v, 4) for v in point] for point in zip(curve.predicted, curve.observed, share)]


def _short(value: float, digits: int) -> float:
    return float(f"{value:.{digits}g}")


# ---------------------------------------------------------------- the study of simulated data


@dataclass(frozen=True)
class SimulatedPart:
    """Tables of some gold standards under one preset."""

    title: str
    rows: list[analysis.Simulated]
    correlations: list[analysis.Correlation]


def _simulated(head: dict[str, Any], records: list[Record]) -> dict[str, Any]:
    """What the page shows of the study of simulated data."""
    truth = analysis.gold_standards(records)
    if not truth:
        raise StudyError("no pair of training and test sets has been finished yet: go on with the study first.")
    hidden = [r for r in records if truth.get(r["dataset"], 1) > 1]
    plain = [r for r in records if truth.get(r["dataset"]) == 1]
    parts = [
        _part("Paper preset", hidden, "paper"),
        _part("Library defaults", hidden, "default"),
        _part("Gold standards with one component, apart", plain, "paper"),
    ]
    cards = {name: Card(**card) for name, card in head["datasets"].items()}
    by_size = {n: [r for r in hidden if r["size"] == n] for n in head["sizes"]}
    return {
        "head": head,
        "claims": _simulated_claims(parts[0], hidden),
        "gold": [(name, r, cards[name].kind, cards[name].n_classes) for name, r in sorted(truth.items())],
        "parts": [part for part in parts if part.rows],
        "by_size": [(n, analysis.simulated_table(own, "paper")) for n, own in by_size.items()],
        "histograms": _histograms(hidden),
        "failures": _failures(records),
    }


def _part(title: str, records: Sequence[Record], preset: str) -> SimulatedPart:
    return SimulatedPart(title, analysis.simulated_table(records, preset), analysis.correlation_table(records, preset))


def _histograms(records: Sequence[Record]) -> list[tuple[str, list[tuple[int, float]]]]:
    """Shares of learnt minus true number of components, by criterion."""
    sound = [r for r in records if "error" not in r and r["preset"] == "paper" and r["criterion"] in CRITERIA]
    if not sound:
        return []
    gaps = [r["n_components"] - r["true_components"] for r in sound]
    span = range(min(gaps), max(gaps) + 1)
    found: list[tuple[str, list[tuple[int, float]]]] = []
    for criterion in CRITERIA:
        own = [gap for gap, r in zip(gaps, sound) if r["criterion"] == criterion]
        found.append((criterion, [(gap, own.count(gap) / max(len(own), 1)) for gap in span]))
    return found


def _simulated_claims(part: SimulatedPart, records: Sequence[Record]) -> list[Claim]:
    rows = {row.criterion: row for row in part.rows if row.criterion in CRITERIA}
    if len(rows) < len(CRITERIA):
        return []
    claims = []
    good: dict[str, tuple[str, Callable[[analysis.Simulated], float]]] = {
        "accuracy": ("accuracy", lambda row: row.accuracy),
        "roc_area": ("ROC area", lambda row: row.roc_area),
        "conditional_entropy": ("CE", lambda row: -row.conditional_entropy),
        "distance": ("structure, |r_h − true|", lambda row: -row.distance),
    }
    for measure, (name, mean) in good.items():
        order = sorted(rows.values(), key=mean, reverse=True)
        paper = "ICL, CS, BIC, AIC" if measure == "roc_area" else "ICL, BIC, CS, AIC"
        ours = ", ".join(row.criterion.upper() for row in order)
        finding = analysis.icl_is_best(records, "paper", measure)
        claims.append(Claim(f"Simulated data: ICL is best by {name}", paper, ours, finding))
    if part.correlations:
        rho = [row.pooled for row in part.correlations]
        ours = f"{number(min(rho), 2)} to {number(max(rho), 2)}"
        text = "Simulated data: performance falls with the distance from the true r_h (Spearman)"
        finding = Finding(max(rho) < 0, max(row.p_value for row in part.correlations))
        claims.append(Claim(text, "−0.45 to −0.55", ours, finding))
    return claims
