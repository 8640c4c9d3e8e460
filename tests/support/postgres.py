"""Databases of PostgreSQL for tests, each a copy of one with the schema.

The server is the one that FOREWARN_TEST_POSTGRESQL names, whose user may create databases,
or one that the first test starts (`postgres_server`).
"""

import atexit
import functools
import secrets
import zlib
from collections.abc import Callable, Generator
from contextlib import contextmanager
from urllib.parse import urlsplit

import psycopg
import pytest

from forewarn.store.migrate import load_steps
from forewarn.store.postgres.store import PostgresStore
from tests.support import postgres_server
from tests.support.postgres_server import GIVEN, VARIABLE
from tests.support.unpacked import needs

needing_postgres = pytest.mark.skipif(
    not GIVEN and bool(needs("postgres", "initdb")),
    reason=f"{needs('postgres', 'initdb')}, or name a server in {VARIABLE}",
)
"""Skip the tests that need a server where there is none."""


@functools.cache
def server() -> str:
    """Return the URL of the server."""
    return GIVEN or postgres_server.joined()


def database(name: str) -> str:
    """Return the URL of a database of the server."""
    parts = urlsplit(server())
    return f"{parts.scheme}://{parts.netloc}/{name}?{parts.query}"


@functools.cache
def _template() -> str:
    """Return the name of the database with the schema; make it once."""
    steps = "".join(step.sql for step in load_steps())
    name = f"forewarn_template_{zlib.crc32(steps.encode()):08x}"
    with psycopg.connect(server(), autocommit=True) as connection:
        # Only one process makes it.
        connection.execute("SELECT pg_advisory_lock(1)")
        cursor = connection.execute(
            "SELECT 1 FROM pg_database WHERE datname = %s", (name,)
        )
        if not cursor.fetchall():
            unfinished = f"{name}_{secrets.token_hex(4)}"
            connection.execute(f"CREATE DATABASE {unfinished}".encode())
            PostgresStore(database(unfinished)).close()
            connection.execute(f"ALTER DATABASE {unfinished} RENAME TO {name}".encode())
    return name


def new_database(*, is_empty: bool = False) -> str:
    """Create a database with the schema, and return its URL."""
    name = f"forewarn_{secrets.token_hex(12)}"
    template = "template0" if is_empty else _template()
    with psycopg.connect(server(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}".encode())
    return database(name)


def drop(url: str) -> None:
    """Remove a database, even if something is connected to it."""
    name = urlsplit(url).path[1:]
    with psycopg.connect(server(), autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@contextmanager
def one_database(*, is_empty: bool = False) -> Generator[str]:
    """Yield the URL of a new database, and remove it."""
    url = new_database(is_empty=is_empty)
    try:
        yield url
    finally:
        drop(url)


_free: list[str] = []
"""The databases of this process that no test uses."""


@contextmanager
def lent_databases() -> Generator[Callable[[], str]]:
    """Yield what lends databases with the schema and without rows.

    To empty a database takes a millisecond, and to make one takes a hundred. A database
    whose store a test has changed otherwise must not be lent again: use `one_database`.
    """
    lent: list[str] = []

    def lend() -> str:
        if not _free:
            _free.append(new_database())
            atexit.register(drop, _free[-1])
        lent.append(_free.pop())
        _empty(lent[-1])
        return lent[-1]

    yield lend
    _free.extend(lent)


def _empty(url: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("UPDATE lease SET holder = ''")
        rows = connection.execute(
            "SELECT table_name FROM information_schema.tables"
            " WHERE table_schema = current_schema()"
            " AND table_name NOT IN"
            " ('fence', 'feed_floor', 'lease', 'schema_steps')"
        ).fetchall()
        connection.execute(";".join(f"DELETE FROM {name}" for (name,) in rows).encode())


def lose_connections(url: str) -> None:
    """End all sessions of a database but this one, and wait for that."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid != pg_backend_pid()"
        )
