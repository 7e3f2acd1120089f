"""Decisions of least expected cost against cases worked by hand."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from fanbayes.decisions.costs import decide
from fanbayes.decisions.priors import adjust_prior, estimate_prior

CLASSES = ["ill", "well"]
COSTS = {"ill": {"treat": 1, "send home": 50, "refer": 5}, "well": {"treat": 10, "send home": 0, "refer": 5}}
TABLE = np.array([[1.0, 50.0, 5.0], [10.0, 0.0, 5.0]])
NAMES = ["treat", "send home", "refer"]


def test_least_expected_cost_by_hand():
    found = decide([[0.04, 0.96], [0.3, 0.7], [0.9, 0.1]], CLASSES, COSTS)
    assert found.decision.tolist() == ["send home", "refer", "treat"]
    np.testing.assert_allclose(found.cost, [2.0, 5.0, 1.9])
    np.testing.assert_allclose(found.expected[1], [7.3, 15.0, 5.0])
    assert found.names.tolist() == NAMES


@pytest.mark.parametrize(
    "costs",
    [
        dict(reversed(COSTS.items())),
        pd.DataFrame(COSTS).T,
        pd.DataFrame(COSTS).T[::-1],
        pd.DataFrame(COSTS).T.reset_index(),
        pl.DataFrame({"true": CLASSES, **{n: TABLE[:, k] for k, n in enumerate(NAMES)}}),
        pa.table({"true": CLASSES[::-1], **{n: TABLE[::-1, k] for k, n in enumerate(NAMES)}}),
    ],
    ids=["dict", "index", "other order", "column", "polars", "pyarrow"],
)
def test_costs_in_any_form(costs):
    p = np.random.default_rng(0).dirichlet([1, 1], 50)
    found, expected = decide(p, CLASSES, costs), decide(p, CLASSES, TABLE, decisions=NAMES)
    assert found.decision.tolist() == expected.decision.tolist()
    np.testing.assert_allclose(found.cost, expected.cost)
    np.testing.assert_allclose(expected.expected, p @ TABLE)


def test_zero_one_costs_predict_the_most_probable_class():
    p = np.random.default_rng(0).dirichlet([1, 1, 1], 100)
    found = decide(p, [3, 5, 9], 1 - np.eye(3))
    assert found.decision.dtype.kind == "i"
    assert found.decision.tolist() == np.array([3, 5, 9])[p.argmax(axis=1)].tolist()
    np.testing.assert_allclose(found.cost, 1 - p.max(axis=1))


def test_ties_go_to_the_first_decision():
    third = 1 / 3
    p = [[third, third, third], [0.1 + 0.2, 0.3, 1 - 0.1 - 0.2 - 0.3], [0.3, 0.1 + 0.2, 1 - 0.1 - 0.2 - 0.3]]
    costs = 1 - np.eye(3)
    assert decide(p, [0, 1, 2], costs).decision.tolist()[0] == 0
    # 0.1 + 0.2 is more than 0.3, by rounding alone.
    two = [[0.3 / 0.6, (0.1 + 0.2) / 0.6], [(0.1 + 0.2) / 0.6, 0.3 / 0.6]]
    assert decide(two, [0, 1], 1 - np.eye(2)).decision.tolist() == [0, 0]
    # A real difference is none, however large the other costs are.
    assert decide([[1.0, 0.0]], [0, 1], [[2, 1], [0, 1e15]]).decision.tolist() == [1]


def test_names_as_text_stand_for_classes():
    p = [[0.9, 0.1], [0.5, 0.5], [0.1, 0.9]]
    costs = {"0": {"0": 0, "1": 3, "refer": 1}, "1": {"0": 3, "1": 0, "refer": 1}}
    expected = [0, "refer", 1]
    assert decide(p, [0, 1], costs).decision.tolist() == expected
    assert decide(p, [0.0, 1.0], costs).decision.tolist() == expected
    frame = pd.DataFrame([[0, 3], [3, 0]], index=[0, 1], columns=[0, 1])
    assert decide(p, ["0", "1"], frame).decision.tolist() == ["0", "0", "1"]
    assert decide(p, [True, False], [[0, 1], [1, 0]]).decision.dtype == bool


@pytest.mark.parametrize(
    ("costs", "sentence"),
    [
        ({"ill": {"a": 1}}, "one row for the class 'well' and have 0"),
        ({"ill": {"a": 1}, "well": {"a": 1}, "dead": {"a": 1}}, "row 'dead'; the classes are 'ill', 'well'"),
        ({"ill": {"a": 1, "b": 1}, "well": {"a": 1}}, "cost of 'b' when 'well' is true"),
        ({"ill": 1, "well": 2}, "of the form"),
        (np.zeros((2, 3)), r"shape \(2, 3\)"),
        (np.zeros((3, 2)), r"shape \(3, 2\)"),
        ([[0, np.nan], [1, 0]], "finite"),
        ([[0, np.inf], [1, 0]], "finite"),
        (pl.DataFrame({"true": ["ill", "ill"], "a": [1, 2]}), "class 'ill' and have 2"),
    ],
)
def test_wrong_costs(costs, sentence):
    with pytest.raises(ValueError, match=sentence):
        decide([[0.5, 0.5]], CLASSES, costs)


def test_ambiguous_frame():
    with pytest.raises(ValueError, match="ambiguous"):
        decide([[0.5, 0.5]], [0, 1], pd.DataFrame([[0, 1], [1, 0]]))


@pytest.mark.parametrize("proba", [[[0.5, 0.6]], [[np.nan, 1]], [[-0.5, 1.5]], [[0.2, 0.3, 0.5]], [0.5, 0.5]])
def test_wrong_probabilities(proba):
    for function in (
        lambda p: decide(p, CLASSES, COSTS),
        lambda p: adjust_prior(p, [0.5, 0.5], [0.4, 0.6]),
        lambda p: estimate_prior(p, [0.5, 0.5]),
    ):
        with pytest.raises(ValueError, match="proba"):
            function(proba)
