"""The command `fanbayes explain`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any
from warnings import catch_warnings

import typer

from fanbayes.commands import options
from fanbayes.commands.output import WrongUse, block, note, print_json, printable, screen, warnings_as_notes

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from rich.console import Console

    from fanbayes.commands.rows import RowsFor
    from fanbayes.data.schema import Column
    from fanbayes.explanation.explanation import Explanation

MOST_ROWS = 5
MOST_MISSING = 5
_LONGEST_BAR, _SHORTEST_BAR = 24, 8  # characters to either side
_AROUND = 15  # characters of a line beside the name and the sides


def explain(
    model: options.ModelFile,
    rows: options.Tables,
    label: Annotated[
        str | None,
        typer.Option("--class", metavar="CLASS", help="Class to explain; the most probable if not given."),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            metavar="CLASS",
            help="Class to compare it with; the most probable of the others if not given.",
        ),
    ] = None,
    query: options.Query = None,
    row: Annotated[
        list[int] | None, typer.Option("--row", min=1, help=f"Only this row; repeatable. The first {MOST_ROWS} if not.")
    ] = None,
    top: Annotated[int, typer.Option("--top", min=1, help="Most features to show; the others are summed up.")] = 15,
    missing: options.Missing = None,
    allow_missing_columns: options.AllowMissingColumns = False,
    separator: options.Separator = None,
    encoding: options.Encoding = None,
    decimal: options.Decimal = ".",
    json: options.Json = False,
) -> None:
    """Show why a row is of one class rather than another.

    The log-odds of two classes are a sum: what their shares say, and what each feature adds. A bar to the right
    speaks for the class, a bar to the left for the other one.
    """
    if label is not None and label == against:
        raise WrongUse("--class and --against must differ.")
    from fanbayes.commands.rows import Reading, joined, rows_for
    from fanbayes.data.frames import rows_of
    from fanbayes.files.model_file import load

    clf = load(model)
    reading = Reading(missing, separator, encoding, decimal)
    parts = rows_for(clf, rows, query, reading, allow_missing_columns=allow_missing_columns)
    pair = [None if text is None else _known(text, clf.classes_) for text in (label, against)]
    most = math.inf if json else max(row) if row else MOST_ROWS + 1
    X = joined(_first(parts, most))[0]
    with warnings_as_notes():
        proba = clf.predict_proba(X)
    n = len(proba)
    wanted = [number - 1 for number in row] if row else list(range(n))
    if max(wanted) >= n:
        raise WrongUse(f"--row {max(wanted) + 1}: {parts.name} has {n} rows.")
    if not row and not json:
        wanted = wanted[:MOST_ROWS]
    some, proba = _taken(X, wanted), proba[wanted]
    with catch_warnings(action="ignore"):  # all has been said of all rows
        found = clf.explain(some, classes=pair)
    found = _as_given(found, clf.schema_.columns, some, wanted)
    if json:
        print_json([_record(found, proba[k], clf.classes_, k, i + 1) for k, i in enumerate(wanted)])
        return
    console = screen()
    for k, i in enumerate(wanted):
        part = None
        if found.kind_of_part == "star":
            part = f"star of {clf.schema_[int(found.part[k])].name}" if found.part[k] >= 0 else "naive Bayes"
        elif found.kind_of_part == "member":
            part = f"member {found.part[k]}, {_member_name(rows_of(clf.members_)[found.part[k]])}"
        elif found.kind_of_part != "component":
            part = f"{found.kind_of_part} {found.part[k]}"
        elif getattr(clf, "n_components_", 1) > 1:
            of_class = "" if clf.network_.structure.has_common_components else f"{found.classes[k, 0]}/"
            part = f"component {of_class}h{found.part[k]}"
        _print_row(console, found, proba[k], clf.classes_, k, i + 1, top, part)
    if not row and n > MOST_ROWS:
        note(f"{parts.name} has more rows than the {MOST_ROWS} shown; --row picks others, --json gives all.")


def _first(parts: RowsFor, most: float) -> list[tuple[Any, dict[str, list[Any]]]]:
    """Parts of rows until there are so many of them."""
    found, n_rows = [], 0
    for X, kept in parts:
        found.append((X, kept))
        n_rows += len(X)
        if n_rows >= most:
            break
    return found


def _taken(X: Any, rows: list[int]) -> Any:
    """Some rows of an array or a frame."""
    import narwhals as nw
    import numpy as np

    return X[rows] if isinstance(X, np.ndarray) else nw.from_native(X, eager_only=True)[rows].to_native()


def _as_given(found: Explanation, columns: Sequence[Column], X: Any, numbers: list[int]) -> Explanation:
    """Show values outside of what was seen in training as they were given, and note them by their rows."""
    import narwhals as nw
    import numpy as np

    frame = None if isinstance(X, np.ndarray) else nw.from_native(X, eager_only=True)
    texts = dict(zip(found.features, found.values))
    for j, column in enumerate(columns):
        is_absent = frame is not None and column.name not in frame.columns
        if column.kind == "discrete" or column.name not in texts or is_absent:
            continue
        given = np.asarray(X[:, j] if frame is None else frame[column.name].to_numpy(), np.float64)
        outside = np.flatnonzero(~((column.low <= given) & (given <= column.high)) & ~np.isnan(given)).tolist()
        if not outside:
            continue
        if column.kind == "continuous":
            own = {k: f"{given[k]:.12g}" for k in outside}
            texts[column.name] = tuple(own.get(k, text) for k, text in enumerate(texts[column.name]))
        first, more = outside[0], f" and {len(outside) - 1} more" if len(outside) > 1 else ""
        seen = f"{column.low:g} to {column.high:g} (row {numbers[first] + 1}{more})"
        note(f"{column.name} = {given[first]:g} lies outside of what was seen, {seen}.")
    return replace(found, values=tuple(texts.values()))


def _member_name(member: Mapping[str, Any]) -> str:
    """Model and size of a member of an average."""
    size = member["n_components"]
    return f"{member['model']} of {size} components" if size > 1 else str(member["model"])


def _known(text: str, classes: NDArray[Any]) -> Any:
    """The class that a text stands for."""
    for label in classes.tolist():
        if str(label) == text:
            return label
    raise WrongUse(f"{text!r} is not a class of the model; the classes are {', '.join(map(str, classes.tolist()))}.")


def _record(found: Explanation, proba: NDArray[Any], classes: NDArray[Any], k: int, number: int) -> dict[str, Any]:
    """One row for machines."""
    return {
        "row": number,
        "class": found.classes[k, 0],
        "against": found.classes[k, 1],
        "probabilities": dict(zip(classes.tolist(), proba.tolist())),
        "log_odds": found.log_odds[k],
        "prior": found.prior[k],
        "contributions": [
            {"feature": name, "value": values[k], "contribution": contribution}
            for name, values, contribution in zip(found.features, found.values, found.contributions[k].tolist())
        ],
        found.kind_of_part: found.part[k],
        "responsibility": found.responsibility[k],
        "worth_observing": [{"feature": name, "information": gain} for name, gain in _worth_observing(found, k)],
    }


def _worth_observing(found: Explanation, k: int) -> list[tuple[str, float]]:
    """Missing features of a row and what they are expected to tell, in nats, the most informative first."""
    gains = [(name, gain) for name, gain in zip(found.features, found.information[k].tolist()) if gain == gain]
    return sorted(gains, key=lambda pair: -pair[1])


def _print_row(
    console: Console,
    found: Explanation,
    proba: NDArray[Any],
    classes: NDArray[Any],
    k: int,
    number: int,
    top: int,
    part: str | None,
) -> None:
    one, other = found.classes[k]
    ranked = sorted(zip(classes.tolist(), proba.tolist()), key=lambda pair: -pair[1])
    console.print(f"Row {number}: " + ", ".join(f"{name} {_percent(p)}" for name, p in ranked[:4]), style="bold")
    console.print(f"What speaks for {one} (right) and for {other} (left), in log-odds:")
    console.print()
    for line in chart(found, k, top, block(console), console.width):
        console.print(line)
    console.print()
    if part is not None:
        console.print(f"Most responsible: {part}, {_percent(found.responsibility[k])}.")
    doubt = -sum(p * math.log(p) for _, p in ranked if p > 0)
    gains = _worth_observing(found, k)
    if gains:
        console.print("Not observed; the doubt about the class that each would be expected to remove:")
        names = [printable(name) for name, _ in gains[:MOST_MISSING]]
        width = max(map(len, names))
        for name, (_, gain) in zip(names, gains):
            console.print(f"  {name:<{width}}  {_percent(gain / doubt if doubt > 0 else 0.0)}")
        if len(gains) > MOST_MISSING:
            console.print(f"  and {len(gains) - MOST_MISSING} more")
    console.print()


def chart(found: Explanation, k: int, top: int, mark: str, columns: int) -> list[str]:
    """Bars of one row, the longest first, between the prior and the sum; lines have at most `columns` characters."""
    from fanbayes.data.text_table import shortened
    from fanbayes.explanation.explanation import odds, strongest

    lines = [(printable(name), contribution) for name, contribution in strongest(found, k, top)]
    total = ("sum", float(found.log_odds[k]))
    width = max(len(name) for name, _ in [*lines, total])
    width = min(width, max(columns - _AROUND - 2 * _SHORTEST_BAR, _SHORTEST_BAR))
    side = min(_LONGEST_BAR, max((columns - _AROUND - width) // 2, 1))
    lines = [(shortened(name, width), contribution) for name, contribution in lines]
    longest = max(abs(contribution) for _, contribution in lines) or 1.0
    texts = [f"  {name:<{width}}  {value:+8.2f}  {_bar(value / longest, side, mark)}".rstrip() for name, value in lines]
    name, value = total
    ratio = "" if abs(value) > 30 else f"  odds {odds(value)}"
    return [*texts, f"  {name:<{width}}  {value:+8.2f}{ratio}"]


def _bar(share: float, side: int, mark: str) -> str:
    """A bar from the middle, to the right for a positive share of the longest."""
    middle = "|" if mark == "#" else "│"
    length = round(abs(share) * side)
    if share < 0:
        return " " * (side - length) + mark * length + middle
    return " " * side + middle + mark * length


def _percent(p: float) -> str:
    """Per cent, with as many digits as it takes not to say 0 or 100."""
    for digits in (1, 2):
        text = f"{100 * p:.{digits}f}"
        if 0 < float(text) < 100:
            return f"{text} %"
    return "< 0.01 %" if 0 < p < 0.5 else "> 99.99 %" if 0.5 < p < 1 else f"{100 * p:.0f} %"
