"""One process per store: locks of the operating system on the database file.

Two locks are taken. `<path>.lock` holds the process ID of the owner, and versions
up to 0.1.0 know only this lock. The database file itself is locked too, since the
lock file can be deleted, and a hard link of the database has another lock file.

Both are flock(2) locks. They belong to the open file, so they end with the process,
and a second store in the same process is refused too. On Linux they are independent
of the fcntl(2) locks that SQLite takes on the same file.

But a process that closes any descriptor of a file loses its fcntl locks on that
file. So the descriptor of the database stays open until SQLite has closed all its
connections. A database that this process has locked is never opened a second time
(`_held`).

The lock file is never deleted: two processes could then lock two files of the same
name.
"""

import fcntl
import os
import threading
from pathlib import Path
from typing import NoReturn, TypeAlias

from forewarn.problems import hint_for
from forewarn.store.port import StoreBusyError, StoreError

FILE_MODE = 0o600
"""Mode of the files: only the owner may read the data of all tenants."""

PID_CHARACTERS_MAX = 20
"""Maximum characters of a process ID in a lock file: those of a 64-bit number."""

Inode: TypeAlias = tuple[int, int]
"""Device and inode number: the identity of a file under any name."""

_guard = threading.Lock()
_held: set[Inode] = set()
"""The databases that this process has locked."""


class ProcessLock:
    """Holds the locks of the store at `path` until `release`."""

    def __init__(self, path: Path) -> None:
        """Take both locks, or raise StoreBusyError with the holder's process ID.

        Creates the database file, empty, if it does not exist. Raises StoreError
        if a file cannot be opened or locked.
        """
        self.inode: Inode = (0, 0)
        self._database = -1
        self._name = _lock_name(path)
        try:
            self._lock_database(path)
            os.ftruncate(self._name, 0)
            os.pwrite(self._name, f"{os.getpid()}\n".encode(), 0)
        except OSError as error:
            self.release()
            raise _unlockable(path, error) from error
        except BaseException:
            self.release()
            raise

    def _lock_database(self, path: Path) -> None:
        with _guard:
            if _inode_of(path) in _held:
                _refuse(path, os.getpid())
            try:
                descriptor = os.open(
                    path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE
                )
            except OSError as error:
                raise StoreError(
                    f"the store {path} cannot be opened: {error.strerror}",
                    hint="Allow the service's user to write the file and its directory.",
                ) from error
            status = os.fstat(descriptor)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                _refuse(path, _holder_of(status))
            except OSError:
                os.close(descriptor)
                raise
            self._database = descriptor
            self.inode = status.st_dev, status.st_ino
            _held.add(self.inode)

    def release(self) -> None:
        """Release both locks; all connections to the database must be closed."""
        with _guard:
            if self._database >= 0:
                os.close(self._database)
                _held.discard(self.inode)
                self._database = -1
        if self._name >= 0:
            os.close(self._name)
            self._name = -1


def _lock_name(path: Path) -> int:
    """Return the locked descriptor of `<path>.lock`."""
    file = path.with_name(f"{path.name}.lock")
    try:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    except FileNotFoundError as error:
        raise StoreError(
            f"there is no directory {path.parent} for the store {path.name}",
            hint="Create the directory, or name another file in [store] url.",
        ) from error
    except OSError as error:
        raise StoreError(
            f"the store's lock {file} cannot be opened: {error.strerror}",
            hint=hint_for(error),
        ) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        text = os.pread(descriptor, PID_CHARACTERS_MAX, 0).decode("ascii", "replace")
        os.close(descriptor)
        _refuse(path, text.strip())
    except OSError as error:
        os.close(descriptor)
        raise _unlockable(path, error) from error
    return descriptor


def _inode_of(path: Path) -> Inode:
    try:
        status = path.stat()
    except OSError:
        # The file will be created, or the error is reported when it is opened.
        return 0, 0
    return status.st_dev, status.st_ino


def _holder_of(found: os.stat_result) -> int:
    """Return the process that holds the flock of a file; 0: unknown."""
    device = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}"
    try:
        lines = Path("/proc/locks").read_text("ascii").splitlines()
    except (OSError, ValueError):
        return 0
    for fields in (line.split() for line in lines):
        if "FLOCK" in fields and f"{device}:{found.st_ino}" in fields:
            holder = fields[fields.index("FLOCK") + 3]
            return int(holder) if holder.isdecimal() else 0
    return 0


def _refuse(path: Path, holder: int | str) -> NoReturn:
    raise StoreBusyError(
        f"the store {path} is in use by process {holder or 'unknown'}",
        hint="Stop that process first, or name another file in [store] url.",
    )


def _unlockable(path: Path, error: OSError) -> StoreError:
    return StoreError(
        f"the store {path} cannot be locked: {error.strerror}",
        hint="Put the store on a local disk with free space.",
    )
