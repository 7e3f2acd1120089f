"""Statistics of pairs of columns against plain NumPy."""

from dataclasses import dataclass

import numpy as np
import pytest

from fanbayes import _native

N_STATES = 3
CLOSE = {"rtol": 1e-12, "atol": 1e-9}


@dataclass
class World:
    """Rows of three kinds of columns; of discrete column j, codes run to ``levels[j] - 1``, which is "missing"."""

    narrow: np.ndarray
    wide: np.ndarray
    numbers: np.ndarray
    levels: list[int]
    states: np.ndarray
    weights: np.ndarray | None

    @property
    def codes(self) -> list[np.ndarray]:
        return [*self.narrow.T, *self.wide.T]

    @property
    def first_level(self) -> list[int]:
        return np.concatenate([[0], np.cumsum(self.levels)]).tolist()

    @property
    def case_weights(self) -> np.ndarray:
        return np.ones(len(self.states)) if self.weights is None else self.weights

    def pairs(self) -> _native.Pairs:
        return _native.Pairs(
            self.narrow, self.wide, self.numbers, self.first_level, self.states, N_STATES, self.weights
        )

    def sums(self, shape: tuple[int, ...], index: tuple[np.ndarray, ...], terms: np.ndarray) -> np.ndarray:
        out = np.zeros(shape)
        np.add.at(out, index, terms)
        return out

    def counts(self, v: int, j: int) -> np.ndarray:
        shape = (self.levels[v], self.levels[j], N_STATES)
        return self.sums(shape, (self.codes[v], self.codes[j], self.states), self.case_weights)

    def moments(self, v: int, j: int) -> np.ndarray:
        x = self.numbers[:, j]
        there, w = ~np.isnan(x), self.case_weights
        index = (self.codes[v][there], self.states[there])
        each = [self.sums((self.levels[v], N_STATES), index, (w * t)[there]) for t in (np.ones_like(x), x, x * x)]
        return np.stack(each, axis=1)

    def products(self, v: int, j: int) -> np.ndarray:
        x, y, w = self.numbers[:, v], self.numbers[:, j], self.case_weights
        there = ~np.isnan(x) & ~np.isnan(y)
        terms = (np.ones_like(x), x, y, x * x, y * y, x * y)
        return np.stack([self.sums((N_STATES,), (self.states[there],), (w * t)[there]) for t in terms])


def world(n_rows: int = 500, weighted: bool = True, n_narrow: int = 7) -> World:
    """Seven narrow columns, more than are counted in one loop, and two wide ones; half of the numbers are missing."""
    rng = np.random.default_rng(n_rows)
    levels = [*(2, 3, 256, 1, 5, 4, 6)[:n_narrow], 300, 7]
    codes = [rng.integers(size, size=n_rows) for size in levels]
    numbers = rng.normal(size=(n_rows, 3))
    numbers[rng.random((n_rows, 3)) < 0.5] = np.nan
    return World(
        np.column_stack([*codes[:n_narrow], np.empty((n_rows, 0))]).astype(np.uint8),
        np.column_stack(codes[n_narrow:]).astype(np.uint16),
        numbers,
        levels,
        rng.integers(N_STATES, size=n_rows).astype(np.int32),
        rng.exponential(size=n_rows) if weighted else None,
    )


WORLDS = [world(), world(weighted=False), world(1), world(0), world(100, n_narrow=0), world(200, n_narrow=5)]


@pytest.mark.parametrize("w", WORLDS)
def test_statistics_of_all_columns_are_those_of_the_definition(w):
    pairs, n_discrete, n_numbers = w.pairs(), len(w.levels), w.numbers.shape[1]
    for v in range(n_discrete):
        expected = [w.counts(v, j) for j in range(n_discrete)]
        found = pairs.counts(v)
        np.testing.assert_allclose(found, np.concatenate([e.ravel() for e in expected]), **CLOSE)
        for j, e in enumerate(expected):  # where a block begins, as the stub says
            begin = w.levels[v] * N_STATES * w.first_level[j]
            np.testing.assert_allclose(found[begin : begin + e.size].reshape(e.shape), e, **CLOSE)
        expected = np.stack([w.moments(v, j) for j in range(n_numbers)])
        np.testing.assert_allclose(pairs.moments(v), expected.ravel(), **CLOSE)
    for v in range(n_numbers):
        expected = np.stack([w.products(v, j) for j in range(n_numbers)])
        np.testing.assert_allclose(pairs.products(v), expected.ravel(), **CLOSE)


def test_some_columns_in_any_order_on_any_number_of_threads_are_the_same_bits():
    w = world()
    pairs = w.pairs()
    for pool in (None, _native.ThreadPool(2), _native.ThreadPool(5)):
        for statistics, n in ((pairs.counts, len(w.levels)), (pairs.moments, 3), (pairs.products, 3)):
            blocks = {j: statistics(1, [j]) for j in range(n)}
            for columns in ([], [1], [2, 0], list(range(n)), list(range(n))[::-1], [2, 2]):
                expected = [blocks[j] for j in columns]
                found = statistics(1, columns, pool)
                np.testing.assert_array_equal(found, np.concatenate([np.empty(0), *expected]))


def test_all_weights_one_are_no_weights():
    w = world(weighted=False)
    weighted = World(w.narrow, w.wide, w.numbers, w.levels, w.states, np.ones(len(w.states)))
    for v in range(3):
        np.testing.assert_array_equal(w.pairs().counts(v), weighted.pairs().counts(v))
        np.testing.assert_array_equal(w.pairs().moments(v), weighted.pairs().moments(v))
        np.testing.assert_array_equal(w.pairs().products(v), weighted.pairs().products(v))


def test_the_rows_given_may_go():
    w = world()
    pairs, expected = w.pairs(), [w.counts(4, 5), w.counts(4, 8)]
    for block in (w.narrow, w.wide, w.numbers, w.states, w.weights):
        block[:] = 0
    np.testing.assert_allclose(pairs.counts(4, [5, 8]), np.concatenate([e.ravel() for e in expected]), **CLOSE)


@pytest.mark.parametrize("bad", ["narrow", "wide", "state", "negative state", "n_states", "rows", "levels"])
def test_what_would_reach_foreign_memory_is_refused(bad):
    w, n_states = world(), N_STATES
    first = w.first_level
    if bad == "narrow":
        w.narrow[7, 1] = w.levels[1]
    elif bad == "wide":
        w.wide[7, 1] = w.levels[-1]
    elif bad == "state":
        w.states[3] = N_STATES
    elif bad == "negative state":
        w.states[3] = -1
    elif bad == "n_states":
        n_states = 0
    elif bad == "rows":
        w.states = w.states[1:]
    else:
        first = first[:-1]
    with pytest.raises(ValueError, match=r"code|state|rows|first_level"):
        _native.Pairs(w.narrow, w.wide, w.numbers, first, w.states, n_states, w.weights)


@pytest.mark.parametrize("name", ["counts", "moments", "products"])
def test_columns_that_do_not_exist_are_refused(name):
    statistics = getattr(world().pairs(), name)
    with pytest.raises(ValueError, match="no such column"):
        statistics(9)
    with pytest.raises(ValueError, match="no such column"):
        statistics(0, [0, 9])


def test_more_statistics_than_memory_are_refused():
    codes, states = np.zeros((1, 40), dtype=np.uint16), np.zeros(1, dtype=np.int32)
    nothing = np.empty((1, 0))
    first = [k << 20 for k in range(41)]
    pairs = _native.Pairs(nothing.astype(np.uint8), codes, nothing, first, states, 1 << 16, None)
    with pytest.raises((MemoryError, ValueError)):
        pairs.counts(0)
