"""Fitted models outside of Python: as plain values, and what computes with them there."""

from fanbayes.export.compilation import compile_model
from fanbayes.export.compiled import CompiledModel
from fanbayes.export.javascript import model_javascript
from fanbayes.export.python_code import model_python
from fanbayes.export.sql import model_sql

__all__ = ["compile_model", "model_javascript", "model_onnx", "model_python", "model_sql"]


def model_onnx(model: CompiledModel) -> bytes:
    """Content of an ONNX file: a graph of standard operators, in doubles.

    Each feature is an input (n, 1) of its name: text, in which the empty string is a missing value, or doubles, in
    which NaN is one. The outputs are `label` (n,) and `probabilities` (n, n_classes). What cannot be a value is an
    error of the runtime. Metadata: the name of the `classifier`; `missing_text`, empty unless that is a category;
    `complete`, the names, in JSON, of features that must not be missing: what an average fills in, or numbers with
    full covariances.

    Parameters
    ----------
    model : CompiledModel

    Raises
    ------
    ValueError
        If ONNX cannot hold it.
    """
    try:
        from fanbayes.export.onnx import model_proto
    except ImportError:
        raise ImportError("ONNX files need onnx: pip install 'fanbayes[onnx]'") from None
    return bytes(model_proto(model).SerializeToString())
