"""Successive halving and warm starts against ten full runs from random starts."""

from __future__ import annotations

import numpy as np
import real_data
from acceleration import NAMES
from measure import Result

from fanbayes import _native
from fanbayes.estimators.classifiers import FANClassifier
from fanbayes.learning.em import Problem, advance, begin
from fanbayes.learning.expectation import Workers
from fanbayes.learning.selection import Fit, Search, Selection, fit_size
from fanbayes.learning.starts import labelled_naive_bayes, random_networks
from fanbayes.model.network import Prior
from fanbayes.model.structure import fan

N_INIT = FANClassifier().n_init


def run() -> list[Result]:
    ours, passes, rows = 0.0, [0.0, 0.0], []
    prior, crew = Prior(1.0, "map", 1e-6), Workers()
    for data in real_data.load(NAMES):
        classes, _, table = FANClassifier()._read(data.X, data.y, None)
        n_classes = len(classes)
        search = Search(lambda h, c=n_classes: fan([h] * c, "shared"), range(1, 6), ("icl",), 9, N_INIT, 1000, 1e-6, 0)
        nb = labelled_naive_bayes(table, n_classes, prior, crew)
        fits: list[Fit] = []
        before = _native.rows_visited()
        for size in search.sizes:  # each of them finished, which `select` would do only with those that may win
            previous = fits[-1].network if fits else None
            fits.append(fit_size(Problem(table, prior, False, crew), search, size, nb, previous))
        ours += (_native.rows_visited() - before) / table.n_rows
        for place, fit in enumerate(fits[1:], 1):
            starts = random_networks(nb[0], search.structure_of(fit.n_components), prior, np.random.default_rng(7), 10)
            ends = []
            for accelerate in (False, True):
                problem = Problem(table, prior, False, crew, accelerate)
                before = _native.rows_visited()
                for k in range(10):
                    one = starts.map(lambda x, k=k: x[k : k + 1])
                    ends.append(advance(problem, begin(problem, one), 1000, 1e-6).objective[0])
                passes[accelerate] += (_native.rows_visited() - before) / table.n_rows
            best = max(ends[:10])
            difference = (max(s.objective for s in fit.starts if s.status == "best") - best) / abs(best)
            chosen = place == Selection(tuple(fits)).best("icl")
            rows.append(
                {"dataset": data.name, "n_components": fit.n_components, "difference": difference, "chosen": chosen}
            )
    if not rows:
        return []
    every = np.array([r["difference"] for r in rows])
    chosen = np.array([r["difference"] for r in rows if r["chosen"]])
    return [
        Result(
            "objective at least that of ten full random starts, within 1e-6, every size tried",
            _share(every, 1e-6), 0.9, unit="of fits", detail={"runs": rows},
        ),
        Result("the same within 1e-4", _share(every, 1e-4), unit="of fits"),
        Result(
            "the same within 1e-6, the size that ICL chooses",
            _share(chosen, 1e-6), unit=f"of {len(chosen)} datasets with more than one component",
        ),
        Result("mean relative difference of the objectives", float(np.mean(every)), unit=""),
        Result("passes, as a share of ten full runs of plain EM", ours / passes[False], 0.25, "less", unit=""),
        Result("passes, as a share of ten full runs of accelerated EM", ours / passes[True], unit=""),
    ]  # fmt: skip


def _share(differences: np.ndarray, tolerance: float) -> float:
    return float(np.mean(differences >= -tolerance))
