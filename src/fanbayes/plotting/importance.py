"""What each feature tells about the class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from fanbayes.data.text_table import shortened
from fanbayes.estimators.tabular import TableClassifier
from fanbayes.plotting.display import Display, require_table_classifier

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class ImportanceDisplay(Display):
    """Mutual information of each feature with the class, under the model, the most informative first.

    Parameters
    ----------
    features : sequence of str
    information : sequence of float
        In nats.
    max_features : int, default=20
        Most bars.
    name : str, optional
        Of the model, for the title.

    Attributes
    ----------
    ax_, figure_ : matplotlib axes and figure
    bars_ : one for each feature that is shown
    """

    def __init__(
        self, features: Sequence[str], information: Sequence[float], *, max_features: int = 20, name: str | None = None
    ) -> None:
        self.features = features
        self.information = information
        self.max_features = max_features
        self.name = name

    @classmethod
    def from_estimator(cls, clf: TableClassifier, *, max_features: int = 20, ax: Axes | None = None) -> Self:
        """Draw what the features of a fitted classifier tell.

        Parameters
        ----------
        clf : fitted classifier
        max_features : int, default=20
        ax : axes to draw on, optional

        Returns
        -------
        ImportanceDisplay
        """
        require_table_classifier(clf)
        features = clf.describe()["features"]
        information = [feature["information"] for feature in features]
        names = [feature["feature"] for feature in features]
        return cls(names, information, max_features=max_features, name=type(clf).__name__).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw, on `ax` or on new axes."""
        order = sorted(range(len(self.features)), key=lambda j: -self.information[j])[: self.max_features]
        ax = self.begin(ax, (6.5, 1.5 + 0.28 * len(order)))
        values = [self.information[j] for j in order]
        self.bars_ = list(ax.barh(range(len(order)), values, height=0.7, color="tab:blue"))
        for place, x in enumerate(values):
            ax.annotate(f"{x:.3g}", (x, place), (4, 0), textcoords="offset points", va="center", fontsize="small")
        ax.margins(x=0.12)
        ax.set_yticks(range(len(order)), [shortened(self.features[j], 32) for j in order], parse_math=False)
        ax.set_ylim(len(order) - 0.4, -0.6)
        ax.set_xlabel("mutual information with the class (nats)")
        more = len(self.features) - len(order)
        of = f" under {self.name}" if self.name else ""
        ax.set_title(f"What each feature tells{of}" + (f" ({more} more tell less)" if more else ""))
        return self
