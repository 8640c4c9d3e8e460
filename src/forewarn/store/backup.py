"""A copy of a store's file, made while a service writes to it.

The backup does not take the lock of the service. It reads one moment of the file, and
no writer waits for it. A file with the final name is always complete and checked.
"""

import contextlib
from pathlib import Path

from forewarn.store.connection import Connection
from forewarn.store.file_target import make_single, new_file
from forewarn.store.migrate import count_done, load_steps
from forewarn.store.port import StoreError

BUSY_MILLISECONDS = 10_000
"""Maximum wait for a service that locks the whole file while it starts."""


def backup(source: Path, target: Path) -> int:
    """Copy the store's file `source` to `target`; return its size in bytes.

    Raises StoreError; `target` then does not exist.
    """
    if not source.is_file():
        raise StoreError(
            f"there is no store {source}",
            hint="Run `forewarn config show` to see its URL.",
        )
    with new_file(target) as unfinished:
        _copy(source, unfinished)
    return target.stat().st_size


def _copy(source: Path, target: Path) -> None:
    with (
        contextlib.closing(
            Connection(source, read_only=True, busy_milliseconds=BUSY_MILLISECONDS)
        ) as reader,
        contextlib.closing(Connection(target)) as writer,
    ):
        if not count_done(reader, source, load_steps()):
            raise StoreError(f"{source} is empty: no service has used it yet")
        reader.copy_to(writer)
        make_single(writer, f"the copy of {source}")
