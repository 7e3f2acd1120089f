"""Logistic regression whose penalty is chosen by cross-validation, as it is and calibrated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV

Splits = Sequence[tuple[NDArray[np.intp], NDArray[np.intp]]]

MOST_STEPS = 1000


def chosen_logistic(splits: Splits) -> LogisticRegressionCV:
    return LogisticRegressionCV(
        Cs=10,
        cv=splits,
        scoring="neg_log_loss",
        l1_ratios=(0.0,),
        max_iter=MOST_STEPS,
        use_legacy_attributes=False,
    )


class CalibratedLogistic(ClassifierMixin, BaseEstimator):
    """The penalty is chosen once, and the calibration done with it: choosing it anew inside would take five times.

    Parameters
    ----------
    splits : sequence of pairs of row numbers
        Rows to fit and rows to check on.
    """

    def __init__(self, splits: Splits) -> None:
        self.splits = splits

    def fit(self, X: NDArray[np.float64], y: NDArray[np.intp]) -> Self:
        """Choose, then fit and calibrate on each split."""
        self.classes_ = np.unique(y)
        penalty = chosen_logistic(self.splits).fit(X, y).C_
        inner = LogisticRegression(C=penalty, max_iter=MOST_STEPS)
        self.model_ = CalibratedClassifierCV(inner, method="temperature", cv=self.splits).fit(X, y)
        return self

    def predict_proba(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        """Probabilities (n, n_classes)."""
        return self.model_.predict_proba(X)
