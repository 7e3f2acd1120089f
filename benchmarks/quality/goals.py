"""Goals for FANClassifierCV and FAN, and what was reached on some datasets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np
from analysis import LEVEL, Results, against_each, compare, mean_ranks, standings, time_ratio

from fanbayes.study.cards import Card

LARGE = 1_000


@dataclass(frozen=True)
class View:
    """Results on some datasets that all the methods have finished."""

    results: Results
    methods: Sequence[str]
    datasets: Sequence[str]
    cards: Mapping[str, Card]
    shares: Mapping[str, float]

    def only(self, keep: Callable[[Card], bool]) -> View:
        """Keep some of the datasets."""
        return replace(self, datasets=[name for name in self.datasets if keep(self.cards[name])])


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


def share_won(first: str, second: str, measure: str, view: View) -> Answer | None:
    """Share of the datasets that are not tied which the first wins, in percent."""
    found = compare(view.results, first, second, view.datasets, measure)
    if found is None:
        return None
    decided = found.count.wins + found.count.losses
    if not decided:
        return Answer(np.nan, f"all {found.count.ties} tied")
    share = 100 * found.count.wins / decided
    ties = f", {found.count.ties} tied" if found.count.ties else ""
    return Answer(share, f"{share:.0f} % ({found.count.wins} won, {found.count.losses} lost{ties})")


def lost_at_level(first: str, second: str, view: View) -> Answer | None:
    """Datasets on which the log loss of the first is worse at 99 %."""
    found = compare(view.results, first, second, view.datasets, "log_loss")
    if found is None:
        return None
    names = f": {', '.join(found.lost)}" if found.lost else ""
    return Answer(len(found.lost), f"{len(found.lost)} of {len(found.datasets)}{names}")


def less_log_loss(first: str, second: str, view: View) -> Answer | None:
    """Median over datasets of the share of the second's log loss that the first saves, in percent."""
    found = compare(view.results, first, second, view.datasets, "log_loss")
    if found is None:
        return None
    before = np.array([view.results[second][name].measures["log_loss"] for name in found.datasets])
    saved = 100 * float(np.median(found.differences / np.maximum(before, 1e-12)))
    return Answer(saved, f"{saved:.0f} % (mean {found.differences.mean():.3f} nats), {len(found.datasets)} sets")


def rank(method: str, view: View) -> Answer | None:
    """Place by mean rank in log loss among all methods."""
    if method not in view.methods or not view.datasets:
        return None
    ranks = dict(zip(view.methods, mean_ranks(view.results, view.methods, view.datasets, "log_loss")))
    place = sorted(ranks, key=ranks.__getitem__).index(method) + 1
    return Answer(place, f"{place} of {len(ranks)} (mean rank {ranks[method]:.2f})")


def weakest_evidence(method: str, view: View) -> Answer | None:
    """Largest p-value of the signed-rank tests of log loss against the others, after Holm's correction.

    1 where another is better on average.
    """
    others = [other for other in view.methods if other != method]
    found = against_each(view.results, method, others, view.datasets, "log_loss")
    if len(found) < len(others) or not found:
        return None
    p = [(1.0 if c.differences.mean() < 0 else p_value, c.second) for c, p_value in found]
    worst, against = max(p)
    return Answer(worst, f"{worst:.2g}, against {against}")


def accuracy_behind(method: str, view: View) -> Answer | None:
    """Mean accuracy of the method less that of the best other one, in points."""
    if method not in view.methods or len(view.methods) < 2 or not view.datasets:
        return None
    means = {s.method: 100 * s.mean["accuracy"] for s in standings(view.results, view.methods, view.datasets)}
    own = means.pop(method)
    best = max(means, key=means.__getitem__)
    return Answer(own - means[best], f"{own - means[best]:+.2f} ({own:.2f}; {best} {means[best]:.2f})")


def most_excess(first: str, second: str, view: View) -> Answer | None:
    """Largest excess of the first's log loss over the second's."""
    found = compare(view.results, first, second, view.datasets, "log_loss")
    if found is None:
        return None
    k = int(np.argmin(found.differences))
    return Answer(-float(found.differences[k]), f"{-found.differences[k]:+.3f}, on {found.datasets[k]}")


def above_shares(method: str, view: View) -> Answer | None:
    """Datasets on which the log loss is higher than that of the classes' shares, whatever the row."""
    if method not in view.methods or not view.datasets:
        return None
    above = [n for n in view.datasets if view.results[method][n].measures["log_loss"] > view.shares[n]]
    return Answer(len(above), f"{len(above)} of {len(view.datasets)}")


def slower(first: str, second: str, part: str, view: View) -> Answer | None:
    ratio = time_ratio(view.results, first, second, view.datasets, part)
    return None if np.isnan(ratio) else Answer(ratio, f"{ratio:.3g} x")


def large(answer: Callable[[View], Answer | None], view: View) -> Answer | None:
    return answer(view.only(lambda card: card.n_rows > LARGE))


def continuous(answer: Callable[[View], Answer | None], view: View) -> Answer | None:
    return answer(view.only(lambda card: card.kind == "continuous"))


def questions(ours: str) -> list[Question]:
    """All of them, `ours` being the method the benchmark is about."""
    won = partial(share_won, ours, "nb")
    return [
        Question(f"{ours}: place by mean rank in log loss", partial(rank, ours), 1, "less"),
        Question(
            f"{ours}: signed-rank tests of log loss against each, largest p after Holm",
            partial(weakest_evidence, ours),
            0.05,
            "less",
        ),
        Question(f"{ours}: mean accuracy beside the best other, points", partial(accuracy_behind, ours), -0.5),
        Question(f"{ours} against nb: sets with lower log loss", partial(won, "log_loss"), 90, unit=" %"),
        Question(
            f"{ours} against nb: sets with higher log loss at {LEVEL:.0%}",
            partial(lost_at_level, ours, "nb"),
            0,
            "less",
        ),
        Question(
            f"{ours} against nb, sets of more than {LARGE:,} rows: largest excess of log loss",
            partial(large, partial(most_excess, ours, "nb")),
            0.01,
            "less",
        ),
        Question(
            f"{ours} against nb, sets of more than {LARGE:,} rows: log loss saved, median",
            partial(large, partial(less_log_loss, ours, "nb")),
        ),
        Question(f"{ours} against fan: sets with lower log loss", partial(share_won, ours, "fan", "log_loss")),
        *(
            Question(f"{method}: sets with higher log loss than the class shares alone", partial(above_shares, method))
            for method in (ours, "fan", "nb")
        ),
        *(
            Question(
                f"fan against nb, continuous sets: sets with better {name}",
                partial(continuous, partial(share_won, "fan", "nb", measure)),
                50,
                unit=" %",
            )
            for measure, name in (("accuracy", "accuracy"), ("log_loss", "log loss"), ("auc", "ROC area"))
        ),
        *(
            Question(
                f"fan against fm: sets with better {name}", partial(share_won, "fan", "fm", measure), goal, unit=" %"
            )
            for measure, name, goal in (("accuracy", "accuracy", None), ("log_loss", "log loss", 50))
        ),
        Question(f"fit: {ours} / fan, median", partial(slower, ours, "fan", "fit_s"), 30, "less", " x"),
        Question(f"predict: {ours} / fan, median", partial(slower, ours, "fan", "predict_s"), 10, "less", " x"),
    ]
