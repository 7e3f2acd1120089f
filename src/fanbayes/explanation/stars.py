"""A mean of stars (`fanbayes.learning.aode`): why this class, and what its features tell.

A mean of stars is a mixture whose components are the stars, so that contributions are those of a mixture
(`contributions`): with an exponent t on every observed feature,

    F_c(t) = log sum_i exp( log p_i(c) + t [ log p_i(x_i | c) + sum_j log p(x_j | c, x_i) ] ) ,

the sum over the stars that take part in the row. A star whose root is missing is itself a mixture, over the values of
the root: a component for each, of log weight log p(c, x_i), in which the root contributes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, xlogy

from fanbayes.arrays import Floats, Ints
from fanbayes.data.table import EncodedTable
from fanbayes.data.views import Encodings
from fanbayes.explanation.contributions import by_feature, check_sum, chosen_pairs, missing_values, path_weights, told
from fanbayes.explanation.explanation import Attribution, Explanation
from fanbayes.learning.aode import AODE
from fanbayes.learning.e_step import ThreadPool

_NUMBERS_AT_ONCE = 1 << 20


def explain_stars(
    model: AODE, rows: Encodings, classes: NDArray[Any], pair: Sequence[Any] | None, pool: ThreadPool
) -> Explanation:
    """Attribute the log-odds of two classes to the features of encoded rows.

    Parameters
    ----------
    model : AODE
    rows : Encodings
        By its schema.
    classes : labels (n_classes,)
    pair : two of the labels; None for the most probable class of each row against the next
    """
    table, schema = rows[model.schema], model.schema
    chosen = chosen_pairs(model.posterior(rows, "log_proba", pool), classes, pair)
    levels = model.layout.first_level[:-1] + table.codes_of_columns()  # (n_rows, n_discrete)
    found = attribute_stars(model, levels, chosen)
    found = replace(found, contributions=by_feature(schema, found.contributions))
    gain = _information_gain(model, table, missing_values(schema, table), pool)
    return told(found, "star", schema, table, classes[chosen], gain)


@dataclass(frozen=True)
class _Components:
    """Stars that take part in rows, one for each value that the root may have.

    Attributes
    ----------
    row, slot : int (n,), whose they are, and their place among those of the row
    star : int (n,), place of the root among the columns; -1 for naive Bayes
    root : int (n,), level of the root
    given : bool (n,), whether it was observed
    """

    row: Ints
    slot: Ints
    star: Ints
    root: Ints
    given: NDArray[np.bool_]


def _components(model: AODE, levels: Ints) -> _Components:
    layout, qualifies = model.layout, model.tables.qualifies
    row, star = np.nonzero(qualifies[levels])
    root = levels[row, star]
    given = root != layout.missing_level[star]
    copies = np.where(given, 1, layout.n_levels[star])
    row, star, root, given = (np.repeat(x, copies) for x in (row, star, root, given))
    value = np.arange(len(row)) - np.repeat(np.cumsum(copies) - copies, copies)
    root = np.where(given, root, layout.first_level[star] + value)
    without = np.setdiff1d(np.arange(len(levels)), row)  # naive Bayes
    nobody = np.full(len(without), -1)
    row, star, root = (np.concatenate(p) for p in ((row, without), (star, nobody), (root, nobody)))
    given = np.concatenate([given, np.ones(len(without), dtype=bool)])
    order = np.argsort(row, kind="stable")
    row, star, root, given = row[order], star[order], root[order], given[order]
    slot = np.arange(len(row)) - np.searchsorted(row, row)
    return _Components(row, slot, star, root, given)


def attribute_stars(model: AODE, levels: Ints, pairs: Ints) -> Attribution:
    """Contributions of the columns to the log-odds of pairs of classes (n_rows, 2), given levels of the flat axis.

    `part` is the place of the most responsible star's root among the columns of the schema, -1 for naive Bayes.
    """
    n_rows, n = levels.shape
    most = int(model.layout.n_levels.max(initial=1)) if (levels == model.layout.missing_level).any() else 1
    step = max(1, _NUMBERS_AT_ONCE // max(1, n * n * most))
    blocks = []
    for at in range(0, n_rows, step):
        some, of_rows = levels[at : at + step], pairs[at : at + step]
        components = _components(model, some)
        one, other = (_terms(model, some, components, c) for c in of_rows.T)
        best = np.argmax(one.log_components, axis=1)
        row = np.arange(len(some))
        star = np.full(one.log_components.shape, -1)
        star[components.row, components.slot] = np.append(model.schema.feature_of, -1)[components.star]
        found = Attribution(
            one.log_joint - other.log_joint,
            one.log_prior - other.log_prior,
            one.terms - other.terms,
            star[row, best],
            np.exp(one.log_components[row, best] - one.log_joint),
        )
        check_sum(found, np.abs(one.terms).sum(axis=1) + np.abs(other.terms).sum(axis=1), at + row)
        blocks.append(found)
    return Attribution(*(np.concatenate([getattr(b, f.name) for b in blocks]) for f in fields(Attribution)))


@dataclass(frozen=True)
class _Terms:
    """Log p(c, x) of one class for each row, up to a constant, and what it is made of."""

    log_joint: Floats  # (n,)
    log_prior: Floats  # (n,)
    terms: Floats  # (n, n_features)
    log_components: Floats  # (n, n_components)


def _terms(model: AODE, levels: Ints, of: _Components, classes: Ints) -> _Terms:
    """What each column adds, given the class of each row."""
    tables, c = model.tables, classes[of.row]
    star, column = np.maximum(of.star, 0), np.arange(levels.shape[1])
    others = levels[of.row]  # (n_components, n_columns)
    log_p = tables.independent[others, c[:, None]]  # right for naive Bayes
    known = others != model.layout.missing_level
    pick = known & (column != star[:, None]) & (of.star >= 0)[:, None]
    k, j = np.nonzero(pick)
    log_p[k, j] = model.log_given(of.root[k], others[k, j], c[k])
    is_star = of.star >= 0
    weight = np.where(is_star, tables.marginal[star, c] if len(column) else 0.0, tables.prior[c])
    k = np.flatnonzero(is_star)
    own = tables.joint[of.root[k], c[k]]
    log_p[k, star[k]] = np.where(of.given[k], own - weight[k], 0.0)
    weight[k] = np.where(of.given[k], weight[k], own)
    shape = len(levels), int(of.slot.max()) + 1
    log_weight, dense = np.full(shape, -np.inf), np.zeros((*shape, len(column)))
    log_weight[of.row, of.slot], dense[of.row, of.slot] = weight, log_p
    slope = dense.sum(axis=2)
    log_components = log_weight + slope
    return _Terms(
        logsumexp(log_components, axis=1),
        logsumexp(log_weight, axis=1),
        np.einsum("nkj,nk->nj", dense, path_weights(log_weight, slope)),
        log_components,
    )


def _information_gain(model: AODE, table: EncodedTable, wanted: NDArray[np.bool_], pool: ThreadPool) -> Floats:
    """I(C; X_i | x) of what rows lack, (n_rows, n_columns), under the mean of all stars; NaN where not wanted."""
    gain = np.where(wanted, 0.0, np.nan)
    for j in np.flatnonzero(wanted.any(axis=0)).tolist():
        rows, place = np.flatnonzero(wanted[:, j]), model.schema.place[j]
        few = table.only(rows)
        log_p = np.stack([model.log_joint(_with(few, place, v), pool) for v in range(model.schema[j].n_levels)])
        joint = np.exp(log_p - logsumexp(log_p, axis=(0, 2), keepdims=True))  # (levels, rows, classes)
        gain[rows, j] = _mutual_information(joint)
    return gain


def _with(table: EncodedTable, place: int, code: int) -> EncodedTable:
    """The rows with one of the discrete columns at a level."""
    narrow, wide, n_narrow = table.narrow.copy(), table.wide.copy(), table.layout.n_narrow
    if place < n_narrow:
        narrow[:, place] = code
    else:
        wide[:, place - n_narrow] = code
    return replace(table, narrow=narrow, wide=wide)


def _mutual_information(joint: Floats) -> Floats:
    """Of levels and classes, (n_rows,), given (levels, n_rows, classes)."""
    terms = xlogy(joint, joint) - xlogy(joint, joint.sum(axis=0)) - xlogy(joint, joint.sum(axis=2, keepdims=True))
    return np.asarray(np.maximum(terms.sum(axis=(0, 2)), 0.0))


def star_information(model: AODE) -> Floats:
    """Mutual information of each feature with the class (n_features,), in its own star; 0 for one without parameters.

    Where it counts whether a value is there, that it is missing is one more level.
    """
    schema = model.schema
    information = np.zeros(len(schema.columns))

    def joint(j: int) -> Floats:
        """p(c, x_j) (levels, classes)."""
        return np.exp(model.tables.joint[model.levels(schema.place[j])])

    for j in schema.features:
        if j not in schema.indicator_of:
            found = joint(j)
        else:
            seen, missing = joint(schema.indicator_of[j])
            own = joint(j) if j in schema.place else np.ones((1, len(seen)))
            found = np.vstack([own / own.sum(axis=0) * seen, missing])
        information[j] = _mutual_information(found[:, None])[0]
    return information
