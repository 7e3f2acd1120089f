"""The command `fanbayes fit`."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fanbayes.commands import options
from fanbayes.commands.options import Model
from fanbayes.commands.output import (
    WrongUse,
    duration,
    print_json,
    print_table,
    require_target,
    rich_table,
    screen,
    shortened,
    warnings_as_notes,
)

if TYPE_CHECKING:
    from rich.console import Console

    from fanbayes.estimators.base import NetworkClassifier
    from fanbayes.estimators.tabular import TableClassifier
    from fanbayes.files.dataset import Dataset
    from fanbayes.learning.selection import Fit

MOST_COLUMNS = 60
_SCORES = ("icl", "bic", "cs", "aic")
_WIDTHS = (10, 14, 14, 14, 14, 6, 8)


def fit(
    data: options.Data,
    target: options.Target,
    out: Annotated[Path, typer.Option("--out", "-o", help="File of the model to write.", metavar="MODEL")],
    model: Annotated[
        Model | None, typer.Option("--model", help="Model to learn; fan-cv, the average of several, if not given.")
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
    from fanbayes.commands.models import classifier, takes

    is_named, model = model is not None, model or Model.FAN_CV
    if model is Model.FAN_CV and (components is not None or discretize):
        raise WrongUse(
            "fan-cv tries out numbers of components and intervals: leave out --components and --discretize, or choose "
            "--model fan."
        )
    if components not in (None, 1) and not takes(model, "n_components"):
        raise WrongUse(f"{model.title} has no components: leave out --components, or choose --model fan.")
    if discretize and not takes(model, "discretize"):
        raise WrongUse(f"{model.value} has no --discretize: leave it out.")
    if criterion is not None and not takes(model, "criterion"):
        raise WrongUse(
            f"{model.value} does not choose a number of components: leave out --criterion, or choose --model fan."
        )
    if effort is not None and not takes(model, "effort"):
        raise WrongUse(f"{model.value} has no --effort: leave it out, or choose --model fan-cv.")
    if no_kernel_members and not takes(model, "kernel_members"):
        raise WrongUse(f"{model.value} holds no rows: leave out --no-kernel-members.")
    if informative_missing and not takes(model, "missing"):
        raise WrongUse(f"{model.value} has no --informative-missing: leave it out.")
    require_target(out, data)
    from fanbayes.commands.rows import Reading, read_labelled
    from fanbayes.commands.show import print_members, score_text
    from fanbayes.commands.traps import note_training_traps
    from fanbayes.data.frames import rows_of
    from fanbayes.estimators.base import NetworkClassifier
    from fanbayes.estimators.boosted_nb import BoostedNBClassifier
    from fanbayes.estimators.fan_cv import FANClassifierCV
    from fanbayes.estimators.nb_tree import NBTreeClassifier
    from fanbayes.estimators.progress import reported_to
    from fanbayes.files.model_file import save

    reading = Reading(missing, separator, encoding, decimal)
    dataset = read_labelled(data, target, reading, discrete=discrete, continuous=continuous, ignore=ignore)
    console = screen()
    columns = describe_columns(dataset)
    clf = classifier(
        model,
        criterion=criterion,
        effort=effort,
        discretize="mdlp" if discretize else None,
        missing="informative" if informative_missing else None,
        n_components=components,
        kernel_members=False if no_kernel_members else None,
        random_state=seed,
        n_jobs=jobs or -1,
    )
    if not json:
        _print_columns(console, dataset, columns, clf._learns_from_unlabelled)
    note_training_traps(dataset, "informative" if informative_missing else "ignorable")
    chooses, scored_by = takes(model, "n_components"), clf.get_params().get("criterion", "icl")
    clf.set_params(verbose=not (json or chooses) and console.is_terminal)
    candidates = _candidates(console, scored_by, silent=json or not chooses)
    began = time.perf_counter()
    with warnings_as_notes(), candidates as report, reported_to(report):
        clf.fit(dataset.X, dataset.y)
    seconds = time.perf_counter() - began
    clf.set_params(verbose=False)
    save(clf, out)
    if json:
        print_json(_summary(clf, dataset, columns, model, seconds, out))
        return
    if isinstance(clf, FANClassifierCV):
        print_members(console, rows_of(clf.members_))
        if not is_named:
            console.print("No model is named, so this is fan-cv, an average. For one to look into: --model fan.")
        console.print(f"Log score of rows held out: {score_text(clf.log_score_)}.")
    elif isinstance(clf, NetworkClassifier):
        _print_choice(console, clf, model, scored_by)
    elif isinstance(clf, BoostedNBClassifier):
        console.print(f"Rounds: {clf.n_rounds_}. Log score of rows held out: {score_text(clf.log_score_)}.")
    elif isinstance(clf, NBTreeClassifier):
        console.print(f"Leaves: {clf.get_n_leaves()}, depth {clf.get_depth()}.")
    console.print(f"Learnt in {duration(seconds)}. Model: {out}. To look at it: fanbayes show {out}")


# ---------------------------------------------------------------- columns


def describe_columns(dataset: Dataset) -> list[dict[str, Any]]:
    """What each column was taken for and why, and what it holds."""
    import narwhals as nw

    frame = nw.from_native(dataset.X, eager_only=True)
    return [_describe_column(frame[name], dataset.kinds[name], dataset.reasons[name]) for name in frame.columns]


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


def _print_columns(console: Console, dataset: Dataset, columns: list[dict[str, Any]], learns_all: bool) -> None:
    counts = Counter(dataset.y.tolist())
    n_unlabelled = counts[None]
    alike = Counter("".join(label.split()) for label in dataset.classes)
    classes = [
        f"{label if alike[''.join(label.split())] == 1 else repr(label)} {counts[label]}" for label in dataset.classes
    ]
    console.print(f"{dataset.name}: {len(dataset.y)} rows, {len(columns)} features.")
    console.print(f"Classes in {dataset.target!r}: {shortened(classes, 12)}.")
    if n_unlabelled:
        console.print(f"Rows without a label, {'learnt from as well' if learns_all else 'left out'}: {n_unlabelled}.")
    console.print()
    rows = [
        [about["column"], about["kind"], about["reason"], about["holds"], str(about["missing"] or "")]
        for about in columns[:MOST_COLUMNS]
    ]
    print_table(console, ["column", "taken for", "because", "holds", "missing"], rows, left=(0, 1, 2, 3))
    if len(columns) > MOST_COLUMNS:
        console.print(f"and {len(columns) - MOST_COLUMNS} more columns (--json lists all).")
        console.print()


# ---------------------------------------------------------------- candidates


@contextmanager
def _candidates(console: Console, criterion: str, *, silent: bool) -> Iterator[Callable[[Fit], None]]:
    """Show candidates as they come: a table that grows in a terminal, lines elsewhere.

    Those that may be the best come a second time, when they are finished.
    """
    scores = [criterion, *(score for score in _SCORES if score != criterion)]
    headers = ["components", *(score.upper() for score in scores), "passes", "seconds", ""]
    fits: dict[tuple[int, str], Fit] = {}  # by size, and whether it was put together from the best of each class
    rows: dict[tuple[int, str], list[str]] = {}

    def take(found: Fit) -> list[str]:
        """Note a candidate in the place of what it was before, and return its row."""
        numbers = [_score(getattr(found.scores, score)) for score in scores]
        origin = "best of each class" if found.starts[0].origin == "best of each class" else ""
        key = found.n_components, origin
        remark = "finished" if key in fits else origin
        fits[key] = found
        rows[key] = [str(found.n_components), *numbers, str(found.n_iter), f"{found.seconds:.2f}", remark]
        return rows[key]

    if silent:
        yield lambda found: None
    elif not console.is_terminal:

        def line(found: Fit) -> None:
            *columns, remark = take(found)
            padded = [text.rjust(width) for text, width in zip(columns, _WIDTHS)]
            console.print("  ".join([*padded, remark]).rstrip())

        console.print("  ".join(text.rjust(width) for text, width in zip(headers, _WIDTHS)))
        yield line
        console.print()
    else:
        from rich.console import Group, RenderableType
        from rich.live import Live
        from rich.spinner import Spinner

        def picture(busy: bool) -> RenderableType:
            values = [getattr(found.scores, criterion) for found in fits.values()]
            table = rich_table(headers, list(rows.values()), left=(len(headers) - 1,))
            if values:
                table.rows[values.index(max(values))].style = "bold green"
            finishing = any(remark == "finished" for *_, remark in rows.values())
            n = max((size for size, _ in fits), default=0) + 1
            return Group(table, Spinner("dots", "finishing" if finishing else f"{n} components")) if busy else table

        with Live(picture(True), console=console, refresh_per_second=8) as live:

            def grow(found: Fit) -> None:
                take(found)
                live.update(picture(True))

            yield grow
            live.update(picture(False))
        console.print()


def _score(value: float) -> str:
    """With two decimals, and none beyond 100,000: a row fits into 80 columns."""
    return f"{value:.{2 if abs(value) < 1e5 else 0}f}"


def _print_choice(console: Console, clf: NetworkClassifier, model: Model, criterion: str) -> None:
    from fanbayes.data.frames import from_user_table

    binned = [column for column in clf.schema_.columns if column.kind == "binned"]
    if binned:
        counts = [f"{column.name} {column.n_levels}" for column in binned]
        console.print(f"Intervals of the continuous columns: {shortened(counts, 20)}.")
    n = clf.n_components_
    size = f"{n} component{'s' if n > 1 else ''}"
    tried = len(from_user_table(clf.selection_)["n_components"])
    n_arcs = len(from_user_table(clf.edges_)["feature"])
    if n_arcs or model is Model.FAN_TREE:
        console.print(f"Arcs between features: {n_arcs}.")
    if model is Model.NB:
        console.print("Naive Bayes: nothing to choose.")
    elif model is Model.TAN:
        if not n_arcs:
            console.print("No arc between features pays: this is naive Bayes.")
    elif tried == 1:
        console.print(f"{model.title} with {size}, as asked for.")
    else:
        also = " This is naive Bayes." if n == 1 and model is not Model.FM and not n_arcs else ""
        console.print(f"Chosen by {criterion.upper()}: {size}, of {tried} numbers tried.{also}")


def _summary(
    clf: TableClassifier,
    dataset: Dataset,
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

    about: dict[str, Any] = {
        "data": dataset.name,
        "rows": len(dataset.y),
        "unlabelled": dataset.y.tolist().count(None),
        "target": dataset.target,
        "classes": dataset.classes,
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
