"""p(x | class) of a feature, against what the classifier says of rows in which nothing else is known."""

import numpy as np
import pandas as pd
import pytest
from scipy import integrate

from fanbayes import FANClassifier, FMClassifier, MDAClassifier, NBClassifier, TANClassifier
from fanbayes.explanation.distributions import feature_distribution


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    group = rng.integers(0, 3, 240)
    X = pd.DataFrame(
        {
            "length": 1000 + 20 * rng.normal(2 * group, 1),
            "mass": rng.normal(-group, 0.5),
            "colour": np.array(["red", "green", "blue"])[(group + rng.integers(0, 2, 240)) % 3],
            "visits": rng.poisson(1 + 2 * group),
            "same": 1.0,
        }
    )
    return X, np.where(rng.random(240) < 0.85, np.array(["p", "q", "q"])[group], "p")


MODELS = {
    "nb": NBClassifier(distributions={"visits": "poisson"}),
    "fan": FANClassifier(3, random_state=0, distributions={"visits": "poisson"}),
    "per class": FANClassifier(2, mixing="per_class", random_state=0),
    "fm": FMClassifier(3, random_state=0),
    "binned": FANClassifier(2, discretize="mdlp", random_state=0),
    "mda": MDAClassifier(2, random_state=0),
    "tan": TANClassifier(),
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", MODELS)
def test_it_is_what_the_classifier_says(data, name):
    X, y = data
    clf = MODELS[name].fit(X, y)
    for feature in ("length", "mass", "colour", "visits"):
        if name == "tan" and feature != "colour":  # numbers are shown by their mean and variance alone
            continue
        found = feature_distribution(clf.network_, clf.schema_, feature)
        column = clf.schema_[feature]
        if found.levels is not None:
            inside = [*column.levels] or [column.low, *[c + 1e-9 for c in column.cuts]]
            values, total = inside, found.classes.sum(axis=0)
        else:
            values = found.x
            p = found.classes
            total = integrate.trapezoid(p, found.x, axis=0) if found.is_density else p.sum(axis=0)
        np.testing.assert_allclose(total, 1.0, rtol=2e-3)
        alone = pd.DataFrame({other: [None if other == "colour" else np.nan] * len(values) for other in X.columns})
        alone[feature] = values
        given_class = clf.predict_joint_log_proba(alone.astype(X.dtypes.to_dict() | {"visits": float})) - np.log(
            clf.class_prior_
        )
        np.testing.assert_allclose(found.classes, np.exp(given_class), rtol=1e-8, atol=1e-300)
        np.testing.assert_allclose(found.cells @ found.weight.T, found.classes)


def test_a_constant_has_none(data):
    X, y = data
    with pytest.warns(UserWarning, match="fewer than two distinct values"):
        clf = NBClassifier().fit(X, y)
    with pytest.raises(ValueError, match="column 'same' has one value, or one interval, only"):
        feature_distribution(clf.network_, clf.schema_, "same")
    with pytest.raises(KeyError, match="no column 'nope'"):
        feature_distribution(clf.network_, clf.schema_, "nope")
