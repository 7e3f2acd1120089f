"""Traps of tables, noted by the commands with options to paste."""

import shlex

import numpy as np
import pandas as pd
import pytest
from program import refuse, run

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


def test_fit_says_what_to_do_with_dates_stored_as_text_or_as_dates(tmp_path):
    days = pd.date_range("2024-01-01", periods=60)
    frame = pd.DataFrame({"x": np.arange(60) % 13, "day": days, "class": ["a", "b"] * 30})
    frame.to_csv(tmp_path / "d.csv", index=False)
    frame.to_parquet(tmp_path / "d.parquet")
    remedy = "turn them into numbers, such as the days since one of them or the month, or"
    fit = ("-t", "class", "--model", "nb", "-o", "m.fan")
    said, option = run("fit", "d.csv", *fit, cwd=tmp_path)[1].splitlines()
    assert f"'day', such as '2024-01-01'; {remedy}, to leave them out, use" in said
    assert option == "  --ignore day"
    assert run("fit", "d.csv", *fit, *option.split(), cwd=tmp_path)[1] == ""
    refuse(
        "fit", "d.parquet", *fit, cwd=tmp_path, code=1, says=f"holds datetime values (row 1): {remedy} use --ignore."
    )


def test_fit_notes_once_that_nothing_could_be_learnt(tmp_path):
    (tmp_path / "d.csv").write_text("a,b,class\n" + "1,x,u\n1,x,v\n" * 20)
    _, err = run("fit", "d.csv", "-t", "class", "--model", "fan", "-o", "m.fan", cwd=tmp_path)
    assert err.startswith("note: no column tells anything, so each row will get the class shares")
    assert err.count("\n") == 1
