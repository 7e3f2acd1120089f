"""A whole fit with automatic selection: against LightGBM, and against naive Bayes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import real_data
from lightgbm import LGBMClassifier
from measure import Result, seconds
from sklearn.naive_bayes import CategoricalNB, GaussianNB
from sklearn.preprocessing import OrdinalEncoder

from fanbayes import FANClassifier, NBClassifier


def run() -> list[Result]:
    if real_data.folder() is None:
        return []
    warnings.simplefilter("ignore")
    return [*against_boosting(), *against_naive_bayes()]


def against_boosting() -> list[Result]:
    results = []
    for data in real_data.load(["adult", "letter"]):
        frame = data.X.copy()
        for name, kind in data.kinds.items():
            if kind == "discrete":
                frame[name] = frame[name].astype("category")
        ours, theirs = seconds(
            lambda: FANClassifier(max_components=10, random_state=0, n_jobs=2).fit(frame, data.y),  # noqa: B023
            lambda: LGBMClassifier(n_jobs=2, verbose=-1).fit(frame, data.y),  # noqa: B023
            repeat=3,
        )
        detail = {"s": {"fanbayes": ours, "lightgbm": theirs}}
        results.append(Result(f"fit, {data.name}: LightGBM / FAN with selection", theirs / ours, 1, detail=detail))
    return results


def against_naive_bayes() -> list[Result]:
    rows = []
    for data in real_data.load():
        fan, *nb = seconds(
            lambda: FANClassifier(random_state=0, n_jobs=2).fit(data.X, data.y),  # noqa: B023
            lambda: NBClassifier(n_jobs=2).fit(data.X, data.y),  # noqa: B023
            *_sklearn(data),
            repeat=3,
        )
        best = min(nb)
        rows.append({"dataset": data.name, "rows": len(data.y), "ratio": fan / best, "FAN s": fan, "NB s": best})
    everywhere = float(np.median([r["ratio"] for r in rows]))
    large = float(np.median([r["ratio"] for r in rows if r["rows"] > 5000]))
    return [
        Result(
            "fit, FAN with selection / the faster naive Bayes, median", everywhere, 20, "less", detail={"sets": rows}
        ),
        Result("the same, sets of more than 5,000 rows", large, 20, "less"),
    ]


def _sklearn(data: Any) -> list[Callable[[], Any]]:
    """Fit scikit-learn's naive Bayes to the same frame, encoded as it needs; it has none for mixed columns."""
    kinds = set(data.kinds.values())
    if len(kinds) > 1 or data.X.isna().any(axis=None):
        return []
    if kinds == {"continuous"}:
        return [lambda: GaussianNB().fit(data.X, data.y)]
    return [lambda: CategoricalNB().fit(OrdinalEncoder().fit_transform(data.X), data.y)]
