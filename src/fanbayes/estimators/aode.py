"""AODEClassifier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

from scipy.special import logsumexp
from sklearn.utils.validation import check_is_fitted

from fanbayes.arrays import Floats
from fanbayes.data.state import Arrays, State
from fanbayes.data.views import Encodings
from fanbayes.estimators.batched import of_rows
from fanbayes.estimators.tabular import TableClassifier
from fanbayes.estimators.validation import require_choice, require_real
from fanbayes.explanation.description import describe_features
from fanbayes.explanation.explanation import Explanation
from fanbayes.explanation.stars import explain_stars, star_information
from fanbayes.learning.aode import AODE, count_stars
from fanbayes.learning.e_step import thread_pool


@dataclass(kw_only=True, eq=False, repr=False)
class AODEClassifier(TableClassifier):
    """Averaged one-dependence estimators (Webb, Boughton & Wang 2005).

    ``p(c, x) ∝ sum_i p(c, x_i) prod_(j != i) p(x_j | c, x_i)``: the mean of as many trees as there are features,
    stars, in each of which all features depend on the class and on one of them. Nothing is chosen, so nothing is fitted
    to chance: it keeps naive Bayes' steadiness and drops most of its assumption of independence. Worth a try where
    features depend on each other in pairs and there are more than a few hundred rows; learnt in one pass over the data.
    It costs memory and, in prediction, time that grow with the square of the number of columns.

    Continuous columns are binned by class entropy inside `fit`; there is no other way to count them. Missing values are
    summed out exactly, as every star is a joint distribution. Rows without a label are left out: it learns from counts,
    not by EM. A column of one value is no star.

    Parameters that are not described here are as in `FANClassifier`.

    Parameters
    ----------
    alpha : float, default=1.0
        Added to every count (Laplace's rule).
    min_frequency : float, default=1.0
        A feature takes part as root of a star where its value was seen in at least so many cases; where that holds for
        no feature, the prediction is that of naive Bayes. A missing root takes part if it was observed so often.
    discretize : {"mdlp", "none"}, default="mdlp"
        "none": a continuous column is refused.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    class_prior_ : ndarray of shape (n_classes,)
        The mean of the stars' class marginals, which differ a little by their smoothing.
    schema_ : Schema
        What each column was taken for.
    aode_ : AODE
        All counts.
    n_features_in_, feature_names_in_

    Notes
    -----
    Predictions are those of Weka 3.6's AODE on complete rows, columns of one value apart; for rows with missing values
    Weka leaves out the stars whose root is missing.

    Values that were seen in fewer than `min_frequency` cases make the stars that take part differ from row to row, and
    what remains is not quite a joint distribution. `score_samples` and `sample` are then those of the mean of *all*
    stars, which is one, and `predict_joint_log_proba` is log p(x) of it plus log p(c | x) as predicted. With the
    default this happens for declared categories that did not occur, and with weights below 1; with `min_frequency=0`
    never.

    In `explain` the stars are the components of a mixture (`fanbayes.explanation.stars`). "star" is the position of the
    column whose star adds most to the probability of the class, -1 where naive Bayes predicts.

    Examples
    --------
    >>> from fanbayes import AODEClassifier
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> round(AODEClassifier().fit(X, y).score(X, y), 2)
    0.95
    """

    alpha: float = 1.0
    min_frequency: float = 1.0
    discretize: Literal["mdlp", "none"] = "mdlp"

    # ------------------------------------------------------------ fitting

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from rows and their classes.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features)
            Discrete and continuous columns, values missing or not.
        y : array-like of shape (n_samples,)
            Classes. A row whose label is NaN or None is left out.
        sample_weight : array-like of shape (n_samples,), optional
            Case counts: weight 2 is the row twice, weight 0 is the row absent.

        Returns
        -------
        self
        """
        return self._fit_whole(X, y, sample_weight)

    def _fit(self, *given: Any) -> Self:
        cases = self._cases_or_batches(*given)
        schema, table = cases.encoded(self.discretize, self.missing)
        if schema.continuous:
            raise ValueError(
                f"column {schema[schema.continuous[0]].name!r} is continuous and AODE counts values: "
                "discretize='mdlp' bins it, categorical_features takes its values as categories"
            )
        cases.warn_of_traps(schema)
        settings = (float(self.alpha), float(self.min_frequency))
        self.aode_ = count_stars(schema, table, len(cases.classes), *settings, thread_pool(self._n_threads()))
        self.classes_, self.schema_ = cases.classes, schema
        return self

    @property
    def _learns_from_unlabelled(self) -> bool:
        return False

    def _check_parameters(self) -> None:
        super()._check_parameters()
        require_real("alpha", self.alpha, above=0.0)
        require_real("min_frequency", self.min_frequency, least=0.0)
        require_choice("discretize", self.discretize, ("mdlp", "none"))

    # ------------------------------------------------------------ prediction

    @property
    def _predictor(self) -> AODE:
        return self.aode_

    @of_rows
    def predict_joint_log_proba(self, X: Any) -> Floats:
        """Log p(c, x): log p(x) of `score_samples` plus log p(c | x) as predicted.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        check_is_fitted(self)
        rows, pool = self._encode(X, self.aode_.schemas), thread_pool(self._n_threads())
        joint = self.aode_.posterior(rows, "log_proba", pool)
        joint += logsumexp(self.aode_.log_joint(rows[self.schema_], pool), axis=1, keepdims=True)
        return joint

    @of_rows
    def score_samples(self, X: Any) -> Floats:
        """Log p(x) over the observed values of each row, binned ones by their intervals, under the mean of all stars.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        check_is_fitted(self)
        rows = self._encode(X, self.aode_.schemas)
        joint = self.aode_.log_joint(rows[self.schema_], thread_pool(self._n_threads()))
        density: Floats = logsumexp(joint, axis=1)
        return density

    # ------------------------------------------------------------ looking inside

    def _explain(self, rows: Encodings, pair: Sequence[Any] | None) -> Explanation:
        return explain_stars(self.aode_, rows, self.classes_, pair, thread_pool(self._n_threads()))

    def _information(self) -> Floats:
        return star_information(self.aode_)

    def _description(self) -> dict[str, Any]:
        return {
            "n_stars": self.aode_.n_components,
            "n_counts": self.aode_.pair_counts.size,
            "n_cases": float(self.aode_.class_counts.sum()),
            "features": describe_features(self.schema_, self._information()),
        }

    # ------------------------------------------------------------ files

    def _to_state(self) -> State:
        return self.aode_.to_state()

    def _set_state(self, values: dict[str, Any], arrays: Arrays) -> None:
        self.aode_ = AODE.from_state(values, arrays, self.schema_, len(self.classes_))
