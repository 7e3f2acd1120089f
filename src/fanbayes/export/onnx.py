"""Compiled models as ONNX graphs of standard operators, in doubles.

Each feature is an input (n, 1) of its name: text, in which the empty string is a missing value, or doubles, in which
NaN is one. The outputs are `label` (n,) and `probabilities` (n, n_classes). What cannot be a value is an error of the
runtime (`Graph.check`).
"""

from __future__ import annotations

import json

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper

from fanbayes.export.compiled import CompiledAverage, CompiledModel, CompiledView
from fanbayes.export.onnx_average import average_probabilities
from fanbayes.export.onnx_graph import IR_VERSION, OPSETS, Graph
from fanbayes.export.onnx_network import class_probabilities
from fanbayes.export.onnx_views import columns_of, is_text, read_feature


def model_proto(model: CompiledModel) -> onnx.ModelProto:
    """A compiled model as an ONNX graph (see `model_onnx`)."""
    names = [feature.name for feature in model.features]
    if "" in names:
        raise ValueError("a feature without a name cannot be an input of an ONNX graph; name it")
    graph = Graph(names)
    outputs = [graph.new_name("label"), graph.new_name("probabilities")]
    missing_text = _missing_text(model)
    predictor = model.predictor
    used = {j for view in model.views for j in _features(view)}
    values = {j: read_feature(graph, model.features[j], missing_text) for j in sorted(used)}
    complete = _complete(model)
    for j in complete:
        sentence = f"feature {names[j]!r} needs a value: the graph of {model.classifier} does not sum it out"
        graph.check(values[j].known, sentence)
    columns = [columns_of(graph, view, model.features, values) for view in model.views]
    n_rows = graph("Shape", names[0], start=0, end=1)
    if isinstance(predictor, CompiledAverage):
        proba = average_probabilities(graph, predictor, columns, n_rows)
    else:
        proba = class_probabilities(graph, predictor, columns[predictor.view], n_rows, len(model.classes))
    _write_outputs(graph, proba, _labels(model), outputs)
    metadata = {
        "classifier": model.classifier,
        "missing_text": missing_text,
        "complete": json.dumps([names[j] for j in complete]),
    }
    return _with_interface(graph, model, outputs, metadata)


def _features(view: CompiledView) -> list[int]:
    """Feature of each column."""
    return [*(column.feature for column in view.codes), *view.numbers.tolist()]


def _complete(model: CompiledModel) -> list[int]:
    """Features that must not be missing: those that an average fills in, or numbers with full covariances."""
    predictor = model.predictor
    if isinstance(predictor, CompiledAverage):
        imputer = predictor.imputer
        features = _features(model.views[imputer.network.view])
        return sorted(j for j, fills in zip(features, imputer.fills) if fills)
    return [] if predictor.normals is None else model.views[predictor.view].numbers.tolist()


def _missing_text(model: CompiledModel) -> str:
    """The empty string or, if that is a category, question marks."""
    levels = {level for feature in model.features for level in feature.levels}
    text = ""
    while text in levels:
        text += "?"
    return text


def _labels(model: CompiledModel) -> NDArray[np.generic]:
    labels = np.array(model.classes)
    if {type(label) for label in model.classes} == {str}:
        return labels.astype(object)
    if labels.dtype.kind not in "bif":
        raise ValueError(
            "classes of text and numbers, or too large whole numbers, have no type in ONNX; name them by text"
        )
    return labels


def _write_outputs(graph: Graph, proba: str, labels: NDArray[np.generic], outputs: list[str]) -> None:
    for check in graph.checks:
        proba = graph("Mul", proba, check)
    label, probabilities = outputs
    axis = np.array([1])
    proba = graph("Squeeze", proba, axis)
    best = graph("ArgMax", proba, axis=1, keepdims=0)
    for made, output in ((graph("Gather", labels, best), label), (proba, probabilities)):
        graph.nodes.append(helper.make_node("Identity", [made], [output]))


def _with_interface(
    graph: Graph, model: CompiledModel, outputs: list[str], metadata: dict[str, str]
) -> onnx.ModelProto:
    types = [TensorProto.STRING if is_text(feature) else TensorProto.DOUBLE for feature in model.features]
    inputs = [
        helper.make_tensor_value_info(feature.name, kind, ["n", 1]) for feature, kind in zip(model.features, types)
    ]
    of_label = helper.np_dtype_to_tensor_dtype(_labels(model).dtype)
    found = [
        helper.make_tensor_value_info(outputs[0], of_label, ["n"]),
        helper.make_tensor_value_info(outputs[1], TensorProto.DOUBLE, ["n", len(model.classes)]),
    ]
    proto = helper.make_model(
        helper.make_graph(graph.nodes, model.classifier, inputs, found, graph.constants),
        opset_imports=[helper.make_opsetid(domain, version) for domain, version in OPSETS.items()],
        ir_version=IR_VERSION,
        producer_name="fanbayes",
        doc_string="p(class | features). Missing are NaN and the `missing_text` of the metadata; features that these "
        "call `complete` must not be missing.",
    )
    helper.set_model_props(proto, metadata)
    return proto
