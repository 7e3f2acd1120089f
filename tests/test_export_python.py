"""The compiled form as a Python file: run alone, it says what the library says."""

import ast
import json
import math
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from export_cases import ASKED, HARD, MODELS, TABLE, chained

from fanbayes import FANClassifier, NBClassifier, TANClassifier
from fanbayes.export import compile_model, model_python

pytestmark = pytest.mark.filterwarnings("ignore::fanbayes.DataWarning")
SINGLE = [name for name in MODELS if not name.startswith("average")]


def loaded(clf):
    """The functions of the file."""
    namespace = {}
    exec(compile(model_python(compile_model(clf)), "model.py", "exec", dont_inherit=True), namespace)
    return namespace


def rows_of(X):
    return X.astype(object).to_dict("records")


def assert_same(clf, X):
    file = loaded(clf)
    found = [file["predict_proba"](row) for row in rows_of(X)]
    assert all(list(proba) == clf.classes_.tolist() for proba in found)
    np.testing.assert_allclose([list(p.values()) for p in found], clf.predict_proba(X), rtol=0, atol=1e-9)
    assert [file["predict"](row) for row in rows_of(X)] == clf.predict(X).tolist()


@pytest.mark.parametrize("name", SINGLE)
def test_mixed_rows(name):
    assert_same(MODELS[name].fit(*TABLE), ASKED)


@pytest.mark.parametrize("clf", [TANClassifier(tree="full"), FANClassifier(2, tree="full", random_state=0)])
def test_missing_values_along_a_tree(clf):
    clf.fit(*chained(400, 0))
    X, _ = chained(1000, 1)
    X.loc[::5, list("abcdef")] *= 1e6
    X.loc[::7, list("abcdef")] *= 1e180
    assert_same(clf, X)


@pytest.mark.parametrize("X", HARD.values(), ids=HARD)
def test_hard_tables(X):
    assert_same(NBClassifier().fit(X, ["ill", "ill", "well", "well", "well"] * 4), X)


def test_names_are_quoted():
    X = pd.DataFrame({"'); raise SystemExit(1) #": [1.0, 2.0] * 10, '"""\n\\': ['"""', "\u2028é\\"] * 10})
    y = np.array(["'\n", '"""'] * 10)
    assert_same(NBClassifier().fit(X, y), X)
    assert model_python(compile_model(NBClassifier().fit(X, y))).isascii()


def test_the_file_needs_the_standard_library_only(tmp_path):
    clf = MODELS["fan, tree"].fit(*TABLE)
    text = model_python(compile_model(clf))
    imported = {node.module for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)}
    assert imported == {"__future__", "math", "typing"}
    (tmp_path / "model.py").write_text(text, "utf-8")
    ask = (
        "import json, model; print(json.dumps(model.predict_proba({'height': 1030.0, 'colour': 'red', 'code': None})))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {ask}"],
        capture_output=True,
        check=True,
    )
    X = pd.DataFrame({name: [None] for name in ASKED}, dtype=object).assign(height=1030.0, colour="red")
    expected = clf.predict_proba(X.astype({"height": float}))[0]
    assert list(json.loads(done.stdout).values()) == pytest.approx(expected.tolist(), abs=1e-9)


def test_a_feature_may_be_unknown_or_missing():
    """Where it counts that a value is missing, nothing is told by one that is not asked for."""
    clf = NBClassifier(missing="informative", allow_missing_columns=True).fit(*TABLE)
    predict_proba = loaded(clf)["predict_proba"]
    rows = ASKED[["height", "code"]][:50]
    found = [list(predict_proba(row).values()) for row in rows_of(rows)]
    np.testing.assert_allclose(found, clf.predict_proba(rows), rtol=0, atol=1e-9)
    np.testing.assert_allclose(list(predict_proba({}).values()), clf.class_prior_, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"height": "tall"}, "feature 'height' takes a finite number, or None"),
        ({"height": math.inf}, "feature 'height' takes a finite number, or None"),
        ({"events": 1.5}, "feature 'events' takes whole numbers from 0 to 1e12, or None"),
        ({"colour": ["red"]}, "feature 'colour' takes one of its levels, or None"),
        ({"depth": 1}, "there is no feature 'depth'"),
    ],
)
def test_what_cannot_be_a_value_is_refused(row, says):
    predict_proba = loaded(MODELS["nb, counts"].fit(*TABLE))["predict_proba"]
    with pytest.raises((TypeError, ValueError), match=says):
        predict_proba(row)
