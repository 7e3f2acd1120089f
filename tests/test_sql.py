"""Queries of real databases: the rows, in batches, and no password in any message."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pytest

from fanbayes.data.batches import Batches
from fanbayes.files.sql import Database, database, query_batches, without_passwords
from fanbayes.files.text import DatasetError

ROWS = [(1, 1.5, "red"), (2, None, "blue"), (3, 0.25, None), (4, 4.0, "red"), (5, 5.0, "green")]
CREATE = "CREATE TABLE claims (id INTEGER, amount DOUBLE PRECISION, colour TEXT)"
QUERY = "SELECT colour, amount, id FROM claims WHERE id > 1 ORDER BY id"
EXPECTED = {"colour": ["blue", None, "red", "green"], "amount": [None, 0.25, 4.0, 5.0], "id": [2, 3, 4, 5]}
BIN = next((folder for folder in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)), None)
INSERT = ", ".join(str(tuple("NULL" if v is None else v for v in row)).replace("'NULL'", "NULL") for row in ROWS)


def rows_of(batches: Batches) -> dict[str, list[Any]]:
    frames = [batch.frame for batch in batches]
    return {name: [v for frame in frames for v in frame[name].to_list()] for name in batches.columns}


@pytest.fixture
def duckdb_file(tmp_path: Path) -> str:
    with duckdb.connect(str(tmp_path / "claims.duckdb")) as connection:
        connection.execute(CREATE)
        connection.execute(f"INSERT INTO claims VALUES {INSERT}")
    return str(tmp_path / "claims.duckdb")


@pytest.fixture
def sqlite_file(tmp_path: Path) -> str:
    with closing(sqlite3.connect(tmp_path / "claims.sqlite")) as connection, connection:
        connection.execute(CREATE)
        connection.execute(f"INSERT INTO claims VALUES {INSERT}")
    return str(tmp_path / "claims.sqlite")


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A PostgreSQL on the loopback, in a folder of its own, of a user without privileges."""
    if BIN is None:
        pytest.skip("PostgreSQL is not installed (Debian: apt-get install postgresql)")
    user: dict[str, Any] = {}
    if os.geteuid() == 0:  # whom PostgreSQL refuses
        nobody = pwd.getpwnam("nobody")
        user = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
    folder = tempfile.mkdtemp(prefix="fanbayes-postgresql-")
    try:
        if user:
            os.chown(folder, user["user"], user["group"])
        data, password = Path(folder) / "data", Path(folder) / "password"
        password.write_text("s3cret@word")
        password.chmod(0o644)
        made = ["initdb", "-D", data, "-U", "me", "-A", "scram-sha-256", "--pwfile", password, "-N", "--locale=C"]
        quiet: dict[str, Any] = {"cwd": folder, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL} | user
        subprocess.run([BIN / made[0], *made[1:], "-E", "UTF8"], check=True, **quiet)
        with closing(socket.socket()) as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        settings = ["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "fsync=off"]
        process = subprocess.Popen([BIN / "postgres", "-D", data, "-p", str(port), *settings], **quiet)
        try:
            for _ in range(200):
                if subprocess.run([BIN / "pg_isready", "-h", "127.0.0.1", "-p", str(port)], **quiet).returncode == 0:
                    break
                time.sleep(0.05)
            address = f"postgresql://me:s3cret%40word@127.0.0.1:{port}/postgres"
            _execute(address, CREATE)
            _execute(address, f"INSERT INTO claims VALUES {INSERT}")
            yield process, address
        finally:
            process.send_signal(signal.SIGQUIT)
            process.wait()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _execute(address: str, statement: str) -> None:
    import adbc_driver_postgresql.dbapi

    with adbc_driver_postgresql.dbapi.connect(address, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(statement)


@pytest.fixture(params=["duckdb", "sqlite", "postgresql"])
def source(request: pytest.FixtureRequest) -> Database:
    if request.param == "postgresql":
        address = request.getfixturevalue("server")[1]
    else:
        address = request.getfixturevalue(f"{request.param}_file")
    found = database(address)
    assert found is not None
    assert found.kind == request.param
    return found


def test_a_query_is_a_table_in_batches(source: Database) -> None:
    batches = query_batches(source, f"{QUERY};\n", rows_at_once=2)
    assert batches.columns == ["colour", "amount", "id"]
    assert rows_of(batches) == EXPECTED
    assert rows_of(batches) == EXPECTED
    assert [len(batch.frame) for batch in batches] == [2, 2]
    assert [batch.where for batch in batches][1] == f"rows 3 to 4 of the query of {source.name}"


def test_a_query_that_is_wrong_is_one_sentence(source: Database) -> None:
    for wrong in ("SELECT nothing FROM claims", "SELEC colour FROM claims"):
        with pytest.raises(ValueError, match=r"^the query of .* cannot be read: .*(nothing|SELEC)") as raised:
            query_batches(source, wrong, 2)
        assert "\n" not in str(raised.value)


def test_nothing_is_changed_by_a_query(source: Database) -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        rows_of(query_batches(source, "DELETE FROM claims RETURNING id", 2))
    assert rows_of(query_batches(source, QUERY, 2)) == EXPECTED


def test_types_of_postgresql(server: tuple[Any, str]) -> None:
    source = Database("postgresql", server[1])
    query = "SELECT 1.25::numeric AS n, 2::smallint AS k, true AS b, 'x'::varchar(3) AS t, 7.5::real AS r, NULL AS z"
    assert rows_of(query_batches(source, query, 10)) == {
        "n": [1.25],
        "k": [2],
        "b": [True],
        "t": ["x"],
        "r": [7.5],
        "z": [None],
    }


def test_sqlite_columns_hold_one_kind_of_values(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "any.db")) as connection, connection:
        connection.execute("CREATE TABLE t (number, mixed, blob)")
        connection.executemany("INSERT INTO t VALUES (?, ?, ?)", [(1, 1, None), (2.5, "two", b"3"), (None, None, None)])
    source = database(str(tmp_path / "any.db"))
    assert source is not None
    assert rows_of(query_batches(source, "SELECT number FROM t", 1)) == {"number": [1.0, 2.5, None]}
    for column, said in (("mixed", "mixes text and numbers; CAST it"), ("blob", "holds blobs; leave it out")):
        with pytest.raises(ValueError, match=f"column '{column}' {said}"):
            rows_of(query_batches(source, f"SELECT {column} FROM t", 1))


def test_no_password_is_told(server: tuple[Any, str]) -> None:
    right = server[1]
    for wrong in (right.replace("s3cret%40word", "hunter2"), right.replace("/postgres", "/no?sslmode=odd")):
        found = database(wrong)
        assert found is not None
        with pytest.raises(ValueError) as raised:
            query_batches(found, QUERY, 2)
        error: BaseException | None = raised.value
        said = ""
        while error is not None:
            said += str(error)
            error = error.__cause__
        assert "hunter2" not in said
        assert "s3cret" not in said
        assert "127.0.0.1" in said


def test_passwords_are_cut_out() -> None:
    assert without_passwords("postgresql://me:pa@ss/w@host/db") == "postgresql://me@host/db"
    assert without_passwords('no port "pass"', "postgresql://me:pass/word@host/db") == 'no port "***"'
    assert without_passwords("postgresql://me:secret@host/db?x=1") == "postgresql://me@host/db?x=1"
    assert without_passwords("host=h password='a b' user=me") == "host=h password=*** user=me"
    assert without_passwords("postgresql://h/db?user=me&password=secret") == "postgresql://h/db?user=me&password=***"
    assert without_passwords("refused: secret", "postgresql://me:secret@host/db") == "refused: ***"


def test_a_database_that_goes_away(server: tuple[Any, str]) -> None:
    source = Database("postgresql", server[1])
    query = "SELECT i, repeat('x', 1000) AS t FROM generate_series(1, 200000) AS s(i)"
    rows = iter(query_batches(source, query, 1000, once=True))
    next(rows)
    _end_sessions(server[1])
    with pytest.raises(ValueError, match=r"^the query of postgresql://me@127.* cannot be read: "):
        list(rows)


def _end_sessions(address: str) -> None:
    _execute(
        address,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%generate_series%' "
        "AND pid <> pg_backend_pid()",
    )


def test_what_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    assert database(str(tmp_path / "a.csv")) is None
    assert database("claims/*.parquet") is None
    assert database("part=1/claims.parquet") is None
    with pytest.raises(DatasetError, match="no reader of 'mysql://' addresses: give postgresql://user@host/name"):
        database("mysql://me:secret@host/db")
