"""Numbers and facts as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fanbayes.evaluation.significance import WinLoss

TREATMENTS = {"none": "as they are", "mdlp": "binned", "decorrelate": "decorrelated", "normal_scores": "normal scores"}
"""How the members of an average see the continuous columns."""
KNOWS_OF_HOLES = "* knows whether a value is missing."


def columns_text(member: Mapping[str, Any]) -> str:
    """How a member of an average sees the columns, with an asterisk if it knows whether a value is missing."""
    star = "*" if member.get("missing") == "informative" else ""
    return f"{TREATMENTS.get(member['treatment'], member['treatment'])}{star}"


def number(value: float | None, digits: int = 3) -> str:
    """A number as pages show it; a dash where there is none."""
    return "–" if value is None or value != value else f"{value:.{digits}f}".replace("-", "−")


def p_text(p: float) -> str:
    """A p-value by two digits, or by one where only its order of magnitude matters.

    >>> [p_text(p) for p in (0.5, 0.0123, 0.0004, 0.00002)]
    ['0.50', '0.012', '0.0004', '2e-5']
    """
    if 0 < p < 1e-4:
        return f"{p:.0e}".replace("e-0", "e-")
    return f"{p:.2g}" if p < 0.1 else f"{p:.2f}"


def counts(count: WinLoss | None) -> str:
    """Wins and losses, as the paper writes them."""
    return "–" if count is None else f"{count.wins}/{count.losses}"


def run_text(run: Mapping[str, object]) -> str:
    """When, by which code and with what a run was made."""
    facts = ", ".join(f"{name} {value}" for name, value in run.items() if name not in ("date", "records"))
    return f"{run['date']}: {facts}"


def significant(x: NDArray[np.float64], digits: int) -> list[Any]:
    """Numbers of any shape as nested lists, by so many significant digits: short as text.

    >>> significant(np.array([[1 / 3, 12345.678]]), 3)
    [[0.333, 12300.0]]
    """
    rounded = np.array([float(f"{value:.{digits}g}") for value in x.ravel().tolist()])
    nested: list[Any] = rounded.reshape(x.shape).tolist()
    return nested
