"""`fanbayes export`: the end of the name decides what is written."""

import pytest
from export_cases import ASKED, MODELS, TABLE
from program import refuse, run

import fanbayes
from fanbayes.export import compile_model, model_onnx, model_python, model_sql

pytestmark = [pytest.mark.usefixtures("server"), pytest.mark.filterwarnings("ignore::fanbayes.DataWarning")]


def test_export(tmp_path):
    model = compile_model(MODELS["nb"].fit(*TABLE))
    fanbayes.save(MODELS["nb"], tmp_path / "m.fan")
    _, err = run("export", "m.fan", "m.onnx", cwd=tmp_path)
    assert err == "note: the model is m.onnx, an ONNX graph.\n"
    assert (tmp_path / "m.onnx").read_bytes() == model_onnx(model)
    _, err = run("export", "m.fan", "m.PY", cwd=tmp_path)
    assert err == "note: the model is m.PY, a Python file.\n"
    assert (tmp_path / "m.PY").read_text("utf-8") == model_python(model)
    assert run("export", "m.fan", "/dev/stdout", "--to", "python", cwd=tmp_path)[0] == model_python(model)
    _, err = run("export", "m.fan", "m.sql", cwd=tmp_path)
    assert err == "note: the model is m.sql, one SELECT.\n"
    assert (tmp_path / "m.sql").read_text("utf-8") == model_sql(model, "data")
    out, _ = run("export", "m.fan", "/dev/stdout", "--to", "sql", "--table", "a b", "--keep", "id,height", cwd=tmp_path)
    assert out == model_sql(model, "a b", ["id", "height"])


def test_what_cannot_be_exported(tmp_path):
    fanbayes.save(MODELS["nb"].fit(*TABLE), tmp_path / "m.fan")
    says = "must be .onnx (an ONNX graph), .py (a Python file), .sql (one SELECT)"
    refuse("export", "m.fan", "m.pmml", cwd=tmp_path, code=2, says=says)
    refuse("export", "m.fan", "no/m.onnx", cwd=tmp_path, code=2, says="there is no folder no")
    refuse("export", "m.fan", "m.fan", "--to", "onnx", cwd=tmp_path, code=2, says="m.fan is read by this command")
    refuse("export", "m.fan", "m.py", "--keep", "id", cwd=tmp_path, code=2, says="--table and --keep are for a SELECT")
    clf = fanbayes.AODEClassifier().fit(ASKED[["colour", "flag"]], ["ill", "well"] * 500)
    fanbayes.save(clf, tmp_path / "aode.fan")
    refuse("export", "aode.fan", "m.onnx", cwd=tmp_path, code=1, says="can be compiled, not AODEClassifier")
