"""Names, numbers and expressions as text of SQL that SQLite and DuckDB read alike."""

from __future__ import annotations

import math
from collections.abc import Sequence

# Only NaN, which DuckDB has, is larger.
INFINITY = "1e308 * 10.0e0"
ZERO = "0.0e0"
# A power of two that is read exactly.
_STEP = 50


def quoted(text: str, mark: str = '"') -> str:
    """A name, or with the mark ' a text.

    Raises
    ------
    ValueError
        If SQL cannot hold it.
    """
    if any(letter == "\0" or "\ud800" <= letter <= "\udfff" for letter in text):
        raise ValueError(f"SQL has no way to write {text!r}; rename it")
    return mark + text.replace(mark, 2 * mark) + mark


def double(x: float) -> str:
    """A number: with an exponent, as without one it is a decimal in DuckDB."""
    text = repr(float(x))
    return text if "e" in text else f"{text}e0"


def exact(x: float) -> str:
    """A number that is read to the last bit, as SQLite does not read all: a whole one times a power of two."""
    mantissa, exponent = math.frexp(x)
    whole, exponent = int(mantissa * 2**53), exponent - 53
    while exponent < 0 and whole % 2 == 0:
        whole, exponent = whole // 2, exponent + 1
    return f"({times_power_of_two(f'{whole}e0', exponent)})"


def times_power_of_two(x: str, exponent: int) -> str:
    """The product of x and 2^exponent, in steps that neither overflow nor vanish where the whole does not."""
    sign = "*" if exponent > 0 else "/"
    whole, rest = divmod(abs(exponent), _STEP)
    return x + "".join(f" {sign} {2**k}e0" for k in [_STEP] * whole + [rest] * (rest > 0))


def joined(operator: str, parts: Sequence[str]) -> str:
    """Parts with an operator between them, in pairs: databases bound how deep expressions are nested."""
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    return f"({joined(operator, parts[:half])} {operator} {joined(operator, parts[half:])})"


def lookup(code: str, values: Sequence[str], first: int = 0) -> str:
    """The value at the place that a code has, the last one of larger codes; each comparison halves what is left."""
    if all(value == values[0] for value in values):
        return values[0]
    half = len(values) // 2
    left, right = lookup(code, values[:half], first), lookup(code, values[half:], first + half)
    return f"CASE WHEN {code} < {first + half} THEN {left} ELSE {right} END"


def as_sum(parts: Sequence[str]) -> str:
    """Their sum."""
    return joined("+", parts) if parts else ZERO
