"""NBClassifier, FMClassifier and FANClassifier."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, Self

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from fanbayes.data.frames import to_user_rows, to_user_table
from fanbayes.data.mdl import cut_points
from fanbayes.data.schema import Schema, category_mask
from fanbayes.data.table import EncodedTable, encode_table, learn_table
from fanbayes.estimators.progress import progress
from fanbayes.estimators.validation import (
    encode_labels,
    is_labelled,
    read_labels,
    read_rows,
    read_weights,
    require_choice,
    require_integer,
    require_real,
)
from fanbayes.learning.em import Problem
from fanbayes.learning.expectation import posterior, workers
from fanbayes.learning.scores import Criterion
from fanbayes.learning.selection import Search, Selection, select
from fanbayes.model.network import Network, Prior
from fanbayes.model.sampling import draw
from fanbayes.model.structure import Mixing, Structure, fan, finite_mixture, naive_bayes

Floats = NDArray[np.float64]


class _MixtureClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """What the three classifiers share: everything but the structure of the network."""

    # Set by the subclasses' constructors.
    alpha: float
    variance: Literal["map", "paper"]
    variance_floor: float
    algorithm: Literal["em", "cem"]
    max_iter: int
    tol: float
    categorical_features: str | Sequence[Any] | None
    discretize: Literal["none", "mdlp"]
    handle_unknown: Literal["missing", "error"]
    n_jobs: int | None
    verbose: bool | int

    # ------------------------------------------------------------ what differs

    @abstractmethod
    def _structure(self, n_classes: int, n_components: int) -> Structure:
        """Structure of a network of one size."""

    @abstractmethod
    def _search(self, n_classes: int, n_rows: int) -> Search:
        """Which sizes to try, and how."""

    # ------------------------------------------------------------ fitting

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn the network from rows and their classes.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features)
            Discrete and continuous columns, values missing or not.
        y : array-like of shape (n_samples,)
            Classes. A row whose label is NaN or None is unlabelled and is learnt from as well.
        sample_weight : array-like of shape (n_samples,), optional
            Case counts: weight 2 is the row twice, weight 0 is the row absent.

        Returns
        -------
        self
        """
        self._check_parameters()
        rows = read_rows(self, X, reset=True)
        y = read_labels(y, len(rows))
        weights = read_weights(sample_weight, len(rows))
        if weights is not None and not (weights > 0).all():
            present = weights > 0
            rows, y, weights = rows.take(present), y[present], weights[present]
        classes, labels = encode_labels(y)
        sources = list(rows.sources())
        said = [s.content == "symbols" or s.declared is not None for s in sources]
        is_category = category_mask(self.categorical_features, rows.names, said)
        cuts = None
        if self.discretize == "mdlp":
            cuts = partial(cut_points, labels=labels, n_classes=len(classes), weight=weights)
        schema, table = learn_table(sources, is_category, rows.frame, labels, weights, cuts)
        if schema.constant:
            names = ", ".join(map(repr, schema.constant))
            warnings.warn(f"columns with fewer than two distinct values tell nothing and are left out: {names}", stacklevel=2)
        search = self._search(len(classes), len(rows))
        sizes = list(search.sizes)
        prior = Prior(float(self.alpha), self.variance, float(self.variance_floor))
        with workers(effective_n_jobs(self.n_jobs)) as crew, progress(bool(self.verbose), search.criterion, len(sizes)) as report:
            problem = Problem(table, prior, self.algorithm == "cem", crew)
            selection = select(problem, search, len(classes), report)
        self._set_learnt(classes, schema, selection)
        self._warn_of(selection, sizes)
        return self

    def _set_learnt(self, classes: NDArray[Any], schema: Schema, selection: Selection) -> None:
        fit = selection.fit
        self.classes_ = classes
        self.schema_ = schema
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
            schema.frame,
        )
        starts = [s for f in fits for s in f.starts]
        names = ("n_components", "origin", "objective", "n_iter", "status")
        self.starts_ = to_user_table({name: [getattr(s, name) for s in starts] for name in names}, schema.frame)

    def _warn_of(self, selection: Selection, sizes: list[int]) -> None:
        fit = selection.fit
        if not fit.converged:
            warnings.warn(
                f"{fit.n_components} components did not converge in {fit.n_iter} passes; increase max_iter or tol",
                ConvergenceWarning,
                stacklevel=3,
            )
        if len(sizes) > 1 and fit.n_components == sizes[-1] == getattr(self, "max_components", None):
            warnings.warn(
                f"the best number of components, {fit.n_components}, is the largest allowed; increase max_components",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _check_parameters(self) -> None:
        require_real("alpha", self.alpha, above=0.0)
        require_choice("variance", self.variance, ("map", "paper"))
        require_real("variance_floor", self.variance_floor, above=0.0)
        require_choice("algorithm", self.algorithm, ("em", "cem"))
        require_integer("max_iter", self.max_iter, 1)
        require_real("tol", self.tol, least=0.0)
        require_choice("discretize", self.discretize, ("none", "mdlp"))
        require_choice("handle_unknown", self.handle_unknown, ("missing", "error"))
        if self.n_jobs is not None:
            require_integer("n_jobs", self.n_jobs, -(10**6))
            if self.n_jobs == 0:
                raise ValueError("n_jobs=0 has no meaning; use None, a positive number, or -1 for all cores")

    # ------------------------------------------------------------ prediction

    def predict(self, X: Any) -> NDArray[Any]:
        """Most probable class of each row.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        best = np.argmax(self._posterior(X, "log_joint"), axis=1)
        chosen: NDArray[Any] = self.classes_[best]
        return chosen

    def predict_proba(self, X: Any) -> Floats:
        """p(c | x), missing values marginalised.

        Returns
        -------
        ndarray of shape (n_samples, n_classes), in the order of `classes_`
        """
        return self._posterior(X, "proba")

    def predict_log_proba(self, X: Any) -> Floats:
        """log p(c | x), as `predict_proba`, without underflow."""
        return self._posterior(X, "log_proba")

    def predict_joint_log_proba(self, X: Any) -> Floats:
        """log p(c, x), in the units of the columns.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        check_is_fitted(self)
        table = self._encode(X)
        joint = self._run(table, "log_joint")
        joint -= self._log_units(table)[:, None]
        return joint

    def score_samples(self, X: Any) -> Floats:
        """log p(x), the log density of each row over its observed values.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        density: Floats = logsumexp(self.predict_joint_log_proba(X), axis=1)
        return density

    def predict_components(self, X: Any) -> Floats:
        """p(h | x), the posterior of the hidden variable.

        Returns
        -------
        ndarray of shape (n_samples, n_components_)
        """
        check_is_fitted(self)
        structure = self.network_.structure
        states = self._run(self._encode(X), "states")
        states -= states.max(axis=1, keepdims=True)
        np.exp(states, out=states)
        by_component = np.zeros((structure.n_states, structure.n_components))
        by_component[np.arange(structure.n_states), structure.component_of] = 1.0
        mass: Floats = states @ by_component
        return mass / mass.sum(axis=1, keepdims=True)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy over the labelled rows.

        Returns
        -------
        float
        """
        check_is_fitted(self)
        predicted = self.predict(X)
        y = read_labels(y, len(predicted))
        known = is_labelled(y)
        weight = None if sample_weight is None else np.asarray(sample_weight)[known]
        return float(accuracy_score(y[known].astype(self.classes_.dtype), predicted[known], sample_weight=weight))

    def _posterior(self, X: Any, what: Literal["log_joint", "proba", "log_proba"]) -> Floats:
        check_is_fitted(self)
        return self._run(self._encode(X), what)

    def _encode(self, X: Any) -> EncodedTable:
        rows = read_rows(self, X, reset=False)
        return encode_table(self.schema_, list(rows.sources()), len(rows), self.handle_unknown == "error")

    def _run(self, table: EncodedTable, what: Literal["log_joint", "log_proba", "proba", "states"]) -> Floats:
        with workers(effective_n_jobs(self.n_jobs)) as crew:
            return posterior(table, self.network_, what, crew)

    def _log_units(self, table: EncodedTable) -> Floats:
        """Log of the units of each row's observed numbers (n_samples,)."""
        scales = np.array([self.schema_[j].log_scale for j in self.schema_.continuous])
        return (~np.isnan(table.numbers)) @ scales

    # ------------------------------------------------------------ looking inside

    @property
    def class_prior_(self) -> Floats:
        """p(c), the class marginal of the model (n_classes,)."""
        check_is_fitted(self)
        structure = self.network_.structure
        return np.bincount(structure.class_of, weights=np.exp(self.network_.log_weight[0]))

    @property
    def component_prior_(self) -> Floats:
        """p(h) (n_components_,); for `mixing="per_class"` p(h | c) (n_classes, n_components_)."""
        check_is_fitted(self)
        structure, weight = self.network_.structure, np.exp(self.network_.log_weight[0])
        if any(f.name == "component | class" for f in structure.factors):
            table = np.zeros((structure.n_classes, structure.n_components))
            table[structure.class_of, structure.component_of] = weight
            return table / table.sum(axis=1, keepdims=True)
        return np.bincount(structure.component_of, weights=weight)

    def feature_table(self, feature: str | int) -> Any:
        """Parameters of one feature, a row for each cell (and each level).

        Parameters
        ----------
        feature : name or position of the column

        Returns
        -------
        table
            With columns "class" and "component" (as far as the feature depends on them), then "level" and
            "probability" of a discrete feature, or "mean" and "variance", in the column's unit, of a
            continuous one.
        """
        check_is_fitted(self)
        schema, network = self.schema_, self.network_
        column = schema[feature]
        j = schema.columns.index(column)
        structure = network.structure
        cells: dict[str, list[Any]] = {}
        first_state = [int(np.flatnonzero(structure.cell_of == k)[0]) for k in range(structure.n_cells)]
        if structure.class_of_cell is not None:
            cells["class"] = [self.classes_[structure.class_of[s]] for s in first_state]
        if not isinstance(self, NBClassifier):
            cells["component"] = [int(structure.component_of[s]) for s in first_state]
        n = structure.n_cells
        if column.kind == "continuous":
            if not column.is_informative:
                mean, variance = np.full(n, column.centre), np.zeros(n)
            else:
                k = schema.continuous.index(j)
                unit = column.scale * 2.0**column.exponent if abs(column.exponent) < 1000 else np.exp(column.log_scale)
                mean, variance = column.restore(network.mean[0, k]), network.sigma2[0, k] * unit * unit
            return to_user_table({**cells, "mean": mean.tolist(), "variance": variance.tolist()}, schema.frame)
        levels = _level_names(column)
        if column.is_informative:
            first = int(network.layout.first_level[schema.discrete.index(j)])
            probability = np.exp(network.log_table[0, first : first + len(levels)])  # (levels, cells)
        else:
            probability = np.ones((len(levels), n))
        table = {name: [v for v in values for _ in levels] for name, values in cells.items()}
        table["level"] = list(levels) * n
        table["probability"] = probability.T.ravel().tolist()
        return to_user_table(table, schema.frame)

    def sample(self, n_samples: int = 1, random_state: Any = None) -> tuple[Any, NDArray[Any]]:
        """Draw rows and their classes from the model.

        Parameters
        ----------
        n_samples : int
        random_state : int, RandomState or None

        Returns
        -------
        X : like the rows it was fitted on
            A value of a binned column is uniform within its interval.
        y : ndarray of shape (n_samples,)
        """
        check_is_fitted(self)
        require_integer("n_samples", n_samples, 1)
        rng = np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))
        columns, classes = draw(self.network_, self.schema_, n_samples, rng)
        return to_user_rows(columns, self.schema_), self.classes_[classes]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        return tags


def _level_names(column: Any) -> list[Any]:
    if column.kind == "discrete":
        return list(column.levels)
    edges = ["-inf", *(f"{c:g}" for c in column.cuts), "inf"]
    return [f"({a}, {b}]" if b != "inf" else f"({a}, inf)" for a, b in zip(edges[:-1], edges[1:])]


class NBClassifier(_MixtureClassifier):
    """Naive Bayes: p(c) prod_i p(x_i | c), equation (10) of Monti & Cooper (1999).

    Discrete and continuous columns together, missing values left out of the product, unlabelled rows
    learnt from by EM.

    Parameters
    ----------
    alpha : float, default=1.0
        Added to every count (Laplace's rule), for features and classes.
    variance : {"map", "paper"}, default="map"
        Variance of a continuous feature in a class: posterior mode under a weak prior, or equation (7).
    variance_floor : float, default=1e-6
        Least variance, as a share of the column's own.
    algorithm : {"em", "cem"}, default="em"
        How unlabelled rows are completed: by expectation, or each to its most probable class.
    max_iter : int, default=1000
        Most passes over the data (only unlabelled rows need more than one).
    tol : float, default=1e-6
        EM stops when a step gains no more than this per case.
    categorical_features : "from_dtype", "all", None, or array-like of names, indices or bool
        Which columns are discrete. By default those of strings, booleans and categories.
    discretize : {"none", "mdlp"}, default="none"
        "mdlp": continuous columns are binned by class entropy (Fayyad & Irani 1993), inside `fit`.
    handle_unknown : {"missing", "error"}, default="missing"
        A category that was not seen in training counts as missing, or is an error.
    n_jobs : int or None, default=None
        Threads; the result does not depend on it.
    verbose : bool, default=False
        Show a progress bar.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    class_prior_ : ndarray of shape (n_classes,)
    schema_ : Schema
        What each column was taken for.
    network_ : Network
        All parameters.
    selection_, starts_ : tables of the candidates and of their starts
    log_likelihood_ : float
        log p(D | theta), in standardised units.
    n_components_, n_iter_, converged_, trace_ : of the fit
    n_features_in_, feature_names_in_

    Examples
    --------
    >>> from fanbayes import NBClassifier
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> round(NBClassifier().fit(X, y).score(X, y), 2)
    0.96
    """

    def __init__(
        self,
        *,
        alpha: float = 1.0,
        variance: Literal["map", "paper"] = "map",
        variance_floor: float = 1e-6,
        algorithm: Literal["em", "cem"] = "em",
        max_iter: int = 1000,
        tol: float = 1e-6,
        categorical_features: Any = "from_dtype",
        discretize: Literal["none", "mdlp"] = "none",
        handle_unknown: Literal["missing", "error"] = "missing",
        n_jobs: int | None = None,
        verbose: bool | int = False,
    ) -> None:
        self.alpha = alpha
        self.variance = variance
        self.variance_floor = variance_floor
        self.algorithm = algorithm
        self.max_iter = max_iter
        self.tol = tol
        self.categorical_features = categorical_features
        self.discretize = discretize
        self.handle_unknown = handle_unknown
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _structure(self, n_classes: int, n_components: int) -> Structure:
        return naive_bayes(n_classes)

    def _search(self, n_classes: int, n_rows: int) -> Search:
        return Search(partial(self._structure, n_classes), [1], "bic", 1, 1, self.max_iter, self.tol, 0)


class _HiddenClassifier(_MixtureClassifier):
    """What FM and FAN share: a hidden variable whose number of values is chosen."""

    n_components: int | Literal["auto"]
    criterion: Criterion
    max_components: int | None
    patience: int
    n_init: int
    random_state: Any

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not isinstance(self.n_components, str):
            require_integer("n_components", self.n_components, 1)
        elif self.n_components != "auto":
            raise ValueError(f"n_components={self.n_components!r} is neither 'auto' nor an integer")
        require_choice("criterion", self.criterion, ("icl", "bic", "aic", "cs"))
        if self.max_components is not None:
            require_integer("max_components", self.max_components, 1)
        require_integer("patience", self.patience, 1)
        require_integer("n_init", self.n_init, 1)

    @abstractmethod
    def _most_components(self, n_classes: int) -> int:
        """Default of max_components."""

    def _search(self, n_classes: int, n_rows: int) -> Search:
        if self.n_components == "auto":
            most = self._most_components(n_classes) if self.max_components is None else self.max_components
            sizes: Sequence[int] = range(1, max(1, min(most, n_rows)) + 1)
        else:
            sizes = [int(self.n_components)]
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        return Search(
            partial(self._structure, n_classes),
            sizes,
            self.criterion,
            self.patience,
            self.n_init,
            self.max_iter,
            self.tol,
            seed,
        )


class FANClassifier(_HiddenClassifier):
    """Finite-mixture-augmented naive Bayes, equation (12) of Monti & Cooper (1999).

    ``p(c) sum_h p(h) prod_i p(x_i | c, h)``: naive Bayes whose features may depend on each other through a
    hidden variable. With one component it is naive Bayes.

    Parameters
    ----------
    n_components : "auto" or int, default="auto"
        Number of values of the hidden variable; "auto" tries 1, 2, ... and keeps the best score.
    criterion : {"icl", "bic", "aic", "cs"}, default="icl"
        Score by which "auto" chooses; larger is better (scikit-learn's bic and aic are -2 times ours).
    max_components : int or None, default=None
        Most components that "auto" tries; None is 10.
    patience : int, default=2
        "auto" stops after so many sizes without a better score.
    algorithm : {"em", "cem"}, default="em"
        Expectation-maximisation (8), or classification EM (9), which assigns each row to one component.
    mixing : {"shared", "per_class"}, default="shared"
        Whether the hidden variable has one distribution p(h) or one for each class, p(h | c).
    alpha : float, default=1.0
        Added to every count (Laplace's rule), for features, classes and components.
    variance : {"map", "paper"}, default="map"
        Variance of a continuous feature in a cell: posterior mode under a weak prior, or equation (7).
    variance_floor : float, default=1e-6
        Least variance, as a share of the column's own.
    n_init : int, default=8
        Starts for each number of components; the worse half is dropped repeatedly, the best is finished.
    max_iter : int, default=1000
        Most passes over the data for one number of components.
    tol : float, default=1e-6
        EM stops when a step gains no more than this per case.
    categorical_features : "from_dtype", "all", None, or array-like of names, indices or bool
        Which columns are discrete. By default those of strings, booleans and categories.
    discretize : {"none", "mdlp"}, default="none"
        "mdlp": continuous columns are binned by class entropy (Fayyad & Irani 1993), inside `fit`.
    handle_unknown : {"missing", "error"}, default="missing"
        A category that was not seen in training counts as missing, or is an error.
    n_jobs : int or None, default=None
        Threads; the result does not depend on it.
    random_state : int, RandomState or None, default=None
    verbose : bool, default=False
        Show a progress bar.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    n_components_ : int
        Chosen number of components.
    selection_ : table
        Every candidate: its size, scores, passes, convergence, starts and seconds.
    starts_ : table
        Every start: its size, origin, last objective, passes and what became of it.
    class_prior_, component_prior_ : ndarrays
    schema_ : Schema
        What each column was taken for.
    network_ : Network
        All parameters.
    log_likelihood_ : float
        log p(D | theta), in standardised units.
    n_iter_, converged_, trace_ : of the chosen fit
    n_features_in_, feature_names_in_

    Examples
    --------
    >>> from fanbayes import FANClassifier
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> clf = FANClassifier(random_state=0).fit(X, y)
    >>> clf.predict_proba(X).shape
    (178, 3)
    """

    def __init__(
        self,
        n_components: int | Literal["auto"] = "auto",
        *,
        criterion: Criterion = "icl",
        max_components: int | None = None,
        patience: int = 2,
        algorithm: Literal["em", "cem"] = "em",
        mixing: Mixing = "shared",
        alpha: float = 1.0,
        variance: Literal["map", "paper"] = "map",
        variance_floor: float = 1e-6,
        n_init: int = 8,
        max_iter: int = 1000,
        tol: float = 1e-6,
        categorical_features: Any = "from_dtype",
        discretize: Literal["none", "mdlp"] = "none",
        handle_unknown: Literal["missing", "error"] = "missing",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: bool | int = False,
    ) -> None:
        self.n_components = n_components
        self.criterion = criterion
        self.max_components = max_components
        self.patience = patience
        self.algorithm = algorithm
        self.mixing = mixing
        self.alpha = alpha
        self.variance = variance
        self.variance_floor = variance_floor
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.categorical_features = categorical_features
        self.discretize = discretize
        self.handle_unknown = handle_unknown
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _check_parameters(self) -> None:
        super()._check_parameters()
        require_choice("mixing", self.mixing, ("shared", "per_class"))

    def _structure(self, n_classes: int, n_components: int) -> Structure:
        return fan([n_components] * n_classes, self.mixing)

    def _most_components(self, n_classes: int) -> int:
        return 10


class FMClassifier(_HiddenClassifier):
    """Finite mixture: sum_h p(h) p(c | h) prod_i p(x_i | h), equation (11) of Monti & Cooper (1999).

    The class is one more child of the hidden variable.

    Parameters
    ----------
    n_components : "auto" or int, default="auto"
        Number of values of the hidden variable; "auto" tries 1, 2, ... and keeps the best score.
    criterion : {"icl", "bic", "aic", "cs"}, default="icl"
        Score by which "auto" chooses; larger is better (scikit-learn's bic and aic are -2 times ours).
    max_components : int or None, default=None
        Most components that "auto" tries; None is 10 and two for each class.
    patience : int, default=2
        "auto" stops after so many sizes without a better score.
    algorithm, alpha, variance, variance_floor, n_init, max_iter, tol, categorical_features, discretize, \
handle_unknown, n_jobs, random_state, verbose
        As in `FANClassifier`.

    Attributes
    ----------
    As in `FANClassifier`.

    Examples
    --------
    >>> from fanbayes import FMClassifier
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> FMClassifier(random_state=0).fit(X, y).predict_components(X).shape[0]
    178
    """

    def __init__(
        self,
        n_components: int | Literal["auto"] = "auto",
        *,
        criterion: Criterion = "icl",
        max_components: int | None = None,
        patience: int = 2,
        algorithm: Literal["em", "cem"] = "em",
        alpha: float = 1.0,
        variance: Literal["map", "paper"] = "map",
        variance_floor: float = 1e-6,
        n_init: int = 8,
        max_iter: int = 1000,
        tol: float = 1e-6,
        categorical_features: Any = "from_dtype",
        discretize: Literal["none", "mdlp"] = "none",
        handle_unknown: Literal["missing", "error"] = "missing",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: bool | int = False,
    ) -> None:
        self.n_components = n_components
        self.criterion = criterion
        self.max_components = max_components
        self.patience = patience
        self.algorithm = algorithm
        self.alpha = alpha
        self.variance = variance
        self.variance_floor = variance_floor
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.categorical_features = categorical_features
        self.discretize = discretize
        self.handle_unknown = handle_unknown
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _structure(self, n_classes: int, n_components: int) -> Structure:
        return finite_mixture(n_classes, n_components)

    def _most_components(self, n_classes: int) -> int:
        return 10 + 2 * n_classes
