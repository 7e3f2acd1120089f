"""What `cv` and `groups` say about the rows: which are learnt from and which are held out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fanbayes.arrays import Floats, Ints, Mask
from fanbayes.data.table import EncodedTable
from fanbayes.data.views import TrainingTable
from fanbayes.data.warning import warn
from fanbayes.learning.ensembles.folds import Split, deal

# Of more cases members are fitted once, to all of them, and judged in three folds.
ONE_FIT_ABOVE = 5_000
# Up to so many cases are dealt out to the folds twice: how they fall is chance, of which the mean has less.
DEALT_TWICE = 1_000
# A sample that is judged on has so many labelled rows and so many others.
MOST_JUDGED = 20_000
# Rows times columns times classes above which they are fewer, but never fewer than ONE_FIT_ABOVE.
MOST_WORK = 3_000_000
# Of tables up to so many times as large all rows are: that takes no longer than to grow trees on the rest once more.
WHOLE = 2.5


class Labelled(Protocol):
    """Classes, labels and weights of rows, and which of the rows given count: `Cases`, or those of a sample."""

    @property
    def classes(self) -> NDArray[Any]: ...  # noqa: D102
    @property
    def labels(self) -> NDArray[np.int32]: ...  # noqa: D102
    @property
    def weights(self) -> Floats | None: ...  # noqa: D102
    @property
    def present(self) -> NDArray[np.bool_]: ...  # noqa: D102


@dataclass(frozen=True)
class SomeRows:
    """Rows of a sample, all of which count."""

    classes: NDArray[Any]
    rows: TrainingTable

    @property
    def labels(self) -> NDArray[np.int32]:
        """(n_rows,), -1 where unlabelled."""
        return self.rows.labels

    @property
    def weights(self) -> Floats | None:
        """(n_rows,), or None where all are 1."""
        return self.rows.table.weights

    @property
    def present(self) -> NDArray[np.bool_]:
        """(n_rows,)."""
        return np.ones(self.rows.table.n_rows, dtype=bool)


def split_rows(
    cv: Any,
    cases: Labelled,
    table: EncodedTable,
    seed: int,
    groups: NDArray[Any] | None = None,
    otherwise: str = "the only member is naive Bayes; label more rows, or, in Python, use fewer folds (cv)",
) -> list[Split]:
    """Weights (n_rows,) of the rows to learn from and of the labelled rows to hold out; none if nothing can be judged.

    Unlabelled rows are learnt from in every fold, unless the splits are given row by row.

    Parameters
    ----------
    cv : number of folds, splitter, or pairs of indices or masks
    table : the rows, columns as they are
    groups : (n_rows,), rows of a group are held out together
    otherwise : what follows if the cases are too few, and the remedy, for the warning
    """
    weights = np.ones(len(cases.labels)) if cases.weights is None else cases.weights
    labelled = np.flatnonzero(cases.labels >= 0)
    if len(labelled) < 2 or len(cases.classes) < 2:
        return []
    if cv is None or isinstance(cv, (int, np.integer)):
        n_folds = 5 if cv is None else int(cv)
        some = (cases.labels[labelled], weights[labelled], table.only(labelled))
        n_units, share = deal(*some, n_folds, seed, None if groups is None else groups[labelled])
        if n_units < 2 * n_folds:
            what = "labelled cases are" if groups is None else "groups of labelled rows (groups) are"
            said = f"{n_units:g} {what} too few to judge models by in {n_folds} folds, two for each: {otherwise}"
            warn(UserWarning(said))
            return []
        held_out = np.zeros((n_folds, len(weights)))
        held_out[:, labelled] = share * weights[labelled]
        return [(weights - w, w) for w in held_out]
    found = _splits_given(cv, cases, labelled, groups)
    if not found:
        raise ValueError(
            "cv has no splits; give a number of folds, a splitter, or pairs of rows to learn from and test"
        )
    is_labelled = cases.labels >= 0
    for number, (train, test) in enumerate(found):
        if not (train & is_labelled).any() or not (test & is_labelled).any():
            raise ValueError(f"split {number} of cv has no labelled row to learn from, or none to hold out")
    return [(weights * train, weights * (test & is_labelled)) for train, test in found]


def units_of(
    cv: Any, cases: Labelled, rows: TrainingTable, seed: int, groups: Ints | None
) -> tuple[TrainingTable, Ints | None, list[tuple[Split, int]]]:
    """Rows to judge candidates on, their groups, and splits of them, each with the seed of what is learnt from it.

    Where `cv` is None, of many rows a sample is judged on. How they are dealt out does not depend on indicators.
    """
    if cv is not None:
        return rows, groups, [(split, seed) for split in split_rows(cv, cases, rows.without_indicators, seed, groups)]
    n_columns = max(1, len(rows.schema.columns))
    most = min(MOST_JUDGED, max(ONE_FIT_ABOVE, MOST_WORK // (n_columns * len(cases.classes))))
    n_labelled = int((cases.labels >= 0).sum())
    if len(cases.labels) > WHOLE * most:
        order = np.random.default_rng(seed).permutation(len(cases.labels))
        is_labelled = cases.labels[order] >= 0
        some = np.sort(np.concatenate([order[is_labelled][:most], order[~is_labelled][:most]]))
        rows, groups = rows.only(some), None if groups is None else groups[some]
        cases = SomeRows(cases.classes, rows)
        if n_labelled > most:
            n_folds, n_units = (4, 1) if groups is None else (3, 3)  # groups may be few, and each tells of itself
            dealt = split_rows(n_folds, cases, rows.without_indicators, seed, groups)
            return rows, groups, [(split, seed) for split in dealt[:n_units]]
    table = rows.without_indicators
    n_cases = max(n_labelled, table.labelled_only().total_weight)  # however little each weighs
    n_folds = 5 if n_cases <= ONE_FIT_ABOVE else 3
    units = [(split, seed) for split in split_rows(n_folds, cases, table, seed, groups)]
    if units and n_cases <= DEALT_TWICE:
        units += [(split, seed + 1) for split in split_rows(n_folds, cases, table, seed + 1, groups)]
    return rows, groups, units


def read_groups(groups: Any, cases: Labelled) -> NDArray[np.intp] | None:
    """Number of the group of each row that counts (n_rows,)."""
    if groups is None:
        return None
    found = np.array(groups, dtype=object) if isinstance(groups, (list, tuple)) else np.asarray(groups)
    if found.shape != cases.present.shape:
        raise ValueError(f"groups has shape {found.shape}; it takes one entry for each of {len(cases.present)} rows")
    known: dict[Any, int] = {}
    numbers = np.array([known.setdefault(g, len(known)) for g in found[cases.present].tolist()], dtype=np.intp)
    if any(g is None or g != g for g in known):
        raise ValueError("groups has missing entries; give every row a group, a row on its own one of its own")
    return numbers


def _splits_given(cv: Any, cases: Labelled, labelled: Ints, groups: Ints | None) -> list[tuple[Mask, Mask]]:
    """Rows to learn from and rows to hold out, of a splitter or of splits given row by row."""
    n = len(cases.labels)
    if hasattr(cv, "split"):  # it sees the labelled rows
        y = cases.classes[cases.labels[labelled]]
        try:
            pairs = list(cv.split(np.zeros((len(y), 1)), y, None if groups is None else groups[labelled]))
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"cv cannot split the rows: {error} Give fit its groups=, or the splits themselves, "
                "cv=list(splitter.split(X, y))"
            ) from error
        unlabelled = cases.labels < 0
        return [(_mask(n, labelled[train]) | unlabelled, _mask(n, labelled[test])) for train, test in pairs]
    place = np.cumsum(cases.present) - 1  # of each row given, among those that count
    found: list[tuple[Mask, Mask]] = []
    for pair in cv:
        train, test = (_mask(n, place[i][cases.present[i]]) for i in _indices(pair, len(cases.present)))
        if (train & test).any():
            raise ValueError(f"split {len(found)} of cv holds out rows that it also learns from")
        found.append((train, test))
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
