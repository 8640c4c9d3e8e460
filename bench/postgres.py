"""A PostgreSQL that flushes its commits to a disk, for measurements.

It is not pinned to the core of the service: it runs beside the load, as it would run on
another machine.
"""

import tempfile
from collections.abc import Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench import machine
from forewarn.store.postgres.connection import PostgresConnection
from tests.support import postgres_server
from tests.support.unpacked import needs

SETTINGS = {
    "fsync": "on",
    "full_page_writes": "on",
    "autovacuum": "on",
    "shared_buffers": "256MB",
    "max_wal_size": "1GB",
}


def missing() -> str:
    """Return why there is no PostgreSQL on this machine; empty: there is one."""
    return needs("postgres", "initdb")


@dataclass(frozen=True, slots=True)
class Server:
    """A running PostgreSQL."""

    directory: Path
    pid: int

    @property
    def url(self) -> str:
        """Return the URL of its database."""
        return postgres_server.url_of(self.directory)

    @property
    def cpu_seconds(self) -> float:
        """Return the processor time of all its processes so far."""
        return machine.family_cpu_seconds(self.pid)

    def count(self, table: str, condition: str) -> int:
        """Return the number of rows that are stored."""
        with closing(PostgresConnection(self.url, read_only=True)) as connection:
            sql = f"SELECT count(*) FROM {table} WHERE {condition}"
            [(found,)] = connection.raw(sql)
        return found


@contextmanager
def running() -> Generator[Server]:
    """Run a server where its own user can be, next to no other data."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        Path(name).chmod(0o755)
        directory = Path(name) / "server"
        postgres_server.make(directory)
        process = postgres_server.start(directory, **SETTINGS)
        try:
            yield Server(directory, process.pid)
        finally:
            postgres_server.stop(process)
