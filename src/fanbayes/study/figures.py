"""Figures of pages as SVG, drawn without a library: a page opens from disk."""

from __future__ import annotations

from collections.abc import Container, Sequence
from html import escape


def rank_figure(
    ranks: Sequence[tuple[str, float]],
    label: str,
    ours: Container[str],
    groups: Sequence[Sequence[int]] = (),
    *,
    width: int = 760,
    left: int = 160,
) -> str:
    """Mean rank of each method, the best on top; a bar joins those that do not differ (Demsar 2006).

    Parameters
    ----------
    ranks : names and mean ranks, the best first
    label : what the ranks are of
    ours : names that are marked
    groups : positions in `ranks`, without gaps, of methods that do not differ
    width, left : of the figure, and of the part with the names
    """
    row, top, most = 26, 26, len(ranks)
    right = 60 + 9 * len(groups)
    height = top + row * most + 8

    def x(rank: float) -> float:
        return left + (rank - 1) / max(most - 1, 1) * (width - left - right)

    def y(place: float) -> float:
        return top + row * (place + 0.5)

    marks = [
        f'<line class="grid" x1="{x(k):.1f}" x2="{x(k):.1f}" y1="{top - 6}" y2="{height - 8}"/>'
        f'<text x="{x(k):.1f}" y="{top - 12}" text-anchor="middle">{k}</text>'
        for k in range(1, most + 1)
    ]
    for place, (name, rank) in enumerate(ranks):
        which, at = "ours" if name in ours else "peer", y(place)
        marks.append(
            f'<text class="{which}" x="{left - 14}" y="{at + 4:.1f}" text-anchor="end">{escape(name)}</text>'
            f'<line class="stem" x1="{x(1):.1f}" x2="{x(rank):.1f}" y1="{at:.1f}" y2="{at:.1f}"/>'
            f'<circle class="{which}" cx="{x(rank):.1f}" cy="{at:.1f}" r="6"/>'
            f'<text x="{x(rank) + 12:.1f}" y="{at + 4:.1f}">{rank:.2f}</text>'
        )
    for k, group in enumerate(groups):
        at = width - 9 * (len(groups) - k) + 4
        first, last = y(min(group)) - 8, y(max(group)) + 8
        marks.append(f'<line class="alike" x1="{at}" x2="{at}" y1="{first:.1f}" y2="{last:.1f}"/>')
    return svg(width, height, label, marks)


def svg(width: float, height: float, label: str, marks: Sequence[str]) -> str:
    """A figure of some elements, with a name for those who do not see it."""
    body = "\n".join(marks)
    return f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(label)}">\n{body}\n</svg>'
