"""The highest number that a replica has seen in its database, in a file.

A replica that is started again must not lead or serve a database that has lost what its
last process has served or committed. The file belongs to one database: to another one,
its number says nothing.
"""

import json
import logging
from pathlib import Path
from typing import Any

from forewarn.replacing import replace_file

logger = logging.getLogger("forewarn.service")

_MODE = 0o600
"""Only the user of the service writes it, so only that user needs it."""


class ReplicaMemory:
    """The file of one replica; one thread at a time uses it, and it may wait for the disk."""

    def __init__(self, path: Path, database: str) -> None:
        """Use the file at `path` for the database with this name; empty: remember nothing.

        A missing file remembers nothing, and a damaged one neither, with a warning.
        """
        self._path, self._database = path, database
        self._is_failing = False
        self.number = self._read() if database else 0
        """The highest number in the file, for this database."""

    def _read(self) -> int:
        try:
            note: Any = json.loads(self._path.read_bytes())
            return int(note["number"]) if note["database"] == self._database else 0
        except FileNotFoundError:
            return 0
        except (OSError, ValueError, KeyError, TypeError) as error:
            logger.warning(
                "%s cannot be used, so this replica does not know what it has served: %s",
                self._path,
                error,
            )
            return 0

    def keep(self, number: int) -> None:
        """Write a number if it is higher; a failure is logged once, and harms nothing now."""
        if not self._database or number <= self.number:
            return
        note = json.dumps({"database": self._database, "number": number})
        try:
            replace_file(self._path, f"{note}\n".encode(), mode=_MODE)
        except OSError as error:
            if not self._is_failing:
                logger.error(  # noqa: TRY400
                    "%s cannot be written, so a restart forgets what this replica has"
                    " served: %s",
                    self._path,
                    error.strerror,
                )
            self._is_failing = True
            return
        self._is_failing = False
        self.number = number
