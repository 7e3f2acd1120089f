"""Run cases of a kind in a process of their own, under a watchdog and limits of memory.

The process is forked once everything is imported, so that it starts at once, and again whenever it dies. It reports
each case; the one under way when it dies or falls silent has crashed or hung.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import shutil
import signal
import tempfile
import time
import traceback
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Literal

import numpy as np

from fuzz.verdict import Fault, Refused, brief, require

Attempt = Callable[[np.random.Generator, Path], None]
Outcome = Literal["answered", "refused", "failed"]

MEGABYTE = 1 << 20
# Beyond what a case may take, the process gets no more: the machine is safe, and the case fails.
_HEADROOM = 4 << 30
_CAN_MEASURE = os.path.exists("/proc/self/clear_refs")
_FORK = multiprocessing.get_context("fork")


@dataclass(frozen=True)
class Kind:
    """A kind of hostile case.

    Attributes
    ----------
    name : str
    about : what is tried, in a few words
    attempt : function of (generator, empty folder)
        Makes and tries one case. It returns if all is well, raises `Refused` if the case was turned down with a clear
        sentence, and anything else if it failed.
    goal : number of cases of the whole campaign
    seconds : after which a case has hung
    memory : bytes that a case may take
    prepare : what all cases need, done before the first
    """

    name: str
    about: str
    attempt: Attempt
    goal: int
    seconds: float = 120.0
    memory: int = 256 * MEGABYTE
    prepare: Callable[[], object] = lambda: None


@dataclass(frozen=True)
class Result:
    """What came of one case."""

    case: int
    outcome: Outcome
    reason: str = ""


@dataclass
class Tally:
    """Cases of a kind, counted; the failed ones in full."""

    kind: Kind
    answered: int = 0
    refused: int = 0
    failures: list[Result] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def tried(self) -> int:
        """Number of cases."""
        return self.answered + self.refused + len(self.failures)

    def add(self, result: Result) -> None:
        """Count one case."""
        if result.outcome == "failed":
            self.failures.append(result)
        elif result.outcome == "refused":
            self.refused += 1
        else:
            self.answered += 1


def try_case(kind: Kind, case: int, folder: Path, debug: bool = False) -> Result:
    """Make and try one case in this process; `debug` prints where it fails."""
    rng = np.random.default_rng([zlib.crc32(kind.name.encode()), case])
    own = folder / "case"
    own.mkdir()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", RuntimeWarning)  # NumPy's: a number overflowed, or is none
            before = _reset_peak()
            kind.attempt(rng, own)
            taken = _peak() - before
            require(taken <= kind.memory, f"it took {taken / MEGABYTE:.0f} MB")
    except Refused as error:
        return Result(case, "refused", str(error))
    except BaseException as error:
        if debug:
            traceback.print_exc()
        return Result(case, "failed", str(error) if isinstance(error, Fault) else f"unexpected: {brief(error)}")
    finally:
        shutil.rmtree(own)
    return Result(case, "answered")


def run(kind: Kind, cases: range, deadline: float = float("inf")) -> Iterator[Result]:
    """Try cases one after the other until `deadline`, in a process that is started anew after a crash or a hang."""
    kind.prepare()
    at = cases.start
    while at < cases.stop and time.monotonic() < deadline:
        with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
            here, there = multiprocessing.Pipe(duplex=False)
            rest = range(at, cases.stop)
            process = _FORK.Process(target=_work, args=(kind, rest, deadline, there, Path(folder)))
            process.start()
            there.close()
            try:
                while at < cases.stop:
                    hung = not wait([here, process.sentinel], kind.seconds)
                    if here.poll():
                        with suppress(EOFError):
                            yield here.recv()
                            at += 1
                            continue
                    if hung:
                        yield Result(at, "failed", f"it hung: no answer in {kind.seconds:.0f} s")
                    else:
                        process.join()
                        if process.exitcode == 0:
                            return  # the deadline
                        yield Result(at, "failed", f"it crashed: exit code {process.exitcode}")
                    at += 1
                    break
            finally:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.join()


def _work(kind: Kind, cases: range, deadline: float, results: Connection, folder: Path) -> None:
    """Try cases and send what came of them, until the deadline."""
    os.setsid()  # so that all processes that cases start can be ended with this one
    if _CAN_MEASURE:
        limit = in_use("VmSize") + kind.memory + _HEADROOM
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    for case in cases:
        if time.monotonic() >= deadline:
            break
        results.send(try_case(kind, case, folder))


# ---------------------------------------------------------------- memory, where Linux tells of it


def in_use(name: str) -> int:
    """Bytes of one of the figures of /proc/self/status, such as VmSize."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return 1024 * int(line.split()[1])
    return 0


def _reset_peak() -> int:
    """Forget the largest amount of memory so far; the amount in use."""
    if not _CAN_MEASURE:
        return 0
    Path("/proc/self/clear_refs").write_text("5")
    return in_use("VmRSS")


def _peak() -> int:
    return in_use("VmHWM") if _CAN_MEASURE else 0
