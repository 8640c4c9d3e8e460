"""Progress messages for a person at a terminal.

This module needs no extra packages, since `record` runs inside a VM.
"""

import errno
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import TextIO

from forewarn.cli.stopping import unread
from forewarn.texts import printable

PATIENCE_SECONDS = 1.0
"""Seconds before a wait is reported, and between two updates."""


class StatusLine:
    """Permanent lines, and one line that is updated on a terminal."""

    def __init__(self, stream: TextIO) -> None:
        """Write to `stream`."""
        self._stream = stream
        self.is_terminal = stream.isatty()
        self._has_line = False

    def say(self, text: str) -> None:
        """Print a permanent line."""
        self.clear()
        self._print(printable(text) + "\n")

    def show(self, text: str) -> None:
        """Update the status line; without a terminal, do nothing."""
        if self.is_terminal:
            self._print(f"\r\x1b[K{printable(text)}")
            self._has_line = True

    def clear(self) -> None:
        """Remove the status line."""
        if self._has_line:
            self._print("\r\x1b[K")
            self._has_line = False

    def _print(self, text: str) -> None:
        # A closed terminal or pipe does not stop the work.
        with unread(self._stream, errors=(errno.EIO,)):
            print(text, end="", file=self._stream, flush=True)


@contextmanager
def patience(text: str) -> Generator[None]:
    """Show a person at a terminal the reason and the time of a wait."""
    status = StatusLine(sys.stderr)
    if not status.is_terminal:
        yield
        return
    is_over = threading.Event()

    def tell() -> None:
        seconds = 0.0
        while not is_over.wait(PATIENCE_SECONDS):
            seconds += PATIENCE_SECONDS
            status.show(f"{text}: {seconds:.0f} s")

    telling = threading.Thread(target=tell, daemon=True)
    telling.start()
    try:
        yield
    finally:
        is_over.set()
        telling.join()
        status.clear()
