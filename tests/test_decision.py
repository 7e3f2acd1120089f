"""Decisions by cost, and class priors, against cases worked by hand and direct maximisation."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from fanbayes import FANClassifier, NBClassifier
from fanbayes.decisions.classifier import CostSensitiveClassifier
from fanbayes.decisions.costs import decide
from fanbayes.decisions.priors import adjust_prior, estimate_prior

CLASSES = ["ill", "well"]
COSTS = {"ill": {"treat": 1, "send home": 50, "refer": 5}, "well": {"treat": 10, "send home": 0, "refer": 5}}
TABLE = np.array([[1.0, 50.0, 5.0], [10.0, 0.0, 5.0]])
NAMES = ["treat", "send home", "refer"]


# ---------------------------------------------------------------- decisions


def test_least_expected_cost_by_hand():
    found = decide([[0.04, 0.96], [0.3, 0.7], [0.9, 0.1]], CLASSES, COSTS)
    assert found.decision.tolist() == ["send home", "refer", "treat"]
    np.testing.assert_allclose(found.cost, [2.0, 5.0, 1.9])
    np.testing.assert_allclose(found.expected[1], [7.3, 15.0, 5.0])
    assert found.names.tolist() == NAMES


@pytest.mark.parametrize(
    "costs",
    [
        dict(reversed(COSTS.items())),
        pd.DataFrame(COSTS).T,
        pd.DataFrame(COSTS).T[::-1],
        pd.DataFrame(COSTS).T.reset_index(),
        pl.DataFrame({"true": CLASSES, **{n: TABLE[:, k] for k, n in enumerate(NAMES)}}),
        pa.table({"true": CLASSES[::-1], **{n: TABLE[::-1, k] for k, n in enumerate(NAMES)}}),
    ],
    ids=["dict", "index", "other order", "column", "polars", "pyarrow"],
)
def test_costs_in_any_form(costs):
    p = np.random.default_rng(0).dirichlet([1, 1], 50)
    found, expected = decide(p, CLASSES, costs), decide(p, CLASSES, TABLE, decisions=NAMES)
    assert found.decision.tolist() == expected.decision.tolist()
    np.testing.assert_allclose(found.cost, expected.cost)
    np.testing.assert_allclose(expected.expected, p @ TABLE)


def test_zero_one_costs_predict_the_most_probable_class():
    p = np.random.default_rng(0).dirichlet([1, 1, 1], 100)
    found = decide(p, [3, 5, 9], 1 - np.eye(3))
    assert found.decision.dtype.kind == "i"
    assert found.decision.tolist() == np.array([3, 5, 9])[p.argmax(axis=1)].tolist()
    np.testing.assert_allclose(found.cost, 1 - p.max(axis=1))


def test_ties_go_to_the_first_decision():
    third = 1 / 3
    p = [[third, third, third], [0.1 + 0.2, 0.3, 1 - 0.1 - 0.2 - 0.3], [0.3, 0.1 + 0.2, 1 - 0.1 - 0.2 - 0.3]]
    costs = 1 - np.eye(3)
    assert decide(p, [0, 1, 2], costs).decision.tolist()[0] == 0
    # 0.1 + 0.2 is more than 0.3, by rounding alone.
    two = [[0.3 / 0.6, (0.1 + 0.2) / 0.6], [(0.1 + 0.2) / 0.6, 0.3 / 0.6]]
    assert decide(two, [0, 1], 1 - np.eye(2)).decision.tolist() == [0, 0]
    # A real difference is none, however large the other costs are.
    assert decide([[1.0, 0.0]], [0, 1], [[2, 1], [0, 1e15]]).decision.tolist() == [1]


def test_names_as_text_stand_for_classes():
    p = [[0.9, 0.1], [0.5, 0.5], [0.1, 0.9]]
    costs = {"0": {"0": 0, "1": 3, "refer": 1}, "1": {"0": 3, "1": 0, "refer": 1}}
    expected = [0, "refer", 1]
    assert decide(p, [0, 1], costs).decision.tolist() == expected
    assert decide(p, [0.0, 1.0], costs).decision.tolist() == expected
    frame = pd.DataFrame([[0, 3], [3, 0]], index=[0, 1], columns=[0, 1])
    assert decide(p, ["0", "1"], frame).decision.tolist() == ["0", "0", "1"]
    assert decide(p, [True, False], [[0, 1], [1, 0]]).decision.dtype == bool


@pytest.mark.parametrize(
    ("costs", "sentence"),
    [
        ({"ill": {"a": 1}}, "one row for the class 'well' and have 0"),
        ({"ill": {"a": 1}, "well": {"a": 1}, "dead": {"a": 1}}, "row 'dead'; the classes are 'ill', 'well'"),
        ({"ill": {"a": 1, "b": 1}, "well": {"a": 1}}, "cost of 'b' when 'well' is true"),
        ({"ill": 1, "well": 2}, "of the form"),
        (np.zeros((2, 3)), r"shape \(2, 3\)"),
        (np.zeros((3, 2)), r"shape \(3, 2\)"),
        ([[0, np.nan], [1, 0]], "finite"),
        ([[0, np.inf], [1, 0]], "finite"),
        (pl.DataFrame({"true": ["ill", "ill"], "a": [1, 2]}), "class 'ill' and have 2"),
    ],
)
def test_wrong_costs(costs, sentence):
    with pytest.raises(ValueError, match=sentence):
        decide([[0.5, 0.5]], CLASSES, costs)


def test_ambiguous_frame():
    with pytest.raises(ValueError, match="ambiguous"):
        decide([[0.5, 0.5]], [0, 1], pd.DataFrame([[0, 1], [1, 0]]))


@pytest.mark.parametrize("proba", [[[0.5, 0.6]], [[np.nan, 1]], [[-0.5, 1.5]], [[0.2, 0.3, 0.5]], [0.5, 0.5]])
def test_wrong_probabilities(proba):
    for function in (
        lambda p: decide(p, CLASSES, COSTS),
        lambda p: adjust_prior(p, [0.5, 0.5], [0.4, 0.6]),
        lambda p: estimate_prior(p, [0.5, 0.5]),
    ):
        with pytest.raises(ValueError, match="proba"):
            function(proba)


# ---------------------------------------------------------------- priors


def test_adjust_by_hand():
    """Equation 2.4: 0.6 (0.1 / 0.5) against 0.4 (0.9 / 0.5) is 0.12 against 0.72."""
    np.testing.assert_allclose(adjust_prior([[0.6, 0.4]], [0.5, 0.5], [0.1, 0.9]), [[1 / 7, 6 / 7]])
    found = adjust_prior(np.log([[0.6, 0.4]]), [0.5, 0.5], [0.1, 0.9], log=True)
    np.testing.assert_allclose(found, np.log([[1 / 7, 6 / 7]]))


def test_adjust_is_what_the_model_would_say():
    """Rows of the same classes mixed otherwise: the joint with another p(c) gives the same posterior."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    clf = FANClassifier(2, random_state=0).fit(X, (X[:, 0] > 0.5).astype(int))
    new = np.array([0.3, 0.7])
    joint = clf.predict_joint_log_proba(X) - np.log(clf.class_prior_) + np.log(new)
    expected = joint - np.logaddexp.reduce(joint, axis=1, keepdims=True)
    np.testing.assert_allclose(
        adjust_prior(clf.predict_log_proba(X), clf.class_prior_, new, log=True), expected, atol=1e-12
    )
    # Back again, and nothing for nothing.
    p = clf.predict_proba(X)
    there = adjust_prior(p, clf.class_prior_, new)
    np.testing.assert_allclose(adjust_prior(there, new, clf.class_prior_), p, atol=1e-12)
    np.testing.assert_allclose(adjust_prior(p, new, new), p, atol=1e-15)


def test_logarithms_keep_what_probabilities_lose():
    log_p = np.array([[-800.0, 0.0]])
    assert adjust_prior(log_p, [0.5, 0.5], [1.0, 0.0], log=True).tolist() == [[0.0, -np.inf]]
    with pytest.raises(ValueError, match="row 0 has probability 0 in every class that new allows"):
        adjust_prior(np.exp(log_p), [0.5, 0.5], [1.0, 0.0])


def test_classes_that_a_prior_leaves_out():
    np.testing.assert_allclose(adjust_prior([[0.2, 0.3, 0.5]], [0.2, 0.3, 0.5], [0.5, 0.5, 0]), [[0.5, 0.5, 0]])
    np.testing.assert_allclose(adjust_prior([[0.4, 0.6, 0]], [0.4, 0.6, 0], [0.5, 0.5, 0]), [[0.5, 0.5, 0]])
    with pytest.raises(ValueError, match="does not know it"):
        adjust_prior([[0.4, 0.6, 0]], [0.4, 0.6, 0], [0.4, 0.5, 0.1])
    with pytest.raises(ValueError, match="old gives no probability"):
        adjust_prior([[0.4, 0.5, 0.1]], [0.4, 0.6, 0], [0.5, 0.5, 0])
    for wrong in ([0.5, 0.6], [1.5, -0.5], [np.nan, 1], [[0.5, 0.5]]):
        with pytest.raises(ValueError, match="new="):
            adjust_prior([[0.4, 0.6]], [0.5, 0.5], wrong)


def shifted_problem(rng, n, prior, distance):
    """Posteriors under equal priors of normal classes, of rows drawn with another prior."""
    c = rng.choice(len(prior), n, p=prior)
    x = rng.normal(size=(n, 1)) + distance * c[:, None]
    log_p = -0.5 * (x - distance * np.arange(len(prior))) ** 2
    p = np.exp(log_p - np.logaddexp.reduce(log_p, axis=1, keepdims=True))
    return p, np.full(len(prior), 1 / len(prior)), np.bincount(c, minlength=len(prior)) / n


@pytest.mark.parametrize("prior", [[0.9, 0.1], [0.2, 0.5, 0.3], [1.0, 0.0, 0.0]])
@pytest.mark.parametrize("distance", [1.0, 4.0])
def test_estimate_maximises_the_likelihood(prior, distance):
    p, old, shares = shifted_problem(np.random.default_rng(1), 2000, prior, distance)
    found = estimate_prior(p, old, tol=1e-12, max_iter=200_000)
    ratio = p / old

    def loss(z):
        q = np.exp(z - np.logaddexp.reduce(z))
        return -np.log(ratio @ q).mean()

    best = minimize(loss, np.zeros(len(prior)), method="BFGS", options={"gtol": 1e-9})
    assert -np.log(ratio @ found.prior).mean() <= best.fun + 1e-11
    assert found.prior.sum() == pytest.approx(1)
    assert found.n_iter > 0
    np.testing.assert_allclose(found.prior, shares, atol=0.1 if distance == 1.0 else 0.02)
    # A fixed point: the prior is the mean of the posteriors under it.
    np.testing.assert_allclose(adjust_prior(p, old, found.prior).mean(axis=0), found.prior, atol=1e-5)


def test_estimate_says_that_it_did_not_converge():
    p, old, _ = shifted_problem(np.random.default_rng(1), 200, [0.9, 0.1], 0.1)
    with pytest.warns(ConvergenceWarning, match="did not converge in 2 steps"):
        assert estimate_prior(p, old, max_iter=1).n_iter == 2


def test_estimate_leaps():
    """Classes that overlap: plain EM takes some 800 steps."""
    p, old, _ = shifted_problem(np.random.default_rng(2), 2000, [0.9, 0.1], 0.3)
    assert estimate_prior(p, old).n_iter < 30


def test_estimate_of_one_row_is_a_corner():
    np.testing.assert_allclose(estimate_prior([[0.8, 0.2]], [0.5, 0.5]).prior, [1, 0], atol=1e-6)


def test_estimate_of_degenerate_rows():
    # Nothing to learn from: the prior stays.
    assert estimate_prior([[0.7, 0.3]] * 5, [0.7, 0.3]) == (pytest.approx([0.7, 0.3]), 0)
    assert estimate_prior([[1.0]], [1.0]) == (pytest.approx([1.0]), 0)
    # Certainty: the shares, at once.
    found = estimate_prior([[1.0, 0.0]] * 3 + [[0.0, 1.0]], [0.5, 0.5])
    np.testing.assert_allclose(found.prior, [0.75, 0.25])
    assert found.n_iter == 2
    # Beyond certainty: exp(-800) is 0.
    np.testing.assert_allclose(
        estimate_prior([[0.0, -800.0], [-800.0, 0.0]], [0.9, 0.1], log=True).prior, [0.5, 0.5], atol=1e-8
    )
    # A class that old leaves out stays out.
    assert estimate_prior([[0.5, 0.5, 0.0]] * 2, [0.4, 0.6, 0.0]).prior[2] == 0
    with pytest.raises(ValueError, match="no rows"):
        estimate_prior(np.empty((0, 2)), [0.5, 0.5])


# ---------------------------------------------------------------- the wrapper


@parametrize_with_checks([CostSensitiveClassifier(LogisticRegression()), CostSensitiveClassifier(NBClassifier())])
@pytest.mark.filterwarnings("ignore:columns with fewer than two distinct values")
def test_estimator_check(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    return X, np.where(X[:, 0] + 0.8 * rng.normal(size=300) > 0.6, "ill", "well")


COSTS_OF_CLASSES = {"ill": {"ill": 0, "well": 9, "refer": 1}, "well": {"ill": 2, "well": 0, "refer": 1}}


def test_wrapper_is_its_parts(problem):
    X, y = problem
    new = {"well": 0.9, "ill": 0.1}
    clf = CostSensitiveClassifier(NBClassifier(), costs=COSTS_OF_CLASSES, prior=new).fit(X, y)
    inner = NBClassifier().fit(X, y)
    p = adjust_prior(inner.predict_proba(X), inner.class_prior_, [0.1, 0.9])
    np.testing.assert_allclose(clf.predict_proba(X), p, atol=1e-12)
    np.testing.assert_allclose(np.exp(clf.predict_log_proba(X)), p, atol=1e-12)
    expected = decide(p, clf.classes_, COSTS_OF_CLASSES)
    assert clf.predict(X).tolist() == expected.decision.tolist()
    assert set(clf.predict(X)) == {"ill", "well", "refer"}
    np.testing.assert_allclose(clf.decide(X).cost, expected.cost)
    np.testing.assert_allclose(clf.class_prior_, inner.class_prior_)
    # Without costs an error costs 1.
    plain = clone(clf).set_params(costs=None).fit(X, y)
    np.testing.assert_allclose(plain.decide(X).cost, 1 - p.max(axis=1))
    assert plain.predict(X).tolist() == plain.classes_[p.argmax(axis=1)].tolist()


def test_wrapper_estimates_the_prior(problem):
    X, y = problem
    inner = NBClassifier().fit(X, y)
    clf = CostSensitiveClassifier(inner, prior="estimate")
    shifted = np.concatenate([X[y == "well"], X[y == "ill"][:5]])
    q = estimate_prior(inner.predict_proba(shifted), inner.class_prior_).prior
    expected = adjust_prior(inner.predict_proba(shifted), inner.class_prior_, q)
    np.testing.assert_allclose(clf.predict_proba(shifted), expected, atol=1e-7)
    assert q[0] < 0.5 * inner.class_prior_[0]


def test_wrapper_around_a_fitted_classifier_needs_no_fit(problem):
    X, y = problem
    inner = NBClassifier().fit(X, y)
    clf = CostSensitiveClassifier(inner, costs=COSTS_OF_CLASSES)
    assert clf.predict(X).tolist() == clone(clf).fit(X, y).predict(X).tolist()
    with pytest.raises(NotFittedError, match="CostSensitiveClassifier is not fitted yet"):
        CostSensitiveClassifier(NBClassifier()).predict(X)
    # What scikit-learn's models do not say of themselves is counted in fit.
    other = CostSensitiveClassifier(LogisticRegression().fit(X, y), prior=[0.5, 0.5])
    with pytest.raises(AttributeError, match="call fit"):
        other.predict(X)


def test_wrapper_composes(problem):
    X, y = problem
    weight = np.random.default_rng(1).integers(0, 3, len(y))
    logistic = CostSensitiveClassifier(LogisticRegression(), prior=[0.5, 0.5]).fit(X, y, sample_weight=weight)
    assert logistic.class_prior_[0] == pytest.approx(np.average(y == "ill", weights=weight))
    piped = CostSensitiveClassifier(make_pipeline(StandardScaler(), NBClassifier()), prior=[0.5, 0.5]).fit(X, y)
    np.testing.assert_allclose(piped.class_prior_, NBClassifier().fit(X, y).class_prior_)
    assert not np.allclose(piped.class_prior_, [np.mean(y == "ill"), np.mean(y == "well")], atol=1e-6)
    folds = cross_val_predict(CostSensitiveClassifier(NBClassifier(), costs=COSTS_OF_CLASSES), X, y, cv=3)
    assert set(folds) == {"ill", "well", "refer"}


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"prior": "guess"}, "neither 'estimate' nor"),
        ({"prior": {"ill": 1.0}}, "lacks the class 'well'"),
        ({"prior": {"ill": 0.5, "dead": 0.5}}, "names 'dead'"),
        ({"prior": [0.2, 0.3, 0.5]}, "3 entries for 2 classes"),
        ({"costs": {"ill": {"a": 1}}}, "class 'well'"),
    ],
)
def test_wrapper_refuses_in_fit(settings, sentence, problem):
    with pytest.raises(ValueError, match=sentence):
        CostSensitiveClassifier(NBClassifier(), **settings).fit(*problem)


def test_certain_classifiers_raise_no_warning(problem):
    """Trees say 0 and 1, whose logarithms are not finite."""
    from sklearn.tree import DecisionTreeClassifier

    X, y = problem
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clf = CostSensitiveClassifier(DecisionTreeClassifier(random_state=0), prior=[0.5, 0.5]).fit(X, y)
        np.testing.assert_allclose(clf.predict_proba(X).sum(axis=1), 1)
