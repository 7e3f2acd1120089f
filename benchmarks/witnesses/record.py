"""What Weka and pyAgrum say of ten discrete tables, into tests/data/witnesses.json, for the tests to compare with.

python benchmarks/witnesses/record.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import agrum
import numpy as np
import weka
from discrete_sets import SETS, DiscreteSet
from numpy.typing import NDArray

from fanbayes.files.atomic import write_file

OUT = Path(__file__).parents[2] / "tests" / "data" / "witnesses.json"
N_ROWS = 8
ALPHAS = {"NB": 1.0, "TAN": 0.5, "AODE": 1.0}  # Weka's NB and AODE have Laplace's rule


def main() -> None:
    sets = {}
    for name, make in SETS.items():
        sets[name] = testimony(make())
        print(name, *(f"{k}: {len(v)}" for k, v in sets[name]["arcs"].items()))
    content = {"weka": weka.version(), "pyagrum": agrum.version(), "alpha": ALPHAS, "sets": sets}
    write_file(OUT, (json.dumps(content, indent=1) + "\n").encode())
    print(f"Written: {OUT}")


def testimony(data: DiscreteSet) -> dict[str, Any]:
    """Arcs of TAN, and probabilities of the classes of some rows, by each witness."""
    which = np.linspace(0, len(data.labels) - 1, N_ROWS).astype(int).tolist()
    rows, proba, arcs = weka.instances(data), {}, {}
    for name in ALPHAS:
        model = weka.tan(ALPHAS[name]) if name == "TAN" else weka.CLASSIFIERS[name]()
        model.buildClassifier(rows)
        proba[f"{name} of Weka"] = rounded(weka.probabilities(model, rows, which))
        if name == "TAN":
            arcs["Weka"] = weka.arcs(model, data.names)
    arcs["pyAgrum"] = agrum.arcs(agrum.fit_tan(*agrum.as_text(data)))
    proba["TAN of pyAgrum"] = rounded(agrum.probabilities(data, arcs["Weka"], ALPHAS["TAN"], which))
    return {
        "shape": data.codes.shape,
        "sums": data.codes.sum(axis=0).tolist(),
        "rows": which,
        "arcs": arcs,
        "probabilities": proba,
    }


def rounded(p: NDArray[np.float64]) -> list[list[float]]:
    """As lists, to twelve digits: the last ones are chance."""
    return [[float(f"{value:.12g}") for value in row] for row in p.tolist()]


if __name__ == "__main__":
    main()
