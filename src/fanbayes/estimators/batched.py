"""Predictions of tables that are read in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import wraps
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from fanbayes.data.batches import Batches, as_batches, rows_at_once
from fanbayes.data.traps import each_kind_once
from fanbayes.estimators.batch_cases import naming, read_parts

A = TypeVar("A", bound=NDArray[Any])

Method = Callable[[Any, Any], A]


def of_rows(method: Method[A]) -> Method[A]:
    """A method that answers for each row by itself: of a table in batches, it joins its answers for each of them."""

    @wraps(method)
    def joined(clf: Any, X: Any) -> A:
        check_is_fitted(clf)
        batches = table_in_batches(clf, X)
        if batches is None:
            return method(clf, X)
        return np.concatenate(list(answers(method, clf, batches)))  # type: ignore[return-value]

    return joined


def table_in_batches(clf: Any, X: Any) -> Batches | None:
    """The columns of a table in batches that a fitted classifier knows, if it knows their names; None of other rows."""
    batches = as_batches(X, rows_at_once(clf.n_features_in_), once=True)
    known = getattr(clf, "feature_names_in_", None)
    if batches is None or known is None:
        return batches
    return batches.only([name for name in known if name in batches.columns])


def score(clf: Any, batches: Batches, y: Any, sample_weight: Any) -> float:
    """Accuracy over the labelled rows of a table in batches, as `TableClassifier.score`."""
    parts = replace(read_parts(clf, batches, y, sample_weight), learns_from_unlabelled=False)
    known = getattr(clf, "feature_names_in_", None)
    if known is not None:
        parts = replace(parts, features=[name for name in known if name in parts.features])
    right = total = 0.0
    warned = set[str]()
    for part in parts.read("predicting", batches.n_rows):
        with naming(part.where), each_kind_once(warned):
            is_right = clf.predict(part.frame.to_native()) == part.classes[part.labels]
        weights = np.ones(len(is_right)) if part.weights is None else part.weights
        right += float(weights[is_right].sum())
        total += float(weights.sum())
    if not total:
        raise ValueError("no row has a label to compare with; give at least one row of y a class")
    return right / total


def answers(method: Method[A], clf: Any, batches: Batches) -> Iterator[A]:
    """What a method says of one batch after the other; an error names the batch."""
    is_empty, warned = True, set[str]()
    for batch in batches:
        is_empty = False
        with naming(batch.where), each_kind_once(warned):
            answer = method(clf, batch.frame.to_native())
        yield answer
    if is_empty:
        raise ValueError("the table has no rows; give at least one")
