"""Rows in parts elsewhere: the same EM, the same bits whoever has the parts."""

from dataclasses import fields

import builders
import numpy as np
import pytest

from fanbayes.learning.full_covariance import FullCovarianceData
from fanbayes.learning.partitioned import PartitionedTable, added_up, training_data


def test_a_sum_has_a_shape_of_its_own():
    def add_texts(some):
        return f"({'+'.join(some)})"

    assert added_up(["a"], add_texts) == ["a"]
    assert added_up([*"abcdefghijklmnopq"], add_texts) == ["((a+b+c+d+e+f+g+h)+(i+j+k+l+m+n+o+p)+(q))"]
    assert added_up([*"abcdefghijklmnopq"], add_texts, most=3) == ["(a+b+c+d+e+f+g+h)", "(i+j+k+l+m+n+o+p)", "(q)"]


def test_the_same_rows_are_chosen_as_in_memory():
    world = builders.make_world(0, "fan", 3, levels=(2, 3, 5), n=5000, unlabelled=0.2)
    whole = world.table.fused().subsample(500)
    parts = builders.LocalParts(tuple(world.table.only(np.arange(5000) % 9 == k) for k in range(9)))
    data = training_data(PartitionedTable(parts, world.table.layout, 3, world.table.total_weight).fused(), None)
    few = data.subsample(500).table
    assert few.n_rows == whole.n_rows
    np.testing.assert_array_equal(np.sort(few.fingerprint), np.sort(whole.fingerprint))
    assert few.total_weight == pytest.approx(whole.total_weight, rel=1e-12)
    np.testing.assert_array_equal(few.labels, np.sort(few.labels))


def test_rows_that_are_mostly_equal_are_not_sampled():
    world = builders.make_world(0, "fan", 3, levels=(2, 2), n=5000, n_numbers=0)
    data = builders.in_parts(world.table)
    assert data.subsample(500) is data


def test_correlated_numbers_in_parts():
    world = builders.make_world(0, "per_class", 2, levels=(2, 3), n=300)
    whole, parts = FullCovarianceData(world.table), builders.in_parts(world.table, kind=FullCovarianceData)
    assert parts.is_labelled == whole.is_labelled
    terms = world.network.terms
    a, b = parts.e_step(terms), whole.e_step(terms)
    for f in fields(a):
        np.testing.assert_allclose(getattr(a, f.name), getattr(b, f.name), rtol=1e-9, atol=1e-9, err_msg=f.name)
