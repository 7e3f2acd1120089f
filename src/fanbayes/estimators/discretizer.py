"""MDLPDiscretizer, a transformer over data/mdl.py."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from fanbayes.arrays import Floats
from fanbayes.data.frames import interval_series
from fanbayes.data.mdl import assign, cut_points
from fanbayes.data.sources import NumericColumn, Source, infinite
from fanbayes.estimators.validation import encode_labels, read_labels, read_rows, read_weights


class MDLPDiscretizer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Bins continuous columns by class entropy with the MDL stopping rule (Fayyad & Irani 1993).

    A column is cut where that lowers the class entropy most, and its parts again, as long as the gain pays for
    the description of the cut. A column that tells nothing of the class gets no cut and becomes one interval.
    A value equal to a cut lies left of it. Missing values stay missing; rows without a label are ignored in `fit`.

    Attributes
    ----------
    cut_points_ : list of ndarray or None
        Increasing cuts of each column; None where a column does not hold numbers and is passed through.
    classes_ : ndarray of shape (n_classes,)
    n_features_in_, feature_names_in_

    Examples
    --------
    >>> from fanbayes import MDLPDiscretizer
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> MDLPDiscretizer().fit(X, y).cut_points_[2]
    array([2.45, 4.75])
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn the cut points.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Classes; rows whose label is NaN or None are ignored.
        sample_weight : array-like of shape (n_samples,), optional
            Case counts.

        Returns
        -------
        self
        """
        rows = read_rows(self, X, reset=True)
        weights = read_weights(sample_weight, len(rows))
        y = read_labels(y, len(rows))
        if weights is not None:
            rows, y, weights = rows.take(weights > 0), y[weights > 0], weights[weights > 0]
        self.classes_, labels = encode_labels(y)
        self.cut_points_ = [
            cut_points(_numbers(s), labels, len(self.classes_), weights) if _holds_numbers(s) else None
            for s in rows.sources()
        ]
        return self

    def transform(self, X: Any) -> Any:
        """Replace numbers by their intervals.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features)

        Returns
        -------
        data frame or ndarray of shape (n_samples, n_features)
            A frame like X, its columns of numbers now categories such as "(2.45, 4.75]"; or, for an array, the
            numbers 0, 1, ... of the intervals, NaN where missing.
        """
        check_is_fitted(self)
        rows = read_rows(self, X, reset=False)
        if isinstance(rows.content, np.ndarray):
            return np.column_stack([_interval_numbers(s, cuts) for s, cuts in zip(rows.sources(), self.cut_points_)])
        binned = [
            interval_series(given.name, assign(_numbers(s), cuts), cuts, given.implementation)
            for s, cuts, given in zip(rows.sources(), self.cut_points_, rows.content.iter_columns())
            if cuts is not None
        ]
        return rows.content.with_columns(*binned).to_native()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = []
        return tags


def _holds_numbers(source: Source) -> bool:
    return isinstance(source, NumericColumn) and not source.symbolic


def _interval_numbers(source: Source, cuts: Floats | None) -> NDArray[Any]:
    """Number of the interval of each value, NaN where missing; without cuts the values as they are."""
    if cuts is None:
        return source.values  # type: ignore[attr-defined, no-any-return]
    codes = assign(_numbers(source), cuts)
    return np.where(codes < 0, np.nan, codes)


def _numbers(source: Source) -> Floats:
    x = source.numbers()
    if np.isinf(x).any():
        raise ValueError(infinite(source.name))
    return x
