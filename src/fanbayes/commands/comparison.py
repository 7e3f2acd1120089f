"""What `fanbayes evaluate` tells of classifiers: tables, figures, a page, JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fanbayes.commands.output import note, print_json, print_table, screen, side_by_side
from fanbayes.files.atomic import write_file

if TYPE_CHECKING:
    from rich.console import Console

    from fanbayes.evaluation.comparison import Difference, Estimate, Predictions

WIDTH = 80
MOST_LINES = 40
MOST_PAIRS = 4  # of models; of more, only those are listed that differ
SHARES = "class shares"
CONFUSION = "Confusion matrix"
FIGURES = {"Reliability": "reliability.svg", "ROC curves": "roc.svg"}
Table = tuple[list[str], list[list[str]], str]

_HOW = (
    "± is one standard error, over rows. CE: mean -log p of the true class (log loss), in nats; Brier: summed over "
    "classes; ECE: {bins} bins. Higher is better for accuracy and ROC area, lower for the others."
)
_TESTS = (
    "Accuracy: McNemar; CE and Brier: paired t over rows; ROC area: DeLong. Two-sided p-values after Holm, for all "
    "pairs of a measure together; * below 0.05, ** below 0.01; two of a larger p-value are not distinguishable."
)
_MATRIX = "A line for each true class, a column for each class that was predicted, the most probable one."
_ERRORS = "The whole confusion matrix: --json or --html."
_CLASSES = (
    "Precision: share of the rows predicted as the class that are of it. Recall: share of the rows of the class that "
    "were predicted as it. ROC area: of the class against all others. -: not defined."
)


@dataclass(frozen=True)
class Evaluation:
    """What is said of classifiers, whether a table was cross-validated or a model tested."""

    about: list[str]  # what was compared, and how
    found: dict[str, Predictions]  # by name
    tested: list[Difference]
    summary: dict[str, Any]  # for machines; with a "report" of the classes where one model is tested


def tell(result: Evaluation, out: Path | None, html: Path | None, json: bool) -> None:
    """Write what is asked for, and print the rest."""
    found, tested = result.found, result.tested
    tables = {"Measures": _measures(found), "Differences": _differences(tested)}
    if "report" in result.summary:
        tables |= report_tables(result.summary["report"])
    files = []
    if out is not None or html is not None:
        figures = _draw({name: predictions for name, predictions in found.items() if name != SHARES})
        files = [] if out is None else _write_figures(figures, out)
        if html is not None:
            from fanbayes.commands.page import page

            title = f"{result.summary['data']}: {', '.join(found)}"
            text = page(title, result.about, tables, {name: svg.decode() for name, svg in figures.items()})
            write_file(html, text.encode())
            files.append(str(html))
    for name, predictions in found.items():
        if predictions.n_clipped:
            note(f"{name} gave the true class of {predictions.n_clipped} rows less than 1e-15, counted as that.")
    if json:
        print_json(
            result.summary
            | {
                "models": {name: in_json(predictions) for name, predictions in found.items()},
                "differences": [asdict(d) | {"significant": d.is_significant} for d in tested],
                "files": files,
            }
        )
        return
    console = screen()
    for line in result.about:
        console.print(line)
    for heading, (headers, rows, remark) in tables.items():
        if heading == CONFUSION and len([*side_by_side(headers, rows, WIDTH)]) > 1:
            heading, (headers, rows, remark) = "Most frequent errors", _errors(result.summary["report"])
        console.print()
        console.print(heading, style="bold")
        if heading == "Differences":
            _print_differences(console, headers, rows, tested)
        else:
            for some in side_by_side(headers, rows[:MOST_LINES], WIDTH):
                print_table(console, *some, left=(0, 1) if headers[0] == "true" else (0,))
            if len(rows) > MOST_LINES:
                console.print(f"and {len(rows) - MOST_LINES} more (--json lists all).")
        console.print(remark)
    if files:
        console.print()
        console.print(f"Files: {', '.join(files)}")


def _print_differences(
    console: Console, headers: list[str], rows: list[list[str]], tested: Sequence[Difference]
) -> None:
    """All of a few, or those that are significant."""
    shown = rows
    if len({(d.better, d.worse) for d in tested}) > MOST_PAIRS:
        shown = [row for row, d in zip(rows, tested) if d.is_significant]
    if shown:
        print_table(console, headers, shown, left=(0, 1))
    if len(shown) < len(rows):
        console.print(f"{len(rows) - len(shown)} more pairs are not distinguishable (--json lists all).")


def _measures(found: Mapping[str, Predictions]) -> Table:
    from fanbayes.evaluation.comparison import MEASURES
    from fanbayes.evaluation.metrics import N_BINS

    columns = [
        [*map(_estimate, predictions.estimates().values()), _sizes(predictions), _seconds(predictions)]
        for predictions in found.values()
    ]
    rows = [list(row) for row in zip([*MEASURES.values(), "components", "seconds"], *columns)]
    shown = [row for row in rows if {*row[1:]} != {"-"}]
    return ["", *found], shown, _HOW.format(bins=N_BINS)


def _estimate(estimate: Estimate | None) -> str:
    return "-" if estimate is None else f"{estimate.value:z.4f} ± {estimate.error:.4f}"


def _sizes(predictions: Predictions) -> str:
    sizes = sorted({*predictions.components})
    return "-" if not sizes else f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]}-{sizes[-1]}"


def _seconds(predictions: Predictions) -> str:
    return "-" if predictions.seconds is None else f"{predictions.seconds:.1f}"


def _differences(tested: Sequence[Difference]) -> Table:
    from fanbayes.evaluation.comparison import MEASURES
    from fanbayes.pages.text import p_text

    rows = [
        [
            MEASURES[d.measure],
            f"{d.better} better than {d.worse}"
            if d.is_significant
            else f"{d.better} not distinguishable from {d.worse}",
            f"{d.difference:.4f}",
            p_text(d.p_value),
            "**" if d.p_value < 0.01 else "*" if d.is_significant else "",
        ]
        for d in tested
    ]
    return ["measure", "", "by", "p", ""], rows, _TESTS


def report_tables(report: Mapping[str, Any]) -> dict[str, Table]:
    """What `class_report` says, by heading."""
    labels = [str(label) for label in report["labels"]]
    matrix = [[label, *map(str, line)] for label, line in zip(labels, report["confusion"])]
    classes = [
        [
            str(one["class"]),
            str(one["rows"]),
            str(one["predicted"]),
            *("-" if one[name] is None else f"{one[name]:.4f}" for name in ("precision", "recall", "roc_area")),
        ]
        for one in report["classes"]
    ]
    headers = ["", "rows", "predicted", "precision", "recall", "ROC area"]
    return {CONFUSION: (["true \\ predicted", *labels], matrix, _MATRIX), "Classes": (headers, classes, _CLASSES)}


def _errors(report: Mapping[str, Any]) -> Table:
    """What stands beside the diagonal of the confusion matrix, the most frequent first."""
    labels = [str(label) for label in report["labels"]]
    cells = [(count, i, k) for i, line in enumerate(report["confusion"]) for k, count in enumerate(line)]
    errors = sorted((cell for cell in cells if cell[0] and cell[1] != cell[2]), key=lambda cell: -cell[0])
    return ["true", "predicted", "rows"], [[labels[i], labels[k], str(n)] for n, i, k in errors], _ERRORS


def in_json(predictions: Predictions) -> dict[str, Any]:
    """Measures and what else is known of a classifier."""
    return {
        **{key: e and asdict(e) for key, e in predictions.estimates().items()},
        "components": predictions.components,
        "clipped": predictions.n_clipped,
        "seconds": predictions.seconds,
    }


# ---------------------------------------------------------------- figures


def _draw(found: Mapping[str, Predictions]) -> dict[str, bytes]:
    from fanbayes.commands.figures import can_draw, reliability_figure, roc_figure

    if not can_draw():
        note("the figures need matplotlib: pip install 'fanbayes[plot]'.")
        return {}
    figures = {"Reliability": reliability_figure(found), "ROC curves": roc_figure(found)}
    return {heading: svg for heading, svg in figures.items() if svg}


def _write_figures(figures: Mapping[str, bytes], folder: Path) -> list[str]:
    files = []
    for heading, svg in figures.items():
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / FIGURES[heading]
        write_file(path, svg)
        files.append(str(path))
    return files
