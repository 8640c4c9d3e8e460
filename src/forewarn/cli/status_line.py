"""What a person at a terminal is told while something goes on.

It needs no extra, since `record` runs inside a VM.
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
"""After which a person is told what is waited for, and then every so many seconds."""


class StatusLine:
    """Tells a person how it goes: lines that stay, and on a terminal one that changes."""

    def __init__(self, stream: TextIO) -> None:
        """Write to `stream`."""
        self._stream = stream
        self.is_terminal = stream.isatty()
        self._has_line = False

    def say(self, text: str) -> None:
        """Print a line that stays."""
        self.clear()
        self._print(printable(text) + "\n")

    def show(self, text: str) -> None:
        """Have the line that changes say something else; nothing without a terminal."""
        if self.is_terminal:
            self._print(f"\r\x1b[K{printable(text)}")
            self._has_line = True

    def clear(self) -> None:
        """Take the line away that changes."""
        if self._has_line:
            self._print("\r\x1b[K")
            self._has_line = False

    def _print(self, text: str) -> None:
        # A terminal that was closed ends no work; a pipe's reader has seen enough.
        with unread(self._stream, errors=(errno.EIO,)):
            print(text, end="", file=self._stream, flush=True)


@contextmanager
def patience(text: str) -> Generator[None]:
    """Tell a person at a terminal what is waited for, and how long by now."""
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
