"""The command `fanbayes`: a thin caller of the library.

Nothing heavy is imported before a command runs. An error is one sentence on stderr: exit code 2 for wrong use,
1 for failure, 128 + n when stopped by signal n (130 from the keyboard); `--debug` shows where it came from.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import traceback
from collections.abc import Callable
from typing import Annotated

import typer

from fanbayes.commands.evaluate import evaluate
from fanbayes.commands.explain import explain
from fanbayes.commands.export import export
from fanbayes.commands.fit import fit
from fanbayes.commands.options import examples
from fanbayes.commands.output import printable
from fanbayes.commands.predict import predict
from fanbayes.commands.show import show
from fanbayes.commands.streams import open_streams
from fanbayes.commands.study import study

BROKEN_PIPE = 141  # 128 + SIGPIPE: nobody reads what is printed
# Signals that stop the program, as Python finds them unless they are ignored.
_SIGNALS: dict[int, object] = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
if sys.platform != "win32":
    _SIGNALS[signal.SIGHUP] = signal.SIG_DFL

_EXAMPLES: dict[Callable[..., None], tuple[str, ...]] = {
    fit: (
        "fanbayes fit patients.csv -t outcome -o patients.fan",
        "fanbayes fit patients.csv -t outcome --model fan --discrete ward -o -",
        "fanbayes fit 'claims/*.parquet' -t fraud --model fan --memory 2GB -o c.fan",
        "fanbayes fit shop.duckdb --query 'SELECT * FROM sales' -t paid -o s.fan",
    ),
    predict: (
        "fanbayes predict patients.fan new.csv -o out.csv",
        "fanbayes predict claims.fan 'new/*.parquet' --keep id -o out.parquet",
        "zcat new.csv.gz | fanbayes predict patients.fan - --costs costs.csv",
    ),
    evaluate: (
        "fanbayes evaluate patients.csv -t outcome --model tan --html page.html",
        "fanbayes evaluate patients.fan test.csv -t outcome",
    ),
    explain: (
        "fanbayes explain patients.fan new.csv --row 7",
        "fanbayes explain patients.fan new.csv --class ill --json",
    ),
    show: ("fanbayes show patients.fan --top 10",),
    export: (
        "fanbayes export patients.fan patients.onnx",
        "fanbayes export patients.fan patients.sql --table patients --keep id",
    ),
}


app = typer.Typer(
    name="fanbayes",
    help="Finite-mixture-augmented naive Bayes: class probabilities from mixed, incomplete tables.",
    epilog=examples(*(lines[0] for lines in _EXAMPLES.values())),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command, lines in _EXAMPLES.items():
    app.command(epilog=examples(*lines))(command)
app.add_typer(study, name="study")


def _version(wanted: bool) -> None:
    if wanted:
        from fanbayes import __version__
        from fanbayes._native import backend

        typer.echo(f"fanbayes {__version__}, native backend {backend()}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version and the native backend."),
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error came from; may stand anywhere.")] = False,
) -> None:
    """Say what all commands have in common."""


def main() -> None:
    """Run the command line."""
    stops: list[int] = []
    try:
        _stop_on_signals(stops)
        code = _run()
        _end_on_signals()
    except KeyboardInterrupt:
        _end_on_signals()
        code = 130
    if stops or code == 130:
        code = 128 + stops[0] if stops else 130
        print("fanbayes: stopped.", file=sys.stderr)
    sys.exit(code)


def _run() -> int:
    """Run the command that the arguments ask for; return the exit code."""
    output = open_streams()
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    try:
        code = app(arguments, prog_name="fanbayes", standalone_mode=False)
    except typer.Abort:
        code = 130
    except SystemExit as end:
        if not isinstance(end.__context__, BrokenPipeError):
            raise
        code = BROKEN_PIPE
    except Exception as error:
        code = getattr(error, "exit_code", 1)
        if "--debug" in sys.argv:
            print(_without_passwords(traceback.format_exc()), end="", file=sys.stderr)
        else:
            _print_error(_without_memory(arguments) if _is_lack_of_memory(error) else error)
    sys.stdout.flush()
    if not code and isinstance(output.error, BrokenPipeError):
        code = BROKEN_PIPE
    elif not code and output.error is not None:
        code = 1
        print(f"fanbayes: standard output cannot be written: {output.error.strerror}.", file=sys.stderr)
    return code if isinstance(code, int) else 0


def _stop_on_signals(stops: list[int]) -> None:
    """Let SIGTERM and SIGHUP stop the program as SIGINT does; what came is appended to `stops`."""

    def stop(number: int, frame: object) -> None:
        for other in _SIGNALS.keys() - {signal.SIGINT}:  # a terminal that is closed may send more than one
            signal.signal(other, signal.SIG_IGN)
        stops.append(number)
        raise KeyboardInterrupt

    for number, handler in _SIGNALS.items():
        if signal.getsignal(number) is handler:  # otherwise it is ignored, as nohup has it
            signal.signal(number, stop)


def _end_on_signals() -> None:
    """Let signals end the program at once and without a word: there is nothing left to clean up."""
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


def _is_lack_of_memory(error: Exception) -> bool:
    """Whether memory was wanting, also where Arrow says only that an object could not be wrapped."""
    return isinstance(error, MemoryError) or str(error).startswith("Unknown error: Wrapping ")


def _without_memory(arguments: list[str]) -> Exception:
    """What to say of too little memory, of which errors name a number of bytes at best."""
    files = " and ".join(argument for argument in arguments if os.path.isfile(argument)) or "this"
    return MemoryError(f"there is not enough memory for {files}: give fewer rows or columns at a time")


def _print_error(error: Exception) -> None:
    message = error.format_message() if hasattr(error, "format_message") else str(error) or type(error).__name__
    if message.startswith("Usage:"):  # the help, for want of arguments
        print(message, file=sys.stderr)
    else:
        sentence = _in_plain_words(printable(" ".join(_without_passwords(message).split())))
        print(f"fanbayes: {sentence}{'' if sentence[-1:] in '.?!' else '.'}", file=sys.stderr)


def _in_plain_words(sentence: str) -> str:
    """A sentence of Typer's or Pydantic's as this program would say it."""
    sentence = re.sub(r"^Invalid value(?: for '?([^':]+)'?)?: (?:Value error, )?", r"\1: ", sentence).removeprefix(": ")
    return re.sub(r": Input should be (a valid )?(.*?)(, unable to parse .*)?$", r" must be \1\2", sentence)


def _without_passwords(text: str) -> str:
    """The text, in which no address has a password, whichever part of the program wrote it."""
    from fanbayes.files.sql import without_passwords

    known = [argument for argument in sys.argv[1:] if "://" in argument or "password" in argument.lower()]
    for address in known:
        text = without_passwords(text, address)
    return without_passwords(text)


if __name__ == "__main__":
    main()
