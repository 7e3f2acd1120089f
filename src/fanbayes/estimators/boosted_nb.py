"""BoostedNBClassifier: rounds of naive Bayes, each on what the ones before got wrong."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from fanbayes.arrays import Floats
from fanbayes.data.frames import to_user_table
from fanbayes.data.state import Arrays, State, read_array, require
from fanbayes.data.views import Encodings
from fanbayes.estimators.progress import steps
from fanbayes.estimators.splits import split_rows
from fanbayes.estimators.tabular import TableClassifier
from fanbayes.estimators.validation import require_choice, require_integer, require_real, seed_of
from fanbayes.explanation.boosting import explain_boosted, score_parameters, strongest_scores
from fanbayes.explanation.description import describe_features
from fanbayes.explanation.explanation import Explanation
from fanbayes.explanation.information import feature_information
from fanbayes.learning.e_step import thread_pool
from fanbayes.learning.ensembles.boosting import Boosted, Combination, Settings, choose, fit_boosted

_N_FOLDS = 5


@dataclass(eq=False, repr=False)
class BoostedNBClassifier(TableClassifier):
    """Boosted naive Bayes: AdaBoost (SAMME) over naive Bayes on discrete and binned columns.

    Each round fits naive Bayes to the cases reweighted by what the rounds before got wrong. It is good where single
    features matter but naive Bayes counts what they share twice, and the reasons have to stay readable: the
    additive score is one number for each value of each feature and class (`score_table`). What several features tell
    only together it cannot learn. Continuous columns are binned by class entropy (Fayyad & Irani 1993), inside `fit`.
    Parameters that are not described here are as in `FANClassifier`.

    Parameters
    ----------
    n_rounds : "auto" or int, default="auto"
        Rounds of boosting; "auto" takes as many as predict rows held out best. There are fewer where boosting ends
        before: with a round that makes no mistake, or one that is no better than chance.
    combination : {"additive", "votes"}, default="additive"
        The score of a class: the weighted mean of the rounds' log-odds (Ridgeway et al. 1998), or the weighted share of
        rounds that decide for it (Elkan 1997). They are two classifiers.
    max_rounds : int, default=100
        Most rounds that "auto" tries; it stops after ten without a better score.
    alpha : float, default=1.0
        Added to every count (Laplace's rule), for features and classes.
    random_state : int, RandomState or None, default=None
        Which rows are held out together.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    class_prior_ : ndarray of shape (n_classes,)
        Of naive Bayes itself, the first round.
    n_rounds_ : int
    estimator_weights_, estimator_errors_ : ndarrays of shape (n_rounds_,)
        Weight of each round, and its error on the cases as it saw them.
    scale_ : float
        What scores are multiplied by before the softmax.
    log_scores_ : ndarray
        Mean log probability of the class of rows held out, after 1, 2, ... rounds. Empty where nothing was held out.
    boosted_ : Boosted
        The rounds themselves.
    schema_ : Schema
        What each column was taken for.
    n_features_in_, feature_names_in_

    Notes
    -----
    The contributions that `explain` finds are entries of the score tables.

    It is no joint distribution. A missing value has no factor, in fit and in prediction, which is not to sum it out; a
    row with everything missing gets `class_prior_`. Rows without a label are left out. There is no `sample`.

    The probabilities are the softmax of the scores times a scale. The scale, and the number of rounds, are those with
    the best log score over five folds; folds depend on what rows contain, not on their order. With fewer than ten
    cases nothing is held out: it is naive Bayes then, with a warning, unless `n_rounds` says otherwise.

    Examples
    --------
    >>> from fanbayes import BoostedNBClassifier
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = BoostedNBClassifier(random_state=0).fit(X, y)
    >>> clf.predict_proba(X).shape
    (569, 2)
    """

    _is_generative = False

    n_rounds: int | Literal["auto"] = "auto"
    _: KW_ONLY
    combination: Combination = "additive"
    max_rounds: int = 100
    alpha: float = 1.0
    random_state: Any = None

    # ------------------------------------------------------------ fitting

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not isinstance(self.n_rounds, str):
            require_integer("n_rounds", self.n_rounds, 1, 10_000)
        elif self.n_rounds != "auto":
            raise ValueError(f"n_rounds={self.n_rounds!r:.80} is neither 'auto' nor an integer")
        require_choice("combination", self.combination, ("additive", "votes"))
        require_integer("max_rounds", self.max_rounds, 1, 10_000)
        require_real("alpha", self.alpha, above=0.0)

    def _fit(self, *given: Any) -> Self:
        cases = self._cases(*given)
        rows = cases.training_table()
        cases.warn_of_traps(rows.schema_with(self.missing))
        lone = "the only round is naive Bayes" if self.n_rounds == "auto" else "scores are not scaled"
        splits = split_rows(_N_FOLDS, cases, rows.table, seed_of(self.random_state), None, f"{lone}; label more rows")
        settings, pool = Settings(float(self.alpha), self.combination, self.missing), thread_pool(self._n_threads())
        n_rounds = None if isinstance(self.n_rounds, str) else int(self.n_rounds)
        with steps(bool(self.verbose), 1) as report:
            choice = choose(rows, splits, settings, n_rounds, int(self.max_rounds), pool)
            report(f"{len(choice.log_scores)} rounds tried in each fold", 1)
            view, table = rows.view("mdlp", rows.labels, self.missing)
            boosted = fit_boosted(table, view.schema, rows.n_classes, settings, choice, pool)
        self.classes_ = cases.classes
        self.schema_ = view.schema
        self._set_learnt(boosted, choice.log_scores)
        return self

    def _set_learnt(self, boosted: Boosted, log_scores: Floats) -> None:
        self.boosted_ = boosted
        self.n_rounds_ = len(boosted.networks)
        self.estimator_weights_ = boosted.weights
        self.estimator_errors_ = boosted.errors
        self.scale_ = boosted.scale
        self.log_scores_ = log_scores

    # ------------------------------------------------------------ looking inside

    @property
    def _predictor(self) -> Boosted:
        return self.boosted_

    @property
    def log_score_(self) -> float:
        """Mean log probability of the class of the rows held out; NaN where nothing was."""
        check_is_fitted(self)
        return float(self.log_scores_[: self.n_rounds_][-1]) if len(self.log_scores_) else math.nan

    def score_table(self, feature: str | int) -> Any:
        """What each value of a feature adds to the score of each class.

        The log-odds of two classes are the difference of the sums of their scores over the features, and of their
        intercepts. Over the classes the scores of a value sum to 0; a missing value adds nothing.

        Parameters
        ----------
        feature : name or position of the column

        Returns
        -------
        table
            With columns "class", "level" and "score".
        """
        self._require_additive("score tables")
        columns = score_parameters(self.boosted_, feature, self.classes_.tolist())
        return to_user_table(columns, self.schema_.frame)

    def _explain(self, rows: Encodings, pair: Sequence[Any] | None) -> Explanation:
        self._require_additive("explanations")
        [table] = rows.tables
        return explain_boosted(self.boosted_, table, self.classes_, pair, thread_pool(self._n_threads()))

    def _require_additive(self, what: str) -> None:
        check_is_fitted(self)
        if self.boosted_.combination != "additive":
            raise ValueError(f"votes are no sum over features, and have no {what}; fit with combination='additive'")

    def _information(self) -> Floats:
        return feature_information(self.boosted_.networks[0], self.schema_)

    def _description(self) -> dict[str, Any]:
        is_additive = self.boosted_.combination == "additive"
        return {
            "n_rounds": self.n_rounds_,
            "combination": self.boosted_.combination,
            "scale": self.scale_,
            "log_score": self.log_score_,
            "rounds": [
                {"weight": w, "error": e}
                for w, e in zip(self.estimator_weights_.tolist(), self.estimator_errors_.tolist())
            ],
            "scores": strongest_scores(self.boosted_, self.classes_.tolist()) if is_additive else [],
            "features": describe_features(self.schema_, self._information()),
        }

    # ------------------------------------------------------------ files

    def _to_state(self) -> State:
        values, arrays = self.boosted_.to_state()
        return values, arrays | {"log_scores": self.log_scores_}

    def _set_state(self, values: dict[str, Any], arrays: Arrays) -> None:
        require("log_scores" in arrays, "it does not have the arrays that it should")
        log_scores = read_array(arrays, "log_scores", (arrays["log_scores"].size,))
        require(np.isfinite(log_scores).all(), "its log scores are no numbers")
        own = {name: array for name, array in arrays.items() if name != "log_scores"}
        boosted = Boosted.from_state(values, own, self.schema_, len(self.classes_), self.combination)
        self._set_learnt(boosted, log_scores)
