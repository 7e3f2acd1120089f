"""The numbers behind `fanbayes evaluate`, against scikit-learn and the bootstrap."""

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, log_loss, roc_auc_score

from fanbayes import NBClassifier, metrics
from fanbayes.evaluation.comparison import Predictions, cross_validate, differences
from fanbayes.files.dataset import from_columns

CLASSES = ["a", "b"]


def predictions(n=600, seed=0, noise=1.0):
    rng = np.random.default_rng(7)
    y = rng.integers(0, 2, n)
    score = 2.5 * (y - 0.5) + rng.normal(size=n) + noise * np.random.default_rng(seed).normal(size=n)
    log_proba = -np.logaddexp(0, np.stack([score, -score], axis=1))
    return Predictions(np.array(CLASSES, object)[y], log_proba, CLASSES, [1], 0.0)


def take(found, rows):
    return Predictions(found.labels[rows], found.log_proba[rows], found.classes, found.components, 0.0)


def test_measures_are_scikit_learns():
    found = predictions()
    estimates = found.estimates()
    proba = np.exp(found.log_proba)
    predicted = np.array(CLASSES)[proba.argmax(axis=1)]
    assert estimates["accuracy"].value == pytest.approx(accuracy_score(found.labels, predicted))
    assert estimates["conditional_entropy"].value == pytest.approx(log_loss(found.labels, proba))
    assert estimates["roc_area"].value == pytest.approx(roc_auc_score(found.labels == "b", proba[:, 1]))
    assert estimates["brier"].value == pytest.approx(
        metrics.brier_score(found.labels, found.log_proba, classes=CLASSES)
    )
    expected = metrics.expected_calibration_error(found.labels, found.log_proba, classes=CLASSES)
    assert estimates["ece"].value == pytest.approx(expected)


@pytest.mark.parametrize("measure", ["accuracy", "conditional_entropy", "roc_area", "brier", "ece"])
def test_standard_errors_are_those_of_the_bootstrap(measure):
    found = predictions(noise=0.0)
    rng = np.random.default_rng(0)
    drawn = [take(found, rng.integers(0, 600, 600)).estimates()[measure].value for _ in range(300)]
    assert found.estimates()[measure].error == pytest.approx(np.std(drawn), rel=0.25)


def test_differences_favour_the_better_one():
    found = {"good": predictions(noise=0.2), "bad": predictions(noise=3.0), "twin": predictions(noise=0.2)}
    results = {(d.measure, frozenset((d.better, d.worse))): d for d in differences(found)}
    assert len(results) == 12
    for (_, pair), d in results.items():
        if pair == {"good", "twin"}:
            assert (d.difference, d.p_value) == (0, 1)
        else:
            assert d.worse == "bad"
            assert d.p_value < 0.01


@pytest.mark.filterwarnings("ignore::fanbayes.DataWarning")
def test_every_row_is_predicted_by_a_model_that_has_not_seen_it():
    """A feature that names the row gives its class away to a model that has seen it, and to no other."""
    rng = np.random.default_rng(0)
    n = 80
    name = np.array([f"row {k}" for k in range(n)], object)
    y = np.array(["a", "b"], object)[rng.integers(0, 2, n)]
    data = from_columns("leak", {"name": name, "x": rng.normal(size=n)}, y, "drawn")
    found = cross_validate({"NB": NBClassifier(alpha=1.0)}, data, 5, 0, lambda name, fold: None)["NB"]
    assert np.isfinite(found.log_proba).all()
    assert 0.3 < found.correct.mean() < 0.7
    assert NBClassifier(alpha=1.0).fit(data.X, y).score(data.X, y) > 0.9


def test_a_class_of_one_row_is_kept():
    y = np.array(["a"] * 9 + ["b"] * 10 + ["c"], object)
    data = from_columns("rare", {"x": np.arange(20.0)}, y, "made up")
    found = cross_validate({"NB": NBClassifier()}, data, 4, 0, lambda name, fold: None)["NB"]
    assert len(found.labels) == 20
    assert found.n_clipped == 1
    assert found.estimates()["roc_area"] is None
