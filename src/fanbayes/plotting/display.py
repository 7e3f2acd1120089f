"""What all displays share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sklearn.utils.validation import check_is_fitted

from fanbayes.estimators.base import NetworkClassifier

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def require_network(clf: Any) -> None:
    """Refuse what is not a fitted network: it has no components, candidates or arcs to be drawn."""
    if not isinstance(clf, NetworkClassifier):
        raise TypeError(f"this figure is of networks, such as FANClassifier, and not of {type(clf).__name__}")
    check_is_fitted(clf)


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
