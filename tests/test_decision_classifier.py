"""Costs and class balance behind scikit-learn's interface."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from fanbayes import NBClassifier
from fanbayes.decisions.classifier import CostSensitiveClassifier
from fanbayes.decisions.costs import decide
from fanbayes.decisions.priors import adjust_prior, estimate_prior


@parametrize_with_checks([CostSensitiveClassifier(LogisticRegression()), CostSensitiveClassifier(NBClassifier())])
@pytest.mark.filterwarnings("ignore::fanbayes.DataWarning")
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


def test_a_prior_that_is_a_wrong_word_is_refused_without_fit():
    clf = NBClassifier().fit(np.arange(6.0)[:, None], [0, 1] * 3)
    with pytest.raises(ValueError, match="'foo'"):
        CostSensitiveClassifier(clf, prior="foo").predict_proba([[1.0]])
