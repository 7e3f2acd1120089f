"""Forests whose leaves are shrunk to the class shares, so that no tree votes zero; size of leaves tuned."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from calibration import log_softmax
from encoding import for_forest
from problem import Fitted, Floats, Problem, Rows, calibrated_loss, empty
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

LEAST_LEAVES = (1, 3, 10)
LEAST_OF_EXTRA = (1, 4)
STRENGTHS = (0.1, 0.5, 2.0)  # rows with the class shares that each leaf has besides
N_TREES, N_TREES_OF_SEARCH = 300, 100
FEWER_TREES_FROM = 10_000


def forest(problem: Problem) -> Fitted:
    """Random forest; the rows that a tree has not seen tell leaves and strength."""
    encoder = for_forest(problem.kinds)
    Z, y = encoder.fit_transform(problem.X), problem.y

    def fit(n_trees: int, leaf: int) -> Any:
        return RandomForestClassifier(n_trees, min_samples_leaf=leaf, random_state=0, n_jobs=1).fit(Z, y)

    tables = {}
    for leaf in LEAST_LEAVES:
        model = fit(N_TREES_OF_SEARCH, leaf)
        for m in STRENGTHS:
            tables[leaf, m] = _out_of_bag(model, Z, y, m)
    leaf, m = min(tables, key=lambda setting: calibrated_loss(tables[setting], y))
    model = fit(_size(problem), leaf)
    held_out = _out_of_bag(model, Z, y, m)
    return Fitted(lambda X: votes(model, encoder.transform(X), y, m), held_out, {"leaf": leaf, "m": m})


def extra_trees(problem: Problem) -> Fitted:
    encoder = for_forest(problem.kinds)
    Z, y = encoder.fit_transform(problem.X), problem.y

    def fit(n_trees: int, leaf: int, rows: Rows) -> Any:
        return ExtraTreesClassifier(n_trees, min_samples_leaf=leaf, random_state=0, n_jobs=1).fit(Z[rows], y[rows])

    tables = {setting: empty(problem) for setting in product(LEAST_OF_EXTRA, STRENGTHS)}
    for (train, valid), leaf in product(problem.splits, LEAST_OF_EXTRA):
        model = fit(N_TREES_OF_SEARCH, leaf, train)
        for m in STRENGTHS:
            tables[leaf, m][valid] = votes(model, Z[valid], y[train], m)
    leaf, m = min(tables, key=lambda setting: calibrated_loss(tables[setting], y))
    model = fit(_size(problem), leaf, np.arange(len(y)))
    return Fitted(lambda X: votes(model, encoder.transform(X), y, m), tables[leaf, m], {"leaf": leaf, "m": m})


def votes(model: Any, Z: Floats, y: Rows, m: float) -> Floats:
    """Log of the mean over trees of (rows of a class in the leaf + m share) / (rows in the leaf + m)."""
    leaves, shares = model.apply(Z), np.bincount(y) / len(y)
    total = np.zeros((len(Z), len(shares)))
    for tree, leaf in zip(model.estimators_, leaves.T):
        total += _smoothed(tree, shares, m)[leaf]
    return log_softmax(np.log(total))


def _out_of_bag(model: RandomForestClassifier, Z: Floats, y: Rows, m: float) -> Floats:
    """The same for training rows, each by the trees that have not seen it; NaN where all have."""
    leaves, shares = model.apply(Z), np.bincount(y) / len(y)
    total = np.zeros((len(Z), len(shares)))
    for tree, leaf, seen in zip(model.estimators_, leaves.T, model.estimators_samples_):
        new = np.ones(len(Z), bool)
        new[seen] = False
        total[new] += _smoothed(tree, shares, m)[leaf[new]]
    total[~total.any(axis=1)] = np.nan
    return log_softmax(np.log(total))


def _smoothed(tree: Any, shares: Floats, m: float) -> Floats:
    """Class probabilities of each node (n_nodes, n_classes)."""
    size = tree.tree_.weighted_n_node_samples[:, None]
    return (tree.tree_.value[:, 0, :] * size + m * shares) / (size + m)


def _size(problem: Problem) -> int:
    return N_TREES if len(problem.y) < FEWER_TREES_FROM else N_TREES_OF_SEARCH
