"""TANClassifier."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fanbayes.data.schema import Schema
from fanbayes.data.table import EncodedTable
from fanbayes.estimators.intervals import IntervalClassifier
from fanbayes.estimators.validation import require_choice
from fanbayes.learning.partitioned import PartitionedTable
from fanbayes.learning.scores import Criterion
from fanbayes.learning.selection import Search
from fanbayes.learning.structural_em import ArcSearch
from fanbayes.model.structure import naive_bayes


@dataclass(kw_only=True, eq=False, repr=False)
class TANClassifier(IntervalClassifier):
    """Tree-augmented naive Bayes: p(c) prod_i p(x_i | x_pa(i), c) (Friedman, Geiger & Goldszmidt 1997).

    Every feature but the root has the class and one other feature as parents; the tree is the one of largest
    conditional mutual information. A discrete feature has a table for each value of its parent, a number a normal
    distribution for each value of a discrete parent, or a linear regression on a continuous one (Friedman, Goldszmidt &
    Lee 1998); a discrete feature has no continuous parent, and counts (`distributions`) have no arcs. Missing values
    are summed out along the tree, exactly, in fitting (by EM) as in prediction. Pairs of features are compared: time
    grows with their square. Only features of up to 16 levels are parents of numbers, and a number then takes the memory
    of so many.

    Parameters and attributes that are not described here are as in `FANClassifier`, which with ``tree=`` has such a
    tree beside its hidden variable.

    Parameters
    ----------
    tree : {"full", "forest"}, default="forest"
        All features in one tree, as TAN was proposed, or only arcs by which the score rises.
    criterion : {"aic", "bic", "icl", "cs"}, default="aic"
        That score; with one component ICL is BIC, whose price an arc has to pay for "cs" as well. In a trial on 56
        discretised UCI sets (5-fold, missing values as a level of their own; its script was not kept) forests by AIC
        had the lowest log loss, 0.462 in the mean, by BIC 0.490, full trees 0.499, naive Bayes 0.624; shrinking tables
        towards those without the arc did not help.
    root : name or position of a feature, optional
        Where the tree begins, as smoothed tables depend on the direction of arcs; by default the feature that tells
        most about the class. Discrete features come before numbers in any case.

    Attributes
    ----------
    edges_ : table
        Arcs, the strongest first: "feature", "parent" and "weight".

    Examples
    --------
    >>> from fanbayes import TANClassifier
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> TANClassifier().fit(X, y).predict_proba(X).shape
    (178, 3)
    """

    _kinds = (("class",),)

    tree: Literal["full", "forest"] = "forest"
    criterion: Criterion = "aic"
    root: str | int | None = None

    def _check_parameters(self) -> None:
        super()._check_parameters()
        require_choice("tree", self.tree, ("full", "forest"))
        if isinstance(self.root, (bool, np.bool_)):
            raise TypeError(f"root={self.root} must be the name or the position of a feature")
        require_choice("criterion", self.criterion, ("icl", "bic", "aic", "cs"))

    def _search(self, classes: NDArray[Any], n_cases: float) -> Search:
        size = [1]
        return Search(
            lambda _: naive_bayes(len(classes)), size, (self.criterion,), max_iter=self.max_iter, tol=self.tol
        )

    def _arcs(self, schema: Schema, table: EncodedTable | PartitionedTable) -> ArcSearch:
        return ArcSearch(table.collapsed(), self.tree == "full", self._root(schema), schema.apart)

    def _root(self, schema: Schema) -> int | None:
        """Column of the layout where the tree begins."""
        if self.root is None:
            return None
        j = schema.position(self.root)
        if j not in schema.discrete + schema.continuous:
            raise ValueError(f"root={self.root!r} tells nothing, as it has one value only; choose another feature")
        return schema.position_in_layout[j]
