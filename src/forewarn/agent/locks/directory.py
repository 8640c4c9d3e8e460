"""A lock in a directory that the VMs share, such as an NFS mount.

Each state of the list of holders is a separate file, `GROUP.000000000017`. An agent
writes the next state under a temporary name and then links it to its final name. `link`
succeeds for only one agent, even on NFS, and every reader sees a complete file. A
crash cannot leave a lock file behind. Old states are removed later. A directory without
`MARKER` is not the shared one.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Generator

from forewarn.agent.handlers.run_context import RunContext
from forewarn.agent.locks.port import LockError
from forewarn.agent.locks.register import (
    TEXT_CHARACTERS_MAX,
    Page,
    RegisterLock,
    text_of,
)
from forewarn.agent.settings_model import LockSettings
from forewarn.clock import Clock
from forewarn.instants import MINUTE, Micros
from forewarn.settings import files

MARKER = "forewarn-locks"
"""A file that the operator creates once in the shared directory. Agents never create it:
if the share is not mounted, the empty mount point must not be used as the lock."""

DIGITS = 12
"""Digits of a state's number, so that names sort like numbers."""

KEPT_MIN = 8
"""Number of states that are kept at any age."""

KEPT_FOR: Micros = 10 * MINUTE
"""How long a state is kept. By then every machine sees the newer ones: NFS caches a
directory for at most a minute."""

READS = 5
"""Attempts to read the last state, since another agent can remove it meanwhile."""

_MODE = 0o644
"""The mode of a state: the agents of the VMs may run as different users."""

_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})
"""Errors of file systems without hard links."""


class DirectoryRegister:
    """A shared directory, in which files hold the text that the agents share."""

    def __init__(self, settings: LockSettings) -> None:
        """Read nothing yet."""
        self._path = settings.path
        self._group = settings.group
        pattern = rf"{re.escape(settings.group)}\.([0-9]{{{DIGITS}}})"
        self._state = re.compile(pattern, re.ASCII)
        self._draft = re.compile(rf"\.{re.escape(settings.group)}\..*\.draft", re.ASCII)

    def read(self, _context: RunContext) -> Page:
        """Return the last state; raises LockError."""
        self._find_marker()
        # Read the time first: this changes the directory, so NFS reads it again.
        with self._drafted("") as draft:
            now = self._time_of(draft)
        for _ in range(READS):
            number = max(self._numbers(), default=0)
            text = self._text_of(number) if number else ""
            if text is not None:
                return Page(text=text, version=number, now=now)
        raise LockError(f"{self._path} changes faster than the agent can read it")

    def write(self, text: str, page: Page, _context: RunContext) -> bool:
        """Add the next state if no newer one exists; raises LockError."""
        name = self._name_of(page.version + 1)
        with self._drafted(text) as draft:
            if not self._linked(draft, name):
                return False
        # The share may have been unmounted since the read.
        self._find_marker()
        newest = max(self._numbers(), default=0)
        if newest > page.version + 1:
            # The state that was read was older than all that are kept, so this one is obsolete.
            return False
        self._clear(newest)
        return True

    def try_link(self) -> None:
        """Create a file and a link to it, and remove both; raises LockError."""
        # Write some content: an empty file would fit on a full disk.
        with self._drafted(text_of(())) as draft:
            other = draft.replace(".draft", ".link.draft")
            try:
                self._linked(draft, other)
            finally:
                self._remove(other)

    # Files

    def _find_marker(self) -> None:
        """Raise LockError if the directory is not the shared one."""
        name = os.path.join(self._path, MARKER)
        try:
            os.stat(name)
        except FileNotFoundError as error:
            if not os.path.isdir(self._path):
                raise _told(error, self._path) from error
            raise LockError(
                f"{self._path} has no file {MARKER}: is the share mounted? If it is "
                f"mounted and new, create the file: touch {name}"
            ) from error
        except OSError as error:
            raise _told(error, name) from error

    def _numbers(self) -> list[int]:
        try:
            names = os.listdir(self._path)
        except OSError as error:
            raise _told(error, self._path) from error
        return [int(match[1]) for match in map(self._state.fullmatch, names) if match]

    def _name_of(self, number: int) -> str:
        return os.path.join(self._path, f"{self._group}.{number:0{DIGITS}d}")

    def _text_of(self, number: int) -> str | None:
        """Return a state; None: another agent has removed it."""
        name = self._name_of(number)
        try:
            data = files.begin_of(name, TEXT_CHARACTERS_MAX + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _told(error, name) from error
        return data.decode("utf-8", "replace")

    def _time_of(self, name: str) -> Micros:
        """Return when a file was written, by the clock of the file server."""
        try:
            return os.stat(name).st_mtime_ns // 1_000
        except OSError as error:
            raise _told(error, name) from error

    @contextlib.contextmanager
    def _drafted(self, text: str) -> Generator[str, None, None]:
        """Create a file with a string, yield its name, and remove the file at the end."""
        unique = f"{os.getpid()}-{os.urandom(8).hex()}"
        name = os.path.join(self._path, f".{self._group}.{unique}.draft")
        try:
            with open(name, "xb") as file:
                file.write(text.encode("utf-8"))
                file.flush()
                os.fsync(file.fileno())
            os.chmod(name, _MODE)
        except OSError as error:
            self._remove(name)
            raise _told(error, name) from error
        try:
            yield name
        finally:
            self._remove(name)

    def _linked(self, draft: str, name: str) -> bool:
        """Link a draft to a name; False: the name exists. Raises LockError."""
        try:
            os.link(draft, name)
        except OSError as error:
            if self._has_two_names(draft):
                # The link was created, and the answer of the file server was lost.
                return True
            if isinstance(error, FileExistsError):
                return False
            if error.errno in _NO_LINKS:
                raise LockError(
                    f"the file system of {self._path} has no hard links, which this "
                    f"lock needs: {error.strerror}"
                ) from error
            raise _told(error, name) from error
        return True

    def _has_two_names(self, draft: str) -> bool:
        try:
            return os.stat(draft).st_nlink == len(("draft", "state"))
        except OSError:
            return False

    def _clear(self, newest: int) -> None:
        """Remove old states and drafts as far as possible."""
        with contextlib.suppress(LockError, OSError):
            until = self._time_of(self._name_of(newest)) - KEPT_FOR
            for name in os.listdir(self._path):
                state = self._state.fullmatch(name)
                is_past = state is not None and int(state[1]) <= newest - KEPT_MIN
                if not is_past and self._draft.fullmatch(name) is None:
                    continue
                whole = os.path.join(self._path, name)
                with contextlib.suppress(LockError):
                    if self._time_of(whole) < until:
                        self._remove(whole)

    def _remove(self, name: str) -> None:
        with contextlib.suppress(OSError):
            os.unlink(name)


def _told(error: OSError, name: str) -> LockError:
    return LockError(f"{name}: {error.strerror}")


class DirectoryLock(RegisterLock):
    """A lock in a directory."""

    def __init__(self, settings: LockSettings, *, clock: Clock) -> None:
        """Read nothing yet."""
        self._files = DirectoryRegister(settings)
        super().__init__(self._files, settings, clock=clock)

    def describe(self, context: RunContext) -> str:
        """Check that a state could be written, and return the holders."""
        self._files.try_link()
        return super().describe(context)


def make(settings: LockSettings, *, clock: Clock, **_: object) -> DirectoryLock:
    """Create the lock."""
    return DirectoryLock(settings, clock=clock)
