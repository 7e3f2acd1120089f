"""FANClassifierCV as a classifier: its folds, its members, hard input, and what it is for."""

import pickle
import threading
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, GroupKFold, ShuffleSplit, StratifiedKFold

import fanbayes
from fanbayes import CostSensitiveClassifier, DataWarning, FANClassifierCV, NBClassifier
from fanbayes.data import table
from fanbayes.estimators import fan_cv, splits
from fanbayes.explanation.average import AveragePath
from fanbayes.learning import discriminative
from fanbayes.learning.ensembles import race, training
from fanbayes.learning.ensembles.candidates import STRENGTHS, Logistic, library
from fanbayes.learning.ensembles.judging import Judged, fold_of
from fanbayes.learning.ensembles.parallel import one_by_one
from fanbayes.learning.ensembles.pool import FLOOR, fit_pool
from fanbayes.learning.ensembles.race import Candidate
from fanbayes.learning.ensembles.training import _best, n_steps

FAST = {"effort": "fast", "cv": 2, "random_state": 0}

pytestmark = pytest.mark.filterwarnings("ignore:.*too few to judge models by")


@pytest.fixture
def few(monkeypatch):
    """Two sizes of each family, for tests of what does not depend on it."""
    every = library

    def smaller(*given):
        return [replace(f, sizes=(1, 2), n_init=1) for f in every(*given)]

    monkeypatch.setattr(fan_cv, "library", smaller)


def symbols(n=60, seed=0, n_classes=2):
    """Categories only: quick."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    columns = [np.array(list("abcd"))[(y * (rng.random(n) < 0.6) + rng.integers(0, 2, n)) % 4] for _ in range(3)]
    return np.column_stack(columns).astype(object), np.array(["no", "yes", "well"], dtype=object)[y]


def mixed(n=80, seed=0):
    """A dict of columns with values missing, and classes."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    colour = np.array(["red", "green", "blue"])[(y + rng.integers(0, 2, n)) % 3].astype(object)
    x, z = y + rng.normal(size=n), rng.normal(size=n) - y
    colour[::7], x[::5], z[3::9] = None, np.nan, np.nan
    return {"x": x, "colour": colour, "z": z + 0.7 * np.nan_to_num(x)}, np.array(["no", "yes"], dtype=object)[y]


@pytest.fixture(scope="module")
def fitted():
    """One model of mixed columns, whose members are means over fits, for everything that only asks it."""
    columns, y = mixed()
    return FANClassifierCV(**{**FAST, "cv": 4}).fit(pd.DataFrame(columns), y), pd.DataFrame(columns), y


def assert_same(a, b, X, **tolerance):
    tolerance = tolerance or {"rtol": 0, "atol": 0}
    np.testing.assert_allclose(a.predict_proba(X), b.predict_proba(X), **tolerance)
    for name in ("weights", "exponents", "share"):
        np.testing.assert_allclose(getattr(a.pool_, name), getattr(b.pool_, name), **tolerance)


def assert_sound(clf, X):
    proba, log_proba = clf.predict_proba(X), clf.predict_log_proba(X)
    assert proba.shape == (len(X), len(clf.classes_))
    assert np.isfinite(log_proba).all()
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, rtol=1e-12)
    assert (proba >= 0).all()
    assert (proba <= 1).all()
    np.testing.assert_allclose(np.exp(log_proba), proba, atol=1e-12)
    assert set(clf.predict(X)) <= set(clf.classes_)


# ---------------------------------------------------------------- the race


def fits_of_units(monkeypatch, columns, y):
    """What each of five units fits of each family, the generative one first; two of them begin the race."""
    collected, found = race._collected, []

    def watched(family, folds, grown, *others):
        found.append([set(one.fits) for one in grown])
        return collected(family, folds, grown, *others)

    with monkeypatch.context() as patch:
        patch.setattr(race, "ENOUGH_FOR_RACE", len(y) // 3)
        patch.setattr(race, "_collected", watched)
        clf = FANClassifierCV(random_state=0, n_jobs=1, cv=5).fit(pd.DataFrame(columns), y)
    return clf, found


def n_after_race(families):
    return sum(len(places[-1]) for places in families)


def test_units_after_the_race_fit_what_may_become_a_member(monkeypatch):
    columns, y = mixed(60)
    clf, (first, *others) = fits_of_units(monkeypatch, columns, y)
    assert [len(places) for places in (first, *others)] == [5] * 4
    assert all(places[1] == places[0] >= places[2] == places[3] >= places[4] for places in (first, *others))
    before, after = (sum(len(places[unit]) for places in others) for unit in (0, 4))
    assert before > training._MOST_MEMBERS["default"] >= after
    n_fits = dict(zip(clf.members_["model"], clf.members_["n_fits"]))
    assert n_fits.get("FAN", n_fits.get("NB")) == 5


def test_the_race_knows_what_trees_say(monkeypatch):
    columns, y = mixed(500)
    honest, trees = fits_of_units(monkeypatch, columns, y)[1], race._trees

    def knows_all(training, kind, folds, judged):
        return replace(trees(training, kind, folds, judged), p=0.01 + 0.98 * np.eye(2)[judged.labels])

    monkeypatch.setattr(race, "_trees", knows_all)
    beaten = fits_of_units(monkeypatch, columns, y)[1]
    assert n_after_race(beaten) < n_after_race(honest)


def test_where_nearly_all_is_certain_the_best_are_weighed_by_it():
    """Cases that are added before any is judged do not outweigh small differences between good candidates."""
    a, b, c = np.meshgrid([0, 1, 2], [0, 1, 2], [0, 1, 2], indexing="ij")
    X = pd.DataFrame({"a": a.ravel(), "b": b.ravel(), "c": c.ravel()}).astype(str)
    X, y = pd.concat([X] * 12, ignore_index=True), np.tile((a == b).ravel(), 12)
    clf = FANClassifierCV(random_state=0).fit(X, y)
    p = clf.predict_proba(X)
    best = np.exp(clf.members_["log_score"].max())
    assert p[np.arange(len(y)), y.astype(int)].min() > 1 - 20 * (1 - best)
    assert clf.log_score_ > -6e-4


# ---------------------------------------------------------------- probabilities and members


def test_probabilities(fitted):
    clf, X, y = fitted
    assert_sound(clf, X)
    assert (clf.predict_log_proba(X) <= 0).all()
    empty = X.iloc[:1].assign(x=np.nan, colour=None, z=np.nan)
    assert_sound(clf, empty)
    assert clf.score(X, y) > 0.6
    np.testing.assert_array_equal(clf.predict(X), clf.classes_[clf.predict_proba(X).argmax(axis=1)])


def test_the_average_of_its_members_by_hand(fitted):
    """(A0) to (A3), each fit evaluated on its own; nothing is filled in here."""
    clf, X, _ = fitted
    rows, pool = clf._encode(X, clf.average_.schemas), clf.pool_
    p = [
        np.mean([fit.proba(fit.view.mix(rows[fit.view.schema]), None) for fit in member.fits], axis=0)
        for member in clf.average_.members
    ]
    p.append(np.tile(clf.class_prior_, (len(X), 1)))
    linear = sum(v * q for v, q in zip(pool.weights, p))
    product = np.prod([(q + FLOOR) ** w for w, q in zip(pool.exponents, p)], axis=0)
    product /= product.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(clf.predict_proba(X), pool.share * linear + (1 - pool.share) * product, atol=1e-12)


def test_members(fitted):
    clf, X, _ = fitted
    assert isinstance(clf.members_, pd.DataFrame)
    n = len(clf.members_)
    assert 1 <= n <= 6
    pool, members = clf.pool_, clf.average_.members
    assert len(pool.weights) == len(pool.exponents) == n + 1  # the classes' shares are the last
    assert pool.weights.sum() == pytest.approx(1.0, abs=1e-12)
    assert (pool.weights > 0).all()
    assert (pool.exponents >= 0).all()
    assert 0 < pool.share < 1
    assert (np.diff(pool.weights[:-1]) <= 0).all()  # the weightiest first
    np.testing.assert_array_equal(clf.members_["weight"], pool.weights[:-1])
    np.testing.assert_array_equal(clf.members_["exponent"], pool.exponents[:-1])
    assert len(members) == n
    assert set(clf.members_["model"]) <= {"NB", "FAN", "kernel", "NB forest", "boosted"}
    for member, told in zip(members, clf.members_.to_dict("records")):
        is_network = told["model"] in ("NB", "FAN")
        assert len(member.fits) == told["n_fits"] == (4 if is_network else 1)
        for fit in member.fits:
            assert (fit.view.mixing is not None) == (told["treatment"] == "decorrelate")
            if is_network:
                assert fit.n_components == told["n_components"]
                assert fit.origin == ("network" if np.isnan(told["strength"]) else "fine-tuned")
    assert clf.n_components_ == max(fit.n_components for m in members for fit in m.fits)
    assert clf.members_["log_score"].max() <= 0
    assert clf.log_score_ > clf.members_["log_score"].min()
    assert list(clf.feature_names_in_) == list(X.columns)


def test_members_are_fitted_again_where_folds_leave_out_too_much(few):
    X, y = symbols(60)
    clf = FANClassifierCV(**FAST).fit(X, y)
    assert clf.members_["n_fits"] == [1] * len(clf.members_["n_fits"])


def test_kernel_densities_may_be_left_out(few):
    columns, y = mixed(50)
    without = FANClassifierCV(**FAST, kernel_members=False).fit(pd.DataFrame(columns), y)
    assert "kernel" not in set(without.members_["model"])
    assert_sound(without, pd.DataFrame(columns))


def test_class_prior_is_a_distribution(fitted):
    clf, _, _ = fitted
    assert clf.class_prior_.sum() == pytest.approx(1.0, abs=1e-9)
    np.testing.assert_allclose(clf.class_prior_, 0.5, atol=0.1)  # as many of the one as of the other


def test_frames_and_arrays_agree(few):
    columns, y = mixed(50)
    frames = {
        "pandas": pd.DataFrame(columns),
        "polars": pl.DataFrame(columns, nan_to_null=True),
        "numpy": np.column_stack([np.asarray(c, dtype=object) for c in columns.values()]),
    }
    found = {name: clone(FANClassifierCV(**FAST)).fit(X, y) for name, X in frames.items()}
    proba = {name: clf.predict_proba(frames[name]) for name, clf in found.items()}
    np.testing.assert_array_equal(proba["pandas"], proba["polars"])
    np.testing.assert_array_equal(proba["pandas"], proba["numpy"])
    assert [type(clf.members_) for clf in found.values()] == [pd.DataFrame, pl.DataFrame, dict]


def test_threads_and_repetition_do_not_change_a_bit(fitted):
    clf, X, y = fitted
    other = clone(clf).set_params(n_jobs=2).fit(X, y)
    assert_same(clf, other, X)
    ours, theirs = clf.average_.to_state()[1], other.average_.to_state()[1]
    assert set(ours) == set(theirs)
    for name, array in ours.items():
        np.testing.assert_array_equal(array, theirs[name], err_msg=name)
    assert clf.log_score_ == other.log_score_


def test_threads_that_cannot_be_had_are_done_without(fitted, monkeypatch):
    clf, X, y = fitted

    def refuse(thread):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        other = clone(clf).set_params(n_jobs=2).fit(X, y)
    assert_same(clf, other, X)


def test_it_pickles(fitted):
    clf, X, _ = fitted
    again = pickle.loads(pickle.dumps(clf))
    assert_same(clf, again, X)
    np.testing.assert_array_equal(again.explain(X[:3]).contributions, clf.explain(X[:3]).contributions)
    assert again.sample(5, random_state=1)[0].equals(clf.sample(5, random_state=1)[0])


def test_unknown_categories(fitted):
    clf, X, _ = fitted
    new = X.iloc[:4].assign(colour="mauve")
    with pytest.warns(DataWarning, match="'colour' in 4 of 4 rows"):
        np.testing.assert_array_equal(clf.predict_proba(new), clf.predict_proba(new.assign(colour=None)))
    strict = clone(clf).set_params(handle_unknown="error")
    strict.__dict__.update({k: v for k, v in clf.__dict__.items() if k.endswith("_")})
    with pytest.raises(ValueError, match="'colour' has a category in row 0"):
        strict.predict(new)


# ---------------------------------------------------------------- explanation and samples


def test_explanations_add_up(fitted):
    clf, X, _ = fitted
    found = clf.explain(X)
    proba = clf.predict_proba(X)
    assert found.features == ("x", "colour", "z")
    np.testing.assert_allclose(found.prior + found.contributions.sum(axis=1), found.log_odds, atol=1e-9)
    np.testing.assert_allclose(found.log_odds, np.log(proba.max(axis=1) / proba.min(axis=1)), atol=1e-9)
    np.testing.assert_array_equal(found.classes[:, 0], clf.predict(X))
    missing = X.isna().to_numpy()
    if "NB forest" not in set(clf.members_["model"]):  # which makes something of what is missing
        assert (found.contributions[missing] == 0).all()  # columns that are often missing are left out
    assert (np.isnan(found.information) == ~missing).all()
    assert (found.information[missing] >= 0).all()
    assert (found.information[missing] <= np.log(2)).all()
    assert list(found.table()["contribution"][:4]) == [found.prior[0], *found.contributions[0]]


def test_explanations_of_chosen_classes(fitted):
    clf, X, _ = fitted
    one, other = clf.explain(X, classes=["yes", "no"]), clf.explain(X, classes=["no", "yes"])
    np.testing.assert_allclose(one.contributions, -other.contributions, atol=1e-9)
    np.testing.assert_allclose(one.log_odds, np.diff(clf.predict_log_proba(X), axis=1)[:, 0], atol=1e-9)
    with pytest.raises(ValueError, match="must be two of 'no', 'yes'"):
        clf.explain(X, classes=["no", "perhaps"])


def test_samples(fitted):
    clf, X, _ = fitted
    rows, classes = clf.sample(4000, random_state=0)
    assert isinstance(rows, pd.DataFrame)
    assert list(rows.columns) == list(X.columns)
    assert set(rows["colour"]) == {"red", "green", "blue"}
    assert set(classes) == {"no", "yes"}
    again = clf.sample(4000, random_state=0)
    assert rows.equals(again[0])
    np.testing.assert_array_equal(classes, again[1])
    assert np.mean(classes == "yes") == pytest.approx(0.5, abs=0.1)
    for name in ("x", "z"):
        assert rows[name].mean() == pytest.approx(X[name].mean(), abs=0.3)
        assert rows[name].std() == pytest.approx(X[name].std(), rel=0.35)
    assert len(clf.sample(1)[0]) == 1


def test_samples_are_not_fine_tuned(monkeypatch):
    """Fine-tuned tables tell classes apart, and of copies of a column they make little; its values are as frequent."""
    naive = [replace(f, sizes=(1,)) for f in library("fast", 0, 2, 1e4)]
    monkeypatch.setattr(fan_cv, "library", lambda *given: naive)
    rng = np.random.default_rng(0)
    y = np.arange(300) % 2
    X = np.repeat(np.where(rng.random(300) < 0.2 + 0.6 * y, "b", "a")[:, None], 10, axis=1).astype(object)
    clf = FANClassifierCV(**FAST).fit(X, y)
    rows, classes = clf.sample(4000, random_state=0)
    for c in (0, 1):
        for j in range(10):
            assert np.mean(rows[classes == c, j] == "b") == pytest.approx(np.mean(X[y == c, j] == "b"), abs=0.05)


# ---------------------------------------------------------------- folds


@pytest.mark.parametrize(
    "cv", [StratifiedKFold(3), ShuffleSplit(2, test_size=0.3, train_size=0.4, random_state=0)], ids=["k", "shuffle"]
)
def test_a_splitter_and_its_splits_are_the_same(cv, few):
    X, y = symbols(45)
    a = FANClassifierCV(**{**FAST, "cv": cv}).fit(X, y)
    b = FANClassifierCV(**{**FAST, "cv": list(cv.split(X, y))}).fit(X, y)
    assert a.log_score_ == b.log_score_
    assert_same(a, b, X)
    other = FANClassifierCV(**{**FAST, "cv": StratifiedKFold(3, shuffle=True, random_state=5)}).fit(X, y)
    assert other.log_score_ != a.log_score_


def halves(n, n_folds=2):
    fold = np.arange(n) // 2 % n_folds
    return [(np.flatnonzero(fold != f), np.flatnonzero(fold == f)) for f in range(n_folds)]


def test_weights_are_repetitions(few):
    columns, y = mixed(60)
    X = pd.DataFrame(columns)
    weight = np.where(np.arange(60) % 5 == 0, 2, np.where(np.arange(60) % 7 == 0, 0, 1))
    rows = np.repeat(np.arange(60), weight)
    splits = halves(60, 3)
    moved = [tuple(np.flatnonzero(np.isin(rows, part)) for part in split) for split in splits]
    a = FANClassifierCV(**{**FAST, "cv": splits}).fit(X, y, sample_weight=weight)
    b = FANClassifierCV(**{**FAST, "cv": moved}).fit(X.iloc[rows], y[rows])
    assert_same(a, b, X, atol=3e-4)
    assert a.log_score_ == pytest.approx(b.log_score_, abs=3e-4)
    assert (
        np.abs(a.predict_proba(X) - FANClassifierCV(**{**FAST, "cv": splits}).fit(X, y).predict_proba(X)).max() > 0.01
    )


@pytest.mark.parametrize("treatment", ["mdlp", "decorrelate"])
def test_views_do_not_know_the_labels_held_out(treatment):
    rng = np.random.default_rng(0)
    y = np.arange(120) % 2
    X = y[:, None] * [1.0, 2.0] + rng.normal(size=(120, 2)) @ [[1.0, 0.8], [0.0, 0.6]]
    train = np.arange(120) < 80
    other = np.where(train, y, 1 - y)
    split = (train * 1.0, ~train * 1.0)
    views = [
        fold_of(FANClassifierCV()._cases(X, labels, None).training_table(), treatment, split).view
        for labels in (y, other)
    ]
    assert repr(views[0]) == repr(views[1])
    rows = FANClassifierCV()._cases(X, other, None).training_table()
    whole, _ = rows.view(treatment, rows.labels)
    assert repr(whole) != repr(views[0])
    fold = fold_of(FANClassifierCV()._cases(X, y, None).training_table(), treatment, split)
    assert (fold.training.labels == y[train]).all()
    assert (fold.held_out.labels == y[~train]).all()


def test_rows_are_encoded_once_for_all_folds_and_treatments(monkeypatch, few):
    original, calls = table.encode_table, []
    monkeypatch.setattr(table, "encode_table", lambda *given: calls.append(given) or original(*given))
    columns, y = mixed(60)
    clf = FANClassifierCV(**FAST).fit(pd.DataFrame(columns), y)
    assert len(calls) == 1
    assert set(clf.members_["treatment"]) - {"none"}  # another view than that was encoded is among them


def test_candidates_are_judged_by_fits_that_have_not_seen_the_rows(few):
    """The k-th fit of a member is without the rows of the k-th fold, and these are what it is judged by."""
    rng = np.random.default_rng(0)
    y = np.arange(80) % 2
    X = y[:, None] + rng.normal(size=(80, 3))
    splits = halves(80, 4)
    clf = FANClassifierCV(**{**FAST, "cv": splits}).fit(X, y)
    rows, judged = clf._encode(X, clf.average_.schemas), 0
    for member, n, log_score in zip(clf.average_.members, clf.members_["n_fits"], clf.members_["log_score"]):
        if n == 1:
            continue
        truth = np.empty(80)
        for fit, (_, test) in zip(member.fits, splits, strict=True):
            p = fit.proba(fit.view.mix(rows[fit.view.schema]), None)
            truth[test] = p[test, y[test]]
        assert np.log(truth + FLOOR).mean() == pytest.approx(log_score, abs=1e-9)
        judged += 1
    assert judged


def test_what_is_promised_of_noise_is_what_is_found():
    """Few rows whose labels nothing tells, and many candidates, some of which are lucky."""
    promised, found, known = [], [], []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(60, 5)), rng.integers(0, 2, 60)
        clf = FANClassifierCV(effort="fast", random_state=0).fit(X, y)
        new, truth = rng.normal(size=(1000, 5)), rng.integers(0, 2, 1000)
        promised.append(-clf.log_score_)
        found.append(log_loss(truth, clf.predict_proba(new)))
        frequency = np.bincount(y) / 60
        known.append(-frequency @ np.log(frequency))
    assert np.mean(promised) > np.mean(known) - 0.03
    assert np.mean(promised) == pytest.approx(np.mean(found), abs=0.08)
    assert np.mean(found) < np.log(2) + 0.08


def test_noise_is_not_taken_for_knowledge(few):
    rng = np.random.default_rng(3)
    X, y = rng.choice(list("ab"), (200, 6)).astype(object), rng.integers(0, 2, 200)
    clf = FANClassifierCV(**{**FAST, "cv": 3}).fit(X, y)
    frequency = np.bincount(y) / 200
    assert clf.log_score_ < frequency @ np.log(frequency) + 0.01
    new = rng.choice(list("ab"), (2000, 6)).astype(object)
    assert log_loss(rng.integers(0, 2, 2000), clf.predict_proba(new)) < np.log(2) + 0.05


# ---------------------------------------------------------------- hard input


def test_unlabelled_rows(few):
    X, y = symbols(60)
    some = y.copy()
    some[::3] = None
    clf = FANClassifierCV(**FAST).fit(X, some)
    assert list(clf.classes_) == ["no", "yes"]
    assert_sound(clf, X)
    known = [k for k in range(60) if k % 3]
    without = FANClassifierCV(**FAST).fit(X[known], y[known])
    assert np.abs(clf.predict_proba(X) - without.predict_proba(X)).max() > 1e-3  # they were learnt from
    numbers = np.where(np.arange(60) % 3 == 0, np.nan, np.arange(60) % 2)
    np.testing.assert_array_equal(FANClassifierCV(**FAST).fit(X, numbers).predict_proba(X), clf.predict_proba(X))


@pytest.mark.parametrize("value", [np.nan, 3.0])
def test_a_column_that_tells_nothing(value, few):
    columns, y = mixed(40)
    with_it = pd.DataFrame({"extra": np.full(40, value), **columns})
    with pytest.warns(UserWarning, match="left out: 'extra'") as caught:
        clf = FANClassifierCV(**FAST).fit(with_it, y)
    assert caught[0].filename == __file__
    wanted = FANClassifierCV(**FAST).fit(pd.DataFrame(columns), y)
    np.testing.assert_allclose(clf.predict_proba(with_it), wanted.predict_proba(pd.DataFrame(columns)), atol=1e-3)
    assert clf.explain(with_it[:2]).features == ("x", "colour", "z")


@pytest.mark.filterwarnings("ignore::fanbayes.DataWarning")
@pytest.mark.parametrize(
    ("X", "y"),
    [
        ([[1.0, 2.0]], [0]),
        ([[1.0, 2.0], [3.0, 5.0]], [0, 1]),
        ([[1.0, 2.0], [3.0, 5.0]], [1, 1]),
        ([[1.0, 2.0], [3.0, 5.0], [2.0, 2.0]], [0, 0, 1]),
        ([["a", "u"], ["b", "v"], ["a", "v"]], ["p", "p", None]),
        ([[k / 3, k % 4] for k in range(12)], [0] * 11 + [1]),
        ([[k / 3, k % 4] for k in range(12)], [5] * 12),
        ([["a", "b"]] * 8, [0, 1] * 4),
        ([[1.0, 2.0]] * 8, [0, 1] * 4),
    ],
    ids=["row", "two rows", "two of a class", "three rows", "one label", "rare", "one class", "same", "same numbers"],
)
def test_few_rows(X, y, few):
    X = np.array(X, dtype=object if isinstance(X[0][0], str) else float)
    clf = FANClassifierCV(effort="fast", random_state=0).fit(X, np.array(y, dtype=object if None in y else None))
    assert_sound(clf, X)
    assert clf.pool_.weights.sum() == pytest.approx(1.0)
    assert len(clf.sample(3, random_state=0)[0]) == 3


@pytest.mark.parametrize("scale", [1e300, 1e-300])
def test_huge_and_tiny_values(scale, few):
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    X = (y[:, None] + rng.standard_cauchy(size=(40, 2))) * scale
    X[3, 0], X[5] = np.nan, 1e7 * scale
    clf = FANClassifierCV(**FAST).fit(X, y)
    new = np.vstack([X, np.array([[1.7e308, -1.7e308], [np.nan, 1.7e308], [0.0, np.nan], [np.nan, np.nan]])])
    assert_sound(clf, new)
    found = clf.explain(new)
    assert np.isfinite(found.contributions).all()
    assert np.isfinite(found.responsibility).all()
    np.testing.assert_allclose(found.prior + found.contributions.sum(axis=1), found.log_odds, atol=1e-6)


@pytest.mark.filterwarnings("ignore::fanbayes.DataWarning")
@pytest.mark.parametrize("missing", [np.nan, None])
def test_everything_missing(missing, few):
    """Of all rows, and of half of them."""
    X, y = np.full((40, 2), missing, dtype=object if missing is None else float), np.arange(40) % 4 // 3
    clf = FANClassifierCV(**FAST).fit(X, y)
    np.testing.assert_allclose(clf.predict_proba(X), np.tile(clf.class_prior_, (40, 1)))
    np.testing.assert_allclose(clf.class_prior_, [31 / 42, 11 / 42])
    X[::2] = (
        np.array([["a", "b"], ["b", "b"]] * 10) if missing is None else np.random.default_rng(0).normal(size=(20, 2))
    )
    clf = FANClassifierCV(**FAST).fit(X, y)
    assert_sound(clf, X)
    np.testing.assert_allclose(clf.predict_proba(X[1:2]), clf.class_prior_[None])


def test_too_few_rows_to_judge_by_leave_naive_bayes(few):
    X, y = symbols(9)
    with pytest.warns(UserWarning, match="9 labelled cases are too few to judge models by in 5 folds"):
        clf = FANClassifierCV(effort="fast", random_state=0).fit(X, y)
    assert clf.members_["n_components"] == [1]
    assert np.isnan(clf.log_score_)
    np.testing.assert_allclose(clf.class_prior_, [6 / 11, 5 / 11])
    wanted = 0.9 * NBClassifier().fit(X, y).predict_proba(X) + 0.1 * clf.class_prior_  # one case of ten says nothing
    np.testing.assert_allclose(clf.predict_proba(X), wanted, rtol=1e-9)


def test_a_far_away_value_is_explained_too(few, monkeypatch):
    """A hundred deviations from everything; the work is counted, as it could be endless."""
    evaluate, n_points = AveragePath.coefficient, []

    def counted(path, t, row):
        n_points.append(len(t))
        assert sum(n_points) < 16 * 1000, "halved without end"
        return evaluate(path, t, row)

    monkeypatch.setattr(AveragePath, "coefficient", counted)
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    clf = FANClassifierCV(**FAST).fit(y[:, None] + rng.normal(size=(60, 2)), y)
    far = np.array([[100.0, 0.0]])
    assert_sound(clf, far)
    found = clf.explain(far)
    assert found.prior + found.contributions.sum(axis=1) == pytest.approx(found.log_odds, abs=1e-6)


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"cv": 1}, ValueError, "cv=1 must be at least 2"),
        ({"cv": True}, TypeError, "cv=True must be an integer"),
        ({"effort": "x"}, ValueError, "effort='x' is not one of 'fast', 'default', 'best'"),
        ({"n_jobs": 0}, ValueError, "n_jobs=0"),
        ({"n_jobs": 2**31}, ValueError, "n_jobs=2147483648"),
        ({"cv": 2**63}, ValueError, "cv=9223372036854775808"),
        ({"random_state": 2**63}, ValueError, "random_state=9223372036854775808"),
        ({"handle_unknown": "x"}, ValueError, "handle_unknown='x'"),
        ({"cv": "x"}, ValueError, "cv"),
        ({"cv": [([0, 1, 2], [3, 4]), ([0, 1], [5])]}, ValueError, "split 1 of cv has no labelled row"),
        ({"cv": [([5], [0, 1])]}, ValueError, "split 0 of cv has no labelled row"),
        ({"cv": [([0, 1], [])]}, ValueError, "split 0 of cv has no labelled row"),
        ({"cv": [([0, 1, 2], [3, 99])]}, ValueError, "cv"),
        ({"cv": []}, ValueError, "cv"),
    ],
)
def test_what_is_refused(parameters, error, message):
    y = np.array([0, 1, 0, 1, 0, None], dtype=object)
    X = np.array(["a", "b", "a", "a", "b", "b"], dtype=object)[:, None]
    clf = FANClassifierCV(effort="fast").set_params(**parameters)
    before = dict(clf.__dict__)
    with pytest.raises(error, match=message):
        clf.fit(X, y)
    assert clf.__dict__ == before


def test_a_fit_that_fails_changes_nothing(fitted):
    clf, X, y = fitted
    clf = pickle.loads(pickle.dumps(clf))
    before, wanted = dict(clf.__dict__), clf.predict_proba(X)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        clf.fit(X, y[:-1])
    with pytest.raises(ValueError, match="cv"):
        clf.set_params(cv="x").fit(X.assign(more=X["x"] + 1.5), y)
    clf.set_params(cv=4)
    assert clf.__dict__ == before
    np.testing.assert_array_equal(clf.predict_proba(X), wanted)
    assert not hasattr(clone(clf), "average_")


# ---------------------------------------------------------------- what it is for


def test_copies_of_features_do_not_make_it_too_sure():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 900)
    X = np.tile((rng.random((900, 3)) < 0.25 + 0.5 * y[:, None]).astype(str).astype(object), 4)
    train, test = slice(0, 200), slice(200, None)
    found = FANClassifierCV(**FAST).fit(X[train], y[train]).predict_proba(X[test])
    naive = NBClassifier().fit(X[train], y[train]).predict_proba(X[test])
    once = NBClassifier().fit(X[train, :3], y[train]).predict_proba(X[test, :3])
    assert log_loss(y[test], found) < log_loss(y[test], naive) - 0.1
    assert log_loss(y[test], found) < log_loss(y[test], once) + 0.02


def test_within_scikit_learn(few):
    X, y = symbols(60)
    search = GridSearchCV(FANClassifierCV(**FAST), {"cv": [2, 3]}, cv=2, error_score="raise").fit(X, y)
    assert search.best_params_["cv"] in (2, 3)
    assert_sound(search.best_estimator_, X)
    clf = clone(search.best_estimator_)
    assert clf.get_params() == search.best_estimator_.get_params()
    cost = np.array([[0.0, 1.0], [8.0, 0.0]])
    careful = CostSensitiveClassifier(FANClassifierCV(**FAST), costs=cost).fit(X, y)
    plain = FANClassifierCV(**FAST).fit(X, y)
    counts = [[(decided == c).sum() for c in ("no", "yes")] for decided in (plain.predict(X), careful.predict(X))]
    assert counts[0] != counts[1]
    np.testing.assert_array_equal(careful.predict_proba(X), plain.predict_proba(X))


def test_progress_is_shown_if_wanted(few, capsys):
    X, y = symbols(30)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        a = FANClassifierCV(**FAST).fit(X, y)
        assert capsys.readouterr() == ("", "")
        assert_same(a, FANClassifierCV(**FAST, verbose=True).fit(X, y), X)
    assert "".join(capsys.readouterr()).strip()


@pytest.mark.parametrize("kernels", [True, False])
@pytest.mark.parametrize("rows", [symbols, mixed])
def test_progress_comes_to_its_end(rows, kernels, few, monkeypatch):
    told, original = [], fan_cv.fit_average

    def listening(training, units, families, effort):
        heard = replace(training, report=lambda text, n: told.append(n))
        assert sum(told) == 0
        found = original(heard, units, families, effort)
        assert sum(told) == n_steps(len(units), families, kernels)
        return found

    monkeypatch.setattr(fan_cv, "fit_average", listening)
    X, y = rows(40)
    FANClassifierCV(**FAST, kernel_members=kernels).fit(pd.DataFrame(X), y)
    assert told


# ---------------------------------------------------------------- the candidates


def test_the_best_candidates_are_pooled():
    """The weightiest first, each with its own exponent; those that hardly matter are left out."""
    rng = np.random.default_rng(0)
    labels, prior = rng.integers(0, 3, 200), np.full(3, 1 / 3)
    judged = Judged(np.arange(200), labels, np.ones(200), np.arange(200))
    said = np.where(rng.random(200) < 0.6, labels, (labels + 1) % 3)
    certain, flat = 0.01 + 0.97 * np.eye(3)[said], np.tile(prior, (200, 1))  # the shares of the classes once more
    told = [(1 - share) * rng.dirichlet(np.ones(3), 200) + share * np.eye(3)[labels] for share in (0.1, 0.5, 0.3, 0.4)]
    for several, most, first in ((told, 6, 1), (told, 2, 1), ([flat, certain], 6, 1)):
        candidates = [Candidate("NB", "none", None, k, 0, (), p) for k, p in enumerate(several)]
        members, pool, log_score = _best(candidates, judged, prior, most, one_by_one)
        assert members[0].size == first
        assert 1 <= len(members) <= min(most, len(several))
        assert (np.diff(pool.weights[:-1]) <= 0).all()
        wanted, promised = fit_pool(np.stack([*(m.p for m in members), flat]), labels, np.ones(200), judged.key)
        np.testing.assert_allclose(pool.weights, wanted.weights, atol=1e-6)
        np.testing.assert_allclose(pool.exponents, wanted.exponents, atol=2e-3)
        assert log_score == pytest.approx(promised, abs=1e-4)


@pytest.mark.parametrize("n_numbers", [0, 1, 501])
def test_candidates(n_numbers):
    """Families begin with one component and grow; only numbers are treated, not too many of them decorrelated."""
    names = ("fast", "default", "best")
    families = {effort: library(effort, n_numbers, 2, 900) for effort in names}
    for found in families.values():
        assert len(set(map(repr, found))) == len(found)
        for f in found:
            assert f.sizes[0] == 1
            assert (np.diff(f.sizes) > 0).all()
            assert (np.diff(f.strengths) < 0).all()  # each search goes on from the one before
            assert n_numbers or f.treatment == "none"
        assert found[0].treatment == "none"  # what fills in holes, and is left if nothing can be held out
        assert any(f.strengths for f in found)
        treatments = {f.treatment for f in found}
        assert ("normal_scores" in treatments) == (n_numbers > 0)
        assert ("decorrelate" in treatments) == (0 < n_numbers <= 500)
    work = [sum(len(f.sizes) * f.n_init * (1 + len(f.strengths)) for f in families[effort]) for effort in names]
    assert work[0] < work[1] < work[2]
    kinds = [{(f.treatment, f.variance_tying) for f in families[effort]} for effort in names]
    assert kinds[0] <= kinds[1] <= kinds[2]
    of_many = library("default", n_numbers, 2, 1e4)
    assert all(set(many.strengths) <= {min(STRENGTHS)} for many in of_many)  # chance is hardly left to be kept from
    assert any(f.treatment == "mdlp" for f in of_many) == (n_numbers > 0)


def test_networks_of_many_classes_or_few_cases_are_smaller():
    largest = [max(family.sizes[-1] for family in library("default", 1, n, 1e4)) for n in (2, 26, 1000)]
    assert largest == [32, 16, 4]
    few = [max(family.sizes[-1] for family in library("default", 1, 2, n)) for n in (5, 45, 400)]
    assert few == [2, 4, 32]


def test_kernel_densities_do_not_know_the_classes_that_they_are_judged_by(monkeypatch):
    """With as many columns as rows, columns made uncorrelated within the classes would give the classes away."""
    original, seen = training._best, []
    monkeypatch.setattr(
        training, "_best", lambda c, judged, *given: seen.append((c, judged)) or original(c, judged, *given)
    )
    for seed, n_columns in ((4, 40), (1, 45)):  # where they were given away
        X, y = np.random.default_rng(seed).normal(size=(40, n_columns)), np.arange(40) % 2
        FANClassifierCV(effort="fast", random_state=0).fit(X, y)
    correct = [
        np.mean(c.p.argmax(axis=1) == judged.labels)
        for candidates, judged in seen
        for c in candidates
        if (c.kind, c.treatment) == ("kernel", "decorrelate")
    ]
    assert len(correct) == 2
    assert max(correct) < 0.65


def listen(monkeypatch, kind, hear):
    """Have a candidate that needs no folds tell what it is fitted to."""
    original = race.TREES.get(kind, race.fit_kernel)

    def listening(*given):
        hear(*given)
        return original(*given)

    if kind in race.TREES:
        monkeypatch.setitem(race.TREES, kind, listening)
    else:
        monkeypatch.setattr(race, "fit_kernel", listening)


@pytest.mark.parametrize("kind", ["NB forest", "boosted", "kernel"])
def test_what_needs_no_folds_is_judged_by_what_it_will_predict(kind, few, monkeypatch):
    """Rows whose seldom missing values are filled in; where columns are often missing they stay so."""
    asked = []
    listen(monkeypatch, kind, lambda *given: asked.append(given[-1]))
    columns, y = mixed(80)
    X = pd.DataFrame(columns | {"z": np.where(np.arange(80) % 40 == 3, np.nan, np.nan_to_num(columns["z"]))})
    clf = FANClassifierCV(effort="fast", random_state=0).fit(X, y)
    assert clf.imputer_.fills_of_columns.tolist() == [False, False, True]
    for complete, row in asked:
        assert (np.bincount(row) == np.where(np.arange(80) % 40 == 3, 16, 1)).all()
        assert not np.isnan(complete.numbers[:, 1]).any()
        assert np.isnan(complete.numbers[:, 0]).any()
        np.testing.assert_allclose(np.bincount(row, complete.weights), 1)
    assert asked
    asked.clear()
    FANClassifierCV(effort="fast", random_state=0).fit(X[["x", "colour"]], y)
    assert asked[0] is None


@pytest.mark.parametrize("kind", ["NB forest", "boosted", "kernel"])
def test_groups_count_in_folds_of_the_user_too(kind, few, monkeypatch):
    seen = []
    listen(monkeypatch, kind, lambda *given: seen.append((given[0].n_rows, given[-2])))
    columns, y = mixed(60)
    groups = np.arange(60) // 2
    FANClassifierCV(**{**FAST, "cv": GroupKFold(3)}).fit(pd.DataFrame(columns), y, groups=groups)
    assert {n for n, _ in seen} == {40, 60}
    for n, told in seen:
        assert len(told) == n
        assert len(set(told)) == n / 2


@pytest.mark.parametrize("kind", ["NB forest", "boosted"])
def test_trees_of_all_rows_know_the_groups(kind, monkeypatch):
    for name, value in {"MOST_JUDGED": 100, "ONE_FIT_ABOVE": 100, "WHOLE": 1.0}.items():
        monkeypatch.setattr(splits, name, value)
    monkeypatch.setattr(training, "WORTH_ALL_ROWS", 0.0)
    seen = []
    listen(monkeypatch, kind, lambda table, view, n_classes, seed, pool, groups, *_: seen.append((table, groups)))
    columns, y = mixed(240)
    groups = np.arange(240) // 2
    FANClassifierCV(effort="fast", random_state=0).fit(pd.DataFrame(columns), y, groups=groups)
    assert [table.n_rows for table, _ in seen] == [100, 240]
    assert all(len(told) == table.n_rows for table, told in seen)
    assert len(set(seen[1][1])) == 120


def test_kernel_members_is_a_yes_or_a_no():
    with pytest.raises(ValueError, match="kernel_members='no' is neither True nor False"):
        FANClassifierCV(kernel_members="no").fit([[1.0], [2.0]], [0, 1])


def test_logistic_regression_is_that_of_scikit_learn(monkeypatch):
    """Of categories, with a penalty for each class and as many cases of each, so that the classes' shares are alike."""
    monkeypatch.setattr(discriminative, "TOLERANCE", 1e-12)
    rng = np.random.default_rng(5)
    y = np.arange(300) % 3
    X = pd.DataFrame((rng.integers(0, 3, (300, 4)) + (rng.random((300, 4)) < 0.5) * y[:, None]) % 3).astype(str)
    rows = FANClassifierCV()._cases(X, y, None).training_table()
    view, table = rows.view("none", rows.labels)
    family = Logistic("none", "all", (10.0, 1.0), (1,), 1)
    found = family.fit(family.rows(view, table.fused(), 3), 1, 0)
    columns = np.column_stack([pd.get_dummies(X), np.ones(300)]).astype(float)
    for strength, fit in zip(family.strengths, found, strict=True):
        theirs = LogisticRegression(C=1 / strength, fit_intercept=False, tol=1e-8, max_iter=1000).fit(columns, y)
        np.testing.assert_allclose(fit.proba(table, None), theirs.predict_proba(columns), atol=1e-4)
    assert np.abs(found[0].proba(table, None) - found[1].proba(table, None)).max() > 0.03


def test_logistic_regression_is_kept_and_explained(tmp_path):
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    clf = FANClassifierCV(random_state=0).fit(X[:300], y[:300])
    assert "logit" in clf.members_["model"].tolist()
    fanbayes.save(clf, tmp_path / "m.fan")
    again = fanbayes.load(tmp_path / "m.fan")
    assert_same(again, clf, X)
    told = again.explain(X[:20])
    np.testing.assert_allclose(told.prior + told.contributions.sum(axis=1), told.log_odds, atol=1e-6)


def test_a_column_without_values_in_labelled_rows(tmp_path):
    """Decorrelated, what the unlabelled rows have of it stays of the same size, and the model can be kept."""
    rng = np.random.default_rng(0)
    y = np.where(np.arange(80) < 60, np.arange(80) % 2, -1)
    X = pd.DataFrame(rng.normal(size=(80, 3)) + y[:, None], columns=list("abc"))
    X.loc[1:59, "c"] = np.nan  # some folds have no value
    rows = FANClassifierCV()._cases(X[1:], y[1:], None).training_table()
    mixing = rows.view("decorrelate", rows.labels)[0].mixing
    assert np.abs(mixing).max() < 10
    clf = FANClassifierCV(random_state=0).fit(X, y)
    fanbayes.save(clf, tmp_path / "m.fan")
    assert_same(fanbayes.load(tmp_path / "m.fan"), clf, X)
