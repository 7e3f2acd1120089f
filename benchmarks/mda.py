"""Mixture discriminant analysis: an EM pass against GaussianMixture's, the error on waveform data against R's mda."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import warnings
from pathlib import Path

import numpy as np
from measure import Result, seconds, seconds_per_iteration
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture
from threadpoolctl import threadpool_limits

from fanbayes import MDAClassifier
from fanbayes.datasets.generators import waveform
from fanbayes.learning.em import initial_state, run_em

DRAWS = 20
PASSES = 10
PUBLISHED = 0.169  # three subclasses, 300 rows, standard error .006: Hastie & Tibshirani (1996)

R = """
suppressMessages(library(mda))
set.seed(1)
for (k in 1:{draws} - 1) {{
  train <- read.csv(sprintf("train%d.csv", k), header = FALSE)
  test <- read.csv(sprintf("test%d.csv", k), header = FALSE)
  model <- mda(factor(V1) ~ ., data = train, subclasses = 3)
  cat(mean(predict(model, test) != test$V1), "\\n")
}}
"""


def run() -> list[Result]:
    warnings.simplefilter("ignore", ConvergenceWarning)
    with threadpool_limits(1):
        return [*em_pass(), *waveform_error()]


def em_pass() -> list[Result]:
    X = np.random.default_rng(0).standard_normal((200_000, 20))
    y = np.zeros(len(X), dtype=int)
    model = MDAClassifier(10, n_init=1, max_iter=2, random_state=0)
    learnt = model._learn(X, y, None)
    state = initial_state(learnt.problem, learnt.selection.fits[0].network)

    def theirs(n: int) -> None:
        GaussianMixture(10, covariance_type="tied", max_iter=n, tol=0, init_params="random", random_state=0).fit(X)

    (one,) = seconds(lambda: run_em(learnt.problem, state, PASSES, -1.0), repeat=3)
    one /= PASSES
    (peer,) = seconds_per_iteration(theirs, few=2, many=6, repeat=3)
    what = "EM pass, 200,000 x 20, 10 components, full tied covariance: GaussianMixture / MDA, 1 thread"
    return [Result(what, peer / one, 3, detail={"ms": {"fanbayes": one * 1e3, "GaussianMixture": peer * 1e3}})]


def waveform_error() -> list[Result]:
    """Means over draws of 300 rows to learn from and 500 to test; R's on the same rows, where it is installed."""
    draws = [(waveform(300, rng=100 + k), waveform(500, rng=1000 + k)) for k in range(DRAWS)]
    methods = {"MDA": MDAClassifier(3, random_state=0), "LDA": LinearDiscriminantAnalysis()}
    errors = {
        name: [1 - clf.fit(train.X, train.y).score(test.X, test.y) for train, test in draws]
        for name, clf in methods.items()
    }
    if shutil.which("Rscript"):
        errors["R's mda"] = r_errors(draws)
    mean = {name: float(np.mean(e)) for name, e in errors.items()}
    error = {name: float(np.std(e) / np.sqrt(DRAWS)) for name, e in errors.items()}
    what = f"waveform, 300 rows, 3 components a class, mean of {DRAWS} draws: error"
    found = [Result(f"{what}; published {PUBLISHED}", mean["MDA"], None, "less", "", {"mean": mean, "se": error})]
    if "R's mda" in mean:
        found.append(Result(f"{what} / that of R's mda", mean["MDA"] / mean["R's mda"], 1.05, "less"))
    return found


def r_errors(draws: list[tuple[object, object]]) -> list[float]:
    """Errors of R's mda (Debian: r-cran-mda) with its defaults."""
    with tempfile.TemporaryDirectory() as folder:
        for k, pair in enumerate(draws):
            for name, rows in zip(("train", "test"), pair):
                codes = np.unique(rows.y, return_inverse=True)[1]
                np.savetxt(Path(folder) / f"{name}{k}.csv", np.column_stack([codes, rows.X]), delimiter=",")
        done = subprocess.run(
            ["Rscript", "-e", R.format(draws=len(draws))], cwd=folder, capture_output=True, text=True, check=True
        )
    return [float(line) for line in done.stdout.split()]
