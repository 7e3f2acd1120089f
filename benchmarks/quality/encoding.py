"""Tables as each kind of peer takes them best; all that is learnt is learnt from the training part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from fanbayes.datasets import Kind

Kinds = Mapping[str, Kind]


def columns(kinds: Kinds, kind: Kind) -> list[str]:
    return [name for name, its in kinds.items() if its == kind]


def for_linear(kinds: Kinds) -> ColumnTransformer:
    """Numbers scaled, missing ones set to the median and marked; each category, and its absence, a column."""
    numbers = make_pipeline(
        SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True), StandardScaler()
    )
    return _by_kind(kinds, numbers)


def for_forest(kinds: Kinds) -> ColumnTransformer:
    """Numbers as they are, missing ones too; each category, and its absence, a column."""
    return _by_kind(kinds, "passthrough")


def _by_kind(kinds: Kinds, numbers: Any) -> ColumnTransformer:
    labels = make_pipeline(
        SimpleImputer(strategy="constant", fill_value="(missing)", missing_values=None),
        OneHotEncoder(handle_unknown="ignore", sparse_output=False),
    )
    return ColumnTransformer(
        [
            ("numbers", numbers, columns(kinds, "continuous")),
            ("labels", make_pipeline(_Text(), labels), columns(kinds, "discrete")),
        ]
    )


class _Text(TransformerMixin, BaseEstimator):
    """Text as Python objects, None where missing, whatever way pandas keeps it."""

    def fit(self, X: pd.DataFrame, y: Any = None) -> Self:
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X: pd.DataFrame) -> np.ndarray:
        table = X.to_numpy(dtype=object, copy=True)
        table[X.isna().to_numpy()] = None
        return table


class Categories(TransformerMixin, BaseEstimator):
    """Text columns as pandas categories, for learners that split on these and on missing values themselves.

    A category that the training part lacks is missing. Columns are renamed: LightGBM refuses some characters.
    """

    def __init__(self, discrete: Sequence[str]) -> None:
        self.discrete = discrete

    def fit(self, X: pd.DataFrame, y: Any = None) -> Self:
        """Take note of the categories of each column."""
        self.levels_ = {name: sorted(X[name].dropna().unique()) for name in self.discrete}
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X: pd.DataFrame) -> pd.DataFrame:
        """Give the columns their categories, and plain names."""
        return pd.DataFrame(
            {
                f"x{k}": pd.Categorical(X[name], categories=self.levels_[name]) if name in self.levels_ else X[name]
                for k, name in enumerate(X.columns)
            },
            index=X.index,
        )


class Texts(TransformerMixin, BaseEstimator):
    """Text columns as Python text, "(missing)" where there is none; numbers as they are."""

    def __init__(self, discrete: Sequence[str]) -> None:
        self.discrete = discrete

    def fit(self, X: pd.DataFrame, y: Any = None) -> Self:
        """There is nothing to learn."""
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X: pd.DataFrame) -> pd.DataFrame:
        """Columns with plain names."""
        return pd.DataFrame(
            {
                f"x{k}": X[name].astype(object).where(X[name].notna(), "(missing)").astype(str).astype(object)
                if name in self.discrete
                else X[name]
                for k, name in enumerate(X.columns)
            },
            index=X.index,
        )


class Filled(TransformerMixin, BaseEstimator):
    """Values missing in columns that have none missing in the training part: the median, or the commonest text.

    LightGBM takes such a value for zero, XGBoost sends it anywhere and CatBoost takes it for the least.
    """

    def fit(self, X: pd.DataFrame, y: Any = None) -> Self:
        """Take note of what to fill in."""
        whole = X.columns[X.notna().all()]
        self.values_ = {
            name: X[name].median() if pd.api.types.is_numeric_dtype(X[name]) else X[name].mode().iloc[0]
            for name in whole
        }
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X: pd.DataFrame) -> pd.DataFrame:
        """Fill in."""
        return X.fillna(self.values_)
