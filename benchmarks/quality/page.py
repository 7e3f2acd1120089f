"""The page: self-contained HTML in the style of the study's report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jinja2
from figures import rank_figure, scatter_figure
from settings import COMMAND, SETTINGS
from summary import Summary
from text import counts, number, p_text, run_text, seconds, unfinished_text

HERE = Path(__file__).parent


def page(found: Summary) -> str:
    """Self-contained HTML in the style of the study's report."""
    loader = jinja2.ChoiceLoader([jinja2.FileSystemLoader(HERE), jinja2.PackageLoader("fanbayes.study")])
    environment = jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {
        "number": number,
        "p": p_text,
        "counts": counts,
        "seconds": seconds,
        "run": run_text,
        "unfinished": unfinished_text,
    }
    ours = found["ours"]
    others = [method for method in found["methods"] if method != ours]
    return environment.get_template("page.html.jinja").render(
        **found,
        ranks={scope["key"]: rank_figure(scope["standings"], ours) for scope in found["scopes"]},
        scatters=[(other, scatter_figure(found["datasets"], ours, other)) for other in others],
        table=dataset_table(found),
        settings=SETTINGS,
        command=COMMAND,
    )


def dataset_table(found: Summary) -> list[dict[str, Any]]:
    """Log loss of each method on each dataset, small datasets first."""
    rows = []
    for name, dataset in sorted(found["datasets"].items(), key=lambda item: (item[1]["n_rows"], item[0])):
        measures = [dataset["measures"].get(method) for method in found["methods"]]
        values = [None if m is None else round(m["log_loss"], 3) for m in measures]
        best = min((value for value in values if value is not None), default=None)
        rows.append({"name": name, **dataset, "losses": values, "best": best})
    return rows
