"""One process per file: a lock of the operating system beside the database.

The lock belongs to the open file, so it goes with the process, however that
ends, and a second store in the same process is refused too. The file stays: to
delete it would let two processes lock two files of the same name.
"""

import fcntl
import os
from pathlib import Path

from forewarn.store.port import StoreBusyError, StoreError


class ProcessLock:
    """Holds `<path>.lock` from its making until `release`."""

    def __init__(self, path: Path) -> None:
        """Lock it, or raise StoreBusyError with the holder's process id."""
        file = path.with_name(f"{path.name}.lock")
        try:
            self._descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o644)
        except FileNotFoundError as error:
            raise StoreError(
                f"there is no directory {path.parent} for the store {path.name}",
                hint="Make the directory, or name another file in [store] url.",
            ) from error
        except OSError as error:
            raise StoreError(
                f"the store's lock {file} cannot be opened: {error.strerror}",
                hint="The service's user must be able to write in that directory.",
            ) from error
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)
        except BlockingIOError as error:
            holder = os.pread(self._descriptor, 20, 0).decode("ascii", "replace")
            self.release()
            raise StoreBusyError(
                f"the store {path} is in use by process {holder.strip() or 'unknown'}",
                hint="Stop that process first, or name another file in [store] url.",
            ) from error
        except OSError as error:
            self.release()
            raise StoreError(
                f"the store's lock {file} cannot be taken: {error.strerror}",
                hint="The store must be on a local disk with some free space.",
            ) from error

    def release(self) -> None:
        """Let go of it."""
        os.close(self._descriptor)
