"""Figures of a comparison, as SVG; they need matplotlib."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping
from importlib.util import find_spec
from itertools import cycle
from typing import TYPE_CHECKING

from sklearn.metrics import auc

from fanbayes.commands.output import printable
from fanbayes.evaluation.comparison import Predictions
from fanbayes.evaluation.confusion import roc_points
from fanbayes.plotting import ReliabilityDisplay
from fanbayes.plotting.display import STYLES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_PANELS = 12


def can_draw() -> bool:
    """Whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def reliability_figure(found: Mapping[str, Predictions]) -> bytes:
    """Confidence against accuracy, a curve for each classifier."""
    figure, axes = _panels(1)
    for name, predictions in found.items():
        ReliabilityDisplay.from_predictions(
            predictions.labels, predictions.log_proba, classes=predictions.classes, name=name, ax=axes[0]
        )
    return _svg(figure)


def roc_figure(found: Mapping[str, Predictions]) -> bytes:
    """ROC curves: of the second of two classes, else of each class against the rest; empty if there are none."""
    one = next(iter(found.values()))
    classes = one.classes
    judged = [k for k in range(len(classes)) if 0 < sum(one.labels == classes[k]) < len(one.labels)][:MOST_PANELS]
    if len(classes) == 2:
        judged = [k for k in judged if k == 1]
    if not judged:
        return b""
    figure, axes = _panels(len(judged))
    for ax, k in zip(axes, judged):
        ax.plot([0, 1], [0, 1], color="0.6", linestyle=":", zorder=0)
        for (name, predictions), style in zip(found.items(), cycle(STYLES)):
            wrong, right = roc_points(predictions.log_proba, predictions.labels == classes[k], k)
            ax.plot(wrong, right, linewidth=1.4, linestyle=style, label=f"{name} ({auc(wrong, right):.3f})")
        ax.set(xlabel="false positives", ylabel="true positives", aspect="equal")
        against = classes[0] if len(classes) == 2 else "the rest"
        ax.set_title(printable(f"ROC of {classes[k]} against {against}"), parse_math=False)
        ax.legend(frameon=False, loc="lower right")
    return _svg(figure)


def _panels(n: int) -> tuple[Figure, list[Axes]]:
    from matplotlib.figure import Figure

    columns = min(n, 3)
    lines = math.ceil(n / columns)
    figure = Figure(figsize=(4.8 * columns, 4.8 * lines), layout="constrained")
    return figure, list(figure.subplots(lines, columns, squeeze=False).flat)


def _svg(figure: Figure) -> bytes:
    from matplotlib import rc_context

    for ax in figure.axes:
        ax.set_visible(bool(ax.lines))
    file = io.BytesIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "fanbayes"}):
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": "fanbayes"})
    return file.getvalue()
