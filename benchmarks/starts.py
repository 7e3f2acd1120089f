"""Successive halving and warm starts against ten full runs from random starts.

Chance decides single fits on both sides, so each is repeated: every search is compared with every ten.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Any

import numpy as np
import real_data
from acceleration import NAMES
from measure import Result, passes

from fanbayes.estimators.classifiers import FANClassifier
from fanbayes.learning.data import InMemoryData
from fanbayes.learning.em import Problem, initial_state, run_em
from fanbayes.learning.selection import Fit, Search, Selection, fit_size
from fanbayes.learning.starts import labelled_naive_bayes, random_networks
from fanbayes.model.blocks import EstimationOptions
from fanbayes.model.structure import fan

SIZES = range(1, 6)
SEEDS = range(20, 28)  # of searches; no seed here was used to choose how starts are run
SEEDS_OF_TEN = range(30, 33)


def run() -> list[Result]:
    every: dict[tuple[str, int], list[float]] = defaultdict(list)  # relative differences, by dataset and size
    of_chosen: list[float] = []
    total = {"ours": 0.0, "plain": 0.0, "accelerated": 0.0}
    for data in real_data.load(NAMES):
        cases = FANClassifier()._cases(data.X, data.y, None)
        _, table = cases.encoded("none")
        problem, n_classes = Problem(InMemoryData(table.fused()), EstimationOptions()), len(cases.classes)
        tens = [ten_starts(problem, n_classes, seed) for seed in SEEDS_OF_TEN]
        for ten in tens:
            total["plain"] += ten["plain"] / len(tens)
            total["accelerated"] += ten["accelerated"] / len(tens)
        for seed in SEEDS:
            fits: list[Fit] = []
            total["ours"] += passes(lambda: search(problem, n_classes, seed, fits), table.n_rows) / len(SEEDS)  # noqa: B023
            chosen = Selection(tuple(fits)).best("icl")
            for place, fit in enumerate(fits[1:], 1):
                ours = max(s.objective for s in fit.starts if s.status == "best")
                best = np.array([ten["best"][fit.n_components] for ten in tens])
                differences = ((ours - best) / np.abs(best)).tolist()
                every[data.name, fit.n_components] += differences
                if place == chosen:
                    of_chosen += differences
    if not every:
        return []
    pairs = np.concatenate(list(every.values()))
    detail = {"shares": [[*key, _share(found, 1e-6)] for key, found in every.items()]}
    return [
        Result(
            "objective at least that of ten full random starts, within 1e-6, every size tried",
            _share(pairs, 1e-6), 0.9, unit="of fits", detail=detail,
        ),
        Result("the same within 1e-4", _share(pairs, 1e-4), unit="of fits"),
        Result("the same within 1e-6, the size that ICL chooses, if above 1", _share(of_chosen, 1e-6), unit="of fits"),
        Result("mean relative difference of the objectives", float(np.mean(pairs)), unit=""),
        Result("passes, as a share of ten full runs of plain EM", total["ours"] / total["plain"], 0.25, "less", ""),
        Result("passes, as a share of ten full runs of accelerated EM", total["ours"] / total["accelerated"], unit=""),
    ]  # fmt: skip


def search(problem: Problem, n_classes: int, seed: int, fits: list[Fit]) -> None:
    """Fit each size, from the one before it; all are finished, which `select` would do only with those that may win."""
    n_init = FANClassifier().n_init
    how = Search(lambda h: fan([h] * n_classes, "shared"), SIZES, ("icl",), patience=9, n_init=n_init, seed=seed)
    nb = labelled_naive_bayes(problem, n_classes)
    for size in SIZES:
        previous = fits[-1].network if fits else None
        fits.append(fit_size(problem, how, size, nb, previous))


def ten_starts(base: Problem, n_classes: int, seed: int) -> dict[str, Any]:
    """Return the best objective of ten full runs for each size, and the passes of plain and of accelerated EM."""
    nb, _ = labelled_naive_bayes(base, n_classes)
    found: dict[str, Any] = {"best": {}, "plain": 0.0, "accelerated": 0.0}
    for size in SIZES[1:]:
        model = base.model(fan([size] * n_classes, "shared"))
        starts = random_networks(nb, model, np.random.default_rng(seed), 10)
        for name in ("plain", "accelerated"):
            problem = replace(base, accelerate=name == "accelerated")
            ends: list[float] = []

            def run_all(problem: Problem = problem, starts: Any = starts, ends: list[float] = ends) -> None:
                for k in range(10):
                    one = starts.map(lambda x, k=k: x[k : k + 1])
                    ends.append(run_em(problem, initial_state(problem, one), 1000, 1e-6).objective[0])

            found[name] += passes(run_all, base.data.table.n_rows)
            if name == "plain":
                found["best"][size] = max(ends)
    return found


def _share(differences: Any, tolerance: float) -> float:
    return float(np.mean(np.asarray(differences) >= -tolerance))
