"""One agent per journal: an operating system lock on a file next to it.

The lock belongs to the open file, so it ends with the process in any case. Handlers
that outlive the agent do not inherit it. The lock file is never deleted: otherwise two
agents could lock two files of the same name.

The lock file also records whether an agent has had a journal here. This distinguishes a
damaged journal from another file that the settings name by mistake.
"""

from __future__ import annotations

import contextlib
import os

from forewarn.agent.journal.port import JournalError, JournalRefusedError, Place
from forewarn.settings import files

_TEXT_BYTES = 64
"""Maximum size of the lock file: its holder's process, and the word below."""

_HAS_JOURNAL = "journal"
"""The second line, after an agent has worked with the journal."""

_NEVER = (
    PermissionError,
    IsADirectoryError,
    NotADirectoryError,
    files.UnreadError,
)
"""Errors that a person must fix. A full disk, by contrast, may have space again
later."""

_FAR = 1 << 30
"""Position of the locked byte on Windows, where a locked byte cannot be read."""


class AgentLock:
    """The lock `FILE.lock`, held until `release`."""

    def __init__(self, path: Place) -> None:
        """Take the lock; raises JournalRefusedError with the other agent's process."""
        file = f"{os.fspath(path)}.lock"
        try:
            self._descriptor = files.claimed(file, 0o644)
        except FileNotFoundError as error:
            raise JournalRefusedError(
                f"the directory {os.path.dirname(path)} for the journal does not exist",
                hint="Create the directory, or set `state` to another file.",
            ) from error
        except OSError as error:
            raise _unusable(file, error) from error
        try:
            _lock(self._descriptor)
            self.had_journal = _HAS_JOURNAL in self._words()
            """An agent has had a journal here before."""
            self._write()
        except (BlockingIOError, PermissionError) as error:
            holder = (*self._words(), "unknown")[0]
            self.release()
            raise JournalRefusedError(
                f"another agent runs with the journal {path}: process {holder}",
                hint="Stop the other agent first. A VM needs only one.",
            ) from error
        except OSError as error:
            self.release()
            raise _unusable(file, error) from error

    def note_journal(self) -> None:
        """Record for later agents that there was a journal; a full disk may prevent
        it."""
        if not self.had_journal:
            self.had_journal = True
            with contextlib.suppress(OSError):
                self._write()

    def release(self) -> None:
        """Release the lock; may be called twice."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _words(self) -> list[str]:
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        return os.read(self._descriptor, _TEXT_BYTES).decode("ascii", "replace").split()

    def _write(self) -> None:
        """Write the holder; the record of an earlier agent is never missing
        meanwhile."""
        lines = (str(os.getpid()), *((_HAS_JOURNAL,) if self.had_journal else ()), "")
        text = "\n".join(lines)
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        os.write(self._descriptor, text.encode())
        os.ftruncate(self._descriptor, len(text))


def had_journal(path: Place) -> bool:
    """Return whether an agent has had this journal before; takes no lock."""
    return _HAS_JOURNAL in _noted(path)


def last_holder(path: Place) -> int:
    """Return the process that holds or last held the lock; 0: unknown."""
    first = (*_noted(path), "")[0]
    return int(first) if first.isdecimal() else 0


def _noted(path: Place) -> list[str]:
    try:
        content = files.begin_of(f"{os.fspath(path)}.lock", _TEXT_BYTES)
        return content.decode("ascii", "replace").split()
    except OSError:
        return []


def _unusable(file: str, error: OSError) -> JournalError:
    kind = JournalRefusedError if isinstance(error, _NEVER) else JournalError
    return kind(
        f"the lock {file} cannot be taken: {error.strerror}",
        hint="Make the directory writable for the agent's user, and free some disk space.",
    )


def _lock(descriptor: int) -> None:
    """Take the lock without waiting; raises OSError."""
    try:
        import fcntl  # noqa: PLC0415 - Windows has none
    except ImportError:  # pragma: no cover
        import msvcrt  # noqa: PLC0415

        os.lseek(descriptor, _FAR, os.SEEK_SET)
        lock_one = vars(msvcrt)["locking"], vars(msvcrt)["LK_NBLCK"]
        lock_one[0](descriptor, lock_one[1], 1)
        return
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
