"""The comparison of all models: which are run, who loses where one has failed, and what the page says of it."""

from dataclasses import asdict

import numpy as np
import pytest
from sklearn.pipeline import Pipeline
from test_study_analysis import card, outcomes, record
from typer.testing import CliRunner

from fanbayes.cli import app
from fanbayes.datasets import load_suite
from fanbayes.study import relatives
from fanbayes.study.cards import describe
from fanbayes.study.models import RELATIVES, relative
from fanbayes.study.real import RelativesPlan, RelativeTask
from fanbayes.study.records import StudyError, read_study
from fanbayes.study.relatives import compare, ranks_by_kind, scopes, standings
from fanbayes.study.report import page
from fanbayes.study.runner import Worker, run_study

ENVIRONMENT = {"date": "2026-11-16", "fanbayes": "1.2.3", "commit": "abc1234"}


def made(name, model, right, version="raw", seconds=1.0, **more):
    """A record of a model that is right on so many of 40 rows."""
    correct = np.arange(40) < right
    rows = outcomes(correct, np.where(correct, 0.1, 2.0))
    facts = {"preset": "default", "criterion": "none", "brier_score": 1 - right / 40, "run": 0} | more
    return record(name, model, rows, version=version, seconds=seconds, **facts)


def failed(name, model, version="raw"):
    about = {"dataset": name, "version": version, "fold": 0, "model": model, "preset": "default", "criterion": "none"}
    return about | {"error": "ValueError: too few rows (in fanbayes)", "run": 0}


CARDS = (
    card("a", rows=50),
    card("b", continuous=2),
    card("kin", rows=60, group="g"),
    card("elder", rows=90, group="g"),
    card("huge", rows=10**6),
)
RIGHT = {
    "a": {"NB": 20, "FAN": 30, "Boosted NB": 38},
    "b": {"NB": 30, "FAN": 30, "Boosted NB": None},
    "kin": {"NB": 10, "FAN": 12, "Boosted NB": 11},
    "elder": {"NB": 10, "FAN": 14, "Boosted NB": 9},
}
RECORDS = [
    failed(name, model) if right is None else made(name, model, right, seconds=1.0 if model == "NB" else 8.0)
    for name, models in RIGHT.items()
    for model, right in models.items()
]
RECORDS += [made("b", model, 25, version="discretised") for model in ("NB", "FAN", "Boosted NB")]


def head(*cards, folds=1):
    datasets = {c.name: asdict(c) for c in cards or CARDS}
    about = {"study": "relatives", "fanbayes": "1.2.3", "suite": "toy", "seed": 0, "broken": {}}
    return about | {"datasets": datasets, "folds": folds, "environments": [ENVIRONMENT]}


@pytest.fixture
def found():
    return scopes(head(), RECORDS)


# ---------------------------------------------------------------- what is run


@pytest.mark.parametrize("model", RELATIVES)
def test_every_model_is_run_on_both_versions_with_its_defaults(model):
    suite = load_suite("builtin")
    for version in ("raw", "discretised"):
        fitted = relative(model, version, seed=3)
        own = (fitted[-1] if isinstance(fitted, Pipeline) else fitted).get_params()
        assert own["n_jobs"] == 1
        assert own.get("random_state", 3) == 3
        cut = isinstance(fitted, Pipeline) or own.get("discretize") == "mdlp"
        assert cut or version == "raw"
        (outcome,) = Worker(RelativesPlan(n_folds=3), suite)(RelativeTask("iris", version, 0, model))
        assert "error" not in outcome
        assert outcome["accuracy"] > 0.8
        assert outcome["criterion"] == "none"
        assert outcome["fit_seconds"] > 0


def test_a_model_may_join_the_others_later_and_nothing_is_run_twice(tmp_path):
    suite = load_suite("builtin").only(["lenses"])
    first = run_study(RelativesPlan(("NB",), n_folds=3), suite, tmp_path, about={"commit": "one"})
    both = run_study(RelativesPlan(("NB", "FAN"), n_folds=3), suite, tmp_path, about={"commit": "two"})
    assert (first.n_tasks, both.n_tasks, both.n_resumed) == (3, 6, 3)
    content = relatives.content(*read_study(tmp_path))
    assert [(run["commit"], run["records"]) for run in content["runs"]] == [("one", {"NB": 3}), ("two", {"FAN": 3})]


def test_large_datasets_are_known_but_not_run():
    iris = describe(load_suite("builtin")["iris"])
    assert RelativesPlan(most_values=599).tasks(iris) == []
    assert RelativesPlan(most_values=599).choose([iris]) == [iris]
    assert len(RelativesPlan(("NB", "FAN"), most_values=600).tasks(iris)) == 2 * 10 * 2


def test_models_are_chosen_by_the_names_of_the_commands(tmp_path):
    def run(*arguments):
        words = ["study", "real", "--only", "lenses", "--folds", "2", "--jobs", "1", "--out", str(tmp_path), *arguments]
        return CliRunner().invoke(app, words)

    result = run("--models", "fan,nb")
    assert result.exit_code == 0, result.output
    assert "4 tasks, 0 of them done before, 0 failed." in result.stderr
    assert "unrelated datasets" in result.stdout
    wrong = run("--models", "nb,fann")
    assert wrong.exit_code == 2
    assert "no model 'fann'" in wrong.stderr
    assert run("--most-values", "10").exit_code == 2


# ---------------------------------------------------------------- what is counted


def test_related_datasets_count_once_and_versions_apart(found):
    whole, raw, discretised = found
    assert [case.name for case in whole.cases] == ["a", "b", "b (discretised)", "elder", "kin"]
    assert {case.name for case in raw.cases} == {"a", "b", "elder"}
    assert {case.name for case in discretised.cases} == {"a", "b (discretised)", "elder"}
    assert raw.models == ["NB", "FAN", "Boosted NB"]


def test_who_fails_loses_and_takes_the_dataset_from_nobody(found):
    _, raw, _ = found
    accuracy = compare(raw, "FAN", "NB", "accuracy")
    assert (accuracy.all.wins, accuracy.all.losses, accuracy.all.ties) == (2, 0, 1)
    boosted = compare(raw, "Boosted NB", "NB", "accuracy")
    assert (boosted.all.wins, boosted.all.losses) == (1, 2)
    # 18 rows of "a" are significant and so is the failure on "b"; one row of "elder" is not.
    assert [(level.wins, level.losses) for level in boosted.levels] == [(1, 1), (1, 1)]
    turned = compare(raw, "NB", "Boosted NB", "accuracy")
    assert (turned.all.wins, turned.all.losses) == (2, 1)
    assert compare(raw, "FAN", "NB", "brier_score").levels == ()
    assert compare(raw, "FAN", "NB", "roc_area") is None


def test_standings(found):
    _, raw, _ = found
    table = {s.model: s for s in standings(raw)}
    # Ranks on a, b and elder: FAN 2, 1.5, 1; NB 3, 1.5, 2; boosted NB 1, 3, 3.
    assert {m: s.rank["accuracy"] for m, s in table.items()} == pytest.approx(
        {"FAN": 4.5 / 3, "NB": 6.5 / 3, "Boosted NB": 7 / 3}
    )
    assert (table["Boosted NB"].n_failed, table["NB"].n_failed) == (1, 0)
    assert table["FAN"].mean["accuracy"] == pytest.approx((30 + 14) / 80)  # without "b", where one has failed
    assert table["NB"].median["brier_score"] == pytest.approx(1 - (20 + 10) / 80)
    assert "roc_area" not in table["FAN"].mean
    assert (table["NB"].slower, table["FAN"].slower) == (1, 8)


def test_cases_that_a_model_has_not_reached_wait():
    whole, *_ = scopes(head(), [r for r in RECORDS if (r["dataset"], r["model"]) != ("a", "FAN")])
    assert "a" not in [case.name for case in whole.cases]


def test_ranks_by_kind_of_data():
    cards = [card(f"d{i}", rows=100 + 300 * (i % 2)) for i in range(8)]
    records = [made(c.name, model, right) for c in cards for model, right in (("NB", 20), ("FAN", 25))]
    _, raw, _ = scopes(head(*cards), records)
    rows = {(split, part): (n, ranks) for split, part, n, ranks in ranks_by_kind(raw, "accuracy")}
    assert rows["Rows", "below 300"] == (4, [2.0, 1.0])
    assert rows["Features", "discrete"][0] == 8
    assert ("Features", "mixed") not in rows


# ---------------------------------------------------------------- the page


def test_the_page_tells_what_failed_what_was_left_out_and_which_code():
    html = page({"relatives": (head(), RECORDS)})
    text = " ".join(html.split())
    assert "<h1>FAN and its relatives</h1>" in text
    assert "Boosted NB on b (raw, 1 folds)" in text
    assert "huge (1000000 rows × 2)" in text
    assert "Records of Boosted NB, FAN, NB are of commit abc1234, 2026-11-16." in text
    assert text.count('aria-label="Mean rank in conditional entropy"') == 2
    assert "ValueError: too few rows" in text
    assert 'id="claims"' not in text


def test_a_study_without_a_finished_dataset_says_so():
    with pytest.raises(StudyError, match="no dataset has been finished by all models"):
        relatives.content(head(), [failed("a", "NB")])
