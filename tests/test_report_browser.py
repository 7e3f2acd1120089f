"""The page of a fitted model in a real browser: it lives, and predicts as Python does."""

import json
import re

import numpy as np
import pytest
from browser import headless
from sklearn.metrics import confusion_matrix
from test_report import HOSTILE, fan, html, payload, table

import fanbayes

pytest.importorskip("jinja2")

__all__ = ["fan", "html"]  # fixtures

PROBABILITIES = "[...document.querySelectorAll('#probabilities output')].map(e => e.textContent)"
# Two frames, and until the reasons have followed.
SETTLED = """new Promise(done => {
    const look = () => (byId('reasons').classList.contains('stale') ? setTimeout(look, 20) : done());
    requestAnimationFrame(() => requestAnimationFrame(look)); })"""
MOMENT = "new Promise(done => setTimeout(done, 60))"


def give(selector, value, event="input"):
    """A script that gives an input a value, as a person would."""
    return f"(e => {{ e.value = {json.dumps(value)}; e.dispatchEvent(new Event('{event}')); }})({selector})"


def one(selector):
    return f"document.querySelector({json.dumps(selector)})"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with headless(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture
def opened(browser, html, tmp_path):
    (tmp_path / "report.html").write_text(html, "utf-8")
    browser.open(tmp_path / "report.html")
    return browser


def test_a_slider_moves_the_probabilities(opened, fan):
    before = opened.run(PROBABILITIES)
    assert before == [f"{100 * p:.1f} %" for p in fan.class_prior_]
    opened.run(give(one("[data-feature=age] input[type=range]"), 75))
    opened.run(SETTLED)
    assert opened.run(one("[data-feature=age] input[type=number]") + ".valueAsNumber") == pytest.approx(75, abs=0.2)
    said = opened.run(PROBABILITIES)
    assert said != before
    assert opened.run("document.querySelectorAll('#waterfall rect').length") == 3  # prior, age, their sum
    asked = opened.run("[...document.querySelectorAll('#next .name')].map(e => e.textContent)")
    assert set(asked) == {"pressure", "smoker", "pain"}
    assert "probability" in opened.run("document.getElementById('component').textContent")
    # The link holds the case.
    fragment = opened.run("location.hash")
    assert fragment.startswith("#what-if&age=")
    opened.run("document.getElementById('clear-case').click()")
    assert opened.run(PROBABILITIES) == before
    opened.run(f"location.hash = {json.dumps(fragment)}")
    opened.run(MOMENT)
    assert opened.run(PROBABILITIES) == said


def test_a_missing_value_that_counts_is_not_an_unknown_one(opened):
    before = opened.run(PROBABILITIES)
    opened.run("document.querySelector('[data-feature=smoker] .states button').click()")
    opened.run(SETTLED)
    assert "(missing)" in opened.run("document.getElementById('waterfall').textContent")
    opened.run("document.getElementById('clear-case').click()")
    assert opened.run(PROBABILITIES) == before


def test_features_open_filter_and_show_their_components(opened):
    names = "[...document.querySelectorAll('#features summary .name')].map(e => e.textContent)"
    drawn = "document.querySelectorAll('#features svg, #features .levels').length"
    everything = opened.run(names)
    assert len(everything) == 4
    assert opened.run(drawn) == 1  # of what is open
    opened.run("document.querySelector('#features details:nth-child(2) summary').click()")
    opened.run(MOMENT)
    assert opened.run(drawn) == 2
    opened.run("document.querySelector('#features .check input').click()")
    assert opened.run("document.querySelectorAll('#features .part, #features .tick').length") >= 4
    opened.run("document.querySelector('#features details:nth-child(2) p .link').click()")
    assert opened.run("document.activeElement.closest('.control').dataset.feature") == everything[1]
    opened.run(give(one("#find"), "SMOK"))
    assert opened.run(names) == ["smoker"]
    opened.run(give(one("#find"), ""))
    assert opened.run(names) == everything


def test_decisions_follow_the_threshold(opened, fan):
    X, y = table(seed=1)
    matrix = "[...document.querySelectorAll('#confusion .right, #confusion .wrong')].map(e => Number(e.textContent))"
    assert opened.run(matrix) == confusion_matrix(y, fan.predict(X)).ravel().tolist()
    opened.run(give(one("#threshold"), 0.8))
    decided = np.where(fan.predict_proba(X)[:, 1] > 0.8, *fan.classes_[::-1])
    assert opened.run(matrix) == confusion_matrix(y, decided).ravel().tolist()


def test_a_surprising_row_opens_as_a_case(opened, html):
    row = payload(html)["quality"]["surprising"][0]
    opened.run("document.querySelector('[data-surprising=\"0\"]').click()")
    shown = opened.run("document.querySelector('#probabilities .best').textContent")
    assert shown.startswith(row["rival"])
    assert f"{100 * row['p_rival']:.1f} %" in shown


def test_levels_are_found_as_python_writes_them(browser, tmp_path):
    X, y = table()
    rng = np.random.default_rng(0)
    X = X.assign(smoker=rng.random(len(y)) < 0.5, pain=np.where(y == "ill", 2.5, rng.choice([1.0, 2.5], len(y))))
    clf = fanbayes.NBClassifier(categorical_features=["smoker", "pain"], discretize="mdlp").fit(X, y)
    page = fanbayes.report(clf, X, y).html
    (tmp_path / "p.html").write_text(page, "utf-8")
    browser.open(tmp_path / "p.html")
    for k, row in enumerate(payload(page)["quality"]["surprising"]):
        browser.run(f"document.querySelector('[data-surprising=\"{k}\"]').click()")
        shown = dict(zip(clf.classes_, browser.run(PROBABILITIES)))
        assert shown[row["class"]] == f"{100 * row['p']:.1f} %"


def test_it_fits_a_phone_and_a_page(opened):
    assert opened.outside(390) == []
    opened.send("Emulation.clearDeviceMetricsOverride")
    assert len(opened.send("Page.printToPDF")["data"]) > 10_000


def test_nothing_on_the_page_is_not_a_number(opened):
    assert not re.search(r"NaN|undefined|\[object|Infinity", opened.run("document.body.innerText"))
    assert not opened.run("[...document.querySelectorAll('svg *')].some(e => e.outerHTML.includes('NaN'))")


def test_hostile_names_live_in_the_page(browser, tmp_path):
    X, y = table(names=HOSTILE[1:])
    clf = fanbayes.FANClassifier(n_components=2, random_state=0).fit(X, np.where(y == "ill", HOSTILE[0], "`${x}`"))
    (tmp_path / "p.html").write_text(fanbayes.report(clf, X, clf.predict(X), title=HOSTILE[0]).html, "utf-8")
    browser.open(tmp_path / "p.html")
    names = "[...document.querySelectorAll('#controls .name')].map(e => e.textContent)"
    assert set(browser.run(names)) == {*HOSTILE[1:]}
    browser.run(f"[...document.querySelectorAll('#controls select')].forEach(s => {give('s', 1, 'change')})")
    browser.run(SETTLED)
    assert browser.run("document.querySelectorAll('#controls .known').length") == 2
    said, fragment = browser.run(PROBABILITIES), browser.run("location.hash")
    browser.open(tmp_path / "p.html")
    browser.run(f"location.hash = {json.dumps(fragment)}")
    browser.run(MOMENT)
    assert browser.run(PROBABILITIES) == said


@pytest.mark.parametrize(
    "clf",
    [
        fanbayes.NBClassifier(missing="informative"),
        fanbayes.FMClassifier(n_components=3, random_state=0),
        fanbayes.FANClassifier(n_components=2, random_state=0),
        fanbayes.FANClassifier(n_components=2, random_state=0, tree="full"),
        fanbayes.TANClassifier(),
        fanbayes.MDAClassifier(n_components=2, random_state=0),
        fanbayes.FANClassifierCV(effort="fast", random_state=0),
    ],
    ids=lambda clf: type(clf).__name__,
)
def test_the_page_predicts_as_python_does(browser, tmp_path, clf):
    X, y = table()
    (tmp_path / "p.html").write_text(fanbayes.report(clf.fit(X, y)).html, "utf-8")
    browser.open(tmp_path / "p.html")
    rng = np.random.default_rng(0)
    rows = X.iloc[rng.integers(0, len(X), 1000)].reset_index(drop=True)
    for name in rows.columns:
        if rows[name].dtype == float:
            rows[name] += rng.normal(0, 2 * rows[name].std(), len(rows))
        rows.loc[rng.random(len(rows)) < 0.4, name] = None
    cases = rows.astype(object).where(rows.notna(), None).to_dict("records")
    model = "const model = fanbayes.load(JSON.parse(document.getElementById('model').textContent));"
    found = browser.run(f"(() => {{ {model} return {json.dumps(cases)}.map(one => model.predict(one).proba); }})()")
    np.testing.assert_allclose(found, clf.predict_proba(rows), rtol=0, atol=1e-9)


def test_a_frame_of_a_notebook_keeps_its_links_to_itself(browser, fan, tmp_path):
    (tmp_path / "notebook.html").write_text(f"<!doctype html>{fanbayes.report(fan)._repr_html_()}", "utf-8")
    browser.open(tmp_path / "notebook.html")
    inside = "document.querySelector('iframe').contentDocument"
    browser.run(f"{inside}.querySelector('nav a[href=\"#what-if\"]').click()")
    browser.run(give(f"{inside}.querySelector('#controls select')", 1, "change"))
    browser.run(MOMENT)
    assert browser.run(f"{inside}.querySelectorAll('#controls .known').length") == 1
    assert browser.run(f"{inside}.querySelectorAll('#probabilities output').length") == 2


def test_the_console_stays_silent(browser):
    assert browser.complaints() == []
