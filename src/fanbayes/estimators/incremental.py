"""Classifiers that learn from rows piece by piece: `partial_fit`."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.metaestimators import available_if

from fanbayes.arrays import Floats
from fanbayes.data.schema import Schema
from fanbayes.data.state import Arrays, State, apart, prefixed
from fanbayes.data.summary import summarise
from fanbayes.data.table import EncodedTable, encode_table
from fanbayes.estimators.base import Learnt
from fanbayes.estimators.intervals import IntervalClassifier
from fanbayes.estimators.tabular import Cases, check_column
from fanbayes.estimators.validation import encode_labels, read_labels
from fanbayes.learning.totals import Totals, read_totals, totals_of
from fanbayes.model.network import Statistics
from fanbayes.model.structure import Structure


def _learns_in_pieces(clf: IncrementalClassifier) -> bool:
    """Whether `partial_fit` is there; the reason why not is the cause of scikit-learn's error."""
    reason = clf._needs_all_rows()
    if reason is not None:
        raise AttributeError(reason)
    return True


class IncrementalClassifier(IntervalClassifier):
    """A classifier that learns from rows as they come.

    What it goes on from are totals, which `partial_fit` and, as far as it can, `fit` keep.
    """

    _totals: Totals

    @available_if(_learns_in_pieces)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn from more rows.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features)
            The columns of the first call. Categories may be new, types may not.
        y : array-like of shape (n_samples,)
        classes : array-like of shape (n_classes,), optional
            All classes that there will be; needed in the first call.
        sample_weight : array-like of shape (n_samples,), optional
            Case counts.

        Returns
        -------
        self
        """
        return self._whole(self._partial_fit, X, y, classes, sample_weight)

    def _fit(self, *given: Any) -> Self:
        return self._begin(self._learn(*given))

    def _begin(self, learnt: Learnt) -> Self:
        """Take what was learnt from the first rows, and the totals to go on from."""
        self._take_best(learnt)
        self.__dict__.pop("_totals", None)
        fit = learnt.selection.fits[self.best_index_]
        if isinstance(learnt.cases, Cases) and self._keeps_totals(learnt):
            self._totals = self._totals_of(learnt.cases, learnt.schema, fit.network.structure, fit.statistics)
        return self

    def _keeps_totals(self, learnt: Learnt) -> bool:
        """Whether more rows may be added to what was learnt."""
        return self._needs_all_rows() is None

    def _totals_of(self, cases: Cases, schema: Schema, structure: Structure, statistics: Statistics) -> Totals:
        """Totals of cases with these statistics.

        A column that has been constant so far counts in each cell as often as in all.
        """
        in_cells = np.bincount(structure.cell_of, statistics.states[0])

        def observed(j: int) -> Floats:
            known = ~cases.sources[j].missing()
            return in_cells * np.average(known, weights=cases.weights)

        return totals_of(schema, structure, statistics, observed)

    def _needs_all_rows(self) -> str | None:
        """Why it cannot learn in pieces, if so."""
        if self.discretize == "mdlp":
            return "discretize='mdlp' needs all rows at once; use fit, or bin by an MDLPDiscretizer of some rows"
        return None

    def _partial_fit(self, X: Any, y: Any, classes: Any, sample_weight: Any) -> Self:
        is_first = not hasattr(self, "classes_")
        known = self._known_classes(classes, is_first)
        cases = self._cases(X, y, sample_weight, known, reset=is_first)
        for j, distribution in cases.distributions.items():
            check_column(cases.sources[j].name, distribution, cases.sources[j].numbers())
        if not is_first and not hasattr(self, "_totals"):
            raise ValueError(
                "there is nothing to go on from: fit keeps totals only of rows in memory, without bins and arcs, and "
                "for naive Bayes only of labelled ones; begin anew with partial_fit"
            )
        return self._learn_more(cases)

    @abstractmethod
    def _learn_more(self, cases: Cases) -> Self:
        """Learn from more rows."""

    def _encoded(self, cases: Cases, before: Totals | None) -> tuple[Schema, EncodedTable]:
        """What the columns are by all rows, and the rows that are new."""
        columns = (cases.sources, cases.is_category, cases.labels, cases.weights)
        summary, frame = summarise(*columns, missing=self.missing, where="this call"), cases.frame
        if before is not None:
            summary = before.summary(self.schema_.indicates, self.missing, "earlier calls") + summary
            frame = self.schema_.frame
        schema = summary.schema(frame, "none", cases.distributions, self.missing)
        if before is None:
            cases.warn_of_traps(schema)
        table = encode_table(schema, cases.sources, len(cases.labels))
        return schema, replace(table, labels=cases.labels, weights=cases.weights)

    def _to_state(self) -> State:
        values, arrays = super()._to_state()
        return values, arrays | (prefixed("totals", self._totals.to_state()) if hasattr(self, "_totals") else {})

    def _set_state(self, values: dict[str, Any], arrays: Arrays) -> None:
        arrays, totals = apart(arrays, "totals")
        super()._set_state(values, arrays)
        if totals:
            self._totals = read_totals(totals, self.schema_, self.network_.structure)

    def _known_classes(self, given: Any, is_first: bool) -> NDArray[Any]:
        """Classes of all calls: those given in the first."""
        if given is None:
            if is_first:
                raise ValueError("the first call of partial_fit needs classes: all that y will ever hold")
            return self.classes_
        given = np.asarray(given)
        classes, labels = encode_labels(read_labels(given, given.size))
        if (labels < 0).any():
            raise ValueError("classes has an entry that is missing; give the classes alone")
        if not is_first and classes.tolist() != self.classes_.tolist():
            raise ValueError(
                f"classes is {classes.tolist()!r:.80}, but {self.classes_.tolist()!r:.80} in the first call; leave it "
                "out, or begin anew with another classifier"
            )
        return classes if is_first else self.classes_
