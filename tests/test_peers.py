"""Classifiers of scikit-learn on tables that hurt: values missing, columns empty, categories never seen."""

import numpy as np
import pandas as pd
import pytest
from threadpoolctl import threadpool_limits

from fanbayes.evaluation.comparison import Predictions, learnt, log_proba_of
from fanbayes.evaluation.peers import PEERS, class_shares, peer


def table(n, seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    X = pd.DataFrame(
        {
            "mass": rng.normal(2 * y, 1),
            "colour": np.array(["red", "blue", "green"])[(y + rng.integers(0, 2, n)) % 3],
            "name": [f"n{k}" for k in rng.integers(0, 400, n)],
            "empty": np.nan,
        }
    )
    X.loc[::5, "mass"] = np.nan
    X.loc[::4, "colour"] = None
    return X, np.array(["no", "yes"], object)[y]


IS_DISCRETE = [False, True, True, False]


@pytest.fixture(autouse=True)
def one_thread():
    """Threads of boosting wait for each other by spinning, on a busy machine for seconds a fit."""
    with threadpool_limits(1):
        yield


@pytest.mark.parametrize("name", PEERS)
def test_they_learn_from_what_there_is(name):
    X, y = table(300, 0)
    y[:30] = None
    fitted = learnt(peer(name, IS_DISCRETE, 0, 1), X, y)
    rows, labels = table(200, 1)
    rows.loc[3, "colour"] = "never seen"
    log_proba = log_proba_of(fitted, rows, ["no", "perhaps", "yes"])
    assert (log_proba[:, 1] == -np.inf).all()
    np.testing.assert_allclose(np.exp(log_proba).sum(axis=1), 1.0)
    found = Predictions(labels, log_proba[:, [0, 2]], ["no", "yes"]).estimates()
    assert found["roc_area"].value > 0.8
    # An array of objects, as a model that was fitted on an array is given, says the same.
    again = learnt(peer(name, IS_DISCRETE, 0, 1), X.astype(object).where(X.notna(), None).to_numpy(), y)
    values = rows.astype(object).where(rows.notna(), None).to_numpy()
    np.testing.assert_allclose(log_proba_of(again, values, ["no", "perhaps", "yes"]), log_proba)


def test_class_shares_are_those_of_training():
    X, y = table(50, 0)
    log_proba = log_proba_of(learnt(class_shares(), X, y), X[:3], ["no", "yes"])
    np.testing.assert_allclose(np.exp(log_proba), [[np.mean(y == "no"), np.mean(y == "yes")]] * 3)
