"""`fanbayes evaluate`: tables, figures and a page."""

import json
import shutil

import pytest
from program import refuse, run

pytestmark = pytest.mark.usefixtures("server")


def test_evaluate(folder, tmp_path):
    options = ("-t", "outcome", "--ignore", "id", "--folds", "3", "--effort", "fast", "--html", "page.html")
    out, _ = run("evaluate", folder / "patients.csv", *options, cwd=tmp_path, fresh=True)
    head = next(line for line in out.splitlines() if line.split() == ["NB", "FM", "FAN", "FAN", "CV"])
    accuracy = next(line for line in out.splitlines() if line.startswith("accuracy "))
    assert len(head) <= 80
    assert accuracy.count("±") == 4
    assert next(line for line in out.splitlines() if line.startswith("components ")).endswith(" -")
    assert "McNemar" in out
    assert "better than" in out
    for name in ("reliability.svg", "roc.svg"):
        assert (tmp_path / "patients-evaluation" / name).read_text("utf-8").rstrip().endswith("</svg>")
    page = (tmp_path / "page.html").read_text("utf-8")
    assert page.count("<svg") == 2
    assert accuracy.split("  ")[-1] in page
    assert "http" not in page.replace("http://www.w3.org", "").replace("http://purl.org", "").replace(
        "http://creativecommons.org", ""
    )

    more = ("--model", "fan-per-class", "--model", "nb", "--out", "here", "--json", "--jobs", "1")
    found = json.loads(run("evaluate", folder / "patients.csv", *options[:-2], *more, cwd=tmp_path)[0])
    assert list(found["models"]) == ["NB", "FM", "FAN", "FAN CV", "FAN per class"]
    assert len(found["differences"]) == 10 * 4
    assert found["files"] == ["here/reliability.svg", "here/roc.svg"]
    assert f"{found['models']['NB']['accuracy']['value']:.4f}" in accuracy
    assert not list(tmp_path.rglob(".*"))


def test_evaluate_refuses(folder, tmp_path):
    shutil.copy(folder / "patients.csv", tmp_path / "p.csv")
    (tmp_path / "few.csv").write_text("a,class\n1,x\n2,y\n3,x\n")
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "roc.svg").hardlink_to(tmp_path / "p.csv")
    for arguments, says in [
        (("p.csv", "-t", "nope"), "no column 'nope'"),
        (("few.csv", "-t", "class"), "3 labelled rows"),
        (("p.csv", "-t", "outcome", "--folds", "1"), "--folds"),
        (("p.csv", "-t", "outcome", "--out", "few.csv"), "folder"),
        (("p.csv", "-t", "outcome", "--html", "no/page.html"), "there is no folder no"),
        (("p.csv", "-t", "outcome", "--model", "tree"), "tree"),
        (("p.csv", "-t", "outcome", "--html", "p.csv"), "is read by this command"),
        (("p.csv", "-t", "outcome", "--out", "figures"), "is read by this command"),
    ]:
        refuse("evaluate", *arguments, cwd=tmp_path, code=2, says=says)
