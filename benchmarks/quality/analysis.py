"""From records to results of datasets, ranks and tests.

Where two methods are compared, a positive difference favours the first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fanbayes.evaluation import ranks, significance
from fanbayes.evaluation.significance import WinLoss
from fanbayes.study.outcomes import Outcomes, reliability_of
from fanbayes.study.records import Record

MEASURES = ("log_loss", "accuracy", "auc", "brier", "ece")
RECORDED = {"log_loss": "conditional_entropy", "accuracy": "accuracy", "auc": "auc", "brier": "brier_score"}
MORE_IS_BETTER = ("accuracy", "auc")
LEVEL = 0.99


@dataclass(frozen=True)
class Result:
    """One method on one dataset, all folds together.

    Attributes
    ----------
    measures : mapping of each of MEASURES to a number, NaN where there is none
        Means over rows; the ROC area over folds weighted by rows; the calibration error of all rows together.
    fit_s, predict_s : float
        Seconds of a fold, mean.
    loss : ndarray of shape (n_tested,)
        Log loss of each row, in the order of folds.
    """

    measures: Mapping[str, float]
    fit_s: float
    predict_s: float
    loss: NDArray[np.float64]


# Of each method, of each dataset.
Results = Mapping[str, Mapping[str, Result]]


def gather(records: Iterable[Record]) -> Results:
    """Results of the methods on the datasets whose folds are all there."""
    parts: defaultdict[tuple[str, str], dict[int, Record]] = defaultdict(dict)
    for record in records:
        if "error" not in record:
            parts[record["method"], record["dataset"]][record["fold"]] = record
    found: defaultdict[str, dict[str, Result]] = defaultdict(dict)
    for (method, dataset), folds in parts.items():
        if all(len(folds) == record["n_folds"] for record in folds.values()):
            found[method][dataset] = _pool([folds[fold] for fold in sorted(folds)])
    return found


def _pool(folds: Sequence[Record]) -> Result:
    outcomes = Outcomes.pool(Outcomes.unpack(record["rows"]) for record in folds)
    weight = np.array([record["n_test"] for record in folds], dtype=float)

    def mean(name: str) -> float:
        values = np.array([np.nan if record[name] is None else record[name] for record in folds], dtype=float)
        some = ~np.isnan(values)
        return float(np.average(values[some], weights=weight[some])) if some.any() else np.nan

    measures = {measure: mean(name) for measure, name in RECORDED.items()}
    measures["ece"] = reliability_of([outcomes], "quantile").calibration_error  # of a fold it would be mostly noise
    seconds = (float(np.mean([record[name] for record in folds])) for name in ("fit_seconds", "predict_seconds"))
    return Result(measures, *seconds, outcomes.loss)


def common(results: Results, methods: Iterable[str], datasets: Iterable[str]) -> list[str]:
    """Those of the datasets that all the methods have finished."""
    return [name for name in datasets if all(name in results[method] for method in methods)]


# ---------------------------------------------------------------- all methods


@dataclass(frozen=True)
class Standing:
    """One method over several datasets: means and medians by measure, mean ranks, median seconds of a fold."""

    method: str
    mean: Mapping[str, float]
    median: Mapping[str, float]
    rank: Mapping[str, float]
    fit_s: float
    predict_s: float


def standings(results: Results, methods: Sequence[str], datasets: Sequence[str]) -> list[Standing]:
    """All methods on the same datasets, by mean rank in log loss; methods that tie share their mean rank."""
    if not datasets:
        return []
    by_measure = {measure: mean_ranks(results, methods, datasets, measure) for measure in MEASURES}
    found = []
    for k, method in enumerate(methods):
        chosen = [results[method][name] for name in datasets]
        values = {measure: [result.measures[measure] for result in chosen] for measure in MEASURES}
        found.append(
            Standing(
                method,
                {measure: float(np.nanmean(v)) for measure, v in values.items()},
                {measure: float(np.nanmedian(v)) for measure, v in values.items()},
                {measure: float(by_measure[measure][k]) for measure in MEASURES},
                float(np.median([result.fit_s for result in chosen])),
                float(np.median([result.predict_s for result in chosen])),
            )
        )
    return sorted(found, key=lambda standing: standing.rank["log_loss"])


def mean_ranks(results: Results, methods: Sequence[str], datasets: Sequence[str], measure: str) -> NDArray[np.float64]:
    """Mean rank of each method (n_methods,), 1 the best; equal within rounding is a tie."""
    table = np.array([[results[method][name].measures[measure] for method in methods] for name in datasets])
    scores = table if measure in MORE_IS_BETTER else -table
    return ranks.mean_ranks(scores[~np.isnan(scores).any(axis=1)])


# ---------------------------------------------------------------- two methods


@dataclass(frozen=True)
class Comparison:
    """A method against another by one measure.

    Attributes
    ----------
    differences : ndarray of shape (n_datasets,)
    count : WinLoss
    significant : WinLoss or None
        Datasets won and lost at 99 %, by a paired t test over rows; of the log loss only.
    p_value : float
        Of the signed-rank test over datasets.
    """

    first: str
    second: str
    measure: str
    datasets: Sequence[str]
    differences: NDArray[np.float64]
    count: WinLoss
    significant: WinLoss | None
    p_values: NDArray[np.float64] | None
    p_value: float

    @property
    def lost(self) -> list[str]:
        """Datasets lost at 99 %."""
        if self.p_values is None:
            return []
        worse = (self.differences < 0) & (self.p_values <= round(1 - LEVEL, 12))
        return [name for name, is_worse in zip(self.datasets, worse) if is_worse]


def compare(results: Results, first: str, second: str, datasets: Sequence[str], measure: str) -> Comparison | None:
    """Compare two methods on those of the datasets that both have finished; None if there are none."""
    pairs = [(name, results[first][name], results[second][name]) for name in common(results, (first, second), datasets)]
    pairs = [pair for pair in pairs if not np.isnan([pair[k].measures[measure] for k in (1, 2)]).any()]
    if not pairs:
        return None
    sign = 1 if measure in MORE_IS_BETTER else -1
    gains = np.round([sign * (a.measures[measure] - b.measures[measure]) for _, a, b in pairs], 9)
    p_values = significant = None
    if measure == "log_loss":
        p_values = np.array([significance.paired_t(a.loss, b.loss).p_value for _, a, b in pairs])
        significant = significance.win_loss(gains, p_values, LEVEL)
    return Comparison(
        first,
        second,
        measure,
        [name for name, _, _ in pairs],
        gains,
        significance.win_loss(gains),
        significant,
        p_values,
        significance.signed_rank(gains).p_value,
    )


def against_each(
    results: Results, first: str, others: Sequence[str], datasets: Sequence[str], measure: str
) -> list[tuple[Comparison, float]]:
    """A method against each of the others, with p-values after Holm's correction."""
    found = [compare(results, first, other, datasets, measure) for other in others]
    comparisons = [comparison for comparison in found if comparison is not None]
    if not comparisons:
        return []
    return list(zip(comparisons, significance.holm([comparison.p_value for comparison in comparisons])))


def time_ratio(results: Results, first: str, second: str, datasets: Sequence[str], part: str) -> float:
    """Median over datasets of the ratio of seconds of a part, "fit_s" or "predict_s"."""
    names = common(results, (first, second), datasets)
    pairs = ((getattr(results[first][name], part), getattr(results[second][name], part)) for name in names)
    return float(np.median([a / b for a, b in pairs])) if names else np.nan
