"""Generated data against what is known of them: exact counts, moments, and the best possible error."""

from collections import Counter
from functools import partial

import narwhals as nw
import numpy as np
import pytest
from scipy import stats

from fanbayes.datasets import generators as g

RANDOM = {
    "monks": partial(g.monks, 3, noise=0.05),
    "led": partial(g.led, 50, irrelevant=17),
    "waveform": partial(g.waveform, 50, irrelevant=19),
    "twonorm": partial(g.twonorm, 50),
    "threenorm": partial(g.threenorm, 50),
    "ringnorm": partial(g.ringnorm, 50),
}


def array(dataset):
    return nw.from_native(dataset.X).to_numpy()


def rows(dataset):
    return [tuple(row) for row in array(dataset)]


def share(condition, expected, n):
    """Whether a share of n draws lies within four standard errors of its expectation."""
    return abs(np.mean(condition) - expected) < 4 * np.sqrt(expected * (1 - expected) / n)


@pytest.mark.parametrize(
    ("make", "counts"),
    [
        (partial(g.monks, 1), {"0": 216, "1": 216}),
        (partial(g.monks, 2), {"0": 290, "1": 142}),
        (partial(g.monks, 3), {"0": 204, "1": 228}),
        (g.balance_scale, {"L": 288, "B": 49, "R": 288}),
        (g.tic_tac_toe, {"positive": 626, "negative": 332}),
        (g.lenses, {"hard": 4, "soft": 5, "none": 15}),
        (g.parity, {"0": 512, "1": 512}),
        (g.at_least, {"0": 8 * (1 + 7 + 21), "1": 8 * (128 - 29)}),
        (partial(g.multiplexer, 2), {"0": 32, "1": 32}),
        (g.balloons, {"T": 8, "F": 12}),
    ],
)
def test_enumerated(make, counts):
    dataset = make()
    assert Counter(dataset.y) == counts
    assert set(dataset.kinds.values()) == {"discrete"}
    distinct = len(set(rows(dataset)))
    assert distinct == (16 if dataset.name == "balloons" else len(dataset.y))


def test_single_rows():
    def label(dataset, *row):
        return dataset.y[rows(dataset).index(row)]

    assert label(g.balance_scale(), "1", "5", "2", "3") == "R"
    assert label(g.monks(1), "2", "3", "1", "1", "1", "1") == "1"
    assert label(g.monks(2), "1", "1", "2", "2", "2", "2") == "1"
    assert label(g.monks(3), "1", "3", "1", "1", "3", "1") == "1"
    assert label(g.monks(3), "1", "1", "1", "1", "4", "1") == "0"
    assert label(g.multiplexer(2), "1", "0", "0", "0", "1", "0") == "1"
    assert label(g.parity(2, 1), "1", "0", "1") == "1"
    assert label(g.tic_tac_toe(), *"xxxoobbbb") == "positive"
    assert label(g.tic_tac_toe(), *"oooxxbxbb") == "negative"


def test_tic_tac_toe_ends_where_a_game_ends():
    boards = ["".join(board) for board in rows(g.tic_tac_toe())]
    assert {board.count("x") - board.count("o") for board in boards} == {0, 1}
    drawn = [board for board in boards if "b" not in board and not g._won(board, "x") and not g._won(board, "o")]
    assert len(drawn) == 16


def test_monks_noise_turns_labels_of_a_few_rows():
    clean, noisy = g.monks(3), g.monks(3, noise=0.05, rng=1)
    assert rows(clean) == rows(noisy)
    assert (clean.y != noisy.y).sum() == 22


@pytest.mark.parametrize("name", RANDOM)
def test_a_seed_decides(name):
    make = RANDOM[name]
    first, same, other = make(rng=1), make(rng=np.random.default_rng(1)), make(rng=2)
    assert rows(first) == rows(same)
    assert first.y.tolist() == same.y.tolist()
    assert (rows(first), first.y.tolist()) != (rows(other), other.y.tolist())


def test_led_segments():
    # A 1 has two lights, an 8 all seven; the lower right light is off only in a 2.
    assert g.SEGMENTS.sum(1).tolist() == [6, 2, 5, 5, 4, 5, 6, 3, 7, 6]
    assert g.SEGMENTS.sum(0).tolist() == [8, 6, 8, 7, 4, 9, 7]


def test_led_errs_in_one_light_of_ten_and_allows_74_percent():
    n = 20_000
    dataset = g.led(n, irrelevant=17, rng=3)
    assert dataset.name == "led24"
    lights, digit = array(dataset).astype(int), dataset.y.astype(int)
    assert set(np.unique(lights)) == {0, 1}
    wrong = lights[:, :7] != g.SEGMENTS[digit]
    assert all(share(wrong[:, i], 0.1, n) for i in range(7))
    assert all(share(lights[:, i], 0.5, n) for i in range(7, 24))
    assert all(share(digit == i, 0.1, n) for i in range(10))
    # The most likely digit is one with the fewest lights to change.
    patterns = np.array(np.meshgrid(*[[0, 1]] * 7)).reshape(7, -1).T
    changes = (patterns[:, None] != g.SEGMENTS).sum(2)
    best = (0.1**changes * 0.9 ** (7 - changes)).max(1).sum() / 10
    assert best == pytest.approx(0.74, abs=0.002)
    guess = (lights[:, None, :7] != g.SEGMENTS).sum(2).argmin(1)
    assert share(guess == digit, best, n)


def test_waveform_moments_and_its_best_accuracy():
    n = 6_000
    dataset = g.waveform(n, irrelevant=19, rng=4)
    assert dataset.name == "waveform-40"
    X, label = array(dataset), dataset.y.astype(int)
    assert X.shape == (n, 40)
    # The three waves of the book, by hand.
    early, late, middle = np.zeros((3, 21))
    early[1:12] = middle[5:16] = late[9:20] = [1, 2, 3, 4, 5, 6, 5, 4, 3, 2, 1]
    pairs = [(early, late), (early, middle), (late, middle)]
    u = (np.arange(40) + 0.5) / 40
    density = np.empty((n, 3))
    for c, (a, b) in enumerate(pairs):
        own = X[label == c]
        variance = np.append(1 + (a - b) ** 2 / 12, np.ones(19))
        mean = np.append((a + b) / 2, np.zeros(19))
        assert (abs(own.mean(0) - mean) < 4.5 * np.sqrt(variance / len(own))).all()
        assert own.var(0) == pytest.approx(variance, rel=0.15)
        centres = u[:, None] * a + (1 - u[:, None]) * b
        squares = (centres**2).sum(1) - 2 * X[:, :21] @ centres.T
        density[:, c] = np.exp(-0.5 * (squares + (X[:, :21] ** 2).sum(1)[:, None])).mean(1)
        assert share(label == c, 1 / 3, n)
    assert np.mean(density.argmax(1) == label) == pytest.approx(0.86, abs=0.015)


def test_normals_have_the_errors_breiman_states():
    n = 20_000
    a = 2 / np.sqrt(20)
    ones, turns = np.full(20, a), a * np.resize([1, -1], 20)

    two = g.twonorm(n, rng=5)
    assert share((array(two) @ ones < 0) != (two.y == "1"), stats.norm.cdf(-2), n)

    three = g.threenorm(n, rng=6)
    X = array(three)
    first = np.logaddexp(X @ ones, -X @ ones) - np.log(2)
    assert share((X @ turns > first) != (three.y == "1"), 0.105, n)

    ring = g.ringnorm(n, rng=7)
    X = array(ring)
    wide = -(X**2).sum(1) / 8 - 20 * np.log(2)
    assert share((-((X - ones) ** 2).sum(1) / 2 > wide) != (ring.y == "1"), 0.0125, n)
