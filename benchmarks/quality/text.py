"""Numbers as text."""

from __future__ import annotations

import numpy as np

from fanbayes.evaluation.significance import WinLoss


def number(value: float | None, digits: int = 3) -> str:
    return "–" if value is None or np.isnan(value) else f"{value:.{digits}f}".replace("-", "−")


def p_text(p: float) -> str:
    return f"{p:.0e}".replace("e-0", "e-") if 0 < p < 1e-3 else f"{p:.2g}"


def counts(count: WinLoss) -> str:
    return f"{count.wins} / {count.losses}"


def seconds(value: float) -> str:
    return f"{value:.3f}" if value < 1 else f"{value:.1f}"
