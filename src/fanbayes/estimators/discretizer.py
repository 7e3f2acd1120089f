"""MDLPDiscretizer, a transformer over data/mdl.py."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from fanbayes.arrays import Floats
from fanbayes.data.batches import Batch, Batches, checked
from fanbayes.data.frames import interval_series
from fanbayes.data.mdl import assign
from fanbayes.data.sources import Source, infinite, series_source
from fanbayes.data.summary import TableSummary, summarise
from fanbayes.estimators.batch_cases import batches_of, naming, read_parts, summarise_parts
from fanbayes.estimators.validation import encode_labels, named_columns, read_labels, read_rows, read_weights


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
        X : data frame or array-like of shape (n_samples, n_features), or a table that is read in batches
        y : array-like of shape (n_samples,), or str
            Classes, or the name of the column of X that holds them; rows whose label is NaN or None are ignored. Of
            more than 262,144 different values of a column in batches, neighbours are joined before it is cut.
        sample_weight : array-like of shape (n_samples,), or str, optional
            Case counts, or the name of their column.

        Returns
        -------
        self
        """
        batches = batches_of(X)
        if batches is not None:
            parts = read_parts(self, batches, y, sample_weight)
            summary, *_ = summarise_parts(self, parts, "from_dtype", counts=True, missing="ignorable")
        else:
            summary = self._summary(*named_columns(X, y=y, sample_weight=sample_weight))
        self.classes_ = summary.classes
        self.cut_points_ = [
            None if c.is_category else np.empty(0) if c.counts is None else c.counts.cut_points(len(self.classes_))
            for c in summary.columns
        ]
        return self

    def _summary(self, X: Any, y: Any, sample_weight: Any) -> TableSummary:
        """What rows in memory tell of the columns."""
        rows = read_rows(self, X, reset=True)
        weights = read_weights(sample_weight, len(rows))
        y = read_labels(y, len(rows))
        if weights is not None:
            rows, y, weights = rows.take(weights > 0), y[weights > 0], weights[weights > 0]
        classes, labels = encode_labels(y)
        sources = list(rows.sources())
        return summarise(sources, [s.symbolic for s in sources], labels, weights, classes, counts=True)

    def transform(self, X: Any) -> Any:
        """Replace numbers by their intervals.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features), or a table that is read in batches

        Returns
        -------
        data frame or ndarray of shape (n_samples, n_features), or BinnedBatches
            A frame like X, its columns of numbers now categories such as "(2.45, 4.75]"; or, for an array, the
            numbers 0, 1, ... of the intervals, NaN where missing. Batches for batches, which keep their other columns
            and which classifiers can be fitted to; ``batch.frame.to_native()`` is what one of them holds.
        """
        check_is_fitted(self)
        batches = batches_of(X)
        if batches is not None:
            names = checked(self.feature_names_in_.tolist(), batches.columns)
            return BinnedBatches(batches, dict(zip(names, self.cut_points_)))
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


@dataclass(frozen=True)
class BinnedBatches:
    """A table in batches whose columns of numbers are replaced by their intervals.

    Attributes
    ----------
    batches : Batches
    cuts : cuts of columns by name, None of those that are passed through
    """

    batches: Batches
    cuts: Mapping[str, Floats | None]

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return self.batches.columns

    @property
    def frame(self) -> str | None:
        """Name of the library that tables are handed back in."""
        return self.batches.frame

    @property
    def n_rows(self) -> int | None:
        """Number of rows, where it is known without reading."""
        return self.batches.n_rows

    def __iter__(self) -> Iterator[Batch]:
        for batch in self.batches:
            with naming(batch.where):
                yield replace(batch, frame=batch.frame.with_columns(*self._binned(batch.frame)))

    def _binned(self, frame: nw.DataFrame[Any]) -> Iterator[nw.Series[Any]]:
        for name in self.columns:
            cuts = self.cuts.get(name)
            if cuts is not None:
                given = frame.get_column(name)
                yield interval_series(
                    name, assign(_numbers(series_source(given, name)), cuts), cuts, given.implementation
                )

    def only(self, columns: Sequence[str]) -> BinnedBatches:
        """The same rows, of which only these columns are read."""
        return replace(self, batches=self.batches.only(columns))


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
