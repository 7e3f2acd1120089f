"""What `fanbayes fit` shows of the numbers of components that it tries, and of the one that it chooses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fanbayes.commands.options import Model
from fanbayes.commands.output import print_table, rich_table, shortened

if TYPE_CHECKING:
    from rich.console import Console

    from fanbayes.estimators.base import NetworkClassifier
    from fanbayes.learning.selection import Fit

_SCORES = ("icl", "bic", "cs", "aic")
_PER_CLASS = "best of each class"


@contextmanager
def candidates(console: Console, criterion: str, *, silent: bool) -> Iterator[Callable[[Fit], None]]:
    """Show candidates: a table that grows in a terminal, and one in the end elsewhere.

    A size that may be the best comes a second time, when EM has run until it rests; the row is then that one.
    """
    scores = [criterion, *(score for score in _SCORES if score != criterion)]
    headers = ["components", *(score.upper() for score in scores), "passes", "seconds"]
    fits: dict[tuple[int, bool], Fit] = {}  # by size, and whether it was put together from the best of each class

    def key_of(found: Fit) -> tuple[int, bool]:
        return found.n_components, found.starts[0].origin == _PER_CLASS

    def row(found: Fit) -> list[str]:
        size, is_joined = key_of(found)
        numbers = [_score(getattr(found.scores, score)) for score in scores]
        return [f"{size}{'*' if is_joined else ''}", *numbers, str(found.n_iter), f"{found.seconds:.2f}"]

    def legend() -> None:
        if any(is_joined for _, is_joined in fits):
            console.print("* Components of each class from the start that was best for that class.")
            console.print()

    if silent:
        yield lambda found: None
    elif not console.is_terminal:
        yield lambda found: fits.update({key_of(found): found})
        print_table(console, headers, [row(found) for found in fits.values()], left=())
        legend()
    else:
        from rich.console import Group, RenderableType
        from rich.live import Live
        from rich.spinner import Spinner

        doing = ""

        def picture(busy: bool) -> RenderableType:
            table = rich_table(headers, [row(found) for found in fits.values()], left=())
            values = [getattr(found.scores, criterion) for found in fits.values()]
            table.rows[values.index(max(values))].style = "bold green"
            return Group(table, Spinner("dots", doing)) if busy else table

        live: Live | None = None

        def grow(found: Fit) -> None:
            nonlocal live, doing
            is_again = key_of(found) in fits
            doing = "running the best until they rest" if is_again else f"{found.n_components + 1} components"
            fits[key_of(found)] = found
            if live is None:
                live = Live(picture(True), console=console, refresh_per_second=8)
                live.start()
            live.update(picture(True))

        try:
            yield grow
        finally:
            if live is not None:
                live.update(picture(False))
                live.stop()
                console.print()
        legend()


def _score(value: float) -> str:
    """With two decimals, and none beyond 100,000: a row fits into 80 columns."""
    return f"{value:.{2 if abs(value) < 1e5 else 0}f}"


def print_choice(console: Console, clf: NetworkClassifier, model: Model, criterion: str) -> None:
    """Say which number of components was chosen, and of how many."""
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
