"""The command `fanbayes`: a thin caller of the library.

Nothing heavy is imported before a command runs. An error is one sentence on stderr: exit code 2 for wrong use,
1 for failure, 130 when stopped from the keyboard; `--debug` shows where it came from.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from fanbayes.study.commands import study

app = typer.Typer(
    name="fanbayes",
    help="Finite-mixture-augmented naive Bayes: calibrated probabilities from mixed, incomplete tables.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(study, name="study")


def _version(wanted: bool) -> None:
    if wanted:
        from fanbayes import __version__

        typer.echo(f"fanbayes {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error came from.")] = False,
) -> None:
    """Say what all commands have in common."""


def main() -> None:
    """Run the command line."""
    try:
        app()
    except KeyboardInterrupt:
        print("fanbayes: stopped.", file=sys.stderr)
        sys.exit(130)
    except Exception as error:
        if "--debug" in sys.argv:
            raise
        print(f"fanbayes: {' '.join(str(error).split()) or type(error).__name__}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
