"""A copy of a store's file, made while a service writes to it.

The backup does not take the lock of the service. It reads one moment of the file, and
no writer waits for it. It creates and checks the copy under another name, and renames
it at the end, so that a file with the final name is always complete.
"""

import contextlib
import os
from pathlib import Path

from forewarn.store.connection import Connection
from forewarn.store.migrate import count_done, load_steps
from forewarn.store.port import StoreError

BUSY_MILLISECONDS = 10_000
"""Maximum wait for a service that locks the whole file while it starts."""

MODE = 0o600
"""Mode of the copy: only its owner may read it, because it has data of all tenants."""


def backup(source: Path, target: Path) -> int:
    """Copy the store's file `source` to `target`; return its size in bytes.

    Raises StoreError; `target` then does not exist.
    """
    if not source.is_file():
        raise StoreError(
            f"there is no store {source}",
            hint="Run `forewarn config show` to see its URL.",
        )
    if target.exists():
        raise StoreError(
            f"{target} exists already",
            hint="Name another file, or remove this one.",
        )
    unfinished = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        # Created here with its mode, so that no other user can ever read it.
        os.close(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, MODE))
        _copy(source, unfinished)
        _make_durable(unfinished)
        # A link, not a rename: it fails if the name was taken meanwhile.
        os.link(unfinished, target)
        _make_durable(target.parent)
    except OSError as error:
        raise StoreError(
            f"the backup {target} cannot be written: {error.strerror}",
            hint="Check that its directory exists and has space for a copy.",
        ) from error
    finally:
        with contextlib.suppress(OSError):
            unfinished.unlink()
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
        # One file without a write-ahead log; a service creates a new log.
        writer.rows("PRAGMA journal_mode = DELETE")
        if faults := integrity_faults(writer):
            raise StoreError(
                f"the copy of {source} is damaged: {faults[0]}",
                hint="Run `forewarn store check` to see whether the store is damaged, too.",
            )


def integrity_faults(connection: Connection) -> list[str]:
    """Return the problems that SQLite finds in the pages of a file."""
    found = [str(row[0]) for row in connection.rows("PRAGMA integrity_check(20)")]
    return [] if found == ["ok"] else found


def _make_durable(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
