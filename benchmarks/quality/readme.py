"""The tables in Markdown, with the command that makes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from analysis import MEASURES
from settings import COMMAND, SETTINGS
from summary import Summary
from text import counts, seconds, unfinished_text

from fanbayes.study.text import number, p_text, run_text


def readme(found: Summary) -> str:
    """Tables in Markdown, with the command that makes them."""
    scopes = found["scopes"]
    ours, first = found["ours"], scopes[0]["title"].lower()
    parts = [
        f"# {ours} against other classifiers",
        f"{len(found['methods'])} classifiers on the same folds of {len(found['datasets'])} datasets. Made by",
        f"```sh\n{COMMAND}\n```",
        "which goes on where an earlier run ended. `index.html` is the page, `summary.json` has its numbers, "
        "`records.csv.xz` every fold.",
        "## Which code",
        _runs(found),
        *_unfinished(found),
        "## Goals, and what was reached",
        _markdown(
            ["", "goal", *(scope["title"].lower() for scope in scopes)],
            [[g["what"], g["goal"], *(_reached(answer) for answer in g["reached"].values())] for g in found["goals"]],
        ),
    ]
    for scope in scopes[:2]:
        parts += [f"## {scope['title']}: {len(scope['datasets'])} datasets", _standings_text(scope)]
    parts += [
        f"## {ours} against each, {first} and all",
        "Sets won / lost in log loss, in brackets those significant at 99 % (paired t test over rows); p of the "
        "signed-rank test over datasets after Holm's correction.",
        _markdown(
            ["", *(text for scope in scopes[:2] for text in (scope["title"].lower(), "p"))],
            _versus_rows(scopes[:2]),
        ),
        "## Settings",
        "\n".join(f"- {name}: {text}" for name, text in SETTINGS.items()),
    ]
    return "\n\n".join(parts) + "\n"


def _runs(found: Summary) -> str:
    return "\n".join(f"- Records of {', '.join(run['records'])}: {run_text(run)}." for run in found["runs"])


def _unfinished(found: Summary) -> list[str]:
    if not found["unfinished"]:
        return []
    return ["Not finished:", "\n".join(f"- {unfinished_text(failed)}" for failed in found["unfinished"])]


def _reached(answer: Mapping[str, Any] | None) -> str:
    if answer is None:
        return "–"
    text: str = answer["text"]
    return text if answer["met"] is None else f"{text}: {'yes' if answer['met'] else 'no'}"


def _standings_text(scope: Mapping[str, Any]) -> str:
    head = ["", "mean rank, log loss", "log loss", "accuracy", "ROC area", "Brier", "ECE", "fit s", "predict s"]
    rows = [
        [
            s["method"],
            number(s["rank"]["log_loss"], 2),
            *(number(s["mean"][measure]) for measure in MEASURES),
            seconds(s["fit_s"]),
            seconds(s["predict_s"]),
        ]
        for s in scope["standings"]
    ]
    return _markdown(head, rows) + "\n\nMeans over datasets; seconds of one processor for a fold, median."


def _versus_rows(scopes: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    rows: dict[str, list[str]] = {}
    for scope in scopes:
        for row in scope["against"]:
            loss = row["log_loss"]
            text = f"{counts(loss)} ({counts(loss['at_99'])})"
            rows.setdefault(row["method"], []).extend([text, p_text(loss["p_holm"])])
    return [[other, *cells] for other, cells in rows.items()]


def _markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
