"""Explanations of averages against their definition: derivatives of the log-odds taken by differences."""

from dataclasses import replace

import builders
import numpy as np
import pytest
from builders import KINDS, encode, make_layout, make_structure, make_world, plain, random_network
from oracles import Rows, log_normal
from scipy.special import logsumexp

from fanbayes.explanation import average
from fanbayes.explanation.average import MemberRows, attribute_average
from fanbayes.explanation.contributions import attribute
from fanbayes.learning.e_step import posterior
from fanbayes.model.weighted_network import WeightedNetwork

LEVELS, N_NUMBERS, N_CLASSES = (2, 4, 3), 2, 3
N_FEATURES = len(LEVELS) + N_NUMBERS


@pytest.fixture(autouse=True)
def bounded(monkeypatch):
    """What does not converge is an error, not a machine that is out of memory: steps are halved in all rows at once."""
    evaluate, n_points = average.MixturePath.coefficient, []

    def counted(path, t, row):
        n_points.append(len(t))
        assert sum(n_points) < 100_000, "halved without end"
        return evaluate(path, t, row)

    monkeypatch.setattr(average.MixturePath, "coefficient", counted)


def make_member(world, network, weight, seed):
    rng = np.random.default_rng(seed)
    model = WeightedNetwork(network, rng.uniform(0, 2, N_FEATURES), 0.5 * rng.normal(size=N_CLASSES))
    return MemberRows(model, world.table, np.arange(N_FEATURES), weight)


def make_members(kinds, seed=0, n=10):
    """Members of several structures that see the same rows."""
    worlds = [make_world(seed, kind, 3, levels=LEVELS, n_numbers=N_NUMBERS, n=n) for kind in kinds]
    weights = np.random.default_rng(seed).dirichlet(np.ones(len(kinds)))
    rng = np.random.default_rng(seed + 1)
    networks = [random_network(rng, w.network.structure, w.network.layout) for w in worlds]
    members = [make_member(worlds[0], net, v, k) for k, (net, v) in enumerate(zip(networks, weights.tolist()))]
    return members, worlds[0].rows


def explained(members, n_features, pairs):
    """Every row stands for itself."""
    return attribute_average(members, n_features, pairs, np.arange(len(pairs)), np.ones(len(pairs)))


def log_terms(member, rows, r):
    """Weight times log p(x_i | s) of each column of the layout in each state, 0 where missing."""
    net = plain(member.model.network)
    out = np.zeros((len(member.feature_of), len(net.class_of)))
    n_discrete = rows.codes.shape[1]
    for s, cell in enumerate(net.cell_of):
        for i, code in enumerate(rows.codes[r]):
            out[i, s] = net.tables[i][code, cell] if code >= 0 else 0.0
        for i, x in enumerate(rows.numbers[r]):
            out[n_discrete + i, s] = 0.0 if np.isnan(x) else log_normal(x, net.mean[i, cell], net.sigma2[i, cell])
    return out * member.model.feature_weights[:, None]


def log_odds(members, terms, pair, t):
    """Of the average (A1), with the exponents t (..., n_features) on the features of all members."""
    mixed = 0.0
    for member, by_column in zip(members, terms):
        structure = member.model.structure
        u = member.model.network.log_weight[0] + member.model.offset[structure.class_of]
        u = u + t[..., member.feature_of] @ by_column
        log_p = [logsumexp(u[..., structure.class_of == c], axis=-1) - logsumexp(u, axis=-1) for c in pair]
        mixed = mixed + member.weight * np.exp(log_p)
    return np.log(mixed[0]) - np.log(mixed[1])


def log_joint(member, terms, c):
    """log v_m p_m(c | x)."""
    u = member.model.network.log_weight[0] + member.model.offset[member.model.structure.class_of] + terms.sum(axis=0)
    with np.errstate(divide="ignore"):
        return np.log(member.weight) + logsumexp(u[member.model.structure.class_of == c]) - logsumexp(u)


def by_definition(members, terms, pair, n_features):
    """∫ of the partial derivative by t_i along t_1 = ... = t_n = t, by central differences and a rule of 60 points."""
    nodes, weights = np.polynomial.legendre.leggauss(60)
    h, t = 1e-5, (nodes[:, None, None] + 1) / 2  # (nodes, features to differ in, features)
    low, high = (log_odds(members, terms, pair, t + sign * h * np.eye(n_features)) for sign in (-1, 1))
    return weights / 2 @ (high - low) / (2 * h)


def some_pairs(n, seed=0):
    rng = np.random.default_rng(seed)
    return np.array([rng.choice(N_CLASSES, 2, replace=False) for _ in range(n)])


def assert_complete(found):
    np.testing.assert_allclose(found.prior + found.contributions.sum(axis=1), found.log_odds, atol=1e-9)


@pytest.mark.parametrize("kinds", [("nb", "fan"), ("per_class", "fm", "nb")])
def test_contributions_by_their_definition(kinds):
    members, rows = make_members(kinds, seed=2, n=5)
    pairs = some_pairs(5)
    found = explained(members, N_FEATURES, pairs)
    for r, pair in enumerate(pairs):
        terms = [log_terms(m, rows, r) for m in members]
        wanted = by_definition(members, terms, pair, N_FEATURES)
        np.testing.assert_allclose(found.contributions[r], wanted, rtol=1e-5, atol=1e-6)
        assert found.log_odds[r] == pytest.approx(log_odds(members, terms, pair, np.ones(N_FEATURES)), abs=1e-9)
        assert found.prior[r] == pytest.approx(log_odds(members, terms, pair, np.zeros(N_FEATURES)), abs=1e-9)
    assert_complete(found)


def test_they_add_up_and_what_is_missing_adds_nothing():
    members, rows = make_members(KINDS, seed=3, n=40)
    found = explained(members, N_FEATURES, some_pairs(40))
    assert_complete(found)
    missing = np.column_stack([rows.codes < 0, np.isnan(rows.numbers)])
    assert missing.any()
    assert (found.contributions[missing] == 0.0).all()
    assert (found.contributions[~missing] != 0.0).all()
    np.testing.assert_allclose(
        explained(members, N_FEATURES, some_pairs(40)[:, ::-1]).contributions, -found.contributions, atol=1e-9
    )


def test_log_odds_are_those_of_the_average_of_posteriors():
    members, _ = make_members(("fan", "fm", "nb"), seed=4, n=20)
    each = [m.weight * posterior(m.table, m.model.terms, "proba", None) for m in members]
    pairs = some_pairs(20)
    found = explained(members, N_FEATURES, pairs)
    row = np.arange(20)
    total = sum(each)
    np.testing.assert_allclose(found.log_odds, np.log(total[row, pairs[:, 0]] / total[row, pairs[:, 1]]), atol=1e-9)
    shares = np.array([p[row, pairs[:, 0]] for p in each])
    assert (found.part == shares.argmax(axis=0)).all()
    np.testing.assert_allclose(found.responsibility, shares.max(axis=0) / total[row, pairs[:, 0]], rtol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_a_single_member_is_explained_like_its_network(kind):
    world = make_world(5, kind, 4, levels=LEVELS, n_numbers=N_NUMBERS, n=30)
    pairs = some_pairs(30)
    model = WeightedNetwork(world.network, np.ones(N_FEATURES), np.zeros(N_CLASSES))
    found = explained([MemberRows(model, world.table, np.arange(N_FEATURES), 1.0)], N_FEATURES, pairs)
    wanted = attribute(world.network, world.table, pairs)
    for name in ("log_odds", "prior", "contributions"):
        np.testing.assert_allclose(getattr(found, name), getattr(wanted, name), atol=1e-9)
    assert (found.part == 0).all()
    np.testing.assert_allclose(found.responsibility, 1.0)


def test_weights_of_discrete_columns_are_scaled_tables():
    """Powers of probabilities and class offsets make another network, if an unnormalised one."""
    world = make_world(6, "fan", 3, levels=LEVELS, n_numbers=0, n=30)
    w, b = np.array([0.3, 1.7, 0.9]), np.array([0.2, -0.4, 1.0])
    network, pairs = world.network, some_pairs(30)
    scaled = builders.part(network, "log_table") * np.repeat(w, [r + 1 for r in LEVELS])[:, None]
    factors = network.factors + np.concatenate([b, np.zeros(network.factors.shape[1] - len(b))])
    wanted = attribute(
        builders.changed(network, factors=factors, log_table=scaled),
        world.table,
        pairs,
    )
    found = explained([MemberRows(WeightedNetwork(network, w, b), world.table, np.arange(3), 1.0)], 3, pairs)
    for name in ("log_odds", "prior", "contributions"):
        np.testing.assert_allclose(getattr(found, name), getattr(wanted, name), atol=1e-9)


def test_equal_members_are_one():
    members, _ = make_members(("fan",), seed=7, n=15)
    [one] = members
    parts = [MemberRows(one.model, one.table, one.feature_of, v) for v in (0.2, 0.5, 0.3)]
    a, b = (explained(m, N_FEATURES, some_pairs(15)) for m in (members, parts))
    np.testing.assert_allclose(a.contributions, b.contributions, atol=1e-9)
    assert (b.part == 1).all()
    np.testing.assert_allclose(b.responsibility, 0.5)


def test_members_that_see_the_columns_differently():
    """One in another order, one without some columns: contributions come to the features, wherever they are seen."""
    members, rows = make_members(("fan", "fan", "nb"), seed=8, n=5)
    rng = np.random.default_rng(0)
    order = np.array([2, 0, 1])
    swapped = Rows(rows.codes[:, order], rows.numbers[:, ::-1], rows.labels, rows.weights)
    fewer = Rows(rows.codes[:, [1]], rows.numbers[:, [1]], rows.labels, rows.weights)
    layouts = make_layout((3, 2, 4), 2), make_layout((4,), 1)
    networks = [
        random_network(rng, make_structure(kind, N_CLASSES, 2), layout) for kind, layout in zip(("fan", "fm"), layouts)
    ]
    members[1] = MemberRows(
        WeightedNetwork(networks[0], rng.uniform(0, 2, 5), rng.normal(size=N_CLASSES)),
        encode(swapped, layouts[0]),
        np.array([*order, 4, 3]),
        members[1].weight,
    )
    members[2] = MemberRows(
        WeightedNetwork(networks[1], rng.uniform(0, 2, 2), rng.normal(size=N_CLASSES)),
        encode(fewer, layouts[1]),
        np.array([1, 4]),
        members[2].weight,
    )
    pairs = some_pairs(5)
    found = explained(members, N_FEATURES, pairs)
    assert_complete(found)
    for r, pair in enumerate(pairs):
        terms = [log_terms(m, seen, r) for m, seen in zip(members, (rows, swapped, fewer))]
        wanted = by_definition(members, terms, pair, N_FEATURES)
        np.testing.assert_allclose(found.contributions[r], wanted, rtol=1e-5, atol=1e-6)


def test_a_feature_that_no_member_sees_contributes_nothing():
    members, _ = make_members(("fan", "nb"), seed=9)
    apart = [MemberRows(m.model, m.table, m.feature_of + 1, m.weight) for m in members]
    found = explained(apart, N_FEATURES + 2, some_pairs(10))
    assert (found.contributions[:, [0, -1]] == 0.0).all()
    wanted = explained(members, N_FEATURES, some_pairs(10))
    np.testing.assert_array_equal(found.contributions[:, 1:-1], wanted.contributions)


@pytest.mark.parametrize("scale", [30.0, 1e3])
def test_sharp_switches_between_members_add_up_too(scale):
    """Numbers far from all cells: members and components take over from each other within short steps, and the
    rounding of large logarithms must not be taken for an error of the rule.
    """
    members, rows = make_members(("fan", "per_class", "nb"), seed=10, n=12)
    far = Rows(rows.codes, scale * rows.numbers, rows.labels, rows.weights)
    members = [MemberRows(m.model, encode(far, m.table.layout), m.feature_of, m.weight) for m in members]
    found = explained(members, N_FEATURES, some_pairs(12))
    size = np.abs(found.contributions).sum(axis=1)
    rest = found.prior + found.contributions.sum(axis=1) - found.log_odds
    rounding = 1e-13 * scale**2  # of the log densities, which are squares of the numbers
    assert (np.abs(rest) <= 1e-9 * np.maximum(1.0, size) + rounding).all()
    assert size.max() > 100


def test_blocks_of_rows_do_not_matter(monkeypatch):
    members, _ = make_members(("fan", "nb"), seed=11, n=25)
    wanted = explained(members, N_FEATURES, some_pairs(25))
    monkeypatch.setattr(average, "_NUMBERS_AT_ONCE", 700)
    found = explained(members, N_FEATURES, some_pairs(25))
    np.testing.assert_allclose(found.contributions, wanted.contributions, atol=1e-12)
    np.testing.assert_array_equal(found.part, wanted.part)


def test_what_does_not_add_up_is_an_error(monkeypatch):
    members, _ = make_members(("fan", "nb"), seed=12)
    monkeypatch.setattr(average.MixturePath, "integrate", lambda path, size: np.zeros_like(path.slope))
    with pytest.raises(FloatingPointError, match="the contributions of row 0 miss its log-odds"):
        explained(members, N_FEATURES, some_pairs(10))


def test_rows_that_stand_for_another_are_members_of_their_weight():
    """(M1): the average over members and complete rows, by its definition; rows of one, of two and of three."""
    members, rows = make_members(("fan", "nb"), seed=13, n=6)
    row, weight = np.array([0, 0, 0, 1, 2, 2]), np.array([0.5, 0.3, 0.2, 1.0, 0.0, 1.0])
    pairs = some_pairs(3)
    found = attribute_average(members, N_FEATURES, pairs, row, weight)
    assert_complete(found)
    for r in range(3):
        of_row = [(replace(m, weight=m.weight * weight[k]), k) for k in np.flatnonzero(row == r) for m in members]
        some, terms = [m for m, _ in of_row], [log_terms(m, rows, k) for m, k in of_row]
        wanted = by_definition(some, terms, pairs[r], N_FEATURES)
        np.testing.assert_allclose(found.contributions[r], wanted, rtol=1e-5, atol=1e-6)
        assert found.log_odds[r] == pytest.approx(log_odds(some, terms, pairs[r], np.ones(N_FEATURES)), abs=1e-9)
        share = [
            sum(np.exp(log_joint(m, log_terms(m, rows, k), pairs[r][0])) for m, k in of_row if m.model is one.model)
            for one in members
        ]
        assert found.part[r] == np.argmax(share)
        assert found.responsibility[r] == pytest.approx(max(share) / sum(share), abs=1e-9)
