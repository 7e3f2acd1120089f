"""The objective of EM, from its starts on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from fanbayes.data.frames import from_user_table
from fanbayes.estimators.base import NetworkClassifier
from fanbayes.plotting.display import Display, require_network

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class TraceDisplay(Display):
    """The objective of EM, pass by pass, from every start.

    Parameters
    ----------
    traces : sequence of arrays (n_passes,)
        Objective of each start.
    origins, statuses : sequences of str
        Where each start came from, and what became of it; "best" is drawn thick.
    n_components : int

    Attributes
    ----------
    ax_, figure_ : matplotlib axes and figure
    lines_ : lines, one for each start
    """

    def __init__(
        self, traces: Sequence[NDArray[np.float64]], origins: Sequence[str], statuses: Sequence[str], n_components: int
    ) -> None:
        self.traces = traces
        self.origins = origins
        self.statuses = statuses
        self.n_components = n_components

    @classmethod
    def from_estimator(cls, clf: NetworkClassifier, *, n_components: int | None = None, ax: Axes | None = None) -> Self:
        """Draw the starts of one number of components.

        Parameters
        ----------
        clf : fitted classifier
        n_components : a size that was tried; by default the one that was chosen
        ax : axes to draw on, optional

        Returns
        -------
        TraceDisplay
        """
        require_network(clf)
        size = clf.n_components_ if n_components is None else n_components
        table = from_user_table(clf.starts_)
        some = [k for k, n in enumerate(table["n_components"]) if n == size]
        if not some:
            tried = ", ".join(map(str, sorted(set(table["n_components"]))))
            raise ValueError(f"n_components={size} was not tried; there are {tried}")
        origins, statuses = ([table[name][k] for k in some] for name in ("origin", "status"))
        return cls([clf.start_traces_[k] for k in some], origins, statuses, size).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw, on `ax` or on new axes."""
        ax = self.begin(ax)
        colours = {origin: f"C{k}" for k, origin in enumerate(dict.fromkeys(self.origins))}
        names: set[str] = set()
        self.lines_ = []
        for trace, origin, status in zip(self.traces, self.origins, self.statuses):
            best = status == "best"
            name = f"{origin}, the best" if best else origin
            style: dict[str, Any] = {"linewidth": 2.2, "zorder": 3} if best else {"linewidth": 1.0, "alpha": 0.6}
            label = name if name not in names else None
            (line,) = ax.plot(np.arange(1, len(trace) + 1), trace, color=colours[origin], label=label, **style)
            ax.plot(len(trace), trace[-1], marker="o" if best else "x", color=colours[origin], zorder=3)
            names.add(name)
            self.lines_.append(line)
        # The first passes gain most: show what comes after them.
        later = np.concatenate([t[min(2, len(t) - 1) :] for t in self.traces])
        later = later[np.isfinite(later)]
        top = later.max()
        margin = 0.05 * (top - later.min()) or 1.0
        ax.set_ylim(later.min() - margin, top + margin)
        ax.locator_params(axis="x", integer=True)
        n, size = len(self.traces), self.n_components
        of = f"{n} start{'s' if n > 1 else ''}, {size} component{'s' if size > 1 else ''}"
        ax.set(xlabel="pass over the data", ylabel="objective", title=f"Objective of EM: {of}")
        ax.legend(frameon=False, loc="lower right")
        return self
