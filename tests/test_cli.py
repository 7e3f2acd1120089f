"""The installed program `fanbayes`, run as a user runs it."""

import csv
import gzip
import json
import lzma
import os
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from processes import heed_signals

import fanbayes
from fanbayes import _native
from fanbayes.commands.options import names, pasted

PROGRAM = shutil.which("fanbayes", path=sysconfig.get_path("scripts")) or "fanbayes"


# Starts the installed program in forks of a process that has imported the library: what takes longest is done once.
SERVER = """
import json, os, pkgutil, runpy, sys
import fanbayes, matplotlib.figure, pandas, pyarrow.parquet, rich.console
for module in pkgutil.walk_packages(fanbayes.__path__, "fanbayes."):
    __import__(module.name)
for line in sys.stdin:
    order = json.loads(line)
    child = os.fork()
    if not child:
        for name, stream in (("out", 1), ("err", 2)):
            os.dup2(os.open(order[name], os.O_CREAT | os.O_TRUNC | os.O_WRONLY), stream)
        os.chdir(order["cwd"])
        sys.argv = order["argv"]
        try:
            runpy.run_path(sys.argv[0], run_name="__main__")
        except SystemExit as end:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(end.code)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.fixture(scope="module", autouse=True)
def server(tmp_path_factory):
    """What `run` sends its orders to; where there is no fork, the program is started anew each time."""
    if not hasattr(os, "fork"):
        yield None
        return
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    files = tmp_path_factory.mktemp("server")
    with subprocess.Popen(
        [sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        run.server = process, files
        yield process
        process.stdin.close()
    run.server = None


def run(*arguments, cwd, code=0, fresh=False, env=None):
    """Run the program; return what it wrote to stdout and stderr."""
    argv = [PROGRAM, *map(str, arguments)]
    if fresh or run.server is None:
        done = subprocess.run(argv, cwd=cwd, env=env, capture_output=True, timeout=120)
        found, out, err = done.returncode, done.stdout.decode(), done.stderr.decode()
    else:
        process, files = run.server
        paths = {name: str(files / name) for name in ("out", "err")}
        process.stdin.write(json.dumps({"argv": argv, "cwd": str(cwd), **paths}) + "\n")
        process.stdin.flush()
        found = int(process.stdout.readline())
        out, err = (Path(path).read_text("utf-8") for path in paths.values())
    assert found == code, (arguments, found, out, err)
    assert "\x1b" not in out + err
    return out, err


def refuse(*arguments, cwd, code, says, fresh=False):
    """Check that an error is one sentence that says something, and that nothing is written."""
    before = {path: path.stat().st_mtime_ns for path in Path(cwd).rglob("*")}
    out, err = run(*arguments, cwd=cwd, code=code, fresh=fresh)
    sentences = [line for line in err.splitlines() if not line.startswith("note: ")]
    assert len(sentences) == 1
    assert sentences[0].startswith("fanbayes: ")
    assert says in sentences[0]
    assert "Traceback" not in out + err
    assert {path: path.stat().st_mtime_ns for path in Path(cwd).rglob("*")} == before


def patients(n, seed):
    rng = np.random.default_rng(seed)
    ill, group = rng.random(n) < 0.35, rng.integers(0, 2, n)
    frame = pd.DataFrame(
        {
            "id": np.arange(n) + 1000,
            "age": (np.where(group == 0, 45, 65) + 9 * ill + rng.normal(0, 7, n)).round(1),
            "blood pressure": (120 + 25 * ill * (1 - 2 * group) + rng.normal(0, 9, n)).round(),
            "smoker": np.where(rng.random(n) < 0.25 + 0.4 * ill, "yes", "no"),
            "grade": rng.integers(1, 5, n) + ill,
            "outcome": np.where(ill, "ill", "well"),
        }
    )
    for name in ("age", "blood pressure", "smoker"):
        frame[name] = frame[name].where(rng.random(n) > 0.1)
    return frame


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with data, and a model that the program has learnt from it."""
    folder = tmp_path_factory.mktemp("cli")
    rows = patients(320, 0)
    rows[:240].to_csv(folder / "patients.csv", index=False)
    rows[240:].drop(columns="outcome").to_csv(folder / "new.csv", index=False)
    (folder / "costs.csv").write_text("outcome;send home;treat;refer\nwell;0;10;4\nill;50;0;4\n")
    arguments = ("--target", "outcome", "--ignore", "id", "--discrete", "grade")
    (folder / "fit.txt").write_text(
        "\0".join(run("fit", "patients.csv", *arguments, "-o", "m.fan", cwd=folder, fresh=True))
    )
    return folder


@pytest.fixture
def rows(folder):
    frame = pd.read_csv(folder / "new.csv")
    return frame[["age", "blood pressure", "smoker"]].assign(grade=frame["grade"].astype(str))


# ---------------------------------------------------------------- the program itself


def test_version_and_help_and_start_up(folder):
    out, _ = run("--version", cwd=folder, fresh=True)
    assert out.startswith(f"fanbayes {fanbayes.__version__}, native backend ")
    assert out.split()[-1] in _native.backends()
    out, _ = run("--help", cwd=folder)
    for command in ("fit", "predict", "evaluate", "explain", "show", "study", "--install-completion"):
        assert command in out
    out, err = run(cwd=folder, code=2)
    assert not out
    assert err.startswith("Usage: fanbayes")


def test_the_command_line_itself_imports_nothing_heavy():
    code = "import fanbayes, sys; before = set(sys.modules); import fanbayes.cli; print(*set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"numpy", "scipy", "sklearn", "pandas", "polars", "narwhals", "matplotlib", "rich", "jinja2", "joblib"}
    assert not heavy & {name.partition(".")[0] for name in done.stdout.split()}


def test_completion(folder):
    environment = {"_FANBAYES_COMPLETE": "complete_bash", "COMP_WORDS": "fanbayes e", "COMP_CWORD": "1", "PATH": ""}
    out, _ = run(cwd=folder, env=environment, fresh=True)
    assert out.split() == ["evaluate", "explain"]


# ---------------------------------------------------------------- fit


def test_fit_says_what_it_took_columns_for_and_what_it_tried(folder):
    out, err = (folder / "fit.txt").read_text().split("\0")
    assert not err
    lines = {line.split("  ")[0]: line for line in out.splitlines()}
    assert "continuous" in lines["age"]
    assert "every value is a number" in lines["age"]
    assert "discrete" in lines["smoker"]
    assert "is not a number" in lines["smoker"]
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
    assert "taken as continuous: 'grade' (5 values); if they are codes, use --discrete grade.\n" in err


def test_fit_and_evaluate_note_what_columns_may_be(tmp_path):
    lines = [f"{k},{'NA' if k % 8 == 0 else k / 2},{'-' if k % 2 else k},u{k // 2 * 2 + k % 4 // 3}" for k in range(60)]
    labels = ["a", "a ", "b"]
    rows = "".join(f"{line},{labels[k % 3]}\n" for k, line in enumerate(lines))
    (tmp_path / "d.csv").write_text(f",x,half,name,class\n{rows}")
    fit = ("d.csv", "-t", "class", "--ignore", "")
    out, err = run("fit", *fit, "--model", "nb", "-o", "m.fan", cwd=tmp_path)
    notes = [line for line in err.splitlines() if line.startswith("note: ")]
    assert len(notes) == 2
    assert notes[0].endswith("categories: 'NA' of 'x'; if they mean that nothing is known, use --missing NA.")
    assert notes[1].endswith("rows: 'name' (45 in 60 rows); if they are identifiers, use --ignore name.")
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
    few, constant = run(*fit, cwd=tmp_path)[1].splitlines()
    assert few.endswith("--discrete " + shlex.quote(",".join(f'"{name}"' for name in codes)) + ".")
    assert " and 3 more; " in few
    assert constant.endswith("left out: 'same'; to be rid of them, use --ignore same.")
    pasted_options = [*shlex.split(few.rpartition(", use ")[2][:-1]), "--ignore", "same"]
    assert run(*fit, *pasted_options, cwd=tmp_path)[1] == ""
    pasted_options[0] = "--continuous"  # what is said is not doubted
    assert run(*fit, *pasted_options, cwd=tmp_path)[1] == ""


def test_decimal_commas(folder, tmp_path):
    rng = np.random.default_rng(0)
    lines = [f"{x:.2f};{c}".replace(".", ",") for x, c in zip(rng.normal(size=40), "ab" * 20)]
    (tmp_path / "d.csv").write_text("\n".join(["x;class", *lines]))
    fit = ("fit", "d.csv", "-t", "class", "--model", "nb", "-o", "m.fan")
    out, err = run(*fit, cwd=tmp_path)
    assert "x       discrete" in out
    assert "numbers with a decimal comma are text, and so categories: 'x', such as '" in err
    assert err.endswith("to have numbers, use --decimal ,.\n")
    out, err = run(*fit, "--decimal", ",", cwd=tmp_path)
    assert "x       continuous" in out
    assert err == ""
    (tmp_path / "new.csv").write_text("x;y\n0,5;1\n")
    by_comma, _ = run("predict", "m.fan", "new.csv", "--decimal", ",", cwd=tmp_path)
    (tmp_path / "new.csv").write_text("x;y\n0.5;1\n")
    assert by_comma == run("predict", "m.fan", "new.csv", cwd=tmp_path)[0]
    predict = ("predict", "m.fan", "new.csv", "--decimal")
    refuse(*predict, ",", cwd=tmp_path, code=1, says="'0.5' in the continuous column 'x'")
    refuse(*predict, ";", cwd=tmp_path, code=2, says="--decimal")


def test_predict_sums_out_columns_that_are_missing(folder, rows, tmp_path):
    rows.drop(columns=["age", "smoker"]).to_csv(tmp_path / "some.csv", index=False)
    rows.assign(age=None, smoker=None).to_csv(tmp_path / "empty.csv", index=False)
    says = "'age', 'smoker'; add them, left empty where nothing is known, or use --allow-missing-columns to have them"
    refuse("predict", folder / "m.fan", "some.csv", cwd=tmp_path, code=1, says=says)
    for command in ("predict", "explain"):
        out, err = run(command, folder / "m.fan", "some.csv", "--allow-missing-columns", cwd=tmp_path)
        assert "note: columns that are not there are summed out: 'age', 'smoker'.\n" in err
        assert out == run(command, folder / "m.fan", "empty.csv", cwd=tmp_path)[0]
    (tmp_path / "none.csv").write_text("other\n1\n")
    none = ("predict", folder / "m.fan", "none.csv", "--allow-missing-columns")
    refuse(*none, cwd=tmp_path, code=1, says="lacks columns")


@given(st.lists(st.text(), min_size=1, unique=True))
def test_names_that_are_pasted_are_read_as_they_were(columns):
    assert names(shlex.split(pasted(columns))) == columns


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


def test_fit_takes_numbers_of_the_same_value_for_one_class(tmp_path):
    (tmp_path / "d.csv").write_text("a,c\n" + "1,1\n2,1.0\n3,2\n4,2\n5,01\n" * 4)
    out, _ = run("fit", "d.csv", "-t", "c", "--model", "nb", "-o", "m.fan", cwd=tmp_path)
    assert "Classes in 'c': 1 12, 2 8." in out
    out, _ = run("fit", "d.csv", "-t", "c", "--discrete", "c", "--model", "nb", "-o", "m.fan", cwd=tmp_path)
    assert "Classes in 'c': 01 4, 1 4, 1.0 4, 2 8." in out


def test_fit_names_the_options_that_help(tmp_path):
    (tmp_path / "a.csv").write_text("a,,class\n1,2,x\nq,3,y\n")
    (tmp_path / "l.csv").write_bytes("a,class\né,x\nb,y\n".encode("latin-1"))
    pd.DataFrame({"a": [[1], [2]], "b": [1, 2], "class": ["x", "y"]}).to_parquet(tmp_path / "a.parquet")
    for name, options, code, says in [
        ("a.csv", (), 1, "name it or use --ignore ''"),
        ("a.csv", ("--ignore", "", "--continuous", "a"), 1, "correct it, or use --missing or --discrete."),
        ("l.csv", (), 1, "with --encoding cp1252"),
        ("l.csv", ("--encoding", "none"), 1, "there is no encoding 'none': --encoding utf-8 or"),
        ("a.parquet", (), 1, "column 'a' of a.parquet holds ndarray values (row 1): use --ignore, or convert it"),
    ]:
        refuse("fit", name, "-t", "class", *options, "-o", "m.fan", cwd=tmp_path, code=code, says=says)


def test_names_that_read_like_a_remedy_stay_as_they_are(tmp_path):
    name = "rename or ignore them"
    (tmp_path / "a.csv").write_text(f"{name},{name},class\n1,2,x\n3,4,y\n")
    says = f"a.csv has 2 columns '{name}': rename them or use --ignore ("
    refuse("fit", "a.csv", "-t", "class", "-o", "m.fan", cwd=tmp_path, code=1, says=says)


def test_show_finds_the_chosen_size_among_fits_of_equal_likelihood():
    rng = np.random.default_rng(0)
    h = rng.integers(3, size=300)
    X = np.column_stack([h + 0.2 * rng.normal(size=300), (7 * h) % 3 + 0.2 * rng.normal(size=300)])
    clf = fanbayes.FANClassifier(random_state=0, max_components=4).fit(X, (h == 1).astype(int))
    chosen = list(clf.selection_["n_components"]).index(clf.n_components_)
    assert chosen > 0
    clf.selection_["log_likelihood"] = [clf.log_likelihood_] * len(clf.selection_["n_components"])
    assert clf.describe()["scores"]["icl"] == clf.selection_["icl"][chosen]


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
        ((*fit, "-t", "outcome", "--model", "svm"), "svm"),
        ((*fit, "-t", "outcome", "--components", "0"), "--components"),
        ((*fit, "-t", "outcome", "--model", "nb", "--components", "2"), "NB has no components"),
        ((*fit, "-t", "outcome", "--model", "nb", "--criterion", "bic"), "leave out --criterion"),
        ((*fit, "-t", "outcome", "--model", "fan-cv", "--criterion", "icl"), "leave out --criterion"),
        ((*fit, "-t", "outcome", "--model", "fan-cv", "--components", "2"), "leave out --components"),
        ((*fit, "-t", "outcome", "--effort", "fast"), "choose --model fan-cv"),
        (("fit", "p.csv", "-t", "outcome", "-o", "no/m.fan"), "there is no folder no"),
        (("fit", "p.csv", "-t", "outcome", "-o", "."), "not a file"),
        (("fit", "p.csv", "-t", "outcome", "-o", "../" + tmp_path.name + "/p.csv"), "is read by this command"),
    ]:
        refuse(*arguments, cwd=tmp_path, code=2, says=says, fresh=says == "--target")


def test_the_average_goes_through_all_commands(folder, tmp_path):
    for name in ("patients.csv", "new.csv"):
        shutil.copy(folder / name, tmp_path)
    arguments = (
        "-t",
        "outcome",
        "--ignore",
        "id",
        "--model",
        "fan-cv",
        "--effort",
        "fast",
        "-o",
        "m.fan",
        "--jobs",
        "1",
    )
    out, _ = run("fit", "patients.csv", *arguments, cwd=tmp_path)
    members = out.split("weight\n")[1].split("\n\n")[0].splitlines()
    assert sum(float(line.split()[-1]) for line in members) == pytest.approx(1, abs=0.01)
    model = fanbayes.load(tmp_path / "m.fan")
    assert (model.effort, len(model.members_)) == ("fast", len(members))
    rows = pd.read_csv(tmp_path / "new.csv")
    wanted = model.predict_proba(rows.drop(columns="id"))
    run("predict", "m.fan", "new.csv", "-o", "p.csv", cwd=tmp_path)
    found = pd.read_csv(tmp_path / "p.csv")
    np.testing.assert_allclose(found["p(ill)"], wanted[:, 0], atol=1e-6)
    assert all(line in run("show", "m.fan", cwd=tmp_path)[0] for line in members)
    percent = f"ill {100 * wanted[0, 0]:.1f} %"
    assert percent in run("explain", "m.fan", "new.csv", "--row", "1", cwd=tmp_path)[0]


BAD_FILES = {
    "empty.csv": (b"", "is empty"),
    "header.csv": (b"a,class\n", "no rows"),
    "one.csv": (b"a,class\n1,x\n2,x\n", "two classes"),
    "twice.csv": (b"a,a,class\n1,2,x\n2,3,y\n", "2 columns 'a'"),
    "ragged.csv": (b"a,class\n1,x\n2\n", "line 3"),
    "latin.csv": ("a,class\né,x\nb,y\n".encode("latin-1"), "encoding"),
    "quote.csv": (b'a,class\n"1,x\n2,y\n', "quote"),
    "cut.csv.gz": (gzip.compress(b"a,class\n1,x\n2,y\n" * 50)[:-20], "cannot read"),
    "number.arff": (b"@relation r\n@attribute a numeric\n@attribute class {x,y}\n@data\nq,x\n1,y\n", "'q'"),
    "no.parquet": (b"PAR1 nothing", "Parquet"),
    "what.xyz": (b"a,class\n1,x\n", "format"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_bad_files(name, tmp_path):
    content, says = BAD_FILES[name]
    (tmp_path / name).write_bytes(content)
    code = 2 if name == "one.csv" else 1  # another target might do
    refuse("fit", name, "-t", "class", "-o", "m.fan", cwd=tmp_path, code=code, says=says)


def test_debug_shows_where(folder):
    _, err = run("fit", "patients.csv", "-t", "nope", "-o", "x.fan", "--debug", cwd=folder, code=1)
    assert "Traceback" in err
    assert "rows.py" in err


# ---------------------------------------------------------------- predict


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


# ---------------------------------------------------------------- explain and show


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
    assert "has 80 rows, of which the first 5 are shown" in err

    out, _ = run("explain", model, new, "--class", "ill", "--against", "well", "--json", cwd=tmp_path)
    records = json.loads(out)
    proba = clf.predict_proba(rows)
    assert len(records) == 80
    for record, p in zip(records, proba):
        contributions = [term["contribution"] for term in record["contributions"]]
        assert record["prior"] + sum(contributions) == pytest.approx(record["log_odds"], abs=1e-9)
        assert record["log_odds"] == pytest.approx(np.log(p[0] / p[1]), abs=1e-9)

    refuse("explain", model, new, "--class", "ill", cwd=tmp_path, code=2, says="give both or neither")
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
    explain(folder / "m.fan", folder / "new.csv", top=15)
    first = capsys.readouterr().out
    explain(folder / "m.fan", folder / "new.csv", row=[5, 2], top=15)
    again = capsys.readouterr().out
    explain(folder / "m.fan", folder / "new.csv", json=True)
    assert seen == [5, 2, len(rows)]
    for number in (2, 5):
        said = f"Row {number}: " + again.split(f"Row {number}: ")[1].split("Row ")[0].rstrip()
        assert said in first


def test_explain_writes_ascii_where_it_must(folder):
    environment = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    out, _ = run("explain", "m.fan", "new.csv", "--row", "1", cwd=folder, env=environment, fresh=True)
    assert out.isascii()
    assert "|#" in out


def test_show(folder):
    out, _ = run("show", "m.fan", cwd=folder, fresh=True)
    about = json.loads(run("show", "m.fan", "--json", cwd=folder)[0])
    clf = fanbayes.load(folder / "m.fan")
    assert about["n_components"] == clf.n_components_
    assert sum(cell["share"] for cell in about["components"]) == pytest.approx(1)
    assert len(about["components"]) == 2 * clf.n_components_
    information = [feature["information"] for feature in about["features"]]
    assert information == sorted(information, reverse=True)
    features = out[out.index("Features") :].splitlines()[2:]
    assert [line.split("  ")[0] for line in features if line] == [f["feature"] for f in about["features"]]
    for text in ("FANClassifier", "4 features (2 discrete, 2 continuous)", f"{clf.class_prior_[0]:.4f}", "h0"):
        assert text in out


def test_components_of_a_class_are_named_as_such(folder, tmp_path):
    data = pd.read_csv(folder / "patients.csv").drop(columns="id")
    sizes, pair = {"ill": 2, "well": 3}, ("--class", "well", "--against", "ill")
    codes = ["smoker", "grade"]
    clf = fanbayes.FANClassifier(sizes, mixing="per_class", categorical_features=codes, random_state=0)
    fanbayes.save(clf.fit(data.drop(columns="outcome"), data["outcome"]), tmp_path / "m.fan")
    out, _ = run("show", "m.fan", cwd=tmp_path)
    shown = out[out.index("Components") : out.index("Features")].split()
    assert [word for word in shown if "/" in word] == ["ill/h0", "ill/h1", "well/h0", "well/h1", "well/h2"]
    assert "h0" not in shown
    assert json.loads(run("show", "m.fan", "--json", cwd=tmp_path)[0])["common_components"] is False
    out, _ = run("explain", "m.fan", folder / "new.csv", *pair, cwd=tmp_path)
    assert "Most responsible: component well/h" in out


# ---------------------------------------------------------------- evaluate


def test_evaluate(folder, tmp_path):
    options = ("-t", "outcome", "--ignore", "id", "--folds", "4", "--html", "page.html")
    out, _ = run("evaluate", folder / "patients.csv", *options, cwd=tmp_path, fresh=True)
    head = next(line for line in out.splitlines() if line.split() == ["NB", "FM", "FAN"])
    accuracy = next(line for line in out.splitlines() if line.startswith("accuracy "))
    assert head
    assert accuracy.count("±") == 3
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
    assert list(found["models"]) == ["NB", "FM", "FAN", "FAN per class"]
    assert len(found["differences"]) == 6 * 4
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
        (("p.csv", "-t", "outcome", "--effort", "fast"), "add --model fan-cv"),
        (("p.csv", "-t", "outcome", "--html", "p.csv"), "is read by this command"),
        (("p.csv", "-t", "outcome", "--out", "figures"), "is read by this command"),
    ]:
        refuse("evaluate", *arguments, cwd=tmp_path, code=2, says=says)


# ---------------------------------------------------------------- stopped by a signal


# Runs the program, and sends a signal from inside it when a function is called.
INTERRUPTED = """
import importlib, signal, sys
from fanbayes.cli import main
module, name, number = sys.argv.pop(1).split(":")
number = signal.Signals[number]
module = importlib.import_module(module)
real = getattr(module, name)
def interrupted(*arguments, **options):
    signal.raise_signal(number)
    return real(*arguments, **options)
setattr(module, name, interrupted)
main()
"""


def whole_or_old(path):
    """Check that a file is what was there before, or a complete model; tell whether it is the old one."""
    old = path.read_bytes() == b"what was there before"
    assert old or fanbayes.load(path).classes_.tolist() == ["ill", "well"]
    return old


@pytest.mark.parametrize(
    "moment",
    [
        "fanbayes.commands.rows:read_labelled:SIGINT",
        "fanbayes.estimators.base:select:SIGTERM",
        "fanbayes.learning.selection:initial_state:SIGHUP",
        "fanbayes.learning.selection:score:SIGINT",
        "os:replace:SIGINT",
        "os:replace:SIGTERM",
    ],
)
def test_a_signal_leaves_the_old_file(folder, tmp_path, moment):
    out = tmp_path / "m.fan"
    out.write_bytes(b"what was there before")
    arguments = ["fit", str(folder / "patients.csv"), "-t", "outcome", "-o", str(out), "--jobs", "1"]
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, moment, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        preexec_fn=heed_signals,
    )
    number = signal.Signals[moment.rpartition(":")[2]]
    assert (done.returncode, done.stderr.splitlines()[-1]) == (128 + number, "fanbayes: stopped.")
    assert "Traceback" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["m.fan"]
    assert whole_or_old(out)


@pytest.mark.parametrize("seconds", [0.1, 0.3, 0.6, 1.0])
def test_an_interrupt_at_any_time_leaves_no_partial_file(folder, tmp_path, seconds):
    out = tmp_path / "m.fan"
    out.write_bytes(b"what was there before")
    command = [PROGRAM, "fit", str(folder / "patients.csv"), "-t", "outcome", "-o", str(out), "--jobs", "1"]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, **streams, preexec_fn=heed_signals) as process:
        time.sleep(seconds)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert [path.name for path in tmp_path.iterdir()] == ["m.fan"]
    assert not (whole_or_old(out) and process.returncode == 0)


@pytest.mark.parametrize("error", ["MemoryError", "RuntimeError('Unknown error: Wrapping xxx failed')"])
def test_too_little_memory_names_the_files(tmp_path, error):
    """Python's error has no text, NumPy's a number of bytes, Arrow's the value that it had no room for."""
    data = tmp_path / "rows.csv"
    data.write_text("x,class\n1,a\n2,b\n")
    program = (
        "from fanbayes import cli\n"
        "from fanbayes.commands import rows\n"
        f"def fail(*arguments, **options): raise {error}\n"
        "rows.read_labelled = fail\n"
        "cli.main()\n"
    )
    arguments = ["fit", str(data), "--target", "class", "-o", str(tmp_path / "m.fan")]
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    sentence = f"there is not enough memory for {data}: give fewer rows or columns at a time."
    assert done.stderr == f"fanbayes: {sentence}\n"
