"""Datasets of a folder given by --data, for the benchmarks that need real ones."""

from __future__ import annotations

import os
from collections.abc import Iterator

from fanbayes import datasets


def folder() -> str | None:
    """The folder, or None: then the benchmark is left out."""
    return os.environ.get("FANBAYES_DATA")


def load(names: list[str] | None = None, least_rows: int = 0) -> Iterator[datasets.Dataset]:
    """Datasets one after the other, all or those named."""
    where = folder()
    if where is None:
        return
    suite = datasets.load_suite(where)
    for name in names or sorted(suite):
        data = suite[name]
        if len(data.y) >= least_rows:
            yield data
