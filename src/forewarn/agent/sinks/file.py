"""Notifications as lines of JSON in a file."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence

from forewarn.agent.handlers.run_context import DeliveryError
from forewarn.agent.sinks.port import Notification

_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NONBLOCK", 0)
"""Opening a FIFO without a reader fails at once."""


class FileSink:
    """Appends lines of JSON. The file is opened for each line, so it can be rotated."""

    def __init__(self, path: str) -> None:
        """Append to `path`."""
        self._path = path

    def deliver(self, number: int, notification: Notification) -> None:
        """Append one line; raises DeliveryError."""
        data = f"{json.dumps(notification.as_json(number))}\n".encode()
        try:
            opened = os.open(self._path, _FLAGS, 0o640)
            try:
                if os.write(opened, data) < len(data):
                    raise DeliveryError(
                        f"{self._path} accepted only a part of the line; is the disk full?"
                    )
            finally:
                os.close(opened)
        except OSError as error:
            raise DeliveryError(f"{self._path}: {error.strerror}") from error

    def check(self) -> Sequence[str]:
        """Return whether the file's directory exists and is writable."""
        path = os.path.abspath(self._path)
        is_there = os.path.exists(path)
        if not os.access(path if is_there else os.path.dirname(path), os.W_OK):
            return (f"{self._path} cannot be written",)
        return ()
