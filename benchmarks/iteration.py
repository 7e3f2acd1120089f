"""One EM pass against the peers': StepMix, pomegranate, scikit-learn's GaussianMixture."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from measure import Result, passes, seconds_per_iteration
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from fanbayes import FMClassifier


def ours(X: Any, n_components: int, n_jobs: int, categorical: Any) -> Callable[[int], float]:
    """EM from one start, as many iterations as asked for: the public call."""
    y = np.zeros(len(X), dtype=int)

    def fit(n: int) -> float:
        model = FMClassifier(
            n_components, n_init=1, max_iter=n, tol=0.0, n_jobs=n_jobs, random_state=0,
            categorical_features=categorical,
        )  # fmt: skip
        return passes(lambda: model.fit(X, y), len(X))

    return fit


def run() -> list[Result]:
    warnings.simplefilter("ignore", ConvergenceWarning)
    return [*discrete(), *gaussian(), *mixed_with_missing()]


def discrete() -> list[Result]:
    import torch
    from pomegranate.distributions import Categorical
    from pomegranate.gmm import GeneralMixtureModel
    from stepmix.stepmix import StepMix

    rng = np.random.default_rng(0)
    X = rng.integers(0, 5, (50_000, 20))
    tensor = torch.tensor(X)
    start = rng.dirichlet(np.ones(5), (5, 20))

    def stepmix(n: int) -> None:
        StepMix(
            5, measurement="categorical", n_init=1, max_iter=n, abs_tol=0, rel_tol=0, random_state=0, progress_bar=0
        ).fit(X)

    def pomegranate(n: int) -> None:
        parts = [Categorical(torch.tensor(p, dtype=torch.float32)) for p in start]
        GeneralMixtureModel(parts, max_iter=n, tol=-1e30).fit(tensor)

    torch.set_num_threads(1)
    # A pass of ours is short: it takes more of them to stand out of the noise.
    one, two = seconds_per_iteration(ours(X, 5, 1, "all"), ours(X, 5, 2, "all"), few=10, many=110, repeat=3)
    a, b = seconds_per_iteration(stepmix, pomegranate, few=3, many=13, repeat=3)
    detail = {"ms": {"fanbayes": one * 1e3, "2 threads": two * 1e3, "stepmix": a * 1e3, "pomegranate": b * 1e3}}
    what = "EM pass, 50,000 x 20 discrete, 5 components"
    return [
        Result(f"{what}: StepMix / ours, 1 thread", a / one, 25, detail=detail),
        Result(f"{what}: pomegranate / ours, 1 thread", b / one, 25),
        Result(f"{what}: StepMix / ours, 2 threads", a / two, 40),
        Result(f"{what}: pomegranate / ours, 2 threads", b / two, 40),
    ]


def gaussian() -> list[Result]:
    X = np.random.default_rng(0).standard_normal((200_000, 20))

    def sklearn(n: int) -> None:
        GaussianMixture(10, covariance_type="diag", max_iter=n, tol=0, init_params="random", random_state=0).fit(X)

    one, two, peer = seconds_per_iteration(
        ours(X, 10, 1, None), ours(X, 10, 2, None), sklearn, few=3, many=23, repeat=3
    )
    detail = {"ms": {"fanbayes": one * 1e3, "2 threads": two * 1e3, "GaussianMixture": peer * 1e3}}
    what = "EM pass, 200,000 x 20 Gaussian, 10 components: GaussianMixture / ours"
    return [Result(f"{what}, 1 thread", peer / one, 5, detail=detail), Result(f"{what}, 2 threads", peer / two)]


def mixed_with_missing() -> list[Result]:
    import pandas as pd
    from stepmix.stepmix import StepMix

    rng = np.random.default_rng(0)
    codes = rng.integers(0, 5, (20_000, 10)).astype(float)
    values = rng.standard_normal((20_000, 10))
    for block in (codes, values):
        block[rng.random(block.shape) < 0.1] = np.nan
    X = np.hstack([codes, values])
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(20)])
    description = {
        "codes": {"model": "categorical_nan", "n_columns": 10},
        "values": {"model": "gaussian_diag_nan", "n_columns": 10},
    }

    def stepmix(n: int) -> None:
        StepMix(
            5, measurement=description, n_init=1, max_iter=n, abs_tol=0, rel_tol=0, random_state=0, progress_bar=0
        ).fit(frame)

    (one,) = seconds_per_iteration(ours(X, 5, 1, list(range(10))), few=10, many=60, repeat=3)
    (peer,) = seconds_per_iteration(stepmix, few=3, many=8, repeat=2)
    detail = {"ms": {"fanbayes": one * 1e3, "stepmix": peer * 1e3}}
    return [
        Result(
            "EM pass, 20,000 x (10 + 10) mixed, 10 % missing, 5 components: StepMix / ours",
            peer / one,
            25,
            detail=detail,
        )
    ]
