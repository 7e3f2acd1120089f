"""One self-contained HTML page of a comparison: it opens from disk, without a network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from fanbayes.commands.output import printable
from fanbayes.pages.page import html_page

_STYLE = """td.words { text-align: left !important; }
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
    head = [f"<h1>{_text(title)}</h1>", *(f'<p class="lead">{_text(text)}</p>' for text in paragraphs)]
    parts = []
    for heading, (headers, rows, remark) in tables.items():
        parts.append(_section(heading, f'{_table(headers, rows)}<p class="note">{_text(remark)}</p>'))
    for heading, svg in figures.items():
        parts.append(_section(heading, f"<figure>{svg[svg.index('<svg') :]}</figure>"))
    sections = "\n".join(parts)
    return html_page(printable(title), f"<header>{''.join(head)}</header>\n<main>\n{sections}\n</main>", _STYLE)


def _section(heading: str, content: str) -> str:
    return f"<section><h2>{_text(heading)}</h2>{content}</section>"


def _table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f'<th scope="col">{_text(text)}</th>' for text in headers)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return (
        f'<div class="scroll"><table class="numbers"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def _cell(text: str) -> str:
    words = any(letter.isalpha() for letter in text.replace("e-", ""))  # 2e-8 is none
    return f'<td class="words">{_text(text)}</td>' if words else f"<td>{_text(text)}</td>"


def _text(text: str) -> str:
    """Text as HTML shows it, and as a file in UTF-8 can hold it."""
    return escape(printable(text))
