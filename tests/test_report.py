"""The page of a fitted model: what it says is what was learnt, and it is alive in a real browser."""

import html as html_text
import json
import re
import sys

import numpy as np
import pandas as pd
import pytest
from program import refuse, run
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score

import fanbayes
from fanbayes.pages import report as pages
from fanbayes.pages.beliefs import joint_of

pytest.importorskip("jinja2")

HOSTILE = ['</script><script>alert("x")</script>', "שלום \"quoted\" 'name'", "🚬 smoker", "constructor", "__proto__"]


def table(n=240, seed=0, names=("age", "pressure", "smoker", "pain")):
    """Mixed columns with holes; two groups of ill persons."""
    rng = np.random.default_rng(seed)
    group, y = rng.integers(0, 2, n), rng.integers(0, 2, n)
    X = {
        names[0]: rng.normal(np.where(group, 70, 40) + 5 * y, 6),
        names[1]: rng.normal(130 + 10 * group * y, 8),
        names[2]: rng.choice(["no", "yes"], n),
        names[3]: np.array(["none", "rest", "effort"])[np.where(rng.random(n) < 0.7, y + group, 0)],
    }
    frame = pd.DataFrame(X)
    for name in names:
        frame.loc[rng.random(n) < 0.15, name] = None
    return frame, np.array(["well", "ill"])[y]


def payload(html, name="data"):
    return json.loads(re.search(rf'<script type="application/json" id="{name}">(.*?)</script>', html, re.S)[1])


def plain_text(html):
    text = re.sub(r"<script.*?</script>|<style.*?</style>|<[^>]+>", " ", html, flags=re.S)
    return html_text.unescape(re.sub(r"\s+", " ", text))


@pytest.fixture(scope="module")
def fan():
    return fanbayes.FANClassifier(n_components=2, random_state=0, missing="informative").fit(*table())


@pytest.fixture(scope="module")
def html(fan):
    return fanbayes.report(fan, *table(seed=1), title="Patients <& more>").html


# ---------------------------------------------------------------- what it says


def test_the_page_needs_nothing_from_elsewhere(html):
    assert not re.search(r"""(?:src|href)\s*=\s*["']?(?:https?:)?//""", html)
    assert not re.search(r"@import|url\(|fetch\(|XMLHttpRequest", html)
    assert set(re.findall(r'https?://[^"\s]*', html)) <= {"http://www.w3.org/2000/svg"}
    assert "{{" not in html
    assert "{%" not in html
    assert "NaN" not in plain_text(html)
    assert "Patients <& more>" in plain_text(html)


def test_distributions_are_those_of_the_model(fan, html):
    for feature in payload(html)["features"]:
        cells = pd.DataFrame(fan.feature_table(feature["name"]))
        if "table" in feature:
            for level, p in zip(feature["levels"], feature["table"]):
                np.testing.assert_allclose(p, cells[cells["level"] == level]["probability"], rtol=1e-4)
        else:
            np.testing.assert_allclose(feature["mean"], cells["mean"], rtol=1e-4)
            np.testing.assert_allclose(np.square(feature["deviation"]), cells["variance"], rtol=1e-3)


def test_intervals_are_those_of_the_draws(html):
    X, y = table()
    clf = fanbayes.NBClassifier().fit(X, y).draw_parameters(X, y, n_draws=30, random_state=0)
    for feature in payload(fanbayes.report(clf).html)["features"]:
        wanted = clf.feature_table(feature["name"], interval=0.9)
        names, *shown = feature["intervals"]
        of = "mean" if "mean" in names else "probability"
        place = names.index(of)
        assert names[place + 1] == f"{of}, 90 %"
        ends = zip(wanted[of], wanted[f"{of}_lower"], wanted[f"{of}_upper"])
        assert [row[place : place + 2] for row in shown] == [[f"{x:.5g}", f"{a:.3g} to {b:.3g}"] for x, a, b in ends]
    assert not any("intervals" in feature for feature in payload(html)["features"])


def test_the_class_conditional_density_follows_bayes_theorem():
    """p(x | c) from the cells gives p(c | x) of rows that have this value alone."""
    X, y = table()
    clf = fanbayes.FANClassifier(n_components=2, mixing="per_class", random_state=0).fit(X, y)
    joint = joint_of(clf)
    for name, values in (("age", [35.0, 52.0, 77.0]), ("pain", ["none", "rest", "effort"])):
        about = joint.features[clf.schema_.position(name)]
        if "table" in about:
            cells = np.array(about["table"])[[about["levels"].index(value) for value in values]]
        else:
            cells = norm.pdf(np.array(values)[:, None], about["mean"], about["deviation"])
        rows = pd.DataFrame({column: [None] * 3 for column in X.columns}, dtype=object)
        rows[name] = values
        rows = rows.astype({"age": float, "pressure": float})
        expected = (cells @ joint.weight.T) * clf.class_prior_
        proba = clf.predict_proba(rows)
        np.testing.assert_allclose(expected / expected.sum(axis=1, keepdims=True), proba, rtol=1e-3)


def test_importance_is_what_the_loss_of_a_feature_costs():
    X, y = table(seed=1)
    clf = fanbayes.NBClassifier().fit(*table())
    told = {feature["name"]: feature for feature in payload(fanbayes.report(clf, X, y).html)["features"]}
    whole = log_loss(y, clf.predict_proba(X), labels=clf.classes_)
    for name in X.columns:
        without = X.assign(**{name: None}).astype({name: X[name].dtype})
        loss = log_loss(y, clf.predict_proba(without), labels=clf.classes_)
        assert told[name]["drop"] == pytest.approx(loss - whole, abs=1e-9)
    assert {name: told[name]["information"] for name in X.columns} == {
        feature["feature"]: feature["information"] for feature in clf.describe()["features"]
    }


def test_measures_are_those_of_scikit_learn(fan, html):
    X, y = table(seed=1)
    proba = fan.predict_proba(X)
    measures = {name: (ours, shares) for name, ours, shares in payload(html)["quality"]["measures"]}
    assert measures["Accuracy"][0] == pytest.approx(fan.score(X, y))
    assert measures["Log loss"][0] == pytest.approx(log_loss(y, proba, labels=fan.classes_))
    assert measures["ROC area"][0] == pytest.approx(roc_auc_score(y == fan.classes_[1], proba[:, 1]))
    prior = np.tile(fan.class_prior_, (len(y), 1))
    assert measures["Log loss"][1] == pytest.approx(log_loss(y, prior, labels=fan.classes_))
    # A row without a label is left out, and y may be the name of a column.
    few = X.assign(outcome=np.where(np.arange(len(y)) < 200, y, None))
    found = payload(fanbayes.report(fan, few, "outcome").html)["quality"]
    assert found["n_rows"] == 200
    assert found["measures"][0][1] == pytest.approx(fan.score(X[:200], y[:200]))


def test_the_most_surprising_rows_come_first(fan, html):
    X, y = table(seed=1)
    proba = fan.predict_proba(X)[np.arange(len(y)), np.searchsorted(fan.classes_, y)]
    rows = payload(html)["quality"]["surprising"]
    assert [row["row"] for row in rows] == np.argsort(proba, kind="stable")[: len(rows)].tolist()
    assert rows[0]["p"] == pytest.approx(proba.min())
    assert all(reason["contribution"] < 0 for row in rows for reason in row["reasons"])


def test_components_are_told_in_words(html):
    assert re.search(r"(very )?(high|low) age \(mean \d+", plain_text(html))
    assert re.search(r"(mostly|more often|seldom|less often) pain = \w+ \(\d+ %\)", plain_text(html))


@pytest.mark.parametrize(
    "clf",
    [
        fanbayes.NBClassifier(discretize="mdlp"),
        fanbayes.FMClassifier(n_components=3, random_state=0),
        fanbayes.TANClassifier(),
        fanbayes.FANClassifierCV(effort="fast", random_state=0),
        fanbayes.AODEClassifier(),
        fanbayes.BoostedNBClassifier(random_state=0),
        fanbayes.NBTreeClassifier(random_state=0),
    ],
    ids=lambda clf: type(clf).__name__,
)
def test_every_classifier_has_a_page(clf):
    X, y = table()
    html = fanbayes.report(clf.fit(X, y), *table(seed=1)).html
    data, text = payload(html), plain_text(html)
    assert {feature["name"] for feature in data["features"]} == {*X.columns}
    assert "NaN" not in text
    assert (payload(html, "model") is None) == ("What-if is not available" in text)
    if isinstance(clf, fanbayes.FANClassifierCV):
        assert "the network that fills in missing values" in text
        assert "Members" in text
    if isinstance(clf, fanbayes.TANClassifier):
        assert len(data["arcs"]) == len(clf.edges_)


def test_names_cannot_break_the_page():
    X, y = table(names=HOSTILE[:4])
    clf = fanbayes.FANClassifier(n_components=2, random_state=0).fit(X, np.where(y == "ill", "<b>ill</b>", "`${x}`"))
    html = fanbayes.report(clf, X, clf.predict(X), title=HOSTILE[0]).html
    assert "<script>alert" not in html
    assert "<b>ill" not in html
    assert {feature["name"] for feature in payload(html)["features"]} == {*HOSTILE[:4]}
    assert HOSTILE[0] in plain_text(html).replace("\\u003c", "<")


def test_what_does_not_fit_is_left_out_and_the_page_says_so(fan, monkeypatch):
    monkeypatch.setattr(pages, "LARGEST", 1200)
    html = fanbayes.report(fan).html
    text = plain_text(html)
    assert "least important features are left out" in text
    assert "What-if is left out" in text
    kept = [bool({"table", "mean"} & feature.keys()) for feature in payload(html)["features"]]
    assert kept == sorted(kept, reverse=True)
    assert not all(kept)


def test_wrong_use_is_refused_in_a_sentence(fan, monkeypatch):
    X, y = table()
    with pytest.raises(TypeError, match=r"LogisticRegression is none; of a pipeline give its last step"):
        fanbayes.report(LogisticRegression())
    with pytest.raises(ValueError, match="X and y, both of them"):
        fanbayes.report(fan, X)
    with pytest.raises(ValueError, match="'dead', which is not among the classes"):
        fanbayes.report(fan, X, np.where(y == "ill", "dead", y))
    with pytest.raises(ValueError, match="no row has a label"):
        fanbayes.report(fan, X, [None] * len(X))
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ImportError, match=r"pip install 'fanbayes\[report\]'"):
        fanbayes.report(fan)


def test_a_report_is_saved_and_shows_itself_in_a_notebook(fan, tmp_path):
    made = fanbayes.report(fan, title="a\ud800b")
    made.save(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_bytes().startswith(b"<!doctype html>")
    frame = made._repr_html_()
    assert frame.startswith("<iframe ")
    assert html_text.unescape(re.search(r'srcdoc="([^"]*)"', frame)[1]) == made.html
    assert "save('page.html')" in repr(made)
    assert "sk-" in fan._repr_html_()  # the diagram of scikit-learn stays


@pytest.mark.usefixtures("server")
def test_the_command_writes_it(fan, tmp_path):
    X, y = table(seed=1)
    fanbayes.save(fan, tmp_path / "m.fan")
    X.assign(outcome=y).to_csv(tmp_path / "test.csv", index=False)
    out, err = run("show", "m.fan", "--html", "p.html", "--data", "test.csv", "--target", "outcome", cwd=tmp_path)
    assert "the page is p.html" in err
    assert "FANClassifier" in out
    measures = payload((tmp_path / "p.html").read_text("utf-8"))["quality"]["measures"]
    assert measures[0][1] == pytest.approx(fan.score(X, y))
    for extra, says in (
        (("--data", "test.csv"), "belong together"),
        (("--data", "test.csv", "-t", "outcome"), "--html"),
    ):
        refuse("show", "m.fan", *extra, cwd=tmp_path, code=2, says=says)
    refuse("show", "m.fan", "--html", "m.fan", cwd=tmp_path, code=2, says="name another file")
    page = ("show", "m.fan", "--html", "q.html", "--data", "test.csv", "--target")
    refuse(*page, "outcom", cwd=tmp_path, code=2, says="did you mean 'outcome'?")
    refuse(*page, "age", cwd=tmp_path, code=2, says="uses this column as a feature")
