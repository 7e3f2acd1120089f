"""The command `fanbayes export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from fanbayes.commands import options
from fanbayes.commands.output import WrongUse, note, require_target

_FORMATS = {".onnx": "an ONNX graph", ".py": "a Python file", ".sql": "one SELECT"}
_NAMES = {"onnx": ".onnx", "python": ".py", "sql": ".sql"}


def export(
    model: options.ModelFile,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", show_default=False, help="File to write: its end, .onnx, .py or .sql, decides what."
        ),
    ],
    to: Annotated[
        Literal["onnx", "python", "sql"] | None,
        typer.Option("--to", help="What to write, whatever the name of the file."),
    ] = None,
    table: Annotated[
        str | None, typer.Option("--table", metavar="NAME", help="Table that a SELECT reads; 'data' if not given.")
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            "--keep", metavar="A,B", help="Columns that a SELECT hands on, such as a key; if not given the features."
        ),
    ] = None,
) -> None:
    """Write a model as a file that predicts without this library."""
    form = _NAMES[to] if to else file.suffix.lower()
    if form not in _FORMATS:
        known = ", ".join(f"{suffix} ({what})" for suffix, what in _FORMATS.items())
        raise WrongUse(f"the end of the name {file.name} decides what is written: it must be {known}; or say --to.")
    if form != ".sql" and (table is not None or keep):
        raise WrongUse("--table and --keep are for a SELECT: write to a file .sql, or say --to sql.")
    if table == "":
        raise WrongUse("--table is empty: give the name of the table that the SELECT reads.")
    require_target(file, model)

    from fanbayes.export import compile_model, model_onnx, model_python, model_sql
    from fanbayes.files.atomic import write_file
    from fanbayes.files.model_file import load

    compiled = compile_model(load(model))
    if form == ".onnx":
        content = model_onnx(compiled)
    elif form == ".py":
        content = model_python(compiled).encode()
    else:
        content = model_sql(compiled, "data" if table is None else table, options.names(keep)).encode()
    write_file(file, content)
    note(f"the model is {file}, {_FORMATS[form]}.")
