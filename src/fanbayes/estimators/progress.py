"""What `verbose` shows: a line that moves with the search."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fanbayes.learning.selection import Fit


@contextmanager
def progress(verbose: bool, criterion: str, n_sizes: int) -> Iterator[Callable[[Fit], None]]:
    """Report each candidate on a progress bar, or nowhere."""
    if not verbose:
        yield lambda fit: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns) as bar:
        task = bar.add_task("fitting", total=n_sizes)

        def report(fit: Fit) -> None:
            value = getattr(fit.scores, criterion)
            text = f"{fit.n_components} components: {criterion} = {value:.1f}, {fit.n_iter} passes"
            bar.update(task, advance=1, description=text)

        yield report
        bar.update(task, total=bar.tasks[0].completed)
