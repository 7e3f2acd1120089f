"""What is known of datasets: datasets told apart by their content, versions, splits."""

from dataclasses import replace

import numpy as np
import pytest
from builders import toy_dataset

from fanbayes.datasets import load_suite
from fanbayes.files.dataset import DatasetError
from fanbayes.study.cards import describe


def test_a_split_without_rows_to_test_is_refused_by_name():
    with pytest.raises(DatasetError, match="'toy' needs labelled rows both to train and to test"):
        describe(toy_dataset(["a", "b"] * 5, split=np.array(["train"] * 10)))


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
