"""The page, self-contained HTML in the style of the study's report, and its tables in Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from figures import scatter_figure
from goals import CHANCE
from settings import CHOICES, COMMAND, SETTINGS
from summary import Summary

from fanbayes.pages.page import html_page, render
from fanbayes.study.figures import rank_figure

HERE = Path(__file__).parent


def pages(found: Summary) -> dict[str, str]:
    """Content of the files that are made from the summary."""
    ours, names = found["ours"], found["names"]
    others = [method for method in found["methods"] if method != ours]
    content = found | {
        "ranks": {
            scope["key"]: rank_figure(
                [(names[s["method"]], s["rank"]["log_loss"]) for s in scope["standings"]],
                "Mean rank in log loss",
                (names[ours],),
                scope["alike"],
                left=190,
            )
            for scope in found["scopes"]
        },
        "scatters": [(other, scatter_figure(found["datasets"], ours, other)) for other in others],
        "table": dataset_table(found),
        "scenario_methods": [s["method"] for s in found["scopes"][0]["standings"]],
        "chance": CHANCE,
        "choices": CHOICES,
        "settings": SETTINGS,
        "command": COMMAND,
    }
    body, tables = (_rendered(name, content) for name in ("page.html.jinja", "README.md.jinja"))
    html = html_page(f"{names[ours]} against other classifiers", body, (HERE / "page.css").read_text("utf-8"))
    return {"index.html": html, "README.md": tables}


def excerpts(found: Summary) -> dict[str, str]:
    """What files of the project say of it, by their paths."""
    return {"README.md": _rendered("front.md.jinja", found), "docs/choosing.md": _rendered("guide.md.jinja", found)}


def _rendered(template: str, content: Mapping[str, Any]) -> str:
    names = content["names"]
    filters = {"counts": _counts, "seconds": _seconds, "name": lambda method: names.get(method, method), "of": _of}
    return render(HERE / template, content, filters)


def dataset_table(found: Summary) -> list[dict[str, Any]]:
    """Log loss of each method on each dataset, small datasets first."""
    rows = []
    for name, dataset in sorted(found["datasets"].items(), key=lambda item: (item[1]["n_rows"], item[0])):
        measures = [dataset["measures"].get(method) for method in found["methods"]]
        values = [None if m is None else round(m["log_loss"], 3) for m in measures]
        best = min((value for value in values if value is not None), default=None)
        rows.append({"name": name, **dataset, "losses": values, "best": best})
    return rows


def _of(scenario: Mapping[str, Any], method: str) -> Mapping[str, Any] | None:
    """What a scenario has of a method."""
    return next((one for one in scenario["standings"] if one["method"] == method), None)


def _counts(comparison: Mapping[str, Any]) -> str:
    return f"{comparison['won']} / {comparison['lost']}"


def _seconds(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.3f}" if value < 1 else f"{value:.1f}"
