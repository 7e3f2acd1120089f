"""FANClassifierCV: an average of FANs and their relatives, weighted by what they predict of rows held out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from fanbayes.arrays import Floats
from fanbayes.data.frames import from_user_table, rows_of, to_user_table
from fanbayes.data.schema import Missing, Schema
from fanbayes.data.state import Arrays, State, entry, read_table
from fanbayes.data.views import Encodings
from fanbayes.estimators.batch_cases import batches_of
from fanbayes.estimators.progress import steps
from fanbayes.estimators.sampled import Sample
from fanbayes.estimators.splits import Labelled, read_groups, units_of
from fanbayes.estimators.tabular import Cases, TableClassifier
from fanbayes.estimators.validation import is_dask, named_columns, require_choice, require_integer, seed_of
from fanbayes.explanation.average import explain_average
from fanbayes.explanation.description import describe_features
from fanbayes.explanation.explanation import Explanation
from fanbayes.explanation.information import feature_information
from fanbayes.learning.completion import Imputer
from fanbayes.learning.e_step import thread_pool
from fanbayes.learning.ensembles.average import Average
from fanbayes.learning.ensembles.candidates import AnyFamily, Effort, library
from fanbayes.learning.ensembles.extra import ExtraFamily, weight_parameter
from fanbayes.learning.ensembles.parallel import parallel_map
from fanbayes.learning.ensembles.pool import Pool
from fanbayes.learning.ensembles.race import OWN_NAMES, Training
from fanbayes.learning.ensembles.training import Outcome, fit_average, n_steps


@dataclass(kw_only=True, eq=False, repr=False)
class FANClassifierCV(TableClassifier):
    """Average of FAN models and their relatives, pooled by how they predict rows that they have not seen.

    Members are naive Bayes and FANs of several sizes, as EM finds them or fine-tuned to tell the classes apart, on
    continuous columns as they are, binned, by their normal scores or, if at most 500, decorrelated; of few cases
    logistic regression, which is naive Bayes fine-tuned from where it knows nothing; kernel densities, FANs with one
    component for each of some training rows; a forest of trees with naive Bayes in their nodes, and boosted trees.
    Each is the mean of its fits to all folds but one, and together with the classes' shares they are pooled,

    ``p(c | x) = s sum_m v_m p_m(c | x) + (1 - s) prod_m p_m(c | x)^{w_m} / Z(x)``,

    by the weights v, exponents w and share s that give the classes of the rows held out the highest probability.

    Such members are not joint distributions, so a missing value cannot just be left out of the product. Where a column
    is missing in fewer than one of twenty training cases, p(c | x) is the mean over the values that it may have, given
    the others, under a FAN that was chosen for it (`imputer_`; `fanbayes.learning.completion`): exactly if all that is
    missing has few combinations of values, else over 16 to 64 points, up to 256 where classes are many. In columns
    that are missing more often it is left out, in training as in prediction. A row in which everything is missing gets
    `class_prior_`.

    It has no intervals (`draw_parameters` of `FANClassifier`): an average is no distribution whose parameters could be
    drawn. Fits with ``sample_weight=rng.exponential(size=n_samples)`` show how far probabilities depend on the rows.

    Parameters that are not described here are as in `FANClassifier`.

    Parameters
    ----------
    effort : {"fast", "default", "best"}, default="default"
        How many candidates and starts are tried, and how many members may remain.
    cv : int, splitter or iterable of (train, test) indices, optional
        How rows are held out. An integer is a number of stratified folds; with fewer than two labelled rows a fold
        there is nothing to judge by, and the only member is naive Bayes. By default five folds, dealt out twice up to
        1,000 cases, three above 5,000. Of more than 50,000 rows, or fewer if columns times classes are more than
        150, a sample is judged on, of at most 20,000 labelled ones and as many others. Members are fitted again to
        all rows after a sample, and where less than three quarters of the cases are learnt from at a time.
    memory : int or str, default="1GB"
        What the rows of a table that is read in batches, or lies on a cluster, may take here. Of a larger table it is
        a sample that candidates are judged on, and that fine-tuning, trees, cuts, normal scores, correlations and
        extra members learn from; EM learns the networks of members from all rows, wherever they are.
    missing : {"ignorable", "informative"}, default="ignorable"
        With "informative", that a value is missing may tell something of the class: there are candidates that know
        whether each column has a value, beside others that do not, and the rows held out choose. Values will have to be
        missing for the same reasons when rows are predicted.
    kernel_members : bool, default=True
        Whether kernel densities are tried, up to 2,000 rows. Such members hold rows of the training table.
    extra_members : list of (name, classifier), optional
        Classifiers or pipelines of scikit-learn with `predict_proba`, which become members beside the others if they
        predict rows held out so well: clones are fitted where networks are. They are given the labelled rows like those
        that `fit` was given, an array or a frame of the same library with the same columns (those of fewer than two
        distinct values constant), where missing values are filled in as for the others, else missing; as weights
        `sample_weight`, if there are any. An average with such a member can be kept by pickle only, and not be
        explained.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    members_ : table
        The members: their model, size, treatment of continuous columns, what they make of missing values where these
        may be informative, strength with which fine-tuning holds on to where it began, number of fits, the mean log
        score of the rows held out, weight and exponent. What the weights lack of 1 is that of the classes' shares. The
        model of an extra member is its name.
    pool_ : Pool
        Weights, exponents and share. The last weight and exponent are those of the classes' shares.
    class_prior_ : ndarray of shape (n_classes,)
    n_components_ : int
        Number of components of the largest member; the rows that kernel densities hold are not counted.
    schema_ : Schema
        What each column was taken for.
    average_ : Average
        The members themselves: the fits of each, how they see the columns and what they predict by.
    imputer_ : Imputer
        What fills in missing values, and in which columns.
    log_score_ : float
        Mean log probability of the class of rows held out, pooled by weights learnt from others of them.
    n_features_in_, feature_names_in_

    Notes
    -----
    A row with missing values that are filled in costs as much as so many others. Members are for prediction: `sample`
    draws from the network that fills in missing values, a joint distribution.

    In explanations, "member" is the number of the member that adds most to the probability of the class in the linear
    pool, and "responsibility" its share. The information of a missing feature is that under `imputer_`. Where a missing
    value is filled in, its contribution is that of the values which the others lead to expect.

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
    cv: Any = None
    missing: Missing = "ignorable"
    kernel_members: bool = True
    extra_members: Any = None
    random_state: Any = None

    # ------------------------------------------------------------ fitting

    def _check_parameters(self) -> None:
        super()._check_parameters()
        require_choice("effort", self.effort, ("fast", "default", "best"))
        if not isinstance(self.kernel_members, (bool, np.bool_)):
            raise ValueError(f"kernel_members={self.kernel_members!r} is neither True nor False")
        _check_extra(self.extra_members)
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
        groups : array-like of shape (n_samples,), or str, optional
            Or the name of a column of X. Rows of a group, such as those of one patient, are held out together. Without
            groups, copies of a row are: equal rows of a table that has a number which rows that differ seldom share.
            Other equal rows are taken for different cases and are dealt out over the folds.

        Returns
        -------
        self
        """
        return self._fit_whole(X, y, sample_weight, groups)

    def _fit(self, *given: Any) -> Self:
        seed = seed_of(self.random_state)
        cases, rows, all_groups, elsewhere = self._sample(seed, *given)
        is_split = self.cv is not None and not isinstance(self.cv, (int, np.integer))
        judged, groups, units = units_of(self.cv, cases, rows, seed, all_groups)
        n_cases = judged.table.labelled_only().total_weight
        about = (len(rows.schema.continuous), rows.n_classes, n_cases, bool(rows.schema.indicates))
        families: list[AnyFamily] = [*library(self.effort, *about), *self._extra_families(cases)]
        n = n_steps(len(units), families, bool(self.kernel_members))
        with parallel_map(self._n_threads()) as each, steps(bool(self.verbose), n) as report:
            pool = thread_pool(self._n_threads())
            how = (self.kernel_members, groups, all_groups, is_split, elsewhere)
            training = Training(judged, rows, seed, each, pool, report, *how)
            found = fit_average(training, units, families, self.effort)
        self.classes_ = cases.classes
        self.schema_ = rows.schema
        self.average_ = found.average
        self.members_ = _table_of(found, rows.schema)
        self.log_score_ = found.log_score
        return self

    def _sample(self, seed: int, X: Any, y: Any, sample_weight: Any, groups: Any) -> Sample:
        """Rows in memory: all that `fit` was given, or as many of a larger table as fit."""
        if not is_dask(X) and batches_of(X) is None:
            X, groups = named_columns(X, groups=groups)
        cases = self._cases_of(X, y, sample_weight, groups)
        if isinstance(cases, Cases):
            found = Sample(cases, cases.training_table(self.missing), read_groups(groups, cases), None)
        elif hasattr(self.cv, "__iter__") and not hasattr(self.cv, "split"):
            raise ValueError("cv gives rows by their numbers, which needs rows in memory; give a number or a splitter")
        else:
            found = cases.sample(seed, self.missing)
        cases.warn_of_traps(found.rows.schema)
        return found

    def _extra_families(self, cases: Labelled) -> list[ExtraFamily]:
        """The classifiers that the user has handed in; refused if there are weights that they do not take."""
        found = [ExtraFamily(name, estimator, cases.classes) for name, estimator in self.extra_members or ()]
        for f in found:
            if cases.weights is not None and weight_parameter(f.estimator) is None:
                raise ValueError(
                    f"the extra member {f.name!r} ({type(f.estimator).__name__}) takes no sample_weight; leave it out, "
                    "or fit without weights"
                )
        return found

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
    def pool_(self) -> Pool:
        """Weights and exponents of the members and, as the last one, of the classes' shares."""
        check_is_fitted(self)
        return self.average_.pool

    @property
    def class_prior_(self) -> Floats:
        """The classes' shares (n_classes,)."""
        check_is_fitted(self)
        return self.average_.class_prior

    @property
    def imputer_(self) -> Imputer:
        """What fills in missing values, and in which columns."""
        check_is_fitted(self)
        return self.average_.imputer

    def _explain(self, rows: Encodings, pair: Sequence[Any] | None) -> Explanation:
        return explain_average(self.average_, rows, self.classes_, pair, thread_pool(self._n_threads()))

    def _information(self) -> Floats:
        return feature_information(self.imputer_.network, self.imputer_.schema)

    def _description(self) -> dict[str, Any]:
        return {
            "log_score": self.log_score_,
            "members": rows_of(self.members_),
            "features": describe_features(self.imputer_.schema, self._information()),
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


def _check_extra(extra_members: Any) -> None:
    """Refuse what are not classifiers with names of their own."""
    if extra_members is None:
        return
    is_list = isinstance(extra_members, (list, tuple))
    if not is_list or not all(isinstance(m, (list, tuple)) and len(m) == 2 for m in extra_members):
        raise ValueError("extra_members must be a list of pairs, each a name and a classifier of scikit-learn")
    names = [name for name, _ in extra_members]
    for name, estimator in extra_members:
        if not isinstance(name, str) or not name or name in OWN_NAMES or names.count(name) > 1:
            raise ValueError(
                f"extra_members has the name {name!r:.60}; give each a text of its own, none of {', '.join(OWN_NAMES)}"
            )
        if isinstance(estimator, type) or not all(hasattr(estimator, m) for m in ("fit", "get_params", "set_params")):
            raise TypeError(f"the extra member {name!r} is no classifier of scikit-learn: {estimator!r:.80}")
        if not hasattr(estimator, "predict_proba"):
            raise TypeError(
                f"the extra member {name!r} ({type(estimator).__name__}) has no predict_proba; wrap it in "
                "sklearn.calibration.CalibratedClassifierCV"
            )


def _table_of(found: Outcome, schema: Schema) -> Any:
    members, pool = found.members, found.average.pool
    sees = ["informative" if m.fits[0].view.schema.indicates else "ignorable" for m in found.average.members]
    columns = {
        "model": [m.kind for m in members],
        "n_components": [m.size for m in members],
        "treatment": [m.treatment for m in members],
        **({"missing": sees} if schema.indicates else {}),
        "strength": [m.strength for m in members],
        "n_fits": [len(m.fits) for m in found.average.members],
        "log_score": found.log_scores,
        "weight": pool.weights[:-1].tolist(),
        "exponent": pool.exponents[:-1].tolist(),
    }
    return to_user_table(columns, schema.frame)
