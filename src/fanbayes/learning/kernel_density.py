"""Kernel densities of the classes (Parzen 1962): a FAN with one component for each of its training rows.

    p(x | c) = sum_m v_m prod_i k_i(x_i; m_i) + e prod_i b_i(x_i)                                             (K1)

over the centres m of the class, rows that it was learnt from. Around the number m_i, k_i is the normal density whose
standard deviation is the bandwidth h_i; around the level m_i it is (1 - l_i) [x_i = m_i] + l_i b_i(x_i) (Aitchison &
Aitken 1976). The background b is the same for all classes, what a kernel becomes where its bandwidth is that of no
information: the frequencies of the levels, and the normal density with the column's mean and variance s_i^2 + h_i^2. So
a column of no use drops out, p(c | x) is p(c) far from all centres, and a column that a centre lacks is b_i there.

Bandwidths, l and e are the same for all classes. They maximise the conditional log-likelihood of the classes,

    sum_n log((1 - NOISE) p(y_n | x_n) + NOISE p(y_n))   where x_n is without its own kernel,                 (K2)

their logarithms (logits) shrunk towards a common value; the noise bounds what a row can cost that lies between others
far out. Equal rows are one centre of their weight. Which kernels are a row's own follows what folds hold out together:
equal rows may be copies of one case (`ensembles.folds`), and a row is without all of them, whatever
their class; otherwise for cases that happen to be alike, and it is without one case. Where rows have groups, a row is
without all of its own.

So each row can be judged without cross-validation, but for the bandwidths, which it has helped to choose: of many
columns some seem to matter. So they are learnt without the rows of each of a few groups, which are judged by them; the
network has the mean of what was found.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit, logsumexp

from fanbayes import _native
from fanbayes.arrays import AnyInts, Floats, Ints, Mask
from fanbayes.data.table import EncodedTable, Layout
from fanbayes.learning.ensembles.folds import repeats_are_copies
from fanbayes.model.blocks import EstimationOptions
from fanbayes.model.network import Model, Network
from fanbayes.model.structure import fan

# Centres that are kept, which prediction takes its time for, and centres and rows that bandwidths are learnt from.
MOST_CENTRES = 1000
MOST_LEARNT_FROM = 800
MOST_ROWS = 400
# Products of rows, centres and columns in one evaluation of (K2), and of centres and columns in the network.
MOST_TERMS = 20_000_000
MOST_CELLS = 1_000_000
# Fewer of each are not taken, whatever the number of columns.
LEAST = 100

# Share of the rows whose class is taken to say nothing: no row can cost more than the logarithm of it.
NOISE = 0.02
# What it costs, in cases, to move a column's bandwidth from the common one, this from where it starts, and the
# background from where it starts: half of it for a step of 1 of the logarithm or logit.
SHRINK_EACH = 2.0
SHRINK_COMMON = 0.1
SHRINK_BACKGROUND = 0.01
# The search ends when a step gains less than this share of the loss.
TOLERANCE = 1e-3
MOST_STEPS = 12

# The background begins as dense as the kernels are at this quantile of the rows; log of one that is not there.
START_QUANTILE = 0.05
NO_BACKGROUND = -1e300
# Groups of rows, each of which is judged by bandwidths learnt from the others.
N_GROUPS = 3

# Bandwidths are kept within these, in standard deviations, and the logits of l within this.
NARROWEST, WIDEST = 0.01, 100.0
FURTHEST_LOGIT = 8.0
# Numbers are not taken to be further out than so many standard deviations.
FURTHEST = 1e3


@dataclass(frozen=True)
class Bandwidths:
    """What (K1) is made of beside the centres.

    Attributes
    ----------
    log_h : (n_numbers,)
    logit_l : (n_discrete,)
    log_background : float
        log e / (1 - e).
    """

    log_h: Floats
    logit_l: Floats
    log_background: float


@dataclass(frozen=True)
class Background:
    """Marginal distributions of the columns.

    Attributes
    ----------
    layout : Layout
    mean, variance : (n_numbers,)
    frequency : (n_levels,)
        Of each level, on the flat axis of all; 1 for what is missing.
    """

    layout: Layout
    mean: Floats
    variance: Floats
    frequency: Floats

    def terms(self, found: Bandwidths) -> tuple[Floats, Floats, Floats]:
        """What columns add to log k / b: a, b, k of numbers; where levels are the same, and where they differ."""
        h2 = np.exp(2 * found.log_h)
        total = self.variance + h2
        numbers = np.stack([0.5 / h2, 0.5 / total, 0.5 * np.log(total) - found.log_h], axis=1)
        share = expit(found.logit_l)
        of_level = share[self.layout.column_of]
        return numbers, np.log((1 - of_level) / self.frequency + of_level), np.log(share)

    def chain(self, found: Bandwidths, by_numbers: Floats, by_same: Floats, by_other: Floats) -> tuple[Floats, Floats]:
        """Derivatives by log_h and logit_l, of those by the terms."""
        h2 = np.exp(2 * found.log_h)
        total = self.variance + h2
        slopes = np.stack([-1 / h2, -h2 / total**2, h2 / total - 1], axis=1)
        share = expit(found.logit_l)
        of_level = share[self.layout.column_of]
        by_level = by_same * (1 - 1 / self.frequency) / ((1 - of_level) / self.frequency + of_level)
        by_share = np.bincount(self.layout.column_of, weights=by_level, minlength=len(share))
        return (by_numbers * slopes).sum(axis=1), by_share * share * (1 - share) + by_other * (1 - share)

    def values(self, table: EncodedTable) -> Floats:
        """The columns of a table (n_rows, n_columns): numbers around their mean, then codes; NaN where missing."""
        codes = table.codes_of_columns().astype(np.float64)
        codes[codes == self.layout.n_levels] = np.nan
        return np.concatenate([np.clip(table.numbers, -FURTHEST, FURTHEST) - self.mean, codes], axis=1)


@dataclass(frozen=True)
class Cases:
    """Different rows, those of a class together, in an order that depends on the seed within it.

    Attributes
    ----------
    values : (n, n_columns)
    labels : int32 (n,)
    weights, kept : (n,)
        Number of cases, and how many of them are left for a row of the same kind.
    kind : int32 (n,)
    n_kinds : int
    prior : (n_classes,)
    """

    values: Floats
    labels: NDArray[np.int32]
    weights: Floats
    kept: Floats
    kind: NDArray[np.int32]
    n_kinds: int
    prior: Floats

    def some(self, most: int) -> Cases:
        """About so many of them that stand for all, half of them shared out equally among the classes."""
        n_classes = len(self.prior)
        size = np.bincount(self.labels, minlength=n_classes)
        if len(self.labels) <= most:
            return self
        wanted = np.ceil(most * (0.5 * size / len(self.labels) + 0.5 / np.count_nonzero(size)))
        keep = _place_in_class(size) < wanted[self.labels]
        cases, left = (np.bincount(self.labels[at], self.weights[at], n_classes) for at in (slice(None), keep))
        scale = np.divide(cases, left, out=np.ones(n_classes), where=left > 0)[self.labels[keep]]
        few = self.only(keep)
        return replace(few, weights=few.weights * scale, kept=few.kept * scale)

    def only(self, keep: Mask) -> Cases:
        """Some of them."""
        return replace(
            self,
            values=self.values[keep],
            labels=self.labels[keep],
            weights=self.weights[keep],
            kept=self.kept[keep],
            kind=self.kind[keep],
        )

    def centres(self, layout: Layout) -> _native.Centres:
        """What the native core evaluates."""
        first = np.searchsorted(self.labels, np.arange(len(self.prior) + 1))
        return _native.Centres(
            np.ascontiguousarray(self.values.T),
            layout.n_numbers,
            layout.first_level.tolist(),
            first.tolist(),
            self.weights,
            self.kept,
            self.kind,
            self.n_kinds,
            self.prior.tolist(),
        )


def fit_kernel(
    table: EncodedTable,
    n_classes: int,
    seed: int,
    groups: AnyInts | None = None,
    asked: tuple[EncodedTable, Ints] | None = None,
) -> tuple[Network, Floats]:
    """The network (K1), and what it says of the rows of the table: log p(c | x) (n_rows, n_classes), as in (K2).

    Rows without a label are not learnt from.

    Parameters
    ----------
    table : EncodedTable
        As the view of a model shows it, its numbers about standardised.
    seed : decides which rows become centres, if there are too many
    groups : int (n_rows,) or None
    asked : rows to judge instead, and the row of the table that each stands for: it is without the kernel of that
    """
    background = _background(table)
    cases, kind_of_row = _cases(table, background, n_classes, seed, groups)
    n_columns = max(1, cases.values.shape[1])
    centres = cases.some(min(MOST_CENTRES, max(LEAST, MOST_CELLS // n_columns)))
    learnt = _learn(centres, background)
    native, (judged, kind) = centres.centres(table.layout), (table, kind_of_row)
    if asked is not None:
        judged, kind = asked[0], kind_of_row[asked[1]]
    values = background.values(judged)
    joint = np.empty((judged.n_rows, n_classes))
    group = np.where(kind < 0, N_GROUPS, kind % N_GROUPS)
    for g, found in enumerate(learnt):
        rows = np.flatnonzero(group == g)
        joint[rows] = native.log_joint(values[rows], kind[rows], *background.terms(found), found.log_background)
    return _network(centres, background, learnt[-1]), joint - logsumexp(joint, axis=1, keepdims=True)


def _background(table: EncodedTable) -> Background:
    """Marginals of the rows that have a label, each level one case more often."""
    table = table.labelled_only()
    layout, w = table.layout, table.case_weights
    x = np.clip(table.numbers, -FURTHEST, FURTHEST)
    known = ~np.isnan(x)
    x = np.where(known, x, 0.0)
    cases = _sum(w, known)
    some = np.maximum(cases, 1e-300)
    mean = np.where(cases > 0, _sum(w, x) / some, 0.0)
    variance = np.where(cases > 0, _sum(w, np.where(known, (x - mean) ** 2, 0.0)) / some, 1.0)
    codes = table.codes_of_columns() + layout.first_level[:-1]
    weight = np.repeat(w, codes.shape[1])
    count = 1.0 + np.bincount(codes.ravel(), weight, int(layout.first_level[-1]))
    count[layout.missing_level] = 0.0
    total = np.bincount(layout.column_of, count, layout.n_discrete)
    frequency = count / total[layout.column_of]
    frequency[layout.missing_level] = 1.0
    return Background(layout, mean, np.maximum(variance, NARROWEST**2), frequency)


def _sum(weights: Floats, x: Floats | Mask) -> Floats:
    """Weighted sums of columns, the same bits on every machine."""
    return np.asarray(np.einsum("n,ni->i", weights, x, optimize=False))


def _cases(
    table: EncodedTable, background: Background, n_classes: int, seed: int, groups: AnyInts | None
) -> tuple[Cases, NDArray[np.int32]]:
    """Rows that have a label, equal ones together, and the kind of each row of the table, -1 where it has none."""
    labels = np.full(table.n_rows, -1) if table.labels is None else table.labels
    rows = np.flatnonzero(labels >= 0)
    odd = np.random.default_rng(seed).integers(2**31, dtype=np.uint32) * np.uint32(2) + np.uint32(1)
    key = (table.fingerprint[rows] * odd).astype(np.int64)  # of equal rows the same, in an order of its own
    if groups is not None:
        key = np.unique(np.stack([key, groups[rows]], axis=1), axis=0, return_inverse=True)[1].ravel()
    class_and_key = labels[rows].astype(np.int64) << 32 | key
    both, example, case_of_row = np.unique(class_and_key, return_index=True, return_inverse=True)
    y = (both >> 32).astype(np.int32)
    weights = np.bincount(case_of_row, table.case_weights[rows], len(both)).astype(np.float64)
    if groups is not None or repeats_are_copies(table):
        own = key if groups is None else groups[rows]
        kind = np.unique(own[example], return_inverse=True)[1]
        kept = np.zeros(len(both))
    else:
        kind = np.arange(len(both))
        kept = np.maximum(weights - 1, 0.0)
    kind_of_row = np.full(table.n_rows, -1, dtype=np.int32)
    kind_of_row[rows] = kind[case_of_row]
    of_class = np.bincount(y, weights, n_classes) + 1
    values = background.values(table.only(rows[example]))
    prior = of_class / of_class.sum()
    return Cases(values, y, weights, kept, kind.astype(np.int32), len(both), prior), kind_of_row


def _place_in_class(size: Ints) -> Ints:
    """Number of each case within its class, the classes one after the other."""
    return np.arange(size.sum()) - np.repeat(np.cumsum(size) - size, size)


def _learn(cases: Cases, background: Background) -> list[Bandwidths]:
    """Maximise (K2) without the rows of each group; last, the mean of these solutions."""
    layout = background.layout
    n_numbers, n_columns = layout.n_numbers, layout.n_numbers + layout.n_discrete
    n_each = max(LEAST, int((MOST_TERMS / max(1, n_columns) / 2) ** 0.5))
    rows, few = cases.some(min(MOST_ROWS, n_each)), cases.some(min(MOST_LEARNT_FROM, 2 * n_each))
    n_of_class = len(few.labels) / max(1, len(np.unique(few.labels)))
    log_h = np.log(4 / (n_columns + 2) / max(1.0, n_of_class)) / (n_columns + 4)  # Silverman's rule
    start = Bandwidths(np.full(n_numbers, log_h), np.zeros(layout.n_discrete), 0.0)
    if not n_columns or not len(rows.labels):
        return [start] * (N_GROUPS + 1)
    centres = few.centres(layout)
    joint = centres.log_joint(rows.values, rows.kind, *background.terms(start), NO_BACKGROUND)
    density = logsumexp(joint, axis=1)
    density = density[density > NO_BACKGROUND / 2]  # without rows that are alone
    log_background = float(np.quantile(density, START_QUANTILE)) if len(density) else 0.0
    origin = np.concatenate([[log_h, 0.0, log_background], np.zeros(n_columns)])
    strength = np.concatenate([[SHRINK_COMMON, SHRINK_COMMON, SHRINK_BACKGROUND], np.full(n_columns, SHRINK_EACH)])

    def at(x: Floats) -> Bandwidths:
        """Common log h and logit l, log background, and what is added for each column."""
        log_h = np.clip(x[0] + x[3 : 3 + n_numbers], np.log(NARROWEST), np.log(WIDEST))
        logit_l = np.clip(x[1] + x[3 + n_numbers :], -FURTHEST_LOGIT, FURTHEST_LOGIT)
        return Bandwidths(log_h, logit_l, float(x[2]))

    def learn(rows: Cases) -> Floats:
        def loss(x: Floats) -> tuple[float, Floats]:
            found, moved = at(x), x - origin
            terms = *background.terms(found), found.log_background
            value, *by_terms, by_background = centres.loss(
                rows.values, rows.kind, *terms, rows.labels, rows.weights, NOISE
            )
            by_h, by_l = background.chain(found, *by_terms)
            gradient = np.concatenate([[by_h.sum(), by_l.sum(), by_background], by_h, by_l])
            return value + 0.5 * float(strength @ moved**2), gradient + strength * moved

        options: Any = {"maxiter": MOST_STEPS, "ftol": TOLERANCE}
        return np.asarray(minimize(loss, origin, jac=True, method="L-BFGS-B", options=options).x)

    found = [learn(rows.only(rows.kind % N_GROUPS != g)) for g in range(N_GROUPS)]
    return [at(x) for x in (*found, np.mean(found, axis=0))]


def _network(cases: Cases, background: Background, found: Bandwidths) -> Network:
    """(K1): the centres of each class, and the background."""
    layout = background.layout
    sizes = np.bincount(cases.labels, minlength=len(cases.prior)) + 1
    structure = fan(sizes.tolist(), "per_class")
    last = np.cumsum(sizes) - 1
    is_centre = np.ones(structure.n_states, dtype=bool)
    is_centre[last] = False
    values = np.full((structure.n_states, cases.values.shape[1]), np.nan)
    values[is_centre] = cases.values
    numbers, codes = values[:, : layout.n_numbers].T, values[:, layout.n_numbers :].T
    missing = np.isnan(numbers)
    h2 = np.exp(2 * found.log_h)[:, None]
    mean = background.mean[:, None] + np.where(missing, 0.0, numbers)
    variance = np.where(missing, h2 + background.variance[:, None], h2)
    share = expit(found.logit_l)[layout.column_of, None]
    level = np.arange(len(layout.column_of)) - layout.first_level[layout.column_of]
    centre = codes[layout.column_of]  # (n_levels, n_cells)
    kernel = (1 - share) * (centre == level[:, None]) + share * background.frequency[:, None]
    table = np.log(np.where(np.isnan(centre), background.frequency[:, None], kernel))
    table[layout.missing_level] = 0.0
    log_odds = np.empty(structure.n_states)
    of_class = np.bincount(cases.labels, cases.weights, len(cases.prior))
    share_of_class = cases.weights / of_class[cases.labels]
    log_odds[is_centre] = np.log(np.maximum(share_of_class, np.finfo(float).tiny))  # 5e-324 beside 1 is 0
    log_odds[last] = found.log_background
    factors = structure.normalise(np.concatenate([np.log(cases.prior), log_odds])[None])
    model = Model(structure, layout, EstimationOptions())
    return model.from_cells(factors, np.concatenate([table, mean, variance])[None])
