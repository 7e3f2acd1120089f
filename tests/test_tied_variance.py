"""Variances shared by cells: the mode, the scores and the parameter counts follow."""

import numpy as np
import pytest
from builders import make_layout, part
from scipy.integrate import quad
from scipy.special import gammaln
from scipy.stats import invgamma, norm
from sklearn.datasets import load_digits, load_wine
from sklearn.model_selection import cross_val_score

from fanbayes import FANClassifier, FMClassifier, NBClassifier
from fanbayes.model.blocks import EstimationOptions
from fanbayes.model.blocks.gaussian import Gaussian
from fanbayes.model.blocks.normal import KAPPA, A, B
from fanbayes.model.network import Model
from fanbayes.model.structure import fan, finite_mixture

X, Y = load_wine(return_X_y=True)
RNG = np.random.default_rng(0)
TYING = {"none": None, "all": np.zeros(4, dtype=np.intp), "class": np.array([0, 0, 1, 1])}


def sums_of_cells(n_cells=4, n_columns=2):
    """N, sum x, sum x^2 of random rows in each cell, (3 * n_columns, n_cells)."""
    sums = np.zeros((n_columns, 3, n_cells))
    for j in range(n_columns):
        for k in range(n_cells):
            x = RNG.normal(k, 1 + j, 5 + 3 * k)
            sums[j, :, k] = len(x), x.sum(), (x**2).sum()
    return sums.reshape(-1, n_cells)


@pytest.mark.parametrize("group", TYING.values(), ids=TYING)
def test_estimate_is_the_mode(group):
    sums, block = sums_of_cells(), Gaussian(2, 4, 1e-9, group)
    of = np.arange(4) if group is None else group
    mean, sigma2 = block.unpack(*block.estimate(sums))

    def posterior(m, v):
        theta = block.from_cells(np.concatenate([m, v]))
        return float(block.log_likelihood(sums, *theta).sum() + block.log_prior(*theta))

    best = posterior(mean, sigma2)
    for j in range(2):
        for g in set(of):
            for factor in (0.97, 1.03):
                v = sigma2.copy()
                v[j, of == g] *= factor
                assert posterior(mean, v) < best
        for k in range(4):
            m = mean.copy()
            m[j, k] += 0.03
            assert posterior(m, sigma2) < best


def test_tied_cells_have_one_variance():
    network = FANClassifier(2, variance_tying="all", random_state=0).fit(X, Y).network_
    assert network.shared.shape == (1, 13)
    assert np.ptp(part(network, "sigma2"), axis=-1).max() == 0.0
    network = FANClassifier(2, variance_tying="class", random_state=0).fit(X, Y).network_
    assert network.shared.shape == (1, 13 * 3)
    by_class = part(network, "sigma2")[0].reshape(13, 3, 2)
    assert np.ptp(by_class, axis=-1).max() == 0.0
    assert np.ptp(by_class, axis=1).min() > 0.0


def test_marginal_likelihood_against_integration():
    x = [RNG.normal(0, 1, 3), RNG.normal(1, 1, 2)]  # two cells, one variance
    sums = np.array([[len(v) for v in x], [v.sum() for v in x], [(v**2).sum() for v in x]], dtype=float)
    block = Gaussian(1, 2, 1e-9, np.array([0, 0]))

    def given(sigma2):
        """Density of both cells, their means integrated out, times the prior of the variance."""
        total = invgamma.pdf(sigma2, A, scale=B)
        for v in x:
            width = np.sqrt(sigma2 / KAPPA)

            def density(mu, v=v, width=width):
                return norm.pdf(v, mu, np.sqrt(sigma2)).prod() * norm.pdf(mu, 0, width)

            near = v.mean()
            total *= quad(density, near - 12 * np.sqrt(sigma2), near + 12 * np.sqrt(sigma2), points=[near])[0]
        return total

    found = quad(given, 1e-3, 60, limit=200)[0]
    assert float(block.log_marginal(sums)) == pytest.approx(np.log(found), abs=2e-3)


@pytest.mark.parametrize(
    ("structure", "tying", "n_variances"),
    [
        (fan([2, 2, 2], "shared"), "none", 6),
        (fan([2, 2, 2], "shared"), "all", 1),
        (fan([2, 2, 2], "shared"), "class", 3),
        (fan([1, 2, 3], "per_class"), "class", 3),
        (finite_mixture(3, 4), "class", 1),
    ],
)
def test_parameter_counts(structure, tying, n_variances):
    model = Model(structure, make_layout([], 5), EstimationOptions(variance_tying=tying))
    n_cells = structure.n_cells
    weights = sum(f.n_parameters for f in structure.factors)
    assert model.n_parameters == weights + 5 * (n_cells + n_variances)
    if tying == "none":
        assert model.cells_of_shared.size == 0
    else:
        assert model.cells_of_shared.size == 5 * n_variances
        assert model.cells_of_shared.sum() == 5 * n_cells


@pytest.mark.parametrize("tying", ["all", "class"])
@pytest.mark.parametrize("algorithm", ["em", "cem"])
@pytest.mark.parametrize("make", [FANClassifier, FMClassifier])
def test_objective_never_falls(make, tying, algorithm):
    clf = make(3, variance_tying=tying, algorithm=algorithm, random_state=1).fit(X, Y)
    assert (np.diff(clf.trace_) >= -1e-9 * abs(clf.trace_[0])).all()
    assert len(clf.trace_) > 2


def test_cheeseman_stutz_is_exact_when_nothing_is_hidden():
    clf = NBClassifier(variance_tying="all").fit(X, Y)
    z = np.column_stack([(X[:, j] * 2.0**-c.exponent - c.centre) / c.scale for j, c in enumerate(clf.schema_.columns)])
    sums = np.stack([[np.full(13, (c == Y).sum()), z[c == Y].sum(0), (z[c == Y] ** 2).sum(0)] for c in range(3)], -1)
    block = Gaussian(13, 3, 1e-9, np.zeros(3, dtype=np.intp))
    counts = np.bincount(Y)
    classes = gammaln(3) - gammaln(3 + len(Y)) + gammaln(counts + 1).sum()
    wanted = classes + float(block.log_marginal(sums.astype(float).swapaxes(0, 1).reshape(-1, 3)))
    assert clf.selection_["cs"][0] == pytest.approx(wanted, rel=1e-9)


def test_tied_naive_bayes_is_linear():
    """With one variance a column the log-odds of two classes are linear in x, as in discriminant analysis."""
    clf = NBClassifier(variance_tying="all").fit(X, Y)
    a, b = X[:20], X[-20:]
    odds = [np.diff(clf.predict_joint_log_proba(x)[:, :2], axis=1) for x in (a, b, (a + b) / 2)]
    np.testing.assert_allclose(odds[2], (odds[0] + odds[1]) / 2, rtol=1e-8)
    free = NBClassifier().fit(X, Y)
    odds = [np.diff(free.predict_joint_log_proba(x)[:, :2], axis=1) for x in (a, b, (a + b) / 2)]
    assert np.abs(odds[2] - (odds[0] + odds[1]) / 2).max() > 1.0


@pytest.mark.filterwarnings("ignore::fanbayes.DataWarning")
@pytest.mark.filterwarnings("ignore:whole numbers of few different values:fanbayes.DataWarning")
def test_wide_continuous_data_gain():
    """On digits, columns with many zeros ruin free variances; tied ones do not let any cell be sure."""
    digits, label = load_digits(return_X_y=True)
    free, tied = (
        cross_val_score(NBClassifier(variance_tying=t), digits[:600], label[:600], cv=3, scoring="neg_log_loss").mean()
        for t in ("none", "all")
    )
    assert tied > free + 0.5
