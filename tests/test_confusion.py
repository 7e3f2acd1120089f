"""What is measured of one class at a time, against rows worked by hand and scikit-learn."""

import json

import numpy as np
import pytest
from sklearn.metrics import precision_score, recall_score, roc_auc_score

from fanbayes.metrics import class_report

PROBA = np.array([[0.5, 0.3, 0.2], [0.8, 0.1, 0.1], [0.0, 1.0, 0.0], [0.6, 0.2, 0.2]])
with np.errstate(divide="ignore"):
    LOG_PROBA = np.log(PROBA)


def test_by_hand():
    """The last label was never seen by the model, and one of its classes is never predicted."""
    found = class_report(["a", "b", "b", "z"], LOG_PROBA, classes=["a", "b", "c"])
    assert found["labels"] == ["a", "b", "c", "z"]
    assert found["confusion"] == [[1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 0, 0], [1, 0, 0, 0]]
    a, b, c, z = found["classes"]
    # Ranked by p(a): rows 2, 4, 1, 3, so that row 1, the only a, is above one of three.
    assert a.pop("roc_area") == pytest.approx(1 / 3)
    assert a == {"class": "a", "rows": 1, "predicted": 3, "precision": 1 / 3, "recall": 1.0}
    assert (b["precision"], b["recall"], b["roc_area"]) == (1.0, 0.5, 0.5)
    assert (c["precision"], c["recall"], c["roc_area"]) == (None, None, None)
    assert z == {"class": "z", "rows": 1, "predicted": 0, "precision": None, "recall": 0.0, "roc_area": None}
    assert json.loads(json.dumps(found)) == found  # plain values


def test_as_scikit_learn():
    rng = np.random.default_rng(0)
    y, weight = rng.integers(0, 3, 200), rng.integers(0, 3, 200).astype(float)
    logits = rng.normal(size=(200, 3)) + 2 * np.eye(3)[y]
    log_proba = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
    found = class_report(y, log_proba, classes=[0, 1, 2], sample_weight=weight)
    predicted = log_proba.argmax(axis=1)
    settings = {"average": None, "sample_weight": weight}
    for name, expected in [
        ("precision", precision_score(y, predicted, **settings)),
        ("recall", recall_score(y, predicted, **settings)),
        ("roc_area", [roc_auc_score(y == k, log_proba[:, k], sample_weight=weight) for k in range(3)]),
        ("rows", np.bincount(y, weight)),
    ]:
        np.testing.assert_allclose([one[name] for one in found["classes"]], expected, rtol=1e-12)
    twice = class_report(np.repeat(y, 2), np.repeat(log_proba, 2, axis=0), classes=[0, 1, 2])
    assert twice["confusion"] == (2 * np.array(class_report(y, log_proba, classes=[0, 1, 2])["confusion"])).tolist()


def test_ranks_that_probabilities_lose():
    """All three are 1.0 as probabilities; their log-odds rank them."""
    odds = np.array([50.0, 60.0, 70.0])
    log_proba = -np.logaddexp(0, np.stack([odds, -odds], axis=1))
    assert class_report([0, 1, 1], log_proba, classes=[0, 1])["classes"][1]["roc_area"] == 1.0


def test_one_class_has_no_area():
    found = class_report(["a", "a"], np.zeros((2, 1)), classes=["a"])
    assert found["classes"] == [
        {"class": "a", "rows": 2, "predicted": 2, "precision": 1.0, "recall": 1.0, "roc_area": None}
    ]
    with pytest.raises(ValueError, match="shape"):
        class_report(["a"], np.zeros((2, 1)), classes=["a"])
