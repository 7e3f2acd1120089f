"""The comparison with other classifiers: what it does to tables, how it stacks, and all of it on toys."""

import json
import re
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks" / "quality"))

import bundles
import linear
import plan
import stack
from analysis import compare, dataset_p, gather, standings
from apart import Failed, apart
from calibration import calibrate, log_softmax, mean_loss
from forests import forest
from linear import logistic
from page import pages
from plan import QualityPlan, QualityTask, rows_of_fold
from problem import Problem
from scenarios import scenario_parts, source, training_labels, training_rows
from settings import AT_TEST
from summary import merged, summary

from fanbayes.datasets import Suite
from fanbayes.evaluation.significance import corrected_t, paired_t
from fanbayes.files.dataset import from_columns
from fanbayes.study.outcomes import Outcomes
from fanbayes.study.records import read_study
from fanbayes.study.runner import run_study


def table(n=60, seed=0):
    rng = np.random.default_rng(seed)
    label = rng.permutation(np.arange(n) % 3)
    columns = {
        "number": rng.normal(size=n) + label,
        "text": np.array(["a", "b", "c"], object)[(label + (rng.random(n) < 0.2)) % 3],
    }
    return from_columns(f"toy{seed}", columns, np.array(["x", "y", "z"], object)[label], "made")


# ---------------------------------------------------------------- scenarios


def parts_of(data, fold=0):
    X, y = data.X, np.searchsorted(data.classes, data.y.astype(str))
    shares = np.bincount(y) / len(y)
    return scenario_parts(AT_TEST, X.iloc[:30].reset_index(drop=True), y[:30], X.iloc[30:], shares, data.name, fold)


def test_scenarios_are_the_same_whenever_they_are_made():
    first, again, other = parts_of(table()), parts_of(table()), parts_of(table(), fold=1)
    for name in AT_TEST:
        pd.testing.assert_frame_equal(first[name].X, again[name].X)
        np.testing.assert_array_equal(first[name].rows, again[name].rows)
    assert not first["missing30"].X.isna().equals(other["missing30"].X.isna())


def test_scenarios_take_away_what_they_say():
    found = parts_of(table(300))
    holes = {name: part.X.isna().to_numpy() for name, part in found.items()}
    assert not holes["complete"].any()
    assert (holes["missing10"] <= holes["missing30"]).all()
    assert (holes["missing30"] <= holes["missing60"]).all()
    assert 0.4 < holes["missing60"].mean() < 0.8
    assert sorted(holes["column"].mean(axis=0)) == [0, 1]
    complete, large = found["complete"].X, holes["large"]
    assert complete["number"][large[:, 0]].min() > complete["number"][~large[:, 0]].max()
    assert set(complete["text"][large[:, 1]]) == set()  # the commonest of the last texts reaches the 70 % point
    assert 0.1 < large[:, 0].mean() < 0.6


def test_a_shift_draws_rows_by_the_shares_that_methods_are_told():
    found = parts_of(table(3000, seed=5))["shift"]
    assert found.prior == pytest.approx(np.array([9, 1, 9]) / 19, abs=0.01)
    data = table(3000, seed=5)
    drawn = np.searchsorted(data.classes, data.y[:30].astype(str))[found.rows]
    assert np.bincount(drawn, minlength=3)[1] < 10


def test_few_rows_have_two_of_each_class_and_noise_keeps_all_classes():
    y = np.repeat([0, 1, 2], [300, 4, 1])
    rows = training_rows("rows50", y, source("toy", 0, "rows50"))
    assert len(rows) == len(set(rows)) == 50
    assert np.bincount(y[rows])[1:].tolist() == [2, 1] or np.bincount(y[rows])[1] > 2
    assert len(training_rows("rows50", y[:20], source("toy", 0, "rows50"))) == 20
    noisy = training_labels("noise10", y, source("toy", 0, "noise10"))
    assert 20 < (noisy != y).sum() <= 31
    assert np.bincount(noisy).min() >= 1
    np.testing.assert_array_equal(training_labels("complete", y, source("toy", 0, "x")), y)


def test_repeated_folds_test_each_row_once_in_each_repetition():
    data = table()
    tested = np.array([rows_of_fold(data, fold) for fold in range(10)])
    assert (tested[:5].sum(axis=0) == 1).all()
    assert (tested[5:].sum(axis=0) == 1).all()
    assert (tested[:5] != tested[5:]).any()


# ---------------------------------------------------------------- peers


def test_calibration_finds_the_temperature_and_is_bounded_where_all_is_right():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(4000, 3))
    y = np.array([rng.choice(3, p=p) for p in np.exp(log_softmax(2 * logits))])
    assert calibrate(logits, y).slope == pytest.approx(2, rel=0.1)
    sure = calibrate(np.eye(3)[[0, 1, 2]] * 5.0, np.array([0, 1, 2]))
    assert 1 < sure.slope < 10
    shifted = logits + np.array([0.0, 1.0, 0.0])
    both = calibrate(shifted, y, offsets=True)
    assert both.offsets[1] - both.offsets[0] == pytest.approx(-2, abs=0.2)
    assert mean_loss(both(shifted), y) < mean_loss(calibrate(shifted, y)(shifted), y)


def test_weights_of_the_stack_maximise_the_likelihood_of_rows_held_out():
    rng = np.random.default_rng(1)
    y = rng.integers(0, 2, 400)
    good, bad, useless = (log_softmax(np.eye(2)[y] * a + rng.normal(size=(400, 2))) for a in (3.0, 1.0, 0.0))
    held_out = {"good": good, "bad": bad, "useless": useless}
    found = stack.weights(held_out, y)
    assert sum(found.values()) == pytest.approx(1)
    assert min(found.values()) >= 0

    def loss(weight):
        return mean_loss(stack.pooled(held_out, weight), y)

    others = ({name: float(name == one) for name in held_out} for one in held_out)
    with np.errstate(divide="ignore"):
        assert all(loss(found) <= loss(other) + 5e-3 for other in others)
    assert found["good"] > 0.5 > found["useless"]
    missing = held_out | {"good": np.where(np.arange(400)[:, None] < 5, np.nan, good)}
    assert stack.weights(missing, y)["good"] == pytest.approx(found["good"], abs=0.05)


def test_no_tree_of_a_forest_votes_zero():
    data = table()
    fitted = forest(Problem(data.kinds, data.X, np.searchsorted(data.classes, data.y.astype(str))))
    scores = fitted.scores(data.X)
    assert np.isfinite(scores).all()
    assert np.exp(scores).sum(axis=1) == pytest.approx(np.ones(60))


def test_what_takes_too_long_or_fails_is_told_of():
    assert apart(lambda: 6 * 7, 10) == 42
    with pytest.raises(Failed, match="ValueError: no"):
        apart(partial(_raise, ValueError("no")), 10)
    with pytest.raises(Failed, match="ended after 1 s"):
        apart(_forever, 1)
    with pytest.raises(
        Failed, match="ended without a result"
    ):  # what cannot be pickled; the process does not go on here
        apart(lambda: lambda: 0, 10)


def _raise(error):
    raise error


def _forever():
    while True:
        pass


# ---------------------------------------------------------------- tests and ranks


def record(method, dataset, fold, loss, **more):
    rows = Outcomes(np.ones(4, bool), np.full(4, loss), np.full(4, np.exp(-loss))).pack()
    about = {"criterion": f"{method} complete", "dataset": dataset, "fold": fold, "n_train": 40, "n_test": 10, "run": 0}
    values = {"conditional_entropy": loss, "accuracy": 0.5, "auc": None, "brier_score": 0.1, "rows": rows}
    return about | values | {"fit_seconds": 1.0, "predict_seconds": 0.1} | more


def test_a_method_that_fails_loses_the_pair_and_nobody_else_the_dataset():
    records = [record("nb", "a", 0, 0.5), record("fan", "a", 0, 0.4), record("stack", "a", 0, 0.3)]
    records += [record("nb", "b", 0, 0.5), record("fan", "b", 0, 0.4), record("stack", "b", 0, 0.0, failed="died")]
    results, groups = gather(records)["complete"], {"a": "a", "b": "b"}
    found = standings(results, ["nb", "fan", "stack"], ["a", "b"], groups)
    ranks = {standing.method: standing.rank["log_loss"] for standing in found.standings}
    assert ranks == {"stack": 2.0, "fan": 1.5, "nb": 2.5}
    means = {standing.method: standing.mean["log_loss"] for standing in found.standings}
    assert means == pytest.approx({"stack": 0.3, "fan": 0.4, "nb": 0.5})
    lost = compare(results, "stack", "nb", ["a", "b"], "log_loss", groups)
    assert (lost.count.wins, lost.count.losses) == (1, 1)
    assert lost.lost() == ["b"]


def test_a_group_of_related_datasets_has_one_vote():
    names = [f"r{k}" for k in range(6)] + ["alone"]
    groups = {name: "related" if name.startswith("r") else name for name in names}
    records = [record("nb", name, 0, 0.5) for name in names]
    records += [record("fan", name, 0, 0.6 if name == "alone" else 0.4) for name in names]
    results = gather(records)["complete"]
    found = compare(results, "fan", "nb", names, "log_loss", groups)
    assert (found.count.wins, found.n_groups, found.p_value) == (6, 2, 1.0)
    table = standings(results, ["nb", "fan"], names, groups)
    assert [standing.rank["log_loss"] for standing in table.standings] == [1.5, 1.5]
    assert table.standings[0].mean["log_loss"] == pytest.approx(0.5)


def test_what_is_not_ranked_takes_no_fold_from_others():
    records = [record(method, "a", fold, 0.5) for method in ("nb", "fan") for fold in range(3)]
    results = gather([*records, record("lightgbm_two", "a", 0, 0.5)])["complete"]
    assert [len(results[method]["a"].folds) for method in ("nb", "fan", "lightgbm_two")] == [3, 3, 1]


def test_one_dataset_is_tested_by_folds_or_else_by_rows():
    first = [record("fan", "a", fold, loss) for fold, loss in enumerate([0.4, 0.5, 0.45])]
    second = [record("nb", "a", fold, loss) for fold, loss in enumerate([0.5, 0.55, 0.6])]
    results = gather(first + second)["complete"]
    expected = corrected_t([0.1, 0.05, 0.15], 10 / 40).p_value
    assert dataset_p(results["fan"]["a"], results["nb"]["a"]) == pytest.approx(expected)
    single = gather([first[0], second[0]])["complete"]
    a, b = single["fan"]["a"], single["nb"]["a"]
    assert dataset_p(a, b) == paired_t(a.loss, b.loss).p_value


# ---------------------------------------------------------------- all of it


@pytest.fixture
def quick(monkeypatch):
    """Two folds, and two peers, one of which fails on the second dataset."""
    monkeypatch.setattr(plan, "OUTER", {2_000: (1, 2, 2)})
    monkeypatch.setattr(linear, "STRENGTHS", (1.0,))

    def fragile(problem):
        if len(problem.y) > 48:
            raise ValueError("too many rows")
        return logistic(problem)

    monkeypatch.setattr(bundles, "PEERS", {"logistic": logistic, "svm": fragile})
    monkeypatch.setitem(bundles.BUNDLES, "peers", ("logistic", "svm", "stack"))


@pytest.mark.usefixtures("quick")
def test_a_toy_suite_from_tables_to_pages(tmp_path):
    pytest.importorskip("jinja2")
    data = [table(60), replace(table(160, seed=1), group="some")]
    suite = Suite("toys", {one.name: partial(_same, one) for one in data}, {})
    toy = QualityPlan(("peers", "nb"), ("test", "rows50", "noise10"))
    run_study(toy, suite, tmp_path / "peers", about={"date": "then", "fanbayes": "1", "commit": "c"})
    head, records = read_study(tmp_path / "peers")
    # Two folds of two datasets, and of these the first once more: with wrong labels, and one with 50 rows, as 50 of 30
    # cannot be taken.
    assert len(records) == 4 * (2 * 2 * len(AT_TEST) + 2 + 1)
    assert not [one for one in records if "error" in one]
    failed = {(one["criterion"].split()[0], one["dataset"]) for one in records if "failed" in one}
    assert failed == {("svm", "toy1")}
    weights = [one["chosen"]["weights"] for one in records if one["criterion"] == "stack complete"]
    assert {tuple(weight) for weight in weights} == {("logistic", "svm"), ("logistic",)}
    # The same again has nothing left to do; another folder may have what is missing here.
    later = {"date": "later", "fanbayes": "1", "commit": "d"}
    again = run_study(toy, suite, tmp_path / "peers", about=later)
    assert again.n_resumed == again.n_tasks
    run_study(QualityPlan(("fm",), ("test",)), suite, tmp_path / "ours", about=later)
    found = summary(*merged([(head, records), read_study(tmp_path / "ours")]), "nb")
    assert [(run["commit"], set(run["records"])) for run in found["runs"]] == [
        ("c", {"logistic", "nb", "stack", "svm"}),
        ("d", {"fm"}),
    ]
    assert {goal["reached"]["all"] and goal["reached"]["all"]["met"] for goal in found["goals"]} == {None, True, False}
    reached = {goal["what"]: goal["reached"]["all"] for goal in found["goals"]}
    told = reached["3. Complete tables: place by mean rank"]["text"]
    assert re.fullmatch(r"\d of 5 \(mean rank \d\.\d\d; [\w -]+ \d\.\d\d, p = [\d.]+\)", told)
    assert {one["method"]: one["n_failed"] for one in found["scopes"][0]["standings"]}["svm"] == 1
    assert found["failures"][0]["why"].startswith("ValueError: too many rows")
    assert [one["key"] for one in found["scenarios"]] == [*AT_TEST, "rows50", "noise10"]
    text = pages(json.loads(json.dumps(found, allow_nan=False)))
    for page in text.values():
        assert "RBF-SVM on toy1" in page
        assert "no half of this suite is kept apart from the design" in page


def _same(data):
    return data


@pytest.mark.usefixtures("quick")
def test_methods_of_a_task_see_the_same_rows():
    task = QualityTask("toy0", 0, 10, "peers", "test", True)
    peers = QualityPlan().execute(task, table())
    ours = QualityPlan().execute(replace(task, bundle="nb"), table())
    assert set(ours) == {f"nb {scenario}" for scenario in AT_TEST}
    for scenario in AT_TEST:
        assert ours[f"nb {scenario}"]["loss_of_shares"] == peers[f"logistic {scenario}"]["loss_of_shares"]
        assert ours[f"nb {scenario}"]["n_test"] == peers[f"stack {scenario}"]["n_test"]
