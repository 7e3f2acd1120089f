"""The command `fanbayes evaluate`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fanbayes.commands import options
from fanbayes.commands.options import Model
from fanbayes.commands.output import (
    WrongUse,
    note,
    print_json,
    print_table,
    require_target,
    screen,
    warnings_as_notes,
)
from fanbayes.files.atomic import write_file

if TYPE_CHECKING:
    from fanbayes.evaluation.comparison import Difference, Estimate, Predictions
    from fanbayes.files.dataset import Dataset

BESIDE = 4  # models beside each other that fit into 80 columns
_FIGURES = {"Reliability": "reliability.svg", "ROC curves": "roc.svg"}
Table = tuple[list[str], list[list[str]], str]

_HOW = (
    "± is one standard error, over the rows predicted out of fold. CE: mean -log p of the true class, in nats; "
    "Brier: summed over classes; ECE: {bins} bins. Higher is better for accuracy and ROC area, lower for the others."
)
_TESTS = (
    "Accuracy: McNemar; CE and Brier: paired t over rows; ROC area: DeLong. Two-sided p-values after Holm, for all "
    "pairs of a measure together; * below 0.05, ** below 0.01."
)


def evaluate(
    data: options.Data,
    target: options.Target,
    model: Annotated[
        list[Model] | None, typer.Option("--model", help="Model to compare beside NB, FM, FAN and FAN CV; repeatable.")
    ] = None,
    folds: Annotated[int, typer.Option("--folds", min=2, help="Parts of the stratified cross-validation.")] = 10,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="Folder of the figures; <name of DATA>-evaluation if not given.", metavar="DIR"
        ),
    ] = None,
    html: Annotated[Path | None, typer.Option("--html", help="Page of all this to write.", metavar="FILE")] = None,
    criterion: options.CriterionOption = None,
    effort: options.EffortOption = None,
    discrete: options.Discrete = None,
    continuous: options.Continuous = None,
    ignore: options.Ignore = None,
    discretize: options.Discretize = False,
    seed: options.Seed = 0,
    jobs: options.Jobs = None,
    missing: options.Missing = None,
    separator: options.Separator = None,
    encoding: options.Encoding = None,
    decimal: options.Decimal = ".",
    json: options.Json = False,
) -> None:
    """Compare NB, FM, FAN and FAN CV, the average of several models, on a table by cross-validation.

    Every row is predicted by models that have not seen it. The reliability diagram and the ROC curves are written
    as SVG files.
    """
    if html is not None:
        require_target(html, data)
    if out is not None and out.exists() and not out.is_dir():
        raise WrongUse(f"{out} is a file: --out names a folder.")
    if out is not None and out.is_dir():
        for name in _FIGURES.values():
            require_target(out / name, data)
    from fanbayes.commands.models import classifier
    from fanbayes.commands.rows import Reading, read_labelled
    from fanbayes.commands.traps import note_training_traps
    from fanbayes.evaluation.comparison import cross_validate, differences

    reading = Reading(missing, separator, encoding, decimal)
    dataset = read_labelled(data, target, reading, discrete=discrete, continuous=continuous, ignore=ignore)
    note_training_traps(dataset)
    n_labelled = int(dataset.labelled.sum())
    if n_labelled < folds:
        raise WrongUse(f"--folds {folds}: {data} has {n_labelled} labelled rows only.")
    wanted = dict.fromkeys([Model.NB, Model.FM, Model.FAN, Model.FAN_CV, *(model or ())])
    settings = {
        "criterion": criterion,
        "effort": effort,
        "discretize": "mdlp" if discretize else None,
        "random_state": seed,
        "n_jobs": jobs or -1,
    }
    classifiers = {one.title: classifier(one, **settings) for one in wanted}
    with warnings_as_notes(), _progress(len(classifiers) * folds) as report:
        found = cross_validate(classifiers, dataset, folds, seed, report)
    tested = differences(found)
    figures = _draw(found)
    folder = out or Path(f"{dataset.name}-evaluation")
    files = _write_figures(figures, folder)
    tables = {
        "Measures": _measures(found),
        "Differences": _differences(tested),
    }
    about = [
        f"{len(dataset.y)} rows, {len(dataset.kinds)} features, classes {', '.join(dataset.classes)}.",
        f"Stratified {folds}-fold cross-validation, components chosen by {(criterion or 'icl').upper()}, seed {seed}"
        f"{', continuous columns discretised' if discretize else ''}.",
    ]
    if html is not None:
        from fanbayes.commands.page import page

        text = page(f"{dataset.name}: {', '.join(found)}", about, tables, {k: v.decode() for k, v in figures.items()})
        write_file(html, text.encode())
        files.append(str(html))
    for name, predictions in found.items():
        if predictions.n_clipped:
            note(f"{name} gave the true class of {predictions.n_clipped} rows less than 1e-15, counted as that.")
    if json:
        print_json(_summary(dataset, found, tested, files))
        return
    console = screen()
    for line in about:
        console.print(line)
    for heading, (headers, rows, remark) in tables.items():
        console.print()
        console.print(heading, style="bold")
        if heading == "Differences":
            shown = [row for row in rows if row[-1]] if len(found) > 3 else rows
            print_table(console, headers, shown, left=(0, 1))
            if len(shown) < len(rows):
                console.print(f"{len(rows) - len(shown)} more differences are not significant (--json lists all).")
        else:
            for at in range(1, len(headers), BESIDE):
                few = [[line[0], *line[at : at + BESIDE]] for line in (headers, *rows)]
                print_table(console, few[0], few[1:], left=(0,))
        console.print(remark)
    console.print()
    if files:
        console.print(f"Files: {', '.join(files)}")


# ---------------------------------------------------------------- tables


def _measures(found: Mapping[str, Predictions]) -> Table:
    from fanbayes.evaluation.comparison import MEASURES
    from fanbayes.evaluation.metrics import N_BINS

    columns = []
    for predictions in found.values():
        sizes = [str(size) for size in sorted(set(predictions.components))] or ["-"]
        size = sizes[0] if len(sizes) == 1 else f"{sizes[0]}-{sizes[-1]}"
        columns.append([*map(_estimate, predictions.estimates().values()), size, f"{predictions.seconds:.1f}"])
    rows = [list(row) for row in zip([*MEASURES.values(), "components", "seconds"], *columns)]
    return ["", *found], rows, _HOW.format(bins=N_BINS)


def _estimate(estimate: Estimate | None) -> str:
    return "-" if estimate is None else f"{estimate.value:.4f} ± {estimate.error:.4f}"


def _differences(tested: list[Difference]) -> Table:
    from fanbayes.evaluation.comparison import MEASURES
    from fanbayes.pages.text import p_text

    rows = [
        [
            MEASURES[d.measure],
            f"{d.better} better than {d.worse}" if d.difference else f"{d.better} as good as {d.worse}",
            f"{d.difference:.4f}",
            p_text(d.p_value),
            "**" if d.p_value < 0.01 else "*" if d.p_value < 0.05 else "",
        ]
        for d in tested
    ]
    return ["measure", "", "by", "p", ""], rows, _TESTS


def _summary(
    dataset: Dataset, found: Mapping[str, Predictions], tested: list[Difference], files: list[str]
) -> dict[str, Any]:
    return {
        "data": dataset.name,
        "rows": len(dataset.y),
        "classes": dataset.classes,
        "models": {
            name: {
                **{key: e and asdict(e) for key, e in predictions.estimates().items()},
                "components": predictions.components,
                "clipped": predictions.n_clipped,
                "seconds": predictions.seconds,
            }
            for name, predictions in found.items()
        },
        "differences": [asdict(difference) for difference in tested],
        "files": files,
    }


# ---------------------------------------------------------------- figures and progress


def _draw(found: Mapping[str, Predictions]) -> dict[str, bytes]:
    from fanbayes.commands.figures import can_draw, reliability_figure, roc_figure

    if not can_draw():
        note("the figures need matplotlib: pip install 'fanbayes[plot]'.")
        return {}
    return {"Reliability": reliability_figure(found), "ROC curves": roc_figure(found)}


def _write_figures(figures: Mapping[str, bytes], folder: Path) -> list[str]:
    files = []
    for heading, svg in figures.items():
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / _FIGURES[heading]
        write_file(path, svg)
        files.append(str(path))
    return files


@contextmanager
def _progress(n_steps: int) -> Iterator[Callable[[str, int], None]]:
    """A bar on stderr, if that is a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description:<24}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task("", total=n_steps)
        begun = 0

        def report(name: str, fold: int) -> None:
            nonlocal begun
            bar.update(task, completed=begun, description=f"{name}, fold {fold + 1}")
            begun += 1

        yield report
