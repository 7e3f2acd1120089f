"""The counts of a campaign as a file, and the words that users read, made from it: `python -m fuzz.report`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fanbayes.files.atomic import write_file
from fanbayes.study.provenance import environment
from fuzz.campaign import Tally

ROOT = Path(__file__).parent.parent
COUNTS = ROOT / "docs" / "results" / "fuzz.json"
PAGE = ROOT / "docs" / "robustness.md"
MENTIONS = {ROOT / "README.md": "docs/robustness.md", ROOT / "docs" / "trust.md": "robustness.md"}  # and links
_PLACE = re.compile(r"(?<=<!-- fuzz -->\n).*?(?=<!-- /fuzz -->)", re.DOTALL)


def record(tally: Tally, path: Path) -> None:
    """Write the counts of a kind, and by which code; those of other kinds stay."""
    counts = json.loads(path.read_text("utf-8")) if path.exists() else {}
    about = environment(("numpy", "pandas", "polars", "pyarrow"))
    counts[tally.kind.name] = {
        "about": tally.kind.about,
        "tried": tally.tried,
        "refused": tally.refused,
        "failed": len(tally.failures),
        "environment": about,
    }
    write_file(path, (json.dumps(counts, indent=1) + "\n").encode())


def sentence(counts: Mapping[str, Any], link: str) -> str:
    """Say what was tried and what failed."""
    n, failed = _sum(counts, "tried"), _sum(counts, "failed")
    return (
        f"`make fuzz-full` tried {n:,} hostile cases: model files changed and sealed again, tables of every library\n"
        "and type, full disks, signals, forks. Failure is a crash, a hang, a NaN, an error without a clear sentence,\n"
        f"a partial or left-over file. Failed: {failed:,} ([the counts]({link})).\n"
    )


def page(counts: Mapping[str, Any]) -> str:
    """Page of the guide."""
    rows = [
        f"| {k['about']} | {k['tried']:,} | {k['refused']:,} | {k['failed']:,} | {k['environment']['commit']} |"
        for k in counts.values()
    ]
    totals = (f"{_sum(counts, name):,}" for name in ("tried", "refused", "failed"))
    return "\n".join(
        [
            "# Robustness",
            "",
            "Any input gives an answer or one clear sentence; whatever happens to a program while it writes, the file "
            "holds the old content or the new.",
            "That is tried with hostile cases, each drawn from its kind and its number:",
            "",
            "```sh",
            "make fuzz                          # five minutes, dealt out over the kinds; SECONDS=3600 for an hour",
            "make fuzz KIND=frames CASE=1234    # one case again",
            "make fuzz-full                     # as many of each kind as in this table, which it writes anew",
            "make sanitize                      # the tests, with the native core built to watch its memory",
            "```",
            "",
            "Each kind was run with the code that is named. Where a case fails, the fault is mended and its kind run "
            "again in full; the other kinds are not.",
            "",
            "| what | tried | refused | failed | code |",
            "|---|---|---|---|---|",
            *rows,
            f"| all | {' | '.join(totals)} | |",
            "",
            "*Refused* is an error that is right: a ValueError, TypeError or OSError that fanbayes (or a check of "
            "scikit-learn's) raises on purpose, in one sentence that names the column, the argument or the file.",
            "*Failed* would be anything else: a crash, a hang, a NaN, probabilities that do not sum to one, "
            "contributions that do not add up, a row lost, other bits after saving and loading, a partial or a "
            "left-over file, an error that nobody wrote, more memory than a case of its size may take.",
            "",
        ]
    )


def _sum(counts: Mapping[str, Any], name: str) -> int:
    return sum(int(kind[name]) for kind in counts.values())


def texts() -> dict[Path, str]:
    """Make the page, and the pages that mention it, from the counts."""
    counts = json.loads(COUNTS.read_text("utf-8"))
    found = {PAGE: page(counts)}
    for path, link in MENTIONS.items():
        found[path] = _PLACE.sub(sentence(counts, link), path.read_text("utf-8"))
    return found


def main() -> None:
    """Write the page, and the sentence where it is mentioned, anew."""
    for path, text in texts().items():
        write_file(path, text.encode())


if __name__ == "__main__":
    main()
