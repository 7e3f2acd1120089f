"""Standard output and standard error over which no command fails: what cannot be said waits until all is done."""

from __future__ import annotations

import io
import os
import sys


class Stream(io.TextIOWrapper):
    """A stream that keeps its first error, and drops what comes after it.

    So a reader that goes away, as `head` does, or a full disk costs a command its words and not its work.
    """

    error: OSError | None = None

    def write(self, text: str) -> int:
        """Write, or drop."""
        try:
            return super().write(text)
        except OSError as error:
            self._give_up(error)
            return len(text)

    def flush(self) -> None:
        """Hand on what was written, or drop it."""
        try:
            super().flush()
        except OSError as error:
            self._give_up(error)
            super().flush()

    def _give_up(self, error: OSError) -> None:
        self.error = error
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, self.fileno())
        os.close(null)


def open_streams() -> Stream:
    """Put such streams into the places of `sys.stdout` and `sys.stderr`; return the former."""
    given = {1: sys.stdout, 2: sys.stderr}  # None if closed
    # A closed descriptor would go to the next file that is opened, which then got what is printed. From what takes
    # its place can only be read: to print is an error.
    while (number := os.open(os.devnull, os.O_RDONLY)) <= 2:
        os.set_inheritable(number, True)
    os.close(number)
    streams = [
        Stream(
            io.BufferedWriter(io.FileIO(number, "w", closefd=False)),
            encoding=stream.encoding if stream else "utf-8",
            errors="replace",
            line_buffering=number == 2 or os.isatty(number),
        )
        for number, stream in given.items()
    ]
    sys.stdout, sys.stderr = streams
    return streams[0]
