"""Cases by value and class: sums of parts are those of the whole, and joined values keep to their bound."""

import numpy as np
import pytest

from fanbayes.data import class_counts
from fanbayes.data.class_counts import ClassCounts
from fanbayes.data.mdl import cut_points


def parts_of(x, labels, weight, rng, n_parts):
    """The cases in parts of random sizes, some of them empty."""
    ends = np.sort(rng.integers(0, len(x) + 1, n_parts - 1))
    each = [np.split(a, ends) if a is not None else [None] * n_parts for a in (x, labels, weight)]
    return [ClassCounts(*part) for part in zip(*each)]


def total(parts):
    found = parts[0]
    for part in parts[1:]:
        found = found + part
    return found


@pytest.mark.parametrize("weighted", [False, True])
def test_few_values_are_exact(weighted):
    rng = np.random.default_rng(0)
    labels = rng.integers(-1, 3, 3000)
    x = np.rint(10 * (labels + rng.normal(size=3000))) / 10
    x[rng.random(3000) < 0.1] = np.nan
    weight = rng.integers(1, 4, 3000).astype(float) if weighted else None
    found = total(parts_of(x, labels, weight, rng, 20))
    assert found.rank_error == 0
    assert len(found.x) < 700
    np.testing.assert_array_equal(found.cut_points(3), cut_points(x, labels, 3, weight))
    assert len(found.cut_points(3)) >= 2
    known = (labels >= 0) & ~np.isnan(x)
    assert found.weight.sum() == (known.sum() if weight is None else weight[known].sum())


def test_many_values_keep_to_the_bound_that_they_tell(monkeypatch):
    monkeypatch.setattr(class_counts, "MOST_VALUES", 64)
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 2, 20_000)
    x = np.where(rng.random(20_000) < 0.2, 0.25, rng.normal(size=20_000) + labels)  # one value that is frequent
    weight = rng.random(20_000)
    found = total(parts_of(x, labels, weight, rng, 30))
    assert len(np.unique(found.x)) <= 4 * 64
    assert 0 < found.rank_error < 0.1 * weight.sum()
    for c in (0, 1):
        for value in np.quantile(x, np.linspace(0, 1, 50)):
            true = weight[(labels == c) & (x <= value)].sum()
            told = found.weight[(found.labels == c) & (found.x <= value)].sum()
            assert told <= true + 1e-9
            assert true - told <= found.rank_error + 1e-9
    assert found.weight.sum() == pytest.approx(weight.sum())


def test_a_frequent_value_is_never_joined_away(monkeypatch):
    monkeypatch.setattr(class_counts, "MOST_VALUES", 8)
    x = np.concatenate([np.arange(100.0), np.full(10_000, 1000.0), np.arange(2000.0, 2100.0)])
    found = ClassCounts(x, (x > 1000).astype(int)).compact()
    assert 1000.0 in found.x
    assert found.cut_points(2)[0] > 1000


def test_the_same_parts_give_the_same_buckets(monkeypatch):
    monkeypatch.setattr(class_counts, "MOST_VALUES", 16)
    rng = np.random.default_rng(2)
    parts = [ClassCounts(rng.normal(size=300), rng.integers(0, 2, 300)) for _ in range(5)]
    one, other = total(parts), total(parts)
    for name in ("x", "labels", "weight"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_nothing_adds_nothing():
    nothing = ClassCounts(np.array([np.nan]), np.array([0]))
    some = ClassCounts(np.array([1.0, 1.0, 2.0]), np.array([0, 0, -1]))
    found = nothing + some
    assert found.x.tolist() == [1.0]
    assert found.weight.tolist() == [2.0]
    assert len((nothing + nothing).cut_points(2)) == 0


def test_classes_that_are_called_otherwise():
    found = ClassCounts(np.array([1.0, 2.0, 3.0]), np.array([0, -1, 1])).relabelled(np.array([2, 5]))
    assert found.labels.tolist() == [2, -1, 5]
