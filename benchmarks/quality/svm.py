"""A support vector machine with a radial kernel, calibrated by Platt's scaling on rows held out."""

from __future__ import annotations

from itertools import combinations, product
from typing import Any

import numpy as np
from encoding import for_linear
from problem import Fitted, Floats, Problem, Rows, empty, grid_search, log_of
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

PENALTIES = (0.3, 1.0, 3.0, 10.0, 100.0)
WIDTHS = (0.1, 0.3, 1.0, 3.0)  # gamma, times one over the number of encoded columns
# C and gamma are chosen with at most so many rows fitted: a fit takes more than the square of their number.
MOST_SEARCHED = 3_000
# Above, the kernel is approximated, as scikit-learn's guide advises.
MOST_EXACT = 20_000
LANDMARKS = 1_000


def svm(problem: Problem) -> Fitted:
    encoder = for_linear(problem.kinds)
    Z, y = encoder.fit_transform(problem.X), problem.y
    unit = 1 / (Z.shape[1] * max(Z.var(), 1e-12))

    def machine(C: float, width: float, rows: Rows) -> Any:
        return SVC(C=C, gamma=width * unit, decision_function_shape="ovo", cache_size=500).fit(Z[rows], y[rows])

    def on_sample(setting: tuple[float, float], train: Rows, valid: Rows) -> Floats:
        return margins(machine(*setting, sample(y, train)), Z[valid])

    (C, width), held_out = grid_search(problem, list(product(PENALTIES, WIDTHS)), on_sample, offsets=True)
    if len(y) > MOST_EXACT:
        return _approximate(problem, encoder, Z, C, width * unit)
    if any(len(train) > MOST_SEARCHED for train, _ in problem.splits):
        held_out = empty(problem)
        for train, valid in problem.splits:
            held_out[valid] = margins(machine(C, width, train), Z[valid])
    model = machine(C, width, np.arange(len(y)))
    return Fitted(lambda X: margins(model, encoder.transform(X)), held_out, {"C": C, "gamma": width})


def _approximate(problem: Problem, encoder: Any, Z: Floats, C: float, gamma: float) -> Fitted:
    """Logistic regression on the kernel at landmarks; it has probabilities of its own."""

    def fit(rows: Rows) -> Any:
        kernel = Nystroem(gamma=gamma, n_components=LANDMARKS, random_state=0)
        return make_pipeline(kernel, LogisticRegression(C=C, max_iter=200)).fit(Z[rows], problem.y[rows])

    held_out = empty(problem)
    for train, valid in problem.splits:
        held_out[valid] = log_of(fit(train).predict_proba(Z[valid]))
    model = fit(np.arange(len(problem.y)))
    chosen = {"C": C, "gamma": gamma, "landmarks": LANDMARKS}
    return Fitted(lambda X: log_of(model.predict_proba(encoder.transform(X))), held_out, chosen)


def sample(y: Rows, rows: Rows) -> Rows:
    """At most so many of the rows, with some of every class."""
    if len(rows) <= MOST_SEARCHED:
        return rows
    order = np.random.default_rng(0).permutation(rows)
    first = np.concatenate([order[y[order] == c][:5] for c in np.unique(y[rows])])
    return np.sort(np.concatenate([first, order[~np.isin(order, first)][: MOST_SEARCHED - len(first)]]))


def margins(model: SVC, Z: Floats) -> Floats:
    """Mean margin of each class over the others (n, n_classes), from the machines of the pairs."""
    pairs = model.decision_function(Z)
    if pairs.ndim == 1:
        return np.column_stack([-pairs, pairs]) / 2
    k = len(model.classes_)
    total = np.zeros((len(Z), k))
    for column, (i, j) in enumerate(combinations(range(k), 2)):
        margin = np.clip(pairs[:, column], -3, 3)
        total[:, i] += margin
        total[:, j] -= margin
    return total * 2 / k
