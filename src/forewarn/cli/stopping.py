"""The progress output of long-running commands, and their end by signals.

This module needs no extra packages, since `record` runs inside a VM.

A terminal that is closed sends SIGHUP, usually twice: by the shell, and by the kernel
after the shell has ended. A command that was started with `nohup` ignores it.
"""

import contextlib
import errno
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any, TextIO, TypeAlias

from forewarn.texts import printable

if TYPE_CHECKING:
    import asyncio

BY_SIGNAL = 128
"""Added to the number of a signal that ends a command before its work is done."""

_HANGUP = getattr(signal, "SIGHUP", None)
"""Not every system has SIGHUP."""

UNREAD = (errno.EPIPE, errno.EIO)
"""Errors of a write to a closed pipe or terminal."""


def ending_signals() -> tuple[signal.Signals, ...]:
    """Return the signals that end a command."""
    signals = [signal.SIGINT, signal.SIGTERM]
    if _HANGUP is not None and signal.getsignal(_HANGUP) is not signal.SIG_IGN:
        signals.append(_HANGUP)
    return tuple(signals)


def _ignore_hangups() -> None:
    """Ignore SIGHUP until the process ends, because the terminal has been closed."""
    if _HANGUP is not None:
        signal.signal(_HANGUP, signal.SIG_IGN)


@contextlib.contextmanager
def unread(
    stream: TextIO | None = None, *, errors: Sequence[int] = UNREAD
) -> Generator[None]:
    """Print, unless the reader of `stream` has closed it; then discard all output.

    The default is standard output. `errors` are the errors of a closed stream.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in errors:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), (stream or sys.stdout).fileno())


Handler: TypeAlias = Callable[[int, FrameType | None], Any]


@contextlib.contextmanager
def interruptible(handler: Handler = signal.default_int_handler) -> Generator[None]:
    """Call `handler` for each signal that ends a command.

    By default, raise KeyboardInterrupt, as for Ctrl-C. After SIGHUP, others are ignored
    until the process ends: the second one must not end the command before its last line.
    """

    def handle(number: int, frame: FrameType | None) -> None:
        if number == _HANGUP:
            _ignore_hangups()
        handler(number, frame)

    before = {
        signal_number: signal.signal(signal_number, handle)
        for signal_number in ending_signals()
    }
    try:
        yield
    finally:
        for number, old in before.items():
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, old)


class Terminals:
    """The terminals that a command prints to, while they are open."""

    def __init__(self, descriptors: Sequence[int] = (1, 2)) -> None:
        """Find the terminals among the streams."""
        self._open = [descriptor for descriptor in descriptors if os.isatty(descriptor)]

    def discard_closed(self) -> None:
        """Discard output to a closed terminal, since a write would fail."""
        for descriptor in [each for each in self._open if not os.isatty(each)]:
            os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
            self._open.remove(descriptor)


def until_signal() -> "asyncio.Future[int]":
    """Return a future for the number of the first signal; a second one ends the
    process.

    SIGHUP does not count as the second one.
    """
    # Most commands wait for one response and need no event loop, which loads slowly.
    import asyncio  # noqa: PLC0415

    loop = asyncio.get_running_loop()
    stopped: asyncio.Future[int] = loop.create_future()
    terminals = Terminals()
    heard = ending_signals()

    def stop(number: signal.Signals) -> None:
        if not stopped.done():
            stopped.set_result(number)
        for signal_number in heard:
            loop.remove_signal_handler(signal_number)
        if _HANGUP in heard:
            _ignore_hangups()
        terminals.discard_closed()

    for number in heard:
        loop.add_signal_handler(number, stop, number)
    return stopped


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
def patience(text: str, more: Callable[[], str] = str) -> Generator[None]:
    """Show a person at a terminal the reason and the time of a wait.

    `more` returns what else there is to say; it may take some seconds.
    """
    status = StatusLine(sys.stderr)
    if not status.is_terminal:
        yield
        return
    is_over = threading.Event()

    def tell() -> None:
        seconds = 0.0
        while not is_over.wait(PATIENCE_SECONDS):
            seconds += PATIENCE_SECONDS
            suffix = more()
            if not is_over.is_set():
                status.show(f"{text}: {seconds:.0f} s{suffix}")

    telling = threading.Thread(target=tell, daemon=True)
    telling.start()
    try:
        yield
    finally:
        is_over.set()
        telling.join()
        status.clear()
