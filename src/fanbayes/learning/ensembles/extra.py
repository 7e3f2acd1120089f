"""Classifiers of scikit-learn as members of an average.

They are given the user's columns, rebuilt from what is encoded, so that completions of rows (M1) can be predicted too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from fanbayes.arrays import Floats, Ints
from fanbayes.data.caching import fields_only
from fanbayes.data.rebuilt import rebuilt
from fanbayes.data.schema import Missing
from fanbayes.data.state import State, refuse
from fanbayes.data.table import EncodedTable
from fanbayes.data.views import Treatment, View
from fanbayes.learning.data import TrainingData
from fanbayes.learning.e_step import ThreadPool

# Of the sum of a row's probabilities; single precision is nearer.
_FURTHEST_FROM_ONE = 1e-3


@dataclass(frozen=True)
class EstimatorFit:
    """A fitted classifier of scikit-learn.

    Attributes
    ----------
    view : View
        Columns as they are.
    name : str
    estimator : what was fitted
    known : int (n_known,), number of each class that it knows
    n_classes : int
    """

    view: View
    name: str
    estimator: Any
    known: Ints
    n_classes: int

    n_components: ClassVar[int] = 1  # none to be counted

    __getstate__ = fields_only

    def proba(self, table: EncodedTable, pool: ThreadPool) -> Floats:
        """p(c | x) (n_rows, n_classes) of rows as the view shows them; 0 of a class that it has not seen."""
        X = rebuilt(table, self.view.schema)
        own = _attempt("predict", self.name, self.estimator, lambda: np.asarray(self.estimator.predict_proba(X), float))
        if own.shape != (table.n_rows, len(self.known)) or not (own >= 0).all() or not (own.sum(axis=1) > 0).all():
            raise ValueError(
                f"predict_proba of {_called(self.name, self.estimator)} gives something else than {len(self.known)} "
                "probabilities of each row; leave it out of extra_members"
            )
        off = np.abs(own.sum(axis=1) - 1.0)
        if off.max(initial=0.0) > _FURTHEST_FROM_ONE:
            raise ValueError(
                f"predict_proba of {_called(self.name, self.estimator)} gives a row probabilities that sum to "
                f"{own[off.argmax()].sum():.4g}, not to 1; wrap it in sklearn.calibration.CalibratedClassifierCV"
            )
        p = np.zeros((table.n_rows, self.n_classes))
        p[:, self.known] = own / own.sum(axis=1, keepdims=True)
        return p

    def to_state(self) -> State:
        """What others have learnt is not known here."""
        refuse(
            f"only pickle keeps {_called(self.name, self.estimator)}; use it or joblib, or fit without extra_members"
        )

    def refuse_to_explain(self) -> NoReturn:
        """An error that says what to do instead."""
        raise ValueError(
            f"what {_called(self.name, self.estimator)} makes of the features is not known; fit without extra_members, "
            "or ask predict_proba alone (sklearn.inspection.permutation_importance)"
        )


@dataclass(frozen=True, eq=False)
class ExtraFamily:
    """A classifier of scikit-learn that is fitted like the families of networks; it has one size.

    Attributes
    ----------
    name : str
    estimator : not fitted; what is fitted are clones
    classes : labels (n_classes,)
    """

    name: str
    estimator: Any
    classes: NDArray[Any]

    treatment: ClassVar[Treatment] = "none"
    missing: ClassVar[Missing | None] = None
    sizes: ClassVar[Sequence[int]] = (0,)
    strengths: ClassVar[Sequence[float]] = ()
    numbers: ClassVar[Sequence[int]] = (0,)

    @property
    def title(self) -> str:
        """What progress is reported as."""
        return self.name

    def kind(self, size: int) -> str:
        """What a member is called."""
        return self.name

    def rows(
        self, view: View, table: EncodedTable, n_classes: int, data: TrainingData | None = None
    ) -> tuple[View, EncodedTable]:
        """Rows of a table to fit to: those that have a label, and are in memory."""
        return view, table.labelled_only()

    def fit(
        self, rows: tuple[View, EncodedTable], size: int, seed: int, numbers: Sequence[int] | None = None
    ) -> list[EstimatorFit]:
        """Fit a clone; where it says nothing of its random state, with that of the seed."""
        view, table = rows
        assert table.labels is not None
        estimator = clone(self.estimator)
        states = (k for k, v in estimator.get_params().items() if k.split("__")[-1] == "random_state" and v is None)
        estimator.set_params(**dict.fromkeys(states, seed))
        if len(np.unique(table.labels)) < 2:  # which most refuse
            estimator = DummyClassifier(strategy="prior")
        weights = {} if table.weights is None else {str(weight_parameter(estimator)): table.weights}
        X, y = rebuilt(table, view.schema), self.classes[table.labels]
        _attempt("be fitted", self.name, estimator, lambda: estimator.fit(X, y, **weights))
        place = {label: k for k, label in enumerate(self.classes.tolist())}
        known = np.array([place[label] for label in estimator.classes_.tolist()], dtype=np.intp)
        return [EstimatorFit(view, self.name, estimator, known, len(self.classes))]


def weight_parameter(estimator: Any) -> str | None:
    """What `fit` of an estimator calls the weights of the rows; None if it takes none."""
    if isinstance(estimator, Pipeline):
        name, last = estimator.steps[-1]
        own = weight_parameter(last)
        return None if own is None else f"{name}__{own}"
    return "sample_weight" if has_fit_parameter(estimator, "sample_weight") else None


def _called(name: str, estimator: Any) -> str:
    return f"the extra member {name!r} ({type(estimator).__name__})"


def _attempt(what: str, name: str, estimator: Any, do: Callable[[], Any]) -> Any:
    """The result, or an error that names the member."""
    try:
        return do()
    except Exception as error:
        raise ValueError(
            f"{_called(name, estimator)} could not {what}: {error} (It is given the columns as they came, and parts of "
            "the rows, which may lack categories or classes that others have.)"
        ) from error
