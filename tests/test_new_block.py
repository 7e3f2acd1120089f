"""A kind of feature that is written here alone: waiting times, exponentially distributed in every cell.

With N cases and sum S in a cell, log p = N log rate - rate S; the prior is Gamma(A, B).
"""

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import gammaln

from fanbayes import FANClassifier, FMClassifier, NBClassifier, load, save
from fanbayes.model.blocks import BLOCKS, Block

A, B = 2.0, 1.0


@dataclass(frozen=True)
class Exponential(Block):
    name = "exponential"
    term = "linear"

    n_columns: int
    n_cells: int

    @classmethod
    def of(cls, layout, structure, options, n_columns):
        return cls(n_columns, structure.n_cells)

    takes = "times from 0 on"

    @staticmethod
    def refused(x):
        return x < 0

    @property
    def n_rows(self):
        return self.n_columns

    @property
    def n_statistics(self):
        return 3 * self.n_columns

    @property
    def n_parameters(self):
        return self.n_columns * self.n_cells

    def sums(self, statistics):
        by_column = statistics.reshape(*statistics.shape[:-2], self.n_columns, 3, self.n_cells)
        return by_column[..., 0, :], by_column[..., 1, :]

    def estimate(self, statistics):
        n, total = self.sums(statistics)
        return self.from_cells((A - 1 + n) / (B + total))

    def log_prior(self, cells, shared):
        return self.cell_log_prior(cells, shared).sum(axis=-1)

    def cell_log_prior(self, cells, shared):
        return (A * math.log(B) - math.lgamma(A) + (A - 1) * np.log(cells) - B * cells).sum(axis=-2)

    def log_likelihood(self, statistics, cells, shared):
        n, total = self.sums(statistics)
        return (n * np.log(cells) - cells * total).sum(axis=-1)

    def log_marginal(self, statistics):
        n, total = self.sums(statistics)
        terms = gammaln(A + n) - math.lgamma(A) + A * math.log(B) - (A + n) * np.log(B + total)
        return terms.sum(axis=(-2, -1))

    def unconstrain(self, cells, shared):
        return np.log(cells), shared

    def project(self, cells, shared):
        return np.exp(np.clip(cells, -200.0, 200.0)), shared

    def perturb(self, cells, shared, strength, rng):
        return cells * np.exp(0.5 * strength[..., None, :] * rng.standard_normal(cells.shape)), shared

    def kernel_terms(self, cells, shared):
        return np.stack([-cells, np.zeros_like(cells), np.log(cells)], axis=-2)

    def quantile(self, cells, shared, column, cell, u):
        return -np.log1p(-u) / cells[column, cell]

    def density(self, cells, shared, column):
        x = np.linspace(0, 40 / cells[column].min(), 20_001)
        return cells[column][:, None] * np.exp(-cells[column][:, None] * x), np.full(len(x), x[1])

    def traits(self, cells, shared, column):
        return 1 / cells[[column]], 1 / cells[[column]] ** 2

    def describe(self, cells, shared, column, about):
        return {"rate": cells[column]}

    def flaw(self, cells, shared, normalised):
        return None if ((cells > 0) & (cells < 1e50)).all() else "it has a rate that is none"


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setitem(BLOCKS, "exponential", Exponential)


@pytest.fixture(scope="module")
def rows():
    """Two kinds of customers in every class, told apart by how long they wait and what they buy."""
    rng = np.random.default_rng(0)
    y, kind = rng.integers(0, 2, 500), rng.integers(0, 2, 500)
    wait = rng.exponential(np.where(kind == y, 0.3, 4.0))
    X = pd.DataFrame({"wait": wait, "buys": np.where(kind, "tea", "milk"), "size": rng.normal(y, 1.0)})
    X.loc[rng.random(500) < 0.1, "wait"] = np.nan
    return X, y


def make(kind, **changed):
    settings = {"distributions": {"wait": "exponential"}, **changed}
    return kind(**settings) if kind is NBClassifier else kind(random_state=0, **settings)


def test_naive_bayes_is_the_definition(rows):
    X, y = rows
    clf = make(NBClassifier).fit(X[["wait"]], y)
    joint = clf.predict_joint_log_proba(X[["wait"]])
    for c in (0, 1):
        own = X["wait"][(y == c) & X["wait"].notna()]
        rate = (A - 1 + len(own)) / (B + own.sum())
        density = stats.expon.logpdf(X["wait"], scale=1 / rate)
        np.testing.assert_allclose(joint[:, c], math.log(clf.class_prior_[c]) + np.where(X["wait"].isna(), 0, density))
        assert clf.feature_table("wait")["rate"][c] == pytest.approx(rate)


@pytest.mark.parametrize("kind", [FANClassifier, FMClassifier])
def test_it_is_learnt_and_does_what_others_do(kind, rows, tmp_path):
    X, y = rows
    clf = make(kind).fit(X, y)
    assert clf.n_components_ >= 2
    assert clf.score(X, y) > NBClassifier().fit(X, y).score(X, y)
    assert (np.diff(clf.trace_) >= -1e-9 * abs(clf.trace_[0])).all()
    drawn, classes = clf.sample(20_000, random_state=0)
    for c in (0, 1):
        assert drawn["wait"][classes == c].mean() == pytest.approx(X["wait"][y == c].mean(), rel=0.1)
    found = clf.explain(X)
    np.testing.assert_allclose(found.prior + found.contributions.sum(axis=1), found.log_odds, atol=1e-9)
    assert np.isfinite(found.information[X["wait"].isna()][:, list(found.features).index("wait")]).all()
    save(clf, tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict_proba(X), clf.predict_proba(X))


def test_what_it_cannot_be_is_refused(rows):
    X, y = rows
    clf = make(NBClassifier).fit(X, y)
    with pytest.raises(ValueError, match="column 'wait' holds -1 in row 0; as exponential it takes times from 0 on"):
        clf.predict(X.assign(wait=-1.0))
    with pytest.raises(ValueError, match=r"distributions\['wait'\]"):
        make(NBClassifier, distributions={"wait": "gamma"}).fit(X, y)
    with pytest.raises(ValueError, match="column 'buys' holds categories"):
        make(NBClassifier, distributions={"buys": "exponential"}).fit(X, y)
    for odd in ("nobody", True, 99):
        with pytest.raises(ValueError, match=f"{odd!r}, which is not a column"):
            make(NBClassifier, distributions={odd: "exponential"}).fit(X, y)
    with pytest.raises(ValueError, match="has column 'wait' twice"):
        make(NBClassifier, distributions={"wait": "exponential", np.int64(0): "gaussian"}).fit(X, y)


def test_linear_terms_come_last(monkeypatch):
    """The kernel takes the last numbers for linear: another order would give wrong probabilities."""
    late = type("Late", (BLOCKS["gaussian"],), {"name": "zeta"})
    monkeypatch.setitem(BLOCKS, "zeta", late)
    X, y = np.arange(24.0).reshape(12, 2), np.arange(12) % 2
    with pytest.raises(ValueError, match="linear terms come last"):
        NBClassifier(distributions={0: "poisson", 1: "zeta"}).fit(X, y)
    NBClassifier(distributions={1: "zeta"}).fit(X, y)
