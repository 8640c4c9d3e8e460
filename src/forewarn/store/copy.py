"""A copy of a store to an empty one, of the same kind or another.

The copy has every row of every table that a store has: the records, their links, the
tokens' digests, and the store's term and secret, so that a service continues on it as
after a restart. It does not have the rows by which the services of a database agree: the
lease, the replicas and their feed. They are about processes that use the old database,
and the replicas of the new one begin with a snapshot.

The source is read at one moment. The target is filled in one transaction: if the copy
fails or is killed, the target has no rows. Before the commit, all rows are read again,
and their number and digest compared with those of the source.
"""

import contextlib
import hashlib
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias

from forewarn.store import whole
from forewarn.store.codec import Row
from forewarn.store.file_target import FileTarget, new_file
from forewarn.store.migrate import load_steps
from forewarn.store.port import StoreError
from forewarn.store.snapshot import Source
from forewarn.store.tables import Table, made_by

PAGE_ROWS = 2_000
"""Rows in memory at once: some megabytes. With more, a copy is not faster."""

DIGEST_BYTES = 16
"""Size of the digest of a row: enough, since rows are not chosen by an attacker."""

Told: TypeAlias = Callable[[str, int, int], object]
"""Takes the part of the work (copying, verifying, indexing), and how many rows are done
of how many."""


@dataclass(frozen=True, slots=True)
class TableCopy:
    """The rows of a table, the same on both sides."""

    name: str
    rows: int
    digest: str
    """Hexadecimal; the same for equal rows in any order."""


class Target(Protocol):
    """An empty store, which is filled in one transaction."""

    def write(self, table: Table, pages: Iterable[list[Row]]) -> None:
        """Write all rows of a table."""
        ...

    def pages(self, sql: str, rows: int) -> Iterator[list[Row]]:
        """Yield the rows that were written, so many at a time."""
        ...

    def finish(self) -> None:
        """Create the indexes, and commit."""
        ...

    def close(self) -> None:
        """Close the target; without `finish`, it has no rows."""
        ...


class Digest:
    """The number of rows, and a digest that does not depend on their order."""

    def __init__(self) -> None:
        """Begin without rows."""
        self.rows = self._sum = 0

    def of(self, pages: Iterable[list[Row]]) -> Iterator[list[Row]]:
        """Yield the pages, and count and digest their rows."""
        for page in pages:
            for row in page:
                row_digest = hashlib.blake2b(
                    repr(row).encode(), digest_size=DIGEST_BYTES
                )
                self._sum += int.from_bytes(row_digest.digest())
            self.rows += len(page)
            yield page

    def result(self, name: str) -> TableCopy:
        """Return the result for a table."""
        total = self._sum % (1 << 8 * DIGEST_BYTES)
        return TableCopy(name, self.rows, f"{total:0{2 * DIGEST_BYTES}x}")


def _nothing(part: str, done: int, of: int) -> None:
    """Ignore the progress."""
    del part, done, of


def copy(
    source: Source, target: Source, told: Told = _nothing
) -> tuple[TableCopy, ...]:
    """Copy the store `source` to `target`, which has no rows; return what was copied.

    Raises StoreError; `target` then has no rows, or does not exist if it is a file. Only
    if the connection is lost during the commit, it has all rows or none.
    """
    tables = made_by(load_steps())
    with whole.reading(source) as reader, _opened(target) as writer:
        total = sum(_count(reader, table) for table in tables)
        progress = _Progress("copying", total, told)
        read: list[TableCopy] = []
        for table in tables:
            digest = Digest()
            pages = reader.pages(table.every, PAGE_ROWS)
            writer.write(table, progress.of(digest.of(pages)))
            read.append(digest.result(table.name))
        progress = _Progress("verifying", total, told)
        for table, wanted in zip(tables, read, strict=True):
            digest = Digest()
            pages = writer.pages(table.every, PAGE_ROWS)
            for _ in progress.of(digest.of(pages)):
                pass
            _require_equal(wanted, digest.result(table.name))
        told("indexing", 0, 0)
        writer.finish()
    return tuple(read)


def _require_equal(wanted: TableCopy, found: TableCopy) -> None:
    if found != wanted:
        raise StoreError(
            f"table {wanted.name} of the copy is different: it has {found.rows} rows"
            f" with digest {found.digest}, the source has {wanted.rows} with"
            f" {wanted.digest}",
            hint="Check the disk of the target, and copy again.",
        )


def _count(reader: whole.WholeReader, table: Table) -> int:
    [(rows,)] = reader.rows(f"SELECT COUNT(*) FROM {table.name}")  # noqa: S608
    return rows


class _Progress:
    """Tells how many rows of all tables a part of the work has done."""

    def __init__(self, part: str, total: int, told: Told) -> None:
        self._part, self._total, self._told = part, total, told
        self._done = 0

    def of(self, pages: Iterable[list[Row]]) -> Iterator[list[Row]]:
        """Yield the pages, and count their rows."""
        for page in pages:
            self._told(self._part, self._done, self._total)
            yield page
            self._done += len(page)


@contextlib.contextmanager
def _opened(target: Source) -> Generator[Target]:
    if isinstance(target, Path):
        with (
            new_file(target) as unfinished,
            contextlib.closing(FileTarget(unfinished)) as file,
        ):
            yield file
        return
    # A file needs no client of PostgreSQL.
    from forewarn.store.postgres.whole import DatabaseTarget  # noqa: PLC0415

    with contextlib.closing(DatabaseTarget(target)) as database:
        yield database
