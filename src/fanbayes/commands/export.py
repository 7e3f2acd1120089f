"""The command `fanbayes export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fanbayes.commands import options
from fanbayes.commands.output import WrongUse, note, require_target

_SUFFIXES = {".onnx": "an ONNX graph"}


def export(
    model: options.ModelFile,
    file: Annotated[Path, typer.Argument(metavar="FILE", show_default=False, help="File to write: model.onnx.")],
) -> None:
    """Write a model as a file that predicts without this library."""
    if file.suffix.lower() not in _SUFFIXES:
        known = " or ".join(f"{suffix} ({what})" for suffix, what in _SUFFIXES.items())
        raise WrongUse(f"the end of the name {file.name} decides what is written: it must be {known}.")
    require_target(file, model)

    from fanbayes.export import compile_model, model_onnx
    from fanbayes.files.atomic import write_file
    from fanbayes.files.model_file import load

    write_file(file, model_onnx(compile_model(load(model))))
    note(f"the model is {file}, {_SUFFIXES[file.suffix.lower()]}.")
