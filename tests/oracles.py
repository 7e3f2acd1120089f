"""The definitions of SPEC sections 1 to 3, as plainly as they can be written.

Nothing here imports fanbayes. A row is a list of codes (-1: missing), a list of standardised numbers (NaN: missing)
and a list of pairs, response and regressor (both NaN: missing); its label is a class, or -1 if it has none. Loops run
over rows, states and features, one by one, so that a reader can hold each against its equation; speed is no concern.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np


@dataclass
class Prior:
    """alpha of every multinomial; of a standardised column mu | sigma2 ~ N(0, sigma2 / kappa), sigma2 ~ IG(a, b).

    Of a regression, kappa is that of the intercept, and slope | sigma2 ~ N(0, sigma2 / ridge).
    """

    alpha: float
    kappa: float
    a: float
    b: float
    ridge: float = 1.0


@dataclass
class Plain:
    """A network: states s = (c, h), their cells, and parameters."""

    class_of: list[int]
    component_of: list[int]
    cell_of: list[int]
    log_weight: np.ndarray  # (states,)
    tables: list[np.ndarray]  # for each discrete feature log p(level | cell), (levels, cells)
    mean: np.ndarray  # (numbers, cells)
    sigma2: np.ndarray  # (numbers, cells)
    lines: np.ndarray  # (regressions, 3, cells): intercept, slope and variance

    @property
    def n_cells(self) -> int:
        return max(self.cell_of) + 1

    @property
    def n_classes(self) -> int:
        return max(self.class_of) + 1


@dataclass
class Rows:
    codes: np.ndarray  # int (rows, discrete features)
    numbers: np.ndarray  # (rows, continuous features)
    labels: np.ndarray  # int (rows,)
    weights: np.ndarray  # (rows,)
    pairs: np.ndarray = field(default_factory=lambda: np.zeros((1, 0, 2)))  # (rows, regressions, 2)

    def __post_init__(self) -> None:
        if self.pairs.shape[1] == 0:
            self.pairs = np.zeros((len(self), 0, 2))

    def __len__(self) -> int:
        return len(self.labels)


# ---------------------------------------------------------------- section 1: the joint


def log_normal(x: float, mean: float, sigma2: float) -> float:
    return -0.5 * math.log(2 * math.pi * sigma2) - (x - mean) ** 2 / (2 * sigma2)


def log_joint(net: Plain, rows: Rows) -> np.ndarray:
    """Log p(s, x) = log_weight[s] + sum_i log p(x_i | cell_of[s]); a missing value has no factor."""
    out = np.empty((len(rows), len(net.class_of)))
    for row in range(len(rows)):
        for s, cell in enumerate(net.cell_of):
            total = float(net.log_weight[s])
            for i, code in enumerate(rows.codes[row]):
                if code >= 0:
                    total += float(net.tables[i][code, cell])
            for i, x in enumerate(rows.numbers[row]):
                if not math.isnan(x):
                    total += log_normal(float(x), float(net.mean[i, cell]), float(net.sigma2[i, cell]))
            for i, (x, p) in enumerate(rows.pairs[row]):
                if not math.isnan(x):
                    intercept, slope, sigma2 = net.lines[i, :, cell]
                    total += log_normal(float(x), float(intercept + slope * p), float(sigma2))
            out[row, s] = total
    return out


def log_sum(values) -> float:
    top = max(values)
    return top + math.log(sum(math.exp(v - top) for v in values))


def log_joint_of_classes(net: Plain, rows: Rows) -> np.ndarray:
    """Log p(c, x), by summing states."""
    states = log_joint(net, rows)
    return np.array(
        [
            [log_sum([row[s] for s, k in enumerate(net.class_of) if k == c]) for c in range(net.n_classes)]
            for row in states
        ]
    )


# ---------------------------------------------------------------- section 2: the E-step


def completion(net: Plain, rows: Rows, hard: bool) -> np.ndarray:
    """Weight of each row in each state: p(s | x, c) (8), or all in the most probable state (9)."""
    joint = log_joint(net, rows)
    out = np.zeros_like(joint)
    for row in range(len(rows)):
        allowed = states_of(net, rows.labels[row])
        if hard:
            out[row, max(allowed, key=lambda s: joint[row, s])] = rows.weights[row]
        else:
            total = log_sum([joint[row, s] for s in allowed])
            for s in allowed:
                out[row, s] = rows.weights[row] * math.exp(joint[row, s] - total)
    return out


def states_of(net: Plain, label: int) -> list[int]:
    """A labelled row may be in the states of its class, an unlabelled one in all."""
    return [s for s, c in enumerate(net.class_of) if label in (-1, c)]


def sums(net: Plain, rows: Rows, own_components: bool) -> tuple[float, float, float]:
    """Log p(D | theta); log p(D, z | theta) with z the best state; the same with z the best component (ICL).

    The best component of a row without a label is argmax_h p(h | x); with class mixing, where component h of one class
    has nothing to do with that of another, it is argmax_h p(h | x, c) for each class, and the class is summed out.
    """
    joint = log_joint(net, rows)
    likelihood = best_state = best_component = 0.0
    for row in range(len(rows)):
        allowed = states_of(net, rows.labels[row])
        groups: dict[int, list[float]] = {}  # of states: by component, or by class
        for s in allowed:
            groups.setdefault((net.class_of if own_components else net.component_of)[s], []).append(joint[row, s])
        weight = float(rows.weights[row])
        likelihood += weight * log_sum([joint[row, s] for s in allowed])
        best_state += weight * max(joint[row, s] for s in allowed)
        if own_components:
            best_component += weight * log_sum([max(values) for values in groups.values()])
        else:
            best_component += weight * max(log_sum(values) for values in groups.values())
    return likelihood, best_state, best_component


def state_counts(r: np.ndarray) -> np.ndarray:
    return np.array([sum(column) for column in r.T])


def level_counts(net: Plain, rows: Rows, r: np.ndarray) -> list[np.ndarray]:
    """N_ijk: for each discrete feature (levels, cells)."""
    out = [np.zeros(table.shape) for table in net.tables]
    for row in range(len(rows)):
        for i, code in enumerate(rows.codes[row]):
            if code >= 0:
                for s, cell in enumerate(net.cell_of):
                    out[i][code, cell] += r[row, s]
    return out


def observations(net: Plain, values: np.ndarray, r: np.ndarray, cell: int) -> tuple[np.ndarray, np.ndarray]:
    """Of numbers (rows,) or pairs (rows, 2) those observed, and their weights in one cell."""
    seen = [row for row in range(len(values)) if not np.isnan(values[row]).any()]
    weights = [sum(r[row, s] for s, k in enumerate(net.cell_of) if k == cell) for row in seen]
    return values[seen], np.array(weights)


def moments(net: Plain, rows: Rows, r: np.ndarray) -> np.ndarray:
    """N, sum x and sum x^2, (3, numbers, cells)."""
    out = np.zeros((3, rows.numbers.shape[1], net.n_cells))
    for i in range(rows.numbers.shape[1]):
        for cell in range(net.n_cells):
            x, w = observations(net, rows.numbers[:, i], r, cell)
            out[:, i, cell] = w.sum(), (w * x).sum(), (w * x * x).sum()
    return out


def products(net: Plain, rows: Rows, r: np.ndarray) -> np.ndarray:
    """N, sum x, sum x^2, sum p, sum p^2 and sum xp of each pair, (regressions, 6, cells)."""
    out = np.zeros((rows.pairs.shape[1], 6, net.n_cells))
    for i in range(rows.pairs.shape[1]):
        for cell in range(net.n_cells):
            pairs, w = observations(net, rows.pairs[:, i], r, cell)
            x, p = pairs.T
            out[i, :, cell] = [(w * product).sum() for product in (np.ones_like(x), x, x * x, p, p * p, x * p)]
    return out


# ---------------------------------------------------------------- section 2: the M-step


def smoothed(counts: np.ndarray, alpha: float) -> np.ndarray:
    """(5): (alpha + N_k) / (alpha r + N), of one distribution."""
    return (alpha + counts) / (alpha * len(counts) + counts.sum())


def factor_tables(kind: str, net: Plain, states: np.ndarray) -> list[dict[tuple, np.ndarray]]:
    """Counts behind the weights of the states: for each factor, its distributions by parent.

    NB: p(c). FAN: p(c), p(h). Class mixing: p(c), p(h | c). FM: p(h), p(c | h).
    """
    pairs = list(zip(net.class_of, net.component_of))

    def total(**fixed: int) -> float:
        match = [("c" not in fixed or c == fixed["c"]) and ("h" not in fixed or h == fixed["h"]) for c, h in pairs]
        return float(sum(n for n, m in zip(states, match) if m))

    classes = range(net.n_classes)
    components = range(max(net.component_of) + 1)
    by_class = {(): np.array([total(c=c) for c in classes])}
    by_component = {(): np.array([total(h=h) for h in components])}
    if kind == "nb":
        return [by_class]
    if kind == "fan":
        return [by_class, by_component]
    if kind == "per_class":
        within = {(c,): np.array([total(c=c, h=h) for k, h in pairs if k == c]) for c in classes}
        return [by_class, within]
    return [by_component, {(h,): np.array([total(c=c, h=h) for c in classes]) for h in components}]


def log_weights(kind: str, net: Plain, factors: list[dict[tuple, np.ndarray]]) -> np.ndarray:
    """Log of the product of each state's entries."""
    out = []
    for c, h in zip(net.class_of, net.component_of):
        if kind == "nb":
            entries = [factors[0][()][c]]
        elif kind == "fan":
            entries = [factors[0][()][c], factors[1][()][h]]
        elif kind == "per_class":
            entries = [factors[0][()][c], factors[1][(c,)][h]]
        else:
            entries = [factors[0][()][h], factors[1][(h,)][c]]
        out.append(sum(math.log(e) for e in entries))
    return np.array(out)


def normal_estimate(x: np.ndarray, w: np.ndarray, prior: Prior, variance: str, floor: float) -> tuple[float, float]:
    """Mean and variance of one cell, from its values and their weights."""
    n = float(w.sum())
    mean = float((w * x).sum() / n) if n > 0 else 0.0
    squares = float((w * (x - mean) ** 2).sum())
    if variance == "paper" and n >= 5:
        return mean, max((n - 1) / (n * (n - 3)) * squares, floor)
    sigma2 = (2 * prior.b + squares + prior.kappa * n / (prior.kappa + n) * mean**2) / (n + 2 * prior.a + 3)
    return n * mean / (prior.kappa + n), max(sigma2, floor)


def line_estimate(pairs: np.ndarray, w: np.ndarray, prior: Prior, floor: float) -> tuple[float, float, float]:
    """Intercept, slope and variance of one cell: least squares, the prior as two more rows of observations."""
    x, p = pairs.T
    design = np.column_stack([np.ones_like(p), p]) * np.sqrt(w)[:, None]
    design = np.vstack([design, np.diag(np.sqrt([prior.kappa, prior.ridge]))])
    response = np.concatenate([x * np.sqrt(w), [0.0, 0.0]])
    (intercept, slope), *_ = np.linalg.lstsq(design, response, rcond=None)
    squares = float(((response - design @ [intercept, slope]) ** 2).sum())
    return intercept, slope, max((2 * prior.b + squares) / (float(w.sum()) + 2 * prior.a + 4), floor)


def maximise(kind: str, net: Plain, rows: Rows, hard: bool, prior: Prior, variance: str, floor: float) -> Plain:
    """One step: complete the rows under `net`, then estimate."""
    r = completion(net, rows, hard)
    factors = [{p: smoothed(n, prior.alpha) for p, n in f.items()} for f in factor_tables(kind, net, state_counts(r))]
    tables = [
        np.log(np.column_stack([smoothed(counts[:, cell], prior.alpha) for cell in range(net.n_cells)]))
        for counts in level_counts(net, rows, r)
    ]
    mean, sigma2 = np.zeros_like(net.mean), np.zeros_like(net.sigma2)
    for i in range(rows.numbers.shape[1]):
        for cell in range(net.n_cells):
            x, w = observations(net, rows.numbers[:, i], r, cell)
            mean[i, cell], sigma2[i, cell] = normal_estimate(x, w, prior, variance, floor)
    lines = np.zeros_like(net.lines)
    for i in range(rows.pairs.shape[1]):
        for cell in range(net.n_cells):
            lines[i, :, cell] = line_estimate(*observations(net, rows.pairs[:, i], r, cell), prior, floor)
    weight = log_weights(kind, net, factors)
    return Plain(net.class_of, net.component_of, net.cell_of, weight, tables, mean, sigma2, lines)


def log_nig(mean: float, sigma2: float, prior: Prior) -> float:
    """Log density of the normal-inverse-gamma prior."""
    a, b = prior.a, prior.b
    inverse_gamma = a * math.log(b) - math.lgamma(a) - (a + 1) * math.log(sigma2) - b / sigma2
    return log_normal(mean, 0.0, sigma2 / prior.kappa) + inverse_gamma


def log_line_prior(intercept: float, slope: float, sigma2: float, prior: Prior) -> float:
    """That of intercept and variance, and of the slope."""
    return log_nig(intercept, sigma2, prior) + log_normal(slope, 0.0, sigma2 / prior.ridge)


def objective(net: Plain, rows: Rows, factor_logs, hard: bool, prior: Prior, variance: str) -> float:
    """What EM or CEM maximises: log p(D | theta) or log p(D, z | theta), + sum alpha log theta + log NIG.

    factor_logs : log entries of all factors, in any order
    """
    total = sums(net, rows, False)[1 if hard else 0]
    total += prior.alpha * sum(float(np.sum(t)) for t in [*net.tables, *factor_logs])
    if variance == "map":
        total += sum(log_nig(m, v, prior) for m, v in zip(net.mean.ravel(), net.sigma2.ravel()))
    return total + sum(log_line_prior(*line, prior) for lines in net.lines for line in lines.T)


# ---------------------------------------------------------------- section 3: scores


def n_parameters(
    kind: str, n_classes: int, n_components: list[int], levels: list[int], n_numbers: int, n_regressions: int = 0
) -> int:
    """d of SPEC section 3; n_components has r_h, or r_h(c) of each class for class mixing."""
    per_cell = sum(r - 1 for r in levels) + 2 * n_numbers + 3 * n_regressions
    r_c, r_h = n_classes, n_components[0]
    if kind == "nb":
        return (r_c - 1) + r_c * per_cell
    if kind == "fan":
        return (r_c - 1) + (r_h - 1) + r_c * r_h * per_cell
    if kind == "per_class":
        return (r_c - 1) + sum(r - 1 for r in n_components) + sum(n_components) * per_cell
    return (r_h - 1) + r_h * (r_c - 1) + r_h * per_cell


def log_dirichlet_marginal(counts: np.ndarray, alpha: float) -> float:
    """(2): Gamma(r alpha) / Gamma(r alpha + N) prod_k Gamma(alpha + N_k) / Gamma(alpha)."""
    r, n = len(counts), float(np.sum(counts))
    total = math.lgamma(r * alpha) - math.lgamma(r * alpha + n)
    return total + sum(math.lgamma(alpha + float(k)) - math.lgamma(alpha) for k in counts)


def log_normal_marginal(x: np.ndarray, w: np.ndarray, prior: Prior) -> float:
    """Marginal likelihood of weighted values under the NIG prior, by updating its four parameters."""
    n = float(w.sum())
    mean = float((w * x).sum() / n) if n > 0 else 0.0
    kappa, a = prior.kappa + n, prior.a + n / 2
    b = prior.b + 0.5 * float((w * (x - mean) ** 2).sum()) + 0.5 * prior.kappa * n * mean**2 / kappa
    total = math.lgamma(a) - math.lgamma(prior.a) + prior.a * math.log(prior.b) - a * math.log(b)
    return total + 0.5 * math.log(prior.kappa / kappa) - 0.5 * n * math.log(2 * math.pi)


def log_line_marginal(pairs: np.ndarray, w: np.ndarray, prior: Prior) -> float:
    """Marginal likelihood of weighted pairs, by the matrices of a Bayesian linear regression."""
    x, p = pairs.T
    design, n = np.column_stack([np.ones_like(p), p]), float(w.sum())
    before = np.diag([prior.kappa, prior.ridge])
    after = before + design.T @ (w[:, None] * design)
    moment = design.T @ (w * x)
    a, b = prior.a + n / 2, prior.b + 0.5 * float((w * x * x).sum() - moment @ np.linalg.solve(after, moment))
    total = math.lgamma(a) - math.lgamma(prior.a) + prior.a * math.log(prior.b) - a * math.log(b)
    return total + 0.5 * math.log(np.linalg.det(before) / np.linalg.det(after)) - 0.5 * n * math.log(2 * math.pi)


def scores(kind: str, net: Plain, rows: Rows, prior: Prior, d: int) -> dict[str, float]:
    """BIC, AIC, CS and ICL at the parameters of `net`."""
    likelihood, _, classification = sums(net, rows, kind == "per_class")
    r = completion(net, rows, hard=False)
    marginal = sum(
        log_dirichlet_marginal(n, prior.alpha) for f in factor_tables(kind, net, state_counts(r)) for n in f.values()
    )
    completed = float((state_counts(r) * net.log_weight).sum())
    for counts, table in zip(level_counts(net, rows, r), net.tables):
        completed += float((counts * table).sum())
        marginal += sum(log_dirichlet_marginal(counts[:, cell], prior.alpha) for cell in range(net.n_cells))
    for i in range(rows.numbers.shape[1]):
        for cell in range(net.n_cells):
            x, w = observations(net, rows.numbers[:, i], r, cell)
            marginal += log_normal_marginal(x, w, prior)
            for value, weight in zip(x, w):
                completed += weight * log_normal(float(value), float(net.mean[i, cell]), float(net.sigma2[i, cell]))
    for i in range(rows.pairs.shape[1]):
        for cell in range(net.n_cells):
            pairs, w = observations(net, rows.pairs[:, i], r, cell)
            marginal += log_line_marginal(pairs, w, prior)
            intercept, slope, sigma2 = net.lines[i, :, cell]
            for (x, p), weight in zip(pairs, w):
                completed += weight * log_normal(float(x), float(intercept + slope * p), float(sigma2))
    penalty = d / 2 * math.log(float(rows.weights.sum()))
    return {
        "log_likelihood": likelihood,
        "n_parameters": d,
        "bic": likelihood - penalty,
        "aic": likelihood - d,
        "cs": marginal - completed + likelihood,
        "icl": classification - penalty,
    }
