"""Facts of the comparison as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def counts(comparison: Mapping[str, Any]) -> str:
    return f"{comparison['won']} / {comparison['lost']}"


def seconds(value: float) -> str:
    return f"{value:.3f}" if value < 1 else f"{value:.1f}"


def unfinished_text(failed: Mapping[str, Any]) -> str:
    folds = f"{len(failed['folds'])} of {failed['n_folds']} folds"
    return f"{failed['method']} on {failed['dataset']}, {folds}: {failed['error']}"
