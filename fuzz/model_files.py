"""Model files that are not what `save` wrote: bytes changed, or content changed and sealed again."""

from __future__ import annotations

import copy
import functools
import itertools
import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fanbayes import (
    AODEClassifier,
    BoostedNBClassifier,
    FANClassifier,
    FANClassifierCV,
    FMClassifier,
    MDAClassifier,
    NBClassifier,
    NBTreeClassifier,
    TANClassifier,
    load,
    save,
)
from fanbayes.data.state import StateError, plain
from fanbayes.files.container import pack, unpack
from fanbayes.files.model_file import to_state
from fuzz.verdict import Fault, answer, require, require_probabilities, require_sums

Content = tuple[dict[str, Any], dict[str, Any]]

NUMBERS = [0, 1, -1, 2, 1.0, 0.5, -0.0, 1e300, -1e300, 5e-324, 1e-100, 1e100, 2**31, 2**53, 2**63 - 1, -(2**63), 10**30]
TEXTS = ["", "a", "nan", "\0", "é" * 300, "\ud800", "x\ny", "class", "\x1b[31m"]
OTHERS = [None, True, False, {"float": "nan"}, {"float": "inf"}, {}, [], [[]], {"a": 1}, [1, "a", None]]
DTYPES = ["f8", "f4", "i8", "u1", "?", "f2", "i4"]


@functools.cache
def models() -> tuple[tuple[bytes, dict[str, Any], dict[str, Any]], ...]:
    """Bytes, header and arrays of small models that have everything a file can have."""
    rng = np.random.default_rng(0)
    n = 60
    group = rng.integers(0, 3, n)
    X = pd.DataFrame(
        {
            "colour": np.array(["rouge", "vert", "blåu"])[group],
            "flag": rng.random(n) < 0.3 + 0.2 * group,
            "count": pd.Series(rng.integers(0, 4, n)).astype("category"),
            "length": rng.normal(group, 1.0),
            "mass": rng.normal(0, 10.0 ** (group - 2)),
            "same": 1.0,
        }
    )
    X.loc[::7, "colour"] = None
    X.loc[::5, "mass"] = np.nan
    y = np.array(["no", "yes", "maybe"])[group]
    few = {"random_state": 0, "n_init": 2}
    classifiers = [
        NBClassifier(),
        FANClassifier(2, **few),
        FANClassifier("auto", max_components=2, mixing="per_class", **few),
        FANClassifier(2, discretize="mdlp", **few),
        FMClassifier(3, **few),
        FANClassifierCV(effort="fast", random_state=0),
        TANClassifier(tree="full"),
        FANClassifier(2, tree="full", **few),
        AODEClassifier(),
        MDAClassifier(2, **few),
        BoostedNBClassifier(3, random_state=0),
        BoostedNBClassifier(3, combination="votes", random_state=0),
        NBTreeClassifier(min_loss_decrease=0.0, random_state=0),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = [clf.fit(X, y) for clf in classifiers]
    fitted.append(NBClassifier().fit(X[["length", "mass"]].to_numpy(), group))
    files = []
    for clf in fitted:
        data = pack(*to_state(clf))
        header, arrays = unpack(data)
        files.append((data, plain(header), dict(sorted(arrays.items()))))  # read in any order
    return tuple(files)


def try_content(rng: np.random.Generator, folder: Path) -> None:
    """Change header and arrays, seal the file again: it is refused, or a model that works in every respect."""
    _, header, arrays = models()[rng.integers(len(models()))]
    header, arrays = copy.deepcopy(header), dict(arrays)
    for _ in range(rng.integers(1, 4)):
        change = _pick(rng, [_change_header, _change_header, _change_array, _change_distributions])
        change(rng, header, arrays)
    if rng.random() < 0.01:
        _repeat_column(rng, header, arrays)
    path = folder / "model.fan"
    try:
        path.write_bytes(sealed(header, arrays))
    except (StateError, UnicodeEncodeError):
        return  # a header that JSON cannot say, or that is too large, is no file
    clf = answer(lambda: load(path), [str(path)])
    use(clf, rng, folder)


def try_bytes(rng: np.random.Generator, folder: Path) -> None:
    """Change bytes: the file is refused, always."""
    data, *_ = models()[rng.integers(len(models()))]
    damaged = bytearray(data)
    for _ in range(rng.integers(1, 5)):
        at = rng.integers(0, len(damaged) if rng.random() < 0.5 else min(1000, len(damaged)))
        damaged[at : at + rng.integers(0, 13)] = rng.bytes(rng.integers(0, 13))
    if rng.random() < 0.3:
        del damaged[rng.integers(0, len(damaged)) :]
    if damaged == data:
        damaged.append(0)
    path = folder / "model.fan"
    path.write_bytes(damaged)
    answer(lambda: load(path), [str(path)])
    raise Fault("a damaged file was loaded")


def use(clf: Any, rng: np.random.Generator, folder: Path) -> None:
    """Do with a model all that one does with models; none of it may fail."""
    X = nothing = _without_values(clf)
    if hasattr(clf, "sample"):
        X, y = clf.sample(int(rng.integers(1, 5)), random_state=0)
        require(len(y) == len(X), "a sample with more or fewer classes than rows")
    for rows in (X, nothing):
        proba = clf.predict_proba(rows)
        require_probabilities(proba, len(rows), len(clf.classes_))
        require(set(clf.predict(rows).tolist()) <= set(clf.classes_.tolist()), "a class that it does not know")
        if hasattr(clf, "score_samples"):
            require(np.isfinite(clf.score_samples(rows)).all(), "a log density that is no number")
        if hasattr(clf, "predict_components"):
            require(np.isfinite(clf.predict_components(rows)).all(), "a component that is no number")
    again = folder / "again.fan"
    save(clf, again)
    require(load(again).predict_proba(X).tobytes() == clf.predict_proba(X).tobytes(), "other bits after saving")
    require({p.name for p in folder.iterdir()} <= {"model.fan", "again.fan"}, "a temporary file was left")
    clf.describe()
    if len(clf.classes_) > 1 and getattr(clf, "combination", "") != "votes":
        require_sums(clf, X)
        require_sums(clf, nothing)


def sealed(header: dict[str, Any], arrays: dict[str, Any]) -> bytes:
    """Make a file with the digest that belongs to it, whatever its content."""
    return pack({k: v for k, v in header.items() if k != "sha256"}, arrays)


def _without_values(clf: Any) -> Any:
    """Make two rows with everything missing."""
    if not hasattr(clf, "feature_names_in_"):
        return np.full((2, clf.n_features_in_), np.nan)
    return pd.DataFrame({name: [None, None] for name in clf.feature_names_in_})


# ---------------------------------------------------------------- changes


def _change_header(rng: np.random.Generator, header: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Change, delete, double or move an entry somewhere in the header."""
    at: Any = header
    key = _pick(rng, [k for k in header if k != "sha256"])
    while isinstance(at[key], (dict, list)) and at[key] and rng.random() < 0.85:
        at = at[key]
        key = _pick(rng, list(at) if isinstance(at, dict) else list(range(len(at))))
    what = rng.integers(5)
    if what == 0:
        del at[key]
    elif what == 1 and isinstance(at, list):
        at.insert(int(rng.integers(len(at) + 1)), copy.deepcopy(at[key]))
    elif what == 2 and isinstance(at, list):
        rng.shuffle(at)
    elif what == 3 and isinstance(at[key], (int, float)) and not isinstance(at[key], bool):
        at[key] = _near(rng, at[key])
    else:
        at[key] = copy.deepcopy(_pick(rng, _pick(rng, [NUMBERS, TEXTS, OTHERS])))


def _change_array(rng: np.random.Generator, header: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Change values so that they may still pass, or the shape, the type, the name of an array."""
    name = _pick(rng, list(arrays))
    array = arrays[name]
    what = rng.integers(8)
    if what == 0:
        arrays[name] = np.ones(tuple(rng.integers(0, 4, rng.integers(0, 4))), dtype=_pick(rng, DTYPES))
    elif what == 1:
        del arrays[name]
    elif what == 2:
        arrays[_pick(rng, [*arrays, "other", ""])] = array
    elif what == 3 and array.size and array.dtype == np.float64:
        array = array.copy()
        array.flat[rng.integers(array.size)] = _pick(rng, [*map(float, NUMBERS), math.nan, math.inf, -math.inf])
        arrays[name] = array
    elif name.endswith(("weights", "offset", "mixing")):
        with np.errstate(over="ignore"):  # of an array that another change made large, or narrow
            arrays[name] = array * 10.0 ** rng.uniform(-60, 60)
    elif name.endswith("cells.gaussian") and array.ndim == 2:  # means, then variances
        half = len(array) // 2
        with np.errstate(over="ignore"):
            means = array[:half] * 10.0 ** rng.uniform(-60, 60)
        arrays[name] = np.concatenate([means, 10.0 ** rng.uniform(-100, 100, array[half:].shape)])
    elif arrays[name].ndim:
        arrays[name] = np.roll(array, 1, axis=0) if rng.random() < 0.5 else array[::-1]


def _change_distributions(rng: np.random.Generator, header: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Make the distributions of a table extreme; they still sum to one."""
    names = [name for name in arrays if name.endswith(("cells.categorical", "log_factor.class"))]
    if not names:
        return
    name = _pick(rng, names)
    array = np.atleast_1d(arrays[name]).astype(np.float64)
    if not np.isfinite(array).all():
        return  # another change came before
    # Zeros, for a missing value, end each column of a table.
    last = np.flatnonzero((array == 0).all(axis=1)) if array.ndim == 2 else np.array([len(array)])
    for start, end in itertools.pairwise([-1, *last.tolist()]):
        piece = array[start + 1 : end]
        piece -= 10.0 ** rng.uniform(-3, 5.9) * (rng.random(piece.shape) < 0.5)
        if len(piece):
            piece -= np.logaddexp.reduce(piece, axis=0)
    arrays[name] = array


def _repeat_column(rng: np.random.Generator, header: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Give the last discrete column of a single model many copies, with values far apart, as a wide table has."""
    columns = _discrete(header)
    if not columns or columns[-1]["kind"] != "discrete" or "cells.categorical" not in arrays or "views" in header:
        return
    last, n = columns[-1], int(rng.integers(1, 300))
    levels = len(last["levels"])
    table = arrays["cells.categorical"]
    if levels < 1 or table.ndim != 2 or len(table) <= levels:
        return
    wide = [int(2 ** rng.integers(1, 62)) * k for k in range(levels)] if rng.random() < 0.5 else last["levels"]
    copies = [{**last, "name": f"copy {k}", "levels": wide} for k in range(n)]
    header["schema"]["columns"] += copies
    arrays["cells.categorical"] = np.concatenate([table, *[table[-levels - 1 :]] * n])


def _discrete(header: dict[str, Any]) -> list[dict[str, Any]]:
    """Columns that have rows in the table of log probabilities, as far as the header still names them."""
    try:
        columns = header["schema"]["columns"]
        return [c for c in columns if c["kind"] != "continuous" and isinstance(c["levels"] + c["cuts"], list)]
    except (KeyError, TypeError):
        return []


def _near(rng: np.random.Generator, value: float) -> float:
    if isinstance(value, int):
        return value + int(_pick(rng, [-1, 1, 2**20, 2**31, -(2**40)]))
    return value * float(_pick(rng, [-1.0, 0.0, 1e-300, 1e30, 1 + 1e-9, 2.0]))


def _pick(rng: np.random.Generator, values: Any) -> Any:
    return values[int(rng.integers(len(values)))]
