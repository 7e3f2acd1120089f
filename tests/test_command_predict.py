"""`fanbayes predict`: probabilities, decisions by cost, other class balances."""

import csv
import json
import shutil

import numpy as np
import pandas as pd
import pytest
from program import refuse, run

import fanbayes

pytestmark = pytest.mark.usefixtures("server")


def read(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_predict_writes_class_and_probabilities(folder, rows, tmp_path):
    _, err = run("predict", folder / "m.fan", folder / "new.csv", "-o", "out.csv", cwd=tmp_path, fresh=True)
    assert "does not use: id." in err
    clf = fanbayes.load(folder / "m.fan")
    found = read(tmp_path / "out.csv")
    assert list(found[0]) == ["class", "p(ill)", "p(well)"]
    assert [row["class"] for row in found] == clf.predict(rows).tolist()
    proba = [[float(row["p(ill)"]), float(row["p(well)"])] for row in found]
    np.testing.assert_allclose(proba, clf.predict_proba(rows), rtol=1e-12)

    # Columns in another order, one more, the target among them, other formats: all the same.
    frame = pd.read_csv(folder / "new.csv").assign(outcome="ill", extra=1)
    frame[frame.columns[::-1]].to_parquet(tmp_path / "new.parquet")
    out, _ = run("predict", folder / "m.fan", "new.parquet", cwd=tmp_path)
    assert out == (tmp_path / "out.csv").read_text()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_predict_decides_by_cost_and_for_another_class_balance(folder, rows, tmp_path):
    clf = fanbayes.load(folder / "m.fan")
    costs = {"ill": {"send home": 50, "treat": 0, "refer": 4}, "well": {"send home": 0, "treat": 10, "refer": 4}}
    expected = fanbayes.CostSensitiveClassifier(clf, costs=costs, prior={"ill": 0.1, "well": 0.9})
    prior = ("--prior", "ill=0.1,well=0.9")
    decision = expected.decide(rows)
    assert len(set(decision.decision)) == 3
    (tmp_path / "costs.json").write_text(json.dumps(costs))
    (tmp_path / "prior.json").write_text('{"well": 0.9, "ill": 0.1}')
    model, new = folder / "m.fan", folder / "new.csv"
    run("predict", model, new, "--costs", folder / "costs.csv", *prior, "--keep", "id", "-o", "a.csv", cwd=tmp_path)
    out, _ = run("predict", model, new, "--costs", "costs.json", "--prior", "prior.json", "--json", cwd=tmp_path)
    from_csv, from_json = read(tmp_path / "a.csv"), json.loads(out)
    assert [row["id"] for row in from_csv] == [str(k + 1240) for k in range(80)]
    for found in (from_csv, from_json):
        assert [row["decision"] for row in found] == decision.decision.tolist()
        np.testing.assert_allclose([float(row["expected_cost"]) for row in found], decision.cost, rtol=1e-12)
        proba = [[float(row["p(ill)"]), float(row["p(well)"])] for row in found]
        np.testing.assert_allclose(proba, expected.predict_proba(rows), rtol=1e-12)


def test_predict_estimates_the_class_balance(folder, rows, tmp_path):
    clf = fanbayes.load(folder / "m.fan")
    out, err = run("predict", folder / "m.fan", folder / "new.csv", "--prior", "estimate", cwd=tmp_path)
    prior = fanbayes.estimate_prior(clf.predict_proba(rows), clf.class_prior_).prior
    assert f"assuming label shift: ill {prior[0]:.3g}, well {prior[1]:.3g}." in err
    expected = fanbayes.CostSensitiveClassifier(clf, prior="estimate").predict_proba(rows)
    found = [float(row["p(ill)"]) for row in csv.DictReader(out.splitlines())]
    np.testing.assert_allclose(found, expected[:, 0], rtol=1e-9)


def test_predict_with_a_model_made_in_python(tmp_path):
    """Levels that are numbers or booleans, classes that are numbers, an array without names, unseen values."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 60)
    X = pd.DataFrame({"code": y + rng.integers(0, 2, 60), "flag": rng.random(60) < 0.5, "x": y + rng.normal(size=60)})
    clf = fanbayes.NBClassifier(categorical_features=["code", "flag"]).fit(X, y)
    fanbayes.save(clf, tmp_path / "m.fan")
    X.to_csv(tmp_path / "x.csv", index=False)
    out, err = run("predict", "m.fan", "x.csv", "--json", cwd=tmp_path)
    assert not err
    proba = [[row["p(0)"], row["p(1)"]] for row in json.loads(out)]
    np.testing.assert_allclose(proba, clf.predict_proba(X), rtol=1e-12)

    (tmp_path / "y.csv").write_text("x,code,flag\n0.5,7,\n")
    out, err = run("predict", "m.fan", "y.csv", "--json", cwd=tmp_path)
    assert "count as missing: 'code' in 1 of 1 rows (100 %), such as '7'.\n" in err
    alone = pd.DataFrame({"code": [None], "flag": [None], "x": [0.5]})
    np.testing.assert_allclose(json.loads(out)[0]["p(1)"], clf.predict_proba(alone)[0, 1], rtol=1e-12)

    array = X[["x", "code"]].to_numpy()
    unnamed = fanbayes.NBClassifier(categorical_features=[1]).fit(array, y)
    fanbayes.save(unnamed, tmp_path / "u.fan")
    pd.DataFrame(array, columns=["x0", "x1"]).to_csv(tmp_path / "u.csv", index=False)
    out, err = run("predict", "u.fan", "u.csv", "--json", cwd=tmp_path)
    assert not err
    np.testing.assert_allclose([r["p(1)"] for r in json.loads(out)], unnamed.predict_proba(array)[:, 1], rtol=1e-12)


def test_predict_refuses(folder, tmp_path):
    for name in ("m.fan", "new.csv", "patients.csv"):
        shutil.copy(folder / name, tmp_path / name)
    data = (tmp_path / "m.fan").read_bytes()
    (tmp_path / "cut.fan").write_bytes(data[:-5])
    (tmp_path / "bent.fan").write_bytes(data[:-5] + b"\0\0\0\0\0")
    (tmp_path / "few.csv").write_text("smoker,x\nyes,1\n")
    (tmp_path / "words.csv").write_text("smoker,grade,age,blood pressure\nyes,1,old,high\n")
    (tmp_path / "costs.csv").write_text(",a,b\nill,1,2\n")
    (tmp_path / "text.csv").write_text(",a,b\nill,1,2\nwell,x,0\n")
    (tmp_path / "bad.json").write_text('{"ill": ')
    (tmp_path / "flat.json").write_text('{"ill": 1}')
    (tmp_path / "twice.json").write_text('{"ill": 0.5, "well": 0.5, "ill": 0.5}')
    (tmp_path / "clash.csv").write_text("smoker,grade,age,blood pressure,class,p(ill)\nyes,1,40,120,a,b\n")
    (tmp_path / "same.csv").write_text("smoker,grade,age,age,blood pressure\nyes,1,40,40,120\n")
    (tmp_path / "ragged.csv").write_text(",a,b\nill,1\nwell,2,3\n")
    predict = ("predict", "m.fan", "new.csv")
    for arguments, code, says in [
        (("predict", "none.fan", "new.csv"), 2, "none.fan"),
        (("predict", "patients.csv", "new.csv"), 1, "no fanbayes model"),
        (("predict", "cut.fan", "new.csv"), 1, "truncated"),
        (("predict", "bent.fan", "new.csv"), 1, "altered"),
        (("predict", "m.fan", "few.csv"), 1, "'age', 'blood pressure', 'grade'"),
        (("predict", "m.fan", "words.csv"), 1, "'old' in the continuous column 'age'"),
        ((*predict, "--keep", "name"), 2, "no column 'name' to keep"),
        ((*predict, "--costs", "costs.csv"), 2, "one row for the class 'well'"),
        ((*predict, "--costs", "text.csv"), 2, "'x' is not a number"),
        ((*predict, "--costs", "bad.json"), 2, "not valid JSON"),
        ((*predict, "--costs", "flat.json"), 2, "true class"),
        ((*predict, "--costs", "ragged.csv"), 2, "has 1 costs, not 2"),
        ((*predict, "--prior", "ill=0.5"), 2, "lacks the class 'well'"),
        ((*predict, "--prior", "ill=0.5,well=0.9"), 2, "summing to one"),
        ((*predict, "--prior", "half"), 2, "neither"),
        ((*predict, "--prior", "none.json"), 2, "none.json"),
        ((*predict, "-o", "no/out.csv"), 2, "there is no folder no"),
        ((*predict, "-o", "m.fan"), 2, "is read by this command"),
        ((*predict, "-o", "new.csv"), 2, "is read by this command"),
        ((*predict, "--costs", "flat.json", "-o", "flat.json"), 2, "is read by this command"),
        ((*predict, "--prior", "flat.json", "-o", "flat.json"), 2, "is read by this command"),
        ((*predict, "--prior", "ill=0.5,well=0.25,well=0.25"), 2, "'well' is named twice"),
        ((*predict, "--prior", "twice.json"), 2, "'ill' is named twice"),
        (("predict", "m.fan", "clash.csv", "--keep", "class"), 2, "--keep class"),
        (("predict", "m.fan", "clash.csv", "--keep", "p(ill)"), 2, "--keep p(ill)"),
        (("predict", "m.fan", "words.csv"), 1, "correct it, or use --missing."),
        (("predict", "m.fan", "same.csv"), 1, "2 columns 'age': rename them ("),
    ]:
        refuse(*arguments, cwd=tmp_path, code=code, says=says, fresh=says in ("none.fan", "truncated"))


def test_words_for_missing_are_kept_with_the_model(folder, tmp_path):
    frame = pd.read_csv(folder / "patients.csv")
    frame.to_csv(tmp_path / "words.csv", index=False, na_rep="not asked")
    for name, words in (("words", ["--missing", "not asked"]), ("patients", [])):
        path = tmp_path / f"{name}.csv" if words else folder / "patients.csv"
        run("fit", path, "-t", "outcome", "--model", "nb", *words, "-o", f"{name}.fan", cwd=tmp_path)
    expected, _ = run("predict", "patients.fan", folder / "patients.csv", cwd=tmp_path)
    assert run("predict", "words.fan", "words.csv", cwd=tmp_path)[0] == expected
    refuse("predict", "patients.fan", "words.csv", cwd=tmp_path, code=1, says="'not asked' in the continuous column")
    run("explain", "words.fan", "words.csv", cwd=tmp_path)
    run("evaluate", "words.fan", "words.csv", "-t", "outcome", cwd=tmp_path)
    assert run("predict", "words.fan", folder / "patients.csv", cwd=tmp_path)[0] == expected


def test_costs_and_priors_are_refused_before_rows_are_read(folder, tmp_path):
    (tmp_path / "costs.csv").write_text(",a,b\nill,1,2\n")
    (tmp_path / "damaged.csv").write_text("a,b\n1\n")
    predict = ("predict", folder / "m.fan", "damaged.csv")
    refuse(*predict, "--costs", "costs.csv", cwd=tmp_path, code=2, says="--costs: ")
    refuse(*predict, "--prior", "ill=0.5,dead=0.5", cwd=tmp_path, code=2, says="--prior: ")
