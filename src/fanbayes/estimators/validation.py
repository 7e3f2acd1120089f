"""What users pass in: parameters, rows, labels and weights, checked once."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from os import PathLike
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d, validate_data

from fanbayes.arrays import Floats
from fanbayes.data.batches import as_batches
from fanbayes.data.schema import MAX_LEVELS
from fanbayes.data.sources import (
    CategoryColumn,
    Source,
    array_sources,
    frame_sources,
    is_missing,
    series_source,
    without_encodings,
)
from fanbayes.data.traps import absent_trap, warn_of

# Beyond, products of weights with what the rows hold might overflow.
MOST_CASES = 1e100

_MOST = 1e100  # of a parameter


def require_choice(name: str, value: object, choices: Sequence[str]) -> None:
    """Refuse a value that is none of the choices."""
    if not (isinstance(value, str) and value in choices):
        raise ValueError(f"{name}={_short(value)} is not one of {', '.join(map(repr, choices))}")


def require_integer(name: str, value: object, least: int, most: int = 2**31 - 1) -> None:
    """Refuse what is not an integer from `least` to `most`."""
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise TypeError(f"{name}={value!r} must be an integer")
    if value < least:
        raise ValueError(f"{name}={_short(value)} must be at least {least}")
    if not value <= most:
        raise ValueError(f"{name}={_short(value)} must be at most {most}")


def require_real(name: str, value: object, *, above: float | None = None, least: float | None = None) -> None:
    """Refuse what is not a number within its bounds, or so large that sums of it might overflow."""
    if not isinstance(value, Real) or isinstance(value, bool):
        raise TypeError(f"{name}={value!r} must be a number")
    if not value <= _MOST or (above is not None and value <= above) or (least is not None and value < least):
        bound = f"greater than {above}" if above is not None else f"at least {least}"
        raise ValueError(f"{name}={_short(value)} must be {bound} and at most {_MOST:g}")


def read_bytes(name: str, value: object) -> int:
    """Bytes of a number, or of a text such as "2GB" or "500 MiB"."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kKMGT]?)(i?)B?\s*", value) if isinstance(value, str) else None
    if found is not None:
        return int(float(found[1]) * (1024 if found[3] else 1000) ** "_KMGT".index(found[2].upper() or "_"))
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool) and value >= 0:
        return int(value)
    raise ValueError(f"{name}={_short(value)} is neither a number of bytes nor a text such as '2GB'")


def _short(value: Any) -> str:
    """A value in the words of an error; Python refuses to write integers of thousands of digits."""
    is_long = isinstance(value, int) and abs(value) >= 10**40
    return "(an integer of over 40 digits)" if is_long else f"{value!r:.80}"


def seed_of(random_state: Any) -> int:
    """A seed drawn from an integer, a `RandomState`, or None for the global one."""
    try:
        return int(check_random_state(random_state).randint(2**31 - 1))
    except (TypeError, ValueError, OverflowError):
        raise ValueError(
            f"random_state={_short(random_state)} must be an integer from 0 to 2**32 - 1, a RandomState or None"
        ) from None


@dataclass(frozen=True)
class Rows:
    """Rows of a user, checked: an array of shape (n_rows, n_columns) or a data frame, and its columns' names.

    Columns that the user's frame did not have are there, empty; `absent` names them.
    """

    content: NDArray[Any] | nw.DataFrame[Any]
    names: list[str]
    absent: frozenset[str] = frozenset()

    def __len__(self) -> int:
        return len(self.content)

    @property
    def frame(self) -> str | None:
        """Name of the frame's library, None for an array."""
        return None if isinstance(self.content, np.ndarray) else self.content.implementation.value

    def sources(self) -> Iterator[Source]:
        """One raw column after the other."""
        if isinstance(self.content, np.ndarray):
            return array_sources(self.content, self.names)
        return frame_sources(self.content)

    def take(self, keep: NDArray[np.bool_]) -> Rows:
        """Some of the rows, by a mask."""
        content = self.content
        kept = content[keep] if isinstance(content, np.ndarray) else content.filter(keep.tolist())
        return replace(self, content=kept)


def is_dask(X: Any) -> bool:
    """Whether X is a frame or an array of Dask."""
    return hasattr(type(X), "__dask_graph__")


def _require_table(X: Any) -> None:
    """Refuse what a table can be made of, and is none."""
    if isinstance(X, (str, PathLike)):
        raise TypeError(f"X is a text, {_short(X)}; read the file first, for example pandas.read_csv(X)")
    if type(X) is dict:  # as sparse arrays may be, too
        raise TypeError("X is a dict; make a data frame of it, for example pandas.DataFrame(X)")


def read_rows(estimator: Any, X: Any, *, reset: bool, training: bool = False) -> Rows:
    """Rows of an array or data frame, names and number of its columns checked by scikit-learn.

    Parameters
    ----------
    reset : whether the estimator learns the names, or compares them with those it knows
    training : whether the rows are learnt from: then no column may be absent
    """
    if is_dask(X):
        raise TypeError("X is a table of Dask, and this needs rows in memory; give it X.compute(), or a sample of X")
    if as_batches(X, 1, once=True) is not None:
        raise TypeError("X is a table that is read in batches, and this needs rows in memory; give it X.head(1000)")
    frame = as_frame(X)
    if frame is None:
        _require_table(X)
        if isinstance(X, np.ma.MaskedArray):
            raise TypeError("X is a masked array, of which NumPy forgets the mask; give X.astype(float).filled(np.nan)")
        if isinstance(X, (list, tuple)):
            array = _array("X", X)
            # NumPy makes text of numbers beside text, and of NaN.
            X = np.array(X, dtype=object) if _mixes_text_and_numbers(X) else array
        X = validate_data(estimator, X, reset=reset, dtype=None, ensure_all_finite=False)
        names = getattr(estimator, "feature_names_in_", [f"x{j}" for j in range(X.shape[1])])
        return Rows(X, [str(n) for n in names])
    beside = () if reset or training else getattr(estimator, "_beside", ())
    if beside:  # what was target or weight of the rows learnt from is no feature here either
        frame = frame.drop([name for name in beside if name in frame.columns])
    absent: list[str] = []
    if not (reset or training) and getattr(estimator, "allow_missing_columns", False):
        frame, absent = _with_absent_columns(frame, getattr(estimator, "feature_names_in_", []))
    validate_data(estimator, frame.to_native(), reset=reset, skip_check_array=True)
    if absent:
        warn_of([absent_trap(absent)])
    for found, what in zip(frame.shape, ("sample", "feature")):
        if found == 0:
            raise ValueError(f"Found array with 0 {what}(s) (shape={frame.shape}) while a minimum of 1 is required.")
    return Rows(frame, [str(n) for n in frame.columns], frozenset(absent))


def _with_absent_columns(frame: nw.DataFrame[Any], known: Sequence[str]) -> tuple[nw.DataFrame[Any], list[str]]:
    """The frame with empty columns where it lacks known ones, and their names; its own stay in their order."""
    present = {*frame.columns}
    absent = [name for name in known if name not in present]
    if not absent:
        return frame, []
    own = iter(frame.columns)
    order = [next(own, name) if name in present else name for name in known]
    return frame.with_columns(nw.lit(None, nw.Float64).alias(name) for name in absent).select(*order, *own), absent


def _array(name: str, values: Any) -> NDArray[Any]:
    """An array of what may be lists in lists."""
    try:
        return np.asarray(values)
    except ValueError:
        raise ValueError(
            f"{name} holds lists of different lengths; give every row as many values, each a number or a text"
        ) from None


def _mixes_text_and_numbers(rows: Sequence[Any]) -> bool:
    """Whether NumPy would turn numbers of these rows into text."""
    texts = [isinstance(v, str) for row in rows if isinstance(row, (list, tuple)) for v in row]
    return any(texts) and not all(texts)


def named_columns(X: Any, **columns: Any) -> tuple[Any, ...]:
    """X and columns, such as y and sample_weight, that may be names of columns of X, which is then without them."""
    names = {what: name for what, name in columns.items() if isinstance(name, str)}
    if not names:
        return X, *columns.values()
    frame = as_frame(X)
    for what, name in names.items():
        if frame is None:
            _require_table(X)
            raise ValueError(f"{what}={name!r:.60} names a column, and X has no names; give the values of {what}")
        if name not in frame.columns:
            raise ValueError(f"{what} names {name!r}, which is not a column; the columns are {frame.columns}")
    assert frame is not None
    values = (frame[v].to_native() if isinstance(v, str) else v for v in columns.values())
    return frame.drop([*{*names.values()}]).to_native(), *values


def as_frame(X: Any) -> nw.DataFrame[Any] | None:
    """X as a data frame, or None if it is none."""
    if isinstance(X, np.ndarray):
        return None
    columns = None if hasattr(X, "collect") else getattr(X, "columns", None)  # a lazy frame has to look for them
    if columns is not None and not callable(columns):
        names = [str(c) for c in (X.column_names if hasattr(X, "column_names") else columns)]
        twice = sorted(name for name, uses in Counter(names).items() if uses > 1)
        if twice:
            raise ValueError(f"column names occur more than once: {', '.join(map(repr, twice))}; rename or drop them")
    frame = nw.from_native(X, pass_through=True, eager_only=False)
    if isinstance(frame, nw.LazyFrame):
        how = "compute" if frame.implementation.is_dask() else "collect"
        raise TypeError(f"X is a lazy frame, and rows in memory are needed here; call .{how}() on it first")
    if isinstance(nw.from_native(X, pass_through=True, series_only=True), nw.Series):
        raise ValueError("X is one column; give a data frame, or an array of shape (n_samples, n_features)")
    return without_encodings(frame) if isinstance(frame, nw.DataFrame) else None


def read_labels(y: Any, n_rows: int) -> NDArray[Any]:
    """Labels as an array of shape (n_rows,)."""
    if y is None:
        raise ValueError("this classifier requires y to be passed, but the target y is None")
    series = nw.from_native(y, series_only=True, pass_through=True)
    if isinstance(series, nw.Series) and series.dtype.is_integer() and series.null_count():
        y = np.fromiter(series.to_list(), object, len(series))  # integers beside None stay integers
    y = np.asarray(column_or_1d(_array("y", y), warn=True))
    if len(y) != n_rows:
        raise ValueError(f"Found input variables with inconsistent numbers of samples: X has {n_rows}, y has {len(y)}")
    return np.asarray(y)


def is_labelled(y: NDArray[Any]) -> NDArray[np.bool_]:
    """Where a label is neither NaN nor None (n_rows,)."""
    if y.dtype.kind == "f":
        if np.isinf(y).any():
            raise ValueError("Input y contains infinity; give every row a class, or NaN or None if it has no label")
        return np.asarray(~np.isnan(y))
    if y.dtype.kind == "O":
        return ~np.fromiter(map(is_missing, y), bool, len(y))
    return np.ones(len(y), dtype=bool)


def encode_labels(y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int32]]:
    """Classes in order, and the class of each row (n_rows,), -1 where it is unlabelled."""
    classes, labels = classes_of(y)
    require_classes(len(classes))
    return classes, labels


def classes_of(y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int32]]:
    """As `encode_labels`, of rows of which none need have a label."""
    if y.dtype.kind == "O" and set(map(type, y)) == {str}:  # the common case, many times faster
        index = {name: k for k, name in enumerate(sorted(set(y.tolist())))}
        return np.array([*index], dtype=object), np.fromiter(map(index.__getitem__, y.tolist()), np.int32, len(y))
    labelled = is_labelled(y)
    if not labelled.any():
        return np.empty(0), np.full(len(y), -1, dtype=np.int32)
    known = y[labelled]
    if known.dtype.kind == "O":
        kinds = {str if isinstance(v, str) else Real if isinstance(v, Real) else type(v) for v in known}
        if len(kinds) > 1:
            raise ValueError(
                "y mixes labels of different types, such as strings and numbers; make them all of one type"
            )
        if not kinds <= {str, Real}:
            [kind] = kinds
            raise ValueError(f"y holds labels of type {kind.__name__}; make them strings or numbers")
        if kinds != {str}:
            known = np.array(known.tolist())  # numbers that stood beside None
    with np.errstate(invalid="ignore"):  # numbers beyond all integers are not whole
        check_classification_targets(known)
    classes, codes = np.unique(known, return_inverse=True)
    labels = np.full(len(y), -1, dtype=np.int32)
    labels[labelled] = codes
    return classes, labels


def require_classes(n_classes: int) -> None:
    """Refuse labels without a class, or with as many as only identifiers or numbers to be predicted have."""
    if n_classes == 0:
        raise ValueError("no row has a label; give at least one row of y a class")
    if n_classes > MAX_LEVELS:
        raise ValueError(
            f"y holds {n_classes:,} classes, more than {MAX_LEVELS:,}; give it classes, not identifiers or measurements"
        )


def labels_of(y: Any, n_rows: int) -> tuple[NDArray[Any], NDArray[np.int32]]:
    """Classes in order, and the class of each of some rows (n_rows,), -1 where it is unlabelled."""
    series = nw.from_native(y, series_only=True, pass_through=True)
    if isinstance(series, nw.Series) and len(series) == n_rows and series.dtype in (nw.String, nw.Categorical):
        found = series_source(series, "y")
        if isinstance(found, CategoryColumn) and all(isinstance(level, str) for level in found.categories):
            classes = sorted(found.distinct())
            labels = found.codes(classes)
            return np.array(classes, dtype=object), np.where(labels < len(classes), labels, -1).astype(np.int32)
    return classes_of(read_labels(y, n_rows))


def seen_classes(classes: NDArray[Any], labels: NDArray[np.int32]) -> tuple[NDArray[Any], NDArray[np.int32]]:
    """Those of the classes that some row has, and the labels (n_rows,) as numbers of these."""
    seen = np.bincount(labels + 1, minlength=len(classes) + 1)[1:] > 0
    place = np.append(np.where(seen, np.cumsum(seen) - 1, -1), -1).astype(np.int32)  # -1, no label, is the last
    return classes[seen], place[labels]


def labels_among(classes: NDArray[Any], y: NDArray[Any]) -> NDArray[np.int32]:
    """Class of each row (n_rows,) among those given, -1 where it is unlabelled."""
    if not is_labelled(y).any():
        return np.full(len(y), -1, dtype=np.int32)
    found, labels = encode_labels(y)
    place = {label: k for k, label in enumerate(classes.tolist())}
    for label in found.tolist():
        if label not in place:
            raise ValueError(f"y holds {label!r:.60}, which is not among the classes {_short(classes.tolist())}")
    return np.array([*(place[label] for label in found.tolist()), -1], dtype=np.int32)[labels]


def read_weights(sample_weight: Any, n_rows: int) -> Floats | None:
    """Case weights (n_rows,), or None where all are 1."""
    if sample_weight is None:
        return None
    weight = finite_weights(sample_weight, n_rows)
    if not (weight > 0).any():
        raise ValueError("sample_weight is zero for all rows; give at least one row a positive weight")
    return None if bool((weight == 1.0).all()) else weight


def finite_weights(sample_weight: Any, n_rows: int) -> Floats:
    """Case weights (n_rows,), finite and not negative."""
    try:
        given = np.asarray(sample_weight)
        weight = given.astype(np.float64, casting="unsafe" if given.dtype.kind == "O" else "same_kind")
    except (TypeError, ValueError, OverflowError):
        raise ValueError("sample_weight holds values that are not numbers; give every row a number") from None
    if weight.ndim == 0:
        weight = np.full(n_rows, float(weight))
    if weight.ndim != 1:
        raise ValueError(f"Sample weights must be 1D array or scalar; got {weight.ndim} dimensions")
    if len(weight) != n_rows:
        raise ValueError(f"sample_weight.shape == {weight.shape}, expected {(n_rows,)}")
    if not np.isfinite(weight).all():
        raise ValueError("sample_weight contains NaN or infinity; give every row a finite weight")
    if weight.max(initial=0.0) > MOST_CASES / max(1, len(weight)):
        raise ValueError(
            f"the sum of sample_weight is larger than {MOST_CASES:g}; divide all weights by the largest of them"
        )
    if (weight < 0).any():
        raise ValueError("sample_weight contains negative values; weights are counts of cases")
    return weight
