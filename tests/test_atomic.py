"""Writing files: whole or as they were, on a full disk, after a kill, through links and pipes."""

import errno
import os
import re
import stat
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from fanbayes.files import atomic
from fanbayes.files.atomic import append_line, write_file

resource = pytest.importorskip("resource", reason="limits and pipes of POSIX")

OLD, NEW = b"old content\n", b"new content, " * 1000


@pytest.fixture
def target(tmp_path):
    path = tmp_path / "out.csv"
    path.write_bytes(OLD)
    return path


def only(path):
    """Whether nothing else is in the folder."""
    return list(path.parent.iterdir()) == [path]


@contextmanager
def full_disk(n_bytes):
    """No file may become longer than this."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture
def short_writes(monkeypatch):
    """The system takes at most 5 bytes at a time."""
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, data[:5]))


# ---------------------------------------------------------------- a file in one step


@pytest.mark.parametrize("data", [b"", b"x", NEW])
def test_a_file_is_made_and_replaced(tmp_path, data):
    path = tmp_path / "new"
    for content in (data, OLD, data):
        write_file(path, content)
        assert path.read_bytes() == content
        assert only(path)


def test_short_writes_go_on_until_all_is_written(target, short_writes):
    write_file(target, NEW)
    assert target.read_bytes() == NEW


def test_a_full_disk_is_said_in_a_sentence_and_leaves_the_old_file(target):
    with (
        full_disk(5000),
        pytest.raises(OSError, match=rf"^{re.escape(str(target))} cannot be written: File too large$") as caught,
    ):
        write_file(target, NEW)
    assert caught.value.errno == errno.EFBIG
    assert target.read_bytes() == OLD
    assert only(target)


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "disk full"), KeyboardInterrupt()], ids=["full", "interrupt"])
@pytest.mark.parametrize("step", ["write", "fsync", "replace"])
def test_a_failure_leaves_the_old_file(step, error, target, monkeypatch):
    def fail(*_):
        raise error

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(type(error)):
        write_file(target, NEW)
    monkeypatch.undo()
    assert target.read_bytes() == OLD
    assert only(target)


def nothing(fd, data):
    return 0


def half(fd, data, real=os.write):
    real(fd, data[: len(data) // 2])
    return len(data)


@pytest.mark.parametrize(("broken", "says"), [(nothing, "takes no more"), (half, "6500 bytes have arrived, not 13000")])
def test_bytes_that_do_not_arrive_are_noticed(broken, says, target, monkeypatch):
    monkeypatch.setattr(os, "write", broken)
    with pytest.raises(OSError, match=says):
        write_file(target, NEW)
    monkeypatch.undo()
    assert target.read_bytes() == OLD
    assert only(target)


def test_what_cannot_be_written_is_named(target):
    with pytest.raises(FileNotFoundError, match=r"none/x cannot be written: there is no folder .*none$"):
        write_file(target.parent / "none" / "x", NEW)
    with pytest.raises(IsADirectoryError, match="cannot be written: Is a directory"):
        write_file(target.parent, NEW)
    loop = target.parent / "loop"
    loop.symlink_to("loop")
    with pytest.raises(OSError, match=r"loop cannot be written"):
        write_file(loop, NEW)


@pytest.fixture
def nobody():
    """A user who is not root, who may write to every file."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(65534)
    yield
    os.seteuid(before)


def test_a_file_that_is_read_only_stays(nobody):
    with TemporaryDirectory() as folder:
        path = Path(folder, "out.csv")
        path.write_bytes(OLD)
        path.chmod(0o444)
        with pytest.raises(PermissionError, match=r"out\.csv cannot be written: Permission denied$"):
            write_file(path, NEW)
        assert path.read_bytes() == OLD
        assert only(path)
        Path(folder).chmod(0o500)
        with pytest.raises(PermissionError, match=r"new\.csv cannot be written: Permission denied$"):
            write_file(Path(folder, "new.csv"), NEW)
        Path(folder).chmod(0o700)


def test_permissions_are_those_of_an_ordinary_file(tmp_path):
    ordinary, ours = tmp_path / "ordinary", tmp_path / "ours"
    before = os.umask(0o027)
    try:
        ordinary.write_bytes(OLD)
        write_file(ours, OLD)
    finally:
        os.umask(before)
    assert ours.stat().st_mode == ordinary.stat().st_mode
    ours.chmod(0o604)
    write_file(ours, NEW)
    assert stat.S_IMODE(ours.stat().st_mode) == 0o604


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root gives files away")
def test_the_owner_stays(target):
    os.chown(target, 12345, 23456)
    write_file(target, NEW)
    assert (target.stat().st_uid, target.stat().st_gid) == (12345, 23456)


def test_links_are_followed(target, tmp_path, monkeypatch):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "link").symlink_to("../first")
    (tmp_path / "first").symlink_to(target)
    write_file(tmp_path / "a" / "link", NEW)
    assert target.read_bytes() == NEW
    monkeypatch.chdir(tmp_path / "a")
    write_file("link", OLD)
    assert target.read_bytes() == OLD
    assert (tmp_path / "first").is_symlink()
    (tmp_path / "dangling").symlink_to("made")
    write_file(tmp_path / "dangling", NEW)
    assert (tmp_path / "made").read_bytes() == NEW


def test_writers_at_the_same_time_leave_one_whole_file(target):
    contents = [bytes([65 + k]) * 50_000 for k in range(4)]
    threads = [threading.Thread(target=lambda c=c: [write_file(target, c) for _ in range(10)]) for c in contents]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        assert target.read_bytes() in [OLD, *contents]
    for thread in threads:
        thread.join()
    assert target.read_bytes() in contents
    assert only(target)


def test_nothing_is_written_otherwise():
    """Neither by the library nor by the benchmarks, but for a file of the kernel."""
    root = Path(__file__).parent.parent
    sources = [path for folder in ("src", "benchmarks") for path in (root / folder).rglob("*.py")]
    writes = re.compile(r"""\.write_(text|bytes)\(|\bopen\([^)]*["'](wb?|wt|xb?|ab?|ab\+|r\+b?)["']""")
    found = {path.name for path in sources for line in path.read_text("utf-8").splitlines() if writes.search(line)}
    assert "atomic.py" in found
    assert found <= {"atomic.py", "growth.py"}


# ---------------------------------------------------------------- what is no regular file


def test_a_pipe_is_written_to(tmp_path):
    pipe, found = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: found.append(pipe.read_bytes()))
    reader.start()
    write_file(pipe, NEW)
    reader.join()
    assert found == [NEW]
    assert pipe.is_fifo()


def test_devices_are_written_to():
    write_file("/dev/null", NEW)
    with pytest.raises(OSError, match=r"^/dev/full cannot be written: No space left on device$"):
        write_file("/dev/full", NEW)
    for name in ("/dev/null", "/dev/full"):
        assert stat.S_ISCHR(os.stat(name).st_mode)


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "link"])
def test_a_redirected_output_is_written_to_where_it_stands(name, tmp_path):
    (tmp_path / "link").symlink_to("/dev/stdout")
    out = tmp_path / "out"
    program = (
        "import os, sys; from fanbayes.files.atomic import write_file\n"
        "os.write(1, b'one '); write_file(sys.argv[1], b'two '); os.write(1, b'three')"
    )
    command = [sys.executable, "-c", program, name]
    out.write_bytes(b"zero ")
    with out.open("ab") as file:
        subprocess.run(command, stdout=file, cwd=tmp_path, check=True)
    assert out.read_bytes() == b"zero one two three"
    assert subprocess.run(command, stdout=subprocess.PIPE, cwd=tmp_path, check=True).stdout == b"one two three"


# ---------------------------------------------------------------- temporary files


def test_what_killed_processes_left_is_removed(target):
    program = (
        "import os, sys; from fanbayes.files.atomic import write_file\n"
        "os.replace = lambda *_: os._exit(9)\n"
        "write_file(sys.argv[1], b'never seen')"
    )
    for _ in range(2):
        assert subprocess.run([sys.executable, "-c", program, str(target)], check=False).returncode == 9
    assert target.read_bytes() == OLD
    assert len(list(target.parent.iterdir())) == 2  # the second process has removed what the first one left
    (target.parent / ".fanbayes-notes.tmp").touch()
    write_file(target, NEW)
    assert sorted(path.name for path in target.parent.iterdir()) == [".fanbayes-notes.tmp", "out.csv"]


def test_what_a_living_process_writes_is_left_alone(target):
    with atomic._temporary(str(target.parent)) as file:
        write_file(target, NEW)
        assert os.path.exists(file.name)
    assert only(target)


def test_a_file_taken_for_stale_before_it_was_locked_is_made_anew(target, monkeypatch):
    import fcntl

    made = []

    def lock(file, how):
        made.append(file.name)
        if len(made) == 1:
            os.unlink(file.name)

    monkeypatch.setattr(fcntl, "flock", lock)
    write_file(target, NEW)
    assert len(made) == 2
    assert target.read_bytes() == NEW
    assert only(target)


# ---------------------------------------------------------------- lines that are added


def test_lines_are_added(tmp_path, short_writes):
    path = tmp_path / "records"
    for line in (b"first line", b"", b"third"):
        append_line(path, line)
    assert path.read_bytes() == b"first line\n\nthird\n"


@pytest.mark.parametrize("torn", [b"", b"sec", b"\0" * 9])
@pytest.mark.parametrize("before", [b"", b"first\n"])
def test_a_torn_line_is_dropped_and_never_glued(tmp_path, before, torn):
    path = tmp_path / "records"
    path.write_bytes(before + torn)
    append_line(path, b"next")
    assert path.read_bytes() == before + b"next\n"


def test_a_line_that_does_not_fit_leaves_nothing(tmp_path):
    path = tmp_path / "records"
    append_line(path, b"first")
    with full_disk(20), pytest.raises(OSError, match=r"records cannot be written: File too large"):
        append_line(path, b"second " * 10)
    assert path.read_bytes() == b"first\n"
    append_line(path, b"third")
    assert path.read_bytes() == b"first\nthird\n"


@pytest.mark.parametrize("broken", [nothing, half])
def test_a_line_that_does_not_arrive_is_taken_back(broken, tmp_path, monkeypatch):
    path = tmp_path / "records"
    append_line(path, b"first")
    monkeypatch.setattr(os, "write", broken)
    with pytest.raises(OSError, match="cannot be written"):
        append_line(path, b"second")
    monkeypatch.undo()
    assert path.read_bytes() == b"first\n"
