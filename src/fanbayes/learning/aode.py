"""Averaged one-dependence estimators (Webb, Boughton & Wang 2005): a mean of stars.

In star i every other feature depends on the class and on feature i, its root:

    p_i(c, x) = p(c, x_i) prod_(j != i) p(x_j | c, x_i) ,                                          (S1)
    p(c, x_i) = (F(c, x_i) + alpha) / (N_i + alpha r_c r_i) ,
    p(x_j | c, x_i) = (F(c, x_i, x_j) + alpha) / (F(c, x_i; x_j observed) + alpha r_j) ,

F counts of labelled cases, N_i those with feature i observed. The prediction is the mean of the stars whose root value
has F(x_i) >= m, naive Bayes where there is none. Each star is a joint distribution: a missing feature that is not the
root drops out of its product, a missing root is summed out (it qualifies if N_i >= m).

The mean of *all* stars is one, too. Where all values qualify, which they do with m = 1 if all levels occur, it is the
prediction; elsewhere p(x) is still its density, and p(c | x) that of the stars that qualify.

Where it counts whether a value is there, its indicator is a feature like any other, but independent of the value given
the class: F(c, x_i, x_j) of the two is F(c, x_i) F(c, x_j) / N_c.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, softmax

from fanbayes import _native
from fanbayes.arrays import Floats, Ints, Mask
from fanbayes.data.caching import cached_property, fields_only
from fanbayes.data.schema import Schema
from fanbayes.data.state import Arrays, State, entry, read_array, require, require_names
from fanbayes.data.table import EncodedTable, Layout, layout_of
from fanbayes.data.views import Encodings
from fanbayes.learning.e_step import ThreadPool
from fanbayes.learning.predictor import Sample
from fanbayes.model.sampling import in_own_units

MOST_COUNTS = 1 << 27
"""Most counts of pairs of levels: with their logs they take 2 GiB."""

# Counts may be sums of weights, which are rounded.
_ROUNDING = 1e-9
_MOST_CASES = 1e101


@dataclass(frozen=True)
class StarTables:
    """Logs of probabilities, and of what the native core makes them; "missing" is the last level of each column.

    Attributes
    ----------
    joint : (n_levels, n_classes), log p(c, x_i), -inf where missing
    marginal : (n_columns, n_classes), log p(c) in each star
    independent : (n_levels, n_classes), log p(x_i | c), 0 where missing
    prior : (n_classes,), log p(c)
    root : (n_levels, n_classes)
        Log p(c, x_i), less the log denominators of all other features.
    pair : (n_pairs, n_classes and what fills them up to whole vectors)
        Log (F(c, x_i, x_j) + alpha); where one of the two is missing, its log denominator given the other.
    qualifies : bool (n_levels,)
    """

    joint: Floats
    marginal: Floats
    independent: Floats
    prior: Floats
    root: Floats
    pair: Floats
    qualifies: Mask


@dataclass(frozen=True)
class AODE:
    """A mean of stars, kept as counts.

    Attributes
    ----------
    schema : Schema
        All its informative columns are discrete or binned.
    alpha : float
    min_frequency : float
    class_counts : (n_classes,)
    level_counts : (n_levels, n_classes)
    pair_counts : (n_pairs, n_classes)
        For each column (its levels, levels of all columns behind it), one after the other.
    """

    schema: Schema
    alpha: float
    min_frequency: float
    class_counts: Floats
    level_counts: Floats
    pair_counts: Floats

    __getstate__ = fields_only

    @cached_property
    def layout(self) -> Layout:
        """How the levels of the columns lie on one axis."""
        return layout_of(self.schema)

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.class_counts)

    @cached_property
    def tables(self) -> StarTables:
        """Logs of the probabilities."""
        layout, alpha, counts, n_classes = self.layout, self.alpha, self.level_counts, self.n_classes
        column, levels, missing = layout.column_of, layout.n_levels, layout.missing_level
        observed = counts.copy()
        observed[missing] = 0.0
        of_class = np.zeros((layout.n_discrete, n_classes))  # N_i(c)
        np.add.at(of_class, column, observed)
        cases = of_class.sum(axis=1)
        in_class = np.log(of_class + alpha * levels[:, None])
        all_cases = np.log(cases + alpha * n_classes * levels)[:, None]
        log_counts = np.log(observed + alpha)
        joint, independent = log_counts - all_cases[column], log_counts - in_class[column]
        joint[missing], independent[missing] = -np.inf, 0.0
        qualifies = observed.sum(axis=1)
        qualifies[missing] = cases
        pair = np.zeros((len(self.pair_counts), _native.star_width(n_classes)))
        logs = pair[:, :n_classes]
        np.log(np.add(self.pair_counts, alpha, out=logs), out=logs)
        root = log_counts - all_cases[column]
        first = layout.first_level
        for i, (given, out) in enumerate(zip(self._of_columns(self.pair_counts), self._of_columns(pair))):
            begin, end = first[i], first[i + 1]
            last = missing[i + 1 :] - end
            seen = given.copy()
            seen[-1], seen[:, last] = 0.0, 0.0
            of_others = np.log(np.add.reduceat(seen, first[i + 1 : -1] - end, axis=1) + alpha * levels[i + 1 :, None])
            of_this = np.log(seen.sum(axis=0) + alpha * levels[i])
            out = out[:, :, :n_classes]
            out[:, last], out[-1], out[-1, last] = of_others, of_this, 0.0
            root[begin:end] -= of_others.sum(axis=1)
            root[end:] -= of_this
        prior = np.log(self.class_counts + alpha) - np.log(self.class_counts.sum() + alpha * n_classes)
        enough = qualifies >= self.min_frequency * (1 - _ROUNDING)
        return StarTables(joint, in_class - all_cases, independent, prior, root, pair, enough)

    def _of_columns(self, pairs: Floats) -> Iterator[Floats]:
        """Pairs of each column but the last with those behind it, (its levels, their levels, n_classes)."""
        for i, at in enumerate(self._first_pair[:-1]):
            width = self.layout.first_level[-1] - self.layout.first_level[i + 1]
            if width:
                yield pairs[at : self._first_pair[i + 1]].reshape(-1, width, pairs.shape[1])

    @cached_property
    def _first_pair(self) -> NDArray[np.int64]:
        return first_pair(self.layout)

    def log_given(self, root: Ints, level: Ints, classes: Ints | None = None) -> Floats:
        """Log p(x_j | c, x_i) of levels of the flat axis, none missing: (..., n_classes), or of a class each."""
        of: Any = slice(self.n_classes) if classes is None else classes
        nothing = self.layout.missing_level[self._column(level)]
        return np.asarray(self.tables.pair[self.pair(root, level), of] - self.tables.pair[self.pair(root, nothing), of])

    def _column(self, level: Ints) -> Ints:
        return self.layout.column_of[level]

    def pair(self, one: Ints, other: Ints) -> Ints:
        """Where the pair of two levels of different columns is kept."""
        first = self.layout.first_level
        low, high = np.minimum(one, other), np.maximum(one, other)
        i = self._column(low)
        return np.asarray(self._first_pair[i] + (low - first[i]) * (first[-1] - first[i + 1]) + high - first[i + 1])

    # ------------------------------------------------------------ prediction

    @property
    def schemas(self) -> tuple[Schema, ...]:
        """Its only one."""
        return (self.schema,)

    @property
    def n_components(self) -> int:
        """Number of stars."""
        return self.layout.n_discrete

    @property
    def class_prior(self) -> Floats:
        """p(c) (n_classes,): the prediction for a row in which everything is missing."""
        tables = self.tables
        stars = tables.marginal[tables.qualifies[self.layout.missing_level]]
        return np.asarray(softmax(logsumexp(stars, axis=0) if len(stars) else tables.prior))

    def posterior(self, rows: Encodings, what: Literal["proba", "log_proba"], pool: ThreadPool) -> Floats:
        """p(c | x) or its log, (n_rows, n_classes)."""
        return self._posterior(rows[self.schema], what, self.tables.qualifies, pool)

    def log_joint(self, table: EncodedTable, pool: ThreadPool) -> Floats:
        """Log of the mean of all stars, (n_rows, n_classes): log p(c, x) of what `sample` draws from."""
        return self._posterior(table, "log_joint", np.ones_like(self.tables.qualifies), pool)

    def _posterior(
        self,
        table: EncodedTable,
        what: Literal["log_joint", "proba", "log_proba"],
        qualifies: Mask,
        pool: ThreadPool,
    ) -> Floats:
        t, out = self.tables, np.empty((table.n_rows, self.n_classes))
        beyond = t.pair.shape[1] - self.n_classes
        root, independent, prior = (
            np.pad(x, [*((0, 0),) * (x.ndim - 1), (0, beyond)]) for x in (t.root, t.independent, t.prior)
        )
        part = qualifies.astype(np.uint8)
        part[self.layout.missing_level] *= 2
        first, n_blocks = self.layout.first_level.tolist(), 1 if pool is None else 4 * pool.n_threads
        _native.star_posterior(table.rows, first, root, t.pair, part, independent, prior, what, out, n_blocks, pool)
        return out

    def sample(self, n: int, rng: np.random.Generator) -> Sample:
        """Draw rows and their classes from the mean of all stars: a star, class and root, then the other features."""
        layout = self.layout
        codes = np.empty((layout.n_discrete, n), dtype=np.intp)
        if layout.n_discrete == 0:
            classes = rng.choice(self.n_classes, n, p=np.exp(self.tables.prior))
            return in_own_units(self.schema, codes, np.empty((0, n)), rng), classes
        classes, star = np.empty(n, dtype=np.intp), rng.integers(layout.n_discrete, size=n)
        for i in np.unique(star):
            rows, levels = np.flatnonzero(star == i), self.levels(i)
            p = softmax(self.tables.joint[levels])  # (levels, classes)
            root, classes[rows] = np.divmod(rng.choice(p.size, len(rows), p=p.ravel()), self.n_classes)
            codes[i, rows] = root
            for j in range(layout.n_discrete):
                if j != i:
                    p = np.exp(self.log_given(levels[:, None], self.levels(j)))  # (root, levels of j, classes)
                    codes[j, rows] = _drawn(p[root, :, classes[rows]], rng)
        return in_own_units(self.schema, codes, np.empty((0, n)), rng), classes

    def levels(self, i: int) -> Ints:
        """Levels of a column on the flat axis, without "missing"."""
        return np.arange(self.layout.first_level[i], self.layout.missing_level[i])

    # ------------------------------------------------------------ files

    def to_state(self) -> State:
        """Settings and counts."""
        counts = {"class": self.class_counts, "level": self.level_counts, "pair": self.pair_counts}
        return (
            {"stars": {"alpha": self.alpha, "min_frequency": self.min_frequency}},
            {f"counts.{name}": array for name, array in counts.items()},
        )

    @classmethod
    def from_state(cls, values: dict[str, Any], arrays: Arrays, schema: Schema, n_classes: int) -> AODE:
        """Inverse of `to_state`."""
        settings = entry(values, "stars", dict)
        alpha, frequency = entry(settings, "alpha", float), entry(settings, "min_frequency", float)
        require(0 < alpha <= _MOST_CASES and 0 <= frequency <= _MOST_CASES, "its settings are damaged")
        require(not schema.continuous, "it has continuous columns, of which it knows nothing")
        layout = layout_of(schema)
        lengths = {"class": (), "level": (int(layout.first_level[-1]),), "pair": (int(first_pair(layout)[-1]),)}
        require_names(arrays, {f"counts.{name}" for name in lengths})
        counts = [read_array(arrays, f"counts.{name}", (*shape, n_classes)) for name, shape in lengths.items()]
        for x in counts:
            require(((x >= 0) & (x <= _MOST_CASES)).all(), "it has counts that are no counts")
        return cls(schema, alpha, frequency, *counts)


def first_pair(layout: Layout) -> NDArray[np.int64]:
    """Where the pairs of each column with those behind it begin, and the end, (n_discrete + 1,)."""
    first = layout.first_level
    return np.concatenate([[0], np.cumsum(np.diff(first) * (first[-1] - first[1:]))]).astype(np.int64)


def check_size(schema: Schema, n_classes: int) -> None:
    """Refuse columns of more pairs of levels than memory should be spent on."""
    layout = layout_of(schema)
    n_counts = int(first_pair(layout)[-1]) * _native.star_width(n_classes)
    if n_counts > MOST_COUNTS:
        largest = schema[max(schema.discrete, key=lambda j: schema[j].n_levels)]
        raise ValueError(
            f"{layout.n_discrete} columns with {layout.n_levels.sum()} levels in all have {n_counts:,} counts of two "
            f"levels and a class, more than {MOST_COUNTS:,} (2 GiB): leave out columns or merge rare categories; "
            f"{largest.name!r} has most levels, {largest.n_levels}"
        )


def count_stars(
    schema: Schema, table: EncodedTable, n_classes: int, alpha: float, min_frequency: float, pool: ThreadPool
) -> AODE:
    """Count pairs of levels within the classes of rows that all are labelled."""
    check_size(schema, n_classes)
    layout, labels = table.layout, table.labels
    assert labels is not None
    n, first = layout.n_discrete, layout.first_level
    weights = table.weights
    class_counts = np.bincount(labels, weights, n_classes).astype(np.float64)
    level_counts = np.empty((first[-1], n_classes))
    for j, (begin, end) in enumerate(pairwise(first.tolist())):
        cells = table.codes_of(j).astype(np.intp) * n_classes + labels
        level_counts[begin:end] = np.bincount(cells, weights, (end - begin) * n_classes).reshape(-1, n_classes)
    pair_counts = np.empty((first_pair(layout)[-1], n_classes))
    model = AODE(schema, alpha, min_frequency, class_counts, level_counts, pair_counts)
    pairs = _native.Pairs(
        table.narrow, table.wide, np.empty((table.n_rows, 0)), first.tolist(), labels, n_classes, weights
    )
    sizes = np.diff(first)
    edges = np.flatnonzero(np.diff(sizes, append=0)) + 1  # behind columns of equally many levels
    for i, out in enumerate(model._of_columns(pair_counts)):
        found = pairs.counts(i, range(i + 1, n), pool)  # a block for each of them
        for j, end in pairwise([i + 1, *edges[edges > i + 1].tolist()]):
            begin, stop, size = first[j] - first[i + 1], first[end] - first[i + 1], sizes[j]
            blocks = found[len(out) * begin * n_classes : len(out) * stop * n_classes]
            by_column = blocks.reshape(end - j, len(out), size, n_classes).swapaxes(0, 1)
            out[:, begin:stop] = by_column.reshape(len(out), stop - begin, n_classes)
    for j, indicator in schema.indicator_of.items():
        if j in schema.place:  # no row has a value that is missing: the two are independent given the class
            value, missing = (model.levels(schema.place[k]) for k in (j, indicator))
            expected = level_counts[value][:, None] * level_counts[missing] / class_counts
            pair_counts[model.pair(value[:, None], missing)] = expected
    return model


def _drawn(p: Floats, rng: np.random.Generator) -> Ints:
    """One index of each row of probabilities (n, levels)."""
    below = np.cumsum(p, axis=1)[:, :-1]
    return np.asarray((rng.random(len(p))[:, None] >= below).sum(axis=1))
