"""Cut points: Weka's, the definition in exact arithmetic, weights, and the ends of the float range."""

import json
import os
from collections import Counter
from decimal import Decimal, localcontext
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.special import entr
from sklearn import datasets

from fanbayes.data.mdl import assign, cut_points

WEKA = json.loads((Path(__file__).parent / "data" / "weka_cuts.json").read_text())


# --- Weka ---------------------------------------------------------------------------------------------------


def uniform(n, salt):
    """Draw n multiples of 2**-32 from [0, 1), the same on every machine and under every NumPy."""
    z = np.arange(1, n + 1, dtype=np.uint64) + np.uint64(salt << 32)
    for factor in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9):
        z *= np.uint64(factor)
        z ^= z >> np.uint64(31)
    return (z >> np.uint64(32)) / 2**32


def generated_smooth():
    """Four classes that overlap; distinct, tied, folded, missing, useless, constant and huge values."""
    n = 4000
    y = (4 * uniform(n, 0)).astype(int)
    x = y + 3 * uniform(n, 1) + 3 * uniform(n, 2)
    missing = np.where(uniform(n, 3) < 0.2, np.nan, x)
    noise = uniform(n, 4)
    X = (x, np.round(x, 1), np.round(x), np.abs(x - 4), missing, noise, np.full(n, 7.0), x * 1e307, -x)
    return np.column_stack(X), np.where(uniform(n, 5) < 0.05, -1, y)


def generated_many_classes():
    """Twelve classes of very different size, one of them never seen."""
    n = 1500
    y = (11.9 * uniform(n, 6) ** 2).astype(int)
    y[y == 5] = 6
    x = (y * 5 % 12) + 6 * uniform(n, 7)
    return np.column_stack((x, np.round(x), np.round(x * 8) / 8, -(x**2))), y


def generated_mirror():
    """Labels that read the same from both ends, so that each cut ties with its mirror image."""
    y = np.repeat([0, 1, 2, 0, 2, 1, 0], [40, 30, 30, 100, 30, 30, 40])
    x = np.arange(len(y), dtype=float)
    return np.column_stack((x, -x, x // 10, 1e300 * x)), y


CASES = {
    "iris": lambda: datasets.load_iris(return_X_y=True),
    "wine": lambda: datasets.load_wine(return_X_y=True),
    "breast_cancer": lambda: datasets.load_breast_cancer(return_X_y=True),
    "digits": lambda: datasets.load_digits(return_X_y=True),
    "smooth": generated_smooth,
    "many_classes": generated_many_classes,
    "mirror": generated_mirror,
}


@pytest.mark.parametrize("name", CASES)
def test_finds_the_cuts_of_weka(name):
    X, y = CASES[name]()
    found = [cut_points(column, y, y.max() + 1).tolist() for column in X.T]
    assert found == WEKA["cuts"][name]


@pytest.mark.slow
@pytest.mark.skipif("FANBAYES_DATA" not in os.environ, reason="no folder of data sets in FANBAYES_DATA")
@pytest.mark.parametrize("name", WEKA["suite"])
def test_finds_the_cuts_of_weka_on_the_suite(name):
    pd = pytest.importorskip("pandas")
    (path,) = Path(os.environ["FANBAYES_DATA"]).glob(f"{name}.csv*")
    frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    y = np.unique(frame["class"], return_inverse=True)[1]
    for column, cuts in WEKA["suite"][name].items():
        x = pd.to_numeric(frame[column]).to_numpy(float)
        assert cut_points(x, y, y.max() + 1).tolist() == cuts, column


def cases(counts):
    """List x and class of the cases, given the counts of each class at x = 0, 1, ..."""
    x, y = (np.repeat(i, np.ravel(counts)) for i in np.indices(np.shape(counts)).reshape(2, -1))
    return x.astype(float), y


# --- the definition -----------------------------------------------------------------------------------------


def entropy(classes):
    """Ent(S) in bits, to 50 digits."""
    n = len(classes)
    return -sum(Decimal(m) / n * (Decimal(m) / n).ln() / Decimal(2).ln() for m in Counter(classes).values())


def class_entropy_power(*sets):
    """exp(sum_i |S_i| Ent(S_i)) = prod_i |S_i|^|S_i| / prod_c n_ic^n_ic, a fraction: ties are exact."""
    power = Fraction(1)
    for classes in sets:
        power *= len(classes) ** len(classes)
        for m in Counter(classes).values():
            power /= m**m
    return power


def defined_cuts(values, classes):
    """Cut the sorted cases as the paper says, trying every place between two different values."""
    places = [i for i in range(1, len(values)) if values[i - 1] < values[i]]
    if not places:
        return []
    i = min(places, key=lambda i: class_entropy_power(classes[:i], classes[i:]))
    s, s1, s2 = classes, classes[:i], classes[i:]
    n, k, k1, k2 = len(s), len(set(s)), len(set(s1)), len(set(s2))
    with localcontext(prec=50):
        ent, ent1, ent2 = entropy(s), entropy(s1), entropy(s2)
        gain = ent - (len(s1) * ent1 + len(s2) * ent2) / n
        delta = Decimal(3**k - 2).ln() / Decimal(2).ln() - (k * ent - k1 * ent1 - k2 * ent2)
        margin = gain - (Decimal(n - 1).ln() / Decimal(2).ln() + delta) / n
    assume(abs(margin) > 1e-12)
    if margin < 0:
        return []
    cut = (values[i - 1] + values[i]) / 2
    return [*defined_cuts(values[:i], s1), cut, *defined_cuts(values[i:], s2)]


@st.composite
def columns(draw, max_size=60):
    """Draw (x, labels, n_classes, weight), with ties, structure, missing values and unlabelled rows."""
    n_classes = draw(st.integers(1, 9))
    n = draw(st.sampled_from((1, 3, 10, max_size // 2, max_size - 1, max_size)))
    levels = draw(st.sampled_from((2, 5, 20, 1000)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    labels = rng.integers(0, n_classes, n)
    spread = draw(st.sampled_from((0.0, 0.1, 0.5, 2.0)))
    if draw(st.booleans()):  # mirror images make ties
        half = np.sort(labels[: n - n // 2])
        labels = np.concatenate((half[: n // 2], half[::-1]))
        centre = np.arange(n) / max(n, 1)
    else:
        centre = labels / n_classes
    x = np.round(levels * (centre + spread * rng.random(n))) / 8
    x[rng.random(n) < draw(st.sampled_from((0, 0.2)))] = np.nan
    labels[rng.random(n) < draw(st.sampled_from((0, 0.2)))] = -1
    return x, labels, n_classes, rng.integers(0, 4, n).astype(float)


@settings(deadline=None, max_examples=400)
@given(column=columns())
def test_agrees_with_the_definition(column):
    x, labels, n_classes, _ = column
    seen = np.flatnonzero(~np.isnan(x) & (labels >= 0))
    seen = seen[np.argsort(x[seen])]
    expected = defined_cuts(x[seen].tolist(), labels[seen].tolist())
    assert cut_points(x, labels, n_classes).tolist() == expected


def first_cut(x, labels):
    """The lowest cut of largest gain, every place between two different values tried."""
    order = np.argsort(x)
    x, one_hot = x[order], np.eye(labels.max() + 1)[labels[order]]
    left = one_hot.cumsum(axis=0)[:-1][np.diff(x) > 0]
    sides = np.stack([left, one_hot.sum(axis=0) - left])
    entropy = entr(sides / sides.sum(axis=2, keepdims=True)).sum(axis=2)
    loss = (sides.sum(axis=2) * entropy).sum(axis=0)
    best = np.flatnonzero(loss <= loss.min() + 1e-9)[0]
    values = np.unique(x)
    return (values[best] + values[best + 1]) / 2


@pytest.mark.parametrize("seed", range(5))
def test_the_search_skips_nothing(seed):
    # Many places are nearly as good as the best: bounds that are too low would pass over it.
    rng = np.random.default_rng(seed)
    for n, n_classes in ((300, 2), (2000, 3), (20_000, 2), (3000, 12)):
        labels = rng.integers(0, n_classes, n)
        x = rng.normal(size=n) + 1.5 * (labels == 0)
        assert first_cut(x, labels) in cut_points(x, labels, n_classes)


# --- rows that count, and rows that do not ------------------------------------------------------------------


@settings(deadline=None)
@given(column=columns(200))
def test_a_weight_is_a_number_of_rows(column):
    x, labels, n_classes, weight = column
    repeated = np.repeat(np.arange(len(x)), weight.astype(int))
    weighted = cut_points(x, labels, n_classes, weight)
    assert weighted.tolist() == cut_points(x[repeated], labels[repeated], n_classes).tolist()


@settings(deadline=None)
@given(column=columns(200))
def test_missing_values_and_unlabelled_rows_are_absent(column):
    x, labels, n_classes, weight = column
    seen = ~np.isnan(x) & (labels >= 0)
    cuts = cut_points(x, labels, n_classes, weight)
    assert cuts.tolist() == cut_points(x[seen], labels[seen], n_classes, weight[seen]).tolist()


@settings(deadline=None)
@given(column=columns(200), seed=st.integers(0, 2**32))
def test_order_of_rows_and_names_of_classes_do_not_matter(column, seed):
    x, labels, n_classes, weight = column
    rng = np.random.default_rng(seed)
    rows, names = rng.permutation(len(x)), rng.permutation(n_classes + 2)
    renamed = np.where(labels < 0, -1, names[labels])
    for w in (weight, weight / 10 + 0.01):
        cuts = cut_points(x, labels, n_classes, w)
        assert cut_points(x[rows], renamed[rows], n_classes + 2, w[rows]).tolist() == cuts.tolist()


@pytest.mark.parametrize("name", ["mirror", "many_classes"])
def test_ten_tenths_of_a_row_are_the_row(name):
    # Specks like 0.1 + ... + 0.1 - 0.1 - ... - 0.1 must not count as a class present.
    X, y = CASES[name]()
    for x in X.T:
        tenths = cut_points(np.repeat(x, 10), np.repeat(y, 10), y.max() + 1, np.full(10 * len(y), 0.1))
        assert tenths.tolist() == cut_points(x, y, y.max() + 1).tolist()


def test_fractions_that_sum_to_a_tie_tie():
    x, y = cases([[80, 280], [130, 130], [280, 80]])  # turned over, it is the same with the classes exchanged
    rng = np.random.default_rng(0)
    for _ in range(20):
        half = rng.random(len(x) // 2) / 5
        rows, weight = rng.permutation(len(x)), np.concatenate((half, half[::-1]))
        assert cut_points(x[rows], y[rows], 2, weight[rows]).tolist() == [0.5]


def test_light_rows_cannot_buy_a_cut():
    # Half a case in all: log2(N - 1) is undefined, and no cut can be worth log2(3^2 - 2) bits.
    assert cut_points(np.array([0.0, 1.0]), np.array([0, 1]), 2, np.array([0.25, 0.25])).size == 0


# --- the ends -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("x", "labels"),
    [
        ([], []),
        ([1.0], [0]),
        ([np.nan, np.nan], [0, 1]),
        ([1.0, 2.0], [-1, -1]),
        ([3.0] * 100, [0, 1] * 50),
        ([0.0, -0.0] * 50, [0, 1] * 50),
        (np.arange(100.0), [1] * 100),
        (np.arange(100.0), [0, 1] * 50),
    ],
    ids=["empty", "one row", "missing", "unlabelled", "constant", "two zeros", "one class", "alternating"],
)
def test_nothing_to_cut(x, labels):
    cuts = cut_points(np.array(x, float), np.array(labels, int), 2)
    assert cuts.dtype == np.float64
    assert cuts.shape == (0,)


@pytest.mark.parametrize(
    ("counts", "cuts"),
    [
        ([[1, 0], [0, 1]], [0.5]),  # N Gain = 2 > log2(1) + log2(7) - 2 = 0.81
        ([[1, 0], [0, 5]], [0.5]),  # 3.900 > log2(5) + log2(7) - 1.300 = 3.829
        ([[1, 0], [0, 6]], []),  # 4.142 < log2(6) + log2(7) - 1.183 = 4.209
    ],
)
def test_worked_by_hand(counts, cuts):
    assert cut_points(*cases(counts), 2).tolist() == cuts


@pytest.mark.parametrize(
    "counts",
    [
        [[8, 28], [13, 13], [28, 8]],
        [[0, 28, 4], [2, 6, 6], [0, 4, 28]],
        [[24, 16, 24, 0], [10, 8, 10, 8], [24, 0, 24, 16]],
        [[0, 20, 28, 28], [5, 3, 3, 5], [28, 28, 20, 0]],
    ],
)
def test_the_lowest_of_two_equal_cuts_wins(counts):
    # The first two tie exactly, but not as sums of n log n; the others not as gains either, by one rounding.
    assert cut_points(*cases(counts), 4).tolist() == [0.5]


TINY = 5e-324


@pytest.mark.parametrize(
    ("low", "high"),
    [
        (-1.7e308, 1.7e308),
        (1e308, 1.7e308),
        (np.nextafter(np.finfo(float).max, 0), np.finfo(float).max),
        (1.0, np.nextafter(1.0, 2)),
        (np.nextafter(1.0, 0), 1.0),
        (np.nextafter(1.0, 2), np.nextafter(np.nextafter(1.0, 2), 2)),
        (-np.nextafter(1.0, 2), -1.0),
        (0.0, TINY),
        (-TINY, 0.0),
        (3 * TINY, 4 * TINY),
        (1e-308, np.nextafter(1e-308, 1)),
        (-1e-308, 1e-308),
    ],
)
def test_neighbouring_values_part(low, high):
    x, y = np.repeat([low, high], 20), np.repeat([0, 1], 20)
    cuts = cut_points(x, y, 2)
    assert len(cuts) == 1
    assert low <= cuts[0] < high
    assert assign(x, cuts).tolist() == y.tolist()


def test_more_classes_than_3_to_the_k_can_count():
    k = 700
    x = np.repeat(np.arange(k), 40).astype(float)
    assert cut_points(x, x.astype(int), k).tolist() == (np.arange(k - 1) + 0.5).tolist()


def test_peeling_off_one_class_after_the_other_is_not_limited_by_recursion():
    sizes = 3 ** np.arange(9)
    x = np.repeat(np.arange(9), sizes).astype(float)
    assert len(cut_points(x, x.astype(int), 9)) == 8


def test_assign():
    x = np.array([-1e308, 1.0, np.nextafter(1.0, 2), 2.5, np.nan, 3.0, 1e308])
    assert assign(x, np.array([1.0, 2.5])).tolist() == [0, 0, 1, 1, -1, 2, 2]
    assert assign(x, np.array([])).tolist() == [0, 0, 0, 0, -1, 0, 0]
