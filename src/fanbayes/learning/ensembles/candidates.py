"""The candidates of `FANClassifierCV`: families of models, each in growing sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from fanbayes.data.table import EncodedTable
from fanbayes.data.views import Treatment, View
from fanbayes.learning.data import InMemoryData
from fanbayes.learning.discriminative import fine_tune
from fanbayes.learning.e_step import ThreadPool
from fanbayes.learning.em import Problem
from fanbayes.learning.feature_weights import neutral
from fanbayes.learning.level_prior import level_prior
from fanbayes.learning.predictor import WeightedPredictor
from fanbayes.learning.selection import Search, best_start
from fanbayes.learning.starts import labelled_naive_bayes
from fanbayes.model.blocks import EstimationOptions
from fanbayes.model.blocks.base import Tying
from fanbayes.model.structure import Mixing, fan

Effort = Literal["fast", "default", "best"]

# Threads share the folds and the members; each of these is fitted by one.
LONE_THREAD: ThreadPool = None

# How much it costs a fine-tuned model to move from where EM has led, in cases.
STRENGTH = 0.3


@dataclass(frozen=True)
class Family:
    """FAN models that differ in their number of components; one component is naive Bayes.

    Attributes
    ----------
    treatment : how the continuous columns are seen
    variance_tying : of the continuous columns
    mixing : whether the classes share p(h)
    fine_tuned : whether they are fine-tuned to tell the classes apart, after EM
    sizes : numbers of components to try
    n_init : starts for each
    """

    treatment: Treatment
    variance_tying: Tying
    mixing: Mixing
    fine_tuned: bool
    sizes: Sequence[int]
    n_init: int

    @property
    def name(self) -> str:
        """What is said of it while it is fitted."""
        tuned = ", fine-tuned" if self.fine_tuned else ""
        return f"FAN{' per class' if self.mixing == 'per_class' else ''} ({self.treatment}{tuned})"

    def fit(self, size: int, view: View, table: EncodedTable, n_classes: int, seed: int) -> WeightedPredictor:
        """Fit one size to the rows of a table, which are as the view shows them.

        Not to the last digit, as the average does not depend on it.
        """
        data = InMemoryData(table)
        options = EstimationOptions(variance_tying=self.variance_tying, level_prior=level_prior(data, n_classes))
        problem = Problem(data, options)
        structure_of = lambda h: fan([h] * n_classes, self.mixing)  # noqa: E731
        search = Search(structure_of, self.sizes, n_init=self.n_init, max_iter=300, tol=1e-5, seed=seed)
        found = best_start(problem, search, size, labelled_naive_bayes(problem, n_classes))
        if found is None:
            raise FloatingPointError("every start degenerated; look for columns of extreme values")
        network = found[0].network
        tuned = fine_tune(table, network, [STRENGTH], LONE_THREAD)[0] if self.fine_tuned else None
        return WeightedPredictor(view, network, tuned, neutral(len(view.schema.columns), n_classes))


def library(effort: Effort, has_numbers: bool) -> list[Family]:
    """Families to try; continuous columns are seen in several ways."""
    generative: list[tuple[Treatment, Tying]] = [("none", "none")]
    tuned: list[tuple[Treatment, Tying]] = [("none", "none")]
    if has_numbers:
        generative += [("mdlp", "none"), ("decorrelate", "none")]
        tuned = [("mdlp", "none"), ("decorrelate", "all")]
    mixings: list[Mixing] = ["shared"]
    if effort == "fast":
        sizes: Sequence[int] = (1, 2, 4, 8, 16)
        doubling: Sequence[int] = (1, 2, 4)
        n_init = 2
    elif effort == "default":
        sizes, doubling, n_init = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32), (1, 2, 4, 8, 16), 3
    else:
        sizes, doubling, n_init = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48), (1, 2, 3, 4, 6, 8, 12, 16, 24), 8
        mixings += ["per_class"]
        if has_numbers:
            generative += [("none", "all"), ("decorrelate", "all")]
            tuned += [("none", "all"), ("decorrelate", "none")]
    families = [Family(*way, mixing, False, sizes, n_init) for mixing in mixings for way in generative]
    families += [Family(*way, "shared", True, doubling, n_init) for way in tuned]
    return families
