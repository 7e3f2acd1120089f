"""Rows to learn from and rows to judge by."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fanbayes.estimators.tabular import Cases

Mask = NDArray[np.bool_]
Split = tuple[Mask, Mask]


def split_rows(cv: Any, cases: Cases, seed: int) -> list[Split]:
    """Rows to learn from and labelled rows to hold out, as masks; none if there is nothing to tell apart.

    Unlabelled rows are learnt from in every fold, unless the splits are given row by row.
    """
    is_labelled = cases.labels >= 0
    labelled, n = np.flatnonzero(is_labelled), len(cases.labels)
    if len(labelled) < 2 or len(cases.classes) < 2:
        return []
    if cv is None or isinstance(cv, (int, np.integer)):
        k = 5 if cv is None else int(cv)
        if len(labelled) < 2 * k:
            warnings.warn(
                f"{len(labelled)} labelled rows are too few to judge models by in {k} folds: the only member is naive "
                "Bayes; label more rows or use fewer folds (cv)",
                stacklevel=5,
            )
            return []
        shuffled = np.random.default_rng(seed).permutation(labelled)
        by_class = shuffled[np.argsort(cases.labels[shuffled], kind="stable")]
        return [(~_mask(n, test), _mask(n, test)) for test in (by_class[f::k] for f in range(k))]
    if hasattr(cv, "split"):  # it sees the labelled rows
        y = cases.classes[cases.labels[labelled]]
        try:
            pairs = list(cv.split(np.zeros((len(y), 1)), y))
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"cv cannot split the rows: {error} Give the splits themselves, cv=list(splitter.split(X, y, groups))"
            ) from error
        found = [(_mask(n, labelled[train]) | ~is_labelled, _mask(n, labelled[test])) for train, test in pairs]
    else:
        place = np.cumsum(cases.present) - 1  # of each row given, among those that count
        found = []
        for pair in cv:
            train, test = (_mask(n, place[i][cases.present[i]]) for i in _indices(pair, len(cases.present)))
            if (train & test).any():
                raise ValueError(f"split {len(found)} of cv holds out rows that it also learns from")
            found.append((train, test & is_labelled))
    if not found:
        raise ValueError(
            "cv has no splits; give a number of folds, a splitter, or pairs of rows to learn from and test"
        )
    for number, (train, test) in enumerate(found):
        if not (train & is_labelled).any() or not test.any():
            raise ValueError(f"split {number} of cv has no labelled row to learn from, or none to hold out")
    return found


def _indices(pair: Any, n_rows: int) -> list[NDArray[np.intp]]:
    """Rows to learn from and rows to hold out, of an explicit split."""
    found = [np.asarray(rows) for rows in pair]
    found = [rows.astype(np.intp) if rows.size == 0 else rows for rows in found]
    if len(found) != 2 or any(rows.ndim != 1 or rows.dtype.kind not in "iub" for rows in found):
        raise ValueError(
            "cv must be a number, a splitter, or pairs of integer arrays: rows to learn from, rows to hold out"
        )
    found = [np.flatnonzero(rows) if rows.dtype.kind == "b" else rows for rows in found]
    if any(rows.size and not -n_rows <= rows.min() <= rows.max() < n_rows for rows in found):
        raise ValueError(f"a split of cv names a row that is not there; there are {n_rows}")
    return found


def _mask(n: int, index: NDArray[Any]) -> Mask:
    mask = np.zeros(n, dtype=bool)
    mask[index] = True
    return mask
