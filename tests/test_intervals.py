"""Intervals of parameters and of probabilities, as a user asks for them."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.exceptions import NotFittedError

import fanbayes
from fanbayes import FANClassifier, FMClassifier, MDAClassifier, NBClassifier, TANClassifier
from fanbayes.estimators import intervals
from fanbayes.files.container import pack, unpack
from fanbayes.files.model_file import from_state, to_state


def table(n=240, seed=0):
    """Numbers, counts and categories with values missing, two components in each of three classes."""
    rng = np.random.default_rng(seed)
    y, h = rng.integers(0, 3, n), rng.integers(0, 2, n)
    frame = pd.DataFrame(
        {
            "length": rng.normal(y + 4.0 * h, 1.0),
            "width": rng.normal(y - 2.0 * h, 1.0),
            "visits": rng.poisson(30.0 + 5 * y).astype(float),
            "colour": rng.choice(["red", "green", "blue"], n),
            "flag": np.where(rng.random(n) < 0.2 + 0.5 * h, "on", "off").astype(object),
        }
    )
    frame.loc[rng.random(n) < 0.1, "length"] = np.nan
    frame.loc[rng.random(n) < 0.1, "flag"] = None
    return frame, np.array(["a", "b", "c"], dtype=object)[y]


COUNTS = {"distributions": {"visits": "poisson"}}
MODELS = {
    "NB": NBClassifier(**COUNTS),
    "NB, binned": NBClassifier(discretize="mdlp"),
    "NB, paper": NBClassifier(variance_estimator="paper"),
    "FAN": FANClassifier(2, random_state=0, **COUNTS),
    "FAN, CEM": FANClassifier(2, random_state=0, algorithm="cem", missing="informative"),
    "FAN, per class": FANClassifier({"a": 1, "b": 2, "c": 2}, mixing="per_class", random_state=0),
    "FAN, tied": FANClassifier(2, variance_tying="class", random_state=0),
    "FAN, tree": FANClassifier(2, tree="full", random_state=0),
    "FM": FMClassifier(3, random_state=0),
    "TAN": TANClassifier(tree="full"),
    "MDA": MDAClassifier(1, random_state=0),
}


@pytest.mark.filterwarnings("ignore::fanbayes.DataWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", MODELS)
def test_every_network_has_intervals_that_files_keep(name, tmp_path):
    X, y = table()
    X["constant"] = 7.0
    y[::7] = None  # no label
    clf = MODELS[name].fit(X, y).draw_parameters(X, y, n_draws=19, random_state=0)
    assert len(clf.draws_) == 19
    ends = clf.predict_proba_interval(X[:50])
    assert ends.shape == (50, 3, 2)
    assert np.isfinite(ends).all()
    assert (ends[..., 0] < ends[..., 1]).all()
    proba = clf.predict_proba(X[:50])
    assert ((ends[..., 0] <= proba) & (proba <= ends[..., 1])).mean() > 0.9
    for feature in X:
        found = clf.feature_table(feature, interval=0.9)
        assert list(found)[: len(clf.feature_table(feature).columns)] == list(clf.feature_table(feature))
        for column in {"probability", "mean", "variance", "rate", "missing", "slope"} & set(found):
            assert (found[f"{column}_lower"] <= found[f"{column}_upper"]).all()
    fanbayes.save(clf, tmp_path / "model")
    loaded = fanbayes.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba_interval(X[:50]), ends)
    pd.testing.assert_frame_equal(loaded.feature_table("flag", 0.9), clf.feature_table("flag", 0.9))


def test_intervals_of_naive_bayes_are_those_of_the_posterior_in_the_columns_unit():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"height": 170 + 10 * rng.normal(size=60), "eyes": rng.choice(["blue", "brown"], 60)})
    y = np.repeat([0, 1], 30)
    clf = NBClassifier().fit(X, y).draw_parameters(X, y, n_draws=4000, random_state=0)
    found = clf.feature_table("height", interval=0.9)
    s2 = X["height"].var(ddof=0)
    x = X["height"][:30] - X["height"].mean()
    mean, a = x.sum() / 30.01, 1.5 + 15
    b = s2 + ((x**2).sum() - x.sum() * mean) / 2
    t = stats.t(2 * a, X["height"].mean() + mean, np.sqrt(b / a / 30.01))
    scale = t.std() / np.sqrt(4000)
    np.testing.assert_allclose([found["mean_lower"][0], found["mean_upper"][0]], t.ppf([0.05, 0.95]), atol=8 * scale)
    variances = stats.invgamma(a, scale=b).ppf([0.05, 0.95])
    np.testing.assert_allclose([found["variance_lower"][0], found["variance_upper"][0]], variances, rtol=0.03)
    n = (X["eyes"][:30] == "blue").sum()
    eyes = clf.feature_table("eyes", interval=0.9)
    expected = stats.beta(1 + n, 1 + 30 - n).ppf([0.05, 0.95])
    np.testing.assert_allclose([eyes["probability_lower"][0], eyes["probability_upper"][0]], expected, atol=0.01)


def test_probabilities_are_quantiles_over_the_draws_however_many_rows_are_held_at_once(monkeypatch):
    X, y = table()
    clf = FANClassifier(2, random_state=0).fit(X, y).draw_parameters(X, y, n_draws=39, random_state=0)
    ends = clf.predict_proba_interval(X, interval=0.95)
    monkeypatch.setattr(intervals, "_AT_ONCE", 3 * 39 * 7)
    np.testing.assert_array_equal(clf.predict_proba_interval(X, interval=0.95), ends)
    fitted, proba = clf.network_, []
    for network in clf.draws_.each():
        clf.network_ = network
        proba.append(clf.predict_proba(X))
    clf.network_ = fitted
    np.testing.assert_allclose(ends[..., 0], np.min(proba, axis=0), rtol=1e-12)  # 2.5 % of 40
    np.testing.assert_allclose(ends[..., 1], np.max(proba, axis=0), rtol=1e-12)


@pytest.mark.parametrize("model", [NBClassifier, lambda **k: FANClassifier(2, random_state=0, **k)], ids=["NB", "FAN"])
def test_the_same_seed_gives_the_same_bits_on_any_number_of_threads(model):
    X, y = table(2000)
    found = [
        model(n_jobs=n).fit(X, y).draw_parameters(X, y, n_draws=20, random_state=seed).draws_
        for n, seed in ((1, 0), (2, 0), (1, 1))
    ]
    np.testing.assert_array_equal(found[0].cells, found[1].cells)
    np.testing.assert_array_equal(found[0].factors, found[1].factors)
    assert (found[0].cells != found[2].cells).any()


def test_weight_2_is_the_row_twice():
    """Of the posterior, the draws themselves are the same; of a bootstrap, their distribution is."""
    X, y = table(300)
    twice, weights = pd.concat([X, X], ignore_index=True), np.full(len(X), 2.0)

    def drawn(model, n_draws):
        once = model.fit(X, y, weights).draw_parameters(X, y, weights, n_draws=n_draws, random_state=0).draws_
        y2 = np.concatenate([y, y])
        return once.cells, model.fit(twice, y2).draw_parameters(twice, y2, n_draws=n_draws, random_state=0).draws_.cells

    np.testing.assert_allclose(*drawn(NBClassifier(), 20), rtol=1e-7, atol=1e-9)
    a, b = (x.std(axis=0) for x in drawn(FANClassifier(2, random_state=0), 150))
    moved = a > 0
    assert np.abs(np.log(a[moved] / b[moved])).mean() < 0.1  # sqrt(2 / pi) / sqrt(150) = 0.065 by chance
    assert abs(np.log(a[moved] / b[moved]).mean()) < 0.04


def test_more_rows_narrow_the_intervals():
    widths = []
    for n in (150, 2400):
        X, y = table(n)
        clf = FANClassifier(2, random_state=0).fit(X, y).draw_parameters(X, y, n_draws=60, random_state=0)
        found = clf.feature_table("width", 0.9)
        widths.append((found["mean_upper"] - found["mean_lower"]).mean())
    assert widths[0] / widths[1] == pytest.approx(4, rel=0.3)


def test_an_estimate_of_many_levels_is_inside_its_interval():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"code": rng.zipf(1.4, 800).clip(max=300).astype(str)})
    y = rng.integers(0, 2, 800)
    clf = NBClassifier().fit(X, y).draw_parameters(X, y, random_state=0)
    found = clf.feature_table("code", interval=0.9)
    often = found[found["probability"] > 0.01]
    assert len(often) > 10
    assert often["probability"].between(often["probability_lower"], often["probability_upper"]).all()


def test_fit_forgets_the_draws_of_other_rows():
    X, y = table()
    clf = NBClassifier().fit(X, y).draw_parameters(X, y, n_draws=20, random_state=0)
    assert not hasattr(clf.fit(X[:100], y[:100]), "draws_")
    clf.draw_parameters(X[:100], y[:100], n_draws=20, random_state=0)
    assert not hasattr(clf.partial_fit(X[100:], y[100:]), "draws_")


def test_rows_of_several_calls_are_known_by_their_number(tmp_path):
    X, y = table()
    clf = FANClassifier(2, random_state=0).partial_fit(X[:140], y[:140], classes=list("abc"))
    clf.draw_parameters(X[:140], y[:140], n_draws=2, random_state=0)
    clf.partial_fit(X[140:], y[140:])
    fanbayes.save(clf, tmp_path / "m.fan")
    for one in (clf, fanbayes.load(tmp_path / "m.fan")):
        one.draw_parameters(X, y, n_draws=2, random_state=0)
        with pytest.warns(UserWarning, match="the number of these rows is 100, that of the rows of fit 240"):
            one.draw_parameters(X[140:], y[140:], n_draws=2, random_state=0)


def test_what_cannot_be_is_said():
    X, y = table()
    clf = NBClassifier()
    with pytest.raises(NotFittedError):
        clf.draw_parameters(X, y)
    clf.fit(X, y)
    with pytest.raises(NotFittedError, match="draw_parameters"):
        clf.feature_table("flag", interval=0.9)
    with pytest.raises(NotFittedError, match="draw_parameters"):
        clf.predict_proba_interval(X)
    with pytest.raises(ValueError, match="n_draws=1 must be at least 2"):
        clf.draw_parameters(X, y, n_draws=1)
    with pytest.raises(ValueError, match="random_state"):
        clf.draw_parameters(X, y, random_state="now")
    with pytest.warns(UserWarning, match="log-likelihood of these rows"):
        clf.draw_parameters(X[:100], y[:100], n_draws=20, random_state=0)
    clf.draw_parameters(X, y, n_draws=19, random_state=0)
    assert clf.predict_proba_interval(X).shape == (240, 3, 2)
    with pytest.raises(ValueError, match="needs 39 draws, and there are 19"):
        clf.predict_proba_interval(X, interval=0.95)
    for wrong in (0, 1, 1.5, np.nan, -1):
        with pytest.raises(ValueError, match="interval"):
            clf.predict_proba_interval(X, interval=wrong)
    with pytest.raises(TypeError, match="interval='wide' must be a number"):
        clf.feature_table("flag", interval="wide")
    with pytest.raises(ValueError, match="'d'"):
        clf.draw_parameters(X, ["d"] * 240)
    with pytest.raises(ValueError, match="feature names"):
        clf.draw_parameters(X.drop(columns="flag"), y)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda a: a.pop("draws/cells"), "arrays that it should"),
        (lambda a: a.update({"draws/more": np.zeros(3)}), "arrays that it should"),
        (lambda a: a.update({"draws/cells": a["draws/cells"][:5]}), "shape"),
        (lambda a: a.update({"draws/factors": np.float64(0.0).reshape(())}), "no draws"),
        (
            lambda a: a.update({"draws/factors": a["draws/factors"][:0], "draws/cells": a["draws/cells"][:0]}),
            "no draws",
        ),
        (lambda a: a.update({"draws/factors": a["draws/factors"] + 1}), "sum to one"),
        (lambda a: a.update({"draws/cells": a["draws/cells"] * np.nan}), "no numbers"),
        (lambda a: a.update({"draws/cells": a["draws/cells"] * 2}), "sum to one"),
    ],
)
def test_damaged_draws_are_refused(damage, reason):
    X, y = table()
    clf = NBClassifier().fit(X, y).draw_parameters(X, y, n_draws=20, random_state=0)
    header, arrays = unpack(pack(*to_state(clf)))
    damage(arrays)
    with pytest.raises(ValueError, match=reason):
        from_state(header, arrays)
