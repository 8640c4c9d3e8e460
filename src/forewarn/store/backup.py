"""A copy of a store's file, made while a service goes on writing it.

It does not take the lock that keeps two services apart: it only reads, one moment
of the file, and no writer waits for it. The copy is made beside its place, checked,
and only then given its name, so that a file of that name is always a whole one.
"""

import contextlib
import os
from pathlib import Path

from forewarn.store.connection import Connection
from forewarn.store.migrate import count_done, load_steps
from forewarn.store.port import StoreError

BUSY_MILLISECONDS = 10_000
"""How long the copy waits for whoever holds the whole file: a service that starts."""

MODE = 0o600
"""The copy is for its maker alone, as it tells everything about every tenant."""


def backup(source: Path, target: Path) -> int:
    """Copy the store's file `source` to `target`; return its size in bytes.

    Raises StoreError; `target` is then not there, as before.
    """
    if not source.is_file():
        raise StoreError(
            f"there is no store {source}", hint="[store] url names it; see config show"
        )
    if target.exists():
        raise StoreError(
            f"{target} exists already",
            hint="Name another file, or remove this one: nothing is overwritten.",
        )
    unfinished = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        # Made here, so that nobody else can read it at any time.
        os.close(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, MODE))
        _copy(source, unfinished)
        _make_durable(unfinished)
        # A link, not a rename: it fails where the name was taken meanwhile.
        os.link(unfinished, target)
        _make_durable(target.parent)
    except OSError as error:
        raise StoreError(
            f"the backup {target} cannot be written: {error.strerror}",
            hint="Its directory must exist, with room for another copy.",
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
        # One file, without a write-ahead log beside it; a service makes one anew.
        writer.rows("PRAGMA journal_mode = DELETE")
        if faults := integrity_faults(writer):
            raise StoreError(
                f"the copy of {source} is damaged: {faults[0]}",
                hint="`forewarn store check` says whether the store itself is.",
            )


def integrity_faults(connection: Connection) -> list[str]:
    """Return what SQLite finds wrong with the pages of a file."""
    found = [str(row[0]) for row in connection.rows("PRAGMA integrity_check(20)")]
    return [] if found == ["ok"] else found


def _make_durable(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
