"""Cases to learn from and cases to judge by.

A split is a pair of weights of the rows: as how many cases each is learnt from, and as how many it is held out. Folds
depend on what the rows contain and on their weights, so that a row of weight 2 is the row twice, in any order:

- Repeated rows that have continuous columns are taken for copies of one case: what is learnt from a copy would know
  the row held out. They are held out together.
- Repeated rows of discrete columns are cases that happen to be alike: they are dealt out over the folds by chance.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fanbayes.data.table import EncodedTable
from fanbayes.estimators.tabular import Cases

Floats = NDArray[np.float64]
Ints = NDArray[np.integer[Any]]
Mask = NDArray[np.bool_]
Split = tuple[Floats, Floats]

# Cases that are dealt out one by one; of more, several at a time.
MOST_CASES = 1 << 20


def split_rows(
    cv: Any, cases: Cases, table: EncodedTable, seed: int, groups: NDArray[Any] | None = None
) -> list[Split]:
    """Weights (n_rows,) of the rows to learn from and of the labelled rows to hold out; none if nothing can be judged.

    Unlabelled rows are learnt from in every fold, unless the splits are given row by row.

    Parameters
    ----------
    cv : number of folds, splitter, or pairs of indices or masks
    table : the rows, columns as they are
    groups : (n_rows,), rows of a group are held out together
    """
    weights = np.ones(len(cases.labels)) if cases.weights is None else cases.weights
    labelled = np.flatnonzero(cases.labels >= 0)
    if len(labelled) < 2 or len(cases.classes) < 2:
        return []
    if cv is None or isinstance(cv, (int, np.integer)):
        n_folds = 5 if cv is None else int(cv)
        some = (cases.labels[labelled], weights[labelled], table.only(labelled))
        n_units, share = _folds(*some, n_folds, seed, None if groups is None else groups[labelled])
        if n_units < 2 * n_folds:
            warnings.warn(
                f"{n_units:g} labelled cases are too few to judge models by in {n_folds} folds: the only member is "
                "naive Bayes; label more rows or use fewer folds (cv)",
                stacklevel=5,
            )
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


def read_groups(groups: Any, cases: Cases) -> NDArray[np.intp] | None:
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


def _folds(
    labels: Ints, weights: Floats, table: EncodedTable, n_folds: int, seed: int, groups: Ints | None
) -> tuple[float, Floats]:
    """Number of cases to deal out, and the share of each row that each fold holds out (n_folds, n_rows)."""
    rng = np.random.default_rng(seed)
    key = _scattered(table.fingerprint, rng)  # equal for equal rows, in another order for every seed
    if groups is None and not table.layout.n_numbers:
        return float(weights.sum()), _dealt(labels, weights, key, n_folds, rng)
    _, group = np.unique(key if groups is None else groups, return_inverse=True)
    fold = _fold_of_groups(group, labels, weights, key, n_folds, rng)
    return len(fold), (fold[group] == np.arange(n_folds)[:, None]).astype(np.float64)


def _dealt(labels: Ints, weights: Floats, key: Ints, n_folds: int, rng: np.random.Generator) -> Floats:
    """Share of each row in each fold (n_folds, n_rows): the cases of a class, shuffled and dealt like cards.

    Equal rows together are a line of as many cases as they weigh, whose k-th case is shuffled by the content of the
    rows and k. Were equal cases dealt out evenly instead of by chance, no fold would differ from the others,
    and nothing would look overfitted.
    """
    kinds, kind = np.unique(labels.astype(np.int64) << 32 | key.astype(np.int64), return_inverse=True)
    order = np.argsort(kind, kind="stable")
    end = np.cumsum(weights[order])
    before_kind = np.concatenate([[0.0], np.cumsum(np.bincount(kind, weights))])[kind[order]]
    size = max(1.0, end[-1] / MOST_CASES)
    begin, finish = (end - weights[order] - before_kind) / size, (end - before_kind) / size
    first = np.floor(begin + 1e-9).astype(np.int64)  # no slivers by rounding
    n_each = np.maximum(1, np.ceil(finish - 1e-9).astype(np.int64) - first)
    place = np.repeat(np.arange(len(order)), n_each)  # a row for each case that it has a part of
    number = first[place] + np.arange(len(place)) - np.repeat(np.cumsum(n_each) - n_each, n_each)
    part = np.minimum(finish[place], number + 1) - np.maximum(begin[place], number)
    row = order[place]
    cases, case = np.unique(kind[row] * (MOST_CASES + 1) + number, return_inverse=True)
    case_kind, case_number = np.divmod(cases, MOST_CASES + 1)
    shuffled = _scattered(kinds[case_kind] * np.int64(2**31) + case_number, rng)
    fold = np.empty(len(cases), dtype=np.intp)
    fold[np.lexsort((shuffled, kinds[case_kind] >> 32))] = np.arange(len(fold)) % n_folds
    share = np.zeros((n_folds, len(labels)))
    np.add.at(share, (fold[case], row), part)
    return np.asarray(share / share.sum(axis=0))


def _scattered(numbers: Ints, rng: np.random.Generator) -> NDArray[np.uint32]:
    """Other numbers, equal where the numbers are, in an order that depends on the generator."""
    mixed = numbers.astype(np.uint64)
    for _ in range(3):
        mixed ^= mixed >> np.uint64(29)
        mixed *= rng.integers(2**63, dtype=np.uint64) | np.uint64(1)
    return (mixed >> np.uint64(32)).astype(np.uint32)


def _fold_of_groups(
    group: Ints, labels: Ints, weights: Floats, key: Ints, n_folds: int, rng: np.random.Generator
) -> Ints:
    """Fold of each group (n_groups,): those of a class, the heaviest of the group's, dealt out by weight."""
    n_groups, n_classes = int(group.max()) + 1, int(labels.max()) + 1
    pair, pair_of = np.unique(group.astype(np.int64) * n_classes + labels, return_inverse=True)
    mass = np.bincount(pair_of, weights)
    heaviest_first = np.lexsort((pair % n_classes, -mass, pair // n_classes))
    _, first = np.unique(pair[heaviest_first] // n_classes, return_index=True)
    stratum = pair[heaviest_first][first] % n_classes
    kinds, kind = np.unique([group, labels, key], axis=1, return_inverse=True)
    total = np.rint(1e6 * np.bincount(kind.ravel(), weights)).astype(np.int64)
    digest = _scattered(_scattered(kinds[2], rng) + 3 * _scattered(kinds[1], rng) + 5 * total, rng)
    content = np.zeros(n_groups, dtype=np.uint64)  # equal for groups of equal rows
    np.add.at(content, kinds[0], digest.astype(np.uint64))
    fold = np.empty(n_groups, dtype=np.intp)
    order = np.lexsort((content, -np.bincount(group, weights), stratum))
    fold[order] = np.arange(n_groups) % n_folds
    return fold


def _splits_given(cv: Any, cases: Cases, labelled: Ints, groups: Ints | None) -> list[tuple[Mask, Mask]]:
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
