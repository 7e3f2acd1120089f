"""Numbers and facts as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


def number(value: float | None, digits: int = 3) -> str:
    return "–" if value is None or np.isnan(value) else f"{value:.{digits}f}".replace("-", "−")


def p_text(p: float) -> str:
    return f"{p:.0e}".replace("e-0", "e-") if 0 < p < 1e-3 else f"{p:.2g}"


def counts(comparison: Mapping[str, Any]) -> str:
    return f"{comparison['won']} / {comparison['lost']}"


def seconds(value: float) -> str:
    return f"{value:.3f}" if value < 1 else f"{value:.1f}"


def run_text(run: Mapping[str, Any]) -> str:
    """When, by which code and with what a run was made."""
    facts = ", ".join(f"{name} {value}" for name, value in run.items() if name not in ("date", "records"))
    return f"{run['date']}: {facts}"


def unfinished_text(failed: Mapping[str, Any]) -> str:
    folds = f"{len(failed['folds'])} of {failed['n_folds']} folds"
    return f"{failed['method']} on {failed['dataset']}, {folds}: {failed['error']}"
