"""The installed program `fanbayes`, run as a user runs it."""

import json
import re
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
from processes import heed_signals
from program import PROGRAM, run

import fanbayes
from fanbayes import _native

pytestmark = pytest.mark.usefixtures("server")


def test_version_and_help_and_start_up(folder):
    out, _ = run("--version", cwd=folder, fresh=True)
    assert out.startswith(f"fanbayes {fanbayes.__version__}, native backend ")
    assert out.split()[-1] in _native.backends()
    out, _ = run("--help", cwd=folder)
    for command in ("fit", "predict", "evaluate", "explain", "show", "study", "--install-completion"):
        assert command in out
    for command in ((), ("fit",), ("predict",), ("evaluate",), ("explain",), ("show",), ("study",), ("study", "real")):
        out, _ = run(*command, "-h", cwd=folder)
        assert "Examples:\n    fanbayes " in out
        assert all(len(line) <= 80 for line in out.splitlines() if "--model <" not in line)
    out, err = run(cwd=folder, code=2)
    assert not out
    assert err.startswith("Usage: fanbayes")


def test_the_command_line_itself_imports_nothing_heavy():
    code = "import fanbayes, sys; before = set(sys.modules); import fanbayes.cli; print(*set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"numpy", "scipy", "sklearn", "pandas", "polars", "narwhals", "matplotlib", "rich", "jinja2", "joblib"}
    assert not heavy & {name.partition(".")[0] for name in done.stdout.split()}


def test_completion(folder):
    environment = {"_FANBAYES_COMPLETE": "complete_bash", "COMP_WORDS": "fanbayes e", "COMP_CWORD": "1", "PATH": ""}
    out, _ = run(cwd=folder, env=environment, fresh=True)
    assert out.split() == ["evaluate", "explain", "export"]


def test_the_average_goes_through_all_commands(folder, tmp_path):
    for name in ("patients.csv", "new.csv"):
        shutil.copy(folder / name, tmp_path)
    arguments = (
        "-t",
        "outcome",
        "--ignore",
        "id",
        "--model",
        "fan-cv",
        "--effort",
        "fast",
        "-o",
        "m.fan",
        "--jobs",
        "1",
    )
    out, _ = run("fit", "patients.csv", *arguments, cwd=tmp_path)
    members = out.split("exponent\n")[1].split("\n\n")[0].splitlines()
    model = fanbayes.load(tmp_path / "m.fan")
    weights = [float(line.split()[-2]) for line in members]
    assert sum(weights) == pytest.approx(1 - model.pool_.weights[-1], abs=0.01)  # the classes' shares have the rest
    assert (model.effort, len(model.members_)) == ("fast", len(members))
    rows = pd.read_csv(tmp_path / "new.csv")
    wanted = model.predict_proba(rows.drop(columns="id"))
    run("predict", "m.fan", "new.csv", "-o", "p.csv", cwd=tmp_path)
    found = pd.read_csv(tmp_path / "p.csv")
    np.testing.assert_allclose(found["p(ill)"], wanted[:, 0], atol=1e-6)
    shown = run("show", "m.fan", cwd=tmp_path)[0]
    assert all(line in shown for line in members)
    about = json.loads(run("show", "m.fan", "--json", cwd=tmp_path)[0])
    assert [m["weight"] for m in about["members"]] == pytest.approx(weights, abs=1e-3)
    assert all(m["strength"] is None or m["strength"] > 0 for m in about["members"])  # no NaN, which JSON lacks
    percent = f"ill {100 * wanted[0, 0]:.1f} %"
    explained = run("explain", "m.fan", "new.csv", "--row", "1", cwd=tmp_path)[0]
    assert percent in explained
    number = int(re.search(r"Most responsible: member (\d+), ", explained)[1])
    assert f"member {number}, {model.members_['model'][number]}" in explained


def test_debug_shows_where(folder):
    _, err = run("fit", "patients.csv", "-t", "nope", "-o", "x.fan", "--debug", cwd=folder, code=2)
    assert "Traceback" in err
    assert "rows.py" in err


# Runs the program, and sends a signal from inside it when a function is called.
INTERRUPTED = """
import importlib, signal, sys
from fanbayes.cli import main
module, name, number = sys.argv.pop(1).split(":")
number = signal.Signals[number]
module = importlib.import_module(module)
real = getattr(module, name)
def interrupted(*arguments, **options):
    signal.raise_signal(number)
    return real(*arguments, **options)
setattr(module, name, interrupted)
main()
"""


def whole_or_old(path):
    """Check that a file is what was there before, or a complete model; tell whether it is the old one."""
    old = path.read_bytes() == b"what was there before"
    assert old or fanbayes.load(path).classes_.tolist() == ["ill", "well"]
    return old


@pytest.mark.parametrize(
    "moment",
    [
        "fanbayes.commands.rows:read_training:SIGINT",
        "fanbayes.estimators.fan_cv:fit_average:SIGTERM",
        "fanbayes.learning.ensembles.race:fit_kernel:SIGHUP",
        "fanbayes.learning.ensembles.training:fit_pool:SIGINT",
        "os:replace:SIGINT",
        "os:replace:SIGTERM",
    ],
)
def test_a_signal_leaves_the_old_file(folder, tmp_path, moment):
    out = tmp_path / "m.fan"
    out.write_bytes(b"what was there before")
    arguments = ["fit", str(folder / "patients.csv"), "-t", "outcome", "-o", str(out), "--jobs", "1"]
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, moment, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        preexec_fn=heed_signals,
    )
    number = signal.Signals[moment.rpartition(":")[2]]
    assert (done.returncode, done.stderr.splitlines()[-1]) == (128 + number, "fanbayes: stopped.")
    assert "Traceback" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["m.fan"]
    assert whole_or_old(out)


@pytest.mark.parametrize("seconds", [0.1, 0.3, 0.6, 1.0])
def test_an_interrupt_at_any_time_leaves_no_partial_file(folder, tmp_path, seconds):
    out = tmp_path / "m.fan"
    out.write_bytes(b"what was there before")
    command = [PROGRAM, "fit", str(folder / "patients.csv"), "-t", "outcome", "-o", str(out), "--jobs", "1"]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, **streams, preexec_fn=heed_signals) as process:
        time.sleep(seconds)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert [path.name for path in tmp_path.iterdir()] == ["m.fan"]
    assert not (whole_or_old(out) and process.returncode == 0)


@pytest.mark.parametrize("error", ["MemoryError", "RuntimeError('Unknown error: Wrapping xxx failed')"])
def test_too_little_memory_names_the_files(tmp_path, error):
    """Python's error has no text, NumPy's a number of bytes, Arrow's the value that it had no room for."""
    data = tmp_path / "rows.csv"
    data.write_text("x,class\n1,a\n2,b\n")
    program = (
        "from fanbayes import cli\n"
        "from fanbayes.commands import rows\n"
        f"def fail(*arguments, **options): raise {error}\n"
        "rows.read_training = fail\n"
        "cli.main()\n"
    )
    arguments = ["fit", str(data), "--target", "class", "-o", str(tmp_path / "m.fan")]
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    sentence = f"there is not enough memory for {data}: give fewer rows or columns at a time."
    assert done.stderr == f"fanbayes: {sentence}\n"
