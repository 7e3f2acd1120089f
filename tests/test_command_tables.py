"""Tables that the commands are given as several files, folders, patterns, streams and queries; formats they write."""

import io
import json
import os
import shutil
import sqlite3
import subprocess
from contextlib import closing

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pytest
from program import PROGRAM, patients, refuse, run

import fanbayes

pytestmark = pytest.mark.usefixtures("server")

FIT = ("-t", "outcome", "--model", "fan", "--components", "2")
SMALL = ("--memory", "20KB")  # so that every table here is read in batches


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    """The same rows as three files of each format, and as one."""
    folder = tmp_path_factory.mktemp("parts")
    frame = patients(600, 1).drop(columns="id")
    frame.to_csv(folder / "all.csv", index=False)
    for kind in ("csv", "parquet", "feather", "xlsx"):
        (folder / kind).mkdir()
    for k in range(3):
        some = frame[200 * k : 200 * k + 200].reset_index(drop=True)
        some[some.columns[::-1] if k == 1 else some.columns].to_csv(folder / "csv" / f"{k}.csv", index=False)
        some.to_parquet(folder / "parquet" / f"{k}.parquet")
        pyarrow.feather.write_feather(pa.Table.from_pandas(some), str(folder / "feather" / f"{k}.feather"))
    frame.to_excel(folder / "xlsx" / "all.xlsx", index=False)
    (folder / "csv" / "_notes.txt").write_text("no table")
    run("fit", "all.csv", *FIT, "-o", "all.fan", cwd=folder)
    return folder


def probabilities(model, rows, *options, cwd):
    out, _ = run("predict", model, *rows, *options, cwd=cwd)
    return pd.read_csv(io.StringIO(out))


@pytest.mark.parametrize(
    "data",
    [["csv"], ["csv/*.csv"], ["csv/0.csv", "csv/1.csv", "csv/2.csv"], ["parquet"], ["feather/*"], ["xlsx/all.xlsx"]],
    ids=["folder", "pattern", "files", "parquet", "feather", "xlsx"],
)
@pytest.mark.parametrize("memory", [(), SMALL], ids=["memory", "batches"])
def test_several_files_are_one_table(parts, tmp_path, data, memory):
    out, _ = run("fit", *data, *FIT, *memory, "-o", tmp_path / "m.fan", cwd=parts)
    assert ("600 rows, 4 features, read in batches." in out) == (memory == SMALL and data != ["feather/*"])
    assert ("read in batches" in out) == bool(memory)
    one, several = fanbayes.load(parts / "all.fan"), fanbayes.load(tmp_path / "m.fan")
    rows = patients(50, 2).drop(columns=["id", "outcome"])
    np.testing.assert_allclose(several.predict_proba(rows), one.predict_proba(rows), atol=1e-6)
    expected = probabilities("all.fan", ["all.csv"], cwd=parts)
    pd.testing.assert_frame_equal(probabilities("all.fan", data, cwd=parts), expected, rtol=1e-12)


def test_text_in_batches_is_read_as_text_in_memory(tmp_path):
    """Missing values, a decimal comma, numbers that turn out to be text in the last line, labels that are numbers."""
    rng = np.random.default_rng(0)
    n = 1500
    frame = pd.DataFrame({"x": rng.normal(size=n).round(2), "code": rng.integers(0, 3, n), "y": rng.integers(0, 2, n)})
    lines = [f"{x};{code};{y}".replace(".", ",") for x, code, y in frame.itertuples(index=False)]
    lines[3], lines[5], lines[-1] = "NA;1;1", ";?;1,0", "0,5;none;0"
    (tmp_path / "a.csv").write_text("\n".join(["x;code;y", *lines[:700]]))
    (tmp_path / "b.csv").write_text("\n".join(["x;code;y", *lines[700:]]))
    how = ("fit", "a.csv", "b.csv", "-t", "y", "--model", "nb", "--decimal", ",", "--missing", "NA", "--json")
    found = []
    for memory in ("1GB", "10KB"):
        told = json.loads(run(*how, "--memory", memory, "-o", f"{memory}.fan", cwd=tmp_path)[0])
        clf = fanbayes.load(tmp_path / f"{memory}.fan")
        columns = [(c["column"], c["kind"], c["reason"]) for c in told["columns"]]
        found.append(
            (told["classes"], columns, clf.predict_proba(pd.DataFrame({"x": [0.5], "code": ["none"]})).tolist())
        )
    assert found[0][:2] == found[1][:2]
    assert found[0][0] == ["0", "1"]
    assert found[0][1][1] == ("code", "discrete", "'none' on line 801 of b.csv is not a number")
    np.testing.assert_allclose(found[0][2], found[1][2], rtol=1e-9)


@pytest.mark.parametrize("memory", ["1GB", "10KB"])
def test_a_query(parts, tmp_path, memory):
    frame = patients(600, 1).drop(columns="id")
    with duckdb.connect(str(tmp_path / "p.duckdb")) as connection:
        connection.execute("CREATE TABLE patients AS SELECT * FROM frame")
    with closing(sqlite3.connect(tmp_path / "p.sqlite")) as connection:
        frame.to_sql("patients", connection, index=False)
    query = ("--query", "SELECT * FROM patients")
    for name in ("p.duckdb", "p.sqlite"):
        run("fit", name, *query, *FIT, "--memory", memory, "-o", "m.fan", cwd=tmp_path)
        new = patients(50, 2).drop(columns=["id", "outcome"])
        expected = fanbayes.load(parts / "all.fan").predict_proba(new)
        np.testing.assert_allclose(fanbayes.load(tmp_path / "m.fan").predict_proba(new), expected, atol=1e-6)
        found = probabilities(parts / "all.fan", [name], *query, cwd=tmp_path)
        assert len(found) == 600
    refuse("fit", "p.duckdb", *FIT, "-o", "x.fan", cwd=tmp_path, code=2, says="--query 'SELECT * FROM")
    refuse("fit", "p.duckdb", "--query", "SELECT 1 FROM none", *FIT, "-o", "x", cwd=tmp_path, code=1, says="none")
    refuse("fit", parts / "all.csv", *query, *FIT, "-o", "x", cwd=tmp_path, code=2, says="asks one database")


def test_no_password_is_printed(folder, tmp_path):
    address = "postgresql://me:hush-hush@127.0.0.1:1/db"
    for arguments in (
        ("fit", address, "--query", "SELECT 1", *FIT, "-o", "m.fan"),
        ("fit", address, *FIT, "-o", "m.fan"),
        ("predict", folder / "m.fan", address, "--query", "SELECT 1"),
        ("show", folder / "m.fan", address),
        ("--debug", "fit", address, "--query", "SELECT 1", *FIT, "-o", "m.fan"),
    ):
        out, err = run(*arguments, cwd=tmp_path, code=2 if "--query" not in arguments else 1)
        assert "127.0.0.1" in err
        assert "hush" not in out + err


@pytest.mark.parametrize(
    ("suffix", "read"),
    [
        ("csv", pd.read_csv),
        ("tsv", lambda path: pd.read_csv(path, sep="\t")),
        ("json", lambda path: pd.DataFrame(json.loads(path.read_text()))),
        ("jsonl", lambda path: pd.read_json(path, lines=True)),
        ("parquet", pd.read_parquet),
        ("arrow", pd.read_feather),
        ("xlsx", pd.read_excel),
    ],
)
def test_the_name_of_the_output_tells_its_format(parts, tmp_path, suffix, read):
    options = ("--keep", "smoker,age", "-o", tmp_path / f"out.{suffix}")
    run("predict", "all.fan", "parquet", *options, cwd=parts)
    expected = probabilities("all.fan", ["all.csv"], "--keep", "smoker,age", cwd=parts)
    found = read(tmp_path / f"out.{suffix}")
    found["smoker"], expected["smoker"] = found["smoker"].astype(object), expected["smoker"].astype(object)
    found["class"], expected["class"] = found["class"].astype(object), expected["class"].astype(object)
    found, expected = (frame.where(frame.notna(), None) for frame in (found, expected))
    pd.testing.assert_frame_equal(found, expected, check_dtype=False, rtol=1e-12)


def test_streams(parts, tmp_path):
    """Tables come in by standard input, models and answers go out by standard output."""
    fit = subprocess.run(
        [PROGRAM, "fit", "-", *FIT, "-o", "-"],
        input=(parts / "all.csv").read_bytes(),
        capture_output=True,
        cwd=tmp_path,
    )
    assert b"standard input: 600 rows" in fit.stderr
    (tmp_path / "m.fan").write_bytes(fit.stdout)
    assert fanbayes.load(tmp_path / "m.fan").classes_.tolist() == ["ill", "well"]
    for rows in ((parts / "all.csv").read_bytes(), (parts / "parquet" / "0.parquet").read_bytes()):
        found = subprocess.run(
            [PROGRAM, "predict", "m.fan", "-", "-o", "-"], input=rows, capture_output=True, cwd=tmp_path
        )
        assert found.stdout.startswith(b"class,p(ill),p(well)\n")
        assert found.stdout.count(b"\n") == (601 if rows[:4] != b"PAR1" else 201)
    wrong = subprocess.run([PROGRAM, "predict", "m.fan", "-"], input=b"age\nx\n", capture_output=True, cwd=tmp_path)
    assert wrong.stderr.startswith(b"fanbayes: standard input lacks columns")
    assert [path.name for path in tmp_path.iterdir()] == ["m.fan"]


def test_bad_days(parts, tmp_path):
    """One sentence that names the file, and nothing is written."""
    frame = patients(300, 3).drop(columns="id")

    def write(name, *frames):
        (tmp_path / name).mkdir()
        for k, some in enumerate(frames):
            getattr(some, f"to_{'csv' if 'csv' in name else 'parquet'}")(
                tmp_path / name / f"{k}.{'csv' if 'csv' in name else 'parquet'}", index=False
            )

    write("cut", frame, frame)
    cut = tmp_path / "cut" / "1.parquet"
    cut.write_bytes(cut.read_bytes()[:-200])
    write("absent", frame, frame.drop(columns="age"))
    write("absent_csv", frame, frame.drop(columns="age"))
    write("more_csv", frame, frame.assign(more=1))
    write("type", frame, frame.assign(age="old"))
    write("empty_csv", frame)
    (tmp_path / "empty_csv" / "1.csv").write_text("")
    write("mixed", frame)
    (tmp_path / "mixed" / "1.csv").write_text("a,outcome\n1,x\n")
    (tmp_path / "nothing").mkdir()
    (tmp_path / "binary.csv").write_bytes(bytes(range(256)))
    shutil.copy(parts / "all.fan", tmp_path / "m.fan")
    for data, says in [
        ("nothing", "there is no table in the folder nothing"),
        ("nothing/*.csv", "no file matches 'nothing/*.csv'"),
        ("none.csv", "there is no file none.csv"),
    ]:
        refuse("fit", data, *FIT, "-o", "x.fan", cwd=tmp_path, code=2, says=says)
        refuse("predict", "m.fan", data, "-o", "x.parquet", cwd=tmp_path, code=2, says=says)
    for data, says in [
        ("cut", "cut/1.parquet cannot be read"),
        ("absent", "absent/1.parquet cannot be read: it has no column 'age'"),
        ("absent_csv", "absent_csv/1.csv has no column 'age', unlike absent_csv/0.csv"),
        ("type", "type/1.parquet cannot be read: column 'age' holds text, and numbers"),
        ("empty_csv", "empty_csv/1.csv is empty"),
        ("mixed", "mixed/0.parquet is Parquet and mixed/1.csv is CSV"),
        ("binary.csv", "binary.csv is not text but a binary file"),
    ]:
        for memory in ("1GB", "10KB"):
            refuse("fit", data, *FIT, "--memory", memory, "-o", "x.fan", cwd=tmp_path, code=1, says=says)
        refuse("predict", "m.fan", data, "-o", "x.parquet", cwd=tmp_path, code=1, says=says)
    refuse("fit", "more_csv", *FIT, "-o", "x.fan", cwd=tmp_path, code=1, says="1.csv has a column 'more', unlike")
    tree = ("fit", "cut/0.parquet", "-t", "outcome", "--model", "nbtree", "-o", "x.fan")
    refuse(*tree, "--memory", "10KB", cwd=tmp_path, code=2, says="nbtree learns from rows in memory, and cut/0.parquet")
    refuse("fit", "cut/0.parquet", *FIT, "--memory", "much", "-o", "x", cwd=tmp_path, code=2, says="--memory='much'")
    refuse(
        "predict", "m.fan", "cut/0.parquet", "-o", "x.doc", cwd=tmp_path, code=2, says="end its name with .csv, .tsv"
    )


@pytest.mark.skipif(os.name != "posix", reason="a device that is always full")
def test_a_full_disk(parts, tmp_path):
    (tmp_path / "out.csv").symlink_to("/dev/full")
    for arguments in (("fit", "csv", *FIT, "-o", "/dev/full"), ("predict", "all.fan", "csv", "-o", "/dev/full")):
        _, err = run(*arguments, cwd=parts, code=1)
        assert err.splitlines()[-1] == "fanbayes: /dev/full cannot be written: No space left on device."


def test_workers_of_dask_learn_from_files(parts, tmp_path):
    """By themselves, of Parquet and of text; a scheduler that does not answer is one sentence."""
    from distributed import LocalCluster

    rows = patients(50, 2).drop(columns=["id", "outcome"])
    expected = fanbayes.load(parts / "all.fan").predict_proba(rows)
    options = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "dashboard_address": None}
    with LocalCluster(protocol="tcp", host="127.0.0.1", **options) as cluster:
        for data in ("parquet", "csv"):
            at = ("--dask", cluster.scheduler_address)
            run("fit", data, *FIT, *at, "-o", tmp_path / "m.fan", cwd=parts, fresh=True)
            np.testing.assert_allclose(fanbayes.load(tmp_path / "m.fan").predict_proba(rows), expected, atol=1e-5)
        refuse("fit", "feather", *FIT, *at, "-o", "m.fan", cwd=parts, code=1, says="write feather to Parquet or CSV")
    refuse("fit", "csv", *FIT, *at, "-o", "m.fan", cwd=parts, code=1, says="no scheduler of Dask answers")


def test_one_class_in_batches_is_refused_as_in_memory(tmp_path):
    pd.DataFrame({"a": range(400), "class": "u"}).to_parquet(tmp_path / "d.parquet")
    for memory in ("1KB", "1GB"):
        fit = ("fit", "d.parquet", "-t", "class", "--model", "nb", "--memory", memory, "-o", "m.fan")
        refuse(*fit, cwd=tmp_path, code=2, says="column 'class' of d.parquet holds only the class 'u'")
