"""Outputs that are closed, full or no longer read, and signals: the work is done, or nothing is left of it."""

import os
import signal
import subprocess
import sys

import pytest
from processes import heed_signals
from program import PROGRAM, patients

import fanbayes

pytestmark = pytest.mark.skipif(os.name != "posix", reason="descriptors and signals of POSIX")

WITHOUT = "standard output cannot be written: "


def run(*arguments, shell="", code, cwd=None):
    """Run the program with redirections of the shell; return what it wrote to stdout and stderr."""
    command = ["bash", "-c", f'"$@" {shell}; exit ${{PIPESTATUS[0]}}', "-", PROGRAM, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=120)
    assert done.returncode == code, (done.stdout, done.stderr)
    return done.stdout, done.stderr


@pytest.mark.parametrize(
    ("shell", "code", "says"),
    [
        (">&-", 1, f"fanbayes: {WITHOUT}Bad file descriptor.\n"),
        ("<&- >&-", 1, f"fanbayes: {WITHOUT}Bad file descriptor.\n"),
        (">/dev/full", 1, f"fanbayes: {WITHOUT}No space left on device.\n"),
        ("| true", 141, ""),
        ("2>&-", 0, ""),
        (">&- 2>&-", 1, ""),
    ],
)
def test_an_output_that_cannot_be_written(shell, code, says):
    out, err = run("--version", shell=shell, code=code)
    assert err == says
    assert out.startswith("fanbayes ") == (code == 0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("streams")
    patients(200, 0).drop(columns="id").to_csv(folder / "p.csv", index=False)
    return folder


@pytest.mark.parametrize(("shell", "code"), [("| head -1", 141), (">&-", 1)])
def test_the_model_is_written_although_nobody_listens(folder, tmp_path, shell, code):
    out, err = run("fit", folder / "p.csv", "-t", "outcome", "-o", "m.fan", shell=shell, code=code, cwd=tmp_path)
    assert out == ("p: 200 rows, 4 features.\n" if code == 141 else "")
    assert [line for line in err.splitlines() if not line.startswith(("note: ", "  "))] == (
        [] if code == 141 else [f"fanbayes: {WITHOUT}Bad file descriptor."]
    )
    assert fanbayes.load(tmp_path / "m.fan").classes_.tolist() == ["ill", "well"]


def test_predictions_that_nobody_takes(folder, tmp_path):
    frame = patients(200, 0)[["age", "blood pressure"]]
    fanbayes.save(fanbayes.NBClassifier().fit(frame, patients(200, 0)["outcome"]), tmp_path / "m.fan")
    predict = ("predict", "m.fan", folder / "p.csv")
    _, err = run(*predict, shell=">&-", code=1, cwd=tmp_path)
    assert err.splitlines()[1:] == [f"fanbayes: {WITHOUT}Bad file descriptor."]
    out, _ = run(*predict, "-o", "/dev/stdout", shell="2>&-", code=0, cwd=tmp_path)
    assert out.startswith("class,p(ill),p(well)\n")  # and no note
    run(*predict, "-o", "p.csv", shell=">&-", code=0, cwd=tmp_path)
    assert (tmp_path / "p.csv").read_text() == out
    _, err = run(*predict, "-o", "/dev/stdout", shell="| true", code=141, cwd=tmp_path)
    assert "fanbayes: " not in err


# Runs the program with a command that waits, and is sent more signals while it cleans up.
WAITING = """
import signal, sys, time
from fanbayes import cli
@cli.app.command()
def wait():
    try:
        print("waiting", flush=True)
        time.sleep(30)
    except KeyboardInterrupt:
        signal.raise_signal(signal.SIGHUP)
        signal.raise_signal(signal.SIGTERM)
        print("cleaned up", flush=True)
        raise
sys.argv = ["fanbayes", "wait"]
cli.main()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_lets_the_program_clean_up(number):
    command = [sys.executable, "-c", WAITING]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, **streams, text=True, preexec_fn=heed_signals) as process:
        assert process.stdout.readline() == "waiting\n"
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
    assert (out, err) == ("cleaned up\n", "fanbayes: stopped.\n")
    assert process.returncode == 128 + number


# Runs the program, and sends a signal before it has begun or when it has done all.
AT_THE_EDGE = """
import atexit, signal, sys
from fanbayes import cli
edge, number = sys.argv[1], int(sys.argv[2])
real = cli.open_streams
def interrupted():
    signal.raise_signal(number)
    return real()
if edge == "first":
    cli.open_streams = interrupted
else:
    atexit.register(signal.raise_signal, number)
sys.argv = ["fanbayes", "--version"]
cli.main()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_in_the_first_and_the_last_moment_shows_no_traceback(number):
    def run_until(edge):
        command = [sys.executable, "-c", AT_THE_EDGE, edge, str(int(number))]
        done = subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=heed_signals)
        return done.returncode, done.stdout[:8], done.stderr

    assert run_until("first") == (128 + number, "", "fanbayes: stopped.\n")
    assert run_until("last") == (-number, "fanbayes", "")


def test_a_hang_up_that_is_ignored_stays_ignored():
    with subprocess.Popen(["nohup", sys.executable, "-c", WAITING], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "waiting\n"
        process.send_signal(signal.SIGHUP)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.3)
        process.terminate()
        process.communicate(timeout=30)
    assert process.returncode == 143
