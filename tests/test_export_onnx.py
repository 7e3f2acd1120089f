"""The compiled form as an ONNX graph: onnxruntime says what Python says, or fails."""

import json

import numpy as np
import onnx
import pandas as pd
import pytest
from export_cases import FILLED, HARD, MODELS, TABLE, asked, chained, table
from onnxruntime import InferenceSession, SessionOptions
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument

from fanbayes import FANClassifier, FANClassifierCV, NBClassifier, TANClassifier
from fanbayes.export import compile_model, model_onnx

pytestmark = pytest.mark.filterwarnings("ignore::fanbayes.DataWarning")
SINGLE = [name for name in MODELS if name != "average"]  # the average takes complete rows


class Served:
    """A model in onnxruntime."""

    def __init__(self, clf):
        content = model_onnx(compile_model(clf))
        onnx.checker.check_model(content, full_check=True)
        options = SessionOptions()
        options.log_severity_level = 4  # errors are raised, and need not be printed too
        options.intra_op_num_threads = 1
        self.session = InferenceSession(content, options, providers=["CPUExecutionProvider"])
        self.metadata = self.session.get_modelmeta().custom_metadata_map

    def __call__(self, X):
        inputs = {i.name: self.tensor(X[i.name], i.type) for i in self.session.get_inputs()}
        assert list(inputs) == list(X)
        return self.session.run(["label", "probabilities"], inputs)

    def tensor(self, column, kind):
        if kind == "tensor(double)":
            return np.array([np.nan if pd.isna(v) else float(v) for v in column]).reshape(-1, 1)
        text = [self.metadata["missing_text"] if pd.isna(v) else v for v in column]
        return np.array(text, dtype=object).reshape(-1, 1)


def assert_same(clf, X):
    labels, proba = Served(clf)(X)
    np.testing.assert_allclose(proba, clf.predict_proba(X), rtol=0, atol=1e-9)
    assert labels.tolist() == clf.predict(X).tolist()


@pytest.mark.parametrize("name", SINGLE)
def test_mixed_rows(name):
    rows = table(10_000, 1, missing=0)[0] if name.startswith("mda") else asked(10_000)
    assert_same(MODELS[name].fit(*TABLE), rows)


def average(*data):
    return FANClassifierCV(effort="fast", cv=2, random_state=0).fit(*data)


def test_average():
    """Of rows in which only what the average leaves out may be missing."""
    clf = average(*FILLED)
    model = compile_model(clf)
    fits = [fit for fits in model.predictor.members for fit in fits]
    views = [model.views[fit.view] for fit in fits]
    assert {fit.kind for fit in fits} == {"network", "forest"}
    assert any(view.scores is not None for view in views)
    assert any(view.mixing is not None for view in views)
    assert any(len(fit.class_of) > 100 for fit in fits if fit.kind == "network")  # a kernel for each row
    X, _ = table(10_000, 1, missing=0)
    X.loc[::3, "width"] = np.nan
    X.loc[::50, "height"] = 1e300
    assert_same(clf, X)


def test_average_of_rows_that_lack_everything():
    """Where nothing is filled in, they get the classes' shares."""
    X, y = table(200, 0, missing=0.3)
    clf = average(X, y)
    assert json.loads(Served(clf).metadata["complete"]) == []
    X.iloc[:5] = None
    assert_same(clf, X)
    np.testing.assert_allclose(Served(clf)(X)[1][0], clf.class_prior_)


@pytest.mark.parametrize("name", ["numbers at both ends", "names and levels", "nothing to learn from"])
def test_average_of_hard_tables(name):
    X = HARD[name]
    assert_same(average(X, ["ill", "ill", "well", "well", "well"] * 4), X)


@pytest.mark.parametrize(
    "clf", [TANClassifier(), TANClassifier(tree="full"), FANClassifier(2, tree="full", random_state=0)]
)
def test_missing_values_along_a_tree(clf):
    """Of numbers given numbers given categories, some of them absurd."""
    X, y = chained(400, 0)
    clf.fit(X, y)
    network = compile_model(clf).predictor
    depth = {-1: 0}
    while len(depth) <= len(network.parent):
        depth |= {i: depth[p] + 1 for i, p in enumerate(network.parent) if p in depth}
    assert max(depth.values()) > 3
    assert len(network.regression) > 2
    X, _ = chained(2000, 1)
    X.loc[::5, list("abcdef")] *= 1e6
    X.loc[::7, list("abcdef")] *= 1e180
    assert_same(clf, X)
    assert Served(clf)(X[:0])[1].shape == (0, 3)


@pytest.mark.parametrize("X", HARD.values(), ids=HARD)
def test_hard_tables(X):
    assert_same(NBClassifier().fit(X, ["ill", "ill", "well", "well", "well"] * 4), X)


@pytest.mark.parametrize("y", [[7, -3], [True, False], [2.0, -1.0], ["é", ""]])
def test_labels_have_their_type(y):
    X = pd.DataFrame({"x": [0.0, 1.0, 0.1, 1.1] * 5})
    assert_same(NBClassifier().fit(X, np.array(y * 10)), X)


def test_the_empty_string_may_be_a_category():
    X = pd.DataFrame({"word": ["", "?", "a", None] * 10, "x": np.arange(40.0)})
    clf = NBClassifier(missing="informative").fit(X, [0, 1, 1, 0] * 10)
    assert Served(clf).metadata["missing_text"] == "??"
    assert_same(clf, X)


def test_features_may_have_any_name():
    X = pd.DataFrame({"t": [0.0, 1.0] * 10, "c": ["a", "b"] * 10, "it's \"\n\u2028": np.arange(20.0), "é": 1.0})
    assert_same(NBClassifier().fit(X, [0, 1] * 10), X)
    X = X.rename(columns={"t": "label", "c": "probabilities"})
    model = onnx.load_from_string(model_onnx(compile_model(NBClassifier().fit(X, [0, 1] * 10))))
    first, second = (output.name for output in model.graph.output)
    assert first.startswith("label_")
    assert second.startswith("probabilities_")


@pytest.mark.parametrize(
    ("name", "column", "value", "says"),
    [
        ("nb", "height", np.inf, "feature 'height' takes a finite number, or NaN"),
        ("nb, binned", "height", -np.inf, "feature 'height' takes a finite number, or NaN"),
        ("nb, counts", "events", 1.5, "feature 'events' takes whole numbers from 0 to 1e12, or NaN"),
        ("mda", "width", np.nan, "feature 'width' needs a value: the graph of MDAClassifier does not sum it out"),
        ("average", "height", np.nan, "feature 'height' needs a value: the graph of FANClassifierCV does not sum it"),
        ("average", "code", 999, "feature 'code' needs a value: the graph of FANClassifierCV does not sum it out"),
    ],
)
def test_what_the_graph_cannot_answer_is_an_error(name, column, value, says):
    served = Served(MODELS[name].fit(*(FILLED if name == "average" else TABLE)))
    rows, _ = table(20, 1, missing=0)
    served(rows)
    rows = rows.astype({column: object})
    rows.loc[13, column] = value
    with pytest.raises(InvalidArgument, match=says):
        served(rows)


def test_metadata_tell_what_must_be_complete():
    assert json.loads(Served(MODELS["nb"].fit(*TABLE)).metadata["complete"]) == []
    needed = json.loads(Served(MODELS["mda"].fit(*TABLE)).metadata["complete"])
    assert sorted(needed) == ["events", "height", "noise", "width"]


@pytest.mark.parametrize(
    ("X", "y", "says"),
    [
        (
            {"mixed": pd.Categorical(["a", 1] * 10)},
            [0, 1] * 10,
            "feature 'mixed' has categories of text and of numbers",
        ),
        ({"id": pd.Categorical([2**60, 2**60 + 1] * 10)}, [0, 1] * 10, r"'id' has categories that no double holds"),
        ({"": [1.0, 2.0] * 10}, [0, 1] * 10, "a feature without a name"),
    ],
)
def test_what_onnx_cannot_hold(X, y, says):
    clf = NBClassifier().fit(pd.DataFrame(X), y)
    with pytest.raises(ValueError, match=says):
        model_onnx(compile_model(clf))
