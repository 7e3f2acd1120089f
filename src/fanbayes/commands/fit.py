"""The command `fanbayes fit`."""

from __future__ import annotations

import sys
import time
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fanbayes.commands import options
from fanbayes.commands.options import Model
from fanbayes.commands.output import (
    WrongUse,
    duration,
    note,
    print_json,
    print_table,
    require_target,
    screen,
    shortened,
    warnings_as_notes,
)

if TYPE_CHECKING:
    from rich.console import Console

    from fanbayes.estimators.tabular import TableClassifier
    from fanbayes.files.dataset import Dataset
    from fanbayes.files.tables import BatchTable

MOST_COLUMNS = 60


def fit(
    data: options.Training,
    target: options.Target,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="File of the model to write; '-' is standard output.", metavar="MODEL")
    ],
    named: Annotated[
        str | None,
        typer.Option(
            "--model",
            metavar="NAME",
            help=f"Model to learn: {', '.join(Model)}; fan-cv, the average of several, if not given.",
        ),
    ] = None,
    query: options.Query = None,
    memory: Annotated[
        str,
        typer.Option(
            "--memory", metavar="BYTES", help="What rows may take; a table of more than a quarter is read in batches."
        ),
    ] = "1GB",
    dask: Annotated[
        str | None,
        typer.Option("--dask", metavar="ADDRESS", help="Scheduler of Dask whose workers learn, tcp://host:8786."),
    ] = None,
    criterion: options.CriterionOption = None,
    effort: options.EffortOption = None,
    discrete: options.Discrete = None,
    continuous: options.Continuous = None,
    ignore: options.Ignore = None,
    discretize: options.Discretize = False,
    components: Annotated[
        int | None, typer.Option("--components", min=1, help="Number of components, instead of choosing it.")
    ] = None,
    max_components: Annotated[
        int | None, typer.Option("--max-components", min=1, help="Largest number of components to choose from.")
    ] = None,
    no_kernel_members: Annotated[
        bool, typer.Option("--no-kernel-members", help="Keep out of fan-cv what holds rows of DATA in the model.")
    ] = False,
    seed: options.Seed = 0,
    jobs: options.Jobs = None,
    missing: options.Missing = None,
    informative_missing: options.InformativeMissing = False,
    separator: options.Separator = None,
    encoding: options.Encoding = None,
    decimal: options.Decimal = ".",
    json: options.Json = False,
) -> None:
    """Learn a model from a table of labelled rows.

    Rows without a label are learnt from as well, by the models of EM. A column is continuous if
    each of its values is a number, else discrete.
    """
    model = Model.FAN_CV if named is None else options.model_named(named)
    _check_options(
        model,
        {
            "--components": components if components != 1 else None,
            "--max-components": max_components,
            "--discretize": discretize or None,
            "--criterion": criterion,
            "--effort": effort,
            "--no-kernel-members": no_kernel_members or None,
            "--informative-missing": informative_missing or None,
        },
    )
    is_piped = str(out) == "-"
    if not is_piped:
        require_target(out, *map(Path, data))
    from fanbayes.commands.candidates import candidates, print_choice
    from fanbayes.commands.models import IN_MEMORY, classifier, takes
    from fanbayes.commands.rows import Reading, read_training, require_two_classes
    from fanbayes.commands.show import print_members, score_text
    from fanbayes.commands.traps import note_batch_traps, note_training_traps
    from fanbayes.data.frames import rows_of
    from fanbayes.estimators.base import NetworkClassifier
    from fanbayes.estimators.boosted_nb import BoostedNBClassifier
    from fanbayes.estimators.fan_cv import FANClassifierCV
    from fanbayes.estimators.nb_tree import NBTreeClassifier
    from fanbayes.estimators.progress import reported_to
    from fanbayes.files.dask_tables import client, dask_frame
    from fanbayes.files.dataset import Dataset
    from fanbayes.files.model_file import save

    reading = Reading(missing, separator, encoding, decimal)
    roles: dict[str, Any] = {"discrete": discrete, "continuous": continuous, "ignore": ignore}
    if dask is not None and model in IN_MEMORY:
        raise WrongUse(f"{model.value} learns from rows in memory: leave out --dask, or choose --model fan.")
    table = read_training(data, query, target, reading, memory, model, on_dask=dask is not None, **roles)
    console = screen(stderr=is_piped)
    columns = describe_columns(table)
    clf = classifier(
        model,
        criterion=criterion,
        effort=effort,
        discretize="mdlp" if discretize else None,
        missing="informative" if informative_missing else None,
        n_components=components,
        max_components=max_components,
        kernel_members=False if no_kernel_members else None,
        memory=memory,
        random_state=seed,
        n_jobs=jobs or -1,
    )
    if not json:
        _print_table(console, table, columns, clf._learns_from_unlabelled)
    if isinstance(table, Dataset):
        note_training_traps(table, "informative" if informative_missing else "ignorable")
    chooses, scored_by = takes(model, "n_components"), clf.get_params().get("criterion", "icl")
    clf.set_params(verbose=not json and sys.stderr.isatty())
    shown = candidates(console, scored_by, silent=json or not chooses)
    began = time.perf_counter()
    workers = nullcontext() if dask is None else client(dask)
    with workers, warnings_as_notes(), shown as report, reported_to(report):
        if isinstance(table, Dataset):
            clf.fit(table.X, table.y)
        elif dask is not None:
            clf.fit(dask_frame(table, separator, encoding), target)
        else:
            clf.fit(table.batches, target)
    seconds = time.perf_counter() - began
    clf.set_params(verbose=False)
    clf._missing_texts = tuple(options.names(missing))
    if not isinstance(table, Dataset):
        require_two_classes(table, clf.classes_.tolist())
        note_batch_traps(table, clf.schema_)
    save(clf, "/dev/stdout" if is_piped else out)
    if json:
        print_json(_summary(clf, table, columns, model, seconds, out), stderr=is_piped)
        return
    if isinstance(clf, FANClassifierCV):
        print_members(console, rows_of(clf.members_))
        if named is None:
            console.print("No model is named, so this is fan-cv, an average. For one to look into: --model fan.")
        console.print(f"Log score of rows held out: {score_text(clf.log_score_)}.")
    elif isinstance(clf, NetworkClassifier):
        print_choice(console, clf, model, scored_by)
    elif isinstance(clf, BoostedNBClassifier):
        console.print(f"Rounds: {clf.n_rounds_}. Log score of rows held out: {score_text(clf.log_score_)}.")
    elif isinstance(clf, NBTreeClassifier):
        console.print(f"Leaves: {clf.get_n_leaves()}, depth {clf.get_depth()}.")
    where = "" if is_piped else f" Model: {out}. To look at it: fanbayes show {out}"
    console.print(f"Learnt in {duration(seconds)}.{where}")


def _check_options(model: Model, given: dict[str, Any]) -> None:
    """Refuse options that a model does not have; None is not given."""
    from fanbayes.commands.models import takes

    asked = [option for option, value in given.items() if value is not None]
    if model is Model.FAN_CV and {"--components", "--max-components", "--discretize"} & {*asked}:
        raise WrongUse(
            "fan-cv tries out numbers of components and intervals: leave out --components, --max-components and "
            "--discretize, or choose --model fan."
        )
    for option, parameter, says in [
        ("--components", "n_components", f"{model.title} has no components: leave out --components"),
        ("--max-components", "max_components", f"{model.title} has no --max-components: leave it out"),
        ("--discretize", "discretize", f"{model.value} has no --discretize: leave it out"),
        ("--criterion", "criterion", f"{model.value} does not choose a number of components: leave out --criterion"),
        ("--effort", "effort", f"{model.value} has no --effort: leave it out, or choose --model fan-cv"),
        ("--no-kernel-members", "kernel_members", f"{model.value} holds no rows: leave out --no-kernel-members"),
        ("--informative-missing", "missing", f"{model.value} has no --informative-missing: leave it out"),
    ]:
        if option in asked and not takes(model, parameter):
            other = ", or choose --model fan" if option in ("--components", "--max-components", "--criterion") else ""
            raise WrongUse(f"{says}{other}.")
    if {"--components", "--max-components"} <= {*asked}:
        raise WrongUse("--components says how many there are: leave out --max-components.")


# ---------------------------------------------------------------- columns


def describe_columns(table: Dataset | BatchTable) -> list[dict[str, Any]]:
    """What each column was taken for and why, and what it holds, if that is known before it is learnt from."""
    import narwhals as nw

    from fanbayes.files.dataset import Dataset

    if not isinstance(table, Dataset):
        return [{"column": name, "kind": table.kinds[name], "reason": table.reasons[name]} for name in table.kinds]
    frame = nw.from_native(table.X, eager_only=True)
    return [_describe_column(frame[name], table.kinds[name], table.reasons[name]) for name in frame.columns]


def _describe_column(series: Any, kind: str, reason: str) -> dict[str, Any]:
    import numpy as np

    if kind == "continuous":
        values = series.to_numpy()
        known = values[~np.isnan(values)]
        distinct = np.unique(known)
        holds = f"{distinct[0]:g} to {distinct[-1]:g}" if len(distinct) else "nothing"
    else:
        known = series.drop_nulls()
        distinct = np.sort(known.unique().to_list())
        holds = shortened(distinct.tolist(), 4) or "nothing"
    return {
        "column": series.name,
        "kind": kind,
        "reason": reason,
        "holds": holds,
        "distinct": len(distinct),
        "missing": len(series) - len(known),
    }


def _print_table(
    console: Console, table: Dataset | BatchTable, columns: list[dict[str, Any]], learns_all: bool
) -> None:
    from fanbayes.files.dataset import Dataset

    if isinstance(table, Dataset):
        _print_classes(console, table, learns_all)
    else:
        n = table.batches.n_rows
        length = "" if n is None else f"{n:,} rows, "
        console.print(
            f"{table.name}: {length}{len(columns)} feature{'s' if len(columns) != 1 else ''}, read in batches."
        )
    console.print()
    headers = ["column", "taken for", "because", *(["holds", "missing"] if isinstance(table, Dataset) else [])]
    rows = [
        [about["column"], about["kind"], about["reason"], about.get("holds", ""), str(about.get("missing") or "")]
        for about in columns[:MOST_COLUMNS]
    ]
    print_table(console, headers, [row[: len(headers)] for row in rows], left=(0, 1, 2, 3))
    if len(columns) > MOST_COLUMNS:
        console.print(f"and {len(columns) - MOST_COLUMNS} more columns (--json lists all).")
        console.print()


def _print_classes(console: Console, dataset: Dataset, learns_all: bool) -> None:
    counts = Counter(dataset.y.tolist())
    n_unlabelled = counts[None]
    alike = Counter("".join(label.split()) for label in dataset.classes)
    classes = [
        f"{label if alike[''.join(label.split())] == 1 else repr(label)} {counts[label]}" for label in dataset.classes
    ]
    n_features = len(dataset.kinds)
    console.print(f"{dataset.name}: {len(dataset.y)} rows, {n_features} feature{'s' if n_features != 1 else ''}.")
    console.print(f"Classes in {dataset.target!r}: {shortened(classes, 12)}.")
    n_labelled = len(dataset.y) - n_unlabelled
    if n_labelled > 20 and 2 * len(classes) > n_labelled:  # with few rows that may be chance
        note(f"most rows have a class of their own, as identifiers and measurements do: is {dataset.target!r} right?")
    if n_unlabelled:
        console.print(f"Rows without a label, {'learnt from as well' if learns_all else 'left out'}: {n_unlabelled}.")


def _summary(
    clf: TableClassifier,
    table: Dataset | BatchTable,
    columns: list[dict[str, Any]],
    model: Model,
    seconds: float,
    out: Path,
) -> dict[str, Any]:
    from fanbayes.data.frames import rows_of
    from fanbayes.estimators.base import NetworkClassifier
    from fanbayes.estimators.boosted_nb import BoostedNBClassifier
    from fanbayes.estimators.fan_cv import FANClassifierCV
    from fanbayes.estimators.nb_tree import NBTreeClassifier
    from fanbayes.files.dataset import Dataset

    about: dict[str, Any] = {
        "data": table.name,
        "rows": len(table.y) if isinstance(table, Dataset) else table.batches.n_rows,
        "unlabelled": table.y.tolist().count(None) if isinstance(table, Dataset) else None,
        "target": table.target,
        "classes": clf.classes_.tolist(),
        "columns": columns,
        "model": model.value,
        "seconds": seconds,
    }
    if isinstance(clf, FANClassifierCV):
        about |= {"members": rows_of(clf.members_), "log_score": clf.log_score_}
    elif isinstance(clf, NetworkClassifier):
        about |= {
            "candidates": rows_of(clf.selection_),
            "components": clf.n_components_,
            "converged": clf.converged_,
        }
    elif isinstance(clf, BoostedNBClassifier):
        about |= {"rounds": clf.n_rounds_, "log_score": clf.log_score_}
    elif isinstance(clf, NBTreeClassifier):
        about |= {"leaves": clf.get_n_leaves(), "depth": clf.get_depth()}
    return about | {"out": str(out)}
