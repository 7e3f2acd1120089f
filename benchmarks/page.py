"""One page of all results: the goals, what was reached, and how time and memory grow."""

from __future__ import annotations

import json
import math
from html import escape
from pathlib import Path
from typing import Any

from fanbayes.files.atomic import write_file

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 64rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
table { border-collapse: collapse; width: 100% } td, th { text-align: left; padding: .25rem .7rem .25rem 0 }
tr { border-bottom: 1px solid #ddd } .yes { color: #176b37 } .no { color: #a3231f }
figure { display: inline-block; margin: 1rem 1rem 0 0 } svg { font: 11px system-ui, sans-serif }
"""


def write(folder: Path) -> Path:
    """Write index.html from the JSON files of a folder."""
    files = {f.stem: json.loads(f.read_text()) for f in sorted(folder.glob("*.json"))}
    lines = "".join(_row(name, r) for name, content in files.items() for r in content["results"])
    figures = "".join(_growth(what, files["growth"]["results"]) for what in ("time", "memory") if "growth" in files)
    measured: dict[str, list[str]] = {}
    for name, content in files.items():
        measured.setdefault(_environment(content), []).append(name)
    where = "".join(f"<li>{', '.join(names)}: {escape(text)}</li>" for text, names in measured.items())
    page = folder / "index.html"
    html = (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>fanbayes: speed</title><style>{STYLE}</style>"
        f"<h1>Speed</h1><p>Ratios within one run. Measured on:</p><ul>{where}</ul>"
        f"<table><tr><th>section<th>what<th>goal<th>reached<th></tr>{lines}</table>"
        f"<h2>Growth</h2><p>Both axes logarithmic, each axis divided by its first value; a slope of 1 is dashed.</p>"
        f"{figures}</html>\n"
    )
    write_file(page, html.encode())
    return page


def goal(r: dict[str, Any]) -> str:
    """The target, as text."""
    return "" if r["target"] is None else f"{'≥' if r['better'] == 'more' else '≤'} {r['target']:g} {r['unit']}"


def _row(section: str, r: dict[str, Any]) -> str:
    met = {True: "<td class=yes>yes", False: "<td class=no>no", None: "<td>"}[r["met"]]
    return f"<tr><td>{section}<td>{escape(r['name'])}<td>{goal(r)}<td>{r['value']:.3g} {escape(r['unit'])}{met}</tr>"


def _environment(content: dict[str, Any]) -> str:
    e = content["environment"]
    versions = ", ".join(f"{name} {number}" for name, number in e["versions"].items())
    machine = f"{e['processor']}, {e['cores']} cores, {e['backend']}"
    return f"{e['date']}, commit {e['commit']}; {machine}; Python {e['python']}, {versions}"


def _growth(what: str, results: list[dict[str, Any]]) -> str:
    """Lines of one quantity against all axes, as SVG."""
    width, height, edge, widest = 380, 300, 36, 5.2  # axes span factors of 2^0 .. 2^widest

    def at(x: float, y: float) -> tuple[float, float]:
        place = edge + math.log2(x) / widest * (width - 2 * edge)
        return place, height - edge - math.log2(max(y, 0.5)) / widest * (height - 2 * edge)

    ticks = "".join(
        f"<text x={at(2**k, 1)[0]:.0f} y={height - edge + 16} text-anchor=middle>{2**k}</text>"
        f"<text x={edge - 6} y={at(1, 2**k)[1] + 4:.0f} text-anchor=end>{2**k}</text>"
        for k in range(6)
    )
    (x0, y0), (x1, y1) = at(1, 1), at(32, 32)
    lines = f'<path d="M{x0:.0f} {y0:.0f}L{x1:.0f} {y1:.0f}" stroke="#999" stroke-dasharray="4" />'
    colours = iter(("#1b6ca8", "#b5541c", "#3b7d3a", "#7a4b9d"))
    found = [r for r in results if r["name"].startswith(f"slope of {what} ")]
    for k, (r, colour) in enumerate(zip(found, colours)):
        *_, values = r["detail"].values()
        steps = r["detail"]["steps"]
        points = [at(s / steps[0], v / values[0]) for s, v in zip(steps, values)]
        lines += f'<path d="M{"L".join(f"{x:.1f} {y:.1f}" for x, y in points)}" stroke="{colour}" fill="none" />'
        lines += f'<text x={edge + 10} y={edge + 14 * k} fill="{colour}">{r["detail"]["axis"]}: {r["value"]:.2f}</text>'
    return (
        f"<figure><svg width={width} height={height} role=img aria-label='growth of {what}'>{lines}{ticks}</svg>"
        f"<figcaption>{what}, and the slope for each axis</figcaption></figure>"
    )


if __name__ == "__main__":
    print(f"The page: {write(Path(__file__).parent / 'results')}")
