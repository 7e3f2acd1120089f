"""The native core against the definition, on every instruction set of the machine."""

import math
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import builders
import numpy as np
import oracles
import pytest

from fanbayes import _native

# 1..50 components cross every width of vector, and the border between the two ways to cut states into vectors.
COMPONENTS = (1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 25, 32, 33, 48, 49, 50)
CLOSE = {"rtol": 1e-10, "atol": 1e-12}


@pytest.fixture(params=_native.backends())
def backend(request):
    before = _native.backend()
    _native.use_backend(request.param)
    yield request.param
    _native.use_backend(before)


def inputs(world):
    """Rows, states, and what the kernels evaluate."""
    t = world.network.terms
    return world.table.rows, t.structure.native, t.log_weight, t.log_table, t.numeric, t.n_linear, t.regression


def e_step(world, hard=False):
    return _native.e_step(*inputs(world), hard)


def posterior(world, what):
    structure = world.network.structure
    out = np.full((world.table.n_rows, structure.n_states if what == "states" else structure.n_classes), np.nan)
    _native.posterior(*inputs(world), what, out)
    return out


def only(rows, part):
    return oracles.Rows(*(x[part] for x in (rows.codes, rows.numbers, rows.labels, rows.weights, rows.pairs)))


def definition(world, hard):
    """What `e_step` must find, in its own shapes."""
    net, rows, layout = world.plain, world.rows, world.network.layout
    r = oracles.completion(net, rows, hard)
    counts = np.zeros((int(layout.first_level[-1]), net.n_cells))
    for i, found in enumerate(oracles.level_counts(net, rows, r)):
        counts[layout.first_level[i] : layout.missing_level[i]] = found
        absent = rows.codes[:, i] < 0
        for s, cell in enumerate(net.cell_of):
            counts[layout.missing_level[i], cell] += r[absent, s].sum()
    moments = np.moveaxis(oracles.moments(net, rows, r), 0, 1).reshape(-1, net.n_cells)
    of_class = [oracles.sums(net, only(rows, rows.labels == c), False)[0] for c in range(net.n_classes)]
    sums = oracles.sums(net, rows, builders.oracle_kind(world.kind) == "per_class")
    products = oracles.products(net, rows, r).reshape(-1, net.n_cells)
    return oracles.state_counts(r), np.concatenate([counts, moments, products]), of_class, sums


def assert_same(found, wanted):
    *arrays, sums = found
    for a, b in zip((*(x[0] for x in arrays), sums[:, 0]), wanted, strict=True):
        np.testing.assert_allclose(a, b, **CLOSE)


# ---------------------------------------------------------------- exponential and logarithm


def ulps(found, wanted):
    """Distance in units of the last place of the exact value."""
    unit = np.spacing(np.abs(wanted.astype(np.float64)))
    return float(np.max(np.abs((found.astype(np.longdouble) - wanted) / unit)))


def test_exp_is_within_two_ulps(backend):
    rng = np.random.default_rng(0)
    x = np.concatenate(
        [
            rng.uniform(-708, 709.78, 20_000),
            rng.uniform(-745.2, -708, 5_000),  # subnormal results
            rng.uniform(-1, 1, 20_000),
            rng.choice([-1, 1], 2_000) * 2.0 ** rng.uniform(-1074, 0, 2_000),
            np.arange(-1074, 1024) * math.log(2),  # next to powers of two
        ]
    )
    assert ulps(_native.exp(x), np.exp(x.astype(np.longdouble))) <= 2


def test_exp_at_the_ends(backend):
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e308, -1e308, 709.79, -745.2, -746.5])
    found = _native.exp(x)
    np.testing.assert_array_equal(found, [1, 1, np.inf, 0, np.nan, np.inf, 0, np.inf, 0, 0])


def test_log_of_nan(backend):
    assert np.isnan(_native.log(np.full(9, np.nan))).all()


def test_log_is_within_two_ulps(backend):
    rng = np.random.default_rng(1)
    tiny, huge = np.finfo(float).tiny, np.finfo(float).max
    x = np.concatenate(
        [
            2.0 ** rng.uniform(-1022, 1024, 20_000),
            rng.uniform(0.5, 2, 20_000),
            1 + rng.choice([-1, 1], 5_000) * 2.0 ** rng.uniform(-52, -1, 5_000),
            [tiny, huge, 1.0, np.nextafter(1, 2), np.nextafter(1, 0)],
            2.0 ** np.arange(-1022, 1024),
        ]
    )
    assert ulps(_native.log(x), np.log(x.astype(np.longdouble))) <= 2


@pytest.mark.parametrize("n", range(19))
def test_arrays_of_any_length(backend, n):
    x = np.linspace(0.1, 3, n)
    np.testing.assert_allclose(_native.exp(x), np.exp(x), rtol=1e-15)
    np.testing.assert_allclose(_native.log(x), np.log(x), rtol=1e-15, atol=1e-16)


# ---------------------------------------------------------------- the E-step


@pytest.mark.parametrize("n_components", COMPONENTS)
@pytest.mark.parametrize("kind", builders.KINDS[1:])
def test_e_step_is_the_definition(all_backends, kind, n_components):
    world = builders.make_world(n_components, kind, n_components, n_regressions=1)
    for hard in (False, True):
        wanted = definition(world, hard)
        for _ in all_backends():
            assert_same(e_step(world, hard=hard), wanted)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"missing": 0.0, "unlabelled": 0.0, "weighted": False},
        {"unlabelled": 1.0},
        {"missing": 1.0},
        {"levels": (255, 256, 1000), "n_numbers": 0},
        {"levels": (), "n_numbers": 3, "missing": 0.0},
        {"levels": (3,), "n_numbers": 1, "n_classes": 1},
        {"levels": (), "n_numbers": 0},
        {"levels": (2,) * 40, "n_numbers": 20, "n_classes": 9},
        {"levels": (), "n_numbers": 0, "n_regressions": 1},
        {"levels": (3,), "n_numbers": 1, "n_regressions": 5},
        {"levels": (3,), "n_numbers": 1, "n_regressions": 2, "missing": 0.0},
        {"levels": (), "n_numbers": 2, "n_regressions": 2, "missing": 1.0},
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", ["nb", "ragged", "fm"])
def test_e_step_of_any_table(all_backends, kind, options):
    world = builders.make_world(7, kind, 4, **options)
    for hard in (False, True):
        wanted = definition(world, hard)
        for _ in all_backends():
            assert_same(e_step(world, hard=hard), wanted)


@pytest.mark.parametrize("kind", builders.KINDS)
def test_rows_beyond_one_chunk(backend, kind):
    """Rows are ordered by class 512 at a time: each must count once, whatever blocks they are cut into."""
    world = builders.make_world(3, kind, 3, n=1100, levels=(3,), n_numbers=1)
    wanted = definition(world, False)
    for n_blocks in (1, 2, 2000):  # of these most are empty
        assert_same(_native.e_step(*inputs(world), False, n_blocks), wanted)


def test_a_table_without_rows(backend):
    world = builders.make_world(3, "fan", 3)
    for array in e_step(replace(world, table=world.table.only(np.zeros(world.table.n_rows, bool)))):
        assert not array.any()


@pytest.mark.parametrize("kind", builders.KINDS)
def test_codes_of_several_columns_count_for_each_of_them(backend, kind):
    levels = (2, 2, 2, 3, 3, 4, 7, 40, 60)
    world = builders.make_world(4, kind, 3, n=700, levels=levels, n_numbers=1)
    fused = replace(world, table=world.table.fused())
    assert fused.table.narrow.shape[1] < len(levels)  # else this would test nothing
    for hard in (False, True):
        assert_same(e_step(fused, hard=hard), definition(world, hard))
    np.testing.assert_array_equal(fused.table.labelled_only().narrow, fused.table.narrow[world.rows.labels >= 0])


@pytest.mark.parametrize("kind", builders.KINDS)
def test_rows_in_the_order_of_their_classes(backend, kind):
    """Then whole chunks are of one class, or of none."""
    world = builders.make_world(5, kind, 3, n=2500, levels=(3,), n_numbers=1)
    order = np.argsort(world.rows.labels, kind="stable")
    rows = only(world.rows, order)
    for a, b in zip(e_step(replace(world, table=builders.encode(rows, world.table.layout))), e_step(world)):
        np.testing.assert_allclose(a, b, **CLOSE)


@pytest.mark.parametrize("kind", builders.KINDS)
def test_no_labels_are_labels_that_are_all_missing(backend, kind):
    world = builders.make_world(6, kind, 3, n=600, levels=(3,), n_numbers=1)
    none, minus = (replace(world, table=replace(world.table, labels=x)) for x in (None, np.full(600, -1, np.int32)))
    for a, b in zip(e_step(none), e_step(minus)):
        np.testing.assert_array_equal(a, b)
    assert not np.allclose(e_step(none)[3], e_step(world)[3])


def test_several_networks_at_once(backend):
    world = builders.make_world(5, "fan", 5)
    network = builders.random_network(np.random.default_rng(1), world.network.structure, world.network.layout, 3)
    together = e_step(replace(world, network=network))
    for k in range(3):
        single = e_step(replace(world, network=network.map(lambda x, k=k: x[[k]])))
        for a, b in zip(together[:3], single[:3]):
            np.testing.assert_array_equal(a[k], b[0])
        np.testing.assert_array_equal(together[3][:, k], single[3][:, 0])


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_blocks_and_threads(backend, n_threads):
    """Blocks change the order of summation, threads do not."""
    world = builders.make_world(8, "fan", 5, n=900)
    network = builders.random_network(np.random.default_rng(1), world.network.structure, world.network.layout, 3)
    arguments = (*inputs(replace(world, network=network)), False)
    pool = _native.ThreadPool(n_threads)
    for n_blocks in (1, 2, 7, 1000):
        alone = _native.e_step(*arguments, n_blocks)
        for _ in range(20):
            for a, b in zip(_native.e_step(*arguments, n_blocks, pool), alone):
                np.testing.assert_array_equal(a, b)
        for a, b in zip(alone, _native.e_step(*arguments)):
            np.testing.assert_allclose(a, b, **CLOSE)
    out = np.empty((world.table.n_rows, network.structure.n_classes))
    _native.posterior(*inputs(world), "proba", out, 7, pool)
    np.testing.assert_array_equal(out, posterior(world, "proba"))


def test_a_pool_serves_one_call_at_a_time():
    """Calls from several threads at once are each answered as if they were alone."""
    arguments = (*inputs(builders.make_world(8, "fan", 5, n=900)), False, 7)
    wanted, pool = _native.e_step(*arguments), _native.ThreadPool(3)
    with ThreadPoolExecutor(4) as callers:
        for found in callers.map(lambda _: _native.e_step(*arguments, pool), range(200)):
            for a, b in zip(found, wanted):
                np.testing.assert_array_equal(a, b)


def test_far_from_everything(backend):
    """Joint probabilities of exp(-1e6) are no reason to lose a row."""
    world = builders.make_world(6, "fan", 5, n_numbers=3, levels=(2,))
    world.table.numbers[::2] *= 3e3
    world.rows.numbers[:] = world.table.numbers
    assert_same(e_step(world), definition(world, False))


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("components", [1, 3, 8, 11])
def test_linear_terms(all_backends, components, missing):
    """One normal column and two of counts: Poisson, slope = log rate, log_norm = -rate, but for the constant log x!."""
    rng = np.random.default_rng(components)
    n, n_classes, S = 70, 2, 2 * components
    x = np.column_stack([rng.normal(size=n), rng.poisson(3.0, n), rng.poisson(0.5, n)]).astype(float)
    x[rng.random(x.shape) < missing] = np.nan
    labels = rng.integers(-1, n_classes, n).astype(np.int32)
    rate, mean = rng.gamma(2.0, size=(2, S)), rng.normal(size=S)
    log_weight = np.log(rng.dirichlet(np.ones(S)))
    root, zero = np.sqrt(np.full(S, 0.5)), np.zeros(S)
    normal = [root, -root * mean, np.full(S, -0.5 * math.log(2 * math.pi))]
    numeric = np.array([normal, *([np.log(r), zero, -r] for r in rate)])
    terms = np.dstack(
        [
            -0.5 * (x[:, :1] - mean) ** 2 - 0.5 * math.log(2 * math.pi),
            *(x[:, j, None] * np.log(rate[j - 1]) - rate[j - 1] for j in (1, 2)),
        ]
    )
    joint = log_weight + np.where(np.isnan(x)[:, None], 0.0, terms).sum(axis=2)
    allowed = np.where((labels[:, None] < 0) | (labels[:, None] == np.arange(S) // components), joint, -np.inf)
    r = np.exp(allowed - np.logaddexp.reduce(allowed, axis=1, keepdims=True))
    powers = [np.where(np.isnan(x), 0.0, p) for p in (np.ones_like(x), x, x**2)]
    moments = np.stack([p.T @ r for p in powers], axis=1).reshape(-1, S)

    rows = _native.Rows(
        np.zeros((n, 0), np.uint8), np.zeros((n, 0), np.uint16), x, np.zeros((n, 0, 2)), [0], [0], labels, None
    )
    states = _native.States([0, components, S], [0, components], S, True)
    model = (log_weight[None], np.zeros((1, 0, S)), numeric[None], 2, np.zeros((1, 0, 4, S)))
    for _ in all_backends():
        by_state, cells, _, sums = _native.e_step(rows, states, *model, False)
        np.testing.assert_allclose(by_state[0], r.sum(axis=0), **CLOSE)
        np.testing.assert_allclose(cells[0], moments, **CLOSE)
        np.testing.assert_allclose(sums[0], np.logaddexp.reduce(allowed, axis=1).sum(), **CLOSE)
        out = np.empty((n, S))
        _native.posterior(rows, states, *model, "states", out)
        np.testing.assert_allclose(out, joint, **CLOSE)


# ---------------------------------------------------------------- the posterior


@pytest.mark.parametrize("n_components", COMPONENTS[::2])
@pytest.mark.parametrize("kind", builders.KINDS)
def test_posterior_is_the_definition(all_backends, kind, n_components):
    world = builders.make_world(n_components, kind, n_components, n=70, n_regressions=2)
    states = oracles.log_joint(world.plain, world.rows)
    joint = oracles.log_joint_of_classes(world.plain, world.rows)
    log_proba = np.array([[v - oracles.log_sum(row) for v in row] for row in joint])
    for _ in all_backends():
        np.testing.assert_allclose(posterior(world, "states"), states, **CLOSE)
        np.testing.assert_allclose(posterior(world, "log_joint"), joint, **CLOSE)
        np.testing.assert_allclose(posterior(world, "log_proba"), log_proba, **CLOSE)
        np.testing.assert_allclose(posterior(world, "proba"), np.exp(log_proba), **CLOSE)


# ---------------------------------------------------------------- raw columns


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "int32", "uint8"])
@pytest.mark.parametrize("n_rows", [1, 30, 5000])
@pytest.mark.parametrize("far", [3, 100, 2**30])
def test_codes_of_integers(dtype, n_rows, far):
    """By a table where the rows are many beside the range, else by search."""
    rng = np.random.default_rng(0)
    far = min(far, 200) if dtype == "uint8" else far
    values = rng.choice(np.unique(rng.integers(0 if dtype == "uint8" else -far, far, 40)), n_rows).astype(dtype)
    if dtype.startswith("float"):
        values[rng.random(n_rows) < 0.2] += 0.5
        values[rng.random(n_rows) < 0.2] = np.nan
    keys = np.unique(values[values == np.round(values)]).astype(np.int64)[::2]
    keys = keys if len(keys) else np.array([7])
    codes = rng.permutation(len(keys)).astype(np.uint16)
    index = dict(zip(keys.tolist(), codes.tolist()))
    out = np.zeros((n_rows, 2), np.uint16)
    _native.RawColumns([values]).look_up([keys], [codes], [1], out)
    np.testing.assert_array_equal(out[:, 1], [index.get(v, len(keys)) for v in values.tolist()])


@pytest.mark.parametrize("keys", [[], [2, 1], [1, 1], [0, 2**53]])
def test_levels_that_cannot_be_searched(keys):
    values, out = np.zeros(3), np.zeros((3, 1), np.uint8)
    with pytest.raises(ValueError, match="level"):
        _native.RawColumns([values]).look_up([np.array(keys, np.int64)], [np.zeros(len(keys), np.uint16)], [0], out)


# ---------------------------------------------------------------- what it refuses


def tables(**changed):
    arrays = {
        "narrow": np.zeros((2, 1), np.uint8),
        "wide": np.zeros((2, 1), np.uint16),
        "numbers": np.zeros((2, 1)),
        "pairs": np.zeros((2, 1, 2)),
        "first_level": [0, 3, 303],
        "group": [0, 1],
        "labels": np.array([0, -1], np.int32),
        "weights": np.ones(2),
    }
    return _native.Rows(**{**arrays, **changed})


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"narrow": np.full((2, 1), 3, np.uint8)}, "outside of its column"),
        ({"wide": np.full((2, 1), 300, np.uint16)}, "outside of its column"),
        ({"narrow": np.zeros((3, 1), np.uint8)}, "same number of rows"),
        ({"wide": np.zeros((3, 1), np.uint16)}, "same number of rows"),
        ({"numbers": np.zeros((3, 1))}, "same number of rows"),
        ({"pairs": np.zeros((3, 1, 2))}, "same number of rows"),
        ({"pairs": np.zeros((2, 1, 3))}, "regressions, 2"),
        ({"pairs": np.array([[[0.0, 1.0]], [[0.0, np.nan]]])}, "missing as a whole"),
        ({"labels": np.zeros(3, np.int32)}, "same number of rows"),
        ({"weights": np.zeros(3)}, "same number of rows"),
        ({"first_level": [0, 3]}, "one entry more"),
        ({"first_level": [0, 3, 3]}, "must increase"),
        ({"first_level": [-3, 3, 303]}, "one entry more"),
        ({"group": [0]}, "one entry more"),
        ({"group": [1, 1]}, "one entry more"),
        ({"group": [0, 0], "first_level": [0, 303]}, "a group needs a column"),
        ({"group": [0, 2], "first_level": [0, 2, 4, 304], "narrow": np.full((2, 1), 4, np.uint8)}, "outside of its"),
        ({"group": [0, 5, 2], "first_level": [0, 3, 6, 7], "narrow": np.zeros((2, 2), np.uint8)}, "a group needs a"),
        ({"labels": np.array([0, -2], np.int32)}, "labels are -1 or a class"),
    ],
)
def test_tables_that_would_reach_into_foreign_memory(changed, message):
    tables()
    with pytest.raises(ValueError, match=message):
        tables(**changed)


@pytest.mark.parametrize(
    ("first_state", "first_cell", "n_cells"),
    [
        ([0, 2], [0, 2], 4),
        ([1, 2, 4], [0, 2], 4),
        ([0, 2, 2], [0, 2], 4),
        ([0, 2, 4], [0, 3], 4),
        ([0, 2, 5], [0, 0], 2),
    ],
)
def test_states_that_do_not_fit(first_state, first_cell, n_cells):
    _native.States([0, 2, 4], [0, 2], 4, True)
    with pytest.raises(ValueError, match=r"needs|cells are"):
        _native.States(first_state, first_cell, n_cells, True)


def test_parameters_that_do_not_fit():
    world = builders.make_world(8, "fan", 2, n_regressions=2)
    rows, states, *good = inputs(world)
    weight, table, numeric, _, pairs = good
    out = np.zeros((world.table.n_rows, 3))
    for bad, message in [
        ((weight[:, 1:].copy(), table, numeric, 0, pairs), "log_weight"),
        ((weight, table[:, 1:].copy(), numeric, 0, pairs), "log_table"),
        ((weight, table[:, :, 1:].copy(), numeric, 0, pairs), "log_table"),
        ((weight, table, numeric[:, 1:].copy(), 0, pairs), "numeric"),
        ((weight, table, numeric[:, :, :2].copy(), 0, pairs), "numeric"),
        ((weight, table, numeric, 3, pairs), "n_linear"),
        ((weight, table, numeric, -1, pairs), "n_linear"),
        ((weight, table, numeric, 0, pairs[:, 1:].copy()), "regression"),
        ((weight, table, numeric, 0, pairs[:, :, :3].copy()), "regression"),
    ]:
        with pytest.raises(ValueError, match=message):
            _native.e_step(rows, states, *bad, False)
        with pytest.raises(ValueError, match=message):
            _native.posterior(rows, states, *bad, "proba", out)
    with pytest.raises(ValueError, match="what"):
        _native.posterior(rows, states, *good, "odds", out)
    with pytest.raises(ValueError, match="out"):
        _native.posterior(rows, states, *good, "proba", out[1:])
    fewer_classes = _native.States([0, 2, 4], [0, 2], 4, True)
    weight, table, numeric, pairs = (x[..., :4].copy() for x in (weight, table, numeric, pairs))
    with pytest.raises(ValueError, match="label lies outside"):
        _native.e_step(rows, fewer_classes, weight, table, numeric, 0, pairs, False)


def test_an_unknown_instruction_set_changes_nothing():
    before = _native.backend()
    with pytest.raises(ValueError, match="no backend 'abacus'"):
        _native.use_backend("abacus")
    assert _native.backend() == before == _native.backends()[-1]


@pytest.mark.parametrize("unlabelled", [0.0, 1.0])
@pytest.mark.parametrize("kind", ["fan", "fm"])
def test_a_parameter_that_is_no_number_is_noticed(backend, kind, unlabelled):
    world = builders.make_world(0, kind, 3, levels=(2,), n=20, unlabelled=unlabelled, missing=0.0)
    for cell in range(world.network.structure.n_cells):
        numeric = world.network.terms.numeric.copy()
        numeric[0, 0, 1, cell] = np.nan
        sums = _native.e_step(*inputs(world)[:4], numeric, *inputs(world)[5:], False)[3]
        assert np.isnan(sums[0, 0])


@pytest.mark.skipif(not Path("/proc/cpuinfo").exists(), reason="only Linux lists what a processor has")
def test_backends_are_those_that_the_processor_has():
    line = re.search(r"^(?:flags|Features)\s*:(.*)$", Path("/proc/cpuinfo").read_text(), re.M)
    has = set(line[1].split())
    expected = ["baseline"]
    if {"avx2", "fma"} <= has:
        expected.append("avx2")
        if {"avx512f", "avx512dq", "avx512bw", "avx512vl"} <= has:
            expected.append("avx512")
    assert _native.backends() == expected


@pytest.mark.parametrize("n", [1, 2, 7, 8, 19])
def test_views_of_numbers(all_backends, n):
    """Normal scores and mixed columns by NumPy; a row is the same wherever it stands, and what is missing stays so."""
    rng = np.random.default_rng(n)
    x, knots = rng.normal(size=(37, n)), np.sort(rng.normal(size=(n, 2, 64)), axis=2)
    x[:, 0] = np.linspace(-9, 9, 37)  # beyond the knots on both sides
    x[5, n - 1], x[6] = knots[n - 1, 0, 9], np.nan
    x[7:11, n // 2] = np.nan
    mixing = rng.normal(size=(n, n))
    wanted = np.empty_like(x)
    for j, (at, to) in enumerate(knots):
        low, high = ((to[k + 1] - to[k]) / (at[k + 1] - at[k]) for k in (0, -2))
        beyond = low * np.minimum(x[:, j] - at[0], 0.0) + high * np.maximum(x[:, j] - at[-1], 0.0)
        wanted[:, j] = np.clip(np.interp(x[:, j], at, to) + beyond, -3.0, 3.0)
    mixed = np.where(np.isnan(x), np.nan, np.nan_to_num(x) @ mixing)
    for _ in all_backends():
        for function, expected in (
            (lambda rows: _native.normal_scores(rows, knots, 3.0), wanted),
            (
                lambda rows: _native.mix(rows, mixing),
                mixed,
            ),
        ):
            found = function(x)
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
            np.testing.assert_array_equal(np.vstack([function(x[k : k + 1]) for k in range(37)]), found)
