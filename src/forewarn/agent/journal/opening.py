"""Which journal an agent works with, and which boot of the VM this is.

A file that is not for this agent is refused: somebody must look at the settings. For
a disk that does not do its work nobody will come in time, so the agent works without
memory, and says so; a damaged file is set aside, and is as one that was lost.
"""

from __future__ import annotations

import logging
import os

from forewarn.agent.journal.lock import AgentLock
from forewarn.agent.journal.memory import MemoryJournal
from forewarn.agent.journal.port import (
    Journal,
    JournalDamagedError,
    JournalError,
    JournalRefusedError,
    Limits,
    Place,
    Teller,
    tell_nobody,
)
from forewarn.agent.journal.sqlite import SqliteJournal, set_aside
from forewarn.agent.journal.whose import no_journal, refuse_others, was_ours
from forewarn.protocol.frozen import frozen_dataclass

logger = logging.getLogger("forewarn.agent.journal")

BOOT_ID = "/proc/sys/kernel/random/boot_id"


@frozen_dataclass
class Opened:
    """A journal to work with."""

    journal: Journal
    lock: AgentLock | None
    """Keep it until the agent ends."""
    fault: str = ""
    """Why it is in memory only; empty: it is not."""
    was_rebooted: bool = False
    """It was last written during another boot of the VM."""

    def close(self) -> None:
        """Let go of both."""
        self.journal.close()
        if self.lock is not None:
            self.lock.release()


def boot_id(file: Place = BOOT_ID) -> str:
    """Return what names this boot of the VM; empty where the system does not tell."""
    try:
        with open(file, encoding="ascii") as opened:
            return opened.read().strip()
    except (OSError, UnicodeDecodeError):
        return ""


def open_journal(
    path: Place,
    *,
    boot: str = "",
    teller: Teller = tell_nobody,
    limits: Limits | None = None,
) -> Opened:
    """Return the journal of a file, locked for this process.

    Raises JournalRefusedError for a file that is not for this agent.
    """
    lock: AgentLock | None = None
    # By whatever name it is called, it is one journal with one lock.
    whole = os.path.realpath(path)
    try:
        _make_folder(os.path.dirname(whole))
        refuse_others(whole)
        lock = AgentLock(whole)
        if lock.had_journal and not _has_content(whole):
            told = "the journal %s is empty or gone: what was remembered is lost"
            logger.error(told, whole)
        try:
            journal = _loaded(whole, boot=boot, teller=teller, limits=limits)
        except JournalDamagedError as error:
            _make_room(whole, error, had_journal=lock.had_journal)
            journal = _loaded(whole, boot=boot, teller=teller, limits=limits)
    except JournalRefusedError:
        if lock is not None:
            lock.release()
        raise
    except JournalError as error:
        told = f"{error}; the agent goes on without memory ({error.hint})"
        logger.error(told)  # noqa: TRY400 - whose fault it is needs no traceback
        kept = MemoryJournal(teller=teller, limits=limits)
        return Opened(journal=kept, lock=lock, fault=error.message)
    lock.note_journal()
    before = journal.boot_before
    return Opened(
        journal=journal,
        lock=lock,
        was_rebooted=bool(before and boot and before != boot),
    )


def can_be_opened(path: Place, opened: Opened) -> bool:
    """Tell whether the journal that was at fault at the start is no more so.

    `opened` is what there is in its place; its lock is kept, if it was taken.
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
    path: str, *, boot: str, teller: Teller, limits: Limits | None
) -> SqliteJournal:
    journal = SqliteJournal(path, boot=boot, teller=teller, limits=limits)
    try:
        journal.load()
    except BaseException:
        journal.close()
        raise
    return journal


def _make_room(path: str, error: JournalDamagedError, *, had_journal: bool) -> None:
    """Set a damaged journal aside; raises JournalRefusedError for somebody's file."""
    if not was_ours(path, noted=had_journal):
        raise no_journal(path) from error
    aside = set_aside(path)
    told = f"{error}; it was set aside as {os.path.basename(aside)}"
    logger.error(told)


def _has_content(path: str) -> bool:
    try:
        return os.path.getsize(path) > 0
    except FileNotFoundError:
        return False
    except OSError:
        return True


def _make_folder(folder: str) -> None:
    try:
        os.mkdir(folder, mode=0o700)
    except FileExistsError as error:
        if not os.path.isdir(folder):
            raise _unmakable(folder, error) from error
    except FileNotFoundError:
        # Whole paths are not made: the name may be wrong. The lock says so.
        return
    except (PermissionError, NotADirectoryError) as error:
        raise _unmakable(folder, error) from error
    except OSError as error:
        raise JournalError(
            f"the folder {folder} for the agent's journal cannot be made: "
            f"{error.strerror}",
            hint="Look at its disk.",
        ) from error


def _unmakable(folder: str, error: OSError) -> JournalRefusedError:
    return JournalRefusedError(
        f"the folder {folder} for the agent's journal cannot be made: {error.strerror}",
        hint="Make it for the agent's user, or name another file in `state`.",
    )
