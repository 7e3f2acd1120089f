"""Arcs between features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from fanbayes.data.frames import from_user_table
from fanbayes.estimators.base import NetworkClassifier
from fanbayes.plotting.display import Display, require_network

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class ArcDisplay(Display):
    """The tree, or forest, between the features: children below their parents and further in, strong arcs wide.

    Features without arcs are not drawn.

    Parameters
    ----------
    arcs : mapping of equally long sequences
        "feature", "parent" and "weight", as `edges_` of a classifier.

    Attributes
    ----------
    ax_, figure_ : matplotlib axes and figure
    lines_ : lines of the arcs
    texts_ : names of the features
    """

    def __init__(self, arcs: Mapping[str, Sequence[Any]]) -> None:
        self.arcs = arcs

    @classmethod
    def from_estimator(cls, clf: NetworkClassifier, *, ax: Axes | None = None) -> Self:
        """Draw the arcs of a fitted classifier.

        Parameters
        ----------
        clf : fitted TANClassifier, or FANClassifier with a tree
        ax : axes to draw on, optional

        Returns
        -------
        ArcDisplay
        """
        require_network(clf)
        return cls(from_user_table(clf.edges_)).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw, on `ax` or on new axes."""
        places = _places(self.arcs["feature"], self.arcs["parent"])
        depth = max((x for x, _ in places.values()), default=0)
        ax = self.begin(ax, (6.0 + min(6.0, 0.25 * depth), min(16.0, 1.0 + 0.27 * len(places))))
        most = max(self.arcs["weight"], default=1.0) or 1.0
        self.lines_ = []
        for feature, parent, weight in zip(self.arcs["feature"], self.arcs["parent"], self.arcs["weight"]):
            (x0, y0), (x1, y1) = places[parent], places[feature]
            width = 0.6 + 4.4 * max(weight, 0.0) / most
            self.lines_ += ax.plot([x0, x0, x1], [y0, y1, y1], color="tab:blue", alpha=0.6, linewidth=width, zorder=1)
        self.texts_ = [
            ax.text(x + 0.1, y, name, va="center", fontsize="small", parse_math=False, zorder=2)
            for name, (x, y) in places.items()
        ]
        ax.set_xlim(-0.3, depth + 6)  # room for the names of the deepest
        ax.set_ylim(len(places) - 0.3, -0.7)
        ax.set_axis_off()
        heading = f"Arcs between features (the widest: {most:.3g} nats of log-likelihood)"
        ax.set_title(heading if places else "No arcs between features")
        return self


def _places(features: Sequence[str], parents: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Where each feature is drawn: its depth, and its line, below its parent and the children drawn before."""
    children: dict[str, list[str]] = {}
    for feature, parent in zip(features, parents):
        children.setdefault(parent, []).append(feature)
    roots = [parent for parent in children if parent not in set(features)]
    stack = [(root, 0) for root in reversed(roots)]
    places: dict[str, tuple[int, int]] = {}
    while stack:
        name, depth = stack.pop()
        places[name] = depth, len(places)
        stack += [(child, depth + 1) for child in reversed(children.get(name, []))]
    return places
