"""Tables from a few records made by hand, whose numbers can be counted on paper."""

from dataclasses import asdict

import numpy as np
import pytest
from scipy import stats

from fanbayes.evaluation.significance import WinLoss
from fanbayes.study import analysis
from fanbayes.study.analysis import COLUMNS, MAIN
from fanbayes.study.cards import Card
from fanbayes.study.models import CRITERIA
from fanbayes.study.outcomes import Outcomes, reliability_of


def card(name, *, rows=40, discrete=2, continuous=0, classes=3, split=False, group=None) -> Card:
    return Card(name, rows, rows, discrete, continuous, classes, 5, split, group, name)


def outcomes(correct, loss) -> Outcomes:
    correct = np.array(correct, bool)
    loss = np.full(len(correct), loss) if np.isscalar(loss) else np.array(loss)
    return Outcomes(correct, loss, np.where(correct, np.exp(-loss), 0.6))


def record(name, model, rows: Outcomes, *, fold=0, version="raw", components=1, seconds=1.0, preset="paper", **more):
    return {
        "dataset": name,
        "version": version,
        "fold": fold,
        "model": model,
        "preset": preset,
        "criterion": "none" if model == "NB" else "icl",
        "n_test": len(rows.correct),
        "n_components": components,
        "capped": False,
        "accuracy": float(rows.correct.mean()),
        "conditional_entropy": float(rows.loss.mean()),
        "clipped": 0,
        "absent": 0,
        "fit_seconds": seconds,
        "search_seconds": seconds**2,
        "predict_seconds": seconds / 10,
        "rows": rows.pack(),
    } | more


def head(*cards, folds=1):
    return {"datasets": {c.name: asdict(c) for c in cards}, "folds": folds}


def three(name, nb, fm, fan, version="raw", components=2):
    """Records of the three classifiers, right on so many of 40 rows; a right row loses 0.1, a wrong one 2."""
    made = []
    for model, right, r, seconds in (("NB", nb, 1, 1.0), ("FM", fm, 4, 30.0), ("FAN", fan, components, 20.0)):
        correct = np.arange(40) < right
        rows = outcomes(correct, np.where(correct, 0.1, 2.0))
        made.append(record(name, model, rows, version=version, components=r, seconds=seconds))
    return made


CARDS = (
    card("win"),
    card("tie"),
    card("big", rows=400, split=True, continuous=1),
    card("kin", rows=300, group="g"),
    card("elder", rows=900, group="g"),
)
RECORDS = [
    *three("win", 20, 15, 38),
    *three("tie", 30, 20, 30, components=1),
    *three("big", 30, 10, 24),
    *three("big", 25, 10, 26, version="discretised"),
    *three("kin", 30, 20, 31),
    *three("elder", 30, 20, 33),
]


@pytest.fixture
def cases():
    return analysis.gather(head(*CARDS), RECORDS)


def test_cases_are_datasets_and_their_discretised_versions(cases):
    assert [case.name for case in cases] == ["big", "big (discretised)", "elder", "kin", "tie", "win"]
    assert [case.kind for case in cases] == ["mixed", "discretised", *["discrete"] * 4]


def test_wins_and_losses(cases):
    table = {(row.measure, row.first, row.second): row for row in analysis.count_table(cases, MAIN)}
    row = table["accuracy", "FAN", "NB"]
    assert (row.all.wins, row.all.losses, row.all.ties) == (4, 1, 1)
    # Rows are nested, so b or c alone counts: 18 and 6 rows are significant at 95 %, 3 and 1 are not.
    assert [(level.wins, level.losses) for level in row.levels] == [(1, 1), (1, 0)]
    assert row.paper == ("23/14", "14/1", "14/0")
    assert row.one_component == 1
    entropy = table["conditional_entropy", "FAN", "NB"]
    assert (entropy.all.wins, entropy.all.losses, entropy.all.ties) == (4, 1, 1)
    assert ("roc_area", "FAN", "NB") not in table


def test_the_tests_on_one_dataset_are_those_of_significance(cases):
    (found,) = (c for c in analysis.compare(cases, MAIN, "FAN", "NB", "conditional_entropy") if c.case.name == "win")
    loss = np.where(np.arange(40) < 38, 0.1, 2.0), np.where(np.arange(40) < 20, 0.1, 2.0)
    expected = stats.ttest_rel(loss[1], loss[0])
    assert found.p_value == pytest.approx(expected.pvalue, rel=1e-4)
    assert found.difference == pytest.approx(1.9 * 18 / 40)


def test_across_datasets(cases):
    rows = {(r.first, r.second, r.subset): r for r in analysis.across_table(cases, MAIN)}
    whole = rows["FAN", "NB", "all"]
    assert (whole.n_cases, whole.magnitude.n, whole.magnitude.zeros) == (6, 5, 1)
    # Ranks of 18, -6, 1, 1, 3 are 5, 4, 1.5, 1.5, 3: six of the 32 sets of ranks sum to 4 or less.
    assert whole.magnitude.p_value == pytest.approx(2 * 6 / 32)
    assert whole.paper == ("0.008", "0.0003")
    # One of the related two, one version of the one with continuous features.
    assert rows["FAN", "NB", "independent, raw"].n_cases == 4
    names = {case.name for case in analysis.independent(cases, "discretised")}
    assert names == {"big (discretised)", "elder", "tie", "win"}


def test_splits(cases):
    rows = {(split, part): (n, found) for split, part, n, found in analysis.split_table(cases, MAIN)}
    assert ("Class", "two values") not in rows
    n, found = rows["Protocol", "donors' split"]
    assert n == 2
    assert (found["accuracy"].all.wins, found["accuracy"].all.losses) == (1, 1)
    assert found["roc_area"] is None
    assert rows["Rows", "below 300"][0] == 2
    assert rows["Features", "discretised"][0] == 1


def test_components_and_times(cases):
    summary = analysis.component_summary(cases, MAIN)
    assert summary.fewer.wins == 6
    assert sorted(summary.fan) == [1, 2, 2, 2, 2, 2]
    times = {(row.model, row.part): row for row in analysis.time_table(cases, MAIN)}
    assert times["FAN", "training"].mean == pytest.approx(20)
    assert times["FM", "training"].quartiles == pytest.approx((30, 30, 30))
    assert times["FM", "training without reading the table"].of_totals == pytest.approx(900)
    assert times["FAN", "prediction"].expected == 2
    assert times["FM", "prediction"].expected == 1.5
    assert ("FM", "prediction of 1000 rows and more") not in times


def test_what_is_lost_raw_and_won_back_discretised(cases):
    assert analysis.won_back(cases, MAIN) == analysis.WonBack(lost=("big",), won_back=("big",))


def test_a_classifier_that_failed_on_a_fold_has_no_result_there():
    folds = [record("win", "NB", outcomes([True] * 4, 0.1), fold=fold) for fold in range(2)]
    failed = folds[1] | {"error": "no memory"}
    assert analysis.gather(head(card("win"), folds=2), [folds[0], failed])[0].result("NB", MAIN) is None
    assert analysis.gather(head(card("win"), folds=2), folds)[0].result("NB", MAIN).n_tested == 8


def test_folds_are_pooled_by_their_rows():
    small, large = outcomes([True, False], 1.0), outcomes([True] * 6, 0.2)
    made = [record("win", "NB", small, fold=0), record("win", "NB", large, fold=1)]
    (case,) = analysis.gather(head(card("win"), folds=2), made)
    result = case.result("NB", MAIN)
    assert result.mean("accuracy") == pytest.approx(7 / 8)
    assert result.mean("conditional_entropy") == pytest.approx((2 * 1.0 + 6 * 0.2) / 8)
    assert result.outcomes.correct.sum() == 7


def test_roc_areas_are_compared_for_two_classes():
    positive = np.arange(20) % 2 == 1
    rng = np.random.default_rng(0)
    made = []
    for model, signal in (("NB", 1.0), ("FM", 0.0), ("FAN", 3.0)):
        odds = np.where(positive, signal, -signal) + rng.normal(size=20)
        loss = np.logaddexp(0, np.where(positive, -odds, odds))
        made.append(record("two", model, Outcomes((odds > 0) == positive, loss, loss, odds, positive)))
    cases = analysis.gather(head(card("two", classes=2)), made)
    found = analysis.compare(cases, MAIN, "FAN", "FM", "roc_area")
    assert found[0].difference > 0
    fan, fm = (cases[0].result(model, MAIN).roc_area for model in ("FAN", "FM"))
    assert found[0].difference == pytest.approx(fan - fm)


def test_reliability_and_calibration_error():
    half_right = Outcomes(np.arange(10) < 5, np.full(10, 0.7), np.full(10, 0.9))
    sure = Outcomes(np.ones(1000, bool), np.full(1000, 0.0), np.ones(1000))
    curve = reliability_of([half_right, sure])
    np.testing.assert_allclose(curve.predicted, [0.9, 1.0])
    np.testing.assert_allclose(curve.observed, [0.5, 1.0])
    assert curve.count[0] == pytest.approx(curve.count[1])  # both datasets weigh the same
    (case,) = analysis.gather(head(card("win")), [record("win", "NB", outcomes(np.arange(10) < 5, -np.log(0.8)))])
    assert case.result("NB", MAIN).calibration_error == pytest.approx(0.5 * 0.2 + 0.5 * 0.6, abs=1e-4)


def test_columns_are_told_apart():
    made = [record("win", m, outcomes([True], 0.1), preset=p) for m in ("NB", "FAN") for p in ("paper", "default")]
    (case,) = analysis.gather(head(card("win")), made)
    assert case.result("FAN", COLUMNS[-1]).folds[0]["preset"] == "default"
    assert case.result("FAN", COLUMNS[1]) is None
    assert case.result("NB", COLUMNS[1]) is not None


# ---------------------------------------------------------------- simulated data


def simulated(dataset, pair, criterion, r, accuracy, size=100, true=3, preset="paper"):
    return {
        "dataset": dataset,
        "size": size,
        "pair": pair,
        "preset": preset,
        "criterion": criterion,
        "n_components": r,
        "true_components": true,
        "accuracy": accuracy,
        "conditional_entropy": 1 - accuracy,
        "roc_area": accuracy if dataset == "two" else None,
    }


def test_means_by_criterion():
    records = [simulated("two", 0, "icl", 3, 0.9), simulated("many", 0, "icl", 1, 0.7)]
    records += [simulated("two", 0, "gold", 3, 1.0), simulated("two", 0, "aic", 6, 0.5) | {"error": "no memory"}]
    gold, icl = analysis.simulated_table(records, "paper")
    assert gold.criterion == "gold"
    assert (icl.n, icl.accuracy, icl.roc_area) == (2, pytest.approx(0.8), 0.9)
    assert (icl.distance, icl.signed, icl.exact) == (1.0, -1.0, 0.5)


def test_correlations_pooled_and_within():
    # Within a dataset each component too many costs accuracy; the harder dataset is nearer to the truth.
    records = []
    for pair in range(5):
        for criterion, gap in zip(CRITERIA, (0, 1, 2, 3)):
            records.append(simulated("two", pair, criterion, 3 + gap + 3, 0.9 - 0.01 * gap))
            records.append(simulated("many", pair, criterion, 3 + gap, 0.5 - 0.01 * gap))
    rows = {row.measure: row for row in analysis.correlation_table(records, "paper")}
    assert rows["accuracy"].pooled > 0.4
    assert rows["accuracy"].within == pytest.approx(-1)
    assert rows["conditional_entropy"].within == pytest.approx(-1)
    assert (rows["accuracy"].negative, rows["accuracy"].n_cells) == (2, 2)
    assert rows["roc_area"].n == 20
    good = [r["accuracy"] for r in records]
    gap = [abs(r["n_components"] - 3) for r in records]
    assert rows["accuracy"].pooled == pytest.approx(stats.spearmanr(good, gap).statistic)


@pytest.mark.parametrize(
    ("won", "lost", "verdict"),
    [(47, 20, "agrees"), (2, 10, "differs"), (35, 34, "undecided"), (5, 0, "undecided"), (0, 0, "undecided")],
)
def test_a_claim_of_wins_is_undecided_where_chance_explains_them(won, lost, verdict):
    """35 won and 34 lost is no agreement, p = 1; nor are five wins of five, p = 0.06."""
    assert analysis.more_won(WinLoss(won, lost, 3)).verdict == verdict


@pytest.mark.parametrize(
    ("first", "second", "verdict"),
    [((24, 4), (23, 16), "agrees"), ((7, 0), (6, 0), "undecided"), ((3, 17), (17, 3), "differs")],
)
def test_shares_of_wins_are_undecided_where_they_hardly_differ(first, second, verdict):
    assert analysis.larger_share_won(WinLoss(*first, 0), WinLoss(*second, 0)).verdict == verdict


@pytest.mark.parametrize(
    ("gaps", "verdict"),
    [((0, 1, 2, 3), "agrees"), ((1, 0, 2, 3), "differs"), ((0, 0, 2, 3), "undecided")],
)
def test_icl_is_best_only_if_it_is_ahead_of_every_criterion(gaps, verdict):
    """Accuracy falls with each component too many; gaps of ICL, BIC, AIC and CS."""
    records = [
        simulated("two", pair, criterion, 3 + gap, 0.9 - 0.01 * gap)
        for pair in range(9)
        for criterion, gap in zip(CRITERIA, gaps)
    ]
    for name in ("accuracy", "roc_area", "conditional_entropy", "distance"):
        assert analysis.icl_is_best(records, "paper", name).verdict == verdict
    assert analysis.icl_is_best(records, "default", "accuracy") is None
