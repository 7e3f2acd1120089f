"""What the guide is given when it is built: the program's own help, and formulas as MathML."""

import re
from html import unescape
from typing import Any

import typer.main
from latex2mathml.converter import convert

from fanbayes.cli import app

MARK = "<!-- commands -->"
# As pymdownx.arithmatex leaves them.
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](?P<latex>.*?)\\[)\]]</\1>', re.DOTALL)
TAG = re.compile(r"\\tag\{(.*?)\}\s*$")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace the mark by a section for each command."""
    return markdown.replace(MARK, "\n\n".join(sections())) if MARK in markdown else markdown


def on_page_content(html: str, **_: Any) -> str:
    """Put MathML in the place of LaTeX: it is shown without a script, and nothing is fetched for it."""
    return FORMULA.sub(_mathml, html)


def _mathml(found: re.Match[str]) -> str:
    latex = unescape(found["latex"])
    if found[1] == "span":
        return convert(latex)
    name = TAG.search(latex)
    formula = f"<div>{convert(TAG.sub('', latex), display='block')}</div>"
    if name is None:
        return f'<div class="equation">{formula}</div>'
    return f'<div class="equation" id="eq-{name[1].replace(", ", "-")}">{formula}<span>({name[1]})</span></div>'


def sections() -> list[str]:
    """Help of the program and of all its commands."""
    return _sections(typer.main.get_command(app), "fanbayes", None)


def _sections(command: Any, name: str, parent: Any) -> list[str]:
    with command.make_context(name.split()[-1], [], parent=parent, resilient_parsing=True) as context:
        found = [f"## {name}\n\n```text\n{context.get_help()}\n```"]
        for word, inner in getattr(command, "commands", {}).items():
            found += _sections(inner, f"{name} {word}", context)
    return found
