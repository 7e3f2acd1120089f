"""Classifiers that know how sure they are of their parameters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from fanbayes.arrays import Floats
from fanbayes.data.frames import to_user_table
from fanbayes.data.state import Arrays, State, apart, prefixed
from fanbayes.data.table import EncodedTable, encode_table
from fanbayes.data.traps import unseen_categories
from fanbayes.data.views import View
from fanbayes.data.warning import warn
from fanbayes.estimators.base import Learnt, NetworkClassifier
from fanbayes.estimators.batched import of_rows
from fanbayes.estimators.tabular import check_numbers
from fanbayes.estimators.validation import require_integer, require_real, seed_of
from fanbayes.explanation.tables import central_interval, feature_intervals, feature_parameters
from fanbayes.learning.draws import draw_parameters
from fanbayes.learning.e_step import thread_pool
from fanbayes.learning.em import Problem
from fanbayes.learning.selection import Selection
from fanbayes.learning.tree_data import tree_data
from fanbayes.model.network import Network, Statistics
from fanbayes.model.state import draws_state, read_draws
from fanbayes.model.tree import TreeLayout

# Probabilities of so many rows, draws and classes are held at once.
_AT_ONCE = 1 << 22

# Rows whose log-likelihood, or number, differs by more than this share of it are not those of `fit`.
_SAME_ROWS = 1e-6


def least_draws(interval: float) -> int:
    """Draws that the ends of an interval need: so many that one or more lie outside on either side, in the mean."""
    return int(np.ceil(2 / (1 - interval) - 1 - 1e-9))


class IntervalClassifier(NetworkClassifier):
    """A network with intervals of its parameters, and of the probabilities that it predicts.

    They come from draws of the parameters, which `draw_parameters` makes when it is asked to, given the rows: `fit`
    costs nothing more, and the draws are kept in model files, so that a model that was loaded has its intervals. Who
    shows a model has intervals to show where ``hasattr(clf, "draws_")``: ``feature_table(feature, interval=0.9)``.
    """

    draws_: Network

    def draw_parameters(
        self, X: Any, y: Any, sample_weight: Any = None, *, n_draws: int = 200, random_state: Any = None
    ) -> Self:
        """Draw what else the parameters might be, given the rows that `fit` was given; keep it as `draws_`.

        Afterwards ``feature_table(feature, interval=0.9)`` and ``predict_proba_interval(X)`` tell how sure the model
        can be. Where nothing is hidden (naive Bayes, one component, a tree without missing values; every row labelled),
        draws are from the exact posterior. Elsewhere they are from a Bayesian bootstrap (Rubin 1981; mclust's "wlbs"):
        every case gets a random weight, and EM goes on from the fitted network, so that components keep their names.
        See `fanbayes.learning.draws` for the formulas. What a fit chose before (number of components, arcs, cuts) is
        taken as known, so intervals do not count doubts about it.

        Parameters
        ----------
        X, y, sample_weight : as of `fit`, the same rows, in memory
            A row of weight 2 counts as the row twice: it has the distribution of two random weights added up.
        n_draws : int, default=200
            An end of a 90 % interval has a standard error of 0.15 standard deviations of the parameter with 200 draws,
            of 0.07 with 1000. Each takes memory, and place in the file, like the network.
        random_state : int, RandomState or None, default=None
            The same seed gives the same draws, whatever `n_jobs` is.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        require_integer("n_draws", n_draws, 2)
        seed = seed_of(random_state)
        cases = self._cases(X, y, sample_weight, self.classes_, reset=False)
        table = encode_table(self.schema_, cases.sources, len(cases.labels))
        self._judge_unseen(unseen_categories(self.schema_, cases.sources, table))
        check_numbers(self.schema_, table)
        problem = self._problem_of_fit(replace(table, labels=cases.labels, weights=cases.weights))
        network = replace(self.network_, model=problem.model(self.network_.structure))
        self._warn_of_other_rows(problem.data.e_step(network.terms))
        draws = draw_parameters(problem, network, n_draws, seed, self.max_iter, self.tol)
        self.draws_ = replace(draws, model=self.network_.model)
        return self

    def _problem_of_fit(self, table: EncodedTable) -> Problem:
        """What was maximised over these rows, the arcs of the fitted network given."""
        problem = self._problem(table.fused().collapsed().by_class(), len(self.classes_))
        layout = self.network_.layout
        if not isinstance(layout, TreeLayout):
            return problem
        return replace(problem, data=tree_data(layout, table.collapsed(), thread_pool(self._n_threads())))

    def _warn_of_other_rows(self, found: Statistics) -> None:
        """Warn if what is known of the rows of `fit` differs from what is found in these."""
        what, of_fit, here = self._known_of_rows(found)
        if abs(here - of_fit) > _SAME_ROWS * max(1.0, abs(of_fit)):
            said = (
                f"the {what} of these rows is {here:.6g}, that of the rows of fit {of_fit:.6g}: "
                "intervals are right for the rows that the model was fitted to; give these, or fit again"
            )
            warn(UserWarning(said))

    def _known_of_rows(self, found: Statistics) -> tuple[str, float, float]:
        """A number by which rows are known again: its name, that of the rows of `fit`, and that of these."""
        return "log-likelihood", self.log_likelihood_, float(found.log_likelihood[0])

    def _drawn(self, interval: float) -> Network:
        """The draws, if there are enough for the ends of an interval."""
        check_is_fitted(self)
        require_real("interval", interval, above=0.0)
        if not interval < 1:
            raise ValueError(f"interval={interval!r} must be less than 1; 0.9 is the share of the draws that is inside")
        if not hasattr(self, "draws_"):
            raise NotFittedError("there are no draws to take intervals from; call draw_parameters(X, y) after fit")
        least = least_draws(interval)
        if len(self.draws_) < least:
            raise ValueError(
                f"interval={interval} needs {least} draws, and there are {len(self.draws_)}; call draw_parameters with "
                f"n_draws={least} or more, or ask for a narrower interval"
            )
        return self.draws_

    def feature_table(self, feature: str | int, interval: float | None = None) -> Any:
        """Parameters of one feature, a row for each cell (and each level).

        Parameters
        ----------
        feature : name or position of the column
        interval : float, optional
            Share of the `draws_` (see `draw_parameters`) between two more columns for each parameter, behind all
            others, such as "mean_lower" and "mean_upper": 0.9 leaves out the least and the largest 5 %.

        Returns
        -------
        table
            With columns "class" and "component" (as far as the feature depends on them), "given", the level of its
            parent among the features if that is discrete, then "level" and "probability" of a discrete feature, "rate"
            of counts, "intercept", "slope" and "variance" of a regression on a continuous parent, or "mean" and
            "variance", in the column's unit, of other numbers and of a number that is constant. Where it counts whether
            a value is there, "missing" is the probability that it is not.
        """
        check_is_fitted(self)
        about = self.schema_, feature, self.classes_.tolist()
        columns = feature_parameters(self.network_, *about)
        if interval is not None:
            columns |= feature_intervals(self._drawn(interval), *about, interval)
        return to_user_table(columns, self.schema_.frame)

    def predict_proba_interval(self, X: Any, interval: float = 0.9) -> Floats:
        """Intervals of p(c | x): what the model would say, had its parameters been learnt from other rows alike.

        Lower and upper ends of each row and class are quantiles over the `draws_` (see `draw_parameters`), of what
        `predict_proba` says with the parameters of each. They tell nothing of whether the model is right, and
        `predict_proba` need not be in the middle.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features), or a table that is read in batches
        interval : float, default=0.9
            Share of the draws in between.

        Returns
        -------
        ndarray of shape (n_samples, n_classes, 2)
        """
        draws = self._drawn(interval)
        predictors = [self._predictor_type(View(self.schema_, None), network) for network in draws.each()]
        pool = thread_pool(self._n_threads())

        def intervals(clf: IntervalClassifier, X: Any) -> NDArray[Any]:
            table, n_classes = clf._table(X), len(clf.classes_)
            found = np.empty((table.n_rows, n_classes, 2))
            step = max(1, _AT_ONCE // (n_classes * len(draws)))
            for at in range(0, table.n_rows, step):
                rows = table.only(np.arange(at, min(at + step, table.n_rows)))
                proba = np.stack([predictor.evaluate(rows, "proba", pool) for predictor in predictors])
                found[at : at + step] = np.moveaxis(central_interval(proba, interval), 0, -1)
            return found

        return of_rows(intervals)(self, X)

    def _set_learnt(self, learnt: Learnt, selection: Selection, best: int) -> None:
        super()._set_learnt(learnt, selection, best)
        self.__dict__.pop("draws_", None)

    def _to_state(self) -> State:
        values, arrays = super()._to_state()
        return values, arrays | (prefixed("draws", draws_state(self.draws_)) if hasattr(self, "draws_") else {})

    def _set_state(self, values: dict[str, Any], arrays: Arrays) -> None:
        arrays, draws = apart(arrays, "draws")
        super()._set_state(values, arrays)
        if draws:
            self.draws_ = read_draws(draws, self.network_)
