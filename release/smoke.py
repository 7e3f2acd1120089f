"""Does an installed fanbayes work at all? Fit, predict, save and load, in Python and by the program: smoke.py DATA.

DATA is a folder with patients.csv and new.csv. Nothing of the repository but these is used, so that it is the installed
library that is tried.
"""

import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

import fanbayes


def library(data: Path, folder: Path) -> None:
    """As a user of the library would."""
    patients, new = pd.read_csv(data / "patients.csv"), pd.read_csv(data / "new.csv")
    X, y = patients.drop(columns=["id", "outcome"]), patients["outcome"]
    clf = fanbayes.FANClassifier(random_state=0).fit(X, y)
    assert clf.score(X, y) > 0.8, clf.score(X, y)  # naive Bayes: 0.73
    probabilities = clf.predict_proba(new[X.columns])
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    fanbayes.save(clf, folder / "library.fan")
    np.testing.assert_array_equal(fanbayes.load(folder / "library.fan").predict_proba(new[X.columns]), probabilities)


def program(data: Path, folder: Path) -> str:
    """As a user of the command line would. Returns what `fanbayes --version` says."""

    def fanbayes_command(*arguments: str | Path) -> str:
        command = [Path(sysconfig.get_path("scripts"), "fanbayes"), *arguments]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout

    model, answers = folder / "program.fan", folder / "answers.csv"
    fanbayes_command("fit", data / "patients.csv", "--target", "outcome", "--ignore", "id", "-o", model)
    fanbayes_command("predict", model, data / "new.csv", "-o", answers)
    assert len(pd.read_csv(answers)) == len(pd.read_csv(data / "new.csv"))
    said = fanbayes_command("--version").strip()
    assert said.startswith(f"fanbayes {fanbayes.__version__},"), said
    return said


def main(data: Path) -> None:
    """Try both, and say what was tried."""
    installed = Path(sysconfig.get_path("platlib"))
    assert installed in Path(fanbayes.__file__).parents, f"{fanbayes.__file__} is not what was installed"
    with tempfile.TemporaryDirectory() as folder:
        library(data, Path(folder))
        said = program(data, Path(folder))
    print(f"Python {sys.version.split()[0]}: {said}, works.")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
