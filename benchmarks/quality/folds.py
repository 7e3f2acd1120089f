"""Which rows are tested together, and which half of the benchmark a dataset belongs to.

Both are the same for all methods and need no record: they follow from the dataset alone.
"""

from __future__ import annotations

import warnings
from hashlib import sha256
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold, train_test_split

from fanbayes.datasets import Dataset

Half = Literal["development", "report"]

# Most rows with which a dataset gets so many folds; larger ones are split once.
N_FOLDS = {1_000: 10, 5_000: 5, 15_000: 3}

# Of datasets with more cells than this only the first folds are tested, to keep the benchmark within hours.
MOST_CELLS = 100_000
FIRST_FOLDS = 3


def half(dataset: Dataset) -> Half:
    """Half by the parity of a hash of the related group, or of the name: related sets are never divided."""
    first = sha256((dataset.group or dataset.name).encode()).digest()[0]
    return "development" if first % 2 == 0 else "report"


def folds(dataset: Dataset) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Rows trained on and rows tested, for each fold."""
    rows = np.arange(len(dataset.y))
    for most, n_folds in N_FOLDS.items():
        if len(rows) <= most:
            splitter = StratifiedKFold(n_folds, shuffle=True, random_state=0)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a class with fewer members than folds
                found = list(splitter.split(rows, dataset.y))
            return found[:FIRST_FOLDS] if len(rows) * len(dataset.kinds) > MOST_CELLS else found
    if dataset.split is not None:
        return [(rows[dataset.split == "train"], rows[dataset.split == "test"])]
    return [tuple(train_test_split(rows, test_size=1 / 3, stratify=dataset.y, random_state=0))]
