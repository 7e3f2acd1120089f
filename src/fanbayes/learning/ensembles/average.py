"""The average of several models, each with its own view of the columns.

    p_m(c | x) = mean over the fits f of member m of p_f(c | x)                                      (A0)

The members and the classes' shares are pooled (A3). A fit may be to all rows or to those of all folds but one. They may
be no joint distributions, so that missing values are filled in (M1): p(c | x) of a row that lacks some is the mean over
the complete rows that stand for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from fanbayes.arrays import Floats, Ints
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
from fanbayes.learning.e_step import ThreadPool
from fanbayes.learning.ensembles.members import Fit, Member, MemberNetwork, read_fit
from fanbayes.learning.ensembles.pool import Pool
from fanbayes.learning.predictor import NetworkPredictor, Sample
from fanbayes.model.state import FAN, read_network

# Numbers are not taken to be further out than so many standard deviations of their column.
FURTHEST = 1e3


@dataclass(frozen=True)
class Average:
    """Members, the weightiest first, how they are pooled, and what fills in missing values for them.

    The schema of the imputer has all indicators that a member's has.

    Attributes
    ----------
    members : tuple of Member
    pool : Pool of the members and, as the last one, the classes' shares
    class_prior : (n_classes,), the classes' shares
    imputer : Imputer
    """

    members: tuple[Member, ...]
    pool: Pool
    class_prior: Floats
    imputer: Imputer

    @property
    def fits(self) -> list[Fit]:
        """Those of all members, member after member."""
        return [fit for m in self.members for fit in m.fits]

    @property
    def member_of(self) -> Ints:
        """Member of each fit (n_fits,)."""
        return np.repeat(np.arange(len(self.members)), [len(m.fits) for m in self.members])

    @property
    def schemas(self) -> tuple[Schema, ...]:
        """That of the imputer, columns as they are, and those of the fits which differ."""
        found = (self.imputer.schema, *(fit.view.schema for fit in self.fits))
        return tuple({id(schema): schema for schema in found}.values())

    @property
    def n_components(self) -> int:
        """Number of components of the largest fit."""
        return max(fit.n_components for fit in self.fits)

    @property
    def holds_training_rows(self) -> bool:
        """Whether a member is a kernel density."""
        return any(isinstance(fit, MemberNetwork) and fit.origin == "kernel" for fit in self.fits)

    def posterior(self, rows: Encodings, what: Literal["proba", "log_proba"], threads: ThreadPool) -> Floats:
        """(A3) or its log, (n_rows, n_classes); `class_prior` where everything is missing."""
        rows = rows.clipped(FURTHEST)
        missing = missing_cells(rows[self.imputer.schema])
        is_empty, is_filled = missing.all(axis=1), (missing & self.imputer.fills).any(axis=1)
        out = np.empty((len(missing), len(self.class_prior)))
        out[is_empty] = self.class_prior
        whole = np.flatnonzero(~is_empty & ~is_filled)
        if len(whole):
            out[whole] = self._pooled(rows.only(whole), threads)
        for some in blocks(np.flatnonzero(~is_empty & is_filled), missing.shape[1]):
            few = rows.only(some)
            done = self.imputer.complete(few[self.imputer.schema], threads)
            out[some] = done.mean(self._pooled(completed(few, done), threads))
        out /= out.sum(axis=1, keepdims=True)
        return out if what == "proba" else np.log(out)

    def tables(self, rows: Encodings) -> Iterator[EncodedTable]:
        """The rows as each fit sees them."""
        seen: dict[int, EncodedTable] = {}
        for fit in self.fits:
            if id(fit.view) not in seen:
                seen[id(fit.view)] = fit.view.mix(rows[fit.view.schema])
            yield seen[id(fit.view)]

    def _pooled(self, rows: Encodings, threads: ThreadPool) -> Floats:
        """(A3) of complete rows (n_rows, n_classes)."""
        p = np.zeros((len(self.members) + 1, rows.tables[0].n_rows, len(self.class_prior)))
        for m, fit, table in zip(self.member_of, self.fits, self.tables(rows)):
            p[m] += fit.proba(table, threads)
        p[:-1] /= np.array([len(m.fits) for m in self.members])[:, None, None]
        p[-1] = self.class_prior
        return self.pool.mix(p)

    def sample(self, n: int, rng: np.random.Generator) -> Sample:
        """Draw rows and their classes from the joint distribution that fills in missing values."""
        return NetworkPredictor(View(self.imputer.schema, None), self.imputer.network).sample(n, rng)

    def to_state(self) -> State:
        """Views, members by the numbers of their views, and the imputer, which sees the columns as they are."""
        views = list({id(fit.view): fit.view for fit in self.fits}.values())
        imputer, arrays = NetworkPredictor(View(self.imputer.schema, None), self.imputer.network).to_state()
        pool = {"weights": self.pool.weights, "exponents": self.pool.exponents, "class_prior": self.class_prior}
        arrays = {**pool, **prefixed("imputer", arrays)}
        for k, view in enumerate(views):
            made = {"mixing": view.mixing, "scores": view.scores}
            arrays |= {f"views/{k}/{name}": array for name, array in made.items() if array is not None}
        fits = []
        for k, (member, fit) in enumerate(zip(self.member_of.tolist(), self.fits)):
            values, own = fit.to_state()
            number = [view is fit.view for view in views].index(True)
            fits.append({"member": member, "view": number, **values})
            arrays |= prefixed(f"fits/{k}", own)
        return {
            "holds_training_rows": self.holds_training_rows,
            "views": [{"schema": view.schema.to_json()} for view in views],
            "fits": fits,
            "share": self.pool.share,
            "imputer": {**imputer, "fills": self.imputer.fills_of_columns.tolist()},
        }, arrays

    @classmethod
    def from_state(cls, values: dict[str, Any], arrays: Arrays, schema: Schema, n_classes: int) -> Average:
        """Inverse of `to_state`, given the schema of the columns as they are."""
        flaw = "its members are damaged"
        described, fits = entry(values, "views", list), entry(values, "fits", list)
        groups = grouped(arrays, ("", "views", "imputer", "fits"))
        require_names(groups[""], {"weights", "exponents", "class_prior"})
        require(fits and len(described) <= len(fits), flaw)
        numbers = [entry(fit, "member", int) for fit in fits]
        require(numbers[0] == 0 and all(0 <= b - a <= 1 for a, b in pairwise(numbers)), flaw)
        n_members = numbers[-1] + 1
        weights, exponents = (read_array(arrays, name, (n_members + 1,)) for name in ("weights", "exponents"))
        class_prior, share = read_array(arrays, "class_prior", (n_classes,)), entry(values, "share", float)
        require((weights >= 0).all() and abs(weights.sum() - 1) < 1e-6, flaw)
        require(((exponents >= 0) & (exponents <= 1e3)).all() and 0 <= share <= 1, flaw)
        require(abs(class_prior.sum() - 1) < 1e-6, flaw)
        require((share * weights[-1] * class_prior > 0).all(), flaw)  # and so is the probability of every class
        of_view = grouped(groups["views"], [str(k) for k in range(len(described))])
        of_fit = grouped(groups["fits"], [str(k) for k in range(len(fits))])
        views = [_read_view(v, of_view[str(k)], schema) for k, v in enumerate(described)]
        found: list[list[Fit]] = [[] for _ in range(n_members)]
        for k, (fit, member) in enumerate(zip(fits, numbers)):
            number = entry(fit, "view", int)
            require(0 <= number < len(views), flaw)
            found[member].append(read_fit(fit, of_fit[str(k)], views[number], n_classes))
        imputer = entry(values, "imputer", dict)
        fills = entry(imputer, "fills", list)
        require(len(fills) == len(schema.columns) and all(type(f) is bool for f in fills), flaw)
        structure = entry(imputer, "structure", dict)
        network = read_network(structure, groups["imputer"], schema, n_classes, FAN, bounded=True)
        order = schema.discrete + schema.continuous
        of_layout = np.array([j < len(fills) and fills[j] for j in order], dtype=bool)
        members = tuple(Member(tuple(own)) for own in found)
        pool = Pool(weights, exponents, share)
        average = cls(members, pool, class_prior, Imputer(network, schema, of_layout))
        require(entry(values, "holds_training_rows", bool) == average.holds_training_rows, flaw)
        return average


def completed(rows: Encodings, done: Completions) -> Encodings:
    """The completions of rows, as each schema encodes them."""
    tables = (filled(table, schema, done) for schema, table in zip(rows.schemas, rows.tables))
    return Encodings(rows.schemas, tuple(tables))


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
    same = repr(schema.to_json()) == repr(base.to_json())  # NaN differs from itself, its text does not
    return View(base if same else schema, mixing, scores)  # so that rows are encoded once for both
