"""Missing values in a forest of arcs, against enumeration and the normal distribution of all numbers at once."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field, replace

import builders
import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from fanbayes import _native
from fanbayes.learning import tree_inference
from fanbayes.learning.e_step import e_step as plain_e_step
from fanbayes.learning.tree_inference import Nodes
from fanbayes.model.network import Statistics, Terms
from fanbayes.model.structure import naive_bayes

CLOSE = {"rtol": 1e-10, "atol": 1e-10}


@dataclass
class Forest:
    """Parameters as a book has them, and as `Terms` has them.

    Of each cell k and node i: p[k][i][u] the probabilities (r_i,) of a discrete node where its parent is u; of a number
    (start, gain, variance) where its discrete parent is u, its mean start + gain * p if its parent p is continuous.
    """

    nodes: Nodes
    n_cells: int
    is_count: set[int]
    terms: Terms = None
    p: list = field(default_factory=list)

    @property
    def n_nodes(self):
        return len(self.nodes.levels)

    def parent_values(self, i):
        p = self.nodes.parent[i]
        return self.nodes.levels[p] if p >= 0 and self.nodes.levels[p] else 1

    def is_regression(self, i):
        p = self.nodes.parent[i]
        return self.nodes.levels[i] == 0 and p >= 0 and self.nodes.levels[p] == 0


def random_arcs(rng, levels, is_count=(), share=0.85):
    """A parent for most nodes among those before them in a random order."""
    parent, before = [-1] * len(levels), []
    for i in rng.permutation(len(levels)).tolist():
        if i in is_count:
            continue
        allowed = [j for j in before if levels[i] == 0 or levels[j] > 0]
        if allowed and rng.random() < share:
            parent[i] = int(rng.choice(allowed))
        before.append(i)
    return tuple(parent)


def random_parameters(rng, forest, i):
    if forest.nodes.levels[i]:
        return [rng.dirichlet(np.ones(forest.nodes.levels[i])) for _ in range(forest.parent_values(i))]
    gain = forest.is_regression(i)
    return [(rng.normal(), gain * rng.normal(), math.exp(rng.normal())) for _ in range(forest.parent_values(i))]


def normal_terms(start, gain, variance):
    """Slope, intercept, log_norm and coefficient."""
    slope = 1 / math.sqrt(2 * variance)
    return slope, -slope * start, -0.5 * math.log(2 * math.pi * variance), -slope * gain


def make_forest(rng, levels, parent, n_cells, is_count=(), parameters=random_parameters):
    """Nodes, whose parameters lie in a random order, and an NB of `n_cells` classes over them."""
    forest = Forest(Nodes(levels, parent, ()), n_cells, set(is_count))
    size = {"table": 0, "number": 0, "regression": 0}
    place, axis = [0] * len(levels), []
    for i, r in enumerate(levels):
        axis.append("table" if r else "regression" if forest.is_regression(i) else "number")
    for i in sorted(rng.permutation(len(levels)).tolist(), key=lambda i: i in forest.is_count):
        place[i] = size[axis[i]]
        size[axis[i]] += forest.parent_values(i) * (levels[i] + 1 if levels[i] else 1)
    forest.nodes = Nodes(levels, parent, tuple(place))
    log_table = np.zeros((1, size["table"], n_cells))
    numeric, regression = np.zeros((1, size["number"], 3, n_cells)), np.zeros((1, size["regression"], 4, n_cells))
    forest.p = [[parameters(rng, forest, i) for i in range(len(levels))] for _ in range(n_cells)]
    for k, i in itertools.product(range(n_cells), range(len(levels))):
        for u, theta in enumerate(forest.p[k][i]):
            if axis[i] == "table":
                at = place[i] + u * (levels[i] + 1)
                log_table[0, at : at + levels[i], k] = np.log(theta)
            elif axis[i] == "regression":
                regression[0, place[i], :, k] = normal_terms(*theta)
            elif i in forest.is_count:
                numeric[0, place[i], :, k] = theta[0], 0.0, theta[1]
            else:
                numeric[0, place[i] + u, :, k] = normal_terms(*theta)[:3]
    log_weight = np.log(rng.dirichlet(np.ones(n_cells)))[None]
    forest.terms = Terms(naive_bayes(n_cells), log_weight, log_table, numeric, len(forest.is_count), regression)
    return forest


def log_states(forest, codes, numbers, pool=None):
    return tree_inference.log_states(forest.nodes, codes, numbers, forest.terms, pool)


def e_step(forest, codes, numbers, labels=None, weights=None, hard=False, pool=None):
    return tree_inference.e_step(forest.nodes, codes, numbers, labels, weights, forest.terms, hard, pool)


def random_forest(rng, n_discrete=4, n_continuous=4, n_counts=1, n_cells=3):
    levels = rng.permutation([*rng.integers(2, 4, n_discrete), *[0] * (n_continuous + n_counts)]).tolist()
    is_count = [i for i, r in enumerate(levels) if r == 0][:n_counts]
    return make_forest(rng, tuple(levels), random_arcs(rng, levels, is_count), n_cells, is_count)


def random_values(rng, forest, n, missing):
    """Values of each node (n, n_nodes), None where missing."""
    values = []
    for _ in range(n):
        row = [int(rng.integers(r)) if r else float(rng.normal()) for r in forest.nodes.levels]
        row = [float(rng.poisson(3)) if i in forest.is_count else v for i, v in enumerate(row)]
        values.append([None if rng.random() < missing else v for v in row])
    return values


def arrays(forest, values):
    """Codes and numbers of values."""
    levels = forest.nodes.levels
    codes = [[r if v is None else v for r, v in zip(levels, row) if r] for row in values]
    numbers = [[math.nan if v is None else v for r, v in zip(levels, row) if not r] for row in values]
    n_discrete = sum(r > 0 for r in levels)
    return (
        np.array(codes, dtype=np.int64).reshape(len(values), n_discrete),
        np.array(numbers, dtype=float).reshape(len(values), len(levels) - n_discrete),
    )


def is_live(forest, row, i):
    children = (j for j, p in enumerate(forest.nodes.parent) if p == i)
    return row[i] is not None or any(is_live(forest, row, j) for j in children)


def enumerate_row(forest, row, k):
    """Log p(x | cell k) and the expected statistics (n_statistics,), by summing over all that is missing."""
    nodes, terms = forest.nodes, forest.terms
    discrete = [i for i in range(forest.n_nodes) if nodes.levels[i]]
    numbers = [i for i in range(forest.n_nodes) if not nodes.levels[i] and i not in forest.is_count]
    observed = [i for i in numbers if row[i] is not None]
    at = {i: j for j, i in enumerate(numbers)}
    x = np.array([row[i] for i in observed])
    cases = []
    for found in itertools.product(*(range(nodes.levels[i]) if row[i] is None else [row[i]] for i in discrete)):
        value = dict(zip(discrete, found))
        log_p = 0.0
        start, gain, variance = np.zeros(len(numbers)), np.zeros((len(numbers),) * 2), np.zeros(len(numbers))
        for i in range(forest.n_nodes):
            theta = forest.p[k][i][value.get(nodes.parent[i], 0)]
            if i in value:
                log_p += math.log(theta[value[i]])
            elif i in at:
                start[at[i]], slope, variance[at[i]] = theta
                if forest.is_regression(i):
                    gain[at[i], at[nodes.parent[i]]] = slope
            elif row[i] is not None:  # a count
                log_p += theta[1] + theta[0] * row[i]
        # x = start + gain x + noise
        spread = np.linalg.inv(np.eye(len(numbers)) - gain)
        mean, covariance = spread @ start, spread @ np.diag(variance) @ spread.T
        if observed:
            o = [at[i] for i in observed]
            log_p += multivariate_normal.logpdf(x, mean[o], covariance[np.ix_(o, o)])
            to_observed = np.linalg.solve(covariance[np.ix_(o, o)], covariance[o]).T
            mean, covariance = mean + to_observed @ (x - mean[o]), covariance - to_observed @ covariance[o]
        cases.append((log_p, value, mean, covariance))
    log_p = logsumexp([case[0] for case in cases])
    n_levels, n_numbers = terms.log_table.shape[1], terms.numeric.shape[1]
    statistics = np.zeros(n_levels + 3 * n_numbers + 6 * terms.regression.shape[1])
    for log_case, value, mean, covariance in cases:
        share = math.exp(log_case - log_p)
        for i in range(forest.n_nodes):
            if not is_live(forest, row, i):
                continue
            place, parent = nodes.place[i], nodes.parent[i]
            u = value.get(parent, 0)
            if i in value:
                statistics[place + u * (nodes.levels[i] + 1) + value[i]] += share
                continue
            m, s = (mean[at[i]], covariance[at[i], at[i]]) if i in at else (row[i], 0.0)
            if forest.is_regression(i):
                p, q = mean[at[parent]], covariance[at[parent]]
                moments = [1, m, m * m + s, p, p * p + q[at[parent]], m * p + q[at[i]]]
                first = n_levels + 3 * n_numbers + 6 * place
            else:
                moments, first = [1, m, m * m + s], n_levels + 3 * (place + u)
            statistics[first : first + len(moments)] += share * np.array(moments)
    return log_p, statistics


def enumerate_rows(forest, values):
    """Log p(s, x) (n_rows, n_cells), statistics (n_rows, n_statistics, n_cells)."""
    found = [[enumerate_row(forest, row, k) for k in range(forest.n_cells)] for row in values]
    log_p = np.array([[one[0] for one in row] for row in found]) + forest.terms.log_weight[0]
    return log_p, np.array([[one[1] for one in row] for row in found]).transpose(0, 2, 1)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("missing", [0.3, 0.7])
def test_log_p_and_expected_statistics_are_those_of_enumeration(seed, missing):
    rng = np.random.default_rng(seed)
    forest = random_forest(rng)
    values = random_values(rng, forest, 6, missing)
    log_p, statistics = enumerate_rows(forest, values)
    np.testing.assert_allclose(log_states(forest, *arrays(forest, values)), log_p, **CLOSE)
    weights = rng.uniform(0.5, 2.0, len(values))
    soft = np.exp(log_p - logsumexp(log_p, axis=1, keepdims=True))
    best = np.eye(forest.n_cells)[log_p.argmax(axis=1)]
    for hard, p in ((False, soft), (True, best)):
        found = e_step(forest, *arrays(forest, values), weights=weights, hard=hard)
        np.testing.assert_allclose(found.cells[0], np.einsum("n,nk,nsk->sk", weights, p, statistics), **CLOSE)
        np.testing.assert_allclose(found.states[0], weights @ p, **CLOSE)
        np.testing.assert_allclose(found.log_likelihood, weights @ logsumexp(log_p, axis=1), **CLOSE)
        np.testing.assert_allclose(found.joint, weights @ log_p.max(axis=1), **CLOSE)


@pytest.mark.parametrize("n_continuous", [0, 5])
def test_a_hidden_chain_and_a_hidden_star(n_continuous):
    """All but the leaves missing: the longest way up, and many messages at one node."""
    rng = np.random.default_rng(1)
    levels = (3, 2, 3) + (0,) * n_continuous
    for parent in (tuple(range(-1, len(levels) - 1)), (-1,) + (0,) * (len(levels) - 1)):
        forest = make_forest(rng, levels, parent, 2)
        row = [None if i in parent else v for i, v in enumerate(random_values(rng, forest, 1, 0.0)[0])]
        log_p, statistics = enumerate_rows(forest, [row])
        found = e_step(forest, *arrays(forest, [row]), np.array([1], np.int32))
        np.testing.assert_allclose(found.log_likelihood[0], log_p[0, 1], **CLOSE)
        np.testing.assert_allclose(found.cells[0, :, 1], statistics[0, :, 1], **CLOSE)
        assert not found.cells[0, :, 0].any()  # no row is of class 0


def test_a_row_without_holes_is_the_sum_of_its_terms():
    rng = np.random.default_rng(2)
    forest = make_forest(rng, (3, 2, 0, 0, 0), (-1, 0, 1, 2, -1), 2)
    (a, b, x, y, z) = row = [2, 1, 0.3, -1.2, 0.5]
    for k in range(2):
        theta = forest.p[k]
        normal = [
            (x, *theta[2][b][::2]),
            (y, theta[3][0][0] + theta[3][0][1] * x, theta[3][0][2]),
            (z, *theta[4][0][::2]),
        ]
        expected = forest.terms.log_weight[0, k] + math.log(theta[0][0][a]) + math.log(theta[1][a][b])
        expected += sum(-((v - m) ** 2) / (2 * s) - 0.5 * math.log(2 * math.pi * s) for v, m, s in normal)
        found = log_states(forest, *arrays(forest, [row]))
        assert found[0, k] == pytest.approx(expected, rel=1e-13)


def test_a_row_of_nothing_has_the_weights_of_the_states_and_no_statistics():
    rng = np.random.default_rng(3)
    forest = random_forest(rng)
    nothing = arrays(forest, [[None] * forest.n_nodes])
    np.testing.assert_array_equal(log_states(forest, *nothing), forest.terms.log_weight)
    found = e_step(forest, *nothing)
    assert not found.cells.any()
    np.testing.assert_allclose(found.states, np.exp(forest.terms.log_weight), **CLOSE)


@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("kind", builders.KINDS)
def test_without_arcs_it_is_the_plain_e_step(kind, hard):
    """Labelled and unlabelled rows, weights, several networks, and all kinds of structures."""
    world = builders.make_world(5, kind, 4)
    table, layout = world.table, world.table.layout
    network = builders.random_network(np.random.default_rng(6), world.network.structure, layout, n=2)
    terms = network.terms
    nodes = Nodes(
        (*layout.n_levels.tolist(), *[0] * layout.n_numbers),
        (-1,) * (layout.n_discrete + layout.n_numbers),
        (*layout.first_level[:-1].tolist(), *range(layout.n_numbers)),
    )
    forest = Forest(nodes, terms.structure.n_cells, set(), terms)
    found = e_step(forest, table.codes_of_columns(), table.numbers, table.labels, table.weights, hard)
    expected = plain_e_step(table, terms, hard, None)
    expected.cells[:, layout.missing_level] = 0.0
    found.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-9), expected)


def test_em_never_falls():
    rng = np.random.default_rng(7)
    levels, parent, K, alpha = (2, 3, 2, 3, 2, 2), (-1, 0, 0, 1, 1, 4), 3, 1.0
    truth = make_forest(rng, levels, parent, K)
    codes, numbers = arrays(truth, random_values(rng, truth, 150, 0.4))
    labels = rng.integers(-1, K, len(codes)).astype(np.int32)
    forest = make_forest(rng, levels, parent, K)
    blocks = [
        slice(at + u * (r + 1), at + u * (r + 1) + r)
        for i, (r, at) in enumerate(zip(levels, forest.nodes.place))
        for u in range(forest.parent_values(i))
    ]
    trace = []
    for _ in range(30):
        s = e_step(forest, codes, numbers, labels)
        terms = forest.terms
        log_prior = alpha * (terms.log_table.sum() + terms.log_weight.sum())
        trace.append(s.log_likelihood[0] + log_prior)
        log_table = np.zeros_like(terms.log_table)
        for block in blocks:
            counts = s.cells[:, block] + alpha
            log_table[:, block] = np.log(counts / counts.sum(axis=1, keepdims=True))
        log_weight = np.log((s.states + alpha) / (s.states + alpha).sum())
        forest.terms = replace(terms, log_table=log_table, log_weight=log_weight)
    assert np.diff(trace).min() >= -1e-9
    assert trace[-1] > trace[0] + 1


# ---------------------------------------------------------------- hard numbers


def test_probabilities_beyond_the_smallest_number():
    """Log probabilities of -1e6: what is left is told apart by logarithms alone."""
    forest = make_forest(np.random.default_rng(0), (2, 2, 2, 2), (-1, 0, 1, 1), 1)
    table = forest.terms.log_table[0, :, 0]
    at = forest.nodes.place
    table[:] = 0.0
    for i, u in ((1, 0), (1, 1), (2, 0), (2, 1), (3, 0), (3, 1)):
        table[at[i] + 3 * u : at[i] + 3 * u + 2] = [-1e6 * (u + 1), -0.5e6 * (i + 1)]
    table[at[0] : at[0] + 2] = [-1e6, -3e6]
    codes = np.array([[2, 2, 0, 0]])
    paths = {
        (a, b): table[at[0] + a] + table[at[1] + 3 * a + b] + table[at[2] + 3 * b] + table[at[3] + 3 * b]
        for a in range(2)
        for b in range(2)
    }
    found = e_step(forest, codes, np.zeros((1, 0)))
    assert found.log_likelihood[0] == pytest.approx(logsumexp(list(paths.values())), rel=1e-14)
    a, b = max(paths, key=paths.get)
    assert found.cells[0, at[1] + 3 * a + b, 0] == pytest.approx(1.0)
    assert np.isfinite(found.cells).all()


@pytest.mark.parametrize("first", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize("second", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize("third", [1e-12, 1.0, 1e12])
def test_variances_from_the_smallest_to_the_largest(first, second, third):
    """p -> x -> y with x missing: p is a normal, y given p a normal about 2 (3 p + 1) - 1."""

    def parameters(rng, forest, i):
        return [[(0.5, 0.0, first)], [(1.0, 3.0, second)], [(-1.0, 2.0, third)]][i]

    forest = make_forest(np.random.default_rng(0), (0, 0, 0), (-1, 0, 1), 1, parameters=parameters)
    p, y = 0.25, 7.5
    found = e_step(forest, np.zeros((1, 0), np.int64), np.array([[p, math.nan, y]]))
    variance = 4 * second + third
    expected = -((p - 0.5) ** 2) / (2 * first) - 0.5 * math.log(2 * math.pi * first)
    expected += -((y - (6 * p + 1)) ** 2) / (2 * variance) - 0.5 * math.log(2 * math.pi * variance)
    assert found.log_likelihood[0] == pytest.approx(expected, rel=1e-9)
    mean = 3 * p + 1 + 2 * second / variance * (y - (6 * p + 1))
    at = 3 + 6 * forest.nodes.place[1]
    moments = [1.0, mean, mean**2 + second * third / variance, p, p * p, mean * p]
    np.testing.assert_allclose(found.cells[0, at : at + 6, 0], moments, rtol=1e-9)


def test_an_arc_without_effect_leaves_the_parent_alone():
    """A coefficient of 0: the potential of the parent is flat."""
    forest = make_forest(
        np.random.default_rng(0), (0, 0), (-1, 0), 1, parameters=lambda rng, forest, i: [(0.5, 0.0, 2.0)]
    )
    values = np.zeros((1, 0), np.int64), np.array([[math.nan, 1.5]])
    found = e_step(forest, *values)
    assert found.log_likelihood[0] == pytest.approx(-0.25 - 0.5 * math.log(4 * math.pi), rel=1e-14)
    np.testing.assert_allclose(found.cells[0, :3, 0], [1.0, 0.5, 2.25], rtol=1e-14)


# ---------------------------------------------------------------- hostile input, threads, pieces


@pytest.mark.parametrize(
    ("levels", "parent", "place", "words"),
    [
        ([2, 2], [1, 0], [0, 3], "circle"),
        ([2], [0], [0], "circle"),
        ([2, 0], [1, -1], [0, 0], "continuous parent"),
        ([2, 2], [-1, 2], [0, 3], "a parent is"),
        ([2, 2], [-1, -2], [0, 3], "a parent is"),
        ([2, 2], [-1, 0], [0, 7], "outside"),
        ([2, 2], [-1, 0], [0, -1], "outside"),
        ([1 << 19, 1 << 19], [-1, 0], [0, 0], "outside"),
        ([1 << 62, 2], [-1, 0], [0, 0], "levels"),
        ([-1], [-1], [0], "levels"),
        ([0], [-1], [4], "outside"),
        ([2, 0], [-1, 0], [0, 2], "all normal or all linear"),
        ([0, 0], [-1, 0], [0, 1], "outside"),
        ([0, 0], [-1, 0], [3, 0], "children"),
        ([2, 2], [-1], [0, 3], "every node"),
    ],
)
def test_trees_that_are_none_are_refused(levels, parent, place, words):
    with pytest.raises(ValueError, match=words):
        _native.Tree(levels, parent, place, 9, 4, 1, 1)


@pytest.mark.parametrize("sizes", [(-1, 0, 0, 0), (9, 1, 2, 0), (9, 0, 0, 1 << 60)])
def test_arrays_that_cannot_be_are_refused(sizes):
    with pytest.raises(ValueError, match=r"sizes|n_linear"):
        _native.Tree([], [], [], *sizes)


def test_values_and_parameters_that_do_not_fit_are_refused():
    rng = np.random.default_rng(0)
    forest = make_forest(rng, (2, 3, 0), (-1, 0, 1), 2)
    codes, numbers = arrays(forest, random_values(rng, forest, 3, 0.0))
    labels = np.zeros(3, np.int32)
    for bad in (-1, 3, 1 << 40):
        wrong = codes.copy()
        wrong[1, 0] = bad
        with pytest.raises(ValueError, match="code"):
            log_states(forest, wrong, numbers)
        with pytest.raises(ValueError, match="code"):
            e_step(forest, wrong, numbers, labels)
    with pytest.raises(ValueError, match="infinite"):
        log_states(forest, codes, np.full_like(numbers, np.inf))
    with pytest.raises(ValueError, match="codes"):
        log_states(forest, codes[:, :1], numbers)
    with pytest.raises(ValueError, match="codes"):
        log_states(forest, codes, numbers[:2])
    with pytest.raises(ValueError, match="label"):
        e_step(forest, codes, numbers, labels + 2)
    for name in ("log_weight", "log_table", "numeric", "regression"):
        twice = np.concatenate([getattr(forest.terms, name)] * 2, axis=-1)
        with pytest.raises(ValueError, match=name):
            e_step(replace(forest, terms=replace(forest.terms, **{name: twice})), codes, numbers, labels)
    with pytest.raises(ValueError, match="a row"):
        e_step(forest, codes, numbers, labels[:2])


def same_bits(a: Statistics, b: Statistics) -> None:
    a.map(lambda x, y: np.testing.assert_array_equal(x, y), b)


def test_threads_do_not_change_a_bit():
    rng = np.random.default_rng(11)
    forest = random_forest(rng, n_cells=5)
    values = arrays(forest, random_values(rng, forest, 101, 0.4))
    labels = rng.integers(-1, 5, 101).astype(np.int32)
    alone = e_step(forest, *values, labels)
    states = log_states(forest, *values)
    for n in (2, 3, 8):
        pool = _native.ThreadPool(n)
        same_bits(e_step(forest, *values, labels, pool=pool), alone)
        np.testing.assert_array_equal(log_states(forest, *values, pool), states)


def test_rows_in_blocks_add_up_to_the_same(monkeypatch):
    rng = np.random.default_rng(12)
    forest = random_forest(rng)
    codes, numbers = arrays(forest, random_values(rng, forest, 400, 0.4))
    whole = e_step(forest, codes, numbers, hard=True)
    monkeypatch.setattr(tree_inference, "_NODES_PER_BLOCK", 10)
    blocks = e_step(forest, codes.astype(np.uint8), numbers, hard=True)
    whole.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12), blocks)


def test_no_rows_have_no_statistics():
    forest = random_forest(np.random.default_rng(13))
    none = arrays(forest, [])
    found = e_step(forest, *none)
    found.map(lambda a: np.testing.assert_array_equal(a, np.zeros_like(a)))
    assert log_states(forest, *none).shape == (0, 3)
