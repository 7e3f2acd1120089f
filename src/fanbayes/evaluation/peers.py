"""Classifiers of scikit-learn to compare with, each with what a careful user would give it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, OrdinalEncoder, StandardScaler

from fanbayes.arrays import Floats

_MOST_LEVELS = 254  # bins of HistGradientBoosting, but for missing values; rarer levels share one

PEERS = {
    "hgb": ("HGB", "HistGradientBoosting, categories and missing values as they are, its own defaults"),
    "logistic": (
        "Logistic",
        "logistic regression, C = 1, numbers standardised, their missing values the median and marked, categories "
        "one-hot",
    ),
    "forest": ("Forest", "random forest of 300 trees, 5 rows or more in a leaf, categories as codes"),
}
"""Of each name, how tables call it and what it is."""


def peer(name: str, is_discrete: Sequence[bool], seed: int, n_jobs: int) -> Pipeline:
    """A classifier, not fitted, of tables whose columns are discrete or not, with values missing.

    Parameters
    ----------
    name : key of `PEERS`
    is_discrete : (n_columns,)
    """
    discrete = np.flatnonzero(is_discrete).tolist()
    continuous = np.flatnonzero(~np.asarray(is_discrete, dtype=bool)).tolist()
    if name == "logistic":
        filled = make_pipeline(_Numbers(), SimpleImputer(strategy="median", add_indicator=True), StandardScaler())
        one_hot = make_pipeline(FunctionTransformer(_levels), OneHotEncoder(handle_unknown="ignore"))
        columns = [("discrete", one_hot, discrete), ("continuous", filled, continuous)]
        return make_pipeline(ColumnTransformer(columns), LogisticRegression(max_iter=2000))
    encoder = OrdinalEncoder(
        handle_unknown="use_encoded_value",
        unknown_value=np.nan,
        encoded_missing_value=np.nan,
        max_categories=_MOST_LEVELS,
    )
    codes = make_pipeline(FunctionTransformer(_levels), encoder)
    columns = [("discrete", codes, discrete), ("continuous", _Numbers(), continuous)]
    places = list(range(len(discrete)))  # of the discrete columns, which now come first
    model: Any = {
        "hgb": HistGradientBoostingClassifier(categorical_features=places, random_state=seed),
        "forest": RandomForestClassifier(300, min_samples_leaf=5, random_state=seed, n_jobs=n_jobs),
    }[name]
    return make_pipeline(ColumnTransformer(columns), model)


def class_shares() -> DummyClassifier:
    """What forecasts the shares of the classes in training, whatever the row."""
    return DummyClassifier(strategy="prior")


def _levels(X: Any) -> NDArray[np.object_]:
    """Values of a frame or of an array of objects, NaN where missing: scikit-learn takes None for a level."""
    values, nothing = np.asarray(X, dtype=object), np.array(None)
    return np.where(values == nothing, np.nan, values)


class _Numbers(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Numbers of a frame or of an array of objects, NaN where missing; 0 in columns of which training has none.

    (HistGradientBoosting has no bins for these.)
    """

    def fit(self, X: Any, y: Any = None) -> Self:
        self.is_empty_ = np.isnan(np.asarray(X, dtype=np.float64)).all(axis=0)
        return self

    def transform(self, X: Any) -> Floats:
        return np.where(self.is_empty_, 0.0, np.asarray(X, dtype=np.float64))
