"""Runs the examples of the README and of the guide, and writes below them what they print.

    python docs/examples.py [PAGE ...]      or      make docs-output

A block of `console` holds commands, each with its output. A block of `text` directly below one of `python` is what that
one prints. In both, a line `...` stands for lines that are left out. A column "seconds", or the time that something was
"learnt in", is never the same twice, so it stays as it is where nothing else has changed. Figures that they save are
kept in docs/figures, for their page to show.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from contextlib import chdir, redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import matplotlib
from matplotlib import pyplot

ROOT = Path(__file__).parent.parent
GUIDE = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FIGURES = ROOT / "docs" / "figures"
RESULTS = ROOT / "docs" / "results" / "README.md"  # takes a while: it reads every record

CONSOLE = re.compile(r"^```console\n(?P<commands>.*?)^```$", re.MULTILINE | re.DOTALL)
PYTHON = re.compile(r"^```python\n(?P<code>.*?)^```$(?:\n\n```text\n(?P<output>.*?)^```$)?", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(f"{CONSOLE.pattern}|{PYTHON.pattern}", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ (?P<command>.*)\n(?P<output>(?:(?!\$ ).*\n)*)", re.MULTILINE)
ELLIPSIS = "..."
LEARNT_IN = re.compile(r"Learnt in .*? s\.")
SETTINGS = {"COLUMNS": "120", "MPLBACKEND": "agg", "SOURCE_DATE_EPOCH": "0"}
# Small, the same whenever they are drawn, and without a background, which is the page's.
STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "fanbayes",
    "savefig.transparent": True,
    "savefig.dpi": 100,
    "figure.figsize": (6.4, 4.0),
    "font.size": 9.0,
}


def refreshed(page: Path, figures: Path) -> str:
    """Text of a page, with the output of its examples as they print it now; figures that they save go into a folder.

    All examples of a page share one folder, in which the data lie, and one namespace. Those of the guide find the data
    beside them, those of other pages by their path from the root of the project, as all find the benchmarks.
    """
    namespace: dict[str, Any] = {"__name__": page.stem}

    def run(block: re.Match[str]) -> str:
        if block["commands"] is not None:
            return f"```console\n{COMMAND.sub(run_command, block['commands'])}```"
        printed = StringIO()
        with redirect_stdout(printed):
            exec(compile(block["code"], str(page), "exec"), namespace)
        if block["output"] is None:
            return block[0]
        first, last = (at - block.start() for at in block.span("output"))
        return block[0][:first] + shortened(block["output"], printed.getvalue()) + block[0][last:]

    before = dict(os.environ)
    with TemporaryDirectory() as folder, chdir(folder), matplotlib.rc_context(STYLE):
        inside = page.parent == ROOT / "docs"
        shutil.copytree(ROOT / "docs" / "data", "." if inside else "docs/data", dirs_exist_ok=True)
        Path("benchmarks").symlink_to(ROOT / "benchmarks")
        if page == RESULTS:
            for study in ("real", "simulated", "relatives"):
                shutil.copytree(RESULTS.parent / study, f"docs/results/{study}")
        os.environ |= SETTINGS
        try:
            text = BLOCK.sub(run, page.read_text("utf-8"))
            for figure in [*Path().glob("*.svg"), *Path().glob("*.png")]:
                shutil.copy(figure, figures)
            return text
        finally:
            pyplot.close("all")
            os.environ.clear()
            os.environ |= before


def run_command(match: re.Match[str]) -> str:
    """Run a command of the program, and give it back with its output."""
    program, *arguments = shlex.split(match["command"])
    if program != "fanbayes":
        raise ValueError(f"{match['command']!r} is not a command of this program: show it in a block of 'sh'")
    path = shutil.which(program, path=sysconfig.get_path("scripts")) or program
    done = subprocess.run([path, *arguments], capture_output=True, encoding="utf-8", check=False)
    if done.returncode:
        raise ValueError(f"{match['command']!r} ends with code {done.returncode}: {done.stderr}")
    return f"$ {match['command']}\n{shortened(match['output'], done.stdout)}"


def terminal(commands: list[str], name: str) -> None:
    """Draw a terminal in which commands of the program are run, as they look to a person."""
    from rich.console import Console
    from rich.text import Text

    screen = Console(record=True, width=80, file=StringIO())
    for command in commands:
        program, *arguments = shlex.split(command)
        path = shutil.which(program, path=sysconfig.get_path("scripts")) or program
        looks = os.environ | {"FORCE_COLOR": "1", "COLUMNS": "80"}
        done = subprocess.run([path, *arguments], capture_output=True, encoding="utf-8", check=True, env=looks)
        screen.print(Text("$ ", style="green") + Text(command, style="bold"))
        screen.print(Text.from_ansi(LEARNT_IN.sub("Learnt.", done.stdout)))
    picture = screen.export_svg(title="fanbayes", unique_id="terminal")
    Path(name).write_text(re.sub(r"@font-face \{.*?\}", "", picture, flags=re.DOTALL), "utf-8")  # nothing is fetched


def shortened(shown: str, printed: str) -> str:
    """What is printed, without the lines that were left out of what is shown.

    What stands between two ellipses is found by its first and its last line, whatever their numbers.
    """
    old, new = shown.splitlines(), [line.rstrip() for line in printed.rstrip().splitlines()]
    timed = _with_seconds(new)
    known = {_without_seconds(line): line for line in old}
    new = [
        known.get(_without_seconds(line), line) if k in timed or LEARNT_IN.match(line) else line
        for k, line in enumerate(new)
    ]
    if ELLIPSIS not in old:
        return "".join(f"{line}\n" for line in new)
    parts, at = [[]], 0
    for line in old:
        parts.append([]) if line == ELLIPSIS else parts[-1].append(line)
    lines: list[str] = []
    for k, part in enumerate(parts):
        if k:
            lines.append(ELLIPSIS)
        if part:
            first = 0 if k == 0 else _find(part[0], new, at, at)
            last = len(new) - 1 if k == len(parts) - 1 else _find(part[-1], new, first, first + len(part) - 1)
            lines += new[first : last + 1]
            at = last + 1
    return "".join(f"{line}\n" for line in lines)


def _find(line: str, lines: list[str], begin: int, expected: int) -> int:
    """Number of the line that is the same but for numbers, the nearest to where it is expected."""
    found = [k for k in range(begin, len(lines)) if _skeleton(lines[k]) == _skeleton(line)]
    if not found:
        raise ValueError(f"no line like {line!r} is printed any more: shorten the output by hand")
    return min(found, key=lambda k: abs(k - expected))


def _skeleton(line: str) -> str:
    return re.sub(r"([ █─━])\1+", r"\1", re.sub(r"[\d.]+", "0", line))


def _with_seconds(lines: list[str]) -> set[int]:
    """Lines of tables whose last column is headed "seconds"."""
    inside, found = False, set()
    for k, line in enumerate(lines):
        if inside and line:
            found.add(k)
        inside = line.endswith("seconds") or (inside and bool(line))
    return found


def _without_seconds(line: str) -> str:
    return LEARNT_IN.sub("", line) if LEARNT_IN.match(line) else re.sub(r"\S+$", "", line)


def main() -> None:
    """Refresh the pages that are named, or all."""
    FIGURES.mkdir(exist_ok=True)
    for page in [Path(name).resolve() for name in sys.argv[1:]] or [*GUIDE, RESULTS]:
        before, after = page.read_text("utf-8"), refreshed(page, FIGURES)
        if after != before:
            page.write_text(after, "utf-8")
            print(f"{page.relative_to(ROOT)}: changed")


if __name__ == "__main__":
    main()
