"""Run the campaign: `python -m fuzz --help`."""

from __future__ import annotations

import argparse
import math
import signal
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.progress import Progress, TextColumn
from rich.table import Column, Table

from fuzz import campaign, kinds, report


def main() -> None:
    """Try cases of every kind, or of one, and end with a table of what was tried and what failed."""
    options = _options()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    chosen = [kinds.KINDS[options.kind]] if options.kind else list(kinds.KINDS.values())
    if options.case is not None:
        sys.exit(_repeat(chosen[0], options.case))
    seconds = math.inf if options.seconds is None else options.seconds / len(chosen)
    tallies = [campaign.Tally(kind) for kind in chosen]
    console = Console()
    # Nothing but this thread: processes are forked from it.
    with Progress(TextColumn("{task.description}"), console=Console(stderr=True), auto_refresh=False) as bar:
        try:
            for tally in tallies:
                _run(tally, options.seed, options.share, seconds, bar)
                if options.record is not None:
                    report.record(tally, options.record)
        except KeyboardInterrupt:
            console.print("Stopped; so far:")
    _print(console, tallies)
    sys.exit(any(tally.failures for tally in tallies))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("--kind", choices=kinds.KINDS, help="only this kind")
    parser.add_argument("--seconds", type=float, help="time in all, dealt out evenly over the kinds")
    parser.add_argument("--share", type=float, default=math.inf, help="stop each kind at this share of its goal")
    parser.add_argument("--seed", type=int, default=0, help="number of the first case")
    parser.add_argument("--case", type=int, help="repeat one case of --kind in this process, and show where it fails")
    parser.add_argument("--record", type=Path, metavar="FILE", help="write the counts to a file")
    options = parser.parse_args()
    if options.case is not None and options.kind is None:
        parser.error("--case needs --kind: a case is known by both")
    if options.seconds is None and math.isinf(options.share) and options.case is None:
        parser.error("give --seconds or --share: it would never end")
    return options


def _repeat(kind: campaign.Kind, case: int) -> bool:
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        result = campaign.try_case(kind, case, Path(folder), debug=True)
    print(f"{kind.name} {case}: {result.outcome}{': ' if result.reason else ''}{result.reason}")
    return result.outcome == "failed"


def _run(tally: campaign.Tally, seed: int, share: float, seconds: float, bar: Progress) -> None:
    line = bar.add_task(tally.kind.name)
    n = sys.maxsize - seed if math.isinf(share) else math.ceil(share * tally.kind.goal)
    start = told = time.monotonic()
    for result in campaign.run(tally.kind, range(seed, seed + n), start + seconds):
        tally.add(result)
        tally.seconds = time.monotonic() - start
        if tally.seconds > told - start + 1 or result.outcome == "failed":
            told = time.monotonic()
            bar.update(line, description=f"{tally.kind.name}: {tally.tried} tried, {len(tally.failures)} failed")
            bar.refresh()


def _print(console: Console, tallies: list[campaign.Tally]) -> None:
    table = Table("kind", *(Column(name, justify="right") for name in ("tried", "refused", "failed", "seconds")))
    for tally in tallies:
        counts = (tally.tried, tally.refused, len(tally.failures), round(tally.seconds))
        table.add_row(tally.kind.name, *(f"{count:,}" for count in counts))
    console.print(table)
    for tally in tallies:
        for failure in tally.failures:
            console.print(
                f"{tally.kind.name} {failure.case}: {failure.reason}", markup=False, highlight=False, soft_wrap=True
            )
    n, failed = sum(tally.tried for tally in tallies), sum(len(tally.failures) for tally in tallies)
    console.print(f"{n:,} cases, {failed:,} failed.", highlight=False)
    if failed:
        console.print("To repeat one: make fuzz KIND=... CASE=...", highlight=False)


if __name__ == "__main__":
    main()
