"""NBClassifier, FMClassifier and FANClassifier."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Any, ClassVar, Final, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from fanbayes.arrays import Floats
from fanbayes.data.frames import from_user_table
from fanbayes.data.schema import Schema
from fanbayes.data.table import EncodedTable
from fanbayes.estimators.base import Learnt
from fanbayes.estimators.incremental import IncrementalClassifier
from fanbayes.estimators.tabular import Cases
from fanbayes.estimators.validation import require_choice, require_integer, seed_of
from fanbayes.learning.data import InMemoryData
from fanbayes.learning.e_step import thread_pool
from fanbayes.learning.online import online_em
from fanbayes.learning.partitioned import PartitionedTable
from fanbayes.learning.scores import Criterion, score
from fanbayes.learning.selection import Fit, Search, Selection, Start
from fanbayes.learning.structural_em import ArcSearch
from fanbayes.learning.totals import SummedData, Totals, totals_of
from fanbayes.model.network import Statistics, Terms
from fanbayes.model.state import FAN
from fanbayes.model.structure import Mixing, Structure, fan, finite_mixture, naive_bayes

# More components than cases are a mistake; few cases may be the work of weights.
_ENOUGH_COMPONENTS = 100

_EARLIER_CALLS: Final = "earlier calls"  # origin of what a sweep of online EM starts from


class NBClassifier(IncrementalClassifier):
    """Naive Bayes: p(c) prod_i p(x_i | c), equation (10) of Monti & Cooper (1999).

    Discrete and continuous columns together, missing values left out of the product, unlabelled rows
    learnt from by EM. `partial_fit` learns in pieces what `fit` learns at once. Parameters and attributes that
    are not described here are as in `FANClassifier`.

    Parameters
    ----------
    variance_tying : {"none", "class", "all"}, default="none"
        "all": one variance for all classes; not with "paper".
    algorithm : {"em", "cem"}, default="em"
        How unlabelled rows are completed: by expectation, or each to its most probable class.
    max_iter : int, default=1000
        Most passes over the data (only unlabelled rows need more than one).

    Examples
    --------
    >>> from fanbayes import NBClassifier
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> round(NBClassifier().fit(X, y).score(X, y), 2)
    0.95
    """

    _kinds = (("class",),)

    def _search(self, classes: NDArray[Any], n_cases: float) -> Search:
        return Search(lambda _: naive_bayes(len(classes)), sizes=[1], max_iter=self.max_iter, tol=self.tol)

    # ------------------------------------------------------------ in pieces

    def _keeps_totals(self, learnt: Learnt) -> bool:
        return super()._keeps_totals(learnt) and learnt.problem.data.is_labelled

    def _totals_of(self, cases: Cases, schema: Schema, structure: Structure, statistics: Statistics) -> Totals:
        def observed(j: int) -> Floats:
            known = ~cases.sources[j].missing()
            weights = None if cases.weights is None else cases.weights[known]
            return np.bincount(cases.labels[known], weights, len(cases.classes)).astype(np.float64)

        return totals_of(schema, structure, statistics, observed)

    def _learn_more(self, cases: Cases) -> Self:
        """Add to the totals, and learn from them what `fit` would learn from all rows."""
        unlabelled = np.flatnonzero(cases.present)[cases.labels < 0]
        if len(unlabelled):
            raise ValueError(
                f"row {unlabelled[0]} of y has no label, and what partial_fit adds up are labelled rows; leave it out, "
                "or give all rows to fit"
            )
        before: Totals | None = getattr(self, "_totals", None)
        schema, table = self._encoded(cases, before)
        structure = naive_bayes(len(cases.classes))
        data = InMemoryData(table.fused(), thread_pool(self._n_threads()))
        totals = self._totals_of(cases, schema, structure, data.e_step(Terms.nothing(structure, table.layout)))
        if before is not None:
            totals = before.at(schema.columns) + totals
        problem = self._problem_of(SummedData.of(totals, schema), len(cases.classes))
        search = self._search(cases.classes, problem.data.total_weight)
        self._take_best(self._select(cases.classes, schema, problem, search))
        self._totals = totals
        return self


@dataclass(eq=False, repr=False)
class _HiddenClassifier(IncrementalClassifier):
    """What FM and FAN share: a hidden variable whose number of values is chosen."""

    n_components: int | Literal["auto"] | Mapping[Any, int] = "auto"
    _: KW_ONLY
    criterion: Criterion = "icl"
    max_components: int | None = None
    patience: int = 2
    n_init: int = 14
    random_state: Any = None

    def _learn_more(self, cases: Cases) -> Self:
        """Learn from the first rows like `fit`, from others by a sweep of online EM."""
        before: Totals | None = getattr(self, "_totals", None)
        if before is None:
            if (cases.labels < 0).all():
                raise ValueError(
                    "no row has a label; give at least one row of y a class in the first call of partial_fit"
                )
            return self._begin(self._learn_from(cases))
        began = time.perf_counter()
        structure = self.network_.structure
        schema, table = self._encoded(cases, before)
        known = SummedData.of(before.at(schema.columns), schema)
        pool, problem = thread_pool(self._n_threads()), self._problem_of(known.by_class(structure), len(cases.classes))
        model = problem.model(structure)
        sweep = online_em(model, known.statistics(structure), table.fused(), hard=problem.hard, pool=pool)
        scores = score(sweep.network, sweep.found, table.total_weight)
        start = Start(self.n_components_, _EARLIER_CALLS, scores.log_likelihood, sweep.trace, "best")
        seconds = time.perf_counter() - began
        fit = Fit(sweep.network, self.n_components_, scores, sweep.trace, False, (start,), seconds, sweep.statistics)
        search, selection = self._search(cases.classes, table.total_weight), Selection((fit,))
        self._set_learnt(Learnt(cases.classes, schema, problem, search, selection), selection, 0)
        self._totals = self._totals_of(cases, schema, structure, sweep.statistics)
        return self

    def _known_of_rows(self, found: Statistics) -> tuple[str, float, float]:
        totals: Totals | None = getattr(self, "_totals", None)
        if totals is None or from_user_table(self.starts_).get("origin") != [_EARLIER_CALLS]:
            return super()._known_of_rows(found)
        # The log-likelihood is that of the last call; of the rows of all calls the totals know the number.
        return "number", float(totals.states.sum()), float(found.states.sum())

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_n_components()
        require_choice("criterion", self.criterion, ("icl", "bic", "aic", "cs"))
        if self.max_components is not None:
            require_integer("max_components", self.max_components, 1)
        require_integer("patience", self.patience, 1)
        require_integer("n_init", self.n_init, 1, 10_000)

    def _check_n_components(self) -> None:
        if not isinstance(self.n_components, str):
            require_integer("n_components", self.n_components, 1)
        elif self.n_components != "auto":
            raise ValueError(f"n_components={self.n_components!r} is neither 'auto' nor an integer")

    @abstractmethod
    def _structure(self, n_classes: int, n_components: int) -> Structure:
        """Structure of a network of one size."""

    @abstractmethod
    def _most_components(self, n_classes: int) -> int:
        """Default of max_components."""

    def _search(self, classes: NDArray[Any], n_cases: float) -> Search:
        return self._search_for(self.n_components, len(classes), n_cases)

    def _search_for(self, n_components: Any, n_classes: int, n_cases: float) -> Search:
        if n_components == "auto":
            most = self._most_components(n_classes) if self.max_components is None else self.max_components
            sizes: Sequence[int] = range(1, max(1, min(most, int(n_cases))) + 1)
        else:
            most, sizes = 0, [int(n_components)]
            enough = max(_ENOUGH_COMPONENTS, int(n_cases))
            if sizes[0] > enough:
                raise ValueError(f"n_components={sizes[0]} is too many for {n_cases:.6g} cases; give at most {enough}")
        return Search(
            partial(self._structure, n_classes),
            sizes,
            criteria=(self.criterion,),
            patience=self.patience,
            n_init=self.n_init,
            max_iter=self.max_iter,
            tol=self.tol,
            seed=seed_of(self.random_state),
            is_capped=len(sizes) == most > 1,
        )


@dataclass(kw_only=True, eq=False, repr=False)
class FANClassifier(_HiddenClassifier):
    """Finite-mixture-augmented naive Bayes, equation (12) of Monti & Cooper (1999).

    ``p(c) sum_h p(h) prod_i p(x_i | c, h)``: naive Bayes whose features may depend on each other through a
    hidden variable. With one component it is naive Bayes. `partial_fit` learns from its first rows like `fit`, from
    others by online EM (`fanbayes.learning.online`).

    Parameters
    ----------
    n_components : "auto", int or mapping from class to int, default="auto"
        Number of values of the hidden variable; "auto" tries 1, 2, ... and keeps the best score. With
        `mixing="per_class"` it may be a number for each class, and "auto" chooses one for each.
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
    tree : {"none", "full", "forest"}, default="none"
        Arcs between features beside the hidden variable, one tree for all classes and components, learnt anew between
        runs of EM: all features in one tree, or only arcs by which the score rises. With one component it is
        `TANClassifier`. With `mixing="per_class"`, all classes then have as many components.
    alpha : float or "auto", default="auto"
        Added to every count (Laplace's rule), for features, classes and components. "auto" is 1, but for discrete
        columns with more than ten levels and fewer than ten cases for each in the rarest class: what a class says of
        a level is shrunk towards what all classes say, and components towards their class, as far as the evidence of
        the labelled cases wants it (`fanbayes.learning.level_prior`).
    variance_estimator : {"map", "paper"}, default="map"
        Variance of a continuous feature in a component: posterior mode under a weak prior, or equation (7).
    variance_tying : {"none", "class", "all"}, default="none"
        Whether components share one variance: those of a class, or all of them; not with "paper".
    variance_floor : float, default=1e-6
        Least variance, as a share of the column's own.
    n_init : int, default=14
        Starts for each number of components; the worse half is dropped repeatedly, the best is finished. Before, they
        exchange what they found for each class.
    max_iter : int, default=1000
        Most passes over the data for one number of components. Some of them are lazy: they skip
        rows whose component is certain.
    tol : float, default=1e-6
        EM stops when a step gains no more than this per case.
    categorical_features : "from_dtype", "all", None, or array-like of names, indices or bool
        Which columns are discrete. By default those of strings, booleans and categories.
    discretize : {"none", "mdlp"}, default="none"
        "mdlp": continuous columns are binned by class entropy (Fayyad & Irani 1993), inside `fit`.
    distributions : mapping from column (name or position) to {"gaussian", "poisson"}, optional
        Of continuous columns; by default normal. "poisson" is for counts: whole numbers from 0 to 1e12, never binned.
        Log-likelihood and scores are then those beside a Poisson distribution of the column's mean, and not comparable
        with those of a normal one.
    missing : {"ignorable", "informative"}, default="ignorable"
        Whether it tells something that a value is missing. If not, it is left out (values are missing at random). If it
        does, whether it is there depends on class and component: a Bernoulli distribution for each cell and each column
        of which some, but not all, values are missing in training. A column that was complete in training tells
        nothing by being incomplete, nor does one that is absent as a whole (`allow_missing_columns`).
    handle_unknown : {"missing", "error"}, default="missing"
        A category that was not seen in training counts as missing, or is an error.
    allow_missing_columns : bool, default=False
        Whether a data frame to predict may lack columns, which are then summed out.
    memory : int or str, default="1GB"
        Bytes that encoded rows of a table that is read in batches may take in memory; more lie in temporary files.
    n_jobs : int or None, default=None
        Threads; the result does not depend on it.
    random_state : int, RandomState or None, default=None
    verbose : bool, default=False
        Show a progress bar.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    n_components_ : int
        Chosen number of components, the largest of all classes.
    components_per_class_ : dict
        Number of components of each class.
    selection_ : table
        Every candidate: its size, scores, passes, convergence, starts and seconds. EM is not run to the end for
        those that are far behind the best.
    best_index_ : int
        Row of `selection_` that was chosen.
    starts_ : table
        Every start: its size, origin, last objective, passes and what became of it. On large tables, objective and
        passes of those that were stopped are over the cases that the short runs saw; the best's are over all.
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

    mixing: Mixing = "shared"
    tree: Literal["none", "full", "forest"] = "none"

    _kinds: ClassVar[tuple[tuple[str, ...], ...]] = FAN

    def _check_parameters(self) -> None:
        super()._check_parameters()
        require_choice("mixing", self.mixing, ("shared", "per_class"))
        require_choice("tree", self.tree, ("none", "full", "forest"))

    def _check_n_components(self) -> None:
        if not isinstance(self.n_components, Mapping):
            super()._check_n_components()
            return
        if self.mixing != "per_class":
            raise ValueError("n_components is given by class, which needs mixing='per_class'")
        for label, number in self.n_components.items():
            require_integer(f"n_components[{label!r}]", number, 1)

    def _search(self, classes: NDArray[Any], n_cases: float) -> Search:
        if not isinstance(self.n_components, Mapping):
            return replace(super()._search(classes, n_cases), per_class=self.mixing == "per_class")
        given, known = set(self.n_components), set(classes.tolist())
        if given != known:
            odd = sorted(map(repr, given ^ known))
            raise ValueError(f"n_components and y differ in the classes {', '.join(odd)}; give each class a number")
        sizes = [int(self.n_components[label]) for label in classes.tolist()]
        found = self._search_for(max(sizes), len(classes), n_cases)
        return replace(found, structure_of=lambda _: fan(sizes, "per_class"), per_class=False)

    def _needs_all_rows(self) -> str | None:
        if self.tree != "none":
            return f"tree={self.tree!r} needs all rows at once; use fit, or tree='none' with partial_fit"
        return super()._needs_all_rows()

    def _arcs(self, schema: Schema, table: EncodedTable | PartitionedTable) -> ArcSearch | None:
        return None if self.tree == "none" else ArcSearch(table.collapsed(), self.tree == "full", None, schema.apart)

    @property
    def components_per_class_(self) -> dict[Any, int]:
        """Number of components of each class."""
        check_is_fitted(self)
        return dict(zip(self.classes_.tolist(), np.bincount(self.network_.structure.class_of).tolist()))

    def _structure(self, n_classes: int, n_components: int) -> Structure:
        return fan([n_components] * n_classes, self.mixing)

    def _most_components(self, n_classes: int) -> int:
        return 10


@dataclass(kw_only=True, eq=False, repr=False)
class FMClassifier(_HiddenClassifier):
    """Finite mixture: sum_h p(h) p(c | h) prod_i p(x_i | h), equation (11) of Monti & Cooper (1999).

    The class is one more child of the hidden variable. Parameters and attributes that are not described here are as in
    `FANClassifier`.

    Parameters
    ----------
    n_components : "auto" or int, default="auto"
        Number of values of the hidden variable; "auto" tries 1, 2, ... and keeps the best score.
    criterion : {"icl", "bic", "aic", "cs"}, default="aic"
        Score by which "auto" chooses. On two halves of a suite of datasets AIC gave the lower log loss and the higher
        accuracy, with more components than the others, as FM has to tell the classes apart by components alone.
    max_components : int or None, default=None
        Most components that "auto" tries; None is 20 and four for each class.

    Examples
    --------
    >>> from fanbayes import FMClassifier
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> FMClassifier(random_state=0).fit(X, y).predict_components(X).shape[0]
    178
    """

    criterion: Criterion = "aic"

    _kinds = (("component", "class | component"),)

    def _structure(self, n_classes: int, n_components: int) -> Structure:
        return finite_mixture(n_classes, n_components)

    def _most_components(self, n_classes: int) -> int:
        return 20 + 4 * n_classes
