"""Names and values that would steer a terminal, a page or a figure: they are shown and never obeyed."""

import io
import json
import re
import sys
from xml.dom import minidom

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from fanbayes.cli import app
from fanbayes.commands.output import note, print_table, printable, screen, table_lines

TITLE, CLEAR, RED = "\x1b]0;owned\x07", "\x1b[2J", "\x1b[31m"
COLUMNS = ["[/nope]", f"x{TITLE}", "two\nlines", "[bold]", r"$\nope$"]
TARGET = ("-t", f"class{RED}")
BINNED = ("--model", "fan", "--discretize", "--components", "2")
CLASSES = [f"{RED}red", "[/b] <i>", r"$\frac$"]


class Terminal(io.StringIO):
    def isatty(self):
        return True


def run(folder, *command, terminal=True, columns=200):
    """All that a command writes to its two streams, in a terminal or not."""
    streams = [Terminal() if terminal else io.StringIO() for _ in range(2)]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("TERM", "xterm")
        patch.setenv("COLUMNS", str(columns))
        patch.setattr(sys, "stdout", streams[0])
        patch.setattr(sys, "stderr", streams[1])
        app(list(command), standalone_mode=False)
    return "".join(stream.getvalue() for stream in streams)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("names")
    rng = np.random.default_rng(0)
    n = 60
    y = np.arange(n) % 3
    values = [
        np.array(["[red]a", f"b{CLEAR}"])[(y + rng.integers(0, 2, n)) % 2],
        y + rng.normal(size=n),
        np.array(["p", "q\tz"])[rng.integers(0, 2, n)],
        rng.normal(size=n),
        np.array(["u", "v"])[rng.integers(0, 2, n)],
    ]
    frame = pd.DataFrame(dict(zip(COLUMNS, values)) | {f"class{RED}": np.array(CLASSES)[y]})
    frame.to_csv(folder / "data.csv", index=False)
    frame.drop(columns=f"class{RED}").mask(rng.random((n, 5)) < 0.2).to_csv(folder / "rows.csv", index=False)
    run(folder, "fit", "data.csv", *TARGET, "--model", "fan", "--components", "2", "-o", "m.fan")
    return folder


def harmless(text):
    """None of the sequences is there; those of the program itself are others."""
    return not any(sequence in text for sequence in (TITLE, CLEAR, RED))


@pytest.mark.parametrize("terminal", [True, False], ids=["terminal", "file"])
@pytest.mark.parametrize(
    ("command", "shown"),
    [
        (["fit", "data.csv", *TARGET, "--model", "nb", "-o", "x"], ["[/nope]", r"x\x1b]0;owned\x07", r"two\nlines"]),
        (["fit", "data.csv", *TARGET, *BINNED, "-o", "x"], [r"\x1b[31mred", "[bold]"]),
        (["show", "m.fan"], ["[/nope]", r"x\x1b]0;owned\x07", r"\x1b[31mred", "[/b] <i>"]),
        (["explain", "m.fan", "rows.csv"], [r"x\x1b]0;owned\x07 = ", r"two\nlines = ", "[/b] <i>"]),
        (["predict", "m.fan", "data.csv", "-o", "x.csv"], [r"does not use: class\x1b[31m."]),
    ],
    ids=["fit", "discretize", "show", "explain", "predict"],
)
def test_the_commands_show_them(folder, command, shown, terminal):
    text = run(folder, *command, terminal=terminal)
    for name in shown:
        assert name in text
    assert harmless(text)


@pytest.mark.parametrize("columns", [40, 80])
def test_bars_fit_the_terminal(folder, columns):
    text = run(folder, "explain", "m.fan", "rows.csv", columns=columns)
    bars = [line for line in text.splitlines() if "│" in line]
    assert bars
    assert all(line.startswith("  ") and len(line) <= columns for line in bars)


@pytest.mark.parametrize("terminal", [True, False], ids=["terminal", "pipe"])
@pytest.mark.parametrize("command", [["fit", "data.csv", *TARGET, "--model", "fan", "-o", "x"], ["show", "m.fan"]])
def test_tables_keep_to_80_columns(folder, command, terminal):
    lines = run(folder, *command, terminal=terminal, columns=80).splitlines()
    plain = [re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", line) for line in lines]
    assert all(len(line) <= 80 for line in plain if not line.startswith(("note: ", "  --")))


def test_a_table_breaks_between_words_and_never_a_number():
    rows = [["a rather long name", "123456.789", "one two three four five"], ["x" * 30, "1", ""]]
    for width in range(34, 70):
        lines = table_lines(["name", "number", "words"], rows, (0, 2), width)
        assert max(map(len, lines)) <= width
        assert "123456.789" in "".join(lines)
        words = " ".join(lines).split()
        assert {"rather", "long", "three", "five"} <= {*words}
        assert ("x" * 30 in words) == (width >= 30 + 2 + 10 + 2 + 5)


def test_predictions_are_shown_in_a_terminal_and_exact_elsewhere(folder):
    shown, exact = (run(folder, "predict", "m.fan", "rows.csv", terminal=terminal) for terminal in (True, False))
    assert harmless(shown)
    assert r"p(\x1b[31mred)" in shown
    assert f"p({RED}red)" in exact


def test_pages_and_figures_hold_them(folder):
    arguments = ("data.csv", *TARGET, "--folds", "2", "--html", "page.html", "--out", ".", "--jobs", "1")
    assert harmless(run(folder, "evaluate", *arguments))
    page = (folder / "page.html").read_text("utf-8")
    assert "[/b] &lt;i&gt;" in page
    assert r"\x1b[31mred" in page
    assert "\x1b" not in page
    texts = minidom.parse(str(folder / "roc.svg")).getElementsByTagName("text")
    titles = {f"ROC of {name} against the rest" for name in (r"\x1b[31mred", "[/b] <i>", r"$\frac$")}
    assert titles <= {node.firstChild.data for node in texts if node.firstChild}


def test_a_study_goes_on_over_such_a_dataset(tmp_path):
    name = f"[/nope] set{CLEAR}"
    (tmp_path / "a.csv").write_text("x,class\n" + "".join(f"{i % 3},{'ab'[i % 2]}\n" for i in range(12)))
    feature = {"features": [{"name": "x", "kind": "discrete"}]}
    sets = [{"name": name, "file": "a.csv", **feature}, {"name": f"gone{RED}", "file": "gone.csv", **feature}]
    (tmp_path / "manifest.json").write_text(json.dumps({"datasets": sets}))
    out = tmp_path / f"[out{RED}"
    arguments = ["real", "--suite", str(tmp_path), "--folds", "2", "--jobs", "1", "--out", str(out)]
    found = CliRunner().invoke(app, ["study", *arguments])
    assert found.exit_code == 0, found.output
    assert r"[/nope] set\x1b[2J" in found.stderr
    assert r"[out\x1b[31m" in found.stderr
    assert "\x1b" not in found.output
    found = CliRunner().invoke(app, ["study", "report", str(out)])
    assert found.exit_code == 0, found.output
    assert "\x1b" not in found.output


def test_notes_and_tables(capsys):
    note(f"column {TITLE} is odd")
    assert capsys.readouterr().err == "note: column \\x1b]0;owned\\x07 is odd\n"
    print_table(screen(), ["[b]", "n"], [[f"{RED}x", "1"], ["two\nlines", "22"]])
    assert capsys.readouterr().out == "[b]          n\n\\x1b[31mx    1\ntwo\\nlines  22\n\n"


@pytest.mark.parametrize("text", ["plain", "Überlänge", "数据", "a\\b", "price (€)", ""])
def test_what_is_harmless_stays(text):
    assert printable(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [("\x1b", r"\x1b"), ("\x9b31m", r"\x9b31m"), ("a\tb\r", r"a\tb\r"), ("\u202e", r"\u202e"), ("\udcff", r"\udcff")],
)
def test_what_is_not_is_written_out(text, shown):
    assert printable(text) == shown
