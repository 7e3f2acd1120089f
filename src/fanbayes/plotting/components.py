"""What distinguishes the components."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from fanbayes.data.text_table import shortened
from fanbayes.estimators.base import NetworkClassifier
from fanbayes.explanation.profiles import Profiles, component_profiles
from fanbayes.plotting.display import Display, require_network

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class ComponentDisplay(Display):
    """What distinguishes the components: how far each lies from the average, feature by feature.

    Parameters
    ----------
    profiles : Profiles
    classes : sequence of labels
    max_traits : int, default=20
        Most lines: those are shown that distinguish the components most.

    Attributes
    ----------
    ax_, figure_ : matplotlib axes and figure
    image_ : the coloured cells
    """

    def __init__(self, profiles: Profiles, classes: Sequence[Any], *, max_traits: int = 20) -> None:
        self.profiles = profiles
        self.classes = classes
        self.max_traits = max_traits

    @classmethod
    def from_estimator(cls, clf: NetworkClassifier, *, max_traits: int = 20, ax: Axes | None = None) -> Self:
        """Draw the components of a fitted classifier.

        Parameters
        ----------
        clf : fitted classifier
        max_traits : int, default=20
        ax : axes to draw on, optional

        Returns
        -------
        ComponentDisplay
        """
        require_network(clf)
        profiles = component_profiles(clf.network_, clf.schema_)
        return cls(profiles, clf.classes_.tolist(), max_traits=max_traits).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw, on `ax` or on new axes."""
        profiles = self.profiles
        shown = np.sort(np.argsort(-profiles.weight, kind="stable")[: self.max_traits])
        n_cells = len(profiles.share)
        ax = self.begin(ax, (max(5.0, 3.5 + 0.5 * n_cells), max(3.0, 1.5 + 0.25 * len(shown))))
        limit = max(1.0, float(np.abs(profiles.difference[shown]).max(initial=0.0)))
        self.image_ = ax.imshow(
            profiles.difference[shown], cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto", interpolation="nearest"
        )
        names = [profiles.traits[k] for k in shown]
        traits = [f if level is None else f"{f} = {level}" for f, level in names]
        traits = [shortened(text, 40) for text in traits]
        ax.set_yticks(range(len(names)), traits, parse_math=False)  # a name with two $ is no formula
        shares = [f"h{h}\n{100 * p:.0f}%" for h, p in zip(profiles.component_of, profiles.share)]
        ax.set_xticks(range(n_cells), shares, fontsize="small" if n_cells > 8 else "medium")
        if profiles.class_of is not None:
            first = np.flatnonzero(np.diff(profiles.class_of, prepend=-1))
            for edge in first[1:]:
                ax.axvline(edge - 0.5, color="black", linewidth=1)
            middle = (first + np.append(first[1:], n_cells) - 1) / 2
            top = ax.secondary_xaxis("top")
            labels = [shortened(str(c)) for c in self.classes]
            room = 6 * n_cells / len(labels)  # characters above the cells of a class
            top.set_xticks(middle, labels, parse_math=False)
            if max(map(len, labels)) > room:
                top.tick_params(axis="x", rotation=60)
                for text in top.get_xticklabels():
                    text.set(ha="left", rotation_mode="anchor")
            top.tick_params(length=0)
        ax.set_title("What distinguishes the components")
        self.figure_.colorbar(self.image_, ax=ax, label="difference (standard deviations)")
        return self
