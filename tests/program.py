"""The installed program, as a user runs it."""

import json
import shutil
import subprocess
import sysconfig
from pathlib import Path

import numpy as np
import pandas as pd

PROGRAM = shutil.which("fanbayes", path=sysconfig.get_path("scripts")) or "fanbayes"


# Starts the installed program in forks of a process that has imported the library: what takes longest is done once.
SERVER = """
import json, os, pkgutil, runpy, sys
import fanbayes, matplotlib.figure, pandas, pyarrow.parquet, rich.console
for module in pkgutil.walk_packages(fanbayes.__path__, "fanbayes."):
    __import__(module.name)
for line in sys.stdin:
    order = json.loads(line)
    child = os.fork()
    if not child:
        for name, stream in (("out", 1), ("err", 2)):
            os.dup2(os.open(order[name], os.O_CREAT | os.O_TRUNC | os.O_WRONLY), stream)
        os.chdir(order["cwd"])
        sys.argv = order["argv"]
        try:
            runpy.run_path(sys.argv[0], run_name="__main__")
        except SystemExit as end:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(end.code)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


def run(*arguments, cwd, code=0, fresh=False, env=None):
    """Run the program; return what it wrote to stdout and stderr."""
    argv = [PROGRAM, *map(str, arguments)]
    if fresh or run.server is None:
        done = subprocess.run(argv, cwd=cwd, env=env, capture_output=True, timeout=120)
        found, out, err = done.returncode, done.stdout.decode(), done.stderr.decode()
    else:
        process, files = run.server
        paths = {name: str(files / name) for name in ("out", "err")}
        process.stdin.write(json.dumps({"argv": argv, "cwd": str(cwd), **paths}) + "\n")
        process.stdin.flush()
        found = int(process.stdout.readline())
        out, err = (Path(path).read_text("utf-8") for path in paths.values())
    assert found == code, (arguments, found, out, err)
    assert "\x1b" not in out + err
    return out, err


run.server = None  # set by the fixture `server`: where there is none, the program is started anew each time


def refuse(*arguments, cwd, code, says, fresh=False):
    """Check that an error is one sentence that says something, and that nothing is written."""
    before = {path: path.stat().st_mtime_ns for path in Path(cwd).rglob("*")}
    out, err = run(*arguments, cwd=cwd, code=code, fresh=fresh)
    sentences = [line for line in err.splitlines() if not line.startswith(("note: ", "  "))]
    assert len(sentences) == 1
    assert sentences[0].startswith("fanbayes: ")
    assert says in sentences[0], sentences[0]
    assert "Traceback" not in out + err
    assert {path: path.stat().st_mtime_ns for path in Path(cwd).rglob("*")} == before


def patients(n, seed):
    """A table of n patients, some values missing."""
    rng = np.random.default_rng(seed)
    ill, group = rng.random(n) < 0.35, rng.integers(0, 2, n)
    frame = pd.DataFrame(
        {
            "id": np.arange(n) + 1000,
            "age": (np.where(group == 0, 45, 65) + 9 * ill + rng.normal(0, 7, n)).round(1),
            "blood pressure": (120 + 25 * ill * (1 - 2 * group) + rng.normal(0, 9, n)).round(),
            "smoker": np.where(rng.random(n) < 0.25 + 0.4 * ill, "yes", "no"),
            "grade": rng.integers(1, 5, n) + ill,
            "outcome": np.where(ill, "ill", "well"),
        }
    )
    for name in ("age", "blood pressure", "smoker"):
        frame[name] = frame[name].where(rng.random(n) > 0.1)
    return frame
