"""Forests as ONNX operators: rows go down all trees at once, a level at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto

from fanbayes.export.compiled import CompiledForest
from fanbayes.export.onnx_graph import Graph, Tensor
from fanbayes.export.onnx_views import Value


def forest_probabilities(graph: Graph, forest: CompiledForest, columns: list[Value]) -> str:
    """p(c | x) (n, 1, n_classes), given the columns as the view of the forest makes them."""
    codes = graph("Concat", *(_codes(graph, forest, j, column) for j, column in enumerate(columns)), axis=1)
    node = _ends(graph, forest, codes)
    total = graph("Add", _summed(graph, forest.values, node), np.log(forest.class_prior))
    return graph.softmax(_add_networks(graph, forest, codes, node, total))


def _codes(graph: Graph, forest: CompiledForest, j: int, column: Value) -> str:
    """Codes of a column (n, 1), the last one where it is missing."""
    missing = np.int64(forest.n_codes[j])
    n_discrete = len(forest.code_of)
    if j < n_discrete:
        code = graph("Gather", np.append(forest.code_of[j], missing).astype(np.int64), column.at)
    else:
        code = graph("Where", column.known, graph.count_below(forest.cuts[j - n_discrete], column.at), missing)
    return graph("Reshape", code, np.array([-1, 1]))


def _ends(graph: Graph, forest: CompiledForest, codes: str) -> str:
    """Node in which each row ends in each tree (n, n_trees)."""
    first, column = forest.first_node[:-1].astype(np.int64), np.maximum(forest.column, 0).astype(np.int64)
    is_inner = forest.column >= 0
    left, right = (np.where(is_inner, _words(bits), np.uint64(0)) for bits in (forest.to_left, forest.to_right))
    next_right = forest.right + np.repeat(first, np.diff(forest.first_node))
    n_rows = graph("Shape", codes, start=0, end=1)
    node = graph("Expand", first, graph("Concat", n_rows, np.array([len(first)]), axis=0))
    for _ in range(_depth(forest)):
        code = graph("GatherElements", codes, graph("Gather", column, node), axis=1)
        code = graph("Cast", code, to=TensorProto.UINT64)
        stays = graph("Where", _has(graph, right, node, code), graph("Gather", next_right, node), node)
        node = graph("Where", _has(graph, left, node, code), graph("Add", node, np.int64(1)), stays)
    return node


def _has(graph: Graph, words: NDArray[np.uint64], node: str, code: str) -> str:
    """Whether the bit of a code is set in the word of a node."""
    shifted = graph("BitShift", graph("Gather", words, node), code, direction="RIGHT")
    return graph("Cast", graph("BitwiseAnd", shifted, np.uint64(1)), to=TensorProto.BOOL)


def _words(bits: NDArray[np.uint32]) -> NDArray[np.uint64]:
    low, high = bits.astype(np.uint64).T
    return np.asarray(low | (high << np.uint64(32)))


def _depth(forest: CompiledForest) -> int:
    """Steps from a root to the deepest leaf."""
    depth = np.zeros(len(forest.column), dtype=np.int64)
    first = np.repeat(forest.first_node[:-1], np.diff(forest.first_node))
    for node in np.flatnonzero(forest.column >= 0):  # parents lie before their children
        depth[[node + 1, first[node] + forest.right[node]]] = depth[node] + 1
    return int(depth.max(initial=0))


def _add_networks(graph: Graph, forest: CompiledForest, codes: str, node: str, total: str) -> str:
    """The total and, of each column that a tree knows and that is not missing, a row of the tables."""
    n_classes, n_columns = len(forest.class_prior), len(forest.n_levels)
    tables = np.vstack([forest.tables.reshape(-1, n_classes), np.zeros((1, n_classes), dtype=np.float32)])
    n_levels = forest.n_levels.astype(np.int64)
    width = n_levels[forest.known].sum(axis=1)
    trees = np.diff(forest.first_node)
    begin = np.repeat(forest.first_number[:-1] // n_classes, trees) + forest.network * np.repeat(width, trees)
    begin_of_node = graph("Gather", begin.astype(np.int64), node)
    places = graph("Add", codes, np.arange(n_columns) * forest.level.shape[1])
    level = graph("Gather", forest.level.astype(np.int64).ravel(), places)  # (n, n_columns)
    is_known = graph("Less", level, n_levels)
    before = np.zeros(len(width), dtype=np.int64)
    for j in forest.known.T.astype(np.int64):  # a column for each tree
        row = graph("Add", graph("Add", begin_of_node, before), graph("Gather", level, j, axis=1))
        row = graph("Where", graph("Gather", is_known, j, axis=1), row, np.int64(len(tables) - 1))
        total = graph("Add", total, _summed(graph, tables, row))
        before = before + n_levels[j]
    return total


def _summed(graph: Graph, rows: NDArray[Any], at: Tensor) -> str:
    """Sum over the trees of the rows at some places (n, n_trees): (n, 1, n_classes)."""
    return graph.sum(graph("Cast", graph("Gather", rows, at), to=TensorProto.DOUBLE), 1)
