"""Import and start-up, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from measure import Result, seconds


def run() -> list[Result]:
    def python(code: str) -> object:
        return subprocess.run([sys.executable, "-c", code], check=True)

    program = Path(sys.executable).parent / "fanbayes"
    nothing, ours, theirs, version = seconds(
        lambda: python("pass"),
        lambda: python("import fanbayes"),
        lambda: python("import sklearn.naive_bayes"),
        lambda: subprocess.run([program, "--version"], check=True, stdout=subprocess.DEVNULL),
        repeat=7,
    )
    return [
        Result("import fanbayes / import sklearn.naive_bayes", (ours - nothing) / (theirs - nothing), 1.5, "less"),
        Result("fanbayes --version", version, 0.3, "less", "s"),
    ]
