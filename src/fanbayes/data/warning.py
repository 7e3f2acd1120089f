"""Warnings that point at the user's own line."""

from __future__ import annotations

import sys
import warnings


def warn(warning: Warning) -> None:
    """Issue a warning at the line that called the library."""
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("fanbayes."):
        frame, level = frame.f_back, level + 1
    warnings.warn(warning, stacklevel=level)
