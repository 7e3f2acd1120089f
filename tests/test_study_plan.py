"""What is to be run: presets, folds, gold standards, and datasets told apart."""

from dataclasses import replace

import numpy as np
import pytest

from fanbayes.datasets import load_suite
from fanbayes.evaluation.folds import folds
from fanbayes.files.dataset import Dataset, DatasetError, from_columns
from fanbayes.study.cards import Card, describe
from fanbayes.study.models import CRITERIA, classifier, presets
from fanbayes.study.real import RealPlan, RealTask
from fanbayes.study.simulated import SimulatedPlan


def dataset(labels, name="toy", **changes) -> Dataset:
    labels = np.array(labels, object)
    rng = np.random.default_rng(0)
    made = from_columns(name, {"x": rng.normal(size=len(labels))}, np.where(labels == None, "a", labels), "made")  # noqa: E711
    return replace(made, y=labels, **changes)


def test_the_paper_preset_says_what_the_paper_does():
    fan = classifier("FAN", "paper", "raw", 3, seed=7)
    assert (
        fan.get_params().items()
        >= {
            "variance_estimator": "paper",
            "criterion": "icl",
            "alpha": 1.0,
            "algorithm": "em",
            "mixing": "shared",
            "n_init": 8,
            "tol": 1e-6,
            "max_components": 10,
            "discretize": "none",
            "random_state": 7,
        }.items()
    )
    assert classifier("FM", "paper", "discretised", 3, seed=7).max_components == 16
    assert classifier("FM", "paper", "discretised", 3, seed=7).discretize == "mdlp"
    assert classifier("NB", "default", "raw", 3, seed=7).variance_estimator == "map"
    assert presets()["default"]["FAN"]["variance_estimator"] == "map"


@pytest.mark.parametrize("counts", [(30, 30), (23, 11, 5, 1), (3, 2, 2), (50, 1)])
def test_folds_are_as_balanced_as_can_be(counts):
    labels = np.repeat([f"c{i}" for i in range(len(counts))], counts)
    data = dataset(np.random.default_rng(1).permutation(labels))
    part = folds(data, 10, seed=3)
    assert part.min() == 0
    assert part.max() == min(10, len(labels)) - 1
    sizes = np.bincount(part)
    assert np.ptp(sizes) <= 1
    for label in data.classes:
        assert np.ptp(np.bincount(part[data.y == label], minlength=len(sizes))) <= 1


def test_folds_depend_on_the_seed_and_the_name_only():
    labels = ["a", "b"] * 30
    assert (folds(dataset(labels), 10, 0) == folds(dataset(labels), 10, 0)).all()
    assert (folds(dataset(labels), 10, 0) != folds(dataset(labels), 10, 1)).any()
    assert (folds(dataset(labels), 10, 0) != folds(dataset(labels, name="other"), 10, 0)).any()


def test_unlabelled_rows_are_never_tested():
    data = dataset(["a", "b", None] * 20)
    part = folds(data, 10, 0)
    assert (part[data.y == None] == -1).all()  # noqa: E711
    assert (part[data.y != None] >= 0).all()  # noqa: E711


def test_the_donors_split_is_the_only_part_and_its_unlabelled_rows_train():
    split = np.array(["train"] * 6 + ["test"] * 4)
    data = dataset(["a", "b"] * 4 + [None, "a"], split=split)
    assert folds(data, 10, 0).tolist() == [-1] * 6 + [0, 0, -1, 0]
    assert {task.fold for task in RealPlan().tasks(describe(data))} == {0}


def test_a_split_without_rows_to_test_is_refused_by_name():
    with pytest.raises(DatasetError, match="'toy' needs labelled rows both to train and to test"):
        describe(dataset(["a", "b"] * 5, split=np.array(["train"] * 10)))


def test_tasks_of_a_dataset():
    card = describe(dataset(["a", "b"] * 20))
    assert (card.kind, card.n_classes, card.smallest_class) == ("continuous", 2, 20)
    tasks = RealPlan(n_folds=5).tasks(card)
    assert len(tasks) == len(set(tasks)) == 2 * 5 * 3 * 2
    assert RealTask("toy", "raw", 0, "FAN", "paper").criteria == ("icl", "bic", "aic", "cs", "icl_cem")
    assert RealTask("toy", "raw", 0, "FM", "default").criteria == ("icl",)
    assert RealTask("toy", "raw", 0, "NB", "paper").criteria == ("none",)


def test_discrete_data_have_one_version():
    assert describe(load_suite("builtin")["balloons"]).versions == ("raw",)
    assert describe(load_suite("builtin")["iris"]).versions == ("raw", "discretised")


def test_a_changed_value_or_label_is_another_dataset():
    suite = load_suite("builtin")
    data = suite["lenses"]
    known = describe(data).sha256
    assert describe(suite["lenses"]).sha256 == known
    y = data.y.copy()
    y[0] = "hard"
    assert describe(replace(data, y=y)).sha256 != known
    X = data.X.copy()
    X.loc[0, "age"] = None
    assert describe(replace(data, X=X)).sha256 != known


def test_the_fingerprint_does_not_depend_on_the_frame_library():
    polars = pytest.importorskip("polars")
    for name in ("iris", "lenses"):
        data = load_suite("builtin")[name]
        other = replace(data, X=polars.DataFrame(data.X.to_dict("list")))
        assert describe(other).sha256 == describe(data).sha256


def card(name, n_discrete, n_continuous):
    return Card(name, 100, 100, n_discrete, n_continuous, 2, 50, False, None, name)


def test_gold_standards_are_those_of_the_list_and_others_of_their_kind():
    cards = [card(f"d{i}", 3, 0) for i in range(5)] + [card("diabetes", 0, 8), card("c", 0, 2), card("m", 1, 1)]
    cards.insert(0, card("vote", 16, 0))
    picked = [c.name for c in SimulatedPlan().choose(cards)]
    assert picked == ["vote", "d0", "d1", "diabetes", "c", "m"]
    assert SimulatedPlan(chosen=("c",)).choose([card("c", 0, 2)]) == [card("c", 0, 2)]


def test_simulated_tasks_know_the_gold_standard_once():
    tasks = SimulatedPlan(sizes=(50, 100), n_pairs=3).tasks(card("c", 0, 2))
    assert len(tasks) == 2 * 3 * 2
    assert sum("gold" in task.criteria for task in tasks) == 6
    assert tasks[0].criteria == ("gold", *CRITERIA)
