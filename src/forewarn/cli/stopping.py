"""The end of long-running commands by SIGINT, SIGTERM or SIGHUP.

A terminal that is closed sends SIGHUP, usually twice: by the shell, and by the kernel
after the shell has ended. A command that was started with `nohup` ignores it.
"""

import asyncio
import contextlib
import errno
import os
import signal
import sys
from collections.abc import Generator, Sequence
from typing import TextIO

BY_SIGNAL = 128
"""Added to the number of a signal that ends a command before its work is done."""

_HANGUP = getattr(signal, "SIGHUP", None)
"""Not every system has SIGHUP."""

UNREAD = (errno.EPIPE, errno.EIO)
"""Errors of a write to a closed pipe or terminal."""


def ending_signals() -> tuple[signal.Signals, ...]:
    """Return the signals that end a command."""
    found = [signal.SIGINT, signal.SIGTERM]
    if _HANGUP is not None and signal.getsignal(_HANGUP) is not signal.SIG_IGN:
        found.append(_HANGUP)
    return tuple(found)


@contextlib.contextmanager
def unread(
    stream: TextIO | None = None, *, errors: Sequence[int] = UNREAD
) -> Generator[None]:
    """Print, unless the reader of `stream` has closed it; then discard all output.

    The default is standard output. `errors` are the errors that mean so.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in errors:
            raise
        where = (stream or sys.stdout).fileno()
        os.dup2(os.open(os.devnull, os.O_WRONLY), where)


@contextlib.contextmanager
def interruptible() -> Generator[None]:
    """Raise KeyboardInterrupt for each signal that ends a command, as for Ctrl-C."""
    before = {
        each: signal.signal(each, signal.default_int_handler)
        for each in ending_signals()
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Terminals:
    """The terminals that a command prints to, while they are open."""

    def __init__(self, descriptors: Sequence[int] = (1, 2)) -> None:
        """Find the terminals among the streams."""
        self._open = [each for each in descriptors if os.isatty(each)]

    def leave(self) -> None:
        """Discard output to a closed terminal, since a write would fail."""
        for each in [each for each in self._open if not os.isatty(each)]:
            os.dup2(os.open(os.devnull, os.O_WRONLY), each)
            self._open.remove(each)


def until_signal() -> "asyncio.Future[int]":
    """Return a future for the number of the first signal; a second one ends the
    process.

    SIGHUP does not count as the second one.
    """
    loop = asyncio.get_running_loop()
    stopped: asyncio.Future[int] = loop.create_future()
    terminals = Terminals()
    heard = ending_signals()

    def stop(number: signal.Signals) -> None:
        if not stopped.done():
            stopped.set_result(number)
        for each in heard:
            loop.remove_signal_handler(each)
        if _HANGUP is not None and _HANGUP in heard:
            signal.signal(_HANGUP, signal.SIG_IGN)
        terminals.leave()

    for number in heard:
        loop.add_signal_handler(number, stop, number)
    return stopped
