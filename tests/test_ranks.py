"""Mean ranks over datasets, against SciPy and against what can be counted on paper."""

import numpy as np
import pytest
from scipy import stats

from fanbayes.evaluation.ranks import Ranking, by_group, mean_ranks, ranking
from fanbayes.evaluation.significance import holm, signed_rank


def test_ties_share_their_rank_and_a_failure_is_last():
    scores = np.array([[3.0, 2.0, 1.0], [1.0, 1.0 + 1e-12, 0.0], [-np.inf, 5.0, -np.inf]])
    assert mean_ranks(scores) == pytest.approx([(1 + 1.5 + 2.5) / 3, (2 + 1.5 + 1) / 3, (3 + 3 + 2.5) / 3])


def test_friedman_is_that_of_scipy_with_ties_too():
    scores = np.random.default_rng(0).integers(0, 4, (30, 5)).astype(float) + np.arange(5) / 2
    assert ranking(scores).friedman == pytest.approx(stats.friedmanchisquare(*scores.T).pvalue)
    assert ranking(np.ones((4, 3))).friedman == 1


def test_pairs_are_tested_by_signed_ranks_after_holm():
    scores = np.random.default_rng(1).normal([1.0, 0.5, 0.0], size=(25, 3))
    found = ranking(scores)
    pairs = [(0, 1), (0, 2), (1, 2)]
    expected = holm([signed_rank(scores[:, i] - scores[:, j]).p_value for i, j in pairs])
    assert [found.p_values[j, i] for i, j in pairs] == pytest.approx(expected)
    assert found.p_values.diagonal().tolist() == [1, 1, 1]


def test_a_failure_counts_as_the_largest_loss():
    scores = np.column_stack([np.r_[np.full(12, -np.inf), 0.2], np.full(13, 0.1)])
    assert ranking(scores).p_values[0, 1] < 0.01
    both = np.column_stack([np.full(5, -np.inf), np.full(5, -np.inf)])
    assert ranking(both).p_values[0, 1] == 1


def test_a_group_of_datasets_has_one_vote():
    scores = np.array([[2.0, 1.0], [2.0, 1.0], [2.0, 1.0], [1.0, 2.0]])
    groups = ["related", "related", "related", "alone"]
    assert mean_ranks(scores) == pytest.approx([1.25, 1.75])
    assert mean_ranks(scores, groups) == pytest.approx([1.5, 1.5])
    found = ranking(scores, groups)
    assert (found.n_datasets, found.friedman, found.p_values[0, 1]) == (2, 1.0, 1.0)
    assert by_group(np.array([1.0, np.inf, -np.inf, 3.0]), ["a", "b", "b", "a"]).tolist() == [2.0, 0.0]


@pytest.mark.parametrize(
    ("differ", "groups"),
    [
        ([], [[2, 0, 3, 1]]),
        ([(2, 1)], [[2, 0, 3], [0, 3, 1]]),
        ([(2, 0), (0, 3), (3, 1)], []),
        ([(2, 0), (2, 3), (2, 1)], [[0, 3, 1]]),
        ([(0, 3)], [[2, 0], [3, 1]]),
    ],
)
def test_groups_are_the_longest_runs_without_a_difference(differ, groups):
    """In the order of ranks 2, 0, 3, 1; a pair within a run that differs ends it, whatever stands between."""
    p = np.ones((4, 4))
    for i, j in differ:
        p[i, j] = p[j, i] = 0.01
    assert Ranking(np.array([2.0, 4.0, 1.0, 3.0]), 0.0, p, 9).groups() == groups
