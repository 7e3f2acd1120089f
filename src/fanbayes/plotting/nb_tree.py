"""A decision tree with naive Bayes in its leaves, drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

from sklearn.utils.validation import check_is_fitted

from fanbayes.estimators.nb_tree import NBTreeClassifier
from fanbayes.explanation.nb_tree import describe_tree
from fanbayes.plotting.display import Display, colours

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LONGEST = 24  # characters of a line


class NBTreeDisplay(Display):
    """A tree: its splits, and in every node the cases and the shares of the classes.

    Parameters
    ----------
    nodes : sequence of dict
        As `describe()["nodes"]` of an `NBTreeClassifier`.
    classes : sequence of labels
    max_depth : int, optional
        Nodes below it are left out.

    Attributes
    ----------
    ax_, figure_ : matplotlib axes and figure
    bars_ : the shares of the classes, one group of bars for each class
    texts_ : what stands beside the nodes
    """

    def __init__(
        self, nodes: Sequence[dict[str, Any]], classes: Sequence[Any], *, max_depth: int | None = None
    ) -> None:
        self.nodes = nodes
        self.classes = classes
        self.max_depth = max_depth

    @classmethod
    def from_estimator(cls, clf: NBTreeClassifier, *, max_depth: int | None = None, ax: Axes | None = None) -> Self:
        """Draw the tree of a fitted classifier.

        Parameters
        ----------
        clf : fitted NBTreeClassifier
        max_depth : int, optional
        ax : axes to draw on, optional

        Returns
        -------
        NBTreeDisplay
        """
        check_is_fitted(clf)
        classes = clf.classes_.tolist()
        return cls(describe_tree(clf.nb_tree_, classes), classes, max_depth=max_depth).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw, on `ax` or on new axes: the root on the left, a line for every node."""
        most = self.max_depth
        shown = [node for node in self.nodes if most is None or node["depth"] <= most]
        depth = max(node["depth"] for node in shown)
        ax = self.begin(ax, (max(6.0, 4.5 + 0.4 * depth), max(2.0, 1.2 + 0.26 * len(shown))))
        line = {node["node"]: number for number, node in enumerate(shown)}
        indent, width = 0.35, 1.0
        self.bars_, self.texts_ = [], []
        for node in shown[1:]:
            x = indent * node["depth"] - indent / 2
            top, own = line[node["parent"]], line[node["node"]]
            ax.plot([x, x, x + indent / 2], [top + 0.4, own, own], color="0.6", linewidth=1, zorder=0)
        end = [indent * node["depth"] for node in shown]
        for (c, label), colour in zip(enumerate(self.classes), colours(len(self.classes))):
            share = [width * node["prior"][c]["prior"] for node in shown]
            self.bars_.append(
                ax.barh(range(len(shown)), share, left=end, height=0.7, color=colour, label=_short(str(label)))
            )
            end = [x + more for x, more in zip(end, share)]
        for number, node in enumerate(shown):
            what = _short(node["condition"] or "all rows")
            split = "" if node["feature"] is None else f", by {_short(node['feature'])}"
            text = f"{what}: {_count(node['cases'])}{split}"
            self.texts_.append(ax.text(end[number] + 0.05, number, text, va="center", fontsize=8, parse_math=False))
        ax.set(xlim=(-0.1, indent * depth + width + 2.2), ylim=(len(shown) - 0.4, -0.6), xticks=[], yticks=[])
        ax.set_frame_on(False)
        ax.set_title("Cases of each node, and the shares of the classes", fontsize="medium")
        self.legend(ax, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=3)
        return self


def _count(cases: float) -> str:
    return f"{cases:.0f}" if cases == round(cases) else f"{cases:.1f}"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
