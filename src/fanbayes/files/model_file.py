"""Fitted classifiers as files (docs/model-file.md).

Loading runs no code that comes from the file: names are looked up in the tables below, everything else is numbers
and text, checked before it is used. A file cannot make `load` take more memory than some fifty times its size (what
JSON can take as Python objects) and a megabyte; that of a model usually takes ten times.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from fanbayes.data.state import State, StateError, are_distinct, entry, is_level, plain, read_schema, refuse, require
from fanbayes.estimators.aode import AODEClassifier
from fanbayes.estimators.boosted_nb import BoostedNBClassifier
from fanbayes.estimators.classifiers import FANClassifier, FMClassifier, NBClassifier
from fanbayes.estimators.fan_cv import FANClassifierCV
from fanbayes.estimators.mda import MDAClassifier
from fanbayes.estimators.nb_tree import NBTreeClassifier
from fanbayes.estimators.tabular import TableClassifier
from fanbayes.estimators.tan import TANClassifier
from fanbayes.files.atomic import write_file
from fanbayes.files.container import Path, pack, read, unpack

# Settings that may be mappings, and the type of what is mapped to.
_MAPPINGS = {"n_components": int, "distributions": str}

_CLASSIFIERS: dict[str, type[TableClassifier]] = {
    c.__name__: c
    for c in (
        FANClassifierCV,
        FANClassifier,
        FMClassifier,
        NBClassifier,
        TANClassifier,
        BoostedNBClassifier,
        AODEClassifier,
        MDAClassifier,
        NBTreeClassifier,
    )
}
_CLASS_TYPES = {
    **dict.fromkeys(("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"), (int,)),
    **dict.fromkeys(("float16", "float32", "float64"), (float,)),
    "bool": (bool,),
    "str": (str,),
    "object": (str, bool, int, float),
}


class ModelFileError(ValueError):
    """A file that is no model, or a model that cannot be kept in a file."""


def save(clf: TableClassifier, path: Path) -> None:
    """Keep a fitted classifier in one file.

    Whatever happens, `path` holds the old content or the new one. A `random_state` that is a generator is not kept,
    nor is a `cv` that is not a number, nor are `extra_members` of an average in which none of them has remained: they
    are None after loading, which makes no difference to anything but another `fit`.

    Parameters
    ----------
    clf : fitted FANClassifierCV, FANClassifier, FMClassifier or NBClassifier
    path : str or path-like

    Raises
    ------
    ModelFileError
        If the classifier holds something that the file cannot, such as categories that are dates.
    OSError
        If the file cannot be written.
    """
    if type(clf) not in _CLASSIFIERS.values():
        raise TypeError(
            f"save takes a classifier of fanbayes, and this is a {type(clf).__name__}; of a pipeline save the last "
            "step, pipeline[-1], and of a search search.best_estimator_, or keep the whole with joblib.dump"
        )
    check_is_fitted(clf)
    try:
        data = pack(*to_state(clf))
        from_state(*unpack(data))  # what cannot be read is not written
    except StateError as error:
        raise ModelFileError(f"the {type(clf).__name__} cannot be kept in a file: {error}") from None
    write_file(path, data)


def load(path: Path) -> TableClassifier:
    """Fitted classifier of a file that `save` wrote.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    FANClassifierCV, FANClassifier, FMClassifier or NBClassifier
        With all that it had learnt. Predictions are the same to the last bit on the same machine. `selection_` and
        `starts_` are frames of the library it was fitted with, or dicts of columns where that is not installed.

    Raises
    ------
    ModelFileError
        If the file is no model, is damaged, or comes from a later version.
    """
    try:
        return from_state(*read(path))
    except StateError as error:
        raise ModelFileError(f"{os.fspath(path)} cannot be loaded: {error}") from None


def to_state(clf: TableClassifier) -> State:
    """Header and arrays of a fitted classifier."""
    header = {
        "classifier": type(clf).__name__,
        "settings": {name: _setting(name, value) for name, value in clf.get_params(deep=False).items()},
        "classes": {"dtype": _class_type(clf.classes_), "values": clf.classes_.tolist()},
        "schema": clf.schema_.to_json(),
        "named": hasattr(clf, "feature_names_in_"),
        "beside": list(clf._beside),
        "missing_texts": list(clf._missing_texts),
    }
    learnt, arrays = clf._to_state()
    return plain(header | learnt), arrays


def from_state(header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> TableClassifier:
    """Fitted classifier of a header and arrays, all of them checked."""
    name = entry(header, "classifier", str)
    require(name in _CLASSIFIERS, f"its classifier, {name[:40]!r}, is unknown")
    clf = _with_settings(_CLASSIFIERS[name], entry(header, "settings", dict))
    clf.schema_ = read_schema(entry(header, "schema", dict))
    clf.classes_ = _classes(entry(header, "classes", dict))
    clf.n_features_in_ = len(clf.schema_.columns)
    if entry(header, "named", bool):
        clf.feature_names_in_ = np.array([c.name for c in clf.schema_.columns], dtype=object)
    clf._beside = _texts(header, "beside", "its names of columns are damaged")
    clf._missing_texts = _texts(header, "missing_texts", "its texts for a missing value are damaged")
    clf._set_state(header, arrays)
    return clf


def _texts(header: dict[str, Any], name: str, flaw: str) -> tuple[str, ...]:
    """Texts that a header lists; files of older versions may not have them."""
    texts = entry({name: []} | header, name, list)
    require(all(type(text) is str for text in texts), flaw)
    return tuple(texts)


def _setting(name: str, value: Any) -> Any:
    if name in ("random_state", "cv", "extra_members") and not isinstance(value, (int, np.integer)):
        return None
    if isinstance(value, Mapping):  # of classes or columns, which keep their types in a list of pairs
        return [[plain(key), plain(of_key)] for key, of_key in value.items()]
    if hasattr(value, "tolist"):
        value = value.tolist()
    return list(value) if isinstance(value, (tuple, set, frozenset)) else value


def _with_settings(kind: type[TableClassifier], settings: dict[str, Any]) -> TableClassifier:
    known = kind().get_params()
    settings = {name: _mapping(value, name) if name in _MAPPINGS else value for name, value in settings.items()}
    for name, value in settings.items():
        require(name in known, f"its setting {name[:40]!r} is unknown")
        require(name in _MAPPINGS or not isinstance(value, dict), f"its {name} is no setting")
        scalars = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else [value]
        require(all(s is None or type(s) in (str, bool, int, float) for s in scalars), f"its {name} is no setting")
    clf = kind(**settings)
    try:
        clf._check_parameters()
    except (ValueError, TypeError) as error:
        refuse(f"{error}"[:150])
    return clf


def _mapping(value: Any, name: str) -> Any:
    """Inverse of `_setting` for numbers by class, and distributions by column."""
    require(not isinstance(value, dict), f"its {name} is no setting")
    if not isinstance(value, list):
        return value
    kind = _MAPPINGS[name]
    pairs = all(isinstance(p, list) and len(p) == 2 and is_level(p[0]) and type(p[1]) is kind for p in value)
    require(pairs, f"its {name} is no setting")
    return dict(value)


def _class_type(classes: NDArray[Any]) -> str:
    return "str" if classes.dtype.kind == "U" else classes.dtype.name


def _classes(values: dict[str, Any]) -> NDArray[Any]:
    flaw = "its classes are damaged"
    dtype, labels = entry(values, "dtype", str), entry(values, "values", list)
    require(dtype in _CLASS_TYPES and labels and all(type(c) in _CLASS_TYPES[dtype] for c in labels), flaw)
    require(are_distinct(labels), flaw)
    lengths = [len(c) if isinstance(c, str) else 1 for c in labels]
    # An array of text is as wide as its longest.
    require(
        max(lengths) * len(labels) <= 8 * sum(lengths) + 65_536,
        f"its classes differ too much in length; shorten the longest, which has {max(lengths)} characters",
    )
    try:
        classes = np.array(labels, dtype=dtype)
    except (OverflowError, ValueError):
        refuse(flaw)
    require(classes.tolist() == labels, flaw)
    return classes
