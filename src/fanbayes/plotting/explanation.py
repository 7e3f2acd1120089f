"""Why this class, as a waterfall."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from fanbayes.data.text_table import shortened
from fanbayes.estimators.tabular import TableClassifier
from fanbayes.explanation.explanation import Explanation, odds, strongest
from fanbayes.plotting.display import Display, require_table_classifier

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class ExplanationDisplay(Display):
    """The log-odds of one row as a waterfall: each bar begins where the one above it ends.

    Parameters
    ----------
    terms : sequence of (label, log-odds)
        What the log-odds are the sum of, from the top.
    classes : the class, and the one that it is compared with
    row : int
        Number of the row, for the title.

    Attributes
    ----------
    ax_, figure_ : matplotlib axes and figure
    bars_ : bars of the terms
    texts_ : their numbers
    """

    def __init__(self, terms: Sequence[tuple[str, float]], classes: Sequence[Any], *, row: int = 0) -> None:
        self.terms = terms
        self.classes = classes
        self.row = row

    @classmethod
    def from_estimator(
        cls, clf: TableClassifier, X: Any, *, row: int = 0, classes: Sequence[Any] | None = None, **settings: Any
    ) -> Self:
        """Draw why a fitted classifier takes a row for its class.

        Parameters
        ----------
        clf : fitted classifier
        X : rows, as of `clf.explain`
        row : int, default=0
            Number of the row.
        classes : two labels, optional
            The class and the one to compare it with; by default the predicted class and the runner-up.
        **settings : as in `from_explanation`

        Returns
        -------
        ExplanationDisplay
        """
        require_table_classifier(clf)
        return cls.from_explanation(clf.explain(X, classes=classes), row=row, **settings)

    @classmethod
    def from_explanation(
        cls, explanation: Explanation, *, row: int = 0, max_features: int = 12, ax: Axes | None = None
    ) -> Self:
        """Draw one row of an explanation.

        Parameters
        ----------
        explanation : Explanation
        row : int, default=0
        max_features : int, default=12
            Most features to name; what others contribute is one bar.
        ax : axes to draw on, optional

        Returns
        -------
        ExplanationDisplay
        """
        n = len(explanation.log_odds)
        if not 0 <= row < n:
            raise ValueError(f"row={row} is not among the {n} rows that are explained, 0 to {n - 1}")
        terms = strongest(explanation, row, max_features)
        return cls(terms, explanation.classes[row].tolist(), row=row).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw, on `ax` or on new axes."""
        labels, sizes = zip(*self.terms)
        ax = self.begin(ax, (7.5, 1.8 + 0.3 * len(sizes)))
        ends = np.cumsum(sizes)
        starts = ends - sizes
        total = float(ends[-1])
        places = np.arange(len(sizes))
        one, other = (shortened(str(label)) for label in self.classes)
        self.bars_ = []
        for label, colour, some in (
            (f"for {one}", "tab:blue", np.asarray(sizes) >= 0),
            (f"for {other}", "tab:orange", np.asarray(sizes) < 0),
        ):
            if some.any():
                drawn = ax.barh(
                    places[some], np.asarray(sizes)[some], left=starts[some], height=0.7, color=colour, label=label
                )
                self.bars_ += list(drawn)
        ax.barh(len(sizes), total, height=0.7, color="0.45")
        for end, place in zip(ends[:-1], places):  # where the next bar begins
            ax.plot([end, end], [place + 0.35, place + 0.65], color="0.5", linewidth=0.8)
        ax.plot([total, total], [places[-1] + 0.35, len(sizes) - 0.35], color="0.5", linewidth=0.8)
        right = np.maximum(starts, ends)
        numbers = [*zip(places, right, sizes), (len(sizes), max(total, 0.0), total)]
        self.texts_ = [
            ax.annotate(f"{x:+.2f}", (at, place), (4, 0), textcoords="offset points", va="center", fontsize="small")
            for place, at, x in numbers
        ]
        ax.axvline(0, color="0.6", linewidth=0.8, zorder=0)
        ax.use_sticky_edges = False  # bars begin where others end, which would be edges without a margin
        ax.margins(x=0.14)
        ax.set_yticks([*places, len(sizes)], [*(shortened(text, 32) for text in labels), "sum"], parse_math=False)
        ax.set_ylim(len(sizes) + 0.6, -0.6)
        ax.set_xlabel(f"log-odds of {one} against {other}", parse_math=False)
        ax.set_title(f"Row {self.row}: odds {odds(total)} for {one}", parse_math=False)
        self.legend(ax, loc="best")
        return self
