"""How a model sees the columns: as they are, binned, or decorrelated.

Decorrelated, the standardised continuous columns z of a row become ``W z``, where W whitens the correlations that are
left within the classes, by the square root that keeps every column closest to itself (ZCA-cor, Kessy, Lewin & Strimmer
2018): the j-th is still the j-th column, cleaned of what the others tell about it. With variances tied, naive Bayes
is then linear discriminant analysis. A missing value stays missing, and counts as the column's mean for the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fanbayes.data.mdl import cut_points
from fanbayes.data.schema import Schema
from fanbayes.data.sources import Source
from fanbayes.data.table import EncodedTable, encode_table, learn_table

Floats = NDArray[np.float64]
Treatment = Literal["none", "mdlp", "decorrelate"]


@dataclass(frozen=True)
class View:
    """Columns, and how the continuous ones are mixed before a model sees them.

    Attributes
    ----------
    schema : Schema
    mixing : (n_numbers, n_numbers) or None
        Column j of what the model sees is ``z @ mixing[:, j]``.
    """

    schema: Schema
    mixing: Floats | None

    @property
    def feature_of(self) -> NDArray[np.intp]:
        """Feature of each column of the layout: the discrete ones, then the continuous ones."""
        return np.array([*self.schema.discrete, *self.schema.continuous], dtype=np.intp)

    def encode(self, sources: Sequence[Source], n_rows: int) -> EncodedTable:
        """Encode rows of the columns."""
        return self.mix(encode_table(self.schema, sources, n_rows))

    def mix(self, table: EncodedTable) -> EncodedTable:
        """What the model sees of a table that was encoded by the schema."""
        if self.mixing is None:
            return table
        missing = np.isnan(table.numbers)
        known = np.where(missing, 0.0, table.numbers)
        numbers = np.einsum("ni,ij->nj", known, self.mixing, optimize=False)  # the same bits for every number of rows
        numbers[missing] = np.nan
        return replace(table, numbers=numbers)


def learn_view(
    sources: Sequence[Source],
    is_category: Sequence[bool],
    frame: str | None,
    labels: NDArray[np.int32],
    weights: Floats | None,
    treatment: Treatment,
    known: NDArray[np.int32],
    n_classes: int,
) -> tuple[View, EncodedTable]:
    """Learn what the columns are, and encode them; they are not mixed yet.

    Parameters
    ----------
    sources, is_category, frame, labels, weights : as in `learn_table`
    treatment : "none", "mdlp" (binned by class entropy) or "decorrelate"
    known : int32 (n_rows,)
        Labels that the treatment may learn from, -1 elsewhere.
    """
    cuts = partial(cut_points, labels=known, n_classes=n_classes, weight=weights) if treatment == "mdlp" else None
    schema, table = learn_table(sources, is_category, frame, labels, weights, cuts)
    mixing = None
    if treatment == "decorrelate":
        mixing = whitening(table.numbers, known, weights, n_classes)
    return View(schema, mixing), table


def whitening(numbers: Floats, labels: NDArray[np.int32], weights: Floats | None, n_classes: int) -> Floats:
    """Matrix that makes standardised columns uncorrelated within classes, and leaves each with variance 1.

    The correlations are shrunk towards 0 by as many cases as there are columns.

    Parameters
    ----------
    numbers : (n_rows, n_numbers), NaN where missing
    labels : int32 (n_rows,); rows with a negative label are left out
    weights : (n_rows,) or None
    """
    rows = labels >= 0
    missing, y = np.isnan(numbers[rows]), labels[rows]
    z = np.where(missing, 0.0, numbers[rows])
    w = np.ones(len(y)) if weights is None else weights[rows]
    n, k = float(w.sum()), z.shape[1]
    within = z.copy()
    for j in range(k):
        cases = np.bincount(y, weights=w * ~missing[:, j], minlength=n_classes)
        mean = np.bincount(y, weights=w * z[:, j], minlength=n_classes) / np.maximum(cases, 1e-300)
        within[:, j] -= mean[y]
    within[missing] = 0.0
    scatter = _second_moments(within, w)
    deviation = np.sqrt(np.diag(scatter) + 1e-9)
    correlation = scatter / deviation / deviation[:, None] * n / (n + k)
    np.fill_diagonal(correlation, 1.0)
    values, vectors = np.linalg.eigh(correlation)
    matrix = (vectors / np.sqrt(np.maximum(values, 1e-9))) @ vectors.T / deviation[:, None]
    spread = np.sqrt(np.einsum("ij,jk,ik->i", matrix.T, _second_moments(z, w), matrix.T))
    return np.asarray(matrix / np.maximum(spread, 1e-9))


def _second_moments(z: Floats, w: Floats) -> Floats:
    return np.asarray(np.einsum("ni,nj,n->ij", z, z, w, optimize=False) / w.sum())
