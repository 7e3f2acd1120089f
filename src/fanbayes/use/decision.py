"""From probabilities to decisions: costs, and a class balance other than the one learnt from.

`decide`, `adjust_prior` and `estimate_prior` work on the probabilities of any classifier. `CostSensitiveClassifier`
puts them behind scikit-learn's interface: a wrapper rather than arguments of `predict`, so that costs compose with
any classifier, pipeline and search, and `predict` of the classifier itself keeps one meaning.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import narwhals as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

Floats = NDArray[np.float64]

# Probabilities in single precision sum to one only so well.
_SUM_TOLERANCE = 1e-4
# No class that the model knows is ever ruled out for good.
_TINY = 1e-300


class Decisions(NamedTuple):
    """What `decide` found.

    Attributes
    ----------
    decision : (n_rows,)
        Decision of least expected cost.
    cost : (n_rows,)
        Its expected cost.
    expected : (n_rows, n_decisions)
        Expected cost of every decision.
    names : (n_decisions,)
        The decisions, in the order of the columns of `expected`.
    """

    decision: NDArray[Any]
    cost: Floats
    expected: Floats
    names: NDArray[Any]


class PriorEstimate(NamedTuple):
    """What `estimate_prior` found: the class prior (n_classes,) and the number of steps it took."""

    prior: Floats
    n_iter: int


class Costs(NamedTuple):
    """Cost of each decision under each true class: `values` (n_classes, n_decisions), `names` (n_decisions,)."""

    values: Floats
    names: NDArray[Any]


def decide(proba: ArrayLike, classes: ArrayLike, costs: Any, *, decisions: Sequence[Any] | None = None) -> Decisions:
    """Decision of least expected cost, ``argmin_d sum_c p(c | x) cost(c, d)``; the first of equally cheap ones.

    Parameters
    ----------
    proba : array-like of shape (n_rows, n_classes)
        p(c | x).
    classes : array-like of shape (n_classes,)
        Class of each column.
    costs : mapping, data frame or array-like
        What each decision costs (a gain is a negative cost) when the true class is known:

        - ``{true class: {decision: cost}}``;
        - a data frame whose first column, or pandas index, names the true classes, and whose other columns are
          decisions;
        - an array of shape (n_classes, n_decisions), its rows in the order of `classes`.

        A decision may be no class, such as "refer". Names may be given as text, as JSON and CSV files have them.
    decisions : sequence of n_decisions names, optional
        Columns of an array of costs; by default the classes.

    Returns
    -------
    Decisions
        With `decision`, `cost`, `expected` and `names`.

    Examples
    --------
    >>> from fanbayes import decide
    >>> costs = {"ill": {"treat": 0, "send home": 50, "refer": 5}, "well": {"treat": 10, "send home": 0, "refer": 5}}
    >>> decide([[0.05, 0.95], [0.3, 0.7], [0.9, 0.1]], ["ill", "well"], costs).decision.tolist()
    ['send home', 'refer', 'treat']
    """
    labels = np.asarray(classes)
    p = _probabilities(proba, len(labels))
    values, names = read_costs(costs, labels, decisions)
    expected = p @ values
    # Equal up to rounding is equal.
    slack = 4 * np.finfo(np.float64).eps * (p @ np.abs(values))
    least = np.min(expected + slack, axis=1, keepdims=True)
    chosen = np.argmax(expected - slack <= least, axis=1)
    return Decisions(names[chosen], expected[np.arange(len(p)), chosen], expected, names)


def read_costs(costs: Any, classes: NDArray[Any], decisions: Sequence[Any] | None = None) -> Costs:
    """Costs in any of the forms that `decide` takes, with rows in the order of `classes`."""
    labels = classes.tolist()
    if isinstance(costs, Mapping):
        if not all(isinstance(row, Mapping) for row in costs.values()):
            raise ValueError("costs must be of the form {true class: {decision: cost}}")
        rows = {_as_known(c, labels): {_as_known(d, labels): v for d, v in row.items()} for c, row in costs.items()}
        names = list(dict.fromkeys(d for row in rows.values() for d in row))
        _require_rows(list(rows), labels)
        lacking = [f"cost of {d!r} when {c!r} is true" for c in labels for d in names if d not in rows[c]]
        if lacking:
            raise ValueError(f"costs lack the {lacking[0]}: give every class the same decisions")
        table: Any = [[rows[c][d] for d in names] for c in labels]
    elif (frame := nw.from_native(costs, eager_only=True, pass_through=True)) is not costs:
        true, names, table = _split_frame(frame, labels)
        found, names = ([_as_known(name, labels) for name in some] for some in (true, names))
        _require_rows(found, labels)
        table = [table[found.index(c)] for c in labels]
    else:
        table, names = costs, labels if decisions is None else [_as_known(d, labels) for d in decisions]
    values = np.asarray(table, dtype=np.float64)
    if values.shape != (len(labels), len(names)) or not names:
        raise ValueError(
            f"costs have shape {values.shape}; give a row for each of {len(labels)} classes and a column for each of "
            f"{len(names)} decisions"
        )
    if not np.isfinite(values).all():
        raise ValueError("costs must be finite numbers: use a large cost for what must not happen")
    if len(set(names)) < len(names):
        raise ValueError("costs name a decision twice")
    return Costs(values, _array_of(names, classes))


def adjust_prior(proba: ArrayLike, old: ArrayLike, new: ArrayLike, *, log: bool = False) -> Floats:
    """Posterior under another class prior (Saerens, Latinne & Decaestecker 2002, equation 2.4).

    ``p_new(c | x)`` is proportional to ``p(c | x) new(c) / old(c)``. Label shift is assumed: the classes are mixed in
    other proportions than before, but within each class the rows are as before, p(x | c) is unchanged.

    Parameters
    ----------
    proba : array-like of shape (n_rows, n_classes)
        p(c | x); its logarithm if `log`.
    old : array-like of shape (n_classes,)
        The prior that `proba` contains: the *model's* class marginal, `class_prior_`.
    new : array-like of shape (n_classes,)
        The prior to use instead.
    log : bool, default=False
        Whether `proba` and the result are logarithms; they keep what probabilities round to 0 and 1.

    Returns
    -------
    ndarray of shape (n_rows, n_classes)
    """
    old, new = _distribution("old", old), _distribution("new", new)
    ratio = _log_ratio(proba, old, log)
    if new.shape != old.shape:
        raise ValueError(f"old has {len(old)} classes and new has {len(new)}")
    if (new[old == 0] > 0).any():
        raise ValueError("new gives probability to a class that has none in old: the model does not know it")
    with np.errstate(divide="ignore"):
        shifted = ratio + np.log(new)
    total = logsumexp(shifted, axis=1, keepdims=True)
    if not np.isfinite(total).all():
        row = int(np.argmin(np.isfinite(total)))
        raise ValueError(
            f"row {row} has probability 0 in every class that new allows: pass logarithms, with log=True, or a prior "
            "without zeros"
        )
    shifted -= total
    return shifted if log else np.exp(shifted)


def estimate_prior(
    proba: ArrayLike, old: ArrayLike, *, log: bool = False, tol: float = 1e-8, max_iter: int = 10_000
) -> PriorEstimate:
    """Class prior of the rows themselves, by EM (Saerens, Latinne & Decaestecker 2002, section 2.3).

    The prior q maximises the likelihood of the rows, ``sum_i log sum_c q(c) p(c | x_i) / old(c)``, under label shift
    (see `adjust_prior`): each step replaces q by the mean of the posteriors under q; after two of them, a leap is
    tried in the direction they take. The likelihood is concave: its gradient bounds what is left to gain, and the
    steps end when that is no more than `tol` nats a row.

    Parameters
    ----------
    proba, old, log : as in `adjust_prior`
    tol : float, default=1e-8
    max_iter : int, default=10_000
        Most steps; a `ConvergenceWarning` says that they were not enough.

    Returns
    -------
    PriorEstimate
        With `prior` (n_classes,) and `n_iter`. A class that no row speaks for gets a prior of, or close to, 0.
    """
    old = _distribution("old", old)
    ratio = _log_ratio(proba, old, log)
    if len(ratio) == 0:
        raise ValueError("there are no rows to estimate the prior from")
    known = old > 0
    likelihood = np.exp(ratio - ratio.max(axis=1, keepdims=True))[:, known]  # p(x | c), up to a factor a row
    q, n_iter = old[known], 0
    while (gradient := _gradient(likelihood, q)).max() > 1.0 + tol and n_iter < max_iter:
        first = q * gradient
        second = first * _gradient(likelihood, first)
        leap = _leap(q, first, second)
        q = leap if np.log(likelihood @ leap).sum() >= np.log(likelihood @ second).sum() else second
        n_iter += 2
    if gradient.max() > 1.0 + tol:
        warnings.warn(
            f"the class prior did not converge in {n_iter} steps; increase max_iter or tol",
            ConvergenceWarning,
            stacklevel=2,
        )
    prior = np.zeros(len(old))
    prior[known] = q / q.sum()
    return PriorEstimate(prior, n_iter)


def _gradient(likelihood: Floats, q: Floats) -> Floats:
    """Of the mean log-likelihood of rows (n_rows, n_classes) under the class prior q; q times it is EM's step."""
    return np.asarray((1.0 / (likelihood @ q)) @ likelihood / len(likelihood))


def _leap(q: Floats, first: Floats, second: Floats) -> Floats:
    """Where two steps of EM seem to lead (SQUAREM: Varadhan & Roland 2008, scheme S3), in log coordinates."""
    a, b, c = (np.log(np.maximum(x, _TINY)) for x in (q, first, second))
    r, v = b - a, c - 2 * b + a
    length = float(np.clip(np.linalg.norm(r) / max(float(np.linalg.norm(v)), _TINY), 1.0, 1e6))
    return np.asarray(np.maximum(softmax(a + 2 * length * r + length**2 * v), _TINY))


def read_prior(prior: Any, classes: NDArray[Any]) -> Floats:
    """A prior ``{class: probability}``, or an array in the order of `classes`, as an array (n_classes,)."""
    labels = classes.tolist()
    if isinstance(prior, Mapping):
        named = {_as_known(c, labels): p for c, p in prior.items()}
        unknown = [c for c in named if c not in labels]
        if unknown:
            raise ValueError(f"prior names {unknown[0]!r}; the classes are {', '.join(map(repr, labels))}")
        lacking = [c for c in labels if c not in named]
        if lacking:
            raise ValueError(f"prior lacks the class {lacking[0]!r}")
        prior = [named[c] for c in labels]
    p = _distribution("prior", prior)
    if len(p) != len(labels):
        raise ValueError(f"prior has {len(p)} entries for {len(labels)} classes")
    return p


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


def _probabilities(proba: ArrayLike, n_classes: int) -> Floats:
    """Checked p(c | x) (n_rows, n_classes)."""
    p = np.asarray(proba, dtype=np.float64)
    if p.ndim != 2 or p.shape[1] != n_classes:
        raise ValueError(f"proba has shape {p.shape}; give a column for each of {n_classes} classes")
    # NaN fails both comparisons.
    wrong = ~((p >= 0).all(axis=1) & (np.abs(p.sum(axis=1) - 1) < _SUM_TOLERANCE))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(f"row {row} of proba, {p[row]}, is not made of probabilities that sum to one")
    return p


def _distribution(name: str, values: ArrayLike) -> Floats:
    """Checked probabilities (n_classes,), scaled to sum to one exactly."""
    p = np.asarray(values, dtype=np.float64)
    if p.ndim != 1 or not ((p >= 0).all() and abs(p.sum() - 1) < _SUM_TOLERANCE):
        raise ValueError(f"{name}={values!r} must be one probability for each class, summing to one")
    return np.asarray(p / p.sum())


def _log_ratio(proba: ArrayLike, old: Floats, log: bool) -> Floats:
    """Log p(c | x) / old(c) (n_rows, n_classes), -inf where both are 0."""
    given = np.asarray(proba, dtype=np.float64)
    _probabilities(np.exp(given) if log else given, len(old))
    with np.errstate(divide="ignore"):
        log_proba = given if log else np.log(given)
    known = old > 0
    if (log_proba[:, ~known] > -np.inf).any():
        raise ValueError("old gives no probability to a class that proba gives some")
    ratio = np.full(log_proba.shape, -np.inf)
    ratio[:, known] = log_proba[:, known] - np.log(old[known])
    return ratio


def _as_known(name: Any, labels: list[Any]) -> Any:
    """The label that a name stands for, also one written as text; the name itself if there is none."""
    if name in labels:
        return labels[labels.index(name)]
    return next((c for c in labels if _text(c) == _text(name)), name)


def _text(name: Any) -> str:
    return str(int(name)) if isinstance(name, float) and name.is_integer() else str(name)


def _require_rows(found: list[Any], labels: list[Any]) -> None:
    """Refuse costs whose rows are not the classes."""
    for name in found:
        if name not in labels:
            raise ValueError(f"costs have a row {name!r}; the classes are {', '.join(map(repr, labels))}")
    for label in labels:
        if found.count(label) != 1:
            raise ValueError(f"costs need one row for the class {label!r} and have {found.count(label)}")


def _split_frame(frame: nw.DataFrame[Any], labels: list[Any]) -> tuple[list[Any], list[Any], list[Any]]:
    """True class of each row of a data frame of costs, the decisions, and the costs."""

    def are_classes(names: list[Any]) -> bool:
        return sorted(map(str, (_as_known(c, labels) for c in names))) == sorted(map(str, labels))

    rows, names, index = frame.rows(), list(frame.columns), nw.maybe_get_index(frame)
    first = [row[0] for row in rows]
    if index is None or not are_classes(list(index)):
        return first, names[1:], [row[1:] for row in rows]
    if type(index).__name__ == "RangeIndex" and are_classes(first):
        raise ValueError(
            f"costs are ambiguous: both the index and the column {names[0]!r} could be the true classes; set the index"
        )
    return list(index), names, rows


def _array_of(names: list[Any], classes: NDArray[Any]) -> NDArray[Any]:
    """Decisions as an array: like the classes if it can be, else of objects."""
    if all(name in classes.tolist() for name in names):
        return np.array(names, dtype=classes.dtype)
    if classes.dtype.kind == "U" and all(isinstance(name, str) for name in names):
        return np.array(names)
    return np.array([*names, None], dtype=object)[:-1]
