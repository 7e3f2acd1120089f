"""Fitted classifiers, compiled."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from sklearn.utils.validation import check_is_fitted

from fanbayes.data.normal_scores import FURTHEST as FURTHEST_SCORE
from fanbayes.data.schema import Schema
from fanbayes.data.views import View
from fanbayes.estimators.tabular import TableClassifier
from fanbayes.export.compiled import (
    CodeColumn,
    CompiledAverage,
    CompiledForest,
    CompiledImputer,
    CompiledModel,
    CompiledNetwork,
    CompiledNormals,
    CompiledPoints,
    CompiledView,
    Ints,
)
from fanbayes.learning.completion import (
    ENOUGH_FOR,
    FEWEST_POINTS,
    LEVELS,
    MOST_FOR_CLASSES,
    MOST_POINTS,
    doubled,
    latin_hypercube,
    middles,
)
from fanbayes.learning.ensembles.average import FURTHEST, Average
from fanbayes.learning.ensembles.coded_trees import ForestPredictor
from fanbayes.learning.ensembles.members import Fit, MemberNetwork
from fanbayes.learning.ensembles.pool import FLOOR
from fanbayes.learning.predictor import NetworkPredictor
from fanbayes.learning.tree_data import nodes_of
from fanbayes.model.network import Network

# What the encoding of tables keeps standardised numbers within.
_FURTHEST = 1e100

_SUPPORTED = "NBClassifier, FMClassifier, FANClassifier, TANClassifier, MDAClassifier and FANClassifierCV"


def compile_model(clf: TableClassifier) -> CompiledModel:
    """The compiled form of a fitted classifier.

    Parameters
    ----------
    clf : fitted NBClassifier, FMClassifier, FANClassifier, TANClassifier, MDAClassifier or FANClassifierCV

    Raises
    ------
    TypeError
        If there is no such form of it.
    """
    if isinstance(clf, TableClassifier):
        check_is_fitted(clf)
    predictor = getattr(clf, "_predictor", None)
    if not isinstance(predictor, NetworkPredictor | Average):
        raise TypeError(f"only {_SUPPORTED} can be compiled, not {type(clf).__name__}")
    views = _Views(FURTHEST if isinstance(predictor, Average) else _FURTHEST)
    compiled: CompiledNetwork | CompiledAverage
    if isinstance(predictor, Average):
        compiled = _average(predictor, views)
    else:
        compiled = _network(predictor.network, views.number(predictor.view))
    classes, columns = tuple(clf.classes_.tolist()), clf.schema_.columns
    return CompiledModel(type(clf).__name__, classes, columns, clf.class_prior_, tuple(views.compiled), compiled)


@dataclass
class _Views:
    """Views on the way, each compiled once."""

    furthest: float
    seen: list[View] = field(default_factory=list)
    compiled: list[CompiledView] = field(default_factory=list)

    def number(self, view: View) -> int:
        """Position of a view."""
        for k, known in enumerate(self.seen):
            if known.schema is view.schema and known.mixing is view.mixing and known.scores is view.scores:
                return k
        self.seen.append(view)
        codes = tuple(_code_column(view.schema, j) for j in view.schema.discrete)
        numbers = _int32(view.schema.continuous)
        self.compiled.append(CompiledView(codes, numbers, self.furthest, view.scores, FURTHEST_SCORE, view.mixing))
        return len(self.seen) - 1


def _code_column(schema: Schema, j: int) -> CodeColumn:
    if j >= len(schema.columns):
        return CodeColumn(schema.feature(j), "missing", np.empty(0))
    column = schema[j]
    return CodeColumn(j, "level" if column.kind == "discrete" else "cuts", np.array(column.cuts, dtype=np.float64))


def _network(network: Network, view: int) -> CompiledNetwork:
    terms, structure, nodes = network.terms, network.structure, nodes_of(network.layout)
    normals = None
    if terms.normals is not None:
        of = terms.normals
        normals = CompiledNormals(of.mean[0], of.cholesky[0], _int32(of.group))
    return CompiledNetwork(
        view,
        _int32(structure.class_of),
        _int32(structure.component_of),
        structure.has_common_components,
        _int32(structure.cell_of),
        terms.log_weight[0],
        _int32(nodes.levels),
        _int32(nodes.parent),
        _int32(nodes.place),
        terms.log_table[0],
        terms.numeric[0],
        terms.n_linear,
        terms.regression[0],
        normals,
    )


def _forest(forest: ForestPredictor, view: int) -> CompiledForest:
    coding, trees = forest.coding, forest.trees
    return CompiledForest(
        view,
        forest.class_prior,
        coding.code_of,
        coding.cuts,
        _int32(coding.n_codes),
        _int32(coding.n_levels),
        coding.level,
        _int32(trees.first_node),
        _int32(trees.first_number),
        trees.column,
        trees.right,
        trees.network,
        _bits(trees.to_left),
        _bits(trees.to_right),
        trees.values,
        trees.known,
        trees.tables,
    )


def _average(average: Average, views: _Views) -> CompiledAverage:
    imputer = average.imputer
    network = _network(imputer.network, views.number(View(imputer.schema, None)))
    n_filled = int(np.count_nonzero(imputer.fills))
    pool = average.pool
    return CompiledAverage(
        tuple(tuple(_fit(fit, views) for fit in member.fits) for member in average.members),
        pool.weights,
        pool.exponents,
        pool.share,
        FLOOR,
        average.class_prior,
        CompiledImputer(
            network,
            imputer.fills.astype(np.uint8),
            _points(n_filled, len(average.class_prior)),
            ENOUGH_FOR,
            MOST_POINTS,
            LEVELS,
        ),
    )


def _points(n_filled: int, n_classes: int) -> tuple[CompiledPoints, ...]:
    """As many as rows that lack up to so many values may take."""
    most = max(MOST_POINTS, int(doubled(np.array(float(n_classes)), MOST_FOR_CLASSES)))
    found, n, n_missing = [], FEWEST_POINTS, ENOUGH_FOR
    while n <= most:
        parts = latin_hypercube(n_filled if n >= MOST_POINTS else n_missing, n)
        found.append(CompiledPoints(parts, ndtri(parts), middles(n)))
        n, n_missing = 2 * n, 2 * n_missing
    return tuple(found)


def _fit(fit: Fit, views: _Views) -> CompiledNetwork | CompiledForest:
    if isinstance(fit, MemberNetwork):
        return _network(fit.network, views.number(fit.view))
    if isinstance(fit, ForestPredictor):
        return _forest(fit, views.number(fit.view))
    raise TypeError(
        f"the extra member {fit.name!r} ({type(fit.estimator).__name__}) cannot be compiled; fit without extra_members"
    )


def _int32(values: Any) -> Ints:
    return np.asarray(values, dtype=np.int32)


def _bits(words: NDArray[np.uint64]) -> NDArray[np.uint32]:
    """The lower and the upper half of each word (n, 2)."""
    return np.stack([words & np.uint64(2**32 - 1), words >> np.uint64(32)], axis=1).astype(np.uint32)
