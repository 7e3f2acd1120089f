"""Where arrays that are as long as a table lie: in memory, or in temporary files that are mapped into it.

A mapped array is an array like any other. Its pages belong to the system, which writes them to disk and reads them
again as memory is needed. The file has no name, so it is gone with the process, however that ends. Its space is
reserved before it is used: a full disk is an error here, not the end of the process later.
"""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

# Rows that are worked on at once where an array may be longer than memory.
ROWS_AT_ONCE = 65_536

_ZEROS = bytes(1 << 20)


class Storage(Protocol):
    """Makes arrays."""

    def empty(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """An array whose content is yet to be written."""


@dataclass(frozen=True)
class InMemory:
    """Arrays in memory."""

    def empty(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """An array whose content is yet to be written."""
        return np.empty(shape, dtype)


MEMORY = InMemory()


@dataclass(frozen=True)
class OnDisk:
    """Arrays in the system's folder for temporary files, which the environment variable TMPDIR names.

    Attributes
    ----------
    least : arrays of fewer bytes are in memory
    """

    least: int = 1

    def empty(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """An array whose content is yet to be written.

        Raises
        ------
        OSError
            If there is no room for it.
        """
        n_bytes = math.prod(shape) * np.dtype(dtype).itemsize
        if n_bytes < max(1, self.least):
            return np.empty(shape, dtype)
        folder = tempfile.gettempdir()
        try:
            with tempfile.TemporaryFile(dir=folder) as file:
                reserve(file, n_bytes)
                # A plain array over the map, which it keeps: subclasses are slow to take pieces of.
                return np.asarray(np.memmap(file, dtype, "r+", shape=shape))
        except OSError as error:
            raise OSError(
                error.errno,
                f"{n_bytes:,} bytes for encoded rows cannot be had in {folder} ({error.strerror}); make room there, "
                "name another folder by the environment variable TMPDIR, or allow more memory (memory=)",
            ) from error


def reserve(file: IO[bytes], n_bytes: int) -> None:
    """Make a file as long, and its space its own."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file.fileno(), 0, n_bytes)
        return
    for at in range(0, n_bytes, len(_ZEROS)):  # on systems without it
        file.write(_ZEROS[: n_bytes - at])
    file.flush()


def pieces(n_rows: int) -> Iterator[slice]:
    """Rows in pieces, so that nothing else as long as the table is needed."""
    return (slice(at, min(at + ROWS_AT_ONCE, n_rows)) for at in range(0, n_rows, ROWS_AT_ONCE))


def taken(values: NDArray[Any], keep: NDArray[Any], storage: Storage) -> NDArray[Any]:
    """Some of the rows of an array, by a mask or in the order given."""
    if storage is MEMORY:
        return np.asarray(values[keep])
    is_mask = keep.dtype == bool
    found = storage.empty((int(np.count_nonzero(keep)) if is_mask else len(keep), *values.shape[1:]), values.dtype)
    at = 0
    for piece in pieces(len(keep)):
        some = values[piece][keep[piece]] if is_mask else values[keep[piece]]
        found[at : at + len(some)] = some
        at += len(some)
    return found
