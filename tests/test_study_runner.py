"""Running a study: killed and resumed, failing in part, and learning nothing from what it is tested on."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from multiprocessing import parent_process
from pathlib import Path

import numpy as np
import pytest

from fanbayes.data.mdl import cut_points
from fanbayes.datasets import Suite, load_suite
from fanbayes.files.dataset import DatasetError, from_columns
from fanbayes.study import models, runner
from fanbayes.study.outcomes import Outcomes
from fanbayes.study.real import RealPlan, RealTask
from fanbayes.study.records import TIMES, StudyError, key_of, read_study
from fanbayes.study.runner import Worker, run_study
from fanbayes.study.simulated import SimulatedPlan

PLAN = RealPlan(seed=1, n_folds=3)
ONLY = ("iris", "balloons", "lenses")


def suite(*datasets) -> Suite:
    return Suite("toy", {data.name: partial(_same, data) for data in datasets}, {})


def _same(data):
    return data


def toy(name="toy", n=60, n_features=2, seed=0, labels=None):
    rng = np.random.default_rng(seed)
    label = rng.permutation(np.arange(n) % 2)
    columns = {f"x{j}": rng.normal(size=n) + label for j in range(n_features)}
    return from_columns(name, columns, np.array(["no", "yes"], object)[label] if labels is None else labels, "made")


def timeless(folder: Path) -> list:
    """Records without times, in one order."""
    _, records = read_study(folder)
    return sorted(
        ({k: v for k, v in record.items() if k not in TIMES} for record in records), key=lambda r: str(key_of(r))
    )


# ---------------------------------------------------------------- killed and resumed


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    out = tmp_path_factory.mktemp("undisturbed")
    summary = run_study(PLAN, load_suite("builtin").only(ONLY), out)
    assert (summary.n_resumed, summary.failures, summary.broken) == (0, {}, {})
    return out


def test_killed_and_resumed_it_ends_with_the_same_records(tmp_path, undisturbed):
    command = [sys.executable, "-m", "fanbayes.cli", "study", "real", "--suite", "builtin", "--jobs", "2"]
    command += ["--seed", "1", "--folds", "3", "--out", str(tmp_path)]
    command += [word for name in ONLY for word in ("--only", name)]
    records = tmp_path / "records.jsonl"
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 60
        while not records.exists() or records.read_bytes().count(b"\n") < 20:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    content = records.read_bytes()
    records.write_bytes(content[: content.rfind(b"\n") - 40])  # as if killed while writing
    summary = run_study(PLAN, load_suite("builtin").only(ONLY), tmp_path)
    assert 0 < summary.n_resumed < summary.n_tasks
    assert timeless(tmp_path) == timeless(undisturbed)
    assert len(records.read_bytes().splitlines()) == len(timeless(undisturbed))


def test_stopped_from_the_keyboard_it_leaves_whole_records(tmp_path, undisturbed):
    seen = []

    def stop(progress):
        seen.append(progress)
        if len(seen) == 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_study(PLAN, load_suite("builtin").only(ONLY), tmp_path, report=stop)
    assert (tmp_path / "records.jsonl").read_bytes().endswith(b"}\n")
    run_study(PLAN, load_suite("builtin").only(ONLY), tmp_path)
    assert timeless(tmp_path) == timeless(undisturbed)


def test_a_finished_study_has_nothing_left_to_do(undisturbed):
    before = (undisturbed / "records.jsonl").read_bytes()
    seen = []
    summary = run_study(PLAN, load_suite("builtin").only(ONLY), undisturbed, report=seen.append)
    assert summary.n_resumed == summary.n_tasks
    assert [(progress.done, progress.total) for progress in seen] == [(0.0, 0)]
    assert (undisturbed / "records.jsonl").read_bytes() == before


def test_one_component_is_naive_bayes_to_the_last_bit(undisturbed):
    by_key = {key_of(r): r for r in read_study(undisturbed)[1]}
    same = 0
    for key, record in by_key.items():
        if record["model"] == "FAN" and record["n_components"] == 1:
            nb = by_key[key_of(dict(key) | {"model": "NB", "criterion": "none"})]
            assert record["rows"] == nb["rows"]
            same += 1
    assert same > 10


def test_progress_rises_to_the_total(tmp_path):
    seen = []
    run_study(RealPlan(n_folds=2), suite(toy()), tmp_path, report=seen.append)
    done = [progress.done for progress in seen]
    assert done == sorted(done)
    assert done[-1] == pytest.approx(seen[-1].total)
    assert isinstance(seen[-1].task, RealTask)


# ---------------------------------------------------------------- failures


def test_a_fold_that_fails_is_recorded_and_tried_again(tmp_path, monkeypatch):
    original, calls = models.fit_by_criteria, []

    def unreliable(*args, **kwargs):
        calls.append(args)
        if len(calls) == 2:
            raise FloatingPointError("every start degenerated")
        return original(*args, **kwargs)

    plan, data = RealPlan(n_folds=2), suite(toy())
    monkeypatch.setattr(models, "fit_by_criteria", unreliable)
    summary = run_study(plan, data, tmp_path)
    (why,) = summary.failures.values()
    assert why.startswith("FloatingPointError: every start degenerated (in fanbayes.study.")
    failed = [r for r in read_study(tmp_path)[1] if "error" in r]
    assert {r["error"] for r in failed} == {why}
    assert len(read_study(tmp_path)[1]) == 2 * 2 * (2 + 2 * 6)
    again = run_study(plan, data, tmp_path)
    assert again.n_tasks - again.n_resumed == 1
    assert not any("error" in r for r in read_study(tmp_path)[1])


def test_a_broken_dataset_is_named_and_the_others_go_on(tmp_path):
    good, bad = toy("good"), partial(_refuse, "bad.csv is empty: fill it.")
    both = Suite("toy", {"bad": bad, "good": partial(_same, good)}, {})
    summary = run_study(RealPlan(n_folds=2), both, tmp_path / "both")
    assert summary.broken == {"bad": "bad.csv is empty: fill it."}
    assert {r["dataset"] for r in read_study(tmp_path / "both")[1]} == {"good"}
    with pytest.raises(StudyError, match=r"no dataset .* can be used: bad\.csv is empty"):
        run_study(RealPlan(), Suite("toy", {"bad": bad}, {}), tmp_path / "none")
    assert not (tmp_path / "none").exists()


def _refuse(sentence):
    raise DatasetError(sentence)


def test_a_process_that_dies_costs_its_own_tasks_only(tmp_path):
    deadly = Suite("toy", {"deadly": _deadly, "good": partial(_same, toy("good"))}, {})
    plan = RealPlan(n_folds=2)
    tasks = [RealTask("deadly", "raw", 0, "NB", "paper"), RealTask("good", "raw", 0, "NB", "paper")]
    tasks += [RealTask("good", "raw", 1, "NB", "paper")]
    found = dict(runner._in_processes(Worker(plan, deadly), tasks, 2))
    assert "the process died (exit code 3)" in found[tasks[0]][0]["error"]
    assert all("error" not in found[task][0] for task in tasks[1:])


def _deadly():
    if parent_process() is not None:
        os._exit(3)
    return toy("deadly")


# ---------------------------------------------------------------- nothing is learnt from the test part


def noise(n=120, n_features=200):
    """Many columns of distinct values that know nothing of the class."""
    rng = np.random.default_rng(5)
    label = rng.permutation(np.arange(n) % 2)
    return {f"x{j}": rng.normal(size=n) for j in range(n_features)}, np.array(["no", "yes"], object)[label], label


def accuracy_of_nb(data, version) -> float:
    worker = Worker(PLAN, suite(data))
    records = [worker(RealTask(data.name, version, fold, "NB", "paper"))[0] for fold in range(3)]
    return float(np.average([r["accuracy"] for r in records], weights=[r["n_test"] for r in records]))


def test_a_planted_leak_is_caught():
    columns, y, label = noise()
    honest = accuracy_of_nb(from_columns("noise", columns, y, "made"), "discretised")
    leaked = {}
    for name, values in columns.items():
        cuts = cut_points(values, label.astype(np.int32), 2, None)  # sees the labels of all rows
        leaked[name] = np.searchsorted(cuts, values).astype(str).astype(object)
    assert any(len(set(values)) > 1 for values in leaked.values())
    assert accuracy_of_nb(from_columns("noise", leaked, y, "made"), "raw") > 0.65
    assert abs(honest - 0.5) < 0.12


@pytest.mark.parametrize("version", ["raw", "discretised"])
@pytest.mark.parametrize("model", ["NB", "FM", "FAN"])
def test_predictions_do_not_depend_on_the_labels_they_are_tested_on(version, model):
    data = replace(toy(n=80), split=np.repeat(["train", "test"], 40))
    turned = data.y.copy()
    turned[40:] = np.where(turned[40:] == "yes", "no", "yes")
    odds = []
    for labels in (data.y, turned):
        worker = Worker(RealPlan(), suite(replace(data, y=labels)))
        records = worker(RealTask("toy", version, 0, model, "paper"))
        odds.append([record["rows"]["log_odds"] for record in records])
    assert odds[0] == odds[1]


def test_unlabelled_rows_train_in_every_fold_and_are_never_tested():
    data = toy(n=60)
    y = data.y.copy()
    y[::3] = None
    worker = Worker(RealPlan(n_folds=4), suite(replace(data, y=y)))
    records = [worker(RealTask("toy", "raw", fold, "NB", "paper"))[0] for fold in range(4)]
    assert [r["n_test"] for r in records] == [10] * 4
    assert [r["n_train"] for r in records] == [50] * 4
    # They are learnt from: moving them changes the predictions.
    moved = data.X.copy()
    moved.loc[::3, "x0"] += 0.5
    other = Worker(RealPlan(n_folds=4), suite(replace(data, y=y, X=moved)))
    assert other(RealTask("toy", "raw", 0, "NB", "paper"))[0]["rows"] != records[0]["rows"]


def test_a_class_that_the_training_part_lacks_gets_the_clip():
    labels = np.array(["a"] * 30 + ["b"] * 29 + ["rare"], object)
    data = toy(n=60, labels=labels)
    worker = Worker(PLAN, suite(data))
    records = [r for fold in range(3) for r in worker(RealTask("toy", "raw", fold, "FAN", "paper"))]
    assert not any("error" in r for r in records)
    main = [r for r in records if r["criterion"] == "icl"]
    assert sum(r["absent"] for r in main) == 1
    (lonely,) = (r for r in main if r["absent"])
    assert lonely["clipped"] == 1
    outcomes = Outcomes.unpack(lonely["rows"])
    assert outcomes.loss.max() == pytest.approx(-np.log(1e-15), rel=1e-4)
    assert outcomes.log_odds is None


def test_a_binary_class_missing_from_the_training_part_is_survived():
    labels = np.array(["a"] * 29 + ["b"], object)
    worker = Worker(RealPlan(n_folds=3), suite(toy(n=30, labels=labels)))
    for model in ("NB", "FM", "FAN"):
        records = [r for fold in range(3) for r in worker(RealTask("toy", "raw", fold, model, "paper"))]
        assert not any("error" in r for r in records)
        assert sum(r["absent"] for r in records if r["criterion"] in ("none", "icl")) == 1


def test_records_hold_what_the_predictions_were(tmp_path):
    data = load_suite("builtin")["wine"]
    (record,) = Worker(PLAN, load_suite("builtin"))(RealTask("wine", "raw", 0, "NB", "default"))
    outcomes = Outcomes.unpack(record["rows"])
    assert len(outcomes.loss) == record["n_test"] == len(data.y) - record["n_train"]
    assert outcomes.correct.mean() == pytest.approx(record["accuracy"])
    assert outcomes.loss.mean() == pytest.approx(record["conditional_entropy"], rel=1e-4)
    json.dumps(record)


# ---------------------------------------------------------------- simulated data


def test_the_simulated_study_resumes_and_knows_the_truth(tmp_path):
    plan = SimulatedPlan(sizes=(60, 200), test_size=300, n_pairs=2, chosen=("iris",))
    iris = load_suite("builtin").only(["iris"])
    summary = run_study(plan, iris, tmp_path / "a")
    assert summary.failures == {}
    _, records = read_study(tmp_path / "a")
    assert len(records) == 2 * 2 * (5 + 4)
    assert len({r["true_components"] for r in records}) == 1
    gold = [r for r in records if r["criterion"] == "gold"]
    assert all(r["n_components"] == r["true_components"] for r in gold)
    assert np.mean([r["accuracy"] for r in gold]) > 0.9
    content = (tmp_path / "a" / "records.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "study.json").write_bytes((tmp_path / "a" / "study.json").read_bytes())
    (tmp_path / "b" / "records.jsonl").write_bytes(b"".join(content[:7]) + content[7][:30])
    run_study(plan, iris, tmp_path / "b")
    assert timeless(tmp_path / "a") == timeless(tmp_path / "b")
