"""Files that are whole or as they were, whatever happens while they are written.

Everything that the library and the program write goes through `write_file`, or through `append_line` where lines
are added to what is there.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO

if sys.platform != "win32":
    import fcntl

Path = str | os.PathLike[str]

_TEMPORARY = re.compile(r"\.fanbayes-[0-9a-f]{16}\.tmp")


def write_file(path: Path, data: bytes) -> None:
    """Write a file in one step: it has the old content or the new one, and nothing else is left beside it.

    The bytes go to a temporary file in the same folder, to the disk, and take their place by a rename. Links are
    followed. A file that is replaced hands on its mode and its owner. What is no regular file (a pipe, a device, a
    descriptor such as ``/dev/stdout``) is written to as it is. Temporary files whose processes are gone are removed.

    Parameters
    ----------
    path : str or path-like
    data : bytes

    Raises
    ------
    OSError
        Of the kind that the system reports, with one sentence that names the file.
    """
    with _naming(path):
        target = _follow(os.fspath(path))
        if isinstance(target, int):
            with open(os.dup(target), "wb", buffering=0) as file:
                _write_all(file, data)
        elif os.path.exists(target) and not os.path.isfile(target):
            with open(target, "wb", buffering=0) as file:
                _write_all(file, data)
        else:
            _replace(target, data)


def append_line(path: Path, line: bytes) -> None:
    """Add a line to a file that one process at a time writes to: all of it or nothing.

    What a killed process left of its last line is dropped, so that no line is glued to another.

    Parameters
    ----------
    path : str or path-like
        Made if it is not there.
    line : bytes
        Without the line end.

    Raises
    ------
    OSError
        Of the kind that the system reports, with one sentence that names the file.
    """
    with _naming(path), open(path, "ab+", buffering=0) as file:
        end = _drop_torn_line(file)
        try:
            _write_all(file, line + b"\n")
            _require_size(file, end + len(line) + 1)
        except BaseException:
            with suppress(OSError):  # then the next call drops what was written
                file.truncate(end)
            raise


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Turn an error of the system into the same error with a sentence that names the file."""
    try:
        yield
    except OSError as error:
        named = type(error)(f"{os.fsdecode(path)} cannot be written: {error.strerror or error}")
        named.errno = error.errno
        raise named from error


def _follow(name: str) -> str | int:
    """What a path stands for, links followed: an absolute path, or a descriptor that this process has open."""
    for _ in range(40):
        folder, own = os.path.split(name)
        folder = os.path.realpath(folder)
        # A rename would part the name of a redirected output from its descriptor.
        if folder in ("/dev/fd", f"/proc/{os.getpid()}/fd") and own.isdecimal():
            return int(own)
        name = os.path.join(folder, own)
        if not os.path.islink(name):
            return name
        name = os.path.join(folder, os.readlink(name))
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))


def _replace(target: str, data: bytes) -> None:
    """Write beside a regular file, or one that is not there, then take its place."""
    folder = os.path.dirname(target)
    if not os.path.isdir(folder):
        raise FileNotFoundError(errno.ENOENT, f"there is no folder {folder}")
    old = None
    if os.path.exists(target):
        with open(target, "rb+", buffering=0) as file:  # a rename would replace what may not be written to
            old = os.fstat(file.fileno())
    _remove_stale(folder)
    with _temporary(folder) as file:
        _write_all(file, data)
        _require_size(file, len(data))
        if old is not None:
            if sys.platform != "win32":
                with suppress(PermissionError):  # only root gives files away
                    os.fchown(file.fileno(), old.st_uid, old.st_gid)
            os.chmod(file.name, stat.S_IMODE(old.st_mode))
        os.fsync(file.fileno())
        if sys.platform == "win32":
            file.close()  # an open file cannot be renamed there
        os.replace(file.name, target)


def _write_all(file: FileIO, data: bytes) -> None:
    """Write until nothing is left: the system may take a part only, for example of what fits the disk."""
    rest = memoryview(data)
    while rest:
        written = os.write(file.fileno(), rest)
        if not written:
            raise OSError(errno.EIO, "the system takes no more bytes")
        rest = rest[written:]


def _require_size(file: FileIO, size: int) -> None:
    found = os.fstat(file.fileno()).st_size
    if found != size:
        raise OSError(errno.EIO, f"{found} bytes have arrived, not {size}")


def _drop_torn_line(file: FileIO) -> int:
    """Cut off what follows the last line end; return the size that is left."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(size - 1, 0))
    if file.read(1) in (b"\n", b""):
        return size
    file.seek(0)
    return file.truncate(file.readall().rfind(b"\n") + 1)


# ---------------------------------------------------------------- temporary files


@contextmanager
def _temporary(folder: str) -> Iterator[FileIO]:
    """Make a file that is removed unless it is renamed, with a lock that tells that its writer is alive."""
    names: list[str] = []
    try:
        while True:
            names.append(os.path.join(folder, f".fanbayes-{secrets.token_hex(8)}.tmp"))
            with open(names[-1], "xb", buffering=0) as file:
                if sys.platform != "win32":
                    with suppress(OSError):  # a file system without locks, where nothing is taken for stale
                        fcntl.flock(file, fcntl.LOCK_EX)
                # Otherwise another process took the file for stale before the lock was there, and has removed it.
                if os.fstat(file.fileno()).st_nlink:
                    yield file
                    return
    finally:
        for name in names:
            with suppress(FileNotFoundError):
                os.unlink(name)


def _remove_stale(folder: str) -> None:
    """Remove temporary files that nobody has locked: their writers were killed."""
    if sys.platform == "win32":
        return
    with suppress(OSError):  # a folder that may be written to but not listed
        for name in os.listdir(folder):
            if _TEMPORARY.fullmatch(name):
                path = os.path.join(folder, name)
                with suppress(OSError), open(path, "rb+", buffering=0) as file:  # of another user, or just renamed
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    os.unlink(path)
