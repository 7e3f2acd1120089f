"""One compiled form of a fitted model: all that is computed from a raw row to p(c | x), as plain values.

A row is a value for each of the `features`. A *view* makes columns of it: codes, -1 where missing, and then numbers,
NaN where missing. A *network* adds up terms of these columns in each of its cells,

    log p(s, x) = log_weight[s] + sum_i term_i(cell_of[s]) ,   p(c | x) proportional to sum_(s of c) p(s, x) ,

where with v the code or x the number of column i, u the code or p the number of its parent (u = 0 if it has none),

    term_i = log_table[place_i + u (levels_i + 1) + v]                                     of a code
    term_i = log_norm - (slope x + intercept)^2,                 numeric[place_i + u]      of a number
    term_i = log_norm + slope x                                  numeric[place_i + u]      of the last `n_linear`
    term_i = log_norm - (slope x + coefficient p + intercept)^2, regression[place_i]       of a number given a number

and a column that is missing has no term, unless one below it is known: then its values are summed, or integrated, out.
Correlated numbers have a joint density instead of such terms (`CompiledNormals`). A *forest* adds up scores of trees
(`learning/ensembles/coded_trees.py`, T1), and an *average* pools what these say of rows that are complete, or are
completed first (`average.py`, A0 to A3; `completion.py`, M1).
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fanbayes.arrays import Floats
from fanbayes.data.schema import Column
from fanbayes.data.sources import Level
from fanbayes.data.state import plain

Ints = NDArray[np.int32]


@dataclass(frozen=True)
class CodeColumn:
    """A column of codes.

    Attributes
    ----------
    feature : int, its position
    by : what the code is
        "level": the position of the value among the levels of the feature; "cuts": how many of the cuts are below the
        value; "missing": 1 if the value is missing, 0 if there is one, a level that is not known included.
    cuts : (n_cuts,), increasing
    """

    feature: int
    by: Literal["level", "cuts", "missing"]
    cuts: Floats


@dataclass(frozen=True)
class CompiledView:
    """Columns that a model sees.

    A number is ``z = (x * 2**-exponent - centre) / scale`` of its feature, not further from 0 than `furthest`; then
    each by the line between its knots, if there are any, which goes on beyond the first and last two, and stays within
    `furthest_score` from 0; and then ``z @ mixing``, in which a missing number counts as 0 and stays missing.

    Attributes
    ----------
    codes : tuple of CodeColumn
    numbers : int32 (n_numbers,), features
    furthest : float
    scores : (n_numbers, 2, n_knots) or None, values and what they become
    furthest_score : float
    mixing : (n_numbers, n_numbers) or None
    """

    codes: tuple[CodeColumn, ...]
    numbers: Ints
    furthest: float
    scores: Floats | None
    furthest_score: float
    mixing: Floats | None


@dataclass(frozen=True)
class CompiledNormals:
    """Normal distributions of all numbers together: in cell k N(mean[:, k], L L'), L the factor of its group.

    Attributes
    ----------
    mean : (n_numbers, n_cells)
    cholesky : (n_groups, n_numbers, n_numbers), lower triangular
    group : int32 (n_cells,)
    """

    mean: Floats
    cholesky: Floats
    group: Ints


@dataclass(frozen=True)
class CompiledNetwork:
    """A network: states, cells and terms.

    Attributes
    ----------
    view : int, position among the views of the model
    class_of, component_of, cell_of : int32 (n_states,); states of a class lie together
    common_components : whether component h of one class is that of another
    log_weight : (n_states,)
    levels : int32 (n_columns,), number of codes of each column, 0 of a number
    parent : int32 (n_columns,), the column that it depends on; -1: none
    place : int32 (n_columns,), where its parameters begin in `log_table`, `numeric`, or `regression`
    log_table : (n_levels, n_cells); behind the levels of a column there is a row of 0
    numeric : (n_numeric, 3, n_cells), slope, intercept and log_norm
    n_linear : int
    regression : (n_regressions, 4, n_cells), slope, intercept, log_norm and coefficient
    normals : CompiledNormals or None
        Where there are, `numeric` serves complete rows of one group, up to what its cells have in common.
    """

    view: int
    class_of: Ints
    component_of: Ints
    common_components: bool
    cell_of: Ints
    log_weight: Floats
    levels: Ints
    parent: Ints
    place: Ints
    log_table: Floats
    numeric: Floats
    n_linear: int
    regression: Floats
    normals: CompiledNormals | None
    kind: Literal["network"] = field(default="network", init=False)


@dataclass(frozen=True)
class CompiledForest:
    """A forest: log p(c | x) = log class_prior + the sum of the trees' scores + constant.

    A row goes down each tree by the codes of its columns, and ends where neither side takes its code. The node adds its
    `values`, and its network a row of its table for each column that the tree knows and that is not missing.

    Attributes
    ----------
    view : int
    class_prior : (n_classes,)
    code_of : for each code column of the view uint8 (n_levels,), the code here
    cuts : for each number (n_cuts,); its code is how many are below it
    n_codes : int32 (n_columns,); the next one is "missing"
    n_levels : int32 (n_columns,), levels in the networks
    level : uint8 (n_columns, 64), level of each code
    first_node, first_number : int32 (n_trees + 1,), of each tree among nodes, and among numbers in `tables`
    column : int32 (n_nodes,), what a node splits on, -1 for a leaf; the left one is the next node
    right : int32 (n_nodes,), the right one, counted from the first of the tree
    network : int32 (n_nodes,), number in the tree
    to_left, to_right : uint32 (n_nodes, 2), bits of the codes that go there, the lower 32 first
    values : float32 (n_nodes, n_classes)
    known : int32 (n_trees, n_known), columns
    tables : float32, networks (levels of the known columns, n_classes) one after the other
    """

    view: int
    class_prior: Floats
    code_of: tuple[NDArray[np.uint8], ...]
    cuts: tuple[Floats, ...]
    n_codes: Ints
    n_levels: Ints
    level: NDArray[np.uint8]
    first_node: Ints
    first_number: Ints
    column: Ints
    right: Ints
    network: Ints
    to_left: NDArray[np.uint32]
    to_right: NDArray[np.uint32]
    values: NDArray[np.float32]
    known: Ints
    tables: NDArray[np.float32]
    kind: Literal["forest"] = field(default="forest", init=False)


@dataclass(frozen=True)
class CompiledPoints:
    """Points that stand for a row with missing values, a Latin hypercube; those of a class share p(c | x).

    Attributes
    ----------
    parts : (n_missing, n_points), the part of its distribution that each missing value takes, in their order
    normal : (n_missing, n_points), quantiles of the standard normal distribution at these
    states : (n_points,), the part of q(s) of (M2) that each takes
    """

    parts: Floats
    normal: Floats
    states: Floats


@dataclass(frozen=True)
class CompiledImputer:
    """What completes rows (M1): a network without arcs, of numbers that are normal and columns that are not binned.

    Attributes
    ----------
    network : CompiledNetwork
    fills : uint8 (n_columns,), 1 for columns that are filled in
    points : by their number, each twice as many as those before
    enough_for : values or classes that the first are enough for
    most_points : for the sake of missing values; so many combinations of discrete ones are all taken, weighted
    levels : of a missing value, that count as a value
    """

    network: CompiledNetwork
    fills: NDArray[np.uint8]
    points: tuple[CompiledPoints, ...]
    enough_for: int
    most_points: int
    levels: int


@dataclass(frozen=True)
class CompiledAverage:
    """An average: (A0) of the fits of each member, (A3) of the members and, last, the classes' shares.

    Attributes
    ----------
    members : fits of each member
    weights, exponents : (n_members + 1,)
    share : float, of the linear pool
    floor : float
    class_prior : (n_classes,)
    imputer : CompiledImputer
    """

    members: tuple[tuple[CompiledNetwork | CompiledForest, ...], ...]
    weights: Floats
    exponents: Floats
    share: float
    floor: float
    class_prior: Floats
    imputer: CompiledImputer
    kind: Literal["average"] = field(default="average", init=False)


@dataclass(frozen=True)
class CompiledModel:
    """A fitted model.

    Attributes
    ----------
    classifier : name of its class
    classes : labels
    features : tuple of Column, what they are in the rows that it was fitted to
    class_prior : (n_classes,), p(c)
    views : tuple of CompiledView
    predictor : CompiledNetwork or CompiledAverage
    """

    classifier: str
    classes: tuple[Level, ...]
    features: tuple[Column, ...]
    class_prior: Floats
    views: tuple[CompiledView, ...]
    predictor: CompiledNetwork | CompiledAverage

    def to_json(self) -> dict[str, Any]:
        """Values that JSON has.

        An array is ``{"dtype", "shape", "base64"}``, of little-endian numbers; a number that is not finite
        ``{"float": "nan" | "inf" | "-inf"}``; a whole number that doubles do not hold ``{"integer": its digits}``.
        """
        found: dict[str, Any] = _to_json(self)
        return found


def single_network(model: CompiledModel, what: str) -> CompiledNetwork:
    """The network that a model is.

    Raises
    ------
    ValueError
        If it is an average.
    """
    if isinstance(model.predictor, CompiledAverage):
        raise ValueError(
            f"a {what} holds a single network, and {model.classifier} is an average; fit a single one, for example FAN"
        )
    return model.predictor


def children_first(parent: Ints) -> list[int]:
    """Columns, children before their parents, given the parent of each; -1: none."""
    above = parent.tolist()
    depth = [0] * len(above)
    for i, p in enumerate(above):
        while p >= 0:
            depth[i], p = depth[i] + 1, above[p]
    return sorted(range(len(above)), key=lambda i: -depth[i])


def _to_json(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        little = np.ascontiguousarray(value, dtype=value.dtype.newbyteorder("<"))
        encoded = base64.b64encode(little.tobytes()).decode("ascii")
        return {"dtype": value.dtype.name, "shape": list(value.shape), "base64": encoded}
    if is_dataclass(value):
        return {f.name: _to_json(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_to_json(v) for v in value]
    if type(value) is int and abs(value) > 2**53:
        return {"integer": str(value)}
    return plain(value)
