"""Successive halving and warm starts against ten full runs from random starts.

Chance decides single fits on both sides, so each is repeated: every search is compared with every ten.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import real_data
from acceleration import NAMES
from measure import Result, passes

from fanbayes.data.table import EncodedTable
from fanbayes.estimators.classifiers import FANClassifier
from fanbayes.learning.em import Problem, advance, begin
from fanbayes.learning.expectation import Workers
from fanbayes.learning.selection import Fit, Search, Selection, fit_size
from fanbayes.learning.starts import labelled_naive_bayes, random_networks
from fanbayes.model.network import Prior
from fanbayes.model.structure import fan

SIZES = range(1, 6)
SEEDS = range(20, 28)  # of searches; no seed here was used to choose how starts are run
SEEDS_OF_TEN = range(30, 33)
PRIOR, CREW = Prior(1.0, "map", 1e-6), Workers()


def run() -> list[Result]:
    every: dict[tuple[str, int], list[float]] = defaultdict(list)  # relative differences, by dataset and size
    of_chosen: list[float] = []
    total = {"ours": 0.0, "plain": 0.0, "accelerated": 0.0}
    for data in real_data.load(NAMES):
        classes, _, table = FANClassifier()._read(data.X, data.y, None)
        tens = [ten_starts(table, len(classes), seed) for seed in SEEDS_OF_TEN]
        for ten in tens:
            total["plain"] += ten["plain"] / len(tens)
            total["accelerated"] += ten["accelerated"] / len(tens)
        for seed in SEEDS:
            fits: list[Fit] = []
            total["ours"] += passes(lambda: search(table, len(classes), seed, fits), table.n_rows) / len(SEEDS)  # noqa: B023
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


def search(table: EncodedTable, n_classes: int, seed: int, fits: list[Fit]) -> None:
    """Fit each size, from the one before it; all are finished, which `select` would do only with those that may win."""
    n_init = FANClassifier().n_init
    how = Search(lambda h: fan([h] * n_classes, "shared"), SIZES, ("icl",), 9, n_init, 1000, 1e-6, seed)
    nb = labelled_naive_bayes(table, n_classes, PRIOR, CREW)
    for size in SIZES:
        previous = fits[-1].network if fits else None
        fits.append(fit_size(Problem(table, PRIOR, False, CREW), how, size, nb, previous))


def ten_starts(table: EncodedTable, n_classes: int, seed: int) -> dict[str, Any]:
    """Return the best objective of ten full runs for each size, and the passes of plain and of accelerated EM."""
    nb, _ = labelled_naive_bayes(table, n_classes, PRIOR, CREW)
    found: dict[str, Any] = {"best": {}, "plain": 0.0, "accelerated": 0.0}
    for size in SIZES[1:]:
        starts = random_networks(nb, fan([size] * n_classes, "shared"), PRIOR, np.random.default_rng(seed), 10)
        for name in ("plain", "accelerated"):
            problem = Problem(table, PRIOR, False, CREW, name == "accelerated")
            ends: list[float] = []

            def climb(problem: Problem = problem, starts: Any = starts, ends: list[float] = ends) -> None:
                for k in range(10):
                    one = starts.map(lambda x, k=k: x[k : k + 1])
                    ends.append(advance(problem, begin(problem, one), 1000, 1e-6).objective[0])

            found[name] += passes(climb, table.n_rows)
            if name == "plain":
                found["best"][size] = max(ends)
    return found


def _share(differences: Any, tolerance: float) -> float:
    return float(np.mean(np.asarray(differences) >= -tolerance))
