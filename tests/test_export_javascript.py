"""The compiled form in JavaScript: everything that the script says is what Python says."""

import json

import numpy as np
import pandas as pd
import pytest
from export_cases import ASKED, FILLED, HARD, MODELS, TABLE
from py_mini_racer import JSEvalException, MiniRacer

from fanbayes import FANClassifierCV, NBClassifier
from fanbayes.export import compile_model, model_javascript

pytestmark = pytest.mark.filterwarnings("ignore::fanbayes.DataWarning", "ignore:.*too few to judge models by")
N_EXPLAINED = 60


def cases_of(X):
    """Rows as objects of JavaScript."""
    return [{name: None if pd.isna(v) else v for name, v in row.items()} for row in X.to_dict("records")]


class Page:
    """A model in a JavaScript engine."""

    def __init__(self, clf):
        self.engine = MiniRacer()
        self.engine.eval(model_javascript())
        self.engine.eval(f"const model = fanbayes.load({json.dumps(json.dumps(compile_model(clf).to_json()))})")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.engine.close()

    def each(self, X, expression):
        """Value of an expression for each row, `c` in it."""
        cases = f"JSON.parse({json.dumps(json.dumps(cases_of(X)))})"
        return json.loads(self.engine.eval(f"JSON.stringify({cases}.map((c) => ({expression})))"))


@pytest.fixture(scope="module", params=MODELS)
def fitted(request):
    """A model, its page, and rows to explain: few of an average, which takes its time."""
    is_average = request.param.startswith("average")
    clf = MODELS[request.param].fit(*(FILLED if is_average else TABLE))
    with Page(clf) as page:
        yield clf, page, ASKED[: 8 if is_average else N_EXPLAINED]


def test_probabilities(fitted):
    clf, page, _ = fitted
    found = page.each(ASKED, "model.predict(c)")
    np.testing.assert_allclose([f["proba"] for f in found], clf.predict_proba(ASKED), rtol=0, atol=1e-9)
    np.testing.assert_allclose([f["logProba"] for f in found], clf.predict_log_proba(ASKED), rtol=1e-9, atol=1e-9)
    assert [clf.classes_[f["best"]] for f in found] == clf.predict(ASKED).tolist()


def test_components(fitted):
    clf, page, rows = fitted
    found = page.each(rows, "model.components(c)")
    if clf.n_components_ == 1 or isinstance(clf, FANClassifierCV):
        assert found == [None] * len(rows)
        return
    expected = clf.predict_components(rows)
    np.testing.assert_allclose([f["proba"] for f in found], expected, rtol=0, atol=1e-9)
    best = [f["best"]["probability"] for f in found]
    np.testing.assert_allclose(best, expected.reshape(len(rows), -1).max(axis=1), rtol=0, atol=1e-9)


def test_contributions(fitted):
    clf, page, rows = fitted
    told = clf.explain(rows)
    found = page.each(rows, "model.contributions(c)")
    np.testing.assert_allclose([f["logOdds"] for f in found], told.log_odds, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose([f["prior"] for f in found], told.prior, rtol=1e-9, atol=1e-9)
    at = [list(ASKED).index(name) for name in told.features]
    contributions = np.array([f["contributions"] for f in found])
    np.testing.assert_allclose(contributions[:, at], told.contributions, rtol=1e-8, atol=1e-8)
    assert np.count_nonzero(contributions) == np.count_nonzero(contributions[:, at])
    classes = [[clf.classes_[k] for k in f["classes"]] for f in found]
    assert classes == told.classes.tolist()
    np.testing.assert_allclose([f["responsibility"] for f in found], told.responsibility, rtol=0, atol=1e-9)
    named = clf.explain(rows[:2], classes=["well", "ill"]).log_odds
    well, ill = (clf.classes_.tolist().index(c) for c in ("well", "ill"))
    found = page.each(rows[:2], f"model.contributions(c, {well}, {ill}).logOdds")
    np.testing.assert_allclose(found, named, rtol=1e-9, atol=1e-9)


def test_what_to_ask_next(fitted):
    clf, page, rows = fitted
    told = clf.explain(rows)
    found = page.each(rows, "model.askNext(c)")
    for entries, expected in zip(found, told.information):
        wanted = {name: gain for name, gain in zip(told.features, expected) if not np.isnan(gain)}
        assert {e["feature"]: e["information"] for e in entries} == pytest.approx(wanted, abs=1e-9)
        gains = [e["information"] for e in entries]
        assert gains == sorted(gains, reverse=True)
        assert all(0 <= e["share"] <= 1 for e in entries)


def test_a_feature_may_be_unknown_or_missing():
    """Where it counts that a value is missing, nothing is told by one that is not asked for."""
    clf = NBClassifier(missing="informative", allow_missing_columns=True).fit(*TABLE)
    rows = ASKED[["height", "code"]][:50]
    expected = clf.predict_proba(rows)
    with Page(clf) as page:
        found = page.each(rows, "model.predict(c).proba")
        empty = page.each(rows[:1], "model.predict({}).proba")[0]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)
    np.testing.assert_allclose(empty, clf.class_prior_, rtol=0, atol=1e-12)


def test_missing_values_of_many_classes_and_levels():
    """More points for a row the more values it lacks, the more levels these have and the more classes are possible."""
    rng = np.random.default_rng(0)
    y = np.arange(600) % 12
    X = pd.DataFrame({"near": 0.3 * y + rng.normal(size=600), "far": 5.0 * (y % 6) + rng.normal(size=600)})
    X["code"] = (y * 8 + rng.integers(0, 9, 600)).astype(str)
    clf = FANClassifierCV(effort="fast", random_state=0, kernel_members=False).fit(X, y)
    assert clf.imputer_.fills.all()
    assert clf.schema_[2].n_levels > 64
    rows = X[:24].astype(object).mask(rng.random((24, 3)) < 0.5)
    rows[20:] = [[None, 1.0, "3"], [0.5, None, "3"], [0.5, 1.0, None], [None, None, "3"]]
    with Page(clf) as page:
        found = page.each(rows, "model.predict(c).proba")
    rows = rows.astype({"near": float, "far": float})
    np.testing.assert_allclose(found, clf.predict_proba(rows), rtol=0, atol=1e-9)


@pytest.mark.parametrize("X", HARD.values(), ids=HARD)
def test_hard_tables(X):
    clf = NBClassifier().fit(X, ["ill", "ill", "well", "well", "well"] * 4)
    with Page(clf) as page:
        found = page.each(X, "model.predict(c).proba")
    np.testing.assert_allclose(found, clf.predict_proba(X), rtol=0, atol=1e-9)


def test_whole_numbers_that_doubles_do_not_hold():
    X = pd.DataFrame({"id": pd.Categorical([2**60, 2**60 + 1] * 10)})
    clf = NBClassifier().fit(X, ["ill", "well"] * 10)
    with Page(clf) as page:
        levels = "model.features[0].levels"
        found = [page.each(X[:1], f"model.predict({{id: {levels}[{k}]}}).proba")[0] for k in (0, 1)]
    np.testing.assert_allclose(found, clf.predict_proba(X[:2]), rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("case", "said"),
    [
        ('{"height": "tall"}', 'feature "height" takes a finite number, or null'),
        ('{"height": Infinity}', 'feature "height" takes a finite number, or null'),
        ('{"events": 1.5}', 'feature "events" takes whole numbers from 0 to 1e12, or null'),
        ('{"colour": ["red"]}', 'feature "colour" takes one of its levels, or null'),
        ('{"depth": 1}', 'there is no feature "depth"'),
        ("7", "a case is an object"),
    ],
)
def test_what_cannot_be_a_value_is_refused(case, said):
    with Page(MODELS["nb, counts"].fit(*TABLE)) as page, pytest.raises(JSEvalException, match=said):
        page.engine.eval(f"model.predict({case})")


def test_classes_to_compare():
    with Page(MODELS["nb"].fit(*TABLE)) as page:
        with pytest.raises(JSEvalException, match="two different numbers from 0 to 2"):
            page.engine.eval("model.contributions({}, 1, 1)")
        assert page.engine.eval("JSON.stringify(model.contributions({}, undefined, 0).classes[1])") == "0"
