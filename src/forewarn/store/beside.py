"""One moment of a store's file, read beside the service that has it open.

It takes no lock and changes nothing; the writer does not wait for it. Only a file
of this version's schema can be read, which the service's is.
"""

import contextlib
from collections.abc import Generator
from pathlib import Path

from forewarn.store.connection import Connection
from forewarn.store.port import Reader
from forewarn.store.rows import RowReader, Schema


@contextlib.contextmanager
def reading(path: Path) -> Generator[Reader]:
    """Give what was committed when it began; raises StoreError."""
    with contextlib.closing(Connection(path, read_only=True)) as connection:
        connection.begin()
        yield RowReader(connection, Schema(connection))
