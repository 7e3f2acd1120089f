"""From records to results of datasets, ranks and tests.

Where two methods are compared, a positive difference favours the first. A method that has failed on a dataset loses
it to all that have not. Related datasets have one vote together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from settings import NOT_RANKED

from fanbayes.evaluation import ranks, significance
from fanbayes.evaluation.ranks import Ranking, by_group, gains
from fanbayes.evaluation.significance import WinLoss
from fanbayes.study.outcomes import Outcomes, reliability_of
from fanbayes.study.records import Record

MEASURES = ("log_loss", "accuracy", "auc", "brier", "ece")
RECORDED = {"log_loss": "conditional_entropy", "accuracy": "accuracy", "auc": "auc", "brier": "brier_score"}
TESTED = ("log_loss", "accuracy", "auc")
MORE_IS_BETTER = ("accuracy", "auc")
LEVEL = 0.05
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Result:
    """One method on one dataset in one scenario, over the folds that all methods compared have records of."""

    folds: Sequence[Record]

    @property
    def failed(self) -> str | None:
        """Why it has no result, if one of its folds has none."""
        return next((record["failed"] for record in self.folds if "failed" in record), None)

    @cached_property
    def measures(self) -> dict[str, float]:
        """Means over rows, of the ROC area over folds; NaN where there is none; the worst there is after a failure.

        The calibration error is that of all rows together: of a fold it would be mostly noise.
        """
        if self.failed:
            return {name: -np.inf if name in MORE_IS_BETTER else np.inf for name in MEASURES}
        weight = self.sizes("n_test")
        found = {}
        for measure, name in RECORDED.items():
            values = self.values(name)
            some = ~np.isnan(values)
            found[measure] = float(np.average(values[some], weights=weight[some])) if some.any() else np.nan
        outcomes = Outcomes.pool(Outcomes.unpack(record["rows"]) for record in self.folds)
        return found | {"ece": float(reliability_of([outcomes], "quantile").calibration_error)}

    def values(self, name: str) -> Floats:
        """Of each fold (n_folds,), NaN where there is none."""
        return np.array([np.nan if record[name] is None else record[name] for record in self.folds], dtype=float)

    def sizes(self, name: str) -> Floats:
        """Rows of each fold (n_folds,), `n_train` or `n_test`."""
        return np.array([record[name] for record in self.folds], dtype=float)

    @cached_property
    def loss(self) -> Floats:
        """Log loss of each row, in the order of folds."""
        return np.concatenate([Outcomes.unpack(record["rows"]).loss for record in self.folds])

    def seconds(self, part: str) -> float:
        """Seconds of a fold, mean; NaN after a failure."""
        return np.nan if self.failed else float(np.mean([record[part] for record in self.folds]))


# Of each method, of each dataset.
Results = Mapping[str, Mapping[str, Result]]


def gather(records: Iterable[Record]) -> dict[str, Results]:
    """Results by scenario, of the folds that all ranked methods with records of the dataset have; of others, some."""
    parts: defaultdict[str, defaultdict[str, defaultdict[str, dict[int, Record]]]]
    parts = defaultdict(lambda: defaultdict(lambda: defaultdict(dict)))
    for record in records:
        if "error" not in record:
            method, scenario = record["criterion"].split()
            parts[scenario][record["dataset"]][method][record["fold"]] = record
    found: dict[str, Results] = {}
    for scenario, datasets in parts.items():
        results: defaultdict[str, dict[str, Result]] = defaultdict(dict)
        for dataset, methods in datasets.items():
            ranked = [set(folds) for method, folds in methods.items() if method not in NOT_RANKED]
            shared = set.intersection(*ranked) if ranked else set()
            for method, folds in methods.items():
                if there := sorted(shared & folds.keys()):
                    results[method][dataset] = Result([folds[fold] for fold in there])
        found[scenario] = results
    return found


def common(results: Results, methods: Iterable[str], datasets: Iterable[str]) -> list[str]:
    """Those of the datasets that all the methods have been run on."""
    return [name for name in datasets if all(name in results.get(method, {}) for method in methods)]


def scores(results: Results, methods: Sequence[str], datasets: Sequence[str], measure: str) -> Floats:
    """Larger is better (n_datasets, n_methods), -inf after a failure; datasets without the measure are all alike."""
    table = np.array([[results[method][name].measures[measure] for method in methods] for name in datasets])
    table = table if measure in MORE_IS_BETTER else -table
    table[np.isnan(table).any(axis=1)] = 0.0
    return table


# ---------------------------------------------------------------- all methods


@dataclass(frozen=True)
class Standing:
    """One method over several datasets.

    Attributes
    ----------
    mean, median : by measure, over the datasets on which the method has not failed, each group having one vote in the
        mean: those of a method that has failed are not comparable
    rank : by measure, means over groups, of all datasets
    fit_s, predict_s : seconds of a fold, medians
    """

    method: str
    mean: Mapping[str, float]
    median: Mapping[str, float]
    rank: Mapping[str, float]
    fit_s: float
    predict_s: float
    n_failed: int


@dataclass(frozen=True)
class Table:
    """All methods on the same datasets: the standings, best first, and which of them do not differ in log loss."""

    standings: Sequence[Standing]
    ranking: Ranking
    order: Sequence[int]
    alike: Sequence[Sequence[int]]


def standings(
    results: Results, methods: Sequence[str], datasets: Sequence[str], groups: Mapping[str, str]
) -> Table | None:
    """All methods on the same datasets; None if there are none."""
    if not datasets or len(methods) < 2:
        return None
    votes = [groups[name] for name in datasets]
    ranked = {m: ranks.mean_ranks(scores(results, methods, datasets, m), votes) for m in MEASURES}
    found = []
    for k, method in enumerate(methods):
        fine = [name for name in datasets if not results[method][name].failed]
        values = {m: np.array([results[method][name].measures[m] for name in fine]) for m in MEASURES}
        kept = {m: ~np.isnan(v) for m, v in values.items()}
        means = {
            m: float(by_group(v[kept[m]], [groups[n] for n, k in zip(fine, kept[m]) if k]).mean())
            if kept[m].any()
            else np.nan
            for m, v in values.items()
        }
        seconds = [
            np.array([results[method][n].seconds(p) for n in datasets]) for p in ("fit_seconds", "predict_seconds")
        ]
        found.append(
            Standing(
                method,
                means,
                {m: float(np.median(v[kept[m]])) if kept[m].any() else np.nan for m, v in values.items()},
                {m: float(ranked[m][k]) for m in MEASURES},
                *(float(np.nanmedian(s)) if not np.isnan(s).all() else np.nan for s in seconds),
                sum(results[method][name].failed is not None for name in datasets),
            )
        )
    ranking = ranks.ranking(scores(results, methods, datasets, "log_loss"), votes)
    order = np.argsort(ranking.ranks, kind="stable").tolist()
    place = {k: position for position, k in enumerate(order)}
    alike = [sorted(place[k] for k in group) for group in ranking.groups(LEVEL)]
    return Table([found[k] for k in order], ranking, order, alike)


# ---------------------------------------------------------------- two methods


@dataclass(frozen=True)
class Comparison:
    """A method against another by one measure.

    Attributes
    ----------
    differences : ndarray of shape (n_datasets,)
        Infinite where one has failed.
    count : WinLoss
        Datasets.
    p_values : ndarray of shape (n_datasets,)
        Of each dataset, by a test that knows that folds share rows; 0 where one has failed, of the log loss only.
    n_groups : int
    statistic, p_value : float
        Of the signed-rank test over groups; the statistic is positive where the first is better.
    """

    first: str
    second: str
    measure: str
    datasets: Sequence[str]
    differences: Floats
    count: WinLoss
    p_values: Floats
    n_groups: int
    statistic: float
    p_value: float

    def lost(self, level: float = LEVEL, *, corrected: bool = False) -> list[str]:
        """Datasets on which the first is significantly worse, after Holm's correction over datasets if need be."""
        p = significance.holm(self.p_values) if corrected else self.p_values
        return [name for name, d, q in zip(self.datasets, self.differences, p) if d < 0 and q <= level]


def compare(
    results: Results, first: str, second: str, datasets: Iterable[str], measure: str, groups: Mapping[str, str]
) -> Comparison | None:
    """Compare two methods on those of the datasets that both were run on; None if there are none."""
    names = common(results, (first, second), datasets)
    names = [n for n in names if not np.isnan([results[m][n].measures[measure] for m in (first, second)]).any()]
    if not names:
        return None
    table = scores(results, (first, second), names, measure)
    difference = np.round(gains(table[:, 0], table[:, 1]), 9)
    votes = by_group(difference, [groups[name] for name in names])
    test = significance.signed_rank(votes)
    tests = measure == "log_loss"
    p_values = [dataset_p(results[first][n], results[second][n]) if tests else np.nan for n in names]
    return Comparison(
        first,
        second,
        measure,
        names,
        difference,
        significance.win_loss(difference),
        np.array(p_values),
        len(votes),
        test.statistic,
        test.p_value,
    )


def dataset_p(first: Result, second: Result) -> float:
    """p-value of the difference in log loss on one dataset.

    By the corrected resampled t test over folds; where there is one fold only, by a paired t test over its rows.
    """
    if first.failed or second.failed:
        return 1.0 if first.failed and second.failed else 0.0
    if len(first.folds) == 1:
        return significance.paired_t(first.loss, second.loss).p_value if len(first.loss) > 1 else 1.0
    gain = second.values("conditional_entropy") - first.values("conditional_entropy")
    ratio = float(np.mean(first.sizes("n_test") / first.sizes("n_train")))
    return significance.corrected_t(gain, ratio).p_value


def against_each(
    results: Results,
    first: str,
    others: Sequence[str],
    datasets: Sequence[str],
    measure: str,
    groups: Mapping[str, str],
) -> list[tuple[Comparison, float]]:
    """A method against each of the others, with p-values after Holm's correction."""
    found = [compare(results, first, other, datasets, measure, groups) for other in others]
    comparisons = [comparison for comparison in found if comparison is not None]
    if not comparisons:
        return []
    return list(zip(comparisons, significance.holm([comparison.p_value for comparison in comparisons]).tolist()))


def time_ratios(
    results: Results, first: str, second: str, datasets: Sequence[str], part: str
) -> list[tuple[str, float]]:
    """Of each dataset that both have finished, the ratio of the seconds of a part."""
    names = common(results, (first, second), datasets)
    pairs = [(name, results[first][name].seconds(part), results[second][name].seconds(part)) for name in names]
    return [(name, a / max(b, 1e-4)) for name, a, b in pairs if not np.isnan([a, b]).any()]
