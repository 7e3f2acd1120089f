"""Values missing at prediction: FANClassifierCV beside HistGradientBoosting, naive Bayes and the class shares.

Training rows are as the set has them. Of the test rows 10, 30 and 60 % of the values are deleted at random, or a whole
column is, up to eight in turn; all methods see the same holes. On one set a method is better if a paired t-test over
the test rows says so, after Holm's correction over all sets and deletions. Log losses are clipped at -log 1e-9.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import real_data
from measure import Result
from quality.encoding import Categories, columns
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import StratifiedKFold

from fanbayes import FANClassifierCV, NBClassifier
from fanbayes.evaluation.significance import holm, paired_t

FEWEST, MOST, MOST_COLUMNS = 150, 5000, 60  # rows and columns of the sets
MOST_TRAINING, MOST_TEST = 2000, 1000
SHARES = {"10 %": 0.1, "30 %": 0.3, "60 %": 0.6}
CLIP = 1e-9
METHODS = ("FANClassifierCV", "HistGradientBoosting", "naive Bayes", "class shares")


def run() -> list[Result]:
    if real_data.folder() is None:
        return []
    warnings.simplefilter("ignore")
    losses = {data.name: _losses(data) for data in _sets()}
    scenarios = [*SHARES, "a column"]
    results = []
    for scenario in scenarios:
        table = pd.DataFrame([{m: of[scenario][m].mean() for m in METHODS} for of in losses.values()])
        means, ranks = table.mean(), table.rank(axis=1).mean()
        detail = {"sets": list(losses), "log loss": means.to_dict(), "mean rank": ranks.to_dict()}
        name = f"{scenario} missing at prediction: log loss of {METHODS[1]} / ours"
        results.append(Result(name, float(means[METHODS[1]] / means[METHODS[0]]), 1, detail=detail))
        lead = float(ranks[list(METHODS[1:])].min() - ranks[METHODS[0]])
        results.append(Result(f"{scenario}: lead in mean rank over the next of {len(METHODS)}", lead, 0, unit=""))
    for other in METHODS[2:]:
        pairs = [(name, s, of[s][METHODS[0]], of[s][other]) for name, of in losses.items() for s in scenarios]
        p_values = holm([paired_t(ours, theirs).p_value for *_, ours, theirs in pairs])
        worse = [
            {"set": name, "missing": s, "ours": float(ours.mean()), other: float(theirs.mean()), "p": p}
            for (name, s, ours, theirs), p in zip(pairs, p_values.tolist())
            if p < 0.05 and ours.mean() > theirs.mean()
        ]
        name = f"significantly worse than {other}, of {len(pairs)} cases"
        results.append(Result(name, len(worse), 0, "less", "", {"cases": worse}))
    return results


def _sets() -> Iterator[Any]:
    """One set of each related group."""
    seen = set()
    for data in real_data.load():
        if FEWEST <= len(data.y) <= MOST and data.X.shape[1] <= MOST_COLUMNS and (data.group or data.name) not in seen:
            seen.add(data.group or data.name)
            yield data


def _losses(data: Any) -> dict[str, dict[str, np.ndarray]]:
    """Log loss of each test row, by deletion and method; three folds of small sets, one of others."""
    X, y = data.X.reset_index(drop=True), np.unique(np.asarray(data.y), return_inverse=True)[1]
    folds = list(StratifiedKFold(3, shuffle=True, random_state=0).split(X, y))[: 3 if len(y) <= 1000 else 1]
    parts = [_one_fold(data, X, y, train[:MOST_TRAINING], test[:MOST_TEST], k) for k, (train, test) in enumerate(folds)]
    return {s: {m: np.concatenate([p[s][m] for p in parts]) for m in METHODS} for s in parts[0]}


def _one_fold(data: Any, X: Any, y: Any, train: Any, test: Any, seed: int) -> dict[str, dict[str, np.ndarray]]:
    rows, classes, rng = X.iloc[test], y[test], np.random.default_rng(seed)
    categories = Categories(columns(data.kinds, "discrete")).fit(X.iloc[train])
    models = {
        METHODS[0]: (FANClassifierCV(random_state=0), lambda frame: frame),
        METHODS[1]: (HistGradientBoostingClassifier(random_state=0), categories.transform),
        METHODS[2]: (NBClassifier(), lambda frame: frame),
    }
    for model, view in models.values():
        model.fit(view(X.iloc[train]), y[train])
    dropped = rng.permutation(X.shape[1])[:8]
    holes = {s: [rng.random(rows.shape) < share] for s, share in SHARES.items()}
    holes["a column"] = [np.tile(np.arange(X.shape[1]) == j, (len(rows), 1)) for j in dropped]
    shares = np.bincount(y[train], minlength=int(y.max()) + 1) / len(train)

    def loss(name: str, frame: Any) -> np.ndarray:
        p = np.zeros((len(frame), len(shares)))
        if name in models:
            model, view = models[name]
            p[:, model.classes_] = model.predict_proba(view(frame))
        else:
            p[:] = shares
        return -np.log(np.maximum(p[np.arange(len(p)), classes], CLIP))

    return {
        s: {m: np.mean([loss(m, rows.mask(mask)) for mask in masks], axis=0) for m in METHODS}
        for s, masks in holes.items()
    }
