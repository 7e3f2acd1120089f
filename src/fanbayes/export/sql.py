"""Single networks as one SELECT, which SQLite and DuckDB understand.

It goes from the rows to the classes in steps. Each is a common table expression whose columns are computed once, from
those of the step before it; MATERIALIZED keeps databases from merging them, which would write the same expressions out
again and again. Within a step look-ups halve what is left and sums are added in pairs, so that nothing is nested deeper
than the logarithm of its size.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fanbayes.arrays import Floats
from fanbayes.data.schema import Column
from fanbayes.export.compiled import (
    CodeColumn,
    CompiledModel,
    CompiledNetwork,
    CompiledNormals,
    CompiledView,
    single_network,
)
from fanbayes.export.sql_text import INFINITY, ZERO, as_sum, double, exact, joined, lookup, quoted, times_power_of_two


def model_sql(model: CompiledModel, table: str, keep: Sequence[str] = ()) -> str:
    """One SELECT that gives p(class | row) of every row of a table, for SQLite and DuckDB.

    It gives columns of the table, and one for each class: `p_` and the label. NULL is a missing value, and so is NaN in
    DuckDB; a category that was not seen in training counts as missing. Probabilities are NULL where a value can be none
    (an infinite number, text in a column of numbers), and where a missing number or category would have to be summed
    out along an arc, or of numbers with full covariances.

    Parameters
    ----------
    model : CompiledModel
        Of a single network.
    table : str
    keep : columns of the table that are handed on, such as a key; if none are named, the features

    Raises
    ------
    ValueError
        If it is an average, or has names or categories that SQL does not hold.
    """
    network = single_network(model, "SELECT")
    view = model.views[network.view]
    names = [feature.name for feature in model.features]
    kept = list(keep) or names
    shown = _distinct([*kept, *(f"p_{label}" for label in model.classes)], len(kept))
    if len({name.casefold() for name in names}) < len(names):
        raise ValueError("names of columns that differ by upper and lower case only are the same in SQL; rename them")

    query = _Query(table, kept)
    query.step(_features(view, model.features))
    query.step({**_codes(view, model.features), **_numbers(view, model.features)}, ["is_bad"])
    query.step(_columns(network, view), [f"c{i}" for i in range(len(view.codes))])
    if network.normals is not None:
        query.step(_whitened(network.normals, len(view.codes)), query.names)
    query.step(_cells(network), ["refused"])
    weights = zip(network.cell_of, network.log_weight)
    query.step({f"s{s}": f"k{k} + {double(w)}" for s, (k, w) in enumerate(weights)}, ["refused"])
    states = query.names[1:]
    top = _add_largest(query, states)
    query.step({f"e{s}": f"exp({s} - {top})" for s in states}, ["refused"])
    classes = [f"c{c}" for c in range(len(model.classes))]
    of_class = [[f"e{s}" for s, c in zip(states, network.class_of) if c == k] for k in range(len(classes))]
    query.step({c: as_sum(own) for c, own in zip(classes, of_class)}, ["refused"])
    query.step({"total": f"CASE WHEN refused = 0 THEN {as_sum(classes)} END"}, classes)
    found = [*query.kept, *(f"{c} / total" for c in classes)]
    return query.text(model.classifier, dict(zip(shown, found)))


class _Query:
    """Steps of a query; each hands the columns that are kept on, as o0, o1, ...

    Attributes
    ----------
    kept : these, for the next step
    names : names of the other columns of the last step
    """

    def __init__(self, table: str, kept: Sequence[str]) -> None:
        self.prefix = "fanbayes"
        while table.casefold().startswith(self.prefix):
            self.prefix += "_"
        self.source = f"{quoted(table)} AS t"
        self.kept = [f"t.{quoted(name)} AS o{k}" for k, name in enumerate(kept)]
        self.steps: list[str] = []
        self.names: list[str] = []

    def step(self, columns: dict[str, str], carried: Sequence[str] = ()) -> None:
        """Add columns, by name, computed from those of the step before it; some of these are carried on."""
        name = f"{self.prefix}_{len(self.steps)}"
        items = ",\n    ".join([*self.kept, *carried, *(f"{item} AS {column}" for column, item in columns.items())])
        self.steps.append(f"{name} AS MATERIALIZED (\n  SELECT\n    {items}\n  FROM {self.source}\n)")
        self.source, self.names = name, [*carried, *columns]
        self.kept = [f"o{k}" for k in range(len(self.kept))]

    def text(self, classifier: str, shown: dict[str, str]) -> str:
        """The query, which shows columns, by name, computed from those of the last step."""
        about = f"-- {classifier}, written by fanbayes: p(class | row). SQLite 3.35 with exp and floor, or DuckDB."
        steps = ",\n".join(self.steps)
        items = ",\n  ".join(f"{item} AS {quoted(name)}" for name, item in shown.items())
        return f"{about}\nWITH\n{steps}\nSELECT\n  {items}\nFROM {self.source};\n"


def _distinct(names: list[str], n_kept: int) -> list[str]:
    """Names in which upper and lower case count as the same; behind the kept ones they get an underscore if needed."""
    found = names[:n_kept]
    for name in names[n_kept:]:
        while name.casefold() in {other.casefold() for other in found}:
            name += "_"
        found.append(name)
    return found


# ---------------------------------------------------------------- from a row to columns


def _features(view: CompiledView, features: tuple[Column, ...]) -> dict[str, str]:
    """Numbers or positions of levels x, NULL where missing; whether one is given; and is_bad, whether one cannot be."""
    used = sorted({column.feature for column in view.codes} | set(view.numbers.tolist()))
    read = {j: _read(features[j]) for j in used}
    found = {f"x{j}": f"CASE WHEN {given} THEN {x} END" for j, (x, given, _) in read.items()}
    for column in view.codes:
        if column.by == "missing":
            found[f"given{column.feature}"] = f"CASE WHEN {read[column.feature][1]} THEN 1 ELSE 0 END"
    bad = [f"({given} AND {joined('OR', wrong)})" for _, given, wrong in read.values() if wrong]
    return {**found, "is_bad": f"CASE WHEN {joined('OR', bad)} THEN 1 ELSE 0 END" if bad else "0"}


def _read(feature: Column) -> tuple[str, str, list[str]]:
    """A value; whether it is given; and what must not be so."""
    value = f"t.{quoted(feature.name)}"  # of the table: otherwise SQLite takes a name that is not there for text
    number = f"CAST({value} AS DOUBLE)"
    given = f"{value} IS NOT NULL"
    if not feature.has_strings:
        given += f" AND NOT {number} > {INFINITY}"
    if feature.kind == "discrete":
        levels = "".join(f" WHEN {level} THEN {v}" for v, level in enumerate(_levels(feature)))
        compared = f"{value} || ''" if feature.has_strings else value  # letter by letter, also in a column without case
        return f"CASE {compared}{levels} END", given, []
    wrong = [f"typeof({value}) IN ('text', 'blob')", f"abs({number}) = {INFINITY}"]  # SQLite has no types of columns
    if feature.distribution == "poisson":
        wrong += [f"{number} < 0", f"{number} > 1e12", f"{number} <> floor({number})"]
    return number, given, wrong


def _levels(feature: Column) -> list[str]:
    if all(isinstance(level, str) for level in feature.levels):
        return [quoted(str(level), "'") for level in feature.levels]
    if feature.has_strings:
        raise ValueError(
            f"feature {feature.name!r} has categories of text and of numbers, and a column of a database holds one of "
            "these; convert them to text"
        )
    return [str(int(level)) if isinstance(level, int) else exact(float(level)) for level in feature.levels]


def _codes(view: CompiledView, features: tuple[Column, ...]) -> dict[str, str]:
    """Codes c0, c1, ..., the number of levels where missing."""
    return {f"c{i}": _code(column, features[column.feature]) for i, column in enumerate(view.codes)}


def _code(column: CodeColumn, feature: Column) -> str:
    x, n = f"x{column.feature}", len(column.cuts)
    if column.by == "missing":
        return f"1 - given{column.feature}"
    if column.by == "level":
        return f"coalesce({x}, {len(feature.levels)})"
    bins = "".join(f" WHEN {x} <= {exact(cut)} THEN {v}" for v, cut in enumerate(column.cuts))
    return f"CASE WHEN {x} IS NULL THEN {n + 1}{bins} ELSE {n} END"


def _numbers(view: CompiledView, features: tuple[Column, ...]) -> dict[str, str]:
    """Standardised numbers z, counted on from the codes, NULL where missing."""
    found = {}
    for i, j in enumerate(view.numbers.tolist(), len(view.codes)):
        x = times_power_of_two(f"x{j}", -features[j].exponent)
        found[f"z{i}"] = f"({x} - {exact(features[j].centre)}) / {exact(features[j].scale)}"
    return found


def _columns(network: CompiledNetwork, view: CompiledView) -> dict[str, str]:
    """Numbers within bounds; places j in tables of two codes, one that of the parent; and whether a row is refused."""
    levels, furthest = network.levels.tolist(), double(view.furthest)
    is_missing = [f"c{i} = {n}" if n else f"z{i} IS NULL" for i, n in enumerate(levels)]
    found, refused = {}, ["is_bad = 1"]
    for i, p in enumerate(network.parent.tolist()):
        if levels[i] == 0:
            inside = f"WHEN z{i} > {furthest} THEN {furthest} WHEN z{i} < -{furthest} THEN -{furthest}"
            found[f"z{i}"] = f"CASE {inside} ELSE z{i} END"
            refused += [is_missing[i]] * (network.normals is not None)
        elif p >= 0:
            found[f"j{i}"] = f"c{p} * {levels[i] + 1} + c{i}"
        if p >= 0:
            refused.append(f"({is_missing[p]} AND NOT {is_missing[i]})")
    return {**found, "refused": f"CASE WHEN {joined('OR', refused)} THEN 1 ELSE 0 END"}


# ---------------------------------------------------------------- from columns to classes


def _cells(network: CompiledNetwork) -> dict[str, str]:
    """Log p(x | cell) of each cell."""
    normals, n_codes = network.normals, np.count_nonzero(network.levels)
    terms = [_terms(network, i) for i in range(n_codes if normals is not None else len(network.levels))]
    if normals is not None:
        terms.append(_normal_terms(normals))
    return {f"k{k}": as_sum([own[k] for own in terms]) for k in range(network.log_table.shape[1])}


def _terms(network: CompiledNetwork, i: int) -> list[str]:
    """What a column adds to each cell, 0 where it is missing (`compiled.py`)."""
    n, p, place = network.levels[i], network.parent[i], network.place[i]
    n_above = int(network.levels[p]) if p >= 0 else 1
    if n:
        table = network.log_table[place : place + n_above * (n + 1)].T
        return [lookup(f"c{i}" if p < 0 else f"j{i}", [*map(double, own), ZERO]) for own in table]
    if p >= 0 and n_above == 0:
        return [f"coalesce({_square(own, f'z{i}', f'z{p}')}, {ZERO})" for own in network.regression[place].T]
    is_linear = place >= len(network.numeric) - network.n_linear
    found = []
    for given in network.numeric[place : place + n_above].transpose(2, 0, 1):  # (n_above, 3) of each cell
        said = [f"{double(c)} + {double(a)} * z{i}" if is_linear else _square([a, b, c], f"z{i}") for a, b, c in given]
        found.append(f"coalesce({lookup(f'c{p}', said)}, {ZERO})")
    return found


def _square(parameters: Sequence[float] | Floats, x: str, parent: str = "") -> str:
    slope, intercept, log_norm, *coefficient = map(double, parameters)
    line = " + ".join([f"{slope} * {x}", *(f"{a} * {parent}" for a in coefficient), intercept])
    return f"{log_norm} - ({line}) * ({line})"


def _whitened(normals: CompiledNormals, n_codes: int) -> dict[str, str]:
    """Numbers y = L^-1 z, for each covariance."""
    found = {}
    for g, factor in enumerate(normals.cholesky):
        for i, own in enumerate(np.linalg.inv(factor)):
            found[f"y{g}_{i}"] = as_sum([f"{double(own[j])} * z{n_codes + j}" for j in range(i + 1)])
    return found


def _normal_terms(normals: CompiledNormals) -> list[str]:
    """With m = L^-1 mu, y'm - m'm / 2 and, of several covariances, less y'y / 2 + log det L."""
    found = []
    part = double(0.5 if len(normals.cholesky) > 1 else 0.0)
    for mean, g in zip(normals.mean.T, normals.group):
        factor = normals.cholesky[g]
        means = np.linalg.solve(factor, mean)
        constant = -0.5 * np.sum(means**2) - np.log(np.diagonal(factor)).sum()
        terms = [f"y{g}_{i} * ({double(m)} - {part} * y{g}_{i})" for i, m in enumerate(means)]
        found.append(as_sum([double(constant), *terms]))
    return found


def _add_largest(query: _Query, names: Sequence[str]) -> str:
    """Steps that find the largest of some columns; the name of its column."""
    while len(names) > 1:
        pairs = list(zip(names[::2], names[1::2]))
        found = {f"m{len(query.steps)}_{a}": f"CASE WHEN {a} >= {b} THEN {a} ELSE {b} END" for a, b in pairs}
        query.step(found, query.names)
        names = [*found, *names[2 * len(pairs) :]]
    return names[0]
