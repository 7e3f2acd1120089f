"""Traps of tables, noted by the commands with options to paste."""

import shlex

import numpy as np
import pandas as pd
import pytest
from program import run

pytestmark = pytest.mark.usefixtures("server")


def test_fit_and_evaluate_note_what_columns_may_be(tmp_path):
    lines = [f"{k},{'NA' if k % 8 == 0 else k / 2},{'-' if k % 2 else k},u{k // 2 * 2 + k % 4 // 3}" for k in range(60)]
    labels = ["a", "a ", "b"]
    rows = "".join(f"{line},{labels[k % 3]}\n" for k, line in enumerate(lines))
    (tmp_path / "d.csv").write_text(f",x,half,name,class\n{rows}")
    fit = ("d.csv", "-t", "class", "--ignore", "")
    out, err = run("fit", *fit, "--model", "nb", "-o", "m.fan", cwd=tmp_path)
    notes = err.splitlines()
    assert len(notes) == 4
    assert notes[0].endswith("categories: 'NA' of 'x'; if they mean that nothing is known, use")
    assert notes[1] == "  --missing NA"
    assert notes[2].endswith("rows: 'name' (45 in 60 rows); if they are identifiers, use")
    assert notes[3] == "  --ignore name"
    assert "Classes in 'class': 'a' 20, 'a ' 20, b 20." in out
    assert notes[0] in run("evaluate", *fit, "--folds", "2", "--ignore", "name", cwd=tmp_path)[1].splitlines()
    _, err = run("fit", *fit, "--model", "nb", "--missing", "NA", "--ignore", "name", "-o", "m.fan", cwd=tmp_path)
    assert err == ""


def test_fit_notes_each_kind_of_trap_once(tmp_path):
    rng = np.random.default_rng(0)
    codes = {f"code, {k}": rng.integers(0, 3, 60) for k in range(13)}
    frame = pd.DataFrame({**codes, "x": rng.normal(size=60), "same": 1, "class": ["a", "b"] * 30})
    frame.to_csv(tmp_path / "d.csv", index=False)
    fit = ("fit", "d.csv", "-t", "class", "--model", "nb", "-o", "m.fan")
    few, discrete, constant, ignore = run(*fit, cwd=tmp_path)[1].splitlines()
    assert discrete == "  --discrete " + shlex.quote(",".join(f'"{name}"' for name in codes))
    assert " and 3 more; " in few
    assert constant.endswith("left out: 'same'; to be rid of them, use")
    assert ignore == "  --ignore same"
    pasted_options = shlex.split(discrete + ignore)
    assert run(*fit, *pasted_options, cwd=tmp_path)[1] == ""
    pasted_options[0] = "--continuous"  # what is said is not doubted
    assert run(*fit, *pasted_options, cwd=tmp_path)[1] == ""
