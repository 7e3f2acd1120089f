"""What is published is made by code from what is stored with it, and says which code made that."""

import html
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fanbayes.pages.page import TEMPLATES
from fanbayes.study.provenance import environment
from fanbayes.study.records import read_study

pytest.importorskip("jinja2")
ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "docs" / "results"
QUALITY = RESULTS / "quality"
VERDICT = r"agrees|differs|undecided|not tested"


@pytest.fixture(scope="module")
def summary():
    return json.loads((QUALITY / "summary.json").read_text("utf-8"))


def test_pages_of_the_comparison_are_made_from_its_summary(tmp_path):
    """What is added to a page by hand is lost when the page is made again: it belongs into the code."""
    for name in ("summary.json", "README.md", "index.html"):
        shutil.copy(QUALITY / name, tmp_path)
    made = [sys.executable, str(ROOT / "benchmarks" / "quality" / "report.py"), "--out", str(tmp_path)]
    subprocess.run(made, check=True, capture_output=True)
    for name in ("README.md", "index.html"):
        assert (tmp_path / name).read_text("utf-8") == (QUALITY / name).read_text("utf-8"), "run `make pages`"


def test_the_page_of_the_defaults_is_made_from_its_records(tmp_path):
    shutil.copy(RESULTS / "defaults" / "records.csv.xz", tmp_path)
    made = [sys.executable, str(ROOT / "benchmarks" / "quality" / "defaults.py"), "report", "--out", str(tmp_path)]
    subprocess.run(made, check=True, capture_output=True)
    text = (tmp_path / "README.md").read_text("utf-8")
    assert text == (RESULTS / "defaults" / "README.md").read_text("utf-8"), "run `make pages`"
    assert "the report half is not unseen" in text
    assert "-dirty" not in text


@pytest.mark.parametrize("name", ["README.md", "index.html"])
def test_the_comparison_discloses_what_was_chosen_late_and_what_is_older(name, summary):
    text = html.unescape((QUALITY / name).read_text("utf-8"))
    names = summary["names"]
    assert "no half of this suite is kept apart from the design" in text
    assert "15 small UCI sets. Which ones was not recorded" in text
    for run in summary["runs"]:
        records = ", ".join(names[method] for method in run["records"])
        assert f"Records of {records}: {run['date']}: fanbayes {run['fanbayes']}" in text
        assert run["commit"] in text
    timed = summary["timed"]
    assert f"predicting 1,000 rows: {timed['date']}: fanbayes {timed['fanbayes']}, commit {timed['commit']}" in text
    assert {method for run in summary["runs"] for method in run["records"]} >= set(summary["methods"])
    for failed in summary["failures"]:
        assert f"{names[failed['method']]} on {failed['dataset']}, " in text
    assert "asked" not in text.lower()


def test_every_dataset_without_a_result_is_told_of(summary):
    missing = {(m, n) for n, d in summary["datasets"].items() for m in summary["methods"] if m not in d["measures"]}
    failed = summary["failures"]
    assert missing <= {(one["method"], one["dataset"]) for one in failed}


def test_the_benchmarks_page_names_the_code(tmp_path):
    shutil.copytree(ROOT / "benchmarks", tmp_path / "benchmarks")
    subprocess.run([sys.executable, str(tmp_path / "benchmarks" / "page.py")], check=True, capture_output=True)
    text = (tmp_path / "benchmarks" / "results" / "index.html").read_text("utf-8")
    assert text == (ROOT / "benchmarks" / "results" / "index.html").read_text("utf-8"), "run `make pages`"
    assert "asked" not in text
    for file in (ROOT / "benchmarks" / "results").glob("*.json"):
        assert f"commit {json.loads(file.read_text('utf-8'))['environment']['commit']}" in text


@pytest.mark.parametrize(
    "page",
    [RESULTS / "report.html", QUALITY / "index.html", ROOT / "benchmarks" / "results" / "index.html"],
    ids=["studies", "comparison", "speed"],
)
def test_pages_have_one_style_for_phones_the_dark_and_paper(page):
    text, style = page.read_text("utf-8"), (TEMPLATES / "page.css").read_text("utf-8")
    assert f"<style>\n{style}" in text
    assert '<meta name="viewport"' in text
    assert "prefers-color-scheme: dark" in style
    assert "@media print" in style


def test_the_page_of_the_studies_names_the_code_and_the_readme_repeats_its_verdicts():
    page, readme = ((RESULTS / name).read_text("utf-8") for name in ("report.html", "README.md"))
    for study in ("real", "simulated", "relatives"):
        for made in json.loads((RESULTS / study / "study.json").read_text("utf-8"))["environments"]:
            assert f"made {made['date']} with fanbayes" in page
            assert f"{made['fanbayes']}, commit {made['commit']}." in page
    claims = page[page.index('<section id="claims">') :].partition("</section>")[0]
    marks = re.findall(rf'<span class="mark[^>]*(?:title="({VERDICT})")?>({VERDICT}|·)</span>', claims)
    shown = re.findall(rf"({VERDICT}) +│$", readme, re.MULTILINE)
    assert [title or mark for title, mark in marks] == [s.replace("not tested", "·") for s in shown]
    assert len(shown) > 15


def test_the_readme_has_the_numbers_of_the_comparison(summary):
    readme = (ROOT / "README.md").read_text("utf-8")
    table = readme.partition("<!-- quality -->")[2].partition("<!-- /quality -->")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line[:1] == "|"]
    shown = {name: cells for name, *cells in rows}
    for s in summary["scopes"][0]["standings"]:
        numbers = [f"{s['rank']['log_loss']:.2f}", f"{s['mean']['log_loss']:.3f}", f"{s['mean']['accuracy']:.3f}"]
        assert shown[summary["names"][s["method"]]][:3] == numbers, "run `make pages`"


def test_what_the_readme_begins_with_holds(summary):
    """Lower log loss than each rival and than the stack, in less than a thirtieth of its time, and lower with holes."""
    said = "by less, than that of a stack of all nine, in less than a thirtieth of its time"
    assert said in " ".join((ROOT / "README.md").read_text("utf-8").split())
    everything, ours = summary["scopes"][0], summary["ours"]
    standings = {s["method"]: s for s in everything["standings"]}
    against = {row["method"]: row["log_loss"] for row in everything["against"]}
    for peer in ("logistic", "svm", "forest", "extra_trees", "boosting", "lightgbm", "xgboost", "catboost", "ebm"):
        assert standings[ours]["mean"]["log_loss"] < standings[peer]["mean"]["log_loss"]
        assert against[peer]["p_holm"] < 0.05
    assert standings[ours]["mean"]["log_loss"] < standings["stack"]["mean"]["log_loss"]
    assert against["stack"]["p_holm"] < 0.05
    assert standings["stack"]["fit_s"] / standings[ours]["fit_s"] > 30
    for scenario in summary["scenarios"]:
        if scenario["key"].startswith("missing"):
            of = {one["method"]: one for one in scenario["standings"]}
            assert of[ours]["mean"] < 0.95 * of["stack"]["mean"]
            assert of["stack"]["p"] < 0.001


def test_readme_and_guide_say_where_fan_is_worse_than_nothing(summary):
    names = {name: method for method, name in summary["names"].items()}
    reached = {
        names[goal["what"].partition(":")[0]]: goal["reached"]["all"]["text"]
        for goal in summary["goals"]
        if goal["what"].endswith("than the class shares alone")
    }
    assert f"On {reached['fan']} datasets the log loss of a single FAN" in (ROOT / "README.md").read_text("utf-8")
    guide = " ".join((ROOT / "docs" / "choosing.md").read_text("utf-8").split())
    assert f"On {reached['fan'].replace('of', 'of the')} sets its log loss is higher" in guide
    datasets = summary["datasets"]
    compared = re.findall(r"([a-z]+-?[a-z\d]+) (\d\.\d{3})(?:, the shares| and) (\d\.\d{3})[;)]", guide)
    assert len(compared) >= 4
    for name, fan, shares in compared:
        assert float(fan) == round(datasets[name]["measures"]["fan"]["log_loss"], 3)
        assert float(shares) == round(datasets[name]["log_loss_of_shares"], 3)


def test_the_readme_has_the_numbers_of_the_study():
    page = (RESULTS / "report.html").read_text("utf-8")
    for line in ("FAN against naive Bayes", "FAN against the finite mixture"):
        cells = re.search(rf"\| {line} \|(.*)\|", (ROOT / "README.md").read_text("utf-8"))[1].split("|")
        for cell in cells:
            won, lost, won_at, lost_at = re.findall(r"\d+", cell)
            counts = {f"<b>{won}/{lost}</b> <small>({won_at}/{lost_at})</small>"}
            counts.add(f"<b>{lost}/{won}</b> <small>({lost_at}/{won_at})</small>")  # the page may turn a pair around
            assert any(text in page for text in counts), cell


def test_what_is_said_of_the_relatives_is_on_the_page():
    """Numbers in the guide's table and in the output that the README shows are those of the page."""
    page = (RESULTS / "report.html").read_text("utf-8").partition('<section id="relatives">')[2]
    tables = ("Each model against naive", "As they are: means and medians")
    against, means = (page.partition(f'aria-label="{label}')[2].partition("</table>")[0] for label in tables)
    shown = re.findall(
        r"^│ (\w[\w ]*?) +│ (\d.\d{3}) +│ (\d.\d\d) +│", (RESULTS / "README.md").read_text("utf-8"), re.M
    )
    told = re.findall(r"^\| `.*?` \|(.*)\|$", (ROOT / "docs" / "choosing.md").read_text("utf-8"), re.MULTILINE)
    rows = [[cell.strip() for cell in line.split("|")] for line in told if re.search(r"\| 0\.\d{3} \|", line)]
    assert len(rows) == len(shown) == 9
    assert {(model, entropy, rank) for model, rank, entropy, *_ in rows} == set(shown)
    for model, rank, entropy, accuracy, *won, _ in rows:
        line = re.search(rf'<th scope="row">{model}</th>(.*)</tr>', means)[1]
        assert re.findall(r"<td>(.*?)</td>", line)[::2][:2] == [entropy, accuracy]
        assert re.search(rf">{model}</text>.*>{rank}</text>", page)
        if model != "NB":
            line = re.search(rf'<th scope="row">{model}</th>\s*(.*?)</tr>', against, re.DOTALL)[1]
            a, b, c, d = re.findall(r"<td>(?:<b>)?(\d+/\d+)", line)[:4]
            assert won == [f"{a} ({b})", f"{c} ({d})"]


def test_results_of_a_run_are_put_where_they_are_published(tmp_path):
    run, root = tmp_path / "run", tmp_path / "root"
    for name in ("real", "simulated", "relatives", "speed"):
        (run / name).mkdir(parents=True)
    for study in ("real", "simulated", "relatives"):
        (run / study / "study.json").write_text(json.dumps({"study": study}))
        (run / study / "records.jsonl").write_text(json.dumps({"dataset": study}) + "\n")
    (run / "speed" / "memory.json").write_text("{}")
    publish = [sys.executable, str(ROOT / "benchmarks" / "publish.py"), str(run), "--root", str(root)]
    subprocess.run(publish, check=True)
    for study in ("real", "simulated", "relatives"):
        assert read_study(root / "docs" / "results" / study) == ({"study": study}, [{"dataset": study}])
    assert (root / "benchmarks" / "results" / "memory.json").read_text() == "{}"


def test_a_run_says_when_where_and_by_what_it_was_made():
    found = environment(("numpy",))
    assert set(found) == {"date", "fanbayes", "commit", "python", "numpy", "platform", "processor", "cores"}


def test_the_table_of_coverage_is_that_of_the_benchmark():
    """`python benchmarks/intervals.py` prints it."""
    program = [sys.executable, str(ROOT / "benchmarks" / "intervals.py")]
    printed = subprocess.run(program, check=True, capture_output=True, encoding="utf-8").stdout
    assert printed.strip() in (ROOT / "docs" / "uncertainty.md").read_text("utf-8")
