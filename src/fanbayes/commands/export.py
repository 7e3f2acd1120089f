"""The command `fanbayes export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from fanbayes.commands import options
from fanbayes.commands.output import WrongUse, note, require_target

_FORMATS = {".onnx": "an ONNX graph", ".py": "a Python file"}
_NAMES = {"onnx": ".onnx", "python": ".py"}


def export(
    model: options.ModelFile,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", show_default=False, help="File to write: its end, .onnx or .py, decides.")
    ],
    to: Annotated[
        Literal["onnx", "python"] | None, typer.Option("--to", help="What to write, whatever the name of the file.")
    ] = None,
) -> None:
    """Write a model as a file that predicts without this library."""
    form = _NAMES[to] if to else file.suffix.lower()
    if form not in _FORMATS:
        known = ", ".join(f"{suffix} ({what})" for suffix, what in _FORMATS.items())
        raise WrongUse(f"the end of the name {file.name} decides what is written: it must be {known}; or say --to.")
    require_target(file, model)

    from fanbayes.export import compile_model, model_onnx, model_python
    from fanbayes.files.atomic import write_file
    from fanbayes.files.model_file import load

    compiled = compile_model(load(model))
    write_file(file, model_onnx(compiled) if form == ".onnx" else model_python(compiled).encode())
    note(f"the model is {file}, {_FORMATS[form]}.")
