"""What a plan and a report need to know of a dataset."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import narwhals as nw
import numpy as np

from fanbayes.files.dataset import Dataset, DatasetError

Version: TypeAlias = Literal["raw", "discretised"]


@dataclass(frozen=True)
class Card:
    """Facts of a dataset.

    Attributes
    ----------
    n_labelled : int
        Rows with a label; the others are learnt from but not predicted.
    smallest_class : int
        Rows of the rarest class.
    donor_split : bool
        Whether the donors have set a test part aside.
    sha256 : str
        Of names, values and labels.
    """

    name: str
    n_rows: int
    n_labelled: int
    n_discrete: int
    n_continuous: int
    n_classes: int
    smallest_class: int
    donor_split: bool
    group: str | None
    sha256: str

    @property
    def kind(self) -> str:
        """What its features are: discrete, continuous or mixed."""
        if self.n_discrete and self.n_continuous:
            return "mixed"
        return "continuous" if self.n_continuous else "discrete"

    @property
    def versions(self) -> tuple[Version, ...]:
        """A dataset with continuous features is used both as it is and discretised."""
        return ("raw", "discretised") if self.n_continuous else ("raw",)

    @property
    def n_values(self) -> int:
        """Rows x columns."""
        return self.n_rows * (self.n_discrete + self.n_continuous)

    def n_parts(self, n_folds: int) -> int:
        """Parts that are tested one after the other; the donors' test part is the only one where there is one."""
        return 1 if self.donor_split else min(n_folds, self.n_labelled)


def describe(dataset: Dataset) -> Card:
    """Look at a dataset once."""
    labels = [label for label in dataset.y if label is not None]
    if not labels:
        raise DatasetError(f"dataset {dataset.name!r} has no labels: name the column of the classes.")
    if dataset.split is not None and {*dataset.split[dataset.labelled]} != {"train", "test"}:
        raise DatasetError(f"dataset {dataset.name!r} needs labelled rows both to train and to test on.")
    counts = np.unique(labels, return_counts=True)[1]
    n_continuous = sum(kind == "continuous" for kind in dataset.kinds.values())
    return Card(
        name=dataset.name,
        n_rows=len(dataset.y),
        n_labelled=len(labels),
        n_discrete=len(dataset.kinds) - n_continuous,
        n_continuous=n_continuous,
        n_classes=len(counts),
        smallest_class=int(counts.min()),
        donor_split=dataset.split is not None,
        group=dataset.group,
        sha256=_fingerprint(dataset),
    )


def _fingerprint(dataset: Dataset) -> str:
    """Digest that does not depend on the data-frame library."""
    digest = hashlib.sha256()
    frame = nw.from_native(dataset.X, eager_only=True)
    for name, kind in dataset.kinds.items():
        digest.update(f"\n{name}\n{kind}\n".encode())
        if kind == "continuous":
            digest.update(np.ascontiguousarray(frame[name].to_numpy(), np.float64).tobytes())
        else:
            digest.update(_text(frame[name].to_list()))
    digest.update(_text(dataset.y))
    digest.update(_text([] if dataset.split is None else dataset.split))
    return digest.hexdigest()


def _text(values: Iterable[object]) -> bytes:
    return "\n".join(f"={value}" if isinstance(value, str) else "" for value in values).encode()
