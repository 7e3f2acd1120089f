"""Fitted classifiers as files: arrays and a JSON header in one safetensors file (docs/model-file.md).

Loading runs no code that comes from the file: names are looked up in the tables below, everything else is numbers
and text, checked before it is used. A file cannot make `load` take more memory than some fifty times its size (what
JSON can take as Python objects) and a megabyte; that of a model usually takes ten times.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import stat
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from typing import Any, NoReturn

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray
from safetensors import SafetensorError
from sklearn.utils.validation import check_is_fitted

import fanbayes
from fanbayes.data.frames import from_user_table, to_user_table
from fanbayes.data.schema import MAX_LEVELS, Column, Schema
from fanbayes.data.table import Layout, layout_of
from fanbayes.data.views import View
from fanbayes.estimators.base import NetworkClassifier
from fanbayes.estimators.classifiers import FANClassifier, FMClassifier, NBClassifier
from fanbayes.estimators.fan_cv import FANClassifierCV
from fanbayes.files.atomic import write_file
from fanbayes.learning.completion import Imputer
from fanbayes.model.families import categorical
from fanbayes.model.network import Network
from fanbayes.model.structure import Structure, fan, finite_mixture, naive_bayes

Path = str | os.PathLike[str]
Arrays = dict[str, NDArray[Any]]
Floats = NDArray[np.float64]

FORMAT = 1
MOST_HEADER_BYTES = 1 << 25

_KEY = "fanbayes"
_NO_DIGEST = "0" * 64
_NOT_FINITE = ("nan", "inf", "-inf")
_FRAMES = ("pandas", "modin", "cudf", "polars", "pyarrow")
_CLASS_TYPES = {
    **dict.fromkeys(("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"), (int,)),
    **dict.fromkeys(("float16", "float32", "float64"), (float,)),
    "bool": (bool,),
    "str": (str,),
    "object": (str, bool, int, float),
}
Classifier = NetworkClassifier | FANClassifierCV
_CLASSIFIERS: dict[str, type[Classifier]] = {
    c.__name__: c for c in (FANClassifierCV, FANClassifier, FMClassifier, NBClassifier)
}
# Classifier and factors of the weights -> structure, given the number of components of each class.
_STRUCTURES: dict[tuple[str, tuple[str, ...]], Callable[[list[int]], Structure]] = {
    ("NBClassifier", ("class",)): lambda sizes: naive_bayes(len(sizes)),
    ("FANClassifier", ("class", "component")): lambda sizes: fan(sizes, "shared"),
    ("FANClassifier", ("class", "component | class")): lambda sizes: fan(sizes, "per_class"),
    ("FMClassifier", ("component", "class | component")): lambda sizes: finite_mixture(len(sizes), sizes[0]),
}


class ModelFileError(ValueError):
    """A file that is no model, or a model that cannot be kept in a file."""


def save(clf: Classifier, path: Path) -> None:
    """Keep a fitted classifier in one file.

    Whatever happens, `path` holds the old content or the new one. A `random_state` that is a generator is not kept,
    nor is a `cv` that is not a number: they are None and 5 after loading, which makes no difference to anything but
    another `fit`.

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
        raise TypeError(f"save takes a fitted {', '.join(_CLASSIFIERS)}; got {type(clf).__name__}")
    check_is_fitted(clf)
    try:
        data = _pack(*_describe(clf))
        _restore(*_unpack(_parse(data[8 : 8 + _header_length(data)]), data))  # what cannot be read is not written
    except ModelFileError as error:
        raise ModelFileError(f"the {type(clf).__name__} cannot be kept in a file: {error}") from None
    write_file(path, data)


def load(path: Path) -> Classifier:
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
        return _restore(*_read(path))
    except ModelFileError as error:
        raise ModelFileError(f"{os.fspath(path)} cannot be loaded: {error}") from None


def _refuse(reason: str) -> NoReturn:
    raise ModelFileError(reason)


def _require(condition: object, reason: str) -> None:
    if not condition:
        _refuse(reason)


# ---------------------------------------------------------------- bytes


def _read(path: Path) -> tuple[dict[str, Any], Arrays]:
    """Header and arrays of a file; nothing is allocated before its size has been checked."""
    _require(stat.S_ISREG(os.stat(path).st_mode), "it is not a regular file")
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        start = file.read(9)
        _require(len(start) == 9 and start[8:] == b"{", "it is no fanbayes model file")
        length = _header_length(start)
        if length > MOST_HEADER_BYTES:
            _refuse(f"its header claims {length} bytes, more than the {MOST_HEADER_BYTES} that are allowed")
        _require(8 + length <= size, "it is truncated")
        head = start + file.read(length - 1)
        outer = _parse(head[8:])
        end = _end_of_arrays(outer)
        _require(8 + length + end == size, "it is truncated, or something was appended")
        data = head + file.read(end)
        _require(len(data) == size, "it is truncated")
    return _unpack(outer, data)


def _header_length(data: bytes) -> int:
    return int.from_bytes(data[:8], "little")


def _pack(header: dict[str, Any], arrays: Arrays) -> bytes:
    """File of a header and arrays: the digest is that of the file with zeros in its place."""
    text = json.dumps({"format": FORMAT, "library": fanbayes.__version__, "sha256": _NO_DIGEST, **header})
    data = safetensors.numpy.save({k: np.ascontiguousarray(a) for k, a in arrays.items()}, {_KEY: text})
    _require(_header_length(data) <= MOST_HEADER_BYTES, "its header is too large: it has too many categories")
    return data.replace(_NO_DIGEST.encode(), hashlib.sha256(data).hexdigest().encode(), 1)


def _unpack(outer: dict[str, Any], data: bytes) -> tuple[dict[str, Any], Arrays]:
    """Header and arrays of a whole file, given its safetensors header."""
    metadata = outer.get("__metadata__")
    text = metadata.get(_KEY) if isinstance(metadata, dict) else None
    if not isinstance(text, str):
        _refuse("it is no fanbayes model file")
    header = _parse(text)
    version = _entry(header, "format", int)
    _require(0 < version < 1000, "it has a format that does not exist")
    if version > FORMAT:
        library = _entry(header, "library", str)[:20]
        _refuse(f"it has format {version}, of fanbayes {library!r}, and this version reads {FORMAT}: upgrade fanbayes")
    digest = _entry(header, "sha256", str).encode("ascii", "replace")
    _require(len(digest) == len(_NO_DIGEST), "it has no digest")
    unsealed = data.replace(digest, _NO_DIGEST.encode(), 1)
    _require(hashlib.sha256(unsealed).hexdigest().encode() == digest, "it was altered after it was written")
    try:
        return header, safetensors.numpy.load(data)
    except (SafetensorError, KeyError, ValueError, OverflowError):
        _refuse("its arrays are damaged")


def _parse(text: str | bytes) -> dict[str, Any]:
    """A JSON object."""
    try:
        values = json.loads(text, object_hook=_not_finite, parse_constant=_refuse)
    except (ValueError, RecursionError):  # also of UTF-8, and of `_refuse`
        _refuse("its header is not valid JSON")
    if not isinstance(values, dict):
        _refuse("its header is not a JSON object")
    return values


def _end_of_arrays(outer: dict[str, Any]) -> int:
    ends = [0]
    for name, entry in outer.items():
        if name != "__metadata__":
            offsets = _entry(entry, "data_offsets", list)
            _require(len(offsets) == 2 and all(type(o) is int for o in offsets), "its arrays are damaged")
            ends.append(offsets[1])
    return max(ends)


# ---------------------------------------------------------------- what is kept


def _describe(clf: Classifier) -> tuple[dict[str, Any], Arrays]:
    """Header and arrays of a fitted classifier."""
    header = {
        "classifier": type(clf).__name__,
        "settings": {name: _setting(name, value) for name, value in clf.get_params(deep=False).items()},
        "classes": {"dtype": _class_type(clf.classes_), "values": clf.classes_.tolist()},
        "schema": clf.schema_.to_json(),
        "named": hasattr(clf, "feature_names_in_"),
    }
    more, arrays = _describe_average(clf) if isinstance(clf, FANClassifierCV) else _describe_one(clf)
    return _plain(header | more), arrays


def _describe_one(clf: NetworkClassifier) -> tuple[dict[str, Any], Arrays]:
    header = {
        "structure": _describe_structure(clf.network_.structure),
        "fit": {"log_likelihood": clf.log_likelihood_, "converged": clf.converged_},
        "tables": {"selection": from_user_table(clf.selection_), "starts": from_user_table(clf.starts_)},
    }
    arrays = {
        **_arrays_of(clf.network_, clf.schema_),
        "trace": clf.trace_,
        "start_traces": np.concatenate([*clf.start_traces_, np.empty(0)]),
    }
    return header, arrays


def _describe_average(clf: FANClassifierCV) -> tuple[dict[str, Any], Arrays]:
    views = list({id(view): view for view in clf.views_}.values())
    header = {
        "views": [{"schema": v.schema.to_json(), "mixed": v.mixing is not None} for v in views],
        "members": [
            {
                "view": [v is view for v in views].index(True),
                "structure": _describe_structure(network.structure),
                "fine_tuned": predictor is not network,
            }
            for view, network, predictor in zip(clf.views_, clf.networks_, clf.predictors_)
        ],
        "imputer": {
            "structure": _describe_structure(clf.imputer_.network.structure),
            "fills": _fills_of(clf.imputer_),
        },
        "fit": {"log_score": clf.log_score_},
        "tables": {"members": from_user_table(clf.members_)},
    }
    arrays = {"weights": clf.weights_, "feature_weights": clf.feature_weights_, "offsets": clf.offsets_}
    arrays |= _with_prefix("imputer.", _arrays_of(clf.imputer_.network, clf.schema_))
    for k, view in enumerate(views):
        if view.mixing is not None:
            arrays[f"view.{k}.mixing"] = view.mixing
    for k, (view, network, predictor) in enumerate(zip(clf.views_, clf.networks_, clf.predictors_)):
        arrays |= _with_prefix(f"member.{k}.", _arrays_of(network, view.schema))
        if predictor is not network:
            arrays |= _with_prefix(f"fine_tuned.{k}.", _arrays_of(predictor, view.schema))
    return header, arrays


def _fills_of(imputer: Imputer) -> list[bool]:
    """Which columns of the schema are filled in; False for those without parameters."""
    fills = dict(zip(imputer.schema.discrete + imputer.schema.continuous, imputer.fills.tolist()))
    return [fills.get(j, False) for j in range(len(imputer.schema.columns))]


def _with_prefix(prefix: str, arrays: Arrays) -> Arrays:
    return {prefix + name: array for name, array in arrays.items()}


def _describe_structure(structure: Structure) -> dict[str, Any]:
    return {
        "factors": [f.name for f in structure.factors],
        "n_components": np.bincount(structure.class_of).tolist(),
    }


def _arrays_of(network: Network, schema: Schema) -> Arrays:
    return {
        **{f"log_factor.{f.name}": theta[0] for f, theta in zip(network.structure.factors, network.log_factors)},
        "log_table": network.log_table[0][_rows_of_levels(schema, network.layout)],
        "mean": network.mean[0],
        "sigma2": network.sigma2[0],
    }


def _rows_of_levels(schema: Schema, layout: Layout) -> NDArray[np.intp]:
    """Where a network keeps the levels of the discrete columns, in the order of the schema, "missing" left out."""
    first = dict(zip(schema.discrete, layout.first_level.tolist()))
    rows = [np.arange(first[j], first[j] + schema[j].n_levels) for j in sorted(first)]
    return np.concatenate([*rows, np.empty(0, dtype=np.intp)])


def _setting(name: str, value: Any) -> Any:
    if name == "random_state" and not isinstance(value, (int, np.integer)):
        return None
    if name == "cv" and not isinstance(value, (int, np.integer)):
        return 5
    if isinstance(value, Mapping):  # of classes, which keep their types in a list of pairs
        return [[_plain(key), int(number)] for key, number in value.items()]
    if hasattr(value, "tolist"):
        value = value.tolist()
    return list(value) if isinstance(value, (tuple, set, frozenset)) else value


def _class_type(classes: NDArray[Any]) -> str:
    return "str" if classes.dtype.kind == "U" else classes.dtype.name


def _plain(value: Any) -> Any:
    """What JSON can say: a number that is not finite becomes ``{"float": "nan" | "inf" | "-inf"}``."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Mapping):
        return {str(name): _plain(v) for name, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    if value is None or type(value) in (str, bool, int, float):
        return value
    _refuse(f"a file has no form for {value!r:.80}, a {type(value).__name__}; turn it into text or a number")


def _not_finite(values: dict[str, Any]) -> Any:
    """Inverse of `_plain`, for one object of JSON."""
    if values.keys() != {"float"}:
        return values
    return float(values["float"]) if values["float"] in _NOT_FINITE else _refuse("its header is not valid JSON")


# ---------------------------------------------------------------- what is read


def _restore(header: dict[str, Any], arrays: Arrays) -> Classifier:
    """Fitted classifier of a header and arrays, all of them checked."""
    name = _entry(header, "classifier", str)
    _require(name in _CLASSIFIERS, f"its classifier, {name[:40]!r}, is unknown")
    clf = _with_settings(_CLASSIFIERS[name], _entry(header, "settings", dict))
    clf.schema_ = _schema(_entry(header, "schema", dict))
    clf.classes_ = _classes(_entry(header, "classes", dict))
    clf.n_features_in_ = len(clf.schema_.columns)
    if _entry(header, "named", bool):
        clf.feature_names_in_ = np.array([c.name for c in clf.schema_.columns], dtype=object)
    if isinstance(clf, FANClassifierCV):
        _restore_average(clf, header, arrays)
    else:
        _restore_one(clf, header, arrays)
    return clf


def _restore_one(clf: NetworkClassifier, header: dict[str, Any], arrays: Arrays) -> None:
    schema = clf.schema_
    structure = _structure(type(clf).__name__, _entry(header, "structure", dict), len(clf.classes_), arrays)
    tables = {k: _table(_entry(_entry(header, "tables", dict), k, dict)) for k in ("selection", "starts")}
    fit = _entry(header, "fit", dict)
    log_likelihood = _entry(fit, "log_likelihood", float)
    _require(math.isfinite(log_likelihood), "its log-likelihood is not a number")
    lengths = tables["starts"].get("n_iter", [])
    _require(all(type(n) is int and n >= 0 for n in lengths), "its table of starts is damaged")
    _require_names(arrays, {*_names_of_arrays(f.name for f in structure.factors), "trace", "start_traces"})
    network = _network(arrays, structure, schema)
    trace = _array(arrays, "trace", (len(arrays["trace"].ravel()),))
    start_traces = _array(arrays, "start_traces", (sum(lengths),))

    clf.network_ = network
    clf.n_components_ = structure.n_components
    clf.log_likelihood_ = log_likelihood
    clf.n_iter_ = len(trace)
    clf.converged_ = _entry(fit, "converged", bool)
    clf.trace_ = trace
    clf.selection_ = _user_table(tables["selection"], schema.frame)
    clf.starts_ = _user_table(tables["starts"], schema.frame)
    clf.start_traces_ = np.split(start_traces, np.cumsum(lengths)[:-1]) if lengths else []


def _restore_average(clf: FANClassifierCV, header: dict[str, Any], arrays: Arrays) -> None:
    flaw = "its members are damaged"
    n_classes, names = len(clf.classes_), [c.name for c in clf.schema_.columns]
    views = []
    for k, values in enumerate(_entry(header, "views", list)):
        schema = _schema(_entry(values, "schema", dict))
        _require([c.name for c in schema.columns] == names, flaw)
        mixing = None
        if _entry(values, "mixed", bool):
            n = len(schema.continuous)
            _require(f"view.{k}.mixing" in arrays, flaw)
            mixing = _array(arrays, f"view.{k}.mixing", (n, n))
            _require(np.isfinite(mixing).all() and (np.abs(mixing) <= 1e16).all(), flaw)
        if repr(schema) == repr(clf.schema_):  # NaN differs from itself, its text does not
            schema = clf.schema_  # so that rows are encoded once for both
        views.append(View(schema, mixing))
    members = _entry(header, "members", list)
    wanted = {
        "weights",
        "feature_weights",
        "offsets",
        *(f"view.{k}.mixing" for k, v in enumerate(views) if v.mixing is not None),
    }

    def network(prefix: str, described: dict[str, Any], schema: Schema, normalised: bool = True) -> Network:
        structure = _structure("FANClassifier", described, n_classes, arrays, f"{prefix}.")
        own = {f"{prefix}.{name}": name for name in _names_of_arrays(f.name for f in structure.factors)}
        _require(own.keys() <= arrays.keys(), "it does not have the arrays that it should")
        wanted.update(own)
        found = _network({name: arrays[full] for full, name in own.items()}, structure, schema, normalised=normalised)
        # Far beyond what a fit to standardised columns finds, and within what sums over members can hold.
        _require((np.abs(found.mean) <= 1e8).all() and (np.abs(np.log10(found.sigma2)) <= 16).all(), flaw)
        return found

    imputer = _entry(header, "imputer", dict)
    fills = _entry(imputer, "fills", list)
    _require(len(fills) == len(names) and all(type(f) is bool for f in fills), flaw)
    order = clf.schema_.discrete + clf.schema_.continuous
    generative = network("imputer", _entry(imputer, "structure", dict), clf.schema_)
    clf.imputer_ = Imputer(generative, clf.schema_, np.array([fills[j] for j in order], dtype=bool))
    clf.views_, clf.networks_, clf.predictors_ = [], [], []
    for k, values in enumerate(members):
        number = _entry(values, "view", int)
        _require(0 <= number < len(views), flaw)
        schema, described = views[number].schema, _entry(values, "structure", dict)
        networks = [network(f"member.{k}", described, schema)]
        if _entry(values, "fine_tuned", bool):
            networks.append(network(f"fine_tuned.{k}", described, schema, normalised=False))
        clf.views_.append(views[number])
        clf.networks_.append(networks[0])
        clf.predictors_.append(networks[-1])
    _require_names(arrays, wanted)
    m = len(members)
    clf.weights_ = _array(arrays, "weights", (m,))
    clf.feature_weights_ = _array(arrays, "feature_weights", (m, len(names)))
    clf.offsets_ = _array(arrays, "offsets", (m, n_classes))
    _require(m > 0 and (clf.weights_ > 0).all() and abs(clf.weights_.sum() - 1) < 1e-6, flaw)
    _require(
        ((clf.feature_weights_ >= 0) & (clf.feature_weights_ <= 1e3)).all() and (np.abs(clf.offsets_) <= 1e6).all(),
        flaw,
    )
    clf.log_score_ = _entry(_entry(header, "fit", dict), "log_score", float)
    clf.members_ = _user_table(_table(_entry(_entry(header, "tables", dict), "members", dict)), clf.schema_.frame)


def _names_of_arrays(factors: Iterable[str]) -> set[str]:
    return {*(f"log_factor.{name}" for name in factors), "log_table", "mean", "sigma2"}


def _require_names(arrays: Arrays, names: set[str]) -> None:
    _require(arrays.keys() == names, "it does not have the arrays that it should")


def _entry(values: Any, key: str, kind: type) -> Any:
    """An entry of the header, of exactly this type."""
    value = values.get(key) if isinstance(values, dict) else None
    _require(type(value) is kind, f"its header has no {key!r}, or one that is no {kind.__name__}")
    return value


def _with_settings(kind: type[Classifier], settings: dict[str, Any]) -> Classifier:
    known = kind().get_params()
    settings = {name: _mapping(value) if name == "n_components" else value for name, value in settings.items()}
    for name, value in settings.items():
        _require(name in known, f"its setting {name[:40]!r} is unknown")
        _require(name == "n_components" or not isinstance(value, dict), f"its {name} is no setting")
        scalars = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else [value]
        _require(all(s is None or type(s) in (str, bool, int, float) for s in scalars), f"its {name} is no setting")
    clf = kind(**settings)
    try:
        clf._check_parameters()
    except (ValueError, TypeError) as error:
        _refuse(f"{error}"[:150])
    return clf


def _mapping(value: Any) -> Any:
    """Inverse of `_setting` for numbers of components by class."""
    if not isinstance(value, list):
        return value
    pairs = all(isinstance(p, list) and len(p) == 2 and _is_level(p[0]) and type(p[1]) is int for p in value)
    _require(pairs, "its n_components is no setting")
    return dict(value)


def _schema(values: dict[str, Any]) -> Schema:
    frame = values.get("frame")
    _require(frame is None or frame in _FRAMES, "its frame library is unknown")
    columns = tuple(_column(c) for c in _entry(values, "columns", list))
    _require(len({c.name for c in columns}) == len(columns) > 0, "its columns have no names of their own")
    return Schema(columns, frame)


def _column(values: Any) -> Column:
    """A column, its numbers within what the encoding of tables relies on."""
    flaw = "its schema is damaged"
    _require(isinstance(values, dict) and values.keys() == {f.name for f in fields(Column)}, flaw)
    for key, kind in (("name", str), ("kind", str), ("dtype", str), ("levels", list), ("cuts", list)):
        _entry(values, key, kind)
    for key in ("low", "high", "centre", "scale"):
        _entry(values, key, float)
    column = Column.from_json(values)
    cuts = np.array(column.cuts) if all(type(c) is float for c in column.cuts) else np.array([np.nan])
    _require(column.kind in ("discrete", "continuous", "binned"), flaw)
    _require(column.kind == "discrete" or not column.levels, flaw)
    _require(column.kind == "binned" or not column.cuts, flaw)
    _require(column.n_levels <= MAX_LEVELS, flaw)
    _require(np.isfinite(cuts).all() and (np.diff(cuts) > 0).all(), flaw)
    edges = np.array([column.low, *column.cuts, column.high])
    _require(column.kind != "binned" or (np.isfinite(edges).all() and (edges[1:] >= edges[:-1]).all()), flaw)
    _require(all(_is_level(level) for level in column.levels) and _are_distinct(column.levels), flaw)
    kinds = {float if type(level) is int else type(level) for level in column.levels}
    _require(len(kinds) <= 1 or column.dtype.startswith("Categorical"), flaw)
    _require(abs(_entry(values, "exponent", int)) <= 1100, flaw)
    _require(0 <= column.scale < math.inf and (column.scale == 0 or math.isfinite(column.centre)), flaw)
    return column


def _is_level(value: Any) -> bool:
    if type(value) is float:
        return math.isfinite(value)
    return type(value) in (str, bool) or (type(value) is int and -(2**63) <= value < 2**63)


def _are_distinct(values: Any) -> bool:
    return len(set(values)) == len(values)


def _classes(values: dict[str, Any]) -> NDArray[Any]:
    flaw = "its classes are damaged"
    dtype, labels = _entry(values, "dtype", str), _entry(values, "values", list)
    _require(dtype in _CLASS_TYPES and labels and all(type(c) in _CLASS_TYPES[dtype] for c in labels), flaw)
    _require(_are_distinct(labels), flaw)
    lengths = [len(c) if isinstance(c, str) else 1 for c in labels]
    # An array of text is as wide as its longest.
    _require(
        max(lengths) * len(labels) <= 8 * sum(lengths) + 65_536,
        f"its classes differ too much in length; shorten the longest, which has {max(lengths)} characters",
    )
    try:
        classes = np.array(labels, dtype=dtype)
    except (OverflowError, ValueError):
        _refuse(flaw)
    _require(classes.tolist() == labels, flaw)
    return classes


def _structure(classifier: str, values: dict[str, Any], n_classes: int, arrays: Arrays, prefix: str = "") -> Structure:
    """States of a model, which have to be in some proportion to its arrays, those whose names begin so."""
    flaw = "its structure is inconsistent"
    factors, sizes = _entry(values, "factors", list), _entry(values, "n_components", list)
    _require(all(isinstance(f, str) for f in factors) and (classifier, tuple(factors)) in _STRUCTURES, flaw)
    _require(len(sizes) == n_classes and all(type(n) is int and n >= 1 for n in sizes), flaw)
    own = [arrays.get(prefix + name) for name in _names_of_arrays(factors)]
    most = 64 + 16 * sum(0 if array is None else array.size for array in own)
    _require(sum(sizes) <= most, f"it has {sum(sizes)} states, and not the numbers for so many")
    _require(factors == ["class", "component | class"] or len(set(sizes)) == 1, flaw)
    _require(factors != ["class"] or sizes[0] == 1, flaw)
    return _STRUCTURES[classifier, tuple(factors)](sizes)


def _network(arrays: Arrays, structure: Structure, schema: Schema, normalised: bool = True) -> Network:
    """Parameters of the shapes that structure and schema ask for, distributions that sum to one if `normalised`."""
    layout, cells = layout_of(schema), structure.n_cells
    rows = _rows_of_levels(schema, layout)
    log_factors = [_array(arrays, f"log_factor.{f.name}", (len(f.parent),)) for f in structure.factors]
    levels = _array(arrays, "log_table", (len(rows), cells))
    log_table = np.zeros((int(layout.first_level[-1]), cells))
    log_table[rows] = levels
    mean = _array(arrays, "mean", (layout.n_numbers, cells))
    sigma2 = _array(arrays, "sigma2", (layout.n_numbers, cells))
    for x in (*log_factors, log_table, mean, sigma2):
        _require(np.isfinite(x).all(), "it has parameters that are no numbers")
    # Beyond, squares would overflow; the encoding of tables keeps values within the same bound.
    _require((np.abs(mean) <= 1e100).all(), "it has a mean beyond 1e100")
    _require(((sigma2 >= 1e-100) & (sigma2 <= 1e100)).all(), "it has a variance that is not within 1e-100 and 1e100")
    tables = (*log_factors, log_table)
    _require(all((np.abs(x) <= 1e6).all() for x in tables), "it has a log probability beyond a million")
    if normalised:
        _require_sums(structure, layout, log_factors, log_table)
    return Network(
        structure, layout, tuple(theta[None] for theta in log_factors), log_table[None], mean[None], sigma2[None]
    )


def _require_sums(structure: Structure, layout: Layout, log_factors: list[Floats], log_table: Floats) -> None:
    with np.errstate(over="ignore"):
        sums = [np.add.reduceat(np.exp(theta), f.first) for f, theta in zip(structure.factors, log_factors)]
        if layout.n_discrete:
            sums.append(categorical.observed(np.exp(log_table), layout))
    _require(all((np.abs(s - 1) < 1e-9).all() for s in sums), "it has probabilities that do not sum to one")


def _array(arrays: Arrays, name: str, shape: tuple[int, ...]) -> NDArray[np.float64]:
    array = arrays[name]
    _require(array.dtype == np.float64, f"its array {name!r} has type {array.dtype}, not float64")
    _require(array.shape == shape, f"its array {name!r} has shape {array.shape}, not {shape}")
    return np.array(array)


def _table(columns: dict[str, Any]) -> dict[str, list[Any]]:
    """Columns of one length and one type each."""
    flaw = "its tables are damaged"
    for values in columns.values():
        _require(isinstance(values, list) and len(values) == len(next(iter(columns.values()))), flaw)
        _require(len({type(v) for v in values}) <= 1, flaw)
        _require(all(type(v) in (str, bool, float) or (type(v) is int and abs(v) < 2**63) for v in values), flaw)
    return columns


def _user_table(columns: dict[str, list[Any]], frame: str | None) -> Any:
    try:
        return to_user_table(columns, frame)
    except ImportError:
        return columns
