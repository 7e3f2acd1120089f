"""Averages as ONNX operators: the fits of each member (A0), pooled (A3); nothing is filled in."""

from __future__ import annotations

from functools import reduce

import numpy as np

from fanbayes.export.compiled import CompiledAverage, CompiledForest, CompiledNetwork
from fanbayes.export.onnx_forest import forest_probabilities
from fanbayes.export.onnx_graph import Graph
from fanbayes.export.onnx_network import class_probabilities
from fanbayes.export.onnx_views import Value


def average_probabilities(graph: Graph, average: CompiledAverage, columns: list[list[Value]], n_rows: str) -> str:
    """p(c | x) (n, 1, n_classes) of rows that lack nothing that the average fills in; the shares of empty ones.

    Parameters
    ----------
    columns : as each view makes them
    n_rows : name of a tensor (1,), n
    """
    prior, n_classes = average.class_prior, len(average.class_prior)
    known = [column.known for column in columns[average.imputer.network.view]]
    if not known:
        return graph("Expand", prior, graph("Concat", n_rows, np.array([1, n_classes]), axis=0))

    def proba(fit: CompiledNetwork | CompiledForest) -> str:
        if isinstance(fit, CompiledForest):
            return forest_probabilities(graph, fit, columns[fit.view])
        return class_probabilities(graph, fit, columns[fit.view], n_rows, n_classes)

    members = [graph("Div", graph("Sum", *map(proba, fits)), np.float64(len(fits))) for fits in average.members]
    p = graph("Concat", *members, axis=1)  # (n, n_members, n_classes)
    share = np.float64(average.share)
    weights, exponents = average.weights[:-1, None].T, average.exponents[:-1, None].T
    linear = graph("Add", graph("MatMul", weights, p), average.weights[-1] * prior)
    logs = graph("MatMul", exponents, graph("Log", graph("Add", p, np.float64(average.floor))))
    log_linear = graph.softmax(graph("Add", logs, average.exponents[-1] * np.log(prior + average.floor)))
    mixed = graph("Add", graph("Mul", linear, share), graph("Mul", log_linear, 1 - share))
    mixed = graph("Div", mixed, graph.sum(mixed, 2))
    if average.imputer.fills.any():
        return mixed
    return graph("Where", reduce(lambda a, b: graph("Or", a, b), known), mixed, prior)
