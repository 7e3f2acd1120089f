"""`fanbayes explain`: bars that add up, for the rows asked for."""

import json

import numpy as np
import pytest
from program import refuse, run

import fanbayes

pytestmark = pytest.mark.usefixtures("server")


def test_explain(folder, rows, tmp_path):
    model, new = folder / "m.fan", folder / "new.csv"
    clf = fanbayes.load(model)
    found = clf.explain(rows)
    incomplete = int(np.flatnonzero(rows["age"].isna() & rows["smoker"].notna())[0])
    out, err = run("explain", model, new, "--row", incomplete + 1, cwd=tmp_path)
    assert f"Row {incomplete + 1}: {found.classes[incomplete, 0]} " in out
    assert f"smoker = {rows['smoker'][incomplete]} " in out
    assert "age" in out[out.index("Not observed") :]
    assert "  age = " not in out
    assert "█" in out
    total = next(line for line in out.splitlines() if line.startswith("  sum"))
    assert float(total.split()[1]) == pytest.approx(found.log_odds[incomplete], abs=0.006)

    out, err = run("explain", model, new, cwd=tmp_path)
    assert out.count("Row ") == 5
    assert "has more rows than the 5 shown; --row picks others" in err

    out, _ = run("explain", model, new, "--class", "ill", "--against", "well", "--json", cwd=tmp_path)
    records = json.loads(out)
    proba = clf.predict_proba(rows)
    assert len(records) == 80
    for record, p in zip(records, proba):
        contributions = [term["contribution"] for term in record["contributions"]]
        assert record["prior"] + sum(contributions) == pytest.approx(record["log_odds"], abs=1e-9)
        assert record["log_odds"] == pytest.approx(np.log(p[0] / p[1]), abs=1e-9)

    for options in (("--class", "ill"), ("--against", "well")):
        records = json.loads(run("explain", model, new, *options, "--json", cwd=tmp_path)[0])
        assert {(record["class"], record["against"]) for record in records} == {("ill", "well")}
    refuse("explain", model, new, "--class", "ill", "--against", "x", cwd=tmp_path, code=2, says="ill, well")
    refuse("explain", model, new, "--row", "81", cwd=tmp_path, code=2, says="80 rows")


def test_explain_shows_values_outside_of_what_was_seen_as_they_are(folder, rows, tmp_path):
    seen = fanbayes.load(folder / "m.fan").schema_.columns[0]
    (tmp_path / "far.csv").write_text(
        ",smoker,grade,age,blood pressure,x,x\n0,yes,1,1000,120,a,\n1,no,1,1e150,120,b,\n2,no,1,,120,b,\n"
    )
    out, err = run("explain", folder / "m.fan", "far.csv", cwd=tmp_path)
    assert f"age = 1000 lies outside of what was seen, {seen.low:g} to {seen.high:g} (row 1 and 1 more)." in err
    assert "does not use: '', x." in err
    assert "blood pressure =" not in err
    assert "age = 1e+150 " in out
    run("predict", folder / "m.fan", "far.csv", cwd=tmp_path)


def test_explain_explains_the_rows_that_it_prints(folder, rows, monkeypatch, capsys):
    from fanbayes.commands.explain import explain

    seen = []
    original = fanbayes.FANClassifier.explain
    monkeypatch.setattr(
        fanbayes.FANClassifier, "explain", lambda clf, X, **more: seen.append(len(X)) or original(clf, X, **more)
    )
    explain(folder / "m.fan", [str(folder / "new.csv")], top=15)
    first = capsys.readouterr().out
    explain(folder / "m.fan", [str(folder / "new.csv")], row=[5, 2], top=15)
    again = capsys.readouterr().out
    explain(folder / "m.fan", [str(folder / "new.csv")], json=True)
    assert seen == [5, 2, len(rows)]
    for number in (2, 5):
        said = f"Row {number}: " + again.split(f"Row {number}: ")[1].split("Row ")[0].rstrip()
        assert said in first


def test_explain_writes_ascii_where_it_must(folder):
    environment = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    out, _ = run("explain", "m.fan", "new.csv", "--row", "1", cwd=folder, env=environment, fresh=True)
    assert out.isascii()
    assert "|#" in out
