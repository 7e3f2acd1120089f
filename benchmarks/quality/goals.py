"""What FANClassifierCV is to reach, and what it has reached on some datasets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
from analysis import Results, against_each, common, compare, standings, time_ratios
from settings import SCENARIOS, name_of

from fanbayes.study.cards import Card

LARGE = 10_000
# Said below the table of goals: what the p-values in its answers are.
CHANCE = (
    "p beside another method: whether the two can be told apart at all, by the signed-rank test over groups, on one "
    "dataset by its own test; uncorrected."
)


@dataclass(frozen=True)
class View:
    """Results by scenario, on some of the datasets.

    Attributes
    ----------
    methods : those that are ranked
    shares : log loss of the class shares, of each dataset
    timing : what `timing.py` has measured
    """

    scenarios: Mapping[str, Results]
    methods: Sequence[str]
    datasets: Sequence[str]
    cards: Mapping[str, Card]
    groups: Mapping[str, str]
    shares: Mapping[str, float]
    timing: Mapping[str, Any]

    @property
    def results(self) -> Results:
        """On complete tables."""
        return self.scenarios.get("complete", {})

    def only(self, keep: Callable[[Card], bool]) -> View:
        """Keep some of the datasets."""
        return replace(self, datasets=[name for name in self.datasets if keep(self.cards[name])])

    def peers(self, ours: str) -> list[str]:
        """What others have made."""
        return [method for method in self.methods if method not in OWN and method != ours]


OWN = ("nb", "fm", "fan", "tan", "aode", "nbtree", "boosted_nb", "fan_cv")


@dataclass(frozen=True)
class Answer:
    """A number to hold against the goal, and how it is shown."""

    value: float
    text: str


@dataclass(frozen=True)
class Question:
    """One line of the table; `answer` gives None where the records do not tell. No goal: `target` is None."""

    what: str
    answer: Callable[[View], Answer | None]
    target: float | None = None
    better: Literal["more", "less"] = "more"
    unit: str = ""

    @property
    def goal(self) -> str:
        """The goal, as text."""
        if self.target is None:
            return ""
        return f"{'≥' if self.better == 'more' else '≤'} {self.target:g}{self.unit}"

    def met(self, answer: Answer | None) -> bool | None:
        """Whether it was reached; None if there is no goal, or nothing found."""
        if answer is None or self.target is None or np.isnan(answer.value):
            return None
        return bool(answer.value >= self.target if self.better == "more" else answer.value <= self.target)


def _means(view: View, scenario: str, measure: str, part: Literal["mean", "rank"]) -> dict[str, float]:
    results = view.scenarios.get(scenario, {})
    methods = [method for method in view.methods if results.get(method)]  # not all are run in every scenario
    table = standings(results, methods, common(results, methods, view.datasets), view.groups)
    return {} if table is None else {s.method: getattr(s, part)[measure] for s in table.standings}


def beside_stack(ours: str, part: Literal["mean", "rank"], view: View) -> Answer | None:
    """Mean log loss, or mean rank by it, less that of the stack."""
    means = _means(view, "complete", "log_loss", part)
    if not {ours, "stack"} <= means.keys():
        return None
    own, theirs = means[ours], means["stack"]
    return Answer(own - theirs, f"{own - theirs:+.3f} ({own:.3f} and {theirs:.3f})")


def evidence(ours: str, others: Sequence[str], view: View) -> Answer | None:
    """Largest p-value of signed-rank tests of log loss over groups, after Holm; 1 where the other is better."""
    found = against_each(view.results, ours, others, view.datasets, "log_loss", view.groups)
    if len(found) < len(others) or not found:
        return None
    p = [(1.0 if c.statistic < 0 else p_value, c) for c, p_value in found]
    worst, against = max(p, key=lambda pair: pair[0])
    return Answer(worst, f"{worst:.2g}, against {name_of(against.second)}, {against.n_groups} groups")


def against_peers(ours: str, view: View) -> Answer | None:
    return evidence(ours, [peer for peer in view.peers(ours) if peer != "stack"], view)


def beside_best_peer(ours: str, measure: str, view: View) -> Answer | None:
    """Mean of a measure less that of the best peer, in points."""
    means = {m: 100 * v for m, v in _means(view, "complete", measure, "mean").items()}
    peers = [peer for peer in view.peers(ours) if peer in means]
    if ours not in means or not peers:
        return None
    best = max(peers, key=means.__getitem__)
    gain = means[ours] - means[best]
    chance = _chance(view.results, ours, best, measure, view)
    return Answer(gain, f"{gain:+.2f} ({means[ours]:.2f}; {name_of(best)} {means[best]:.2f}{chance})")


def place(ours: str, scenario: str, view: View) -> Answer | None:
    """Place by mean rank in log loss, and how far the next is."""
    ranks = _means(view, scenario, "log_loss", "rank")
    if ours not in ranks:
        return None
    own = ranks.pop(ours)
    best = min(ranks, key=ranks.__getitem__)
    number = 1 + sum(rank < own for rank in ranks.values())
    chance = _chance(view.scenarios[scenario], ours, best, "log_loss", view)
    beside = f"mean rank {own:.2f}; {name_of(best)} {ranks[best]:.2f}{chance}"
    return Answer(number, f"{number} of {len(ranks) + 1} ({beside})")


def _chance(results: Results, ours: str, other: str, measure: str, view: View) -> str:
    """The p-value of the signed-rank test over groups, uncorrected: whether the two can be told apart at all."""
    found = compare(results, ours, other, view.datasets, measure, view.groups)
    return "" if found is None else f", p = {found.p_value:.2g}"


def near_best(ours: str, view: View) -> Answer | None:
    """Share of the datasets on which no method is significantly better than ours is than it, in percent."""
    datasets = common(view.results, view.methods, view.datasets)
    if ours not in view.methods or not datasets:
        return None
    worse = []
    for name in datasets:
        best = min(view.methods, key=lambda method: view.results[method][name].measures["log_loss"])
        found = compare(view.results, ours, best, [name], "log_loss", view.groups) if best != ours else None
        worse += found.lost() if found else []
    share = 100 * (1 - len(worse) / len(datasets))
    told = f"; not on {', '.join(worse)}" if worse else ""
    return Answer(share, f"{share:.0f} % of {len(datasets)}{told}")


def lost_to(ours: str, other: str, view: View) -> Answer | None:
    """Datasets on which the log loss is significantly worse, after Holm's correction over datasets."""
    found = compare(view.results, ours, other, view.datasets, "log_loss", view.groups)
    if found is None:
        return None
    lost = found.lost(corrected=True)
    names = f": {', '.join(lost)}" if lost else ""
    return Answer(len(lost), f"{len(lost)} of {len(found.datasets)}{names}")


def slower(ours: str, other: str, part: str, which: Literal["median", "most"], view: View) -> Answer | None:
    """Ratio of seconds, the median over datasets or the largest."""
    ratios = time_ratios(view.results, ours, other, view.datasets, part)
    if not ratios:
        return None
    if which == "median":
        ratio = float(np.median([r for _, r in ratios]))
        return Answer(ratio, f"{ratio:.3g} x, {len(ratios)} sets")
    name, ratio = max(ratios, key=lambda pair: pair[1])
    return Answer(ratio, f"{ratio:.3g} x, on {name}")


def excess(ours: str, other: str, view: View) -> Answer | None:
    """Largest excess of log loss on large datasets, in percent of the other's."""
    large = view.only(lambda card: card.n_rows > LARGE)
    found = compare(large.results, ours, other, large.datasets, "log_loss", view.groups)
    if found is None:
        return None
    theirs = np.array([view.results[other][name].measures["log_loss"] for name in found.datasets])
    percent = -100 * found.differences / np.maximum(theirs, 1e-9)
    k = int(np.argmax(percent))
    beside = f"{theirs[k] - found.differences[k]:.5f} and {theirs[k]:.5f}, p = {found.p_values[k]:.2g}"
    return Answer(float(percent[k]), f"{percent[k]:+.1f} %, on {found.datasets[k]} ({beside})")


def table_seconds(rows: int, threads: int, view: View) -> Answer | None:
    """Seconds of a fit to a generated table of 20 mixed columns, and of the first one where it was measured twice."""
    tables = view.timing.get("tables", [])
    found = [one for one in tables if one["rows"] == rows and one["threads"] == threads]
    if not found:
        return None
    text = f"{found[-1]['seconds']:.2f} s (HistGradientBoosting {found[-1]['boosting']:.2f} s)"
    if len(found) > 1:
        text += f"; {found[0]['seconds']:.2f} s as the first fit of a process, which loads modules"
    return Answer(found[-1]["seconds"], text)


def thread_gain(view: View) -> Answer | None:
    """Least of what a second thread gains on datasets of 1,000 rows and more."""
    gains = view.timing.get("threads", [])
    if not gains:
        return None
    worst = min(gains, key=lambda one: one["gain"])
    median = float(np.median([one["gain"] for one in gains]))
    return Answer(
        worst["gain"], f"{worst['gain']:.2f} x on {worst['dataset']} (median of {len(gains)}: {median:.2f} x)"
    )


def prediction_seconds(view: View) -> Answer | None:
    """Milliseconds for 1,000 rows, medians over datasets."""
    found = view.timing.get("predictions", [])
    if not found:
        return None
    of = {key: 1e3 * float(np.median([one[key] for one in found])) for key in found[0] if key != "dataset"}
    return Answer(
        of["complete"],
        f"{of['complete']:.3g} ms complete, {of['missing']:.3g} ms with 10 % of the values missing "
        f"(HistGradientBoosting {of['boosting']:.2g} and {of['boosting_missing']:.2g} ms), {len(found)} sets",
    )


def above_shares(method: str, view: View) -> Answer | None:
    """Datasets on which the log loss is higher than that of the classes' shares, whatever the row."""
    names = common(view.results, [method], view.datasets)
    if not names:
        return None
    above = [n for n in names if view.results[method][n].measures["log_loss"] > view.shares[n]]
    return Answer(len(above), f"{len(above)} of {len(names)}")


def questions(ours: str) -> list[Question]:
    """All of them, `ours` being the method the benchmark is about."""
    name = name_of(ours)
    two = "LightGBM, two configurations"
    return [
        Question("1. Mean log loss beside the stack's", partial(beside_stack, ours, "mean"), 0, "less"),
        Question("1. Mean rank in log loss beside the stack's", partial(beside_stack, ours, "rank"), 0, "less"),
        Question("1. Against the stack: p over groups", partial(evidence, ours, ["stack"]), 0.05, "less"),
        Question("1. Against each single peer: largest p after Holm", partial(against_peers, ours), 0.001, "less"),
        *(
            Question(f"2. Mean {what} beside the best peer's, points", partial(beside_best_peer, ours, measure), 0)
            for measure, what in (("accuracy", "accuracy"), ("auc", "ROC area"))
        ),
        *(
            Question(f"3. {title}: place by mean rank", partial(place, ours, scenario), 1, "less")
            for scenario, title in SCENARIOS.items()
        ),
        Question("4. Sets on which it is best, or not significantly worse", partial(near_best, ours), 90, unit=" %"),
        Question("4. Sets significantly worse than naive Bayes, Holm", partial(lost_to, ours, "nb"), 0, "less"),
        Question(
            f"5. Fit: {name} / {two}, median",
            partial(slower, ours, "lightgbm_two", "fit_seconds", "median"),
            1.5,
            "less",
            " x",
        ),
        Question(
            f"5. Fit: {name} / {two}, most",
            partial(slower, ours, "lightgbm_two", "fit_seconds", "most"),
            5,
            "less",
            " x",
        ),
        *(
            Question(
                f"5. {rows:,} x 20 mixed, {threads} thread{'s' * (threads > 1)}",
                partial(table_seconds, rows, threads),
                seconds,
                "less",
                " s",
            )
            for rows, threads, seconds in ((150, 1, 0.2), (100_000, 2, 30), (1_000_000, 2, 180))
        ),
        Question(
            f"5. Sets of more than {LARGE:,} rows: most log loss above HistGradientBoosting's",
            partial(excess, ours, "boosting"),
            2,
            "less",
            " %",
        ),
        Question("5. Prediction of 1,000 rows, one thread, median", prediction_seconds),
        Question("6. A second thread, sets of 1,000 rows and more: least gain", thread_gain, 1.6, unit=" x"),
        *(
            Question(
                f"{name_of(method)}: sets with higher log loss than the class shares alone",
                partial(above_shares, method),
            )
            for method in (ours, "fan", "nb")
        ),
    ]
