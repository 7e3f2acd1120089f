"""Files as frames of Dask, whose workers read them: each column is taken for what it is in batches (`tables`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np

from fanbayes.data.batches import reason_of
from fanbayes.files.columns import Column, Roles, frame_column, frame_of
from fanbayes.files.formats import text_files
from fanbayes.files.tables import BatchTable, FrameBatches
from fanbayes.files.text import STDIN, DatasetError
from fanbayes.files.text_columns import TextBatches

_INSTALL = "pip install 'fanbayes[dask]'"
_SECONDS = 10  # until a scheduler that does not answer is given up


@contextmanager
def client(address: str) -> Iterator[None]:
    """Within it, frames of Dask are computed by the workers of a scheduler."""
    try:
        from distributed import Client
    except ImportError:
        raise DatasetError(f"--dask needs dask: {_INSTALL}.") from None
    try:
        connected = Client(address, timeout=_SECONDS)
    except (OSError, ValueError, TypeError) as error:
        raise DatasetError(f"no scheduler of Dask answers at {address}: {reason_of(error)}.") from None
    with connected:
        yield


def dask_frame(table: BatchTable, separator: str | None, encoding: str | None) -> Any:
    """A table as a frame of Dask; workers find its files under the same names.

    Parameters
    ----------
    table : BatchTable
    separator, encoding : of text files
    """
    import dask.dataframe as dd

    found = table.found
    if found is None or found.paths[0] is STDIN or found.kind == "Arrow":
        raise DatasetError(f"--dask reads files that its workers see: write {table.name} to Parquet or CSV first.")
    batches = table.batches
    if isinstance(batches, FrameBatches):
        names = [str(path.resolve()) for path in found.paths]
        frame = dd.read_parquet(names, columns=batches.columns, aggregate_files=False)
        read = partial(_typed, roles=batches.roles, names=batches.columns)
        return frame.map_partitions(read, meta=read(frame._meta), enforce_metadata=False)
    assert isinstance(batches, TextBatches)
    files, roles = batches.files, batches.roles
    settings = (tuple(files.missing), separator, encoding, files.decimal)
    read = partial(_read, roles=roles, settings=settings, classes=dict(batches.classes), names=batches.columns)
    nothing = {"discrete": np.empty(0, object), "continuous": np.empty(0)}
    kinds = {name: roles.kind(name) or "discrete" for name in batches.columns}
    meta = frame_of({name: Column(kind, "", nothing[kind]) for name, kind in kinds.items()}, "pandas")
    return dd.from_map(read, [str(path.resolve()) for path in found.paths], meta=meta, enforce_metadata=False)


def _typed(frame: Any, roles: Roles, names: list[str]) -> Any:
    """A partition of Parquet, on a worker."""
    columns = nw.from_native(frame, eager_only=True)
    return frame_of({name: frame_column(columns[name], name, roles) for name in names}, "pandas")


def _read(path: str, roles: Roles, settings: tuple[Any, ...], classes: dict[str, str], names: list[str]) -> Any:
    """A text file, on a worker."""
    files = text_files([Path(path)], *settings)
    assert files is not None
    frames = [batch.frame for batch in TextBatches(files, roles, names, 1 << 30, classes, "pandas")]
    nothing = frame_of({name: Column("discrete", "", np.empty(0, object)) for name in names}, "pandas")
    return nw.concat(frames).to_native() if frames else nothing
