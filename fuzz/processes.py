"""The program in a process of its own: forked where everything is imported already, or started afresh.

A forked process begins at `fanbayes.cli.main` and ends as the interpreter would end it; it takes milliseconds. Where
it matters how Python itself starts and ends, as with closed streams, the program is started afresh.
"""

from __future__ import annotations

import gc
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fanbayes import cli
from fuzz.verdict import Fault, require

SECONDS = 60.0
# As a program finds them that is started from a terminal, whatever the campaign itself was started with.
_AT_START = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL, signal.SIGHUP: signal.SIG_DFL}
_SCRIPT = "import sys; from fanbayes.cli import main; sys.exit(main())"  # what is installed as `fanbayes`
_TRACES = ("Traceback", "Exception ignored", "Fatal Python error", "terminate called", "Segmentation fault")
_UNTIL = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129, signal.SIGPIPE: 141}


@dataclass(frozen=True)
class Ended:
    """How a process ended: its exit code, negative for a signal, and what it wrote."""

    code: int
    out: bytes
    err: str

    @property
    def sentences(self) -> list[str]:
        """What it says of a failure."""
        return [line for line in self.err.splitlines() if line.startswith("fanbayes: ")]

    def require_manners(self, sent: signal.Signals | None = None) -> None:
        """Require an exit code that is meant, and one sentence on stderr if it failed, never a traceback."""
        trace = next((line for line in _TRACES if line in self.err), None)
        require(trace is None, f"it showed its insides: {self.err.strip().splitlines()[-1:]}")
        known = {0, 1, 2} | ({-sent, _UNTIL.get(sent, 0)} if sent else set())
        require(self.code in known, f"exit code {self.code}: {self.err.strip()[-200:]!r}")
        said = [line for line in self.err.splitlines() if line.startswith("fanbayes: ")]
        quiet = sent == signal.SIGPIPE and self.code == 1 and not said  # nobody listens
        require(
            self.code not in (1, 2) or len(said) == 1 or quiet, f"it failed without one sentence: {self.err[-200:]!r}"
        )


def run(
    arguments: list[str],
    folder: Path,
    *,
    fresh: bool = False,
    stdout: int | None = None,
    closed: tuple[int, ...] = (),
    limits: Mapping[int, int] | None = None,
    during: Callable[[int], None] = lambda pid: None,
) -> Ended:
    """Run a command to its end.

    Parameters
    ----------
    arguments : words after `fanbayes`
    folder : where stdout is kept
    fresh : whether to start a new interpreter
    stdout : file descriptor to write to instead
    closed : descriptors that are closed, as by ``>&-``
    limits : {resource: limit}
    during : called with the process's id while it runs
    """
    kept = folder / "stdout"
    out = os.open(kept, os.O_CREAT | os.O_TRUNC | os.O_WRONLY) if stdout is None else stdout
    ours, theirs = os.pipe()  # a pipe has room for what commands say, and no limit of file sizes
    nothing = os.open(os.devnull, os.O_RDONLY)
    sys.stdout.flush()
    sys.stderr.flush()
    signal.pthread_sigmask(signal.SIG_BLOCK, _AT_START)  # until the process has handlers of its own
    pid = os.fork()
    if pid == 0:
        _become(arguments, (nothing, out, theirs), closed, limits or {}, fresh)
    for descriptor in (theirs, nothing, *([out] if stdout is None else [])):
        os.close(descriptor)
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _AT_START)
        during(pid)
        code = wait_for(pid)
        with open(ours, "rb") as pipe:
            err = pipe.read().decode(errors="replace")
    except BaseException:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        raise
    return Ended(code, kept.read_bytes() if stdout is None else b"", err)


def wait_for(pid: int, seconds: float = SECONDS) -> int:
    """Exit code of a child; one that does not end has hung."""
    until, pause = time.monotonic() + seconds, 0.0005
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > until:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise Fault(f"a process hung for {seconds:.0f} s")
        time.sleep(pause)
        pause = min(0.02, 1.5 * pause)


def _become(
    arguments: list[str], streams: tuple[int, int, int], closed: tuple[int, ...], limits: Mapping[int, int], fresh: bool
) -> None:
    """Be the program, from here to the end of the process."""
    for place, descriptor in enumerate(streams):
        os.dup2(descriptor, place)
    for descriptor in closed:
        os.close(descriptor)
    for what, limit in limits.items():
        resource.setrlimit(what, (limit, limit))
    for number, handler in _AT_START.items():
        signal.signal(number, handler)
    if fresh:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _AT_START)
        os.closerange(3, 256)
        os.execv(sys.executable, [sys.executable, "-c", _SCRIPT, *arguments])
    gc.disable()  # nothing of the parent is to be cleared away here
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(k, mode, closefd=False) for k, mode in enumerate("rww"))
    sys.argv = ["fanbayes", *arguments]
    code: object = 70
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _AT_START)
    except KeyboardInterrupt:  # before the program has begun
        os._exit(130)
    try:
        cli.main()
    except SystemExit as error:
        code = error.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    try:
        sys.stdout.flush()
    except OSError as error:  # what the interpreter says on its way out
        print(f"Exception ignored: {error}", file=sys.stderr)
        code = 120
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 0)
