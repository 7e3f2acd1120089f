"""From records to tables: who wins, by how much, and whether that is more than chance.

Numbers of Monti & Cooper (1999) stand beside ours wherever the paper has them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from fanbayes.evaluation import metrics, significance
from fanbayes.evaluation.significance import SignedRank, WinLoss
from fanbayes.study.cards import Card
from fanbayes.study.models import AFTER_CEM, CRITERIA, Model
from fanbayes.study.outcomes import Outcomes, reliability_of, roc_area
from fanbayes.study.records import Record

Measure: TypeAlias = Literal["accuracy", "conditional_entropy", "roc_area"]
MEASURES: Mapping[Measure, str] = {
    "accuracy": "Accuracy",
    "conditional_entropy": "Conditional entropy",
    "roc_area": "ROC area",
}
LEVELS = (0.95, 0.99)

Verdict: TypeAlias = Literal["agrees", "differs", "undecided"]
CHANCE = 0.05  # largest p-value at which a difference is not put down to chance


@dataclass(frozen=True)
class Column:
    """One way to fit all three classifiers."""

    preset: str
    criterion: str
    label: str


COLUMNS = (
    Column("paper", "icl", "ICL"),
    Column("paper", "bic", "BIC"),
    Column("paper", "aic", "AIC"),
    Column("paper", "cs", "CS"),
    Column("paper", AFTER_CEM, "ICL after CEM"),
    Column("default", "icl", "Library defaults"),
)
MAIN = COLUMNS[0]

# What the paper reports (section 5.2): wins/losses of the first, overall, at 95 % and at 99 %.
PAPER_COUNTS: Mapping[tuple[Measure, Model, Model], tuple[str, str, str]] = {
    ("accuracy", "FAN", "NB"): ("23/14", "14/1", "14/0"),
    ("accuracy", "FAN", "FM"): ("", "", "25/0"),
    ("accuracy", "NB", "FM"): ("", "", "21/6"),
    ("conditional_entropy", "FAN", "NB"): ("28/9", "26/4", "24/2"),
    ("conditional_entropy", "FM", "NB"): ("", "", "27/2"),
    ("conditional_entropy", "FM", "FAN"): ("", "", "15/8"),
    ("roc_area", "FAN", "NB"): ("8/13", "4/7", "2/4"),
    ("roc_area", "FAN", "FM"): ("FAN above", "", ""),
    ("roc_area", "NB", "FM"): ("NB above", "", ""),
}
# Table 2: p-values of magnitude and of significance.
PAPER_P_VALUES: Mapping[tuple[Model, Model], tuple[str, str]] = {
    ("FAN", "NB"): ("0.008", "0.0003"),
    ("FAN", "FM"): ("≪ 1e-5", "≪ 1e-5"),
    ("NB", "FM"): ("0.0002", "≪ 1e-5"),
}


# ---------------------------------------------------------------- results


@dataclass(frozen=True)
class Result:
    """One classifier on one version of a dataset, all folds together."""

    folds: tuple[Record, ...]

    @cached_property
    def outcomes(self) -> Outcomes:
        """Out-of-fold predictions, pooled."""
        return Outcomes.pool(Outcomes.unpack(fold["rows"]) for fold in self.folds)

    @property
    def n_tested(self) -> int:
        """Predicted rows."""
        return sum(fold["n_test"] for fold in self.folds)

    def mean(self, name: str) -> float:
        """Mean over predicted rows of what each fold reports as a mean."""
        return float(np.average([f[name] for f in self.folds], weights=[f["n_test"] for f in self.folds]))

    def total(self, name: str) -> float:
        """Sum over folds."""
        return float(sum(fold[name] for fold in self.folds))

    @cached_property
    def roc_area(self) -> float | None:
        """Area under the ROC curve of the pooled log-odds, for two classes."""
        return roc_area(self.outcomes)

    @cached_property
    def reliability(self) -> metrics.ReliabilityCurve:
        """Confidence in the predicted class against accuracy."""
        return reliability_of([self.outcomes])

    @property
    def calibration_error(self) -> float:
        """Expected calibration error (ECE)."""
        return self.reliability.calibration_error

    @property
    def components(self) -> list[int]:
        """Chosen number of components in each fold."""
        return [fold["n_components"] for fold in self.folds]


@dataclass(frozen=True)
class Case:
    """One version of one dataset, with all results on it."""

    card: Card
    version: str
    results: Mapping[tuple[str, str, str], Result]
    _compared: dict[Any, Comparison | None] = field(default_factory=dict, repr=False, compare=False)

    @property
    def name(self) -> str:
        """How reports call it."""
        return f"{self.card.name} (discretised)" if self.version == "discretised" else self.card.name

    @property
    def kind(self) -> str:
        """What the classifiers see: discrete, continuous, mixed or discretised."""
        return "discretised" if self.version == "discretised" else self.card.kind

    def result(self, model: str, column: Column) -> Result | None:
        """Find the result of a classifier in a column; naive Bayes knows no criterion."""
        return self.results.get((model, column.preset, "none" if model == "NB" else column.criterion))

    def compare(self, column: Column, first: str, second: str, measure: Measure) -> Comparison | None:
        """Test two classifiers against each other, once; None where there is nothing to compare."""
        key = column, first, second, measure
        if key not in self._compared:
            a, b = self.result(first, column), self.result(second, column)
            self._compared[key] = None if a is None or b is None else _compare(self, a, b, measure)
        return self._compared[key]


def gather(head: Mapping[str, Any], records: Iterable[Record]) -> list[Case]:
    """Put the folds together; a classifier that failed on one fold has no result there."""
    cards = {name: Card(**card) for name, card in head["datasets"].items()}
    found: dict[tuple[str, str], dict[tuple[str, str, str], list[Record]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        if "error" not in record:
            case = found[record["dataset"], record["version"]]
            case[record["model"], record["preset"], record["criterion"]].append(record)
    cases = []
    for (name, version), results in sorted(found.items(), key=lambda item: (item[0][0], item[0][1] != "raw")):
        card = cards[name]
        whole = {
            key: Result(tuple(sorted(folds, key=lambda fold: int(fold["fold"]))))
            for key, folds in results.items()
            if len(folds) == card.n_parts(head["folds"])
        }
        cases.append(Case(card, version, whole))
    return cases


def independent(cases: Iterable[Case], version: str) -> list[Case]:
    """One dataset, the largest, of each related group; of each dataset one version where it has two."""
    single = [c for c in cases if c.version == version or not c.card.n_continuous]
    largest: dict[str, Case] = {}
    for case in single:
        group = f"group {case.card.group}" if case.card.group else case.card.name
        if group not in largest or case.card.n_rows > largest[group].card.n_rows:
            largest[group] = case
    return list(largest.values())


# ---------------------------------------------------------------- comparisons


@dataclass(frozen=True)
class Comparison:
    """Two classifiers on one case: what is positive favours the first."""

    case: Case
    difference: float
    statistic: float
    p_value: float


def compare(cases: Iterable[Case], column: Column, first: Model, second: Model, measure: Measure) -> list[Comparison]:
    """Compare two classifiers wherever both have results: McNemar, paired t, or DeLong."""
    found = (case.compare(column, first, second, measure) for case in cases)
    return [comparison for comparison in found if comparison is not None]


def _compare(case: Case, a: Result, b: Result, measure: Measure) -> Comparison | None:
    x, y = a.outcomes, b.outcomes
    if measure == "accuracy":
        rows = significance.mcnemar(x.correct, y.correct)
        return Comparison(case, a.mean("accuracy") - b.mean("accuracy"), rows.statistic, rows.p_value)
    if measure == "conditional_entropy":
        if len(x.loss) < 2:
            return None
        loss = significance.paired_t(x.loss, y.loss)
        return Comparison(case, b.mean(measure) - a.mean(measure), loss.statistic, loss.p_value)
    if x.log_odds is None or y.log_odds is None or x.positive is None:
        return None
    if min(x.positive.sum(), (~x.positive).sum()) < 2:
        return None
    area = significance.delong(x.positive, x.log_odds, y.log_odds)
    return Comparison(case, area.area_a - area.area_b, area.statistic, area.p_value)


@dataclass(frozen=True)
class Counts:
    """Cases won, lost and tied by the first of two classifiers, all and at each level, and the paper's."""

    measure: Measure
    first: Model
    second: Model
    all: WinLoss
    levels: tuple[WinLoss, ...]
    paper: tuple[str, str, str]
    one_component: int


def counts(cases: Iterable[Case], column: Column, first: Model, second: Model, measure: Measure) -> Counts | None:
    """Count wins and losses, or None where there is nothing to compare."""
    found = compare(cases, column, first, second, measure)
    if not found:
        return None
    d, p = [c.difference for c in found], [c.p_value for c in found]
    fan = [c.case.result("FAN", column) for c in found]
    return Counts(
        measure,
        first,
        second,
        significance.win_loss(d),
        tuple(significance.win_loss(d, p, level) for level in LEVELS),
        PAPER_COUNTS.get((measure, first, second), ("", "", "")),
        sum(result is not None and set(result.components) == {1} for result in fan),
    )


def count_table(cases: Sequence[Case], column: Column) -> list[Counts]:
    """All comparisons that the paper makes."""
    rows = (counts(cases, column, first, second, measure) for measure, first, second in PAPER_COUNTS)
    return [row for row in rows if row is not None]


@dataclass(frozen=True)
class AcrossDatasets:
    """Signed-rank tests of Table 1 for one pair of classifiers."""

    measure: Measure
    first: Model
    second: Model
    subset: str
    n_cases: int
    magnitude: SignedRank
    significance: SignedRank
    paper: tuple[str, str]


def across_table(cases: Sequence[Case], column: Column, measure: Measure = "accuracy") -> list[AcrossDatasets]:
    """Table 2, on all cases and on one case of each related group."""
    subsets = {
        "all": cases,
        "independent, raw": independent(cases, "raw"),
        "independent, discretised": independent(cases, "discretised"),
    }
    rows = []
    for first, second in PAPER_P_VALUES:
        for subset, members in subsets.items():
            found = compare(members, column, first, second, measure)
            if found:
                rows.append(
                    AcrossDatasets(
                        measure,
                        first,
                        second,
                        subset,
                        len(found),
                        significance.signed_rank([c.difference for c in found]),
                        significance.signed_rank([c.statistic for c in found]),
                        PAPER_P_VALUES[first, second] if subset == "all" and measure == "accuracy" else ("", ""),
                    )
                )
    return rows


SPLITS: Mapping[str, Mapping[str, Callable[[Case], bool]]] = {
    "Class": {
        "two values": lambda case: case.card.n_classes == 2,
        "many values": lambda case: case.card.n_classes > 2,
    },
    "Features": {
        "discrete": lambda case: case.kind == "discrete",
        "continuous": lambda case: case.kind == "continuous",
        "mixed": lambda case: case.kind == "mixed",
        "discretised": lambda case: case.kind == "discretised",
    },
    "Rows": {
        "below 300": lambda case: case.card.n_rows < 300,
        "300 to 999": lambda case: 300 <= case.card.n_rows < 1000,
        "1000 to 4999": lambda case: 1000 <= case.card.n_rows < 5000,
        "5000 and more": lambda case: case.card.n_rows >= 5000,
    },
    "Protocol": {
        "cross-validation": lambda case: not case.card.donor_split,
        "donors' split": lambda case: case.card.donor_split,
    },
}


def split_table(
    cases: Sequence[Case], column: Column, first: Model = "FAN", second: Model = "NB"
) -> list[tuple[str, str, int, dict[Measure, Counts | None]]]:
    """Wins and losses by kind of class, features, size and protocol: (split, part, cases, counts by measure)."""
    rows = []
    for split, parts in SPLITS.items():
        for part, belongs in parts.items():
            members = [case for case in cases if belongs(case)]
            if members:
                by_measure = {measure: counts(members, column, first, second, measure) for measure in MEASURES}
                rows.append((split, part, len(members), by_measure))
    return rows


# ---------------------------------------------------------------- verdicts


@dataclass(frozen=True)
class Finding:
    """Whether what was found points the way that the paper says, and how easily chance would have done it."""

    as_claimed: bool
    p_value: float

    @property
    def verdict(self) -> Verdict:
        """Chance explains what has p > 0.05: that decides nothing, whichever way it points."""
        if self.p_value > CHANCE:
            return "undecided"
        return "agrees" if self.as_claimed else "differs"


def more_won(count: WinLoss) -> Finding:
    """More cases are won than lost: a sign test, ties left out."""
    decided = count.wins + count.losses
    p = float(stats.binomtest(count.wins, decided).pvalue) if decided else 1.0
    return Finding(count.wins > count.losses, p)


def larger_share_won(first: WinLoss, second: WinLoss) -> Finding:
    """A larger share is won of the first cases than of the second: Fisher's exact test, ties left out."""
    p = float(stats.fisher_exact(np.array([[c.wins, c.losses] for c in (first, second)])).pvalue)
    return Finding(first.wins * (second.wins + second.losses) > second.wins * (first.wins + first.losses), p)


# ---------------------------------------------------------------- sizes, times, further claims


@dataclass(frozen=True)
class Components:
    """Chosen numbers of components of FAN and FM, a mean over folds for each case."""

    fan: NDArray[np.float64]
    fm: NDArray[np.float64]
    fan_capped: int
    fm_capped: int

    @property
    def fewer(self) -> WinLoss:
        """Cases where FAN has fewer, more, or as many components as FM."""
        return significance.win_loss(self.fm - self.fan)


def component_summary(cases: Iterable[Case], column: Column) -> Components | None:
    """Whether FAN needs fewer components than FM (section 4)."""
    pairs = [(case.result("FAN", column), case.result("FM", column)) for case in cases]
    whole = [(fan, fm) for fan, fm in pairs if fan is not None and fm is not None]
    if not whole:
        return None
    mean = np.array([[np.mean(r.components) for r in pair] for pair in whole])
    capped = [sum(any(f["capped"] for f in pair[i].folds) for pair in whole) for i in range(2)]
    return Components(mean[:, 0], mean[:, 1], capped[0], capped[1])


@dataclass(frozen=True)
class Times:
    """Seconds of a classifier for each second of naive Bayes."""

    model: Model
    part: str
    n_cases: int
    of_totals: float
    mean: float
    quartiles: tuple[float, float, float]
    expected: float | None
    paper: str


def time_table(cases: Iterable[Case], column: Column) -> list[Times]:
    """Times of training and of prediction against those of naive Bayes.

    Expected of prediction are r_h times NB's time for FAN, and r_c / 2 times for FM.
    """
    cases = list(cases)
    rows = [
        _times(cases, column, "fit_seconds", "FAN", "training", "about 200"),
        _times(cases, column, "fit_seconds", "FM", "training", "about 300"),
        _times(cases, column, "search_seconds", "FAN", "training without reading the table", "about 200"),
        _times(cases, column, "search_seconds", "FM", "training without reading the table", "about 300"),
        _times(cases, column, "predict_seconds", "FAN", "prediction", "about r_h"),
        _times(cases, column, "predict_seconds", "FM", "prediction", "about r_c / 2"),
        _times(cases, column, "predict_seconds", "FAN", "prediction of 1000 rows and more", "about r_h", 1000),
        _times(cases, column, "predict_seconds", "FM", "prediction of 1000 rows and more", "about r_c / 2", 1000),
    ]
    return [row for row in rows if row is not None]


def _times(
    cases: list[Case], column: Column, name: str, model: Model, part: str, paper: str, least: int = 0
) -> Times | None:
    """Ratios of the cases whose folds have at least so many rows to predict."""
    seconds, expected = [], []
    for case in cases:
        result, nb = case.result(model, column), case.result("NB", column)
        if result is not None and nb is not None and nb.n_tested >= least * len(nb.folds):
            seconds.append((result.total(name), nb.total(name)))
            expected.append(float(np.mean(result.components)) if model == "FAN" else case.card.n_classes / 2)
    if not seconds:
        return None
    ours, theirs = np.array(seconds).T
    ratios = ours / theirs
    low, median, high = (float(q) for q in np.quantile(ratios, (0.25, 0.5, 0.75)))
    return Times(
        model=model,
        part=part,
        n_cases=len(ratios),
        of_totals=float(ours.sum() / theirs.sum()),
        mean=float(ratios.mean()),
        quartiles=(low, median, high),
        expected=float(np.median(expected)) if name == "predict_seconds" else None,
        paper=paper,
    )


@dataclass(frozen=True)
class WonBack:
    """Datasets with continuous features on which FAN loses to NB, and wins once they are discretised."""

    lost: tuple[str, ...]
    won_back: tuple[str, ...]


def won_back(cases: Iterable[Case], column: Column) -> WonBack:
    """Count what the paper's section 5.3 counts: 10 lost, 8 of them won when discretised."""
    differences = {
        (c.case.card.name, c.case.version): round(c.difference, 12)
        for c in compare(cases, column, "FAN", "NB", "accuracy")
        if c.case.card.n_continuous
    }
    lost = tuple(name for (name, version), d in differences.items() if version == "raw" and d < 0)
    return WonBack(lost, tuple(name for name in lost if differences.get((name, "discretised"), 0.0) > 0))


# ---------------------------------------------------------------- simulated data


@dataclass(frozen=True)
class Simulated:
    """Statistics of one criterion over all pairs of training and test sets."""

    criterion: str
    n: int
    accuracy: float
    roc_area: float
    conditional_entropy: float
    distance: float
    signed: float
    exact: float


def simulated_table(records: Iterable[Record], preset: str) -> list[Simulated]:
    """Means by criterion, the gold standard's own first."""
    rows = _sound(records)
    table = []
    for criterion in ("gold", *CRITERIA):
        wanted = "paper" if criterion == "gold" else preset
        own = [r for r in rows if r["criterion"] == criterion and r["preset"] == wanted]
        if own:
            gap = np.array([r["n_components"] - r["true_components"] for r in own])
            areas = [r["roc_area"] for r in own if r["roc_area"] is not None]
            table.append(
                Simulated(
                    criterion,
                    len(own),
                    float(np.mean([r["accuracy"] for r in own])),
                    float(np.mean(areas)) if areas else float("nan"),
                    float(np.mean([r["conditional_entropy"] for r in own])),
                    float(np.abs(gap).mean()),
                    float(gap.mean()),
                    float((gap == 0).mean()),
                )
            )
    return table


@dataclass(frozen=True)
class Correlation:
    """Spearman's correlation of a measure, larger being better, with the distance of r_h from the truth.

    Attributes
    ----------
    pooled, p_value : float
        Over all runs, as in the paper.
    within, within_p_value : float
        Of ranks within each dataset and size, which differ in how hard they are.
    negative, n_cells : int
        Datasets x sizes with a negative correlation of their own, and all that have one.
    """

    measure: Measure
    n: int
    pooled: float
    p_value: float
    within: float
    within_p_value: float
    negative: int
    n_cells: int


def correlation_table(records: Iterable[Record], preset: str) -> list[Correlation]:
    """Whether the right number of components goes with better performance; the paper finds -0.45 to -0.55."""
    rows = [r for r in _sound(records) if r["criterion"] != "gold" and r["preset"] == preset]
    table = []
    for measure in MEASURES:
        own = sorted((r for r in rows if r[measure] is not None), key=_cell)
        sign = -1.0 if measure == "conditional_entropy" else 1.0
        good = np.array([sign * r[measure] for r in own])
        gap = np.abs([r["n_components"] - r["true_components"] for r in own])
        if len(own) < 3 or np.ptp(gap) == 0 or np.ptp(good) == 0:
            continue
        pooled = stats.spearmanr(good, gap)
        cells = [np.array([i for i, _ in members]) for _, members in groupby(enumerate(own), lambda x: _cell(x[1]))]
        varied = [cell for cell in cells if np.ptp(gap[cell]) > 0 and np.ptp(good[cell]) > 0]
        ranks = np.array([np.concatenate([_centred_ranks(v[cell]) for cell in varied]) for v in (good, gap)])
        within = stats.pearsonr(*ranks)
        negative = sum(float(stats.spearmanr(good[cell], gap[cell]).statistic) < 0 for cell in varied)
        table.append(
            Correlation(
                measure,
                len(own),
                float(pooled.statistic),
                float(pooled.pvalue),
                float(within.statistic),
                float(within.pvalue),
                negative,
                len(varied),
            )
        )
    return table


def icl_is_best(records: Iterable[Record], preset: str, name: str) -> Finding | None:
    """ICL is ahead of each other criterion by a measure, or the distance of r_h from the truth.

    Signed-rank tests over pairs of training and test sets, with Holm's correction. The claim stands if ICL is ahead of
    all, by the largest p-value of the three; it falls if another is ahead, by the least p-value of those that are.
    """
    found: defaultdict[tuple[Any, ...], dict[str, float]] = defaultdict(dict)
    for r in _sound(records):
        if r["preset"] == preset and r["criterion"] in CRITERIA and (goodness := _goodness(r, name)) is not None:
            found[(*_cell(r), r["pair"])][r["criterion"]] = goodness
    runs = [run for run in found.values() if len(run) == len(CRITERIA)]
    if not runs:
        return None
    tests = [
        significance.signed_rank([run["icl"] - run[other] for run in runs]) for other in CRITERIA if other != "icl"
    ]
    p_values = significance.holm([test.p_value for test in tests])
    ahead = [float(p) for test, p in zip(tests, p_values) if test.statistic < 0]
    return Finding(False, min(ahead)) if ahead else Finding(True, float(max(p_values)))


def _goodness(record: Record, name: str) -> float | None:
    if name == "distance":
        return -float(abs(record["n_components"] - record["true_components"]))
    value: float | None = record[name]
    return value if value is None or name != "conditional_entropy" else -value


def gold_standards(records: Iterable[Record]) -> dict[str, int]:
    """True number of components of each gold standard."""
    return {r["dataset"]: r["true_components"] for r in _sound(records)}


def _sound(records: Iterable[Record]) -> list[Record]:
    return [r for r in records if "error" not in r]


def _cell(record: Record) -> tuple[str, int]:
    return record["dataset"], record["size"]


def _centred_ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    ranks = stats.rankdata(values)
    return np.asarray((ranks - ranks.mean()) / len(ranks))
