"""Every example of the guide and the README runs, in the order in which it is read, and prints what is shown."""

import copy
import pkgutil
import re
import sys
from pathlib import Path

import nbclient
import nbformat
import pytest

import fanbayes

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "docs"))

import examples  # noqa: E402
import notebook  # noqa: E402


@pytest.mark.parametrize("page", examples.GUIDE, ids=lambda page: page.stem)
def test_the_examples_print_and_draw_what_is_shown(page, tmp_path):
    """Digits included; `make docs-output` writes it anew."""
    shown = page.read_text("utf-8")
    assert examples.refreshed(page, tmp_path).splitlines() == shown.splitlines(), "run `make docs-output`"
    figures = {figure.name for figure in tmp_path.iterdir()}
    assert figures == set(re.findall(r"!\[.+\]\(figures/(.+?)\)", shown))
    assert all((examples.FIGURES / name).stat().st_size < 60_000 for name in figures), "run `make docs-output`"


def test_what_is_printed_takes_the_place_of_what_is_shown():
    page = "one 1\ntwo 2\n"
    assert examples.shortened(page, "one 1\ntwo 3\n\n") == "one 1\ntwo 3\n"
    assert examples.shortened("...\ntwo 2\n...\n", "one 1\ntwo 3\nthree\n") == "...\ntwo 3\n...\n"
    assert examples.shortened("one 1\n...\n", "one 5\nnew\n") == "one 5\n...\n"
    assert examples.shortened("...\nend 1\n", "begin\nend 2\n") == "...\nend 2\n"
    assert examples.shortened("...\n", "anything\n") == "...\n"
    rows = "a 1\na 2\na 3\n"
    assert examples.shortened(f"...\n{rows}...\n", f"head\n{rows}foot\n") == f"...\n{rows}...\n"
    with pytest.raises(ValueError, match="no line like 'two 2' is printed any more"):
        examples.shortened("...\ntwo 2\n...\n", "one\nthree\n")


def test_an_empty_block_is_filled(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("Before\n\n```python\nprint(1)\n```\n\n```text\n```\n\nAfter\n", "utf-8")
    filled = "Before\n\n```python\nprint(1)\n```\n\n```text\n1\n```\n\nAfter\n"
    assert examples.refreshed(page, tmp_path) == filled


def test_seconds_stay_unless_something_else_has_changed():
    shown = "size  seconds\n1        0.01\n2        0.02\n\nlast 1.0\n"
    printed = "size  seconds\n1        0.07\n3        0.08\n\nlast 2.0\n"
    assert examples.shortened(shown, printed) == "size  seconds\n1        0.01\n3        0.08\n\nlast 2.0\n"
    shown = "Learnt in 0.6 s. Model: m.fan.\n"
    assert examples.shortened(shown, "Learnt in 1 min 2 s. Model: m.fan.\n") == shown
    assert examples.shortened(shown, "Learnt in 2.0 s. Model: n.fan.\n") == "Learnt in 2.0 s. Model: n.fan.\n"


def test_the_reference_covers_every_command_and_public_name():
    api = (ROOT / "docs" / "api.md").read_text("utf-8")
    for name in fanbayes.__all__:
        assert f"fanbayes.{name}" in api, name


def test_links_lead_somewhere():
    for page in examples.GUIDE:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text("utf-8")):
            assert (page.parent / target).exists(), (page.name, target)


def test_the_theory_names_code_that_is_there():
    names = re.findall(r"`(fanbayes(?:\.\w+)+)`", (ROOT / "docs" / "theory.md").read_text("utf-8"))
    assert len(names) > 30
    for name in names:
        pkgutil.resolve_name(name)


def test_the_theory_has_the_equations_of_the_paper():
    tags = re.findall(r"\\tag\{(\d+)\}", (ROOT / "docs" / "theory.md").read_text("utf-8"))
    assert sorted(map(int, tags)) == list(range(1, 14))


def test_formulas_become_mathml():
    pytest.importorskip("latex2mathml")
    import hooks

    html = hooks.on_page_content('<p><span class="arithmatex">\\(a &lt; b\\)</span></p>')
    assert html.startswith("<p><math")
    assert "&#x0003C;" in html
    assert "arithmatex" not in html
    block = hooks.on_page_content('<div class="arithmatex">\\[p = 1 \\tag{A1}\\]</div>')
    assert 'id="eq-A1"' in block
    assert block.count("<math") == 1
    assert "<span>(A1)</span>" in block
    assert "tag{" not in block


def test_the_notebook_is_the_tutorial_and_prints_what_is_shown(tmp_path):
    """In a kernel of its own, as a reader would run it."""
    shown = nbformat.read(notebook.NOTEBOOK, as_version=4)
    made = notebook.notebook(notebook.PAGE.read_text("utf-8"))
    assert shown == nbformat.reads(made, as_version=4), "run `make docs-output`"
    nbformat.validate(shown)
    done = nbclient.execute(copy.deepcopy(shown), cwd=str(tmp_path))

    def printed(cell):
        return "".join(output["text"] for output in cell.outputs if output["output_type"] == "stream")

    for before, after in zip(shown.cells, done.cells):
        if before.cell_type == "code":
            assert printed(after) == printed(before)


def test_every_figure_is_shown():
    shown = {name for page in examples.GUIDE for name in re.findall(r"\(figures/(.+?)\)", page.read_text("utf-8"))}
    assert {figure.name for figure in examples.FIGURES.iterdir()} == shown
