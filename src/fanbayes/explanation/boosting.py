"""Boosted naive Bayes: why this class, and its tables.

The additive score (B2) is a sum over features as it is: what a feature contributes to the log-odds of two classes is
the difference of two entries of its table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fanbayes.arrays import Floats
from fanbayes.data.table import EncodedTable
from fanbayes.data.views import Encodings
from fanbayes.explanation.contributions import (
    attribute,
    by_feature,
    chosen_pairs,
    missing_values,
    told,
    without_evidence,
)
from fanbayes.explanation.explanation import Explanation
from fanbayes.explanation.information import information_gain
from fanbayes.learning.completion import missing_cells
from fanbayes.learning.e_step import ThreadPool
from fanbayes.learning.ensembles.boosting import Boosted
from fanbayes.model.blocks.categorical import level_names


def explain_boosted(
    boosted: Boosted, table: EncodedTable, classes: NDArray[Any], pair: Sequence[Any] | None, pool: ThreadPool
) -> Explanation:
    """Attribute the log-odds of two classes to the features of encoded rows.

    What a missing feature would tell is what it does under naive Bayes itself, the first round.

    Parameters
    ----------
    boosted : with additive scores
    table : rows by its schema
    classes : labels (n_classes,)
    pair : two of the labels; None for the most probable class of each row against the next
    """
    schema = boosted.schema
    log_proba = boosted.posterior(Encodings((schema,), (table,)), "log_proba", pool)
    chosen = chosen_pairs(log_proba, classes, pair)
    found = attribute(boosted.additive, table, chosen)
    found = replace(found, contributions=by_feature(schema, found.contributions))
    prior = np.log(boosted.class_prior)[chosen] @ [1.0, -1.0]
    is_empty = np.asarray(missing_cells(table).all(axis=1))
    found = without_evidence(found, is_empty, prior)
    gain = information_gain(boosted.networks[0], schema, np.exp(log_proba), missing_values(schema, table))
    return told(found, "component", schema, table, classes[chosen], gain)


def score_parameters(boosted: Boosted, feature: str | int, classes: Sequence[Any]) -> dict[str, list[Any]]:
    """What each level of a feature adds to the score of each class; over the classes the scores of a level sum to 0.

    Returns
    -------
    dict of equally long columns "class", "level" and "score"
        Where it counts whether a value is there, the level None stands for what is missing.
    """
    names, scores = _scores(boosted, boosted.schema.position(feature))
    return {
        "class": [label for label in classes for _ in names],
        "level": names * len(classes),
        "score": scores.T.ravel().tolist(),
    }


def strongest_scores(boosted: Boosted, classes: Sequence[Any]) -> list[dict[str, Any]]:
    """Entries of all score tables, the largest first, whatever their sign; of two classes, those of the second."""
    found = []
    for j in boosted.schema.features:
        names, scores = _scores(boosted, j)
        shown = range(len(classes)) if len(classes) != 2 else [1]  # the first has the same with the other sign
        found += [
            {
                "feature": boosted.schema[j].name,
                "level": "(missing)" if name is None else name,
                "class": classes[c],
                "score": float(scores[k, c]),
            }
            for k, name in enumerate(names)
            for c in shown
        ]
    return sorted(found, key=lambda entry: -abs(entry["score"]))


def _scores(boosted: Boosted, j: int) -> tuple[list[Any], Floats]:
    """Levels of a feature, and their scores (n_levels, n_classes); None is that it is missing, where that counts."""
    schema = boosted.schema
    names, scores = level_names(schema[j]), _centred(boosted, j)
    if j not in schema.indicator_of:
        return names, scores
    seen, missing = _centred(boosted, schema.indicator_of[j])
    return [*names, None], np.vstack([scores + seen, missing])


def _centred(boosted: Boosted, j: int) -> Floats:
    """Scores (n_levels, n_classes) of a column, less their mean over the classes; 0 where it has no parameters."""
    schema, layout = boosted.schema, boosted.additive.layout
    if j not in schema.place:
        return np.zeros((len(level_names(schema[j])), boosted.additive.structure.n_classes))
    k = schema.place[j]
    scores = boosted.additive.terms.log_table[0, layout.first_level[k] : layout.missing_level[k]]
    return np.asarray(scores - scores.mean(axis=1, keepdims=True))
