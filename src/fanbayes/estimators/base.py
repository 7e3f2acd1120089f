"""What NB, FM and FAN share: everything but the structure of the network."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, softmax
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from fanbayes.arrays import Floats
from fanbayes.data.frames import from_user_table, rows_of, to_user_table
from fanbayes.data.schema import Column, Schema
from fanbayes.data.state import Arrays, State, entry, read_array, read_table, require
from fanbayes.data.table import EncodedTable
from fanbayes.data.views import Encodings, View
from fanbayes.data.warning import warn
from fanbayes.estimators.batch_cases import BatchCases
from fanbayes.estimators.batched import of_rows
from fanbayes.estimators.progress import progress
from fanbayes.estimators.tabular import Cases, TableClassifier, check_numbers
from fanbayes.estimators.validation import is_dask, require_choice, require_integer, require_real
from fanbayes.explanation.contributions import explain
from fanbayes.explanation.description import describe_components, describe_features
from fanbayes.explanation.explanation import Explanation
from fanbayes.explanation.information import feature_information
from fanbayes.explanation.tables import arcs
from fanbayes.learning.data import TrainingData
from fanbayes.learning.e_step import Posterior, thread_pool
from fanbayes.learning.em import Problem
from fanbayes.learning.level_prior import level_prior
from fanbayes.learning.partitioned import PartitionedTable, training_data
from fanbayes.learning.predictor import NetworkPredictor
from fanbayes.learning.scores import Criterion
from fanbayes.learning.selection import Fit, Search, Selection, select
from fanbayes.learning.structural_em import ArcSearch
from fanbayes.model.blocks import EstimationOptions, of_numbers
from fanbayes.model.blocks.base import Estimator, Tying
from fanbayes.model.network import Network

if TYPE_CHECKING:
    from fanbayes.estimators.on_dask import DaskCases


@dataclass(frozen=True)
class Learnt:
    """What a search found, and what it began with."""

    classes: NDArray[Any]
    schema: Schema
    problem: Problem
    search: Search
    selection: Selection
    cases: Cases | None = None  # the rows themselves, if they are in memory


@dataclass(kw_only=True, eq=False, repr=False)
class NetworkClassifier(TableClassifier):
    """A classifier by a Bayesian network with a class and, perhaps, a hidden variable."""

    alpha: float | Literal["auto"] = "auto"
    variance_estimator: Estimator = "map"
    variance_tying: Tying = "none"
    variance_floor: float = 1e-6
    algorithm: Literal["em", "cem"] = "em"
    max_iter: int = 1000
    tol: float = 1e-6
    discretize: Literal["none", "mdlp"] = "none"
    distributions: Mapping[Any, str] | None = None

    # Factors of the structures that it may have.
    _kinds: ClassVar[tuple[tuple[str, ...], ...]]
    _predictor_type: ClassVar[type[NetworkPredictor]] = NetworkPredictor

    @abstractmethod
    def _search(self, classes: NDArray[Any], n_cases: float) -> Search:
        """Which sizes to try, and how."""

    # ------------------------------------------------------------ fitting

    def _fit(self, *given: Any) -> Self:
        return self._take_best(self._learn(*given))

    def _take_best(self, learnt: Learnt) -> Self:
        """Take the best candidate, and warn of what may be wrong with it."""
        best = learnt.selection.best(learnt.search.criteria[0])
        self._set_learnt(learnt, learnt.selection, best)
        self._warn_of(learnt.selection.fits[best], learnt.search)
        return self

    def _learn(self, X: Any, y: Any, sample_weight: Any, criteria: tuple[Criterion, ...] = ()) -> Learnt:
        """Search for the best network by all criteria, by default the classifier's own."""
        return self._learn_from(self._cases_of(X, y, sample_weight), criteria)

    def _learn_from(self, cases: Cases | BatchCases | DaskCases, criteria: tuple[Criterion, ...] = ()) -> Learnt:
        """`_learn`, of rows that were read."""
        schema, table = cases.encoded(self.discretize, self.missing)
        cases.warn_of_traps(schema)
        if isinstance(cases, BatchCases) and isinstance(table, EncodedTable):
            check_numbers(schema, table)
        search = self._search(cases.classes, table.total_weight)
        search = replace(search, criteria=criteria or search.criteria)
        search = replace(search, arcs=self._arcs(schema, table))
        table = table.fused()
        if max(search.sizes) > 1:  # there will be many passes: prepare for them
            table = table.collapsed().by_class()
        learnt = self._select(cases.classes, schema, self._problem(table, len(cases.classes)), search)
        return replace(learnt, cases=cases if isinstance(cases, Cases) else None)

    def _select(self, classes: NDArray[Any], schema: Schema, problem: Problem, search: Search) -> Learnt:
        """Search for the best network of some rows."""
        with progress(bool(self.verbose), search.criteria[0], len(search.sizes)) as report:
            selection = select(problem, search, len(classes), report)
        return Learnt(classes, schema, problem, search, selection)

    def _problem(self, table: EncodedTable | PartitionedTable, n_classes: int) -> Problem:
        """What is maximised over these rows."""
        return self._problem_of(training_data(table, thread_pool(self._n_threads())), n_classes)

    def _problem_of(self, data: TrainingData, n_classes: int) -> Problem:
        """What is maximised over rows, wherever they are."""
        options = self._options()
        if self.alpha == "auto":
            options = replace(options, level_prior=level_prior(data, n_classes))
        return Problem(data, options, self.algorithm == "cem")

    def _distributions(self, names: Sequence[str], is_category: Sequence[bool]) -> dict[int, str]:
        """Distributions of columns that are not normal, by position."""
        found: dict[int, str] = {}
        for column, distribution in (self.distributions or {}).items():
            require_choice(f"distributions[{column!r}]", distribution, of_numbers())
            is_number = isinstance(column, (int, np.integer)) and not isinstance(column, bool)
            if column not in names and not (is_number and 0 <= column < len(names)):
                raise ValueError(
                    f"distributions names {column!r}, which is not a column; the columns are {list(names)}"
                )
            j = names.index(column) if column in names else int(column)
            if is_category[j]:
                raise ValueError(f"column {names[j]!r} holds categories: leave it out of distributions")
            if j in found:
                raise ValueError(f"distributions has column {names[j]!r} twice")
            found[j] = distribution
        return {j: distribution for j, distribution in found.items() if distribution != Column.distribution}

    def _arcs(self, schema: Schema, table: EncodedTable | PartitionedTable) -> ArcSearch | None:
        """How arcs between features are found; None where there are none."""
        return None

    def _options(self) -> EstimationOptions:
        alpha = 1.0 if self.alpha == "auto" else float(self.alpha)
        return EstimationOptions(alpha, self.variance_estimator, self.variance_tying, float(self.variance_floor))

    def _set_learnt(self, learnt: Learnt, selection: Selection, best: int) -> None:
        """Take the candidate number `best`."""
        fit, frame = selection.fits[best], learnt.schema.frame
        self.classes_ = learnt.classes
        self.schema_ = learnt.schema
        self.best_index_: int = best
        self.network_: Network = fit.network
        self.n_components_: int = fit.n_components
        self.log_likelihood_: float = fit.scores.log_likelihood
        self.n_iter_: int = fit.n_iter
        self.converged_: bool = fit.converged
        self.trace_: Floats = np.array(fit.trace)
        fits = selection.fits
        scores = ("log_likelihood", "n_parameters", "bic", "aic", "cs", "icl")
        self.selection_ = to_user_table(
            {
                "n_components": [f.n_components for f in fits],
                **{name: [getattr(f.scores, name) for f in fits] for name in scores},
                "n_iter": [f.n_iter for f in fits],
                "converged": [f.converged for f in fits],
                "n_starts": [len(f.starts) for f in fits],
                "n_degenerate": [f.n_degenerate for f in fits],
                "seconds": [f.seconds for f in fits],
            },
            frame,
        )
        starts = [s for f in fits for s in f.starts]
        names = ("n_components", "origin", "objective", "n_iter", "status")
        self.starts_ = to_user_table({name: [getattr(s, name) for s in starts] for name in names}, frame)
        self.start_traces_: list[Floats] = [np.array(s.trace) for s in starts]

    def _warn_of(self, fit: Fit, search: Search) -> None:
        if not fit.converged:
            said = f"{fit.n_components} components did not converge in {fit.n_iter} passes; increase max_iter or tol"
            if self.variance_estimator == "paper" and fit.n_iter < self.max_iter:
                said = (
                    f"the best of {fit.n_iter} passes with {fit.n_components} components is kept, and EM came to rest "
                    "below it: variance_estimator='paper' maximises nothing; 'map' does"
                )
            warn(ConvergenceWarning(said))
        if search.is_capped and fit.n_components == search.sizes[-1]:
            said = (
                f"the best number of components, {fit.n_components}, is the largest allowed; increase max_components, "
                "or give a number (n_components; --components in the command)"
            )
            warn(ConvergenceWarning(said))

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not isinstance(self.alpha, str):
            require_real("alpha", self.alpha, above=0.0)
        elif self.alpha != "auto":
            raise ValueError(f"alpha={self.alpha!r:.80} is neither 'auto' nor a number")
        require_choice("variance_estimator", self.variance_estimator, ("map", "paper"))
        require_choice("variance_tying", self.variance_tying, ("none", "class", "all"))
        if self.variance_estimator == "paper" and self.variance_tying != "none":
            raise ValueError("variance_estimator='paper' is of single cells: give variance_tying='none' with it")
        require_real("variance_floor", self.variance_floor, above=0.0)
        require_choice("algorithm", self.algorithm, ("em", "cem"))
        require_integer("max_iter", self.max_iter, 1)
        require_real("tol", self.tol, least=0.0)
        require_choice("discretize", self.discretize, ("none", "mdlp"))
        if not (self.distributions is None or isinstance(self.distributions, Mapping)):
            raise TypeError(f"distributions={self.distributions!r:.60} must be a mapping from column to distribution")

    # ------------------------------------------------------------ prediction

    @property
    def _predictor(self) -> NetworkPredictor:
        return self._predictor_type(View(self.schema_, None), self.network_)

    @of_rows
    def predict_joint_log_proba(self, X: Any) -> Floats:
        """Log p(c, x), in the units of the columns.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        if is_dask(X):
            return self._predicted("predict_joint_log_proba", X, len(self.classes_))
        check_is_fitted(self)
        table = self._table(X)
        joint = self._run(table, "log_joint")
        joint -= self._log_units(table)[:, None]
        return joint

    @of_rows
    def score_samples(self, X: Any) -> Floats:
        """Log p(x), the log density of each row over its observed values.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        if is_dask(X):
            return self._predicted("score_samples", X, None)
        density: Floats = logsumexp(self.predict_joint_log_proba(X), axis=1)
        return density

    @of_rows
    def predict_components(self, X: Any) -> Floats:
        """p(h | x), the posterior of the hidden variable.

        With `mixing="per_class"` component h of one class has nothing to do with component h of another, and what is
        returned is p(c, h | x); its sums over h are the probabilities of the classes.

        Returns
        -------
        ndarray of shape (n_samples, n_components_)
            With `mixing="per_class"` of shape (n_samples, n_classes, n_components_), 0 where a class has fewer
            components.
        """
        check_is_fitted(self)
        structure = self.network_.structure
        states = softmax(self._run(self._table(X), "states"), axis=1)
        joint = np.zeros((len(states), structure.n_classes, structure.n_components))
        joint[:, structure.class_of, structure.component_of] = states
        return np.asarray(joint.sum(axis=1)) if structure.has_common_components else joint

    def _table(self, X: Any) -> EncodedTable:
        return self._encode(X, (self.schema_,)).tables[0]

    def _run(self, table: EncodedTable, what: Posterior) -> Floats:
        return self._predictor.evaluate(table, what, thread_pool(self._n_threads()))

    def _log_units(self, table: EncodedTable) -> Floats:
        """Log of the units of each row's observed numbers (n_samples,), less the base measures of their blocks."""
        scales = np.array([self.schema_[j].log_scale for j in self.schema_.continuous])
        units: Floats = (~np.isnan(table.numbers)) @ scales
        n_discrete = table.layout.n_discrete
        for p in replace(self.network_.model, layout=table.layout).places:
            if p.block.term != "lookup":
                columns = slice(p.columns.start - n_discrete, p.columns.stop - n_discrete)
                units = units - p.block.log_base_measure(table.numbers[:, columns])
        return units

    # ------------------------------------------------------------ looking inside

    @property
    def edges_(self) -> Any:
        """Arcs between features, the strongest first: a table of "feature", "parent" and "weight".

        The weight is what the log-likelihood gains by the arc, N I(feature; parent | class, component), in nats.
        """
        check_is_fitted(self)
        return to_user_table(arcs(self.network_, self.schema_), self.schema_.frame)

    @property
    def component_prior_(self) -> Floats:
        """p(h) (n_components_,); for `mixing="per_class"` p(h | c) (n_classes, n_components_)."""
        check_is_fitted(self)
        return self.network_.component_prior()

    def _explain(self, rows: Encodings, pair: Sequence[Any] | None) -> Explanation:
        [table] = rows.tables
        return explain(self.network_, self.schema_, table, self._run(table, "states"), self.classes_, pair)

    def _information(self) -> Floats:
        return feature_information(self.network_, self.schema_)

    def _description(self) -> dict[str, Any]:
        selection = from_user_table(self.selection_)
        return {
            "n_components": self.n_components_,
            "common_components": self.network_.structure.has_common_components,
            "n_parameters": self.network_.model.n_parameters,
            "log_likelihood": self.log_likelihood_,
            "converged": self.converged_,
            "arcs": rows_of(self.edges_),
            "scores": {name: selection[name][self.best_index_] for name in ("icl", "bic", "aic", "cs")},
            "components": describe_components(self.network_, self.schema_, self.classes_.tolist()),
            "features": describe_features(self.schema_, self._information()),
        }

    # ------------------------------------------------------------ files

    def _to_state(self) -> State:
        values, arrays = self._predictor.to_state()
        values |= {
            "fit": {
                "log_likelihood": self.log_likelihood_,
                "converged": self.converged_,
                "best_index": self.best_index_,
            },
            "tables": {"selection": from_user_table(self.selection_), "starts": from_user_table(self.starts_)},
        }
        traces = {"trace": self.trace_, "start_traces": np.concatenate([*self.start_traces_, np.empty(0)])}
        return values, arrays | traces

    def _set_state(self, values: dict[str, Any], arrays: Arrays) -> None:
        tables = {k: entry(entry(values, "tables", dict), k, dict) for k in ("selection", "starts")}
        fit = entry(values, "fit", dict)
        self.log_likelihood_ = entry(fit, "log_likelihood", float)
        require(math.isfinite(self.log_likelihood_), "its log-likelihood is not a number")
        self.converged_ = entry(fit, "converged", bool)
        self.best_index_ = entry(fit, "best_index", int)
        self.selection_, self.starts_ = (read_table(table, self.schema_.frame) for table in tables.values())
        lengths = tables["starts"].get("n_iter", [])
        require(all(type(n) is int and n >= 0 for n in lengths), "its table of starts is damaged")
        scores = [tables["selection"].get(name, []) for name in ("icl", "bic", "aic", "cs")]
        require(all(0 <= self.best_index_ < len(score) for score in scores), "its table of candidates is damaged")
        own = {name: array for name, array in arrays.items() if name not in ("trace", "start_traces")}
        require(len(own) == len(arrays) - 2, "it does not have the arrays that it should")
        self.trace_ = read_array(arrays, "trace", (arrays["trace"].size,))
        start_traces = read_array(arrays, "start_traces", (sum(lengths),))
        self.start_traces_ = np.split(start_traces, np.cumsum(lengths)[:-1]) if lengths else []
        self.n_iter_ = len(self.trace_)
        view = View(self.schema_, None)
        read = self._predictor_type.from_state
        self.network_ = read(values, own, view, len(self.classes_), self._kinds).network
        self.n_components_ = self.network_.structure.n_components
