"""Tables in batches: the same rows whatever library they come in, and one sentence where they cannot be read."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import ibis
import narwhals as nw
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset as ds
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from fanbayes.data.batches import Batches, as_batches

ROWS = {
    "x": [1.5, None, 3.0, 4.0, 5.0, 6.0, 7.0],
    "n": [1, 2, 3, 4, 5, 6, 7],
    "colour": ["red", "blue", None, "red", "red", "green", "blue"],
}


def rows_of(batches: Batches) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {name: [] for name in batches.columns}
    for batch in batches:
        assert batch.frame.columns == batches.columns
        for name in batches.columns:
            found[name] += batch.frame[name].to_list()
    return found


def parquet(folder: Path) -> Any:
    for name, part in (("a", slice(0, 4)), ("b", slice(4, 7))):
        pq.write_table(pa.table({k: v[part] for k, v in ROWS.items()}), folder / f"{name}.parquet")
    return ds.dataset(folder)


def row_groups(folder: Path) -> Any:
    pq.write_table(pa.table(ROWS), folder / "one.parquet", row_group_size=3)
    return ds.dataset(folder / "one.parquet")


def feather(folder: Path) -> Any:
    pyarrow.feather.write_feather(pa.table(ROWS), folder / "one.arrow")
    return ds.dataset(folder, format="feather")


def csv(folder: Path) -> Any:
    pyarrow.csv.write_csv(pa.table(ROWS), folder / "one.csv")
    # Arrow takes an empty field of text for an empty text unless it is told.
    options = pyarrow.csv.ConvertOptions(strings_can_be_null=True)
    return ds.dataset(folder, format=ds.CsvFileFormat(convert_options=options))


def in_memory(folder: Path) -> Any:
    return ds.dataset(pa.table(ROWS))


def filtered(folder: Path) -> Any:
    more = {"x": [0.0], "n": [0], "colour": ["red"]}
    pq.write_table(pa.table({k: more[k] + v for k, v in ROWS.items()}), folder / "one.parquet")
    return ds.dataset(folder).filter(ds.field("n") > 0)


def lazy(folder: Path) -> Any:
    return pl.LazyFrame(ROWS)


def lazy_scan(folder: Path) -> Any:
    pl.DataFrame(ROWS).write_parquet(folder / "one.parquet")
    return pl.scan_parquet(folder / "one.parquet")


def of_narwhals(folder: Path) -> Any:
    return nw.from_native(pl.LazyFrame(ROWS))


def reader(folder: Path) -> Any:
    table = pa.table(ROWS)
    return pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=2))


def duckdb_relation(folder: Path) -> Any:
    table = pa.table(ROWS)
    return duckdb.connect().from_arrow(table)


def ibis_table(folder: Path) -> Any:
    with closing(sqlite3.connect(folder / "rows.sqlite")) as connection, connection:
        connection.execute("CREATE TABLE rows (x REAL, n INTEGER, colour TEXT)")
        connection.executemany("INSERT INTO rows VALUES (?, ?, ?)", zip(*ROWS.values()))
    return ibis.sqlite.connect(folder / "rows.sqlite").table("rows")


FILES = [parquet, row_groups, feather, csv, in_memory, filtered]
SOURCES = [*FILES, lazy, lazy_scan, of_narwhals, reader, duckdb_relation, ibis_table]


@pytest.mark.filterwarnings("ignore:The 'future.infer_string' option")  # Ibis sets it
@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.__name__)
class TestEverySource:
    def test_gives_the_same_rows_again_and_again(self, source: Any, tmp_path: Path) -> None:
        batches = as_batches(source(tmp_path), rows_at_once=3)
        assert batches is not None
        assert rows_of(batches) == ROWS
        assert rows_of(batches) == ROWS
        assert batches.n_rows in (None, 7)

    def test_projects(self, source: Any, tmp_path: Path) -> None:
        batches = as_batches(source(tmp_path), rows_at_once=3)
        assert batches is not None
        some = batches.only(["colour", "x"])
        assert rows_of(some) == {"colour": ROWS["colour"], "x": ROWS["x"]}
        with pytest.raises(ValueError, match=r"no column 'y'; the table has 'x', 'n', 'colour'"):
            batches.only(["y"])

    def test_says_where_rows_are(self, source: Any, tmp_path: Path) -> None:
        batches = as_batches(source(tmp_path), rows_at_once=3)
        assert batches is not None
        assert all(batch.where for batch in batches)


def test_what_is_in_memory_is_no_batches() -> None:
    for X in ([[1.0]], pa.table(ROWS), pl.DataFrame(ROWS), {"x": [1]}, "claims/", None):
        assert as_batches(X, 3) is None


def test_batches_are_taken_as_they_are(tmp_path: Path) -> None:
    batches = as_batches(parquet(tmp_path), 3)
    assert as_batches(batches, 5) is batches


def test_row_groups_are_read_in_pieces(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": list(range(100))}), tmp_path / "a.parquet")
    batches = as_batches(ds.dataset(tmp_path), rows_at_once=10)
    assert batches is not None
    assert [len(batch.frame) for batch in batches] == [10] * 10
    assert batches.n_rows == 100


def test_folders_tell_columns(tmp_path: Path) -> None:
    for year in (2023, 2024):
        (tmp_path / f"year={year}").mkdir()
        pq.write_table(pa.table({"x": [year + 0.5]}), tmp_path / f"year={year}" / "a.parquet")
    for partitioning in ("hive", ds.partitioning(flavor="hive", schema=None)):
        batches = as_batches(ds.dataset(tmp_path, partitioning=partitioning), 10)
        assert batches is not None
        assert rows_of(batches) == {"x": [2023.5, 2024.5], "year": [2023, 2024]}
    as_categories = ds.HivePartitioning.discover(infer_dictionary=True)
    batches = as_batches(ds.dataset(tmp_path, partitioning=as_categories), 10)
    assert batches is not None
    assert rows_of(batches) == {"x": [2023.5, 2024.5], "year": [2023, 2024]}


def test_an_empty_file_adds_no_rows(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1.0, 2.0]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"x": pa.array([], pa.null())}), tmp_path / "b.parquet")
    batches = as_batches(ds.dataset(tmp_path), 10)
    assert batches is not None
    assert rows_of(batches) == {"x": [1.0, 2.0]}


def test_files_need_not_store_numbers_alike(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1.5], "k": pa.array(["a"])}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"x": [2], "k": pa.array(["b"]).dictionary_encode()}), tmp_path / "b.parquet")
    pq.write_table(pa.table({"x": [3.0], "k": pa.nulls(1)}), tmp_path / "c.parquet")
    batches = as_batches(ds.dataset(tmp_path), 10)
    assert batches is not None
    assert rows_of(batches) == {"x": [1.5, 2.0, 3.0], "k": ["a", "b", None]}


@pytest.mark.parametrize(
    ("second", "said"),
    [
        ({"x": [1.0]}, r"b\.parquet cannot be read: it has no column 'n', which the dataset has; add it, or leave"),
        ({"x": ["1"], "n": [1]}, r"b\.parquet cannot be read: column 'x' holds text, and numbers in the dataset"),
        ({"x": [1.0], "n": [1.5]}, r"b\.parquet cannot be read: column 'n' is stored as double, and as int64 in the"),
        ({"x": [1.0], "n": [True]}, r"b\.parquet cannot be read: column 'n' holds bool, and numbers in the dataset"),
    ],
)
def test_a_file_that_differs_is_named(second: dict[str, list[Any]], said: str, tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1.0], "n": [1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table(second), tmp_path / "b.parquet")
    batches = as_batches(ds.dataset(tmp_path), 10)
    assert batches is not None
    with pytest.raises(ValueError, match=said):
        rows_of(batches)


def test_a_file_that_differs_from_the_first_is_named_beside_it(tmp_path: Path) -> None:
    """Whichever of the two is the odd one."""
    for name, x in (("a", "t"), ("b", 1.0), ("c", 2.0)):
        pq.write_table(pa.table({"x": [x]}), tmp_path / f"{name}.parquet")
    batches = as_batches(ds.dataset(tmp_path), 10)
    assert batches is not None
    with pytest.raises(
        ValueError, match=r"b\.parquet cannot .*holds numbers, and text in the dataset, as in .*a\.parq"
    ):
        rows_of(batches)


@pytest.mark.parametrize(
    ("second", "said"),
    [
        ("x,n\nt,1\n", r"b\.csv cannot be read: column 'x' holds text, and numbers in the dataset, as in .*a\.csv; "),
        ("x,n\n1.5,1.5\n", r"b\.csv cannot be read: column 'n' holds fractions, and whole numbers in the dataset"),
        ("x\n1.5\n", r"b\.csv cannot be read: it has no column 'n', which the dataset has"),
    ],
)
def test_a_file_of_text_that_differs_is_named(second: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,n\n1.5,1\n")
    (tmp_path / "b.csv").write_text(second)
    batches = as_batches(ds.dataset(tmp_path, format="csv"), 10)
    assert batches is not None
    with pytest.raises(ValueError, match=said):
        rows_of(batches)


def test_a_file_that_is_truncated_or_gone_is_named(tmp_path: Path) -> None:
    dataset = parquet(tmp_path)
    batches = as_batches(dataset, 10)
    assert batches is not None
    whole = (tmp_path / "b.parquet").read_bytes()
    (tmp_path / "b.parquet").write_bytes(whole[: len(whole) // 2])
    for read in (rows_of, lambda batches: batches.n_rows):
        with pytest.raises(ValueError, match=r"b\.parquet cannot be read: .*footer"):
            read(batches)
    (tmp_path / "b.parquet").write_bytes(b"")
    with pytest.raises(ValueError, match=r"b\.parquet cannot be read: "):
        rows_of(batches)
    (tmp_path / "b.parquet").unlink()
    with pytest.raises(FileNotFoundError, match=r"b\.parquet cannot be read: .*No such file"):
        rows_of(batches)


def test_a_lazy_frame_that_fails_is_one_sentence(tmp_path: Path) -> None:
    lazy = pl.LazyFrame({"x": ["1", "two"]}).with_columns(pl.col("x").cast(pl.Int64))
    batches = as_batches(lazy, 10)
    assert batches is not None
    with pytest.raises(ValueError, match=r"^the lazy frame cannot be read: .*two") as raised:
        rows_of(batches)
    assert "\n" not in str(raised.value)


def test_a_reader_is_read_once() -> None:
    batches = as_batches(reader(Path()), 2)
    assert batches is not None
    next(iter(batches))
    with pytest.raises(ValueError, match=r"^the reader cannot be read: it was read before, and gives its rows once"):
        rows_of(batches)
