"""The page: self-contained HTML in the style of the study's report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
from figures import rank_figure, scatter_figure
from settings import COMMAND, SETTINGS, about
from study import Asked, Scope, Study
from text import counts, number, p_text, seconds

HERE = Path(__file__).parent


def page(study: Study, scopes: Sequence[Scope], asked: Asked) -> str:
    """Self-contained HTML in the style of the study's report."""
    loader = jinja2.ChoiceLoader([jinja2.FileSystemLoader(HERE), jinja2.PackageLoader("fanbayes.study")])
    environment = jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"number": number, "p": p_text, "counts": counts, "seconds": seconds, "median": np.median}
    others = [method for method in study.methods if method != study.ours]
    return environment.get_template("page.html.jinja").render(
        ours=study.ours,
        methods=study.methods,
        cards=study.cards,
        scopes=scopes,
        ranks={scope.key: rank_figure(scope.standings, study.ours) for scope in scopes},
        asked=asked,
        missing=study.missing,
        scatters=[(m, scatter_figure(study.results, study.ours, m, study.cards, study.halves)) for m in others],
        table=dataset_table(study),
        settings=SETTINGS,
        about=about(),
        command=COMMAND,
    )


def dataset_table(study: Study) -> list[dict[str, Any]]:
    """Log loss of each method on each dataset, small datasets first."""
    rows = []
    for card in sorted(study.cards.values(), key=lambda card: (card.n_rows, card.name)):
        found = [study.results[method].get(card.name) for method in study.methods]
        values = [None if result is None else round(result.measures["log_loss"], 3) for result in found]
        best = min((value for value in values if value is not None), default=None)
        rows.append({"card": card, "half": study.halves[card.name], "losses": values, "best": best})
    return rows
