"""Normal scores: each continuous column by the quantiles of the normal distribution at its ranks.

What is far out in a column of long tails is no further out then than its rank says, and what is crowded has room. Equal
values have the mean of their ranks. Between some of the values, the knots, the map is linear, so that it increases
strictly; beyond them it goes on, not steeper than it is on the whole, up to a bound. Scores have mean 0 and variance 1.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from fanbayes import _native
from fanbayes.arrays import Floats

# Points that a column's map is linear between, two of them beyond all values; a power of two, to find places in.
N_KNOTS = 64
# Bound of the scores.
FURTHEST = 8.0
# Values that are nearer to each other, in standard deviations, are taken as equal.
NEAREST = 1e-9
# Values that are further out are taken to be there.
FURTHEST_VALUE = 1e6
_LEAST_STEP = 1e-12  # between knots
_LEAST_RANK = 1e-15  # so that scores are finite however unequal the weights


def learn_scores(numbers: Floats, weights: Floats) -> Floats:
    """Knots of each column (n_numbers, 2, N_KNOTS): values and their scores, both increasing.

    Parameters
    ----------
    numbers : (n_rows, n_numbers), about standardised, NaN where missing
    weights : (n_rows,)
    """
    return np.array([_knots(x[~np.isnan(x)], weights[~np.isnan(x)]) for x in numbers.T]).reshape(-1, 2, N_KNOTS)


def are_knots(knots: Floats) -> bool:
    """Whether an array of numbers can be knots: finite, within bounds, increasing."""
    steps = np.diff(knots, axis=-1)
    return bool((np.abs(knots) <= 2 * FURTHEST_VALUE).all() and (steps > 0).all() and (steps[:, 0] > _LEAST_STEP).all())


def to_scores(numbers: Floats, knots: Floats) -> Floats:
    """Scores of columns (n_rows, n_numbers); missing values stay missing."""
    return _native.normal_scores(np.ascontiguousarray(numbers), knots, FURTHEST)


def _knots(x: Floats, weights: Floats) -> Floats:
    """Of a column without what is missing."""
    bounded = np.clip(x, -FURTHEST_VALUE, FURTHEST_VALUE)
    values, which = np.unique(np.round(bounded / NEAREST), return_inverse=True)
    values *= NEAREST
    cases = np.bincount(which, weights, len(values))
    if len(values) < 2:  # nothing to rank: as it is
        first = values[0] if len(values) else 0.0
        line = np.arange(N_KNOTS) - 1.0
        return np.stack([first + line, line])
    rank = np.clip((np.cumsum(cases) - 0.5 * cases) / cases.sum(), _LEAST_RANK, 1 - _LEAST_RANK)
    scores = ndtri(rank)
    if len(values) > N_KNOTS - 2:
        place = rank + scores / scores[-1]  # half of them even in the ranks, half in the scores: in the tails
        even = np.linspace(place[0], place[-1], N_KNOTS - 2)
        some = np.unique(np.rint(np.interp(even, place, np.arange(len(place)))).astype(np.intp))
        at, to = values[some], scores[some]
    else:
        at, to = values, scores
    seen = np.interp(values, at, to)
    mean = np.average(seen, weights=cases)
    to = (to - mean) / np.sqrt(np.average((seen - mean) ** 2, weights=cases))
    whole = (to[-1] - to[0]) / (at[-1] - at[0])
    low, high = (min(whole, (to[k + 1] - to[k]) / (at[k + 1] - at[k])) for k in (0, -2))
    step = np.arange(1.0, N_KNOTS - len(at))  # knots that are left over lie behind, on the line that goes on
    return np.stack(
        [np.concatenate([[at[0] - 1], at, at[-1] + step]), np.concatenate([[to[0] - low], to, to[-1] + high * step])]
    )
