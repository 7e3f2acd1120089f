"""The compiled form by itself: enough to predict with, plain, and refused in one sentence where there is none."""

import base64
import json
import math

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from fanbayes import AODEClassifier, FANClassifier, FANClassifierCV, NBClassifier, TANClassifier
from fanbayes.export import compile_model
from fanbayes.export.compiled import CompiledAverage, CompiledNetwork

pytestmark = pytest.mark.filterwarnings("ignore::fanbayes.DataWarning", "ignore:.*too few to judge models by")


def table(n=120, seed=0):
    """Rows without holes, of columns that depend on each other."""
    rng = np.random.default_rng(seed)
    size, y = rng.normal(size=n), rng.integers(0, 3, n)
    colour = np.array(["red", "green", "blue"])[(y + rng.integers(0, 2, n)) % 3]
    taste = np.where(rng.random(n) < 0.8, np.char.add("as ", colour), "none")
    X = pd.DataFrame({"size": 5 + size + y, "colour": colour, "taste": taste, "events": rng.poisson(1.0 + y)})
    return X.assign(weight=3 * X["size"] + rng.normal(size=n)), y


def predicted(model, row):
    """p(c | x) of a complete row, by the formulas at the top of `compiled.py` and nothing else."""
    network = model.predictor
    view = model.views[network.view]
    codes = []
    for column in view.codes:
        feature, x = model.features[column.feature], row[column.feature]
        codes.append(feature.levels.index(x) if column.by == "level" else sum(cut < x for cut in column.cuts))
    features = [model.features[j] for j in view.numbers]
    values = [row[j] for j in view.numbers]
    numbers = [(x * 2.0**-f.exponent - f.centre) / f.scale for f, x in zip(features, values)]
    columns = [*codes, *numbers]
    totals = [0.0] * (max(network.cell_of) + 1)
    for i, x in enumerate(columns):
        parent, place = network.parent[i], network.place[i]
        above = columns[parent] if parent >= 0 else 0
        for cell in range(len(totals)):
            if network.levels[i]:
                term = network.log_table[place + above * (network.levels[i] + 1) + x, cell]
            elif parent >= len(codes):
                slope, intercept, log_norm, coefficient = network.regression[place, :, cell]
                term = log_norm - (slope * x + coefficient * above + intercept) ** 2
            else:
                slope, intercept, log_norm = network.numeric[place + above, :, cell]
                is_linear = place >= len(network.numeric) - network.n_linear
                term = log_norm + slope * x if is_linear else log_norm - (slope * x + intercept) ** 2
            totals[cell] += term
    p = [0.0] * len(model.classes)
    for c, cell, log_weight in zip(network.class_of, network.cell_of, network.log_weight):
        p[c] += math.exp(log_weight + totals[cell])
    return [q / sum(p) for q in p]


@pytest.mark.parametrize(
    "clf",
    [
        NBClassifier(distributions={"events": "poisson"}),
        NBClassifier(discretize="mdlp"),
        TANClassifier(),
        FANClassifier(n_components=2, tree="full", mixing="per_class", random_state=0),
    ],
)
def test_it_is_enough_to_predict_with(clf):
    X, y = table()
    model = compile_model(clf.fit(X, y))
    found = [predicted(model, row) for row in X.itertuples(index=False, name=None)]
    np.testing.assert_allclose(found, clf.predict_proba(X), rtol=0, atol=1e-12)


def test_json_loses_nothing():
    X, y = table()
    model = compile_model(FANClassifierCV(effort="fast", cv=2, random_state=0).fit(X, y))
    assert isinstance(model.predictor, CompiledAverage)
    told = json.loads(json.dumps(model.to_json(), allow_nan=False))
    networks = [fit for member in model.predictor.members for fit in member if isinstance(fit, CompiledNetwork)]
    said = [fit for member in told["predictor"]["members"] for fit in member if fit["kind"] == "network"]
    assert len(said) == len(networks) > 0
    for fit, network in zip(said, networks):
        array = np.frombuffer(base64.b64decode(fit["log_table"]["base64"]), "<f8").reshape(fit["log_table"]["shape"])
        np.testing.assert_array_equal(array, network.log_table)
    assert told["classes"] == [0, 1, 2]
    assert told["features"][1]["low"] == {"float": "nan"}  # colour has none


def test_whole_numbers_that_doubles_do_not_hold():
    large = 2**60
    X = pd.DataFrame({"id": pd.Categorical([large, large + 1] * 10)})
    told = compile_model(NBClassifier().fit(X, [0, 1] * 10)).to_json()
    assert told["features"][0]["levels"] == [{"integer": str(large)}, {"integer": str(large + 1)}]


def test_what_has_no_compiled_form():
    X, y = table()
    with pytest.raises(TypeError, match=r"^only NBClassifier, .* and FANClassifierCV can be compiled, not AODE"):
        compile_model(AODEClassifier().fit(X[["colour", "taste"]], y))
    with pytest.raises(TypeError, match="can be compiled, not LogisticRegression"):
        compile_model(LogisticRegression())
    with pytest.raises(NotFittedError):
        compile_model(NBClassifier())
    angle = pd.DataFrame({"angle": np.random.default_rng(0).uniform(0, 1000, len(y))})
    members = [("waves", make_pipeline(FunctionTransformer(np.sin), LogisticRegression()))]  # that nothing else knows
    waves = np.sin(angle["angle"]) > 0
    clf = FANClassifierCV(effort="fast", cv=2, extra_members=members, random_state=0).fit(angle, waves)
    assert clf.members_["model"][0] == "waves"
    with pytest.raises(TypeError, match=r"extra member 'waves' \(Pipeline\) .* fit without extra_members"):
        compile_model(clf)
