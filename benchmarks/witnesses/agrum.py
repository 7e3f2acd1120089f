"""pyAgrum (PyPI: pyagrum): the strongest arcs of a TAN, and probabilities of a network whose arcs are given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyagrum
from discrete_sets import DiscreteSet
from numpy.typing import NDArray
from pyagrum.lib.discreteTypeProcessor import DiscreteTypeProcessor
from pyagrum.skbn import BNClassifier


def version() -> str:
    """Version of pyAgrum."""
    return str(pyagrum.__version__)


def as_text(data: DiscreteSet) -> tuple[pd.DataFrame, pd.Series]:
    """Features and classes, each level a word."""
    X = pd.DataFrame(data.codes, columns=data.names).astype(str)
    return X, pd.Series(data.labels.astype(str), name="class")


def fit_tan(X: pd.DataFrame, y: pd.Series) -> Any:
    """Its classifier: the arcs of the best tree that carry at least half of the mean information of a pair."""
    processor = DiscreteTypeProcessor("NoDiscretization", None)
    model = BNClassifier(type_processor=processor, learningMethod="TAN")
    return model.fit(X, y)


def arcs(model: Any) -> list[tuple[str, str]]:
    """Arcs between features, (parent, child)."""
    named = [tuple(model.bn_.variable(node).name() for node in arc) for arc in model.bn_.arcs()]
    return sorted((a, b) for a, b in named if a != "class")


def probabilities(
    data: DiscreteSet, given: Sequence[tuple[str, str]], alpha: float, which: Sequence[int]
) -> NDArray[np.float64]:
    """p(c | x) of some rows (n, n_classes), by a TAN of the given arcs whose tables are estimated by (5)."""
    learner = pyagrum.BNLearner(pd.concat(as_text(data), axis=1))
    learner.useSmoothingPrior(alpha)
    dag, node = pyagrum.DAG(), {name: k for k, name in enumerate(learner.names())}
    for k in node.values():
        dag.addNodeWithId(k)
    for parent, child in [*given, *(("class", name) for name in data.names)]:
        dag.addArc(node[parent], node[child])
    net = learner.learnParameters(dag)
    order = np.argsort([int(label) for label in net.variable("class").labels()])
    inference, found = pyagrum.LazyPropagation(net), []
    for k in which:
        inference.setEvidence(dict(zip(data.names, data.codes[k].astype(str).tolist())))
        inference.makeInference()
        found.append(inference.posterior("class").toarray()[order])
    return np.array(found)
