"""A figure of the page as SVG."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

import numpy as np
from settings import name_of

from fanbayes.study.figures import svg

LEAST_LOSS = 1e-3  # lower ones lie on the edge


def scatter_figure(datasets: Mapping[str, Mapping[str, Any]], ours: str, other: str) -> str:
    """Log loss of the other method (across) and of ours (up) on each dataset, on logarithmic scales."""
    size, left, top = 240, 40, 8
    inner = size - left - top
    losses = {
        name: [dataset["measures"][method]["log_loss"] for method in (other, ours)]
        for name, dataset in sorted(datasets.items())
        if ours in dataset["measures"] and other in dataset["measures"]
    }
    most = max([2.0, *(max(pair) for pair in losses.values())])

    def scale(loss: float) -> float:
        return float(np.log(max(loss, LEAST_LOSS) / LEAST_LOSS) / np.log(most / LEAST_LOSS))

    def x(loss: float) -> float:
        return left + inner * scale(loss)

    def y(loss: float) -> float:
        return top + inner * (1 - scale(loss))

    marks = [f'<rect class="frame" x="{left}" y="{top}" width="{inner}" height="{inner}"/>']
    for tick in (0.001, 0.01, 0.1, 1):
        marks.append(
            f'<line class="grid" x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="{top}" y2="{top + inner}"/>'
            f'<line class="grid" x1="{left}" x2="{left + inner}" y1="{y(tick):.1f}" y2="{y(tick):.1f}"/>'
            f'<text x="{x(tick):.1f}" y="{top + inner + 16}" text-anchor="middle">{tick:g}</text>'
            f'<text x="{left - 6}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:g}</text>'
        )
    marks.append(f'<line class="diagonal" x1="{left}" y1="{top + inner}" x2="{left + inner}" y2="{top}"/>')
    for name, (theirs, mine) in losses.items():
        radius = 1.2 + 0.75 * np.log10(datasets[name]["n_rows"])
        title = f"{name}: {name_of(ours)} {mine:.4f}, {name_of(other)} {theirs:.4f}"
        marks.append(
            f'<circle class="{datasets[name]["half"]}" cx="{x(theirs):.1f}" cy="{y(mine):.1f}" r="{radius:.1f}">'
            f"<title>{escape(title)}</title></circle>"
        )
    return svg(size, size + 12, f"{name_of(ours)} against {name_of(other)}", marks)
