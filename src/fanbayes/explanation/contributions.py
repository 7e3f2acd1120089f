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
has log p = 0 and contributes nothing; the unit of a continuous feature cancels between the classes. Where features are
correlated within a component, each has its share in their joint log density (`Normals.by_column`).

As p_t depends on t through S_h = sum_i log p(x_i | c, h) alone, one integral per component does for all features:

    A_i(c) = sum_h W_h log p(x_i | c, h) ,   W_h = ∫_0^1 p_t(h | c, x) dt .
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, softmax

from fanbayes.arrays import Floats, Ints, Mask
from fanbayes.data.schema import Column, Schema
from fanbayes.data.table import EncodedTable
from fanbayes.explanation.explanation import Attribution, Explanation, Part
from fanbayes.explanation.information import information_gain
from fanbayes.explanation.tree import column_log_prob, tree_information_gain
from fanbayes.model.blocks.categorical import level_names
from fanbayes.model.network import Network
from fanbayes.model.tree import TreeLayout

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
# Log weights lie within some 1e6, so lines whose slopes differ by D cross at t below 2e6 / D, in a span of about 1 / D:
# however steep, a crossing is wide beside the rounding of t. The shortest step is the least positive number.
_HALVINGS = 1074
_NUMBERS_AT_ONCE = 1 << 20


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
    log_states : log p(s, x) (n_rows, n_states), up to a constant a row
    classes : labels (n_classes,)
    pair : two of the labels; None for the most probable class of each row against the next

    Returns
    -------
    Explanation
    """
    first = np.searchsorted(network.structure.class_of, np.arange(network.structure.n_classes))
    chosen = chosen_pairs(np.logaddexp.reduceat(log_states, first, axis=1), classes, pair)
    found = attribute(network, table, chosen)
    missing = missing_values(schema, table)
    if isinstance(network.layout, TreeLayout):
        gain = tree_information_gain(network, schema, table, missing)
    else:
        gain = information_gain(network, schema, softmax(log_states, axis=1), missing, table.numbers)
    found = replace(found, contributions=by_feature(schema, found.contributions))
    return told(found, "component", schema, table, classes[chosen], gain)


def by_feature(schema: Schema, contributions: Floats) -> Floats:
    """Contributions (n_rows, n_features), of those of the columns of the layout; an indicator's are its column's."""
    found = np.zeros((len(contributions), len(schema.columns)))
    for j, of_column in zip(schema.feature_of.tolist(), contributions.T):
        found[:, j] += of_column
    return found


def told(
    found: Attribution,
    kind_of_part: Part,
    schema: Schema,
    table: EncodedTable,
    classes: NDArray[Any],
    gain: Floats,
) -> Explanation:
    """With names and values.

    Parameters
    ----------
    found : with contributions of the features
    classes : (n_rows, 2)
    gain : (n_rows, n_features), NaN where observed
    """
    columns = schema.features
    return Explanation(
        found.log_odds,
        found.prior,
        found.contributions[:, columns],
        found.part,
        found.responsibility,
        kind_of_part=kind_of_part,
        features=tuple(schema[j].name for j in columns),
        values=values_as_text(schema, table),
        classes=classes,
        information=gain[:, columns],
        frame=schema.frame,
    )


def attribute(network: Network, table: EncodedTable, pairs: Ints) -> Attribution:
    """Contributions of the discrete and then the continuous columns to the log-odds of pairs of classes (n_rows, 2).

    Raises
    ------
    FloatingPointError
        If prior and contributions miss the log-odds by more than `TOLERANCE`; the rest is never shared out.
    """
    layout, structure = network.layout, network.structure
    states, log_weight = _states_of_classes(network)
    size = (layout.n_discrete + layout.n_numbers + layout.n_regressions) * states.size
    step = max(1, _NUMBERS_AT_ONCE // max(1, size))
    blocks = []
    for i in range(0, table.n_rows, step):
        rows = np.arange(i, min(i + step, table.n_rows))
        one, other = (_terms(network, table.only(rows), states[c], log_weight[c]) for c in pairs[rows].T)
        blocks.append(
            Attribution(
                one.log_joint - other.log_joint,
                one.log_prior - other.log_prior,
                one.terms - other.terms,
                structure.component_of[one.state],
                one.responsibility,
            )
        )
        size_of_terms = np.abs(one.terms).sum(axis=1) + np.abs(other.terms).sum(axis=1)
        check_sum(blocks[-1], size_of_terms, rows)
    return Attribution(*(np.concatenate([getattr(b, f.name) for b in blocks]) for f in fields(Attribution)))


@dataclass(frozen=True)
class _Terms:
    """Log p(c, x) of one class for each row, and what it is made of."""

    log_joint: Floats  # (n,)
    log_prior: Floats  # (n,)
    terms: Floats  # (n, n_features), A_i(c)
    state: Ints  # (n,) the most responsible
    responsibility: Floats  # (n,)


def _terms(network: Network, table: EncodedTable, states: Ints, log_weight: Floats) -> _Terms:
    """A_i(c) of rows, given the states (n, n_components) of their classes and log p(c, h)."""
    log_p = _log_prob(network, table, network.structure.cell_of[states])
    slope = log_p.sum(axis=1)
    log_joint = logsumexp(log_weight + slope, axis=1)
    responsible = np.argmax(log_weight + slope, axis=1)
    row = np.arange(len(states))
    return _Terms(
        log_joint,
        logsumexp(log_weight, axis=1),
        np.einsum("nih,nh->ni", log_p, path_weights(log_weight, slope)),
        states[row, responsible],
        np.exp((log_weight + slope)[row, responsible] - log_joint),
    )


def _log_prob(network: Network, table: EncodedTable, cells: Ints) -> Floats:
    """What each column adds (n_rows, n_columns, n) in the cells (n_rows, n) of each row."""
    if isinstance(network.layout, TreeLayout):
        return np.take_along_axis(column_log_prob(network, table), cells[:, None, :], axis=2)
    levels = network.layout.first_level[:-1] + table.codes_of_columns()
    return network.terms.log_prob(levels, table.numbers, table.pairs, cells)


def path_weights(log_weight: Floats, slope: Floats) -> Floats:
    """W_h = ∫_0^1 softmax_h(log_weight + t slope) dt.

    The interval is halved until, on each step, the slopes of the components that matter there differ by less than
    pi over its length: a rule of 16 points is then exact to rounding. Steps become short only where one component
    takes over from another.

    Parameters
    ----------
    log_weight, slope : (n_rows, n_components); a weight may be -inf

    Returns
    -------
    ndarray of shape (n_rows, n_components), each row summing to one
    """
    if slope.shape[1] == 1:
        return np.ones_like(slope)
    slope = slope - slope.max(axis=1, keepdims=True)  # what all have in common cancels
    total = np.zeros_like(slope)
    row, start = np.arange(len(slope)), np.zeros(len(slope))
    for halving in range(_HALVINGS + 1):
        length = 0.5**halving
        s, a = slope[row], log_weight[row] + start[:, None] * slope[row]
        # Elsewhere than near 0, shorter steps than this are no more than rounding of t.
        due = (length * _spread(a, s, length) <= _LONGEST) | (length < np.spacing(start)) | (halving == _HALVINGS)
        t = length * _NODES[:, None]
        p = softmax(a[due][:, None, :] + t * s[due][:, None, :], axis=2)  # (steps, nodes, components)
        np.add.at(total, row[due], length * np.einsum("k,nkh->nh", _WEIGHTS, p))
        row, start = np.repeat(row[~due], 2), np.repeat(start[~due], 2)
        start[1::2] += length / 2
        if len(row) == 0:
            break
    return total


def _spread(a: Floats, slope: Floats, length: float) -> Floats:
    """Range (n,) of the slopes of lines that come near the highest on a step, beginning at a (n, n_components).

    A line stays below another by at least what it does at the worse of the two ends; it is compared with those that
    lead at the one and at the other end.
    """
    b = a + length * slope
    row = np.arange(len(a))[:, None]
    reach = np.full_like(a, np.inf)
    for end in (a, b):
        lead = np.argmax(end, axis=1, keepdims=True)
        reach = np.minimum(reach, np.maximum(a - a[row, lead], b - b[row, lead]))
    matters = reach > _NEGLIGIBLE
    return np.asarray(np.where(matters, slope, -np.inf).max(axis=1) - np.where(matters, slope, np.inf).min(axis=1))


def _states_of_classes(network: Network) -> tuple[Ints, Floats]:
    """States of each class and log p(c, h), (n_classes, most components); what fills up a row has weight 0."""
    structure = network.structure
    sizes = np.bincount(structure.class_of)
    first = np.cumsum(sizes) - sizes
    number = np.arange(sizes.max())
    is_state = number < sizes[:, None]
    states = np.where(is_state, first[:, None] + number, first[:, None])
    return states, np.where(is_state, network.log_weight[0, states], -np.inf)


def check_sum(found: Attribution, size_of_terms: Floats, rows: Ints) -> None:
    """Refuse contributions of rows, by their number, that do not add up, beside terms of this size (n_rows,)."""
    rest = np.abs(found.prior + found.contributions.sum(axis=1) - found.log_odds)
    wrong = ~(rest <= TOLERANCE * np.maximum(1.0, size_of_terms + np.abs(found.prior)))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise FloatingPointError(
            f"the contributions of row {rows[row]} miss its log-odds, {found.log_odds[row]:g}, by {rest[row]:g}: "
            "it lies too far from what the model knows to be explained"
        )


def without_evidence(found: Attribution, is_empty: Mask, prior: Floats) -> Attribution:
    """The log-odds of rows in which everything is missing are those of the class prior."""
    return replace(
        found,
        log_odds=np.where(is_empty, prior, found.log_odds),
        prior=np.where(is_empty, prior, found.prior),
        contributions=np.where(is_empty[:, None], 0.0, found.contributions),
    )


def chosen_pairs(log_classes: Floats, classes: NDArray[Any], pair: Sequence[Any] | None) -> Ints:
    """Positions of the two classes to compare in each row (n_rows, 2), given log p(c, x) or log p(c | x).

    In the place of None is the most probable class of each row that is not the other one of the pair.
    """
    if len(classes) < 2:
        raise ValueError("there is nothing to explain: the model knows one class only")
    ranked = np.argsort(-log_classes, axis=1, kind="stable")
    if pair is None or list(pair) == [None, None]:
        return ranked[:, :2]
    known = classes.tolist()
    chosen = [known.index(c) for c in pair if c in known]
    if len(pair) != 2 or len(set(chosen)) != 2 - sum(c is None for c in pair):
        raise ValueError(f"classes={pair!r} must be two of {', '.join(map(repr, known))}")
    if len(chosen) == 2:
        return np.tile(chosen, (len(log_classes), 1))
    best = np.where(ranked[:, 0] == chosen[0], ranked[:, 1], ranked[:, 0])
    given = np.full_like(best, chosen[0])
    return np.column_stack([best, given] if pair[0] is None else [given, best])


def missing_values(schema: Schema, table: EncodedTable) -> NDArray[np.bool_]:
    """Where a column with parameters is missing (n_rows, n_columns); not an indicator."""
    missing = np.zeros((table.n_rows, len(schema.columns) + len(schema.indicators)), dtype=bool)
    missing[:, schema.discrete] = table.codes_of_columns() == table.layout.n_levels
    missing[:, schema.continuous] = np.isnan(table.numbers)
    return missing[:, : len(schema.columns)]


def values_as_text(schema: Schema, table: EncodedTable) -> tuple[tuple[str | None, ...], ...]:
    """Values of each feature, row by row; None where missing, unless that counts."""
    values: dict[int, tuple[str | None, ...]] = {}
    for j, z in zip(schema.continuous, table.numbers.T):
        values[j] = tuple(None if x != x else f"{x:.12g}" for x in schema[j].restore(z).tolist())
    for j, codes in zip(schema.discrete, table.codes_of_columns().T):
        names = [*map(str, level_names(schema[j])), None]
        values[j] = tuple(names[code] for code in codes.tolist())
    for j, indicator in schema.indicator_of.items():
        said = {"True": "(missing)", "False": _only_value(schema[j])}  # of what has no value of its own
        own = values.get(j, (None,) * table.n_rows)
        values[j] = tuple(said.get(str(i)) if x is None else x for x, i in zip(own, values[indicator]))
    return tuple(values[j] for j in schema.features)


def _only_value(column: Column) -> str:
    """What a column holds if none of its known values is there, but one is."""
    if column.is_informative:
        return "(unknown)"
    return f"{column.low:.12g}" if column.kind != "discrete" else str(column.levels[0])
