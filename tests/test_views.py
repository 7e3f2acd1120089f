"""Views: what decorrelation promises, from matrices written out here; binning as the classifiers have it."""

import numpy as np
import pytest
from scipy.linalg import fractional_matrix_power
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from fanbayes import FANClassifier, MDLPDiscretizer, NBClassifier
from fanbayes.data.sources import array_sources
from fanbayes.data.table import encode_table
from fanbayes.data.views import View, training_table, whitening


def correlated(n=400, k=4, n_classes=3, seed=0):
    """Classes apart, columns correlated within them."""
    rng = np.random.default_rng(seed)
    y = (np.arange(n) % n_classes).astype(np.int32)
    X = rng.normal(size=(n_classes, k))[y] + rng.normal(size=(n, k)) @ (np.eye(k) + 0.4 * rng.normal(size=(k, k)))
    return X * 10.0 ** np.arange(k) + 5.0, y


def standardised(X):
    return (X - np.nanmean(X, axis=0)) / np.nanstd(X, axis=0)


def see(X, y, treatment, weights=None, known=None):
    sources = list(array_sources(X, [f"x{j}" for j in range(X.shape[1])]))
    symbolic = [s.symbolic for s in sources]
    rows = training_table(sources, symbolic, None, y, weights, int(y.max()) + 1)
    view, table = rows.view(treatment, y if known is None else known)
    return view, view.mix(table)


def pooled_within(z, y, w=None):
    """Covariance of the deviations from the means of the classes."""
    w = np.ones(len(y)) if w is None else w
    total = np.zeros((z.shape[1], z.shape[1]))
    for c in np.unique(y):
        d = z[y == c] - np.average(z[y == c], axis=0, weights=w[y == c])
        total += (w[y == c][:, None] * d).T @ d
    return total / w.sum()


def shrunk(within, n):
    """Correlations times n / (n + k), deviations kept."""
    deviation = np.sqrt(np.diag(within))
    correlation = within / np.outer(deviation, deviation) * n / (n + len(within))
    np.fill_diagonal(correlation, 1.0)
    return correlation, deviation


# ---------------------------------------------------------------- decorrelated


@pytest.mark.parametrize("n", [12, 60, 900])
def test_whitening_by_its_definition(n):
    """What is left within the classes is uncorrelated but for the shrinkage, and every column has variance 1."""
    X, y = correlated(n)
    z = standardised(X)
    matrix = whitening(z, y, None, 3)
    correlation, deviation = shrunk(pooled_within(z, y), n)
    left = matrix.T @ (correlation * np.outer(deviation, deviation)) @ matrix
    np.testing.assert_allclose(left / np.sqrt(np.outer(np.diag(left), np.diag(left))), np.eye(4), atol=1e-6)
    np.testing.assert_allclose((z @ matrix).mean(axis=0), 0.0, atol=1e-9)
    np.testing.assert_allclose((z @ matrix).std(axis=0), 1.0, rtol=1e-9)
    # Of all such matrices it is the one of the symmetric root: each column stays closest to itself.
    root = fractional_matrix_power(correlation, -0.5) / deviation[:, None]
    np.testing.assert_allclose(matrix, root / (z @ root).std(axis=0), rtol=1e-5, atol=1e-7)


def test_many_rows_leave_no_correlation_within_classes():
    X, y = correlated(6000)
    _, table = see(X, y, "decorrelate")
    within = pooled_within(table.numbers, y)
    left = within / np.sqrt(np.outer(np.diag(within), np.diag(within)))
    assert np.abs(left - np.eye(4)).max() < 0.01
    plain = pooled_within(standardised(X), y)
    assert np.abs(plain / np.sqrt(np.outer(np.diag(plain), np.diag(plain))) - np.eye(4)).max() > 0.3
    np.testing.assert_allclose(table.numbers.std(axis=0), 1.0, rtol=1e-9)


def test_columns_that_are_uncorrelated_within_classes_stay_as_they_are():
    """Between the classes they are: that is what the class tells, and is left alone."""
    rng = np.random.default_rng(1)
    y = (np.arange(5000) % 2).astype(np.int32)
    X = 2.0 * y[:, None] + rng.normal(size=(5000, 2))
    _, table = see(X, y, "decorrelate")
    np.testing.assert_allclose(table.numbers, standardised(X), atol=0.1)
    assert abs(np.corrcoef(standardised(X).T)[0, 1]) > 0.4


def test_values_missing_at_random_do_not_bring_back_correlation():
    """The same columns, of which half the values were not observed: their classes still lie where they lay."""
    rng = np.random.default_rng(1)
    y = (np.arange(5000) % 2).astype(np.int32)
    X = 4.0 * y[:, None] + rng.normal(size=(5000, 2))
    X[rng.random(X.shape) < 0.5] = np.nan
    matrix = whitening(standardised(X), y, None, 2)
    assert np.abs(matrix[[0, 1], [1, 0]] / np.diag(matrix)).max() < 0.05


def test_a_row_of_weight_two_is_the_row_twice():
    X, y = correlated(60)
    X[::7, 1] = np.nan
    weight = np.where(np.arange(60) % 3 == 0, 2.0, 1.0)
    twice = np.repeat(np.arange(60), weight.astype(int))
    z = standardised(X[twice])
    one = whitening(standardised(X), y, np.ones(60), 3)
    np.testing.assert_allclose(one, whitening(standardised(X), y, None, 3), rtol=1e-12)
    first = np.unique(twice, return_index=True)[1]
    np.testing.assert_allclose(whitening(z[first], y, weight, 3), whitening(z, y[twice], None, 3), rtol=1e-9)
    a, seen_once = see(X, y, "decorrelate", weight)
    b, seen_twice = see(X[twice], y[twice], "decorrelate")
    np.testing.assert_allclose(a.mixing, b.mixing, rtol=1e-9)
    np.testing.assert_allclose(seen_once.numbers[:, 0], seen_twice.numbers[first, 0], rtol=1e-9, atol=1e-12)


def test_missing_stays_missing_and_is_the_mean_for_the_others():
    X, y = correlated(30)
    X[3, 1] = X[4, 0] = X[4, 2] = np.nan
    X[5] = np.nan
    view, table = see(X, y, "decorrelate")
    assert (np.isnan(table.numbers) == np.isnan(X)).all()
    z = standardised(X)
    for row in range(30):
        for j in range(4):
            if not np.isnan(X[row, j]):
                wanted = sum(view.mixing[i, j] * z[row, i] for i in range(4) if not np.isnan(X[row, i]))
                assert table.numbers[row, j] == pytest.approx(wanted, rel=1e-9, abs=1e-12)


def test_it_is_learnt_from_known_labels_only():
    X, y = correlated(80)
    known = np.where(np.arange(80) < 50, y, np.int32(-1)).astype(np.int32)
    view, table = see(X, y, "decorrelate", known=known)
    z = standardised(X)
    np.testing.assert_allclose(view.mixing, whitening(z[:50], y[:50], None, 3), rtol=1e-9)
    assert (table.labels == y).all()
    other = y.copy()
    other[50:] = (other[50:] + 1) % 3  # labels of rows that are held out do not matter
    np.testing.assert_array_equal(see(X, other, "decorrelate", known=known)[0].mixing, view.mixing)


def test_new_rows_are_seen_like_the_old_ones():
    X, y = correlated(50)
    X[::9, 2] = np.nan
    for treatment in ("none", "mdlp", "decorrelate"):
        view, table = see(X, y, treatment)
        again = view.mix(encode_table(view.schema, list(array_sources(X[10:20], ["x0", "x1", "x2", "x3"])), 10))
        np.testing.assert_array_equal(again.narrow, table.narrow[10:20])
        np.testing.assert_allclose(again.numbers, table.numbers[10:20], rtol=1e-12)
        assert (view.mixing is None) == (treatment != "decorrelate")


def test_features_of_the_columns_of_the_layout():
    """Discrete columns come first, wherever they were; only continuous ones are mixed."""
    X, y = correlated(40)
    mixed = np.column_stack([X[:, 0].astype(object), np.where(y > 0, "a", "b").astype(object), X[:, 1].astype(object)])
    view, table = see(mixed, y, "decorrelate")
    assert view.feature_of.tolist() == [1, 0, 2]
    assert view.mixing.shape == (2, 2)
    np.testing.assert_allclose(table.numbers, see(X[:, :2], y, "decorrelate")[1].numbers, rtol=1e-9)
    np.testing.assert_array_equal(table.narrow, see(mixed, y, "none")[1].narrow)


def test_tied_naive_bayes_of_decorrelated_columns_is_discriminant_analysis():
    X, y = correlated(20_000)
    _, table = see(X, y, "decorrelate")
    found = NBClassifier(variance_tying="all").fit(table.numbers, y).predict_proba(table.numbers)
    wanted = LinearDiscriminantAnalysis().fit(X, y).predict_proba(X)
    assert np.abs(found - wanted).max() < 5e-3
    plain = NBClassifier(variance_tying="all").fit(X, y).predict_proba(X)
    assert np.abs(plain - wanted).max() > 0.1


SPOILT = {
    "duplicated": lambda X, y: np.column_stack([X, X[:, 0]]),
    "negated": lambda X, y: np.column_stack([X, -3.0 * X[:, 0]]),
    "collinear": lambda X, y: np.column_stack([X, X.sum(axis=1)]),
    "constant": lambda X, y: np.column_stack([X, np.ones(len(y))]),
    "empty": lambda X, y: np.column_stack([X, np.full(len(y), np.nan)]),
    "constant in classes": lambda X, y: np.column_stack([X, y.astype(float)]),
    "one that differs": lambda X, y: np.column_stack([X, np.where(np.arange(len(y)) == 0, 1.0, 0.0)]),
    "never two at once": lambda X, y: np.where(np.arange(2) == np.arange(len(y))[:, None] // 2 % 2, X[:, :2], np.nan),
    "single": lambda X, y: X[:, :1],
}


@pytest.mark.parametrize("spoilt", SPOILT)
@pytest.mark.parametrize("n", [2, 6, 60])
def test_degenerate_columns_give_finite_matrices(spoilt, n):
    X, y = correlated(n, n_classes=2)
    X = SPOILT[spoilt](X, y)
    view, table = see(X, y, "decorrelate")
    assert np.isfinite(view.mixing).all()
    assert (
        len(view.feature_of)
        == len(view.mixing)
        == (np.nanmax(X, 0, initial=-1e99) > np.nanmin(X, 0, initial=1e99)).sum()
    )
    assert (np.isnan(table.numbers) == np.isnan(X[:, view.feature_of])).all()
    assert np.nanmax(np.abs(table.numbers)) < 1e3


# ---------------------------------------------------------------- binned, or as they are


def test_the_binned_view_is_that_of_the_classifiers():
    X, y = correlated(200)
    X[::11, 0] = np.nan
    view, table = see(X, y, "mdlp")
    clf = FANClassifier(1, discretize="mdlp").fit(X, y)
    assert view == View(clf.schema_, None)
    cuts = [np.array(view.schema[j].cuts) for j in range(4)]
    for found, wanted in zip(cuts, MDLPDiscretizer().fit(X, y).cut_points_):
        np.testing.assert_array_equal(found, wanted)
    assert max(map(len, cuts)) > 0
    for place, j in enumerate(view.feature_of.tolist()):
        codes = (X[:, [j]] > cuts[j]).sum(axis=1)
        codes[np.isnan(X[:, j])] = len(cuts[j]) + 1
        assert (table.narrow[:, place] == codes).all()


def test_cuts_are_learnt_from_known_labels_only():
    X, y = correlated(200)
    known = np.where(np.arange(200) < 120, y, np.int32(-1)).astype(np.int32)
    view, _ = see(X, y, "mdlp", known=known)
    wanted = MDLPDiscretizer().fit(X[:120], y[:120]).cut_points_
    for j in range(4):
        np.testing.assert_array_equal(view.schema[j].cuts, wanted[j])


def test_left_as_they_are():
    X, y = correlated(40)
    view, table = see(X, y, "none")
    np.testing.assert_allclose(table.numbers, standardised(X), rtol=1e-9, atol=1e-12)
    assert view.mix(table) is table


def test_bins_of_what_was_read_once_are_those_of_the_columns():
    """Discrete columns keep their codes, though bins change the order of the columns; wide ones stay wide."""
    rng = np.random.default_rng(0)
    y = np.arange(600, dtype=np.int32) % 2
    X = np.column_stack(
        [y + rng.normal(size=600), rng.integers(0, 400, 600), np.full(600, np.nan), np.ones(600), rng.normal(size=600)]
    )
    X[::9, 0] = X[::7, 1] = np.nan
    sources = list(array_sources(X, list("abcde")))
    rows = training_table(sources, [False, True, False, False, False], None, y, None, 2)
    view, table = rows.view("mdlp", y)
    wanted = encode_table(view.schema, sources, 600)
    assert [c.kind for c in view.schema.columns] == ["binned", "discrete", "continuous", "binned", "binned"]
    assert view.schema["a"].n_levels > 1
    assert table.wide.shape == (600, 1)
    for found, block in ((table.narrow, wanted.narrow), (table.wide, wanted.wide), (table.numbers, wanted.numbers)):
        np.testing.assert_array_equal(found, block)
    assert table.labels is rows.table.labels
