"""Inputs of an ONNX graph, and the columns that views make of them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from onnx import TensorProto

from fanbayes.arrays import Floats
from fanbayes.data.schema import Column
from fanbayes.export.compiled import CodeColumn, CompiledView
from fanbayes.export.onnx_graph import Graph

_LARGEST = np.float64(np.finfo(np.float64).max)
_MOST_EVENTS = np.float64(1e12)


@dataclass(frozen=True)
class Value:
    """A column of values, by the names of its tensors.

    Attributes
    ----------
    at : (n,) int64, codes, the number of levels where missing; or (n, 1, 1) double, numbers, 0 where missing
    known : (n, 1, 1) bool, whether there is a value that the model knows
    given : (n, 1, 1) bool, whether there is a value
    """

    at: str
    known: str
    given: str


def is_text(feature: Column) -> bool:
    """Whether a feature is a tensor of text; else it is one of doubles.

    Raises
    ------
    ValueError
        If no tensor holds its categories.
    """
    kinds = {isinstance(level, str) for level in feature.levels}
    if len(kinds) > 1:
        raise ValueError(
            f"feature {feature.name!r} has categories of text and of numbers, and a tensor holds only one of these; "
            "convert them to text"
        )
    if not kinds:
        return feature.kind == "discrete"
    if not kinds.pop() and any(float(level) != level for level in feature.levels):
        raise ValueError(
            f"feature {feature.name!r} has categories that no double holds, such as {max(feature.levels)}; convert "
            "them to text"
        )
    return feature.has_strings


def read_feature(graph: Graph, feature: Column, missing_text: str) -> Value:
    """A feature, of its input (n, 1)."""
    if feature.kind == "discrete":
        return _read_category(graph, feature, missing_text)
    x = graph("Unsqueeze", feature.name, np.array([2]))
    known = graph("Not", graph("IsNaN", x))
    x = graph("Where", known, x, np.float64(0.0))
    is_fine = graph("LessOrEqual", graph("Abs", x), _LARGEST)
    if feature.distribution == "poisson":
        inside = graph("And", graph("GreaterOrEqual", x, np.float64(0.0)), graph("LessOrEqual", x, _MOST_EVENTS))
        is_fine = graph("And", inside, graph("Equal", x, graph("Floor", x)))
        graph.check(is_fine, f"feature {feature.name!r} takes whole numbers from 0 to 1e12, or NaN")
    else:
        graph.check(is_fine, f"feature {feature.name!r} takes a finite number, or NaN")
    return Value(x, known, known)


def _read_category(graph: Graph, feature: Column, missing_text: str) -> Value:
    n = len(feature.levels)
    if is_text(feature):  # n: missing; n + 1: not known
        keys, codes = [*feature.levels, missing_text], list(range(n + 1))
        found = graph("LabelEncoder", feature.name, keys_strings=keys, values_int64s=codes, default_int64=n + 1)
        given = graph("Not", graph("Equal", found, np.int64(n)))
        found = graph("Min", found, np.int64(n))
    else:
        given = graph("Not", graph("IsNaN", feature.name))
        found = graph(
            "LabelEncoder",
            feature.name,
            keys_tensor=graph.tensor(np.array([float(level) for level in feature.levels])),
            values_tensor=graph.tensor(np.arange(n, dtype=np.float64)),
            default_tensor=graph.tensor(np.array([n], dtype=np.float64)),
        )
        found = graph("Cast", found, to=TensorProto.INT64)
    known = graph("Less", found, np.int64(n))
    known, given = (graph("Unsqueeze", mask, np.array([2])) for mask in (known, given))
    return Value(graph("Reshape", found, np.array([-1])), known, given)


def columns_of(graph: Graph, view: CompiledView, features: tuple[Column, ...], values: dict[int, Value]) -> list[Value]:
    """What a view makes of the features: codes, then numbers."""
    codes = [_code(graph, column, values[column.feature]) for column in view.codes]
    numbers = [_number(graph, view.furthest, features[j], values[j]) for j in view.numbers.tolist()]
    if view.scores is not None:
        numbers = [_score(graph, knots, view.furthest_score, z) for knots, z in zip(view.scores, numbers)]
    if view.mixing is not None and numbers:
        numbers = _mixed(graph, view.mixing, numbers)
    return codes + numbers


def _code(graph: Graph, column: CodeColumn, value: Value) -> Value:
    if column.by == "level":
        return value
    if column.by == "missing":
        is_missing = graph("Cast", graph("Not", value.given), to=TensorProto.INT64)
        always = graph("Or", value.given, np.bool_(True))
        return Value(graph("Reshape", is_missing, np.array([-1])), always, always)
    code = graph("Where", value.known, graph.count_below(column.cuts, value.at), np.int64(len(column.cuts) + 1))
    return Value(graph("Reshape", code, np.array([-1])), value.known, value.given)


def _number(graph: Graph, furthest: float, feature: Column, value: Value) -> Value:
    half = math.trunc(-feature.exponent / 2)  # in two steps, which neither overflow nor vanish
    x = graph("Mul", graph("Mul", value.at, np.float64(2.0**half)), np.float64(2.0 ** (-feature.exponent - half)))
    z = graph("Div", graph("Sub", x, np.float64(feature.centre)), np.float64(feature.scale))
    z = graph("Clip", z, np.float64(-furthest), np.float64(furthest))
    return Value(graph("Where", value.known, z, np.float64(0.0)), value.known, value.given)


def _score(graph: Graph, knots: Floats, furthest: float, value: Value) -> Value:
    """On the line between two knots, which goes on beyond the first and last two."""
    at, to = knots
    count = graph.count_below(at, value.at)
    left = graph("Clip", graph("Sub", count, np.int64(1)), np.int64(0), np.int64(len(at) - 2))
    slope, begin, low = (graph("Gather", array, left) for array in (np.diff(to) / np.diff(at), at, to))
    score = graph("Add", low, graph("Mul", slope, graph("Sub", value.at, begin)))
    score = graph("Clip", score, np.float64(-furthest), np.float64(furthest))
    return Value(graph("Where", value.known, score, np.float64(0.0)), value.known, value.given)


def _mixed(graph: Graph, mixing: Floats, numbers: list[Value]) -> list[Value]:
    """Decorrelated numbers; one that is missing counts as 0 for the others."""
    every = graph("MatMul", graph("Concat", *(z.at for z in numbers), axis=2), mixing)
    each = [graph("Gather", every, np.array([k]), axis=2) for k in range(len(numbers))]
    return [Value(graph("Where", z.known, own, np.float64(0.0)), z.known, z.given) for own, z in zip(each, numbers)]
