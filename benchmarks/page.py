"""One page of all results: the goals, what was reached, and how time and memory grow."""

from __future__ import annotations

import json
import math
from html import escape
from pathlib import Path
from typing import Any

from fanbayes.files.atomic import write_file
from fanbayes.pages.page import html_page
from fanbayes.pages.text import run_text

STYLE = """.plot path { fill: none; stroke: currentColor; stroke-width: 1.6; }
.plot .line text { fill: currentColor; }
"""
COLOURS = ("--fan", "--continuous", "--mixed", "--nb")


def write(folder: Path) -> Path:
    """Write index.html from the JSON files of a folder."""
    files = {f.stem: json.loads(f.read_text()) for f in sorted(folder.glob("*.json"))}
    lines = "".join(_row(name, r) for name, content in files.items() for r in content["results"])
    figures = "".join(_growth(what, files["growth"]["results"]) for what in ("time", "memory") if "growth" in files)
    measured: dict[str, list[str]] = {}
    for name, content in files.items():
        measured.setdefault(run_text(content["environment"]), []).append(name)
    where = "".join(f"<li>{', '.join(names)}: {escape(text)}</li>" for text, names in measured.items())
    body = (
        "<header><h1>Speed</h1><p class='lead'>Ratios within one run. Measured on:</p>"
        f"<ul>{where}</ul></header>\n<main>\n<div class='scroll'><table><thead><tr><th scope='col'>Section</th>"
        "<th scope='col'>What</th><th scope='col'>Goal</th><th scope='col'>Reached</th><td></td></tr></thead>\n"
        f"<tbody>\n{lines}</tbody></table></div>\n<section><h2>Growth</h2>\n<div class='plots'>{figures}</div>\n"
        "<p class='note'>Both axes logarithmic, each axis divided by its first value; a slope of 1 is dashed.</p>"
        "</section>\n</main>"
    )
    page = folder / "index.html"
    write_file(page, html_page("fanbayes: speed", body, STYLE).encode())
    return page


def goal(r: dict[str, Any]) -> str:
    """The target, as text."""
    return "" if r["target"] is None else f"{'≥' if r['better'] == 'more' else '≤'} {r['target']:g} {r['unit']}"


def reached(r: dict[str, Any]) -> str:
    """The value, as text."""
    return "not run" if r["value"] != r["value"] else f"{r['value']:.3g} {r['unit']}"


def _row(section: str, r: dict[str, Any]) -> str:
    mark = {True: '<span class="mark yes">yes</span>', False: '<span class="mark no">no</span>', None: ""}[r["met"]]
    note = f"<br><small>{escape(r['detail']['note'])}</small>" if r["detail"].get("note") else ""
    cells = section, escape(r["name"]) + note, goal(r), escape(reached(r)), mark
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>\n"


def _growth(what: str, results: list[dict[str, Any]]) -> str:
    """Lines of one quantity against all axes, as SVG."""
    width, height, edge, widest = 380, 300, 36, 5.2  # axes span factors of 2^0 .. 2^widest

    def at(x: float, y: float) -> tuple[float, float]:
        place = edge + math.log2(x) / widest * (width - 2 * edge)
        return place, height - edge - math.log2(max(y, 0.5)) / widest * (height - 2 * edge)

    ticks = "".join(
        f"<text x='{at(2**k, 1)[0]:.0f}' y='{height - edge + 16}' text-anchor='middle'>{2**k}</text>"
        f"<text x='{edge - 6}' y='{at(1, 2**k)[1] + 4:.0f}' text-anchor='end'>{2**k}</text>"
        for k in range(6)
    )
    (x0, y0), (x1, y1) = at(1, 1), at(32, 32)
    lines = f"<line class='diagonal' x1='{x0:.0f}' y1='{y0:.0f}' x2='{x1:.0f}' y2='{y1:.0f}'/>"
    found = [r for r in results if r["name"].startswith(f"slope of {what} ")]
    for k, (r, colour) in enumerate(zip(found, COLOURS)):
        *_, values = r["detail"].values()
        steps = r["detail"]["steps"]
        points = "L".join("{:.1f} {:.1f}".format(*at(s / steps[0], v / values[0])) for s, v in zip(steps, values))
        name = f"<text x='{edge + 10}' y='{edge + 14 * k}'>{r['detail']['axis']}: {r['value']:.2f}</text>"
        lines += f"<g class='line' style='color: var({colour})'><path d='M{points}'/>{name}</g>"
    return (
        f"<figure class='plot'><svg viewBox='0 0 {width} {height}' role='img' aria-label='growth of {what}'>"
        f"{lines}{ticks}</svg><figcaption>{what}, and the slope for each axis</figcaption></figure>"
    )


if __name__ == "__main__":
    print(f"The page: {write(Path(__file__).parent / 'results')}")
