"""Naive Bayes against scikit-learn's, a million rows."""

from __future__ import annotations

import numpy as np
from measure import Result, seconds
from sklearn.naive_bayes import CategoricalNB, GaussianNB

from fanbayes import NBClassifier


def run() -> list[Result]:
    rng = np.random.default_rng(0)
    n = 1_000_000
    y = rng.integers(0, 3, n)
    discrete = rng.integers(0, 5, (n, 20))
    continuous = rng.standard_normal((n, 20)) + 0.3 * y[:, None]
    results = []
    for name, X, ours, theirs in (
        ("CategoricalNB", discrete, NBClassifier(categorical_features="all"), CategoricalNB()),
        ("GaussianNB", continuous, NBClassifier(), GaussianNB()),
    ):
        a, b = seconds(lambda: ours.fit(X, y), lambda: theirs.fit(X, y), repeat=3)  # noqa: B023
        c, d = seconds(lambda: ours.predict_proba(X), lambda: theirs.predict_proba(X), repeat=3)  # noqa: B023
        what = f"1,000,000 x 20: scikit-learn's {name} / NBClassifier"
        results.append(Result(f"fit, {what}", b / a, 1, detail={"s": {"fanbayes": a, "sklearn": b}}))
        results.append(Result(f"predict_proba, {what}", d / c, 1, detail={"s": {"fanbayes": c, "sklearn": d}}))
    return results
