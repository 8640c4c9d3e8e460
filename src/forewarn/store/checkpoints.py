"""Checkpoints of the write-ahead log, in parallel with the writer.

By default, SQLite does a checkpoint inside a commit, every thousand pages, and delays
that commit. Here, a separate thread does it on its own connection, without the
interpreter's lock, while the writer continues. SQLite restarts the log only after a
complete checkpoint, which a busy writer can delay. Above `LOG_PAGES_MAX`, a commit
therefore does the checkpoint itself.

Safety does not depend on checkpoints: a commit is durable in the log, and readers use
the log together with the file. The connection is opened once, with the store. Opening
the file's name later could write the log of one file into another file that has
replaced it.
"""

import logging
import threading
from pathlib import Path

from forewarn.store.connection import Connection
from forewarn.store.port import StoreError

logger = logging.getLogger("forewarn.store")

ROWS_BETWEEN = 10_000
"""Changed rows between two checkpoints: about 1,500 approvals, or 20 MiB of log. A page
that was written several times is copied once."""

ROWS_OF_COMMIT = 50
"""Additional rows that each commit counts as: even for a few rows, it writes some 25
pages, 100 KiB of log, because each index has its own pages."""


class Checkpoints:
    """Starts a checkpoint after enough writes, unless one is running."""

    def __init__(self, connection: Connection) -> None:
        """Start idle; this object owns `connection` from now on."""
        self._connection = connection
        self._rows = 0
        self._thread: threading.Thread | None = None

    def note(self, rows: int) -> None:
        """Count the changed rows of a commit; never raises."""
        self._rows += rows + ROWS_OF_COMMIT
        if self._rows >= ROWS_BETWEEN:
            self.begin()

    def begin(self) -> None:
        """Start a checkpoint in parallel; never raises."""
        if self._thread is not None and self._thread.is_alive():
            return
        self._rows = 0
        thread = threading.Thread(target=self._checkpoint, name="forewarn-checkpoint")
        try:
            thread.start()
        except RuntimeError as error:
            # The system cannot start a thread. The caller's transaction is committed,
            # so this must not look like its failure.
            _warn(str(error))
        else:
            self._thread = thread

    def wait(self) -> None:
        """Wait for a running checkpoint."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def close(self) -> None:
        """Finish a running checkpoint, and close the connection."""
        self.wait()
        self._connection.close()

    def _checkpoint(self) -> None:
        try:
            self._connection.checkpoint()
        except StoreError as error:
            # The next checkpoint or a commit copies the log; a writer sees the error
            # itself.
            _warn(error.message)


def has_log(path: Path) -> bool:
    """Return whether a killed process has left a log next to the file."""
    try:
        return path.with_name(f"{path.name}-wal").stat().st_size > 0
    except OSError:
        return False


def _warn(why: str) -> None:
    logger.warning("checkpoint of the write-ahead log failed: %s", why)
