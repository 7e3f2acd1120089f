"""Successive halving and warm starts against ten full runs from random starts."""

from __future__ import annotations

import numpy as np
import real_data
from acceleration import NAMES
from measure import Result

from fanbayes.estimators.classifiers import FANClassifier
from fanbayes.learning import em
from fanbayes.learning.em import Problem, advance, begin
from fanbayes.learning.expectation import Workers
from fanbayes.learning.selection import Search, select
from fanbayes.learning.starts import labelled_naive_bayes, random_networks
from fanbayes.model.network import Prior
from fanbayes.model.structure import fan


def run() -> list[Result]:
    count = _count_passes()
    differences, ours, full, rows = [], 0, 0, []
    prior, crew = Prior(1.0, "map", 1e-6), Workers()
    for data in real_data.load(NAMES):
        classes, _, table = FANClassifier()._read(data.X, data.y, None)
        table = table.fused()
        n_classes = len(classes)
        search = Search(lambda h, c=n_classes: fan([h] * c, "shared"), range(1, 6), ("icl",), 9, 8, 1000, 1e-6, 0)
        plain = Problem(table, prior, False, crew, accelerate=False)
        count[0] = 0
        fits = select(Problem(table, prior, False, crew), search, n_classes, lambda fit: None).fits
        ours += count[0]
        count[0] = 0
        nb, _ = labelled_naive_bayes(table, n_classes, prior, crew)
        for fit in fits[1:]:
            starts = random_networks(nb, search.structure_of(fit.n_components), prior, np.random.default_rng(7), 10)
            ends = []
            for k in range(10):
                one = starts.map(lambda x, k=k: x[k : k + 1])
                ends.append(advance(plain, begin(plain, one), 1000, 1e-6).objective[0])
            difference = (max(s.objective for s in fit.starts if s.status == "best") - max(ends)) / abs(max(ends))
            differences.append(difference)
            rows.append({"dataset": data.name, "n_components": fit.n_components, "difference": difference})
        full += count[0]
    if not rows:
        return []
    share = float(np.mean(np.array(differences) >= -1e-6))
    return [
        Result("objective at least that of ten full random starts", share, 0.9, unit="of fits", detail={"runs": rows}),
        Result("mean relative difference of the objectives", float(np.mean(differences)), unit=""),
        Result("passes, as a share of theirs", ours / full, 0.25, "less", unit=""),
    ]


def _count_passes() -> list[int]:
    """A counter of passes, one for each network."""
    count, expect = [0], em.expect

    def counting(table, network, hard, crew):  # type: ignore[no-untyped-def]
        count[0] += len(network)
        return expect(table, network, hard, crew)

    em.expect = counting
    return count
