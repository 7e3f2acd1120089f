"""The page: self-contained HTML in the style of the study's report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from figures import rank_figure, scatter_figure
from settings import COMMAND, SETTINGS
from summary import Summary
from text import counts, seconds, unfinished_text

from fanbayes.study.page import html_page, render

HERE = Path(__file__).parent


def page(found: Summary) -> str:
    """Self-contained HTML in the style of the study's report."""
    ours = found["ours"]
    others = [method for method in found["methods"] if method != ours]
    content = found | {
        "ranks": {scope["key"]: rank_figure(scope["standings"], ours) for scope in found["scopes"]},
        "scatters": [(other, scatter_figure(found["datasets"], ours, other)) for other in others],
        "table": dataset_table(found),
        "settings": SETTINGS,
        "command": COMMAND,
    }
    filters = {"counts": counts, "seconds": seconds, "unfinished": unfinished_text}
    body = render(HERE / "page.html.jinja", content, filters)
    return html_page(f"{ours} against other classifiers", body, (HERE / "page.css").read_text("utf-8"))


def dataset_table(found: Summary) -> list[dict[str, Any]]:
    """Log loss of each method on each dataset, small datasets first."""
    rows = []
    for name, dataset in sorted(found["datasets"].items(), key=lambda item: (item[1]["n_rows"], item[0])):
        measures = [dataset["measures"].get(method) for method in found["methods"]]
        values = [None if m is None else round(m["log_loss"], 3) for m in measures]
        best = min((value for value in values if value is not None), default=None)
        rows.append({"name": name, **dataset, "losses": values, "best": best})
    return rows
