"""Fitted models outside of Python: as plain values, and what computes with them there."""

from fanbayes.export.compilation import compile_model
from fanbayes.export.javascript import model_javascript

__all__ = ["compile_model", "model_javascript"]
