"""Single networks as one Python file that needs nothing but the standard library."""

from __future__ import annotations

from dataclasses import asdict
from importlib.resources import files
from typing import Any

import numpy as np

from fanbayes.export.compiled import CompiledModel, children_first, single_network

_TAIL = '''

def predict_proba(row: dict[str, Any]) -> dict[Any, float]:
    """p(class | row) of each class.

    `row` is {feature: value}. None or NaN is a missing value; a feature that is not there is not known, which is the
    same unless it tells something that a value is missing (missing="informative"). A category that was not seen in
    training counts as missing. What cannot be a value is an error that names the feature.
    """
    return class_probabilities(MODEL, row)


def predict(row: dict[str, Any]) -> Any:
    """The most probable class."""
    proba = predict_proba(row)
    return max(proba, key=lambda label: proba[label])
'''


def model_python(model: CompiledModel) -> str:
    """The text of a Python file with functions `predict_proba(row)` and `predict(row)`, of rows {feature: value}.

    Parameters
    ----------
    model : CompiledModel
        Of a single network.

    Raises
    ------
    ValueError
        If it is an average.
    """
    network = single_network(model, "Python file")
    code = (files(__package__) / "standalone.py").read_text("utf-8").split('"""', 2)[2]
    values = _plain(asdict(model))
    values["predictor"]["upwards"] = children_first(network.parent)
    lines = [f"    {key!r}: {value!a},\n" for key, value in values.items()]
    title = f'"""{model.classifier}, written by fanbayes: p(class | row), by the standard library alone."""'
    nan = "\nnan = float('nan')\n"
    positions = (
        'for _feature in MODEL["features"]:\n'
        '    _feature["positions"] = {level: k for k, level in enumerate(_feature["levels"])}\n'
    )
    return f"{title}{code}{nan}MODEL: Values = {{\n{''.join(lines)}}}\n{positions}{_TAIL}"


def _plain(value: Any) -> Any:
    """Lists and dictionaries of numbers and text, which `ascii` writes as Python reads them."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value
