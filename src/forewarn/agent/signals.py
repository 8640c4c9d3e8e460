"""What the agent hears from whoever runs it: to end, and to read its settings again.

SIGTERM and SIGINT end it, and a second one ends it at once. SIGHUP has it read its
settings again; in a terminal, where it says that the terminal has gone, it ends it.
Where whoever started it made it deaf to SIGHUP (`nohup`), it stays deaf.
"""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Callable, Generator
from typing import TypeVar

T = TypeVar("T")


class Signals:
    """What was heard and is not done yet."""

    def __init__(self) -> None:
        """Hear nothing yet."""
        self.wants_settings = False
        """The settings are to be read again."""
        self.is_stopping = False
        self._stop: Callable[[], None] | None = None
        """Has whoever is at work now end; None: nobody is."""

    @contextlib.contextmanager
    def heard(self) -> Generator[None]:
        """Listen for the time of the context."""
        wanted = {signal.SIGTERM: self._end, signal.SIGINT: self._end}
        hangup = getattr(signal, "SIGHUP", None)
        if hangup is not None and signal.getsignal(hangup) is not signal.SIG_IGN:
            wanted[hangup] = self._end if has_terminal() else self._reload
        before = {number: signal.signal(number, do) for number, do in wanted.items()}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def while_running(self, run: Callable[[], T], *, stop: Callable[[], None]) -> T:
        """Run this to its end, which `stop` brings about where a signal wants it."""
        self._stop = stop
        try:
            if self.is_stopping:
                # It was heard before there was anybody to stop.
                stop()
            return run()
        finally:
            self._stop = None

    def _end(self, number: int, frame: object) -> None:
        del frame
        signal.signal(number, signal.SIG_DFL)
        self.is_stopping = True
        if self._stop is not None:
            self._stop()

    def _reload(self, number: int, frame: object) -> None:
        del number, frame
        self.wants_settings = True


def has_terminal() -> bool:
    """Tell whether a person started this process, in a terminal that may go."""
    return any(
        stream is not None and not stream.closed and stream.isatty()
        for stream in (sys.stdin, sys.stdout, sys.stderr)
    )
