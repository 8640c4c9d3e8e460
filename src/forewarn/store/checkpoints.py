"""Brings what the write-ahead log holds into the file, beside the writer.

SQLite would do it inside a commit, every thousand pages, and whoever waits for that
commit would wait for it too. Here a thread of its own does it now and then, on its
own connection, without the interpreter's lock; the writer goes on meanwhile. The log
begins anew only when all of it is in the file, which a writer that never rests may
put off: so beyond `LOG_PAGES_MAX` the commit does what is left after all.

Nothing depends on it for safety: a commit is durable in the log, and a log that is
not in the file yet is read with it. The connection is opened once, with the store: to
open the file's name anew might bring the log of one file into another that somebody
has put in its place.
"""

import logging
import threading
from pathlib import Path

from forewarn.store.connection import Connection
from forewarn.store.port import StoreError

logger = logging.getLogger("forewarn.store")

ROWS_BETWEEN = 10_000
"""Changed rows from one to the next: about 1,500 approvals, or 20 MiB of log. Pages
that are written again and again until then come into the file once."""

ROWS_OF_COMMIT = 50
"""What a commit counts for beside its rows: it writes some 25 pages, 100 KiB of log, for
few rows too, since each index has its own."""


class Checkpoints:
    """Starts a thread when enough was written and none is at it."""

    def __init__(self, connection: Connection) -> None:
        """Begin with nothing to do; the `connection` is theirs from now on."""
        self._connection = connection
        self._rows = 0
        self._thread: threading.Thread | None = None

    def note(self, rows: int) -> None:
        """Take that the writer has committed so many changed rows; never raises."""
        self._rows += rows + ROWS_OF_COMMIT
        if self._rows >= ROWS_BETWEEN:
            self.begin()

    def begin(self) -> None:
        """Bring into the file what is in the log now, beside the caller; never raises."""
        if self._thread is not None and self._thread.is_alive():
            return
        self._rows = 0
        thread = threading.Thread(target=self._checkpoint, name="forewarn-checkpoint")
        try:
            thread.start()
        except RuntimeError as error:
            # The system has no thread to spare. What called is committed, so this
            # must not look like a transaction that failed.
            _warn(str(error))
        else:
            self._thread = thread

    def wait(self) -> None:
        """Return when nothing is under way."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def close(self) -> None:
        """Finish what is under way, and let go of the file."""
        self.wait()
        self._connection.close()

    def _checkpoint(self) -> None:
        try:
            self._connection.checkpoint()
        except StoreError as error:
            # The next one does it, or a commit; who writes learns what is wrong.
            _warn(error.message)


def has_log(path: Path) -> bool:
    """Tell whether a process that was killed has left a log beside the file."""
    try:
        return path.with_name(f"{path.name}-wal").stat().st_size > 0
    except OSError:
        return False


def _warn(why: str) -> None:
    logger.warning("the log was not brought into the file: %s", why)
