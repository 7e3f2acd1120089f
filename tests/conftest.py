"""What tests of several modules start from."""

import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from program import SERVER, patients, run

from fanbayes import FANClassifier, FMClassifier, NBClassifier, _native


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
    arguments = ("--target", "outcome", "--ignore", "id", "--discrete", "grade", "--model", "fan")
    (folder / "fit.txt").write_text(
        "\0".join(run("fit", "patients.csv", *arguments, "-o", "m.fan", cwd=folder, fresh=True))
    )
    return folder


@pytest.fixture
def rows(folder):
    frame = pd.read_csv(folder / "new.csv")
    return frame[["age", "blood pressure", "smoker"]].assign(grade=frame["grade"].astype(str))


@pytest.fixture(scope="session")
def explained_rows():
    """Rows of several kinds of columns, values missing, and their classes."""
    n, rng = 150, np.random.default_rng(0)
    group = rng.integers(0, 3, n)
    X = pd.DataFrame(
        {
            "colour": np.array(["red", "green", "blue", "grey"])[(group + rng.integers(0, 2, n)) % 4],
            "length": rng.normal(group, 0.7),
            "same": "x",
            "flag": rng.random(n) < 0.2 + 0.3 * group,
            "mass": rng.normal(0, 1.0 + group),
        }
    )
    X.loc[::6, "colour"] = None
    X.loc[::5, "length"] = np.nan
    X.loc[::4, "mass"] = np.nan
    return X, np.where(rng.random(n) < 0.85, np.array(["a", "b", "c"])[group], "a")


@pytest.fixture(scope="session")
def explained_models(explained_rows):
    """Classifiers that have learnt from these rows."""
    classifiers = {
        "nb": NBClassifier(),
        "fan": FANClassifier(3, random_state=0),
        "per class": FANClassifier(3, mixing="per_class", random_state=0),
        "binned": FANClassifier(2, discretize="mdlp", random_state=0),
        "fm": FMClassifier(4, random_state=0),
    }
    with pytest.warns(UserWarning, match="fewer than two distinct values"):
        return {name: clf.fit(*explained_rows) for name, clf in classifiers.items()}


@pytest.fixture
def all_backends():
    """Switches through the instruction sets, and back to the first at the end."""
    before = _native.backend()

    def each():
        for name in _native.backends():
            _native.use_backend(name)
            yield name

    yield each
    _native.use_backend(before)
