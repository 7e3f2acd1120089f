"""Coverage of the 90 % intervals: how often the truth is inside, over tables simulated from known networks.

    python benchmarks/run.py intervals       measures it
    python benchmarks/intervals.py          prints the published results as the table of docs/uncertainty.md

Every table has a network of its own, unlike the priors of the fit: log probabilities and means are normal, deviations
uniform. Naive Bayes with all rows labelled has the exact posterior; with a fifth of them labelled, and FAN with two
components, the Bayesian bootstrap. Components are matched to the true ones class by class, by the nearest means, since
their names have no meaning. Beside it, for FAN, what draws would cover that take expected counts as if they were
observed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
from measure import Result
from numpy.typing import NDArray

from fanbayes import FANClassifier, NBClassifier
from fanbayes.data.table import encode_table
from fanbayes.model.network import Network

INTERVAL, N_DRAWS, N_TABLES = 0.9, 200, 100
N_LEVELS, N_NUMBERS, N_NEW = (2, 3, 4, 6), 4, 200
CLASS_PRIOR, COMPONENT_PRIOR = np.array([0.5, 0.3, 0.2]), np.array([0.6, 0.4])
QUANTITIES = ("probabilities", "probabilities of rare levels", "means", "variances", "p(c | x)")
FEW = 10  # expected cases of a level, below which it is reported apart

Floats = NDArray[np.float64]
Found = dict[str, list[bool]]


@dataclass(frozen=True)
class Kind:
    """Which tables, and what learns from them."""

    name: str
    n_rows: int
    n_components: int = 1
    labelled: float = 1.0  # share of the rows
    spread: float = 1.5  # of the means, in standard deviations of a component

    def classifier(self) -> Any:
        """What learns from such tables."""
        codes = list(range(len(N_LEVELS)))
        if self.n_components == 1:
            return NBClassifier(categorical_features=codes)
        return FANClassifier(self.n_components, categorical_features=codes, random_state=0)


KINDS = [
    Kind("NB", 100),
    Kind("NB", 1000),
    Kind("NB, a fifth labelled", 1000, labelled=0.2),
    Kind("FAN, components apart", 300, n_components=2),
    Kind("FAN, components apart", 2000, n_components=2),
    Kind("FAN, components overlap", 300, n_components=2, spread=0.7),
    Kind("FAN, components overlap", 2000, n_components=2, spread=0.7),
]


@dataclass(frozen=True)
class Truth:
    """A network: p(h), and of each class and component p(level) of the codes, mean and deviation of the numbers."""

    shares: Floats  # (n_components,)
    tables: list[Floats]  # (n_classes, n_components, n_levels) each
    mean: Floats  # (n_classes, n_components, n_numbers)
    deviation: Floats

    @classmethod
    def draw(cls, kind: Kind, rng: np.random.Generator) -> Truth:
        """A network for one table."""
        cells = (len(CLASS_PRIOR), kind.n_components)
        tables = [np.exp(rng.normal(size=(*cells, n))) for n in N_LEVELS]
        mean = kind.spread * rng.normal(size=(*cells, N_NUMBERS))
        shares = COMPONENT_PRIOR if kind.n_components > 1 else np.ones(1)
        tables = [t / t.sum(axis=-1, keepdims=True) for t in tables]
        return cls(shares, tables, mean, rng.uniform(0.7, 1.3, mean.shape))

    def rows(self, n: int, rng: np.random.Generator) -> tuple[Floats, NDArray[np.intp]]:
        """Rows (n, n_columns) and their classes."""
        y, h = rng.choice(len(CLASS_PRIOR), n, p=CLASS_PRIOR), rng.choice(len(self.shares), n, p=self.shares)
        codes = [(rng.random(n)[:, None] > t[y, h].cumsum(axis=1)[:, :-1]).sum(axis=1) for t in self.tables]
        numbers = self.mean[y, h] + self.deviation[y, h] * rng.normal(size=(n, N_NUMBERS))
        return np.column_stack([*codes, numbers]), y

    def posterior(self, X: Floats) -> Floats:
        """p(c | x) (n, n_classes)."""
        k = len(N_LEVELS)
        p = CLASS_PRIOR[:, None] * self.shares * np.ones((len(X), 1, 1))
        for t, codes in zip(self.tables, X[:, :k].astype(int).T):
            p = p * np.moveaxis(t[:, :, codes], -1, 0)
        z = (X[:, None, None, k:] - self.mean) / self.deviation
        p = (p * np.exp(-0.5 * (z**2).sum(axis=-1)) / self.deviation.prod(axis=-1)).sum(axis=-1)
        return p / p.sum(axis=1, keepdims=True)


def covered(clf: Any, truth: Truth, n_labelled: float, X_new: Floats) -> Found:
    """Whether the truth is inside, of all parameters of the features, and of p(c | x)."""
    k, found = len(N_LEVELS), {}
    tables = [clf.feature_table(j, interval=INTERVAL) for j in range(clf.n_features_in_)]
    means = np.array([t["mean"] for t in tables[k:]]).T.reshape(truth.mean.shape)
    names = [_nearest(of_class, true) for of_class, true in zip(means, truth.mean)]  # true component of each

    def inside(name: str, column: str, table: Any, i: int, value: float) -> None:
        hit = table[f"{column}_lower"][i] <= value <= table[f"{column}_upper"][i]
        found.setdefault(name, []).append(bool(hit))

    for j, table in enumerate(tables):
        for i, label in enumerate(table["class"]):
            c, h = int(label), names[int(label)][table["component"][i] if "component" in table else 0]
            if j < k:
                p = float(truth.tables[j][c, h, int(table["level"][i])])
                cases = n_labelled * CLASS_PRIOR[c] * truth.shares[h] * p
                inside("probabilities of rare levels" if cases < FEW else "probabilities", "probability", table, i, p)
            else:
                inside("means", "mean", table, i, truth.mean[c, h, j - k])
                inside("variances", "variance", table, i, truth.deviation[c, h, j - k] ** 2)
    ends, p = clf.predict_proba_interval(X_new, interval=INTERVAL), truth.posterior(X_new)
    hits = (ends[..., 0] <= p) & (p <= ends[..., 1])
    found["p(c | x)"] = hits.ravel().tolist()
    found["p(c | x) within 0.05 and 0.95"] = hits[(p > 0.05) & (p < 0.95)].tolist()  # where it matters
    return found


def _nearest(means: Floats, true: Floats) -> tuple[int, ...]:
    """The true component that each of one class is (n_components, n_numbers both)."""
    return min(permutations(range(len(true))), key=lambda order: float(((means - true[list(order)]) ** 2).sum()))


def expected_as_observed(clf: Any, X: Floats, y: NDArray[np.intp]) -> Network:
    """Draws that take the expected counts at the fitted network for counts."""
    cases = clf._cases(X, y, None, clf.classes_, reset=False)
    table = replace(encode_table(clf.schema_, cases.sources, len(y)), labels=cases.labels)
    problem = clf._problem_of_fit(table)
    model = problem.model(clf.network_.structure)
    counts = problem.data.e_step(clf.network_.terms).map(lambda x: np.repeat(x, N_DRAWS, axis=0))
    draws = model.draw(counts, np.random.default_rng(0))
    assert draws is not None
    return draws


def one_table(kind: Kind, seed: int) -> dict[str, Found]:
    """Whether the truth is inside, in one table, by how draws were made."""
    rng = np.random.default_rng([11, seed])  # with 7 instead, 12 tables were seen when the bootstrap was written
    truth = Truth.draw(kind, rng)
    X, y = truth.rows(kind.n_rows, rng)
    X_new, _ = truth.rows(N_NEW, rng)
    labels = y if kind.labelled == 1 else np.where(rng.random(len(y)) < kind.labelled, y, np.nan)
    clf = kind.classifier().fit(X, labels).draw_parameters(X, labels, n_draws=N_DRAWS, random_state=seed)
    n_labelled = kind.n_rows * kind.labelled
    found = {"coverage": covered(clf, truth, n_labelled, X_new)}
    if kind.n_components > 1:
        clf.draws_ = expected_as_observed(clf, X, y)
        found["expected counts as if observed"] = covered(clf, truth, n_labelled, X_new)
    return found


def percent(tables: list[Found]) -> dict[str, dict[str, float]]:
    """Mean over tables of what is inside, and its standard error, for each kind of interval."""
    names = dict.fromkeys(name for table in tables for name in table)
    shares = {name: 100 * np.array([np.mean(hits) for t in tables if (hits := t.get(name))]) for name in names}
    return {
        name: {"mean": float(x.mean()), "standard_error": float(x.std(ddof=1) / np.sqrt(len(x))), "tables": len(x)}
        for name, x in shares.items()
    }


def run() -> list[Result]:
    """A line for each kind of table: coverage of p(c | x), all others in its detail."""
    results = []
    for kind in KINDS:
        tables = [one_table(kind, seed) for seed in range(N_TABLES)]
        detail = {how: percent([table[how] for table in tables]) for how in tables[0]}
        name = f"coverage of p(c | x) by 90 % intervals: {kind.name}, {kind.n_rows} rows"
        results.append(Result(name, detail["coverage"]["p(c | x)"]["mean"], unit="%", detail=detail))
    return results


def markdown(results: list[dict[str, Any]]) -> str:
    """The table of docs/uncertainty.md, of what a run has written."""
    lines = [f"| | {' | '.join(QUANTITIES)} |", f"|{'---|' * (1 + len(QUANTITIES))}"]
    for result in results:
        for how, of in result["detail"].items():
            name = result["name"].partition(": ")[2] if how == "coverage" else "as if observed"
            cells = [f"{of[what]['mean']:.1f} ({of[what]['standard_error']:.1f})" for what in QUANTITIES]
            lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines).replace("p(c | x)", "p(c \\| x)")


if __name__ == "__main__":
    published = Path(__file__).parent / "results" / "intervals.json"
    print(markdown(json.loads(published.read_text())["results"]))
