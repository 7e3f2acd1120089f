"""Tables that the commands read: what is wrong with them, and by which options it is remedied."""

import gzip

import numpy as np
import pandas as pd
import pytest
from program import refuse, run

pytestmark = pytest.mark.usefixtures("server")


def test_decimal_commas(folder, tmp_path):
    rng = np.random.default_rng(0)
    lines = [f"{x:.2f};{c}".replace(".", ",") for x, c in zip(rng.normal(size=40), "ab" * 20)]
    (tmp_path / "d.csv").write_text("\n".join(["x;class", *lines]))
    fit = ("fit", "d.csv", "-t", "class", "--model", "nb", "-o", "m.fan")
    out, err = run(*fit, cwd=tmp_path)
    assert "x       discrete" in out
    assert "numbers with a decimal comma are text, and so categories: 'x', such as '" in err
    assert err.endswith("to have numbers, use\n  --decimal ,\n")
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


def test_fit_names_the_options_that_help(tmp_path):
    (tmp_path / "a.csv").write_text("a,,class\n1,2,x\nq,3,y\n")
    (tmp_path / "l.csv").write_bytes("a,class\né,x\nb,y\n".encode("latin-1"))
    pd.DataFrame({"a": [[1], [2]], "b": [1, 2], "class": ["x", "y"]}).to_parquet(tmp_path / "a.parquet")
    for name, options, code, says in [
        ("a.csv", (), 1, "name it or use --ignore ''"),
        ("a.csv", ("--ignore", "", "--continuous", "a"), 2, "correct it, or use --missing or --discrete."),
        ("l.csv", (), 1, "as cp1252 it reads 'é': if that is right, use --encoding cp1252"),
        ("l.csv", ("--encoding", "none"), 1, "there is no encoding 'none': --encoding utf-8 or"),
        ("a.parquet", (), 1, "column 'a' of a.parquet holds list values (row 1): use --ignore, or convert it"),
    ]:
        refuse("fit", name, "-t", "class", *options, "-o", "m.fan", cwd=tmp_path, code=code, says=says)


def test_names_that_read_like_a_remedy_stay_as_they_are(tmp_path):
    name = "rename or ignore them"
    (tmp_path / "a.csv").write_text(f"{name},{name},class\n1,2,x\n3,4,y\n")
    says = f"a.csv has 2 columns '{name}': rename them or use --ignore ("
    refuse("fit", "a.csv", "-t", "class", "-o", "m.fan", cwd=tmp_path, code=1, says=says)


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
