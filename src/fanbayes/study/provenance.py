"""What a run writes beside its records: which code made them, when, where and with what."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from fanbayes import __version__


def environment(
    packages: Iterable[str] = ("numpy", "scipy", "scikit-learn"), source: Path = Path(__file__).parent
) -> dict[str, str]:
    """Date, version and commit of the code in `source`, and what the numbers may depend on beside them."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "fanbayes": __version__,
        "commit": commit(source),
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
        "platform": f"{platform.system()} {platform.machine()}",
        "processor": processor(),
        "cores": str(os.cpu_count()),
    }


def commit(folder: Path) -> str:
    """Git's short name for the code of a folder, with "-dirty" where files were changed since; else "unknown".

    A folder that lies in a repository which does not hold it, as an environment does, is not that repository's code.
    """
    if _git(folder, "ls-files", "--error-unmatch", "--", ".") is None:
        return "unknown"
    return _git(folder, "describe", "--always", "--dirty", "--exclude", "*") or "unknown"


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=False)
    except OSError:  # there is no git
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def processor() -> str:
    """Its name, where the system tells."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text("utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor()
