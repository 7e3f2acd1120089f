"""Arrays in memory or in temporary files: the same arrays."""

import errno
import os
import subprocess
import sys
import tempfile

import numpy as np
import pytest

from fanbayes.data import storage
from fanbayes.data.storage import MEMORY, OnDisk, pieces, reserve, taken


def on_disk(array):
    return isinstance(array.base, np.memmap)


def test_an_array_on_disk_is_an_array(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    found = OnDisk().empty((1000, 3), np.float64)
    assert on_disk(found)
    assert type(found) is np.ndarray
    found[:] = 1.5
    assert found[:100].sum() == 450
    assert not list(tmp_path.iterdir())  # it has no name, so nothing can be left over


def test_small_and_empty_arrays_are_in_memory():
    assert not on_disk(OnDisk(least=800).empty((99,), np.float64))
    assert on_disk(OnDisk(least=800).empty((100,), np.float64))
    assert OnDisk(least=0).empty((5, 0), np.uint8).shape == (5, 0)
    assert not on_disk(MEMORY.empty((100,), np.float64))


def test_rows_by_mask_and_by_number(monkeypatch):
    monkeypatch.setattr(storage, "ROWS_AT_ONCE", 7)
    rng = np.random.default_rng(0)
    values, mask, order = rng.normal(size=(50, 2)), rng.random(50) < 0.4, rng.permutation(50)[:33]
    for keep in (mask, order, np.zeros(50, dtype=bool)):
        for where in (MEMORY, OnDisk()):
            np.testing.assert_array_equal(taken(values, keep, where), values[keep])


def test_pieces_cover_all_rows(monkeypatch):
    monkeypatch.setattr(storage, "ROWS_AT_ONCE", 7)
    assert [(p.start, p.stop) for p in pieces(16)] == [(0, 7), (7, 14), (14, 16)]
    assert list(pieces(0)) == []


def test_no_room_is_one_sentence(tmp_path, monkeypatch):
    def full(file, n_bytes):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(storage, "reserve", full)
    with pytest.raises(OSError, match=rf"8,000 bytes .* in {tmp_path} \(No space left.*TMPDIR.*memory=") as caught:
        OnDisk().empty((1000,), np.float64)
    assert caught.value.errno == errno.ENOSPC
    assert not list(tmp_path.iterdir())


LIMITED = """
import resource, numpy as np
from fanbayes.data.storage import OnDisk
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
some = OnDisk().empty((1 << 17,), np.float64)
some[:] = 1.0
try:
    OnDisk().empty((1 << 20,), np.float64)
except OSError as error:
    print(some.sum(), error)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="limits of processes")
def test_a_limit_of_the_system_is_an_error_before_anything_is_written():
    found = subprocess.run([sys.executable, "-c", LIMITED], capture_output=True, text=True, check=True)
    assert found.stdout.startswith("131072.0 [Errno")
    assert "8,388,608 bytes for encoded rows cannot be had in" in found.stdout


def test_space_is_reserved_where_the_system_has_no_call_for_it(tmp_path, monkeypatch):
    monkeypatch.delattr(os, "posix_fallocate", raising=False)
    with (tmp_path / "file").open("wb") as file:
        reserve(file, (1 << 20) + 10)
    assert (tmp_path / "file").stat().st_size == (1 << 20) + 10
