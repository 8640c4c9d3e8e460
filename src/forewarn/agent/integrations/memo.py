"""What a handler must remember of its own doing, so that it undoes only that.

A memo is a small JSON object in a file of its own beside the journal, replaced as a
whole and flushed. Whoever changes something outside writes down first that it is going
to, and removes that when it has undone it: after a crash in between, something is
undone that was not done, which does no harm.
"""

import contextlib
import json
import os
from collections.abc import Mapping
from typing import Any, cast

from forewarn.agent.handlers.port import HandlerError


class Memo:
    """The memory of one handler."""

    def __init__(self, folder: str, handler: str) -> None:
        """Know where it is; nothing is made before there is something to remember."""
        self._folder = folder
        self._path = os.path.join(folder, f"{handler}.json")

    def read(self) -> dict[str, Any]:
        """Return what was remembered; empty: nothing. Raises HandlerError."""
        try:
            with open(self._path, "rb") as file:
                found: object = json.loads(file.read())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise HandlerError(
                f"what it did before cannot be read from {self._path}: {error}"
            ) from error
        return cast("dict[str, Any]", found) if isinstance(found, dict) else {}

    def keep(self, members: Mapping[str, Any]) -> None:
        """Remember this in the place of what was; empty: nothing. Raises HandlerError."""
        try:
            if not members:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(self._path)
                return
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            fresh = f"{self._path}.new"
            with open(fresh, "wb") as file:
                file.write(json.dumps(members).encode())
                file.flush()
                os.fsync(file.fileno())
            os.replace(fresh, self._path)
            _flush_folder(self._folder)
        except OSError as error:
            raise HandlerError(
                f"what it is going to do cannot be remembered in {self._path}: "
                f"{error.strerror}"
            ) from error


def _flush_folder(path: str) -> None:
    """Make a rename durable, where the system has a way."""
    flag = getattr(os, "O_DIRECTORY", None)
    if flag is None:
        return
    opened = os.open(path, os.O_RDONLY | flag)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
