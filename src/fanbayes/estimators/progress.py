"""What `verbose` shows: a line that moves with the work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from fanbayes.learning.selection import Fit

Report = Callable[[str, int], None]

_LISTENER: ContextVar[Callable[[Fit], None] | None] = ContextVar("listener", default=None)


@contextmanager
def reported_to(listener: Callable[[Fit], None]) -> Iterator[None]:
    """Within it, every candidate of a `fit` is handed to the listener as soon as it is known."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


@contextmanager
def progress(verbose: bool, criterion: str, n_sizes: int) -> Iterator[Callable[[Fit], None]]:
    """Report each candidate to who listens, on a progress bar, or nowhere."""
    listener = _LISTENER.get()
    if listener is not None or not verbose:
        yield listener or (lambda fit: None)
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns) as bar:
        task, seen = bar.add_task("fitting", total=n_sizes), set()

        def report(fit: Fit) -> None:
            value = getattr(fit.scores, criterion)
            text = f"{fit.n_components} components: {criterion} = {value:.1f}, {fit.n_iter} passes"
            bar.update(task, advance=fit.n_components not in seen, description=text)
            seen.add(fit.n_components)  # it comes again when it is finished

        yield report
        bar.update(task, total=bar.tasks[0].completed)


@contextmanager
def steps(verbose: bool, n: int | None) -> Iterator[Report]:
    """Report what was done and how many of the n steps it was, or nowhere; None: nobody knows how many there are."""
    if not verbose:
        yield lambda text, n: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description:<24}", markup=False),
        BarColumn(bar_width=30),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        TextColumn("left"),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=console.is_terminal) as bar:  # a file gets its last line
        task = bar.add_task("reading", total=n)
        yield lambda text, n: bar.update(task, advance=n, description=_shortened(text))
        bar.update(task, description="done", completed=n)


def _shortened(text: str) -> str:
    """What is done, in 24 characters: its beginning, and the end of the name of a file."""
    plain = "".join(letter if letter.isprintable() else "?" for letter in text)
    return plain if len(plain) <= 24 else f"{plain[:10]}…{plain[-13:]}"
