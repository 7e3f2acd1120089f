"""Installs a wheel into a clean environment without a compiler and tries it: try_wheel.py WHEEL [PYTHON]."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

DATA = Path(__file__).parent.parent / "docs" / "data"
BUILDERS = ("cc", "c++", "gcc", "g++", "clang", "clang++", "cmake", "ninja", "make")


def install_and_try(wheel: Path, python: str) -> None:
    """Raises if the wheel cannot be installed or fails `smoke.py`, by this Python with nothing else in PATH."""
    with tempfile.TemporaryDirectory() as folder:
        programs = Path(folder, "venv", "bin")
        subprocess.run([python, "-m", "venv", programs.parent], check=True)
        found = [name for name in BUILDERS if shutil.which(name, path=programs)]
        if found:
            raise RuntimeError(f"the clean environment is none: it has {', '.join(found)}")
        alone = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        alone["PATH"] = str(programs)
        install = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:")
        for arguments in ((*install, f"{wheel.resolve()}[files]"), (Path(__file__).with_name("smoke.py"), DATA)):
            subprocess.run([programs / "python", *arguments], check=True, cwd=folder, env=alone)


if __name__ == "__main__":
    install_and_try(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else sys.executable)
