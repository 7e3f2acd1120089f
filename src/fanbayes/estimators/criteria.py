"""One search, several criteria: for studies that compare them."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Any, TypeVar

from sklearn.base import clone

from fanbayes.estimators.base import NetworkClassifier
from fanbayes.learning.expectation import workers
from fanbayes.learning.scores import Criterion
from fanbayes.learning.selection import continue_with_cem, select

C = TypeVar("C", bound=NetworkClassifier)


def fit_by_criteria(
    estimator: C, X: Any, y: Any, criteria: tuple[Criterion, ...], *, cem: bool = False
) -> dict[str, C]:
    """Fit once, choose once for each criterion.

    The search goes on until no criterion has found better for `patience` sizes, so each choice is the one
    that the criterion alone would have made, or one that it did not get to see.

    Parameters
    ----------
    estimator : a classifier, left as it is
    X, y : rows and their classes
    criteria : scores to choose by
    cem : whether to add "icl_cem": ICL of each candidate after CEM continued from EM

    Returns
    -------
    dict of fitted classifiers, by criterion
    """
    model = clone(estimator)
    classes, schema, table = model._read(X, y, None)
    search = replace(model._search(classes, table.total_weight), criteria=criteria)
    chosen = {}
    with workers(model._n_threads()) as crew:
        problem = model._problem(table, crew)
        selection = select(problem, search, len(classes), lambda fit: None)
        choices = [(name, selection, selection.best(name)) for name in criteria]
        if cem:
            after = continue_with_cem(problem, search, selection)
            choices.append(("icl_cem", after, after.best("icl")))  # type: ignore[arg-type]
    for name, candidates, best in choices:
        chosen[str(name)] = copy(model)
        chosen[str(name)]._set_learnt(classes, schema, candidates, best)
    return chosen
