"""The tables in Markdown, with the command that makes them."""

from __future__ import annotations

from collections.abc import Sequence

from analysis import MEASURES
from asked import Answer, Question
from settings import COMMAND, SETTINGS, about
from study import Asked, Scope, Study
from text import counts, number, p_text, seconds


def readme(study: Study, scopes: Sequence[Scope], asked: Asked) -> str:
    """Tables in Markdown, with the command that makes them."""
    first = scopes[0]
    parts = [
        f"# {study.ours} against other classifiers",
        f"{len(study.methods)} classifiers on the same folds of {len(study.cards)} datasets. Made by",
        f"```sh\n{COMMAND}\n```",
        "which goes on where an earlier run ended. `index.html` is the page, `summary.json` has its numbers, "
        "`records.csv.xz` every fold.",
        *([f"Not finished: {study.missing}."] if study.missing else []),
        "## Asked and reached",
        _markdown(
            ["", "asked", *(scope.title.lower() for scope in scopes)],
            [[q.what, q.asked, *(_reached(q, a) for a in answers)] for q, answers in asked],
        ),
    ]
    for scope in scopes[:2]:
        parts += [f"## {scope.title}: {len(scope.datasets)} datasets", _standings_text(scope)]
    parts += [
        f"## {study.ours} against each, {first.title.lower()} and all",
        "Sets won / lost in log loss, in brackets those significant at 99 % (paired t test over rows); p of the "
        "signed-rank test over datasets after Holm's correction.",
        _markdown(
            ["", *(text for scope in scopes[:2] for text in (scope.title.lower(), "p"))],
            _versus_rows(scopes[:2]),
        ),
        "## Settings",
        "\n".join(f"- {name}: {text}" for name, text in SETTINGS.items()),
        f"Versions: {', '.join(f'{name} {v}' for name, v in about()['versions'].items())}.",
    ]
    return "\n\n".join(parts) + "\n"


def _reached(question: Question, answer: Answer | None) -> str:
    if answer is None:
        return "–"
    met = question.met(answer)
    return answer.text if met is None else f"{answer.text}: {'yes' if met else 'no'}"


def _standings_text(scope: Scope) -> str:
    head = ["", "mean rank, log loss", "log loss", "accuracy", "ROC area", "Brier", "ECE", "fit s", "predict s"]
    rows = [
        [
            s.method,
            number(s.rank["log_loss"], 2),
            *(number(s.mean[measure]) for measure in MEASURES),
            seconds(s.fit_s),
            seconds(s.predict_s),
        ]
        for s in scope.standings
    ]
    return _markdown(head, rows) + "\n\nMeans over datasets; seconds of one processor for a fold, median."


def _versus_rows(scopes: Sequence[Scope]) -> list[list[str]]:
    found: dict[str, list[str]] = {}
    for scope in scopes:
        for row in scope.versus:
            comparison, p = row["log_loss"]
            text = f"{counts(comparison.count)} ({counts(comparison.significant)})"
            found.setdefault(row["other"], []).extend([text, p_text(p)])
    return [[other, *cells] for other, cells in found.items()]


def _markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
