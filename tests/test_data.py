"""Training data: whoever has the rows, and however many pieces of them there are, EM is the same."""

from dataclasses import fields, replace
from functools import reduce
from operator import add

import builders
import numpy as np
import pytest

from fanbayes.data.table import Layout
from fanbayes.learning.data import InMemoryData
from fanbayes.learning.em import Problem, initial_state, run_em
from fanbayes.learning.selection import Search, select
from fanbayes.model.blocks import EstimationOptions
from fanbayes.model.network import Model

VARIANCES = {
    "map": EstimationOptions(),
    "tied": EstimationOptions(variance_tying="all"),
    "tied by class": EstimationOptions(variance_tying="class"),
    "paper": builders.PAPER,
}
KINDS = ("fan", "per_class", "fm")


class PassByPass(InMemoryData):
    """Rows in memory that leave EM to the loop in Python."""

    def run_em(self, *_, **__):
        return None


MAKERS = {"in memory": InMemoryData, "pass by pass": PassByPass, "in parts": builders.in_parts}


@pytest.fixture(params=MAKERS)
def make(request):
    return MAKERS[request.param]


def make_world(seed, kind, n=90, n_components=3, **changed):
    return builders.make_world(seed, kind, n_components, levels=(2, 3, 5), n=n, **changed)


def run(world, data, n_passes, *, hard=False, accelerate=True, tol=0.0, network=None):
    problem = Problem(data, world.network.model.options, hard, accelerate)
    start = initial_state(problem, world.network if network is None else network)
    return run_em(problem, start, n_passes, tol)


def assert_same_statistics(a, b, rtol=1e-11):
    for f in fields(a):
        np.testing.assert_allclose(getattr(a, f.name), getattr(b, f.name), rtol=rtol, atol=1e-10, err_msg=f.name)


# ---------------------------------------------------------------- what all promise


@pytest.mark.parametrize("unlabelled", [0.0, 0.3])
def test_what_data_promise(make, unlabelled):
    world = make_world(0, "per_class", unlabelled=unlabelled)
    rows, terms = world.rows, world.network.terms
    data, whole = make(world.table), InMemoryData(world.table)
    assert data.layout is world.table.layout
    assert data.total_weight == pytest.approx(rows.weights.sum())
    assert data.is_labelled == (unlabelled == 0.0)
    for hard in (False, True):
        assert_same_statistics(data.e_step(terms, hard=hard), whole.e_step(terms, hard=hard))
    labelled = data.labelled()
    assert labelled.is_labelled
    assert (labelled is data) == data.is_labelled
    assert labelled.total_weight == pytest.approx(rows.weights[rows.labels >= 0].sum())


@pytest.mark.parametrize("unlabelled", [0.0, 0.3])
def test_classes_add_up(make, unlabelled):
    """An unlabelled row counts for every class by its probability."""
    world = make_world(0, "per_class", unlabelled=unlabelled)
    terms, data = world.network.terms, make(world.table)
    of_classes, all_rows = data.e_step_by_class(terms), data.e_step(terms)
    assert len(of_classes) == 3
    total = reduce(add, of_classes)
    np.testing.assert_allclose(total.states, all_rows.states, rtol=1e-11)
    np.testing.assert_allclose(total.cells, all_rows.cells, rtol=1e-11, atol=1e-10)
    class_of = world.network.structure.class_of
    for c, own in enumerate(of_classes):
        assert (own.states[:, class_of != c] == 0).all()
    if not unlabelled:
        assert_same_statistics(total, all_rows)


def test_a_subsample_stands_for_all(make):
    world = make_world(0, "fan", n=3000)
    data = make(world.table)
    assert data.subsample(3000) is data
    few = data.subsample(300)
    assert few.total_weight == pytest.approx(data.total_weight, rel=0.2)
    a, b = (x.e_step(world.network.terms).log_likelihood[0] for x in (few, data))
    assert a == pytest.approx(b, rel=0.2)


def test_statistics_add_and_pickle():
    world = make_world(1, "fan")
    terms, rows = world.network.terms, np.arange(world.table.n_rows)
    pieces = [InMemoryData(world.table.only(rows % 3 == k)) for k in range(3)]
    parts = [piece.e_step(builders.sent(terms)) for piece in pieces]
    sent = [builders.sent(part) for part in parts]
    for part, again in zip(parts, sent):
        assert_same_statistics(part, again, rtol=0)
    assert_same_statistics(sent[0] + (sent[1] + sent[2]), InMemoryData(world.table).e_step(terms))
    network = world.network.model.estimate(reduce(add, sent))
    assert network.log_likelihood_of(reduce(add, sent)).shape == (1,)


# ---------------------------------------------------------------- the same EM


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("hard", "accelerate"), [(False, False), (False, True), (True, False)])
def test_pieces_give_the_same_em(kind, hard, accelerate):
    for seed in range(3):
        world = make_world(seed, kind)
        for n_passes, tol, rtol in ((10, 0.0, 1e-12), (2000, 1e-10, 1e-8)):
            whole, pieces = (
                run(world, data, n_passes, hard=hard, accelerate=accelerate, tol=tol)
                for data in (PassByPass(world.table), builders.in_parts(world.table))
            )
            np.testing.assert_allclose(pieces.objective, whole.objective, rtol=rtol)
            if tol == 0.0:
                n = min(whole.n_iter, pieces.n_iter)
                assert n == 11 or (hard and n > 3)  # CEM may be at its end before
                np.testing.assert_allclose(pieces.traces[0][:n], whole.traces[0][:n], rtol=rtol)
            else:
                assert max(whole.n_iter, pieces.n_iter) < 2000
                np.testing.assert_allclose(pieces.network.per_cell(), whole.network.per_cell(), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("options", VARIANCES.values(), ids=VARIANCES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("hard", [False, True], ids=["em", "cem"])
def test_the_native_run_takes_the_same_steps(kind, hard, options):
    world = make_world(4, kind, options=options)
    native, loop = (
        run(world, data, 10, hard=hard, accelerate=False)
        for data in (InMemoryData(world.table), PassByPass(world.table))
    )
    np.testing.assert_allclose(native.traces, loop.traces, rtol=1e-12)
    np.testing.assert_allclose(native.objective, loop.objective, rtol=1e-12)
    np.testing.assert_allclose(native.gain, loop.gain, rtol=1e-6, atol=1e-9)
    for state in (native, loop):
        np.testing.assert_array_equal(state.shares, np.ones((1, state.n_iter)))  # every pass took all rows
    for a, b in zip(builders.arrays(native.network), builders.arrays(loop.network)):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-10)
    assert_same_statistics(native.statistics, loop.statistics, rtol=1e-9)


@pytest.mark.parametrize("options", list(VARIANCES.values())[:3], ids=list(VARIANCES)[:3])
@pytest.mark.parametrize("kind", KINDS)
def test_the_native_run_takes_the_same_accelerated_step(kind, options):
    """The last of two passes: later on the native run takes fewer rows, and so may go elsewhere."""
    taken = 0
    for seed in range(5):
        world = make_world(seed, kind, options=options)
        native, loop = (run(world, data, 2) for data in (InMemoryData(world.table), PassByPass(world.table)))
        np.testing.assert_allclose(native.traces, loop.traces, rtol=1e-12)
        np.testing.assert_allclose(native.reach, loop.reach, rtol=1e-9)
        for a, b in zip(builders.arrays(native.network), builders.arrays(loop.network)):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-10)
        taken += native.objective[0] > native.traces[0][1]
    assert taken > 0  # else this would test nothing


@pytest.mark.parametrize("options", list(VARIANCES.values())[:3], ids=list(VARIANCES)[:3])
@pytest.mark.parametrize("kind", KINDS)
def test_the_accelerated_native_run_ends_at_the_same_maximum(kind, options):
    """From a start below one maximum only: where there are several, long steps may lead to another."""
    for seed in range(3):
        world = make_world(seed, kind, unlabelled=0.0, options=options)
        start = run(world, PassByPass(world.table), 60, accelerate=False).network
        native, loop, plain = (
            run(world, data, 20_000, accelerate=accelerate, tol=1e-13, network=start)
            for data, accelerate in (
                (InMemoryData(world.table), True),
                (PassByPass(world.table), True),
                (InMemoryData(world.table), False),
            )
        )
        np.testing.assert_allclose(native.objective, loop.objective, rtol=1e-8)
        np.testing.assert_allclose(native.objective, plain.objective, rtol=1e-8)


# ---------------------------------------------------------------- a whole search


@pytest.mark.parametrize("kind", KINDS)
def test_a_search_over_pieces(kind):
    """Starts, halving, recombination, a number for each class, scores: rows are known by `TrainingData` alone."""
    rng = np.random.default_rng(0)
    layout = builders.make_layout((3,), 2)
    labels = rng.integers(0, 2, 240)
    centre = 4.0 * labels[:, None] + 9.0 * rng.integers(0, 2, (240, 1)) * [1.0, -1.0]
    rows = builders.oracles.Rows(
        rng.integers(-1, 3, (240, 1)),
        (centre + rng.normal(size=(240, 2))) / 5,
        np.where(rng.random(240) < 0.1, -1, labels),
        np.ones(240),
    )
    table = builders.encode(rows, layout)

    def search(data):
        how = Search(
            lambda size: builders.make_structure(kind, 2, size),
            range(1, 6),
            ("bic", "icl", "aic", "cs"),
            patience=1,
            n_init=4,
            per_class=kind == "per_class",
        )
        return select(Problem(data, builders.MAP), how, 2, lambda _: None)

    whole, pieces, native = (
        search(data) for data in (PassByPass(table), builders.in_parts(table), InMemoryData(table))
    )
    assert len(pieces.fits) == len(whole.fits)
    for a, b in zip(pieces.fits, whole.fits):
        assert a.n_components == b.n_components
        for f in fields(a.scores):
            assert getattr(a.scores, f.name) == pytest.approx(getattr(b.scores, f.name), rel=1e-8), f.name
        assert [s.origin for s in a.starts] == [s.origin for s in b.starts]
    for criterion in ("bic", "icl"):
        best = [found.fits[found.best(criterion)] for found in (pieces, whole, native)]
        assert best[0].n_components == best[1].n_components == best[2].n_components > 1
        assert best[2].scores.bic == pytest.approx(best[0].scores.bic, abs=1e-2)


# ---------------------------------------------------------------- blocks that the native run does not know


def test_em_runs_pass_by_pass_where_a_block_is_not_known_natively():
    rng = np.random.default_rng(0)
    numbers = np.where(rng.random((200, 1)) < 0.4, rng.poisson(2.0, (200, 2)), rng.poisson(12.0, (200, 2))).astype(
        float
    )
    numbers[rng.random(numbers.shape) < 0.1] = np.nan
    layout = Layout(np.zeros(1, dtype=np.int64), 0, ("poisson", "poisson"), (8.0, 8.0))
    rows = builders.oracles.Rows(np.zeros((200, 0), dtype=int), numbers, np.zeros(200, dtype=int), np.ones(200))
    data = InMemoryData(builders.encode(rows, layout))
    model = Model(builders.make_structure("fan", 1, 2), layout, builders.MAP)
    assert model.native is None
    start = model.from_cells(np.log([[1.0, 0.5, 0.5]]), np.array([[[1.0, 5.0], [1.0, 5.0]]]))
    problem = Problem(data, builders.MAP)
    state = run_em(problem, initial_state(problem, start), 500, 1e-10)
    assert state.n_iter < 500
    assert (np.diff(state.traces[0]) >= -1e-9).all()
    np.testing.assert_allclose(np.sort(state.network.cells[0], axis=1), [[2.0, 12.0]] * 2, rtol=0.15)
    pieces = replace(problem, data=builders.in_parts(data.table))
    again = run_em(pieces, initial_state(pieces, start), 500, 1e-10)
    np.testing.assert_allclose(again.objective, state.objective, rtol=1e-8)
