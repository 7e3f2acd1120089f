"""One slope for all logits of a classifier, and for margins an offset for each class, from rows held out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Calibration:
    """log p(c) = slope * score(c) + offset(c), less what makes them sum to one; the slope is 1 / temperature."""

    slope: float
    offsets: Floats

    def __call__(self, scores: Floats) -> Floats:
        """Log-probabilities (n, n_classes) of scores."""
        return log_softmax(self.slope * scores + self.offsets)


def calibrate(scores: Floats, y: NDArray[np.intp], *, offsets: bool = False) -> Calibration:
    """Maximise the likelihood of the classes times a standard normal prior of log slope and offsets.

    Without the prior a few rows that are all right would make the slope infinite.

    Parameters
    ----------
    scores : ndarray of shape (n, n_classes)
    y : ndarray of shape (n,)
    offsets : bool
        Platt's scaling, where there are two classes; else temperature scaling.
    """
    n, k = scores.shape
    truth = np.eye(k)[y]

    def loss(parameters: Floats) -> tuple[float, Floats]:
        slope = np.exp(parameters[0])
        log_proba = log_softmax(slope * scores + np.r_[parameters[1:], np.zeros(0 if offsets else k)])
        error = np.exp(log_proba) - truth
        gradient = np.r_[slope * (error * scores).sum(), error.sum(axis=0) if offsets else []]
        value = -(log_proba * truth).sum() + 0.5 * np.square(parameters).sum()
        return value / max(n, 1), (gradient + parameters) / max(n, 1)

    start = np.zeros(1 + (k if offsets else 0))
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[(-5, 5)] * len(start)).x
    return Calibration(float(np.exp(found[0])), found[1:] if offsets else np.zeros(k))


def log_softmax(scores: Floats) -> Floats:
    shifted = scores - scores.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


def mean_loss(log_proba: Floats, y: NDArray[np.intp]) -> float:
    return float(-log_proba[np.arange(len(y)), y].mean()) if len(y) else np.inf
