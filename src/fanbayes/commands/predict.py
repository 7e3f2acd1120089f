"""The command `fanbayes predict`."""

from __future__ import annotations

import csv
import io
import json as json_text
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fanbayes.commands import options
from fanbayes.commands.output import (
    WrongUse,
    note,
    printable,
    progress,
    require_target,
    warnings_as_notes,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fanbayes.files.row_files import Writer

_SEPARATORS = ",;\t|"


def predict(
    model: options.ModelFile,
    rows: options.Tables,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="File to write: .csv, .tsv, .json, .jsonl, .parquet, .arrow or .xlsx; CSV to standard output if not "
            "given, or '-'.",
        ),
    ] = None,
    query: options.Query = None,
    costs: Annotated[
        Path | None,
        typer.Option(
            "--costs",
            help="CSV or JSON file: a row for each true class, a column for each decision; a decision need not be a "
            "class. Each row gets the decision of least expected cost.",
            exists=True,
            dir_okay=False,
            metavar="FILE",
        ),
    ] = None,
    prior: Annotated[
        str | None,
        typer.Option(
            "--prior",
            help="Class balance where the model is used, for example yes=0.1,no=0.9 or a JSON file; 'estimate' finds "
            "it from the rows. Label shift is assumed: within each class, rows are as in training.",
            metavar="C=P,...|FILE|estimate",
        ),
    ] = None,
    keep: Annotated[
        list[str] | None, typer.Option("--keep", metavar="A,B", help="Columns of ROWS to repeat in the output.")
    ] = None,
    missing: options.Missing = None,
    allow_missing_columns: options.AllowMissingColumns = False,
    separator: options.Separator = None,
    encoding: options.Encoding = None,
    decimal: options.Decimal = ".",
    json: options.Json = False,
) -> None:
    """Predict the class of each row, with the probability of every class.

    Columns are found by their names, in any order; those that the model does not use are left aside.
    """
    from fanbayes.files.atomic import open_output
    from fanbayes.files.row_files import write_csv, write_json

    writer: Writer = write_json if json else write_csv
    if out is not None and str(out) != "-":
        require_target(out, model, *map(Path, rows), costs, None if prior is None else Path(prior))
        writer = writer if json else _writer(out)
    given_costs = None if costs is None else read_costs_file(costs)
    given_prior = None if prior is None else parse_prior(prior)

    from fanbayes.commands.rows import Reading, joined, rows_for
    from fanbayes.decisions.costs import read_costs
    from fanbayes.decisions.priors import read_prior
    from fanbayes.files.model_file import load

    clf = load(model)
    if given_costs is not None:  # what does not fit the classes is refused before anything is read
        _checked("--costs", read_costs, given_costs, clf.classes_)
    new_prior = (
        None if given_prior in (None, "estimate") else _checked("--prior", read_prior, given_prior, clf.classes_)
    )
    reading = Reading(missing, separator, encoding, decimal)
    parts = rows_for(clf, rows, query, reading, keep=options.names(keep), allow_missing_columns=allow_missing_columns)
    texts = [name for name, kind in parts.kept.items() if kind == "discrete"]
    output = nullcontext(_Screen()) if out is None or str(out) == "-" else open_output(out)
    with warnings_as_notes(), progress(parts.batches.n_rows) as report, output as file, writer(file, texts) as write:
        # The class balance is that of all rows.
        for X, kept in [joined([*parts])] if given_prior == "estimate" else parts:
            log_proba = clf.predict_log_proba(X)
            if given_prior is not None:
                log_proba = _shifted(log_proba, clf.classes_, clf.class_prior_, new_prior)
            decided = _decided(log_proba, clf.classes_, given_costs)
            for name in kept:
                if name in decided:
                    raise WrongUse(
                        f"--keep {name}: the output has a column of that name of its own; rename the one of "
                        f"{parts.name}."
                    )
            write(kept | decided)
            report("predicting", len(log_proba))


def _writer(out: Path) -> Writer:
    from fanbayes.files.row_files import writer_of
    from fanbayes.files.text import DatasetError

    try:
        return writer_of(out)
    except DatasetError as error:
        raise WrongUse(str(error)) from None


class _Screen:
    """Standard output, on which nothing steers a terminal."""

    def write(self, data: bytes) -> None:
        text = data.decode()
        sys.stdout.write("\n".join(map(printable, text.split("\n"))) if sys.stdout.isatty() else text)


def _checked(option: str, read: Callable[..., Any], *given: Any) -> Any:
    """What an option says; refused if it does not fit the model's classes."""
    try:
        return read(*given)
    except ValueError as error:
        raise WrongUse(f"{option}: {error}.") from None


def _shifted(
    log_proba: NDArray[Any], classes: NDArray[Any], old: NDArray[Any], new: NDArray[Any] | None
) -> NDArray[Any]:
    """Log p(c | x) under another class prior, given or else estimated."""
    from fanbayes.decisions.priors import adjust_prior, estimate_prior

    if new is None:
        new = estimate_prior(log_proba, old, log=True).prior
        shares = ", ".join(f"{label} {p:.3g}" for label, p in zip(classes.tolist(), new))
        note(f"class balance estimated from the rows, assuming label shift: {shares}.")
    return adjust_prior(log_proba, old, new, log=True)


def _decided(log_proba: NDArray[Any], classes: NDArray[Any], costs: Any) -> dict[str, list[Any]]:
    """Columns of the output: what to do or the class, then p(c | x)."""
    import numpy as np

    from fanbayes.decisions.costs import decide

    labels, proba = classes.tolist(), np.exp(log_proba)
    columns: dict[str, list[Any]] = {"class": [labels[k] for k in np.argmax(log_proba, axis=1)]}
    if costs is not None:
        found = decide(proba, classes, costs)
        columns = {"decision": found.decision.tolist(), "expected_cost": found.cost.tolist()}
    return columns | {f"p({label})": proba[:, k].tolist() for k, label in enumerate(labels)}


# ---------------------------------------------------------------- what the user says of costs and classes


def read_costs_file(path: Path) -> Mapping[str, Mapping[str, float]]:
    """``{true class: {decision: cost}}`` of a CSV or JSON file."""
    try:
        text = path.read_text("utf-8-sig")
    except UnicodeDecodeError:
        raise WrongUse(f"--costs: {path} is not UTF-8 text.") from None
    table = _json_object(text, path, "--costs") if path.suffix.lower() == ".json" else _csv_costs(text, path)
    if not all(isinstance(row, dict) for row in table.values()):
        raise WrongUse(f"--costs: {path} is not of the form {{true class: {{decision: cost}}}}.")
    where = f"--costs: {path}"
    return {true: {name: _number(cost, where) for name, cost in row.items()} for true, row in table.items()}


def _csv_costs(text: str, path: Path) -> dict[str, dict[str, str]]:
    separator = max(_SEPARATORS, key=text.partition("\n")[0].count)
    try:
        lines = [[field.strip() for field in row] for row in csv.reader(io.StringIO(text), delimiter=separator)]
    except csv.Error as error:
        raise WrongUse(f"--costs: {path} cannot be read: {error}.") from None
    header, *rows = [row for row in lines if any(row)] or [[]]
    decisions = header[1:]
    if not decisions or len(set(decisions)) < len(decisions):
        raise WrongUse(f"--costs: the first line of {path} must name each decision once, after the first column.")
    for row in rows:
        if len(row) != len(header):
            raise WrongUse(f"--costs: the row {row[0]!r} of {path} has {len(row) - 1} costs, not {len(decisions)}.")
    if len({row[0] for row in rows}) < len(rows):
        raise WrongUse(f"--costs: {path} has a class twice.")
    return {row[0]: dict(zip(decisions, row[1:])) for row in rows}


def parse_prior(text: str) -> str | dict[str, float]:
    """``{class: probability}`` of ``C=P,...`` or of a JSON file; or "estimate"."""
    if text == "estimate":
        return text
    path = Path(text)
    if text.lower().endswith(".json") or path.is_file():
        try:
            given = _json_object(path.read_text("utf-8-sig"), path, "--prior")
        except (OSError, UnicodeDecodeError) as error:
            raise WrongUse(f"--prior: {text} cannot be read: {error}.") from None
    else:
        parts = [part.rpartition("=") for part in options.fields([text])]
        if not all(equals for _, equals, _ in parts):
            raise WrongUse(f"--prior: {text!r} is neither like yes=0.1,no=0.9, nor a JSON file, nor 'estimate'.")
        given = _once("--prior", [(label.strip(), p) for label, _, p in parts])
    return {label: _number(p, "--prior") for label, p in given.items()}


def _json_object(text: str, path: Path, option: str) -> dict[str, Any]:
    try:
        values = json_text.loads(text, object_pairs_hook=partial(_once, f"{option}: {path}"))
    except (ValueError, RecursionError) as error:
        raise WrongUse(f"{option}: {path} is not valid JSON: {error}.") from None
    if not isinstance(values, dict):
        raise WrongUse(f"{option}: {path} does not hold a JSON object.")
    return values


def _once(where: str, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The pairs as a dictionary, unless a name comes twice."""
    for name, uses in Counter(name for name, _ in pairs).items():
        if uses > 1:
            raise WrongUse(f"{where}: {name!r} is named {'twice' if uses == 2 else f'{uses} times'}.")
    return dict(pairs)


def _number(value: Any, where: str) -> float:
    try:
        if not isinstance(value, bool):
            return float(value)
    except (TypeError, ValueError):
        pass
    raise WrongUse(f"{where}: {value!r} is not a number.")
