"""Whose file it is that the settings name as the journal.

It is looked at before anything is written: nothing of the file is changed, and nothing
is left beside it, so that `check` may look too, and an agent that is refused has left
somebody else's file as it was.
"""

from __future__ import annotations

import os
import stat

from forewarn.agent.journal.file import File
from forewarn.agent.journal.lock import had_journal
from forewarn.agent.journal.port import (
    JournalDamagedError,
    JournalError,
    JournalRefusedError,
)
from forewarn.agent.journal.schema import APPLICATION_ID

HEAD_BYTES = 4_096
"""Of a file that is no database, to see whose it is: a page of SQLite's."""

_DATABASE = b"SQLite format 3\0"
"""How each file of SQLite's begins."""

_IN_TEXTS = b"\t\n\f\r\x1b"
"""Control characters that texts have; what is binary has others."""


def refuse_others(path: str) -> None:
    """Raise JournalRefusedError for what is there and is no journal for this agent.

    What is not there, is empty, or was a journal and is damaged passes; so does what
    cannot be looked at, since whoever opens it is told why.
    """
    try:
        found = os.stat(path)
        if not stat.S_ISREG(found.st_mode):
            raise JournalRefusedError(
                f"{path} is not a file that can be written and read again",
                hint="Name a file in `state`, or one that is to be made.",
            )
        with open(path, "rb") as opened:
            begins = opened.read(len(_DATABASE))
    except OSError:
        return
    try:
        if begins == _DATABASE:
            _look_into(path)
        elif begins and not was_ours(path, noted=had_journal(path)):
            raise no_journal(path)
    except JournalDamagedError as error:
        if not was_ours(path, noted=had_journal(path)):
            raise no_journal(path) from error
    except JournalRefusedError:
        raise
    except JournalError:
        return


def was_ours(path: str, *, noted: bool) -> bool:
    """Tell whether a file that cannot be read was a journal of the agent's.

    A text never was, whatever stands beside it. `noted` is what the lock's file says.
    """
    try:
        with open(path, "rb") as opened:
            head = opened.read(HEAD_BYTES)
            is_blank = not any(head) and not any(
                any(piece) for piece in iter(lambda: opened.read(1 << 20), b"")
            )
    except OSError:
        return False
    if all(byte >= ord(" ") or byte in _IN_TEXTS for byte in head):
        return False
    # Whoever wrote the head may have left its number, or only zeros as a disk does
    # that lost its power; otherwise, what an agent keeps beside it speaks for it.
    is_marked = head[68:72] == APPLICATION_ID.to_bytes(4, "big")
    kept = (f"{path}{ending}" for ending in ("-wal", ".runs"))
    return is_blank or is_marked or noted or any(map(os.path.exists, kept))


def no_journal(path: str) -> JournalRefusedError:
    """Return the refusal of a file that nothing says to have been a journal."""
    return JournalRefusedError(
        f"{path} is not a database that can be read, and no journal of the agent's",
        hint="It is left as it is. Name another file in `state`.",
    )


def _look_into(path: str) -> None:
    """Read what a database says of itself; raises JournalError."""
    # What is only in a log cannot be read past it; to look there leaves at most the
    # index of that log, which is SQLite's own and made anew by whoever opens it.
    file = File(path, read_only=True, without_log=not _has_log(path))
    try:
        file.version()
    finally:
        file.close()


def _has_log(path: str) -> bool:
    try:
        return os.path.getsize(f"{path}-wal") > 0
    except OSError:
        return False
