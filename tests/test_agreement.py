"""What compares the answers of two commits notices what differs, and its fits can be made."""

import copy
import sys
import warnings
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks" / "agreement"))

import compare
import fits


@pytest.fixture(scope="module")
def outcomes():
    """Of the smallest table, by every model."""
    with warnings.catch_warnings(action="ignore"):
        return fits.outcomes([" tiny"])


def test_every_model_has_an_outcome(outcomes):
    assert sorted(name.split()[0] for name in outcomes) == ["FAN", "FANCV", "FM", "NB"]
    for outcome in outcomes.values():
        assert len(outcome["complete"] + outcome["holes"]) == 2 * fits.N_NEW
        assert compare.compared(outcome, outcome, 0.0)[0]


@pytest.mark.parametrize("what", ["complete", "holes", "log_joint", "scores"])
def test_a_number_that_differs_is_noticed(outcomes, what):
    old = outcomes["FAN tiny"]
    for moved, agrees in ((1e-10, True), (1e-5, False), (float("nan"), False)):
        new = copy.deepcopy(old)
        new[what][3] += moved * max(1.0, abs(new[what][3]))
        assert compare.compared(old, new, 1e-8)[0] is agrees


def test_a_size_or_an_error_is_noticed(outcomes):
    old = outcomes["FAN tiny"]
    agrees, cells = compare.compared(old, {**old, "sizes": [2, *old["sizes"][1:]]}, 1.0)
    assert not agrees
    assert cells[-1] == "[1, 1, 1, 1, 2, 3] -> [2, 1, 1, 1, 2, 3]"
    assert not compare.compared(old, {"error": "no"}, 1.0)[0]
    assert not compare.compared(old, {**old, "complete": old["complete"][:-1]}, 1.0)[0]


def test_cases_have_names_of_their_own():
    names = [fits.name_of(*case) for case in fits.CASES]
    assert len(set(names)) == len(names) >= 60


def test_the_variance_is_spelt_as_a_commit_spells_it():
    class Old:
        def __init__(self, variance="map", random_state=None): ...

    class New:
        def __init__(self, variance_estimator="map", variance_tying="none", random_state=None): ...

    assert fits.spelt(Old, {"variance": "tied_class"}) == {"variance": "tied_class", "random_state": 0}
    assert fits.spelt(New, {"variance": "tied_class"}) == {"variance_tying": "class", "random_state": 0}
    assert fits.spelt(New, {"variance": "map", "alpha": 2}) == {"alpha": 2, "random_state": 0}
