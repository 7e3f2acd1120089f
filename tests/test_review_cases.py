"""Inputs that a newcomer tried: each once went wrong without a word."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from fanbayes import CostSensitiveClassifier, FANClassifier, NBClassifier

Y = [0, 1, 0, 1, 0, 1]


def test_lists_of_mixed_rows_keep_their_numbers():
    rows = [[1, "a"], [2.5, "b"], [np.nan, "a"], [3, "b"], [1.5, "a"], [2, "b"]]
    schema = NBClassifier().fit(rows, Y).schema_
    assert schema["x0"].kind == "continuous"
    assert schema["x1"].levels == ("a", "b")


@pytest.mark.parametrize("y", [pd.Series([0, 1, None, 1, 0, 1], dtype="Int64"), pl.Series([0, 1, None, 1, 0, 1])])
def test_integer_labels_beside_nulls_stay_integers(y):
    clf = NBClassifier().fit(np.arange(6.0)[:, None], y)
    assert clf.classes_.dtype.kind == "i"


def test_a_column_that_was_never_seen_may_hold_anything_later():
    X = pd.DataFrame({"a": np.arange(6.0), "b": [None] * 6})
    with pytest.warns(UserWarning, match="'b'"):
        clf = NBClassifier().fit(X, Y)
    assert np.isfinite(clf.predict_proba(X.assign(b="text"))).all()


def test_booleans_are_not_other_numbers():
    X = pd.DataFrame({"a": [True, False] * 3, "b": np.arange(6.0)})
    clf = NBClassifier().fit(X, Y)
    np.testing.assert_array_equal(clf.predict_proba(X.assign(a=[1.0, 0.0] * 3)), clf.predict_proba(X))
    with pytest.raises(ValueError, match="'a' held booleans in training and holds 7"):
        clf.predict(X.assign(a=7))


def test_an_unknown_category_is_named():
    X = pd.DataFrame({"a": ["x", "y"] * 3})
    clf = NBClassifier(handle_unknown="error").fit(X, Y)
    with pytest.raises(ValueError, match=r"'a' has a category in row 2 .* such as 'new'"):
        clf.predict(pd.DataFrame({"a": ["x", "y", "new"]}))


def test_a_prior_that_is_a_wrong_word_is_refused_without_fit():
    clf = NBClassifier().fit(np.arange(6.0)[:, None], Y)
    with pytest.raises(ValueError, match="'foo'"):
        CostSensitiveClassifier(clf, prior="foo").predict_proba([[1.0]])


def test_bytes_are_refused_by_column():
    with pytest.raises(TypeError, match="'x0'"):
        FANClassifier().fit(np.array([[b"a"], [b"b"]] * 3, dtype=object), Y)


def test_weights_and_labels_that_are_none():
    X = np.arange(6.0)[:, None]
    with pytest.raises(ValueError, match="sample_weight holds values that are not numbers"):
        NBClassifier().fit(X, Y, sample_weight=["a"] * 6)
    with pytest.raises(ValueError, match="no row has a label to compare with"):
        NBClassifier().fit(X, Y).score(X, [None] * 6)
