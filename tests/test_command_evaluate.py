"""`fanbayes evaluate`: tables, figures and a page, of a table by cross-validation, and of a model on a test file."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest
from program import patients, refuse, run
from sklearn.metrics import confusion_matrix

from fanbayes import load, metrics
from fanbayes.commands.output import side_by_side

pytestmark = pytest.mark.usefixtures("server")


FAST = ("-t", "outcome", "--ignore", "id", "--folds", "3", "--effort", "fast")


@pytest.fixture(scope="module")
def test_rows(tmp_path_factory):
    """Labelled rows that the model of `folder` has not seen; one has no label, one a class of its own."""
    path = tmp_path_factory.mktemp("test") / "test.csv"
    rows = patients(320, 0)[240:].reset_index(drop=True)
    rows.loc[0, "outcome"] = None
    rows.loc[1, "outcome"] = "unclear"
    rows.to_csv(path, index=False)
    return path


def test_cross_validation(folder, tmp_path):
    out, _ = run("evaluate", folder / "patients.csv", *FAST, "--html", "page.html", cwd=tmp_path, fresh=True)
    head = next(line for line in out.splitlines() if line.split() == ["NB", "FM", "FAN", "FAN", "CV"])
    accuracy = next(line for line in out.splitlines() if line.startswith("accuracy "))
    assert len(head) <= 80
    assert accuracy.count("±") == 4
    assert next(line for line in out.splitlines() if line.startswith("components ")).endswith(" -")
    assert "McNemar" in out
    assert "better than" in out
    assert "more pairs are not distinguishable" in out
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]  # nothing else was asked for
    page = (tmp_path / "page.html").read_text("utf-8")
    assert page.count("<svg") == 2
    assert accuracy.split("  ")[-1] in page
    assert "http" not in page.replace("http://www.w3.org", "").replace("http://purl.org", "").replace(
        "http://creativecommons.org", ""
    )

    more = ("--model", "fan-per-class", "--model", "nb", "--out", "here", "--json", "--jobs", "1")
    found = json.loads(run("evaluate", folder / "patients.csv", *FAST, *more, cwd=tmp_path)[0])
    assert list(found["models"]) == ["NB", "FM", "FAN", "FAN CV", "FAN per class"]
    assert len(found["differences"]) == 10 * 4
    assert all(d["significant"] == (d["p_value"] < 0.05) for d in found["differences"])
    assert found["files"] == ["here/reliability.svg", "here/roc.svg"]
    for name in found["files"]:
        assert (tmp_path / name).read_text("utf-8").rstrip().endswith("</svg>")
    assert f"{found['models']['NB']['accuracy']['value']:.4f}" in accuracy
    shares = found["class_shares"]["accuracy"]["value"]
    assert shares == pytest.approx((pd.read_csv(folder / "patients.csv")["outcome"] == "well").mean())
    assert f"Class shares alone, whatever the row: accuracy {shares:.4f}, CE" in out
    assert not list(tmp_path.rglob(".*"))


def test_a_model_on_a_test_file(folder, test_rows, tmp_path):
    out, err = run("evaluate", folder / "m.fan", test_rows, "-t", "outcome", cwd=tmp_path)
    found = json.loads(run("evaluate", folder / "m.fan", test_rows, "-t", "outcome", "--json", cwd=tmp_path)[0])
    assert not list(tmp_path.iterdir())
    assert "1 rows of" in err
    assert "does not know, and never predicts: unclear" in err
    assert max(len(line) for line in out.splitlines() if line.count("  ") > 1) <= 80  # of the tables

    clf = load(folder / "m.fan")
    rows = pd.read_csv(test_rows)[1:]
    X = rows[clf.feature_names_in_].assign(grade=rows["grade"].astype(str))
    y, predicted = rows["outcome"], clf.predict(X)
    matrix = confusion_matrix(y, predicted, labels=["ill", "well", "unclear"])
    assert found["report"]["confusion"] == matrix.tolist()
    lines = [line.split() for line in out.splitlines()]
    at = lines.index(["true", "\\", "predicted", "ill", "well", "unclear"])
    assert [line[1:] for line in lines[at + 1 : at + 4]] == matrix.astype(str).tolist()
    own, shares = found["models"]["m.fan"], found["models"]["class shares"]
    assert own["accuracy"]["value"] == pytest.approx(np.mean(y == predicted))
    log_proba = np.tile(np.log(clf.class_prior_), (len(y), 1))
    assert shares["brier"]["value"] == pytest.approx(metrics.brier_score(y, log_proba, classes=clf.classes_))
    assert {frozenset((d["better"], d["worse"])) for d in found["differences"]} == {
        frozenset(("m.fan", "class shares"))
    }
    words = {True: "better than", False: "not distinguishable from"}
    said = [f"{d['better']} {words[d['significant']]} {d['worse']}" for d in found["differences"]]
    assert all(sentence in out for sentence in said)
    assert {d["significant"] for d in found["differences"]} == {True, False}


def test_others_learn_from_the_training_table(folder, test_rows, tmp_path):
    options = ("-t", "outcome", "--against", "logistic", "--jobs", "1", "--json")
    arguments = (folder / "m.fan", test_rows, *options, "--train", folder / "patients.csv")
    found = json.loads(run("evaluate", *arguments, cwd=tmp_path)[0])
    assert list(found["models"]) == ["m.fan", "Logistic", "class shares"]
    pairs = {frozenset((d["better"], d["worse"])) for d in found["differences"]}
    assert pairs == {frozenset(("m.fan", other)) for other in ("Logistic", "class shares")}
    assert found["models"]["Logistic"]["roc_area"]["value"] > 0.7


def test_wide_tables_are_cut_between_columns():
    headers, rows = ["", *(f"model {k}" for k in range(7))], [["accuracy", *["0.1234 ± 0.0123"] * 7]]
    parts = list(side_by_side(headers, rows, 80))
    assert [len(head) for head, _ in parts] == [5, 4]
    assert parts[1][0] == ["", "model 4", "model 5", "model 6"]
    for head, body in parts:
        assert sum(2 + max(map(len, column)) for column in zip(head, *body)) - 2 <= 80
    assert [len(head) for head, _ in side_by_side(headers, rows, 10)] == [2] * 7


def test_evaluate_refuses(folder, tmp_path):
    shutil.copy(folder / "patients.csv", tmp_path / "p.csv")
    (tmp_path / "few.csv").write_text("a,class\n1,x\n2,y\n3,x\n")
    pd.read_csv(tmp_path / "p.csv").assign(outcome=None).to_csv(tmp_path / "unlabelled.csv", index=False)
    model = folder / "m.fan"
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
        (("p.csv", "-t", "outcome", "--against", "xgb"), "--against xgb: there are hgb, logistic, forest"),
        (("p.csv", "-t", "outcome", "--train", "p.csv"), "--train has no meaning here: p.csv is a table"),
        (("p.csv", model, "-t", "outcome"), "p.csv is no model to test on"),
        ((model, "-t", "outcome"), "name the table to test it on as well"),
        ((model, "p.csv", "-t", "outcome", "--folds", "3"), "--folds has no meaning here"),
        ((model, "p.csv", "-t", "outcome", "--against", "hgb"), "give --train the table"),
        ((model, "p.csv", "-t", "outcome", "--train", "p.csv"), "--train is what --against learns from"),
        ((model, "p.csv", "-t", "age"), "the model uses this column as a feature"),
        ((model, "p.csv", "-t", "outcom"), "did you mean 'outcome'?"),
        ((model, "unlabelled.csv", "-t", "outcome"), "two at least are needed"),
    ]:
        refuse("evaluate", *arguments, cwd=tmp_path, code=2, says=says)


def test_several_models_by_name(folder, tmp_path):
    evaluate = ("evaluate", folder / "patients.csv", "-t", "outcome", "--ignore", "id", "--folds", "2", "--json")
    out, _ = run(*evaluate, "--model", "tan, aode", "--model", "tan", cwd=tmp_path)
    assert [*json.loads(out)["models"]][4:] == ["TAN", "AODE"]
    refuse(*evaluate, "--model", "tan,svm", cwd=tmp_path, code=2, says="--model 'svm': there are fan, fm, nb,")


def test_whether_a_value_is_missing_may_count(tmp_path):
    rng = np.random.default_rng(0)
    ill = rng.random(120) < 0.5
    x = np.where(ill & (rng.random(120) < 0.9), "", rng.normal(size=120).round(3).astype(str))
    pd.DataFrame({"x": x, "z": rng.normal(size=120), "y": np.where(ill, "ill", "well")}).to_csv(
        tmp_path / "holes.csv", index=False
    )
    asked = ("evaluate", "holes.csv", "-t", "y", "--folds", "3", "--effort", "fast", "--model", "mda")
    found = {}
    for extra in ((), ("--informative-missing",)):
        out = json.loads(run(*asked, *extra, "--json", cwd=tmp_path)[0])
        found[extra] = {name: model["accuracy"]["value"] for name, model in out["models"].items()}
        assert out["informative_missing"] == bool(extra)
    for name in ("NB", "FAN", "MDA"):  # trees of FAN CV see what is missing in any case
        assert found[("--informative-missing",)][name] > 0.9 > 0.7 > found[()][name]
    text = " ".join(run(*asked, "--informative-missing", cwd=tmp_path)[0].split())
    assert "seed 0. Whether a value is missing counts as well. Class shares" in text
