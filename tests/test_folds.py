"""Which rows are tested together: balanced, by seed and name alone."""

import numpy as np
import pytest
from builders import toy_dataset

from fanbayes.evaluation.folds import folds
from fanbayes.study.cards import describe
from fanbayes.study.real import RealPlan


@pytest.mark.parametrize("counts", [(30, 30), (23, 11, 5, 1), (3, 2, 2), (50, 1)])
def test_folds_are_as_balanced_as_can_be(counts):
    labels = np.repeat([f"c{i}" for i in range(len(counts))], counts)
    data = toy_dataset(np.random.default_rng(1).permutation(labels))
    part = folds(data, 10, seed=3)
    assert part.min() == 0
    assert part.max() == min(10, len(labels)) - 1
    sizes = np.bincount(part)
    assert np.ptp(sizes) <= 1
    for label in data.classes:
        assert np.ptp(np.bincount(part[data.y == label], minlength=len(sizes))) <= 1


def test_folds_depend_on_the_seed_and_the_name_only():
    labels = ["a", "b"] * 30
    assert (folds(toy_dataset(labels), 10, 0) == folds(toy_dataset(labels), 10, 0)).all()
    assert (folds(toy_dataset(labels), 10, 0) != folds(toy_dataset(labels), 10, 1)).any()
    assert (folds(toy_dataset(labels), 10, 0) != folds(toy_dataset(labels, name="other"), 10, 0)).any()


def test_unlabelled_rows_are_never_tested():
    data = toy_dataset(["a", "b", None] * 20)
    part = folds(data, 10, 0)
    assert (part[data.y == None] == -1).all()  # noqa: E711
    assert (part[data.y != None] >= 0).all()  # noqa: E711


def test_the_donors_split_is_the_only_part_and_its_unlabelled_rows_train():
    split = np.array(["train"] * 6 + ["test"] * 4)
    data = toy_dataset(["a", "b"] * 4 + [None, "a"], split=split)
    assert folds(data, 10, 0).tolist() == [-1] * 6 + [0, 0, -1, 0]
    assert {task.fold for task in RealPlan().tasks(describe(data))} == {0}
