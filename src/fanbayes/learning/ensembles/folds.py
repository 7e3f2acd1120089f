"""Cases to learn from and cases to judge by.

A split is a pair of weights of the rows: as how many cases each is learnt from, and as how many it is held out. Folds
depend on what the rows contain and on their weights, so that a row of weight 2 is the row twice, in any order:

- Where a number is seldom the same in rows that differ, repeated rows are taken for copies of one case: what is learnt
  from a copy would know the row held out. They are held out together.
- Other repeated rows are cases that happen to be alike: they are dealt out over the folds by chance.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fanbayes.arrays import AnyInts, Floats
from fanbayes.data.table import EncodedTable

Split = tuple[Floats, Floats]

# Cases that are dealt out one by one; of more, several at a time.
MOST_CASES = 1 << 20
# Repeated rows are copies if a number has more different values than this share of the rows that differ.
SELDOM_THE_SAME = 0.5


def repeats_are_copies(table: EncodedTable) -> bool:
    """Whether equal rows are taken for copies of one case, not for cases that happen to be alike.

    It does not depend on how often rows are repeated, as that may be said by their weight. Of rows of a single column
    it cannot be known: they differ if their values do.
    """
    if table.narrow.shape[1] + table.wide.shape[1] + table.numbers.shape[1] == 1:
        return False
    _, first = np.unique(table.fingerprint, return_index=True)
    known = (x[~np.isnan(x)] for x in table.numbers[first].T)
    return any(len(np.unique(x)) > SELDOM_THE_SAME * len(x) for x in known)


def deal(
    labels: AnyInts, weights: Floats, table: EncodedTable, n_folds: int, seed: int, groups: AnyInts | None
) -> tuple[float, Floats]:
    """Number of cases to deal out, and the share of each row that each fold holds out (n_folds, n_rows).

    Parameters
    ----------
    labels, weights : (n_rows,), all labelled
    table : the rows, columns as they are
    groups : int (n_rows,) or None, rows of a group are held out together
    """
    rng = np.random.default_rng(seed)
    key = _scattered(table.fingerprint, rng)  # equal for equal rows, in another order for every seed
    if groups is None and not repeats_are_copies(table):
        return float(weights.sum()), _dealt(labels, weights, key, n_folds, rng)
    _, group = np.unique(key if groups is None else groups, return_inverse=True)
    fold = _fold_of_groups(group, labels, weights, key, n_folds, rng)
    return len(fold), (fold[group] == np.arange(n_folds)[:, None]).astype(np.float64)


def _dealt(labels: AnyInts, weights: Floats, key: AnyInts, n_folds: int, rng: np.random.Generator) -> Floats:
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
    part = np.maximum(part, np.finfo(float).tiny)  # also of what weighs less than the rounding of others' weights
    row = order[place]
    cases, case = np.unique(kind[row] * (MOST_CASES + 1) + number, return_inverse=True)
    case_kind, case_number = np.divmod(cases, MOST_CASES + 1)
    shuffled = _scattered(kinds[case_kind] * np.int64(2**31) + case_number, rng)
    fold = np.empty(len(cases), dtype=np.intp)
    fold[np.lexsort((shuffled, kinds[case_kind] >> 32))] = np.arange(len(fold)) % n_folds
    share = np.zeros((n_folds, len(labels)))
    np.add.at(share, (fold[case], row), part)
    return np.asarray(share / share.sum(axis=0))


def _scattered(numbers: AnyInts, rng: np.random.Generator) -> NDArray[np.uint32]:
    """Other numbers, equal where the numbers are, in an order that depends on the generator."""
    mixed = numbers.astype(np.uint64)
    for _ in range(3):
        mixed ^= mixed >> np.uint64(29)
        mixed *= rng.integers(2**63, dtype=np.uint64) | np.uint64(1)
    return (mixed >> np.uint64(32)).astype(np.uint32)


def _fold_of_groups(
    group: AnyInts, labels: AnyInts, weights: Floats, key: AnyInts, n_folds: int, rng: np.random.Generator
) -> AnyInts:
    """Fold of each group (n_groups,): those of a class, the heaviest of the group's, dealt out by weight."""
    n_groups, n_classes = int(group.max()) + 1, int(labels.max()) + 1
    pair, pair_of = np.unique(group.astype(np.int64) * n_classes + labels, return_inverse=True)
    mass = np.bincount(pair_of, weights)
    heaviest_first = np.lexsort((pair % n_classes, -mass, pair // n_classes))
    _, first = np.unique(pair[heaviest_first] // n_classes, return_index=True)
    stratum = pair[heaviest_first][first] % n_classes
    kinds, kind = np.unique([group, labels, key], axis=1, return_inverse=True)
    total = np.rint(np.minimum(1e6 * np.bincount(kind.ravel(), weights), 2.0**60)).astype(np.int64)
    digest = _scattered(_scattered(kinds[2], rng) + 3 * _scattered(kinds[1], rng) + 5 * total, rng)
    content = np.zeros(n_groups, dtype=np.uint64)  # equal for groups of equal rows
    np.add.at(content, kinds[0], digest.astype(np.uint64))
    fold = np.empty(n_groups, dtype=np.intp)
    order = np.lexsort((content, -np.bincount(group, weights), stratum))
    fold[order] = np.arange(n_groups) % n_folds
    return fold
