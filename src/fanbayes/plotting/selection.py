"""How the scores choose the number of components."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Self

from fanbayes.data.frames import from_user_table
from fanbayes.estimators.base import NetworkClassifier
from fanbayes.plotting.display import STYLES, Display, require_network

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_CRITERIA = {"icl": "ICL", "bic": "BIC", "cs": "Cheeseman-Stutz", "aic": "AIC"}


class SelectionDisplay(Display):
    """Scores against the number of components.

    Parameters
    ----------
    n_components : sequence of int
        Sizes that were tried.
    scores : mapping of names to sequences of float
        Score of each size, larger is better.
    chosen : int
        The size that was chosen.

    Attributes
    ----------
    ax_, figure_ : matplotlib axes and figure
    lines_ : lines, one for each score
    """

    def __init__(self, n_components: Sequence[int], scores: Mapping[str, Sequence[float]], chosen: int) -> None:
        self.n_components = n_components
        self.scores = scores
        self.chosen = chosen

    @classmethod
    def from_estimator(
        cls, clf: NetworkClassifier, *, criteria: Sequence[str] = tuple(_CRITERIA), ax: Axes | None = None
    ) -> Self:
        """Draw the candidates of a fitted classifier.

        Parameters
        ----------
        clf : fitted classifier
        criteria : names of scores, of "icl", "bic", "cs" and "aic"
        ax : axes to draw on, optional

        Returns
        -------
        SelectionDisplay
        """
        require_network(clf)
        table = from_user_table(clf.selection_)
        scores = {_CRITERIA[name]: table[name] for name in criteria}
        return cls(table["n_components"], scores, clf.n_components_).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw, on `ax` or on new axes."""
        ax = self.begin(ax)
        self.lines_ = [
            ax.plot(self.n_components, score, marker=marker, markersize=5, linestyle=style, label=name)[0]
            for (name, score), style, marker in zip(self.scores.items(), cycle(STYLES), cycle("osD^"))
        ]
        ax.axvline(self.chosen, color="0.75", linewidth=5, zorder=0, label=f"chosen: {self.chosen}")
        ax.set(xlabel="number of components", ylabel="score (larger is better)")
        ax.set_title("Scores of the numbers of components that were tried")
        ax.locator_params(axis="x", integer=True)
        self.legend(ax, beside=True)
        return self
