"""Predictions of tables that are read in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from fanbayes.data.batches import Batches, as_batches, rows_at_once
from fanbayes.data.traps import each_kind_once
from fanbayes.estimators.batch_cases import naming

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
