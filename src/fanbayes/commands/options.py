"""Options that several commands share; nothing heavy is imported here, so that ``--help`` is quick."""

from __future__ import annotations

import csv
import shlex
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import typer

from fanbayes.commands.output import WrongUse


class Model(StrEnum):
    """Models by name."""

    FAN = "fan"
    FM = "fm"
    NB = "nb"
    FAN_PER_CLASS = "fan-per-class"
    FAN_TREE = "fan-tree"
    FAN_CV = "fan-cv"
    TAN = "tan"
    BOOSTED_NB = "boosted-nb"
    AODE = "aode"
    MDA = "mda"
    NBTREE = "nbtree"

    @property
    def title(self) -> str:  # type: ignore[override]
        """As tables call it."""
        return {
            "fan-per-class": "FAN per class",
            "fan-tree": "FAN tree",
            "fan-cv": "FAN CV",
            "boosted-nb": "Boosted NB",
            "nbtree": "NBTree",
        }.get(self.value, self.value.upper())


def model_named(name: str) -> Model:
    """The model of a name."""
    try:
        return Model(name.strip().lower())
    except ValueError:
        raise WrongUse(f"--model {name!r:.60}: there are {', '.join(Model)}.") from None


_FORMATS = "CSV, ARFF (each also .gz, .xz, .bz2), Excel, Parquet or Arrow"
_SEVERAL = (
    f"{_FORMATS}; several files, a folder or a pattern such as 'claims/*.parquet' are one table; '-' is standard "
    "input. With --query, a database: a file of DuckDB or SQLite, or postgresql://user@host/name"
)
_EXISTING = {"exists": True, "dir_okay": False, "show_default": False}

Data = Annotated[Path, typer.Argument(help=f"Table of labelled rows: {_FORMATS}.", metavar="DATA", **_EXISTING)]
Rows = Annotated[Path, typer.Argument(help=f"Table of rows: {_FORMATS}.", metavar="ROWS", **_EXISTING)]
Training = Annotated[
    list[str], typer.Argument(help=f"Table of labelled rows: {_SEVERAL}.", metavar="DATA", show_default=False)
]
Tables = Annotated[list[str], typer.Argument(help=f"Table of rows: {_SEVERAL}.", metavar="ROWS", show_default=False)]
Query = Annotated[
    str | None,
    typer.Option("--query", metavar="SELECT", help="Rows of a database, for example 'SELECT * FROM claims'."),
]
ModelFile = Annotated[Path, typer.Argument(help="Model that `fanbayes fit` wrote.", metavar="MODEL", **_EXISTING)]
Target = Annotated[str, typer.Option("--target", "-t", help="Column of the classes.", metavar="COLUMN")]
CriterionOption = Annotated[
    Literal["icl", "bic", "aic", "cs"] | None,
    typer.Option(
        "--criterion",
        help="Score that chooses the number of components; larger is better. If not given ICL, for fm AIC.",
    ),
]
EffortOption = Annotated[
    Literal["fast", "default", "best"] | None,
    typer.Option("--effort", help="How much fan-cv tries out; 'default' if not given."),
]
Discrete = Annotated[
    list[str] | None,
    typer.Option("--discrete", metavar="A,B", help="Columns that hold codes although they look like numbers."),
]
Continuous = Annotated[list[str] | None, typer.Option("--continuous", metavar="A,B", help="Columns that hold numbers.")]
Ignore = Annotated[list[str] | None, typer.Option("--ignore", metavar="A,B", help="Columns to leave out.")]
Missing = Annotated[
    list[str] | None,
    typer.Option("--missing", metavar="A,B", help="Further texts for a missing value, beside an empty field and '?'."),
]
InformativeMissing = Annotated[
    bool, typer.Option("--informative-missing", help="Learn from whether a value is missing, too.")
]
Separator = Annotated[
    str | None, typer.Option("--separator", metavar="CHAR", help="Of a CSV file; found out if not given.")
]
Encoding = Annotated[str | None, typer.Option("--encoding", metavar="NAME", help="Of a text file; UTF-8 if not given.")]
Decimal = Annotated[
    Literal[".", ","], typer.Option("--decimal", help="What the numbers of a text file are written with.")
]
AllowMissingColumns = Annotated[
    bool,
    typer.Option("--allow-missing-columns", help="Sum out columns that the model knows and ROWS does not have."),
]
Discretize = Annotated[
    bool, typer.Option("--discretize", help="Cut continuous columns into intervals (Fayyad & Irani 1993).")
]
Seed = Annotated[int, typer.Option("--seed", min=0, max=2**32 - 1, help="Of everything random.")]
Jobs = Annotated[
    int | None, typer.Option("--jobs", "-j", min=1, help="Threads; one for each core if not given. No result changes.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]


def examples(*lines: str) -> str:
    """Examples as a help ends with them: one a line."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def names(values: Iterable[str] | None) -> list[str]:
    """Names separated by commas; one that has a comma itself stands in double quotes."""
    return list(dict.fromkeys(fields(values)))


def pasted(values: Iterable[str]) -> str:
    """The argument that `names` reads these names from, quoted for a shell."""
    return shlex.quote(",".join(_quoted(value) for value in values))


def _quoted(value: str) -> str:
    is_plain = value and value == value.lstrip() and not {*value} & {*',"\r\n'}
    return value if is_plain else '"' + value.replace('"', '""') + '"'


def fields(values: Iterable[str] | None) -> list[str]:
    """Like `names`, each as often as it is given."""
    try:
        return [name for row in csv.reader(values or (), skipinitialspace=True) for name in row or [""]]
    except csv.Error:
        raise WrongUse("a name that has a line end in it must stand in double quotes.") from None
