"""How a command that serves for a while is told to end: SIGINT or SIGTERM."""

import asyncio
import signal

BY_SIGNAL = 128
"""Added to the number of the signal that ended a command before its work was done."""

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def until_signal() -> "asyncio.Future[int]":
    """Return what the first signal gives its number; a second one ends the process."""
    loop = asyncio.get_running_loop()
    stopped: asyncio.Future[int] = loop.create_future()

    def stop(number: signal.Signals) -> None:
        if not stopped.done():
            stopped.set_result(number)
        for each in _SIGNALS:
            loop.remove_signal_handler(each)

    for number in _SIGNALS:
        loop.add_signal_handler(number, stop, number)
    return stopped
