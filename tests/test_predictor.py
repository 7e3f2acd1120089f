"""What all predictors promise: a network, an average; and the networks of an average."""

import json

import numpy as np
import pandas as pd
import pytest

from fanbayes import FANClassifier, FANClassifierCV, FMClassifier, NBClassifier
from fanbayes.data.state import StateError, not_finite, plain
from fanbayes.data.views import View
from fanbayes.learning.ensembles.average import Average
from fanbayes.learning.ensembles.candidates import Family
from fanbayes.learning.ensembles.members import read_fit
from fanbayes.learning.predictor import NetworkPredictor
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
    return type(found).from_state(values, arrays, found.view, 3, clf._kinds)


def predictors(rows, average):
    few = {"n_init": 1, "random_state": 0}
    for clf in (NBClassifier(), FANClassifier(2, **few), FANClassifier(2, mixing="per_class", **few), FMClassifier(3)):
        clf.fit(*rows)
        yield clf, clf._predictor
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
        np.testing.assert_allclose(proba[0], found.class_prior, atol=1e-9)  # a row with nothing in it
        columns, classes = found.sample(3000, np.random.default_rng(0))
        assert [len(c) for c in columns] == [3000] * 3
        np.testing.assert_allclose(np.bincount(classes, minlength=3) / 3000, found.class_prior, atol=0.05)
        copy = again(found, clf)
        assert type(copy) is type(found)
        assert copy.n_components == found.n_components
        same = clf._encode(rows[0], copy.schemas)
        np.testing.assert_array_equal(copy.posterior(same, "proba", None), proba)
    assert kinds == {NetworkPredictor, Average}


def test_networks_of_an_average(rows, average):
    """As EM found it, and fine-tuned: only the former's distributions sum to one."""
    training = average._cases(*rows, None).training_table()
    view, table = training.view("decorrelate", training.labels)
    family, table = Family("decorrelate", "all", (0.1,), (2,), 1), view.mix(table)
    fits = family.fit(family.rows(view, table, 3), 2, 0)
    assert [fit.origin for fit in fits] == ["network", "fine-tuned"]
    for fit in fits:
        proba = fit.proba(table, None)
        np.testing.assert_allclose(proba.sum(axis=1), 1, atol=1e-12)
        values, arrays = fit.to_state()
        copy = read_fit(plain(values), arrays, view, 3)
        assert (copy.origin, copy.n_components) == (fit.origin, 2)
        np.testing.assert_array_equal(copy.proba(table, None), proba)
    with pytest.raises(StateError, match="do not sum to one"):
        read_fit(plain(values) | {"kind": "network"}, arrays, view, 3)


def test_the_state_of_another_model_is_refused(rows):
    found = NBClassifier().fit(*rows)._predictor
    values, arrays = found.to_state()
    view = View(found.view.schema, None)
    with pytest.raises(StateError, match="its structure is inconsistent"):
        NetworkPredictor.from_state(values, arrays, view, 3, FAN)
    with pytest.raises(StateError, match="it does not have the arrays that it should"):
        NetworkPredictor.from_state(values, {**arrays, "more": np.zeros(1)}, view, 3, [("class",)])
