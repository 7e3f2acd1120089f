"""The commands `fanbayes study real`, `simulated` and `report`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fanbayes.commands.options import examples
from fanbayes.commands.output import printable, screen

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from fanbayes.datasets import Suite
    from fanbayes.study.records import Record
    from fanbayes.study.report import Claim
    from fanbayes.study.runner import Plan, Progress, Summary

LONG = 900.0  # seconds; of a longer run the time is told before it begins

study = typer.Typer(
    help="The two studies of Monti & Cooper (1999), and a page to look at.",
    epilog=examples("fanbayes study real --out results/real", "fanbayes study report results"),
    no_args_is_help=True,
)

SuiteOption = Annotated[
    str, typer.Option("--suite", help="'builtin', 'openml', or a folder with a manifest.json.", metavar="NAME|DIR")
]
OutOption = Annotated[
    Path, typer.Option("--out", help="Folder of the records; the same command continues there.", file_okay=False)
]
JobsOption = Annotated[
    int | None, typer.Option("--jobs", "-j", min=1, help="Processes; one for each core if not given.")
]
SeedOption = Annotated[int, typer.Option("--seed", min=0, help="Of folds, starts and draws.")]
OnlyOption = Annotated[list[str] | None, typer.Option("--only", metavar="NAME", help="Only this dataset; repeatable.")]


@study.command(
    epilog=examples(
        "fanbayes study real --out results/real", "fanbayes study real --models nb,tan,aode --out results/relatives"
    )
)
def real(
    out: OutOption,
    suite: SuiteOption = "builtin",
    jobs: JobsOption = None,
    seed: SeedOption = 0,
    folds: Annotated[int, typer.Option("--folds", min=2, help="Parts of the cross-validation.")] = 10,
    only: OnlyOption = None,
    models: Annotated[
        str | None,
        typer.Option("--models", metavar="A,B", help="With the library's defaults, e.g. nb,tan,aode, or 'all'."),
    ] = None,
    most_values: Annotated[
        int | None, typer.Option("--most-values", min=1, help="With --models: no dataset of more rows x columns.")
    ] = None,
) -> None:
    """Compare NB, FM and FAN on real datasets, as they are and discretised, or all MODELS with their defaults."""
    from fanbayes.study.real import RealPlan, RelativesPlan

    plan: Plan[Any] = RealPlan(seed, folds)
    if models is not None:
        plan = RelativesPlan(_models(models), seed, folds, most_values)
    elif most_values is not None:
        raise typer.BadParameter("goes with --models.", param_hint="--most-values")
    _run(plan, _suite(suite, only), out, jobs)


@study.command(epilog=examples("fanbayes study simulated --out results/simulated --size 200 --pairs 3"))
def simulated(
    out: OutOption,
    suite: SuiteOption = "builtin",
    jobs: JobsOption = None,
    seed: SeedOption = 0,
    size: Annotated[list[int] | None, typer.Option("--size", min=10, help="Rows to train on; repeatable.")] = None,
    test_size: Annotated[int, typer.Option("--test-size", min=10, help="Rows to test on.")] = 2000,
    pairs: Annotated[int, typer.Option("--pairs", min=1, help="Training and test sets of each size.")] = 10,
    only: OnlyOption = None,
) -> None:
    """Compare the criteria on data drawn from known FAN models."""
    from fanbayes.study.simulated import SimulatedPlan

    sizes = tuple(size) if size else SimulatedPlan.sizes
    _run(SimulatedPlan(seed, sizes, test_size, pairs, tuple(only or ())), _suite(suite, only), out, jobs)


@study.command(epilog=examples("fanbayes study report results --page report.html"))
def report(
    folder: Annotated[Path, typer.Argument(help="Folder of a study, or a folder of such folders.", metavar="DIR")],
    page: Annotated[Path | None, typer.Option("--page", help="File to write; DIR/report.html if not given.")] = None,
) -> None:
    """Write one self-contained HTML page of all tables and figures."""
    from fanbayes.study.records import StudyError
    from fanbayes.study.report import find_studies, write_page

    console = screen()
    try:
        studies = find_studies(folder)
    except StudyError as error:
        raise typer.BadParameter(str(error), param_hint="DIR") from None
    written = page or folder / "report.html"
    claims = write_page(studies, written)
    for table in _tables(folder):
        console.print(table)
    if claims:
        console.print(_claim_table(claims))
    _say(console, f"The page: {written}")


# ---------------------------------------------------------------- what the commands share


def _models(names: str) -> tuple[str, ...]:
    """Models by the names that the other commands have for them, in the order of the table."""
    from fanbayes.study.models import RELATIVES

    known = {model.lower().replace(" ", "-"): model for model in RELATIVES}
    chosen = set(known) if names == "all" else {name.strip() for name in names.split(",")}
    for name in chosen - known.keys():
        raise typer.BadParameter(f"there is no model {name!r}: give some of {', '.join(known)}.", param_hint="--models")
    return tuple(model for name, model in known.items() if name in chosen)


def _suite(spec: str, only: list[str] | None) -> Suite:
    from fanbayes.datasets import load_suite
    from fanbayes.files.dataset import DatasetError

    try:
        suite = load_suite(spec)
        return suite.only(dict.fromkeys(only)) if only else suite
    except DatasetError as error:
        raise typer.BadParameter(str(error)) from None


def _run(plan: Plan[Any], suite: Suite, out: Path, jobs: int | None) -> None:
    from fanbayes.study.records import OtherStudy

    try:
        summary = run_on_screen(plan, suite, out, jobs)
    except OtherStudy as error:
        raise typer.BadParameter(str(error), param_hint="--out") from None
    for table in _tables(out):
        screen().print(table)
    console = screen(stderr=True)
    _say(console, f"{summary.n_tasks} tasks, {summary.n_resumed} of them done before, {len(summary.failures)} failed.")
    _say(console, f"Records: {out}. For the page: fanbayes study report {out}")


def run_on_screen(
    plan: Plan[Any],
    suite: Suite,
    out: Path,
    jobs: int | None,
    about: Mapping[str, str] | None = None,
    order: Callable[[Any, float], Any] | None = None,
) -> Summary:
    """Run a study with a progress bar, and tell what failed and what was left out."""
    from fanbayes.study.runner import run_study, title

    console = screen(stderr=True)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with _bar(console) as advance:

        def tell(progress: Progress) -> None:
            advance(progress)
            if progress.task is None and progress.total > LONG:
                _say(console, f"What is left takes about {progress.total / 3600:.1f} hours of one processor.")
            if progress.task is not None and progress.error:
                _say(console, f"Failed: {title(progress.task)}: {progress.error}")

        try:
            summary = run_study(plan, suite, out, jobs=jobs or cores, report=tell, about=about, order=order)
        except KeyboardInterrupt:
            _say(console, "Stopped; the same command continues here.")
            raise
    for sentence in summary.broken.values():
        _say(console, f"Left out: {sentence}")
    return summary


def _say(console: Console, sentence: str) -> None:
    """Print text in one line, however long."""
    console.print(sentence, soft_wrap=True)


@contextmanager
def _bar(console: Console) -> Iterator[Callable[[Progress], None]]:
    """A progress bar with the time left."""
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    from fanbayes.study.runner import title

    columns = (
        TextColumn("{task.description:<40.40}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=console, speed_estimate_period=300) as bar:
        line = bar.add_task("reading the datasets", total=None)

        def advance(progress: Progress) -> None:
            # A study that was complete before has nothing left to do.
            done = round(progress.done, 6) if progress.total else 1.0
            bar.update(line, total=round(progress.total, 6) or 1.0, completed=done)
            if progress.task is not None:
                bar.update(line, description=printable(title(progress.task)))

        yield advance


def _claim_table(claims: list[Claim]) -> Table:
    """What the paper says, what was found, and what a test makes of it."""
    from rich.table import Table

    from fanbayes.pages.text import p_text

    table = Table("claim", "paper", "here", "p", "verdict", title="The paper's claims")
    for claim in claims:
        tested = (p_text(claim.finding.p_value), claim.finding.verdict) if claim.finding else ("", "not tested")
        table.add_row(claim.text, claim.paper, claim.ours, *tested)
    return table


def _relatives_table(head: Mapping[str, Any], records: Sequence[Record]) -> Table:
    """Each model on unrelated datasets as they are, and against naive Bayes on all cases."""
    from rich.table import Table

    from fanbayes.pages.text import counts, number
    from fanbayes.study import relatives

    whole, raw, _ = relatives.scopes(head, records)
    title = f"{len(raw.cases)} unrelated datasets; won/lost against NB (at 95 %) on {len(whole.cases)} cases"
    table = Table("", "CE", "rank", "vs NB", "accuracy", "rank", "vs NB", "time", title=title)
    for s in relatives.standings(raw) if raw.cases else []:
        cells = []
        for measure in ("conditional_entropy", "accuracy"):
            pair = relatives.compare(whole, s.model, relatives.BASELINE, measure)
            against = f"{counts(pair.all)} ({counts(pair.levels[0])})" if pair and s.model != relatives.BASELINE else ""
            cells += [number(s.mean.get(measure)), number(s.rank[measure], 2), against]
        table.add_row(s.model, *cells, number(s.slower, 1))
    return table


def _tables(folder: Path) -> list[Table]:
    """The main table of each study in a folder."""
    from rich.table import Table

    from fanbayes.pages.text import counts, number
    from fanbayes.study import analysis
    from fanbayes.study.records import read_study
    from fanbayes.study.report import find_studies

    tables = []
    for kind, path in find_studies(folder).items():
        head, records = read_study(path)
        if kind == "real":
            cases = analysis.gather(head, records)
            table = Table("", "all", "95 %", "99 %", "paper", title=f"Wins/losses on {len(cases)} cases, ICL")
            for row in analysis.count_table(cases, analysis.MAIN):
                results = map(counts, (row.all, *row.levels))
                name = f"{analysis.MEASURES[row.measure]}, {row.first} vs {row.second}"
                table.add_row(name, *results, "  ".join(text or "-" for text in row.paper))
        elif kind == "relatives":
            table = _relatives_table(head, records)
        else:
            table = Table(
                "chosen by", "accuracy", "ROC area", "CE", "|r_h - true|", "r_h - true", title="Simulated data"
            )
            for mean in analysis.simulated_table(records, "paper"):
                numbers = (mean.accuracy, mean.roc_area, mean.conditional_entropy, mean.distance, mean.signed)
                table.add_row(mean.criterion, *(number(value, 4) for value in numbers))
        tables.append(table)
    return tables
