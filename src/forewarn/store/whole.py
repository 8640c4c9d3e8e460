"""One moment of a whole store, for its check, its backup and its copy.

The store may be unused, or that of a running service: a reader takes no lock, changes
nothing and does not delay the service.
"""

import contextlib
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from forewarn.store import migrate
from forewarn.store.backup import BUSY_MILLISECONDS
from forewarn.store.codec import Row
from forewarn.store.connection import Connection
from forewarn.store.database import Database
from forewarn.store.migrate import Step, load_steps
from forewarn.store.port import StoreError
from forewarn.store.snapshot import Source


class WholeReader(Database, Protocol):
    """A connection that sees one moment of a store."""

    def each(self, sql: str) -> Iterator[Row]:
        """Yield the rows of a statement, without loading all of them."""
        ...


@contextlib.contextmanager
def reading(source: Source) -> Generator[WholeReader]:
    """Yield a reader of one moment of the store, which has this version's schema.

    Raises StoreError if there is no store, or if it belongs to another program, or to a
    newer or older version of forewarn.
    """
    steps = load_steps()
    if isinstance(source, Path):
        with _file(source) as connection:
            done = migrate.count_done(connection, source, steps)
            if not migrate.tables_of(connection):
                raise _empty(str(source))
            _refuse_older(done, str(source), steps)
            yield connection
        return
    # A file needs no client of PostgreSQL.
    from forewarn.store.postgres import whole  # noqa: PLC0415

    with whole.reading(source) as (database, place, done):
        if not done:
            raise _empty(place)
        _refuse_older(done, place, steps)
        yield database


@contextlib.contextmanager
def _file(path: Path) -> Generator[Connection]:
    if not path.is_file():
        raise StoreError(
            f"there is no store {path}",
            hint="Run `forewarn config show` to see its URL.",
        )
    with contextlib.closing(
        Connection(path, read_only=True, busy_milliseconds=BUSY_MILLISECONDS)
    ) as connection:
        connection.begin_snapshot()
        yield connection


def _empty(place: str) -> StoreError:
    return StoreError(
        f"{place} is empty: no service has used it yet",
        hint="Name another store, or the settings with --config.",
    )


def _refuse_older(done: int, place: str, steps: Sequence[Step]) -> None:
    if done < len(steps):
        raise StoreError(
            f"{place} was written by an older forewarn (its schema is {done}, "
            f"this version has {len(steps)})",
            hint="Use the command of that version, or start this version on a copy.",
        )
