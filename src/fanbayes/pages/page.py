"""One style for all pages: self-contained, without a network; they fit a phone, the dark and a sheet of paper."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from html import escape
from pathlib import Path
from typing import Any

from fanbayes.pages.text import number, p_text, run_text

TEMPLATES = Path(__file__).parent / "templates"


def html_page(title: str, body: str, style: str = "") -> str:
    """A whole page: its title, the HTML of its body, and CSS of its own beside what all pages have."""
    css = (TEMPLATES / "page.css").read_text("utf-8")
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(title)}</title>
<link rel="icon" href="data:,">
<style>
{css}{style}</style>
</head>
<body>
{body}
</body>
</html>
"""


def render(template: Path, content: Mapping[str, Any], filters: Mapping[str, Callable[..., str]]) -> str:
    """Fill in a template, which may include its neighbours and what all pages have."""
    try:
        import jinja2
    except ImportError:
        raise ImportError("pages need jinja2: pip install 'fanbayes[report]'") from None
    loader = jinja2.FileSystemLoader([template.parent, TEMPLATES])
    escaped = ".html." in template.name
    environment = jinja2.Environment(loader=loader, autoescape=escaped, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"number": number, "p": p_text, "run": run_text, **filters}
    return environment.get_template(template.name).render(content)


def script(values: Any) -> str:
    """JSON that may stand in a script element; nothing in it ends that, and every number is finite."""
    return json.dumps(values, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
