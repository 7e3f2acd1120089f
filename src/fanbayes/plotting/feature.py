"""What a feature is like in each class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from fanbayes.data.text_table import shortened
from fanbayes.estimators.base import NetworkClassifier
from fanbayes.estimators.boosted_nb import BoostedNBClassifier
from fanbayes.estimators.fan_cv import FANClassifierCV
from fanbayes.explanation.distributions import FeatureDistribution, feature_distribution
from fanbayes.plotting.display import STYLES, Display, colours, require_table_classifier

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fanbayes.data.schema import Schema
    from fanbayes.model.network import Network

_MOST_BARS = 90


class FeatureDisplay(Display):
    """p(x | class) of one feature: bars for levels, a curve for numbers.

    Parameters
    ----------
    distribution : FeatureDistribution
    classes : sequence of labels
    components : bool, default=False
        Whether the components that the classes are mixtures of are drawn as well, scaled by their share in the class.
    max_levels : int, default=20
        Most levels to draw: those on which the classes differ most.

    Attributes
    ----------
    ax_, figure_ : matplotlib axes and figure
    artists_ : for each class its line, or its bars
    """

    def __init__(
        self,
        distribution: FeatureDistribution,
        classes: Sequence[Any],
        *,
        components: bool = False,
        max_levels: int = 20,
    ) -> None:
        self.distribution = distribution
        self.classes = classes
        self.components = components
        self.max_levels = max_levels

    @classmethod
    def from_estimator(
        cls,
        clf: NetworkClassifier | FANClassifierCV | BoostedNBClassifier,
        feature: str | int,
        *,
        components: bool = False,
        max_levels: int = 20,
        ax: Axes | None = None,
    ) -> Self:
        """Draw what a fitted classifier believes of a feature.

        Parameters
        ----------
        clf : fitted classifier
            A network; of an average, the one that fills in missing values; of boosted naive Bayes, the first round.
        feature : name or position of the column
        components : bool, default=False
        max_levels : int, default=20
        ax : axes to draw on, optional

        Returns
        -------
        FeatureDisplay
        """
        distribution = feature_distribution(*_joint(clf), feature)
        return cls(distribution, clf.classes_.tolist(), components=components, max_levels=max_levels).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw, on `ax` or on new axes."""
        ax = self.begin(ax)
        name = shortened(self.distribution.feature, 40)
        if self.distribution.levels is None:
            self._draw_curves(ax)
            ax.set_xlabel(name, parse_math=False)
        else:
            self._draw_bars(ax)
        p = "density" if self.distribution.is_density else "probability"
        ax.set_ylabel(f"{p} given the class")
        ax.set_ylim(bottom=0)
        parts = f" ({'areas' if self.distribution.levels is None else 'sections'}: components)"
        ax.set_title(f"{name} in each class{parts if self._has_components else ''}", parse_math=False)
        self.legend(ax)
        return self

    @property
    def _has_components(self) -> bool:
        return self.components and bool(((self.distribution.weight > 0).sum(axis=1) > 1).any())

    def _draw_curves(self, ax: Axes) -> None:
        """A line for each class; of counts, with a dot for each."""
        d = self.distribution
        marker: dict[str, Any] = {} if d.is_density or len(d.x) > 60 else {"marker": "o", "markersize": 3}
        self.artists_: list[Any] = []
        for c, (label, colour) in enumerate(zip(self.classes, colours(len(self.classes)))):
            style = STYLES[c % len(STYLES)]
            (line,) = ax.plot(
                d.x, d.classes[:, c], color=colour, linestyle=style, linewidth=2, label=shortened(str(label)), **marker
            )
            self.artists_.append(line)
            for k in np.flatnonzero(d.weight[c]) if self._has_components else ():
                ax.fill_between(d.x, d.weight[c, k] * d.cells[:, k], color=colour, alpha=0.15, linewidth=0.8)

    def _draw_bars(self, ax: Axes) -> None:
        """Bars of the classes beside each other for each level, or stacked from the components of each class."""
        d = self.distribution
        assert d.levels is not None
        differ = d.classes.max(axis=1) - d.classes.min(axis=1)
        most = max(2, min(self.max_levels, _MOST_BARS // len(self.classes)))
        shown = np.sort(np.argsort(-differ, kind="stable")[:most])
        n, height = len(self.classes), 0.8 / len(self.classes)
        self.artists_ = []
        for c, (label, colour) in enumerate(zip(self.classes, colours(n))):
            at = np.arange(len(shown)) + (c - (n - 1) / 2) * height
            name = shortened(str(label))
            cells = np.flatnonzero(d.weight[c]) if self._has_components else np.empty(0, dtype=int)
            bars = ax.bar(at, d.classes[shown, c], width=0.9 * height, color=colour, label=name)
            self.artists_.append(bars)
            bottom = np.zeros(len(shown))
            for k in cells[:-1]:  # lines between what the components add
                bottom = bottom + d.weight[c, k] * d.cells[shown, k]
                ax.hlines(bottom, at - 0.45 * height, at + 0.45 * height, color="white", linewidth=1.2)
        names = [shortened(d.levels[k], 16) for k in shown]
        crowded = sum(map(len, names)) > 50
        ax.set_xticks(
            range(len(shown)),
            names,
            parse_math=False,
            rotation=60 if crowded else 0,
            ha="right" if crowded else "center",
            rotation_mode="anchor" if crowded else "default",
        )
        more = len(d.levels) - len(shown)
        ax.set_xlabel(f"{more} more levels differ less" if more else "")


def _joint(clf: Any) -> tuple[Network, Schema]:
    """The joint distribution that a fitted classifier has, and the columns as it sees them."""
    require_table_classifier(clf)
    if isinstance(clf, NetworkClassifier):
        return clf.network_, clf.schema_
    if isinstance(clf, FANClassifierCV):
        return clf.imputer_.network, clf.imputer_.schema
    if isinstance(clf, BoostedNBClassifier):
        return clf.boosted_.networks[0], clf.schema_
    raise TypeError(
        f"{type(clf).__name__} has no one distribution of a feature in each class; this figure is of networks, "
        "averages and boosted naive Bayes"
    )
