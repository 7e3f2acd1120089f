"""The search over the number of components."""

from dataclasses import replace

import builders
import numpy as np
import oracles
import pytest
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning

from fanbayes import FANClassifier, FMClassifier, NBClassifier
from fanbayes.learning import selection
from fanbayes.learning.em import initial_state, run_em
from fanbayes.learning.scores import Scores
from fanbayes.learning.selection import Fit, Search, Selection, continue_with_cem, fit_size, select
from fanbayes.learning.starts import labelled_naive_bayes

WORLD = builders.make_world(0, "fan", 2, levels=(2, 3, 4), n=80, unlabelled=0.1)
PROBLEM = WORLD.problem()


def make_search(kind="fan", sizes=range(1, 9), criteria=("bic",), **changed):
    options = {"patience": 2, "n_init": 4, "max_iter": 300, "tol": 1e-6, "seed": 0, **changed}
    return Search(lambda size: builders.make_structure(kind, 3, size), sizes, criteria, **options)


def fit_of(size, bic, icl=0.0):
    return Fit(
        WORLD.network,
        size,
        Scores(0.0, 0, bic, 0.0, 0.0, icl),
        (0.0,),
        True,
        (),
        0.0,
        PROBLEM.data.e_step(WORLD.network.terms),
    )


def fit_one(size, problem=PROBLEM, previous=None, **changed):
    nb = labelled_naive_bayes(problem, 3)
    return fit_size(problem, make_search(**changed), size, nb, previous)


# ---------------------------------------------------------------- which sizes are tried


def tried(monkeypatch, scores, **changed):
    """Sizes that a search tries when size k scores scores[k - 1]."""
    monkeypatch.setattr(selection, "fit_size", lambda _, __, size, *___: fit_of(size, *np.atleast_1d(scores[size - 1])))
    reports = []
    found = select(PROBLEM, make_search(sizes=range(1, len(scores) + 1), **changed), 3, reports.append)
    assert reports == list(found.fits)  # every candidate is reported, and kept
    return [f.n_components for f in found.fits], found.best("bic") + 1


@pytest.mark.parametrize(
    ("patience", "scores", "sizes", "best"),
    [
        (1, [5, 4, 9, 9], 2, 1),
        (2, [5, 4, 9, 8, 7, 99], 5, 3),
        (2, [5, 4, 4, 99], 3, 1),
        (3, [5, 4, 4, 99, 0, 0, 0, 0], 7, 4),
        (2, [1, 2, 3, 4], 4, 4),
        (1, [7, 7, 9], 2, 1),  # an equal score is no better: the smaller size stays
    ],
)
def test_it_stops_after_so_many_sizes_without_a_better_score(monkeypatch, patience, scores, sizes, best):
    assert tried(monkeypatch, scores, patience=patience) == (list(range(1, sizes + 1)), best)


def test_with_several_criteria_it_goes_on_while_one_of_them_improves(monkeypatch):
    scores = [(5, 1), (4, 2), (3, 3), (2, 4), (1, 3), (1, 2), (9, 9)]
    assert tried(monkeypatch, scores, criteria=("bic", "icl")) == ([1, 2, 3, 4, 5, 6], 1)


def test_best_is_by_the_criterion_asked_for():
    found = Selection((fit_of(1, 3.0, icl=1.0), fit_of(2, 2.0, icl=5.0), fit_of(3, 3.0, icl=2.0)))
    assert found.best("bic") == 0
    assert found.best("icl") == 1


# ---------------------------------------------------------------- one size


@pytest.mark.parametrize("kind", ["fan", "per_class", "fm"])
@pytest.mark.parametrize("n_init", [1, 2, 3, 5, 8])
def test_every_start_has_one_fate(kind, n_init):
    fit = fit_one(3, kind=kind, n_init=n_init)
    assert len(fit.starts) == n_init
    assert [s.status for s in fit.starts].count("best") == 1
    assert {s.status for s in fit.starts} <= {"best", "stopped"}
    best = next(s for s in fit.starts if s.status == "best")
    assert best.objective == fit.trace[-1] == max(fit.trace)
    assert best.n_iter == fit.n_iter == len(fit.trace)


def test_more_starts_are_not_worse():
    """The first of many starts is the only start of one."""
    objectives = [fit_one(4, n_init=n).trace[-1] for n in (1, 16)]
    assert objectives[1] > objectives[0] + 0.1


def test_starts_also_split_the_network_of_one_component_less():
    first = fit_one(2)
    second = fit_one(3, previous=first.network)
    assert [s.origin for s in second.starts] == ["random", "random", "random", "split"]
    assert [s.origin for s in fit_one(1).starts] == ["naive Bayes"]


@pytest.mark.parametrize("max_iter", [1, 2, 3, 7, 20])
@pytest.mark.parametrize("n_init", [1, 4])
def test_no_more_passes_than_allowed(max_iter, n_init):
    fit = fit_one(3, max_iter=max_iter, n_init=n_init, tol=0.0)
    assert fit.n_iter == max_iter
    assert not fit.converged


@pytest.mark.parametrize("hard", [False, True])
def test_scores_are_those_of_the_expected_statistics(hard):
    """Also where CEM found the network, whose own statistics are not expected ones."""
    fit = fit_one(3, problem=WORLD.problem(hard))
    net, rows = builders.plain(fit.network), WORLD.rows
    d = oracles.n_parameters("fan", 3, [3], [2, 3, 4], 2)
    wanted = oracles.scores("fan", net, rows, builders.oracle_prior(builders.MAP), d)
    for name, value in wanted.items():
        assert getattr(fit.scores, name) == pytest.approx(value, rel=1e-9), name


def test_cem_continues_from_each_candidate():
    search = make_search(sizes=range(1, 4), patience=9)
    before = select(PROBLEM, search, 3, lambda _: None)
    after = continue_with_cem(PROBLEM, search, before)
    assert [f.n_components for f in after.fits] == [1, 2, 3]
    hard = [WORLD.objective(True, f.network) for f in after.fits]
    soft = [WORLD.objective(True, f.network) for f in before.fits]
    assert np.all(np.array(hard) >= np.array(soft) - 1e-9)
    assert hard[2] > soft[2] + 0.1


@pytest.mark.parametrize("size", [2, 3])
def test_converged_is_said_of_the_network_that_is_kept(size):
    """The variance of the paper maximises nothing: EM may pass a better network than it comes to rest at."""
    problem = replace(PROBLEM, options=builders.PAPER)
    rest = set()
    for seed in range(6):
        fit = fit_one(size, problem, n_init=2, max_iter=1000, seed=seed)
        assert fit.n_iter < 1000  # EM came to rest
        further = run_em(problem, initial_state(problem, fit.network), 1000, 1e-6)
        assert fit.converged == (abs(further.traces[0][-1] - further.traces[0][0]) < 1e-3)
        rest.add(fit.converged)
    assert rest == {True, False}


# ---------------------------------------------------------------- starts that degenerate


def with_nan(monkeypatch, which):
    """Let some of the random starts begin with means that are not numbers."""
    draw = selection.random_networks

    def broken(nb, model, rng, n):
        network, rows = draw(nb, model, rng, n), builders.rows_of(model.layout)
        network.cells[[k for k in which if k < n], rows["mean"]] = np.nan
        return network

    monkeypatch.setattr(selection, "random_networks", broken)


def test_a_degenerate_start_is_dropped_and_counted(monkeypatch):
    sound = fit_one(3, n_init=5)
    with_nan(monkeypatch, [1, 3])
    fit = fit_one(3, n_init=5)
    assert fit.n_degenerate == 2
    assert sound.n_degenerate == 0
    assert [s.status == "degenerate" for s in fit.starts] == [False, True, False, True, False]
    assert len(fit.starts) == 5
    assert np.isfinite(fit.trace).all()
    assert all(np.isfinite(p).all() for p in builders.arrays(fit.network))


def test_degenerate_starts_are_counted_where_the_user_sees_them(monkeypatch):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 2)), np.arange(60) % 2
    with_nan(monkeypatch, [0])
    clf = FANClassifier(n_components=2, n_init=4, random_state=0).fit(X, y)
    assert clf.selection_["n_degenerate"] == [1]
    assert clf.selection_["n_starts"] == [4]
    assert clf.starts_["status"].count("degenerate") == 1
    assert np.isfinite(clf.predict_proba(X)).all()


def test_a_start_that_degenerates_on_the_way_is_dropped(monkeypatch):
    sound = selection.run_em

    def run_em(*arguments):
        after = sound(*arguments)
        if len(after.objective) == 6:
            after.objective[0] = np.nan
        return after

    monkeypatch.setattr(selection, "run_em", run_em)
    fit = fit_one(3, n_init=6)
    assert fit.n_degenerate == 1
    assert fit.starts[0].status == "degenerate"
    assert np.isfinite(fit.trace[-1])


# ---------------------------------------------------------------- through the classifiers


def test_a_best_network_at_which_em_does_not_rest_is_told_of():
    X, y = load_iris(return_X_y=True)
    with pytest.warns(ConvergenceWarning, match="EM came to rest below it: variance_estimator='paper' maximises"):
        clf = FANClassifier(n_components=2, variance_estimator="paper", random_state=0).fit(X, y)
    assert not clf.converged_


@pytest.fixture(scope="module")
def clusters():
    """Two classes, three clusters each, far apart."""
    rng = np.random.default_rng(3)
    y = np.arange(1500) % 2
    centre = np.array([[0, 0], [9, 0], [0, 9], [4, 4], [13, 4], [4, 13]])
    return centre[rng.integers(0, 3, 1500) + 3 * y] + rng.normal(size=(1500, 2)), y


@pytest.mark.parametrize("criterion", ["bic", "aic", "cs", "icl"])
def test_auto_finds_the_clusters_and_keeps_every_candidate(clusters, criterion):
    clf = FANClassifier(criterion=criterion, patience=1, random_state=0).fit(*clusters)
    table = clf.selection_
    assert set(table) >= {"n_components", "log_likelihood", "n_parameters", "bic", "aic", "cs", "icl"}
    assert set(table) >= {"n_iter", "converged", "seconds"}
    best = int(np.argmax(table[criterion]))
    assert clf.n_components_ == table["n_components"][best] >= 3
    assert table["n_components"] == list(range(1, len(table["bic"]) + 1))
    assert len(table["bic"]) == best + 2  # one more, by patience
    assert clf.log_likelihood_ == table["log_likelihood"][best]
    assert clf.n_iter_ == len(clf.trace_) == table["n_iter"][best]
    assert clf.converged_
    assert sorted(set(clf.starts_["n_components"])) == table["n_components"]
    if criterion == "icl":
        assert clf.n_components_ == 3


def test_it_says_so_when_max_components_cuts_the_search(clusters):
    with pytest.warns(ConvergenceWarning, match="largest allowed; increase max_components"):
        clf = FANClassifier(max_components=2, random_state=0).fit(*clusters)
    assert clf.n_components_ == 2
    FANClassifier(n_components=2, random_state=0).fit(*clusters)  # asked for: nothing to warn of


def test_the_default_cap_of_fm_grows_with_the_classes():
    assert FMClassifier()._most_components(7) > FMClassifier()._most_components(2)
    assert FMClassifier()._most_components(5) > FANClassifier()._most_components(5)


def test_naive_bayes_has_one_candidate(clusters):
    clf = NBClassifier().fit(*clusters)
    assert clf.selection_["n_components"] == [1]
    assert clf.n_components_ == clf.n_iter_ == 1


# ---------------------------------------------------------------- rough and finished


def test_only_those_that_may_win_are_finished(monkeypatch):
    reached = []
    monkeypatch.setattr(selection, "BEHIND", 0.05)
    found = select(PROBLEM, make_search(sizes=range(1, 6), patience=9, tol=1e-9), 3, reached.append)
    margin = 0.05 * WORLD.table.total_weight
    top = max(f.scores.bic for f in reached)
    for before, after in zip(reached, found.fits):
        rival = before.scores.bic >= top - margin
        assert after.converged == (rival or before.converged)
        assert (after is before) == (before.converged or not rival)
        assert after.trace[-1] >= before.trace[-1] - 1e-9
        assert len(after.starts) == len(before.starts)
        assert next(s for s in after.starts if s.status == "best").trace == after.trace
    assert not all(f.converged for f in reached)
    assert {f.converged for f in found.fits} == {True, False}


def test_one_size_alone_is_finished_at_once():
    reached = []
    found = select(PROBLEM, make_search(sizes=[3], tol=1e-9), 3, reached.append)
    assert found.fits[0] is reached[0]
    assert found.fits[0].converged


@pytest.mark.parametrize("max_iter", [8, 12, 30])
def test_finishing_takes_no_more_passes_than_are_left(max_iter):
    found = select(PROBLEM, make_search(sizes=range(1, 4), tol=0.0, max_iter=max_iter), 3, lambda _: None)
    assert max(f.n_iter for f in found.fits) <= max_iter
