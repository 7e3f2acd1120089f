"""Arcs between features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from sklearn.utils.validation import check_is_fitted

from fanbayes.data.frames import from_user_table
from fanbayes.estimators.base import NetworkClassifier
from fanbayes.plotting.display import Display

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class ArcDisplay(Display):
    """The tree, or forest, between the features: parents left of their children, strong arcs wide.

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
        check_is_fitted(clf)
        return cls(from_user_table(clf.edges_)).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw, on `ax` or on new axes."""
        places = _places(self.arcs["feature"], self.arcs["parent"])
        depth = max((x for x, _ in places.values()), default=0.0)
        ax = self.begin(ax, (max(5.0, 1.9 * (depth + 1)), max(2.5, 0.3 * len(places))))
        most = max(self.arcs["weight"], default=1.0) or 1.0
        self.lines_ = []
        for feature, parent, weight in zip(self.arcs["feature"], self.arcs["parent"], self.arcs["weight"]):
            (x0, y0), (x1, y1) = places[parent], places[feature]
            width = 0.6 + 4.4 * max(weight, 0.0) / most
            self.lines_ += ax.plot([x0, x1], [y0, y1], color="tab:blue", alpha=0.5, linewidth=width, zorder=1)
        box = {"boxstyle": "round,pad=0.25", "facecolor": "white", "edgecolor": "tab:blue"}
        self.texts_ = [
            ax.text(x, y, name, ha="center", va="center", bbox=box, fontsize="small", parse_math=False, zorder=2)
            for name, (x, y) in places.items()
        ]
        ax.set_xlim(-0.6, depth + 0.6)
        ax.set_ylim(-0.7, max((y for _, y in places.values()), default=0.0) + 0.7)
        ax.set_axis_off()
        ax.set_title("Arcs between features" if places else "No arcs between features")
        return self


def _places(features: Sequence[str], parents: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Where each feature is drawn: its depth, and the middle of the leaves below it."""
    children: dict[str, list[str]] = {}
    for feature, parent in zip(features, parents):
        children.setdefault(parent, []).append(feature)
    roots = [parent for parent in children if parent not in set(features)]
    depth = dict.fromkeys(roots, 0)
    order = list(roots)
    for name in order:  # grows on the way: parents before their children
        for child in children.get(name, []):
            depth[child] = depth[name] + 1
            order.append(child)
    leaves = iter(range(len(order)))
    height: dict[str, float] = {}

    # Leaves from the top of each tree on, one below the other; then the middle of the children.
    stack = list(reversed(roots))
    visited: list[str] = []
    while stack:
        name = stack.pop()
        visited.append(name)
        stack += reversed(children.get(name, []))
    for name in visited:
        if name not in children:
            height[name] = float(next(leaves))
    for name in reversed(visited):
        if name in children:
            own = [height[child] for child in children[name]]
            height[name] = (min(own) + max(own)) / 2
    return {name: (float(depth[name]), height[name]) for name in visited}
