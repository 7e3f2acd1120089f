"""Networks as ONNX operators: p(c | x), missing values summed or integrated out.

Columns send what they say up the tree (Pearl 1988), as in `network.js`, all rows at once. A column that is not known,
and below which nothing is known, needs no rule of its own: its distribution adds up to 1, so it says log 1 = 0.
"""

from __future__ import annotations

import math

import numpy as np

from fanbayes.arrays import Floats
from fanbayes.export.compiled import CompiledNetwork, CompiledNormals, children_first
from fanbayes.export.onnx_graph import Graph, Tensor
from fanbayes.export.onnx_views import Value

_ZERO, _ONE = np.float64(0.0), np.float64(1.0)
_HALF_LOG_PI = np.float64(0.5 * math.log(math.pi))


def class_probabilities(
    graph: Graph, network: CompiledNetwork, columns: list[Value], n_rows: str, n_classes: int
) -> str:
    """p(c | x) (n, 1, n_classes).

    Parameters
    ----------
    columns : as the view of the network makes them
    n_rows : name of a tensor (1,), n
    """
    cells = _Messages(graph, network, columns, n_rows).total
    if network.normals is not None:
        numbers = [value.at for value in columns[np.count_nonzero(network.levels) :]]
        cells = graph("Add", cells, _log_normals(graph, network.normals, graph("Concat", *numbers, axis=2)))
    states = graph("Add", graph("Gather", cells, network.cell_of.astype(np.int64), axis=2), network.log_weight)
    is_of = np.equal.outer(network.class_of, np.arange(n_classes)).astype(np.float64)
    joint = graph("MatMul", graph.shifted_exp(states, 2)[0], is_of)
    return graph("Div", joint, graph.sum(joint, 2))


class _Messages:
    """What columns say; `total` (n, 1, n_cells) is log p(x | cell) but for correlated numbers.

    `below[i]` (n, n_levels, n_cells) is log p(what is known below column i | its code, cell), and of a number
    -(slope x + intercept)^2 is left, `square[i]`, two tensors (n, 1, n_cells).
    """

    def __init__(self, graph: Graph, network: CompiledNetwork, columns: list[Value], n_rows: str) -> None:
        self.graph, self.network, self.columns = graph, network, columns
        self.below: dict[int, str] = {}
        self.square: dict[int, tuple[str, str]] = {}
        shape = graph("Concat", n_rows, np.array([1, len(network.log_table.T)]), axis=0)
        self.total = graph("Expand", _ZERO, shape)
        for i in children_first(network.parent):
            p = int(network.parent[i])
            if network.normals is not None and network.levels[i] == 0:
                continue
            if p >= 0 and network.levels[p] == 0:
                self._send_regression(i, p)
                continue
            said = self._code(i, p) if network.levels[i] else self._number(i, p)
            if p < 0:
                self._add(said)
            else:
                self.below[p] = said if p not in self.below else graph("Add", self.below[p], said)

    def _add(self, said: str) -> None:
        self.total = self.graph("Add", self.total, said)

    def _n_above(self, p: int) -> int:
        return int(self.network.levels[p]) if p >= 0 else 1

    def _code(self, i: int, p: int) -> str:
        """What a column of codes says, given each code of its parent (n, n_codes, n_cells)."""
        graph, value = self.graph, self.columns[i]
        n, n_above, first = int(self.network.levels[i]), self._n_above(p), self.network.place[i]
        table = self.network.log_table[first : first + n_above * (n + 1)].reshape(n_above, n + 1, -1)
        said = graph("Gather", table.swapaxes(0, 1), value.at)
        if i not in self.below:
            return said  # 0 where it is missing
        at = graph("Unsqueeze", graph("Min", value.at, np.int64(n - 1)), np.array([1]))
        own = graph("Unsqueeze", graph("GatherND", self.below[i], at, batch_dims=1), np.array([1]))
        each = [graph.log_sum_exp(graph("Add", self.below[i], given[:n]), 1) for given in table]
        return graph("Where", value.known, graph("Add", said, own), graph("Concat", *each, axis=1))

    def _number(self, i: int, p: int) -> str:
        """What a number says, given each code of its parent (n, n_codes, n_cells)."""
        graph, value, numeric = self.graph, self.columns[i], self.network.numeric
        first = self.network.place[i]
        slope, intercept, log_norm = numeric[first : first + self._n_above(p)].swapaxes(0, 1)
        if first >= len(numeric) - self.network.n_linear:
            said = graph("Add", graph("Mul", value.at, slope), log_norm)
            return graph("Where", value.known, said, _ZERO)
        said = graph("Sub", log_norm, self._squared(graph("Add", graph("Mul", value.at, slope), intercept)))
        if i not in self.square:
            return graph("Where", value.known, said, _ZERO)
        a, b = self.square[i]
        size = self._size(slope, a)
        across = self._turned("Sub", graph("Mul", slope, b), graph("Mul", a, intercept), size)
        rest = graph("Sub", self._log_integral(log_norm, size), self._squared(across))
        return graph("Where", value.known, said, rest)

    def _send_regression(self, i: int, p: int) -> None:
        """Of a number x whose parent is a number: -(a p + b)^2 is left."""
        graph, value, above = self.graph, self.columns[i], self.columns[p]
        slope, intercept, log_norm, coefficient = self.network.regression[self.network.place[i]][:, None, None]
        a: Tensor = _ZERO
        b: Tensor = _ZERO
        constant: Tensor = _ZERO
        if i in self.square:  # summed out: what is across the direction of x remains
            c, d = self.square[i]
            size = self._size(slope, c)
            constant = self._log_integral(log_norm, size)
            a = graph("Neg", graph("Div", graph("Mul", c, coefficient), size))
            b = self._turned("Sub", graph("Mul", slope, d), graph("Mul", c, intercept), size)
        self._add(graph("Where", value.known, log_norm, constant))
        left = graph("Where", value.known, coefficient, a)
        right = graph("Where", value.known, graph("Add", graph("Mul", value.at, slope), intercept), b)
        known = self._squared(graph("Add", graph("Mul", above.at, left), right))
        if p not in self.square:
            self.square[p] = left, right
            self._add(graph("Where", above.known, graph("Neg", known), _ZERO))
            return
        c, d = self.square[p]
        size = self._size(c, left)
        across = self._turned("Sub", graph("Mul", c, right), graph("Mul", left, d), size)
        self.square[p] = size, self._turned("Add", graph("Mul", c, d), graph("Mul", left, right), size)
        self._add(graph("Neg", graph("Where", above.known, known, self._squared(across))))

    # (a x + b)^2 + (c x + d)^2 = (size x + (a b + c d) / size)^2 + ((a d - c b) / size)^2: squares are turned, so that
    # nothing cancels.

    def _squared(self, x: str) -> str:
        return self.graph("Mul", x, x)

    def _size(self, a: Tensor, c: str) -> str:
        graph = self.graph
        return graph("Sqrt", graph("Add", graph("Mul", a, a), graph("Mul", c, c)))

    def _turned(self, operator: str, one: str, other: str, size: str) -> str:
        graph = self.graph
        return graph("Div", graph(operator, one, other), graph("Where", graph("Greater", size, _ZERO), size, _ONE))

    def _log_integral(self, log_norm: Floats, size: str) -> str:
        """log_norm and the log of the integral of exp(-(size x)^2)."""
        return self.graph("Sub", log_norm + _HALF_LOG_PI, self.graph("Log", size))


def _log_normals(graph: Graph, normals: CompiledNormals, x: str) -> str:
    """Log density (n, 1, n_cells) of complete numbers x (n, 1, n_numbers), but for what all cells have in common.

    With y = L^-1 x and m = L^-1 mu it is y'm - m'm / 2 and, of several covariances, less y'y / 2 + log det L.
    """
    order, parts = [], []
    for g, factor in enumerate(normals.cholesky):
        cells = np.flatnonzero(normals.group == g)
        inverse = np.linalg.inv(factor)
        means = inverse @ normals.mean[:, cells]
        y = graph("MatMul", x, inverse.T)
        constant = -0.5 * np.sum(means**2, axis=0) - np.log(np.diagonal(factor)).sum()
        part = graph("Add", graph("MatMul", y, means), constant)
        if len(normals.cholesky) > 1:
            part = graph("Sub", part, graph("Mul", graph.sum(graph("Mul", y, y), 2), np.float64(0.5)))
        parts.append(part)
        order.append(cells)
    return graph("Gather", graph("Concat", *parts, axis=2), np.argsort(np.concatenate(order)), axis=2)
