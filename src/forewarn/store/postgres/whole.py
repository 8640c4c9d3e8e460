"""One moment of a whole database, and the target of a copy in PostgreSQL."""

import contextlib
from collections.abc import Generator, Iterable, Iterator

from forewarn.clock import SystemClock
from forewarn.store.codec import Row
from forewarn.store.migrate import load_steps
from forewarn.store.port import StoreError
from forewarn.store.postgres import dialect
from forewarn.store.postgres.connection import PostgresConnection
from forewarn.store.postgres.fence import Fence
from forewarn.store.postgres.migrate import bring_up_to_date, count_done
from forewarn.store.postgres.url import place_of
from forewarn.store.tables import Table, definitions, made_by


@contextlib.contextmanager
def reading(url: str) -> Generator[tuple[PostgresConnection, str, int]]:
    """Yield a reader of one moment, its place, and the number of its schema's steps."""
    place = place_of(url)
    with contextlib.closing(PostgresConnection(url, read_only=True)) as connection:
        connection.limit_statements(is_limited=False)
        connection.begin_snapshot()
        yield connection, place, count_done(connection, place, load_steps())


class DatabaseTarget:
    """A database without rows, which one transaction fills."""

    def __init__(self, url: str) -> None:
        """Create the tables if they are missing, and begin a term, as a service does.

        So no service writes meanwhile, and none that was started before it continues.
        Raises StoreError if a table has rows, and StoreBusyError if a service runs.
        """
        self._place = place_of(url)
        steps = load_steps()
        self._tables, self._indexes = made_by(steps), definitions(steps).indexes
        self._fence = Fence(self._place, SystemClock())
        self._connection = connection = PostgresConnection(url)
        try:
            connection.limit_statements(is_limited=False)
            self._fence.take(connection)
            bring_up_to_date(connection, self._place, steps)
            self._fence.read(connection)
            connection.begin()
            self._fence.enter(connection)
            self._refuse_rows()
            # Rows without indexes, and then each index at once, is faster.
            for name in self._indexes:
                connection.run(f"DROP INDEX {name}")
        except BaseException:
            self.close()
            raise

    def _refuse_rows(self) -> None:
        for table in self._tables:
            if self._connection.raw(f"SELECT 1 FROM {table.name} LIMIT 1"):  # noqa: S608
                raise StoreError(
                    f"{self._place} is not empty: it has {table.name}",
                    hint="Create another database with createdb, and name it.",
                )

    def write(self, table: Table, pages: Iterable[list[Row]]) -> None:
        """Write all rows of a table."""
        self._connection.load(table.name, table.columns, pages)

    def pages(self, sql: str, rows: int) -> Iterator[list[Row]]:
        """Yield the rows that were written, so many at a time."""
        return self._connection.pages(sql, rows)

    def finish(self) -> None:
        """Create the indexes, and commit."""
        for sql in self._indexes.values():
            self._connection.run(dialect.definition(sql))
        # The planner knows nothing about the new rows until autovacuum has looked.
        for table in self._tables:
            self._connection.run(f"ANALYZE {table.name}")
        self._connection.commit()

    def close(self) -> None:
        """Close the connection; without `finish`, no row is stored."""
        if self._connection.end():
            self._fence.release(self._connection)
        self._connection.close()
