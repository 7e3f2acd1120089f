"""Tree-augmented naive Bayes: its fit beside naive Bayes' and that of others, and EM with a tree beside EM without."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np
from measure import Result, seconds

from fanbayes import FANClassifier, NBClassifier, TANClassifier
from fanbayes.learning.data import InMemoryData
from fanbayes.learning.tree_data import tree_data


def run() -> list[Result]:
    rng = np.random.default_rng(0)
    n = 1_000_000
    y = rng.integers(0, 3, n)
    X = rng.integers(0, 5, (n, 20))
    for j in range(1, 20):  # something to find: a column repeats the one before it
        X[:, j] = np.where(rng.random(n) < 0.2 + 0.2 * y, X[:, j - 1], X[:, j])
    nb, tan = NBClassifier(categorical_features="all"), TANClassifier(categorical_features="all", tree="full")
    a, b = seconds(lambda: nb.fit(X, y), lambda: tan.fit(X, y), repeat=3)
    fit = Result("fit, 1,000,000 x 20 discrete: TAN / NB", b / a, 5, "less", detail={"s": {"NB": a, "TAN": b}})
    return [fit, _pass(X[:50_000], y[:50_000]), *_peers(X[:200_000], y[:200_000])]


def _peers(X: np.ndarray, y: np.ndarray) -> list[Result]:
    """Fits of full trees by other programs, which get their own form of the rows beforehand, once each."""
    sys.path.insert(0, str(Path(__file__).parent / "witnesses"))
    import agrum
    import weka
    from discrete_sets import DiscreteSet

    data = DiscreteSet(X, y)
    words = agrum.as_text(data)
    fits = {"pyAgrum": lambda: agrum.fit_tan(*words)}
    if weka.is_installed():
        rows = weka.instances(data)
        fits["Weka"] = lambda: weka.tan().buildClassifier(rows)
    ours = TANClassifier(categorical_features="all", tree="full")
    results = []
    for name, theirs in fits.items():
        a, b = seconds(lambda: ours.fit(X, y), theirs, repeat=1)
        detail = {"s": {"TANClassifier": a, name: b}}
        results.append(Result(f"fit, 200,000 x 20 discrete: TAN of {name} / TANClassifier", b / a, 20, detail=detail))
    return results


def _pass(X: np.ndarray, y: np.ndarray) -> Result:
    """One E-step over all rows, five components, with a tree and without."""
    plain, arcs = (
        FANClassifier(5, tree=tree, categorical_features="all", n_init=1, max_iter=4, random_state=0)
        for tree in ("none", "full")
    )
    table = plain._cases(X, y, None).encoded("none")[1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # four passes are no convergence
        networks = plain.fit(X, y).network_, arcs.fit(X, y).network_
    data = InMemoryData(table.fused().by_class()), tree_data(networks[1].layout, table, None)
    a, b = seconds(*(lambda d=d, n=n: d.e_step(n.terms) for d, n in zip(data, networks)), repeat=9)
    name = "EM pass, 50,000 x 20 discrete, 5 components: FAN with a tree / FAN"
    return Result(name, b / a, 2, "less", detail={"s": {"FAN": a, "with a tree": b}})
