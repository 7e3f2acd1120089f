"""The candidates of `FANClassifierCV`: families of models, each in growing sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import numpy as np

from fanbayes.data.schema import Missing
from fanbayes.data.table import EncodedTable
from fanbayes.data.views import Treatment, View
from fanbayes.learning.data import InMemoryData, TrainingData
from fanbayes.learning.discriminative import fine_tune
from fanbayes.learning.e_step import ThreadPool
from fanbayes.learning.em import Problem
from fanbayes.learning.ensembles.members import Fit, MemberNetwork
from fanbayes.learning.level_prior import level_prior
from fanbayes.learning.selection import NaiveBayes, Search, best_start
from fanbayes.learning.starts import labelled_naive_bayes
from fanbayes.model.blocks import EstimationOptions
from fanbayes.model.blocks.base import Tying
from fanbayes.model.structure import fan

Effort = Literal["fast", "default", "best"]

# Threads share folds and families; each fit of these has one.
LONE_THREAD: ThreadPool = None
# Labelled cases for each component of networks of more than two.
CASES_PER_COMPONENT = 10
# Components times classes of the largest networks, or four components: more take minutes.
MOST_STATES = 512
# How much it costs to move a parameter from where EM found it, in cases (D1): from nearly what EM says to nearly free.
STRENGTHS = (0.3, 0.03, 0.003)
# The same for logistic regression, which begins where no feature tells anything.
LOGISTIC_STRENGTHS = (10.0, 1.0)
# Of more cases only the weakest is tried, unless the effort is best: chance is hardly left to be kept from. And only of
# more are columns binned: of few cases the cuts are mostly chance, and trees are better at it.
FEW_CASES = 1_000
# Largest size of models of binned columns, unless the effort is best: larger ones take long, and tell little more.
MOST_OF_BINS = 4
# More columns are not decorrelated: that takes the square of their number for every row, and its cube for every fold.
MOST_DECORRELATED = 500


class AnyFamily(Protocol):
    """What is fitted in every fold, in several sizes, as `Family`."""

    @property
    def treatment(self) -> Treatment: ...  # noqa: D102
    @property
    def missing(self) -> Missing | None: ...  # noqa: D102
    @property
    def sizes(self) -> Sequence[int]: ...  # noqa: D102
    @property
    def strengths(self) -> Sequence[float]: ...  # noqa: D102
    @property
    def numbers(self) -> Sequence[int]: ...  # noqa: D102
    @property
    def title(self) -> str: ...  # noqa: D102
    def kind(self, size: int) -> str: ...  # noqa: D102
    def rows(self, view: View, table: EncodedTable, n_classes: int, data: TrainingData | None = None) -> Any: ...  # noqa: D102
    def fit(self, rows: Any, size: int, seed: int, numbers: Sequence[int] | None = None) -> Sequence[Fit]: ...  # noqa: D102


@dataclass(frozen=True)
class Family:
    """FAN models that differ in their number of components; one component is naive Bayes.

    Attributes
    ----------
    treatment : how the continuous columns are seen
    variance_tying : of the continuous columns
    strengths : of fine-tuning, decreasing; each gives a model beside the one that EM finds
    sizes : numbers of components to try
    n_init : starts for each
    missing : "ignorable": without the indicators that the rows have; None: with them
    """

    treatment: Treatment
    variance_tying: Tying
    strengths: Sequence[float]
    sizes: Sequence[int]
    n_init: int
    missing: Missing | None = None

    @property
    def numbers(self) -> Sequence[int]:
        """The fits of a size: 0 as EM finds it, then one for each strength."""
        return range(1 + len(self.strengths))

    @property
    def title(self) -> str:
        """What progress is reported as."""
        return "networks" if self.treatment == "none" else f"networks ({self.treatment})"

    def kind(self, size: int) -> str:
        """What a member of a size is called."""
        return "NB" if size == 1 else "FAN"

    def fit(self, rows: Rows, size: int, seed: int, numbers: Sequence[int] | None = None) -> list[MemberNetwork]:
        """Fit one size: as EM finds it, and fine-tuned. Not to the last digit: the average does not depend on it.

        Parameters
        ----------
        numbers : which of the fits are wanted, increasing; None: all
        """
        numbers = self.numbers if numbers is None else numbers
        n_classes = rows.naive_bayes[0].structure.n_classes
        structure_of = lambda h: fan([h] * n_classes, "shared")  # noqa: E731
        search = Search(structure_of, self.sizes, n_init=self.n_init, max_iter=300, tol=1e-4, seed=seed)
        found = best_start(rows.problem, search, size, rows.naive_bayes)
        if found is None:
            raise FloatingPointError("every start degenerated; look for columns of extreme values")
        network = found[0].network
        strengths = [self.strengths[k - 1] for k in numbers if k]
        tuned = fine_tune(rows.table, network, strengths, LONE_THREAD) if strengths else []
        plain = [MemberNetwork(rows.view, network)] if 0 in numbers else []
        return plain + [MemberNetwork(rows.view, moved, "fine-tuned") for moved in tuned]

    def rows(self, view: View, table: EncodedTable, n_classes: int, data: TrainingData | None = None) -> Rows:
        """Rows as the view shows them, to fit all sizes to.

        Parameters
        ----------
        table : what is fine-tuned by
        data : what EM learns from, where that is more than the table
        """
        data = data or InMemoryData(table)
        options = EstimationOptions(variance_tying=self.variance_tying, level_prior=level_prior(data, n_classes))
        problem = Problem(data, options)
        return Rows(view, table, problem, labelled_naive_bayes(problem, n_classes))


@dataclass(frozen=True)
class Logistic(Family):
    """Logistic regression: naive Bayes fine-tuned (D1) from where no feature tells anything about the class."""

    @property
    def numbers(self) -> Sequence[int]:
        """The fits: one for each strength."""
        return range(1, 1 + len(self.strengths))

    @property
    def title(self) -> str:
        """What progress is reported as."""
        return "logistic regression"

    def kind(self, size: int) -> str:
        """What a member is called."""
        return "logit"

    def fit(self, rows: Rows, size: int, seed: int, numbers: Sequence[int] | None = None) -> list[MemberNetwork]:
        """Fit with each of the strengths that are wanted."""
        nb, statistics = rows.naive_bayes
        in_all = np.broadcast_to(statistics.cells.mean(axis=-1, keepdims=True), statistics.cells.shape)
        nothing = nb.model.estimate(replace(statistics, cells=np.ascontiguousarray(in_all)))
        strengths = [self.strengths[k - 1] for k in (self.numbers if numbers is None else numbers)]
        tuned = fine_tune(rows.table, nothing, strengths, LONE_THREAD)
        return [MemberNetwork(rows.view, moved, "fine-tuned") for moved in tuned]


@dataclass(frozen=True)
class Rows:
    """What all sizes of a family are fitted to, and where their starts begin."""

    view: View
    table: EncodedTable
    problem: Problem
    naive_bayes: NaiveBayes


def library(
    effort: Effort, n_numbers: int, n_classes: int, n_cases: float, has_indicators: bool = False
) -> list[Family]:
    """Families to try; the first is generative and sees the columns as they are.

    Where there are indicators, each is tried without them as well.
    """
    most = min(max(4, MOST_STATES // n_classes), max(2, n_cases / CASES_PER_COMPONENT))
    is_best, is_few = effort == "best", n_cases <= FEW_CASES
    n_init = 4 if is_best else 1
    strengths = STRENGTHS if is_best else STRENGTHS[::2] if effort == "default" and is_few else STRENGTHS[2:]
    ways: list[tuple[Treatment, Tying]] = [("none", "none")]
    if n_numbers:
        ways = [("mdlp", "none")] if is_best or not is_few else []
        ways += [("normal_scores", "none")]
        ways += [("decorrelate", "all")] if n_numbers <= MOST_DECORRELATED else []
    dense = tuple(h for h in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32) if h <= most)
    every_other = tuple(h for h in dense if h in (1, 2, 4, 8, 16, 32))
    sizes = dense if is_best else tuple(h for h in dense if h in (1, 4, 16, 32))
    found = [Family("none", "none", (), dense if is_best else every_other, n_init)]
    for treatment, tying in ways:
        own = [h for h in sizes if is_best or treatment != "mdlp" or h <= MOST_OF_BINS]
        found.append(Family(treatment, tying, strengths, tuple(own), n_init))
    if is_best or (is_few and effort == "default"):
        found.append(Logistic("normal_scores" if n_numbers else "none", "all", LOGISTIC_STRENGTHS, (1,), 1))
    return found + [replace(family, missing="ignorable") for family in found] if has_indicators else found
