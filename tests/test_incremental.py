"""partial_fit: naive Bayes learns in pieces what it learns at once, FAN and FM by online EM."""

import pickle
import sys
from pathlib import Path

import builders
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone

import fanbayes
from fanbayes import FANClassifier, FMClassifier, MDAClassifier, NBClassifier, TANClassifier
from fanbayes.learning.online import EXPONENT, MINIBATCH, online_em

CLASSES = ["a", "b", "c"]

# A column may be constant for a while, and a code have few values.
pytestmark = pytest.mark.filterwarnings("ignore::fanbayes.DataWarning")


def rows(n=240, seed=0):
    """Columns of all kinds: categories that come late, numbers that are constant, huge, tiny or missing for a while."""
    rng = np.random.default_rng(seed)
    y = rng.choice(CLASSES, n, p=[0.5, 0.4, 0.1])
    shift = np.array([ord(c) - 98.0 for c in y])
    late = np.arange(n) >= n // 2
    X = pd.DataFrame(
        {
            "text": rng.choice(["u", "v"], n),
            "postcode": [f"p{k:02}" for k in rng.integers(0, 40, n)],
            "flag": rng.random(n) < 0.3,
            "level": pd.Categorical(rng.choice(["s", "m"], n), ["l", "m", "s"]),
            "x": 1e6 + shift + rng.normal(size=n),
            "late": np.where(late, rng.normal(size=n), 3.0),
            "huge": shift * 1e300 * rng.random(n),
            "tiny": np.where(late, 1e-300, 1e-310) * rng.random(n),
            "count": rng.poisson(2.0 + shift),
            "constant": 7.0,
        }
    )
    X.loc[late & (rng.random(n) < 0.2), "text"] = "new"
    for name in ("text", "x", "late", "huge"):
        X.loc[rng.random(n) < 0.15, name] = None
    X.loc[: n // 3, "text"] = None  # nothing at first
    return X, y.astype(object), rng.choice([0.0, 0.5, 1.0, 2.7], n)


def in_pieces(clf, X, y, weights, at, classes=CLASSES):
    """Learnt from pieces of the rows, each given by its row numbers."""
    for some in at:
        part = X.iloc[some] if isinstance(X, pd.DataFrame) else X[some]
        clf.partial_fit(part, y[some], classes, None if weights is None else weights[some])
    return clf


def assert_same(one, other, X, tol=1e-9):
    assert one.classes_.tolist() == other.classes_.tolist()
    for a, b in zip(one.schema_.columns, other.schema_.columns, strict=True):
        assert (a.name, a.kind, a.dtype, a.levels, a.exponent) == (b.name, b.kind, b.dtype, b.levels, b.exponent)
        numbers = [(c.low, c.high, c.centre, c.scale, c.mean) for c in (a, b)]
        np.testing.assert_allclose(*numbers, rtol=tol, atol=tol)
    assert one.schema_.indicates == other.schema_.indicates
    for name in ("factors", "cells", "shared"):
        np.testing.assert_allclose(getattr(one.network_, name), getattr(other.network_, name), rtol=tol, atol=tol)
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), atol=tol)
    np.testing.assert_allclose(one.log_likelihood_, other.log_likelihood_, rtol=tol)
    theirs = other.describe()["scores"]
    assert one.describe()["scores"] == pytest.approx(theirs, rel=tol)


MODELS = {
    "default": NBClassifier(),
    "options": NBClassifier(alpha=0.3, variance_tying="all", variance_floor=1e-3, algorithm="cem"),
    "paper": NBClassifier(variance_estimator="paper", missing="informative"),
    "counts": NBClassifier(distributions={"count": "poisson"}, missing="informative"),
    "codes": NBClassifier(categorical_features=["text", "postcode", "flag", "level", "count"]),
}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("order", ["as they come", "shuffled", "by class"])
def test_naive_bayes_in_pieces_is_naive_bayes_at_once(model, order):
    X, y, weights = rows()
    places = np.arange(len(X))
    rng = np.random.default_rng(1)
    places = {"as they come": places, "shuffled": rng.permutation(places), "by class": np.argsort(y)}[order]
    cuts = np.sort(rng.choice(np.arange(1, len(X)), 4, replace=False))
    w = None if order == "shuffled" else weights
    pieces = in_pieces(clone(MODELS[model]), X, y, w, np.split(places, cuts))
    assert_same(pieces, clone(MODELS[model]).fit(X, y, w), X)


def test_row_by_row_with_integers_as_categories():
    X, y, _ = rows(30)
    X = X[["x", "count", "flag"]]
    clf = NBClassifier(categorical_features=[1, 2])
    one_by_one = [[i] for i in np.random.default_rng(2).permutation(len(X))]
    assert_same(in_pieces(clone(clf), X, y, None, one_by_one), clone(clf).fit(X, y), X)


@pytest.mark.parametrize("library", ["numpy", "objects", "polars", "arrow"])
def test_any_library(library):
    X, y, weights = rows()
    if library == "numpy":
        X = X[["x", "late", "count"]].to_numpy()
    elif library == "objects":
        X = X[["text", "postcode"]].astype(object).to_numpy()
    elif library == "polars":
        X = pl.from_pandas(X)
    else:
        X = pa.Table.from_pandas(X, preserve_index=False)
        X = X.set_column(0, "text", X.column("text").dictionary_encode())
    pieces = np.split(np.arange(len(y)), [50, 120])
    clf = NBClassifier()
    for some in pieces:
        part = X.take(some) if library == "arrow" else X[some]
        clf.partial_fit(part, y[some], CLASSES, weights[some])
    assert_same(clf, NBClassifier().fit(X, y, weights), X)


def test_it_goes_on_after_files_and_pickles(tmp_path):
    X, y, weights = rows()
    clf = NBClassifier(missing="informative")
    for k, some in enumerate(np.split(np.arange(len(X)), [60, 90, 130])):
        clf.partial_fit(X.iloc[some], y[some], CLASSES, weights[some])
        if k % 2:
            clf = pickle.loads(pickle.dumps(clf))
        else:
            fanbayes.save(clf, tmp_path / "model.fan")
            clf = fanbayes.load(tmp_path / "model.fan")
    assert_same(clf, clone(clf).fit(X, y, weights), X)


def test_fit_begins_anew_and_partial_fit_goes_on_from_it():
    X, y, weights = rows()
    clf = NBClassifier(missing="informative").partial_fit(X[100:], y[100:], CLASSES)
    clf.fit(X[:150], y[:150], weights[:150])
    fresh = clone(clf).fit(X[:150], y[:150], weights[:150])
    assert (clf.predict_proba(X) == fresh.predict_proba(X)).all()
    clf.partial_fit(X[150:], y[150:], sample_weight=weights[150:])
    assert_same(clf, clone(clf).fit(X, y, weights), X)


def test_it_does_not_go_on_from_rows_without_labels():
    X, y, _ = rows()
    clf = NBClassifier().fit(X, np.where(np.arange(len(y)) < 9, None, y))
    with pytest.raises(ValueError, match="naive Bayes only of labelled ones"):
        clf.partial_fit(X, y)


def test_a_class_that_does_not_occur_has_its_prior():
    X, y, _ = rows()
    known = y != "c"
    clf = NBClassifier(alpha=1).partial_fit(X[known], y[known], CLASSES)
    assert clf.class_prior_[2] == pytest.approx(1 / (known.sum() + 3))
    assert np.isfinite(clf.predict_proba(X)).all()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda X, y: (X, np.where(y == "a", "z", y)),
            r"y holds 'z', which is not among the classes \['a', 'b', 'c'\]",
        ),
        (lambda X, y: (X, np.where(y == "a", None, y)), "row [0-9]+ of y has no label"),
        (
            lambda X, y: (X.assign(x="u"), y),
            "column 'x' holds numbers in earlier calls and strings in this call",
        ),
        (lambda X, y: (X.assign(flag="no"), y), "column 'flag' holds booleans in earlier calls and strings in this"),
        (lambda X, y: (X.assign(text=1.5), y), "column 'text' holds strings in earlier calls and numbers in this"),
        (lambda X, y: (X.assign(count=-1), y), "column 'count' holds -1 in row 0; as poisson it takes whole numbers"),
        (lambda X, y: (X.drop(columns="x"), y), "feature names should match"),
    ],
)
def test_what_does_not_fit_is_refused_and_changes_nothing(change, said):
    X, y, _ = rows()
    clf = NBClassifier(distributions={"count": "poisson"}, allow_missing_columns=True)
    clf.partial_fit(X[100:], y[100:], CLASSES)
    before = clf.predict_proba(X)
    with pytest.raises(ValueError, match=said):
        clf.partial_fit(*change(X[:100], y[:100]))
    assert (clf.predict_proba(X) == before).all()
    assert clf.n_features_in_ == X.shape[1]
    clf.partial_fit(X[:100], y[:100])
    assert_same(clf, clone(clf).fit(X, y), X)


def test_classes_are_given_once():
    X, y, _ = rows()
    with pytest.raises(ValueError, match="the first call of partial_fit needs classes"):
        NBClassifier().partial_fit(X, y)
    clf = NBClassifier().partial_fit(X, y, ["c", "b", "a"])
    assert clf.classes_.tolist() == CLASSES
    with pytest.raises(ValueError, match=r"classes is \['a', 'b'\], but \['a', 'b', 'c'\] in the first call"):
        clf.partial_fit(X, y, ["a", "b"])


def test_models_that_need_all_rows_have_no_partial_fit():
    needing = [NBClassifier(discretize="mdlp"), FANClassifier(2, tree="full"), MDAClassifier(2), TANClassifier()]
    assert not any(hasattr(clf, "partial_fit") for clf in needing)
    with pytest.raises(AttributeError) as raised:
        needing[0].partial_fit  # noqa: B018
    assert "needs all rows at once" in str(raised.value.__cause__)


# ---------------------------------------------------------------- online EM


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "clf",
    [
        FANClassifier(2, random_state=0, distributions={"count": "poisson"}, missing="informative"),
        FANClassifier({"a": 1, "b": 2, "c": 2}, mixing="per_class", algorithm="cem", random_state=0),
        FMClassifier(3, random_state=0, variance_tying="all"),
    ],
    ids=["fan", "per class", "fm"],
)
def test_online_em_goes_on_as_if_nothing_had_happened_between(clf, tmp_path):
    """Categories and columns that come late, unlabelled rows, weights; files and pickles in between change no bit."""
    X, y, weights = rows()
    y = np.where(np.arange(len(y)) % 7 == 6, None, y)
    straight, stored = clone(clf), clone(clf)
    for some in np.split(np.arange(len(X)), [100, 130, 200]):
        straight.partial_fit(X.iloc[some], y[some], CLASSES, weights[some])
        stored.partial_fit(X.iloc[some], y[some], CLASSES, weights[some])
        fanbayes.save(stored, tmp_path / "model.fan")
        stored = pickle.loads(pickle.dumps(fanbayes.load(tmp_path / "model.fan")))
    assert (straight.predict_proba(X) == stored.predict_proba(X)).all()
    assert np.isfinite(straight.predict_proba(X)).all()
    assert straight._totals.states.sum() == pytest.approx(weights.sum())
    whole = clone(clf).fit(X, y, weights).schema_
    assert [(c.kind, c.levels, c.low, c.high) for c in straight.schema_.columns] == [
        (c.kind, c.levels, pytest.approx(c.low, nan_ok=True), pytest.approx(c.high, nan_ok=True)) for c in whole.columns
    ]
    assert straight.describe()["n_components"] == straight.n_components_


def test_online_em_goes_on_from_a_fit():
    X, y, _ = rows()
    clf = FANClassifier(2, random_state=0).fit(X[:200], y[:200])
    other = FANClassifier(2, random_state=0).partial_fit(X[:200], y[:200], CLASSES)
    for model in (clf, other):
        model.partial_fit(X[200:], y[200:])
    assert (clf.predict_proba(X) == other.predict_proba(X)).all()


def test_online_em_needs_a_label_to_begin_with():
    X, y, _ = rows()
    with pytest.raises(ValueError, match="at least one row of y a class in the first call"):
        FMClassifier(2).partial_fit(X, np.full(len(y), None), CLASSES)


def test_one_step_of_online_em_is_its_definition():
    """(O1), of a table that is one minibatch."""
    world = builders.make_world(3, "fan", 2, levels=(2, 3), n=300)
    data, model = world.problem().data, world.network.model
    before = data.e_step(world.network.terms)
    n = float(before.states.sum())
    after = online_em(model, before, data.table)
    found = data.e_step(model.estimate(before).terms)
    g = max(0.5, 1 - (1 - (1 + n / MINIBATCH) ** -EXPONENT) ** (n / MINIBATCH))
    np.testing.assert_allclose(after.statistics.cells, 2 * ((1 - g) * before.cells + g * found.cells))
    np.testing.assert_allclose(after.network.cells, model.estimate(after.statistics).cells)
    assert after.trace == (pytest.approx(float(found.log_likelihood[0]) / n),)


def test_one_sweep_keeps_most_of_what_em_gains():
    """A small version of the benchmark."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))
    from online import share_kept

    found = share_kept("overlapping components", 30_000, first=1_000, each=10_000, held_out=5_000)
    assert found["gain"] > 0.1
    assert found["kept"] > max(0.9, found["start"])
