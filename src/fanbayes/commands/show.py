"""The command `fanbayes show`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fanbayes.commands import options
from fanbayes.commands.output import (
    WrongUse,
    block,
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


MOST_COMPONENTS = 40
MOST_NODES = 100
_LEGEND = (
    "Size: number of components. Strength: how much fine-tuning holds on to where it began. Log score: of rows held "
    "out. Weight: in the mean of the members' probabilities, the rest to 1 being that of the class shares; exponent: "
    "in their product."
)


def show(
    model: options.ModelFile,
    top: Annotated[int, typer.Option("--top", min=1, help="Most features to list.")] = 20,
    html: Annotated[
        Path | None,
        typer.Option(
            "--html",
            metavar="FILE",
            help="Write a page that opens offline: features and their distributions, components, what-if.",
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data", metavar="ROWS", exists=True, dir_okay=False, help="Labelled rows to judge it by, on the page."
        ),
    ] = None,
    target: Annotated[
        str | None, typer.Option("--target", "-t", metavar="COLUMN", help="Column of the classes in these rows.")
    ] = None,
    missing: options.Missing = None,
    allow_missing_columns: options.AllowMissingColumns = False,
    separator: options.Separator = None,
    encoding: options.Encoding = None,
    decimal: options.Decimal = ".",
    json: options.Json = False,
) -> None:
    """Show a model: its size, priors and components, and what each feature tells about the class."""
    if (data is None) != (target is None):
        raise WrongUse("--data and --target belong together: rows, and the column that holds their classes.")
    if data is not None and html is None:
        raise WrongUse("--data is for the page: name it with --html page.html.")
    if html is not None:
        require_target(html, model, data)

    from fanbayes.files.model_file import load

    clf = load(model)
    if html is not None:
        from fanbayes.commands.rows import Reading, read_labelled_for
        from fanbayes.pages.report import report

        reading = Reading(missing, separator, encoding, decimal)
        rows: tuple[Any, Any] = (None, None)
        if data is not None and target is not None:
            rows = read_labelled_for(clf, data, target, reading, allow_missing_columns=allow_missing_columns)
        with warnings_as_notes():
            report(clf, *rows, title=model.stem).save(html)
        note(f"the page is {html}.")
    about = clf.describe()
    if json:
        print_json({"file": str(model), **about})
    else:
        _printer(about)(screen(), str(model), about, top)


def _printer(about: dict[str, Any]) -> Callable[[Console, str, dict[str, Any], int], None]:
    """What prints a description, by what it describes."""
    printers = {"members": _print_average, "rounds": _print_boosted, "n_stars": _print_stars, "nodes": _print_tree}
    return next((printers[key] for key in printers if key in about), _print)


def score_text(log_score: float) -> str:
    """A mean log score; NaN where nothing was held out."""
    return "none" if log_score != log_score else f"{log_score:.4f}"


def print_members(console: Console, members: list[dict[str, Any]]) -> None:
    """A table of the members of an average, and whether some of them hold training rows."""
    from fanbayes.pages.text import KNOWS_OF_HOLES, columns_text

    rows = [
        [
            str(number),
            m["model"],
            str(m["n_components"] or ""),
            columns_text(m),
            "" if m["strength"] != m["strength"] else f"{m['strength']:g}",
            str(m["n_fits"]),
            score_text(m["log_score"]),
            f"{m['weight']:.3f}",
            f"{m['exponent']:.3f}",
        ]
        for number, m in enumerate(members)
    ]
    headers = ["", "model", "size", "columns", "strength", "fits", "log score", "weight", "exponent"]
    print_table(console, headers, rows, left=(1, 3))
    if any(m.get("missing") == "informative" for m in members):
        console.print(KNOWS_OF_HOLES)
    if any(m["model"] == "kernel" for m in members):
        console.print("Kernel densities hold rows of the training table (--no-kernel-members: none).")


def _print_average(console: Console, name: str, about: dict[str, Any], top: int) -> None:
    members = about["members"]
    console.print(f"{name}: {about['classifier']}, {len(members)} members", style="bold")
    console.print(f"Log score of rows held out: {score_text(about['log_score'])}.")
    console.print()
    _print_classes(console, about)
    console.print("Members")
    print_members(console, members)
    console.print(_LEGEND)
    console.print()
    _print_features(console, about["features"], top)


def _print_boosted(console: Console, name: str, about: dict[str, Any], top: int) -> None:
    n, scores = about["n_rounds"], about["scores"]
    console.print(
        f"{name}: {about['classifier']}, {n} round{'s' if n > 1 else ''}, {about['combination']}", style="bold"
    )
    console.print(f"Log score of rows held out: {score_text(about['log_score'])}; scale {about['scale']:.3g}.")
    console.print()
    _print_classes(console, about)
    console.print("Rounds: weight and error")
    rows = [[str(t), f"{r['weight']:.3f}", f"{r['error']:.4f}"] for t, r in enumerate(about["rounds"][:top], start=1)]
    print_table(console, ["round", "weight", "error"], rows)
    if not scores:
        return
    most = max((abs(s["score"]) for s in scores), default=0.0) or 1.0
    console.print("Scores that values add to a class, the strongest first")
    rows = [
        [s["feature"], str(s["level"]), str(s["class"]), f"{s['score']:+.3f}", _bar(console, s["score"] / most)]
        for s in scores[:top]
    ]
    print_table(console, ["feature", "value", "class", "score", ""], rows, left=(0, 1, 2, 4))
    _print_rest(console, scores, top)


def _print_stars(console: Console, name: str, about: dict[str, Any], top: int) -> None:
    features = about["features"]
    console.print(f"{name}: {about['classifier']}, the mean of {about['n_stars']} stars", style="bold")
    console.print(f"{about['n_cases']:g} cases, {about['n_counts']} counts of two values and a class.")
    console.print()
    _print_classes(console, about)
    _print_features(console, features, top)


def _print_classes(console: Console, about: dict[str, Any]) -> None:
    console.print("Classes")
    print_table(console, ["class", "prior"], [[str(c["class"]), f"{c['prior']:.4f}"] for c in about["classes"]])


def _print_features(console: Console, features: list[dict[str, Any]], top: int) -> None:
    console.print("Features by what each alone tells about the class (mutual information, nats)")
    most = max((feature["information"] for feature in features), default=0.0) or 1.0
    rows = [
        [
            f["feature"],
            f["kind"],
            str(f["levels"] or ""),
            f"{f['information']:.4f}",
            _bar(console, f["information"] / most),
        ]
        for f in features[:top]
    ]
    print_table(console, ["feature", "kind", "levels", "information", ""], rows, left=(0, 1, 4))
    _print_rest(console, features, top)
    informative = [f["feature"] for f in features if f["missing"] == "informative"]
    if informative:
        console.print(f"Whether there is a value counts as well: {shortened(informative, 10)}.")


def _print_rest(console: Console, rows: list[Any], top: int) -> None:
    """How many rows a table has beside those that were printed."""
    if len(rows) > top:
        console.print(f"and {len(rows) - top} more (--top {len(rows)} lists all).")


def _print_tree(console: Console, name: str, about: dict[str, Any], top: int) -> None:
    from fanbayes.explanation.nb_tree import node_line

    n, nodes = about["n_leaves"], about["nodes"]
    leaves = f"{n} {'leaves' if n > 1 else 'leaf'}"
    console.print(f"{name}: {about['classifier']}, {leaves}, depth {about['depth']}", style="bold")
    console.print()
    _print_classes(console, about)
    console.print("Nodes: the condition that leads there, training cases, shares of the classes")
    for node in nodes[:MOST_NODES]:
        console.print(node_line(node), soft_wrap=True)
    if len(nodes) > MOST_NODES:
        console.print(f"and {len(nodes) - MOST_NODES} more (--json lists all).")
    console.print()
    _print_features(console, about["features"], top)


def _bar(console: Console, share: float) -> str:
    return block(console) * round(20 * abs(share))


def _print(console: Console, name: str, about: dict[str, Any], top: int) -> None:
    features, components = about["features"], about["components"]
    kinds = [feature["kind"] for feature in features]
    counts = [f"{kinds.count(kind)} {kind}" for kind in ("discrete", "continuous", "binned") if kind in kinds]
    n = about["n_components"]
    console.print(f"{name}: {about['classifier']}, {n} component{'s' if n > 1 else ''}", style="bold")
    console.print(
        f"{len(about['classes'])} classes, {len(features)} features ({', '.join(counts)}), "
        f"{about['n_parameters']} parameters."
    )
    scores = ", ".join(f"{key.upper()} {value:.2f}" for key, value in about["scores"].items())
    console.print(f"Scores (larger is better): {scores}.")
    if not about["converged"]:
        console.print("EM was not at rest at these parameters.")
    console.print()
    _print_classes(console, about)
    shared = "class" not in components[0]
    console.print(f"Components: share, and difference from {_others(n, shared)} (standard deviations)")
    headers = [*([] if shared else ["class"]), *(["component"] if n > 1 else []), "share", "differs in"]
    rows = []
    for cell in components[:MOST_COMPONENTS]:
        rows.append([] if shared else [str(cell["class"])])
        of_class = "" if about["common_components"] else f"{cell['class']}/"
        rows[-1] += [f"{of_class}h{cell['component']}"] if n > 1 else []
        rows[-1] += [f"{100 * cell['share']:.1f} %", ", ".join(map(_trait, cell["traits"])) or "nothing"]
    print_table(console, headers, rows, left=(*range(len(headers) - 2), len(headers) - 1))
    if len(components) > MOST_COMPONENTS:
        console.print(f"and {len(components) - MOST_COMPONENTS} more (--json lists all).")
        console.print()
    if about["arcs"]:
        console.print("Arcs between features: what each adds to the log-likelihood (nats)")
        rows = [[a["parent"], a["feature"], f"{a['weight']:.1f}"] for a in about["arcs"][:top]]
        print_table(console, ["parent", "feature", "weight"], rows, left=(0, 1))
        _print_rest(console, about["arcs"], top)
    if about.get("correlations"):
        console.print("Strongest correlations of features within a component")
        headers, rows = _correlations(about["correlations"][:top])
        print_table(console, headers, rows, left=tuple(range(len(headers) - 1)))
    _print_features(console, features, top)
    useless = [f["feature"] for f in features if f["information"] == 0.0]
    if useless:
        console.print(f"Of no use to the model: {shortened(useless, 10)}.")


def _correlations(correlations: list[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Headers and rows of a table; with the class, where each has a covariance of its own."""
    of_class = ["class"] if "class" in correlations[0] else []
    rows = [[*(str(c[key]) for key in of_class), *c["features"], f"{c['correlation']:+.3f}"] for c in correlations]
    return [*of_class, "feature", "and", "correlation"], rows


def _others(n_components: int, shared: bool) -> str:
    """What a component is compared with."""
    if n_components > 1 and not shared:
        return "their class"
    return "all rows"


def _trait(trait: dict[str, Any]) -> str:
    level = "" if trait["level"] is None else f" = {trait['level']}"
    return f"{trait['feature']}{level} {trait['difference']:+.1f}"
