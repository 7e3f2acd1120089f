"""Accuracy of our classifiers beside Weka's, on the same folds of those of Weka's 36 sets that a folder has.

    python benchmarks/witnesses/accuracy.py --data DIR [--sets NAME ...] [--models NAME ...] [--out FILE]

Ten folds; numbers are binned by our MDLP on the training part of each, for both. Weka gets the codes; what was not seen
in training is missing.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
import weka
from discrete_sets import DiscreteSet
from rich.console import Console
from rich.table import Table

import fanbayes
from fanbayes import datasets
from fanbayes.evaluation.folds import folds
from fanbayes.files.atomic import write_file
from fanbayes.study.provenance import environment

HERE = Path(__file__).parent
# Weka's names of its sets, and ours. Not among ours: anneal.ORIG, colic, colic.ORIG.
SETS = {
    "anneal": "anneal",
    "audiology": "audiology",
    "autos": "autos",
    "balance-scale": "balance-scale",
    "breast-cancer": "breast-cancer",
    "breast-w": "breast-w",
    "credit-a": "credit-a",
    "credit-g": "credit-g",
    "diabetes": "diabetes",
    "glass": "glass",
    "heart-c": "heart-cleveland",
    "heart-h": "heart-hungarian",
    "heart-statlog": "heart-statlog",
    "hepatitis": "hepatitis",
    "hypothyroid": "thyroid-allhypo",
    "ionosphere": "ionosphere",
    "iris": "iris",
    "kr-vs-kp": "kr-vs-kp",
    "labor": "labor",
    "letter": "letter",
    "lymph": "lymphography",
    "mushroom": "mushroom",
    "primary-tumor": "primary-tumor",
    "segment": "segment",
    "sick": "thyroid-sick",
    "sonar": "sonar",
    "soybean": "soybean-large",
    "splice": "splice",
    "vehicle": "vehicle",
    "vote": "vote",
    "vowel": "vowel",
    "waveform-5000": "waveform-40",
    "zoo": "zoo",
}
PUBLISHED = {"NB": 83.31, "TAN": 84.95, "AODE": 85.68}  # over all 36, binned otherwise
OURS: dict[str, tuple[str, dict[str, Any]]] = {  # class and settings
    "NB": ("NBClassifier", {"discretize": "mdlp"}),
    "TAN": ("TANClassifier", {"discretize": "mdlp", "tree": "full"}),
    "AODE": ("AODEClassifier", {}),
    "NBTree": ("NBTreeClassifier", {"split_score": "accuracy", "shrinkage": 0.0, "random_state": 0}),  # as Kohavi's
}
MOST_CELLS = {"NBTree": 30_000}  # rows times columns; beyond, Weka's takes hours


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="folder of datasets with a manifest.json")
    parser.add_argument("--sets", nargs="+", default=[*SETS], choices=SETS, metavar="NAME")
    parser.add_argument("--models", nargs="+", default=["NB", "TAN", "AODE", "NBTree"], choices=OURS)
    parser.add_argument("--out", type=Path, default=HERE / "accuracy.json")
    options = parser.parse_args()
    models = [name for name in options.models if hasattr(fanbayes, OURS[name][0])]
    suite = datasets.load_suite(options.data)
    about = environment(["numpy", "scikit-learn"], HERE) | {"weka": weka.version()}
    found = {}
    for name in options.sets:
        data = replace(suite[SETS[name]], split=None)
        cells = len(data.y) * len(data.kinds)
        begin = time.perf_counter()
        found[name] = correct(data, [m for m in models if cells <= MOST_CELLS.get(m, cells)])
        print(f"{name}: {time.perf_counter() - begin:.0f} s", flush=True)
    write_file(options.out, (json.dumps({"environment": about, "sets": found}, indent=1) + "\n").encode())
    show(found)


def correct(data: datasets.Dataset, models: list[str]) -> dict[str, dict[str, int]]:
    """Correct predictions of ours and of Weka over all folds, and the number of rows."""
    counts = {m: {"rows": 0, "ours": 0, "weka": 0} for m in models}
    part, frame = folds(data, 10, 0), nw.from_native(data.X, eager_only=True)
    for k in range(int(part.max()) + 1):
        train, test = np.flatnonzero((part != k) & data.labelled), np.flatnonzero(part == k)
        X, y = frame[train.tolist()].to_native(), data.y[train]
        X_test, y_test = frame[test.tolist()].to_native(), data.y[test]
        with warnings.catch_warnings(action="ignore"):
            theirs = [weka.instances(*part) for part in encoded(X, y, X_test, y_test)]
            for name in models:
                of, settings = OURS[name]
                ours = getattr(fanbayes, of)(**settings).fit(X, y)
                model = weka.CLASSIFIERS[name]()
                model.buildClassifier(theirs[0])
                counts[name]["rows"] += len(test)
                counts[name]["ours"] += int((ours.predict(X_test) == y_test).sum())
                counts[name]["weka"] += weka.n_correct(model, *theirs)
    return counts


def encoded(X: Any, y: Any, X_test: Any, y_test: Any) -> Iterator[tuple[DiscreteSet, list[int], int]]:
    """Rows of both parts as codes, -1 where missing, with the numbers of levels and classes of the training part."""
    clf = fanbayes.NBClassifier(discretize="mdlp").fit(X, y)
    schema, classes = clf.schema_, clf.classes_.tolist()
    place = {label: k for k, label in enumerate([*classes, *sorted({*y_test.tolist()} - {*classes})])}
    levels = [schema[j].n_levels for j in schema.discrete]
    for rows, labels in ((X, y), (X_test, y_test)):
        codes = clf._encode(rows, (schema,)).tables[0].codes_of_columns()
        codes[codes == levels] = -1
        yield DiscreteSet(codes, np.array([place[label] for label in labels.tolist()])), levels, len(place)


def show(found: dict[str, Any]) -> None:
    """Accuracy in per cent, ours and Weka's, and the means over the sets that both have."""
    models = [m for m in OURS if any(m in counts for counts in found.values())]
    table = Table("set", *(f"{m}, {who}" for m in models for who in ("ours", "Weka")))
    means: dict[str, list[list[float]]] = {m: [] for m in models}
    for name, counts in found.items():
        cells = []
        for m in models:
            if m not in counts:
                cells += ["", ""]
                continue
            shares = [100 * counts[m][who] / counts[m]["rows"] for who in ("ours", "weka")]
            means[m].append(shares)
            cells += [f"{share:.2f}" for share in shares]
        table.add_row(name, *cells)
    table.add_section()
    table.add_row("mean", *(f"{x:.2f}" for m in models for x in np.mean(means[m], axis=0)))
    table.add_row("sets", *(x for m in models for x in (str(len(means[m])), "")))
    table.add_row("published, 36 sets", *(x for m in models for x in ("", f"{PUBLISHED.get(m, '')}")))
    Console(width=150).print(table)


if __name__ == "__main__":
    main()
