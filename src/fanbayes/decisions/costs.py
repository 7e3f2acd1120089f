"""Decisions of least expected cost, from the probabilities of any classifier."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray

from fanbayes.arrays import Floats
from fanbayes.decisions.validation import known_label, probabilities


class Decisions(NamedTuple):
    """What `decide` found.

    Attributes
    ----------
    decision : (n_rows,)
        Decision of least expected cost.
    cost : (n_rows,)
        Its expected cost.
    expected : (n_rows, n_decisions)
        Expected cost of every decision.
    names : (n_decisions,)
        The decisions, in the order of the columns of `expected`.
    """

    decision: NDArray[Any]
    cost: Floats
    expected: Floats
    names: NDArray[Any]


class Costs(NamedTuple):
    """Cost of each decision under each true class: `values` (n_classes, n_decisions), `names` (n_decisions,)."""

    values: Floats
    names: NDArray[Any]


def decide(proba: ArrayLike, classes: ArrayLike, costs: Any, *, decisions: Sequence[Any] | None = None) -> Decisions:
    """Decision of least expected cost, ``argmin_d sum_c p(c | x) cost(c, d)``; the first of equally cheap ones.

    Parameters
    ----------
    proba : array-like of shape (n_rows, n_classes)
        p(c | x).
    classes : array-like of shape (n_classes,)
        Class of each column.
    costs : mapping, data frame or array-like
        What each decision costs (a gain is a negative cost) when the true class is known:

        - ``{true class: {decision: cost}}``;
        - a data frame whose first column, or pandas index, names the true classes, and whose other columns are
          decisions;
        - an array of shape (n_classes, n_decisions), its rows in the order of `classes`.

        A decision may be no class, such as "refer". Names may be given as text, as JSON and CSV files have them.
    decisions : sequence of n_decisions names, optional
        Columns of an array of costs; by default the classes.

    Returns
    -------
    Decisions
        With `decision`, `cost`, `expected` and `names`.

    Examples
    --------
    >>> from fanbayes import decide
    >>> costs = {"ill": {"treat": 0, "send home": 50, "refer": 5}, "well": {"treat": 10, "send home": 0, "refer": 5}}
    >>> decide([[0.05, 0.95], [0.3, 0.7], [0.9, 0.1]], ["ill", "well"], costs).decision.tolist()
    ['send home', 'refer', 'treat']
    """
    labels = np.asarray(classes)
    p = probabilities(proba, len(labels))
    values, names = read_costs(costs, labels, decisions)
    expected = p @ values
    # Equal up to rounding is equal.
    slack = 4 * np.finfo(np.float64).eps * (p @ np.abs(values))
    least = np.min(expected + slack, axis=1, keepdims=True)
    chosen = np.argmax(expected - slack <= least, axis=1)
    return Decisions(names[chosen], expected[np.arange(len(p)), chosen], expected, names)


def read_costs(costs: Any, classes: NDArray[Any], decisions: Sequence[Any] | None = None) -> Costs:
    """Costs in any of the forms that `decide` takes, with rows in the order of `classes`."""
    labels = classes.tolist()
    if isinstance(costs, Mapping):
        if not all(isinstance(row, Mapping) for row in costs.values()):
            raise ValueError("costs must be of the form {true class: {decision: cost}}")
        rows = {known_label(c, labels): {known_label(d, labels): v for d, v in row.items()} for c, row in costs.items()}
        names = list(dict.fromkeys(d for row in rows.values() for d in row))
        _require_rows(list(rows), labels)
        lacking = [f"cost of {d!r} when {c!r} is true" for c in labels for d in names if d not in rows[c]]
        if lacking:
            raise ValueError(f"costs lack the {lacking[0]}: give every class the same decisions")
        table: Any = [[rows[c][d] for d in names] for c in labels]
    elif (frame := nw.from_native(costs, eager_only=True, pass_through=True)) is not costs:
        true, names, table = _split_frame(frame, labels)
        found, names = ([known_label(name, labels) for name in some] for some in (true, names))
        _require_rows(found, labels)
        table = [table[found.index(c)] for c in labels]
    else:
        table, names = costs, labels if decisions is None else [known_label(d, labels) for d in decisions]
    values = np.asarray(table, dtype=np.float64)
    if values.shape != (len(labels), len(names)) or not names:
        raise ValueError(
            f"costs have shape {values.shape}; give a row for each of {len(labels)} classes and a column for each of "
            f"{len(names)} decisions"
        )
    if not np.isfinite(values).all():
        raise ValueError("costs must be finite numbers: use a large cost for what must not happen")
    if len(set(names)) < len(names):
        raise ValueError("costs name a decision twice")
    return Costs(values, _array_of(names, classes))


def _require_rows(found: list[Any], labels: list[Any]) -> None:
    """Refuse costs whose rows are not the classes."""
    for name in found:
        if name not in labels:
            raise ValueError(f"costs have a row {name!r}; the classes are {', '.join(map(repr, labels))}")
    for label in labels:
        if found.count(label) != 1:
            raise ValueError(f"costs need one row for the class {label!r} and have {found.count(label)}")


def _split_frame(frame: nw.DataFrame[Any], labels: list[Any]) -> tuple[list[Any], list[Any], list[Any]]:
    """True class of each row of a data frame of costs, the decisions, and the costs."""

    def are_classes(names: list[Any]) -> bool:
        return sorted(map(str, (known_label(c, labels) for c in names))) == sorted(map(str, labels))

    rows, names, index = frame.rows(), list(frame.columns), nw.maybe_get_index(frame)
    first = [row[0] for row in rows]
    if index is None or not are_classes(list(index)):
        return first, names[1:], [row[1:] for row in rows]
    if type(index).__name__ == "RangeIndex" and are_classes(first):
        raise ValueError(
            f"costs are ambiguous: both the index and the column {names[0]!r} could be the true classes; set the index"
        )
    return list(index), names, rows


def _array_of(names: list[Any], classes: NDArray[Any]) -> NDArray[Any]:
    """Decisions as an array: like the classes if it can be, else of objects."""
    if all(name in classes.tolist() for name in names):
        return np.array(names, dtype=classes.dtype)
    if classes.dtype.kind == "U" and all(isinstance(name, str) for name in names):
        return np.array(names)
    return np.array([*names, None], dtype=object)[:-1]
