"""Explainable boosting machine. The bags of a first fit leave out an inner fold each, which they then predict."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
import pandas as pd
from encoding import Texts, columns
from numpy.typing import NDArray
from problem import Fitted, Floats, Problem, empty, log_of

# What its documentation names to save time; fewer bags than the 14 of the defaults.
FASTER = {"inner_bags": 0, "learning_rate": 0.04, "early_stopping_rounds": 50, "max_rounds": 2_000}
N_BAGS = 8
N_PAIRS = 10  # of two classes; of more there are none, as they would take too long
STOP_BY = 0.15  # of the rows of a bag, its default


def ebm(problem: Problem) -> Fitted:
    encoder = Texts(columns(problem.kinds, "discrete"))
    Z, y = encoder.fit_transform(problem.X), problem.y
    bags = np.stack([_bag(problem, train, k) for k, (train, _) in enumerate(problem.splits)])
    first = _fit(problem, Z, outer_bags=len(bags), bags=bags)
    held_out = empty(problem)
    for k, (_, valid) in enumerate(problem.splits):
        held_out[valid] = log_of(_of_bag(first, k).predict_proba(Z.iloc[valid]))
    every = np.arange(len(y))
    model = _fit(problem, Z, outer_bags=N_BAGS, bags=np.stack([_bag(problem, every, 100 + k) for k in range(N_BAGS)]))

    def scores(X: pd.DataFrame) -> Floats:
        return log_of(model.predict_proba(encoder.transform(X)))

    return Fitted(scores, held_out, {"pairs": _n_pairs(problem)})


def _n_pairs(problem: Problem) -> int:
    return N_PAIRS if problem.n_classes == 2 else 0


def _fit(problem: Problem, Z: pd.DataFrame, *, bags: NDArray[np.int8], outer_bags: int) -> Any:
    from interpret.glassbox import ExplainableBoostingClassifier

    types = ["nominal" if kind == "discrete" else "continuous" for kind in problem.kinds.values()]
    model = ExplainableBoostingClassifier(
        feature_types=types,
        outer_bags=outer_bags,
        interactions=_n_pairs(problem),
        n_jobs=1,
        random_state=0,
        **FASTER,
    )
    return model.fit(Z, problem.y, bags=bags.T)


def _bag(problem: Problem, rows: NDArray[np.intp], seed: int) -> NDArray[np.int8]:
    """1 for rows of a bag that are fitted, -1 for those that stop it, 0 for rows that it does not know."""
    bag = np.zeros(len(problem.y), np.int8)
    bag[rows] = 1
    order = np.random.default_rng(seed).permutation(rows)
    # A class is not all in the rows that stop it.
    counts = np.bincount(problem.y[rows], minlength=problem.n_classes)
    for row in order[: max(1, round(STOP_BY * len(rows)))]:
        if counts[problem.y[row]] > 1:
            counts[problem.y[row]] -= 1
            bag[row] = -1
    return bag


def _of_bag(model: Any, k: int) -> Any:
    """The model that one bag alone has learnt."""
    single = copy(model)
    single.term_scores_ = [np.asarray(scores[k]) for scores in model.bagged_scores_]
    single.intercept_ = np.asarray(model.bagged_intercept_[k]).reshape(np.shape(model.intercept_))
    return single
