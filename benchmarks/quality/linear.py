"""Logistic regression whose penalty is chosen by cross-validation."""

from __future__ import annotations

import numpy as np
from encoding import for_linear
from problem import Fitted, Floats, Problem, Rows, grid_search, log_of
from sklearn.linear_model import LogisticRegression

STRENGTHS = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
MOST_STEPS = 500


def logistic(problem: Problem) -> Fitted:
    encoder = for_linear(problem.kinds)
    Z, y = encoder.fit_transform(problem.X), problem.y

    def fit(C: float, rows: Rows) -> LogisticRegression:
        return LogisticRegression(C=C, max_iter=MOST_STEPS).fit(Z[rows], y[rows])

    def scores(C: float, train: Rows, valid: Rows) -> Floats:
        return log_of(fit(C, train).predict_proba(Z[valid]))

    C, held_out = grid_search(problem, STRENGTHS, scores)
    model = fit(C, np.arange(len(y)))
    return Fitted(lambda X: log_of(model.predict_proba(encoder.transform(X))), held_out, {"C": C})
