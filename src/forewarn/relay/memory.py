"""The relay's file: what it knows, so that it can answer after a restart at once.

A change is in the file before it is served, so no restart makes a document older. The
file is replaced as a whole. Its time of change is when the service was last heard.
"""

import contextlib
import logging
import os
from pathlib import Path

from forewarn.forwarding.limits import LINE_BYTES_MAX
from forewarn.instants import Micros
from forewarn.relay import messages
from forewarn.relay.knowledge import Knowledge, take
from forewarn.replacing import replace_file, unfinished
from forewarn.settings.files import read_file

logger = logging.getLogger("forewarn.relay")

_MODE = 0o600
"""Only the user of the relay can read the file: it names VMs and their addresses."""


class Memory:
    """The file. Its methods may wait for the disk."""

    def __init__(self, path: Path) -> None:
        """Use the file at `path`."""
        self._path = path
        self._is_failing = False

    def read(self) -> tuple[Knowledge, Micros]:
        """Return what was known, and when the service was heard.

        A missing or damaged file means that nothing is known.
        """
        try:
            text = read_file(self._path, bytes_max=LINE_BYTES_MAX, pipes=False)
            written = self._path.stat().st_mtime_ns // 1000
            return take(Knowledge(), messages.line_of(text)).knowledge, written
        except FileNotFoundError:
            return Knowledge(), 0
        except (OSError, ValueError) as error:
            logger.warning("%s cannot be used: %s", self._path, error)
            return Knowledge(), 0

    def write(self, knowledge: Knowledge) -> None:
        """Replace the file.

        If that fails, it is removed: with an older one, a restart would serve documents
        that are older than those served before. The relay continues without it.
        """
        text = messages.text_of(knowledge)
        try:
            replace_file(self._path, text.encode(), mode=_MODE)
        except OSError as error:
            if not self._is_failing:
                logger.error(  # noqa: TRY400
                    "%s cannot be written, a restart would begin with nothing: %s",
                    self._path,
                    error.strerror,
                )
            self._is_failing = True
            for path in (unfinished(self._path), self._path):
                with contextlib.suppress(OSError):
                    path.unlink()
            return
        self._is_failing = False

    def note_heard(self) -> None:
        """Set the file's time: the service was heard now."""
        with contextlib.suppress(OSError):
            os.utime(self._path)
