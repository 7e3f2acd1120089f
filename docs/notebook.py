"""Makes a notebook of the tutorial: its text, its code, and what that prints.

python docs/notebook.py      or      make docs-output
"""

import json
from pathlib import Path
from typing import Any

from examples import PYTHON

PAGE = Path(__file__).with_name("tutorial.md")
NOTEBOOK = PAGE.with_suffix(".ipynb")


def notebook(page: str) -> str:
    """A page as a notebook, in JSON: a cell for each example and for each text between two of them."""
    cells: list[dict[str, Any]] = []
    end = 0
    for block in PYTHON.finditer(page):
        cells += [_text(page[end : block.start()]), _code(block["code"], block["output"])]
        end = block.end()
    if page[end:].strip():
        cells.append(_text(page[end:]))
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    content = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def _text(text: str) -> dict[str, Any]:
    links = text.strip().replace(".md)", ".html)")
    return {"cell_type": "markdown", "metadata": {}, "source": links.splitlines(keepends=True)}


def _code(code: str, printed: str | None) -> dict[str, Any]:
    output = {"name": "stdout", "output_type": "stream", "text": (printed or "").splitlines(keepends=True)}
    return {
        "cell_type": "code",
        "execution_count": None,
        "metadata": {},
        "outputs": [output] if printed else [],
        "source": code.strip().splitlines(keepends=True),
    }


if __name__ == "__main__":
    NOTEBOOK.write_text(notebook(PAGE.read_text("utf-8")), "utf-8")
