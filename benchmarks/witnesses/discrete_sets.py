"""Ten discrete tables without holes that anyone can make: scikit-learn's own, binned, and generated ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

from fanbayes import MDLPDiscretizer


@dataclass(frozen=True)
class DiscreteSet:
    """Codes 0, 1, ... of columns with at least two levels; all levels occur.

    Attributes
    ----------
    codes : int (n_rows, n_columns)
    labels : int (n_rows,)
    """

    codes: NDArray[np.int64]
    labels: NDArray[np.int64]

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return [f"x{j}" for j in range(self.codes.shape[1])]

    @property
    def n_levels(self) -> list[int]:
        """Number of levels of each column."""
        return [int(n) for n in self.codes.max(axis=0) + 1]

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return int(self.labels.max()) + 1


def dense(codes: NDArray[np.int64], labels: NDArray[np.int64]) -> DiscreteSet:
    """A set of codes as they occur, without columns of one level."""
    columns = [np.unique(column, return_inverse=True)[1] for column in codes.T]
    return DiscreteSet(np.column_stack([c for c in columns if c.max() > 0]), labels)


def _binned(load: Callable[..., tuple[NDArray[np.float64], NDArray[np.int64]]]) -> DiscreteSet:
    X, y = load(return_X_y=True)
    return dense(MDLPDiscretizer().fit(X, y).transform(X).astype(np.int64), y)


def _tree(n_rows: int, n_columns: int, n_levels: int, n_classes: int, seed: int) -> DiscreteSet:
    """Rows in which each feature depends on the class and, most of the time, on an earlier feature.

    The stream of `RandomState` is the same for ever.
    """
    rng = np.random.RandomState(seed)
    labels = rng.randint(n_classes, size=n_rows)
    codes = np.empty((n_rows, n_columns), dtype=np.int64)
    for j in range(n_columns):
        parent = codes[:, rng.randint(j)] if j else labels
        shift = rng.randint(n_levels, size=n_classes)
        copied = rng.random_sample(n_rows) < rng.uniform(0.3, 0.7)
        codes[:, j] = np.where(copied, parent + shift[labels], rng.randint(n_levels, size=n_rows)) % n_levels
    return dense(codes, labels)


SETS: dict[str, Callable[[], DiscreteSet]] = {
    "iris": partial(_binned, load_iris),
    "wine": partial(_binned, load_wine),
    "breast_cancer": partial(_binned, load_breast_cancer),
    "digits": partial(_binned, load_digits),
    "two classes": partial(_tree, 500, 8, 3, 2, 1),
    "few rows": partial(_tree, 60, 6, 3, 2, 2),
    "many rows": partial(_tree, 5000, 10, 4, 3, 3),
    "many columns": partial(_tree, 400, 40, 2, 2, 4),
    "many levels": partial(_tree, 2000, 6, 20, 2, 5),
    "many classes": partial(_tree, 1500, 8, 3, 12, 6),
}
