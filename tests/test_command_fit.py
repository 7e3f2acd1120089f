"""`fanbayes fit`: what it takes columns for, what it tries, and what it refuses."""

import gzip
import json
import lzma
import re
import shutil

import numpy as np
import pandas as pd
import pytest
from program import refuse, run

import fanbayes
from fanbayes.estimators.progress import steps

pytestmark = pytest.mark.usefixtures("server")


def test_fit_says_what_it_took_columns_for_and_what_it_tried(folder):
    out, err = (folder / "fit.txt").read_text().split("\0")
    assert not err
    lines = {line.split("  ")[0]: line for line in out.splitlines()}
    assert "continuous" in lines["age"]
    assert "every value is" in lines["age"]
    assert "discrete" in lines["smoker"]
    assert " on line 2 is" in lines["smoker"]
    assert "declared" in lines["grade"]
    assert "id" not in lines
    clf = fanbayes.load(folder / "m.fan")
    tried = [line.split() for line in out.splitlines() if line.strip()[:1].isdigit()]
    np.testing.assert_allclose([float(words[1]) for words in tried], clf.selection_["icl"], atol=0.006)
    assert f"Chosen by ICL: {clf.n_components_} component" in out
    assert clf.n_components_ > 1
    assert clf.classes_.tolist() == ["ill", "well"]
    expected = fanbayes.FANClassifier(random_state=0).fit(*labelled(folder))
    assert expected.selection_.drop(columns="seconds").equals(clf.selection_.drop(columns="seconds"))


def test_fit_averages_models_unless_one_is_named(folder, tmp_path):
    how = ("fit", folder / "patients.csv", "-t", "outcome", "--ignore", "id", "--effort", "fast", "--discrete", "grade")
    out, _ = run(*how, "-o", "m.fan", cwd=tmp_path)
    clf = fanbayes.load(tmp_path / "m.fan")
    assert isinstance(clf, fanbayes.FANClassifierCV)
    assert "No model is named, so this is fan-cv, an average. For one to look into: --model fan.\n" in out
    assert re.search(r"^Learnt in [\d.]+ s\. Model: m\.fan\.", out, re.MULTILINE)
    assert ("Kernel densities hold rows" in out) == ("kernel" in set(clf.members_["model"]))
    named, _ = run(*how, "--model", "fan-cv", "--no-kernel-members", "-o", "named.fan", cwd=tmp_path)
    assert "No model is named" not in named
    assert fanbayes.load(tmp_path / "named.fan").kernel_members is False
    found = json.loads(run(*how, "--json", "-o", "m.fan", cwd=tmp_path)[0])
    assert (found["model"], len(found["members"])) == ("fan-cv", len(clf.members_))
    assert found["seconds"] > 0


def test_progress_tells_the_share_done_and_the_time_left_within_80_columns(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    with steps(True, 4) as report:
        report("networks (normal_scores)", 1)
        report("kernel densities", 1)
    shown = [re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", line) for line in re.split(r"[\r\n]+", capsys.readouterr().err)]
    bars = [line for line in shown if "%" in line]
    assert bars
    assert all(len(line) <= 80 and line.rstrip().endswith("left") for line in bars)
    assert "100% 0:00:00 left" in bars[-1]


def labelled(folder):
    frame = pd.read_csv(folder / "patients.csv")
    return frame[["age", "blood pressure", "smoker"]].assign(grade=frame["grade"].astype(str)), frame["outcome"]


def test_fit_reads_every_format_alike(folder, tmp_path):
    text = (folder / "patients.csv").read_bytes()
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(text))
    (tmp_path / "a.csv.xz").write_bytes(lzma.compress(text))
    (tmp_path / "bom.csv").write_bytes(b"\xef\xbb\xbf" + text.replace(b",", b";").replace(b"\n", b"\r\n"))
    frame = pd.read_csv(folder / "patients.csv")
    frame.to_parquet(tmp_path / "a.parquet")
    kinds = {"smoker": "{yes, no}", "outcome": "{well, ill}", "grade": "{1, 2, 3, 4, 5}"}
    head = "@relation p\n" + "".join(f"@attribute '{n}' {kinds.get(n, 'numeric')}\n" for n in frame.columns)
    body = frame.to_csv(index=False, header=False, na_rep="?")
    (tmp_path / "a.arff").write_text(f"{head}@data\n{body}")
    found = []
    for name in ("a.csv.gz", "a.csv.xz", "bom.csv", "a.parquet", "a.arff"):
        options = ("-t", "outcome", "--ignore", "id", "--discrete", "grade", "--model", "nb", "--json")
        out, _ = run("fit", name, *options, "-o", "m.fan", cwd=tmp_path)
        found.append(json.loads(out))
        assert [column["kind"] for column in found[-1]["columns"]] == [
            "continuous",
            "continuous",
            "discrete",
            "discrete",
        ]
    scores = [summary["candidates"][0]["bic"] for summary in found]
    np.testing.assert_allclose(scores, scores[0], rtol=1e-9)


def test_fit_options(folder, tmp_path):
    out, err = run(
        *("fit", folder / "patients.csv", "-t", "outcome", "-o", "m.fan", "--model", "fm", "--components", "3"),
        *("--discretize", "--continuous", "age", "--seed", "7", "--jobs", "1", "--criterion", "bic"),
        cwd=tmp_path,
    )
    clf = fanbayes.load(tmp_path / "m.fan")
    assert isinstance(clf, fanbayes.FMClassifier)
    assert (clf.n_components_, clf.discretize, clf.criterion, clf.random_state, clf.n_jobs) == (3, "mdlp", "bic", 7, 1)
    assert "FM with 3 components, as asked for." in out
    assert "Intervals of the continuous columns: id " in out
    assert "taken as continuous: 'grade' (5 values); if they are codes, use\n  --discrete grade\n" in err


def test_fit_chooses_among_as_many_components_as_it_may(folder, tmp_path):
    run(
        "fit",
        folder / "patients.csv",
        "-t",
        "outcome",
        "--model",
        "fan",
        "--max-components",
        "2",
        "-o",
        "m.fan",
        cwd=tmp_path,
    )
    assert fanbayes.load(tmp_path / "m.fan").selection_["n_components"].tolist() == [1, 2]


def test_fit_refuses_the_target_of_a_regression(tmp_path):
    numbers = "".join(f"{k},{36 + k // 2 / 10}{'0' * (k % 2)}\n" for k in range(68))
    (tmp_path / "d.csv").write_text(f"a,body temp\n{numbers}")
    fit = ("fit", "d.csv", "-t", "body temp", "--model", "nb", "-o", "m.fan")
    refuse(*fit, cwd=tmp_path, code=2, says="column 'body temp' of d.csv holds 34 different numbers, not all whole")
    refuse(*fit, cwd=tmp_path, code=2, says="if they are codes, use --discrete 'body temp'.")
    out, _ = run(*fit, "--discrete", "body temp", cwd=tmp_path)
    assert "Classes in 'body temp': 36.0 1, 36.00 1," in out
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        fanbayes.NBClassifier().fit(np.arange(68)[:, None], pd.read_csv(tmp_path / "d.csv")["body temp"])


def test_fit_doubts_a_target_with_a_class_for_each_row(folder, tmp_path):
    fit = ("fit", folder / "patients.csv", "--model", "nb", "-o", "m.fan", "-t")
    doubt = "note: most rows have a class of their own, as identifiers and measurements do: is 'id' right?"
    assert doubt in run(*fit, "id", cwd=tmp_path)[1]
    assert "of their own" not in run(*fit, "outcome", cwd=tmp_path)[1]


def test_fit_takes_numbers_of_the_same_value_for_one_class(tmp_path):
    (tmp_path / "d.csv").write_text("a,c\n" + "1,1\n2,1.0\n3,2\n4,2\n5,01\n" * 4)
    out, _ = run("fit", "d.csv", "-t", "c", "--model", "nb", "-o", "m.fan", cwd=tmp_path)
    assert out.startswith("d: 20 rows, 1 feature.\n")
    assert "Classes in 'c': 1 12, 2 8." in out
    out, _ = run("fit", "d.csv", "-t", "c", "--discrete", "c", "--model", "nb", "-o", "m.fan", cwd=tmp_path)
    assert "Classes in 'c': 01 4, 1 4, 1.0 4, 2 8." in out


def test_fit_refuses(folder, tmp_path):
    shutil.copy(folder / "patients.csv", tmp_path / "p.csv")
    fit = ("fit", "p.csv", "-o", "m.fan")
    for arguments, says in [
        (("fit", "none.csv", "-t", "outcome", "-o", "m.fan"), "none.csv"),
        (fit, "--target"),
        ((*fit, "-t", "outcom"), "did you mean 'outcome'?"),
        ((*fit, "-t", "outcome", "--continuous", "smoker"), "'smoker'"),
        ((*fit, "-t", "outcome", "--discrete", "a,smoker"), "no column 'a'"),
        ((*fit, "-t", "outcome", "--ignore", "outcome"), "two roles"),
        ((*fit, "-t", "outcome", "--model", "svm"), "--model 'svm': there are fan, fm, nb,"),
        ((*fit, "-t", "outcome", "--components", "0"), "fanbayes: --components"),
        ((*fit, "-t", "outcome", "--components", "two"), "fanbayes: --components"),
        ((*fit, "-t", "outcome", "--model", "nb", "--components", "2"), "NB has no components"),
        ((*fit, "-t", "outcome", "--model", "nb", "--criterion", "bic"), "leave out --criterion"),
        ((*fit, "-t", "outcome", "--model", "fan-cv", "--criterion", "icl"), "leave out --criterion"),
        ((*fit, "-t", "outcome", "--criterion", "icl"), "or choose --model fan"),
        ((*fit, "-t", "outcome", "--components", "2"), "or choose --model fan"),
        ((*fit, "-t", "outcome", "--max-components", "2"), "or choose --model fan"),
        ((*fit, "-t", "outcome", "--model", "tan", "--max-components", "2"), "TAN has no --max-components"),
        ((*fit, "-t", "outcome", "--model", "fan", "--components", "2", "--max-components", "2"), "--max-components"),
        ((*fit, "-t", "outcome", "--discretize"), "or choose --model fan"),
        ((*fit, "-t", "outcome", "--model", "fan", "--effort", "fast"), "choose --model fan-cv"),
        ((*fit, "-t", "outcome", "--model", "fan", "--no-kernel-members"), "leave out --no-kernel-members"),
        (("fit", "p.csv", "-t", "outcome", "-o", "no/m.fan"), "there is no folder no"),
        (("fit", "p.csv", "-t", "outcome", "-o", "."), "not a file"),
        (("fit", "p.csv", "-t", "outcome", "-o", "../" + tmp_path.name + "/p.csv"), "is read by this command"),
    ]:
        refuse(*arguments, cwd=tmp_path, code=2, says=says, fresh=says == "--target")
