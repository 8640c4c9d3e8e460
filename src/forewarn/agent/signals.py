"""Handle signals: stop the agent, or reload its settings.

SIGTERM and SIGINT stop the agent, and a second one kills it. SIGHUP reloads the
settings, or stops an agent that was started in a terminal. If SIGHUP was ignored at the
start (`nohup`), it stays ignored.
"""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Callable, Generator
from typing import TypeVar

T = TypeVar("T")


class Signals:
    """The signals that were received and not handled yet."""

    def __init__(self) -> None:
        """Start without any signal."""
        self.wants_settings = False
        """The settings must be reloaded."""
        self.is_stopping = False
        self._stop: Callable[[], None] | None = None
        """Stops the running agent; None: no agent is running."""

    @contextlib.contextmanager
    def heard(self) -> Generator[None]:
        """Handle signals during the `with` block."""
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
        """Run a function to its end; a signal calls `stop` to end it."""
        self._stop = stop
        try:
            if self.is_stopping:
                # The signal came before the agent was running.
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
    """Tell whether a person started this process in a terminal."""
    return any(
        stream is not None and not stream.closed and stream.isatty()
        for stream in (sys.stdin, sys.stdout, sys.stderr)
    )
