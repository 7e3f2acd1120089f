"""Metrics against hand-worked rows, scikit-learn, and their own definitions."""

import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import calibration_curve
from sklearn.metrics import log_loss, roc_auc_score

from fanbayes.evaluation import metrics

# Four rows that can be worked by hand; the last true label is a class the model never saw.
Y = ["a", "b", "b", "z"]
CLASSES = ["a", "b", "c"]
PROBA = np.array([[0.5, 0.25, 0.25], [0.8, 0.1, 0.1], [0.0, 1.0, 0.0], [0.6, 0.2, 0.2]])
with np.errstate(divide="ignore"):
    LOG_PROBA = np.log(PROBA)

ON_TABLES = [
    metrics.log_losses,
    metrics.conditional_entropy,
    metrics.clipped_share,
    metrics.roc_area,
    metrics.brier_score,
    metrics.reliability_curve,
    metrics.expected_calibration_error,
]
WEIGHTED = [f for f in ON_TABLES if f is not metrics.log_losses]


@pytest.fixture
def rng():
    return np.random.default_rng(20240611)


def random_problem(rng, n, n_classes, noise=1.0):
    """Labels drawn from a softmax, and log-probabilities that are off by some noise."""
    logits = 2 * rng.normal(size=(n, n_classes))
    proba = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    y = np.array([rng.choice(n_classes, p=p) for p in proba])
    logits += noise * rng.normal(size=logits.shape)
    return y, logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)


def compare(result, expected):
    """Equal results, field by field where there are fields."""
    names = getattr(result, "__dataclass_fields__", None)
    pairs = [(getattr(result, k), getattr(expected, k)) for k in names] if names else [(result, expected)]
    for left, right in pairs:
        np.testing.assert_allclose(left, right, rtol=1e-12)


def test_accuracy_counts_and_weighs():
    assert metrics.accuracy(["a", "b", "b"], ["a", "a", "b"]) == pytest.approx(2 / 3)
    assert metrics.accuracy([1, 2, 2], [1, 1, 2], sample_weight=[1, 3, 0]) == pytest.approx(1 / 4)


def test_losses_by_hand():
    losses = metrics.log_losses(Y, LOG_PROBA, classes=CLASSES, clip=1e-3)
    np.testing.assert_allclose(losses, [np.log(2), np.log(10), 0, np.log(1000)])
    assert metrics.conditional_entropy(Y, LOG_PROBA, classes=CLASSES, clip=1e-3) == pytest.approx(
        np.log(2 * 10 * 1000) / 4
    )


def test_conditional_entropy_is_log_loss_where_nothing_is_clipped(rng):
    y, log_proba = random_problem(rng, 200, 4)
    weight = rng.uniform(size=200)
    ours = metrics.conditional_entropy(y, log_proba, classes=range(4), sample_weight=weight)
    theirs = log_loss(y, np.exp(log_proba), labels=range(4), sample_weight=weight)
    assert ours == pytest.approx(theirs, rel=1e-12)


def test_clip_is_a_floor_not_a_cut_of_the_finite():
    log_proba = np.array([[-30.0, np.log1p(-np.exp(-30.0))], [-800.0, 0.0], [-np.inf, 0.0]])
    losses = metrics.log_losses([0, 0, 0], log_proba, classes=[0, 1])
    np.testing.assert_allclose(losses, [30.0, -np.log(metrics.CLIP), -np.log(metrics.CLIP)])
    np.testing.assert_allclose(
        metrics.log_losses([0, 0, 0], log_proba, classes=[0, 1], clip=1e-300),
        [30, 690.77552789, 690.77552789],
    )


def test_clipped_share_counts_low_impossible_and_unknown_but_not_the_clip_itself():
    y = [0, 0, 0, 7]
    clip = 0.25
    log_proba = np.log([[0.25, 0.75], [0.2, 0.8], [0.5, 0.5], [0.5, 0.5]])
    assert metrics.clipped_share(y, log_proba, classes=[0, 1], clip=clip) == 0.5
    assert metrics.clipped_share(y, log_proba, classes=[0, 1], clip=clip, sample_weight=[1, 6, 1, 0]) == 0.75


def test_order_of_classes_does_not_matter(rng):
    y, log_proba = random_problem(rng, 60, 3)
    names = np.array(["x", "y", "w"])
    order = [2, 0, 1]
    for metric in (metrics.conditional_entropy, metrics.brier_score, metrics.expected_calibration_error):
        there = metric(names[y], log_proba, classes=names)
        assert metric(names[y], log_proba[:, order], classes=names[order]) == pytest.approx(there, rel=1e-12)


def test_roc_area_is_the_share_of_ordered_pairs(rng):
    y, log_proba = random_problem(rng, 80, 2)
    odds = np.round(metrics.log_odds(log_proba), 0)  # ties
    log_proba = -np.logaddexp(0, np.column_stack([odds, -odds]))
    pairs = odds[y == 1][:, None] - odds[y == 0]
    expected = np.mean((pairs > 0) + 0.5 * (pairs == 0))
    assert metrics.roc_area(y, log_proba, classes=[0, 1]) == pytest.approx(expected, rel=1e-12)
    # The other class as the positive one.
    assert metrics.roc_area(y, log_proba[:, ::-1], classes=[1, 0]) == pytest.approx(expected, rel=1e-12)


def test_roc_area_survives_saturation_and_infinite_odds():
    y = [0, 0, 0, 1, 1]
    odds = np.array([-np.inf, 40.0, 45.0, 50.0, np.inf])
    log_proba = -np.logaddexp(0, np.column_stack([odds, -odds]))
    assert metrics.roc_area(y, log_proba, classes=[0, 1]) == 1.0
    assert roc_auc_score(y, np.exp(log_proba)[:, 1]) == pytest.approx(2 / 3)
    np.testing.assert_allclose(metrics.log_odds(log_proba), odds)


def test_brier_by_hand():
    rows = [0.25 + 2 / 16, 0.64 + 0.81 + 0.01, 0.0, 0.36 + 0.04 + 0.04 + 1.0]
    assert metrics.brier_score(Y, LOG_PROBA, classes=CLASSES) == pytest.approx(np.mean(rows))


def test_brier_is_twice_the_form_for_the_positive_class(rng):
    y, log_proba = random_problem(rng, 50, 2)
    half = np.mean((np.exp(log_proba[:, 1]) - y) ** 2)
    assert metrics.brier_score(y, log_proba, classes=[0, 1]) == pytest.approx(2 * half, rel=1e-12)


def test_reliability_by_hand():
    # Confidences .5, .8, 1, .6 with outcomes 1, 0, 1, 0 in the bins (.4, .6], (.6, .8], (.8, 1].
    curve = metrics.reliability_curve(Y, LOG_PROBA, classes=CLASSES, n_bins=5)
    np.testing.assert_allclose(curve.count, [2, 1, 1])
    np.testing.assert_allclose(curve.predicted, [0.55, 0.8, 1.0])
    np.testing.assert_allclose(curve.observed, [0.5, 0.0, 1.0])
    error = metrics.expected_calibration_error(Y, LOG_PROBA, classes=CLASSES, n_bins=5)
    assert error == pytest.approx((2 * 0.05 + 0.8 + 0.0) / 4)


def test_reliability_of_one_class_is_sklearns_curve(rng):
    y, log_proba = random_problem(rng, 300, 2)
    observed, predicted = calibration_curve(y, np.exp(log_proba[:, 1]), n_bins=7)
    curve = metrics.reliability_curve(y, log_proba, classes=[0, 1], positive=1, n_bins=7)
    np.testing.assert_allclose(curve.observed, observed)
    np.testing.assert_allclose(curve.predicted, predicted)
    assert curve.count.sum() == 300


def test_quantile_bins_hold_equal_mass_and_keep_ties_together(rng):
    y, log_proba = random_problem(rng, 120, 3)
    curve = metrics.reliability_curve(y, log_proba, classes=range(3), n_bins=8, strategy="quantile")
    np.testing.assert_array_equal(curve.count, 15)
    assert (np.diff(curve.predicted) > 0).all()
    tied = np.repeat(log_proba[:2], 60, axis=0)
    curve = metrics.reliability_curve(y, tied, classes=range(3), n_bins=8, strategy="quantile")
    np.testing.assert_array_equal(curve.count, 60)
    # Most of the mass of the tied seven lies in the upper half.
    tied = np.log(np.repeat([[0.5, 0.5], [0.7, 0.3], [0.9, 0.1]], [2, 7, 1], axis=0))
    curve = metrics.reliability_curve([0] * 10, tied, classes=[0, 1], n_bins=2, strategy="quantile")
    np.testing.assert_array_equal(curve.count, [2, 8])


def test_calibrated_predictions_have_a_small_error_and_noisy_ones_a_large_one(rng):
    errors = []
    for noise in (0.0, 3.0):
        y, log_proba = random_problem(rng, 4000, 3, noise=noise)
        errors.append(metrics.expected_calibration_error(y, log_proba, classes=range(3)))
    assert errors[0] < 0.03
    assert errors[1] > 0.2


@pytest.mark.parametrize("metric", WEIGHTED)
@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_weight_two_is_the_row_twice_and_weight_zero_its_absence(metric, strategy, rng):
    y, log_proba = random_problem(rng, 40, 2)
    weight = rng.integers(0, 3, size=40)
    options = {"strategy": strategy, "n_bins": 4} if "bins" in str(metric.__annotations__) else {}
    weighted = metric(y, log_proba, classes=[0, 1], sample_weight=weight, **options)
    repeated = metric(np.repeat(y, weight), np.repeat(log_proba, weight, axis=0), classes=[0, 1], **options)
    compare(weighted, repeated)


def test_the_stated_conventions(rng):
    assert metrics.CLIP == 1e-15
    y, log_proba = random_problem(rng, 200, 3)
    default, fifteen, ten = (
        metrics.expected_calibration_error(y, log_proba, classes=range(3), **options)
        for options in ({}, {"n_bins": 15, "strategy": "uniform"}, {"n_bins": 10})
    )
    assert default == fifteen != ten


def test_one_row():
    one = {"y_true": ["b"], "log_proba": np.log([[0.25, 0.75]]), "classes": ["a", "b"]}
    assert metrics.conditional_entropy(**one) == pytest.approx(-np.log(0.75))
    assert metrics.brier_score(**one) == pytest.approx(2 * 0.25**2)
    assert metrics.expected_calibration_error(**one) == pytest.approx(0.25)
    assert metrics.accuracy(["b"], ["b"]) == 1.0


@pytest.mark.parametrize("labels", [["a", "a"], ["b", "b"]])
def test_roc_area_of_one_class_is_refused(labels):
    log_proba = np.log([[0.5, 0.5], [0.2, 0.8]])
    with pytest.raises(ValueError, match="rows of both classes"):
        metrics.roc_area(labels, log_proba, classes=["a", "b"])
    with pytest.raises(ValueError, match="rows of both classes"):
        metrics.roc_area(["a", "b"], log_proba, classes=["a", "b"], sample_weight=[1, 0])


def test_roc_area_of_other_than_two_classes_is_refused():
    with pytest.raises(ValueError, match="need two classes; log_proba has 3"):
        metrics.roc_area(Y, LOG_PROBA, classes=CLASSES)
    with pytest.raises(ValueError, match="label that is not in classes"):
        metrics.roc_area([0, 1, 2], np.log(np.full((3, 2), 0.5)), classes=[0, 1])


@pytest.mark.parametrize("metric", ON_TABLES)
def test_bad_tables_get_a_sentence(metric):
    good = np.log([[0.5, 0.5], [0.25, 0.75]])
    for bad, sentence in [
        (np.exp(good), "Row 0 of log_proba.*predict_log_proba"),
        (np.where(np.eye(2) > 0, np.nan, good), "Row 0 of log_proba.*without NaN"),
        (np.array([[0.0, -np.inf], [-np.inf, -np.inf]]), "Row 1 of log_proba"),
        (np.empty((0, 2)), r"must have shape \(n, n_classes\)"),
        (good[0], r"must have shape \(n, n_classes\)"),
        (good[:1], "y_true has 2 rows and classes 2"),
    ]:
        with pytest.raises(ValueError, match=sentence):
            metric([0, 1], bad, classes=[0, 1])


@pytest.mark.parametrize("metric", ON_TABLES)
def test_bad_labels_get_a_sentence(metric):
    log_proba = np.log([[0.5, 0.5], [0.25, 0.75]])
    for y, classes, sentence in [
        ([0.0, np.nan], [0, 1], "y_true has missing labels"),
        (["a", None], ["a", "b"], "y_true has missing labels"),
        (["a", np.nan], ["a", "b"], "y_true has missing labels"),
        (pd.Series([0, None], dtype="Int64"), [0, 1], "y_true has missing labels"),
        ([], [0, 1], "y_true must be a non-empty list"),
        ([[0, 1]], [0, 1], "y_true must be a non-empty list"),
        ([0, 1], [1, 1], "names a class twice"),
        (["0", "1"], [0, 1], "never match"),
    ]:
        with pytest.raises(ValueError, match=sentence):
            metric(y, log_proba, classes=classes)


@pytest.mark.parametrize("metric", WEIGHTED)
def test_bad_weights_get_a_sentence(metric):
    log_proba = np.log([[0.5, 0.5], [0.25, 0.75]])
    for weight in ([1, -1], [1, np.nan], [0, 0]):
        with pytest.raises(ValueError, match="sample_weight must be finite"):
            metric([0, 1], log_proba, classes=[0, 1], sample_weight=weight)
    with pytest.raises(ValueError, match="one weight for each of 2 rows"):
        metric([0, 1], log_proba, classes=[0, 1], sample_weight=[1])


def test_bad_options_get_a_sentence():
    args = ([0, 1], np.log([[0.5, 0.5], [0.25, 0.75]]))
    for clip in (0.0, 1.0, -34.5):
        with pytest.raises(ValueError, match="clip is the least probability"):
            metrics.conditional_entropy(*args, classes=[0, 1], clip=clip)
    for n_bins in (0, 2**31, 2**63, 10**400):
        with pytest.raises(ValueError, match="n_bins must be from 1 to 1000000"):
            metrics.expected_calibration_error(*args, classes=[0, 1], n_bins=n_bins)
    with pytest.raises(ValueError, match="'uniform' or 'quantile'"):
        metrics.reliability_curve(*args, classes=[0, 1], strategy="equal")
    with pytest.raises(ValueError, match="positive=5 is not in classes"):
        metrics.reliability_curve(*args, classes=[0, 1], positive=5)


def test_bad_accuracy_gets_a_sentence():
    with pytest.raises(ValueError, match="they must match"):
        metrics.accuracy([0, 1], [0])
    with pytest.raises(ValueError, match="y_pred has missing labels"):
        metrics.accuracy([0, 1], [0, np.nan])
    with pytest.raises(ValueError, match="y_true must be a non-empty list"):
        metrics.accuracy([], [])


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_the_terms_of_the_calibration_error_have_it_as_their_mean(rng, strategy):
    y, log_proba = random_problem(rng, 300, 3)
    how = {"classes": [0, 1, 2], "n_bins": 7, "strategy": strategy}
    gaps = metrics.calibration_gaps(y, log_proba, **how)
    assert gaps.mean() == pytest.approx(metrics.expected_calibration_error(y, log_proba, **how))
