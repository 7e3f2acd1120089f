"""Models that no data would give, and that a file may hold: every method answers with numbers."""

import copy
from dataclasses import replace

import builders
import numpy as np
import pandas as pd
import pytest

from fanbayes import FANClassifier, FANClassifierCV, FMClassifier, NBClassifier, load, save
from fanbayes.data.schema import Column
from fanbayes.explanation.information import information_gain

FEW = {"n_init": 2, "random_state": 0}
MODELS = {
    "nb": NBClassifier(),
    "fan": FANClassifier(n_components=3, **FEW),
    "per class": FANClassifier(n_components=3, mixing="per_class", **FEW),
    "many": FANClassifier(n_components=20, n_init=1, tol=1.0, random_state=0),
    "fm": FMClassifier(n_components=4, **FEW),
}
# Values that parameters are drawn from.
EXTREMES = {
    "far": {"mean": [-1e100, 0.0, 1.0, 1e100]},
    "narrow and wide": {"sigma2": [1e-100, 1.0, 1e100]},
    "far, narrow and wide": {"mean": [-1e100, 0.0, 1e50], "sigma2": [1e-100, 1.0, 1e100]},
    "improbable levels": {"log_table": [0.0, -5.0, -700.0]},
    "impossible levels": {"log_table": [0.0, -5.0, -9e5]},
    "impossible components": {"factors": [0.0, -3.0, -700.0, -4e5]},
    "large units": {"exponent": [1024], "centre": [0.9], "scale": [0.25, 0.5]},
    "small units": {"exponent": [-1070], "centre": [0.0], "scale": [0.25, 0.5]},
}


def rows(n=60):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.choice(list("abc"), n), "b": rng.choice(list("xy"), n)})
    return X.assign(u=rng.normal(size=n), v=rng.normal(3, 2, n)), rng.choice(["p", "q", "r"], n)


def gappy():
    """Rows with values missing, one far from everything, and one without any value."""
    X, _ = rows(8)
    X.loc[:3, "a"] = X.loc[7, ["a", "b"]] = None
    X.loc[1:5, "u"] = X.loc[2:6, "v"] = X.loc[7, ["u", "v"]] = np.nan
    X.loc[0, "u"] = 1e300
    return X


def drawn(network, extremes, rng):
    """The network with parameters drawn from extreme values, normalised."""
    found = {
        name: rng.choice(extremes[name], builders.part(network, name).shape)
        for name in ("mean", "sigma2", "log_table")
        if name in extremes
    }
    if network.shared.size and "sigma2" in found:
        del found["sigma2"]
        found["shared"] = rng.choice(extremes["sigma2"], network.shared.shape)
    if "log_table" in found:
        found["log_table"], _ = network.model.places[0].block.project(found["log_table"], np.zeros(0))
    if "factors" in extremes:
        found["factors"] = network.structure.normalise(rng.choice(extremes["factors"], network.factors.shape))
    return builders.changed(network, **found)


def extreme(clf, extremes):
    rng = np.random.default_rng(0)
    units = {name: extremes[name] for name in ("exponent", "centre", "scale") if name in extremes}
    columns = tuple(
        replace(c, **{name: rng.choice(values).item() for name, values in units.items()})
        if c.kind == "continuous"
        else c
        for c in clf.schema_.columns
    )
    clf = copy.copy(clf)
    clf.schema_, clf.network_ = replace(clf.schema_, columns=columns), drawn(clf.network_, extremes, rng)
    return clf


@pytest.fixture(scope="module", params=MODELS)
def fitted(request):
    return MODELS[request.param].fit(*rows())


@pytest.mark.parametrize("extremes", EXTREMES.values(), ids=EXTREMES)
def test_every_method_answers_with_numbers(fitted, extremes, tmp_path):
    X = gappy()
    save(extreme(fitted, extremes), tmp_path / "m.fan")
    clf = load(tmp_path / "m.fan")  # so it is valid
    for method in ("predict_proba", "predict_log_proba", "predict_components", "score_samples"):
        assert not np.isnan(getattr(clf, method)(X)).any()
    told = clf.explain(X)
    for name in ("log_odds", "prior", "contributions", "responsibility"):
        assert np.isfinite(getattr(told, name)).all(), name
    missing = np.array([[value is None for value in values] for values in told.values]).T
    assert (told.information[missing] >= 0).all()
    assert (told.information[missing] <= np.log(3) + 1e-3).all()
    found, _ = clf.sample(100, random_state=0)
    assert np.isfinite(found[["u", "v"]]).all(axis=None)
    shown = clf.describe()
    assert np.isfinite([feature["information"] for feature in shown["features"]]).all()
    assert np.isfinite([t["difference"] for c in shown["components"] for t in c["traits"]]).all()
    for name in X:
        assert not clf.feature_table(name).isna().any(axis=None)


def test_an_average_is_sampled():
    X, y = rows()
    clf = FANClassifierCV(effort="fast", random_state=0).fit(X, y)
    for extremes in EXTREMES.values():
        other = copy.copy(clf)
        network = drawn(clf.imputer_.network, extremes, np.random.default_rng(0))
        other.average_ = replace(clf.average_, imputer=replace(clf.imputer_, network=network))
        found, _ = other.sample(100, random_state=0)
        assert np.isfinite(found[["u", "v"]]).all(axis=None)


def test_a_binned_column_of_the_widest_range():
    X = np.linspace(-1.0, 1.0, 40)[:, None] * 1.7e308
    clf = NBClassifier(discretize="mdlp").fit(X, X[:, 0] > 1e300)
    found, _ = clf.sample(200, random_state=0)
    assert np.isfinite(found).all()
    assert (np.abs(found) <= 1.7e308).all()


def test_values_beyond_the_largest_number_are_cut():
    column = Column("x", "continuous", "float64", exponent=1024, centre=0.5, scale=0.5)
    found = column.restore(np.array([-1e100, -3.0, 0.0, 3.0, 1e100, np.nan]))
    np.testing.assert_array_equal(np.isfinite(found), [True] * 5 + [False])
    assert found[-1] != found[-1]
    assert found[2] == 2.0**1023


def test_information_of_cells_that_are_points():
    """Means that differ, with hardly any variance beside them: the feature tells the class."""
    world = builders.make_world(0, "nb", 1, levels=(), n_numbers=1)
    mean, schema = np.array([[[1e60, -1e60, 2e60]]]), NBClassifier().fit(np.arange(6.0)[:, None], [0, 1, 2] * 2).schema_
    network = builders.changed(world.network, mean=mean, sigma2=np.full_like(mean, 1e-60))
    states = np.full((1, 3), 1 / 3)
    gain = information_gain(network, schema, states, np.ones((1, 1), dtype=bool))
    np.testing.assert_allclose(gain, np.log(3), rtol=1e-4)
