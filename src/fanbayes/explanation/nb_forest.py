"""Forests of trees with naive Bayes in their nodes: why this class.

log p(c | x) is a sum over the features, up to a constant (R2): log p(c), what the networks say of each value, and
what each step down a tree changes of the shares, which counts for the column split on, both as means over the trees.
So the contributions of the features to the log-odds are differences of these, and add up as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fanbayes.data.table import EncodedTable
from fanbayes.explanation.contributions import Attribution, Explanation, check_sum, chosen_pairs, missing_values, told
from fanbayes.learning.e_step import ThreadPool
from fanbayes.learning.ensembles.nb_forest import ForestPredictor

_NUMBERS_AT_ONCE = 1 << 20


def explain_forest(
    forest: ForestPredictor, table: EncodedTable, classes: NDArray[Any], pair: Sequence[Any] | None, pool: ThreadPool
) -> Explanation:
    """Attribute the log-odds of two classes to the features of rows as the forest's view shows them.

    Parameters
    ----------
    forest : ForestPredictor
    table : EncodedTable
    classes : labels (n_classes,)
    pair : two of the labels; None for the most probable class of each row against the next

    Returns
    -------
    Explanation
        It has one part; what is missing tells nothing, as no tree knows how it is distributed.
    """
    log_proba = forest.log_proba(table, pool)
    pairs = chosen_pairs(log_proba, classes, pair)
    row, log_prior = np.arange(table.n_rows), np.log(forest.class_prior)
    schema = forest.view.schema
    contributions = np.empty((table.n_rows, len(schema.columns)))
    step = max(1, _NUMBERS_AT_ONCE // (len(schema.columns) * len(classes)))
    for at in range(0, table.n_rows, step):
        some = row[at : at + step]
        terms = forest.terms(table.only(some), pool)
        one, other = (np.take_along_axis(terms, c[:, None, None], axis=2)[:, :, 0] for c in pairs[some].T)
        contributions[some] = one - other
    found = Attribution(
        log_proba[row, pairs[:, 0]] - log_proba[row, pairs[:, 1]],
        log_prior[pairs[:, 0]] - log_prior[pairs[:, 1]],
        contributions,
        np.zeros(table.n_rows, dtype=np.intp),
        np.ones(table.n_rows),
    )
    check_sum(found, np.abs(contributions).sum(axis=1), row)
    gain = np.where(missing_values(schema, table), 0.0, np.nan)
    return told(found, "member", schema, table, classes[pairs], gain)
