"""What all displays share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from fanbayes.estimators.base import NetworkClassifier
from fanbayes.estimators.tabular import TableClassifier

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


STYLES = ("-", "--", "-.", ":")  # so that a line which lies on another does not hide it
_MOST_INSIDE, _MOST_ENTRIES = 6, 30  # of a legend


def require_network(clf: Any) -> None:
    """Refuse what is not a fitted network: it has no components, candidates or arcs to be drawn."""
    if not isinstance(clf, NetworkClassifier):
        raise TypeError(f"this figure is of networks, such as FANClassifier, and not of {type(clf).__name__}")
    check_is_fitted(clf)


def require_table_classifier(clf: Any) -> None:
    """Refuse what is not a fitted classifier of this library."""
    if not isinstance(clf, TableClassifier):
        raise TypeError(f"this figure is of classifiers of fanbayes, and not of {type(clf).__name__}")
    check_is_fitted(clf)


def colours(n: int) -> list[Any]:
    """Colours of n classes that can be told apart, as far as there are so many."""
    from matplotlib import colormaps

    if n <= 10:
        return [f"C{c}" for c in range(n)]
    return list(colormaps["turbo"](np.linspace(0.05, 0.95, n)))


class Display:
    """Axes to draw on."""

    ax_: Axes
    figure_: Figure

    def begin(self, ax: Axes | None, size: tuple[float, float] | None = None) -> Axes:
        """Take the axes given, or make new ones of a size in inches."""
        try:
            from matplotlib import pyplot
        except ImportError as error:
            raise ImportError("plots need matplotlib: pip install 'fanbayes[plot]'") from error
        self.ax_ = pyplot.subplots(figsize=size, layout="constrained")[1] if ax is None else ax
        self.figure_ = self.ax_.get_figure(root=True)  # type: ignore[assignment]
        return self.ax_

    def legend(self, ax: Axes, *, beside: bool = False, **where: Any) -> None:
        """A legend in which names are no formulas; `beside` the axes also where it is long, none if it is endless."""
        handles, labels = ax.get_legend_handles_labels()
        if not 0 < len(labels) <= _MOST_ENTRIES:
            return
        if beside or len(labels) > _MOST_INSIDE:
            where = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)}
        legend = ax.legend(handles, labels, frameon=False, fontsize="small", **where)
        for entry in legend.get_texts():
            entry.set_parse_math(False)  # a name with two $ is no formula
