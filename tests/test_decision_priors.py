"""Class priors against cases worked by hand and direct maximisation."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

from fanbayes import FANClassifier
from fanbayes.decisions.priors import adjust_prior, estimate_prior


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
