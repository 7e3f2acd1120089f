"""The numbers of the page, and the records, for machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from analysis import MEASURES, Comparison
from records import Record
from settings import about
from study import Asked, Scope, Study

COLUMNS = ("method", "dataset", "fold", "n_folds", "n_train", "n_test", *MEASURES, "fit_s", "predict_s", "n_components")


def csv_lines(records: Sequence[Record]) -> list[str]:
    """Records without what is kept of each row."""
    lines = [",".join(COLUMNS)]
    for record in sorted(records, key=lambda r: (r["method"], r["dataset"], r["fold"])):
        if "error" not in record:
            values = (record.get(name) for name in COLUMNS)
            lines.append(",".join("" if v is None else f"{v:.6g}" if isinstance(v, float) else str(v) for v in values))
    return [line + "\n" for line in lines]


def summary(study: Study, scopes: Sequence[Scope], asked: Asked) -> dict[str, Any]:
    """All numbers of the page."""
    return {
        **about(),
        "ours": study.ours,
        "halves": study.halves,
        "asked": [
            {
                "what": question.what,
                "asked": question.asked,
                "reached": {s.key: None if a is None else asdict(a) for s, a in zip(scopes, answers)},
            }
            for question, answers in asked
        ],
        "scopes": {scope.key: _scope_summary(scope) for scope in scopes},
        "datasets": {
            name: {m: _measures(study.results[m][name].measures) for m in study.methods if name in study.results[m]}
            for name in study.cards
        },
    }


def _scope_summary(scope: Scope) -> dict[str, Any]:
    return {
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
    return {
        "won": comparison.count.wins,
        "lost": comparison.count.losses,
        "lost_at_99": comparison.lost if comparison.significant else None,
        "median": float(np.median(comparison.differences)),
        "p": comparison.p_value,
        "p_holm": float(p_holm),
    }


def _measures(values: Mapping[str, float]) -> dict[str, float | None]:
    return {name: None if np.isnan(value) else float(f"{value:.6g}") for name, value in values.items()}
