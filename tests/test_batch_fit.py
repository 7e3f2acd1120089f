"""Fits to tables that are read in batches, and encoded onto disk, are those to the same rows in memory."""

from __future__ import annotations

import errno
import os
from dataclasses import replace

import narwhals as nw
import numpy as np
import polars as pl
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from in_batches import Pieces

from fanbayes import (
    AODEClassifier,
    BoostedNBClassifier,
    DataWarning,
    FANClassifier,
    FMClassifier,
    MDAClassifier,
    NBClassifier,
    NBTreeClassifier,
    TANClassifier,
)
from fanbayes.data import storage

pytestmark = pytest.mark.filterwarnings("ignore::fanbayes.DataWarning")

N = 160


def mixed_table(seed=0):
    """Discrete and continuous columns that depend on a class and on something hidden; values and labels missing."""
    rng = np.random.default_rng(seed)
    y, h = rng.integers(0, 2, N), rng.integers(0, 2, N)

    def with_gaps(values, share=0.1):
        return [None if gap else v for v, gap in zip(values, rng.random(N) < share)]

    letter = np.array(["a", "b", "c", "d"])[(h + 2 * y + (rng.random(N) < 0.2)) % 4]
    columns = {
        "letter": with_gaps(letter.tolist()),
        "flag": (rng.random(N) < 0.2 + 0.6 * h).tolist(),
        "code": [str(v) for v in rng.integers(0, 3, N) + h],
        "x": with_gaps((2 * h + y + rng.normal(size=N)).tolist()),
        "z": (10 + 3 * h - 2 * y + rng.normal(size=N)).tolist(),
        "count": rng.poisson(2 + 3 * h).tolist(),
        "flat": [1.0] * N,
        "outcome": with_gaps(np.array(["no", "yes"])[y].tolist()),
        "cases": (rng.integers(0, 4, N) / 2).tolist(),
    }
    return pl.DataFrame(columns)


TABLE = mixed_table()
NEW = mixed_table(1).drop("outcome", "cases")

MODELS = {
    "NB": lambda: NBClassifier(),
    "NB, binned": lambda: NBClassifier(discretize="mdlp"),
    "NB, counts": lambda: NBClassifier(distributions={"count": "poisson"}),
    "NB, informative": lambda: NBClassifier(missing="informative"),
    "FM": lambda: FMClassifier(n_components=3, random_state=0),
    "FAN": lambda: FANClassifier(random_state=0),
    "FAN, CEM": lambda: FANClassifier(n_components=2, algorithm="cem", random_state=0),
    "FAN, per class": lambda: FANClassifier(mixing="per_class", random_state=0),
    "FAN, binned and informative": lambda: FANClassifier(2, discretize="mdlp", missing="informative", random_state=0),
    "FAN, arcs": lambda: FANClassifier(n_components=2, tree="forest", random_state=0),
    "TAN": lambda: TANClassifier(),
    "MDA": lambda: MDAClassifier(n_components=2, random_state=0),
    "MDA, by class": lambda: MDAClassifier(n_components=1, covariance_tying="class"),
    "AODE": lambda: AODEClassifier(),
}


@pytest.mark.parametrize(("name", "weighted"), [*((name, True) for name in MODELS), ("NB", False), ("FAN", False)])
def test_batches_on_disk_give_the_model_of_the_same_rows_in_memory(name, weighted, monkeypatch):
    monkeypatch.setattr(storage, "ROWS_AT_ONCE", 50)
    table = TABLE if weighted else TABLE.drop("cases")
    names = ("outcome", "cases") if weighted else ("outcome",)
    expected = MODELS[name]().fit(table, *names)
    found = MODELS[name]().set_params(memory=0).fit(Pieces(table), *names)
    assert found.classes_.tolist() == expected.classes_.tolist()
    assert found.feature_names_in_.tolist() == expected.feature_names_in_.tolist()
    for one, other in zip(found.schema_.columns, expected.schema_.columns):
        assert (one.name, one.kind, one.levels, one.cuts) == (other.name, other.kind, other.levels, other.cuts)
    assert found.schema_.indicates == expected.schema_.indicates
    np.testing.assert_allclose(found.predict_log_proba(NEW), expected.predict_log_proba(NEW), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", ["NB, binned", "FAN", "FAN, arcs", "TAN", "MDA", "AODE"])
def test_one_batch_has_the_same_bits(name):
    expected = MODELS[name]().fit(TABLE, "outcome", "cases")
    found = MODELS[name]().set_params(memory=0).fit(Pieces(TABLE, N), "outcome", "cases")
    np.testing.assert_array_equal(found.predict_log_proba(NEW), expected.predict_log_proba(NEW))


def test_encoded_rows_are_on_disk_if_they_take_more_than_the_memory():
    for memory, on_disk in (("1MB", False), ("2kB", True), (0, True), ("0.1 KiB", True)):
        cases = NBClassifier(memory=memory)._cases_or_batches(Pieces(TABLE), "outcome", None)
        _, table = cases.encoded("none")
        assert isinstance(table.numbers.base, np.memmap) is on_disk, memory
        assert isinstance(table.fused().narrow.base, np.memmap) is on_disk, memory
    few = table.subsample(20)
    assert 0 < few.n_rows < N


@pytest.mark.parametrize("memory", ["much", "-1GB", -1, True, None, 1.5, "1 QB"])
def test_memory_that_is_no_number_of_bytes(memory):
    with pytest.raises(ValueError, match=r"memory=.* is neither a number of bytes nor a text such as '2GB'"):
        NBClassifier(memory=memory).fit(TABLE, "outcome")


@pytest.mark.parametrize("make", [pl.DataFrame.to_pandas, pl.DataFrame.to_arrow, lambda frame: frame])
def test_target_and_weights_by_name_in_memory(make):
    table = make(TABLE)
    X, y, w = TABLE.drop("outcome", "cases"), TABLE["outcome"].to_numpy(), TABLE["cases"].to_numpy()
    expected = NBClassifier().fit(X, y, w)
    found = NBClassifier().fit(table, "outcome", "cases")
    assert found.classes_.tolist() == ["no", "yes"]
    np.testing.assert_allclose(found.predict_proba(make(NEW)), expected.predict_proba(NEW), rtol=1e-12)


def test_names_that_are_none_of_the_columns():
    for X in (TABLE, Pieces(TABLE)):
        with pytest.raises(ValueError, match="y names 'target', which is not a column; the columns are"):
            NBClassifier().fit(X, "target")
        with pytest.raises(ValueError, match="sample_weight names 'w', which is not a column"):
            NBClassifier().fit(X, "outcome", "w")
    with pytest.raises(ValueError, match="y='outcome' names a column, and X has no names"):
        NBClassifier().fit(np.zeros((3, 2)), "outcome")
    with pytest.raises(TypeError, match="X is read in batches: give y as the name of one of its columns"):
        NBClassifier().fit(Pieces(TABLE), TABLE["outcome"])
    with pytest.raises(ValueError, match="no column beside y"):
        NBClassifier().fit(Pieces(TABLE[["outcome"]]), "outcome")


@pytest.mark.parametrize("model", [BoostedNBClassifier, NBTreeClassifier])
def test_models_that_need_rows_in_memory_say_so(model):
    with pytest.raises(
        TypeError, match=r"learns from rows in memory here; give it as many as fit, such as dataset\.head"
    ):
        model().fit(Pieces(TABLE), "outcome")


def test_batches_of_one_class_without_labels_and_without_rows():
    labels = [None] * 40 + ["no"] * 40 + TABLE["outcome"].to_list()[80:]
    table = TABLE.with_columns(outcome=pl.Series(labels))
    expected = FANClassifier(2, random_state=0).fit(table, "outcome", "cases")
    found = FANClassifier(2, random_state=0).fit(Pieces(table, 40), "outcome", "cases")
    assert found.classes_.tolist() == ["no", "yes"]
    np.testing.assert_allclose(found.predict_proba(NEW), expected.predict_proba(NEW), atol=1e-8)
    with pytest.raises(ValueError, match="no row has a label"):
        NBClassifier().fit(Pieces(table.with_columns(outcome=pl.lit(None, pl.String)), 40), "outcome")
    with pytest.raises(ValueError, match="the table has no rows that count"):
        NBClassifier().fit(Pieces(table[:0]), "outcome")


def test_labels_that_are_numbers_or_truth_values():
    for values in ([0, 1] * 20, [2.0, 5.0] * 20, [True, False] * 20, [1, None, 7, 1] * 10):
        table = pl.DataFrame({"x": np.arange(40.0), "y": values}, strict=False)
        expected = NBClassifier().fit(table, "y")
        found = NBClassifier().fit(Pieces(table), "y")
        assert found.classes_.tolist() == expected.classes_.tolist()
        assert found.classes_.dtype == expected.classes_.dtype


def test_a_batch_with_one_class_or_without_labels():
    table = pl.concat([TABLE.filter(pl.col("outcome") == "yes"), TABLE.filter(pl.col("outcome").is_null())])
    table = pl.concat([table, TABLE.filter(pl.col("outcome") == "no")]).drop("cases")
    expected = FANClassifier(2, random_state=0).fit(table, "outcome")
    found = FANClassifier(2, random_state=0).fit(Pieces(table), "outcome")
    np.testing.assert_allclose(found.predict_proba(NEW), expected.predict_proba(NEW), atol=1e-8)
    with pytest.raises(ValueError, match="no row has a label"):
        NBClassifier().fit(Pieces(table.with_columns(pl.lit(None, pl.String).alias("outcome"))), "outcome")
    with pytest.raises(ValueError, match="the table has no rows that count"):
        AODEClassifier().fit(Pieces(table.with_columns(pl.lit(None, pl.String).alias("outcome"))), "outcome")
    with pytest.raises(ValueError, match="the table has no rows that count"):
        NBClassifier().fit(Pieces(table[:0]), "outcome")


def test_batches_whose_weights_are_zero():
    table = TABLE.with_columns(pl.when(pl.int_range(N) < 30).then(0.0).otherwise(1.0).alias("cases"))
    expected = NBClassifier().fit(TABLE[30:].drop("cases"), "outcome")
    found = NBClassifier().fit(Pieces(table), "outcome", "cases")
    np.testing.assert_allclose(found.predict_proba(NEW), expected.predict_proba(NEW), rtol=1e-12)


def test_traps_are_judged_by_the_first_batch():
    with pytest.warns(DataWarning, match="'flat'"):
        NBClassifier().fit(Pieces(TABLE, 100), "outcome")


# ---------------------------------------------------------------- bad days


def parts(folder):
    for k in range(3):
        pq.write_table(TABLE[50 * k : 50 * (k + 1)].to_arrow(), folder / f"part{k}.parquet")
    return folder


def test_a_folder_of_parquet(tmp_path):
    found = NBClassifier().fit(ds.dataset(parts(tmp_path)), "outcome", "cases")
    expected = NBClassifier().fit(TABLE[:150], "outcome", "cases")
    assert found.schema_.frame == "pyarrow"
    np.testing.assert_allclose(found.predict_proba(NEW.to_arrow()), expected.predict_proba(NEW), rtol=1e-10)


def test_a_lazy_frame():
    found = NBClassifier().fit(TABLE.lazy(), "outcome", "cases")
    expected = NBClassifier().fit(TABLE, "outcome", "cases")
    np.testing.assert_allclose(found.predict_proba(NEW), expected.predict_proba(NEW), rtol=1e-12)


def test_a_file_that_vanishes_or_is_cut_off_is_named(tmp_path):
    table = ds.dataset(parts(tmp_path))
    (tmp_path / "part1.parquet").write_bytes((tmp_path / "part1.parquet").read_bytes()[:500])
    with pytest.raises(ValueError, match=r"part1\.parquet cannot be read"):
        NBClassifier().fit(table, "outcome")
    (tmp_path / "part1.parquet").unlink()
    with pytest.raises(FileNotFoundError, match=r"part1\.parquet"):
        NBClassifier().fit(table, "outcome")


def test_files_that_differ_are_named(tmp_path):
    other = TABLE[50:100]
    for changed, said in (
        (other.drop("z"), r"part1\.parquet cannot be read: it has no column 'z'"),
        (other.with_columns(pl.col("z").cast(pl.String)), r"part1\.parquet cannot be read: column 'z' holds text"),
    ):
        table = ds.dataset(parts(tmp_path))
        pq.write_table(changed.to_arrow(), tmp_path / "part1.parquet")
        with pytest.raises(ValueError, match=said):
            NBClassifier().fit(table, "outcome")


def test_a_category_that_appears_late_is_no_fault(tmp_path):
    folder = parts(tmp_path)
    late = TABLE[50:100].with_columns(pl.lit("new").alias("letter"))
    pq.write_table(late.to_arrow(), folder / "part2.parquet")
    found = NBClassifier().fit(ds.dataset(folder), "outcome")
    assert found.schema_["letter"].levels == ("a", "b", "c", "d", "new")


def test_an_error_names_the_part_and_leaves_the_model_as_it_was(tmp_path):
    infinite = TABLE.with_columns(pl.when(pl.int_range(N) == 100).then(np.inf).otherwise(pl.col("z")).alias("z"))
    clf = NBClassifier().fit(TABLE, "outcome")
    before = clf.predict_proba(NEW.with_columns(cases=1.0))
    with pytest.raises(ValueError, match="part 14: column 'z' contains infinity"):
        clf.fit(Pieces(infinite), "outcome")
    np.testing.assert_array_equal(clf.predict_proba(NEW.with_columns(cases=1.0)), before)


@pytest.mark.parametrize("more", [-7, 7])
def test_a_table_that_changes_while_it_is_read(more):
    class Other(Pieces):
        def __iter__(self):
            found = list(super().__iter__())
            object.__setattr__(self, "table", TABLE[: len(self.table) + more])
            return iter(found)

    with pytest.raises(ValueError, match="the table changed while it was read: it had 100 rows"):
        NBClassifier(memory=0).fit(Other(TABLE[:100]), "outcome")


class SecondTime(Pieces):
    """Another table when it is read again."""

    later = None

    def __iter__(self):
        found = list(super().__iter__())
        object.__setattr__(self, "table", self.later)
        return iter(found)


@pytest.mark.parametrize(
    ("name", "said"),
    [("letter", "column 'letter'"), ("x", "column 'x'"), ("outcome", "the target"), ("cases", "the weights")],
)
@pytest.mark.parametrize("memory", [0, "8kB"])  # of the latter, rows are kept at first
def test_values_that_change_while_they_are_read(name, said, memory):
    """One value of the table is another one the second time."""
    column, k = TABLE[name], int(np.flatnonzero(TABLE[name].is_not_null() & TABLE["cases"].gt(0))[0])
    other = next(value for value in column.unique().to_list() if value and value != column[k])
    table = SecondTime(TABLE)
    object.__setattr__(table, "later", TABLE.with_columns(column.scatter(k, other)))
    with pytest.raises(ValueError, match=f"the table changed while it was read: {said} had other values"):
        NBClassifier(memory=memory).fit(table, "outcome", "cases")


@pytest.mark.parametrize("name", ["NB", "NB, binned", "FAN"])
def test_rows_that_take_little_memory_are_read_once(name):
    table = SecondTime(TABLE)
    object.__setattr__(table, "later", TABLE[:0])
    found = MODELS[name]().fit(table, "outcome", "cases").predict_log_proba(NEW)
    np.testing.assert_array_equal(
        found, MODELS[name]().set_params(memory=0).fit(Pieces(TABLE), "outcome", "cases").predict_log_proba(NEW)
    )


@pytest.mark.parametrize("later", [[1.0, 4.0], [2.5, 1.5]])
def test_changes_that_make_up_for_each_other(later):
    table = SecondTime(TABLE.with_columns(z=pl.lit(2.0)))
    values = np.resize(later, N)
    object.__setattr__(table, "later", TABLE.with_columns(z=pl.Series(values)))
    with pytest.raises(ValueError, match="column 'z' had other values"):
        NBClassifier(memory=0).fit(table, "outcome")


def test_folders_that_tell_a_text(tmp_path):
    """A column that is in the names of folders, not in the files."""
    table, rows = (t.with_columns(code="c" + pl.col("code")) for t in (TABLE, NEW))
    ds.write_dataset(table.to_arrow(), tmp_path, format="parquet", partitioning=["code"], partitioning_flavor="hive")
    found = NBClassifier(memory=0).fit(ds.dataset(tmp_path, partitioning="hive"), "outcome", "cases")
    expected = NBClassifier().fit(table, "outcome", "cases")
    new = rows.select(found.feature_names_in_.tolist())  # the folders' column comes last
    np.testing.assert_allclose(found.predict_proba(new), expected.predict_proba(rows), atol=1e-9)


def test_the_same_rows_in_another_order_are_no_change():
    table = SecondTime(TABLE)
    object.__setattr__(table, "later", TABLE[::-1])
    found = NBClassifier(memory=0).fit(table, "outcome", "cases").predict_proba(NEW)
    np.testing.assert_allclose(found, NBClassifier().fit(TABLE, "outcome", "cases").predict_proba(NEW), atol=1e-12)


def test_texts_of_parquet_are_read_as_its_codes(tmp_path):
    """And are texts, to the model as to a sample of it."""
    pq.write_table(TABLE.to_arrow(), tmp_path / "one.parquet")
    whole = ds.dataset(tmp_path / "one.parquet")
    of_codes = NBClassifier().fit(whole, "outcome", "cases").schema_
    of_texts = NBClassifier().fit(whole.filter(ds.field("z") > -1e9), "outcome", "cases").schema_
    assert of_codes == of_texts
    assert of_codes["letter"].dtype == "String"


def test_a_full_disk_is_one_sentence(monkeypatch):
    def full(file, n_bytes):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(storage, "reserve", full)
    with pytest.raises(OSError, match=r"bytes for encoded rows cannot be had in .* \(No space left on device\); make"):
        FANClassifier(2, memory=0, random_state=0).fit(Pieces(TABLE), "outcome")


def test_an_interruption_leaves_nothing(tmp_path, monkeypatch):
    class Interrupted(Pieces):
        def __iter__(self):
            for k, batch in enumerate(super().__iter__()):
                if k == 20:
                    raise KeyboardInterrupt
                yield batch

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    clf = NBClassifier(memory=0)
    with pytest.raises(KeyboardInterrupt):
        clf.fit(Interrupted(TABLE), "outcome")
    assert not hasattr(clf, "classes_")
    assert not list(tmp_path.iterdir())


def test_parts_of_different_types_are_named():
    class Mixed(Pieces):
        def __iter__(self):
            for k, batch in enumerate(super().__iter__()):
                yield batch if k < 9 else replace(batch, frame=batch.frame.with_columns(nw.col("x").cast(nw.String)))

    with pytest.raises(ValueError, match=r"column 'x' holds numbers in part 0 and strings in part \d+"):
        NBClassifier().fit(Mixed(TABLE), "outcome")


def test_progress_is_shown(capsys):
    NBClassifier(verbose=True, memory=0).fit(Pieces(TABLE), "outcome")
    assert capsys.readouterr().err.count("done") == 2  # a pass that reads, and one that encodes


def test_pandas_batches():
    table = TABLE.to_pandas()
    found = NBClassifier().fit(Pieces(table, frame="pandas"), "outcome", "cases")
    expected = NBClassifier().fit(table, "outcome", "cases")
    new = NEW.to_pandas()
    np.testing.assert_allclose(found.predict_proba(new), expected.predict_proba(new), rtol=1e-12)


def test_a_column_that_is_missing_is_told_in_one_line():
    clf = NBClassifier().fit(TABLE.drop("cases"), "outcome")
    with pytest.raises(ValueError, match=r"^rows 1 to 160 of the lazy frame: .*now missing: - code$"):
        clf.predict_proba(NEW.drop("code").lazy())
