"""What a simulated hypervisor remembers, apart from the service's own process.

A hypervisor goes on when the service that steers it is killed. A simulated one
has no process of its own, so its memory is a journal: notes are appended as they
are made, and whoever opens it again knows what was begun and when it ends. For
each key the last note counts.
"""

import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TypeAlias, cast

from forewarn.drivers.folders import hint_for
from forewarn.drivers.port import DriverError

logger = logging.getLogger("forewarn.drivers")

Note: TypeAlias = dict[str, Any]
"""What is remembered under a key, as JSON can write it."""


class Journal(Protocol):
    """The memory of one simulated hypervisor."""

    def notes(self) -> Mapping[str, Note]:
        """Return the last note of each key, in the order of the last writing."""
        ...

    def write(self, key: str, note: Note) -> None:
        """Remember `note`, in place of what was noted under `key` before."""
        ...

    def forget(self, key: str) -> None:
        """Forget what was noted under `key`."""
        ...

    def close(self) -> None:
        """Let go of it; it can be opened again."""
        ...


class MemoryJournal:
    """A memory that lasts as long as the object: a test keeps it over a crash."""

    def __init__(self) -> None:
        """Remember nothing yet."""
        self._notes: dict[str, Note] = {}

    def notes(self) -> Mapping[str, Note]:
        """Return the last note of each key."""
        return dict(self._notes)

    def write(self, key: str, note: Note) -> None:
        """Remember a copy of `note`."""
        self._notes.pop(key, None)
        self._notes[key] = json.loads(json.dumps(note))

    def forget(self, key: str) -> None:
        """Forget what was noted under `key`."""
        self._notes.pop(key, None)

    def clear(self) -> None:
        """Lose everything, as a file that is removed does."""
        self._notes.clear()

    def close(self) -> None:
        """Do nothing: it lasts as long as the object."""


LINES_BETWEEN_REWRITES = 1_000
"""Lines that may be appended, beyond the number of notes, before the file is rewritten:
few enough for a small file, many enough that a rewrite of it costs little per line."""

_FILE_MODE = 0o600
"""Only the service's user may read which VM was where."""


class FileJournal:
    """JSON Lines in a file: a key and its note, or null where it is forgotten.

    Each line is handed to the system at once, so it outlives the process. What a
    crash tears is the last line, which was not acted on yet. The file is rewritten,
    with the last notes only, when it is opened and whenever more than half of it is
    out of date. A rewrite goes to another file first, which then takes the name: a
    crash leaves the old file or the new one, both with the same notes.
    """

    def __init__(self, path: Path) -> None:
        """Open the file, or make it; raises DriverError."""
        self._path = path
        self._notes: dict[str, Note] = {}
        try:
            if path.exists():
                self._load(path.read_bytes())
            self._file = self._rewrite()
        except OSError as error:
            raise DriverError(
                f"the simulated hypervisor's journal {path} cannot be used: "
                f"{error.strerror}",
                hint=hint_for(error),
            ) from error
        self._lines_left = self._lines_until_rewrite()

    def notes(self) -> Mapping[str, Note]:
        """Return the last note of each key."""
        return dict(self._notes)

    def write(self, key: str, note: Note) -> None:
        """Append a line; raises DriverError."""
        self._append(_line(key, note))
        self._notes.pop(key, None)
        self._notes[key] = note
        self._tidy()

    def forget(self, key: str) -> None:
        """Append that the key is forgotten; raises DriverError."""
        if self._notes.pop(key, None) is not None:
            self._append(_line(key, None))
            self._tidy()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _append(self, line: bytes) -> None:
        try:
            self._file.write(line)
            self._file.flush()
        except OSError as error:
            raise DriverError(
                f"the simulated hypervisor's journal {self._path} cannot be written: "
                f"{error.strerror}"
            ) from error
        self._lines_left -= 1

    def _tidy(self) -> None:
        """Rewrite the file if more than half of its lines are out of date."""
        if self._lines_left > 0:
            return
        try:
            fresh = self._rewrite()
        except OSError as error:
            # The old file has every note. The next attempt may find space.
            logger.warning(
                "cannot shorten the simulated driver's journal %s: %s",
                self._path,
                error.strerror,
            )
        else:
            self._file.close()
            self._file = fresh
        self._lines_left = self._lines_until_rewrite()

    def _lines_until_rewrite(self) -> int:
        return len(self._notes) + LINES_BETWEEN_REWRITES

    def _load(self, data: bytes) -> None:
        *lines, torn = data.split(b"\n")
        # What follows the last line's end was torn by a crash.
        del torn
        for number, line in enumerate(lines, start=1):
            try:
                key, note = cast("tuple[str, Note | None]", json.loads(line))
            except (ValueError, TypeError):
                raise DriverError(
                    f"{self._path}:{number} is no line of a simulated hypervisor's "
                    "journal",
                    hint="Move the file away: what was simulated is then forgotten.",
                ) from None
            self._notes.pop(key, None)
            if note is not None:
                self._notes[key] = note

    def _rewrite(self) -> BinaryIO:
        """Replace the file by one with the last notes only; return it, open."""
        name = self._path.with_name(f"{self._path.name}.new")
        fresh = os.fdopen(
            os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _FILE_MODE), "wb"
        )
        try:
            fresh.writelines(_line(key, note) for key, note in self._notes.items())
            fresh.flush()
            # The name must not become an empty file's if the machine loses power.
            os.fsync(fresh.fileno())
            name.replace(self._path)
        except BaseException:
            fresh.close()
            raise
        return fresh


def has_calls(path: Path) -> bool:
    """Tell whether the journal in a file has any call; nothing is changed."""
    try:
        return b'["call:' in path.read_bytes()
    except OSError:
        # It does not exist; if it cannot be read, whoever opens it says why.
        return False


def _line(key: str, note: Note | None) -> bytes:
    return json.dumps([key, note], separators=(",", ":")).encode("ascii") + b"\n"
