"""Probabilities and class names as users give them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fanbayes.arrays import Floats

# Probabilities in single precision sum to one only so well.
SUM_TOLERANCE = 1e-4


def probabilities(proba: ArrayLike, n_classes: int) -> Floats:
    """Checked p(c | x) (n_rows, n_classes)."""
    p = np.asarray(proba, dtype=np.float64)
    if p.ndim != 2 or p.shape[1] != n_classes:
        raise ValueError(f"proba has shape {p.shape}; give a column for each of {n_classes} classes")
    # NaN fails both comparisons.
    wrong = ~((p >= 0).all(axis=1) & (np.abs(p.sum(axis=1) - 1) < SUM_TOLERANCE))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(f"row {row} of proba, {p[row]}, is not made of probabilities that sum to one")
    return p


def distribution(name: str, values: ArrayLike) -> Floats:
    """Checked probabilities (n_classes,), scaled to sum to one exactly."""
    p = np.asarray(values, dtype=np.float64)
    if p.ndim != 1 or not ((p >= 0).all() and abs(p.sum() - 1) < SUM_TOLERANCE):
        raise ValueError(f"{name}={values!r} must be one probability for each class, summing to one")
    return np.asarray(p / p.sum())


def known_label(name: Any, labels: list[Any]) -> Any:
    """The label that a name stands for, also one written as text; the name itself if there is none."""
    if name in labels:
        return labels[labels.index(name)]
    return next((c for c in labels if _text(c) == _text(name)), name)


def _text(name: Any) -> str:
    return str(int(name)) if isinstance(name, float) and name.is_integer() else str(name)
