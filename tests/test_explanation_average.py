"""Explanations of averages against their definition: derivatives of the log-odds taken by differences."""

from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from builders import KINDS, encode, make_layout, make_structure, make_world, plain, random_network
from oracles import Rows, log_normal
from scipy.special import logsumexp

from fanbayes import NBClassifier
from fanbayes.data.views import Encodings
from fanbayes.explanation import average, path
from fanbayes.explanation.average import AveragePath, FitRows, Mixture, attribute_average, explain_average, fit_rows
from fanbayes.explanation.contributions import attribute
from fanbayes.learning.completion import Imputer
from fanbayes.learning.e_step import posterior
from fanbayes.learning.ensembles.average import Average
from fanbayes.learning.ensembles.members import Member, MemberNetwork
from fanbayes.learning.ensembles.nb_forest import fit_forest
from fanbayes.learning.ensembles.pool import FLOOR, Pool

LEVELS, N_NUMBERS, N_CLASSES = (2, 4, 3), 2, 3
N_FEATURES = len(LEVELS) + N_NUMBERS
PRIOR = np.array([0.5, 0.2, 0.3])


@pytest.fixture(autouse=True)
def bounded(monkeypatch):
    """What does not converge is an error, not a machine that is out of memory: steps are halved in all rows at once."""
    evaluate, n_points = AveragePath.coefficient, []

    def counted(path, t, row):
        n_points.append(len(t))
        assert sum(n_points) < 100_000, "halved without end"
        return evaluate(path, t, row)

    monkeypatch.setattr(AveragePath, "coefficient", counted)


@dataclass
class Fitted:
    """A fit: its network, the rows that it sees, and the feature of each of its columns."""

    network: object
    table: object
    rows: Rows
    feature_of: np.ndarray

    def fit_rows(self, n_features):
        predictor = SimpleNamespace(network=self.network, view=SimpleNamespace(feature_of=self.feature_of))
        return fit_rows(predictor, self.table, n_features)

    def log_terms(self, r):
        """Log p(x_i | s) of each column of the layout in each state, 0 where missing."""
        net, rows = plain(self.network), self.rows
        out = np.zeros((len(self.feature_of), len(net.class_of)))
        n_discrete = rows.codes.shape[1]
        for s, cell in enumerate(net.cell_of):
            for i, code in enumerate(rows.codes[r]):
                out[i, s] = net.tables[i][code, cell] if code >= 0 else 0.0
            for i, x in enumerate(rows.numbers[r]):
                out[n_discrete + i, s] = 0.0 if np.isnan(x) else log_normal(x, net.mean[i, cell], net.sigma2[i, cell])
        return out

    def proba(self, r, t):
        """p(c | x) with the exponents t (..., n_features) on the features."""
        class_of = self.network.structure.class_of
        u = self.network.log_weight[0] + t[..., self.feature_of] @ self.log_terms(r)
        log_p = np.stack([logsumexp(u[..., class_of == c], axis=-1) for c in range(N_CLASSES)], axis=-1)
        return np.exp(log_p - logsumexp(u, axis=-1)[..., None])


def make_mixture(member_of, seed=0, share=0.4):
    rng = np.random.default_rng(seed)
    n = max(member_of) + 2
    return Mixture(np.array(member_of), Pool(rng.dirichlet(np.ones(n)), rng.uniform(0, 1.5, n), share), PRIOR)


def linear(member_of, weights):
    """Without the log-linear pool."""
    return Mixture(np.array(member_of), Pool(np.array(weights), np.zeros(len(weights)), 1.0), PRIOR)


def make_fits(kinds, seed=0, n=10):
    """Fits of several structures that see the same rows."""
    worlds = [make_world(seed, kind, 3, levels=LEVELS, n_numbers=N_NUMBERS, n=n) for kind in kinds]
    rng = np.random.default_rng(seed + 1)
    networks = [random_network(rng, w.network.structure, w.network.layout) for w in worlds]
    return [Fitted(net, worlds[0].table, worlds[0].rows, np.arange(N_FEATURES)) for net in networks]


def explained(fits, mixture, pairs, row=None, weight=None, n_features=N_FEATURES):
    """Every row stands for itself, unless told otherwise."""
    row, weight = (np.arange(len(pairs)), np.ones(len(pairs))) if row is None else (row, weight)
    return attribute_average([f.fit_rows(n_features) for f in fits], mixture, n_features, pairs, row, weight)


def members_proba(fits, mixture, r, t):
    """(A0), and the classes' shares, (..., n_classes) each."""
    p = [f.proba(r, t) for f in fits]
    members = [np.mean([q for q, m in zip(p, mixture.member_of) if m == k], axis=0) for k in set(mixture.member_of)]
    return [*members, np.broadcast_to(mixture.class_prior, p[0].shape)]


def pooled(fits, mixture, r, t):
    """(A3) as it is written."""
    pool, p = mixture.pool, members_proba(fits, mixture, r, t)
    product = np.prod([(q + FLOOR) ** w for q, w in zip(p, pool.exponents)], axis=0)
    product /= product.sum(axis=-1, keepdims=True)
    return pool.share * sum(v * q for v, q in zip(pool.weights, p)) + (1 - pool.share) * product


def log_odds(fits, mixture, complete, pair, t):
    """With the exponents t (..., n_features), of the complete rows and their weights (M1)."""
    p = sum(w * pooled(fits, mixture, r, t) for r, w in complete)
    return np.log(p[..., pair[0]]) - np.log(p[..., pair[1]])


def by_definition(fits, mixture, complete, pair, n_features=N_FEATURES):
    """∫ of the partial derivative by t_i along t_1 = ... = t_n = t, by central differences and a rule of 60 points."""
    nodes, weights = np.polynomial.legendre.leggauss(60)
    h, t = 1e-5, (nodes[:, None, None] + 1) / 2  # (nodes, features to differ in, features)
    low, high = (log_odds(fits, mixture, complete, pair, t + sign * h * np.eye(n_features)) for sign in (-1, 1))
    return weights / 2 @ (high - low) / (2 * h)


def some_pairs(n, seed=0):
    rng = np.random.default_rng(seed)
    return np.array([rng.choice(N_CLASSES, 2, replace=False) for _ in range(n)])


def assert_complete(found):
    np.testing.assert_allclose(found.prior + found.contributions.sum(axis=1), found.log_odds, atol=1e-9)


def assert_by_definition(found, fits, mixture, pairs, row=None, weight=None):
    assert_complete(found)
    row, weight = (np.arange(len(pairs)), np.ones(len(pairs))) if row is None else (row, weight)
    for r, pair in enumerate(pairs):
        complete = [(k, weight[k]) for k in np.flatnonzero(row == r)]
        wanted = by_definition(fits, mixture, complete, pair)
        np.testing.assert_allclose(found.contributions[r], wanted, rtol=1e-5, atol=1e-6)
        for t, value in ((1.0, found.log_odds[r]), (0.0, found.prior[r])):
            expected = log_odds(fits, mixture, complete, pair, np.full(N_FEATURES, t))
            assert value == pytest.approx(expected, abs=1e-9)


# ---------------------------------------------------------------- the definition


@pytest.mark.parametrize(
    ("kinds", "member_of"), [(("nb", "fan"), (0, 1)), (("per_class", "fm", "nb", "fan"), (0, 0, 1, 2))]
)
@pytest.mark.parametrize("share", [0.4, 0.0])
def test_contributions_by_their_definition(kinds, member_of, share):
    fits, mixture, pairs = make_fits(kinds, seed=2, n=4), make_mixture(member_of, share=share), some_pairs(4)
    assert_by_definition(explained(fits, mixture, pairs), fits, mixture, pairs)


def test_rows_that_stand_for_another():
    """(M1): the mean over complete rows of the average of each, by its definition; rows of one, of two and of three."""
    fits, mixture, pairs = make_fits(("fan", "nb", "fm"), seed=13, n=6), make_mixture((0, 1, 1)), some_pairs(3)
    row, weight = np.array([0, 0, 0, 1, 2, 2]), np.array([0.5, 0.3, 0.2, 1.0, 0.0, 1.0])
    found = explained(fits, mixture, pairs, row, weight)
    assert_by_definition(found, fits, mixture, pairs, row, weight)
    one = np.ones(N_FEATURES)
    for r, pair in enumerate(pairs):
        each = [
            weight[k] * np.array(members_proba(fits, mixture, k, one))[:-1, pair[0]] for k in np.flatnonzero(row == r)
        ]
        share = mixture.pool.weights[:-1] * np.sum(each, axis=0)
        assert found.part[r] == np.argmax(share)
        assert found.responsibility[r] == pytest.approx(max(share) / sum(share), abs=1e-9)


@pytest.mark.parametrize("t", [1.0, 0.3])
def test_coefficients_are_derivatives(t):
    """Of the log-odds by what is added in one state of one fit for one complete row."""
    rng = np.random.default_rng(0)
    mixture = make_mixture((0, 0, 1, 2))
    fit_of = np.repeat(np.arange(4), (3, 3, 5, 4))
    classes = np.array([0, 1, 2, 0, 1, 2, 0, 0, 1, 2, 2, 0, 1, 1, 2])
    n_each, n_states, pairs = 2, 15, np.array([[0, 1], [2, 0]])
    weight = rng.dirichlet(np.ones(n_each), 2)
    whole = AveragePath(
        mixture, fit_of, classes, weight, pairs, rng.normal(size=n_states), 3 * rng.normal(size=(2, n_each * n_states))
    )
    row, at, h = np.arange(2), np.full(2, t), 1e-6
    found = whole.coefficient(at, row)
    for s in range(n_each * n_states):
        step = h / t * np.eye(n_each * n_states)[s]
        low, high = (replace(whole, slope=whole.slope + sign * step).log_odds(at, row)[0] for sign in (-1, 1))
        np.testing.assert_allclose(found[:, s], (high - low) / (2 * h), atol=1e-8)


def test_a_fit_without_states_of_a_class():
    """As kernels of a class that has none: its probability is 0 there, and others decide."""
    rng = np.random.default_rng(1)
    mixture = make_mixture((0, 1))
    fit_of, classes = np.array([0, 0, 1, 1, 1]), np.array([0, 2, 0, 1, 2])
    whole = AveragePath(
        mixture, fit_of, classes, np.ones((1, 1)), np.array([[1, 0]]), rng.normal(size=5), rng.normal(size=(1, 5))
    )
    change = (
        whole.log_odds(np.ones(1), np.zeros(1, dtype=int))[0] - whole.log_odds(np.zeros(1), np.zeros(1, dtype=int))[0]
    )
    assert (path.integrate(whole, np.ones(1)) * whole.slope).sum() == pytest.approx(change[0], abs=1e-9)


# ---------------------------------------------------------------- what follows from it


def test_they_add_up_and_what_is_missing_adds_nothing():
    fits, mixture = make_fits(KINDS, seed=3, n=40), make_mixture((0, 0, 1, 2, 3))
    found = explained(fits, mixture, some_pairs(40))
    assert_complete(found)
    missing = np.column_stack([fits[0].rows.codes < 0, np.isnan(fits[0].rows.numbers)])
    assert missing.any()
    assert (found.contributions[missing] == 0.0).all()
    assert (found.contributions[~missing] != 0.0).all()
    swapped = explained(fits, mixture, some_pairs(40)[:, ::-1])
    np.testing.assert_allclose(swapped.contributions, -found.contributions, atol=1e-9)


def test_log_odds_are_those_of_the_pool_of_posteriors():
    fits, mixture, pairs = make_fits(("fan", "fm", "nb"), seed=4, n=20), make_mixture((0, 1, 2)), some_pairs(20)
    p = [posterior(f.table, f.network.terms, "proba", None) for f in fits]
    p = np.stack([*p, np.tile(PRIOR, (20, 1))])
    mixed, row = mixture.pool.mix(p), np.arange(20)
    found = explained(fits, mixture, pairs)
    np.testing.assert_allclose(found.log_odds, np.log(mixed[row, pairs[:, 0]] / mixed[row, pairs[:, 1]]), atol=1e-9)
    shares = mixture.pool.weights[:-1, None] * p[:-1, row, pairs[:, 0]]
    assert (found.part == shares.argmax(axis=0)).all()
    np.testing.assert_allclose(found.responsibility, shares.max(axis=0) / shares.sum(axis=0), rtol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_a_single_fit_is_explained_like_its_network(kind):
    world = make_world(5, kind, 4, levels=LEVELS, n_numbers=N_NUMBERS, n=30)
    pairs = some_pairs(30)
    alone = Fitted(world.network, world.table, world.rows, np.arange(N_FEATURES))
    found = explained([alone], linear([0], [1.0, 0.0]), pairs)
    wanted = attribute(world.network, world.table, pairs)
    for name in ("log_odds", "prior", "contributions"):
        np.testing.assert_allclose(getattr(found, name), getattr(wanted, name), atol=1e-9)
    assert (found.part == 0).all()
    np.testing.assert_allclose(found.responsibility, 1.0)


def test_equal_members_and_equal_fits_are_one():
    [one], pairs = make_fits(("fan",), seed=7, n=15), some_pairs(15)
    pool = Pool(np.array([0.8, 0.2]), np.array([1.2, 0.3]), 0.4)
    parts = Pool(np.array([0.16, 0.4, 0.24, 0.2]), np.array([0.5, 0.4, 0.3, 0.3]), 0.4)
    alone = explained([one], Mixture(np.array([0]), pool, PRIOR), pairs)
    members = explained([one] * 3, Mixture(np.arange(3), parts, PRIOR), pairs)
    fits = explained([one] * 3, Mixture(np.zeros(3, dtype=int), pool, PRIOR), pairs)
    np.testing.assert_allclose(members.contributions, alone.contributions, atol=1e-9)
    np.testing.assert_allclose(fits.contributions, alone.contributions, atol=1e-9)
    assert (members.part == 1).all()
    np.testing.assert_allclose(members.responsibility, 0.5)
    assert (fits.part == 0).all()


def test_fits_that_see_the_columns_differently():
    """One in another order, one without some columns: contributions come to the features, wherever they are seen."""
    fits, mixture, pairs = make_fits(("fan", "fan", "nb"), seed=8, n=5), make_mixture((0, 1, 2)), some_pairs(5)
    rows, rng, order = fits[0].rows, np.random.default_rng(0), np.array([2, 0, 1])
    swapped = Rows(rows.codes[:, order], rows.numbers[:, ::-1], rows.labels, rows.weights)
    fewer = Rows(rows.codes[:, [1]], rows.numbers[:, [1]], rows.labels, rows.weights)
    others = (("fan", (3, 2, 4), 2, swapped, [*order, 4, 3]), ("fm", (4,), 1, fewer, [1, 4]))
    for k, (kind, levels, n_numbers, seen, feature_of) in enumerate(others, 1):
        layout = make_layout(levels, n_numbers)
        network = random_network(rng, make_structure(kind, N_CLASSES, 2), layout)
        fits[k] = Fitted(network, encode(seen, layout), seen, np.array(feature_of))
    assert_by_definition(explained(fits, mixture, pairs), fits, mixture, pairs)


def test_a_feature_that_no_fit_sees_contributes_nothing():
    fits, mixture, pairs = make_fits(("fan", "nb"), seed=9), make_mixture((0, 1)), some_pairs(10)
    apart = [replace(f, feature_of=f.feature_of + 1) for f in fits]
    found = explained(apart, mixture, pairs, n_features=N_FEATURES + 2)
    assert (found.contributions[:, [0, -1]] == 0.0).all()
    np.testing.assert_array_equal(found.contributions[:, 1:-1], explained(fits, mixture, pairs).contributions)


@pytest.mark.parametrize("scale", [30.0, 1e3])
def test_sharp_switches_between_fits_add_up_too(scale):
    """Numbers far from all cells: fits and components take over from each other within short steps, and the
    rounding of large logarithms must not be taken for an error of the rule.
    """
    fits = make_fits(("fan", "per_class", "nb"), seed=10, n=12)
    rows = fits[0].rows
    far = Rows(rows.codes, scale * rows.numbers, rows.labels, rows.weights)
    fits = [replace(f, table=encode(far, f.table.layout), rows=far) for f in fits]
    found = explained(fits, make_mixture((0, 1, 2)), some_pairs(12))
    size = np.abs(found.contributions).sum(axis=1)
    rest = found.prior + found.contributions.sum(axis=1) - found.log_odds
    rounding = 1e-13 * scale**2  # of the log densities, which are squares of the numbers
    assert (np.abs(rest) <= 1e-9 * np.maximum(1.0, size) + rounding).all()
    assert size.max() > 5


def test_blocks_of_rows_do_not_matter(monkeypatch):
    fits, mixture, pairs = make_fits(("fan", "nb"), seed=11, n=25), make_mixture((0, 1)), some_pairs(25)
    wanted = explained(fits, mixture, pairs)
    for module in (average, path):
        monkeypatch.setattr(module, "_NUMBERS_AT_ONCE", 700)
    found = explained(fits, mixture, pairs)
    np.testing.assert_allclose(found.contributions, wanted.contributions, atol=1e-12)
    np.testing.assert_array_equal(found.part, wanted.part)


def test_what_does_not_add_up_is_an_error(monkeypatch):
    fits, mixture = make_fits(("fan", "nb"), seed=12), make_mixture((0, 1))
    monkeypatch.setattr(average, "integrate", lambda path, size: np.zeros_like(path.slope))
    with pytest.raises(FloatingPointError, match="the contributions of row 0 miss its log-odds"):
        explained(fits, mixture, some_pairs(10))


# ---------------------------------------------------------------- a forest among the members


@pytest.fixture(scope="module")
def forest():
    """A forest, naive Bayes of the same rows, and the rows, of which some lack a value."""
    rng = np.random.default_rng(0)
    y = np.arange(120) % 3
    X = pd.DataFrame({"a": np.array(list("uvw"))[(y + rng.integers(0, 2, 120)) % 3], "x": rng.normal(size=120) + y})
    X["b"] = np.where(rng.random(120) < 0.3 + 0.2 * y, "yes", "no")
    X.loc[::30, "x"] = np.nan
    X.loc[5::40, "b"] = None
    clf = NBClassifier().fit(X, y)
    rows = clf._cases(X, y, None).training_table()
    view, table = rows.view("none", rows.labels)
    grown, _ = fit_forest(table, view, 3, 0, None)
    return grown, MemberNetwork(view, clf.network_), Encodings((view.schema,), (table,))


def make_average(members, pool, predictor, fills):
    imputer = Imputer(predictor.network, predictor.view.schema, np.full(3, fills))
    return Average(tuple(Member(tuple(m)) for m in members), pool, PRIOR, imputer)


def test_a_forest_alone(forest):
    """It is a sum over the columns, and so are its log-odds."""
    grown, naive, rows = forest
    average = make_average([[grown]], Pool(np.array([1.0, 0.0]), np.zeros(2), 1.0), naive, False)
    found = explain_average(average, rows, np.arange(3), (2, 0), None)
    terms = grown.terms(rows.tables[0], None)
    np.testing.assert_allclose(found.contributions, terms[:, :, 2] - terms[:, :, 0], atol=1e-9)
    np.testing.assert_allclose(found.prior, np.log(grown.class_prior[2] / grown.class_prior[0]), atol=1e-9)


@pytest.mark.parametrize("fills", [False, True])
def test_a_forest_among_the_members(forest, fills):
    grown, naive, rows = forest
    pool = Pool(np.array([0.5, 0.3, 0.2]), np.array([0.7, 0.6, 0.1]), 0.5)
    average = make_average([[grown, naive], [naive]], pool, naive, fills)
    found = explain_average(average, rows, np.arange(3), (2, 0), None)
    assert_complete(found)
    log_p = average.posterior(rows, "log_proba", None)
    np.testing.assert_allclose(found.log_odds, log_p[:, 2] - log_p[:, 0], atol=1e-9)
    missing = ~np.isnan(found.information)
    assert missing.any()
    assert (found.contributions != 0).all()  # trees make something of holes, as does what they are filled with


def test_terms_of_a_forest_are_those_of_its_classes(forest):
    grown, _, rows = forest
    found = fit_rows(grown, rows.tables[0], 3)
    assert isinstance(found, FitRows)
    u = found.log_weight + found.terms(np.arange(10)).sum(axis=1)
    np.testing.assert_allclose(u - logsumexp(u, axis=1)[:, None], grown.log_proba(rows.tables[0], None)[:10], atol=1e-9)
