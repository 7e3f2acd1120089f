"""Why this class: the log-odds of two classes as a sum over features.

Put an exponent t on every observed feature of a row,

    F_c(t) = log sum_h p(c, h) prod_i p(x_i | c, h)^t .

t = 0 is a row with everything missing, F_c(0) = log p(c); t = 1 is the row, F_c(1) = log p(c, x). Between them,
with p_t(h | c, x) proportional to p(c, h) prod_i p(x_i | c, h)^t,

    dF_c / dt = sum_i sum_h p_t(h | c, x) log p(x_i | c, h) ,

so the contribution of feature i (Aumann & Shapley 1974), ``A_i(c) = ∫_0^1 E_t[log p(x_i | c, h)] dt``, has the
property that ``log p(c) + sum_i A_i(c) = log p(c, x)``, and A_i(c) - A_i(c') add up with the prior log-odds to the
log-odds. No order of features enters. With one component A_i(c) = log p(x_i | c), naive Bayes' own term. FM is the
same with p(c, h) = p(h) p(c | h) and features that see h only: its classes differ by p_t(h | c, x). A missing value
has log p = 0 and contributes nothing; the unit of a continuous feature cancels between the classes.

As p_t depends on t through S_h = sum_i log p(x_i | c, h) alone, one integral per component does for all features:

    A_i(c) = sum_h W_h log p(x_i | c, h) ,   W_h = ∫_0^1 p_t(h | c, x) dt .
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, softmax

from fanbayes.data.frames import to_user_table
from fanbayes.data.schema import Schema
from fanbayes.data.table import EncodedTable
from fanbayes.model.families import gaussian
from fanbayes.model.information import information_gain
from fanbayes.model.network import Network
from fanbayes.model.structure import Structure
from fanbayes.model.tables import level_names

Floats = NDArray[np.float64]
Ints = NDArray[np.integer[Any]]

TOLERANCE = 1e-10
"""How closely prior and contributions add up to the log-odds (relative, where the terms exceed 1)."""

# With R the spread of the slopes S_h, t -> p_t(h) is analytic in the strip |Im t| < pi / R, and below
# 1 / cos(0.45 pi) = 6.4 in nine tenths of it: there the phases of all exponentials lie within a right angle of
# their middle. On a step of length pi / R, the strip holds the ellipse with axes' sum rho = 3.86, and the error of
# a Gauss-Legendre rule of 16 points is below 64/15 6.4 rho^-32 / (1 - rho^-2) < 1e-17 of the step.
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_NODES, _WEIGHTS = (_NODES + 1) / 2, _WEIGHTS / 2
_LONGEST = math.pi
# Components that stay e^-40 below another all along a step do not matter for its length.
_NEGLIGIBLE = -40.0
# Steps of 2^-52 are no more than rounding of t.
_HALVINGS = 52
_NUMBERS_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class Attribution:
    """The log-odds of one class against another, row by row.

    Attributes
    ----------
    log_odds : (n_rows,), log p(c | x) - log p(c' | x)
    prior : (n_rows,), log p(c) - log p(c')
    contributions : (n_rows, n_features)
        ``prior + contributions.sum(axis=1)`` are the log-odds.
    component : int (n_rows,)
        The component most responsible for the row, the largest p(h | c, x).
    responsibility : (n_rows,)
        That probability.
    """

    log_odds: Floats
    prior: Floats
    contributions: Floats
    component: Ints
    responsibility: Floats


@dataclass(frozen=True)
class Explanation(Attribution):
    """What `explain` returns: an `Attribution` with the names that make it readable, as arrays and as tables.

    Attributes
    ----------
    features : names of the features, without those that have no parameters
    values : for each feature its value in each row, as text; None where missing
    classes : (n_rows, 2)
        Each row's class and the one it is compared with.
    information : (n_rows, n_features)
        Expected information about the class, in nats, of observing a missing feature next; NaN where observed.
    frame : library of the tables, None for dicts of columns
    """

    features: tuple[str, ...]
    values: tuple[tuple[str | None, ...], ...]
    classes: NDArray[Any]
    information: Floats
    frame: str | None

    def table(self) -> Any:
        """Contributions: "row", "class", "against", "feature", "value", "contribution", first the "(prior)"."""
        n, width = len(self.log_odds), len(self.features) + 1
        return to_user_table(
            {
                "row": np.repeat(np.arange(n), width).tolist(),
                "class": np.repeat(self.classes[:, 0], width).tolist(),
                "against": np.repeat(self.classes[:, 1], width).tolist(),
                "feature": ["(prior)", *self.features] * n,
                "value": [v for row in zip([None] * n, *self.values) for v in row],
                "contribution": np.column_stack([self.prior, self.contributions]).ravel().tolist(),
            },
            self.frame,
        )

    def summary(self) -> Any:
        """One line a row: "row", "class", "against", "log_odds", "component", "responsibility"."""
        return to_user_table(
            {
                "row": list(range(len(self.log_odds))),
                "class": self.classes[:, 0].tolist(),
                "against": self.classes[:, 1].tolist(),
                **{name: getattr(self, name).tolist() for name in ("log_odds", "component", "responsibility")},
            },
            self.frame,
        )

    def worth_observing(self) -> Any:
        """Missing values, the most informative of each row first: "row", "feature", "information"."""
        row, feature = np.nonzero(~np.isnan(self.information))
        information = self.information[row, feature]
        order = np.lexsort((feature, -information, row))
        return to_user_table(
            {
                "row": row[order].tolist(),
                "feature": [self.features[j] for j in feature[order]],
                "information": information[order].tolist(),
            },
            self.frame,
        )


def explain(
    network: Network,
    schema: Schema,
    table: EncodedTable,
    log_states: Floats,
    classes: NDArray[Any],
    pair: Sequence[Any] | None,
) -> Explanation:
    """Attribute the log-odds of two classes to the features of encoded rows.

    Parameters
    ----------
    network : Network of one
    schema, table : the columns, and the rows encoded by them
    log_states : log p(s, x) (n_rows, n_states)
    classes : labels (n_classes,)
    pair : two of the labels; None for the most probable class of each row and the next

    Returns
    -------
    Explanation
    """
    columns = sorted(schema.discrete + schema.continuous)
    values = _values_as_text(schema, table, columns)
    missing = np.ones((table.n_rows, len(schema.columns)), dtype=bool)
    missing[:, columns] = np.array([[v is None for v in column] for column in values]).reshape(len(columns), -1).T
    information = information_gain(network, schema, softmax(log_states, axis=1), missing)[:, columns]
    chosen = _pairs(network.structure, log_states, classes, pair)
    parts = attribute(network, schema, table, chosen)
    return Explanation(
        **{f.name: getattr(parts, f.name) for f in fields(parts)},
        features=tuple(schema[j].name for j in columns),
        values=values,
        classes=classes[chosen],
        information=information,
        frame=schema.frame,
    )


def attribute(network: Network, schema: Schema, table: EncodedTable, pairs: Ints) -> Attribution:
    """Contributions of the columns that have parameters, in their order, for each row's pair of classes (n_rows, 2)."""
    order = np.argsort(schema.discrete + schema.continuous)
    n_numbers = max(1, len(order) * int(np.bincount(network.structure.class_of).max()))
    edges = np.arange(0, table.n_rows + 1, max(1, _NUMBERS_AT_ONCE // n_numbers)).tolist()
    blocks = [_attribute(network, table.take(slice(a, b)), pairs[a:b]) for a, b in zip(edges, [*edges[1:], None])]
    whole = Attribution(*(np.concatenate([getattr(b, f.name) for b in blocks]) for f in fields(Attribution)))
    return Attribution(whole.log_odds, whole.prior, whole.contributions[:, order], whole.component, whole.responsibility)
