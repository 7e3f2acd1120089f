"""Rows that `fit` is given in batches: one pass for the schema, one that encodes them into memory or onto disk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any, Literal, NamedTuple

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data

from fanbayes.arrays import Floats
from fanbayes.data.batches import Batch, Batches, as_batches, coded, rows_at_once
from fanbayes.data.schema import Missing, Schema, category_mask
from fanbayes.data.sources import CategoryColumn, NumericColumn, Source, frame_sources
from fanbayes.data.storage import MEMORY, OnDisk, Storage
from fanbayes.data.summary import TableSummary, summarise
from fanbayes.data.table import EncodedTable, bytes_of, empty_table, encode_table, layout_of, put
from fanbayes.data.traps import training_traps, warn_of
from fanbayes.data.views import View, with_sources
from fanbayes.estimators.progress import steps
from fanbayes.estimators.sampled import Sample, draw_of, sample_of
from fanbayes.estimators.validation import MOST_CASES, finite_weights, labels_of, require_classes, seen_classes
from fanbayes.learning.data import InMemoryData
from fanbayes.learning.ensembles.race import Elsewhere

# Arrays that take less than this share of `memory` are never put on disk.
_SMALL_SHARE = 64
# Rows as they came that take less than this share of it are kept, and not read again.
_KEPT_SHARE = 4


def batches_of(X: Any) -> Batches | None:
    """A table that is to be read in batches; None if it is in memory."""
    found = as_batches(X, rows_at_once(1))
    return None if found is None else as_batches(X, rows_at_once(len(found.columns)))


class Part(NamedTuple):
    """Rows of a batch that count: the features, labels by their place among the classes of the batch, and weights."""

    where: str
    frame: nw.DataFrame[Any]
    sources: list[Source]
    classes: NDArray[Any]
    labels: NDArray[np.int32]
    weights: Floats | None  # None where all are 1
    groups: list[Any] | None

    def checksums(self) -> NDArray[np.uint64]:
        """What its rows add to the checksums of the table."""
        return checksums(self.sources, self.classes, self.labels, self.weights)


@dataclass(frozen=True)
class Parts:
    """How batches are read.

    Attributes
    ----------
    batches : Batches, all columns
    features : names of the columns to learn from
    target, weight, groups : names of those that hold labels, weights and groups; there may be none of the latter
    texts : names of those whose values are texts, even if they come as codes
    learns_from_unlabelled : whether rows without a label count
    verbose : whether progress is shown
    """

    batches: Batches
    features: list[str]
    target: str
    weight: str | None
    groups: str | None
    texts: frozenset[str]
    learns_from_unlabelled: bool
    verbose: bool = False

    def read(self, doing: str, n_rows: int | None) -> Iterator[Part]:
        """One pass over the rows that count."""
        with steps(self.verbose, n_rows) as report:
            for batch in self.batches:
                if len(batch.frame):
                    with naming(batch.where):
                        part = self._part(batch)
                    if len(part.labels):
                        yield part
                report(f"{doing} {batch.where}", len(batch.frame))

    def _part(self, batch: Batch) -> Part:
        frame, n_rows = batch.frame, len(batch.frame)
        classes, labels = labels_of(frame[self.target], n_rows)
        weights = None if self.weight is None else finite_weights(frame[self.weight].to_native(), n_rows)
        rows, groups = frame.select(self.features), None if self.groups is None else frame[self.groups].to_list()
        present = np.ones(n_rows, dtype=bool) if weights is None else weights > 0
        if not self.learns_from_unlabelled:
            present &= labels >= 0
        if not present.all():
            rows, (classes, labels) = rows.filter(present.tolist()), seen_classes(classes, labels[present])
            weights = None if weights is None else weights[present]
            groups = None if groups is None else [*compress(groups, present)]
        if weights is not None and bool((weights == 1.0).all()):
            weights = None
        found: list[Any] = list(frame_sources(rows))
        sources = [replace(s, dtype="String", declared=None) if s.name in self.texts else s for s in found]
        return Part(batch.where, rows, sources, classes, labels, weights, groups)


def checksums(
    sources: Sequence[Source], classes: NDArray[Any], labels: NDArray[np.int32], weights: Floats | None
) -> NDArray[np.uint64]:
    """Of each feature, then of the labels and weights (n_features + 2,); those of parts of the rows add up."""
    of_labels = CategoryColumn("", labels, "", classes.tolist())
    of_weights = 0 if weights is None else NumericColumn("", weights - 1.0, "").checksum()
    return np.array([*(s.checksum() for s in (*sources, of_labels)), of_weights], dtype=np.uint64)


@contextmanager
def naming(where: str) -> Iterator[None]:
    """Say of which rows an error is, in one line."""
    try:
        yield
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{where}: {' '.join(str(error).split())}") from error


@dataclass(frozen=True)
class BatchCases:
    """Rows that `fit` was given in batches: what `Cases` is for rows in memory.

    Attributes
    ----------
    parts : Parts
    summary : TableSummary of all rows that count
    checksums : of the features, labels and weights (n_features + 2,), by which rows are known that are read again
    first : Part, by which traps are judged
    is_weighted : whether a weight is not 1
    kept : all rows, where they are few; None: they are read again
    is_declared : whether the user said which columns are categories
    distributions : of continuous columns that are not normal, by position
    memory : bytes that encoded rows may take in memory
    """

    parts: Parts
    summary: TableSummary
    checksums: NDArray[np.uint64]
    first: Part
    is_weighted: bool
    kept: list[Part] | None
    is_declared: bool
    distributions: dict[int, str]
    memory: int

    @property
    def classes(self) -> NDArray[Any]:
        """(n_classes,)."""
        return self.summary.classes

    def storage(self, n_bytes: int) -> Storage:
        """Where arrays of so many bytes in all are put."""
        return MEMORY if n_bytes <= self.memory else OnDisk(self.memory // _SMALL_SHARE)

    def encoded(
        self, discretize: Literal["none", "mdlp"], missing: Missing = "ignorable"
    ) -> tuple[Schema, EncodedTable]:
        """What the columns are, binned or not, with or without indicators, and the rows."""
        schema = self.summary.schema(self.parts.batches.frame, discretize, self.distributions, missing)
        return schema, self.table(schema)

    def table(self, schema: Schema) -> EncodedTable:
        """The rows as a schema encodes them."""
        table = self._empty_table(schema)
        for at, rows, _ in self.encode(schema):
            put(table, at, rows)
        return table

    def _empty_table(self, schema: Schema) -> EncodedTable:
        layout, n_rows = layout_of(schema), self.summary.n_rows
        storage = self.storage(bytes_of(layout, n_rows))
        return empty_table(layout, n_rows, storage, weighted=self.is_weighted)

    def sample(self, seed: int, missing: Missing = "ignorable") -> Sample:
        """As many rows as fit into memory, drawn while all are encoded, with or without indicators."""
        schema = self.summary.schema(self.parts.batches.frame, missing=missing)
        draw = draw_of(self.summary, layout_of(schema), self.memory, seed)
        whole = None if draw.is_all else self._empty_table(schema)
        parts, n_classes = [], len(self.classes)
        for at, rows, part in self.encode(schema):
            if whole is not None:
                put(whole, at, rows)
            parts.append(draw.of_rows(with_sources(schema, rows, part.sources, n_classes), part.groups, at))
        return sample_of(parts, self.classes, None if whole is None else self._elsewhere(schema, whole))

    def _elsewhere(self, schema: Schema, whole: EncodedTable) -> Elsewhere:
        """All rows, given as a schema encodes them; others read them again."""

        def seen_by(view: View) -> InMemoryData:
            table = whole if view.schema is schema else self.table(view.schema)
            return InMemoryData(view.mix(table).fused())

        return Elsewhere(seen_by, whole.class_cases(len(self.classes))[1:])

    def encode(self, schema: Schema) -> Iterator[tuple[int, EncodedTable, Part]]:
        """Encoded parts, the number of the first row of each, and what they were made of."""
        at, n_rows, left = 0, self.summary.n_rows, self.checksums.copy()
        for part in self.kept or self.parts.read("encoding", n_rows):
            n = len(part.labels)
            if self.kept is None:
                left -= part.checksums()
            if at + n > n_rows:
                break
            with naming(part.where):
                rows = encode_table(schema, part.sources, n)
            place = np.append(np.searchsorted(self.classes, part.classes), -1).astype(np.int32)  # -1 is the last
            yield at, replace(rows, labels=place[part.labels], weights=part.weights), part
            at += n
        else:
            n = 0
        if at + n != n_rows:
            raise ValueError(
                f"the table changed while it was read: it had {n_rows:,} rows; fit again when it is at rest"
            )
        if self.kept is None and left.any():
            names = [*(f"column {name!r}" for name in self.parts.features), "the target", "the weights"]
            raise ValueError(
                f"the table changed while it was read: {names[int(np.argmax(left != 0))]} had other values before; fit "
                "again when it is at rest, or to a copy of it"
            )

    def warn_of_traps(self, schema: Schema) -> None:
        """Warn of what may be wrong with columns that were taken for what the schema says, by the first batch."""
        of_columns = range(len(schema.columns)) if self.is_declared else self.distributions
        declared = {schema.columns[j].name for j in of_columns}
        warn_of(training_traps(schema, self.first.sources, self.first.weights, declared))


def read_parts(estimator: Any, batches: Batches, y: Any, sample_weight: Any, groups: Any = None) -> Parts:
    """How the batches are read, given the names of target, weights and groups."""
    for name, given in (("y", y), ("sample_weight", sample_weight), ("groups", groups)):
        if given is None and name != "y":
            continue
        if not isinstance(given, str):
            raise TypeError(f"X is read in batches: give {name} as the name of one of its columns")
        if given not in batches.columns:
            raise ValueError(f"{name} names {given!r}, which is not a column; the columns are {batches.columns}")
    features = [name for name in batches.columns if name not in (y, sample_weight, groups)]
    if not features:
        raise ValueError("X has no column beside y and sample_weight; give it at least one feature")
    learns = getattr(estimator, "_learns_from_unlabelled", False)
    verbose = bool(getattr(estimator, "verbose", False))
    batches, texts = coded(batches)
    return Parts(batches, features, y, sample_weight, groups, texts, learns, verbose)


def summarise_parts(
    estimator: Any, parts: Parts, categorical_features: Any, *, counts: bool, missing: Missing, memory: int = 0
) -> tuple[TableSummary, NDArray[np.uint64], Part, bool, list[Part] | None]:
    """What all rows tell of the columns, their checksums, the first part, whether a weight is not 1, and the rows.

    The estimator learns names. The rows themselves are None if they take more than their share of the memory.
    """
    total: TableSummary | None = None
    checksums = np.zeros(len(parts.features) + 2, dtype=np.uint64)
    first: Part | None = None
    is_weighted = False
    kept: list[Part] | None = []
    size = 0
    for part in parts.read("reading", parts.batches.n_rows):
        names = [s.name for s in part.sources]
        if first is None:
            first = part
            validate_data(estimator, part.frame.to_native(), reset=True, skip_check_array=True)
        with naming(part.where):
            is_category = category_mask(categorical_features, names, [s.symbolic for s in part.sources])
            options: dict[str, Any] = {"counts": counts, "missing": missing, "where": part.where}
            found = summarise(part.sources, is_category, part.labels, part.weights, part.classes, **options)
        total = found if total is None else total + found
        is_weighted |= part.weights is not None
        if kept is None:
            checksums += part.checksums()
            continue
        kept.append(part)
        size += int(part.frame.estimated_size())
        if size > memory // _KEPT_SHARE:
            checksums += np.sum([own.checksums() for own in kept], axis=0, dtype=np.uint64)
            kept = None
    if total is None or first is None:
        raise ValueError("the table has no rows that count: give it rows, with labels and positive weights")
    require_classes(len(total.classes))
    if total.weight > MOST_CASES:
        raise ValueError(
            f"the sum of sample_weight is larger than {MOST_CASES:g}; divide all weights by the largest of them"
        )
    return total, checksums, first, is_weighted, kept
