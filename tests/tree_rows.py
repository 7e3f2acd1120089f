"""Rows that the tests of trees are grown on."""

from dataclasses import replace

import numpy as np
import pandas as pd

from fanbayes import NBClassifier
from fanbayes.data.views import View


def encoded(X, y, weights=None):
    """View and table of labelled rows; a label of -1 is none."""
    rows = NBClassifier()._cases(X, np.maximum(y, 0), weights).training_table()
    return View(rows.schema, None), replace(rows.table, labels=np.asarray(y, dtype=np.int32))


def logical(n=300, seed=0, missing=0.0):
    """The class is an exclusive or of two columns, with noise; naive Bayes sees nothing of it. A third tells a bit."""
    rng = np.random.default_rng(seed)
    a, b = rng.choice(["no", "yes"], (2, n))
    y = ((a == b) ^ (rng.random(n) < 0.05)).astype(int)
    X = pd.DataFrame({"a": a, "b": b, "c": rng.choice(list("uvw"), n), "x": rng.normal(size=n) + y / 2})
    return X.mask(rng.random(X.shape) < missing), y


def loss(log_proba, y):
    return -log_proba[np.arange(len(y)), y].mean()
