"""MDAClassifier."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from fanbayes.arrays import Floats
from fanbayes.data.table import EncodedTable
from fanbayes.estimators.classifiers import FANClassifier
from fanbayes.estimators.validation import require_choice, require_real
from fanbayes.learning.e_step import thread_pool
from fanbayes.learning.em import Problem
from fanbayes.learning.full_covariance import FullCovarianceData, FullCovariancePredictor
from fanbayes.learning.partitioned import PartitionedTable, training_data
from fanbayes.learning.selection import Search
from fanbayes.model.blocks import EstimationOptions
from fanbayes.model.blocks.base import Estimator, Tying
from fanbayes.model.structure import Mixing

# Most correlations that a description tells.
_PAIRS = 100


@dataclass(kw_only=True, eq=False, repr=False)
class MDAClassifier(FANClassifier):
    """Mixture discriminant analysis (Hastie & Tibshirani 1996).

    ``p(x | c) = sum_h p(h | c) N(x; mu_ch, S)``: every class is a mixture of normal distributions with one full
    covariance matrix, common to all components or to those of a class. Discrete columns are independent of the numbers
    and of each other within a component. With one component it is linear discriminant analysis or, with a covariance
    for each class, quadratic discriminant analysis.

    It is good where numbers depend on each other within the classes: shapes of objects, measurements of one thing in
    several ways, spectra, signals. Where they hardly do, or most columns are discrete, `FANClassifier` has fewer
    parameters.

    Missing numbers are integrated out exactly, in `fit` too (Ghahramani & Jordan 1994). This takes the inverse of a
    matrix for every pattern of what is missing and every pass over the rows, so many patterns among hundreds of columns
    take long. Rows without a label are learnt from.

    In `explain`, a number x contributes s (x - m / 2) for a component, where m is the mean of the component and s the
    slope S^-1 m, both of the numbers that are observed, beside the mean of all rows; so a step in x changes nothing but
    its own contribution, by the slope of the log-odds. Where each class has a covariance of its own, a number also has
    its share in the quadratic form. Over several components, contributions are weighted as those of FAN.

    Parameters and attributes that are not described here are as in `FANClassifier`.

    Parameters
    ----------
    n_components : "auto", int or mapping from class to int, default="auto"
        Number of components of a class; "auto" tries 1, 2, ... and keeps the best score, with a number for each class.
    covariance_tying : {"all", "class"}, default="all"
        Whether all components have one covariance matrix, or those of a class.
    prior_strength : float, default=1.0
        Exponent of the prior of means and covariance, a normal-inverse-Wishart distribution that is weak and knows of
        no correlation. 0: maximum likelihood; more keeps the covariance nearer to diagonal.
    variance_floor : float, default=1e-6
        Least variance in any direction, where columns have a variance of 1; not less than 1e-12.
    n_init : int, default=14
        Starts for each number of components, of the same model with uncorrelated columns: EM goes on from the best of
        these. So components are where the rows spread most, as in the original, which starts with k-means; from random
        starts the likelihood is higher, and new rows are classified worse.

    Attributes
    ----------
    covariance_ : ndarray of shape (n_numbers, n_numbers), or (n_classes, n_numbers, n_numbers)
        In the units of the columns.
    means_ : ndarray of shape (n_components of all classes, n_numbers)
        In the units of the columns, class by class, in the order of `feature_table`.
    numbers_ : list of str
        Names of the columns that these are of: all that are continuous and not constant.

    Examples
    --------
    >>> from fanbayes import MDAClassifier
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> clf = MDAClassifier(random_state=0).fit(X, y)
    >>> clf.covariance_.shape
    (13, 13)
    """

    covariance_tying: Literal["all", "class"] = "all"
    prior_strength: float = 1.0

    # What FANClassifier lets choose.
    mixing: Mixing = field(default="per_class", init=False)
    tree: Literal["none", "full", "forest"] = field(default="none", init=False)
    variance_estimator: Estimator = field(default="map", init=False)
    variance_tying: Tying = field(default="all", init=False)
    discretize: Literal["none", "mdlp"] = field(default="none", init=False)
    distributions: Mapping[Any, str] | None = field(default=None, init=False)

    _kinds: ClassVar[tuple[tuple[str, ...], ...]] = (("class", "component | class"),)
    _predictor_type = FullCovariancePredictor

    def _check_parameters(self) -> None:
        super()._check_parameters()
        require_choice("covariance_tying", self.covariance_tying, ("all", "class"))
        require_real("prior_strength", self.prior_strength, least=0.0)

    def _options(self) -> EstimationOptions:
        return replace(super()._options(), variance_tying=self.covariance_tying)

    def _search(self, classes: NDArray[Any], n_cases: float) -> Search:
        return replace(super()._search(classes, n_cases), per_class=self.n_components == "auto")

    def _needs_all_rows(self) -> str | None:
        return "covariances need all rows at once: use fit"

    def _problem(self, table: EncodedTable | PartitionedTable, n_classes: int) -> Problem:
        simpler = super()._problem(table, n_classes)
        options = replace(simpler.options, covariance="full", prior_strength=float(self.prior_strength))
        data = training_data(table, thread_pool(self._n_threads()), FullCovarianceData)
        return replace(simpler, data=data, options=options, simpler=simpler)

    # ------------------------------------------------------------ looking inside

    @property
    def numbers_(self) -> list[str]:
        """Names of the columns that means and covariance are of."""
        check_is_fitted(self)
        return [self.schema_[j].name for j in self.schema_.continuous]

    @property
    def covariance_(self) -> Floats:
        """Of all components (n_numbers, n_numbers), or of each class (n_classes, n_numbers, n_numbers)."""
        check_is_fitted(self)
        normals = self.network_.terms.normals
        if normals is None:
            return np.zeros((0, 0))
        unit = np.exp([self.schema_[j].log_scale for j in self.schema_.continuous])
        factors = normals.cholesky[0]
        with np.errstate(over="ignore"):  # the variance of values near 1e308 is infinite
            found = (factors @ np.swapaxes(factors, 1, 2)) * unit[:, None] * unit
        return np.asarray(found[0] if self.covariance_tying == "all" else found)

    @property
    def means_(self) -> Floats:
        """Of each component, class by class (n, n_numbers)."""
        check_is_fitted(self)
        normals = self.network_.terms.normals
        if normals is None:
            return np.zeros((self.network_.structure.n_cells, 0))
        return np.column_stack([self.schema_[j].restore(m) for j, m in zip(self.schema_.continuous, normals.mean[0])])

    def _description(self) -> dict[str, Any]:
        return {**super()._description(), "correlations": self._correlations()}

    def _correlations(self) -> list[dict[str, Any]]:
        """Pairs of columns within a component, or within one of each class, the most correlated first."""
        normals = self.network_.terms.normals
        if normals is None:
            return []
        rows = normals.cholesky[0] / np.linalg.norm(normals.cholesky[0], axis=2, keepdims=True)
        groups = [(g, i, j) for g in range(len(rows)) for i, j in combinations(range(rows.shape[1]), 2)]
        found = (rows @ np.swapaxes(rows, 1, 2))[tuple(np.array(groups, dtype=np.intp).reshape(-1, 3).T)]
        strongest = np.argsort(-np.abs(found), kind="stable")[:_PAIRS].tolist()
        names = self.numbers_

        def about(k: int) -> dict[str, Any]:
            g, i, j = groups[k]
            of_class = {"class": self.classes_.tolist()[g]} if self.covariance_tying == "class" else {}
            return {**of_class, "features": [names[i], names[j]], "correlation": float(found[k])}

        return [about(k) for k in strongest]
