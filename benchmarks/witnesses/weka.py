"""Weka 3.6 through its Java API (Debian: weka and default-jre-headless; PyPI: JPype1)."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jpype
import numpy as np
from discrete_sets import DiscreteSet
from numpy.typing import NDArray

JAR = os.environ.get("WEKA_JAR", "/usr/share/java/weka.jar")


def is_installed() -> bool:
    """Whether Weka is where it is looked for."""
    return Path(JAR).exists()


def java(name: str) -> Any:
    """A class of Weka's, or of Java's own; the machine is started when the first is asked for."""
    if not jpype.isJVMStarted():
        if not is_installed():
            raise SystemExit(f"there is no {JAR}: install weka, or tell where it is by WEKA_JAR")
        jpype.startJVM("-Xmx3g", "-Djava.awt.headless=true", classpath=[JAR])
        # Of every row with missing values BayesNet says that it fills them in.
        nowhere = jpype.JClass("java.io.OutputStream").nullOutputStream()
        jpype.JClass("java.lang.System").setErr(jpype.JClass("java.io.PrintStream")(nowhere))
    return jpype.JClass(name)


def version() -> str:
    """Version of Weka."""
    return str(java("weka.core.Version").VERSION)


def instances(data: DiscreteSet, n_levels: Sequence[int] | None = None, n_classes: int | None = None) -> Any:
    """Rows as Weka has them, the class last; -1 is missing."""
    sizes = [*(n_levels or data.n_levels), n_classes or data.n_classes]
    lines = ["@relation rows"]
    for name, size in zip([*data.names, "class"], sizes):
        lines.append(f"@attribute {name} {{{','.join(map(str, range(size)))}}}")
    rows = np.column_stack([data.codes, data.labels]).astype("U11")
    lines += ["@data", *(",".join(row) for row in np.where(rows == "-1", "?", rows).tolist()), ""]
    found = java("weka.core.Instances")(java("java.io.StringReader")("\n".join(lines)))
    found.setClassIndex(found.numAttributes() - 1)
    return found


def naive_bayes() -> Any:
    """Naive Bayes, Laplace's rule."""
    return java("weka.classifiers.bayes.NaiveBayes")()


def aode() -> Any:
    """AODE, m = 1."""
    return java("weka.classifiers.bayes.AODE")()


def tan(alpha: float = 1.0) -> Any:
    """TAN by conditional mutual information, tables by (5)."""
    net = java("weka.classifiers.bayes.BayesNet")()
    search = java("weka.classifiers.bayes.net.search.local.TAN")()
    search.setOptions(jpype.JArray(jpype.JString)(["-S", "ENTROPY"]))
    estimator = java("weka.classifiers.bayes.net.estimate.SimpleEstimator")()
    estimator.setAlpha(alpha)
    net.setSearchAlgorithm(search)
    net.setEstimator(estimator)
    net.setUseADTree(False)
    return net


def nbtree() -> Any:
    """NBTree."""
    return java("weka.classifiers.trees.NBTree")()


CLASSIFIERS: dict[str, Callable[[], Any]] = {"NB": naive_bayes, "TAN": tan, "AODE": aode, "NBTree": nbtree}


def arcs(net: Any, names: Sequence[str]) -> list[tuple[str, str]]:
    """Arcs between features of a BayesNet, (parent, child)."""
    found = []
    for child, name in enumerate(names):
        parents = net.getParentSet(child)
        given = [int(parents.getParent(k)) for k in range(parents.getNrOfParents())]
        found += [(names[parent], name) for parent in given if parent < len(names)]
    return found


def probabilities(model: Any, rows: Any, which: Sequence[int]) -> NDArray[np.float64]:
    """p(c | x) of some rows (n, n_classes)."""
    return np.array([list(model.distributionForInstance(rows.instance(int(k)))) for k in which])


def n_correct(model: Any, train: Any, test: Any) -> int:
    """Number of rows whose class a fitted model predicts."""
    evaluation = java("weka.classifiers.Evaluation")(train)
    evaluation.evaluateModel(model, test)
    return int(evaluation.correct())


def prediction_seconds(model: Any, rows: Any) -> float:
    """Seconds that predictions of rows take in Java, less what a ZeroR takes: what Weka's loop does besides."""
    trivial = java("weka.classifiers.rules.ZeroR")()
    trivial.buildClassifier(rows)
    taken = {}
    for _ in range(3):  # the first time warms up
        for one in (trivial, model):
            begin = time.perf_counter()
            n_correct(one, rows, rows)
            seconds = time.perf_counter() - begin
            taken[one] = min(seconds, taken.get(one, seconds))
    return taken[model] - taken[trivial]
