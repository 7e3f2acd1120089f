"""What all classifiers share: how they read tables and labels, and what follows from their probabilities."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import check_is_fitted

from fanbayes.data.schema import Schema, category_mask
from fanbayes.data.sources import Source
from fanbayes.data.table import EncodedTable, encode_table
from fanbayes.data.traps import Unseen, training_traps, unseen_categories, unseen_trap, warn_of
from fanbayes.data.views import Treatment, View, learn_view
from fanbayes.estimators.validation import (
    encode_labels,
    is_labelled,
    read_labels,
    read_rows,
    read_weights,
    require_choice,
    require_integer,
)

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Cases:
    """Rows that `fit` was given and that count: raw columns, classes and weights.

    Attributes
    ----------
    sources : the raw columns
    is_category : whether each is taken as categories
    frame : name of the frame library, None for an array
    classes : (n_classes,)
    labels : int32 (n_rows,), -1 where unlabelled
    weights : (n_rows,) or None where all are 1
    present : bool (n_given,)
        Which of the rows given count; those of weight 0 do not.
    is_declared : bool
        Whether the user said which columns are categories.
    """

    sources: list[Source]
    is_category: list[bool]
    frame: str | None
    classes: NDArray[Any]
    labels: NDArray[np.int32]
    weights: Floats | None
    present: NDArray[np.bool_]
    is_declared: bool

    def view(self, treatment: Treatment, known: NDArray[np.int32] | None = None) -> tuple[View, EncodedTable]:
        """How a model sees the columns, and the rows, not mixed yet; learnt by all labels or by those `known`."""
        known = self.labels if known is None else known
        columns = (self.sources, self.is_category, self.frame)
        return learn_view(*columns, self.labels, self.weights, treatment, known, len(self.classes))

    def warn_of_traps(self, schema: Schema) -> None:
        """Warn of what may be wrong with columns that were taken for what the schema says."""
        declared = {column.name for column in schema.columns} if self.is_declared else set()
        warn_of(training_traps(schema, self.sources, self.weights, declared))


class TableClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier of rows with discrete and continuous columns, values missing or not."""

    # Set by the subclasses' constructors.
    categorical_features: str | Sequence[Any] | None
    handle_unknown: Literal["missing", "error"]
    allow_missing_columns: bool
    n_jobs: int | None
    verbose: bool | int

    # Learnt.
    classes_: NDArray[Any]

    @abstractmethod
    def _fit(self, *given: Any) -> Self:
        """Learn from what `fit` was given; what is set on the way is forgotten if it fails."""

    @abstractmethod
    def predict_proba(self, X: Any) -> Floats:
        """p(c | x), missing values marginalised.

        Returns
        -------
        ndarray of shape (n_samples, n_classes), in the order of `classes_`
        """

    @abstractmethod
    def predict_log_proba(self, X: Any) -> Floats:
        """Log p(c | x), as `predict_proba`, without underflow."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from rows and their classes.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features)
            Discrete and continuous columns, values missing or not.
        y : array-like of shape (n_samples,)
            Classes. A row whose label is NaN or None is unlabelled and is learnt from as well.
        sample_weight : array-like of shape (n_samples,), optional
            Case counts: weight 2 is the row twice, weight 0 is the row absent.

        Returns
        -------
        self
        """
        return self._fit_whole(X, y, sample_weight)

    def _fit_whole(self, *given: Any) -> Self:
        """`_fit`; if it fails, nothing has changed."""
        before = dict(self.__dict__)
        try:
            return self._fit(*given)
        except BaseException:
            self.__dict__ = before
            raise

    def _cases(self, X: Any, y: Any, sample_weight: Any) -> Cases:
        """What `fit` was given, checked."""
        self._check_parameters()
        rows = read_rows(self, X, reset=True)
        y = read_labels(y, len(rows))
        weights = read_weights(sample_weight, len(rows))
        present = np.ones(len(rows), dtype=bool)
        if weights is not None and not (weights > 0).all():
            present = weights > 0
            rows, y, weights = rows.take(present), y[present], weights[present]
        classes, labels = encode_labels(y)
        sources = list(rows.sources())
        is_category = category_mask(self.categorical_features, rows.names, [s.symbolic for s in sources])
        is_declared = not isinstance(self.categorical_features, str)
        return Cases(sources, is_category, rows.frame, classes, labels, weights, present, is_declared)

    def _check_parameters(self) -> None:
        require_choice("handle_unknown", self.handle_unknown, ("missing", "error"))
        if not isinstance(self.allow_missing_columns, (bool, np.bool_)):
            raise TypeError(f"allow_missing_columns={self.allow_missing_columns!r} must be True or False")
        if self.n_jobs is not None:
            require_integer("n_jobs", self.n_jobs, -(10**6), 10**6)
            if self.n_jobs == 0:
                raise ValueError("n_jobs=0 has no meaning; use None, a positive number, or -1 for all cores")

    def _n_threads(self) -> int:
        """Threads to use, not more than there are cores: the result does not depend on it."""
        return 1 if self.n_jobs is None else min(effective_n_jobs(self.n_jobs), effective_n_jobs(-1))

    def _encode(self, X: Any, *views: View) -> list[EncodedTable]:
        """The rows as each view shows them."""
        rows = read_rows(self, X, reset=False)
        sources = list(rows.sources())
        schema = views[0].schema  # the discrete columns of all are the same
        first = encode_table(schema, sources, len(rows))
        self._judge_unseen(unseen_categories(schema, sources, first))
        return [views[0].mix(first), *(view.encode(sources, len(rows)) for view in views[1:])]

    def _judge_unseen(self, unseen: list[Unseen]) -> None:
        """Refuse or warn of categories that were not seen in training."""
        if unseen and self.handle_unknown == "error":
            first = unseen[0]
            raise ValueError(
                f"column {first.column!r} has a category in row {first.row} that was not seen in training, such as "
                f"{first.example!r:.60}; handle_unknown='missing' would take it as missing"
            )
        trap = unseen_trap(unseen)
        warn_of([] if trap is None else [trap])

    def predict(self, X: Any) -> NDArray[Any]:
        """Most probable class of each row.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        best = np.argmax(self.predict_log_proba(X), axis=1)
        chosen: NDArray[Any] = self.classes_[best]
        return chosen

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy over the labelled rows.

        Returns
        -------
        float
        """
        check_is_fitted(self)
        predicted = self.predict(X)
        y = read_labels(y, len(predicted))
        known = is_labelled(y)
        if not known.any():
            raise ValueError("no row has a label to compare with; give at least one row of y a class")
        truth = np.array(y[known].tolist()) if y.dtype.kind == "O" else y[known]
        weight = None if sample_weight is None else np.asarray(sample_weight)[known]
        return float(accuracy_score(truth, predicted[known], sample_weight=weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        return tags
