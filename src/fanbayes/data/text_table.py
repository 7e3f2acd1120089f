"""Small tables as text, for what Python shows of a value."""

from __future__ import annotations

from collections.abc import Collection, Sequence


def text_table(headers: Sequence[str], rows: Sequence[Sequence[str]], left: Collection[int] = ()) -> list[str]:
    r"""Lines of a table, its columns two spaces apart, those of `left` flush left.

    >>> print(*text_table(["name", "n"], [["a", "10"], ["long\n", "9"]], left=(0,)), sep="\n")
    name     n
    a       10
    long\n   9
    """
    lines = [[printable(text) for text in line] for line in (headers, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines)]
    return [
        "  ".join(t.ljust(w) if k in left else t.rjust(w) for k, (t, w) in enumerate(zip(line, widths))).rstrip()
        for line in lines
    ]


def printable(text: str) -> str:
    r"""Text in which nothing steers a terminal: such characters are shown as Python writes them, ``\x1b``.

    >>> print(printable("red \x1b[31m and two\nlines"))
    red \x1b[31m and two\nlines
    """
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


def shortened(text: str, longest: int = 28) -> str:
    """Text of at most so many characters."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
