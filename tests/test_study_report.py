"""The page of a study: complete without a network, and alive in a real browser."""

import json
import os
import re
import sys
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from browser import headless
from test_study_analysis import CARDS, RECORDS, card, record, simulated
from test_study_relatives import RECORDS as RELATIVES_RECORDS
from test_study_relatives import head as relatives_head

from fanbayes.study.models import CRITERIA
from fanbayes.study.outcomes import Outcomes
from fanbayes.study.provenance import environment
from fanbayes.study.records import StudyError
from fanbayes.study.report import find_studies, page, write_page

pytest.importorskip("jinja2")


def two_classes(name="two <classes> & more"):
    """A binary dataset whose name would break careless HTML."""
    positive = np.arange(40) % 3 == 0
    rng = np.random.default_rng(0)
    made = []
    for model, signal in (("NB", 1.0), ("FM", 0.2), ("FAN", 2.0)):
        odds = np.where(positive, signal, -signal) + rng.normal(size=40)
        loss = np.logaddexp(0, np.where(positive, -odds, odds))
        made.append(record(name, model, Outcomes((odds > 0) == positive, loss, loss, odds, positive), components=2))
    return card(name, classes=2), made


def real():
    binary, records = two_classes()
    failed = RECORDS[0] | {"fold": 7, "error": "MemoryError: too large"}
    both = [*RECORDS, *records]
    everything = [*both, *({**r, "preset": "default"} for r in both), failed]
    head = {
        "study": "real",
        "fanbayes": "1.2.3",
        "suite": "toy",
        "seed": 5,
        "folds": 1,
        "presets": {"paper": {"FAN": {"tol": 1e-6}}},
        "datasets": {c.name: asdict(c) for c in (*CARDS, binary)},
        "broken": {"bad": "bad.csv is empty."},
        "environments": [environment()],
    }
    return head, everything


def simulation():
    records = [
        simulated(name, pair, criterion, 3 + gap, 0.8 - 0.02 * gap + 0.001 * pair)
        for name in ("two", "many")
        for pair in range(4)
        for criterion, gap in zip(("gold", *CRITERIA), (0, 0, 1, 2, -1))
    ]
    head = real()[0] | {"study": "simulated", "sizes": [100], "test_size": 50, "pairs": 4, "max_components": 20}
    head["datasets"] = {c.name: asdict(c) for c in (card("two", classes=2), card("many"))}
    del head["folds"]
    return head, records


@pytest.fixture(scope="module")
def html():
    return page({"real": real(), "simulated": simulation(), "relatives": (relatives_head(), RELATIVES_RECORDS)})


def write_study(folder: Path, head, records) -> Path:
    folder.mkdir(parents=True)
    (folder / "study.json").write_text(json.dumps(head))
    (folder / "records.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
    return folder


def test_the_page_needs_nothing_from_elsewhere(html):
    assert not re.search(r"""(?:src|href)\s*=\s*["']?(?:https?:)?//""", html)
    assert not re.search(r"@import|url\(", html)
    assert set(re.findall(r'https?://[^"\s]*', html)) <= {"http://www.w3.org/2000/svg"}
    assert "{{" not in html
    assert "{%" not in html


def test_the_page_shows_the_tables_beside_the_paper(html):
    text = re.sub(r"\s+", " ", re.sub(r"<script.*?</script>|<style.*?</style>|<[^>]+>", " ", html, flags=re.S))
    for part in ("23/14", "14/1", "0.0003", "about 200", "8 of 10", "donors", "Spearman", "Library defaults"):
        assert part in text
    assert "FAN is more accurate than NB 23/14 5/1" in text
    assert "fanbayes 1.2.3" in text
    assert "Seed 5" in text
    assert "MemoryError: too large" in text
    assert "bad.csv is empty." in text
    assert "numpy" in text


def test_names_cannot_break_the_page(html):
    assert "two <classes>" not in html
    payload = re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.S)[1]
    assert "two <classes> & more" in [item["name"] for item in json.loads(payload)["cases"]]


def test_one_study_alone_is_enough():
    assert "Simulated data" not in page({"real": real()})
    alone = page({"simulated": simulation()})
    assert "Figure 2" not in alone
    assert "gold standard itself" in alone


def test_an_unfinished_study_is_refused_in_a_sentence():
    head, records = real()
    with pytest.raises(StudyError, match="no dataset has been finished"):
        page({"real": (head, records[-1:])})
    with pytest.raises(StudyError, match="no pair of training and test sets"):
        page({"simulated": (simulation()[0], [])})


def test_gold_standards_with_one_component_are_told_apart():
    head, records = simulation()
    head["datasets"]["plain"] = asdict(replace(card("plain"), n_classes=2))
    records = [*records, *(simulated("plain", 0, c, 1, 0.9, true=1) for c in CRITERIA)]
    assert "one component, apart" in page({"simulated": (head, records)})
    assert "one component, apart" not in page({"simulated": simulation()})


def test_studies_are_found_in_a_folder_and_in_its_folders(tmp_path):
    write_study(tmp_path / "both" / "a", *real())
    write_study(tmp_path / "both" / "b", *simulation())
    assert find_studies(tmp_path / "both") == {"real": tmp_path / "both" / "a", "simulated": tmp_path / "both" / "b"}
    assert find_studies(tmp_path / "both" / "a") == {"real": tmp_path / "both" / "a"}
    claims = write_page(find_studies(tmp_path / "both"), tmp_path / "new" / "page.html")
    html = (tmp_path / "new" / "page.html").read_text("utf-8")
    assert html.startswith("<!doctype html>")
    assert claims
    assert all(claim.ours in html for claim in claims)
    write_study(tmp_path / "both" / "c", *real())
    with pytest.raises(StudyError, match="two real studies"):
        find_studies(tmp_path / "both")
    with pytest.raises(StudyError, match="holds no study"):
        find_studies(tmp_path / "new")


def test_a_full_disk_leaves_the_old_page(tmp_path, monkeypatch):
    write_study(tmp_path / "a", *real())
    target = tmp_path / "page.html"
    write_page(find_studies(tmp_path), target)
    before = target.read_bytes()
    monkeypatch.setattr(os, "fsync", lambda fd: os.write(os.open("/dev/full", os.O_WRONLY), b"x"))
    with pytest.raises(OSError, match=r"page\.html cannot be written: No space left on device"):
        write_page(find_studies(tmp_path), target)
    assert target.read_bytes() == before
    assert not list(tmp_path.glob(".*"))


def test_without_jinja2_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ImportError, match=r"pip install 'fanbayes\[report\]'"):
        page({"real": real()})


# ---------------------------------------------------------------- in a browser


@pytest.fixture(scope="module")
def browser(tmp_path_factory, html):
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(html, "utf-8")
    with headless(tmp_path_factory.mktemp("profile")) as browser:
        browser.open(path)
        yield browser


def test_points_are_drawn(browser):
    count = "document.querySelectorAll('#{} circle').length"
    assert browser.run(count.format("plot-accuracy")) == 7
    assert browser.run(count.format("plot-entropy")) == 7
    assert browser.run(count.format("plot-roc")) == 1
    inside = """[...document.querySelectorAll('#plot-accuracy circle')].every(c => {
        const f = c.closest('svg').querySelector('.frame').getBBox();
        return c.cx.baseVal.value >= f.x && c.cx.baseVal.value <= f.x + f.width
            && c.cy.baseVal.value >= f.y && c.cy.baseVal.value <= f.y + f.height; })"""
    assert browser.run(inside)
    # FAN beats NB on "win": its point lies above the diagonal.
    above = """(() => { const c = document.querySelector('#plot-accuracy circle[data-name=win]');
        const d = c.closest('svg').querySelector('.diagonal');
        const slope = (d.y2.baseVal.value - d.y1.baseVal.value) / (d.x2.baseVal.value - d.x1.baseVal.value);
        return c.cy.baseVal.value < d.y1.baseVal.value + slope * (c.cx.baseVal.value - d.x1.baseVal.value); })()"""
    assert browser.run(above)


def test_pointing_names_the_dataset_in_all_figures(browser):
    tip = "document.getElementById('tip')"
    assert browser.run(f"{tip}.hidden")
    browser.mouse("#plot-accuracy circle[data-name=win]")
    assert not browser.run(f"{tip}.hidden")
    assert browser.run(f"{tip}.textContent").startswith("winFAN 0.950, NB 0.500p = ")
    assert browser.run("document.querySelectorAll('circle.hot').length") == 2
    assert browser.run("document.querySelector('#details h3').textContent") == "win"
    browser.mouse("h1")
    assert browser.run(f"{tip}.hidden")


def test_arrow_keys_move_from_point_to_point(browser):
    browser.run("document.querySelector('#plot-accuracy circle[tabindex=\"0\"]').focus()")
    seen = []
    for _ in range(3):
        seen.append(browser.run("document.activeElement.getAttribute('aria-label')"))
        for kind in ("keyDown", "keyUp"):
            browser.send("Input.dispatchKeyEvent", type=kind, key="ArrowRight", code="ArrowRight")
    assert len(set(seen)) == 3
    browser.run("document.activeElement.blur()")


def test_the_table_sorts_and_filters(browser):
    names = "[...document.querySelectorAll('#table tbody th')].map(th => th.textContent)"
    assert browser.run(names) == sorted(browser.run(names))
    assert len(browser.run(names)) == 7
    browser.click("#table thead tr:nth-child(2) th:nth-child(7) button")  # accuracy of FAN, best first
    values = "[...document.querySelectorAll('#table tbody td:nth-child(7)')].map(td => Number(td.textContent))"
    assert browser.run(values) == sorted(browser.run(values), reverse=True)
    assert browser.run(names)[:2] == ["two <classes> & more", "win"]
    assert browser.run("document.querySelector('#table [aria-sort]').getAttribute('aria-sort')") == "descending"
    browser.click("#table thead [aria-sort] button")
    assert browser.run(values) == sorted(browser.run(values))
    browser.run("document.getElementById('find').focus()")
    browser.send("Input.insertText", text="discretised")
    assert browser.run(names) == ["big (discretised)"]
    assert browser.run("document.getElementById('showing').textContent") == "1 of 7 cases"


def test_choices_redraw(browser):
    browser.click("#choose-pair button:nth-child(2)")
    assert "FM, accuracy" in browser.run("document.getElementById('plot-accuracy').textContent")
    browser.click("#choose-column button:last-child")
    assert browser.run("document.querySelectorAll('#plot-accuracy circle').length") == 7
    browser.click("#choose-column button:nth-child(2)")  # no such records
    assert "No case" in browser.run("document.getElementById('plot-accuracy').textContent")
    assert browser.run("document.querySelectorAll('#reliability figure').length") == 3
    browser.run(
        """(s => { s.value = 0; s.dispatchEvent(new Event('change')); })(document.getElementById('choose-case'))"""
    )
    assert browser.run("document.querySelectorAll('#reliability circle').length") >= 3


def test_it_fits_a_phone_and_a_page(browser):
    assert browser.outside(360) == []
    assert browser.run("parseFloat(getComputedStyle(document.querySelector('.plot text')).fontSize)") >= 12
    browser.send("Emulation.clearDeviceMetricsOverride")
    pdf = browser.send("Page.printToPDF")["data"]
    assert len(pdf) > 10_000


def test_the_console_stays_silent(browser):
    assert browser.complaints() == []
