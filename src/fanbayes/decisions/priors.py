"""Another class balance than the one learnt from: posteriors under a prior that is known, or that the rows tell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp, softmax
from sklearn.exceptions import ConvergenceWarning

from fanbayes.arrays import Floats
from fanbayes.data.warning import warn
from fanbayes.decisions.validation import distribution, known_label, probabilities

# No class that the model knows is ever ruled out for good.
_TINY = 1e-300


class PriorEstimate(NamedTuple):
    """What `estimate_prior` found: the class prior (n_classes,) and the number of steps it took."""

    prior: Floats
    n_iter: int


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
    old, new = distribution("old", old), distribution("new", new)
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
    (see `adjust_prior`): each step replaces q by the mean of the posteriors under q; after two of them, an
    accelerated one is tried in the direction they take. The likelihood is concave: its gradient bounds what is left to
    gain, and the steps end when that is no more than `tol` nats a row.

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
    old = distribution("old", old)
    ratio = _log_ratio(proba, old, log)
    if len(ratio) == 0:
        raise ValueError("there are no rows to estimate the prior from")
    known = old > 0
    likelihood = np.exp(ratio - ratio.max(axis=1, keepdims=True))[:, known]  # p(x | c), up to a factor a row
    q, n_iter = old[known], 0
    while (gradient := _gradient(likelihood, q)).max() > 1.0 + tol and n_iter < max_iter:
        first = q * gradient
        second = first * _gradient(likelihood, first)
        far = _accelerated(q, first, second)
        q = far if np.log(likelihood @ far).sum() >= np.log(likelihood @ second).sum() else second
        n_iter += 2
    if gradient.max() > 1.0 + tol:
        warn(ConvergenceWarning(f"the class prior did not converge in {n_iter} steps; increase max_iter or tol"))
    prior = np.zeros(len(old))
    prior[known] = q / q.sum()
    return PriorEstimate(prior, n_iter)


def _gradient(likelihood: Floats, q: Floats) -> Floats:
    """Of the mean log-likelihood of rows (n_rows, n_classes) under the class prior q; q times it is EM's step."""
    return np.asarray((1.0 / (likelihood @ q)) @ likelihood / len(likelihood))


def _accelerated(q: Floats, first: Floats, second: Floats) -> Floats:
    """Where two steps of EM seem to lead (SQUAREM: Varadhan & Roland 2008, scheme S3), in log coordinates."""
    a, b, c = (np.log(np.maximum(x, _TINY)) for x in (q, first, second))
    r, v = b - a, c - 2 * b + a
    length = float(np.clip(np.linalg.norm(r) / max(float(np.linalg.norm(v)), _TINY), 1.0, 1e6))
    return np.asarray(np.maximum(softmax(a + 2 * length * r + length**2 * v), _TINY))


def read_prior(prior: Any, classes: NDArray[Any]) -> Floats:
    """A prior ``{class: probability}``, or an array in the order of `classes`, as an array (n_classes,)."""
    labels = classes.tolist()
    if isinstance(prior, Mapping):
        named = {known_label(c, labels): p for c, p in prior.items()}
        unknown = [c for c in named if c not in labels]
        if unknown:
            raise ValueError(f"prior names {unknown[0]!r}; the classes are {', '.join(map(repr, labels))}")
        lacking = [c for c in labels if c not in named]
        if lacking:
            raise ValueError(f"prior lacks the class {lacking[0]!r}")
        prior = [named[c] for c in labels]
    p = distribution("prior", prior)
    if len(p) != len(labels):
        raise ValueError(f"prior has {len(p)} entries for {len(labels)} classes")
    return p


def _log_ratio(proba: ArrayLike, old: Floats, log: bool) -> Floats:
    """Log p(c | x) / old(c) (n_rows, n_classes), -inf where both are 0."""
    given = np.asarray(proba, dtype=np.float64)
    probabilities(np.exp(given) if log else given, len(old))
    with np.errstate(divide="ignore"):
        log_proba = given if log else np.log(given)
    known = old > 0
    if (log_proba[:, ~known] > -np.inf).any():
        raise ValueError("old gives no probability to a class that proba gives some")
    ratio = np.full(log_proba.shape, -np.inf)
    ratio[:, known] = log_proba[:, known] - np.log(old[known])
    return ratio
