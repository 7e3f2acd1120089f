"""One self-contained HTML page of a comparison: it opens from disk, without a network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from fanbayes.commands.output import printable

_STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; color: #1c2330; max-width: 60rem; margin: 0 auto; padding: 1.5rem 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .9rem .3rem 0; text-align: right; border-bottom: 1px solid #d9dee6; white-space: nowrap; }
th:first-child, td.words { text-align: left; }
figure { margin: 1rem 0; } svg { max-width: 100%; height: auto; } .note { color: #566070; font-size: .9rem; }
@media print { body { max-width: none; } }
"""


def page(
    title: str,
    paragraphs: Sequence[str],
    tables: Mapping[str, tuple[Sequence[str], Sequence[Sequence[str]], str]],
    figures: Mapping[str, str],
) -> str:
    """HTML of a comparison.

    Parameters
    ----------
    title : str
    paragraphs : what was compared, and how
    tables : headers, rows and a note, by heading
    figures : SVG, by heading
    """
    parts = [f"<h1>{_text(title)}</h1>", *(f"<p>{_text(text)}</p>" for text in paragraphs)]
    for heading, (headers, rows, remark) in tables.items():
        parts += [f"<h2>{_text(heading)}</h2>", _table(headers, rows), f'<p class="note">{_text(remark)}</p>']
    for heading, svg in figures.items():
        parts += [f"<h2>{_text(heading)}</h2>", f"<figure>{svg[svg.index('<svg') :]}</figure>"]
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{_text(title)}</title><style>{_STYLE}</style>"
    )
    body = "\n".join(parts)
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n{body}\n</body></html>\n'


def _table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f'<th scope="col">{_text(text)}</th>' for text in headers)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _cell(text: str) -> str:
    words = any(letter.isalpha() for letter in text)
    return f'<td class="words">{_text(text)}</td>' if words else f"<td>{_text(text)}</td>"


def _text(text: str) -> str:
    """Text as HTML shows it, and as a file in UTF-8 can hold it."""
    return escape(printable(text))
