"""AODE and LMT of Weka, where Java and Weka are installed (Debian: weka, default-jre-headless; PyPI: JPype1)."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from problem import Fitted, Floats, Problem, Rows, empty, log_of

JAR = os.environ.get("WEKA_JAR", "/usr/share/java/weka.jar")


def is_installed() -> bool:
    """Whether Weka is where it is looked for."""
    return Path(JAR).exists()


def weka_aode(problem: Problem) -> Fitted:
    """AODE of discretised columns: it takes no others."""

    def model() -> Any:
        filtered = _java("weka.classifiers.meta.FilteredClassifier")()
        filtered.setFilter(_java("weka.filters.supervised.attribute.Discretize")())
        filtered.setClassifier(_java("weka.classifiers.bayes.AODE")())
        return filtered

    return _fit(model, problem)


def weka_lmt(problem: Problem) -> Fitted:
    """Logistic model trees; the AIC chooses the rounds of boosting, as its documentation offers to save time."""

    def model() -> Any:
        tree = _java("weka.classifiers.trees.LMT")()
        tree.setUseAIC(True)
        return tree

    return _fit(model, problem)


def _java(name: str) -> Any:
    import jpype

    if not jpype.isJVMStarted():
        if not is_installed():
            raise RuntimeError(f"there is no {JAR}: install weka, or tell where it is by WEKA_JAR")
        jpype.startJVM("-Xmx3g", "-XX:ActiveProcessorCount=1", "-Djava.awt.headless=true", classpath=[JAR])
        nowhere = jpype.JClass("java.io.OutputStream").nullOutputStream()
        jpype.JClass("java.lang.System").setErr(jpype.JClass("java.io.PrintStream")(nowhere))
    return jpype.JClass(name)


def _fit(model: Callable[[], Any], problem: Problem) -> Fitted:
    """Fit to all rows, and to those of each inner split for the scores of the rows held out."""
    levels = {
        name: sorted(problem.X[name].dropna().astype(str).unique())
        for name, kind in problem.kinds.items()
        if kind == "discrete"
    }

    def fitted(rows: Rows) -> Callable[[pd.DataFrame], Floats]:
        one = model()
        one.buildClassifier(_instances(problem.X.iloc[rows], problem.y[rows], levels, problem.n_classes))

        def scores(X: pd.DataFrame) -> Floats:
            table = _instances(X, None, levels, problem.n_classes)
            return log_of(
                np.array([list(one.distributionForInstance(table.instance(k))) for k in range(table.numInstances())])
            )

        return scores

    held_out = empty(problem)
    for train, valid in problem.splits:
        held_out[valid] = fitted(train)(problem.X.iloc[valid])
    return Fitted(fitted(np.arange(len(problem.y))), held_out, {})


def _instances(X: pd.DataFrame, y: Any, levels: dict[str, list[str]], n_classes: int) -> Any:
    """Rows as Weka has them, the class last; a category that the training part lacks is missing."""
    lines, texts = ["@relation rows"], []
    for j, name in enumerate(X.columns):
        if name in levels:
            # A column without a value has one level that no row has.
            lines.append(f"@attribute x{j} {{{','.join(map(str, range(max(len(levels[name]), 1))))}}}")
            code = {level: str(k) for k, level in enumerate(levels[name])}
            texts.append(["?" if pd.isna(value) else code.get(str(value), "?") for value in X[name]])
        else:
            lines.append(f"@attribute x{j} numeric")
            texts.append(["?" if np.isnan(value) else repr(float(value)) for value in X[name]])
    lines.append(f"@attribute class {{{','.join(map(str, range(n_classes)))}}}")
    texts.append(["?"] * len(X) if y is None else [str(label) for label in y])
    lines += ["@data", *(",".join(row) for row in zip(*texts)), ""]
    found = _java("weka.core.Instances")(_java("java.io.StringReader")("\n".join(lines)))
    found.setClassIndex(found.numAttributes() - 1)
    return found
