"""The memory of a simulated hypervisor, which outlives the service process.

A real hypervisor continues when the service is killed. A simulated one has no process
of its own, so its memory is a journal. The driver appends each note at once. After a
restart, the notes tell which calls were begun and when they end. For each key, the
last note counts.
"""

import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TypeAlias, cast

from forewarn.drivers.port import DriverError
from forewarn.problems import hint_for

logger = logging.getLogger("forewarn.drivers")

Note: TypeAlias = dict[str, Any]
"""The value of a key, as JSON."""


class Journal(Protocol):
    """The memory of one simulated hypervisor."""

    def notes(self) -> Mapping[str, Note]:
        """Return the last note of each key, in the order of the last write."""
        ...

    def write(self, key: str, note: Note) -> None:
        """Replace the note of `key` by `note`."""
        ...

    def forget(self, key: str) -> None:
        """Remove the note of `key`."""
        ...

    def close(self) -> None:
        """Close the journal; it can be opened again."""
        ...


class MemoryJournal:
    """A journal in memory, which a test keeps across a simulated crash."""

    def __init__(self) -> None:
        """Start empty."""
        self._notes: dict[str, Note] = {}

    def notes(self) -> Mapping[str, Note]:
        """Return the last note of each key."""
        return dict(self._notes)

    def write(self, key: str, note: Note) -> None:
        """Store a copy of `note`."""
        self._notes.pop(key, None)
        self._notes[key] = json.loads(json.dumps(note))

    def forget(self, key: str) -> None:
        """Remove the note of `key`."""
        self._notes.pop(key, None)

    def clear(self) -> None:
        """Remove all notes, as if a file were removed."""
        self._notes.clear()

    def close(self) -> None:
        """Do nothing: the notes last as long as the object."""


LINES_BETWEEN_REWRITES = 1_000
"""Number of lines, beyond the number of notes, that are appended before the file is
rewritten: small enough for a small file, and large enough that a rewrite costs little
per line."""

_FILE_MODE = 0o600
"""Mode of the file: only the service's user may read the hosts of VMs."""


class FileJournal:
    """A journal in a file of JSON Lines: a key and its note, or null if it was removed.

    Each line goes to the operating system at once, so it outlives the process. A crash
    can leave an incomplete last line, which the driver had not acted on yet. The file
    is rewritten with the last notes only, when it is opened and whenever more than
    half of it is out of date. A rewrite creates another file, which then replaces the
    first. A crash leaves the old file or the new one, both with the same notes.
    """

    def __init__(self, path: Path) -> None:
        """Open or create the file; raises DriverError."""
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
        """Append that the note is removed; raises DriverError."""
        if self._notes.pop(key, None) is not None:
            self._append(_line(key, None))
            self._tidy()

    def close(self) -> None:
        """Close the file; raises DriverError if it still has an unwritten line."""
        try:
            self._file.close()
        except OSError as error:
            raise self._unwritable(error) from error

    def _append(self, line: bytes) -> None:
        try:
            self._file.write(line)
            self._file.flush()
        except OSError as error:
            raise self._unwritable(error) from error
        self._lines_left -= 1

    def _unwritable(self, error: OSError) -> DriverError:
        return DriverError(
            f"the simulated hypervisor's journal {self._path} cannot be written: "
            f"{error.strerror}"
        )

    def _tidy(self) -> None:
        """Rewrite the file if more than half of its lines are out of date."""
        if self._lines_left > 0:
            return
        try:
            fresh = self._rewrite()
        except OSError as error:
            # The old file has every note. The next attempt may succeed.
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
        # A crash left this part of a line incomplete.
        del torn
        for number, line in enumerate(lines, start=1):
            try:
                key, note = cast("tuple[str, Note | None]", json.loads(line))
            except (ValueError, TypeError):
                raise DriverError(
                    f"{self._path}:{number} is not a line of a simulated hypervisor's "
                    "journal",
                    hint="Move the file away; the simulated state is then lost.",
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
            # Otherwise the name could refer to an empty file after a power failure.
            os.fsync(fresh.fileno())
            name.replace(self._path)
        except BaseException:
            fresh.close()
            raise
        return fresh


def has_calls(path: Path) -> bool:
    """Return whether the journal in a file has any call; change nothing."""
    try:
        return b'["call:' in path.read_bytes()
    except OSError:
        # The file does not exist, or opening it later reports why it cannot be read.
        return False


def _line(key: str, note: Note | None) -> bytes:
    return json.dumps([key, note], separators=(",", ":")).encode("ascii") + b"\n"
