"""Whether probabilities are as often right as they say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from fanbayes.arrays import Floats
from fanbayes.evaluation.metrics import N_BINS, ReliabilityCurve, Strategy, reliability_curve
from fanbayes.plotting.display import STYLES, Display

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class ReliabilityDisplay(Display):
    """Predicted probability against observed frequency.

    Parameters
    ----------
    curve : ReliabilityCurve
    name : str, optional
    positive : label, optional
        The class whose probability is judged; by default that of the predicted class.

    Attributes
    ----------
    ax_, figure_ : matplotlib axes and figure
    line_ : the curve
    """

    def __init__(self, curve: ReliabilityCurve, *, name: str | None = None, positive: Any = None) -> None:
        self.curve = curve
        self.name = name
        self.positive = positive

    @classmethod
    def from_estimator(cls, clf: Any, X: Any, y: ArrayLike, *, name: str | None = None, **settings: Any) -> Self:
        """Draw the predictions of a fitted classifier.

        Parameters
        ----------
        clf : any fitted classifier with `predict_log_proba`
        X, y : rows, better not those it was fitted on, and their classes
        name : how to call it; by default the name of its class
        **settings : as in `from_predictions`

        Returns
        -------
        ReliabilityDisplay
        """
        log_proba, classes = clf.predict_log_proba(X), clf.classes_
        return cls.from_predictions(y, log_proba, classes=classes, name=name or type(clf).__name__, **settings)

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        log_proba: ArrayLike,
        *,
        classes: ArrayLike,
        positive: Any = None,
        n_bins: int = N_BINS,
        strategy: Strategy = "uniform",
        sample_weight: ArrayLike | None = None,
        name: str | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Draw predictions.

        Parameters
        ----------
        y_true : array-like of shape (n,)
        log_proba : array-like of shape (n, n_classes)
        classes : array-like of shape (n_classes,)
        positive, n_bins, strategy, sample_weight
            As in `fanbayes.metrics.reliability_curve`.
        name : what to call the curve, optional
        ax : axes to draw on, optional

        Returns
        -------
        ReliabilityDisplay
        """
        curve = reliability_curve(
            y_true,
            log_proba,
            classes=classes,
            positive=positive,
            n_bins=n_bins,
            strategy=strategy,
            sample_weight=sample_weight,
        )
        return cls(curve, name=name, positive=positive).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw, on `ax` or on new axes.

        The area of a dot is the share of rows in its bin, the bar through it a 95 % interval (Wilson 1927) of the
        observed frequency.
        """
        ax = self.begin(ax)
        if not ax.lines:
            ax.plot([0, 1], [0, 1], color="0.6", linestyle=":", zorder=0, label="perfectly calibrated")
        curve, n_before = self.curve, len(ax.lines) - 1
        label = f"{self.name or 'predictions'} (ECE {curve.calibration_error:.3f})"
        (self.line_,) = ax.plot(
            curve.predicted, curve.observed, linewidth=1.4, linestyle=STYLES[n_before % len(STYLES)], label=label
        )
        colour = self.line_.get_color()
        ax.vlines(curve.predicted, *_wilson(curve.observed, curve.count), color=colour, linewidth=1, alpha=0.4)
        area = 4 + 400 * curve.count / curve.count.sum()
        ax.scatter(curve.predicted, curve.observed, s=area, color=colour, alpha=0.6, linewidths=0)
        judged = "the predicted class" if self.positive is None else self.positive
        ax.set(ylabel="observed frequency", aspect="equal")
        ax.set_xlabel(f"predicted probability of {judged}", parse_math=False)
        ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
        ax.set_title("Reliability: dots below the diagonal are overconfident")
        self.legend(ax, loc="upper center", bbox_to_anchor=(0.5, -0.13))
        return self


def _wilson(frequency: Floats, n: Floats) -> tuple[Floats, Floats]:
    """Ends of the 95 % intervals of frequencies among n cases, (n_bins,) each."""
    z2 = 1.959964**2
    middle = (frequency + z2 / (2 * n)) / (1 + z2 / n)
    half = np.sqrt(z2 * (frequency * (1 - frequency) / n + z2 / (4 * n**2))) / (1 + z2 / n)
    return middle - half, middle + half
