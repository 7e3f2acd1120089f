"""What a fitted model believes, in plain values: features, their distributions in each class, components in words.

A distribution is that of the *cells* of a joint distribution, and classes are mixtures of them:

    p(x_i | c) = sum_k p(cell k | c) p(x_i | cell k) .
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fanbayes.arrays import Floats
from fanbayes.data.schema import Schema
from fanbayes.estimators.intervals import IntervalClassifier, least_draws
from fanbayes.estimators.tabular import TableClassifier
from fanbayes.explanation.tables import feature_intervals, feature_parameters
from fanbayes.learning.aode import AODE
from fanbayes.learning.ensembles.average import Average
from fanbayes.learning.ensembles.boosting import Boosted
from fanbayes.learning.predictor import NetworkPredictor
from fanbayes.model.blocks.categorical import level_names
from fanbayes.model.network import Network
from fanbayes.model.tree_network import marginal_network
from fanbayes.pages.text import significant

_DIGITS = 5
_LARGEST = 1e300

INTERVAL = 0.9
# Features and rows of a table that have intervals on a page: each is read off every draw.
_MOST_WITH_INTERVALS, _MOST_ROWS = 40, 40

_OF_AVERAGE = (
    "The members of an average see the columns in different ways and are no joint distribution together. What is shown "
    "is the network that fills in missing values for them."
)
_OF_BOOSTED = "What is shown is the first round, naive Bayes of the rows as they are; later rounds weight them anew."
_OF_TREE = "A number below a discrete feature in the tree is shown as the normal curve of its mean and variance."


@dataclass(frozen=True)
class Joint:
    """Distributions of the features by themselves, one for each cell.

    Attributes
    ----------
    weight : (n_classes, n_cells), p(cell | c)
    component_of : component of each cell; none where cells are classes
    features : what is known of each feature of the schema, by position: "levels" and "table" (n_levels, n_cells),
        "mean" and "deviation" or "rate" (n_cells,), in the unit of the column; "missing" (n_cells,) where it counts
    note : what has to be said of it
    """

    weight: Floats
    component_of: list[int]
    features: dict[int, dict[str, Any]]
    note: str = ""


def joint_of(clf: TableClassifier) -> Joint | None:
    """The distributions that a classifier holds, or the nearest to them; None where it has none."""
    predictor = clf._predictor
    if isinstance(predictor, NetworkPredictor):
        network = predictor.network
        is_mixed = bool(clf.schema_.discrete and clf.schema_.continuous)
        is_tree = marginal_network(network) is not network
        return _of_network(network, clf.schema_, _OF_TREE if is_tree and is_mixed else "")
    if isinstance(predictor, Average):
        return _of_network(predictor.imputer.network, predictor.imputer.schema, _OF_AVERAGE)
    if isinstance(predictor, Boosted):
        return _of_network(predictor.networks[0], clf.schema_, _OF_BOOSTED)
    return _of_stars(predictor) if isinstance(predictor, AODE) else None


def _of_network(network: Network, schema: Schema, note: str) -> Joint:
    structure, marginal = network.structure, marginal_network(network)
    found: dict[int, dict[str, Any]] = {}
    for j in schema.features:
        about: dict[str, Any] = {}
        column = schema[j]
        if j in schema.position_in_layout:
            mean, variance = marginal.column(schema.position_in_layout[j]).traits()
            if column.kind != "continuous":
                about = {"levels": list(map(str, level_names(column))), "table": significant(mean, _DIGITS)}
            elif column.is_standardised:
                with np.errstate(over="ignore"):
                    deviation = np.ldexp(np.sqrt(variance[0]) * column.scale, column.exponent)
                about = {"mean": _finite(column.restore(mean[0])), "deviation": _finite(deviation)}
            else:
                about = {"rate": _finite(mean[0])}
        if j in schema.indicator_of:
            indicator = marginal.column(schema.position_in_layout[schema.indicator_of[j]])
            about["missing"] = significant(indicator.traits()[0][1], _DIGITS)
        found[j] = about
    component_of = structure.component_of_cell.tolist() if structure.n_components > 1 else []
    return Joint(network.cells_given_class(), component_of, found, note)


def _of_stars(model: AODE) -> Joint:
    schema = model.schema
    found: dict[int, dict[str, Any]] = {}

    def shares(j: int) -> Floats:
        """p(x_j | c) (n_levels, n_classes)."""
        joint = np.exp(model.tables.joint[model.levels(schema.place[j])])
        return np.asarray(joint / joint.sum(axis=0))

    for j in schema.features:
        about: dict[str, Any] = {}
        if j in schema.place:
            about = {"levels": list(map(str, level_names(schema[j]))), "table": significant(shares(j), _DIGITS)}
        if j in schema.indicator_of:
            about["missing"] = significant(shares(schema.indicator_of[j])[1], _DIGITS)
        found[j] = about
    return Joint(np.eye(len(model.class_prior)), [], found)


def _finite(x: Floats) -> list[float]:
    return significant(np.clip(x, -_LARGEST, _LARGEST), _DIGITS)


def _limit(x: float) -> float | None:
    return None if math.isnan(x) else x


def feature_list(clf: TableClassifier, joint: Joint | None, about: dict[str, Any]) -> list[dict[str, Any]]:
    """Features as `describe` lists them, the most informative first, each with its distributions and range."""
    schema = clf.schema_
    found: list[dict[str, Any]] = []
    for feature in about["features"]:
        j = schema.position(feature["feature"])
        entry = {
            "name": feature["feature"],
            "kind": feature["kind"],
            "information": feature["information"],
            "position": j,
            "low": _limit(schema[j].low),
            "high": _limit(schema[j].high),
        }
        if j not in schema.features:
            entry["flat"] = True
        elif len(found) < _MOST_WITH_INTERVALS and (table := intervals_of(clf, j)) is not None:
            entry["intervals"] = table
        found.append(entry | ({} if joint is None else joint.features.get(j, {})))
    return found


def intervals_of(clf: TableClassifier, feature: int) -> list[list[str]] | None:
    """Parameters of a feature with their intervals, as texts, names first; None where parameters were not drawn."""
    if not isinstance(clf, IntervalClassifier) or len(getattr(clf, "draws_", ())) < least_draws(INTERVAL):
        return None
    about = clf.schema_, feature, clf.classes_.tolist()
    table, ends = feature_parameters(clf.network_, *about), feature_intervals(clf.draws_, *about, INTERVAL)
    columns: dict[str, list[str]] = {}
    for name, values in table.items():
        if f"{name}_lower" not in ends:
            columns[name] = list(map(str, values))
            continue
        columns[name] = [f"{value:.{_DIGITS}g}" for value in values]
        between = zip(ends[f"{name}_lower"], ends[f"{name}_upper"])
        columns[f"{name}, {100 * INTERVAL:.0f} %"] = [f"{low:.3g} to {high:.3g}" for low, high in between]
    return [list(columns), *map(list, zip(*columns.values()))][: 1 + _MOST_ROWS]


def components_in_words(about: dict[str, Any], features: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Cells as `describe` lists them, with the traits in which they differ most, in words.

    Returns
    -------
    list of dict
        "class" (None where classes share it), "component", "share" of all rows and "words".
    """
    by_name = {feature["name"]: feature for feature in features}
    return [
        {
            "class": None if "class" not in cell else str(cell["class"]),
            "component": cell["component"],
            "share": cell["share"],
            "words": [_in_words(trait, by_name.get(trait["feature"]), k) for trait in cell["traits"]],
        }
        for k, cell in enumerate(about.get("components", []))
    ]


def _in_words(trait: dict[str, Any], feature: dict[str, Any] | None, cell: int) -> str:
    """Such as "very high age (mean 71)" or "mostly smoker = yes (64 %)"."""
    difference, name = trait["difference"], trait["feature"]
    if feature is None:  # an indicator, whose name says it all
        return f"{'more' if difference > 0 else 'less'} often {name}"
    if trait["level"] is None:
        very, which = "very " if abs(difference) >= 1 else "", "high" if difference > 0 else "low"
        return f"{very}{which} {name} (mean {(feature.get('mean') or feature['rate'])[cell]:.3g})"
    p = feature["table"][feature["levels"].index(str(trait["level"]))][cell]
    often = ("mostly" if p >= 0.6 else "more often") if difference > 0 else ("seldom" if p < 0.2 else "less often")
    return f"{often} {name} = {trait['level']} ({100 * p:.0f} %)"
