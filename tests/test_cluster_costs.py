"""The guide's page on the costs of a cluster is what its constants and its formula say."""

import importlib
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def cluster_costs():
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        yield importlib.import_module("cluster_costs")
    finally:
        sys.path.remove(str(ROOT / "benchmarks"))


def test_the_page_is_that_of_the_results(cluster_costs):
    """`make pages` writes it."""
    assert (ROOT / "docs" / "cluster-costs.md").read_text() == cluster_costs.page(ROOT / "benchmarks" / "results")


def test_the_formula(cluster_costs):
    """A microsecond a row to read 20 columns, 800 ns a row and pass with 4 components of 2 classes."""
    largest = {"rows": 10**6, "components": 4, "processor seconds reading": 1.0, "processor seconds a pass": 0.8}
    costs = cluster_costs.costs_of(largest, 0.1, 0.001)
    assert costs.reading(1) == pytest.approx(1e9 * 1e-6 * 50 / 20 / 4)  # four cores share it
    assert costs.work(16) == pytest.approx(1e9 * 0.8e-6 * 50 / 20 / 64)
    assert costs.scheduler == pytest.approx(0.1 + 0.001 * 1000)
    assert [cluster_costs.duration(s) for s in (0.25, 90, 600, 7200)] == ["0.2 s", "90 s", "10 min", "2.0 h"]
