"""What tests of several modules start from."""

import os
import subprocess
import sys

import pandas as pd
import pytest
from program import SERVER, patients, run


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """What `run` sends its orders to; where there is no fork, the program is started anew each time."""
    if not hasattr(os, "fork"):
        yield None
        return
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    files = tmp_path_factory.mktemp("server")
    with subprocess.Popen(
        [sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        run.server = process, files
        yield process
        process.stdin.close()
    run.server = None


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A folder with data, and a model that the program has learnt from it."""
    folder = tmp_path_factory.mktemp("cli")
    rows = patients(320, 0)
    rows[:240].to_csv(folder / "patients.csv", index=False)
    rows[240:].drop(columns="outcome").to_csv(folder / "new.csv", index=False)
    (folder / "costs.csv").write_text("outcome;send home;treat;refer\nwell;0;10;4\nill;50;0;4\n")
    arguments = ("--target", "outcome", "--ignore", "id", "--discrete", "grade")
    (folder / "fit.txt").write_text(
        "\0".join(run("fit", "patients.csv", *arguments, "-o", "m.fan", cwd=folder, fresh=True))
    )
    return folder


@pytest.fixture
def rows(folder):
    frame = pd.read_csv(folder / "new.csv")
    return frame[["age", "blood pressure", "smoker"]].assign(grade=frame["grade"].astype(str))
