"""Open the agent's journal, and find out whether the VM was rebooted.

A file that cannot be this agent's journal is refused, so that an operator checks the
settings. If the disk fails, no operator may come in time, so the agent works without
memory and reports it. A damaged journal is set aside and counts as lost.

The owner of a file is checked before anything is written. The check changes nothing and
leaves no files behind, so that `check` can use it too, and a refused agent leaves
another program's file unchanged.
"""

from __future__ import annotations

import contextlib
import logging
import os
import stat

from forewarn.agent.journal.file import File, has_content
from forewarn.agent.journal.lock import AgentLock, had_journal
from forewarn.agent.journal.port import (
    CreateNotifications,
    Journal,
    JournalDamagedError,
    JournalError,
    JournalRefusedError,
    Limits,
    MemoryJournal,
    Place,
    create_none,
)
from forewarn.agent.journal.schema import APPLICATION_ID
from forewarn.agent.journal.sqlite import SqliteJournal, set_aside
from forewarn.protocol.frozen import frozen_dataclass

logger = logging.getLogger("forewarn.agent.journal")

BOOT_ID = "/proc/sys/kernel/random/boot_id"

HEAD_BYTES = 4_096
"""Size of the part that is checked in a file that is not a database: one SQLite
page."""

_DATABASE = b"SQLite format 3\0"
"""The first bytes of every SQLite file."""

_IN_TEXTS = b"\t\n\f\r\x1b"
"""Control characters that occur in text files."""


@frozen_dataclass
class Opened:
    """An open journal."""

    journal: Journal
    lock: AgentLock | None
    """Held until the agent ends."""
    fault: str = ""
    """Why the journal is in memory only; empty: it is in the file."""
    was_rebooted: bool = False
    """The VM was rebooted since the journal was last written."""

    def close(self) -> None:
        """Close the journal and release its lock."""
        self.journal.close()
        if self.lock is not None:
            self.lock.release()


def boot_id(file: Place = BOOT_ID) -> str:
    """Return the ID of this boot of the VM; empty: unknown."""
    try:
        with open(file, encoding="ascii") as opened:
            return opened.read().strip()
    except (OSError, UnicodeDecodeError):
        return ""


def open_journal(
    path: Place,
    *,
    boot: str = "",
    create_notifications: CreateNotifications = create_none,
    limits: Limits | None = None,
) -> Opened:
    """Return the journal of a file, locked for this process.

    Raises JournalRefusedError for a file that cannot be this agent's journal.
    """
    lock: AgentLock | None = None
    # All names of a file mean the same journal, with one lock.
    whole = os.path.realpath(path)
    try:
        _make_directory(os.path.dirname(whole))
        refuse_others(whole)
        lock = AgentLock(whole)
        if lock.had_journal and not has_content(whole):
            message = "the journal %s is empty or missing, so its content is lost"
            logger.error(message, whole)
        try:
            journal = _loaded(
                whole,
                boot=boot,
                create_notifications=create_notifications,
                limits=limits,
            )
        except JournalDamagedError as error:
            _make_room(whole, error, had_journal=lock.had_journal)
            journal = _loaded(
                whole,
                boot=boot,
                create_notifications=create_notifications,
                limits=limits,
            )
    except JournalRefusedError:
        if lock is not None:
            lock.release()
        raise
    except JournalError as error:
        message = f"{error}; the agent continues without a journal ({error.hint})"
        logger.error(message)  # noqa: TRY400 - whose fault it is needs no traceback
        journal = MemoryJournal(
            create_notifications=create_notifications, limits=limits
        )
        return Opened(journal=journal, lock=lock, fault=error.message)
    lock.note_journal()
    before = journal.boot_before
    return Opened(
        journal=journal,
        lock=lock,
        was_rebooted=bool(before and boot and before != boot),
    )


def can_be_opened(path: Place, opened: Opened) -> bool:
    """Return whether a journal that failed at the start can be opened now.

    `opened` is its substitute. The lock in it, if any, is still held.
    """
    whole = os.path.realpath(path)
    try:
        if opened.lock is None:
            AgentLock(whole).release()
        SqliteJournal(whole).close()
    except JournalError:
        return False
    return True


def _loaded(
    path: str,
    *,
    boot: str,
    create_notifications: CreateNotifications,
    limits: Limits | None,
) -> SqliteJournal:
    journal = SqliteJournal(
        path, boot=boot, create_notifications=create_notifications, limits=limits
    )
    try:
        journal.load()
    except BaseException:
        journal.close()
        raise
    return journal


def _make_room(path: str, error: JournalDamagedError, *, had_journal: bool) -> None:
    """Set a damaged journal aside; raises JournalRefusedError for another file."""
    if not was_ours(path, noted=had_journal):
        raise no_journal(path) from error
    aside = set_aside(path)
    message = f"{error}; it was set aside as {os.path.basename(aside)}"
    logger.error(message)


def _make_directory(directory: str) -> None:
    try:
        os.mkdir(directory, mode=0o700)
    except FileExistsError as error:
        if not os.path.isdir(directory):
            raise _unmakable(directory, error) from error
    except FileNotFoundError:
        # Missing parents are not created, since the path may be wrong. The lock reports
        # it.
        return
    except (PermissionError, NotADirectoryError) as error:
        raise _unmakable(directory, error) from error
    except OSError as error:
        raise JournalError(
            f"cannot create the directory {directory} for the agent's journal: "
            f"{error.strerror}",
            hint="Check the disk.",
        ) from error


def _unmakable(directory: str, error: OSError) -> JournalRefusedError:
    return JournalRefusedError(
        f"cannot create the directory {directory} for the agent's journal: {error.strerror}",
        hint="Create it for the agent's user, or set `state` to another file.",
    )


def refuse_others(path: str) -> None:
    """Raise JournalRefusedError for a file that cannot be this agent's journal.

    A missing file, an empty file and a damaged journal are accepted. So is a file that
    cannot be read, since opening it gives a better error.
    """
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            raise JournalRefusedError(
                f"{path} is not a regular file",
                hint="Set `state` to a regular file or to a new one.",
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
    """Return whether an unreadable file was a journal of the agent.

    A text file was never a journal. `noted` is the answer of the lock file.
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
    # A damaged head may still have the application ID, or only zeros after a power
    # failure. Otherwise, files of the agent next to it are evidence.
    is_marked = head[68:72] == APPLICATION_ID.to_bytes(4, "big")
    files_beside = (f"{path}{ending}" for ending in ("-wal", ".runs"))
    return is_blank or is_marked or noted or any(map(os.path.exists, files_beside))


def no_journal(path: str) -> JournalRefusedError:
    """Return the error for a file without any evidence that it was a journal."""
    return JournalRefusedError(
        f"{path} is neither a readable database nor an agent journal",
        hint="The file was not changed. Set `state` to another file.",
    )


def _look_into(path: str) -> None:
    """Read the version of a database; raises JournalError."""
    # Rows may exist only in the write-ahead log. Reading it leaves at most its index
    # file, which SQLite recreates.
    has_log = has_content(f"{path}-wal")
    file = File(path, read_only=True, without_log=not has_log)
    with contextlib.closing(file):
        file.version()
