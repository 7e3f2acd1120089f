"""What all predictors promise: a network, a network that was fine-tuned, an average."""

import json

import numpy as np
import pandas as pd
import pytest

from fanbayes import FANClassifier, FANClassifierCV, FMClassifier, NBClassifier
from fanbayes.data.state import StateError, not_finite, plain
from fanbayes.data.views import View
from fanbayes.learning.ensembles.average import Average
from fanbayes.learning.ensembles.candidates import Family
from fanbayes.learning.predictor import NetworkPredictor, TunedPredictor
from fanbayes.model.state import FAN


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    X = pd.DataFrame({"x": y + rng.normal(size=90), "z": rng.normal(size=90) - y, "k": np.array(list("abc"))[y]})
    X.loc[::8, "x"] = X.loc[::31, "z"] = np.nan
    X.loc[::11, "k"] = None
    X.loc[0, ["x", "z", "k"]] = [np.nan, np.nan, None]
    return X, y


@pytest.fixture(scope="module")
def average(rows):
    return FANClassifierCV(effort="fast", cv=3, random_state=0).fit(*rows)


def again(found, clf):
    """The predictor of its own state, as a file would hold it."""
    values, arrays = found.to_state()
    values = json.loads(json.dumps(plain(values)), object_hook=not_finite)
    if type(found) is Average:
        return Average.from_state(values, arrays, clf.schema_, 3)
    kinds = clf._kinds if type(found) is NetworkPredictor else FAN
    return type(found).from_state(values, arrays, found.view, 3, kinds)


def predictors(rows, average):
    few = {"n_init": 1, "random_state": 0}
    for clf in (NBClassifier(), FANClassifier(2, **few), FANClassifier(2, mixing="per_class", **few), FMClassifier(3)):
        clf.fit(*rows)
        yield clf, clf._predictor
    training = average._cases(*rows, None).training_table()
    view, table = training.view("decorrelate", training.labels)
    family = Family("decorrelate", "all", (0.1,), (2,), 1)
    for found in family.fit(family.rows(view, view.mix(table), 3), 2, 0):
        yield average, found
    yield average, average.average_


def test_every_predictor(rows, average):
    kinds = set()
    for clf, found in predictors(rows, average):
        kinds.add(type(found))
        encoded = clf._encode(rows[0], found.schemas)
        proba, log_proba = (found.posterior(encoded, what, None) for what in ("proba", "log_proba"))
        np.testing.assert_allclose(proba.sum(axis=1), 1, atol=1e-12)
        np.testing.assert_allclose(np.exp(log_proba), proba, atol=1e-12)
        assert found.class_prior.sum() == pytest.approx(1, abs=1e-9)
        if type(found) is not TunedPredictor or found.fine_tuned is None:  # which has another prior
            np.testing.assert_allclose(proba[0], found.class_prior, atol=1e-9)  # a row with nothing in it
        columns, classes = found.sample(3000, np.random.default_rng(0))
        assert [len(c) for c in columns] == [3000] * 3
        np.testing.assert_allclose(np.bincount(classes, minlength=3) / 3000, found.class_prior, atol=0.05)
        copy = again(found, clf)
        assert type(copy) is type(found)
        assert copy.n_components == found.n_components
        same = clf._encode(rows[0], copy.schemas)
        np.testing.assert_array_equal(copy.posterior(same, "proba", None), proba)
    assert kinds == {NetworkPredictor, TunedPredictor, Average}


def test_the_state_of_another_model_is_refused(rows):
    found = NBClassifier().fit(*rows)._predictor
    values, arrays = found.to_state()
    view = View(found.view.schema, None)
    with pytest.raises(StateError, match="its structure is inconsistent"):
        NetworkPredictor.from_state(values, arrays, view, 3, FAN)
    with pytest.raises(StateError, match="it does not have the arrays that it should"):
        NetworkPredictor.from_state(values, {**arrays, "more": np.zeros(1)}, view, 3, [("class",)])
