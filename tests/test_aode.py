"""AODEClassifier: against its definition, what a mean of stars sums to, hard input, files, explanations."""

import itertools
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone

import fanbayes
from fanbayes import AODEClassifier, ModelFileError, NBClassifier
from fanbayes.commands.show import _printer
from fanbayes.files.container import pack
from fanbayes.files.model_file import to_state
from fanbayes.learning import aode

CLOSE = {"rtol": 1e-12, "atol": 1e-300}
CONSTANT = "ignore::fanbayes.DataWarning"


# ---------------------------------------------------------------- the definition


def stars(codes, labels, weights, levels, n_classes, row, alpha=1.0, least=1.0):
    """Mean of the stars of one row (n_classes,), as (S1) has it; -1 is missing. None where no star takes part."""
    found = []
    for i, root in enumerate(row):
        cases = weights[codes[:, i] >= 0].sum()
        frequency = cases if root < 0 else weights[codes[:, i] == root].sum()
        if frequency < least:
            continue
        star = np.zeros(n_classes)
        for v in range(levels[i]) if root < 0 else [root]:
            for c in range(n_classes):
                of = (labels == c) & (codes[:, i] == v)
                p = (weights[of].sum() + alpha) / (cases + alpha * n_classes * levels[i])
                for j, value in enumerate(row):
                    if j != i and value >= 0:
                        both = weights[of & (codes[:, j] == value)].sum()
                        p *= (both + alpha) / (weights[of & (codes[:, j] >= 0)].sum() + alpha * levels[j])
                star[c] += p
        found.append(star)
    return np.mean(found, axis=0) if found else None


def holes(n=150, seed=0):
    """Codes of columns of 2, 3, 4 and 3 levels, a tenth of them missing (-1), classes that depend on pairs."""
    rng = np.random.default_rng(seed)
    codes = np.column_stack([rng.integers(r, size=n) for r in (2, 3, 4, 3)])
    codes[:, 3] = (codes[:, 1] + (rng.random(n) < 0.2)) % 3
    labels = (codes[:, 0] + codes[:, 1] + (rng.random(n) < 0.3)) % 3
    codes[rng.random(codes.shape) < 0.1] = -1
    return codes, labels


LEVELS = [2, 3, 4, 3]
ALL_ROWS = np.array(list(itertools.product(*([-1, *range(r)] for r in LEVELS))))  # with every pattern of holes
COMPLETE = ALL_ROWS[(ALL_ROWS >= 0).all(axis=1)]


def as_numbers(codes):
    return np.where(codes < 0, np.nan, codes.astype(float))


def fitted(codes, labels, weights=None, **settings):
    return AODEClassifier(categorical_features="all", **settings).fit(as_numbers(codes), labels, weights)


@pytest.mark.parametrize("backend", fanbayes._native.backends())
@pytest.mark.parametrize("settings", [{}, {"alpha": 0.3}])
def test_probabilities_are_those_of_the_definition_with_and_without_holes(backend, settings):
    before = fanbayes._native.backend()
    fanbayes._native.use_backend(backend)
    try:
        codes, labels = holes()
        clf = fitted(codes, labels, **settings)
        expected = np.array([stars(codes, labels, np.ones(150), LEVELS, 3, row, **settings) for row in ALL_ROWS])
        np.testing.assert_allclose(np.exp(clf.predict_joint_log_proba(as_numbers(ALL_ROWS))), expected, **CLOSE)
        proba = expected / expected.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(clf.predict_proba(as_numbers(ALL_ROWS)), proba, **CLOSE)
        np.testing.assert_allclose(clf.predict_log_proba(as_numbers(ALL_ROWS)), np.log(proba), rtol=0, atol=1e-12)
        np.testing.assert_allclose(clf.class_prior_, proba[0], **CLOSE)
    finally:
        fanbayes._native.use_backend(before)


@pytest.mark.filterwarnings("ignore:y holds only the class")
@pytest.mark.parametrize("n_classes", [1, 2, 3, 4, 5, 9])
@pytest.mark.parametrize("n_columns", [1, 2, 3, 4, 5, 9])
def test_any_number_of_classes_and_columns(n_classes, n_columns):
    rng = np.random.default_rng(n_classes)
    codes = rng.integers(3, size=(40, n_columns))
    codes[:3] = np.arange(3)[:, None]
    labels = np.arange(40) % n_classes
    expected = np.array([stars(codes, labels, np.ones(40), [3] * n_columns, n_classes, row) for row in codes[:10]])
    found = fitted(codes, labels).predict_joint_log_proba(codes[:10].astype(float))
    np.testing.assert_allclose(np.exp(found), expected, **CLOSE)


@pytest.mark.filterwarnings("ignore:most rows have a category of their own")
def test_columns_of_many_levels():
    rng = np.random.default_rng(0)
    codes = np.column_stack([rng.permutation(400) % 300, rng.integers(3, size=400), rng.permutation(400) % 270])
    labels = rng.integers(2, size=400)
    levels = [300, 3, 270]
    rows = np.vstack([codes[:5], [[-1, 0, 3], [2, -1, -1], [-1, -1, -1]]])
    expected = np.array([stars(codes, labels, np.ones(400), levels, 2, row) for row in rows])
    clf = fitted(codes, labels)
    np.testing.assert_allclose(np.exp(clf.predict_joint_log_proba(as_numbers(rows))), expected, **CLOSE)


def test_the_mean_of_stars_sums_to_one_and_holes_are_summed_out():
    clf = fitted(*holes())
    density = np.exp(clf.score_samples(as_numbers(ALL_ROWS)))
    complete = {tuple(row): p for row, p in zip(ALL_ROWS.tolist(), density) if min(row) >= 0}
    assert sum(complete.values()) == pytest.approx(1.0, abs=1e-12)
    for row, p in zip(ALL_ROWS.tolist(), density):
        fits = [q for full, q in complete.items() if all(r in (-1, f) for r, f in zip(row, full))]
        assert p == pytest.approx(sum(fits), rel=1e-12)


def test_rare_roots_take_no_part_and_naive_bayes_is_last():
    codes, labels = holes()
    codes[:, 2] = np.where(np.arange(150) < 3, 3, codes[:, 2] % 3)  # a level of three cases
    for least in (4, 70, 200):
        clf = fitted(codes, labels, min_frequency=least)
        nb = NBClassifier(categorical_features="all").fit(as_numbers(codes), labels)
        proba, fallback = clf.predict_proba(as_numbers(COMPLETE)), nb.predict_proba(as_numbers(COMPLETE))
        n_without = 0
        for row, p, q in zip(COMPLETE, proba, fallback):
            expected = stars(codes, labels, np.ones(150), LEVELS, 3, row, least=least)
            n_without += expected is None
            expected = q if expected is None else expected / expected.sum()
            np.testing.assert_allclose(p, expected, **CLOSE)
        assert (n_without == 0) == (least == 4)
        # The density does not depend on who takes part, and the parts of the joint are what they say.
        joint = clf.predict_joint_log_proba(as_numbers(COMPLETE))
        assert np.exp(joint).sum() == pytest.approx(1.0)
        np.testing.assert_allclose(np.exp(joint).sum(axis=1), np.exp(clf.score_samples(as_numbers(COMPLETE))))
        np.testing.assert_allclose(
            clf.score_samples(as_numbers(COMPLETE)), fitted(codes, labels).score_samples(COMPLETE)
        )


def test_a_declared_category_that_did_not_occur_is_no_root():
    codes, labels = holes()
    X = pd.DataFrame({f"x{j}": pd.Categorical.from_codes(codes[:, j], range(r + 1)) for j, r in enumerate(LEVELS)})
    row = X.iloc[:1].copy()
    row["x2"] = pd.Categorical([4], categories=range(5))
    levels = [r + 1 for r in LEVELS]
    given = np.array([int(v) if v == v else -1 for v in row.iloc[0]])
    expected = stars(codes, labels, np.ones(150), levels, 3, given)
    found = AODEClassifier().fit(X, labels).predict_proba(row)[0]
    np.testing.assert_allclose(found, expected / expected.sum(), **CLOSE)


# ---------------------------------------------------------------- weights, labels, frames, threads


def test_weights_are_copies_and_unlabelled_rows_are_left_out():
    codes, labels = holes()
    times = np.random.default_rng(1).integers(0, 4, 150)
    one = fitted(codes, labels, times)
    copies = fitted(np.repeat(codes, times, axis=0), np.repeat(labels, times))
    y = labels.astype(object)
    y[times == 0] = None
    known = fitted(codes[times > 0], labels[times > 0])
    X = as_numbers(ALL_ROWS)
    np.testing.assert_array_equal(one.predict_proba(X), copies.predict_proba(X))
    np.testing.assert_array_equal(fitted(codes, y).predict_proba(X), known.predict_proba(X))
    with pytest.raises(ValueError, match="no row has a label"):
        fitted(codes, np.full(150, np.nan))


def mixed(n=300, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    X = pd.DataFrame({"x": y + 0.5 * rng.normal(size=n), "z": rng.normal(size=n) - y, "k": np.array(list("abc"))[y]})
    X["k"] = np.where(rng.random(n) < 0.4, np.array(list("abc"))[rng.integers(0, 3, n)], X["k"])
    X.loc[::8, "x"] = np.nan
    X.loc[::11, "k"] = None
    return X, y


def test_frames_threads_copies_and_files_give_the_same_bits(tmp_path):
    X, y = mixed()
    clf = AODEClassifier().fit(X, y)
    expected = clf.predict_proba(X)
    fanbayes.save(clf, tmp_path / "m")
    again = fanbayes.load(tmp_path / "m")
    for other in (again, pickle.loads(pickle.dumps(clf)), clone(clf).set_params(n_jobs=2).fit(X, y)):
        np.testing.assert_array_equal(other.predict_proba(X), expected)
        np.testing.assert_array_equal(other.score_samples(X), clf.score_samples(X))
        assert other.describe()["features"] == clf.describe()["features"]
    for frame in (pl.from_pandas(X), pa.Table.from_pandas(X)):
        np.testing.assert_array_equal(AODEClassifier().fit(frame, y).predict_proba(frame), expected)
    # What was learnt does not change with the settings.
    clf.set_params(alpha=7.0, min_frequency=50)
    fanbayes.save(clf, tmp_path / "m")
    np.testing.assert_array_equal(fanbayes.load(tmp_path / "m").predict_proba(X), expected)


def damaged(clf, change):
    header, arrays = to_state(clf)
    arrays = {name: array.copy() for name, array in arrays.items()}
    change(header, arrays)
    return pack(header, arrays)


@pytest.mark.parametrize(
    "change",
    [
        lambda h, a: h["stars"].update(alpha=0.0),
        lambda h, a: h["stars"].update(alpha=float("inf")),
        lambda h, a: h["stars"].update(min_frequency=-1.0),
        lambda h, a: h.pop("stars"),
        lambda h, a: a.update({"counts.pair": a["counts.pair"][1:]}),
        lambda h, a: a.update({"counts.level": a["counts.level"][:, :1]}),
        lambda h, a: a["counts.pair"].__setitem__((0, 0), np.nan),
        lambda h, a: a["counts.class"].__setitem__(0, -1.0),
        lambda h, a: a.pop("counts.class"),
        lambda h, a: h["schema"]["columns"][0].update(levels=[], kind="continuous", scale=1.0, centre=0.0),
    ],
)
def test_damaged_files_are_refused(tmp_path, change):
    path = tmp_path / "m"
    path.write_bytes(damaged(fitted(*holes()), change))
    with pytest.raises(ModelFileError, match="cannot be loaded"):
        fanbayes.load(path)


# ---------------------------------------------------------------- drawing and explaining


def test_rows_drawn_have_the_distribution_of_the_mean_of_stars():
    codes, labels = holes()
    clf = fitted(codes, labels)
    X, y = clf.sample(200_000, random_state=0)
    cell = np.ravel_multi_index([*X.astype(int).T, y], (*LEVELS, 3))
    expected = np.exp(clf.predict_joint_log_proba(as_numbers(COMPLETE)))
    at = np.ravel_multi_index([*np.repeat(COMPLETE, 3, axis=0).T, np.tile(range(3), len(COMPLETE))], (*LEVELS, 3))
    found = np.bincount(cell, minlength=at.max() + 1)[at]
    chi2 = ((found - 2e5 * expected.ravel()) ** 2 / (2e5 * expected.ravel())).sum()
    assert chi2 < len(at) + 5 * np.sqrt(2 * len(at))


@pytest.mark.parametrize("least", [1, 70, 200])
def test_contributions_add_up_to_the_log_odds(least):
    codes, labels = holes()
    clf = fitted(codes, labels, min_frequency=least)
    X = as_numbers(ALL_ROWS)
    found, log_proba = clf.explain(X), clf.predict_log_proba(X)
    row = np.arange(len(X))
    odds = log_proba[row, found.classes[:, 0]] - log_proba[row, found.classes[:, 1]]
    np.testing.assert_allclose(found.prior + found.contributions.sum(axis=1), odds, atol=1e-9)
    assert (found.contributions[np.isnan(X)] == 0).all()
    assert (found.part >= 0).all() == (least == 1)
    assert ((found.responsibility > 0) & (found.responsibility <= 1 + 1e-12)).all()


def test_the_contributions_are_the_integral_along_the_path():
    codes, labels = holes()
    clf = fitted(codes, labels)
    row, (c, other) = np.array([1, 2, -1, 0]), (0, 2)
    found = clf.explain(as_numbers(row[None]), classes=(c, other))
    terms = {c: [], other: []}  # of each component: log weight, and a term for each feature
    for label, i in itertools.product(terms, range(4)):
        of_class = [joint(codes, labels, i, v, label) for v in range(LEVELS[i])]
        for v in [row[i]] if row[i] >= 0 else range(LEVELS[i]):
            log_p = np.zeros(4)
            for j in range(4):
                if j != i and row[j] >= 0:
                    log_p[j] = np.log(given(codes, labels, i, v, j, row[j], label))
            weight = of_class[v]
            if row[i] >= 0:
                weight = sum(of_class)
                log_p[i] = np.log(of_class[v] / weight)
            terms[label].append((np.log(weight), log_p))
    t, w = np.polynomial.legendre.leggauss(60)
    total = {}
    for label, components in terms.items():
        weight, log_p = np.array([a for a, _ in components]), np.array([b for _, b in components])
        total[label] = 0
        for at, share in zip((t + 1) / 2, w / 2):
            p = np.exp(weight + at * log_p.sum(axis=1))
            total[label] += share * (p / p.sum()) @ log_p
    np.testing.assert_allclose(found.contributions[0], total[c] - total[other], atol=1e-10)


def joint(codes, labels, i, v, c):
    cases = (codes[:, i] >= 0).sum()
    return (((labels == c) & (codes[:, i] == v)).sum() + 1) / (cases + 3 * LEVELS[i])


def given(codes, labels, i, v, j, value, c):
    of = (labels == c) & (codes[:, i] == v)
    return ((of & (codes[:, j] == value)).sum() + 1) / ((of & (codes[:, j] >= 0)).sum() + LEVELS[j])


def test_information_is_what_observing_is_expected_to_tell():
    clf = fitted(*holes())
    row = np.array([[1.0, np.nan, 2.0, np.nan]])
    found = clf.explain(row)
    for j in (1, 3):
        rows = np.repeat(row, 3, axis=0)
        rows[:, j] = range(3)
        p = np.exp(clf.predict_joint_log_proba(rows))
        p /= p.sum()
        expected = (p * np.log(p / (p.sum(axis=0) * p.sum(axis=1, keepdims=True)))).sum()
        assert found.information[0, j] == pytest.approx(expected)
    assert np.isnan(found.information[0, [0, 2]]).all()


def test_it_is_described_and_shown(capsys):
    from fanbayes.commands.output import screen

    X, y = mixed()
    about = AODEClassifier().fit(X, y).describe()
    assert about["n_stars"] == 3
    assert about["n_cases"] == 300
    assert {f["feature"] for f in about["features"]} == {"x", "z", "k"}
    _printer(about)(screen(), "m", about, 2)
    shown = capsys.readouterr().out
    assert "the mean of 3 stars" in shown
    assert "and 1 more" in shown


# ---------------------------------------------------------------- hard input


@pytest.mark.filterwarnings(CONSTANT)
@pytest.mark.parametrize(
    ("X", "y"),
    [
        ([[1.0]], [0]),
        ([[1.0, 2.0], [3.0, 4.0]], [0, 1]),
        ([[1.0, np.nan], [1.0, np.nan]], [0, 1]),
        (np.full((5, 3), np.nan), [0, 0, 1, 1, 1]),
        (np.vander(np.arange(20.0), 5), [0] * 19 + [1]),
        (1e300 * np.random.default_rng(0).normal(size=(30, 4)), np.arange(30) % 3),
        (1 + 1e-15 * np.random.default_rng(0).normal(size=(30, 4)), np.arange(30) % 3),
    ],
)
def test_hard_input_gives_probabilities(X, y):
    clf = AODEClassifier().fit(X, y)
    for rows in (X, np.full_like(np.asarray(X, float), np.nan)):
        proba = clf.predict_proba(rows)
        np.testing.assert_allclose(proba.sum(axis=1), 1.0)
        assert np.isfinite(clf.score_samples(rows)).all()
    np.testing.assert_allclose(clf.predict_proba(rows)[0], clf.class_prior_)
    clf.sample(5, random_state=0)
    if len(clf.classes_) > 1:
        clf.explain(rows)


def test_two_thousand_columns():
    rng = np.random.default_rng(0)
    X, y = rng.integers(2, size=(40, 2000)).astype(float), np.arange(40) % 2
    X[rng.random(X.shape) < 0.001] = np.nan
    clf = AODEClassifier(categorical_features="all").fit(X, y)
    np.testing.assert_allclose(clf.predict_proba(X[:8])[np.arange(8), y[:8]], 1.0)


@pytest.mark.filterwarnings("ignore:most rows have a category of their own")
def test_more_counts_than_memory_are_refused_before_they_are_made(monkeypatch):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"zip": rng.permutation(5000).astype(str), "id": rng.permutation(5000).astype(str)})
    monkeypatch.setattr(aode, "MOST_COUNTS", 10**6)
    with pytest.raises(ValueError, match=r"10000 levels in all .* more than 1,000,000 .* leave out columns or merge"):
        AODEClassifier().fit(X, np.arange(5000) % 2)


def test_continuous_columns_are_refused_where_they_are_not_to_be_binned():
    X, y = mixed()
    with pytest.raises(ValueError, match="column 'x' is continuous"):
        AODEClassifier(discretize="none").fit(X, y)
    assert AODEClassifier(discretize="none").fit(X[["k"]], y).aode_.n_components == 1


@pytest.mark.parametrize(
    "settings", [{"alpha": 0}, {"min_frequency": -1}, {"discretize": "maybe"}, {"min_frequency": np.nan}]
)
def test_settings_without_meaning_are_refused(settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        AODEClassifier(**settings).fit([[0.0], [1.0]], [0, 1])
