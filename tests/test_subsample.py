"""EncodedTable.subsample: a part that stands for all, chosen by content."""

import numpy as np
import pytest

from fanbayes import FANClassifier
from fanbayes.data.sources import array_sources
from fanbayes.data.table import learn_table


def make(X, y, weights=None):
    sources = list(array_sources(X, ["a", "b", "c"]))
    return learn_table(sources, [True, False, False], None, y.astype(np.int32), weights)[1]


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 4, 20_000), rng.standard_normal((20_000, 2))])
    y = rng.choice([-1, 0, 1, 2], 20_000, p=[0.1, 0.6, 0.299, 0.001])
    return X, y


def content(table):
    columns = [table.narrow[:, 0], *table.numbers.T.round(9), table.labels, table.weights]
    return sorted(map(tuple, np.column_stack(columns).tolist()))


def test_cases_add_up_and_rare_classes_stay(rows):
    table = make(*rows)
    few = table.subsample(2000)
    assert 2000 * 0.9 < few.n_rows < 2000 * 2.2
    for c in (-1, 0, 1):
        total = few.weights[few.labels == c].sum()
        assert total == pytest.approx((table.labels == c).sum(), rel=0.2)
    assert (few.labels == 2).sum() == (table.labels == 2).sum()
    mean = np.average(few.numbers, axis=0, weights=few.weights)
    assert np.abs(mean).max() < 0.1


def test_small_tables_stay_whole(rows):
    table = make(*rows)
    assert table.subsample(10_000) is table


def test_order_duplicates_and_weights_do_not_matter(rows):
    X, y = rows
    order = np.random.default_rng(1).permutation(len(y))
    plain = make(X, y).subsample(2000)
    assert content(make(X[order], y[order]).subsample(2000)) == content(plain)
    twice = make(np.vstack([X, X]), np.concatenate([y, y])).subsample(2000)
    heavy = make(X, y, np.full(len(y), 2.0)).subsample(2000)
    once = {row[:-1]: row[-1] for row in content(heavy)}
    assert {row[:-1] for row in content(twice)} == set(once)
    assert twice.weights.sum() == pytest.approx(heavy.weights.sum())


def test_a_large_fit_ends_on_all_rows(rows):
    X, y = rows
    clf = FANClassifier(3, random_state=0, categorical_features=[0]).fit(X[y >= 0], y[y >= 0])
    assert clf.converged_
    assert (np.diff(clf.trace_) >= -1e-9 * abs(clf.trace_[0])).all()
    joint = clf.predict_joint_log_proba(X[y >= 0])
    units = sum(clf.schema_[j].log_scale for j in clf.schema_.continuous)
    own = joint[np.arange(len(joint)), y[y >= 0]].sum() + units * len(joint)
    assert clf.log_likelihood_ == pytest.approx(own, rel=1e-9)
