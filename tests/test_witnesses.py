"""Agreement with Weka and pyAgrum, whose answers `benchmarks/witnesses/record.py` has recorded."""

import json
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from fanbayes import AODEClassifier, NBClassifier, TANClassifier

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "benchmarks" / "witnesses"))

from discrete_sets import SETS  # noqa: E402

RECORDED = json.loads((ROOT / "tests" / "data" / "witnesses.json").read_text())
CLOSE = {"rtol": 0, "atol": 1e-9}


@cache
def given(name):
    """The table, which is the one that the witnesses saw, and what they said."""
    data, said = SETS[name](), RECORDED["sets"][name]
    assert [list(data.codes.shape), data.codes.sum(axis=0).tolist()] == [said["shape"], said["sums"]]
    return data, said


def test_there_are_ten_sets():
    assert list(RECORDED["sets"]) == list(SETS)
    assert len(SETS) == 10


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize(("model", "classifier"), [("NB", NBClassifier), ("AODE", AODEClassifier)])
def test_probabilities_are_those_of_weka(name, model, classifier):
    data, said = given(name)
    clf = classifier(categorical_features="all", alpha=RECORDED["alpha"][model]).fit(data.codes, data.labels)
    found = clf.predict_proba(data.codes[said["rows"]])
    np.testing.assert_allclose(found, said["probabilities"][f"{model} of Weka"], **CLOSE)


@pytest.mark.parametrize("name", SETS)
def test_the_witnesses_agree_with_each_other(name):
    _, said = given(name)
    weka, agrum = ({frozenset(arc) for arc in said["arcs"][witness]} for witness in ("Weka", "pyAgrum"))
    assert agrum <= weka  # pyAgrum leaves out weak arcs
    one, other = (said["probabilities"][f"TAN of {witness}"] for witness in ("Weka", "pyAgrum"))
    np.testing.assert_allclose(one, other, **CLOSE)


@pytest.mark.parametrize("name", SETS)
def test_tan_has_the_arcs_and_probabilities_of_weka_and_pyagrum(name):
    data, said = given(name)
    theirs = {tuple(arc) for arc in said["arcs"]["Weka"]}
    [root] = {*data.names} - {child for _, child in theirs}  # tables depend on it
    settings = {"alpha": RECORDED["alpha"]["TAN"], "root": root, "tree": "full", "categorical_features": "all"}
    clf = TANClassifier(**settings).fit(data.codes, data.labels)
    ours = {*zip(clf.edges_["parent"], clf.edges_["feature"])}
    assert ours == theirs  # none of these sets has a tie
    assert {frozenset(arc) for arc in said["arcs"]["pyAgrum"]} <= {frozenset(arc) for arc in ours}
    found = clf.predict_proba(data.codes[said["rows"]])
    for witness in ("Weka", "pyAgrum"):
        np.testing.assert_allclose(found, said["probabilities"][f"TAN of {witness}"], **CLOSE)
