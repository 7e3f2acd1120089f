"""What a missing value would tell, against probabilities asked of the classifier itself, and by hand."""

import numpy as np
import pandas as pd
import pytest
from builders import changed, make_world, part
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import SelectFromModel

from fanbayes import (
    AODEClassifier,
    BoostedNBClassifier,
    FANClassifier,
    FANClassifierCV,
    FMClassifier,
    MDAClassifier,
    NBClassifier,
    NBTreeClassifier,
    TANClassifier,
)
from fanbayes.explanation.information import feature_information, information_gain


def entropy(p):
    return -(p * np.log(np.where(p > 0, p, 1.0))).sum(axis=-1)


def asked_of_the_classifier(clf, row, feature, values, steps):
    """I(C; X_i | x) from predict_proba and densities of the row with each value of the feature."""
    rows = row.loc[row.index.repeat(len(values))].reset_index(drop=True)
    rows[feature] = values
    weight = np.exp(clf.score_samples(rows) - clf.score_samples(row)) * steps
    assert weight.sum() == pytest.approx(1, abs=1e-6)
    return entropy(clf.predict_proba(row))[0] - weight @ entropy(clf.predict_proba(rows))


@pytest.mark.parametrize("name", ["nb", "fan", "per class", "binned", "fm"])
def test_information_of_a_missing_value(name, explained_models, explained_rows):
    clf, X = explained_models[name], explained_rows[0]
    found = clf.explain(X)
    for r in np.flatnonzero(X["colour"].isna())[:4]:
        row = X.iloc[[r]]
        expected = asked_of_the_classifier(clf, row, "colour", ["red", "green", "blue", "grey"], 1.0)
        assert found.information[r, 0] == pytest.approx(expected, abs=1e-10)
    if name == "binned":
        return
    grid = np.linspace(-25, 25, 20_001)
    for r in np.flatnonzero(X["mass"].isna())[:4]:
        expected = asked_of_the_classifier(clf, X.iloc[[r]], "mass", grid, grid[1] - grid[0])
        assert found.information[r, 3] == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("kind", ["fan", "fm", "ragged"])
def test_information_of_narrow_cells(kind):
    """Densities a thousandfold apart in width, against a fine rule between all their standard deviations."""
    from fanbayes.data.schema import Column, Schema

    rng = np.random.default_rng(5)
    world = make_world(1, kind, 4, levels=(), n_numbers=1)
    mean, structure = part(world.network, "mean"), world.network.structure
    sigma2 = np.exp(rng.uniform(np.log(1e-6), np.log(2), mean.shape))
    network = changed(world.network, sigma2=sigma2)
    states = rng.dirichlet([0.5] * structure.n_states, 3)
    schema = Schema((Column("x", "continuous", "float64", centre=0.0, scale=1.0),), None)
    found = information_gain(network, schema, states, np.array([[True], [True], [False]]))
    assert np.isnan(found[2, 0])
    mean, sigma = mean[0, 0, structure.cell_of], np.sqrt(sigma2[0, 0, structure.cell_of])
    edges = np.unique(mean[:, None] + sigma[:, None] * np.linspace(-9, 9, 37))
    nodes, weights = np.polynomial.legendre.leggauss(30)
    half = np.diff(edges)[:, None] / 2
    x = ((edges[1:] + edges[:-1])[:, None] / 2 + half * nodes).ravel()
    density = np.exp(-0.5 * ((x - mean[:, None]) / sigma[:, None]) ** 2) / sigma[:, None] / np.sqrt(2 * np.pi)
    for r in range(2):
        joint = np.array([(states[r] * (structure.class_of == c)) @ density for c in range(structure.n_classes)])
        prior = np.bincount(structure.class_of, states[r])
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = np.nan_to_num(joint * np.log(joint / joint.sum(axis=0) / prior[:, None]))
        expected = terms.sum(axis=0) @ (half * weights).ravel()
        assert found[r, 0] == pytest.approx(expected, abs=1e-10)


def test_information_of_cells_narrower_than_rounding():
    """Two classes at one place to the last digit, and two at places next to it: no and all doubt is removed."""
    X, y = np.array([[1e6 + 0.25], [1e6 + 1.5]] * 10), [0, 1] * 10
    clf = NBClassifier().fit(X, y)
    for mean, expected in (([1.0, 1.0], 0.0), ([1.0, 1.0 + 1e-9], np.log(2))):
        network = changed(clf.network_, mean=np.reshape(mean, (1, 1, 2)), sigma2=np.full((1, 1, 2), 1e-90))
        gain = information_gain(network, clf.schema_, np.array([[0.5, 0.5]]), np.ones((1, 1), dtype=bool))
        np.testing.assert_allclose(gain, expected, atol=1e-4)


def test_information_by_hand():
    """A feature that tells the class exactly is worth its entropy, one that tells nothing is worth nothing."""
    X = pd.DataFrame({"tells": ["u", "v"] * 500, "noise": ["p", "p", "q", "q"] * 250})
    clf = NBClassifier(alpha=1e-9).fit(X, [0, 1] * 500)
    np.testing.assert_allclose(feature_information(clf.network_, clf.schema_), [np.log(2), 0.0], atol=1e-9)


@pytest.mark.parametrize(
    "clf",
    [
        NBClassifier(),
        FMClassifier(3, random_state=0),
        FANClassifier(2, random_state=0),
        TANClassifier(),
        MDAClassifier(2, random_state=0),
        AODEClassifier(),
        BoostedNBClassifier(random_state=0),
        NBTreeClassifier(random_state=0),
        FANClassifierCV(effort="fast", random_state=0),
    ],
    ids=lambda clf: type(clf).__name__,
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_importances_are_shares_of_the_information(clf):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 200)
    X = pd.DataFrame(
        {
            "strong": rng.normal(3 * y, 1),
            "noise": rng.normal(size=200),
            "same": "x",
            "weak": np.where(rng.random(200) < 0.75, y, 1 - y).astype(str),
        }
    )
    with pytest.raises(NotFittedError):
        _ = clf.feature_importances_
    clf.fit(X, y)
    found = clf.feature_importances_
    assert found.shape == (4,)
    assert (found >= 0).all()
    assert found.sum() == pytest.approx(1)
    assert found[0] > found[3] > found[1] >= 0
    assert found[2] == 0
    information = {f["feature"]: f["information"] for f in clf.describe()["features"]}
    np.testing.assert_allclose(found, np.array([information[name] for name in X]) / sum(information.values()))
    assert (SelectFromModel(clf, prefit=True).get_support() == (found >= found.mean())).all()


def test_where_nothing_tells_anything_importances_are_zero():
    with pytest.warns(UserWarning, match="no column tells anything"):
        clf = NBClassifier().fit([[1.0]] * 6, [0, 1] * 3)
    assert clf.feature_importances_.tolist() == [0.0]
