"""Do something in a process of its own, which the system ends when it has used its seconds."""

from __future__ import annotations

import gc
import os
import pickle
import resource
import signal
import traceback
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class Failed(RuntimeError):
    """Why there is no result, in one line."""


def apart(function: Callable[[], T], seconds: int) -> T:
    """What a function returns, which may use so many seconds of the processor.

    The process is forked: libraries that keep threads are loaded and used in it, and never before it. What there is at
    the fork is no garbage: to look through it would take the first collection longer than some fits.

    Raises
    ------
    Failed
        If it raised, died or took too long.
    """
    reader, writer = os.pipe()
    gc.collect()
    gc.freeze()
    try:
        child = os.fork()
    except OSError:
        gc.unfreeze()
        raise
    if child == 0:
        try:
            os.close(reader)
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
            with os.fdopen(writer, "wb") as pipe:
                pipe.write(pickle.dumps(_outcome(function)))
        finally:
            os._exit(0)  # whatever happens, it must not go on with what its parent does
    gc.unfreeze()
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        content = pipe.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number in (signal.SIGXCPU, signal.SIGKILL):
            raise Failed(f"ended after {seconds} s, or for want of memory")
        raise Failed(f"died by signal {number}")
    if not content:
        raise Failed("its process ended without a result")
    error, result = pickle.loads(content)
    if error is not None:
        raise Failed(error)
    return result


def _outcome(function: Callable[[], T]) -> tuple[str | None, T | None]:
    try:
        return None, function()
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''} ({where.name})", None
