"""The commands of a study, as a user types them."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from processes import heed_signals
from typer.testing import CliRunner

from fanbayes.cli import app
from fanbayes.study.records import read_study

SMALL = ("--suite", "builtin", "--only", "balloons", "--folds", "2", "--jobs", "1")


def run(*arguments):
    return CliRunner().invoke(app, ["study", *map(str, arguments)])


@pytest.fixture(scope="module")
def studies(tmp_path_factory):
    out = tmp_path_factory.mktemp("studies")
    result = run("real", *SMALL, "--out", out / "real")
    assert result.exit_code == 0, result.output
    result = run(
        *("simulated", "--only", "lenses", "--only", "iris", "--size", "60", "--test-size", "80", "--pairs", "2"),
        *("--jobs", "1", "--out", out / "simulated"),
    )
    assert result.exit_code == 0, result.output
    return out


def test_a_run_ends_with_the_table_and_what_to_do_next(tmp_path):
    result = run("real", *SMALL, "--out", tmp_path)
    assert result.exit_code == 0
    assert "Accuracy, FAN vs NB" in result.stdout
    assert "23/14" in result.stdout
    assert "12 tasks, 0 of them done before, 0 failed." in result.stderr
    assert "fanbayes study report" in result.stderr
    again = run("real", *SMALL, "--out", tmp_path)
    assert "12 of them done before" in again.stderr


def test_one_page_of_both_studies(studies):
    pytest.importorskip("jinja2")
    result = run("report", studies)
    assert result.exit_code == 0, result.output
    assert "Simulated data" in result.stdout
    assert str(studies / "report.html") in result.stdout.replace("\n", "")
    page = (studies / "report.html").read_text("utf-8")
    assert "balloons" in page
    assert "gold standard itself" in page
    assert str(studies) not in page


def test_the_folder_of_another_study_is_wrong_use(studies):
    before = (studies / "real" / "study.json").read_bytes()
    for arguments in (("real", *SMALL, "--seed", "1"), ("simulated", "--only", "iris")):
        result = run(*arguments, "--out", studies / "real")
        assert result.exit_code == 2
        assert "belongs to another study" in " ".join(result.stderr.replace("│", " ").split())
    assert (studies / "real" / "study.json").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("real", "--suite", "nowhere"), "there is no suite 'nowhere'"),
        (("real", "--only", "irsi"), "did you mean 'iris'?"),
        (("real", "--folds", "1"), "--folds"),
        (("simulated", "--size", "0"), "--size"),
        (("real", "--jobs", "0"), "--jobs"),
    ],
)
def test_wrong_use_is_said_in_a_sentence(tmp_path, arguments, sentence):
    result = run(*arguments, "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert sentence in " ".join(result.stderr.replace("│", " ").split())
    assert not (tmp_path / "out").exists()


def test_a_report_of_nothing_is_wrong_use(tmp_path):
    result = run("report", tmp_path)
    assert result.exit_code == 2
    assert "holds no study" in result.stderr


def test_a_broken_dataset_is_reported_by_name_and_the_others_go_on(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    (data / "good.csv").write_text("x,class\n" + "".join(f"{i % 3},{'ab'[i % 2]}\n" for i in range(12)))
    feature = {"features": [{"name": "x", "kind": "discrete"}]}
    sets = [{"name": "good", "file": "good.csv", **feature}, {"name": "gone", "file": "gone.csv", **feature}]
    (data / "manifest.json").write_text(json.dumps({"datasets": sets}))
    result = run("real", "--suite", data, "--folds", "2", "--jobs", "1", "--out", tmp_path / "out")
    assert result.exit_code == 0
    assert "gone.csv" in result.stderr.replace("\n", "")
    head, records = read_study(tmp_path / "out")
    assert {record["dataset"] for record in records} == {"good"}
    assert "gone.csv" in head["broken"]["gone"]
    assert head["suite"] == "data"


@pytest.mark.skipif(os.name != "posix", reason="signals are sent")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP], ids=["keyboard", "hang up"])
def test_stopped_by_a_signal_to_all_processes(tmp_path, number):
    command = [sys.executable, "-m", "fanbayes.cli", "study", "real", "--only", "digits", "--jobs", "2"]
    with subprocess.Popen(
        [*command, "--out", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
        preexec_fn=heed_signals,
    ) as process:
        deadline = time.monotonic() + 60
        records = tmp_path / "records.jsonl"
        while not records.exists() or not records.stat().st_size:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        os.killpg(process.pid, number)
        began = time.monotonic()
        _, stderr = process.communicate(timeout=30)
        assert time.monotonic() - began < 15
    assert process.returncode == 128 + number
    assert "the same command continues" in stderr
    assert "Traceback" not in stderr
    assert all(json.loads(line) for line in records.read_text().splitlines())
    with pytest.raises(ProcessLookupError):  # no process is left behind
        _wait_for_end(process.pid)


def _wait_for_end(group):
    for _ in range(100):
        os.killpg(group, 0)
        time.sleep(0.05)
