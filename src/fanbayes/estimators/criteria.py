"""One search, several criteria: for studies that compare them."""

from __future__ import annotations

from copy import copy
from typing import Any, TypeVar

from sklearn.base import clone

from fanbayes.estimators.base import NetworkClassifier
from fanbayes.learning.scores import Criterion
from fanbayes.learning.selection import continue_with_cem

C = TypeVar("C", bound=NetworkClassifier)


def fit_by_criteria(
    estimator: C, X: Any, y: Any, criteria: tuple[Criterion, ...], *, cem: bool = False
) -> dict[str, C]:
    """Fit once, choose once for each criterion.

    The search goes on until no criterion has found better for `patience` sizes, so each choice is the one
    that the criterion alone would have made, or one that it did not get to see. Arcs between features, if there are
    any, are those by the first criterion.

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
    learnt = model._learn(X, y, None, criteria)
    if cem and learnt.search.arcs is not None:
        raise ValueError("CEM after EM is of models without arcs between features; give tree='none', or cem=False")
    choices = [(str(name), learnt.selection, learnt.selection.best(name)) for name in criteria]
    if cem:
        after = continue_with_cem(learnt.problem, learnt.search, learnt.selection)
        choices.append(("icl_cem", after, after.best("icl")))
    chosen = {}
    for name, candidates, best in choices:
        chosen[name] = copy(model)
        chosen[name]._set_learnt(learnt, candidates, best)
    return chosen
