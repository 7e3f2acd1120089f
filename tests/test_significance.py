"""Significance tests against published examples, other implementations, and enumeration."""

from itertools import product

import numpy as np
import pytest
from scipy import stats

from fanbayes.evaluation import significance

# DeLong, DeLong & Clarke-Pearson (1988), the 43 complete patients as listed in the SAS/STAT User's Guide,
# PROC LOGISTIC, "Comparing Receiver Operating Characteristic Curves": albumin, total protein, K-G score,
# and whether the operation was successful.
OVARIAN = np.fromstring(
    """
    3.0 5.8 10 0  3.2 6.3 5 1  3.9 6.8 3 1  2.8 4.8 6 0  3.2 5.8 3 1  0.9 4.0 5 0  2.5 5.7 8 0  1.6 5.6 5 1
    3.8 5.7  5 1  3.7 6.7 6 1  3.2 5.4 4 1  3.8 6.6 6 1  4.1 6.6 5 1  3.6 5.7 5 1  4.3 7.0 4 1  3.6 6.7 4 0
    2.3 4.4  6 1  4.2 7.6 4 0  4.0 6.6 6 0  3.5 5.8 6 1  3.8 6.8 7 1  3.0 4.7 8 0  4.5 7.4 5 1  3.7 7.4 5 1
    3.1 6.6  6 1  4.1 8.2 6 1  4.3 7.0 5 1  4.3 6.5 4 1  3.2 5.1 5 1  2.6 4.7 6 1  3.3 6.8 6 0  1.7 4.0 7 0
    3.7 6.1  5 1  3.3 6.3 7 1  4.2 7.7 6 1  3.5 6.2 5 1  2.9 5.7 9 0  2.1 4.8 7 1  2.8 6.2 8 0  4.0 7.0 7 1
    3.3 5.7  6 1  3.7 6.9 5 1  3.6 6.6 5 1
    """,
    sep=" ",
).reshape(-1, 4)


@pytest.fixture
def rng():
    return np.random.default_rng(19990730)


def correct_rows(both, b, c, neither):
    """Rows on which both, only the first, only the second, and none is right."""
    return [np.repeat(right, [both, b, c, neither]) for right in ([1, 1, 0, 0], [1, 0, 1, 0])]


# ---------------------------------------------------------------------------------------------- McNemar


def test_mcnemar_textbook():
    """Approval in two surveys, Agresti (1990, p. 350): z = -4.17, z^2 = 17.36."""
    result = significance.mcnemar(*correct_rows(794, 86, 150, 570))
    assert result.statistic == pytest.approx(-4.17, abs=5e-3)
    assert result.statistic**2 == pytest.approx(17.35593220338983)  # statsmodels 0.15, no correction
    assert result.p_value == pytest.approx(3.099293441045215e-05)
    assert (result.b, result.c, result.exact) == (86, 150, False)


@pytest.mark.parametrize(
    ("b", "c", "p_value", "exact"),
    [  # statsmodels 0.15, mcnemar(exact=b + c < 25, correction=False)
        (1, 6, 0.125, True),
        (12, 12, 1.0, True),
        (14, 10, 0.5412561893463135, True),
        (15, 10, 0.31731050786291115, False),
    ],
)
def test_mcnemar_is_exact_below_25(b, c, p_value, exact):
    result = significance.mcnemar(*correct_rows(3, b, c, 5))
    assert result.p_value == pytest.approx(p_value)
    assert result.exact is exact
    assert result.statistic == pytest.approx((b - c) / np.sqrt(b + c))


def test_mcnemar_without_disagreement():
    assert significance.mcnemar([True], [True]) == significance.McNemar(0.0, 1.0, 0, 0, True)


# ------------------------------------------------------------------------------------------- paired t


def test_paired_t_students_sleep_data():
    """Student (1908), as in R's ?sleep: t = -4.0621, df = 9, p = 0.002833."""
    first = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
    second = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]
    result = significance.paired_t(second, first)
    assert result.statistic == pytest.approx(-4.062127683382037)  # statsmodels 0.15
    assert result.p_value == pytest.approx(0.002832890197384273)
    assert (result.difference, result.n) == (pytest.approx(-1.58), 10)


def test_paired_t_favours_the_lower_loss(rng):
    loss = rng.exponential(size=50)
    worse = loss + 0.1 * rng.uniform(size=50)
    result, expected = significance.paired_t(loss, worse), stats.ttest_rel(worse, loss)
    assert result.statistic > 0
    np.testing.assert_allclose((result.statistic, result.p_value), (expected.statistic, expected.pvalue))


def test_paired_t_of_equal_losses_is_no_difference(rng):
    loss = rng.exponential(size=50)
    for other in (loss, loss + 1e-16 * rng.uniform(size=50), loss * (1 + 2e-16)):
        assert significance.paired_t(loss, other) == significance.PairedT(0.0, 1.0, 0.0, 50)


def test_paired_t_of_a_constant_difference_is_infinite(rng):
    loss = rng.exponential(size=50)
    for gain in (0.1, -0.1):
        result = significance.paired_t(loss, loss + gain)
        assert (result.statistic, result.p_value) == (np.copysign(np.inf, gain), 0.0)


def test_paired_t_is_free_of_scale(rng):
    a, b = rng.exponential(size=(2, 30))
    small = significance.paired_t(1e-20 * a, 1e-20 * b)
    assert small.statistic == pytest.approx(significance.paired_t(a, b).statistic)


# --------------------------------------------------------------------------------------------- DeLong


def delong_by_pairs(y, score_a, score_b):
    """DeLong et al. (1988), eqs. 4-6: every positive row against every negative one."""
    kernels = [
        (s[y][:, None] > s[~y]) + 0.5 * (s[y][:, None] == s[~y]) for s in (np.asarray(score_a), np.asarray(score_b))
    ]
    areas = [k.mean() for k in kernels]
    s10 = np.cov([k.mean(axis=1) for k in kernels])
    s01 = np.cov([k.mean(axis=0) for k in kernels])
    covariance = s10 / y.sum() + s01 / (~y).sum()
    contrast = np.array([1, -1])
    return areas, np.sqrt(contrast @ covariance @ contrast)


@pytest.mark.parametrize(
    ("column", "area", "difference", "error", "chi_square", "p_value"),
    [  # SAS/STAT, "ROC Contrast Estimation and Testing Results by Row", against the K-G score
        (0, 0.7366, 0.0108, 0.0953, 0.0127, 0.9102),
        (1, 0.6478, -0.0780, 0.1046, 0.5554, 0.4561),
    ],
)
def test_delong_published(column, area, difference, error, chi_square, p_value):
    result = significance.delong(OVARIAN[:, 3], OVARIAN[:, column], -OVARIAN[:, 2])
    assert result.area_a == pytest.approx(area, abs=5e-5)
    assert result.area_b == pytest.approx(0.7258, abs=5e-5)
    assert result.area_a - result.area_b == pytest.approx(difference, abs=5e-5)
    assert result.standard_error == pytest.approx(error, abs=5e-5)
    assert result.statistic**2 == pytest.approx(chi_square, abs=5e-5)
    assert result.p_value == pytest.approx(p_value, abs=5e-5)
    assert np.sign(result.statistic) == np.sign(difference)


@pytest.mark.parametrize("decimals", [0, 1, 8])
@pytest.mark.parametrize(("n", "share"), [(12, 0.5), (60, 0.1), (150, 0.7)])
def test_delong_is_its_definition(n, share, decimals, rng):
    y = np.arange(n) < max(2, share * n)
    a, b = np.round(y + rng.normal(size=(2, n)), decimals)
    (area_a, area_b), error = delong_by_pairs(y, a, b)
    result = significance.delong(y, a, b)
    np.testing.assert_allclose((result.area_a, result.area_b), (area_a, area_b), rtol=1e-12)
    np.testing.assert_allclose(result.standard_error, error, rtol=1e-10)
    np.testing.assert_allclose(result.statistic, (area_a - area_b) / error, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(result.p_value, 2 * stats.norm.sf(abs(area_a - area_b) / error), rtol=1e-9)


def test_delong_changes_sign_with_the_scores(rng):
    y = rng.uniform(size=40) < 0.5
    a, b = y + rng.normal(size=(2, 40))
    there, back = significance.delong(y, a, b), significance.delong(y, b, a)
    assert there.statistic == -back.statistic != 0
    assert there.p_value == back.p_value


def test_delong_sees_ranks_only_infinite_scores_included(rng):
    y = np.arange(40) % 2
    a, b = y + rng.normal(size=(2, 40))
    there = significance.delong(y, a, b)
    assert significance.delong(y, np.exp(a), b**3) == there
    a[a.argmax()], a[a.argmin()] = np.inf, -np.inf
    assert significance.delong(y, a, b) == there


def test_delong_of_equal_rankings_is_exactly_no_difference(rng):
    y = np.arange(37) % 3 == 0
    a = rng.normal(size=37)
    result = significance.delong(y, a, 2 * a + 1)
    assert (result.statistic, result.p_value, result.standard_error) == (0.0, 1.0, 0.0)


def test_delong_without_variance():
    y = [0, 0, 0, 1, 1]
    perfect, constant = [1, 2, 3, 4, 5], np.zeros(5)
    result = significance.delong(y, perfect, constant)
    assert (result.area_a, result.area_b, result.statistic, result.p_value) == (1.0, 0.5, np.inf, 0.0)
    assert significance.delong(y, constant, perfect).statistic == -np.inf


def test_delong_is_fast_on_many_rows(rng):
    # By pairs this would take 10^10 comparisons.
    y = np.arange(200_000) % 2 == 0
    a, b = y + rng.normal(size=(2, 200_000))
    assert significance.delong(y, a, b).area_a == pytest.approx(stats.norm.cdf(np.sqrt(0.5)), abs=0.01)


# ---------------------------------------------------------------------------------------- signed rank


def signed_rank_by_enumeration(differences, pratt):
    """All 2^n ways to sign the ranks: the share with a rank sum at least as far from the middle."""
    d = np.asarray(differences, dtype=float)
    ranks = stats.rankdata(np.abs(d))[d != 0] if pratt else stats.rankdata(np.abs(d[d != 0]))
    signs = np.sign(d[d != 0])
    every = np.array(list(product([-1, 1], repeat=len(ranks)))) @ ranks
    return np.mean(np.abs(every) >= abs(signs @ ranks) - 1e-9)


def test_signed_rank_darwins_maize():
    """Darwin's 15 pairs of maize plants, in eighths of an inch: T = 24, exact p = 0.0413."""
    d = [49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48]
    result = significance.signed_rank(d)
    assert result.p_value == pytest.approx(0.041259765625)  # scipy 1.17, method="exact"
    # T+ is 120 - 24; its mean is 60 and its variance 15 * 16 * 31 / 24.
    assert result.statistic == pytest.approx((96 - 60) / np.sqrt(310))
    assert (result.n, result.zeros) == (15, 0)
    assert result.pratt_p_value == result.p_value
    assert result.pratt_statistic == result.statistic


@pytest.mark.parametrize("n", [1, 2, 5, 20, 50])
def test_signed_rank_is_scipys_exact_test(n, rng):
    d = rng.normal(0.3, size=n)
    expected = stats.wilcoxon(d, method="exact").pvalue
    result = significance.signed_rank(d)
    np.testing.assert_allclose((result.p_value, result.pratt_p_value), expected, rtol=1e-10)


@pytest.mark.parametrize(
    "d",
    [
        [1, 1],
        [0, 0, 3],
        [0, 1, -1, 2, 2, 2, 0, -3],
        [0, 0, 0, 0, 1, -2, 3, 4, 5, 5],
        [-1, -1, -1, 1, 1, 0.5, 0.5, 0, 7, 7, 7],
        [np.inf, np.inf, -1, 2, 0],
    ],
)
def test_signed_rank_with_ties_and_zeros_is_enumeration(d):
    result = significance.signed_rank(d)
    assert result.p_value == pytest.approx(signed_rank_by_enumeration(d, pratt=False))
    assert result.pratt_p_value == pytest.approx(signed_rank_by_enumeration(d, pratt=True))
    assert result.zeros == d.count(0)
    assert result.n == len(d) - d.count(0)


def test_signed_rank_of_many_is_scipys_normal_approximation(rng):
    d = np.round(rng.normal(0.1, size=400), 1)
    result = significance.signed_rank(d)
    assert result.zeros > 0
    for zero_method, p_value in [("wilcox", result.p_value), ("pratt", result.pratt_p_value)]:
        assert p_value == pytest.approx(stats.wilcoxon(d, zero_method=zero_method, method="approx").pvalue)
    assert result.statistic > 0


def test_signed_rank_exact_and_normal_meet(rng):
    d = np.round(rng.normal(0.2, size=200), 2)
    result = significance.signed_rank(d)
    assert result.p_value == pytest.approx(2 * stats.norm.sf(abs(result.statistic)), rel=0.1)


def test_signed_rank_changes_sign_with_the_classifiers(rng):
    d = rng.normal(0.5, size=30)
    there, back = significance.signed_rank(d), significance.signed_rank(-d)
    assert there.statistic == pytest.approx(-back.statistic)
    assert there.statistic > 0
    assert there.p_value == back.p_value


def test_signed_rank_of_zeros_only():
    assert significance.signed_rank([0.0, 0.0]) == significance.SignedRank(0, 2, 0.0, 1.0, 0.0, 1.0)


def test_rounding_makes_no_ranks():
    d = np.array([0.3, -(0.1 + 0.2), 0.5, 1e-17])
    assert significance.signed_rank(d) == significance.signed_rank([0.3, -0.3, 0.5, 0])
    assert significance.signed_rank(d, decimals=20).zeros == 0


def test_pratt_nears_the_sign_test_where_zeros_abound():
    result = significance.signed_rank([0.0] * 180 + [0.1, 0.2, -0.3, 0.4, 0.5, 0.6])
    assert result.statistic == pytest.approx((18 - 10.5) / np.sqrt(6 * 7 * 13 / 24))
    assert result.pratt_statistic == pytest.approx((5 - 1) / np.sqrt(6), rel=5e-3)


# ------------------------------------------------------------------------------------- wins and losses


def test_win_loss_counts():
    d = [0.1, 0.2, 0.3, -0.1, -0.2, 0.0, 1e-17]
    p = [0.2, 0.05, 0.01, 0.04, 0.5, 0.001, 0.001]
    assert significance.win_loss(d) == significance.WinLoss(3, 2, 2)
    assert significance.win_loss(d, p) == significance.WinLoss(3, 2, 2)
    assert significance.win_loss(d, p, 0.95) == significance.WinLoss(2, 1, 4)
    assert significance.win_loss(d, p, level=0.99) == significance.WinLoss(1, 0, 6)
    assert significance.win_loss([1.0], [0.1], level=0.9) == significance.WinLoss(1, 0, 0)


# ------------------------------------------------------------------------------------------------ Holm


def test_holm():
    p = [0.01, 0.04, 0.03, 0.005, 0.04, 0.9]
    expected = [0.05, 0.12, 0.12, 0.03, 0.12, 0.9]  # statsmodels 0.15, multipletests(method="holm")
    np.testing.assert_allclose(significance.holm(p), expected)
    np.testing.assert_allclose(significance.holm([0.6, 0.7]), [1.0, 1.0])
    np.testing.assert_allclose(significance.holm([0.03]), [0.03])


# ------------------------------------------------------------------------------------------ bad inputs


def test_the_corrected_t_test_is_its_formula():
    d = np.array([0.1, 0.3, 0.2, -0.1, 0.25, 0.15, 0.05, 0.2, 0.1, 0.3])
    t = d.mean() / np.sqrt((1 / 10 + 1 / 4) * d.var(ddof=1))
    found = significance.corrected_t(d, 1 / 4)
    assert found.statistic == pytest.approx(t)
    assert found.p_value == pytest.approx(2 * stats.t.sf(t, 9))
    assert found.p_value > stats.ttest_1samp(d, 0).pvalue
    assert significance.corrected_t(-d, 1 / 4).statistic == pytest.approx(-t)
    # More repetitions of the same folds do not make it significant.
    assert significance.corrected_t(np.tile(d, 50), 1 / 4).statistic < t * 1.3
    assert significance.corrected_t([0.0, 0.0], 1 / 4).p_value == 1
    assert significance.corrected_t([0.5, 0.5], 1 / 4).p_value == 0


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: significance.mcnemar([], []), "correct_a must be a non-empty list"),
        (lambda: significance.mcnemar([1, np.nan], [1, 0]), "correct_a has NaN at position 1"),
        (lambda: significance.mcnemar([1, 0], [1, 2]), "correct_b must be bool or 0/1"),
        (lambda: significance.mcnemar([1, 0], [1]), r"\[2, 1\] rows"),
        (lambda: significance.paired_t([], []), "loss_a must be a non-empty list"),
        (lambda: significance.paired_t([1.0], [2.0]), "at least two rows"),
        (lambda: significance.paired_t([1, 2], [np.nan, 1]), "loss_b has NaN at position 0"),
        (lambda: significance.paired_t([1, np.inf], [1, np.inf]), "clip the probabilities"),
        (lambda: significance.paired_t([1, 2], [1, 2, 3]), r"\[2, 3\] rows"),
        (lambda: significance.corrected_t([1.0], 0.25), "at least two folds"),
        (lambda: significance.corrected_t([1.0, np.inf], 0.25), "a fold that failed"),
        (lambda: significance.corrected_t([1.0, 2.0], 0), "test_ratio is the size"),
        (lambda: significance.delong([], [], []), "y_true must be a non-empty list"),
        (lambda: significance.delong([1, 1, 1], [1, 2, 3], [1, 2, 3]), "3 positive and 0 negative"),
        (lambda: significance.delong([0, 1, 1], [1, 2, 3], [1, 2, 3]), "2 positive and 1 negative"),
        (lambda: significance.delong([1], [1], [2]), "1 positive and 0 negative"),
        (lambda: significance.delong([0, 0, 2, 2], [1] * 4, [1] * 4), "y_true must be bool or 0/1"),
        (lambda: significance.delong([0, 0, 1, 1], [np.nan] * 4, [1] * 4), "score_a has NaN at position 0"),
        (lambda: significance.delong([0, 0, 1, 1], [1] * 4, [1] * 3), r"\[4, 4, 3\] rows"),
        (lambda: significance.signed_rank([]), "differences must be a non-empty list"),
        (lambda: significance.signed_rank([[1, 2]]), "differences must be a non-empty list"),
        (lambda: significance.signed_rank([1, np.nan]), "differences has NaN at position 1"),
        (lambda: significance.win_loss([]), "differences must be a non-empty list"),
        (lambda: significance.win_loss([1, np.nan]), "differences has NaN at position 1"),
        (lambda: significance.win_loss([1], level=0.95), "needs p_values"),
        (lambda: significance.win_loss([1], [0.1], level=95), "between 0 and 1, e.g. 0.95; got 95"),
        (lambda: significance.win_loss([1], [0.1, 0.2], level=0.95), r"\[1, 2\] rows"),
        (lambda: significance.win_loss([1], [np.nan], level=0.95), "p_values has NaN"),
        (lambda: significance.holm([]), "p_values must be a non-empty list"),
        (lambda: significance.holm([0.1, 1.1]), "between 0 and 1"),
        (lambda: significance.holm([np.nan]), "p_values has NaN"),
    ],
)
def test_bad_input_gets_a_sentence(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()
