"""What each column is: the part of the data that is kept with the model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fanbayes.data.caching import cached_property
from fanbayes.data.sources import Level, Source, kind_of
from fanbayes.data.text_table import shortened, text_table

Kind = Literal["discrete", "continuous", "binned"]
Missing = Literal["ignorable", "informative"]

MAX_LEVELS = 65_535

_COLUMNS_SHOWN, _LEVELS_SHOWN = 30, 4


@dataclass(frozen=True)
class Column:
    """One column of a table.

    A continuous value is used as ``(x * 2**-exponent - centre) / scale``: the power of two is exact and keeps
    squares within range, `centre` and `scale` are the mean and standard deviation after it; `low` and `high`
    are the least and the largest value seen. Of another distribution than "gaussian" it is
    used as it is, and `mean` is its mean. A column with
    fewer than two distinct values carries no information: it has ``scale = 0`` (continuous) or fewer than
    two levels, and no parameters.
    """

    name: str
    kind: Kind
    dtype: str
    levels: tuple[Level, ...] = ()
    cuts: tuple[float, ...] = ()
    low: float = math.nan
    high: float = math.nan
    exponent: int = 0
    centre: float = math.nan
    scale: float = 0.0
    distribution: str = "gaussian"
    mean: float = math.nan

    @cached_property
    def n_levels(self) -> int:
        """Number of values of a discrete or binned column, 0 for a continuous one."""
        return {"discrete": len(self.levels), "binned": len(self.cuts) + 1, "continuous": 0}[self.kind]

    @property
    def is_informative(self) -> bool:
        """Whether it can tell rows apart."""
        return self.scale > 0 if self.kind == "continuous" else self.n_levels > 1

    @property
    def is_standardised(self) -> bool:
        """Whether a continuous column is used in units of its own deviation, as normal ones are."""
        return self.distribution == Column.distribution

    @property
    def log_scale(self) -> float:
        """log(dx' / dx) of a continuous column, negated: log density in the column's own unit = log p(x') - it."""
        return math.log(self.scale) + self.exponent * math.log(2.0)

    @cached_property
    def has_strings(self) -> bool:
        """Whether a level is a string."""
        return any(isinstance(level, str) for level in self.levels)

    @cached_property
    def lookup(self) -> tuple[NDArray[np.int64], NDArray[np.uint16]] | None:
        """Levels in increasing order and the code of each; None where they are not all integers that a float holds."""
        if not self.levels or not all(isinstance(level, int) and abs(level) < 2**53 for level in self.levels):
            return None
        levels = np.array(self.levels, dtype=np.int64)
        codes = np.argsort(levels)
        return levels[codes], codes.astype(np.uint16)

    @property
    def holds(self) -> str:
        """What was seen of it, in a few words: its levels, or its range."""
        if self.kind == "discrete":
            names = [shortened(str(level), 16) for level in self.levels[:_LEVELS_SHOWN]]
            more = len(self.levels) - _LEVELS_SHOWN
            return ", ".join(names) + (f" and {more} more" if more > 0 else "") if names else "nothing"
        seen = "nothing" if math.isnan(self.low) else f"{self.low:g} to {self.high:g}"
        if self.kind == "binned":
            return f"{seen}, {self.n_levels} interval{'s' if self.n_levels > 1 else ''}"
        return seen if self.is_standardised else f"{seen}, {self.distribution}"

    def restore(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """Values in the column's own unit, cut at the largest number that there is; NaN stays."""
        largest = np.finfo(np.float64).max
        with np.errstate(over="ignore"):
            return np.clip(np.ldexp(z * self.scale + self.centre, self.exponent), -largest, largest)

    def to_json(self) -> dict[str, Any]:
        """Plain values only."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Column:
        """Inverse of `to_json`."""
        return cls(**{**values, "levels": tuple(values["levels"]), "cuts": tuple(values["cuts"])})


@dataclass(frozen=True, repr=False)
class Schema:
    """Columns in their order, and the library of the frame they came in (None for an array).

    Where it matters whether a column has a value, an *indicator* says so: a discrete column of its own, True where the
    value is missing. It is derived from the column when rows are encoded, stands behind all columns (its position is
    `len(columns)` or more) and belongs to the same feature.

    Attributes
    ----------
    columns : tuple of Column
    frame : str or None
    indicates : positions of the columns that have an indicator, increasing
    """

    columns: tuple[Column, ...]
    frame: str | None
    indicates: tuple[int, ...] = ()

    def __repr__(self) -> str:
        """A line for each of the first columns: its name, what it was taken for, and what it holds."""
        rows = [[shortened(c.name), c.kind, c.holds] for c in self.columns[:_COLUMNS_SHOWN]]
        more = len(self.columns) - _COLUMNS_SHOWN
        lines = text_table(["name", "kind", "levels or range"], rows, left=(0, 1, 2))
        return "\n".join([f"Schema of {len(self.columns)} columns", *lines, *([f"{more} more"] if more > 0 else [])])

    def __getitem__(self, name: str | int) -> Column:
        j = name if isinstance(name, int) else self.position(name)
        return self.columns[j] if j < len(self.columns) else self.indicators[j - len(self.columns)]

    @cached_property
    def indicators(self) -> tuple[Column, ...]:
        """Columns that say whether those which `indicates` names are missing."""
        named = (self.columns[j].name for j in self.indicates)
        return tuple(Column(f"{name} (missing)", "discrete", "Boolean", levels=(False, True)) for name in named)

    def feature(self, j: int) -> int:
        """Position of the column that a column is, or is the indicator of."""
        return j if j < len(self.columns) else self.indicates[j - len(self.columns)]

    @cached_property
    def indicator_of(self) -> dict[int, int]:
        """Position of the indicator of each column that has one."""
        return {j: len(self.columns) + k for k, j in enumerate(self.indicates)}

    @property
    def apart(self) -> dict[int, int]:
        """Columns of the layout that are never observed in all states: a value and its indicator, by each other."""
        at = self.position_in_layout
        pairs = [(at[j], at[k]) for j, k in self.indicator_of.items() if j in at]
        return {a: b for one, other in pairs for a, b in ((one, other), (other, one))}

    @cached_property
    def feature_of(self) -> NDArray[np.intp]:
        """Position of the feature that each column of the layout belongs to: the discrete ones, then the continuous."""
        return np.array([self.feature(j) for j in self.discrete + self.continuous], dtype=np.intp)

    @property
    def features(self) -> list[int]:
        """Positions of the columns that have parameters, or whose indicator has."""
        return sorted({*self.feature_of.tolist()})

    def position(self, name: str | int) -> int:
        """Position of a column that is given by its name or its position."""
        if isinstance(name, (int, np.integer)) and -len(self.columns) <= name < len(self.columns):
            return range(len(self.columns))[name]
        if name not in self._positions:
            raise KeyError(f"no column {name!r}; the columns are {', '.join(repr(c.name) for c in self.columns)}")
        return self._positions[str(name)]

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {column.name: j for j, column in enumerate(self.columns)}

    @cached_property
    def discrete(self) -> list[int]:
        """Positions of the informative discrete and binned columns and of indicators, by their number of levels."""
        some = [j for j, c in enumerate(self.columns) if c.kind != "continuous" and c.is_informative]
        return sorted([*some, *self.indicator_of.values()], key=lambda j: self[j].n_levels)

    @cached_property
    def continuous(self) -> list[int]:
        """Positions of the informative continuous columns, those of one distribution together, normal ones first."""
        some = [j for j, c in enumerate(self.columns) if c.kind == "continuous" and c.is_informative]
        return sorted(some, key=lambda j: (not self[j].is_standardised, self[j].distribution))

    @cached_property
    def taken_as_they_are(self) -> list[int]:
        """Positions of those of `continuous` that are not normal, the last of them."""
        return [j for j in self.continuous if not self[j].is_standardised]

    @cached_property
    def place(self) -> dict[int, int]:
        """Place of each informative column among those of `discrete`, or of `continuous`."""
        return {j: k for some in (self.discrete, self.continuous) for k, j in enumerate(some)}

    @cached_property
    def position_in_layout(self) -> dict[int, int]:
        """Position of each informative column among all of them, the discrete ones first."""
        return {j: k for k, j in enumerate(self.discrete + self.continuous)}

    @property
    def constant(self) -> list[str]:
        """Names of the columns with fewer than two distinct values, of which it does not matter if they are missing."""
        flat = (not (c.scale > 0 if c.kind != "discrete" else c.is_informative) for c in self.columns)
        return [self.columns[j].name for j, is_flat in enumerate(flat) if is_flat and j not in self.indicator_of]

    def to_json(self) -> dict[str, Any]:
        """Plain values only."""
        columns = [c.to_json() for c in self.columns]
        return {"frame": self.frame, "columns": columns, "indicates": list(self.indicates)}


def is_wide(column: Column) -> bool:
    """Whether codes 0..n_levels, the last for missing, need two bytes."""
    return column.n_levels > 255


def check_content(column: Column, source: Source) -> None:
    """Refuse a column whose type leaves nothing of what it was in training.

    Booleans and the numbers 0 and 1 may stand for each other.
    """
    if column.kind == "continuous" and math.isnan(column.centre):
        return  # nothing was seen of it, so nothing is made of it
    if column.kind != "discrete":
        if source.symbolic and source.content != "nothing":
            raise ValueError(
                f"column {column.name!r} held numbers in training and holds {source.dtype} values now; convert "
                "it to numbers"
            )
        return
    found, known = source.kinds(), {kind_of(level) for level in column.levels}
    if not found or not known or found & known:
        return
    if "strings" not in found | known:
        odd = [value for value in source.distinct() if value not in (0, 1)]
        if odd and known == {"booleans"}:
            raise ValueError(
                f"column {column.name!r} held booleans in training and holds {odd[0]!r} now; convert it to booleans"
            )
        if {*column.levels} <= {0, 1}:
            return
    what, now = "categories" if "strings" in known else "values", " and ".join(sorted(found))
    raise ValueError(
        f"column {column.name!r} held {what} such as {column.levels[0]!r:.60} in training and holds {now} now; "
        "convert it to the same categories"
    )


def category_mask(
    categorical_features: str | Sequence[Any] | NDArray[Any] | None,
    names: Sequence[str],
    sources_said: Sequence[bool],
) -> list[bool]:
    """Which columns are categories.

    Parameters
    ----------
    categorical_features : "from_dtype", "all", None, or names, indices or a mask
    names : names of the columns
    sources_said : which columns their type says are categories
    """
    n = len(names)
    if isinstance(categorical_features, str):
        if categorical_features == "from_dtype":
            return list(sources_said)
        if categorical_features == "all":
            return [True] * n
        raise ValueError(
            f"categorical_features={categorical_features!r} is neither 'from_dtype' nor 'all'; put the name of a "
            "single column into a list"
        )
    if categorical_features is None:
        return [False] * n
    chosen = np.asarray(categorical_features)
    if chosen.ndim != 1:
        raise ValueError("categorical_features takes names, a mask, or indices; put a single one into a list")
    if chosen.size == 0:
        return [False] * n
    if chosen.dtype.kind == "b":
        if chosen.shape != (n,):
            raise ValueError(
                f"categorical_features is a mask of shape {chosen.shape}; it needs one entry for each of {n} columns"
            )
        return [bool(c) for c in chosen]
    mask = [False] * n
    place = {name: j for j, name in enumerate(names)}
    for entry in chosen.tolist():
        if isinstance(entry, str):
            if entry not in place:
                raise ValueError(
                    f"categorical_features names {entry!r}, which is not a column; the columns are {list(names)}"
                )
            mask[place[entry]] = True
        elif isinstance(entry, int) and -n <= entry < n:
            mask[entry] = True
        else:
            raise ValueError(
                f"categorical_features contains {entry!r}; it takes names, a mask, or indices from 0 to {n - 1}"
            )
    return mask
