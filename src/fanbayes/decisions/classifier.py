"""Costs and class balance behind scikit-learn's interface.

A wrapper rather than arguments of `predict`, so that costs compose with any classifier, pipeline and search, and
`predict` of the classifier itself keeps one meaning.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from fanbayes.arrays import Floats
from fanbayes.decisions.costs import Decisions, decide, read_costs
from fanbayes.decisions.priors import adjust_prior, estimate_prior, read_prior


class CostSensitiveClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Any classifier with probabilities, deciding by expected cost and for another class balance.

    Parameters
    ----------
    estimator : classifier with `predict_proba`
        May be fitted already: then `fit` need not be called.
    costs : mapping, data frame or array-like, optional
        As in `decide`: rows are true classes, columns are decisions, which need not be classes. By default every
        error costs the same, and the most probable class is predicted.
    prior : mapping, array-like or "estimate", optional
        Class prior at the time of use, by class or in the order of `classes_`; "estimate" finds it from the very rows
        that are predicted (`estimate_prior`), so that they depend on each other. Label shift is assumed
        (`adjust_prior`).

    Attributes
    ----------
    estimator_ : the fitted classifier
    classes_ : ndarray of shape (n_classes,)
    class_prior_ : ndarray of shape (n_classes,)
        What the probabilities are divided by: the classifier's own `class_prior_`, else the classes' shares in `fit`.
    n_features_in_, feature_names_in_ : as the classifier has them

    Examples
    --------
    >>> from fanbayes import CostSensitiveClassifier, NBClassifier
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> costs = {0: {0: 0, 1: 20, "refer": 1}, 1: {0: 2, 1: 0, "refer": 1}}
    >>> clf = CostSensitiveClassifier(NBClassifier(), costs=costs).fit(X, y)
    >>> sorted(set(clf.predict(X)), key=str)
    [0, 1, 'refer']
    """

    def __init__(self, estimator: Any, *, costs: Any = None, prior: Any = None) -> None:
        self.estimator = estimator
        self.costs = costs
        self.prior = prior

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit a clone of the classifier.

        Parameters
        ----------
        X, y : rows and their classes
        sample_weight : array-like of shape (n_rows,), optional
            Passed on if given.

        Returns
        -------
        self
        """
        weight = {} if sample_weight is None else {"sample_weight": sample_weight}
        self.estimator_ = clone(self.estimator).fit(X, y, **weight)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        labels = np.asarray(y).ravel()
        weights = (
            np.ones(len(labels)) if sample_weight is None else np.broadcast_to(np.asarray(sample_weight), labels.shape)
        )
        counts = np.array([weights[labels == c].sum() for c in self.classes_.tolist()])
        self._shares = counts / counts.sum()
        self._check()
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Decision of least expected cost, or the most probable class if there are no costs (n_rows,)."""
        if self.costs is not None:
            return self.decide(X).decision
        chosen: NDArray[Any] = self.classes_[np.argmax(self.predict_log_proba(X), axis=1)]
        return chosen

    def decide(self, X: Any) -> Decisions:
        """Decisions with their expected costs; without `costs`, every error costs 1."""
        proba = self.predict_proba(X)
        return decide(proba, self.classes_, 1.0 - np.eye(proba.shape[1]) if self.costs is None else self.costs)

    def predict_proba(self, X: Any) -> Floats:
        """p(c | x) under `prior`, (n_rows, n_classes)."""
        if self.prior is None:
            return np.asarray(self._fitted().predict_proba(X))
        return np.exp(self.predict_log_proba(X))

    def predict_log_proba(self, X: Any) -> Floats:
        """Log p(c | x) under `prior`, (n_rows, n_classes)."""
        estimator = self._fitted()
        with np.errstate(divide="ignore"):
            if hasattr(estimator, "predict_log_proba"):
                log_proba = np.asarray(estimator.predict_log_proba(X))
            else:
                log_proba = np.log(estimator.predict_proba(X))
        if self.prior is None:
            return log_proba
        return adjust_prior(log_proba, self.class_prior_, self._prior(log_proba), log=True)

    def _prior(self, log_proba: Floats) -> Floats:
        """The class prior to use for these rows (n_classes,)."""
        if isinstance(self.prior, str):
            self._check()
            return estimate_prior(log_proba, self.class_prior_, log=True).prior
        return read_prior(self.prior, self.classes_)

    def _check(self) -> None:
        """Refuse costs and a prior that do not fit the classes."""
        if self.costs is not None:
            read_costs(self.costs, self.classes_)
        if isinstance(self.prior, str) and self.prior != "estimate":
            raise ValueError(f"prior={self.prior!r} is neither 'estimate' nor probabilities")
        if self.prior is not None and not isinstance(self.prior, str):
            read_prior(self.prior, self.classes_)

    def _fitted(self) -> Any:
        """The classifier fitted here, or the one given if it was fitted before."""
        estimator = getattr(self, "estimator_", self.estimator)
        try:
            check_is_fitted(estimator)
        except NotFittedError as error:
            raise NotFittedError(f"This {type(self).__name__} is not fitted yet; call fit first") from error
        return estimator

    @property
    def classes_(self) -> NDArray[Any]:
        """Classes of the classifier (n_classes,)."""
        return np.asarray(self._fitted().classes_)

    @property
    def class_prior_(self) -> Floats:
        """The class prior that the classifier's probabilities contain (n_classes,)."""
        estimator = self._fitted()
        last = estimator[-1] if isinstance(estimator, Pipeline) else estimator
        if hasattr(last, "class_prior_"):
            return np.asarray(last.class_prior_, dtype=np.float64)
        if not hasattr(self, "_shares"):
            raise AttributeError("the classifier has no class_prior_: call fit, so that the classes can be counted")
        shares: Floats = self._shares
        return shares

    def __sklearn_is_fitted__(self) -> bool:
        try:
            self._fitted()
        except NotFittedError:
            return False
        return True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.input_tags = inner.input_tags
        tags.classifier_tags = inner.classifier_tags
        return tags
