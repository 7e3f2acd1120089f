"""Which cases are held out together: folds follow from what rows contain and from their weights."""

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import GroupKFold, StratifiedKFold

from fanbayes import FANClassifierCV
from fanbayes.estimators.splits import DEALT_TWICE, MOST_JUDGED, ONE_FIT_ABOVE, WHOLE, read_groups, split_rows, units_of

pytestmark = pytest.mark.filterwarnings("ignore:.*too few to judge models by")


def splits_of(cv, X, y, sample_weight=None, seed=0, groups=None):
    cases = FANClassifierCV()._cases(X, y, sample_weight)
    return split_rows(cv, cases, cases.training_table().table, seed, read_groups(groups, cases))


def numbers(n, n_features=2, seed=0):
    return np.random.default_rng(seed).normal(size=(n, n_features))


def symbols(n, n_features=3, seed=0):
    return np.random.default_rng(seed).choice(list("ab"), (n, n_features)).astype(object)


@pytest.mark.parametrize("rows", [numbers, symbols])
def test_integer_folds_are_stratified(rows):
    y = np.repeat([0, 1, 2], [20, 11, 3])
    splits = splits_of(4, rows(34), y)
    assert len(splits) == 4
    np.testing.assert_allclose(sum(test for _, test in splits), 1)
    for train, test in splits:
        np.testing.assert_allclose(train + test, 1)
        counts = np.bincount(y, test, minlength=3)
        assert (np.abs(counts - np.array([5, 2.75, 0.75])) <= 1).all()
    assert len(splits_of(5, rows(10), np.arange(10) % 2)) == 5
    for nothing_to_judge_by in ([1], [0, 1] * 4 + [0], [3] * 30):
        assert splits_of(5, rows(len(nothing_to_judge_by)), np.array(nothing_to_judge_by)) == []


@pytest.mark.parametrize("rows", [numbers, symbols])
def test_folds_follow_the_rows_in_any_order(rows):
    X, y = rows(50), np.arange(50) % 2
    order = np.random.default_rng(1).permutation(50)
    held_out = np.array([test for _, test in splits_of(5, X, y)])
    moved = np.array([test for _, test in splits_of(5, X[order], y[order])])
    if rows is numbers:
        np.testing.assert_array_equal(moved, held_out[:, order])
    else:  # equal rows may be exchanged, their numbers in each fold are the same

        def kinds(X, y, w):
            return pd.DataFrame({"row": ["".join(x) for x in X], "y": y, "w": w}).groupby(["row", "y"])["w"].sum()

        for a, b in zip(held_out, moved):
            pd.testing.assert_series_equal(kinds(X, y, a), kinds(X[order], y[order], b))
    assert not np.array_equal(held_out, [test for _, test in splits_of(5, X, y, seed=1)])


def test_copies_of_continuous_rows_are_held_out_together():
    X, y = np.repeat(numbers(20), 5, axis=0), np.repeat(np.arange(20) % 2, 5)
    y[7] = 1 - y[7]  # also under another label
    for _, test in splits_of(4, X, y):
        by_row = test.reshape(20, 5)
        assert (by_row == by_row[:, :1]).all()
        assert by_row[:, 0].sum() == 5


def test_equal_rows_of_coarse_numbers_are_dealt_out():
    """Numbers of few values: rows are equal by chance, and what is learnt from one of them may tell of the others."""
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 6, (300, 2)).astype(float), np.arange(300) % 2
    held_out = np.array([test for _, test in splits_of(5, X, y)])
    _, kind = np.unique(X, axis=0, return_inverse=True)
    folds_of_kind = [len(np.unique(held_out[:, kind.ravel() == k].argmax(axis=0))) for k in range(36)]
    assert np.mean(folds_of_kind) > 3


def test_equal_discrete_rows_are_dealt_out():
    X, y = np.repeat([["a", "b"], ["b", "b"]], [60, 40], axis=0).astype(object), np.repeat([0, 1], [60, 40])
    for _, test in splits_of(5, X, y):
        assert np.bincount(y, test).tolist() == [12, 8]
    # By chance: of rows that are equal but for their class, the folds hold different shares.
    X, y = np.repeat([["a", "b"], ["b", "b"]], 200, axis=0).astype(object), np.arange(400) % 2
    held_out = [np.bincount((X[:, 0] == "a") * 2 + y, test) for _, test in splits_of(5, X, y)]
    assert 2 < np.std(held_out, axis=0).mean() < 8  # binomial: 4
    np.testing.assert_allclose([h.reshape(2, 2).sum(axis=0) for h in held_out], 40)


@pytest.mark.parametrize("rows", [numbers, symbols])
def test_weight_is_repetition(rows):
    X, y = rows(30), np.arange(30) % 3
    weight = np.random.default_rng(2).integers(1, 6, 30)
    copies = np.repeat(np.arange(30), weight)
    for (_, once), (_, repeated) in zip(splits_of(4, X, y, weight * 1.0), splits_of(4, X[copies], y[copies])):
        found = pd.Series(repeated).groupby([*X[copies].T, y[copies]]).sum()
        pd.testing.assert_series_equal(pd.Series(once).groupby([*X.T, y]).sum(), found)


def test_fractions_of_cases_are_dealt_out_without_slivers():
    X, y = symbols(200), np.arange(200) % 2
    weight = np.full(200, 0.1)
    held_out = np.array([test for _, test in splits_of(4, X, y, weight)])
    np.testing.assert_allclose(held_out.sum(axis=0), weight)
    np.testing.assert_allclose(held_out.sum(axis=1), 5.0, atol=1.0)
    assert (held_out[held_out > 0] > 1e-6).all()


@pytest.mark.parametrize("rows", [numbers, symbols])
@pytest.mark.parametrize("first", [1.0, 1e16])
@pytest.mark.parametrize("other", [1.0, 1e13])
def test_rows_are_held_out_once_whatever_they_weigh(rows, first, other):
    weights = np.full(60, other)
    weights[0] = first
    held_out = sum(test for _, test in splits_of(5, rows(60), np.arange(60) % 2, weights))
    np.testing.assert_allclose(held_out, weights)


@pytest.mark.filterwarnings("error:.*too few to judge models by")
def test_the_cases_of_a_single_column_are_its_rows():
    X, y = numbers(90, 1), np.arange(90) % 2
    X[:] = np.round(X)  # a few values, whose rows could be copies or not
    splits = splits_of(5, X, y)
    assert {test.sum() for _, test in splits} == {18.0}


@pytest.mark.filterwarnings("default:.*too few to judge models by")
def test_that_groups_are_too_few_is_said_of_groups():
    with pytest.warns(UserWarning, match="9 groups of labelled rows .* too few to judge models by in 5 folds"):
        assert splits_of(5, numbers(90), np.arange(90) % 2, groups=np.arange(90) % 9) == []


@pytest.mark.parametrize("rows", [numbers, symbols])
def test_groups_are_held_out_together(rows):
    X, y = rows(90), np.arange(90) % 2
    groups = np.array([f"patient {k // 3}" for k in range(90)], dtype=object)
    for _, test in splits_of(5, X, y, groups=groups):
        by_group = test.reshape(30, 3)
        assert (by_group == by_group[:, :1]).all()
        assert by_group[:, 0].sum() == 6
    weight = np.where(np.arange(90) % 4 == 0, 0.0, 1.0)
    for _, test in splits_of(5, X, y, weight, groups=groups):
        kept = groups[weight > 0]
        assert all(len(set(test[kept == g])) == 1 for g in set(kept))


def test_folds_follow_what_groups_contain():
    """Few kinds of rows: groups are told apart by all that is in them, not by their order."""
    X, y, groups = symbols(80), np.random.default_rng(1).integers(0, 2, 80), np.arange(80) // 2
    order = np.random.default_rng(2).permutation(80)

    def content(X, y, w):
        return sorted(("".join(x), c) for x, c, held in zip(X, y, w) if held)

    once, moved = splits_of(5, X, y, groups=groups), splits_of(5, X[order], y[order], groups=groups[order])
    for (_, a), (_, b) in zip(once, moved):
        assert content(X, y, a) == content(X[order], y[order], b)


def test_groups_that_cannot_be():
    X, y = numbers(20), np.arange(20) % 2
    with pytest.raises(ValueError, match=r"groups has shape \(3,\); it takes one entry for each of 20 rows"):
        FANClassifierCV(effort="fast").fit(X, y, groups=[1, 2, 3])
    with pytest.raises(ValueError, match="groups has missing entries; give every row a group"):
        FANClassifierCV(effort="fast").fit(X, y, groups=[None] * 20)
    with pytest.raises(ValueError, match="groups has missing entries; give every row a group"):
        FANClassifierCV(effort="fast").fit(X, y, groups=["a"] * 19 + [float("nan")])
    with pytest.raises(ValueError, match=r"groups.*Give fit its groups="):
        splits_of(GroupKFold(2), X, y)
    assert len(splits_of(GroupKFold(2), X, y, groups=np.arange(20) // 5)) == 2


@pytest.mark.parametrize("cv", [3, StratifiedKFold(3, shuffle=True, random_state=1)])
def test_unlabelled_rows_are_in_every_training_part(cv):
    y = np.array([0, 1] * 9, dtype=object)
    y[[2, 7, 11]] = None
    for train, test in splits_of(cv, numbers(18), y):
        assert train[[2, 7, 11]].all()
        assert not test[[2, 7, 11]].any()
        assert test.sum() == 5


def test_explicit_splits_count_the_rows_that_were_given():
    """Rows of weight 0 are absent, and the others keep their numbers."""
    y = np.array([0, 1] * 5)
    weight = np.array([1, 0, 1, 1, 0, 1, 1, 2, 1, 1.0])
    present = np.flatnonzero(weight)
    splits = [([0, 1, 2, 3, 4], [5, 6, 7]), (np.arange(10) > 4, np.arange(10) < 3)]  # numbers, and masks
    found = splits_of(splits, numbers(10), y, weight)
    assert [present[train > 0].tolist() for train, _ in found] == [[0, 2, 3], [5, 6, 7, 8, 9]]
    assert [present[test > 0].tolist() for _, test in found] == [[5, 6, 7], [0, 2]]
    assert found[0][1].tolist() == [0, 0, 0, 1, 1, 2, 0, 0]


# ---------------------------------------------------------------- units


def units_by_default(X, y, sample_weight=None, groups=None):
    cases = FANClassifierCV()._cases(X, y, sample_weight)
    rows = cases.training_table()
    judged, _, units = units_of(None, cases, rows, 0, read_groups(groups, cases))
    return rows, judged, units


@pytest.mark.parametrize(("n", "n_folds"), [(30, 5), (ONE_FIT_ABOVE, 5), (ONE_FIT_ABOVE + 1, 3)])
def test_many_cases_have_fewer_folds(n, n_folds):
    X, y = symbols(n), np.arange(n) % 2
    rows, judged, units = units_by_default(X, y)
    assert judged is rows
    n_deals = 2 if n <= DEALT_TWICE else 1
    assert len(units) == n_deals * n_folds
    for deal in range(n_deals):
        own = units[deal * n_folds : (deal + 1) * n_folds]
        np.testing.assert_allclose(sum(test for (_, test), _ in own), 1)
    if n_deals == 2:  # another seed, and other cases together
        assert {seed for _, seed in units[:n_folds]} != {seed for _, seed in units[n_folds:]}
        assert not np.array_equal(units[0][0][1], units[n_folds][0][1])


def test_cases_are_counted_not_rows():
    """Copies or weights; rows of next to no weight are not fewer for it."""
    X, y = symbols(40), np.arange(40) % 2
    for weight, n_units in ((1.0, 10), (100, 5), (ONE_FIT_ABOVE, 3), (0.01, 0)):
        assert len(units_by_default(X, y, np.full(40, weight))[2]) == n_units
    n = ONE_FIT_ABOVE + 1
    assert len(units_by_default(symbols(n), np.arange(n) % 2, np.full(n, 0.2))[2]) == 3


def test_units_hold_out_groups_together():
    y, groups = np.arange(90) % 2, np.arange(90) // 3
    _, _, units = units_by_default(numbers(90), y, groups=groups)
    assert len(units) == 10
    for (train, test), _ in units:
        assert not set(groups[train > 0]) & set(groups[test > 0])


@pytest.mark.filterwarnings("default")
def test_that_cases_are_too_few_is_said_once():
    with pytest.warns(UserWarning, match="too few") as told:
        _, _, units = units_by_default(numbers(40), np.arange(40) % 2, groups=np.arange(40) // 20)
    assert units == []
    assert len(told) == 1


def test_of_many_rows_a_sample_is_judged():
    n = int(WHOLE * MOST_JUDGED)
    X, y = symbols(n + 1), np.arange(n + 1) % 2
    _, judged, units = units_by_default(X[:n], y[:n])
    assert judged.table.n_rows == n
    assert len(units) == 3
    n += 1
    rows, judged, units = units_by_default(X, y)
    assert rows.table.n_rows == n
    assert judged.table.n_rows == len(judged.labels) == MOST_JUDGED
    [((train, test), _)] = units
    np.testing.assert_allclose(train + test, 1)
    assert test.sum() == pytest.approx(MOST_JUDGED / 4, abs=2)
    unlabelled = np.where(np.arange(3 * n) < n, 1.0, np.nan) * np.tile(y, 3)
    _, judged, _ = units_by_default(np.tile(X, (3, 1)), unlabelled)
    assert (judged.labels >= 0).sum() == MOST_JUDGED
    mostly_unlabelled = np.where(np.arange(n) <= MOST_JUDGED, y, np.nan)
    _, judged, _ = units_by_default(X, mostly_unlabelled)
    assert (judged.labels >= 0).sum() == MOST_JUDGED
    assert judged.table.n_rows == 2 * MOST_JUDGED
    few_labelled = np.where(np.arange(n) < 2 * DEALT_TWICE, y, np.nan)
    _, judged, units = units_by_default(X, few_labelled)
    assert (judged.labels >= 0).sum() == 2 * DEALT_TWICE  # all of them
    assert judged.table.n_rows == 2 * DEALT_TWICE + MOST_JUDGED
    assert len(units) == 5
    _, judged, units = units_by_default(X, y, groups=np.arange(n) // 2)
    assert judged.table.n_rows == MOST_JUDGED
    assert len(units) == 3


# ---------------------------------------------------------------- what it is for


def test_copies_are_no_evidence():
    """Noise, each row five times: what is promised of rows held out is what is found on new ones."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 5)), rng.integers(0, 2, 60)
    clf = FANClassifierCV(effort="fast", random_state=0)
    copied = clf.fit(np.repeat(X, 5, axis=0), np.repeat(y, 5)).log_score_
    new = rng.normal(size=(500, 5))
    proba = clf.predict_proba(new)
    assert copied < -0.6
    assert -np.log(proba).mean() < 0.8
    clf.fit(X, y, sample_weight=np.full(60, 5.0))
    assert clf.log_score_ == pytest.approx(copied, abs=1e-7)
    # What differs in the last bits grows in searches that end early.
    np.testing.assert_allclose(clf.predict_proba(new), proba, atol=1e-6)


def test_groups_are_no_evidence():
    """Labels that belong to people, not to what is known of them, five rows of each: nothing is promised of others."""
    rng = np.random.default_rng(0)
    person, y = np.repeat(np.arange(20), 5), np.repeat(rng.permutation(20) % 2, 5)
    X = rng.normal(size=(20, 3))[person] + 0.1 * rng.normal(size=(100, 3))
    alone = FANClassifierCV(effort="fast", random_state=0).fit(X, y)
    together = FANClassifierCV(effort="fast", random_state=0).fit(X, y, groups=person)
    assert alone.log_score_ > -0.3
    assert together.log_score_ < -0.6
    splits = list(GroupKFold(5).split(X, y, person))
    given = FANClassifierCV(effort="fast", cv=splits, random_state=0).fit(X, y)
    assert given.log_score_ < -0.4


def test_few_kinds_of_discrete_rows_are_many_cases():
    """Parity: naive Bayes tells nothing, two components all. Kept together, equal rows would reverse that."""
    X = np.random.default_rng(0).integers(0, 2, (2000, 3))
    y = X.sum(axis=1) % 2
    frame = pd.DataFrame(X.astype(str), columns=list("pqr"))
    clf = FANClassifierCV(effort="fast", random_state=0).fit(frame, y)
    assert "NB" not in set(clf.members_["model"])
    assert clf.log_score_ > -0.01
    kinds, which = np.unique(X, axis=0, return_inverse=True)
    weight = np.bincount(which.ravel()).astype(float)
    few = FANClassifierCV(effort="fast", random_state=0).fit(
        pd.DataFrame(kinds.astype(str), columns=list("pqr")), kinds.sum(axis=1) % 2, sample_weight=weight
    )
    np.testing.assert_allclose(few.predict_proba(frame), clf.predict_proba(frame), atol=1e-5)
