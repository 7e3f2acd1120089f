"""Which rows of a dataset are tested together."""

from __future__ import annotations

from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from fanbayes.files.dataset import Dataset


def folds(dataset: Dataset, n_folds: int, seed: int) -> NDArray[np.intp]:
    """Part in which each row is tested (n_rows,), -1 where it always trains.

    The donors' test part is the only one where there is one. Otherwise the rows of each class are shuffled and
    dealt out in turn, each class beginning where the one before it ended: the parts differ by one row at most,
    and so do the rows of any class in them. Unlabelled rows always train.
    """
    part = np.full(len(dataset.y), -1, dtype=np.intp)
    if dataset.split is not None:
        part[dataset.labelled & (dataset.split == "test")] = 0
        return part
    rng = np.random.default_rng([seed, crc32(dataset.name.encode())])
    dealt = np.concatenate([rng.permutation(np.flatnonzero(dataset.y == label)) for label in dataset.classes])
    part[dealt] = np.arange(len(dealt)) % min(n_folds, len(dealt))
    return part
