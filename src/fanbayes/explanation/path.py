"""Integrals along the path from everything missing to a row, for models that are mixtures of networks.

On the path a common exponent t is on every observed feature. The log-odds change with t by a sum over states s and
features i of ``coefficient_s(t) l_i(s)``, so that the coefficients are integrated once for all features.

The integral is taken by Gauss-Legendre rules on steps that are halved until each reproduces the change of the
log-odds over it.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from fanbayes.arrays import Floats, Ints
from fanbayes.explanation.contributions import TOLERANCE

N_NODES = 16
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(N_NODES)
_NODES, _WEIGHTS = (_NODES + 1) / 2, _WEIGHTS / 2
_HALVINGS = 40
_ROUNDING = 3e-15
_MOST_STEPS = 4096  # at one time; beyond, rounding is all that is halved
_NUMBERS_AT_ONCE = 1 << 20


class Path(Protocol):
    """From everything missing, at t = 0, to rows, at t = 1."""

    @property
    def slope(self) -> Floats:
        """Sum over the features of l_i(s), (n_rows, n_states)."""

    def log_odds(self, t: Floats, row: Ints) -> tuple[Floats, Floats]:
        """Log-odds of rows (n,) at t (n,), and what each part of the model has in the first class."""

    def coefficient(self, t: Floats, row: Ints) -> Floats:
        """What multiplies l_i(s) in the derivative of the log-odds, (n, n_states)."""


def integrate(path: Path, size: Floats) -> Floats:
    """Integral of `coefficient` over t from 0 to 1, (n_rows, n_states).

    A step may miss the change of the log-odds by its share of `TOLERANCE`, and by what rounding does to terms of the
    given size (n_rows,).
    """
    n_rows, n_states = path.slope.shape
    total = np.zeros((n_rows, n_states))
    row, begin = np.arange(n_rows), np.zeros(n_rows)
    at_once = max(1, _NUMBERS_AT_ONCE // (4 * N_NODES * n_states))
    for halving in range(_HALVINGS + 1):
        last = halving == _HALVINGS or len(row) > _MOST_STEPS + n_rows
        due = np.empty(len(row), dtype=bool)
        for at in range(0, len(row), at_once):
            some = slice(at, at + at_once)
            part, error = _step(path, row[some], begin[some], 0.5**halving)
            due[some] = last | (error <= 0.1 * TOLERANCE * 0.5**halving + _ROUNDING * size[row[some]])
            np.add.at(total, row[some][due[some]], part[due[some]])
        row, begin = np.repeat(row[~due], 2), np.repeat(begin[~due], 2)
        begin[1::2] += 0.5 ** (halving + 1)
        if len(row) == 0:
            break
    return total


def _step(path: Path, row: Ints, begin: Floats, length: float) -> tuple[Floats, Floats]:
    """Integral over steps of some rows (n, n_states), and by how much it misses the change of the log-odds (n,)."""
    t = begin[:, None] + length * _NODES
    at = path.coefficient(t.ravel(), np.repeat(row, N_NODES)).reshape(len(row), N_NODES, -1)
    part = length * np.einsum("k,nks->ns", _WEIGHTS, at)
    change = path.log_odds(begin + length, row)[0] - path.log_odds(begin, row)[0]
    return part, np.abs((part * path.slope[row]).sum(axis=1) - change)
