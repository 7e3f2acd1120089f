"""FANClassifierCV: an average of FANs and their relatives, weighted by what they predict of rows held out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from fanbayes.arrays import Floats
from fanbayes.data.frames import from_user_table, rows_of, to_user_table
from fanbayes.data.schema import Missing
from fanbayes.data.state import Arrays, State, entry, read_table
from fanbayes.data.views import Encodings
from fanbayes.estimators.progress import steps
from fanbayes.estimators.splits import read_groups, split_rows
from fanbayes.estimators.tabular import TableClassifier
from fanbayes.estimators.validation import require_choice, require_integer, seed_of
from fanbayes.explanation.average import explain_average
from fanbayes.explanation.contributions import Explanation
from fanbayes.explanation.description import describe_average
from fanbayes.learning.completion import Imputer
from fanbayes.learning.e_step import thread_pool
from fanbayes.learning.ensembles.average import Average
from fanbayes.learning.ensembles.candidates import Effort, library
from fanbayes.learning.ensembles.parallel import parallel_map
from fanbayes.learning.ensembles.training import Candidate, Training, average_log_score, fit_average


@dataclass(kw_only=True, eq=False, repr=False)
class FANClassifierCV(TableClassifier):
    """Average of naive Bayes and FAN models, with weights of members and features learnt by cross-validation.

    ``p(c | x) = sum_m v_m p_m(c | x)``, where each member is naive Bayes or a FAN of some size, as EM finds it or
    fine-tuned to tell the classes apart, on continuous columns as they are, binned or decorrelated, and

    ``p_m(c | x) ∝ exp(b_c) p(c) sum_h p(h | c) prod_i p(x_i | c, h)^{w_i}``.

    Feature weights w_i and offsets b_c maximise the likelihood of the classes of rows that were held out, and so do
    the weights v_m. Members are then fitted to all rows.

    Such members are not joint distributions, so a missing value cannot just be left out of the product. Where a column
    is missing in fewer than one of twenty training cases, p(c | x) is the mean over the values that it may have, given
    the others, under a FAN that was chosen for it (`imputer_`; `fanbayes.learning.completion`): exactly if all that is
    missing has few combinations of values, else over 64 points. In columns that are missing more often it is left out,
    in training as in prediction, and everywhere if all members are joint distributions, for which that is exact. A row
    in which everything is missing gets `class_prior_`.

    Parameters that are not described here are as in `FANClassifier`.

    Parameters
    ----------
    effort : {"fast", "default", "best"}, default="default"
        How many candidates and starts are tried, and how many members may remain.
    cv : int, splitter or iterable of (train, test) indices, default=5
        How rows are held out. An integer is a number of stratified folds; with fewer than two labelled rows a fold
        there is nothing to judge by, and the only member is naive Bayes.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    members_ : table
        The members: their model, size, treatment of continuous columns, their feature weights, the mean log
        score of the rows held out, and their weight.
    weights_ : ndarray of shape (n_members,)
    class_prior_ : ndarray of shape (n_classes,)
    n_components_ : int
        Number of components of the largest member.
    schema_ : Schema
        What each column was taken for.
    average_ : Average
        The members themselves: each with its weight, how it sees the columns, the network that EM found, and what it
        predicts by.
    imputer_ : Imputer
        What fills in missing values, and in which columns.
    feature_weights_ : ndarray of shape (n_members, n_features_in_)
    offsets_ : ndarray of shape (n_members, n_classes)
    log_score_ : float
        Mean log probability of the class of the rows held out, under the average.
    n_features_in_, feature_names_in_

    Notes
    -----
    A row with missing values that are filled in costs as much as up to 64 others. Feature weights and fine-tuning are
    for prediction: `sample` draws from the members as EM found them, from each as often as it weighs.

    In explanations, "member" is the number of the member that adds most to the probability of the class, and
    "responsibility" its share. The information of a missing feature is the weighted mean of what it is under the
    members. Where a missing value is filled in, its contribution is that of the values which the others lead to expect;
    elsewhere it is 0.

    Examples
    --------
    >>> from fanbayes import FANClassifierCV
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = FANClassifierCV(effort="fast", random_state=0).fit(X, y)
    >>> clf.predict_proba(X).shape
    (150, 3)
    """

    effort: Effort = "default"
    cv: Any = 5
    random_state: Any = None

    # What the other classifiers let choose.
    missing: Missing = field(default="ignorable", init=False)

    # ------------------------------------------------------------ fitting

    def _check_parameters(self) -> None:
        super()._check_parameters()
        require_choice("effort", self.effort, ("fast", "default", "best"))
        if isinstance(self.cv, (int, np.integer)):
            require_integer("cv", self.cv, 2)
        elif isinstance(self.cv, str) or not (
            self.cv is None or hasattr(self.cv, "split") or hasattr(self.cv, "__iter__")
        ):
            raise ValueError(f"cv={self.cv!r} is neither a number, nor a splitter, nor a list of splits")

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Learn from rows and their classes.

        Parameters
        ----------
        X, y, sample_weight
            As in `FANClassifier.fit`.
        groups : array-like of shape (n_samples,), optional
            Rows of a group, such as those of one patient, are held out together. Without groups, rows that are equal
            in all columns are, if some of these are continuous; equal rows of discrete columns are taken for
            different cases and are dealt out over the folds.

        Returns
        -------
        self
        """
        return self._fit_whole(X, y, sample_weight, groups)

    def _fit(self, *given: Any) -> Self:
        X, y, sample_weight, groups = given
        cases = self._cases(X, y, sample_weight)
        rows = cases.training_table()
        cases.warn_of_traps(rows.schema)
        seed = seed_of(self.random_state)
        splits = split_rows(self.cv, cases, rows.table, seed, read_groups(groups, cases))
        families = library(self.effort, bool(rows.schema.continuous))
        if not splits:  # nothing can be held out, so nothing can be compared
            families = families[:1]
        with parallel_map(self._n_threads()) as each, steps(bool(self.verbose)) as report:
            average, members = fit_average(Training(rows, seed, each, report), splits, families, self.effort)
        self.classes_ = cases.classes
        self.schema_ = rows.schema
        self.average_ = average
        self.members_ = _table_of(members, average.weights, rows.schema.frame)
        self.log_score_ = average_log_score(average, members)
        return self

    # ------------------------------------------------------------ looking inside

    @property
    def _predictor(self) -> Average:
        return self.average_

    @property
    def n_components_(self) -> int:
        """Number of components of the largest member."""
        check_is_fitted(self)
        return self.average_.n_components

    @property
    def weights_(self) -> Floats:
        """Weights of the members (n_members,)."""
        check_is_fitted(self)
        return self.average_.weights

    @property
    def feature_weights_(self) -> Floats:
        """Feature weights of the members (n_members, n_features_in_); 1 where they have none."""
        check_is_fitted(self)
        return np.array([m.predictor.feature_weights.weights for m in self.average_.members])

    @property
    def offsets_(self) -> Floats:
        """Offsets of the classes (n_members, n_classes)."""
        check_is_fitted(self)
        return np.array([m.predictor.feature_weights.offset for m in self.average_.members])

    @property
    def imputer_(self) -> Imputer:
        """What fills in missing values, and in which columns."""
        check_is_fitted(self)
        return self.average_.imputer

    def _explain(self, rows: Encodings, pair: Sequence[Any] | None) -> Explanation:
        return explain_average(self.average_, rows, self.classes_, pair, thread_pool(self._n_threads()))

    def _description(self) -> dict[str, Any]:
        return {
            "log_score": self.log_score_,
            "members": rows_of(self.members_),
            **describe_average(self.average_),
        }

    # ------------------------------------------------------------ files

    def _to_state(self) -> State:
        values, arrays = self.average_.to_state()
        own = {"fit": {"log_score": self.log_score_}, "tables": {"members": from_user_table(self.members_)}}
        return values | own, arrays

    def _set_state(self, values: dict[str, Any], arrays: Arrays) -> None:
        self.average_ = Average.from_state(values, arrays, self.schema_, len(self.classes_))
        self.log_score_ = entry(entry(values, "fit", dict), "log_score", float)
        self.members_ = read_table(entry(entry(values, "tables", dict), "members", dict), self.schema_.frame)


def _table_of(members: Sequence[Candidate], weights: Floats, frame: str | None) -> Any:
    columns = {
        "n_components": [m.size for m in members],
        "mixing": [m.family.mixing for m in members],
        "variance_tying": [m.family.variance_tying for m in members],
        "treatment": [m.family.treatment for m in members],
        "fine_tuned": [m.family.fine_tuned for m in members],
        "feature_weights": [m.weighting for m in members],
        "log_score": [m.log_score for m in members],
        "weight": weights.tolist(),
    }
    return to_user_table(columns, frame)
