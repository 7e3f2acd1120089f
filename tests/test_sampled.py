"""FANClassifierCV of tables that are read in batches or lie in partitions: a sample in memory, all rows for EM."""

from __future__ import annotations

from dataclasses import replace

import dask
import dask.dataframe as dd
import numpy as np
import polars as pl
import pytest
from in_batches import Pieces
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from fanbayes import FANClassifierCV, NBClassifier
from fanbayes.estimators import on_dask, sampled
from fanbayes.estimators.sampled import draw_of
from fanbayes.learning.ensembles import race

pytestmark = pytest.mark.filterwarnings("ignore::fanbayes.DataWarning")

N = 900


def mixed_table(n=N, seed=0):
    """Columns that depend on a class and on something hidden; values and labels missing, weights, groups."""
    rng = np.random.default_rng(seed)
    y, h = rng.integers(0, 2, n), rng.integers(0, 2, n)

    def with_gaps(values, share=0.03):
        return [None if gap else v for v, gap in zip(values, rng.random(n) < share)]

    letter = np.array(["a", "b", "c", "d"])[(h + 2 * y + (rng.random(n) < 0.2)) % 4]
    columns = {
        "letter": with_gaps(letter.tolist()),
        "x": with_gaps((2 * h + y + rng.normal(size=n)).tolist()),
        "z": (10 + 3 * h - 2 * y + rng.normal(size=n)).tolist(),
        "flat": [1.0] * n,
        "outcome": with_gaps(np.array(["no", "yes"])[y].tolist(), 0.1),
        "cases": (rng.integers(0, 4, n) / 2).tolist(),
        "patient": [f"patient {k // 3}" for k in range(n)],
    }
    return pl.DataFrame(columns)


TABLE = mixed_table()
NEW = mixed_table(60, 1).drop("outcome", "cases", "patient")
NAMES = ("outcome", "cases", "patient")


def average(**settings):
    return FANClassifierCV(effort="fast", random_state=0, **settings)


@pytest.fixture
def few_in_memory(monkeypatch):
    """About 300 rows are drawn, and candidates judged by all of them."""
    monkeypatch.setattr(sampled, "LEAST_ROWS", 300)


@pytest.fixture
def seen(monkeypatch):
    """What EM was given of the rows elsewhere: by treatment, how many cases and columns."""
    found, whole = [], race.Elsewhere.__init__

    def init(self, seen_by, class_cases):
        def noted(view):
            data = seen_by(view)
            found.append((view, data))
            return data

        whole(self, noted, class_cases)

    monkeypatch.setattr(race.Elsewhere, "__init__", init)
    return found


def partitions(table, n=4):
    return dd.from_pandas(table.to_pandas(), npartitions=n, sort=False)


def test_what_fits_into_memory_is_fitted_as_in_memory():
    """To the bit of one part; means of several parts differ in their last digits, and what these choose in more."""
    expected = average().fit(TABLE, *NAMES).predict_proba(NEW)
    for X, difference in ((Pieces(TABLE, N), 0.0), (partitions(TABLE, 1), 0.0), (Pieces(TABLE, 100), 1e-2)):
        found = average().fit(X, *NAMES)
        new = NEW if isinstance(X, Pieces) else NEW.to_pandas()
        np.testing.assert_allclose(found.predict_proba(new), expected, rtol=0, atol=difference)


@pytest.mark.usefixtures("few_in_memory")
def test_em_learns_from_all_rows_and_the_rest_from_those_in_memory(seen):
    clf = average(memory=0).fit(Pieces(TABLE.drop("patient"), 100), "outcome", "cases")
    assert len(seen) > 1
    counted = TABLE.filter(pl.col("cases") > 0)
    for view, data in seen:
        assert data.total_weight == pytest.approx(counted["cases"].sum())
        assert isinstance(data.table.numbers.base, np.memmap)
        assert data.table.layout.n_numbers == len(view.schema.continuous)
    cases = [counted.filter(pl.col("outcome") == c)["cases"].sum() for c in ("no", "yes")]
    np.testing.assert_allclose(clf.class_prior_, (np.array(cases) + 1) / (sum(cases) + 2))
    proba = clf.predict_proba(NEW)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    whole = average().fit(TABLE.drop("patient"), "outcome", "cases").predict_proba(NEW)
    assert abs(proba - whole).mean() < 0.08  # another sample was judged, but the classes are told apart


@pytest.mark.parametrize("treatment", ["none", "mdlp", "normal_scores", "decorrelate"])
@pytest.mark.usefixtures("few_in_memory")
def test_rows_elsewhere_are_seen_as_those_in_memory(treatment):
    clf = average(memory=0)
    here = clf._cases(TABLE.drop("patient"), "outcome", "cases").training_table()
    for X in (Pieces(TABLE, 100), partitions(TABLE)):
        rows, elsewhere = clf._cases_of(X, *NAMES).sample(0)[1::2]
        view, _ = rows.view(treatment, rows.labels)
        data = elsewhere.seen_by(view)
        tables = [data.table] if isinstance(X, Pieces) else [part.table for part in data.parts.gather()]
        expected = view.mix(here._table(view.schema)).fused()
        for name in ("narrow", "numbers", "labels", "weights"):
            found = np.concatenate([getattr(table, name) for table in tables])
            np.testing.assert_allclose(found, getattr(expected, name), atol=1e-9)


@pytest.mark.usefixtures("few_in_memory")
def test_naive_bayes_of_all_rows_is_counted_over_all_of_them(monkeypatch):
    """With too few labelled rows in the sample, the only member is the naive Bayes of the whole table."""
    monkeypatch.setattr(sampled, "LEAST_ROWS", 12)
    with pytest.warns(UserWarning, match="too few to judge models by"):
        clf = average(memory=0).fit(Pieces(TABLE.drop("patient"), 100), "outcome", "cases")
    [member] = clf.average_.members
    expected = NBClassifier().fit(TABLE.drop("patient"), "outcome", "cases")
    np.testing.assert_allclose(member.fits[0].network.cells, expected.network_.cells, atol=1e-10)


@pytest.mark.usefixtures("few_in_memory")
def test_the_sample_is_that_of_the_rows_however_they_are_cut(monkeypatch):
    monkeypatch.setattr(on_dask, "_ROWS_A_BLOCK", 200)
    found = []
    for X in (Pieces(TABLE, 100), Pieces(TABLE, 333), partitions(TABLE), partitions(TABLE, 9)):
        clf = average(memory=0)
        sample = clf._cases_of(X, *NAMES).sample(5)
        assert sample.elsewhere is not None
        assert len(sample.groups) == sample.rows.table.n_rows
        found.append(sample)
    first = found[0].rows
    assert 200 < first.table.n_rows < 400
    for other in (sample.rows for sample in found[1:]):
        np.testing.assert_array_equal(other.table.narrow, first.table.narrow)
        np.testing.assert_allclose(other.table.numbers, first.table.numbers, atol=1e-12)
        np.testing.assert_array_equal(other.labels, first.labels)
        np.testing.assert_array_equal(other.values[1], first.values[1])
    other = average(memory=0)._cases_of(Pieces(TABLE, 100), *NAMES).sample(6).rows
    assert other.table.n_rows != first.table.n_rows or (other.labels != first.labels).any()


@pytest.mark.usefixtures("few_in_memory")
def test_dask_gives_what_batches_give(monkeypatch):
    monkeypatch.setattr(on_dask, "_ROWS_A_BLOCK", 300)
    monkeypatch.setattr("fanbayes.learning.data.InMemoryData.run_em", lambda *_, **__: None)  # pass by pass
    here = average(memory=0).fit(Pieces(TABLE, 100), *NAMES)
    with dask.config.set(scheduler="sync"):
        there = average(memory=0).fit(partitions(TABLE), *NAMES)
    np.testing.assert_allclose(there.predict_proba(NEW.to_pandas()), here.predict_proba(NEW), atol=5e-3)
    assert there.score(partitions(TABLE.drop("patient")), "outcome") > 0.8


def test_rows_with_a_label_are_at_least_half_of_those_drawn(monkeypatch):
    monkeypatch.setattr(sampled, "LEAST_ROWS", 100)
    cases = average(memory=0)._cases_of(Pieces(TABLE, 300), "outcome", None)
    for n_rows, n_unlabelled, unlabelled, labelled in (
        (1000, 0, 1.0, 0.1),
        (1000, 960, 60 / 960, 1.0),
        (1000, 500, 50 / 500, 50 / 500),
        (100, 50, 1.0, 1.0),
        (110, 10, 1.0, 0.9),
    ):
        summary = replace(cases.summary, n_rows=n_rows, n_unlabelled=n_unlabelled)
        draw = draw_of(summary, cases._empty_table(summary.schema(None)).layout, 0, 0)
        assert (draw.unlabelled, draw.labelled) == pytest.approx((unlabelled, labelled))
        assert draw.is_all == (n_rows == 100)


@pytest.mark.usefixtures("few_in_memory")
def test_groups_by_name_are_held_out_together(monkeypatch):
    units = []
    fit_average = race.find_candidates

    def noted(training, split, *others):
        units.append((training.groups, training.rows.labels >= 0, split))
        return fit_average(training, split, *others)

    monkeypatch.setattr("fanbayes.learning.ensembles.training.find_candidates", noted)
    for X in (TABLE, Pieces(TABLE, 100), partitions(TABLE)):
        average(memory=0, cv=GroupKFold(3)).fit(X, *NAMES)
    assert len(units) == 3
    for groups, labelled, split in units:
        assert len(split) == 3
        for (train, test), _ in split:
            assert not set(groups[(train > 0) & labelled]) & set(groups[test > 0])


@pytest.mark.usefixtures("few_in_memory")
def test_extra_members_see_the_rows_in_memory():
    extra = make_pipeline(OneHotEncoder(handle_unknown="ignore"), LogisticRegression())
    X = Pieces(TABLE.drop("patient", "cases", "x", "z").drop_nulls("letter"), 100)
    clf = average(memory=0, extra_members=[("logistic", extra)]).fit(X, "outcome")
    assert np.isfinite(clf.predict_proba(NEW.drop("x", "z"))).all()


def test_what_is_refused():
    with pytest.raises(ValueError, match="cv gives rows by their numbers, which needs rows in memory"):
        average(cv=[([0, 1], [2, 3])]).fit(Pieces(TABLE, 100), *NAMES)
    with pytest.raises(TypeError, match="X is read in batches: give groups as the name of one of its columns"):
        average().fit(Pieces(TABLE, 100), "outcome", None, TABLE["patient"])
    with pytest.raises(ValueError, match="groups names 'ward', which is not a column"):
        average().fit(TABLE, "outcome", None, "ward")
    with pytest.raises(ValueError, match="groups has missing entries"):
        average().fit(Pieces(TABLE.with_columns(patient=None), 100), *NAMES)
    with pytest.raises(ValueError, match="no row has a label"):
        average().fit(Pieces(TABLE.with_columns(outcome=pl.lit(None, pl.String)), 100), *NAMES)
