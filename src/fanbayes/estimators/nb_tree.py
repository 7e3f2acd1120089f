"""NBTreeClassifier: a decision tree with naive Bayes or FAN in its leaves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from sklearn.utils.validation import check_is_fitted

from fanbayes.arrays import Floats
from fanbayes.data.state import Arrays, State
from fanbayes.data.views import Encodings
from fanbayes.estimators.tabular import TableClassifier
from fanbayes.estimators.validation import require_choice, require_integer, require_real, seed_of
from fanbayes.explanation.description import describe_features
from fanbayes.explanation.explanation import Explanation
from fanbayes.explanation.nb_tree import describe_tree, explain_tree, tree_information, tree_text
from fanbayes.learning.e_step import thread_pool
from fanbayes.learning.ensembles.folds import deal
from fanbayes.learning.ensembles.nb_tree import N_FOLDS, Leaf, NBTree, Settings, SplitScore, fit_tree


@dataclass(eq=False, repr=False)
class NBTreeClassifier(TableClassifier):
    """NBTree (Kohavi 1996): a decision tree with naive Bayes, or FAN, in its leaves.

    A node is split where the cross-validated loss of naive Bayes falls by it. It is good where a few features decide
    which of the others matter, as in rules, and where there are enough rows for naive Bayes in every leaf. On few rows
    it is naive Bayes. Continuous columns are binned by class entropy (Fayyad & Irani 1993), once, inside `fit`.
    Parameters that are not described here are as in `FANClassifier`.

    Parameters
    ----------
    split_score : {"log_score", "accuracy"}, default="log_score"
        What splits are judged by, over five folds inside the node: the log probability of the class, or, as
        Kohavi does, how often it is the predicted one.
    leaf : {"nb", "fan"}, default="nb"
        What predicts in a leaf. With "fan", leaves of which ICL finds more than one component become FAN; splits are
        judged by naive Bayes all the same.
    shrinkage : float, default=20.0
        Leaves are shrunk towards what their parent knows, as by so many cases of its kind:
        (N + alpha + shrinkage p) / (N + alpha r + shrinkage), with p the parent's probability, for the values of each
        feature in each class and for the classes. 0 is Laplace's rule in every leaf, as Kohavi has it. Leaves that have
        become FAN are not shrunk.
    min_samples_split : int, default=30
        Least number of cases of a node that is split.
    min_loss_decrease : float, default=0.05
        A split has to lower the loss of its node by more than this share of it.
    alpha : float, default=1.0
        Added to every count (Laplace's rule), for features and classes.
    random_state : int, RandomState or None, default=None
        Of the folds, and of the starts of FAN.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    class_prior_ : ndarray of shape (n_classes,)
        What is predicted for a row in which everything is missing.
    nb_tree_ : NBTree
        The tree and the networks of its leaves.
    schema_ : Schema
        What each column was taken for.
    n_features_in_, feature_names_in_

    Notes
    -----
    A discrete column has a branch for each of its categories, a binned one two, divided at the cut of the column that
    tells most about the class in the node (information gain). A split has at least five cases a branch in the
    mean. Folds are dealt out once, over all rows, by what they contain.

    A row goes down all branches of a split whose value it lacks, or has of a kind that was not seen there, in the
    shares of the training cases; the prediction is the mean over the leaves in which it arrives, weighted by these
    shares. In a leaf a missing value is summed out. As a whole this is no joint distribution: there is no `sample`, and
    rows without a label are left out.

    Contributions that `explain` finds are those of the leaf's own network, and what each split changes of the prior
    log-odds, which counts for its column. "leaf" is the leaf that adds most to the probability of the class.

    Examples
    --------
    >>> from fanbayes import NBTreeClassifier
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = NBTreeClassifier(random_state=0).fit(X, y)
    >>> clf.predict_proba(X).shape
    (569, 2)
    """

    split_score: SplitScore = "log_score"
    leaf: Leaf = "nb"
    shrinkage: float = 20.0
    min_samples_split: int = 30
    min_loss_decrease: float = 0.05
    alpha: float = 1.0
    random_state: Any = None

    _is_generative = False

    # ------------------------------------------------------------ fitting

    def _check_parameters(self) -> None:
        super()._check_parameters()
        require_choice("split_score", self.split_score, ("log_score", "accuracy"))
        require_choice("leaf", self.leaf, ("nb", "fan"))
        require_real("shrinkage", self.shrinkage, least=0.0)
        require_integer("min_samples_split", self.min_samples_split, 2)
        require_real("min_loss_decrease", self.min_loss_decrease, least=0.0)
        require_real("alpha", self.alpha, above=0.0)

    def _fit(self, *given: Any) -> Self:
        cases = self._cases(*given)
        rows = cases.training_table()
        cases.warn_of_traps(rows.schema_with(self.missing))
        seed = seed_of(self.random_state)
        settings = Settings(
            self.split_score,
            self.leaf,
            float(self.shrinkage),
            int(self.min_samples_split),
            float(self.min_loss_decrease),
            float(self.alpha),
            seed,
        )
        n_units, folds = deal(rows.labels, rows.table.case_weights, rows.table, N_FOLDS, seed, None)
        if n_units < 2 * N_FOLDS:  # too few to judge a split by
            folds = folds[:0]
        view, table = rows.view("mdlp", rows.labels, self.missing)
        pool = thread_pool(self._n_threads())
        self.nb_tree_ = fit_tree(table, view.schema, folds, rows.n_classes, settings, pool)
        self.classes_ = cases.classes
        self.schema_ = view.schema
        return self

    # ------------------------------------------------------------ looking inside

    @property
    def _predictor(self) -> NBTree:
        return self.nb_tree_

    def get_depth(self) -> int:
        """Most splits between the root and a leaf.

        Returns
        -------
        int
        """
        check_is_fitted(self)
        return int(self.nb_tree_.tree.depth.max())

    def get_n_leaves(self) -> int:
        """Number of leaves.

        Returns
        -------
        int
        """
        check_is_fitted(self)
        return len(self.nb_tree_.leaves)

    def export_text(self, *, max_depth: int | None = None) -> str:
        """The tree as text: of each node the condition that leads there, its cases and its most probable classes.

        Parameters
        ----------
        max_depth : int, optional
            Splits below this depth are left out.

        Returns
        -------
        str
        """
        check_is_fitted(self)
        return tree_text(describe_tree(self.nb_tree_, self.classes_.tolist()), max_depth)

    def _explain(self, rows: Encodings, pair: Sequence[Any] | None) -> Explanation:
        [table] = rows.tables
        return explain_tree(self.nb_tree_, table, self.classes_, pair, thread_pool(self._n_threads()))

    def _information(self) -> Floats:
        return tree_information(self.nb_tree_)

    def _description(self) -> dict[str, Any]:
        return {
            "n_leaves": self.get_n_leaves(),
            "depth": self.get_depth(),
            "nodes": describe_tree(self.nb_tree_, self.classes_.tolist()),
            "features": describe_features(self.schema_, self._information()),
        }

    # ------------------------------------------------------------ files

    def _to_state(self) -> State:
        return self.nb_tree_.to_state()

    def _set_state(self, values: dict[str, Any], arrays: Arrays) -> None:
        self.nb_tree_ = NBTree.from_state(values, arrays, self.schema_, len(self.classes_))
