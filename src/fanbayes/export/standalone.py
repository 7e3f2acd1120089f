"""Predictions of one network by the standard library alone: what `model_python` writes in front of the values.

The values are those of `compiled.py`, arrays as lists, in dictionaries. A column is a code or a number, None if it is
missing.
"""

from __future__ import annotations

from math import exp, floor, hypot, inf, isfinite, log, pi, sqrt
from typing import Any

Values = dict[str, Any]
Column = int | float | None
Cells = list[float]  # a number for each cell

_NOT_ASKED = object()


def class_probabilities(model: Values, row: dict[str, Any]) -> dict[Any, float]:
    """Probability of each class."""
    network = model["predictor"]
    cells = _log_cells(network, _columns(model, row))
    states = [w + cells[k] for w, k in zip(network["log_weight"], network["cell_of"])]
    top = max(states)
    joint = [0.0] * len(model["classes"])
    for state, c in zip(states, network["class_of"]):
        joint[c] += exp(state - top)
    total = sum(joint)
    return {label: p / total for label, p in zip(model["classes"], joint)}


# ---------------------------------------------------------------- from a row to columns


def _columns(model: Values, row: dict[str, Any]) -> list[Column]:
    features, view = model["features"], model["views"][model["predictor"]["view"]]
    strange = [name for name in row if name not in {feature["name"] for feature in features}]
    if strange:
        raise ValueError(f"there is no feature {strange[0]!r}")
    values = [_read(feature, row.get(feature["name"], _NOT_ASKED)) for feature in features]
    codes = [_code(column, values[column["feature"]]) for column in view["codes"]]
    return [*codes, *(_number(features[j], values[j], view["furthest"]) for j in view["numbers"])]


def _read(feature: Values, value: Any) -> Any:
    """A number, or the position of a level, -1 if it was not seen in training; None if missing."""
    if value is _NOT_ASKED or value is None or value != value:
        return value if value is _NOT_ASKED else None
    name = feature["name"]
    if feature["kind"] == "discrete":
        try:
            return feature["positions"].get(value, -1)
        except TypeError:
            raise TypeError(f"feature {name!r} takes one of its levels, or None") from None
    if isinstance(value, (str, bytes)):
        raise TypeError(f"feature {name!r} takes a finite number, or None")
    x = float(value)
    if not isfinite(x):
        raise ValueError(f"feature {name!r} takes a finite number, or None")
    if feature["distribution"] == "poisson" and not (0 <= x <= 1e12 and x == floor(x)):
        raise ValueError(f"feature {name!r} takes whole numbers from 0 to 1e12, or None")
    return x


def _code(column: Values, value: Any) -> Column:
    if value is _NOT_ASKED:
        return None
    if column["by"] == "missing":
        return int(value is None)
    if value is None or (column["by"] == "level" and value < 0):
        return None
    return int(value) if column["by"] == "level" else sum(cut < value for cut in column["cuts"])


def _number(feature: Values, value: Any, furthest: float) -> Column:
    if value is _NOT_ASKED or value is None:
        return None
    half = -feature["exponent"] // 2  # in two steps, which neither overflow nor vanish where the whole does not
    scaled = value * 2.0**half * 2.0 ** (-feature["exponent"] - half)
    z: float = (scaled - feature["centre"]) / feature["scale"]
    return min(max(z, -furthest), furthest)


# ---------------------------------------------------------------- from columns to cells


def _log_cells(network: Values, columns: list[Column]) -> Cells:
    """Log p(x | cell), up to a constant: each column adds what it and those below it say, children before parents.

    Of codes that are missing, `below` is log p(what is known below | code, cell); of such numbers -(a x + b)^2 is left,
    `square`, with a and b for each cell.
    """
    parent, levels = network["parent"], network["levels"]
    n_cells = len(network["log_table"][0]) if network["log_table"] else max(network["cell_of"]) + 1
    total = [0.0] * n_cells
    below: dict[int, list[Cells]] = {}
    square: dict[int, list[tuple[float, float]]] = {}
    for i in network["upwards"]:
        p = parent[i]
        if (columns[i] is None and i not in below and i not in square) or (network["normals"] and not levels[i]):
            continue
        if p >= 0 and not levels[p]:
            _add_regression(network, columns, i, square, total)
            continue
        is_open = p >= 0 and columns[p] is None
        for u in range(levels[p]) if is_open else [0 if p < 0 else columns[p]]:
            said = _code_terms if levels[i] else _number_terms
            terms = said(network, columns, i, u, below if levels[i] else square)
            to = below.setdefault(p, [[0.0] * n_cells for _ in range(levels[p])])[u] if is_open else total
            for k, term in enumerate(terms):
                to[k] += term
    if network["normals"]:
        _add_normals(network["normals"], columns[sum(n > 0 for n in levels) :], total)
    return total


def _code_terms(network: Values, columns: list[Column], i: int, u: Any, below: dict[int, Any]) -> Cells:
    n, v = network["levels"][i], columns[i]
    first = network["place"][i] + u * (n + 1)
    table = network["log_table"][first : first + n]
    if v is not None:
        return list(table[v])
    return [_log_sum([a + b for a, b in zip(own, other)]) for own, other in zip(zip(*table), zip(*below[i]))]


def _number_terms(network: Values, columns: list[Column], i: int, u: Any, square: dict[int, Any]) -> Cells:
    x, at = columns[i], network["place"][i] + u
    terms = zip(*network["numeric"][at])
    if x is not None and at >= len(network["numeric"]) - network["n_linear"]:
        return [log_norm + slope * x for slope, _, log_norm in terms]
    if x is not None:
        return [log_norm - _squared(slope * x + intercept) for slope, intercept, log_norm in terms]
    found = []
    for (slope, intercept, log_norm), (a, b) in zip(terms, square[i]):
        size, across, _ = _turned(slope, intercept, a, b)
        found.append(log_norm + 0.5 * log(pi) - log(size) - _squared(across))
    return found


def _add_regression(network: Values, columns: list[Column], i: int, square: dict[int, Any], total: Cells) -> None:
    """Of a number whose parent is a number: -(a p + b)^2 is left."""
    p = network["parent"][i]
    x, above, left = columns[i], columns[p], []
    for k, (slope, intercept, log_norm, coefficient) in enumerate(zip(*network["regression"][network["place"][i]])):
        total[k] += log_norm
        a, b = coefficient, intercept
        if x is not None:
            b += slope * x
        else:
            size, b, _ = _turned(slope, intercept, *square[i][k])
            a = -coefficient * square[i][k][0] / size
            total[k] += 0.5 * log(pi) - log(size)
        if above is not None:
            total[k] -= _squared(a * above + b)
        elif p in square:
            c, d = square[p][k]
            size, across, along = _turned(c, d, a, b)
            total[k] -= _squared(across)
            a, b = size, along
        left.append((a, b))
    if above is None:
        square[p] = left


def _turned(a: float, b: float, c: float, d: float) -> tuple[float, float, float]:
    """(a x + b)^2 + (c x + d)^2 = (size x + along)^2 + across^2: size, across and along."""
    size = hypot(a, c)
    if size == 0.0:
        return 0.0, hypot(b, d), 0.0
    return size, (a * d - c * b) / size, (a * b + c * d) / size


def _add_normals(normals: Values, numbers: list[Column], total: Cells) -> None:
    """Of correlated numbers: with y = F^-1 x, m = F^-1 mu, F F' the covariance of what is known, y'm - m'm / 2.

    Where cells have several covariances, less y'y / 2 + log det F.
    """
    known = [(i, x) for i, x in enumerate(numbers) if x is not None]
    for g, cholesky in enumerate(normals["cholesky"]):
        factor = _triangular([cholesky[i] for i, _ in known])
        y = _solved(factor, [x for _, x in known])
        base = 0.5 * sum(v * v for v in y) + sum(log(line[j]) for j, line in enumerate(factor))
        for k in (k for k, group in enumerate(normals["group"]) if group == g):
            m = _solved(factor, [normals["mean"][i][k] for i, _ in known])
            total[k] += sum((v - 0.5 * w) * w for v, w in zip(y, m)) - (base if len(normals["cholesky"]) > 1 else 0.0)


def _triangular(rows: list[list[float]]) -> list[list[float]]:
    """Lower triangular F with F F' = R R', by orthogonal directions."""
    factor: list[list[float]] = []
    directions: list[list[float]] = []
    for row in rows:
        rest, line = row, []
        for direction in directions:
            line.append(sum(a * b for a, b in zip(rest, direction)))
            rest = [a - line[-1] * b for a, b in zip(rest, direction)]
        line.append(sqrt(sum(a * a for a in rest)))
        directions.append([a / line[-1] for a in rest])
        factor.append(line)
    return factor


def _solved(factor: list[list[float]], x: list[float]) -> list[float]:
    """F^-1 x."""
    y: list[float] = []
    for line, value in zip(factor, x):
        y.append((value - sum(a * b for a, b in zip(line, y))) / line[-1])
    return y


def _squared(x: float) -> float:
    return x * x  # where x**2 would raise


def _log_sum(x: list[float]) -> float:
    """Logarithm of sum exp(x)."""
    top = max(x)
    return top if top == -inf else top + log(sum(exp(value - top) for value in x))
