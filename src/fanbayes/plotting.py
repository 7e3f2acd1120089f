"""Figures, after scikit-learn's `Display` objects; they need matplotlib, ``pip install 'fanbayes[plot]'``.

A display holds numbers; `from_estimator` takes them from a fitted classifier and calls `plot`, which may be called
again. `ax_` and `figure_` are what it has drawn on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from fanbayes.data.frames import from_user_table
from fanbayes.estimators.base import NetworkClassifier
from fanbayes.evaluation.metrics import ReliabilityCurve, Strategy, reliability_curve
from fanbayes.explanation.profiles import Profiles, component_profiles

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["ComponentDisplay", "ReliabilityDisplay", "SelectionDisplay", "TraceDisplay"]

Floats = NDArray[np.float64]

_CRITERIA = {"icl": "ICL", "bic": "BIC", "cs": "Cheeseman-Stutz", "aic": "AIC"}


class _Display:
    """Axes to draw on."""

    ax_: Axes
    figure_: Figure

    def _begin(self, ax: Axes | None, size: tuple[float, float] | None = None) -> Axes:
        try:
            from matplotlib import pyplot
        except ImportError as error:
            raise ImportError("plots need matplotlib: pip install 'fanbayes[plot]'") from error
        self.ax_ = pyplot.subplots(figsize=size, layout="constrained")[1] if ax is None else ax
        self.figure_ = self.ax_.get_figure(root=True)  # type: ignore[assignment]
        return self.ax_


class SelectionDisplay(_Display):
    """Scores against the number of components.

    Parameters
    ----------
    n_components : sequence of int
        Sizes that were tried.
    scores : mapping of names to sequences of float
        Score of each size, larger is better.
    chosen : int
        The size that was chosen.

    Attributes
    ----------
    ax_, figure_ : matplotlib axes and figure
    lines_ : lines, one for each score
    """

    def __init__(self, n_components: Sequence[int], scores: Mapping[str, Sequence[float]], chosen: int) -> None:
        self.n_components = n_components
        self.scores = scores
        self.chosen = chosen

    @classmethod
    def from_estimator(
        cls, clf: NetworkClassifier, *, criteria: Sequence[str] = tuple(_CRITERIA), ax: Axes | None = None
    ) -> Self:
        """Draw the candidates of a fitted classifier.

        Parameters
        ----------
        clf : fitted classifier
        criteria : names of scores, of "icl", "bic", "cs" and "aic"
        ax : axes to draw on, optional

        Returns
        -------
        SelectionDisplay
        """
        check_is_fitted(clf)
        table = from_user_table(clf.selection_)
        scores = {_CRITERIA[name]: table[name] for name in criteria}
        return cls(table["n_components"], scores, clf.n_components_).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw, on `ax` or on new axes."""
        ax = self._begin(ax)
        self.lines_ = [
            ax.plot(self.n_components, score, marker="o", markersize=4, label=name)[0]
            for name, score in self.scores.items()
        ]
        ax.axvline(self.chosen, color="0.6", linestyle=":", zorder=0, label=f"chosen: {self.chosen}")
        ax.set(xlabel="number of components", ylabel="score (larger is better)")
        ax.set_xticks(list(self.n_components))
        ax.legend(frameon=False)
        return self


class TraceDisplay(_Display):
    """What EM climbed, pass by pass, from every start.

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
        self, traces: Sequence[Floats], origins: Sequence[str], statuses: Sequence[str], n_components: int
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
        check_is_fitted(clf)
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
        ax = self._begin(ax)
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
        ax.set(xlabel="pass over the data", ylabel="objective", title=f"{self.n_components} components")
        ax.legend(frameon=False, loc="lower right")
        return self


class ReliabilityDisplay(_Display):
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
        n_bins: int = 15,
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
        ax = self._begin(ax)
        if not ax.lines:
            ax.plot([0, 1], [0, 1], color="0.6", linestyle=":", zorder=0, label="perfectly calibrated")
        curve = self.curve
        error = np.average(np.abs(curve.observed - curve.predicted), weights=curve.count)
        (self.line_,) = ax.plot(
            curve.predicted, curve.observed, linewidth=1.2, label=f"{self.name or 'predictions'} (ECE {error:.3f})"
        )
        colour = self.line_.get_color()
        ax.vlines(curve.predicted, *_wilson(curve.observed, curve.count), color=colour, linewidth=1, alpha=0.4)
        area = 4 + 400 * curve.count / curve.count.sum()
        ax.scatter(curve.predicted, curve.observed, s=area, color=colour, alpha=0.6, linewidths=0)
        judged = "the predicted class" if self.positive is None else self.positive
        ax.set(ylabel="observed frequency", aspect="equal")
        ax.set_xlabel(f"predicted probability of {judged}", parse_math=False)
        ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
        ax.legend(frameon=False, loc="upper left")
        return self


class ComponentDisplay(_Display):
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
        check_is_fitted(clf)
        profiles = component_profiles(clf.network_, clf.schema_)
        return cls(profiles, clf.classes_.tolist(), max_traits=max_traits).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw, on `ax` or on new axes."""
        profiles = self.profiles
        shown = np.sort(np.argsort(-profiles.weight, kind="stable")[: self.max_traits])
        n_cells = len(profiles.share)
        ax = self._begin(ax, (max(5.0, 3.5 + 0.5 * n_cells), max(3.0, 1.5 + 0.25 * len(shown))))
        limit = max(1.0, float(np.abs(profiles.difference[shown]).max(initial=0.0)))
        self.image_ = ax.imshow(
            profiles.difference[shown], cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto", interpolation="nearest"
        )
        names = [profiles.traits[k] for k in shown]
        traits = [f if level is None else f"{f} = {level}" for f, level in names]
        ax.set_yticks(range(len(names)), traits, parse_math=False)  # a name with two $ is no formula
        shares = [f"h{h}\n{100 * p:.0f}%" for h, p in zip(profiles.component_of, profiles.share)]
        ax.set_xticks(range(n_cells), shares)
        if profiles.class_of is not None:
            first = np.flatnonzero(np.diff(profiles.class_of, prepend=-1))
            for edge in first[1:]:
                ax.axvline(edge - 0.5, color="black", linewidth=1)
            middle = (first + np.append(first[1:], n_cells) - 1) / 2
            top = ax.secondary_xaxis("top")
            top.set_xticks(middle, [str(c) for c in self.classes], parse_math=False)
            top.tick_params(length=0)
        self.figure_.colorbar(self.image_, ax=ax, label="difference (standard deviations)")
        return self


def _wilson(frequency: Floats, n: Floats) -> tuple[Floats, Floats]:
    """Ends of the 95 % intervals of frequencies among n cases, (n_bins,) each."""
    z2 = 1.959964**2
    middle = (frequency + z2 / (2 * n)) / (1 + z2 / n)
    half = np.sqrt(z2 * (frequency * (1 - frequency) / n + z2 / (4 * n**2))) / (1 + z2 / n)
    return middle - half, middle + half
