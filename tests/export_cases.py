"""Tables and models that every export has to reproduce."""

import numpy as np
import pandas as pd

from fanbayes import FANClassifier, FANClassifierCV, FMClassifier, MDAClassifier, NBClassifier, TANClassifier


def table(n, seed, missing=0.1):
    """Rows of all kinds of columns, some of the values missing, and their classes."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 3, n)
    X = pd.DataFrame(
        {
            "colour": pd.Categorical(np.array(["red", "green", "blue", "grey"])[(group + rng.integers(0, 2, n)) % 4]),
            "height": 1e3 + 20 * (group + rng.normal(size=n)),
            "flag": pd.Categorical(rng.random(n) < 0.2 + 0.3 * group),
            "events": rng.poisson(1 + 2 * group).astype(float),
            "noise": rng.normal(size=n) * 1e-200,
            "code": pd.Categorical((group + rng.integers(0, 4, n)) * 7),
            "constant": 3.0,
        }
    )
    X["width"] = 0.05 * X["height"] + rng.normal(size=n)
    X = X.mask(rng.random(X.shape) < missing)
    return X, np.array(["ill", "well", "unsure"])[(group + (rng.random(n) < 0.15)) % 3]


def chained(n, seed):
    """Rows of numbers that depend on each other and on categories, many of them missing, and their classes."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    Z = rng.normal(size=(n, 6))
    for child, parent in ((1, 0), (2, 1), (3, 1), (4, 3), (5, 4)):
        Z[:, child] += (y + 1) * Z[:, parent]
    kind = np.array(["x", "y", "z"])[(y + (Z[:, 5] > 0)) % 3]
    X = pd.DataFrame(Z, columns=list("abcdef")).assign(kind=kind, like=np.where(rng.random(n) < 0.8, kind, "w"))
    return X.mask(rng.random(X.shape) < 0.3), y


def asked(n=1000):
    """Rows with more holes, one without any value, numbers far out, and categories that were never seen."""
    X, _ = table(n, 1)
    rng = np.random.default_rng(2)
    X = X.mask(rng.random(X.shape) < rng.choice([0.0, 0.3, 0.8], n)[:, None])
    X["colour"] = X["colour"].cat.add_categories(["unheard of"])
    X.loc[rng.random(n) < 0.1, "colour"] = "unheard of"
    X.loc[::50, "height"] = 2e3
    X.iloc[7] = None
    return X


TABLE, ASKED = table(250, 0), asked()
# What is seldom missing is filled in by an average; one column is missing often, and left out.
FILLED = table(150, 0, missing=0.02)
FILLED[0].loc[::7, "width"] = np.nan
RAGGED = {"ill": 3, "well": 1, "unsure": 2}
MODELS = {
    "nb": NBClassifier(),
    "nb, binned": NBClassifier(discretize="mdlp"),
    "nb, informative": NBClassifier(missing="informative"),
    "nb, counts": NBClassifier(distributions={"events": "poisson"}),
    "fm": FMClassifier(n_components=3, random_state=0),
    "fan": FANClassifier(n_components=2, random_state=0),
    "fan, tied": FANClassifier(n_components=2, variance_tying="class", missing="informative", random_state=0),
    "fan, per class": FANClassifier(n_components=RAGGED, mixing="per_class", random_state=0),
    "fan, tree": FANClassifier(n_components=2, tree="full", random_state=0),
    "tan": TANClassifier(distributions={"events": "poisson"}),
    "tan, binned": TANClassifier(discretize="mdlp", missing="informative"),
    "mda": MDAClassifier(n_components=2, random_state=0),
    "average": FANClassifierCV(effort="fast", cv=2, random_state=0),
    "average, informative": FANClassifierCV(effort="fast", cv=2, missing="informative", random_state=0),
    "mda, tied in classes": MDAClassifier(n_components=2, covariance_tying="class", random_state=0),
}

HARD = {
    "numbers at both ends": pd.DataFrame(
        {"x": [1e308, -1e308, 3.0, None] * 5, "z": [5e-324, 1e-310, 0.0, -1e-309] * 5}
    ),
    "names and levels": pd.DataFrame(
        {
            "__proto__": pd.Categorical(["a", "b", "a", None] * 5),
            "constructor": pd.Categorical(["\u2028", '"\\', "</script>", "é"] * 5),
            "truth": pd.Categorical([True, False, True, True] * 5),
            "share": pd.Categorical([0.5, 1.0, 2.25, None] * 5),
        }
    ),
    "nothing to learn from": pd.DataFrame({"constant": [1.0] * 20, "empty": [None] * 20}),
}
