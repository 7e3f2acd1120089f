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
from collections.abc import Callable, Sequence
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


def made(
    n: int = 600,
    n_numbers: int = 3,
    n_codes: int = 3,
    *,
    holes: float = 0.0,
    unlabelled: float = 0.0,
    weights: Sequence[float] = (),
    change: Callable[[pd.DataFrame], dict[str, Any]] | None = None,
    **how: Any,
) -> Table:
    """A table as `drawn`, of which shares of the values and labels are missing, and columns changed."""
    X, y = drawn(n, n_numbers, n_codes, **how)
    if change is not None:
        X = X.assign(**change(X))
    X = X.mask(np.random.default_rng(2).random(X.shape) < holes)
    y = np.where(np.random.default_rng(3).random(len(y)) < unlabelled, None, y)
    return Table(X, y, np.random.default_rng(4).choice(weights, n) if weights else None)


def huge(X: pd.DataFrame) -> dict[str, Any]:
    return {"x0": X.x0 * 1e150, "x1": X.x1 * 1e-150, "x2": X.x2 + 1e9, "x3": np.exp(8 * X.x3)}


def many_levels(X: pd.DataFrame) -> dict[str, Any]:
    return {"k1": [f"u{k}" for k in np.random.default_rng(5).integers(0, 400, len(X))]}


TABLES: dict[str, dict[str, Any]] = {
    "mixed": {},
    "overlapping": {"apart": 1.0},
    "numbers": {"n_numbers": 5, "n_codes": 0},
    "codes": {"n_numbers": 0, "n_codes": 6},
    "two_classes": {"n_classes": 2},
    "holes": {"holes": 0.15},
    "few_holes": {"holes": 0.03},
    "weighted": {"weights": (0.0, 0.5, 1.0, 2.0, 3.0)},
    "unlabelled": {"unlabelled": 0.4},
    "everything": {"holes": 0.1, "unlabelled": 0.3, "weights": (0.5, 1.0, 2.0)},
    "wide": {"n": 80, "n_numbers": 250, "n_codes": 250},
    "many_levels": {"n": 1500, "n_numbers": 2, "n_codes": 2, "change": many_levels},
    "tiny": {"n": 6, "n_numbers": 2, "n_codes": 2, "n_classes": 2},
    "constant": {"n": 300, "n_numbers": 2, "n_codes": 2, "change": lambda X: {"k1": "same", "x1": 7.5}},
    "one_class": {"n": 300, "n_numbers": 2, "n_codes": 2, "n_classes": 1},
    "huge": {"n": 300, "n_numbers": 4, "n_codes": 1, "change": huge},
    "large": {"n": 20_000, "n_numbers": 4, "n_codes": 4},
    "large_holes": {"n": 20_000, "n_numbers": 4, "n_codes": 4, "holes": 0.1, "unlabelled": 0.2},
}

# ---------------------------------------------------------------- cases

Case = tuple[str, dict[str, Any], str]  # model, its options, table
NB, FM, FAN, CV = "NBClassifier", "FMClassifier", "FANClassifier", "FANClassifierCV"
PER_CLASS = {"mixing": "per_class"}
GIVEN = {"cv": "given"}
BY_CLASS = {"n_components": {"c0": 1, "c1": 3, "c2": 2}, **PER_CLASS}


def on(model: str, options: dict[str, Any], tables: str) -> list[Case]:
    return [(model, options, table) for table in tables.split()]


CASES: list[Case] = [
    # Every table by naive Bayes, and in most ways that it can be set.
    *on(NB, {}, "mixed numbers codes holes weighted unlabelled everything wide"),
    *on(NB, {}, "many_levels tiny constant one_class huge large_holes"),
    (NB, {"alpha": 0.1, "variance_floor": 0.5}, "holes"),
    (NB, {"variance": "tied"}, "mixed"),
    (NB, {"variance": "paper"}, "mixed"),
    (NB, {"discretize": "mdlp"}, "mixed"),
    (NB, {"algorithm": "cem"}, "unlabelled"),
    # FAN on every table, the number of components chosen.
    *on(FAN, {}, "mixed numbers codes two_classes holes weighted unlabelled everything"),
    *on(FAN, {}, "overlapping many_levels tiny constant one_class huge large large_holes"),
    (FAN, {"max_components": 2}, "wide"),
    *((FAN, {"criterion": criterion}, "mixed") for criterion in ("bic", "aic", "cs")),
    *((FAN, {"criterion": criterion}, "unlabelled") for criterion in ("bic", "cs")),
    *((FAN, {"variance": variance}, "mixed") for variance in ("tied", "tied_class", "paper")),
    (FAN, {"variance": "tied"}, "everything"),
    *on(FAN, {"algorithm": "cem"}, "mixed everything"),
    (FAN, {"discretize": "mdlp"}, "holes"),
    (FAN, {"alpha": 0.3, "variance_floor": 0.1, "n_init": 5, "patience": 1}, "mixed"),
    (FAN, {"n_components": 4}, "mixed"),
    (FAN, {"n_components": 3, "max_iter": 7}, "holes"),
    # Components of each class.
    *on(FAN, PER_CLASS, "mixed overlapping holes weighted unlabelled large"),
    (FAN, {**PER_CLASS, "criterion": "bic"}, "unlabelled"),
    (FAN, {**PER_CLASS, "variance": "tied_class"}, "mixed"),
    (FAN, {**PER_CLASS, "algorithm": "cem"}, "mixed"),
    (FAN, {**PER_CLASS, "n_components": 3}, "everything"),
    *on(FAN, BY_CLASS, "mixed everything"),
    # The finite mixture.
    *on(FM, {}, "mixed overlapping numbers codes everything tiny large"),
    (FM, {"criterion": "bic", "variance": "tied"}, "mixed"),
    (FM, {"n_components": 6, "algorithm": "cem"}, "holes"),
    # Averages; folds that are given do not depend on how a commit would make them.
    *on(CV, {**GIVEN, "effort": "fast"}, "mixed numbers codes two_classes constant wide"),
    *on(CV, {**GIVEN, "effort": "fast"}, "holes few_holes weighted unlabelled everything"),
    (CV, {**GIVEN}, "overlapping"),
    (CV, {**GIVEN, "effort": "best"}, "two_classes"),
    *on(CV, {"effort": "fast"}, "mixed weighted unlabelled tiny one_class large"),
    (CV, {}, "two_classes"),
    (CV, {"cv": 3}, "few_holes"),
]


def name_of(model: str, options: dict[str, Any], table: str) -> str:
    settings = [f"{key}={value}" for key, value in options.items()]
    return " ".join([model.replace("Classifier", ""), table, *settings])


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
    tables: Callable[[str], Table] = cache(lambda name: made(**TABLES[name]))
    found = {}
    for model, options, table in CASES:
        name = name_of(model, options, table)
        if not words or any(word in name for word in words):
            start = time.perf_counter()
            found[name] = outcome(model, options, tables(table))
            print(f"{time.perf_counter() - start:6.1f} s  {name}", file=sys.stderr)
    return found


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    json.dump(outcomes(sys.argv[1:]), sys.stdout)
