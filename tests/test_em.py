"""EM and CEM: each step is the definition's, and none of them falls."""

from dataclasses import fields, replace
from itertools import pairwise

import builders
import numpy as np
import oracles
import pytest

from fanbayes import _native
from fanbayes.learning.data import InMemoryData
from fanbayes.learning.e_step import e_step, posterior
from fanbayes.learning.em import initial_state, run_em
from fanbayes.model.blocks import EstimationOptions

LEVELS = (2, 3, 5)
PAPER = builders.PAPER


def make_world(seed, kind, n_components=3, n=60, **changed):
    return builders.make_world(seed, kind, n_components, levels=LEVELS, n=n, **changed)


def run(world, *, hard=False, accelerate=True, network=None, n_passes=40, tol=0.0):
    problem = world.problem(hard, accelerate)
    start = initial_state(problem, world.network if network is None else network)
    return run_em(problem, start, n_passes, tol)


def accelerated(start, first, second, reach=16.0):
    """theta0 + 2 a r + a^2 v, in log probabilities, means and log variances, then made to be probabilities again."""
    names = ("log_table", "mean", "sigma2")
    x = [[n.factors, *(builders.part(n, name) for name in names)] for n in (start, first, second)]
    x = [[factors, table, mean, np.log(sigma2)] for factors, table, mean, sigma2 in x]
    r = [x1 - x0 for x0, x1, _ in zip(*x)]
    v = [x2 - 2 * x1 + x0 for x0, x1, x2 in zip(*x)]
    norm_r, norm_v = (np.sqrt(sum((part**2).sum() for part in parts)) for parts in (r, v))
    a = min(reach, max(1.0, norm_r / norm_v))
    factors, table, mean, log_sigma2 = (x0 + 2 * a * ri + a * a * vi for x0, ri, vi in zip(x[0], r, v))
    ends, first_level = start.structure.factor_ends[:-1], start.layout.first_level
    for f, theta in zip(start.structure.factors, np.split(factors, ends, axis=1)):  # views
        theta -= np.logaddexp.reduceat(theta, f.first, axis=1)[:, f.parent]
    for begin, end in pairwise(first_level):
        table[:, begin : end - 1] -= np.logaddexp.reduce(table[:, begin : end - 1], axis=1, keepdims=True)
        table[:, end - 1] = 0.0  # "missing"
    sigma2 = np.maximum(np.exp(log_sigma2), start.model.options.variance_floor)
    return builders.changed(start, factors=factors, log_table=table, mean=mean, sigma2=sigma2)


def assert_never_falls(trace):
    steps = np.diff(trace)
    assert steps.min() >= -1e-9 * np.abs(trace).max(), f"step {int(steps.argmin())} falls by {-steps.min()}"


# ---------------------------------------------------------------- one step


@pytest.mark.parametrize("kind", builders.KINDS)
@pytest.mark.parametrize("hard", [False, True], ids=["em", "cem"])
@pytest.mark.parametrize("options", [builders.MAP, PAPER, EstimationOptions(0.3, variance_floor=0.4)], ids=str)
def test_a_step_is_the_definition(kind, hard, options):
    world = make_world(1, kind, options=options)
    after = run(world, hard=hard, accelerate=False, n_passes=1)
    found = builders.plain(after.network)
    wanted = oracles.maximise(
        builders.oracle_kind(kind),
        world.plain,
        world.rows,
        hard,
        builders.oracle_prior(options),
        options.variance_estimator,
        options.variance_floor,
    )
    np.testing.assert_allclose(found.log_weight, wanted.log_weight, rtol=1e-9)
    for a, b in zip(found.tables, wanted.tables):
        np.testing.assert_allclose(a, b, rtol=1e-9)
    np.testing.assert_allclose(found.mean, wanted.mean, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(found.sigma2, wanted.sigma2, rtol=1e-8)
    objectives = [world.objective(hard), world.objective(hard, after.network)]
    np.testing.assert_allclose(after.traces[0], objectives, rtol=1e-10)


@pytest.mark.parametrize("kind", builders.KINDS)
@pytest.mark.parametrize("variance", [("map", "none"), ("map", "all"), ("map", "class"), ("paper", "none")])
def test_a_step_is_that_of_the_reference(kind, variance):
    """Of `estimate` and `log_prior`, which are in NumPy; the floor holds some of the variances."""
    world = make_world(2, kind, options=EstimationOptions(0.7, *variance, 0.8))
    start = initial_state(world.problem(), world.network)
    after = run(world, accelerate=False, n_passes=1)
    wanted = world.network.model.estimate(start.statistics)
    for a, b in zip(builders.arrays(after.network), builders.arrays(wanted)):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)
    if variance[0] != "paper":  # which may keep the first
        statistics = e_step(world.table, wanted.terms, False, None)
        np.testing.assert_allclose(after.objective, statistics.log_likelihood + wanted.log_prior(), rtol=1e-12)


@pytest.mark.parametrize("kind", ["fan", "per_class", "fm"])
@pytest.mark.parametrize("floor", [1e-6, 0.9])
def test_an_accelerated_step_is_that_of_squarem(kind, floor):
    taken = 0
    for seed in range(5):
        world = make_world(seed, kind, options=EstimationOptions(variance_floor=floor))
        end = run(world, n_passes=2)
        first = run(world, accelerate=False, n_passes=1).network
        second = run(world, accelerate=False, n_passes=2).network
        far = accelerated(world.network, first, second)
        there = world.objective(network=far)
        if there >= end.traces[0][1]:
            taken += 1
            np.testing.assert_allclose(end.objective[0], there, rtol=1e-9)
            for found, wanted in zip(builders.arrays(end.network), builders.arrays(far)):
                np.testing.assert_allclose(found, wanted, rtol=1e-7, atol=1e-9)
        else:
            assert end.objective[0] == end.traces[0][1]
    assert taken > 0  # else this would test nothing


# ---------------------------------------------------------------- many steps


@pytest.mark.parametrize("kind", builders.KINDS)
@pytest.mark.parametrize(("hard", "accelerate"), [(False, True), (False, False), (True, False)])
@pytest.mark.parametrize("floor", [1e-6, 0.5])
def test_the_objective_never_falls(kind, hard, accelerate, floor):
    """Not at any step, from any of several starts; with missing values, unlabelled rows and weights."""
    options = EstimationOptions(variance_floor=floor)
    for seed in range(4):
        world = make_world(seed, kind, options=options)
        rng, structure = np.random.default_rng(seed), world.network.structure
        start = builders.random_network(rng, structure, world.table.layout, 4, options)
        end = run(world, hard=hard, accelerate=accelerate, network=start, n_passes=50)
        for trace in end.traces:
            assert_never_falls(trace)
            assert trace[-1] > trace[0] + 1
        # The last entries are the objective at the last networks, not at any others.
        np.testing.assert_allclose([t[-1] for t in end.traces], end.objective)
        last = end.network.map(lambda x: x[[3]])
        assert end.objective[3] == pytest.approx(world.objective(hard, last), rel=1e-9)


@pytest.mark.parametrize("alpha", [0.01, 1.0, 20.0])
def test_the_objective_never_falls_for_any_prior_count(alpha):
    world = make_world(11, "fan", n_components=4, options=EstimationOptions(alpha))
    for accelerate in (True, False):
        assert_never_falls(run(world, accelerate=accelerate).traces[0])


@pytest.mark.parametrize("kind", ["fan", "per_class", "fm"])
def test_acceleration_ends_no_lower_than_plain_em(kind):
    """From a start below one maximum only: where there are several, long steps may lead to another."""
    passes = np.zeros(2)
    for seed in range(6):
        world = make_world(seed, kind, n=120, unlabelled=0.0)
        start = run(world, accelerate=False, n_passes=40).network
        plain, fast = (run(world, network=start, accelerate=a, n_passes=5000, tol=1e-10) for a in (False, True))
        assert fast.objective[0] >= plain.objective[0] - 1e-5
        passes += plain.n_iter, fast.n_iter
    assert passes[1] < passes[0] / 1.5


def test_networks_are_improved_on_their_own():
    """Whether an accelerated step of one network succeeds is nothing to its neighbours."""
    world = make_world(5, "fm", n=80)
    rng = np.random.default_rng(0)
    starts = builders.random_network(rng, world.network.structure, world.table.layout, 6)
    together = run(world, network=starts, n_passes=30)
    for k in range(6):
        alone = run(world, network=starts.map(lambda x, k=k: x[[k]]), n_passes=30)
        np.testing.assert_allclose(together.traces[k][: alone.n_iter], alone.traces[0], rtol=1e-9)


def test_a_pass_too_many_is_not_taken():
    world = make_world(6, "fan")
    for n_passes in (0, 1, 2, 5):
        assert run(world, n_passes=n_passes).n_iter == 1 + n_passes


@pytest.mark.parametrize("accelerate", [False, True])
def test_rows_that_are_taken_are_counted(accelerate):
    """In plain EM a pass takes all rows. Long steps that fail count as well: they leave the objective as it was."""
    failed = 0
    for seed in range(6):
        before = _native.rows_visited()
        end = run(make_world(seed, "fm", n=80), n_passes=40, tol=1e-9, accelerate=accelerate)
        taken = _native.rows_visited() - before
        assert taken <= 80 * end.n_iter if accelerate else taken == 80 * end.n_iter
        failed += int((np.diff(end.traces[0])[1:-1:2] == 0.0).sum())
    assert (failed > 0) == accelerate  # else this would test nothing


def test_it_stops_when_nothing_is_gained():
    world = make_world(7, "fan", n=100, unlabelled=0.0)
    end = run(world, n_passes=5000, tol=1e-5)
    assert end.n_iter < 5000
    assert end.has_converged(1e-5 * world.table.total_weight)
    further = run(world, network=end.network, accelerate=False, n_passes=1)
    assert further.objective[0] - end.objective[0] <= 1e-5 * world.table.total_weight


# ---------------------------------------------------------------- lazy EM


def separated_world(seed, kind, n, by=5.0, **changed):
    """Components so far apart that most rows can be frozen, and a network that has them about right."""
    world = make_world(seed, kind, n=n, n_numbers=4, missing=0.05, **changed)
    rng, network = np.random.default_rng(seed), world.network
    mean = by * rng.standard_normal(builders.part(network, "mean").shape)
    of_class = network.structure.class_of_cell
    may_be = np.ones((n, network.structure.n_cells)) if of_class is None else of_class == world.rows.labels[:, None]
    cell = np.argmax(rng.random(may_be.shape) * may_be, axis=1)
    numbers = world.rows.numbers + mean[0].T[cell]
    rows = replace(world.rows, numbers=numbers)
    table = builders.encode(rows, world.table.layout)
    return replace(world, network=builders.changed(network, mean=mean + 0.5), rows=rows, table=table)


def run_and_rows(world, n_passes, pool=None, tol=0.0):
    """EM, and the rows of each of its passes but the first."""
    problem = replace(world.problem(), data=InMemoryData(world.table, pool))
    end = run_em(problem, initial_state(problem, world.network), n_passes, tol)
    assert end.shares.shape == end.traces.shape
    return end, (end.shares[0, 1:] * world.table.n_rows).round().astype(int).tolist()


def is_active(world, network):
    """Rows whose most probable state has less than 0.99."""
    joint = posterior(world.table, network.terms, "states", None)
    labels = world.table.labels[:, None]
    joint = np.where((labels < 0) | (labels == network.structure.class_of), joint, -np.inf)
    return 1 / np.exp(joint - joint.max(axis=1, keepdims=True)).sum(axis=1) < 0.99


@pytest.mark.parametrize("kind", ["fan", "per_class", "fm"])
@pytest.mark.parametrize("unlabelled", [0.0, 0.3])
def test_frozen_rows_are_remembered(kind, unlabelled):
    """The same steps in NumPy: active rows are taken, the frozen ones stay as they were, in the objective a bound."""
    world = separated_world(3, kind, 150, by=2.0, unlabelled=unlabelled)
    everything = lambda network: e_step(world.table, network.terms, False, None)  # noqa: E731
    step = world.network.model.estimate
    first = step(everything(world.network))
    active = is_active(world, first)
    assert 0 < active.sum() < 0.5 * len(active)
    frozen = e_step(world.table.only(~active), first.terms, False, None)
    entropy = frozen.log_likelihood - first.log_likelihood_of(frozen)

    def from_memory(network):
        seen = e_step(world.table.only(active), network.terms, False, None)
        objective = seen.log_likelihood + network.log_likelihood_of(frozen) + entropy + network.log_prior()
        return seen + frozen, float(objective[0])

    end, rows = run_and_rows(world, 4)
    assert rows == [150, active.sum(), active.sum(), 150]
    trace = end.traces[0]
    np.testing.assert_allclose(trace[1], world.objective(network=first), rtol=1e-9)
    # Both passes of the first cycle: a step, and an accelerated one from it, which may fail.
    second = step(everything(first))
    landed = accelerated(world.network, first, second)
    statistics, there = from_memory(landed)
    if not there >= trace[1]:
        landed, statistics, there = first, everything(first), trace[1]
    np.testing.assert_allclose(trace[2], there, rtol=1e-9)
    assert there <= world.objective(network=landed) + 1e-9
    # A step from memory, and one that ends with a pass over all rows.
    third = step(statistics)
    statistics, objective = from_memory(third)
    np.testing.assert_allclose(trace[3], objective, rtol=1e-9)
    last = step(statistics)
    np.testing.assert_allclose(trace[4], world.objective(network=last), rtol=1e-9)
    for found, wanted in zip(builders.arrays(end.network), builders.arrays(last)):
        np.testing.assert_allclose(found, wanted, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("kind", ["fan", "per_class", "fm"])
def test_em_ends_with_all_rows(kind):
    """Whatever was skipped on the way: statistics and objective are those of the network, and nothing has fallen."""
    world = separated_world(5, kind, 200)
    for n_passes in range(1, 12):
        end, rows = run_and_rows(world, n_passes)
        assert len(rows) == n_passes
        assert rows[-1] == 200
        assert_never_falls(end.traces[0])
        again = e_step(world.table, end.network.terms, False, None)
        for f in fields(again):
            np.testing.assert_allclose(getattr(end.statistics, f.name), getattr(again, f.name), rtol=1e-9, atol=1e-9)
        assert end.objective[0] == pytest.approx(world.objective(network=end.network), rel=1e-9)
    assert min(rows) < 100  # else this would test nothing
    end, rows = run_and_rows(world, 1000, tol=1e-8)
    assert rows[-1] == 200
    assert len(rows) < 1000


@pytest.mark.parametrize("kind", ["fan", "fm"])
def test_skipping_does_not_depend_on_threads(kind):
    world = separated_world(6, kind, 3000)
    alone, rows = run_and_rows(world, 9)
    assert min(rows) < 1500
    for n_threads in (2, 3):
        end, same = run_and_rows(world, 9, _native.ThreadPool(n_threads))
        assert same == rows
        np.testing.assert_array_equal(end.traces, alone.traces)
        for a, b in zip(builders.arrays(end.network), builders.arrays(alone.network)):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("kind", ["fan", "per_class", "fm"])
def test_skipping_ends_no_lower_than_plain_em(kind):
    lower = 0
    for seed in range(8):
        world = separated_world(seed, kind, 150, by=2.0, unlabelled=0.0)
        ends = [run(world, accelerate=a, n_passes=5000, tol=1e-10).objective[0] for a in (False, True)]
        lower += ends[1] < ends[0] - 1e-4
    assert lower <= 1  # of two maxima it may find the lower one


# ---------------------------------------------------------------- the variance of the paper


def test_paper_keeps_the_best_iterate():
    """Equation (7) maximises nothing, so the trace may fall; what is kept is the highest point of it."""
    falls = 0
    for seed in range(12):
        world = make_world(seed, "fan", n=40, options=PAPER)
        end = run(world, n_passes=40)
        assert end.objective[0] == max(end.traces[0])
        assert end.objective[0] == pytest.approx(world.objective(network=end.network), rel=1e-9)
        again = e_step(world.table, end.network.terms, False, None)
        np.testing.assert_allclose(end.statistics.cells, again.cells, rtol=1e-7, atol=1e-9)
        falls += end.traces[0][-1] < max(end.traces[0])
    assert falls > 0  # else this would test nothing


def test_paper_is_not_accelerated():
    world = make_world(2, "fan", options=PAPER)
    np.testing.assert_array_equal(run(world, accelerate=True).traces, run(world, accelerate=False).traces)


# ---------------------------------------------------------------- symmetries


def rearrange(network, source):
    """State s of the new network is state source[s] of the old one."""
    s = network.structure

    def of_entries(f, theta):
        new = np.empty_like(theta)
        new[:, f.entry] = theta[:, f.entry[source]]
        return new

    cells = np.empty_like(network.cells)
    cells[..., s.cell_of] = network.cells[..., s.cell_of[source]]
    factors = np.concatenate(list(map(of_entries, s.factors, s.split(network.factors))), axis=1)
    return replace(network, factors=factors, cells=cells)


def assert_same_run(a, b):
    np.testing.assert_allclose(a.traces, b.traces, rtol=1e-8)
    np.testing.assert_allclose(a.statistics.classification, b.statistics.classification, rtol=1e-8)


@pytest.mark.parametrize("kind", ["fan", "per_class", "fm"])
@pytest.mark.parametrize("hard", [False, True])
def test_components_have_no_order(kind, hard):
    world = make_world(3, kind)
    order = [2, 0, 1]
    s = world.network.structure
    position = {(c, h): k for k, (c, h) in enumerate(zip(s.class_of, s.component_of))}
    source = np.array([position[c, order[h]] for c, h in zip(s.class_of, s.component_of)])
    other = rearrange(world.network, source)
    a, b = (run(world, hard=hard, network=n, n_passes=15) for n in (world.network, other))
    assert_same_run(a, b)
    proba = [posterior(world.table, c.network.terms, "proba", None) for c in (a, b)]
    np.testing.assert_allclose(proba[0], proba[1], rtol=1e-6)


@pytest.mark.parametrize("kind", ["nb", "fan", "per_class", "fm"])
def test_classes_have_no_order(kind):
    world = make_world(3, kind)
    old_class = np.array([1, 2, 0])  # of each new class
    s = world.network.structure
    position = {(c, h): k for k, (c, h) in enumerate(zip(s.class_of, s.component_of))}
    source = np.array([position[old_class[c], h] for c, h in zip(s.class_of, s.component_of)])
    new_class = np.argsort(old_class)
    labels = np.where(world.table.labels < 0, -1, new_class[world.table.labels]).astype(np.int32)
    other = replace(world, network=rearrange(world.network, source), table=replace(world.table, labels=labels))
    a, b = run(world, n_passes=15), run(other, n_passes=15)
    assert_same_run(a, b)
    proba = [posterior(w.table, c.network.terms, "proba", None) for w, c in ((world, a), (other, b))]
    np.testing.assert_allclose(proba[0][:, old_class], proba[1], rtol=1e-6)


@pytest.mark.parametrize("kind", ["fan", "fm"])
@pytest.mark.parametrize("hard", [False, True])
def test_rows_have_no_order(kind, hard):
    world = make_world(4, kind, n=70)
    order = np.random.default_rng(0).permutation(70)
    t = world.table
    other = replace(
        t,
        narrow=t.narrow[order],
        wide=t.wide[order],
        numbers=t.numbers[order],
        labels=t.labels[order],
        weights=t.weights[order],
    )
    assert_same_run(run(world, hard=hard, n_passes=15), run(replace(world, table=other), hard=hard, n_passes=15))


def test_columns_and_categories_have_no_order():
    world = make_world(9, "fan")
    columns = [2, 0, 1]
    order = [[1, 0], [2, 0, 1], [3, 1, 4, 0, 2]]  # old code of each new code, by old column
    layout = builders.make_layout(tuple(LEVELS[i] for i in columns), 2)
    first, codes = world.table.layout.first_level, world.rows.codes
    level = np.concatenate([first[i] + np.array([*order[i], LEVELS[i]]) for i in columns])
    recoded = [np.where(codes[:, i] < 0, -1, np.argsort(order[i])[codes[:, i]]) for i in columns]
    rows = oracles.Rows(np.column_stack(recoded), world.rows.numbers[:, ::-1], world.rows.labels, world.rows.weights)
    old = world.network
    network = builders.changed(
        replace(old, model=replace(old.model, layout=layout)),
        log_table=builders.part(old, "log_table")[:, level],
        mean=builders.part(old, "mean")[:, ::-1],
        sigma2=builders.part(old, "sigma2")[:, ::-1],
    )
    other = builders.World("fan", network, builders.encode(rows, layout), rows)
    assert_same_run(run(world, n_passes=15), run(other, n_passes=15))


@pytest.mark.parametrize("kind", ["fan", "fm"])
def test_no_rows_teach_nothing(kind):
    """A table without rows: the prior alone, however many passes there are."""
    world = make_world(6, kind, n=40)
    nothing = replace(world, table=world.table.only(np.zeros(40, dtype=bool)))
    plain, fast = (run(nothing, accelerate=a, n_passes=7) for a in (False, True))
    assert_never_falls(fast.traces[0])
    np.testing.assert_allclose(fast.objective, plain.objective)


def test_memory_is_exact_where_numbers_are_far_from_zero():
    """The bound of frozen rows is a difference of large numbers, if one is careless; here mean^2 / sigma^2 is 1e12."""
    world = separated_world(3, "fan", 200, by=3.0, options=EstimationOptions(variance_floor=1e-9))
    mean, sigma2 = (builders.part(world.network, name) for name in ("mean", "sigma2"))
    far = replace(
        world,
        table=replace(world.table, numbers=1e-3 * world.table.numbers + 1e3),
        network=builders.changed(world.network, mean=1e-3 * mean + 1e3, sigma2=1e-6 * sigma2),
    )
    end = run(far, n_passes=60)
    assert_never_falls(end.traces[0])
