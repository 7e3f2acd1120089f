"""What commands print: plain text unless a person is looking."""

from __future__ import annotations

import json
import math
import os
import sys
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from fanbayes.data.text_table import printable as printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


class WrongUse(Exception):
    """Something that the user has to say otherwise."""

    exit_code = 2


# ---------------------------------------------------------------- on the screen


def screen(*, stderr: bool = False) -> Console:
    """Console for results: a text is one line, and what is in it is shown, not obeyed."""
    from rich.console import Console
    from rich.text import Text

    class Screen(Console):
        def render_str(self, text: str, **options: Any) -> Text:
            return super().render_str(printable(text), **options)

    stream = sys.stderr if stderr else sys.stdout
    return Screen(highlight=False, markup=False, emoji=False, soft_wrap=not stream.isatty(), stderr=stderr)


def note(text: str, paste: str | None = None) -> None:
    """Say on stderr what a user should know, and on a line of its own what is to be pasted."""
    print(f"note: {printable(text)}", file=sys.stderr)
    if paste is not None:
        print(f"  {printable(paste)}", file=sys.stderr)


@contextmanager
def progress(n: int | None) -> Iterator[Callable[[str, int], None]]:
    """A bar on stderr, if that is a terminal, which is told what is done and how many of the n steps that was."""
    from fanbayes.estimators.progress import steps

    with steps(sys.stderr.isatty(), n) as report:
        yield report


@contextmanager
def warnings_as_notes() -> Iterator[None]:
    """Turn the library's warnings into notes, each once; traps of tables in memory are noted where these are read."""
    from fanbayes.data.traps import DataWarning

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", DataWarning)
        yield
    for text in dict.fromkeys(" ".join(str(warning.message).split()) for warning in caught):
        note(text)


def print_json(value: Any, *, stderr: bool = False) -> None:
    """Print a value for machines."""
    print(to_json(value), file=sys.stderr if stderr else sys.stdout)


def to_json(value: Any) -> str:
    """JSON in which a number that is not finite is null."""
    return json.dumps(_plain(value), indent=2, allow_nan=False)


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def rich_table(headers: Sequence[str], rows: Sequence[Sequence[str]], left: Collection[int] = (0,)) -> Table:
    """Table that changes on a `screen`; columns are flush right but for those named."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)
    for place, header in enumerate(headers):
        table.add_column(header, justify="left" if place in left else "right", no_wrap=place not in left)
    for row in rows:
        table.add_row(*row)
    return table


def table_lines(
    headers: Sequence[str], rows: Sequence[Sequence[str]], left: Collection[int] = (0,), width: int = 80
) -> list[str]:
    r"""Table as lines of at most `width` characters, its columns two spaces apart; the first line has the headers.

    Columns on the left may take several lines, cut between words; a word is shortened only where it has to be. Numbers,
    on the right, stay whole.

    >>> print(*table_lines(["name", "holds", "n"], [["age", "one or two words", "12"]], (0, 1), 17), sep="\n")
    name  holds     n
    age   one or   12
          two
          words
    """
    lines = [[printable(text) for text in line] for line in (headers, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines)]
    room = width - 2 * (len(widths) - 1)
    words = [max((len(word) for text in column for word in text.split()), default=0) for column in zip(*lines)]
    for least in (words, [min(8, n) for n in words]):  # as long as whole words fit, else some are shortened
        while sum(widths) > room and (wide := [k for k in left if widths[k] > least[k]]):
            widths[max(wide, key=widths.__getitem__)] -= 1
    found = []
    for line in lines:
        cells = [_wrapped(text, n) if k in left else [text] for k, (text, n) in enumerate(zip(line, widths))]
        for parts in zip_longest(*cells, fillvalue=""):
            aligned = (t.ljust(n) if k in left else t.rjust(n) for k, (t, n) in enumerate(zip(parts, widths)))
            found.append("  ".join(aligned).rstrip())
    return found


def _wrapped(text: str, width: int) -> list[str]:
    """Lines of a cell; words that are longer are shortened."""
    if len(text) <= width:
        return [text]
    words = [word if len(word) <= width else f"{word[: width - 1]}…" for word in text.split()]
    return wrap(" ".join(words), max(width, 1), break_long_words=False, break_on_hyphens=False) or [""]


def print_table(
    console: Console, headers: Sequence[str], rows: Sequence[Sequence[str]], left: Collection[int] = (0,)
) -> None:
    """Print a table that is not wider than the console, or 80 columns where there is none."""
    head, *lines = table_lines(headers, rows, left, console.width)
    console.print(head, style="bold", no_wrap=True, crop=False)
    for line in lines:
        console.print(line, no_wrap=True, crop=False)
    console.print()


def side_by_side(
    headers: Sequence[str], rows: Sequence[Sequence[str]], width: int
) -> Iterator[tuple[list[str], list[list[str]]]]:
    """A wide table as several, each with the first column and as many of the others as `width` characters hold."""
    lines = [headers, *rows]
    widths = [2 + max(len(printable(line[k])) for line in lines) for k in range(len(headers))]
    shown: list[int] = []
    for k in range(1, len(headers) + 1):
        if k == len(headers) or (shown and widths[0] - 2 + sum(widths[i] for i in (*shown, k)) > width):
            some = [[line[i] for i in (0, *shown)] for line in lines]
            yield some[0], some[1:]
            shown = []
        shown.append(k)


def block(console: Console) -> str:
    """What bars are made of."""
    return "█" if "utf" in console.encoding.lower() else "#"


def duration(seconds: float) -> str:
    """How long something took.

    >>> [duration(seconds) for seconds in (0.04, 2.345, 75.0, 4000.0)]
    ['0.04 s', '2.3 s', '1 min 15 s', '66 min 40 s']
    """
    if seconds < 59.95:
        return f"{seconds:.{2 if seconds < 0.95 else 1}f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"


def shortened(texts: Sequence[str], most: int) -> str:
    """Join with commas, the tail counted only."""
    rest = len(texts) - most
    return ", ".join(texts[:most]) + (f" and {rest} more" if rest > 0 else "")


# ---------------------------------------------------------------- in files


def require_target(path: Path, *inputs: Path | None) -> None:
    """Refuse, before any work is done, a file that could not be written in the end, or that is read from."""
    if path.is_dir():
        raise WrongUse(f"{path} is not a file: name one to write.")
    if not path.exists() and not path.resolve().parent.is_dir():
        raise WrongUse(f"there is no folder {path.parent} to write {path.name} to.")
    if path.is_file() and any(one is not None and os.path.exists(one) and path.samefile(one) for one in inputs):
        raise WrongUse(f"{path} is read by this command: name another file to write.")
