"""NBTree beside scikit-learn's decision tree, one thread each."""

from __future__ import annotations

import warnings

import real_data
from measure import Result, seconds
from sklearn.preprocessing import OrdinalEncoder
from sklearn.tree import DecisionTreeClassifier

from fanbayes import NBTreeClassifier


def run() -> list[Result]:
    warnings.simplefilter("ignore")
    results = []
    for data in real_data.load(["adult", "letter"]):
        symbols = [name for name, kind in data.kinds.items() if kind == "discrete"]
        codes = data.X.copy()
        if symbols:
            codes[symbols] = OrdinalEncoder(encoded_missing_value=-1).fit_transform(codes[symbols])
        theirs, log_score, accuracy = seconds(
            lambda: DecisionTreeClassifier(random_state=0).fit(codes, data.y),  # noqa: B023
            lambda: NBTreeClassifier(random_state=0).fit(data.X, data.y),  # noqa: B023
            lambda: NBTreeClassifier(split_score="accuracy", shrinkage=0, random_state=0).fit(data.X, data.y),  # noqa: B023
        )
        for name, ours in (("NBTree", log_score), ("NBTree as Kohavi's", accuracy)):
            detail = {"s": {"fanbayes": ours, "sklearn": theirs}}
            what = f"fit, {data.name}: {name} / DecisionTreeClassifier"
            results.append(Result(what, ours / theirs, 20, "less", detail=detail))
    return results
