"""The average of several networks, each with its own view of the columns.

    p(c | x) = sum_m v_m p_m(c | x)                                                                  (A1)

Its members may be no joint distributions, so that missing values are filled in (M1): p(c | x) of a row that lacks some
is the mean over the complete rows that stand for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.special import logsumexp

from fanbayes.arrays import Floats
from fanbayes.data.normal_scores import N_KNOTS, are_knots
from fanbayes.data.schema import Schema
from fanbayes.data.state import (
    Arrays,
    State,
    entry,
    grouped,
    prefixed,
    read_array,
    read_schema,
    require,
    require_names,
)
from fanbayes.data.table import EncodedTable
from fanbayes.data.views import Encodings, View
from fanbayes.learning.completion import Completions, Imputer, blocks, filled, missing_cells
from fanbayes.learning.e_step import ThreadPool, posterior
from fanbayes.learning.predictor import NetworkPredictor, Sample, WeightedPredictor
from fanbayes.model.state import FAN, read_network

# Numbers are not taken to be further out than so many standard deviations of their column.
FURTHEST = 1e3


@dataclass(frozen=True)
class Member:
    """A predictor and its weight v_m."""

    predictor: WeightedPredictor
    weight: float


@dataclass(frozen=True)
class Average:
    """Members, the weightiest first, and what fills in missing values for them.

    The schema of the imputer has all indicators that a member's has.
    """

    members: tuple[Member, ...]
    imputer: Imputer

    @property
    def schemas(self) -> tuple[Schema, ...]:
        """That of the imputer, columns as they are, and those of the members which differ."""
        found = (self.imputer.schema, *(m.predictor.view.schema for m in self.members))
        return tuple({id(schema): schema for schema in found}.values())

    @property
    def weights(self) -> Floats:
        """V (n_members,)."""
        return np.array([m.weight for m in self.members])

    @property
    def n_components(self) -> int:
        """Number of components of the largest member."""
        return max(m.predictor.n_components for m in self.members)

    @property
    def class_prior(self) -> Floats:
        """Weighted mean of the members' (n_classes,)."""
        return np.asarray(self.weights @ [m.predictor.class_prior for m in self.members])

    def posterior(self, rows: Encodings, what: Literal["proba", "log_proba"], pool: ThreadPool) -> Floats:
        """(A1) or its log, (n_rows, n_classes); `class_prior` where everything is missing."""
        rows = rows.clipped(FURTHEST)
        missing = missing_cells(rows[self.imputer.schema])
        is_empty, is_filled = missing.all(axis=1), (missing & self.imputer.fills).any(axis=1)
        prior = np.maximum(self.class_prior, np.finfo(np.float64).tiny)
        out = np.empty((len(missing), len(prior)))
        out[is_empty] = prior if what == "proba" else np.log(prior)
        whole = np.flatnonzero(~is_empty & ~is_filled)
        if len(whole):
            out[whole] = self._mixed(self.tables(rows.only(whole)), what, pool)
        for some in blocks(np.flatnonzero(~is_empty & is_filled), missing.shape[1]):
            few = rows.only(some)
            done = self.imputer.complete(few[self.imputer.schema], pool)
            p = self._mixed(self.tables(few, done), what, pool)
            out[some] = done.mean(p) if what == "proba" else done.log_mean(p)
        if what == "proba":
            return np.asarray(out / out.sum(axis=1, keepdims=True))
        return np.asarray(out - logsumexp(out, axis=1, keepdims=True))

    def tables(self, rows: Encodings, done: Completions | None = None) -> list[EncodedTable]:
        """The rows, or their completions, as each member sees them."""
        if done is not None:
            tables = (filled(table, schema, done) for schema, table in zip(rows.schemas, rows.tables))
            rows = Encodings(rows.schemas, tuple(tables))
        views = {id(m.predictor.view): m.predictor.view for m in self.members}
        seen = {key: view.mix(rows[view.schema]) for key, view in views.items()}
        return [seen[id(m.predictor.view)] for m in self.members]

    def _mixed(self, tables: list[EncodedTable], what: Literal["proba", "log_proba"], pool: ThreadPool) -> Floats:
        """(A1) of complete rows."""
        found = (posterior(table, m.predictor.terms, what, pool) for table, m in zip(tables, self.members))
        if what == "proba":
            return np.asarray(sum(m.weight * p for m, p in zip(self.members, found)))
        return np.asarray(logsumexp([log_p + np.log(m.weight) for m, log_p in zip(self.members, found)], axis=0))

    def sample(self, n: int, rng: np.random.Generator) -> Sample:
        """Draw rows and their classes from the generative networks, from each as often as it weighs."""
        counts = rng.multinomial(n, self.weights / self.weights.sum())
        drawn = [m.predictor.sample(k, rng) for m, k in zip(self.members, counts.tolist()) if k]
        order = rng.permutation(n)
        columns = [np.concatenate(parts)[order] for parts in zip(*(columns for columns, _ in drawn))]
        return columns, np.concatenate([classes for _, classes in drawn])[order]

    def to_state(self) -> State:
        """Views, members by the numbers of their views, and the imputer, which sees the columns as they are."""
        views = list({id(m.predictor.view): m.predictor.view for m in self.members}.values())
        imputer, arrays = NetworkPredictor(View(self.imputer.schema, None), self.imputer.network).to_state()
        arrays = {"weights": self.weights, **prefixed("imputer", arrays)}
        for k, view in enumerate(views):
            made = {"mixing": view.mixing, "scores": view.scores}
            arrays |= {f"views/{k}/{name}": array for name, array in made.items() if array is not None}
        members = []
        for k, m in enumerate(self.members):
            values, own = m.predictor.to_state()
            members.append({"view": [v is m.predictor.view for v in views].index(True), **values})
            arrays |= prefixed(f"members/{k}", own)
        return {
            "views": [{"schema": view.schema.to_json()} for view in views],
            "members": members,
            "imputer": {**imputer, "fills": self.imputer.fills_of_columns.tolist()},
        }, arrays

    @classmethod
    def from_state(cls, values: dict[str, Any], arrays: Arrays, schema: Schema, n_classes: int) -> Average:
        """Inverse of `to_state`, given the schema of the columns as they are."""
        flaw = "its members are damaged"
        described, members = entry(values, "views", list), entry(values, "members", list)
        groups = grouped(arrays, ("", "views", "imputer", "members"))
        require_names(groups[""], {"weights"})
        weights = read_array(arrays, "weights", (len(members),))
        require(members and (weights > 0).all() and abs(weights.sum() - 1) < 1e-6, flaw)
        require(len(described) <= len(members), flaw)
        of_view = grouped(groups["views"], [str(k) for k in range(len(described))])
        of_member = grouped(groups["members"], [str(k) for k in range(len(members))])
        views = [_read_view(v, of_view[str(k)], schema) for k, v in enumerate(described)]
        found = []
        for k, (member, weight) in enumerate(zip(members, weights.tolist())):
            number = entry(member, "view", int)
            require(0 <= number < len(views), flaw)
            predictor = WeightedPredictor.from_state(member, of_member[str(k)], views[number], n_classes, FAN)
            found.append(Member(predictor, weight))
        imputer = entry(values, "imputer", dict)
        fills = entry(imputer, "fills", list)
        require(len(fills) == len(schema.columns) and all(type(f) is bool for f in fills), flaw)
        structure = entry(imputer, "structure", dict)
        network = read_network(structure, groups["imputer"], schema, n_classes, FAN, bounded=True)
        order = schema.discrete + schema.continuous
        of_layout = np.array([j < len(fills) and fills[j] for j in order], dtype=bool)
        return cls(tuple(found), Imputer(network, schema, of_layout))


def _read_view(values: dict[str, Any], arrays: Arrays, base: Schema) -> View:
    """A view of the same columns as those of the base."""
    flaw = "its members are damaged"
    schema = read_schema(entry(values, "schema", dict))
    require([c.name for c in schema.columns] == [c.name for c in base.columns], flaw)
    mixing = scores = None
    n = len(schema.continuous)
    require_names(arrays, {"mixing", "scores"} & arrays.keys())
    if "mixing" in arrays:
        mixing = read_array(arrays, "mixing", (n, n))
        require(np.isfinite(mixing).all() and (np.abs(mixing) <= 1e16).all(), flaw)
    if "scores" in arrays:
        scores = read_array(arrays, "scores", (n, 2, N_KNOTS))
        require(are_knots(scores), flaw)
    same = repr(schema) == repr(base)  # NaN differs from itself, its text does not
    return View(base if same else schema, mixing, scores)  # so that rows are encoded once for both
