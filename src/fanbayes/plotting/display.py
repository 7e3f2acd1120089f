"""What all displays share."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


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
