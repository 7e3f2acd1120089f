"""Puts the program's own help into the command-line reference."""

from typing import Any

import typer.main

from fanbayes.cli import app

MARK = "<!-- commands -->"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace the mark by a section for each command."""
    return markdown.replace(MARK, "\n\n".join(sections())) if MARK in markdown else markdown


def sections() -> list[str]:
    """Help of the program and of all its commands."""
    return _sections(typer.main.get_command(app), "fanbayes", None)


def _sections(command: Any, name: str, parent: Any) -> list[str]:
    with command.make_context(name.split()[-1], [], parent=parent, resilient_parsing=True) as context:
        found = [f"## {name}\n\n```text\n{context.get_help()}\n```"]
        for word, inner in getattr(command, "commands", {}).items():
            found += _sections(inner, f"{name} {word}", context)
    return found
