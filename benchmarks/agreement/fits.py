"""Fits over everything that can be set, and what comes out of them, as JSON on standard output.

    python benchmarks/agreement/fits.py [WORD ...]

Only cases whose names contain one of the words, or all. `compare.py` runs this by the interpreters of two commits, so
it uses the public API alone, and what is spelt differently in the two is translated here.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable
from functools import cache
from inspect import signature
from typing import Any

import numpy as np
import pandas as pd

import fanbayes

N_NEW = 200  # rows to predict, of which the first have values missing
N_WITH_HOLES = 80
# Where there is no `variance`, its estimator and which cells share it are two parameters.
VARIANCE: dict[str, dict[str, str]] = {
    "map": {},
    "tied": {"variance_tying": "all"},
    "tied_class": {"variance_tying": "class"},
    "paper": {"variance_estimator": "paper"},
}

# ---------------------------------------------------------------- tables


class Table:
    """Rows to learn from and rows to predict.

    Attributes
    ----------
    X, y, sample_weight : what `fit` gets
    new : X-like of N_NEW rows
    """

    def __init__(self, X: pd.DataFrame, y: np.ndarray, sample_weight: np.ndarray | None = None) -> None:
        self.X, self.new = X[N_NEW:].reset_index(drop=True), X[:N_NEW].copy()
        self.y, self.sample_weight = y[N_NEW:], sample_weight
        self.new[:N_WITH_HOLES] = self.new[:N_WITH_HOLES].mask(
            np.random.default_rng(1).random((N_WITH_HOLES, X.shape[1])) < 0.3
        )


def drawn(n: int, n_numbers: int, n_codes: int, n_classes: int = 3, apart: float = 2.0) -> tuple[Any, np.ndarray]:
    """Classes of two, three and one clusters, numbers before codes; N_NEW rows more than `n`.

    Parameters
    ----------
    apart : standard deviation of the clusters' means, in terms of their own
    """
    rng = np.random.default_rng(0)
    n, levels = n + N_NEW, 4
    y = rng.integers(0, n_classes, n)
    at = 3 * y + rng.integers(0, 3, n) % ((y + 1) % 3 + 1)
    numbers = rng.normal(0, apart, (3 * n_classes, n_numbers))[at] + rng.normal(0, 1, (n, n_numbers))
    shares = rng.dirichlet(np.full(levels, 1 / apart), (3 * n_classes, n_codes)).cumsum(axis=-1)
    codes = (rng.random((n, n_codes, 1)) > shares[at]).sum(axis=-1).clip(max=levels - 1)
    X = pd.DataFrame(numbers, columns=[f"x{j}" for j in range(n_numbers)])
    text = np.array(["a", "b", "c", "d"], dtype=object)[codes]
    X = pd.concat([X, pd.DataFrame(text, columns=[f"k{j}" for j in range(n_codes)])], axis=1)
    return X, np.array([f"c{c}" for c in range(n_classes)], dtype=object)[y]


def with_holes(X: pd.DataFrame, share: float) -> pd.DataFrame:
    return X.mask(np.random.default_rng(2).random(X.shape) < share)


def without_labels(y: np.ndarray, share: float) -> np.ndarray:
    return np.where(np.random.default_rng(3).random(len(y)) < share, None, y)


def mixed() -> Table:
    return Table(*drawn(600, 3, 3))


def overlapping() -> Table:
    return Table(*drawn(600, 3, 3, apart=1.0))


def numbers() -> Table:
    return Table(*drawn(600, 5, 0))


def codes() -> Table:
    return Table(*drawn(600, 0, 6))


def two_classes() -> Table:
    return Table(*drawn(600, 3, 3, n_classes=2))


def holes() -> Table:
    X, y = drawn(600, 3, 3)
    return Table(with_holes(X, 0.15), y)


def few_holes() -> Table:
    X, y = drawn(600, 3, 3)
    return Table(with_holes(X, 0.03), y)


def weighted() -> Table:
    return Table(*drawn(600, 3, 3), np.random.default_rng(4).choice([0.0, 0.5, 1.0, 2.0, 3.0], 600))


def unlabelled() -> Table:
    X, y = drawn(600, 3, 3)
    return Table(X, without_labels(y, 0.4))


def everything() -> Table:
    X, y = drawn(600, 3, 3)
    weight = np.random.default_rng(4).choice([0.5, 1.0, 2.0], 600)
    return Table(with_holes(X, 0.1), without_labels(y, 0.3), weight)


def wide() -> Table:
    return Table(*drawn(80, 250, 250))


def many_levels() -> Table:
    X, y = drawn(1500, 2, 2)
    at = np.random.default_rng(5).integers(0, 400, len(X))
    return Table(X.assign(k1=[f"u{k}" for k in at]), y)


def tiny() -> Table:
    return Table(*drawn(6, 2, 2, n_classes=2))


def constant() -> Table:
    X, y = drawn(300, 2, 2)
    return Table(X.assign(k1="same", x1=7.5), y)


def one_class() -> Table:
    return Table(*drawn(300, 2, 2, n_classes=1))


def huge() -> Table:
    X, y = drawn(300, 4, 1)
    return Table(X.assign(x0=X.x0 * 1e150, x1=X.x1 * 1e-150, x2=X.x2 + 1e9, x3=np.exp(8 * X.x3)), y)


def large() -> Table:
    return Table(*drawn(20_000, 4, 4))


def large_holes() -> Table:
    X, y = drawn(20_000, 4, 4)
    return Table(with_holes(X, 0.1), without_labels(y, 0.2))


# ---------------------------------------------------------------- cases

NB, FM, FAN, CV = "NBClassifier", "FMClassifier", "FANClassifier", "FANClassifierCV"
PER_CLASS = {"mixing": "per_class"}
GIVEN = {"cv": "given"}
BY_CLASS = {"n_components": {"c0": 1, "c1": 3, "c2": 2}, **PER_CLASS}
CASES: list[tuple[str, dict[str, Any], Callable[[], Table]]] = [
    # Every table by naive Bayes, and in most ways that it can be set.
    *((NB, {}, table) for table in (mixed, numbers, codes, holes, weighted, unlabelled, everything, wide)),
    *((NB, {}, table) for table in (many_levels, tiny, constant, one_class, huge, large_holes)),
    (NB, {"alpha": 0.1, "variance_floor": 0.5}, holes),
    (NB, {"variance": "tied"}, mixed),
    (NB, {"variance": "paper"}, mixed),
    (NB, {"discretize": "mdlp"}, mixed),
    (NB, {"algorithm": "cem"}, unlabelled),
    # FAN on every table, the number of components chosen.
    *((FAN, {}, table) for table in (mixed, numbers, codes, two_classes, holes, weighted, unlabelled, everything)),
    *((FAN, {}, table) for table in (overlapping, many_levels, tiny, constant, one_class, huge, large, large_holes)),
    (FAN, {"max_components": 2}, wide),
    *((FAN, {"criterion": criterion}, mixed) for criterion in ("bic", "aic", "cs")),
    *((FAN, {"criterion": criterion}, unlabelled) for criterion in ("bic", "cs")),
    *((FAN, {"variance": variance}, mixed) for variance in ("tied", "tied_class", "paper")),
    (FAN, {"variance": "tied"}, everything),
    (FAN, {"algorithm": "cem"}, mixed),
    (FAN, {"algorithm": "cem"}, everything),
    (FAN, {"discretize": "mdlp"}, holes),
    (FAN, {"alpha": 0.3, "variance_floor": 0.1, "n_init": 5, "patience": 1}, mixed),
    (FAN, {"n_components": 4}, mixed),
    (FAN, {"n_components": 3, "max_iter": 7}, holes),
    # Components of each class.
    *((FAN, PER_CLASS, table) for table in (mixed, overlapping, holes, weighted, unlabelled, large)),
    (FAN, {**PER_CLASS, "criterion": "bic"}, unlabelled),
    (FAN, {**PER_CLASS, "variance": "tied_class"}, mixed),
    (FAN, {**PER_CLASS, "algorithm": "cem"}, mixed),
    (FAN, {**PER_CLASS, "n_components": 3}, everything),
    (FAN, BY_CLASS, mixed),
    (FAN, BY_CLASS, everything),
    # The finite mixture.
    *((FM, {}, table) for table in (mixed, overlapping, numbers, codes, everything, tiny, large)),
    (FM, {"criterion": "bic", "variance": "tied"}, mixed),
    (FM, {"n_components": 6, "algorithm": "cem"}, holes),
    # Averages; folds that are given do not depend on how a commit would make them.
    *((CV, {**GIVEN, "effort": "fast"}, table) for table in (mixed, numbers, codes, two_classes, constant, wide)),
    *((CV, {**GIVEN, "effort": "fast"}, table) for table in (holes, few_holes, weighted, unlabelled, everything)),
    (CV, {**GIVEN}, overlapping),
    (CV, {**GIVEN, "effort": "best"}, two_classes),
    *((CV, {"effort": "fast"}, table) for table in (mixed, weighted, unlabelled, tiny, one_class, large)),
    (CV, {}, two_classes),
    (CV, {"cv": 3}, few_holes),
]


def name_of(model: str, options: dict[str, Any], table: Callable[[], Table]) -> str:
    settings = [f"{key}={value}" for key, value in options.items()]
    return " ".join([model.replace("Classifier", ""), table.__name__, *settings])


# ---------------------------------------------------------------- fits


def spelt(model: type, options: dict[str, Any]) -> dict[str, Any]:
    """Options by the names that the model of this commit has for them."""
    known = signature(model).parameters
    out = dict(options)
    if "variance" in options and "variance" not in known:
        out.update(VARIANCE[out.pop("variance")])
    if "random_state" in known:
        out["random_state"] = 0
    return out


def folds(n: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Rows to learn from and rows held out, five times."""
    fold = np.arange(n) % 5
    return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(5)]


def outcome(model: str, options: dict[str, Any], table: Table) -> dict[str, Any]:
    """What a fit gives, as flat lists of numbers; or the error that it raises.

    Returns
    -------
    dict
        Probabilities of the new rows that are "complete" and of those with "holes", "log_joint" of all, "scores",
        "sizes" that were tried and chosen, "n_iter".
    """
    kind = getattr(fanbayes, model)
    if options.get("cv") == "given":
        options = {**options, "cv": folds(len(table.y))}
    try:
        clf = kind(**spelt(kind, options)).fit(table.X, table.y, sample_weight=table.sample_weight)
        proba = clf.predict_proba(table.new)
        out = {"holes": proba[:N_WITH_HOLES].ravel().tolist(), "complete": proba[N_WITH_HOLES:].ravel().tolist()}
        if model == CV:
            members = clf.members_
            scores = [clf.log_score_, *members["weight"], *members["log_score"]]
            return {**out, "log_joint": [], "scores": scores, "sizes": list(map(int, members["n_components"]))}
        tried = clf.selection_
        scores = [clf.log_likelihood_, *(v for name in ("icl", "bic", "aic", "cs") for v in tried[name])]
        sizes = [clf.n_components_, *getattr(clf, "components_per_class_", {}).values(), *tried["n_components"]]
        log_joint = clf.predict_joint_log_proba(table.new).ravel().tolist()
        return {**out, "log_joint": log_joint, "scores": scores, "sizes": list(map(int, sizes)), "n_iter": clf.n_iter_}
    except ValueError as error:
        return {"error": str(error)}


def outcomes(words: list[str]) -> dict[str, dict[str, Any]]:
    """Of the cases whose names contain one of the words, or of all; a line on standard error for each."""
    tables: Callable[[Callable[[], Table]], Table] = cache(lambda make: make())
    found = {}
    for model, options, make in CASES:
        name = name_of(model, options, make)
        if not words or any(word in name for word in words):
            start = time.perf_counter()
            found[name] = outcome(model, options, tables(make))
            print(f"{time.perf_counter() - start:6.1f} s  {name}", file=sys.stderr)
    return found


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    json.dump(outcomes(sys.argv[1:]), sys.stdout)
