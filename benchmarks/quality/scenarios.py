"""What happens to a table before it is learnt from or predicted: the same for all methods, by dataset and fold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from zlib import crc32

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from settings import FEW_ROWS, NOISE

SHARES = {"missing10": 0.1, "missing30": 0.3, "missing60": 0.6}
LARGE = 0.7  # of the training values; what is larger vanishes
TILT = 3.0


@dataclass(frozen=True)
class TestPart:
    """Rows to predict.

    Attributes
    ----------
    rows : ndarray of shape (n,)
        Which of the test part they are; under class shift some come more than once.
    X : data frame of n rows
    prior : ndarray of shape (n_classes,), or None
        Class shares that all methods are told, where they are not those of the training part.
    """

    rows: NDArray[np.intp]
    X: pd.DataFrame
    prior: NDArray[np.float64] | None = None


def source(dataset: str, fold: int, what: str) -> np.random.Generator:
    """Random numbers of one thing, whatever else is run."""
    return np.random.default_rng([crc32(dataset.encode()), fold, crc32(what.encode())])


def training_rows(scenario: str, y: NDArray[np.intp], rng: np.random.Generator) -> NDArray[np.intp]:
    """Rows to learn from, in order: all, or as many as the scenario has, two of each class as far as they go."""
    size = FEW_ROWS.get(scenario, len(y))
    if size >= len(y):
        return np.arange(len(y))
    order = rng.permutation(len(y))
    seen = np.zeros(y.max() + 1, np.intp)
    place = np.empty(len(y), np.intp)  # of each row within its class
    for row in order:
        place[row] = seen[y[row]]
        seen[y[row]] += 1
    first = np.minimum(place[order], 2)
    return np.sort(order[np.argsort(first, kind="stable")][:size])


def training_labels(scenario: str, y: NDArray[np.intp], rng: np.random.Generator) -> NDArray[np.intp]:
    """Labels to learn from: as they are, or a share of them replaced by other classes; no class is lost."""
    if scenario not in NOISE:
        return y
    n_classes, noisy = int(y.max()) + 1, y.copy()
    left = np.bincount(y)
    for row in rng.permutation(len(y))[: round(NOISE[scenario] * len(y))]:
        if left[noisy[row]] > 1 and n_classes > 1:
            left[noisy[row]] -= 1
            noisy[row] = (noisy[row] + rng.integers(1, n_classes)) % n_classes
            left[noisy[row]] += 1
    return noisy


def scenario_parts(
    scenarios: tuple[str, ...],
    X: pd.DataFrame,
    truth: NDArray[np.intp],
    train: pd.DataFrame,
    shares: NDArray[np.float64],
    dataset: str,
    fold: int,
) -> Mapping[str, TestPart]:
    """The test part as each scenario has it.

    Parameters
    ----------
    X, truth : the test part, with -1 for classes that the training part lacks
    train : the training part
    shares : class shares of the training part (n_classes,)
    """
    every = np.arange(len(X))
    uniform = source(dataset, fold, "missing").random(X.shape)  # one draw: what 10 % lack, 30 % lack too
    found = {}
    for scenario in scenarios:
        if scenario in SHARES:
            found[scenario] = TestPart(every, X.mask(uniform < SHARES[scenario]))
        elif scenario == "column":
            order = source(dataset, 0, "column").permutation(X.shape[1])
            gone = np.arange(X.shape[1]) == order[fold % len(order)]
            found[scenario] = TestPart(every, X.mask(np.tile(gone, (len(X), 1))))
        elif scenario == "large":
            found[scenario] = TestPart(every, X.mask(large_values(X, train)))
        elif scenario == "shift":
            prior = tilted(shares, truth)
            rng = source(dataset, fold, "shift")
            chance = np.append(prior, 0.0)[truth] / np.bincount(truth + 1, minlength=len(shares) + 1)[truth + 1]
            rows = np.sort(rng.choice(len(X), len(X), p=chance / chance.sum()))
            found[scenario] = TestPart(rows, X.iloc[rows].reset_index(drop=True), prior)
        else:
            found[scenario] = TestPart(every, X)
    return found


def tilted(shares: NDArray[np.float64], truth: NDArray[np.intp]) -> NDArray[np.float64]:
    """Class shares with every second class nine times as likely beside the others, of the classes in the test part."""
    weight = np.where(np.arange(len(shares)) % 2 == 0, TILT, 1 / TILT) * shares
    weight[~np.isin(np.arange(len(shares)), truth)] = 0.0
    if not weight.any():
        weight = shares
    return weight / weight.sum()


def large_values(X: pd.DataFrame, train: pd.DataFrame) -> NDArray[np.bool_]:
    """Values above the training part's 70 % point (n_rows, n_columns); texts count by their order as texts."""
    found = np.zeros(X.shape, bool)
    for j, name in enumerate(X.columns):
        if pd.api.types.is_numeric_dtype(X[name]):
            known, values = train[name].to_numpy(float), X[name].to_numpy(float)
        else:
            levels = sorted(train[name].dropna().astype(str).unique())
            known, values = (
                np.where(part[name].isna(), np.nan, np.searchsorted(levels, part[name].astype(str).to_numpy(str)))
                for part in (train, X)
            )
        known = known[~np.isnan(known)]
        if known.size:
            found[:, j] = values > np.quantile(known, LARGE, method="inverted_cdf")
    return found
