"""Rows that a query answers, from DuckDB, SQLite or PostgreSQL, in batches of Arrow.

No message holds a password, whoever wrote it.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from fanbayes.data.batches import Batches, naming, reason_of
from fanbayes.files.text import DatasetError, quoted

_INSTALL = "pip install 'fanbayes[sql]'"
_POSTGRES = re.compile(r"postgres(?:ql)?://|(?:host|hostaddr|port|dbname|user|password|service)\s*=")
_USER = re.compile(r"(?<=://)\S*(?=@)")  # with a password, which may hold what should have been coded
_PASSWORD = re.compile(r"(password\s*=\s*)('(?:[^'\\]|\\.)*'|[^\s&]+)", re.IGNORECASE)
_MAGIC: dict[str, tuple[int, bytes]] = {"sqlite": (0, b"SQLite format 3\0"), "duckdb": (8, b"DUCK")}


@dataclass(frozen=True)
class Database:
    """A database that a user named: a file of DuckDB or SQLite, or the connection string of a PostgreSQL."""

    kind: str
    address: str

    @property
    def name(self) -> str:
        """What it is called in messages: the address without passwords and options."""
        return without_passwords(self.address).partition("?")[0]


def database(address: str) -> Database | None:
    """The database that an address names, None if it names none.

    Parameters
    ----------
    address : str
        A file of DuckDB or SQLite, also as ``duckdb:///file`` or ``sqlite:///file``; ``postgresql://...`` or the
        ``host=... dbname=...`` of PostgreSQL.
    """
    scheme, separator, rest = address.partition("://")
    if separator and scheme.lower() in _MAGIC:
        return Database(scheme.lower(), rest.removeprefix("/"))
    if _POSTGRES.match(address) and not Path(address).exists():
        return Database("postgresql", address)
    if separator:
        known = "postgresql://user@host/name, sqlite:///file or duckdb:///file"
        raise DatasetError(f"there is no reader of {quoted(scheme + '://')} addresses: give {known}.")
    if Path(address).is_file():
        with Path(address).open("rb") as file:
            start = file.read(16)
        for kind, (at, magic) in _MAGIC.items():
            if start[at:].startswith(magic):
                return Database(kind, address)
    return None


def query_batches(source: Database, query: str, rows_at_once: int, *, once: bool = False) -> Batches:
    """Rows that a query answers; the database is asked once, and closed when all have come.

    Parameters
    ----------
    source : Database
    query : str
        One SELECT.
    rows_at_once : int
        About how many rows a batch has at most.
    once : bool
        Whether nobody goes through the rows a second time; else they are kept in a temporary file.
    """
    from fanbayes.data.arrow_batches import QueryBatches

    what = f"query of {source.name}"

    def answer() -> Generator[Any, None, None]:
        with _hiding(source):
            yield from _ANSWERS[source.kind](source.address, query.strip().rstrip(";"), rows_at_once)

    def batches() -> Iterator[Any]:
        with closing(answer()) as asked:
            yield from islice(asked, 1, None)

    with naming(f"the {what}"), closing(answer()) as asked:
        columns = next(asked)
    return QueryBatches(batches, columns, what, once)


@contextmanager
def _hiding(source: Database) -> Iterator[None]:
    """What a driver says of a failure, without passwords."""
    try:
        yield
    except Exception as error:  # each driver has errors of its own
        raise ValueError(without_passwords(reason_of(error), source.address)) from None


def without_passwords(text: str, address: str | None = None) -> str:
    """The text, in which no password stands: neither one of its own addresses nor one of a given address."""
    known = [] if address is None else [password for password in _passwords(address) if password]
    for password in sorted({*known, *map(unquote, known)}, key=len, reverse=True):
        text = text.replace(password, "***")
    text = _USER.sub(lambda found: found[0].partition(":")[0], text)
    return _PASSWORD.sub(r"\1***", text)


def _passwords(address: str) -> list[str]:
    """Passwords of an address, and the parts that a driver sees if they hold what should have been coded."""
    users = [found[0].partition(":")[2] for found in _USER.finditer(address)]
    parts = [part for user in users for part in re.split(r"[/?#@:]", user) if len(part) > 1]
    return [*users, *parts, *(found[2].strip("'") for found in _PASSWORD.finditer(address))]


# ---------------------------------------------------------------- each kind of database: names of columns, then batches


def _duckdb(address: str, query: str, rows_at_once: int) -> Iterator[Any]:
    with _driver("duckdb").connect(address, read_only=True) as connection:
        relation = connection.sql(query)
        if relation is None:
            raise ValueError("it answers no rows; give a SELECT")
        yield list(relation.columns)
        open_reader = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
        yield from open_reader(rows_at_once)


def _postgresql(address: str, query: str, rows_at_once: int) -> Iterator[Any]:
    """By COPY, of which the server sends some rows after the other."""
    driver = _driver("adbc_driver_postgresql.dbapi")
    with driver.connect(address) as connection, connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION READ ONLY")
        yield list(cursor.adbc_execute_schema(query).names)
        cursor.execute(query)
        for batch in cursor.fetch_record_batch():
            plain = _plain(batch)
            yield from (plain.slice(at, rows_at_once) for at in range(0, len(plain), rows_at_once))


def _plain(batch: Any) -> Any:
    """A batch of PostgreSQL, its decimal numbers, which come as text, as numbers, and types of its own as text."""
    import pyarrow as pa

    columns = []
    for field, values in zip(batch.schema, batch.columns):
        told = (field.metadata or {}).get(b"ADBC:postgresql:typname", b"").decode()
        kind = getattr(field.type, "type_name", told)
        if isinstance(values, pa.ExtensionArray):
            values = values.storage
        if kind == "numeric":
            values = values.cast(pa.float64())
        elif pa.types.is_binary(values.type) and kind != "bytea":
            values = values.cast(pa.string())
        columns.append(values)
    return pa.record_batch(columns, names=batch.schema.names)


def _sqlite(address: str, query: str, rows_at_once: int) -> Iterator[Any]:
    """By way of Python's own driver; what each column holds is asked first, as SQLite lets every row say it anew."""
    import pyarrow as pa

    uri = f"{Path(address).absolute().as_uri()}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True)) as connection:
        connection.execute("BEGIN")  # both questions see the same rows
        names = [column[0] for column in connection.execute(query).description]
        yield names
        quoted_names = ['"' + name.replace('"', '""') + '"' for name in names]
        asked = ", ".join(f"max(typeof({q}) = '{kind}')" for q in quoted_names for kind in _STORED)
        [found] = connection.execute(f"SELECT {asked} FROM ({query})")
        held = [{k for k, is_held in zip(_STORED, found[at:]) if is_held} for at in range(0, len(found), len(_STORED))]
        schema = pa.schema([(name, _arrow_type(name, kinds)) for name, kinds in zip(names, held)])
        cursor = connection.execute(query)
        while rows := cursor.fetchmany(rows_at_once):
            yield pa.record_batch([pa.array(v, kind) for v, kind in zip(zip(*rows), schema.types)], schema=schema)


_STORED = ("text", "real", "integer", "blob")


def _arrow_type(name: str, kinds: set[str]) -> Any:
    """The type of a column that holds values of these kinds."""
    import pyarrow as pa

    if "blob" in kinds:
        raise ValueError(f"column {name!r} holds blobs; leave it out, or CAST it to TEXT or REAL")
    if "text" in kinds and len(kinds) > 1:
        raise ValueError(f"column {name!r} mixes text and numbers; CAST it to TEXT or REAL")
    types = {"text": pa.string(), "real": pa.float64(), "integer": pa.int64()}
    return next((kind for stored, kind in types.items() if stored in kinds), pa.null())


def _driver(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise ValueError(f"its driver is not installed; {_INSTALL}") from None


_ANSWERS: dict[str, Callable[[str, str, int], Iterator[Any]]] = {
    "duckdb": _duckdb,
    "postgresql": _postgresql,
    "sqlite": _sqlite,
}
