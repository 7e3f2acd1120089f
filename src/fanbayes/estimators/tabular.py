"""What all classifiers share: how they read tables and labels, and what follows from their probabilities."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from traceback import clear_frames
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, cast

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from fanbayes.arrays import Floats
from fanbayes.data.batches import Batches
from fanbayes.data.frames import to_user_rows
from fanbayes.data.schema import Missing, Schema, category_mask
from fanbayes.data.sources import Source
from fanbayes.data.state import Arrays, State
from fanbayes.data.storage import pieces
from fanbayes.data.table import EncodedTable, encode_table, learn_table
from fanbayes.data.traps import Unseen, one_class_trap, training_traps, unseen_categories, unseen_trap, warn_of
from fanbayes.data.views import Encodings, TrainingTable, training_table
from fanbayes.estimators import batched
from fanbayes.estimators.batch_cases import BatchCases, batches_of, read_parts, summarise_parts
from fanbayes.estimators.batched import answers, of_rows, table_in_batches
from fanbayes.estimators.validation import (
    encode_labels,
    is_dask,
    is_labelled,
    labels_among,
    named_columns,
    read_bytes,
    read_labels,
    read_rows,
    read_weights,
    require_choice,
    require_integer,
    seed_of,
)
from fanbayes.explanation.explanation import Explanation
from fanbayes.learning.e_step import thread_pool
from fanbayes.learning.predictor import GenerativePredictor, Predictor
from fanbayes.model.blocks import BLOCKS

if TYPE_CHECKING:
    from fanbayes.estimators.on_dask import DaskCases


@dataclass(frozen=True)
class Cases:
    """Rows that `fit` was given and that count: raw columns, classes and weights.

    Attributes
    ----------
    sources : the raw columns
    is_category : whether each is taken as categories
    frame : name of the frame library, None for an array
    classes : (n_classes,)
    labels : int32 (n_rows,), -1 where unlabelled
    weights : (n_rows,) or None where all are 1
    present : bool (n_given,)
        Which of the rows given count; those of weight 0 do not.
    is_declared : bool
        Whether the user said which columns are categories.
    distributions : of continuous columns that are not normal, by position
    """

    sources: list[Source]
    is_category: list[bool]
    frame: str | None
    classes: NDArray[Any]
    labels: NDArray[np.int32]
    weights: Floats | None
    present: NDArray[np.bool_]
    is_declared: bool
    distributions: dict[int, str]

    def encoded(
        self, discretize: Literal["none", "mdlp"], missing: Missing = "ignorable"
    ) -> tuple[Schema, EncodedTable]:
        """What the columns are, binned or not, with or without indicators, and the rows."""
        columns = (self.sources, self.is_category, self.frame)
        schema, table = learn_table(*columns, self.labels, self.weights, discretize, self.distributions, missing)
        check_numbers(schema, table)
        return schema, table

    def training_table(self, missing: Missing = "ignorable") -> TrainingTable:
        """The rows, encoded once, for models that see the columns in several ways."""
        columns = (self.sources, self.is_category, self.frame)
        return training_table(*columns, self.labels, self.weights, len(self.classes), missing)

    def warn_of_traps(self, schema: Schema) -> None:
        """Warn of what may be wrong with columns that were taken for what the schema says."""
        of_columns = range(len(schema.columns)) if self.is_declared else self.distributions
        declared = {schema.columns[j].name for j in of_columns}
        warn_of(training_traps(schema, self.sources, self.weights, declared))


@dataclass(kw_only=True, eq=False, repr=False)
class TableClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier of rows with discrete and continuous columns, values missing or not.

    Parameters are the fields of a dataclass: scikit-learn finds them in the signature of its constructor.
    """

    # Whether it is a joint distribution of class and columns, which can be drawn from.
    _is_generative: ClassVar[bool] = True

    categorical_features: Any = "from_dtype"
    missing: Missing = "ignorable"
    handle_unknown: Literal["missing", "error"] = "missing"
    allow_missing_columns: bool = False
    memory: int | str = "1GB"
    n_jobs: int | None = None
    verbose: bool | int = False

    # Columns that `fit` was told are no features: target, weights, groups. Rows to predict may have them still.
    _beside: tuple[str, ...] = field(default=(), init=False)
    # Texts that meant a missing value in the files that it was learnt from, beside those that always do.
    _missing_texts: tuple[str, ...] = field(default=(), init=False)
    classes_: NDArray[Any] = field(init=False)
    schema_: Schema = field(init=False)

    @abstractmethod
    def _fit(self, *given: Any) -> Self:
        """Learn from what `fit` was given; what is set on the way is forgotten if it fails."""

    @property
    @abstractmethod
    def _predictor(self) -> Predictor:
        """What was learnt."""

    @abstractmethod
    def _to_state(self) -> State:
        """What was learnt, besides classes and columns."""

    @abstractmethod
    def _set_state(self, values: dict[str, Any], arrays: Arrays) -> None:
        """Inverse of `_to_state`, given classes and columns."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from rows and their classes.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features), or a table that is read in batches
            Discrete and continuous columns, values missing or not. Datasets of Arrow, lazy frames of polars, relations
            of DuckDB and tables of Ibis need not fit into memory: beyond a quarter of `memory` they are gone through
            twice, and encoded rows that take more than `memory` lie in temporary files.
        y : array-like of shape (n_samples,), or str
            Classes, or the name of the column of X that holds them. A row whose label is NaN or None is unlabelled: a
            model that is a joint distribution learns from it as well, others leave it out.
        sample_weight : array-like of shape (n_samples,), or str, optional
            Case counts, or the name of the column of X that holds them: weight 2 is the row twice, weight 0 is the row
            absent.

        Returns
        -------
        self
        """
        return self._fit_whole(X, y, sample_weight)

    def _fit_whole(self, *given: Any) -> Self:
        """`_fit`; if it fails, nothing has changed."""
        self._whole(self._fit_and_warn, *given)
        self._beside = tuple(column for column in given[1:] if isinstance(column, str))
        self._missing_texts = ()
        return self

    def _fit_and_warn(self, *given: Any) -> Self:
        self._fit(*given)
        if len(self.classes_) == 1:
            warn_of([one_class_trap(self.classes_.tolist()[0])])
        return self

    def _whole(self, learn: Callable[..., Self], *given: Any) -> Self:
        """Learn from what was given; if it fails, nothing has changed."""
        before = dict(self.__dict__)
        try:
            return learn(*given)
        except BaseException as error:
            self.__dict__ = before
            if is_dask(given[0]):
                clear_frames(error.__traceback__)  # where somebody looks at the error, the workers let go all the same
            raise

    @property
    def _learns_from_unlabelled(self) -> bool:
        """Whether rows without a label are learnt from; else they are left out."""
        return self._is_generative

    def _cases_or_batches(self, X: Any, y: Any, sample_weight: Any, groups: Any = None) -> Cases | BatchCases:
        """What `fit` was given, in memory or in batches, checked; `groups` names a column of batches."""
        batches = batches_of(X)
        if batches is None:
            return self._cases(X, y, sample_weight)
        self._check_parameters()
        return self._batch_cases(batches, y, sample_weight, groups)

    def _cases_of(self, X: Any, y: Any, sample_weight: Any, groups: Any = None) -> Cases | BatchCases | DaskCases:
        """What `fit` was given, checked, in memory, in batches or in the partitions of a table of Dask."""
        if not is_dask(X):
            return self._cases_or_batches(X, y, sample_weight, groups)
        from fanbayes.estimators.on_dask import dask_cases

        self._check_parameters()
        return dask_cases(self, X, y, sample_weight, groups)

    def _cases(
        self, X: Any, y: Any, sample_weight: Any, classes: NDArray[Any] | None = None, *, reset: bool = True
    ) -> Cases:
        """What `fit` was given in memory, checked; labels are among `classes`, if these are known before.

        With `reset`, the columns are the ones that the classifier has from now on, else those that it has.
        """
        self._check_parameters()
        if batches_of(X) is not None:
            raise TypeError(
                f"{type(self).__name__} learns from rows in memory here; give it as many as fit, such as "
                "dataset.head(10**6) or lazy_frame.head(10**6).collect()"
            )
        X, y, sample_weight = named_columns(X, y=y, sample_weight=sample_weight)
        rows = read_rows(self, X, reset=reset, training=True)
        y = read_labels(y, len(rows))
        weights = read_weights(sample_weight, len(rows))
        present = np.ones(len(rows), dtype=bool) if weights is None else weights > 0
        if not self._learns_from_unlabelled:
            present &= is_labelled(y)
        if not present.all():
            rows, y = rows.take(present), y[present]
            weights = None if weights is None else weights[present]
        classes, labels = encode_labels(y) if classes is None else (classes, labels_among(classes, y))
        sources = list(rows.sources())
        is_category = category_mask(self.categorical_features, rows.names, [s.symbolic for s in sources])
        is_declared = not isinstance(self.categorical_features, str)
        other = self._distributions(rows.names, is_category)
        return Cases(sources, is_category, rows.frame, classes, labels, weights, present, is_declared, other)

    def _batch_cases(self, batches: Batches, y: Any, sample_weight: Any, groups: Any) -> BatchCases:
        parts = read_parts(self, batches, y, sample_weight, groups)
        counts = getattr(self, "discretize", "none") == "mdlp"
        memory = read_bytes("memory", self.memory)
        found = summarise_parts(
            self, parts, self.categorical_features, counts=counts, missing=self.missing, memory=memory
        )
        other = self._distributions(parts.features, [c.is_category for c in found[0].columns])
        is_declared = not isinstance(self.categorical_features, str)
        return BatchCases(parts, *found, is_declared, other, memory)

    def _distributions(self, names: Sequence[str], is_category: Sequence[bool]) -> dict[int, str]:
        """Distributions of columns that are not normal, by position."""
        return {}

    def _check_parameters(self) -> None:
        require_choice("missing", self.missing, ("ignorable", "informative"))
        require_choice("handle_unknown", self.handle_unknown, ("missing", "error"))
        if not isinstance(self.allow_missing_columns, (bool, np.bool_)):
            raise TypeError(f"allow_missing_columns={self.allow_missing_columns!r} must be True or False")
        read_bytes("memory", self.memory)
        if self.n_jobs is not None:
            require_integer("n_jobs", self.n_jobs, -(10**6), 10**6)
            if self.n_jobs == 0:
                raise ValueError("n_jobs=0 has no meaning; use None, a positive number, or -1 for all cores")

    def _n_threads(self) -> int:
        """Threads to use, not more than there are cores: the result does not depend on it.

        For one, joblib is not asked: in a daemonic process it imports Dask, if that is there, which takes long.
        """
        return 1 if self.n_jobs in (None, 1) else min(effective_n_jobs(self.n_jobs), effective_n_jobs(-1))

    def _encode(self, X: Any, schemas: tuple[Schema, ...]) -> Encodings:
        """The rows as each schema encodes them; the discrete columns of all are the same."""
        rows = read_rows(self, X, reset=False)
        sources = list(rows.sources())
        tables = tuple(encode_table(schema, sources, len(rows), rows.absent) for schema in schemas)
        self._judge_unseen(unseen_categories(schemas[0], sources, tables[0]))
        check_numbers(schemas[0], tables[0])
        return Encodings(schemas, tables)

    def _judge_unseen(self, unseen: list[Unseen]) -> None:
        """Refuse or warn of categories that were not seen in training."""
        if unseen and self.handle_unknown == "error":
            first = unseen[0]
            raise ValueError(
                f"column {first.column!r} has a category in row {first.row} that was not seen in training, such as "
                f"{first.example!r:.60}; handle_unknown='missing' would take it as missing"
            )
        trap = unseen_trap(unseen)
        warn_of([] if trap is None else [trap])

    @of_rows
    def predict_proba(self, X: Any) -> Floats:
        """p(c | x), missing values marginalised.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features), or a table that is read in batches
            Of a table in batches (`fanbayes.data.batches`) columns are found by their names, and others left aside. Of
            a frame in memory those are that `fit` was given the names of: the target, weights and groups.

        Returns
        -------
        ndarray of shape (n_samples, n_classes), in the order of `classes_`
        """
        if is_dask(X):
            return self._predicted("predict_proba", X, len(self.classes_))
        return self._posterior(X, "proba")

    def predict_proba_batches(self, X: Any) -> Iterator[Floats]:
        """p(c | x) of some rows after the other, for tables of which not even the answers fit into memory.

        Parameters
        ----------
        X : as of `predict_proba`

        Yields
        ------
        ndarray of shape (n_some, n_classes)
        """
        check_is_fitted(self)
        if is_dask(X):
            lazy: Any = self.predict_proba(X)
            yield from (block.compute() for block in lazy.to_delayed().ravel())
            return
        batches = table_in_batches(self, X)
        proba = type(self).predict_proba
        yield from [proba(self, X)] if batches is None else answers(proba, self, batches)

    @of_rows
    def predict_log_proba(self, X: Any) -> Floats:
        """Log p(c | x), as `predict_proba`, without underflow."""
        if is_dask(X):
            return self._predicted("predict_log_proba", X, len(self.classes_))
        return self._posterior(X, "log_proba")

    def _predicted(self, method: str, X: Any, n_columns: int | None, dtype: Any = np.float64) -> NDArray[Any]:
        """What a method says of a table of Dask, as an array of Dask that is computed when it is asked for."""
        from fanbayes.estimators.on_dask import predicted

        check_is_fitted(self)
        found: NDArray[Any] = predicted(self, method, X, n_columns, dtype)
        return found

    def _posterior(self, X: Any, what: Literal["proba", "log_proba"]) -> Floats:
        check_is_fitted(self)
        rows = self._encode(X, self._predictor.schemas)
        return self._predictor.posterior(rows, what, thread_pool(self._n_threads()))

    def predict(self, X: Any) -> NDArray[Any]:
        """Most probable class of each row.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        if is_dask(X):
            return self._predicted("predict", X, None, self.classes_.dtype)
        best = np.argmax(self.predict_log_proba(X), axis=1)
        chosen: NDArray[Any] = self.classes_[best]
        return chosen

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy over the labelled rows.

        Parameters
        ----------
        X : as of `fit`
        y : array-like of shape (n_samples,), or str
            Classes, or the name of the column of X that holds them.
        sample_weight : array-like of shape (n_samples,), or str, optional

        Returns
        -------
        float
        """
        check_is_fitted(self)
        if is_dask(X):
            from fanbayes.estimators.on_dask import score

            return score(self, X, y, sample_weight)
        batches = batches_of(X)
        if batches is not None:
            return batched.score(self, batches, y, sample_weight)
        X, y, sample_weight = named_columns(X, y=y, sample_weight=sample_weight)
        predicted = self.predict(X)
        y = read_labels(y, len(predicted))
        known = is_labelled(y)
        if not known.any():
            raise ValueError("no row has a label to compare with; give at least one row of y a class")
        truth = np.array(y[known].tolist()) if y.dtype.kind == "O" else y[known]
        weight = None if sample_weight is None else np.asarray(sample_weight)[known]
        return float(accuracy_score(truth, predicted[known], sample_weight=weight))

    @property
    def class_prior_(self) -> Floats:
        """p(c), the class marginal of the model (n_classes,)."""
        check_is_fitted(self)
        return self._predictor.class_prior

    @abstractmethod
    def _explain(self, rows: Encodings, pair: Sequence[Any] | None) -> Explanation:
        """`explain` of encoded rows."""

    def explain(self, X: Any, *, classes: Sequence[Any] | None = None) -> Explanation:
        """Why each row is of one class rather than another: the log-odds as a sum over features.

        Contributions of the features and the prior log-odds add up to the log-odds. They are naive Bayes' own terms, or
        those of Aumann and Shapley where features act together (`fanbayes.explanation.contributions`).

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features)
        classes : two labels, optional
            The class, and the one to compare it with; by default the predicted class and the runner-up of each row. In
            the place of None is the most probable class of each row that is not the other one.

        Returns
        -------
        Explanation
            Arrays, and tables by `table()`, `summary()` and `worth_observing()`.
        """
        check_is_fitted(self)
        return self._explain(self._encode(X, self._predictor.schemas), classes)

    @abstractmethod
    def _information(self) -> Floats:
        """Mutual information of each feature with the class (n_features,), in nats, under the model."""

    @property
    def feature_importances_(self) -> Floats:
        """What each feature tells about the class under the model (n_features,): not negative, summing to one.

        The mutual information I(C; X_i) of class and feature, each feature by itself, as a share of their sum; all 0
        where no feature tells anything. An average takes it from the joint distribution that fills in missing values,
        boosted naive Bayes from its first round. As with the importances of scikit-learn's forests, sums to one say
        nothing of how good the model is (`describe` has the information itself, in nats). Other than these, features
        are not judged together: two that tell the same both count in full, and one that tells something only in the
        company of others counts for nothing. `sklearn.inspection.permutation_importance` judges them together.
        """
        check_is_fitted(self)
        information = self._information()
        return information / (information.sum() or 1.0)

    @abstractmethod
    def _description(self) -> dict[str, Any]:
        """What `describe` tells of it besides settings and classes."""

    def describe(self) -> dict[str, Any]:
        """What `fanbayes show` prints, as plain values: settings, classes, features and what they tell about the class.

        Returns
        -------
        dict
        """
        check_is_fitted(self)
        classes = zip(self.classes_.tolist(), self.class_prior_.tolist())
        return {
            "classifier": type(self).__name__,
            "settings": self.get_params(),
            "classes": [{"class": label, "prior": p} for label, p in classes],
            **self._description(),
        }

    @available_if(lambda self: self._is_generative)  # type: ignore[untyped-decorator]
    def sample(self, n_samples: int = 1, random_state: Any = None) -> tuple[Any, NDArray[Any]]:
        """Draw rows and their classes from the model.

        Parameters
        ----------
        n_samples : int
        random_state : int, RandomState or None

        Returns
        -------
        X : like the rows it was fitted on
            A value of a binned column is uniform within its interval. With `missing="informative"` values are missing
            as often as the model says; else none is.
        y : ndarray of shape (n_samples,)
        """
        check_is_fitted(self)
        require_integer("n_samples", n_samples, 1)
        predictor = cast(GenerativePredictor, self._predictor)
        columns, classes = predictor.sample(n_samples, np.random.default_rng(seed_of(random_state)))
        return to_user_rows(columns, self.schema_), self.classes_[classes]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        return tags


def check_numbers(schema: Schema, table: EncodedTable) -> None:
    """Refuse numbers of which the distribution of their column can make nothing."""
    for j in schema.taken_as_they_are:
        for piece in pieces(table.n_rows):
            x = table.numbers[piece, schema.place[j]]
            check_column(schema[j].name, schema[j].distribution, x, piece.start)


def check_column(name: str, distribution: str, x: Floats, first: int = 0) -> None:
    """Refuse numbers (n_rows,), the first that of row number `first`, of which a distribution can make nothing."""
    block = BLOCKS[distribution]
    wrong = np.flatnonzero(block.refused(x))
    if len(wrong):
        raise ValueError(
            f"column {name!r} holds {x[wrong[0]]:g} in row {first + wrong[0]}; as {distribution} it takes "
            f"{block.takes}: correct it, or fit without it in distributions"
        )
