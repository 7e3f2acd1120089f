"""Files that are whole or as they were, whatever happens while they are written.

Everything that the library and the program write goes through `write_file` or `open_output`, or through `append_line`
where lines are added to what is there.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
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
    with open_output(path) as output:
        output.write(data)


class Output:
    """A file that is being written; an error of the system names it."""

    def __init__(self, path: Path, file: FileIO) -> None:
        self.path, self.file, self.size, self.closed = path, file, 0, False

    def write(self, data: bytes) -> int:
        """Write all of it."""
        with _naming(self.path):
            _write_all(self.file, data)
        self.size += len(data)
        return len(data)

    def tell(self) -> int:
        """How much was written."""
        return self.size

    def flush(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        """Leave it to `open_output`, which alone knows whether the file is whole."""


@contextmanager
def open_output(path: Path) -> Iterator[Output]:
    """A file that is written piece by piece as `write_file` does it in one: it is there when all of it is.

    If the work fails on the way, or is stopped, the old file stays as it was.
    """
    with _naming(path):
        target = _follow(os.fspath(path))
    if isinstance(target, int) or (os.path.exists(target) and not os.path.isfile(target)):
        with _naming(path):
            file = open(os.dup(target) if isinstance(target, int) else target, "wb", buffering=0)  # noqa: SIM115
        with file:
            yield Output(path, file)
    else:
        with _replacing(path, target) as output:
            yield output


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


@contextmanager
def _replacing(path: Path, target: str) -> Iterator[Output]:
    """Write beside a regular file, or one that is not there, then take its place."""
    folder = os.path.dirname(target)
    old = None
    with _naming(path):
        if not os.path.isdir(folder):
            raise FileNotFoundError(errno.ENOENT, f"there is no folder {folder}")
        if os.path.exists(target):
            with open(target, "rb+", buffering=0) as file:  # a rename would replace what may not be written to
                old = os.fstat(file.fileno())
        _remove_stale(folder)
    with ExitStack() as stack:
        with _naming(path):
            file = stack.enter_context(_temporary(folder))
        output = Output(path, file)
        yield output
        with _naming(path):
            _require_size(file, output.size)
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
