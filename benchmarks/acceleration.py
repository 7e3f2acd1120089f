"""Accelerated against plain EM: passes from the same start to within 1e-6 of where plain EM ends."""

from __future__ import annotations

import numpy as np
import real_data
from measure import Result

from fanbayes.estimators.classifiers import FANClassifier
from fanbayes.learning.data import InMemoryData
from fanbayes.learning.em import Problem, initial_state, run_em
from fanbayes.learning.starts import labelled_naive_bayes, random_networks
from fanbayes.model.blocks import EstimationOptions
from fanbayes.model.network import Network
from fanbayes.model.structure import fan

NAMES = [
    "iris", "vote", "heart-cleveland", "glass", "soybean-large", "vehicle", "credit-a", "tae", "car", "vowel", "zoo",
    "led7", "hepatitis", "lymphography", "ecoli", "wine", "breast-cancer", "flags", "mushroom", "page-blocks",
]  # fmt: skip


def run() -> list[Result]:
    near, whole, elsewhere, rows = [], [], 0, []
    for data in real_data.load(NAMES):
        cases = FANClassifier()._cases(data.X, data.y, None)
        _, table = cases.encoded("none")
        for n_components in (2, 4):
            found = passes(InMemoryData(table.fused()), len(cases.classes), n_components)
            rows.append({"dataset": data.name, "n_components": n_components, **found})
            if found["ends"] == "elsewhere":
                elsewhere += 1
                continue
            near.append(found["plain"] / found["accelerated"])
            whole.append(found["plain to 1e-10"] / found["accelerated to 1e-10"])
    if not rows:
        return []
    slow = [r["plain"] / r["accelerated"] for r in rows if r["ends"] == "same" and r["plain"] >= 60]
    return [
        Result(
            "passes of plain / accelerated EM to 1e-6 of the end (geometric mean)",
            _mean(near),
            3,
            detail={"runs": rows},
        ),
        Result("the same where plain EM needs 60 passes or more", _mean(slow)),
        Result("the same to convergence at tol 1e-10", _mean(whole)),
        Result("runs that end elsewhere", float(elsewhere), unit=f"of {len(rows)}"),
    ]


def passes(data: InMemoryData, n_classes: int, n_components: int) -> dict[str, object]:
    """Passes of both from one start: rows that they took, as a multiple of the rows."""
    plain_problem, problem = (Problem(data, EstimationOptions(), accelerate=a) for a in (False, True))
    nb, _ = labelled_naive_bayes(problem, n_classes)
    model = problem.model(fan([n_components] * n_classes, "shared"))
    start = random_networks(nb, model, np.random.default_rng(1), 1)
    plain, fast = (trace(p, start) for p in (plain_problem, problem))
    end = plain[0][-1]
    goal = end - 1e-6 * abs(end)
    same = abs(fast[0][-1] - end) <= 1e-6 * abs(end)
    return {
        "plain": plain[1][np.argmax(plain[0] >= goal)],
        "accelerated": fast[1][np.argmax(fast[0] >= goal)],
        "plain to 1e-10": plain[1][-1],
        "accelerated to 1e-10": fast[1][-1],
        "looks": int(np.argmax(fast[0] >= goal)) + 1,
        "ends": "same" if same else "elsewhere",
        "difference": float(fast[0][-1] - end),
    }


def trace(problem: Problem, start: Network) -> tuple[np.ndarray, np.ndarray]:
    """Objective after each pass, and how many passes over all rows it took until then."""
    end = run_em(problem, initial_state(problem, start), 5000, 1e-10)
    return end.traces[0], np.cumsum(end.shares[0])


def _mean(ratios: list[float]) -> float:
    return float(np.exp(np.mean(np.log(ratios)))) if ratios else float("nan")
